"""Environments that raise: every error names the environment, and the executor goes on."""

import os
import sys
import threading
import time
import traceback
import types
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import NamespaceNotFound, ResetNeeded
from gymnasium.spaces import Discrete, Tuple
from gymnasium.vector import SyncVectorEnv

from mtwrappers import as_vector
from mtwrappers.common.errors import WorkerTraceback
from tests.fakes import equal
from tests.vector.fakes import all_modes, both_executors
from tests.vector.faults import (
    FAULT,
    NO_ACTIONS,
    FragileEnv,
    assert_same_episode,
    break_a_leg,
    fail,
    faulty_calls,
    fragile_makers,
    kill,
    parallel,
)
from tests.vector.processes import PATIENCE, needs_proc

pytestmark = needs_proc


class LockedError(Exception):
    """Can be made from a string, and does not pickle."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class TwoPartError(Exception):
    """Cannot be made from one string."""

    def __init__(self, problem: str, place: str) -> None:
        super().__init__(f"{problem} at {place}")


def format_traceback(exc):
    """Returns the traceback of an exception, which may have been raised in a worker."""
    if isinstance(exc.__cause__, WorkerTraceback):
        assert str(exc.__cause__).startswith("\nTraceback (most recent call last)")
        return str(exc.__cause__)
    return "".join(traceback.format_exception(exc))


@pytest.mark.usefixtures("leaves_nothing_behind")
@both_executors
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((KeyError, "door"), "'door'"),
        ((FileNotFoundError, 2, "No such file", "brick"), r"\[Errno 2\] No such file: 'brick'"),
        ((TwoPartError, "a", "b"), "a at b"),
        ((LockedError, "x"), "x"),
    ],
    ids=["KeyError", "OSError", "two parts", "unpicklable"],
)
@pytest.mark.slow_but("KeyError", "unpicklable-parallel")
def test_any_exception_arrives_with_its_environment(executor, args, message):
    fault = partial(fail, *args)
    note = "the constructor of environment 3 failed"
    with pytest.raises(args[0], match=f"^{message}\n{note}$") as exc_info:
        executor([*fragile_makers(3), fault], 2, 2)
    assert ", in fail\n" in format_traceback(exc_info.value)
    assert getattr(exc_info.value, "filename", "brick") == "brick"
    with closing(executor(fragile_makers(fault=fault), 2, 2)) as envs:
        envs.reset(seed=0)
        with pytest.raises(args[0], match=f"^{message}\nenvironment 2, task 'b'$"):
            envs.step(FAULT)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
@pytest.mark.slow_but("spawn")
def test_an_id_that_workers_do_not_know_is_named_with_the_way_out(context):
    gymnasium.register("Local/Mine-v0", FragileEnv)
    advice = r"only the ids that its imports register: .* 'my_module:My/Env-v0', .*context='fork'"
    kwargs = {"workers": 2, "context": context}
    try:
        with pytest.raises(
            NamespaceNotFound, match=f"^Namespace Local not found.*\n(.*\n)*.*{advice}"
        ):
            as_vector(partial(gymnasium.make, "Local/Mine-v0"), 2, **kwargs)
        as_vector("Local/Mine-v0", 2, **kwargs).close()  # which sends its spec
    finally:
        del gymnasium.registry["Local/Mine-v0"]


@both_executors
@all_modes
@faulty_calls
@pytest.mark.slow_but(
    "iterative",
    "reset-SameStep-parallel",
    "step-NextStep-parallel",
    "call-Disabled-parallel",
)
def test_a_use_that_raises_is_named_and_the_executor_goes_on(executor, mode, method, kwargs):
    makers = fragile_makers()
    makers[2] = partial(makers[2], fault=break_a_leg)
    with (
        closing(executor(makers, 2, 2, autoreset_mode=mode)) as envs,
        closing(SyncVectorEnv(makers, autoreset_mode=mode)) as oracle,
    ):
        for steps_before in 0, 3:
            envs.reset(seed=9)
            for _ in range(steps_before):
                envs.step(NO_ACTIONS)
            message = "^a leg\nenvironment 2, task 'b'$"
            with pytest.raises(ZeroDivisionError, match=message) as exc_info:
                getattr(envs, method)(**kwargs)
            assert ", in break_a_leg\n" in format_traceback(exc_info.value)
            assert envs.closed is False
            if method != "call":  # the other environments are ahead by now
                with pytest.raises(ResetNeeded, match="reset"):
                    envs.step(NO_ACTIONS)
                with pytest.raises(ResetNeeded, match="reset"):
                    envs.reset(options={"reset_mask": np.array([True, False, False, False])})
            assert_same_episode(envs, oracle)


class OddInfoEnv(FragileEnv):
    """Reports what its fault returns where it is stepped with action 1."""

    def step(self, action):
        *result, info = super().step(0)
        return *result, {**info, "odd": self.fault()} if action else info


@pytest.fixture
def make_envs():
    """Makes executors with workers; ``test_ray.py`` makes others."""
    return parallel


ANSWER = r"cannot .*\nthe answer of environments 2 to 3 to "


@pytest.mark.parametrize(
    ("method", "args", "length", "message"),
    [
        ("step", [FAULT], 2, rf"{ANSWER}step\(\)$"),
        ("step", [FAULT], 1, rf"{ANSWER}step\(\)$"),  # the last info of an episode
        ("call_some", [[2], "run_fault"], 2, rf"{ANSWER}call\(\)$"),
        ("map_blocks", [threading.Lock().locked], 2, r"a function must be picklable .*is not \("),
    ],
)
def test_what_does_not_pickle_is_one_error_that_says_whose(
    make_envs, method, args, length, message
):
    makers = [partial(OddInfoEnv, 100 * i, length, fault=threading.Lock) for i in range(4)]
    with (
        closing(make_envs(makers)) as envs,
        closing(SyncVectorEnv(makers, autoreset_mode="SameStep")) as oracle,
    ):
        envs.reset(seed=0)
        with pytest.raises(TypeError, match=message):
            getattr(envs, method)(*args)
        assert_same_episode(envs, oracle)


def test_what_a_worker_cannot_import_is_an_error_and_costs_no_worker(make_envs, monkeypatch):
    module = types.ModuleType("only_here")
    exec("def look(env): ...", module.__dict__)
    with closing(make_envs()) as envs:
        envs.reset(seed=0)
        # After the workers were forked.
        monkeypatch.setitem(sys.modules, "only_here", module)
        message = r"a worker on .* cannot import what it was given: No module .*'only_here'"
        with pytest.raises(ModuleNotFoundError, match=message):
            envs.call(module.look)
        envs.reset(seed=0)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4


class StuckEnv(FragileEnv):
    def close(self):
        raise OSError("the door is stuck")


@pytest.mark.usefixtures("leaves_nothing_behind")
def test_an_environment_that_cannot_be_closed_is_a_warning_at_once(monkeypatch):
    monkeypatch.setattr("mtwrappers.vector.workers.CLOSE_TIMEOUT", 100)
    envs = parallel([FragileEnv, FragileEnv, StuckEnv, FragileEnv])
    envs.reset(seed=0)
    start_time = time.monotonic()
    with pytest.warns(UserWarning, match="closed, environment 2, task 'a': the door is stuck"):
        envs.close()
    assert time.monotonic() - start_time < PATIENCE
    assert envs.closed is True


# What cannot be sent, and answers that cannot be read.


@pytest.mark.usefixtures("leaves_nothing_behind")
@pytest.mark.parametrize(
    ("method", "kwargs"),
    [
        ("reset", {"options": {"lock": threading.Lock()}}),
        ("call", {"name": "set_task", "task": threading.Lock()}),
        ("set_attr", {"name": "first", "values": threading.Lock()}),
        ("set_tasks", {"tasks": [0, threading.Lock()]}),
    ],
)
def test_an_argument_that_cannot_be_sent_changes_nothing_and_the_next_call_works(method, kwargs):
    with closing(parallel(timeout=100)) as envs:
        envs.reset(seed=0)
        pids, start_time = envs.worker_pids, time.monotonic()
        with pytest.raises(TypeError, match=r"cannot pickle '_thread.lock' object"):
            getattr(envs, method)(**kwargs)
        assert envs.get_attr("first") == (0, 100, 200, 300)
        envs.reset(seed=0)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4
        assert envs.worker_pids == pids
        assert time.monotonic() - start_time < PATIENCE


class WorkerOnlyObject:
    """Can be unpickled in the process that has pickled it, and raises in any other."""

    def __reduce__(self):
        return unpickle_in_process, (os.getpid(),)


def unpickle_in_process(pid):
    if os.getpid() != pid:
        raise ImportError("only workers have this module")
    return WorkerOnlyObject()


@both_executors
def test_an_answer_that_cannot_be_read_is_a_failure_of_its_command_alone(executor):
    makers = fragile_makers()
    makers[2] = partial(makers[2], fault=WorkerOnlyObject)
    with closing(executor(makers, 2, 2, journal=True)) as envs:
        envs.reset(seed=0)
        if envs.num_workers:
            message = r"environments 2 to 3 to call\(\) cannot be read here"
            with pytest.raises(ImportError, match=message):
                envs.call("run_fault")
        else:
            envs.call("run_fault")
        assert envs.get_attr("first") == (0, 100, 200, 300)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4


class PairEnv(FragileEnv):
    """Is given two actions, of which it uses the first."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.action_space = Tuple((Discrete(2), Discrete(2)))

    def step(self, action):
        return super().step(action[0])


