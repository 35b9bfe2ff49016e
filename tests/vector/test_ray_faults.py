"""Actors of a Ray cluster that are lost, and what is told of them."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor, WorkerDiedError
from tests.fakes import equal
from tests.vector.clusters import listening_sockets, local_cluster, on_ray, pids_of, recovering
from tests.vector.fakes import KINDS, kinds_and_modes
from tests.vector.faults import (
    beside,
    both,
    exit_at_once,
    fragile_makers,
    hang,
    kill_itself,
    once,
    play,
    play_along,
)
from tests.vector.processes import all_gone, needs_proc

pytest.importorskip("ray")
pytestmark = [needs_proc, pytest.mark.filterwarnings("ignore:.*another one takes its place")]

NO_ACTIONS = np.zeros(4, dtype=np.int64)
FAULT = np.array([0, 0, 1, 0])


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    with local_cluster(4):
        yield


@kinds_and_modes
def test_a_kill_between_steps_changes_nothing(kind, mode):
    with beside(recovering, KINDS[kind], autoreset_mode=mode) as (envs, oracle):
        envs.action_space.seed(3)
        actions = [envs.action_space.sample() for _ in range(30)]
        both(envs, oracle, "reset", seed=3)
        pids = pids_of(envs)
        found = play(envs, actions, lambda t: t == 17 and os.kill(pids[3], signal.SIGKILL))
        assert equal(found, play(oracle, actions))


@pytest.mark.parametrize("fault", [kill_itself, exit_at_once])
@pytest.mark.parametrize(
    ("method", "arguments"),
    [("step", {"actions": FAULT}), ("reset", {"options": {"fault": True}})],
)
def test_a_death_in_a_step_or_reset_changes_nothing(fault, method, arguments, tmp_path):
    makers = fragile_makers()
    makers[2] = partial(makers[2], fault=partial(once, tmp_path / "done", fault))
    with beside(recovering, makers, fragile_makers()) as (envs, oracle):
        both(envs, oracle, "reset", seed=3)
        both(envs, oracle, "step", NO_ACTIONS)
        with pytest.warns(UserWarning, match=r"worker 1 on [\d.]+ ended: its worker process has"):
            both(envs, oracle, method, **arguments)
        for _ in range(5):
            both(envs, oracle, "step", NO_ACTIONS)


def test_without_recovery_the_lost_worker_is_named():
    listening = listening_sockets()
    envs = on_ray(fragile_makers(fault=kill_itself))
    pids = pids_of(envs)
    envs.reset(seed=0)
    message = (
        r"^worker 1 on [\d.]+ ended: its worker process has died\..*, with environments 2 to 3 "
        r"of tasks \[1\] \(b\); all workers were closed$"
    )
    with pytest.raises(WorkerDiedError, match=message):
        envs.step(FAULT)
    assert envs.closed is True
    assert all_gone(pids, 10)
    assert listening_sockets() == listening


@pytest.mark.parametrize("fault", ["hangs", "is stopped"])
def test_an_actor_that_hangs_is_given_up_after_the_timeout(fault, tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", hang))
    with closing(recovering(makers, timeout=2)) as envs:
        pids = pids_of(envs)
        envs.reset(seed=0)
        if fault == "is stopped":
            os.kill(pids[2], signal.SIGSTOP)
        begin = time.monotonic()
        message = r"worker 1 hung: it did not answer within 2 s, with environments 2 to 3"
        with pytest.warns(UserWarning, match=message):
            result = envs.step(FAULT if fault == "hangs" else NO_ACTIONS)
        assert result[1].tolist() == [1.0] * 4
        assert 2 <= time.monotonic() - begin < 15
        assert all_gone(pids[2:], 20)


def test_after_ctrl_c_in_a_step_the_executor_goes_on():
    makers = fragile_makers(fault=partial(time.sleep, 1.5))
    with closing(on_ray(makers)) as envs, closing(MetaIterativeEnvExecutor(makers, 2, 2)) as oracle:
        envs.reset(seed=0)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            envs.step(FAULT)
        assert envs.get_attr("first") == (0, 100, 200, 300)
        play_along(envs, oracle)
