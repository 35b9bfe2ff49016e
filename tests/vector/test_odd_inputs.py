"""Odd calls of executors and of their adapters: each names what was expected and what came."""

import contextlib

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import EzPickle

import mtwrappers
from mtwrappers.vector.make import make_executor
from tests.fakes import CountingEnv, counting_makers
from tests.mixed_envs import ARMS, ArmEnv
from tests.odd_inputs import NAMES, check, lines
from tests.vector.fakes import EXECUTORS


class Base(CountingEnv, EzPickle):
    def __init__(self, length, first):
        CountingEnv.__init__(self, length, first=first)
        EzPickle.__init__(self, length, first)


class Derived(Base):
    """Its copies are made with the arguments of the base class."""

    def __init__(self):
        super().__init__(3, 5)


# Of both executors.
CONSTRUCTED = """
executor("CartPole-v1", 2) -> TypeError: expected a constructor, ... or a ...got 'CartPole-v1'
executor(counting(3), 2) -> ValueError: expected 2 constructors (one per task) or 2 (one ...got 3
executor(gymnasium.Env, 2) -> TypeError: environment 0 must have an observation_space, <
executor([CountingEnv, lambda: 3], 2) -> TypeError: the constructor of environment 1 must ...got 3
executor(Odd(info={"lock": threading.Lock()}), 2) -> TypeError: an environment must be picklable to
executor(Derived(), 2) -> TypeError: ...but unpickling <Derived instance> failed ...its constru
executor([CountingEnv, partial(CountingEnv, obs_size=3)], 2) -> DifferentSpacesError: environ
executor([CountingEnv, partial(CountingEnv, num_actions=5)], 2) -> DifferentSpacesError: environ
executor(CountingEnv, 2, autoreset_mode="same_step") -> ValueError: ...got 'same_step'
executor(CountingSetTaskEnv, 2).set_tasks([{"first": 7}, "b"]) -> ValueError: environment 1: a task 
executor(CountingEnv, 2, wrokers=3) -> TypeError: ...'wrokers': did you mean 'workers'
executor([CountingEnv, partial(CountingEnv, high=5)], 2) -> DifferentSpacesError: ...; unify='pad' m
executor([CountingEnv, Spacious], 2) -> DifferentSpacesError: environment 1 has another observation 
executor([ArmEnv, partial(ArmEnv, bound=2.0)], 2) -> DifferentSpacesError: ...RescaleAction(env, -1,
executor(ARMS, 3) -> DifferentSpacesError: environment 1 has another observation ...unify='pad' make
executor(ARMS, 3, unify={"observation_size": 4}) -> ValueError: environment 1 has ..., expected at m
executor(ARMS, 3, unify={"action_size": 3}) -> ValueError: environment 2 has ...at most 3 entries
executor(TaskOnehotWrapper.wrap_env_cons_list(ARMS), 3, unify="pad") -> ValueError: ...PadSpaces(env
executor([ArmEnv, CountingEnv], 2, unify="pad") -> TypeError: ...space of environment 1 ...Transform
executor([ArmEnv, partial(ArmEnv, bound=2.0)], 2, unify="pad") -> ValueError: ...RescaleAction(env,
"""

WORKERS = """
MetaParallelEnvExecutor(CountingEnv, 2, workers=0) -> ValueError: workers must be a ...got 0
MetaParallelEnvExecutor(CountingEnv, 2, context="thread") -> ValueError: ...'thread'
MetaParallelEnvExecutor([CountingEnv, threading.Lock().locked], 2) -> TypeError: ...must be pickla
make_vec("PointGoal", wrokers=2) -> TypeError: ...argument 'wrokers': did you mean 'workers'?
make_vec("PointGoal", workers=2, ray_options={}) -> ValueError: parallel ...got {}
MetaIterativeEnvExecutor(CountingEnv, 2, workers=2) -> ValueError: iterative execution has no worker
as_vector([]) -> ValueError: env_fns must name at least one environment, got an empty list
as_vector(3) -> TypeError: entry 0 of env_fns must be an id, a spec or a function that makes an 
as_vector([CountingEnv, CountingEnv()]) -> TypeError: ...; pass a function that makes it
as_vector(counting(2), 3) -> ValueError: env_fns has 2 tasks: num_envs must be a multiple of 2 (2, 4
as_vector("CartPole-v1", worker=2) -> TypeError: ...argument 'worker': did you mean
"""

