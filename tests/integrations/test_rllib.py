"""RLlib, on its new API stack, over registered ids: in one process, and on a cluster."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from tests.integrations import ledgers
from tests.integrations.examples import run_example
from tests.integrations.ledgers import ENVS, STEPS
from tests.vector.processes import all_gone, children, needs_proc

ray = pytest.importorskip("ray")
PPOConfig = pytest.importorskip("ray.rllib.algorithms.ppo").PPOConfig
Runner = pytest.importorskip("ray.rllib.env.single_agent_env_runner").SingleAgentEnvRunner

FlattenObservations = pytest.importorskip("ray.rllib.connectors.env_to_module").FlattenObservations

pytestmark = pytest.mark.slow

MT10 = "mtwrappers:mtwrappers/MT10-v0"
VECTOR = "vector_entry_point"


def flatten(*_, **__):
    return FlattenObservations()


@pytest.fixture
def make_runner():
    """Makes env runners, and stops them."""
    runners = []

    def make(env, num_envs, mode=VECTOR, **env_config):
        config = (
            PPOConfig()
            .environment(env, env_config=env_config)
            .env_runners(
                num_env_runners=0,
                num_envs_per_env_runner=num_envs,
                gym_env_vectorize_mode=mode,
                # It has no networks for dicts.
                env_to_module_connector=flatten
                if env_config.get("observation") == "dict"
                else None,
            )
            .debugging(seed=0)
        )
        runners.append(Runner(config=config))
        return runners[-1]

    yield make
    for runner in runners:
        runner.stop()


def test_its_own_vectors_give_whole_episodes_each_with_a_task_of_its_own(make_runner):
    runner = make_runner(MT10, 1, "sync", max_episode_steps=20, num_goals=5)
    tasks = []
    for episode in runner.sample(num_episodes=8, random_actions=True):
        assert len(episode) == 20
        assert (bool(episode.is_truncated), bool(episode.is_terminated)) == (True, False)
        (task,) = {info["task_id"] for info in episode.get_infos()}
        assert (np.array(episode.get_observations())[:, 39:] == np.eye(10)[task]).all()
        tasks.append(task)
    assert len(set(tasks)) >= 3


def check_episodes(episodes):
    """Checks episodes that runners have sampled, or pieces of episodes."""
    rows = []
    for episode in episodes:
        is_last = np.arange(len(episode)) == len(episode) - 1
        flags = is_last & bool(episode.is_terminated), is_last & bool(episode.is_truncated)
        obs = np.array(episode.get_observations())
        rows.append((obs, episode.get_actions(), episode.get_rewards(), *flags))
    return ledgers.check_transitions(*ledgers.stack_transitions(rows))


@pytest.mark.parametrize(
    "env_config", [{"workers": 2}, {"observation": "image"}, {"observation": "dict"}], ids=str
)
def test_a_runner_stores_what_was_made(make_runner, env_config):
    runner = make_runner(ledgers.ID, ENVS, autoreset_mode="NextStep", **env_config)
    episodes = []
    for _ in range(2):
        episodes += runner.sample(num_timesteps=STEPS * ENVS, random_actions=True)
    report = check_episodes(episodes)
    assert report.size >= 2 * STEPS * ENVS
    ledgers.assert_complete(report, least=9)


def test_the_example_trains_and_prints_the_return_of_each_class(tmp_path):
    lines = run_example("rllib_ppo.py", tmp_path, HOME=str(tmp_path), RAY_USAGE_STATS_ENABLED="0")
    iterations = [line for line in lines if line.startswith("iteration")]
    assert len(iterations) == 3
    assert all("20 episodes of mean length 100, mean return " in line for line in iterations)
    returns = {name: float(value) for name, _, value in map(str.split, lines[-10:])}
    assert {"reach-v3", "window-close-v3"} < returns.keys()
    assert all(0 < value < 1000 for value in returns.values())


@pytest.fixture(scope="module")
def cluster():
    """Ray with CPUs for two env runners; none of its processes remains."""
    pids_before = children()
    with tempfile.TemporaryDirectory(prefix="ray") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", f"{folder}/results")
        ray.init(
            "local",
            num_cpus=2,
            include_dashboard=False,
            logging_level="error",
            log_to_driver=False,
            _temp_dir=f"{folder}/ray",  # short, because it holds sockets
        )
        started_pids = children() - pids_before
        yield
        ray.shutdown()
        assert started_pids
        assert all_gone(started_pids, 20)


class Reports:
    """Writes to files what two env runners do; the second is killed within a later episode."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_environment_created(self, *, env_runner, env, **_):
        pids = {os.getpid(), *env.call(lambda env: os.getpid())}
        self.write(f"pids-{env_runner.worker_index}", pids=sorted(pids))

    def on_episode_step(self, *, env_runner, episode, **_):
        in_the_middle = env_runner.worker_index == 2 and len(episode) == 7
        if in_the_middle and self.read("episode-2") and not self.read("killed"):
            self.write("killed", pids=self.read("pids-2")[0]["pids"])
            os.kill(os.getpid(), signal.SIGKILL)

    def on_episode_end(self, *, env_runner, episode, **_):
        self.write(
            f"episode-{env_runner.worker_index}",
            pid=os.getpid(),
            observations=episode.get_observations(),
            actions=episode.get_actions(),
            cut=episode.is_truncated and not episode.is_terminated,
        )

    def write(self, name, **arrays):
        path = self.folder / f"{name}-{time.monotonic_ns()}"
        np.savez(path, **arrays)

    def read(self, name):
        """All reports of this name, in their order."""
        return [dict(np.load(path)) for path in sorted(self.folder.glob(f"{name}-*"))]


