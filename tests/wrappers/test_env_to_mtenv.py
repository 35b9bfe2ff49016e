import copy
import json
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from mtwrappers import EnvToMTEnv, seeding
from mtwrappers.testing import check_mtenv
from tests.fakes import CountingEnv, CountingSetTaskEnv, check_env_warnings, equal, play


def start_at(env, task):
    env.unwrapped.first = task


@pytest.fixture
def counting():
    return CountingEnv(render_mode="rgb_array")


@pytest.fixture
def env(counting):
    return EnvToMTEnv(counting, [0, 10, 20], start_at)


# The protocol.


@pytest.mark.parametrize("select", ["uniform", "round_robin", "without_replacement"])
def test_it_keeps_the_contract(select):
    names = ["a", "b", "c"]
    check_mtenv(EnvToMTEnv(CountingEnv(), [0, 10, 20], start_at, task_names=names, select=select))


def test_gymnasium_has_nothing_to_say_about_it(env):
    assert check_env_warnings(env, skip_render_check=True) == []


def test_its_spaces_are_those_of_the_environment_and_an_index(env):
    box = Box(0, 1000, (2,), np.float64)
    assert env.observation_space == Dict({"env_obs": box, "task_obs": Discrete(3)})
    assert env.action_space == Discrete(2)
    assert env.num_tasks == 3


def test_an_episode_is_that_of_the_environment_on_the_task(env):
    reset, *steps = play(env, [0, 1, 0], seed=0, options={"task_state": 1})
    draw = reset[1]["draw"]
    for count, obs in enumerate([reset[0], *(step[0] for step in steps)]):
        expected = {"env_obs": np.full(2, 10.0 + count), "task_obs": np.int64(1)}
        assert equal(obs, expected)
    assert reset[1] == {"steps": 0, "draw": draw, "task_id": 1}
    assert [step[1:] for step in steps] == [
        (1.0, False, False, {"steps": 1, "draw": draw, "task_id": 1}),
        (2.0, False, False, {"steps": 2, "draw": draw, "task_id": 1}),
        (3.0, True, False, {"steps": 3, "draw": draw, "task_id": 1}),
    ]


def test_the_initial_task_is_set_at_once(counting):
    env = EnvToMTEnv(counting, [0, 10, 20], start_at, initial_task_state=2)
    assert counting.first == 20
    assert (env.get_task_state(), env.get_task_obs()) == (2, 2)


def test_an_environment_that_has_set_task_needs_no_function():
    env = EnvToMTEnv(
        gymnasium.wrappers.TimeLimit(CountingSetTaskEnv(), 10), [{"first": 5}, {"first": 50}]
    )
    assert env.reset()[0]["env_obs"].tolist() == [5, 5]
    assert env.reset(options={"task_state": 1})[0]["env_obs"].tolist() == [50, 50]


def test_a_change_to_the_callers_list_changes_nothing(counting):
    tasks = [0, 10]
    env = EnvToMTEnv(counting, tasks, start_at)
    tasks[:] = [77]
    assert env.reset(options={"task_state": 1})[0]["env_obs"].tolist() == [10, 10]


# What the agent sees of the task.


def test_a_task_can_be_shown_in_a_space_of_its_own(counting):
    space = Box(0, 1, (2,), np.float64)
    env = EnvToMTEnv(
        counting,
        [0, 10],
        start_at,
        task_obs=lambda task: np.array([task / 10, 0.5]),
        task_observation_space=space,
    )
    assert env.observation_space["task_obs"] == space
    obs, info = env.reset(options={"task_state": 1})
    assert obs["task_obs"].tolist() == [1.0, 0.5]
    assert obs in env.observation_space
    assert info["task_id"] == 1
    assert (env.get_task_state(), env.get_task_obs().tolist()) == (1, [1.0, 0.5])


def test_a_caller_who_changes_a_shown_task_does_not_change_the_task(counting):
    env = EnvToMTEnv(
        counting,
        [np.zeros(2), np.ones(2)],
        lambda env, task: None,
        task_obs=lambda task: task,
        task_observation_space=Box(0, 9, (2,), np.float64),
    )
    first = env.reset(options={"task_state": 1})[0]["task_obs"]
    first[:] = 7
    assert env.step(0)[0]["task_obs"].tolist() == [1, 1]
    assert env.get_task_obs().tolist() == [1, 1]


# Switching.


