"""The behaviour of `EnvToMTEnv` alone; the rest of a list of tasks is in ``test_task_list.py``."""

import contextlib
import copy
import json
import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from gymnasium.utils import EzPickle
from gymnasium.wrappers import TimeLimit

from mtwrappers import EnvToMTEnv, FlattenMTEnv, MetaIterativeEnvExecutor, RL2Observation
from mtwrappers.common import seeding
from mtwrappers.state import env_state
from mtwrappers.testing import check_mtenv
from tests.fakes import CountingEnv, CountingSetTaskEnv, check_env_warnings, equal, play


def set_start(env, task):
    env.unwrapped.first = task


def test_an_environment_that_has_set_task_needs_no_function():
    tasks = [{"first": 5}, {"first": 50}]
    env = EnvToMTEnv(gymnasium.wrappers.TimeLimit(CountingSetTaskEnv(), 10), tasks)
    observations = [env.reset(options={"task_state": i})[0]["env_obs"] for i in (0, 1)]
    first_observations = [obs[0] for obs in observations]
    assert first_observations == [5, 50]


def test_a_task_that_cannot_be_set_leaves_the_previous_one():
    def refuse(env, task):
        if task == 10:
            raise ValueError("no such start: 10")
        set_start(env, task)

    env = EnvToMTEnv(CountingEnv(), [0, 10], refuse, task_names=["a", "b"])
    env.reset()
    with pytest.raises(ValueError, match="no such start: 10"):
        env.set_task_state(1)
    assert (env.get_task_state(), env.get_task_obs()) == (0, 0)
    obs, *_, info = env.step(0)
    assert (obs["env_obs"][0], obs["task_obs"], info["task_name"]) == (1, 0, "a")


def test_an_episode_is_that_of_the_environment_on_the_task_and_the_callers_list_is_its_own():
    counting, tasks = CountingEnv(), [0, 10, 20]
    env = EnvToMTEnv(counting, tasks, set_start, initial_task_state=2)
    tasks[:] = [77]
    assert (counting.first, env.get_task_state(), env.get_task_obs()) == (20, 2, 2)
    reset, *steps = play(env, [0, 1, 0], seed=0, options={"task_state": 1})
    for count, obs in enumerate([reset[0], *(step[0] for step in steps)]):
        assert equal(obs, {"env_obs": np.full(2, 10.0 + count), "task_obs": np.int64(1)})
    info = {"draw": counting.draw, "task_id": 1}
    assert reset[1] == {"steps": 0, **info}
    assert steps[2][1:] == (3.0, True, False, {"steps": 3, **info})
    env.reset()
    env.reset(seed=7)
    assert counting.seeds == [seeding.child_seed(0, 0), None, seeding.child_seed(7, 0)]


def test_a_task_can_be_shown_in_a_space_of_its_own_and_what_is_shown_is_a_copy():
    space = Box(0, 9, (2,), np.float64)
    env = EnvToMTEnv(
        CountingEnv(),
        [np.zeros(2), np.ones(2)],
        lambda env, task: None,
        task_obs=lambda task: task,
        task_observation_space=space,
    )
    assert env.observation_space["task_obs"] == space
    obs, info = env.reset(options={"task_state": 1})
    assert obs["task_obs"].tolist() == [1, 1]
    assert (env.get_task_state(), info["task_id"]) == (1, 1)
    obs["task_obs"][:] = 7
    assert env.step(0)[0]["task_obs"].tolist() == env.get_task_obs().tolist() == [1, 1]


# A space of tasks.

GOALS = Box(np.array([0.0, 10.0]), np.array([1.0, 20.0]), dtype=np.float64)


def set_and_remember_task(env, task):
    env.unwrapped.task, env.unwrapped.first = task, np.max(task)


def make_space_env(tasks=GOALS, **kwargs):
    return EnvToMTEnv(CountingEnv(), tasks, set_and_remember_task, **kwargs)


def test_an_environment_over_a_space_of_tasks_keeps_the_contract():
    check_mtenv(make_space_env(sample_tasks_on_reset=True), steps=3)
    assert check_env_warnings(make_space_env(), skip_render_check=True) == []


