"""Environment updates: small callables that make, turn or replace an environment."""

import copy
import operator
import pickle
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import cloudpickle
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import mtwrappers as mt
from tests.fakes import CountingEnv, CountingSetTaskEnv

TASK = {"goal": (0.5, -0.5)}


def make_point():
    return mt.PointGoalEnv(radius=2.0)


class TableEnv(mt.PointGoalEnv):
    """Takes arrays, in a list and in a dict."""

    closed = False

    def __init__(self, tables, **named):
        super().__init__()

    def close(self):
        self.closed = True


TABLES = partial(TableEnv, [np.eye(2), np.arange(3.0)], weights={"a": np.array([1.0, 2.0])})
OTHER_TABLES = partial(TableEnv, [np.eye(2), np.arange(3.0)], weights={"a": np.array([1.0, 3.0])})


@dataclass
class Config:
    table: Any


CONFIGURED = partial(TableEnv, Config(np.array([1.0, 2.0])))


def limit_by_task(env, task):
    return TimeLimit(env, max_episode_steps=int(task["first"]))


def test_a_new_env_update_makes_an_environment_and_closes_the_old_one():
    update = mt.NewEnvUpdate(partial(CountingEnv, first=7))
    old = update()
    env = update(old)
    assert (env.first, old.closed, env.closed) == (7, True, False)


@pytest.mark.parametrize(
    ("env_type", "make"),
    [
        (mt.PointGoalEnv, type("Special", (mt.PointGoalEnv,), {})),
        (mt.PointGoalEnv, lambda: TimeLimit(TimeLimit(mt.PointGoalEnv(), 9), 7)),
        (make_point, mt.SetTaskUpdate(make_point, {"goal": (2.0, 0.0)})),
        (make_point, lambda: TimeLimit(mt.SetTaskUpdate(make_point, TASK)(), 7)),
        (
            partial(mt.PointGoalEnv, radius=2.0),
            mt.SetTaskUpdate(partial(mt.PointGoalEnv, radius=2.0), TASK),
        ),
        (TABLES, mt.SetTaskUpdate(TABLES, TASK)),
        (CONFIGURED, mt.SetTaskUpdate(CONFIGURED, TASK)),
    ],
    ids=[
        "subclass",
        "wrapped",
        "constructor",
        "constructor-wrapped",
        "partial",
        "arrays",
        "object",
    ],
)
def test_a_set_task_update_reuses_an_environment_of_its_kind(env_type, make):
    old = make()
    # As if it came from another process.
    update = pickle.loads(pickle.dumps(mt.SetTaskUpdate(env_type, TASK)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert update(old) is old
    assert old.unwrapped.get_task() == TASK
    assert old.reset()[0].tolist() == [0, 0]


def test_the_warning_of_a_lambda_that_recognizes_no_environment_has_a_way_out():
    update = mt.SetTaskUpdate(lambda: mt.PointGoalEnv(), TASK)
    old = pickle.loads(cloudpickle.dumps(update))()
    message = "of <lambda> to set .* made. A lambda or local function .*: pass a class or function"
    with pytest.warns(UserWarning, match=message):
        update(old)
    with pytest.warns(UserWarning, match="of make_point to set .* a new one made$"):
        mt.SetTaskUpdate(make_point, TASK)(old)


@pytest.mark.parametrize(
    "make",
    [CountingEnv, mt.SetTaskUpdate(CountingSetTaskEnv, {"first": 10})],
    ids=["foreign", "made"],
)
def test_a_set_task_update_warns_of_another_environment_and_closes_it(make):
    old = make()
    with pytest.warns(UserWarning, match="expected an environment of make_point .*Counting"):
        env = mt.SetTaskUpdate(make_point, TASK)(old)
    assert old.closed
    assert type(env) is mt.PointGoalEnv
    assert env.get_task() == TASK


@pytest.mark.parametrize(
    ("env_type", "other_type"),
    [(TABLES, OTHER_TABLES), (CONFIGURED, partial(TableEnv, Config(np.array([1.0, 3.0]))))],
    ids=["arrays", "object"],
)
def test_an_environment_that_was_made_with_other_arrays_is_replaced(env_type, other_type):
    old = mt.SetTaskUpdate(env_type, TASK)()
    with pytest.warns(UserWarning, match="expected an environment of .*TableEnv"):
        env = mt.SetTaskUpdate(other_type, TASK)(old)
    assert (old.closed, env.get_task()) == (True, TASK)


def onehot_by_task(env, task):
    names = env.get_wrapper_attr("task_names")
    return mt.TaskOnehotWrapper(env, names.index(task["inner"].env_name), len(names))


@pytest.mark.parametrize("inside_another", [False, True])
def test_a_task_of_another_class_is_wrapped_anew(inside_another):
    source = mt.MetaWorldSetTaskEnv("MT10", "train", num_goals=2)
    key = operator.itemgetter("inner")  # which begins with the name of the class
    [a, b, c, d] = sorted(source.sample_tasks(20), key=key)[:4]  # two tasks of two classes
    env = None
    for task in (a, b, c, d, a):
        old, env = env, mt.SetTaskUpdate(mt.MetaWorldSetTaskEnv, task, onehot_by_task)(env)
        if inside_another:
            env = TimeLimit(env, 7) if old is None else env
            assert type(env) is TimeLimit
        obs, info = env.reset(seed=0)
        assert obs[39:].tolist() == [float(name == info["task_name"]) for name in source.task_names]
    assert env.unwrapped.envs_built == 2  # one environment served them all
    env.close()


def test_an_existing_env_update_returns_its_environment_and_leaves_the_old_one_open():
    env, old_env = CountingEnv(first=40), CountingEnv()
    update = mt.ExistingEnvUpdate(env)
    assert update() is update(old_env) is update(env) is env
    assert (old_env.closed, env.closed) == (False, False)
    copied = copy.deepcopy(update)()
    assert (copied is env, copied.first) == (False, 40)


@pytest.mark.parametrize(
    ("update", "name", "value"),
    [
        (mt.NewEnvUpdate(make_point), "radius", 2.0),
        (
            mt.SetTaskUpdate(CountingSetTaskEnv, {"first": 20}, limit_by_task),
            "_max_episode_steps",
            20,
        ),
        (mt.ExistingEnvUpdate(mt.PointGoalEnv(3.0)), "radius", 3.0),
    ],
)
def test_updates_pickle_small_and_work_on_the_other_side(update, name, value):
    data = pickle.dumps(update)
    assert len(data) < 4096
    assert getattr(pickle.loads(data)(), name) == value


def test_a_new_environment_that_refuses_the_task_is_closed():
    closed = []

    class Closing(mt.PointGoalEnv):
        def close(self):
            closed.append(self)

    with pytest.raises(ValueError, match="nope"):
        mt.SetTaskUpdate(Closing, {"nope": 1})()
    assert len(closed) == 1
