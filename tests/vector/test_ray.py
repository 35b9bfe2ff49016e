"""Environments on the actors of a Ray cluster do what they do elsewhere."""

import json
import os
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import (
    MetaParallelEnvExecutor,
    MetaRayEnvExecutor,
    MetaSampler,
    MetaWorldSetTaskEnv,
    evaluate,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.cli import main
from mtwrappers.testing import check_meta_vector_env
from tests.fakes import CountingEnv, equal
from tests.vector.clusters import local_cluster
from tests.vector.fakes import KINDS, BagEnv, NestedEnv, WordEnv, kinds_and_modes, short_episodes
from tests.vector.faults import play
from tests.vector.processes import needs_proc

pytest.importorskip("ray")
pytestmark = needs_proc


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    with local_cluster(4):
        yield


LENGTHS = (2, 3, 5, 4)
MAKERS = {
    "counting": [
        partial(CountingEnv, length, truncate=i % 2 == 1, first=100 * i)
        for i, length in enumerate(LENGTHS)
    ],
    "nested": [partial(NestedEnv, length) for length in (2, 3, 7, 4)],
    "text": [partial(WordEnv, length) for length in LENGTHS],
    "sequence": [partial(BagEnv, length) for length in LENGTHS],
    "cartpole": [partial(short_episodes, "CartPole-v1", n) for n in (7, 30, 9, 12)],
}


@pytest.mark.parametrize(
    ("kind", "workers"),
    [("counting", 2), ("nested", 3), ("text", 1), ("sequence", 2), ("cartpole", None)],
)
def test_executors_are_equal_to_gymnasiums_sync_vector_env(kind, workers):
    def make(makers, **kwargs):
        return MetaRayEnvExecutor(makers, 2, 2, workers=workers, **kwargs)

    check_meta_vector_env(make, MAKERS[kind], steps=30)


# Sampling.


class Noise:
    """Draws actions, for every environment of a block from its own generator."""

    def __init__(self, draw):
        self.draw = draw

    def get_actions(self, observations, rng):
        actions = np.array([[self.draw(own) for own in task] for task in rng])
        return actions, {"seen": observations.sum(axis=-1)}


def push(rng):
    return rng.uniform(-1, 1, 4).astype(np.float32)


def toss(rng):
    return np.int64(rng.random() < 0.5)


def mt10():
    return MetaWorldSetTaskEnv("MT10", num_goals=1, seed=0)


SAMPLERS = {
    "MT10": (mt10, Noise(push), (1, 10, 25, 1)),
    "CartPole": (partial(gymnasium.make, "CartPole-v1"), Noise(toss), (5, 3, 30, 2)),
}
WAYS = [
    {"parallel": True, "workers": 2, "policy_in": "parent"},
    {"parallel": True, "workers": 2, "policy_in": "workers"},
    {"parallel": "ray", "workers": 2, "policy_in": "parent"},
    {"parallel": "ray", "workers": 3, "policy_in": "workers"},
]


@pytest.mark.parametrize("name", SAMPLERS)
def test_paths_are_the_same_wherever_environments_and_policy_are(name):
    make, policy, sizes = SAMPLERS[name]

    def sampled(**way):
        with closing(MetaSampler(make, policy, *sizes, seed=3, **way)) as sampler:
            found = []
            for _ in range(2):
                if name == "MT10":
                    sampler.update_tasks()
                found.append(sampler.obtain_samples())
            return found

    expected = sampled()
    assert [len(own) for own in expected[1].values()] == [sizes[0]] * sizes[1]
    for way in WAYS:
        assert equal(sampled(**way), expected), way


def test_an_evaluation_finds_the_same():
    make = partial(gymnasium.make_vec, "mtwrappers/PointGoal-v0", 6)

    def noise(observations, rng):
        return np.stack([own.uniform(-1, 1, 2) for own in rng])

    with closing(make()) as envs:
        expected = evaluate(noise, envs, 3, max_episode_steps=20)
    with closing(make(workers=2, execution="ray")) as envs:
        for where in "parent", "workers":
            found = evaluate(noise, envs, 3, policy_in=where, max_episode_steps=20)
            assert found == expected


@pytest.mark.parametrize("classes", [[], ["--task", "reach-v3", "--task", "push-v3"]])
def test_a_rollout_of_the_command_line_finds_the_same(classes, tmp_path, monkeypatch):
    monkeypatch.setattr("mtwrappers.cli.rollout.EPISODE_STEPS", 60)
    for name in ("PYTHONWARNINGS", "MUJOCO_GL"):  # which the command sets
        monkeypatch.setenv(name, "")
    options = ["MT10", *classes, "--episodes", "1", "--policy", "random", "--workers", "2"]
    results = []
    for execution in "parallel", "ray":
        out = tmp_path / execution
        assert main(["rollout", *options, "--execution", execution, "--out", str(out)]) == 0
        results.append(json.loads((out / "results.json").read_text()))
    assert results[0]["tasks"] == results[1]["tasks"]
    assert len(results[1]["tasks"]) == (len(classes) // 2 or 10)


# State.


@kinds_and_modes
def test_a_checkpoint_goes_to_local_workers_and_back(kind, mode, tmp_path):
    makes = [
        partial(make, KINDS[kind], 2, 2, workers=workers, journal=True, autoreset_mode=mode)
        for make, workers in (
            (MetaRayEnvExecutor, 2),
            (MetaParallelEnvExecutor, 3),
            (MetaRayEnvExecutor, 1),
        )
    ]
    with closing(makes[0]()) as envs:
        envs.action_space.seed(0)
        actions = [envs.action_space.sample() for _ in range(30)]
        envs.reset()
        play(envs, actions[:13])
        save_checkpoint(tmp_path / "state", envs=envs)
        expected = play(envs, actions[13:])
    for make in makes[1:]:
        with closing(make()) as envs:
            load_checkpoint(tmp_path / "state", envs=envs)
            save_checkpoint(tmp_path / "state", envs=envs)
            assert equal(play(envs, actions[13:]), expected)


def test_local_workers_are_not_forked_beside_ray():
    beside = MetaRayEnvExecutor(MAKERS["counting"], 2, 2, workers=1)
    local = MetaParallelEnvExecutor(MAKERS["counting"], 2, 2, workers=2)
    with closing(beside), closing(local) as envs:
        envs.reset()
        parents = envs.map_blocks(lambda envs, rows: os.getppid())
        assert os.getpid() not in parents  # but the fork server
