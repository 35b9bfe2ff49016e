"""Workers that are lost while they build environments, or take long to replay what was lost."""

import os
import signal
import threading
import time
from contextlib import closing, suppress
from functools import partial

import numpy as np
import pytest

from mtwrappers import WorkerDiedError
from tests.vector.faults import (
    FragileEnv,
    beside,
    both,
    fragile_makers,
    hang,
    kill,
    kill_itself,
    once,
    parallel,
    play_along,
)
from tests.vector.processes import needs_proc, wait_until, workers

pytestmark = [
    needs_proc,
    pytest.mark.usefixtures("leaves_nothing_behind"),
    pytest.mark.filterwarnings("ignore:.*starting a replacement"),
]


NO_ACTIONS = np.zeros(4, dtype=np.int64)
recovering = partial(parallel, on_worker_failure="recover", context=None)
# Forked, so that they begin in time on a busy machine too.
hasty = partial(recovering, context="fork", timeout=1)


# Lost while they build.


def build_after(fault, maker):
    fault()
    return maker()


def makers_with(i, fault):
    """Four constructors, of which the ``i``-th does something else before."""
    makers = fragile_makers()
    makers[i] = partial(build_after, fault, makers[i])
    return makers


# Python 3.12 warns of every fork beside other threads.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.slow_but("fork")
def test_a_worker_lost_while_it_builds_is_replaced_with_a_warning(context, tmp_path):
    makers = makers_with(2, partial(once, tmp_path / "done", kill_itself))
    make = partial(recovering, context=context)
    said = r"worker 1 was killed by SIGKILL, with environments 2 to 3 of .*; starting a"
    with (
        pytest.warns(UserWarning, match=said),
        beside(make, makers, fragile_makers()) as (envs, oracle),
    ):
        play_along(envs, oracle)


def test_a_worker_that_hangs_while_it_builds_is_replaced(tmp_path):
    makers = makers_with(2, partial(once, tmp_path / "done", hang))
    with beside(hasty, makers, fragile_makers()) as (envs, oracle):
        play_along(envs, oracle)


def test_a_constructor_that_always_ends_its_worker_is_an_error(tmp_path):
    makers = makers_with(2, kill_itself)
    with pytest.raises(WorkerDiedError, match=r"^worker 1 was killed by SIGKILL, .* lost 4 times"):
        recovering(makers)


@pytest.mark.parametrize("after", np.linspace(0, 0.2, 8).tolist())
@pytest.mark.slow_but("0.0", "0.2")
def test_a_kill_at_any_moment_from_the_start_on_changes_nothing(after):
    """Before a worker says anything, in constructors, and in what follows the first reset."""
    before = workers()

    def strike():
        if wait_until(lambda: workers() - before):
            time.sleep(after)
            with suppress(ProcessLookupError):
                os.kill(max(workers() - before), signal.SIGKILL)

    makers = [
        partial(build_after, partial(time.sleep, 0.04), maker) for maker in fragile_makers(length=9)
    ]
    thread = threading.Thread(target=strike)
    thread.start()
    with beside(recovering, makers, fragile_makers(length=9)) as (envs, oracle):
        both(envs, oracle, "reset", seed=0)
        thread.join()
        both(envs, oracle, "step", NO_ACTIONS)


# Long to replay.


class SlowEnv(FragileEnv):
    """Takes 0.03 s for each step as soon as a file is there, and for the step ``at`` for ever."""

    def __init__(self, path, at=None, **kwargs):
        super().__init__(length=1000, **kwargs)
        self.path, self.at = path, at

    def step(self, action):
        if self.path.exists():
            time.sleep(100 if self.steps == self.at else 0.03)
        return super().step(action)


def stepped_there(envs, steps=45):
    envs.reset(seed=0)
    for _ in range(steps):
        envs.step([0] * envs.num_envs)
    return envs


@pytest.fixture
def slow(tmp_path):
    return tmp_path / "slow"


@pytest.mark.slow
def test_a_replay_longer_than_the_timeout_is_not_hung(slow):
    with closing(hasty(partial(SlowEnv, slow), 2, 1)) as envs:
        stepped_there(envs)
        slow.touch()
        kill(envs, 1)
        begin = time.monotonic()
        assert envs.step([0, 0])[1].tolist() == [46.0, 46.0]
        assert time.monotonic() - begin > 1.2
        assert envs.recoveries == 1
