"""Environments that fail on purpose, and the calls that executors over them must survive."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import CountingEnv, equal


class FragileEnv(CountingEnv):
    """Does something terrible when it is asked to.

    Action 1, ``reset(options={"fault": ...})`` and `run_fault` run ``fault``. `set_task` says where
    to count from, `toggle_double` doubles the rewards, and infos carry the ``name`` of the task.
    """

    def __init__(self, first=0, length=4, name="a", fault=None):
        super().__init__(length, first=first)
        self.name, self.fault, self.double = name, fault, False

    def reset(self, *, seed=None, options=None):
        if options and "fault" in options:
            self.run_fault()
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if action == 1:
            self.run_fault()
        obs, reward, *ends_and_info = super().step(action)
        return obs, 2 * reward if self.double else reward, *ends_and_info

    def run_fault(self):
        return self.fault() if self.fault is not None else "no fault"

    def set_task(self, task):
        self.first = task

    def toggle_double(self, on):
        self.double = on

    def _info(self):
        return super()._info() if self.name is None else {**super()._info(), "task_name": self.name}


class BulkyEnv(FragileEnv):
    """Reports much."""

    def _info(self):
        return {"bulk": np.zeros(500_000), "draw": self.draw}


def fragile_makers(n: int = 4, **kwargs: Any) -> list[partial[FragileEnv]]:
    """Constructors of environments that count from 0, 100, ..., tasks "a" and "b" by turns of 2."""
    return [
        partial(FragileEnv, **{"first": 100 * i, "name": "abcd"[i // 2], **kwargs})
        for i in range(n)
    ]


# Faults of a fragile environment.


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(100)


def break_a_leg(delay: float = 0) -> None:
    time.sleep(delay)
    raise ZeroDivisionError("a leg")


def once(path: Path, fault: Callable[[], Any]) -> Any:
    """Runs a fault the first time only, in whichever process; ``path`` is a file that marks it."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return "not again"
    return fault()


def unless_first(path: Path, fault: Callable[[], Any]) -> None:
    """Runs a fault from the second time on, in whichever process."""
    if path.exists():
        fault()
    path.touch()


NO_ACTIONS = np.zeros(4, dtype=np.int64)
# Environment 2, the first of worker 1 and of task 1, runs its fault.
FAULT = np.array([0, 0, 1, 0])
# A call of each method, with its arguments, for an executor of four environments.
METHOD_CALLS: list[tuple[Any, ...]] = [
    ("reset",),
    ("step", NO_ACTIONS),
    ("call", "first"),
    ("set_attr", "first", 3),
    ("set_tasks", [1, 2]),
    ("render",),
]
# Calls in which the environments that have a fault run it.
faulty_calls = pytest.mark.parametrize(
    ("method", "kwargs"),
    [
        ("step", {"actions": np.ones(4, np.int64)}),
        ("reset", {"options": {"fault": True}}),
        ("call", {"name": "run_fault"}),
    ],
    ids=["step", "reset", "call"],
)


def fail(error: type[Exception], *args: Any) -> NoReturn:
    raise error(*args)


def parallel(makers: Any = None, m: int = 2, k: int = 2, **kwargs: Any) -> MetaParallelEnvExecutor:
    """Four fragile environments on two workers: environment 2 is the first of worker 1."""
    kwargs = {"workers": 2, "context": "fork", **kwargs}
    return MetaParallelEnvExecutor(makers or fragile_makers(), m, k, **kwargs)


recovering = partial(parallel, on_worker_failure="recover")
loses_workers = pytest.mark.filterwarnings("ignore:.*starting a replacement")


def kill(envs: MetaParallelEnvExecutor, worker: int) -> None:
    os.kill(envs.worker_pids[worker], signal.SIGKILL)


def run_steps(
    envs: Any, actions: Any, before_step: Callable[[int], Any] = lambda t: None
) -> list[Any]:
    """Returns the results of these steps, and of the resets that the mode asks for."""
    results = []
    for t, action in enumerate(actions):
        before_step(t)
        results.append(envs.step(action))
        ended = results[-1][2] | results[-1][3]
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            results.append(envs.reset(options={"reset_mask": ended}))
    return results


def assert_same_episode(envs: Any, oracle: Any, steps: int = 6, seed: int = 5) -> None:
    """Requires that both return the same from a reset on, for some steps."""
    actions = np.zeros((steps, envs.num_envs), dtype=np.int64)
    assert equal(envs.reset(seed=seed), oracle.reset(seed=seed))
    assert equal(run_steps(envs, actions), run_steps(oracle, actions))


@contextmanager
def open_beside_oracle(
    make_envs: Callable[..., Any],
    makers: Any,
    oracle_makers: Any = None,
    recoveries: int = 1,
    **kwargs: Any,
) -> Iterator[tuple[Any, Any]]:
    """Opens an executor that recovers, and an oracle without workers over the same tasks.

    Args:
        make_envs: Makes the executor.
        makers: The constructors of its environments.
        oracle_makers: Those of the oracle, if they are others.
        recoveries: How many workers the executor must have lost in the end.
        kwargs: Passed to both.
    """
    with (
        closing(make_envs(makers, **kwargs)) as envs,
        closing(MetaIterativeEnvExecutor(oracle_makers or makers, 2, 2, **kwargs)) as oracle,
    ):
        yield envs, oracle
        assert envs.recoveries == recoveries


def assert_same_result(envs: Any, oracle: Any, method: str, *args: Any, **kwargs: Any) -> None:
    """Requires that a method of both returns the same."""
    actual = getattr(envs, method)(*args, **kwargs)
    expected = getattr(oracle, method)(*args, **kwargs)
    assert equal(actual, expected)
