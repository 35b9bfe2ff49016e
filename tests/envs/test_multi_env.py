import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode

from mtwrappers import MTEnv, MultiEnvWrapper
from tests.fakes import CountingEnv, check_env_warnings, equal

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


def test_each_reset_moves_to_the_next_task():
    env = make()
    observed = [env.reset(seed=0)[0].tolist(), *(env.reset()[0].tolist() for _ in range(2))]
    assert observed == [[0, 0, 0, 1, 0], [100, 100, 100, 0, 1], [0, 0, 0, 1, 0]]
    obs, reward, terminated, truncated, info = env.step(0)
    assert obs.tolist() == [1, 1, 0, 1, 0]
    assert (reward, terminated, truncated) == (1.0, False, False)
    assert (info["task_id"], info["task_name"]) == (0, SHORT)


def test_the_options_name_a_task():
    env = make()
    env.reset(seed=0)
    options = {"task_state": 1}
    for _ in range(3):
        _, info = env.reset(options=options)
        assert (info["task_id"], info["task_name"]) == (1, LONG)
    assert options == {"task_state": 1}


def test_without_an_encoding_the_task_is_left_out():
    env = make(task_encoding="none")
    assert env.observation_space == Box(0, 1000, (3,), np.float64)
    assert env.reset(seed=0)[0].tolist() == [0, 0, 0]
    assert env.reset()[0].tolist() == [100, 100, 100]


def test_the_dict_encoding_is_that_of_an_mtenv():
    env = make(task_encoding="dict")
    box = Box(0, 1000, (3,), np.float64)
    assert env.observation_space == Dict({"env_obs": box, "task_obs": Discrete(2)})
    assert isinstance(env.unwrapped, MTEnv)
    env.reset(seed=0)
    obs, _ = env.reset()
    assert (obs["env_obs"].tolist(), obs["task_obs"]) == ([100, 100, 100], 1)


@pytest.mark.parametrize("encoding", ["onehot", "none", "dict"])
@pytest.mark.parametrize("ids", [{}, BOTH])
def test_gymnasium_has_nothing_to_say_about_it(encoding, ids):
    env = gymnasium.make(ID, task_encoding=encoding, **ids)
    assert type(env.unwrapped) is MultiEnvWrapper
    assert check_env_warnings(env) == []


def test_an_environment_is_built_when_its_turn_comes():
    env = gymnasium.make(ID, env_ids=["CartPole-v1", "no/Such-v0"], select="round_robin")
    multi = env.unwrapped
    assert multi.envs_built == 1
    env.reset(seed=0)
    message = r"the constructor of task 1 \('no/Such-v0'\) failed"
    with pytest.raises(gymnasium.error.NamespaceNotFound, match=message):
        env.reset()
    assert multi.get_task_state() == 0
    assert env.step(0)[4]["task_name"] == "CartPole-v1"


def test_environments_that_do_not_fit_say_how_to_unify_them():
    env = gymnasium.make(ID, env_ids=[SHORT, LONG], select="round_robin")
    env.reset(seed=0)
    message = r"task 1 \('tests/Long-v0'\) has observation space .*; pass unify='pad'"
    with pytest.raises(ValueError, match=message):
        env.reset()


def test_arguments_reach_every_environment():
    env = make(env_kwargs={"length": 1})
    for state in (0, 1):
        env.reset(options={"task_state": state})
        assert env.step(0)[2] is True


# Specs.


def test_the_spec_of_a_vector_environment_survives_json():
    envs = make_vec(num_envs=4)
    again = gymnasium.make_vec(EnvSpec.from_json(envs.spec.to_json()))
    assert again.num_envs == 4
    assert equal(again.reset(seed=5), envs.reset(seed=5))


# Sub-environments that each stay with one task.