@pytest.mark.filterwarnings("ignore:.*starting a replacement")
def test_a_step_that_a_worker_cannot_import_is_not_repeated_in_its_replacement():
    actions = (NO_ACTIONS, NO_ACTIONS)
    with closing(parallel([PairEnv] * 4, on_worker_failure="recover")) as envs:
        expected = envs.reset(seed=0), envs.step(actions)
        with pytest.raises(ImportError, match=r"a worker on .* cannot import what"):
            envs.step(((0, 0, WorkerOnlyObject(), 0), NO_ACTIONS))
        kill(envs, 1)
        assert equal((envs.reset(seed=0), envs.step(actions)), expected)


class StatelessWhileBrokenEnv(FragileEnv):
    """Raises in a step with action 1; its state cannot be read from then on."""

    broken = False

    def step(self, action):
        self.broken = action == 1
        if self.broken:
            raise ValueError("the physics exploded")
        return super().step(action)

    def get_state(self):
        if self.broken:
            raise RuntimeError("no state while broken")
        return {}

    def set_state(self, state):
        """Has none."""


@both_executors
def test_a_state_that_cannot_be_read_after_a_failure_is_an_error_at_once(executor):
    with closing(executor([StatelessWhileBrokenEnv] * 2, 2, journal=True, timeout=100)) as envs:
        envs.reset(seed=0)
        start_time = time.monotonic()
        with pytest.raises(ValueError, match="the physics exploded") as exc_info:
            envs.step([0, 1])
        note = "its state could not be read: environment 1, task 'a'"
        assert note in format_traceback(exc_info.value)
        with pytest.raises(RuntimeError, match="no state while broken\nenvironment 1"):
            envs.reset(seed=0)
        assert envs.get_attr("broken") == (False, True)
        assert time.monotonic() - start_time < PATIENCE