# Of one executor of each kind, which can be used as before after each.
USES = """
envs.reset(seed=[1]) -> ValueError: expected 2 seeds, one per environment, got 1
envs.reset(options="x") -> TypeError: options must be a dict or None, got 'x'
envs.reset(options={"reset_mask": np.ones(2, int)}) -> TypeError: ...bool array, got one of int64
envs.reset(options={"reset_mask": np.array([True])}) -> ValueError: ...shape (2,), got (1,)
envs.reset(options={"reset_mask": np.zeros(2, bool)}) -> ValueError: ...at least one ..., got [False
envs.reset(options={"env_options": [{}]}) -> ValueError: ...with 2 dicts or None, got [{}]
envs.reset(options={"reset_mask": [True] * 2}) -> TypeError: reset_mask must be a bool ...got [True
envs.reset(options={"env_options": [{}, 3]}) -> TypeError: env_options of environment 1 ...got 3
envs.reset(options={"envs_options": []}) -> ValueError: ...['env_options', 'reset_mask'], got...
envs.set_tasks([1, 2, 3]) -> ValueError: expected 2 tasks, one for each group of 1 ..., got 3
envs.set_tasks([0, 1]) -> AttributeError: environment 0: ...set_task_state
envs.set_attr("first", (1, 2, 3)) -> ValueError: expected 2 values, one per environment, got 3
envs.pause(np.ones(3, bool)) -> ValueError: expected a mask of shape (2,) and dtype bool, got ...
envs.map_blocks(3) -> TypeError: function must be callable, got 3
envs.get_state() -> RuntimeError: ...needs its journal: make it with journal=True, or on_worker_f
envs.get_attr("nope") -> AttributeError: environment 0: 'CountingEnv' object has no attribute 'nope'
envs.call("reset", nope=1) -> TypeError: environment 0: ...got an unexpected keyword argument 'nope'
"""

# Of every adapter, and of what Stable-Baselines3 is given, which can be used as before after each.
ADAPTED = """
adapt(None) -> TypeError: expected a MetaVectorEnv, such as gymnasium.make_vec ...got NoneType
adapt(SyncVectorEnv(counting(2))) -> TypeError: expected a MetaVectorEnv, ...got SyncVectorEnv
adapt(ClipReward(three(), 0, 1)) -> TypeError: expected a MetaVectorEnv, ...got ClipReward
adapt(closed()) -> ClosedEnvironmentError: ...an open vector env...was closed
adapt(three(autoreset_mode="NextStep")) -> ValueError: ...autoreset_mode='SameStep', got 'NextStep'
"""
SB3 = """
as_sb3_vec_env(three(autoreset_mode="Disabled")) -> ValueError: Stable-Base...got 'Disabled'
venv.get_attr("nothing") -> AttributeError: ...nothing
venv.step(np.zeros(2, np.int64)) -> ValueError: ...got ndarray of shape (2,)
venv.step(np.zeros((3, 1))) -> ValueError: expected actions of shape
venv.step_wait() -> NoAsyncCallError: ...needs a step_async
as_sb3_vec_env(three()).step(np.zeros(3, np.int64)) -> ResetNeeded: ...call reset
do(as_sb3_vec_env(three()), "close()", "reset()") -> ClosedEnvironmentError: ...was closed
"""


class Spacious(CountingEnv):
    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Dict(a=self.observation_space)


@pytest.fixture(scope="module", params=EXECUTORS.values(), ids=EXECUTORS)
def executor(request):
    return request.param


@pytest.fixture(scope="module")
def envs(executor):
    with contextlib.closing(executor(counting_makers(2), 2)) as envs:
        yield envs


@pytest.fixture(scope="module")
def venv():
    pytest.importorskip("stable_baselines3")
    with contextlib.closing(mtwrappers.as_sb3_vec_env(NAMES["three"]())) as venv:
        yield venv


@lines(CONSTRUCTED)
def test_odd_executors_do_too(line, executor):
    check(line, executor=executor, ARMS=ARMS, ArmEnv=ArmEnv, Spacious=Spacious, Derived=Derived)


@lines(WORKERS)
def test_odd_arguments_for_workers_do_too(line):
    check(line, make_executor=make_executor)


@lines(USES)
def test_odd_uses_of_an_executor_do_too_and_leave_it_usable(line, envs):
    envs.reset(seed=0)
    before = envs.get_attr("seeds")
    check(line, envs=envs)
    assert envs.get_attr("seeds") == before  # nothing was reset
    envs.reset(seed=0)
    assert envs.step([0, 0])[0].tolist() == [[1, 1], [101, 101]]


@pytest.mark.parametrize("adapt", [mtwrappers.as_sb3_vec_env, mtwrappers.as_torchrl_env])
@lines(ADAPTED)
def test_what_adapters_cannot_use_is_named(line, adapt):
    check(line, adapt=adapt)


@lines(SB3)
def test_odd_uses_of_a_vec_env_are_named_and_leave_it_usable(line, venv):
    venv.reset()
    check(line, venv=venv)
    venv.reset()
    assert venv.step(np.zeros(3, np.int64))[1].tolist() == [1, 1, 1]
    assert venv.get_attr("first") == [0, 100, 200]
