"""RLlib, on its new API stack, over a registered id."""

from __future__ import annotations

import numpy as np
import pytest

from tests.integrations.examples import run_example

pytest.importorskip("ray.rllib")
PPOConfig = pytest.importorskip("ray.rllib.algorithms.ppo").PPOConfig
Runner = pytest.importorskip("ray.rllib.env.single_agent_env_runner").SingleAgentEnvRunner


ID = "mtwrappers:mtwrappers/MT10-v0"


def configure(num_envs=2, **env_config):
    return (
        PPOConfig()
        .environment(ID, env_config=env_config)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs)
        .debugging(seed=0)
    )


@pytest.fixture
def sample():
    """Samples whole episodes of random actions, and closes the runner."""
    runners = []

    def get(num_episodes, **kwargs):
        runners.append(Runner(config=configure(**kwargs)))
        return runners[-1].sample(num_episodes=num_episodes, random_actions=True)

    yield get
    for runner in runners:
        runner.stop()


def test_a_runner_samples_whole_episodes_of_500_steps(sample):
    episodes = sample(4)
    assert [len(episode) for episode in episodes] == [500] * 4
    assert [bool(episode.is_truncated) for episode in episodes] == [True] * 4
    assert not any(episode.is_terminated for episode in episodes)
    for episode in episodes:
        assert episode.get_observations().shape == (501, 49)
        assert np.isfinite(episode.get_rewards()).all()


def test_each_episode_stays_with_its_task_and_the_next_one_has_another(sample):
    episodes = sample(8, max_episode_steps=20, num_goals=5, num_envs=1)
    tasks = []
    for episode in episodes:
        (task,) = {info["task_id"] for info in episode.get_infos()}
        onehots = np.array(episode.get_observations())[:, 39:]
        assert (onehots == np.eye(10)[task]).all()
        tasks.append(task)
    assert len(set(tasks)) >= 3


def test_the_example_trains_an_iteration_and_prints_what_it_reached(tmp_path):
    lines = run_example("rllib_ppo.py", tmp_path, HOME=str(tmp_path), RAY_USAGE_STATS_ENABLED="0")
    values = dict(line.split(": ") for line in lines if ": " in line)
    assert int(values["episodes"]) == 20
    assert float(values["mean length"]) == 100
    assert float(values["mean return"]) > 0
    assert float(values["policy entropy"]) > 0
