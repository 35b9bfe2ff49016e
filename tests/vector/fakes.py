"""Environments that fail on purpose, nested ones, and ways to look at processes."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import gc
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.spaces import Sequence as SequenceSpace
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import CountingEnv, equal

EXECUTORS: dict[str, Callable[..., Any]] = {
    "iterative": MetaIterativeEnvExecutor,
    "parallel": partial(MetaParallelEnvExecutor, workers=2, context="fork"),
}
both_executors = pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
all_modes = pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


def exact(message: str) -> str:
    """A pattern that matches this text."""
    return re.escape(message)


class BoxCountingEnv(CountingEnv):
    """A `CountingEnv` whose actions are two floats."""

    def __init__(self, length: int = 3, **kwargs: Any) -> None:
        super().__init__(length, **kwargs)
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)


class NestedEnv(gymnasium.Env):
    """Observations in a dict of a tuple of a dict, and infos that look different at every step."""

    def __init__(self, length: int) -> None:
        self.observation_space = Dict(
            {
                "count": Box(0, 100, (2, 3), np.float32),
                "parts": Tuple(
                    (
                        Discrete(50, start=3),
                        MultiBinary(3),
                        Dict({"grid": MultiDiscrete([50, 50]), "one": Box(0, 99, (), np.int16)}),
                    )
                ),
            }
        )
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.length = length
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.draw = int(self.np_random.integers(9))
        return self._obs(), self._info()

    def step(self, action):
        self.steps += 1
        reward = float(self.steps + action[0])
        return self._obs(), reward, self.steps >= self.length, False, self._info()

    def _obs(self):
        n = self.steps
        return {
            "count": np.arange(6, dtype=np.float32).reshape(2, 3) + n + self.draw,
            "parts": (
                np.int64(3 + n),
                np.array([n & 1, n & 2, n & 4], dtype=bool).astype(np.int8),
                {"grid": np.array([n, 2 * n]), "one": np.array(n, np.int16)},
            ),
        }

    def _info(self):
        n = self.steps
        return [
            {},
            {"n": n, "half": n / 2, "flag": n > 2, "word": "step"},
            {"n": n, "half": n / 2, "flag": n > 2, "word": "another"},
            {"wide": np.uint64(2**63 + n), "small": np.int8(-n)},
            {"array": np.arange(3) * n, "n": np.float32(n)},
            {"inner": {"n": n, "deep": {"word": "x", "array": np.eye(2) * n}}, "list": [n, None]},
            {"n": float(n), "nothing": None, "wide": np.uint64(2**63 + n), "true": np.bool_(True)},
        ][(n + self.length) % 7]


class WordEnv(gymnasium.Env):
    """Observes a text; an action is a tuple. Neither goes into an array."""

    def __init__(self, length: int) -> None:
        self.observation_space = Text(9, charset="abcdefghij")
        self.action_space = Tuple((Discrete(3), Box(-1.0, 1.0, (2,), np.float32)))
        self.length = length
        self.word = "a"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.word = "abc"[int(self.np_random.integers(3))]
        return self.word, {"word": self.word}

    def step(self, action):
        letter, numbers = action
        self.word += "abc"[int(letter)]
        over = len(self.word) > self.length
        return self.word, float(numbers[0]), over, False, {"word": self.word}


class BagEnv(gymnasium.Env):
    """Observes a sequence of arrays, one more at every step, in arrays that are never reused."""

    def __init__(self, length: int) -> None:
        self.observation_space = SequenceSpace(Box(0.0, 99.0, (2,), np.float32))
        self.action_space = Discrete(2)
        self.length = length
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return self._obs(), 1.0, self.steps >= self.length, False, {}

    def _obs(self):
        return tuple(np.full(2, i, np.float32) for i in range(self.steps + 1))


class FragileEnv(gymnasium.Env):
    """Counts steps from ``first``, and does something terrible when it is asked to.

    Action 1, ``reset(options={"fault": ...})`` and `run_fault` run ``fault``. `set_task` says where
    to count from, and `toggle_double` doubles the rewards. Infos carry a number drawn at the last
    reset and the name of the task.

    Args:
        first: Where to count from.
        length: After how many steps an episode ends.
        name: The name of the task.
        fault: What to do.
    """

    def __init__(
        self,
        first: int = 0,
        length: int = 4,
        name: str | None = "a",
        fault: Callable[[], Any] | None = None,
    ) -> None:
        self.observation_space = Box(-1, 10_000, (2,), np.float64)
        self.action_space = Discrete(2)
        self.first, self.length, self.name, self.fault = first, length, name, fault
        self.double = False
        self.steps = 0
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if options and "fault" in options:
            self.run_fault()
        self.steps = 0
        self.resets += 1
        self.draw = int(self.np_random.integers(2**31))
        return self._obs(), self._info()

    def step(self, action):
        if action == 1:
            self.run_fault()
        self.steps += 1
        reward = float(self.steps) * (2 if self.double else 1)
        return self._obs(), reward, self.steps >= self.length, False, self._info()

    def run_fault(self):
        return self.fault() if self.fault is not None else "no fault"

    def set_task(self, task):
        self.first = task

    def toggle_double(self, on):
        self.double = on

    def _obs(self):
        return np.array([self.first + self.steps, self.steps], dtype=np.float64)

    def _info(self):
        info = {"steps": self.steps, "draw": self.draw}
        return info if self.name is None else {**info, "task_name": self.name}


def fragile_makers(n: int = 4, **kwargs: Any) -> list[partial[FragileEnv]]:
    """Constructors of environments that count from 0, 100, ..., tasks "a" and "b" by turns of 2."""
    return [
        partial(FragileEnv, **{"first": 100 * i, "name": "abcd"[i // 2], **kwargs})
        for i in range(n)
    ]


# What a fragile environment may do.


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exit_at_once() -> None:
    os._exit(7)


def leave_python() -> None:
    sys.exit(5)


def segfault() -> None:
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def hang() -> None:
    time.sleep(100)


def break_a_leg() -> None:
    raise ZeroDivisionError("a leg")


def interrupt_parent() -> str:
    """Presses Ctrl-C for the parent, which awaits this environment's answer by now."""
    time.sleep(0.1)
    os.kill(os.getppid(), signal.SIGINT)
    return "interrupted"


