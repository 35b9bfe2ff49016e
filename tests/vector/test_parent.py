"""What the parent does meanwhile: Ctrl-C, threads, forks, and its own end."""

import os
import signal
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import SyncVectorEnv

from tests.vector.fakes import all_modes
from tests.vector.faults import (
    break_a_leg,
    faulty_uses,
    fragile_makers,
    parallel,
    play_along,
)
from tests.vector.processes import all_gone, needs_proc

pytestmark = [needs_proc, pytest.mark.usefixtures("leaves_nothing_behind")]

NO_ACTIONS = np.zeros(4, dtype=np.int64)


# Ctrl-C in a call, and going on.


def interrupt_parent() -> str:
    """Presses Ctrl-C for the parent, which awaits this environment's answer by now."""
    time.sleep(0.1)
    os.kill(os.getppid(), signal.SIGINT)
    return "interrupted"


def interrupting_makers():
    """Environment 3, which its worker steps last, presses Ctrl-C."""
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=interrupt_parent)
    return makers


@all_modes
@faulty_uses
@pytest.mark.slow_but("step-NextStep", "reset-SameStep", "call-Disabled")
def test_after_an_interruption_the_executor_goes_on(mode, use, given):
    makers = interrupting_makers()
    with (
        closing(parallel(makers, autoreset_mode=mode)) as envs,
        closing(SyncVectorEnv(makers, autoreset_mode=mode)) as oracle,
    ):
        for steps_before in 0, 2:
            envs.reset(seed=2)
            for _ in range(steps_before):
                envs.step(NO_ACTIONS)
            with pytest.raises(KeyboardInterrupt):
                getattr(envs, use)(**given)
            assert envs.closed is False
            assert envs.get_attr("first") == (0, 100, 200, 300)
            if use == "call":  # the episodes go on
                assert envs.step(NO_ACTIONS)[1].tolist() == [steps_before + 1] * 4
            else:
                with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
                    envs.step(NO_ACTIONS)
            play_along(envs, oracle)


def test_a_step_that_raises_after_its_caller_was_interrupted_is_a_warning():
    makers = interrupting_makers()
    makers[0] = partial(makers[0], fault=partial(break_a_leg, 0.3))
    with closing(parallel(makers)) as envs:
        envs.reset(seed=2)
        envs.step(NO_ACTIONS)
        with pytest.raises(KeyboardInterrupt):
            envs.step([1, 0, 0, 1])
        with pytest.warns(UserWarning, match="an interrupted call had failed: environment 0"):
            envs.reset(seed=2)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1] * 4


# Signals and forks.


def test_a_signal_handler_may_close_in_the_middle_of_a_step(monkeypatch):
    monkeypatch.setattr("mtwrappers.vector.workers.CLOSE_TIMEOUT", 0.3)
    envs = parallel(fragile_makers(fault=partial(time.sleep, 100)))
    envs.reset(seed=0)
    pids = envs.worker_pids

    def leave(*_):
        envs.close()
        raise SystemExit(3)

    before = signal.signal(signal.SIGALRM, leave)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(SystemExit):
            envs.step(np.ones(4, int))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert envs.closed is True
    assert all_gone(pids)


def test_a_forked_process_cannot_use_the_executor_and_its_close_ends_nothing():
    with closing(parallel()) as envs:
        envs.reset(seed=0)
        here, there = os.pipe()
        if (pid := os.fork()) == 0:
            said = b"it stepped"
            try:
                envs.step(NO_ACTIONS)
            except RuntimeError as exc:
                said = str(exc).encode()
            envs.close()
            os.write(there, said)
            os._exit(0)
        os.waitpid(pid, 0)
        said = os.read(here, 1000).decode()
        assert said == (
            f"this MetaParallelEnvExecutor belongs to process {os.getpid()}, and cannot be used "
            "in a fork of it; make another one here"
        )
        os.close(here)
        os.close(there)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4