def test_the_vector_environment_works_with_its_defaults():
    envs = gymnasium.make_vec(ID)
    assert envs.num_envs == 2
    obs, info = envs.reset(seed=0)
    assert obs.shape == (2, 8)
    assert obs[:, 6:].tolist() == [[1, 0], [0, 1]]
    assert info["task_name"].tolist() == ["Acrobot-v1", "MountainCar-v0"]
    assert envs.step(envs.action_space.sample())[1].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("num_envs", "expected"),
    [(1, [0, 1]), (2, [0, 1]), (4, [0, 0, 1, 1]), (6, [0, 0, 0, 1, 1, 1])],
)
def test_the_sub_environments_are_laid_out_task_by_task(num_envs, expected):
    envs = make_vec(num_envs=num_envs)
    assert envs.num_envs == len(expected)
    assert envs.reset(seed=0)[1]["task_id"].tolist() == expected


@pytest.mark.parametrize("num_envs", [3, 5])
def test_a_number_that_does_not_fit_names_those_that_do(num_envs):
    message = (
        r"MultiEnv has 2 tasks: num_envs must be a multiple of 2 \(2, 4, 6, \.\.\.\), or 1 .*; "
        rf"got {num_envs}"
    )
    with pytest.raises(ValueError, match=message):
        make_vec(num_envs=num_envs)


def test_the_number_of_environments_a_task_can_be_named():
    assert make_vec(envs_per_task=2).reset()[1]["task_id"].tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"with envs_per_task=2, num_envs must be 4 .*, got 2"):
        make_vec(num_envs=2, envs_per_task=2)


EPISODES = {  # the first entry of the observation of each task, from the reset on
    AutoresetMode.SAME_STEP: [[0, 1, 2, 0, 1, 2, 0], [100, 101, 102, 103, 104, 100, 101]],
    AutoresetMode.NEXT_STEP: [[0, 1, 2, 3, 0, 1, 2], [100, 101, 102, 103, 104, 105, 100]],
}


@pytest.mark.parametrize("mode", [None, *EPISODES, "NextStep"])
def test_each_sub_environment_stays_with_its_task_over_episodes(mode):
    envs = make_vec(**({} if mode is None else {"autoreset_mode": mode}))
    mode = AutoresetMode.SAME_STEP if mode is None else AutoresetMode(mode)
    assert envs.metadata["autoreset_mode"] is mode
    returned = [envs.reset(seed=0), *(envs.step([0, 0]) for _ in range(6))]
    firsts = np.array([obs[:, 0] for obs, *_ in returned]).T
    assert firsts.tolist() == EPISODES[mode]
    assert all(obs[:, 3:].tolist() == [[1, 0], [0, 1]] for obs, *_ in returned)
    assert all(step[-1]["task_id"].tolist() == [0, 1] for step in returned)


def test_statistics_can_be_left_out():
    envs = make_vec(record_episode_statistics=False)
    envs.reset(seed=0)
    for _ in range(3):
        info = envs.step([0, 0])[4]
    assert "episode" not in info["final_info"]


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("none", [[0, 0, 0], [100, 100, 100]]), ("onehot", [[0, 0, 0, 1, 0], [100, 100, 100, 0, 1]])],
)
def test_the_encoding_of_the_sub_environments_can_be_named(encoding, expected):
    assert make_vec(task_encoding=encoding).reset()[0].tolist() == expected


def test_a_sub_environment_builds_no_other_environment():
    envs = make_vec(task_encoding="dict", num_envs=4)
    assert envs.get_attr("envs_built") == (1, 1, 1, 1)


def test_what_was_built_to_learn_the_padded_space_is_closed(monkeypatch):
    made = []
    init = CountingEnv.__init__

    def record(env, *args, **kwargs):
        made.append(env)
        init(env, *args, **kwargs)

    monkeypatch.setattr(CountingEnv, "__init__", record)
    envs = make_vec(num_envs=4)
    assert [env.closed for env in made] == [True, True, False, False, False, False]
    envs.close()
    assert [env.closed for env in made] == [True] * 6


def test_sub_environments_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="environment 1 has observation space"):
        gymnasium.make_vec(ID, env_ids=[SHORT, LONG], task_encoding="none")


def test_a_seed_determines_the_vector_environment_and_no_two_share_a_stream():
    runs = [make_vec(num_envs=4).reset(seed=seed)[1]["draw"].tolist() for seed in (5, 5, 9)]
    assert runs[0] == runs[1] != runs[2]
    assert len(set(runs[0])) == 4


# Gymnasium's own vector environments.
