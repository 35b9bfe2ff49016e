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
    old = CountingEnv()
    env = update(old)
    assert env is not old
    assert env.first == 7
    assert old.closed
    assert not env.closed


def test_a_new_env_update_makes_another_environment_at_every_call():
    update = NewEnvUpdate(CountingEnv)
    assert update() is not update()


@pytest.mark.parametrize("update_type", [NewEnvUpdate, partial(SetTaskUpdate, task=TASK)])
def test_a_constructor_must_be_callable(update_type):
    with pytest.raises(TypeError, match="must be callable, got 'PointGoal'"):
        update_type("PointGoal")


def test_a_wrapper_constructor_must_be_callable():
    with pytest.raises(TypeError, match="wrapper_constructor must be callable, got 3"):
        SetTaskUpdate(PointGoalEnv, TASK, 3)


def test_a_set_task_update_makes_an_environment_on_its_task():
    env = SetTaskUpdate(PointGoalEnv, TASK)()
    assert type(env) is PointGoalEnv
    assert env.get_task() == TASK
    obs, _ = env.reset()
    assert obs.tolist() == [0, 0]


def test_a_set_task_update_reuses_an_environment_of_its_class():
    old = PointGoalEnv()
    env = SetTaskUpdate(PointGoalEnv, TASK)(old)
    assert env is old
    assert env.get_task() == TASK


def test_a_set_task_update_reuses_an_instance_of_a_subclass():
    class Special(PointGoalEnv):
        pass

    old = Special()
    assert SetTaskUpdate(PointGoalEnv, TASK)(old) is old


def test_a_set_task_update_reuses_an_environment_through_its_wrappers():
    old = TimeLimit(TimeLimit(PointGoalEnv(), 9), 7)
    env = SetTaskUpdate(PointGoalEnv, TASK)(old)
    assert env is old
    assert env.unwrapped.get_task() == TASK


def test_a_set_task_update_reuses_what_a_constructor_made():
    env = SetTaskUpdate(make_point, TASK)()
    other = SetTaskUpdate(make_point, {"goal": (2.0, 0.0)})
    assert other(env) is env
    assert env.get_task() == {"goal": (2.0, 0.0)}


def test_a_set_task_update_reuses_what_a_constructor_made_through_later_wrappers():
    env = TimeLimit(SetTaskUpdate(make_point, TASK)(), 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SetTaskUpdate(make_point, {"goal": (2.0, 0.0)})(env) is env


def test_updates_that_were_pickled_one_by_one_reuse_each_others_environment():
    make = partial(PointGoalEnv, radius=2.0)
    one, two = (pickle.dumps(SetTaskUpdate(make, {"goal": (x, 0.0)})) for x in (1.0, 2.0))
    env = pickle.loads(one)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pickle.loads(two)(env) is env
    assert env.get_task() == {"goal": (2.0, 0.0)}


def test_a_set_task_update_warns_of_another_environment_and_closes_it():
    old = CountingEnv()
    update = SetTaskUpdate(PointGoalEnv, TASK)
    with pytest.warns(UserWarning, match="expected an environment of PointGoalEnv .*CountingEnv"):
        env = update(old)
    assert old.closed
    assert type(env) is PointGoalEnv
    assert env.get_task() == TASK


def test_a_set_task_update_does_not_reuse_what_another_constructor_made():
    env = SetTaskUpdate(CountingSetTaskEnv, {"first": 10})()
    update = SetTaskUpdate(make_point, TASK)
    with pytest.warns(UserWarning, match="expected an environment of make_point"):
        other = update(env)
    assert env.closed
    assert other.get_task() == TASK


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


def test_an_existing_env_update_returns_its_environment_and_closes_another():
    own, old = CountingEnv(), CountingEnv()
    update = ExistingEnvUpdate(own)
    assert update() is own
    assert update(old) is own
    assert old.closed
    assert not own.closed


def test_an_existing_env_update_does_not_close_its_own_environment():
    own = CountingEnv()
    assert ExistingEnvUpdate(own)(own) is own
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