def test_a_task_that_cannot_be_set_leaves_the_previous_one():
    def refuse(env, task):
        if task == 10:
            raise ValueError("no such start: 10")
        start_at(env, task)

    env = EnvToMTEnv(CountingEnv(), [0, 10], refuse, task_names=["a", "b"])
    env.reset()
    with pytest.raises(ValueError, match="no such start: 10"):
        env.set_task_state(1)
    assert (env.get_task_state(), env.get_task_obs()) == (0, 0)
    obs, *_, info = env.step(0)
    assert (obs["env_obs"][0], obs["task_obs"], info["task_name"]) == (1, 0, "a")


# Seeds.


def test_a_seed_reaches_the_environment_once(env, counting):
    env.reset(seed=0)
    env.reset(options={"task_state": 1})
    env.reset(seed=7)
    expected = [seeding.child_seed(0, 0), None, seeding.child_seed(7, 0)]
    assert counting.seeds == expected


# The environment below.


def test_it_renders_and_closes_the_environment(env, counting):
    env.reset(options={"task_state": 1})
    env.step(0)
    assert env.render_mode == "rgb_array"
    assert env.metadata["render_fps"] == 10
    assert np.array_equal(env.render(), np.full((2, 2, 3), 11, np.uint8))
    env.close()
    assert counting.closed


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_plays_the_same_on_its_own(env, duplicate):
    env.reset(seed=5, options={"task_state": 1})
    other = duplicate(env)
    mine = [env.step(0), *play(env, [0], options={"task_state": 2})]
    assert equal([other.step(0), *play(other, [0], options={"task_state": 2})], mine)


# A space of tasks.

GOALS = Box(np.array([0.0, 10.0]), np.array([1.0, 20.0]), dtype=np.float64)


def remember(env, task):
    env.unwrapped.task = task


def space_env(**kwargs):
    return EnvToMTEnv(CountingEnv(), GOALS, remember, **kwargs)


def test_an_environment_over_a_space_of_tasks_keeps_the_contract():
    check_mtenv(space_env())
    check_mtenv(space_env(sample_tasks_on_reset=True))
    assert check_env_warnings(space_env(), skip_render_check=True) == []


def test_a_task_is_an_element_of_the_space_and_is_shown():
    env = space_env()
    env.seed_task(0)
    env.reset_task_state()
    obs, info = env.reset()
    task = env.get_task_state()
    assert env.task_observation_space == GOALS
    assert task in GOALS
    assert np.array_equal(obs["task_obs"], task)
    assert np.array_equal(env.env.task, task)
    assert "task_id" not in info
    obs["task_obs"][:] = env.get_task_state()[:] = 0
    assert np.array_equal(env.get_task_state(), task)
    env.reset(options={"task_state": np.array([0.5, 11.0])})
    assert env.env.task.tolist() == [0.5, 11.0]
    with pytest.raises(ValueError, match=r"must be an element of Box.*, got array\(\[ 2"):
        env.set_task_state(np.array([2.0, 11.0]))
    assert env.get_task_state().tolist() == [0.5, 11.0]


def test_the_task_stream_draws_from_the_space():
    drawn = []
    for seed in (0, 0, 1):
        env = space_env(sample_tasks_on_reset=True)
        env.reset(seed=seed)
        states = [env.get_task_state()]
        env.reset()
        drawn.append([*states, env.get_task_state()])
    assert equal(drawn[0], drawn[1])
    assert not equal(drawn[0], drawn[2])
    assert not equal(drawn[0][0], drawn[0][1])


def test_what_a_list_has_and_a_space_has_not():
    env = space_env()
    for name in ("num_tasks", "task_states", "task_ids"):
        assert not hasattr(env, name)
    for kwargs in ({"task_names": ["a"]}, {"select": "round_robin"}):
        with pytest.raises(ValueError, match="task_names and select are for a list of tasks"):
            space_env(**kwargs)


@pytest.mark.parametrize("tasks", [[0, 10, 20], Discrete(5)])
def test_a_state_between_episodes_goes_through_json(tasks):
    runs = []
    for _ in range(2):
        env = EnvToMTEnv(CountingEnv(), tasks, start_at, sample_tasks_on_reset=True)
        env.reset(seed=5)
        env.step(0)
        if runs:
            env.reset(seed=9)
            env.set_state(runs[0][0])
        state = json.loads(json.dumps(env.get_state(), default=int))
        runs.append((state, [env.reset() for _ in range(4)]))
    assert equal(runs[0][1], runs[1][1])
    other = EnvToMTEnv(CountingEnv(), [1, 2], start_at)
    with pytest.raises(ValueError, match="expected the state of an environment on the tasks"):
        other.set_state(runs[0][0])