def test_a_task_is_an_element_of_the_space_and_is_shown():
    env = make_space_env()
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


def test_the_state_of_a_space_goes_through_json_and_not_to_another_space():
    env, restored = (make_space_env(Discrete(5), sample_tasks_on_reset=True) for _ in range(2))
    for seed in (5, None):
        env.reset(seed=seed)
    restored.reset(seed=9)
    state = json.loads(json.dumps(env.get_state(), default=int))
    restored.set_state(state)
    assert equal([env.reset() for _ in range(6)], [restored.reset() for _ in range(6)])
    with pytest.raises(ValueError, match=r"expected tasks 'Discrete\(6\)', got 'Discrete\(5\)'"):
        env_state.set_state(make_space_env(Discrete(6)), env_state.get_state(env))


# Copies of environments that are built anew.


class RebuiltEnv(CountingEnv, EzPickle):
    """Its copies and pickles are what its constructor makes, as on MuJoCo."""

    def __init__(self):
        CountingEnv.__init__(self)
        EzPickle.__init__(self)


def keep_bare(env):
    return env


@pytest.mark.parametrize(
    "copy_env", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize(
    "wrap",
    [keep_bare, FlattenMTEnv, partial(TimeLimit, max_episode_steps=9), RL2Observation],
    ids=["bare", "flat", "limited", "rl2"],
)
def test_a_copy_that_is_built_anew_is_on_the_task_that_it_reports(wrap, copy_env):
    env = EnvToMTEnv(TimeLimit(RebuiltEnv(), 9), [0, 10, 20], set_start)
    env = wrap(FlattenMTEnv(env) if wrap is RL2Observation else env)
    expected_obs, _ = env.reset(seed=0, options={"task_state": 2})
    copied_env = copy_env(env)
    assert copied_env.unwrapped.get_task_state() == 2
    with pytest.raises(ResetNeeded, match=r"task 2 has no episode since .* copied or closed"):
        copied_env.step(0)
    assert equal(copied_env.reset()[0], expected_obs)
    assert copied_env.unwrapped.env.unwrapped.first == 20
    assert copied_env.unwrapped.env.unwrapped.seeds == [seeding.child_seed(0, 0)]


def test_the_copies_of_an_executor_are_on_the_task_that_they_report():
    env = EnvToMTEnv(RebuiltEnv(), [0, 10, 20], set_start, initial_task_state=2)
    with contextlib.closing(MetaIterativeEnvExecutor(env, 2)) as envs:
        assert envs.reset()[0]["env_obs"].tolist() == [[20, 20]] * 2
        assert envs.call("get_task_state") == (2, 2)


@pytest.mark.parametrize(
    ("space", "task", "expected"),
    [
        (Box(8.0, 10.0, (), np.float64), 9, np.array(9.0)),
        (Box(8.0, 10.0, (1,), np.float32), [9.1], np.float32([9.1])),
        (MultiDiscrete([2, 3]), (1, 2), np.array([1, 2])),
        (Dict(goal=Box(0, 1, (2,))), {"goal": [0, 1]}, {"goal": np.float32([0, 1])}),
        (Tuple([Box(0, 9, (1,), np.int64), Discrete(2)]), [[3], 1], (np.array([3]), 1)),
    ],
    ids=["number", "list", "integers", "dict", "tuple"],
)
def test_a_task_of_numbers_and_lists_is_observed_as_an_element_of_the_space(space, task, expected):
    env = EnvToMTEnv(CountingEnv(), space, lambda env, task: None)
    obs, _ = env.reset(options={"task_state": task})
    assert equal(obs["task_obs"], expected)
    assert equal(env.get_task_state(), expected)


@pytest.mark.parametrize("task", [[1.5, 2], [300, 1], [1], "ab", None, [[1], [2, 3]]])
def test_what_is_no_element_of_the_space_is_refused(task):
    env = EnvToMTEnv(CountingEnv(), Box(0, 9, (2,), np.uint8), lambda env, task: None)
    with pytest.raises(
        ValueError, match=r"task state must be an element of Box\(0, 9, \(2,\), uint8"
    ):
        env.set_task_state(task)
