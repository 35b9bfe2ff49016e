"""Workers that die, hang or stop, where that is an error."""

import os
import signal
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError

from mtwrappers import MetaIterativeEnvExecutor, WorkerDiedError
from tests.fakes import CountingEnv
from tests.vector.faults import (
    DEATHS,
    FragileEnv,
    fragile_makers,
    hang,
    kill,
    kill_itself,
    parallel,
    play_along,
)
from tests.vector.processes import (
    children,
    is_alive,
    needs_proc,
    nothing_left_behind,
    open_files,
    wait_until,
)

pytestmark = needs_proc

NO_ACTIONS = np.zeros(4, dtype=np.int64)
FAULT = np.array([0, 0, 1, 0])


@pytest.mark.parametrize("on_worker_failure", ["raise", "recover"])
@pytest.mark.parametrize(("fault", "how"), DEATHS[:3])
def test_a_worker_that_dies_while_it_builds_is_named(fault, how, on_worker_failure):
    makers = [FragileEnv, FragileEnv, fault, FragileEnv]
    with nothing_left_behind():
        message = rf"worker 1 {how}, with environments 2 to 3 of tasks \[1\]"
        with pytest.raises(WorkerDiedError, match=message) as info:
            parallel(makers, on_worker_failure=on_worker_failure)
        del info


def test_a_worker_that_builds_for_ever_is_given_up():
    with nothing_left_behind():
        with pytest.raises(WorkerDiedError, match=r"worker 1 .* environments 1 to 1 of") as info:
            parallel([FragileEnv, hang], 2, 1, timeout=0.5)
        del info


def test_spaces_that_differ_leave_no_workers():
    with nothing_left_behind():
        with pytest.raises(ValueError, match="environment 1 has observation space") as info:
            parallel([FragileEnv, CountingEnv], 2, 1)
        del info


def check_died(envs, message, use, *arguments, **options):
    """Requires that this use finds the dead worker at once and closes everything."""
    pids = envs.worker_pids
    begin = time.monotonic()
    with pytest.raises(WorkerDiedError, match=message):
        getattr(envs, use)(*arguments, **options)
    assert time.monotonic() - begin < 2
    assert not any(is_alive(pid) for pid in pids)
    assert envs.closed is True
    for method, given in (("reset", ()), ("step", (NO_ACTIONS,)), ("call", ("first",))):
        with pytest.raises(ClosedEnvironmentError, match="MetaParallelEnvExecutor was closed"):
            getattr(envs, method)(*given)
    envs.close()


@pytest.mark.parametrize("steps_before", [0, 2])
def test_a_killed_worker_is_named_with_what_it_had(steps_before):
    with nothing_left_behind():
        envs = parallel()
        envs.reset(seed=0)
        for _ in range(steps_before):
            envs.step(NO_ACTIONS)
        kill(envs, 1)
        message = (
            r"^worker 1 was killed by SIGKILL, with environments 2 to 3 of tasks \[1\] \(b\); "
            "all workers were closed$"
        )
        check_died(envs, message, "step", NO_ACTIONS)
        del envs


@pytest.mark.parametrize(("fault", "how"), DEATHS)
def test_a_worker_that_dies_in_a_step_is_named(fault, how):
    with nothing_left_behind():
        envs = parallel(fragile_makers(6, fault=fault), 3, workers=3)
        envs.reset(seed=0)
        message = rf"^worker 1 {how}, with environments 2 to 3 of tasks \[1\] \(b\); all workers"
        check_died(envs, message, "step", [0, 0, 0, 1, 0, 0])
        del envs


@pytest.mark.parametrize("use", ["reset", "call", "get_attr", "set_attr", "set_tasks", "render"])
def test_a_worker_that_was_killed_is_found_by_the_next_use(use):
    arguments = {
        "call": ("first",),
        "get_attr": ("first",),
        "set_attr": ("first", 3),
        "set_tasks": ([1, 2],),
    }
    with nothing_left_behind():
        envs = parallel(timeout=None)
        envs.reset(seed=0)
        kill(envs, 0)
        message = r"worker 0 was killed by SIGKILL, with environments 0 to 1 of tasks \[0\] \(a\)"
        check_died(envs, message, use, *arguments.get(use, ()))
        del envs


@pytest.mark.parametrize(
    ("use", "arguments"), [("reset", {"options": {"fault": True}}), ("call", {"name": "run_fault"})]
)
def test_a_worker_that_dies_in_a_reset_or_call_is_named(use, arguments):
    with nothing_left_behind():
        envs = parallel([*fragile_makers(3), partial(FragileEnv, fault=kill_itself)])
        message = r"worker 1 was killed by SIGKILL, with environments 2 to 3 of tasks \[1\]"
        check_died(envs, message, use, **arguments)
        del envs


class BulkyEnv(FragileEnv):
    """Reports much."""

    def _info(self):
        return {"bulk": np.zeros(500_000)}


def test_a_worker_that_is_killed_in_the_middle_of_a_large_message_is_found():
    with nothing_left_behind():
        envs = parallel([BulkyEnv] * 4)
        envs.reset(seed=0)
        envs.step_async(NO_ACTIONS)
        # By now its answer fills the pipe, and waits for somebody to read it.
        time.sleep(0.3)
        kill(envs, 1)
        check_died(envs, "worker 1 was killed by SIGKILL, with environments 2 to 3", "step_wait")
        del envs


