"""Environments on the actors of a Ray cluster do what they do elsewhere."""

import os
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest

import mtwrappers as mt
from mtwrappers.testing import check_meta_vector_env
from mtwrappers.vector.make import MetaRayEnvExecutor
from tests.fakes import equal
from tests.vector.clusters import local_cluster
from tests.vector.fakes import KINDS, BoxCountingEnv, kinds_and_modes
from tests.vector.faults import run_steps
from tests.vector.processes import needs_proc

pytest.importorskip("ray")
pytestmark = [needs_proc, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    with local_cluster(4):
        yield


@pytest.mark.parametrize(
    ("kind", "workers"),
    [("counting", 2), ("nested", 3), ("text", 1), ("sequence", 2), ("cartpole", None)],
)
def test_executors_are_equal_to_gymnasiums_sync_vector_env(kind, workers):
    def make(makers, **kwargs):
        return MetaRayEnvExecutor(makers, 2, 2, workers=workers, **kwargs)

    check_meta_vector_env(make, KINDS[kind], steps=30)


class InPlaceEnv(BoxCountingEnv):
    """Writes into all arrays that it is given, and shows one."""

    def reset(self, *, seed=None, options=None):
        if options:
            options["goal"] += 1
        return super().reset(seed=seed, options=options)

    def step(self, action):
        action *= 0
        return super().step(action)

    def shift(self, array):
        array += 1
        return array

    def _info(self):
        return {"array": np.zeros(3)}


def test_arrays_may_be_written_to_on_both_sides():
    with closing(MetaRayEnvExecutor(InPlaceEnv, 2, 2, workers=2, journal=True)) as envs:
        envs.reset(seed=0, options={"goal": np.zeros(2)})
        obs, rewards, terminated, truncated, infos = envs.step(np.ones((4, 2), np.float32))
        arrays = [obs, rewards, terminated, truncated, infos["array"]]
        arrays += envs.call("shift", np.zeros(300_000))
        arrays += envs.map_blocks(lambda envs, rows: envs.call("shift", np.zeros(300_000))[0])
        assert all(array.flags.writeable for array in arrays)


# Sampling.


class Noise:
    """Draws actions, for every environment from its own generator."""

    def get_actions(self, observations, rng):
        actions = [[own.uniform(-1, 1, 4) for own in task] for task in rng]
        return np.array(actions, np.float32), {"seen": observations.sum(axis=-1)}


def test_paths_are_the_same_wherever_environments_and_policy_are():
    def sampled(**way):
        make = partial(mt.MetaWorldSetTaskEnv, "MT10", num_goals=1, seed=0)
        with closing(mt.MetaSampler(make, Noise(), 2, 5, 25, 1, seed=3, **way)) as sampler:
            return [(sampler.update_tasks(), sampler.obtain_samples())[1] for _ in range(2)]

    expected = sampled()
    assert [len(own) for own in expected[1].values()] == [2] * 5
    for execution in "parallel", "ray":
        for where in "parent", "workers":
            found = sampled(execution=execution, workers=2, policy_in=where)
            assert equal(found, expected), (execution, where)


def test_an_evaluation_finds_the_same():
    make = partial(gymnasium.make_vec, "mtwrappers/PointGoal-v0", 6, max_episode_steps=20)

    def noise(observations, rng):
        return np.stack([own.uniform(-1, 1, 2) for own in rng])

    with closing(make()) as envs:
        expected = mt.evaluate(noise, envs, 3)
    with closing(make(workers=2, execution="ray")) as envs:
        for where in "parent", "workers":
            found = mt.evaluate(noise, envs, 3, policy_in=where)
            assert found == expected


# State.


@kinds_and_modes
def test_a_checkpoint_goes_to_local_workers_and_back(kind, mode, tmp_path):
    makes = [
        partial(make, KINDS[kind], 2, 2, workers=workers, journal=True, autoreset_mode=mode)
        for make, workers in (
            (MetaRayEnvExecutor, 2),
            (mt.MetaParallelEnvExecutor, 3),
            (MetaRayEnvExecutor, 1),
        )
    ]
    with closing(makes[0]()) as envs:
        envs.action_space.seed(0)
        actions = [envs.action_space.sample() for _ in range(30)]
        envs.reset()
        run_steps(envs, actions[:13])
        mt.save_checkpoint(tmp_path / "state", envs=envs)
        expected = run_steps(envs, actions[13:])
    for make in makes[1:]:
        with closing(make()) as envs:
            mt.load_checkpoint(tmp_path / "state", envs=envs)
            mt.save_checkpoint(tmp_path / "state", envs=envs)
            assert equal(run_steps(envs, actions[13:]), expected)


def test_local_workers_are_not_forked_beside_ray():
    beside = MetaRayEnvExecutor(KINDS["counting"], 2, 2, workers=1)
    local = mt.MetaParallelEnvExecutor(KINDS["counting"], 2, 2, workers=2)
    with closing(beside), closing(local) as envs:
        envs.reset()
        parents = envs.map_blocks(lambda envs, rows: os.getppid())
        assert os.getpid() not in parents  # but the fork server
