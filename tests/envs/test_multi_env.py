"""``mtwrappers/MultiEnv-v0``, in `gymnasium.make` and in `gymnasium.make_vec`."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete

from tests.fakes import check_env_warnings

ID = "mtwrappers/MultiEnv-v0"
SHORT, LONG = "tests/Short-v0", "tests/Long-v0"
BOTH = {"env_ids": [SHORT, LONG], "unify": "pad"}


def make(**kwargs):
    return gymnasium.make(ID, **{**BOTH, "select": "round_robin", **kwargs})


def make_vec(**kwargs):
    return gymnasium.make_vec(ID, **{**BOTH, **kwargs})


# One environment that moves between tasks.


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
    assert check_env_warnings(env) == []
    assert env.reset(options={"task_state": 1})[0].tolist() == [100, 100, 100]
    env = make(task_encoding="dict")
    assert env.observation_space == Dict({"env_obs": box, "task_obs": Discrete(2)})
    obs, _ = env.reset(options={"task_state": 1})
    assert (obs["env_obs"].tolist(), obs["task_obs"]) == ([100, 100, 100], 1)
    assert check_env_warnings(env) == []


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment:UserWarning")
def test_an_id_may_lack_its_version_and_may_name_the_module_that_registers_it():
    env = make(env_ids=["tests/Short", f"mtwrappers:{LONG}"])
    assert [env.reset(seed=0)[0].tolist(), env.reset()[0].tolist()] == [
        [0, 0, 0, 1, 0],
        [100, 100, 100, 0, 1],
    ]


# Sub-environments that each stay with one task.


@pytest.mark.parametrize("size", [{"num_envs": 4}, {"envs_per_task": 2}], ids=str)
def test_the_sub_environments_are_laid_out_task_by_task_and_stay_with_their_task(size):
    envs = make_vec(**size)
    returned = [envs.reset(seed=0), *(envs.step([0] * 4) for _ in range(5))]
    for t, (obs, *_, infos) in enumerate(returned):
        short, long = t % 3, 100 + t % 5
        assert obs[:, 0].tolist() == [short, short, long, long]
        assert obs[:, 3:].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
        assert infos["task_id"].tolist() == [0, 0, 1, 1]
    assert returned[3][4]["final_info"]["episode"]["l"].tolist() == [3, 3, 0, 0]
    assert len(set(envs.get_attr("np_random_seed"))) == 4


@pytest.mark.parametrize(
    ("limit", "lengths"), [(2, [2, 2]), ([2, None], [2, 5]), ([9, 1], [3, 1])], ids=str
)
def test_episodes_end_after_the_same_number_of_steps_or_one_for_each_id(limit, lengths):
    envs = make_vec(max_episode_steps=limit)
    envs.reset(seed=0)
    first_ends = [0, 0]
    for t in range(1, 6):
        ended = np.logical_or(*envs.step([0, 0])[2:4])
        first_ends = [end or t * bool(ends) for end, ends in zip(first_ends, ended, strict=True)]
    assert first_ends == lengths


def test_minus_one_lifts_the_limit_of_an_id_as_in_gymnasium():
    envs = gymnasium.make_vec(ID, max_episode_steps=[None, -1])
    assert [env.has_wrapper_attr("_max_episode_steps") for env in envs.envs] == [True, False]


def test_environments_have_names_and_arguments_of_their_own_and_specs_go_through_json():
    kwargs = {
        "env_ids": [SHORT, SHORT],
        "task_names": ["two", "four"],
        "env_kwargs": [{"obs_size": 4, "length": 3}, {"max_episode_steps": 4, "length": 9}],
        "action_repeat": [1, 2],
        "task_embedding": [[0.0, 1], [2, 3]],
        "unify": {"observation_size": 5},
    }
    env = gymnasium.make(ID, **kwargs, select="round_robin")
    restored = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    for made_env in (env, restored):
        lengths = []
        for seed in (0, None):
            obs, _ = made_env.reset(seed=seed)
            assert obs.shape == (5 + 2 + 2,)
            length, episode_ended = 0, False
            while not episode_ended:
                *_, terminated, truncated, info = made_env.step(0)
                length += 1
                episode_ended = terminated or truncated
            lengths.append((info["task_name"], length))
        assert sorted(lengths) == [("four", 2), ("two", 3)]
    envs = gymnasium.make_vec(ID, **kwargs)
    obs, infos = envs.reset(seed=0)
    assert obs[:, 5:].tolist() == [[0, 1, 1, 0], [2, 3, 0, 1]]
    assert infos["task_name"].tolist() == ["two", "four"]
    assert infos["observation_mask"].sum(axis=1).tolist() == [4, 2]
    assert envs.step([0, 0])[0][:, 0].tolist() == [1, 2]
