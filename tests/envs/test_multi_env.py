"""``mtwrappers/MultiEnv-v0``, in `gymnasium.make` and in `gymnasium.make_vec`."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode

from mtwrappers import MultiEnvWrapper
from tests.fakes import CountingEnv, check_env_warnings

ID = "mtwrappers/MultiEnv-v0"
SHORT, LONG = "tests/Short-v0", "tests/Long-v0"
BOTH = {"env_ids": [SHORT, LONG], "unify": "pad"}


def make(**kwargs):
    return gymnasium.make(ID, **{**BOTH, "select": "round_robin", **kwargs})


def make_vec(**kwargs):
    return gymnasium.make_vec(ID, **{**BOTH, **kwargs})


# One environment that moves between tasks.


def test_it_works_with_its_defaults():
    env = gymnasium.make(ID)
    assert env.observation_space.shape == (8,)
    assert env.action_space == Discrete(3)
    visited = {env.reset(seed=seed)[1]["task_name"] for seed in range(20)}
    assert visited == {"Acrobot-v1", "MountainCar-v0"}
    obs, reward, terminated, truncated, info = env.step(0)
    assert obs in env.observation_space
    assert (reward, terminated, truncated) == (-1.0, False, False)
    assert info.keys() == {"task_id", "task_name"}


def test_each_reset_moves_to_the_next_task_unless_the_options_name_one():
    env = make(env_kwargs={"length": 1})
    observed = [env.reset(seed=0)[0].tolist(), *(env.reset()[0].tolist() for _ in range(2))]
    assert observed == [[0, 0, 0, 1, 0], [100, 100, 100, 0, 1], [0, 0, 0, 1, 0]]
    obs, reward, terminated, truncated, info = env.step(0)
    assert obs.tolist() == [1, 1, 0, 1, 0]
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (info["task_id"], info["task_name"]) == (0, SHORT)
    for _ in range(2):
        _, info = env.reset(options={"task_state": 1})
        assert (info["task_id"], info["task_name"]) == (1, LONG)
    assert env.step(0)[2] is True  # the arguments reach every environment


def test_the_task_can_be_left_out_or_shown_beside_the_observation():
    box = Box(0, 1000, (3,), np.float64)
    env = make(task_encoding="none")
    assert env.observation_space == box
    assert type(env.unwrapped) is MultiEnvWrapper
    assert check_env_warnings(env) == []
    assert env.reset(options={"task_state": 1})[0].tolist() == [100, 100, 100]
    env = make(task_encoding="dict")
    assert env.observation_space == Dict({"env_obs": box, "task_obs": Discrete(2)})
    obs, _ = env.reset(options={"task_state": 1})
    assert (obs["env_obs"].tolist(), obs["task_obs"]) == ([100, 100, 100], 1)
    assert check_env_warnings(env) == []


def test_environments_that_do_not_fit_are_refused():
    env = gymnasium.make(ID, env_ids=[SHORT, LONG])
    message = r"task 1 \('tests/Long-v0'\) has observation space .*; pass unify='pad'"
    with pytest.raises(ValueError, match=message):
        env.reset(options={"task_state": 1})
    with pytest.raises(ValueError, match="environment 1 has observation space"):
        gymnasium.make_vec(ID, env_ids=[SHORT, LONG], task_encoding="none")


# Sub-environments that each stay with one task.


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"num_envs": 2}, [0, 1]),
        ({"num_envs": 6}, [0, 0, 0, 1, 1, 1]),
        ({"envs_per_task": 2}, [0, 0, 1, 1]),
    ],
)
def test_the_sub_environments_are_laid_out_task_by_task(kwargs, expected):
    envs = make_vec(**kwargs)
    assert envs.num_envs == len(expected)
    assert envs.reset(seed=0)[1]["task_id"].tolist() == expected


EPISODES = {  # the first entry of the observation of each task, from the reset on
    AutoresetMode.SAME_STEP: [[0, 1, 2, 0, 1, 2, 0], [100, 101, 102, 103, 104, 100, 101]],
    AutoresetMode.NEXT_STEP: [[0, 1, 2, 3, 0, 1, 2], [100, 101, 102, 103, 104, 105, 100]],
}


@pytest.mark.parametrize("mode", [None, AutoresetMode.NEXT_STEP])
def test_each_sub_environment_stays_with_its_task_over_episodes(mode):
    envs = make_vec(**({} if mode is None else {"autoreset_mode": mode}))
    mode = mode or AutoresetMode.SAME_STEP
    assert envs.metadata["autoreset_mode"] is mode
    returned = [envs.reset(seed=0), *(envs.step([0, 0]) for _ in range(6))]
    firsts = np.array([obs[:, 0] for obs, *_ in returned]).T
    assert firsts.tolist() == EPISODES[mode]
    assert all(obs[:, 3:].tolist() == [[1, 0], [0, 1]] for obs, *_ in returned)
    assert all(step[-1]["task_id"].tolist() == [0, 1] for step in returned)


def test_the_encoding_can_be_named_and_statistics_left_out():
    envs = make_vec(record_episode_statistics=False, task_encoding="none")
    assert envs.reset(seed=0)[0].tolist() == [[0, 0, 0], [100, 100, 100]]
    for _ in range(3):
        info = envs.step([0, 0])[4]
    assert "episode" not in info["final_info"]


def test_a_sub_environment_builds_no_other_and_what_showed_the_padded_space_is_closed(monkeypatch):
    made = []
    init = CountingEnv.__init__

    def record(env, *args, **kwargs):
        made.append(env)
        init(env, *args, **kwargs)

    monkeypatch.setattr(CountingEnv, "__init__", record)
    envs = make_vec(num_envs=4, task_encoding="dict")
    assert envs.get_attr("envs_built") == (1, 1, 1, 1)
    assert [env.closed for env in made] == [True, True, False, False, False, False]
    envs.close()
    assert [env.closed for env in made] == [True] * 6


def test_a_seed_determines_the_vector_environment_and_no_two_share_a_stream():
    runs = [make_vec(num_envs=4).reset(seed=seed)[1]["draw"].tolist() for seed in (5, 5, 9)]
    assert runs[0] == runs[1] != runs[2]
    assert len(set(runs[0])) == 4