def once(path: Path, fault: Callable[[], Any]) -> Any:
    """Does it the first time only, whichever process asks."""
    if path.exists():
        return "not again"
    path.touch()
    return fault()


class LockedError(Exception):
    """Can be made from a string, and does not pickle."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class TwoPartError(Exception):
    """Cannot be made from one string."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} at {where}")


def raise_locked() -> None:
    raise LockedError("stuck")


def raise_two_parts() -> None:
    raise TwoPartError("stuck", "home")


# What may end a worker, and how the error says so.
DEATHS = [
    (kill_itself, "was killed by SIGKILL"),
    (exit_at_once, "exited with code 7"),
    (leave_python, "exited with code 5"),
    (segfault, "was killed by SIGSEGV"),
]

# Constructors.


def short_episodes(env_id: str, steps: int) -> gymnasium.Env:
    """A registered environment whose infos carry episode statistics."""
    return RecordEpisodeStatistics(gymnasium.make(env_id, max_episode_steps=steps))


def fail_to_build(error: type[Exception] = ValueError, *args: Any) -> gymnasium.Env:
    raise error(*(args or ("no bricks",)))


def build_once(path: Path, fault: Callable[[], Any]) -> gymnasium.Env:
    """A `FragileEnv` the first time, a fault afterwards."""
    if path.exists():
        fault()
    path.touch()
    return FragileEnv(first=900)


# Infos, row by row.


def rows_of(batch: Any, rows: Sequence[int]) -> Any:
    """What a batched observation, flag or info says of some environments.

    Info keys that none of them reports are left out.
    """
    if isinstance(batch, np.ndarray):
        return batch[list(rows)]
    if isinstance(batch, dict):
        reported = {
            key
            for key in batch
            if f"_{key}" in batch and np.any(np.asarray(batch[f"_{key}"])[list(rows)])
        }
        return {
            key: rows_of(value, rows)
            for key, value in batch.items()
            if key in reported or key.removeprefix("_") in reported
        }
    return tuple(rows_of(part, rows) for part in batch)


# Processes.


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def children() -> set[int]:
    """The processes that this one has started, zombies included."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(entry.name))
    return found


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def wait_until(condition: Callable[[], Any], seconds: float) -> bool:
    """Whether ``condition`` comes true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def all_gone(pids: Iterable[int], seconds: float = 1.0) -> bool:
    """Whether none of the processes is alive within ``seconds``."""
    return wait_until(functools.partial(_none_alive, list(pids)), seconds)


def _none_alive(pids: list[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Requires that no process and no open file is left of what happens inside."""
    gc.collect()
    before = children(), open_files()
    yield
    gc.collect()
    assert wait_until(lambda: children() <= before[0], 2), children() - before[0]
    assert open_files() <= before[1]


def parallel(makers: Any = None, m: int = 2, k: int = 2, **kwargs: Any) -> MetaParallelEnvExecutor:
    """Four fragile environments on two workers: environment 2 is the first of worker 1."""
    kwargs = {"workers": 2, "context": "fork", **kwargs}
    return MetaParallelEnvExecutor(makers or fragile_makers(), m, k, **kwargs)


def kill(envs: MetaParallelEnvExecutor, worker: int) -> None:
    os.kill(envs.worker_pids[worker], signal.SIGKILL)


def play_along(envs: Any, oracle: Any, steps: int = 6, seed: int = 5) -> None:
    """Requires that both return the same from a reset on."""
    actions = np.zeros(envs.num_envs, dtype=np.int64)
    assert equal(envs.reset(seed=seed), oracle.reset(seed=seed))
    for _ in range(steps):
        expected = oracle.step(actions)
        assert equal(envs.step(actions), expected)
        over = expected[2] | expected[3]
        if envs.autoreset_mode is AutoresetMode.DISABLED and over.any():
            expected = oracle.reset(options={"reset_mask": over})
            assert equal(envs.reset(options={"reset_mask": over}), expected)