@both_executors
def test_an_environment_that_cannot_be_closed_is_a_warning_everywhere(executor):
    envs = executor([FragileEnv, StuckEnv], 2)
    with pytest.warns(UserWarning, match="closed, environment 1: the door is stuck"):
        envs.close()
    assert envs.closed is True


class UnreadableEndEnv(FragileEnv):
    """Reports an object that only its worker can import, in the last info of an episode."""

    def step(self, action):
        *result, info = super().step(action)
        return *result, {**info, "odd": WorkerOnlyObject()} if result[2] else info


@pytest.mark.parametrize("journal", [False, True])
def test_infos_that_cannot_be_read_fail_one_step_whoever_was_reset_in_it(journal):
    makers = [partial(UnreadableEndEnv, length=n) for n in (2, 9)]
    with closing(parallel(makers, 2, 1, workers=1, journal=journal)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        with pytest.raises(ImportError, match=r"environments 0 to 1 to step\(\) cannot be read"):
            envs.step([0, 0])
        assert envs.reset(seed=0)[0][:, 0].tolist() == [0, 0]
        assert envs.step([0, 0])[1].tolist() == [1.0, 1.0]


def call_with_what_only_workers_have(envs, rows):
    envs.call("set_task", WorkerOnlyObject())


# Python 3.12 warns of every fork beside other threads.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_notes_that_cannot_be_read_cost_the_worker_and_are_no_one_elses_failure():
    with closing(parallel(on_worker_failure="recover")) as envs:
        envs.reset(seed=0)
        with pytest.raises(ImportError, match="cannot be read here"):
            envs.map_blocks(call_with_what_only_workers_have)
        message = "worker 0 was ended, because its last answer could not be read, with.*replacement"
        with pytest.warns(UserWarning, match=message):
            envs.reset(seed=0)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [1, 101, 201, 301]