def repeats(episode):
    """Whether the second half of each observation of Meta-World is the observation before it."""
    observations = episode["observations"]
    return (observations[1:, 18:36] == observations[:-1, :18]).all()


@needs_proc
def test_training_goes_on_after_an_env_runner_is_killed(cluster, tmp_path):
    reports, steps, num_envs = Reports(tmp_path), 20, 10
    config = {"autoreset_mode": "NextStep", "max_episode_steps": steps, "num_goals": 5}
    algorithm = (
        PPOConfig()
        .environment(MT10, env_config=config, normalize_actions=False)
        .env_runners(
            num_env_runners=2,
            num_envs_per_env_runner=num_envs,
            gym_env_vectorize_mode=VECTOR,
            batch_mode="complete_episodes",
        )
        .fault_tolerance(restart_failed_env_runners=True)
        .training(train_batch_size_per_learner=2 * num_envs * steps, num_epochs=1)
        .callbacks(
            on_environment_created=reports.on_environment_created,
            on_episode_step=reports.on_episode_step,
            on_episode_end=reports.on_episode_end,
        )
        .debugging(seed=0, log_level="ERROR")
        .build_algo()
    )
    runners = algorithm.env_runner_group
    healthy, deadline = [], time.monotonic() + 200
    while not (1 in healthy and healthy[-2:] == [2] * 2):
        assert time.monotonic() < deadline, healthy
        result = algorithm.train()
        metrics, learner_metrics = result["env_runners"], result["learners"]["default_policy"]
        assert (metrics["episode_len_min"], metrics["episode_len_max"]) == (steps, steps)
        assert learner_metrics["num_module_steps_trained"] >= 2 * num_envs * steps
        healthy.append(runners.num_healthy_remote_env_runners())
    assert runners.num_remote_worker_restarts() == 1
    algorithm.stop()
    first_episodes, second_episodes = reports.read("episode-1"), reports.read("episode-2")
    for episode in first_episodes + second_episodes:
        assert len(episode["observations"]) == steps + 1
        assert episode["cut"]
        assert repeats(episode)
    (killed,) = reports.read("killed")
    assert len({int(episode["pid"]) for episode in first_episodes} - {*killed["pids"]}) == 1
    assert len({int(episode["pid"]) for episode in second_episodes} - {*killed["pids"]}) == 1
    assert all_gone(killed["pids"], 20)
    pids = [
        pid for report in reports.read("pids-1") + reports.read("pids-2") for pid in report["pids"]
    ]
    assert len(pids) == 3
    assert all_gone(pids, 20)
