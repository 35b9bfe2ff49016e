"""Checks of processes: pickling, and that none hangs or remains after a close or a kill."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import cloudpickle
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.common.errors import WorkerDiedError, full_message
from mtwrappers.testing.executors import STEPS, in_workers, makers, of_sync, require_workers
from mtwrappers.testing.processes import all_gone, children, guarded, start_method
from mtwrappers.testing.recording import compare, record
from mtwrappers.testing.report import RAISED, Failed, Skipped, said
from mtwrappers.testing.seeds import require_generators
from mtwrappers.testing.subject import Subject

# Seconds after which a step with a killed worker counts as hanging.
_HANGS = 20.0
# Before which steps a worker is killed that is replaced.
_KILLED_AT = (11, 25)


def pickling(subject: Subject) -> str:
    """The constructor can be sent to a worker; a pickled environment runs the same."""
    try:
        make = cloudpickle.loads(cloudpickle.dumps(subject.make))
    except Exception as exc:
        raise Failed(
            f"its constructor does not pickle ({type(exc).__name__}: {exc}), so it cannot be sent "
            "to a worker"
        ) from exc
    with closing(make()) as env:
        if isinstance(env, VectorEnv):
            return "the constructor pickles"
        try:
            copied = pickle.loads(pickle.dumps(env))
        except Exception as exc:
            return f"the constructor pickles; the environment does not ({type(exc).__name__})"
    subject.require_repeatable()
    with closing(copied):
        require_same_copy(subject, copied, "a pickled environment")
    return "a pickled environment runs the same"


def require_same_copy(subject: Subject, copied: Any, what: str) -> None:
    """Raises `Failed` unless a copy of the environment returns what the environment does."""
    try:
        got = record(copied, subject.actions(copied, subject.length), subject.seed)
    except Exception as exc:
        raise Failed(f"{what} does not run: {type(exc).__name__}: {exc}") from exc
    if found := subject.differ(subject.first, got):
        raise Failed(f"{what} runs differently", found)


def closes(subject: Subject) -> str:
    """``close()`` leaves no process, can be called twice, and ``__del__`` does not raise."""
    before = children()
    with ignored_errors() as ignored:
        with closing(subject.make()) as envs:
            envs.reset(seed=subject.seed)
            started = children() - before
        try:
            envs.close()
        except RAISED as exc:
            raise Failed(f"a second close() raises {said(exc)}") from exc
        del envs
    if ignored:
        raise Failed(f"an environment that is deleted raises {ignored[0]}")
    if not all_gone(started):
        raise Failed(f"{len(started)} processes are left after close()")
    return f"{len(started)} processes, none left" if started else "closed twice, nothing left"


@contextlib.contextmanager
def ignored_errors() -> Iterator[list[str]]:
    """Collects descriptions of errors in ``__del__``, which Python only prints."""
    found: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda ignored: found.append(said(ignored.exc_value))  # type: ignore
    try:
        yield found
    finally:
        gc.collect()
        sys.unraisablehook = before


def killed(subject: Subject) -> str:
    """A killed worker is detected; nothing hangs or is left behind."""
    with closing(subject.make()):
        if not children():
            raise Skipped("it has no worker processes")
    if start_method() == "forkserver":
        raise Skipped("this process cannot fork, since it has threads or OpenGL is loaded")
    try:
        raised, seconds, left = guarded(lambda: _kill(subject), _HANGS)
    except TimeoutError:
        raise Failed(
            f"after a worker was killed, step() or close() hangs (waited {_HANGS:.0f} s)"
        ) from None
    if left:
        raise Failed(f"after a worker was killed, close() leaves {left} processes")
    return f"{raised} after {seconds:.1f} s, nothing left"


def _kill(subject: Subject) -> tuple[str, float, int]:
    before = children()
    envs = subject.make()
    envs.reset(seed=subject.seed)
    pids = children() - before
    actions = subject.actions(envs, 3)
    os.kill(min(pids), signal.SIGKILL)
    start, raised = time.perf_counter(), "it went on"
    try:
        for action in actions:
            envs.step(action)
    except Exception as exc:
        raised = f"step() raised {type(exc).__name__}"
    seconds = time.perf_counter() - start
    try:
        envs.close()
    except Exception as exc:
        raised += f", close() {type(exc).__name__}"
    return raised, seconds, 0 if all_gone(pids) else sum(map(_alive, pids))


def _alive(pid: int) -> bool:
    return not all_gone([pid], 0)


def killed_worker(subject: Subject) -> str:
    """A killed worker is detected at once, leaves nothing behind, and is recovered exactly."""
    subject.require_repeatable()
    require_workers(subject)
    try:
        require_generators(subject)
    except Failed:
        raise Skipped("see 'types'") from None
    mode = AutoresetMode.SAME_STEP
    expected = of_sync(subject, mode)
    make = functools.partial(in_workers, workers=2, autoreset_mode=mode)
    with closing(make(makers(subject))) as envs:
        pids = list(envs.worker_pids)
        envs.reset(seed=subject.seed)
        os.kill(pids[0], signal.SIGKILL)
        start = time.perf_counter()
        try:
            envs.step(subject.actions(envs, 1)[0])
        except WorkerDiedError:
            seconds = time.perf_counter() - start
        else:
            raise Failed("step() returned although a worker had been killed")
    if not all_gone(pids):
        raise Failed("a worker process is left after close()")
    if compare(subject.first, subject.again, False):
        raise Skipped("a lost worker is replaced only where all infos repeat, ignored or not")
    with closing(make(makers(subject), on_worker_failure="recover")) as envs:
        steps = iter(range(STEPS))

        def step(actions: Any) -> Any:
            if next(steps) in _KILLED_AT:
                os.kill(envs.worker_pids[0], signal.SIGKILL)
            return envs.step(actions)

        try:
            got = record(envs, subject.actions(envs, STEPS), subject.seed, step=step)
        except Exception as exc:
            raise Failed(
                "a lost worker cannot be replaced: what an environment keeps between episodes is "
                "neither in its np_random nor in get_state() and set_state() "
                f"({type(exc).__name__}: {full_message(exc)})"
            ) from exc
    if found := subject.differ(expected, got, True):
        raise Failed("after a worker was killed and replaced, the environments differ", found)
    return f"noticed in {seconds:.1f} s; 2 killed and replaced, with identical results"
