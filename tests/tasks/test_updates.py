"""Environment updates: small callables that make, turn or replace an environment."""

import copy
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from mtwrappers import (
    EnvUpdate,
    ExistingEnvUpdate,
    MetaWorldSetTaskEnv,
    NewEnvUpdate,
    PointGoalEnv,
    SetTaskUpdate,
    TaskOnehotWrapper,
)
from mtwrappers.metaworld import make_benchmark
from tests.fakes import CountingEnv, CountingSetTaskEnv

TASK = {"goal": (0.5, -0.5)}


def make_point():
    return PointGoalEnv(radius=2.0)


def limit_by_task(env, task):
    return TimeLimit(env, max_episode_steps=int(task["first"]))


def test_an_update_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        EnvUpdate()


def test_a_new_env_update_makes_an_environment_and_closes_the_old_one():
    update = NewEnvUpdate(partial(CountingEnv, first=7))
    old = update()
    env = update(old)
    assert env is not old
    assert (env.first, old.closed, env.closed) == (7, True, False)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (lambda: NewEnvUpdate("PointGoal"), "env_constructor must be callable, got 'PointGoal'"),
        (lambda: SetTaskUpdate("PointGoal", TASK), "env_type must be callable, got 'PointGoal'"),
        (
            lambda: SetTaskUpdate(PointGoalEnv, TASK, 3),
            "wrapper_constructor must be callable, got 3",
        ),
    ],
)
def test_constructors_must_be_callable(update, message):
    with pytest.raises(TypeError, match=message):
        update()


class Special(PointGoalEnv):
    pass


@pytest.mark.parametrize(
    ("env_type", "make"),
    [
        (PointGoalEnv, PointGoalEnv),
        (PointGoalEnv, Special),
        (PointGoalEnv, lambda: TimeLimit(TimeLimit(PointGoalEnv(), 9), 7)),
        (make_point, SetTaskUpdate(make_point, {"goal": (2.0, 0.0)})),
        (make_point, lambda: TimeLimit(SetTaskUpdate(make_point, TASK)(), 7)),
        (partial(PointGoalEnv, radius=2.0), SetTaskUpdate(partial(PointGoalEnv, radius=2.0), TASK)),
    ],
    ids=["class", "subclass", "wrapped", "constructor", "constructor-wrapped", "partial"],
)
def test_a_set_task_update_reuses_an_environment_of_its_kind(env_type, make):
    old = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = SetTaskUpdate(env_type, TASK)(old)
    assert env is old
    assert env.unwrapped.get_task() == TASK
    assert env.reset()[0].tolist() == [0, 0]


def test_updates_that_were_pickled_one_by_one_reuse_each_others_environment():
    make = partial(PointGoalEnv, radius=2.0)
    one, two = (pickle.dumps(SetTaskUpdate(make, {"goal": (x, 0.0)})) for x in (1.0, 2.0))
    env = pickle.loads(one)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pickle.loads(two)(env) is env
    assert env.get_task() == {"goal": (2.0, 0.0)}


@pytest.mark.parametrize(
    "make", [CountingEnv, SetTaskUpdate(CountingSetTaskEnv, {"first": 10})], ids=["foreign", "made"]
)
def test_a_set_task_update_warns_of_another_environment_and_closes_it(make):
    old = make()
    with pytest.warns(UserWarning, match="expected an environment of make_point .*Counting"):
        env = SetTaskUpdate(make_point, TASK)(old)
    assert old.closed
    assert type(env) is PointGoalEnv
    assert env.get_task() == TASK


def test_the_wrapper_is_given_the_environment_and_the_task():
    env = SetTaskUpdate(CountingSetTaskEnv, {"first": 20}, limit_by_task)()
    assert type(env) is TimeLimit
    assert env._max_episode_steps == 20
    assert env.unwrapped.get_task() == {"first": 20}


def test_a_wrapped_environment_is_reused_and_not_wrapped_again():
    env = SetTaskUpdate(CountingSetTaskEnv, {"first": 20}, limit_by_task)()
    same = SetTaskUpdate(CountingSetTaskEnv, {"first": 30}, limit_by_task)(env)
    assert same is env
    assert type(same.env) is CountingSetTaskEnv
    assert same.unwrapped.get_task() == {"first": 30}


@pytest.mark.parametrize("inside_another", [False, True])
def test_a_task_of_another_class_is_wrapped_anew(inside_another):
    source = MetaWorldSetTaskEnv("MT10", "train", num_goals=2)
    tasks = source.sample_tasks(12)
    env = None
    for task in (tasks[0], tasks[10], tasks[1], tasks[1], tasks[11], tasks[0]):
        old, env = env, SetTaskUpdate(MetaWorldSetTaskEnv, task, onehot_by_task)(env)
        if inside_another:
            env = TimeLimit(env, 7) if old is None else env
            assert type(env) is TimeLimit
        obs, info = env.reset(seed=0)
        assert obs[39:].tolist() == [float(name == info["task_name"]) for name in source.task_names]
        assert obs.shape == (49,)
    assert env.unwrapped.envs_built == 2  # one environment served them all
    env.close()


def onehot_by_task(env, task):
    names = env.get_wrapper_attr("task_names")
    return TaskOnehotWrapper(env, names.index(task["inner"].env_name), len(names))


def test_an_existing_env_update_returns_its_environment_and_leaves_the_old_one_open():
    own, old = CountingEnv(), CountingEnv()
    update = ExistingEnvUpdate(own)
    assert update() is update(old) is update(own) is own
    assert not old.closed
    assert not own.closed


def test_a_copied_existing_env_update_has_an_environment_of_its_own():
    own = CountingEnv(first=40)
    copied = copy.deepcopy(ExistingEnvUpdate(own))()
    assert copied is not own
    assert copied.first == 40


@pytest.mark.parametrize(
    ("update", "check"),
    [
        (NewEnvUpdate(make_point), lambda env: env.radius == 2.0),
        (SetTaskUpdate(PointGoalEnv, TASK), lambda env: env.get_task() == TASK),
        (
            SetTaskUpdate(CountingSetTaskEnv, {"first": 20}, limit_by_task),
            lambda env: env._max_episode_steps == 20,
        ),
        (ExistingEnvUpdate(PointGoalEnv(3.0)), lambda env: env.radius == 3.0),
    ],
    ids=["new", "set-task", "set-task-wrapped", "existing"],
)
def test_updates_pickle_small_and_work_on_the_other_side(update, check):
    data = pickle.dumps(update)
    assert len(data) < 4096
    assert check(pickle.loads(data)())


def test_a_metaworld_update_pickles_small_and_turns_an_environment_made_without_arguments():
    source = MetaWorldSetTaskEnv("ML10", "train", num_goals=2)
    [task] = source.sample_tasks(1)
    data = pickle.dumps(SetTaskUpdate(MetaWorldSetTaskEnv, task))
    assert len(data) < 4096
    old = MetaWorldSetTaskEnv()
    env = pickle.loads(data)(old)
    assert env is old
    obs, info = env.reset(seed=0)
    assert info["task_name"] == task["inner"].env_name
    source.set_task(task)
    assert np.array_equal(obs, source.reset(seed=0)[0])


def test_a_copied_update_of_a_bare_sawyer_environment_keeps_its_action_space_and_task():
    benchmark = make_benchmark("MT1", env_name="reach-v3", num_goals=1)
    env = benchmark.train_classes["reach-v3"]()
    env.set_task(benchmark.train_tasks[0])
    copied = copy.deepcopy(ExistingEnvUpdate(env))()
    assert copied.action_space == env.action_space
    assert np.array_equal(copied.reset()[0], env.reset()[0])
