"""RLlib, on its new API stack, over registered ids."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor
from tests.fakes import counting_makers
from tests.integrations.examples import run_example

PPOConfig = pytest.importorskip("ray.rllib.algorithms.ppo").PPOConfig
Runner = pytest.importorskip("ray.rllib.env.single_agent_env_runner").SingleAgentEnvRunner

MT10 = "mtwrappers:mtwrappers/MT10-v0"
POINT = "mtwrappers:mtwrappers/PointGoal-v0"
VECTOR = "vector_entry_point"


@pytest.fixture
def runner():
    """Makes env runners, and stops them."""
    made = []

    def make(env, num_envs, mode="sync", callback=None, **env_config):
        config = (
            PPOConfig()
            .environment(env, env_config=env_config)
            .env_runners(
                num_env_runners=0, num_envs_per_env_runner=num_envs, gym_env_vectorize_mode=mode
            )
            .callbacks(on_environment_created=callback)
            .debugging(seed=0)
        )
        made.append(Runner(config=config))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def sample(runner, num_episodes):
    return runner.sample(num_episodes=num_episodes, random_actions=True)


def test_a_runner_samples_whole_episodes_of_500_steps(runner):
    for episode in sample(runner(MT10, 2), 4):
        assert len(episode) == 500
        assert (bool(episode.is_truncated), bool(episode.is_terminated)) == (True, False)
        assert episode.get_observations().shape == (501, 49)
        assert np.isfinite(episode.get_rewards()).all()


def test_each_episode_stays_with_its_task_and_the_next_one_has_another(runner):
    tasks = []
    for episode in sample(runner(MT10, 1, max_episode_steps=20, num_goals=5), 8):
        (task,) = {info["task_id"] for info in episode.get_infos()}
        onehots = np.array(episode.get_observations())[:, 39:]
        assert (onehots == np.eye(10)[task]).all()
        tasks.append(task)
    assert len(set(tasks)) >= 3


@pytest.mark.parametrize("workers", [1, 2])
def test_the_vector_entry_point_gives_whole_episodes_of_every_class(runner, workers):
    config = {"autoreset_mode": "NextStep", "workers": workers, "num_goals": 5}
    episodes = sample(runner(MT10, 10, VECTOR, max_episode_steps=20, **config), 20)
    assert [len(episode) for episode in episodes] == [20] * 20
    tasks = [{info["task_id"] for info in episode.get_infos()} for episode in episodes]
    assert tasks == [{i} for i in range(10)] * 2


def test_the_last_observation_is_the_episodes_own(runner):
    envs = runner(POINT, 3, VECTOR, autoreset_mode="NextStep", max_episode_steps=20)
    for episode in sample(envs, 9):
        path = episode.get_observations()
        assert path[0].tolist() == [0, 0]
        # By the actions that led there; the first of the next episode would be (0, 0) again.
        moves = np.clip(episode.get_actions(), -0.1, 0.1)
        assert np.allclose(path[1:], np.cumsum(moves, axis=0), atol=1e-6)


# RLlib registers every creator under the same name.
@pytest.mark.filterwarnings("ignore:.*Overriding environment rllib-single-agent-env-v0")
@pytest.mark.parametrize("mode", [None, "SameStep", "Disabled"])
@pytest.mark.parametrize("env", ["id", "creator"])
def test_modes_that_it_would_misread_are_refused(runner, mode, env):
    config = {} if mode is None else {"autoreset_mode": mode}

    def create(context):
        return MetaIterativeEnvExecutor(counting_makers(2), 2, **config)

    message = f"need autoreset_mode='NextStep', got '{mode or 'SameStep'}'"
    with pytest.raises(ValueError, match=message):
        runner(*((POINT, 2, VECTOR) if env == "id" else (create, 2, VECTOR)), **config)


def test_one_environment_where_the_id_has_ten_is_refused_with_what_to_pass(runner):
    message = r"expects 1 environments .* has 10: pass .env_runners\(num_envs_per_env_runner=10\)"
    with pytest.raises(ValueError, match=message):
        runner(MT10, 1, VECTOR, autoreset_mode="NextStep")


def test_what_a_callback_makes_is_its_own(runner):
    """A vector environment to evaluate on, which needs the mode SAME_STEP."""
    made = []
    runner(
        *(POINT, 2),
        callback=lambda **_: made.append(gymnasium.make_vec(POINT, 3, max_episode_steps=4)),
    )
    assert [envs.metadata["autoreset_mode"].value for envs in made] == ["SameStep"]


def test_the_example_trains_and_prints_the_return_of_each_class(tmp_path):
    lines = run_example("rllib_ppo.py", tmp_path, HOME=str(tmp_path), RAY_USAGE_STATS_ENABLED="0")
    iterations = [line for line in lines if line.startswith("iteration")]
    assert len(iterations) == 3
    assert all("20 episodes of mean length 100, mean return " in line for line in iterations)
    returns = {name: float(value) for name, _, value in map(str.split, lines[-10:])}
    assert {"reach-v3", "window-close-v3"} < returns.keys()
    assert all(0 < value < 1000 for value in returns.values())