def test_a_stopped_worker_is_given_up_however_much_it_is_sent():
    with nothing_left_behind():
        envs = parallel([BulkyEnv] * 4, timeout=0.5)
        envs.reset(seed=0)
        os.kill(envs.worker_pids[0], signal.SIGSTOP)
        message = r"^worker 0 hung: it did not answer within 0\.5 s, with environments 0 to 1 of"
        check_died(envs, message, "set_attr", "first", [np.zeros(1_000_000)] * 4)
        del envs


def test_a_stopped_worker_does_not_keep_the_executor_from_closing(monkeypatch):
    monkeypatch.setattr("mtwrappers.vector.crew.CLOSE_TIMEOUT", 0.5)
    with nothing_left_behind():
        envs = parallel(timeout=None)
        envs.reset(seed=0)
        os.kill(envs.worker_pids[0], signal.SIGSTOP)
        begin = time.monotonic()
        envs.close()
        assert time.monotonic() - begin < 3
        del envs


def test_a_worker_that_was_killed_keeps_nobody_from_closing():
    with nothing_left_behind():
        envs = parallel()
        envs.reset(seed=0)
        kill(envs, 0)
        begin = time.monotonic()
        envs.close()
        assert time.monotonic() - begin < 2
        del envs


def test_all_workers_that_died_are_named():
    envs = parallel(fragile_makers(6), 3, workers=3)
    envs.reset(seed=0)
    kill(envs, 0)
    kill(envs, 2)
    assert wait_until(lambda: sum(map(is_alive, envs.worker_pids)) == 1, 2)
    with pytest.raises(WorkerDiedError, match=r"worker . was killed.*; worker . was") as info:
        envs.step(np.zeros(6, int))
    assert r"worker 0 was killed by SIGKILL, with environments 0 to 1" in str(info.value)
    assert r"worker 2 was killed by SIGKILL, with environments 4 to 5" in str(info.value)


def test_a_worker_of_several_tasks_names_them_all():
    envs = parallel(fragile_makers(8), 4, 2)
    envs.reset(seed=0)
    kill(envs, 1)
    with pytest.raises(WorkerDiedError, match=r"environments 4 to 7 of tasks \[2, 3\] \(c, d\)"):
        envs.step(np.zeros(8, int))


def test_tasks_are_named_after_a_reset_of_some_environments_too():
    envs = parallel(autoreset_mode="Disabled")
    envs.reset(seed=0)
    envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    kill(envs, 1)
    with pytest.raises(WorkerDiedError, match=r"environments 2 to 3 of tasks \[1\] \(b\)"):
        envs.step(NO_ACTIONS)


def test_a_worker_that_hangs_is_named_after_the_timeout():
    with nothing_left_behind():
        envs = parallel(fragile_makers(fault=hang), timeout=1)
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        begin = time.monotonic()
        with pytest.raises(
            WorkerDiedError, match=r"^worker 1 hung: it did not answer within 1 s, with"
        ) as info:
            envs.step(FAULT)
        assert 1 <= time.monotonic() - begin < 3
        assert not any(is_alive(pid) for pid in pids)
        assert envs.closed is True
        del info, envs


def test_a_slow_worker_is_not_given_up_before_the_timeout():
    makers = fragile_makers(fault=partial(time.sleep, 1.3))
    with closing(parallel(makers, timeout=60)) as envs:
        envs.reset(seed=0)
        assert envs.step(FAULT)[1].tolist() == [1.0] * 4


def test_a_worker_that_does_not_close_is_ended(monkeypatch):
    monkeypatch.setattr("mtwrappers.vector.crew.CLOSE_TIMEOUT", 0.3)
    with nothing_left_behind():
        envs = parallel([partial(NeverCloses), FragileEnv], 2, 1)
        envs.reset(seed=0)
        pids = envs.worker_pids
        begin = time.monotonic()
        envs.close()
        assert 0.3 <= time.monotonic() - begin < 2
        assert not any(map(is_alive, pids))
        del envs


class NeverCloses(FragileEnv):
    def close(self):
        hang()


def test_executors_do_not_disturb_each_other():
    first, second, oracle = parallel(), parallel(), MetaIterativeEnvExecutor(fragile_makers(), 2, 2)
    play_along(first, oracle, seed=1)
    play_along(second, oracle, seed=2)
    first.close()
    play_along(second, oracle, seed=3)
    kill(second, 1)
    with pytest.raises(WorkerDiedError, match="worker 1"):
        second.step(NO_ACTIONS)
    third = parallel()
    play_along(third, oracle, seed=4)
    third.close()


@pytest.mark.filterwarnings("ignore:.*another one takes its place")
def test_fifty_kills_leave_nothing_behind():
    rng = np.random.default_rng(0)
    makers = fragile_makers(6, length=3)
    actions = np.zeros(6, int)
    with nothing_left_behind():
        # Each death is the end of its executor.
        for i in range(25):
            envs = parallel(makers, 3, workers=3)
            envs.reset(seed=i)
            worker, last = i % 3, int(rng.integers(4))
            for _ in range(last):
                envs.step(actions)
            kill(envs, worker)
            with pytest.raises(WorkerDiedError, match=f"^worker {worker} was killed by SIGKILL"):
                envs.step(actions)
        # Or a worker is lost now and then.
        envs = parallel(makers, 3, workers=3, on_worker_failure="recover")
        envs.reset(seed=0)
        envs.step(actions)
        killed = 0
        at_first = None
        while killed < 25:
            if rng.random() < 0.3:
                kill(envs, killed % 3)
                killed += 1
            envs.step(actions)
            if killed == 1 and at_first is None:
                at_first = len(children()), open_files()
        assert envs.recoveries == 25
        assert (len(children()), open_files()) == at_first
        envs.close()
        del envs
