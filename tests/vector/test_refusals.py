"""Odd uses of vector environments: each error names what was expected and what came."""

import contextlib
import threading
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import EzPickle

from mtwrappers import (
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    TaskOnehotWrapper,
    as_vector,
)
from mtwrappers.vector.settings import DifferentSpacesError
from tests.fakes import CountingEnv, CountingSetTaskEnv, counting_makers
from tests.mixed_envs import ARMS, ArmEnv
from tests.refusals import ChangedEnv, assert_refused, make_vec, refusal, refusals
from tests.vector.fakes import EXECUTORS


class BaseEnv(CountingEnv, EzPickle):
    def __init__(self, length, first):
        CountingEnv.__init__(self, length, first=first)
        EzPickle.__init__(self, length, first)


class DerivedEnv(BaseEnv):
    """Its copies are made with the arguments of the base class."""

    def __init__(self):
        super().__init__(3, 5)


class DictEnv(CountingEnv):
    """An environment whose observations are dicts."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Dict(a=self.observation_space)


class TwoTasks(CountingEnv):
    """An environment with task states."""

    def set_task_state(self, task_state):
        pass


def step_cartpole(actions):
    """Steps two environments whose actions are integers."""
    with contextlib.closing(as_vector("CartPole-v1", 2)) as envs:
        envs.reset(seed=0)
        envs.step(actions)


@pytest.fixture(scope="module", params=EXECUTORS.values(), ids=EXECUTORS)
def make_envs(request):
    return request.param


@pytest.fixture(scope="module")
def envs(make_envs):
    with contextlib.closing(make_envs(counting_makers(2), 2)) as envs:
        yield envs


@refusals(
    refusal(
        lambda make_envs: make_envs("CartPole-v1", 2),
        TypeError,
        "expected a constructor, ... or a ...got 'CartPole-v1': pass functools.partial(gymn",
    ),
    refusal(
        lambda make_envs: make_envs(counting_makers(3), 2),
        ValueError,
        "expected 2 constructors (one per task, meta_batch_size=2) or 2 (one per environment, "
        "envs_per_task=1), got 3",
    ),
    refusal(
        lambda make_envs: make_envs(gymnasium.Env, 2),
        TypeError,
        "environment 0 must have an observation_space, <gymnasium.core.Env",
    ),
    refusal(
        lambda make_envs: make_envs([CountingEnv, lambda: 3], 2),
        TypeError,
        "the constructor of environment 1 must ...got 3",
    ),
    refusal(
        lambda make_envs: make_envs(ChangedEnv(info={"lock": threading.Lock()}), 2),
        TypeError,
        "an environment must be picklable to",
    ),
    refusal(
        lambda make_envs: make_envs(DerivedEnv(), 2),
        TypeError,
        "...but unpickling <DerivedEnv instance> failed ...its constructor",
    ),
    refusal(
        lambda make_envs: make_envs([CountingEnv, partial(CountingEnv, obs_size=3)], 2),
        DifferentSpacesError,
        "environment",
    ),
    refusal(
        lambda make_envs: make_envs([CountingEnv, partial(CountingEnv, num_actions=5)], 2),
        DifferentSpacesError,
        "environment",
    ),
    refusal(
        lambda make_envs: make_envs(CountingEnv, 2, autoreset_mode="same_step"),
        ValueError,
        "...got 'same_step'",
    ),
    refusal(
        lambda make_envs: make_envs(CountingSetTaskEnv, 2).set_tasks([{"first": 7}, "b"]),
        ValueError,
        "environment 1: a task ",
    ),
    refusal(
        lambda make_envs: make_envs(CountingEnv, 2, wrokers=3),
        TypeError,
        "...'wrokers': did you mean 'workers'?",
    ),
    refusal(
        lambda make_envs: make_envs([CountingEnv, partial(CountingEnv, high=5)], 2),
        DifferentSpacesError,
        "...; unify='pad' makes",
    ),
    refusal(
        lambda make_envs: make_envs([CountingEnv, DictEnv], 2),
        DifferentSpacesError,
        "environment 1 has another observation ",
    ),
    refusal(
        lambda make_envs: make_envs([ArmEnv, partial(ArmEnv, bound=2.0)], 2),
        DifferentSpacesError,
        "...RescaleAction(env, -1,",
    ),
    refusal(
        lambda make_envs: make_envs(ARMS, 3),
        DifferentSpacesError,
        "environment 1 has another observation ...unify='pad' makes",
    ),
    refusal(
        lambda make_envs: make_envs(ARMS, 3, unify={"observation_size": 4}),
        ValueError,
        "environment 1 has ..., expected at most",
    ),
    refusal(
        lambda make_envs: make_envs(ARMS, 3, unify={"action_size": 3}),
        ValueError,
        "environment 2 has ...at most 3 entries",
    ),
    refusal(
        lambda make_envs: make_envs(TaskOnehotWrapper.wrap_env_cons_list(ARMS), 3, unify="pad"),
        ValueError,
        "...PadSpaces(env",
    ),
    refusal(
        lambda make_envs: make_envs([ArmEnv, CountingEnv], 2, unify="pad"),
        TypeError,
        "...space of environment 1 ...TransformAction(env",
    ),
    refusal(
        lambda make_envs: make_envs([ArmEnv, partial(ArmEnv, bound=2.0)], 2, unify="pad"),
        ValueError,
        "...RescaleAction(env,",
    ),
)
def test_odd_constructors_are_named(call, error, message, make_envs):
    assert_refused(call, error, message, make_envs)


@refusals(
    refusal(
        lambda: MetaParallelEnvExecutor(CountingEnv, 2, workers=0),
        ValueError,
        "workers must be a ...got 0",
    ),
    refusal(
        lambda: MetaParallelEnvExecutor(CountingEnv, 2, context="thread"), ValueError, "...'thread'"
    ),
    refusal(
        lambda: MetaParallelEnvExecutor([CountingEnv, threading.Lock().locked], 2),
        TypeError,
        "...must be picklable",
    ),
    refusal(
        lambda: make_vec("PointGoal", wrokers=2),
        TypeError,
        "...argument 'wrokers': did you mean 'workers'?",
    ),
    refusal(
        lambda: make_vec("PointGoal", workers=2, ray_options={}), ValueError, "parallel ...got {}"
    ),
    refusal(
        lambda: MetaIterativeEnvExecutor(CountingEnv, 2, workers=2),
        ValueError,
        "iterative execution takes no workers, got 2: leave it out, or choose parallel or ray",
    ),
    refusal(
        lambda: as_vector("CartPole-v1", execution="iterative", ray_options={"num_cpus": 2}),
        ValueError,
        "iterative execution takes no ray_options, got {'num_cpus': 2}: ... choose ray execution",
    ),
    refusal(
        lambda: as_vector("CartPole-v1", execution="ray", ray_options=0),
        TypeError,
        "ray_options must be a dict, got 0",
    ),
    refusal(
        lambda: as_vector("CartPole-v1", execution="ray", context="spawn"),
        ValueError,
        "ray execution takes no context, got 'spawn': ... choose parallel or iterative execution",
    ),
    refusal(
        lambda: as_vector("CartPole-v1").call(3),
        TypeError,
        "...expected the name of a method or attribute, or a function of an environment, got 3",
    ),
    refusal(
        lambda: as_vector([]),
        ValueError,
        "env_fns must name at least one environment, got an empty list",
    ),
    refusal(
        lambda: as_vector(3),
        TypeError,
        "entry 0 of env_fns must be an id, a spec or a function that makes an ",
    ),
    refusal(
        lambda: as_vector([CountingEnv, CountingEnv()]),
        TypeError,
        "...; pass a function that makes it",
    ),
    refusal(
        lambda: as_vector(counting_makers(2), 3),
        ValueError,
        "env_fns has 2 tasks: num_envs must be a multiple of 2 (2, 4",
    ),
    refusal(
        lambda: as_vector("CartPole-v1", worker=2), TypeError, "...argument 'worker': did you mean"
    ),
)
def test_odd_arguments_of_workers_are_named(call, error, message):
    assert_refused(call, error, message)


@refusals(
    refusal(
        lambda envs: envs.reset(seed=[1]),
        ValueError,
        "expected 2 seeds, one per environment, got 1",
    ),
    refusal(
        lambda envs: envs.reset(options="x"), TypeError, "options must be a dict or None, got 'x'"
    ),
    refusal(
        lambda envs: envs.reset(options=[{"task_state": 3}] * 2),
        TypeError,
        'options must be a dict or None, got [...: for ...pass {"env_options": [...]}',
    ),
    refusal(
        lambda envs: envs.reset(options={"reset_mask": np.ones(2, int)}),
        TypeError,
        "...bool array, got one of int64",
    ),
    refusal(
        lambda envs: envs.reset(options={"reset_mask": np.array([True])}),
        ValueError,
        "...shape (2,), got (1,)",
    ),
    refusal(
        lambda envs: envs.reset(options={"reset_mask": np.zeros(2, bool)}),
        ValueError,
        "...at least one ..., got [False",
    ),
    refusal(
        lambda envs: envs.reset(options={"env_options": [{}]}),
        ValueError,
        "...with 2 dicts or None, got [{}]",
    ),
    refusal(
        lambda envs: envs.reset(options={"reset_mask": [True] * 2}),
        TypeError,
        "reset_mask must be a bool ...got [True",
    ),
    refusal(
        lambda envs: envs.reset(options={"env_options": [{}, 3]}),
        TypeError,
        "env_options of environment 1 ...got 3",
    ),
    refusal(
        lambda envs: envs.reset(options={"envs_options": []}),
        ValueError,
        "...['env_options', 'reset_mask'], got...",
    ),
    refusal(
        lambda envs: envs.set_tasks([1, 2, 3]),
        ValueError,
        "expected 2 tasks, one for each group of 1 ..., got 3",
    ),
    refusal(
        lambda envs: envs.set_tasks(np.array(1)),
        ValueError,
        "expected a list of 2 tasks, one for each group of 1 ..., got array(1)",
    ),
    refusal(
        lambda envs: as_vector("mtwrappers/PointGoal-v0", 4).set_tasks([0] * 4),
        ValueError,
        "expected 1 task, one for each group of 4 environments, got 4; as_vector([id] * 4) has a",
    ),
    refusal(
        lambda envs: gymnasium.make_vec("mtwrappers/MultiEnv-v0").set_tasks([{"goal": 1}] * 2),
        ValueError,
        "environment 0: task state must be an integer in [0, 1], an index of its tasks, got "
        "{'goal': 1}; only environments with the method set_task take the task itself",
    ),
    refusal(
        lambda envs: envs.set_tasks([0, 1]),
        AttributeError,
        "environment 0 has neither set_task nor set_task_state, nor have the others: set_tasks",
    ),
    refusal(
        lambda envs: as_vector([TwoTasks, CountingEnv, TwoTasks], 3).set_tasks([0, 1, 0]),
        AttributeError,
        "environment 1 has no set_task_state, which others have: set_tasks needs",
    ),
    refusal(
        lambda envs: as_vector([CountingSetTaskEnv, TwoTasks], 2).set_tasks([0, 1]),
        AttributeError,
        "environment 1 has no set_task, which others have: set_tasks needs",
    ),
    refusal(
        lambda envs: step_cartpole(np.zeros(2)),
        AssertionError,
        "environment 0: actions in Discrete(2) must be integers, got float64: convert them with "
        "actions.astype(np.int64): ... invalid",
    ),
    refusal(
        lambda envs: step_cartpole(np.array([2, 2])),
        AssertionError,
        "environment 0: np.int64(2) ... invalid",
    ),
    refusal(
        lambda envs: envs.set_attr("first", (1, 2, 3)),
        ValueError,
        "expected 2 values, one per environment, got 3",
    ),
    refusal(
        lambda envs: envs.pause(np.ones(3, bool)),
        ValueError,
        "expected a mask of shape (2,) and dtype bool, got ...",
    ),
    refusal(lambda envs: envs.map_blocks(3), TypeError, "function must be callable, got 3"),
    refusal(
        lambda envs: envs.get_state(),
        RuntimeError,
        "...needs its journal: make it with journal=True, or on_worker_failure='recover'",
    ),
    refusal(
        lambda envs: envs.get_attr("nope"),
        AttributeError,
        "environment 0: <CountingEnv instance> has no method or attribute 'nope'",
    ),
    refusal(
        lambda envs: envs.call("observation_spce"),
        AttributeError,
        "environment 0: <CountingEnv ...: did you mean 'observation_space'",
    ),
    refusal(
        lambda envs: envs.set_taks,
        AttributeError,
        "'Meta...Executor' object has no attribute 'set_taks'",
    ),
    refusal(
        lambda envs: envs.call("reset"),
        ValueError,
        "call reset() of the vector environment",
    ),
    refusal(
        lambda envs: envs.get_attr("close"),
        ValueError,
        "call close() of the vector environment",
    ),
    refusal(
        lambda envs: envs.set_state(None),
        TypeError,
        "a state must be a dict, got None",
    ),
)
def test_odd_uses_are_named_and_leave_the_environments_usable(call, error, message, envs):
    envs.reset(seed=0)
    seeds_before = envs.get_attr("seeds")
    assert_refused(call, error, message, envs)
    assert envs.get_attr("seeds") == seeds_before  # nothing was reset
    envs.reset(seed=0)
    assert envs.step([0, 0])[0].tolist() == [[1, 1], [101, 101]]
