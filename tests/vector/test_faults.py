"""What happens when constructors, steps, workers or the parent fail."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing, contextmanager
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor, WorkerDiedError
from mtwrappers.errors import WorkerTraceback
from tests.fakes import ROOT, CountingEnv, equal
from tests.vector.fakes import (
    FragileEnv,
    LockedError,
    TwoPartError,
    WordEnv,
    all_gone,
    all_modes,
    both_executors,
    break_a_leg,
    build_once,
    children,
    exit_at_once,
    fail_to_build,
    fragile_makers,
    hang,
    interrupt_parent,
    is_alive,
    kill_itself,
    leave_python,
    needs_proc,
    once,
    open_files,
    raise_locked,
    raise_two_parts,
    rows_of,
    segfault,
    wait_until,
)

pytestmark = needs_proc

NO_ACTIONS = np.zeros(4, dtype=np.int64)
# Environment 2 is the first of worker 1 and of task 1.
FAULT = np.array([0, 0, 1, 0])
WORKER_0, WORKER_1 = [0, 1], [2, 3]


def parallel(makers=None, m=2, k=2, **kwargs):
    kwargs = {"workers": 2, "context": "fork", **kwargs}
    return MetaParallelEnvExecutor(makers or fragile_makers(), m, k, **kwargs)


def kill(envs, worker):
    os.kill(envs.worker_pids[worker], signal.SIGKILL)


@contextmanager
def nothing_left_behind():
    """Requires that no process and no open file is left of what happens inside."""
    gc.collect()
    before = children(), open_files()
    yield
    gc.collect()
    assert wait_until(lambda: children() <= before[0], 2), children() - before[0]
    assert open_files() <= before[1]


# Constructors that fail.


@both_executors
def test_a_constructor_that_raises_names_its_environment(executor):
    makers = [*fragile_makers(3), partial(fail_to_build, ValueError)]
    with nothing_left_behind():
        message = "^the constructor of environment 3 failed: no bricks$"
        with pytest.raises(ValueError, match=message) as info:
            executor(makers, 2, 2)
        assert "fail_to_build" in shown(info.value.__cause__)
        del info


def shown(cause):
    """The traceback of an exception in a worker, or here."""
    if isinstance(cause, WorkerTraceback):
        assert str(cause) == f"\n{cause.text}"
        assert cause.text.startswith("Traceback (most recent call last)")
        return cause.text
    frames, traceback = [], cause.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    return " ".join(frames)


@pytest.mark.parametrize("on_worker_failure", ["raise", "restart"])
def test_the_cause_is_the_traceback_in_the_worker(on_worker_failure):
    makers = [*fragile_makers(3), partial(fail_to_build, ValueError)]
    with pytest.raises(ValueError, match="environment 3") as info:
        parallel(makers, on_worker_failure=on_worker_failure)
    assert isinstance(info.value.__cause__, WorkerTraceback)
    assert "in fail_to_build" in str(info.value.__cause__)
    assert "ValueError: no bricks" in str(info.value.__cause__)


@both_executors
@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((KeyError, "door"), KeyError, "constructor of environment 1 failed: 'door'"),
        ((OSError,), OSError, "constructor of environment 1 failed: no bricks"),
        ((TwoPartError, "a", "b"), TwoPartError, "environment 1 failed: a at b"),
        ((LockedError, "x"), LockedError, "environment 1 failed: x"),
    ],
    ids=["KeyError", "OSError", "two parts", "unpicklable"],
)
def test_any_exception_of_a_constructor_arrives(executor, args, error, message):
    with nothing_left_behind():
        with pytest.raises(error, match=message) as info:
            executor([FragileEnv, partial(fail_to_build, *args)], 2)
        del info


@pytest.mark.parametrize("on_worker_failure", ["raise", "restart"])
@pytest.mark.parametrize(
    ("fault", "how"),
    [
        (exit_at_once, "exited with code 7"),
        (kill_itself, "was killed by SIGKILL"),
        (leave_python, "exited with code 5"),
    ],
)
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


# Steps that raise.


@both_executors
@all_modes
@pytest.mark.parametrize("steps_before", [0, 1, 3])
def test_a_step_that_raises_is_named_and_the_executor_goes_on(executor, mode, steps_before):
    makers = fragile_makers(fault=break_a_leg)
    oracle = SyncVectorEnv(makers, autoreset_mode=mode)
    with closing(executor(makers, 2, 2, autoreset_mode=mode)) as envs:
        envs.reset(seed=9)
        for _ in range(steps_before):
            envs.step(NO_ACTIONS)
        message = "^environment 2, task 'b': a leg$"
        with pytest.raises(ZeroDivisionError, match=message) as info:
            envs.step(FAULT)
        assert "break_a_leg" in shown(info.value.__cause__)
        assert envs.closed is False
        play_along(envs, oracle, mode)
    oracle.close()


def play_along(envs, oracle, mode, steps=6, seed=5):
    """Requires that both return the same."""
    assert equal(envs.reset(seed=seed), oracle.reset(seed=seed))
    for _ in range(steps):
        expected = oracle.step(NO_ACTIONS)
        assert equal(envs.step(NO_ACTIONS), expected)
        over = expected[2] | expected[3]
        if mode is AutoresetMode.DISABLED and over.any():
            expected = oracle.reset(options={"reset_mask": over})
            assert equal(envs.reset(options={"reset_mask": over}), expected)


@both_executors
def test_a_task_without_a_name_is_left_out_of_the_message(executor):
    with closing(executor(fragile_makers(name=None, fault=break_a_leg), 2, 2)) as envs:
        envs.reset(seed=0)
        with pytest.raises(ZeroDivisionError, match=r"^environment 2: a leg$"):
            envs.step(FAULT)


@both_executors
@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (raise_two_parts, TwoPartError, "environment 2, task 'b': stuck at home"),
        (raise_locked, LockedError, "environment 2, task 'b': stuck"),
    ],
)
def test_exceptions_that_do_not_pickle_arrive(executor, fault, error, message):
    makers = fragile_makers(fault=fault)
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(executor(makers, 2, 2)) as envs:
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        with pytest.raises(error, match=message):
            envs.step(FAULT)
        play_along(envs, oracle, AutoresetMode.SAME_STEP)
    oracle.close()


@both_executors
def test_of_several_exceptions_that_of_the_first_environment_is_raised(executor):
    slowly = partial(raise_after, 0.05)
    makers = [partial(FragileEnv, fault=fault) for fault in (slowly, break_a_leg, break_a_leg)]
    with closing(executor(makers, 3)) as envs:
        envs.reset(seed=0)
        with pytest.raises(ZeroDivisionError, match="environment 0"):
            envs.step([1, 0, 1])


def raise_after(seconds):
    time.sleep(seconds)
    break_a_leg()


@both_executors
def test_a_reset_or_call_that_raises_is_named_and_the_executor_goes_on(executor):
    makers = fragile_makers(fault=None)
    makers[3] = partial(makers[3], fault=break_a_leg)
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(executor(makers, 2, 2)) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        with pytest.raises(ZeroDivisionError, match=r"^environment 3, task 'b': a leg$"):
            envs.reset(options={"fault": True})
        play_along(envs, oracle, AutoresetMode.SAME_STEP)
        with pytest.raises(ZeroDivisionError, match=r"^environment 3, task 'b': a leg$"):
            envs.call("run_fault")
        play_along(envs, oracle, AutoresetMode.SAME_STEP)
    oracle.close()


# Infos that cannot be sent, or batched.


class OddInfoEnv(FragileEnv):
    """Action 1 puts ``odd`` into the info."""

    def __init__(self, odd, **kwargs):
        super().__init__(**kwargs)
        self.odd = odd

    def step(self, action):
        *result, info = super().step(0)
        return *result, {**info, "odd": self.odd()} if action else info


def odd_makers(odd):
    return [partial(OddInfoEnv, odd, first=100 * i) for i in range(4)]


@pytest.mark.parametrize("steps_before", [0, 1])
def test_after_an_info_that_does_not_pickle_the_executor_goes_on(steps_before):
    makers = odd_makers(threading.Lock)
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(parallel(makers)) as envs:
        envs.reset(seed=0)
        for _ in range(steps_before):
            envs.step(NO_ACTIONS)
        with pytest.raises(TypeError, match="cannot pickle"):
            envs.step(FAULT)
        play_along(envs, oracle, AutoresetMode.SAME_STEP)
    oracle.close()


def test_an_info_that_does_not_pickle_says_whose_it_is():
    with closing(parallel(odd_makers(threading.Lock))) as envs:
        envs.reset(seed=0)
        with pytest.raises(TypeError, match=r"environment.*\b2\b.*cannot pickle"):
            envs.step(FAULT)


def test_an_info_that_does_not_pickle_is_no_matter_in_this_process():
    envs = MetaIterativeEnvExecutor(odd_makers(threading.Lock), 2, 2)
    envs.reset(seed=0)
    infos = envs.step(FAULT)[4]
    assert infos["_odd"].tolist() == [False, False, True, False]
    envs.close()


@both_executors
def test_an_int_beyond_64_bits_is_refused_as_gymnasium_does_and_the_executor_goes_on(executor):
    makers = odd_makers(partial(pow, 2, 70))
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(executor(makers, 2, 2)) as envs:
        for actions in (FAULT, np.ones(4, int)):
            for one in (envs, oracle):
                one.reset(seed=0)
                with pytest.raises(OverflowError, match="int too large to convert to C long"):
                    one.step(actions)
            play_along(envs, oracle, AutoresetMode.SAME_STEP)
    oracle.close()


# Workers that die, where that is an error.

DEATHS = [
    (kill_itself, "was killed by SIGKILL"),
    (exit_at_once, "exited with code 7"),
    (leave_python, "exited with code 5"),
    (segfault, "was killed by SIGSEGV"),
]


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
    with nothing_left_behind():
        envs = parallel()
        envs.reset(seed=0)
        arguments = {
            "call": ("first",),
            "get_attr": ("first",),
            "set_attr": ("first", 3),
            "set_tasks": ([1, 2],),
        }.get(use, ())
        kill(envs, 0)
        message = r"worker 0 was killed by SIGKILL, with environments 0 to 1 of tasks \[0\] \(a\)"
        check_died(envs, message, use, *arguments)
        del envs


def test_a_worker_that_dies_in_reset_is_named():
    with nothing_left_behind():
        envs = parallel([*fragile_makers(3), partial(FragileEnv, fault=kill_itself)])
        message = r"worker 1 was killed by SIGKILL, with environments 2 to 3 of tasks \[1\]"
        check_died(envs, message, "reset", options={"fault": True})
        del envs


def test_a_worker_that_dies_in_a_call_is_named():
    with nothing_left_behind():
        envs = parallel([*fragile_makers(3), partial(FragileEnv, fault=exit_at_once)])
        envs.reset(seed=0)
        message = r"worker 1 exited with code 7, with environments 2 to 3 of tasks \[1\]"
        check_died(envs, message, "call", "run_fault")
        del envs


def test_a_death_is_found_without_a_timeout_too():
    with nothing_left_behind():
        envs = parallel(fragile_makers(fault=kill_itself), timeout=None)
        envs.reset(seed=0)
        check_died(envs, "worker 1 was killed by SIGKILL", "step", FAULT)
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
        with pytest.raises(WorkerDiedError, match=r"worker 1 .* environments 2 to 3 ") as info:
            envs.step(FAULT)
        assert 1 <= time.monotonic() - begin < 3
        assert not any(is_alive(pid) for pid in pids)
        assert envs.closed is True
        del info, envs


def test_the_message_of_a_worker_that_hung_says_that_it_did():
    envs = parallel(fragile_makers(fault=hang), timeout=0.2)
    envs.reset(seed=0)
    with pytest.raises(WorkerDiedError, match=r"worker 1 .*(hung|time-?out|silent|0\.2 s)"):
        envs.step(FAULT)


def test_a_slow_worker_is_not_given_up_before_the_timeout():
    makers = fragile_makers(fault=partial(time.sleep, 1.3))
    with closing(parallel(makers, timeout=60)) as envs:
        envs.reset(seed=0)
        assert envs.step(FAULT)[1].tolist() == [1.0] * 4


# Workers that die, where they are restarted.


def play(envs, mode, actions_at, steps=9, between=None):
    """Every result of some steps; episodes that are over are reset where nobody else does it."""
    results = [envs.reset(seed=3)]
    for t in range(steps):
        if between is not None:
            between(t)
        results.append(envs.step(actions_at(t)))
        over = results[-1][2] | results[-1][3]
        if mode is AutoresetMode.DISABLED and over.any():
            results.append(envs.reset(options={"reset_mask": over}))
    return results


def of_others(results):
    """What the results of steps say of the environments of worker 0."""
    return [rows_of(result, WORKER_0) for result in results if len(result) == 5]


def never(t):
    return NO_ACTIONS


def restarted_steps(results):
    return [t for t, result in enumerate(results) if "worker_restarted" in result[-1]]


@all_modes
@pytest.mark.parametrize("lengths", [(4, 4, 4, 4), (2, 3, 3, 5)])
@pytest.mark.parametrize("when", [0, 3])
def test_the_results_of_other_workers_are_those_of_an_undisturbed_run(mode, when, lengths):
    makers = [partial(maker, length=n) for maker, n in zip(fragile_makers(), lengths, strict=True)]
    with closing(parallel(makers, autoreset_mode=mode)) as envs:
        expected = of_others(play(envs, mode, never))
    with closing(parallel(makers, autoreset_mode=mode, on_worker_failure="restart")) as envs:
        undisturbed = play(envs, mode, never)
        assert restarted_steps(undisturbed) == []
        results = play(envs, mode, never, between=lambda t: t == when and kill(envs, 1))
    assert len(restarted_steps(results)) == 1
    assert equal(of_others(undisturbed), expected)
    assert equal(of_others(results), expected)


@all_modes
@pytest.mark.parametrize(("fault", "how"), DEATHS)
def test_a_death_in_the_middle_of_a_step_leaves_the_other_workers_alone(mode, fault, how):
    makers = fragile_makers(fault=fault)
    with closing(parallel(makers, autoreset_mode=mode, on_worker_failure="restart")) as envs:
        expected = of_others(play(envs, mode, never))
        results = play(envs, mode, lambda t: FAULT if t in (1, 2, 5) else NO_ACTIONS)
    assert len(restarted_steps(results)) == 3
    assert equal(of_others(results), expected)


@all_modes
def test_restarted_environments_begin_an_episode_with_a_truncation(mode):
    with closing(parallel(autoreset_mode=mode, on_worker_failure="restart")) as envs:
        envs.reset(seed=3)
        envs.step(NO_ACTIONS)
        before = envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        kill(envs, 1)
        obs, rewards, terminated, truncated, infos = envs.step(NO_ACTIONS)
        assert obs.tolist() == [[3, 3], [103, 3], [200, 0], [300, 0]]
        assert rewards.tolist() == [3, 3, 0, 0]
        assert terminated.tolist() == [False] * 4
        assert truncated.tolist() == [False, False, True, True]
        assert infos["worker_restarted"].tolist() == [False, False, True, True]
        assert infos["worker_restarted"].dtype == np.bool_
        assert infos["_worker_restarted"].tolist() == [False, False, True, True]
        assert infos["steps"].tolist() == [3, 3, 0, 0]
        assert infos["_steps"].tolist() == [True] * 4
        assert infos["task_name"].tolist() == ["a", "a", "b", "b"]
        if mode is AutoresetMode.SAME_STEP:
            assert infos["_final_obs"].tolist() == [False, False, True, True]
            for i in WORKER_1:
                assert infos["final_obs"][i].tolist() == before[0][i].tolist()
            final = infos["final_info"]
            assert final.keys() == {"worker_restarted", "_worker_restarted"}
            assert final["worker_restarted"].tolist() == [False, False, True, True]
        else:
            assert "final_obs" not in infos
        assert envs.worker_pids[0] == pids[0]
        assert envs.worker_pids[1] != pids[1]
        assert not is_alive(pids[1])

        if mode is AutoresetMode.DISABLED:
            with pytest.raises(ResetNeeded, match=r"episodes of environments \[2, 3\] are over"):
                envs.step(NO_ACTIONS)
            envs.reset(options={"reset_mask": truncated})
        obs, rewards, terminated, truncated, infos = envs.step(NO_ACTIONS)
        assert rewards.tolist() == [4, 4, 1, 1]
        assert "worker_restarted" not in infos
        assert terminated.tolist() == [True, True, False, False]
        assert truncated.tolist() == [False] * 4


@all_modes
@pytest.mark.parametrize("how", ["between steps", "in a step"])
def test_tasks_toggles_and_attributes_are_back_after_a_restart(mode, how):
    makers = fragile_makers(fault=kill_itself, length=100)
    with closing(parallel(makers, autoreset_mode=mode, on_worker_failure="restart")) as envs:
        envs.set_tasks([500, 600])
        envs.set_tasks([1000, 2000])
        envs.call("toggle_double", False)
        envs.call("toggle_double", True)
        envs.set_attr("name", ["w", "x", "y", "z"])
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        if how == "between steps":
            kill(envs, 1)
        obs, *_, truncated, infos = envs.step(NO_ACTIONS if how == "between steps" else FAULT)
        assert obs[:, 0].tolist() == [1002, 1002, 2000, 2000]
        assert infos["task_name"].tolist() == ["w", "x", "y", "z"]
        if mode is AutoresetMode.DISABLED:
            envs.reset(options={"reset_mask": truncated})
        obs, rewards, *_ = envs.step(NO_ACTIONS)
        assert obs[:, 0].tolist() == [1003, 1003, 2001, 2001]
        assert rewards.tolist() == [6, 6, 2, 2]
        envs.set_tasks([1, 2])
        assert envs.reset(seed=0)[0][:, 0].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("order", "first"), [(["task", "attribute"], 30), (["attribute", "task"], 500)]
)
def test_what_was_set_is_set_again_in_the_same_order(order, first):
    with closing(parallel(on_worker_failure="restart")) as envs:
        for what in order:
            if what == "task":
                envs.call("set_task", 500)
            else:
                envs.set_attr("first", [30] * 4)
        assert envs.reset(seed=0)[0][:, 0].tolist() == [first] * 4
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [first + 1] * 2 + [first] * 2


def test_what_was_set_of_some_environments_is_set_again_beside_the_rest():
    with closing(parallel(on_worker_failure="restart")) as envs:
        envs.set_tasks([500, 600])
        envs.call_some([3], "set_task", 900)
        assert envs.reset(seed=0)[0][:, 0].tolist() == [500, 500, 600, 900]
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [501, 501, 600, 900]


def test_a_restart_draws_from_a_branch_of_the_seed():
    draws = []
    for seed in (3, 3, 30):
        with closing(parallel(on_worker_failure="restart")) as envs:
            draws.append([envs.reset(seed=seed)[1]["draw"].tolist()])
            envs.step(NO_ACTIONS)
            for _ in range(2):
                kill(envs, 1)
                draws[-1].append(envs.step(NO_ACTIONS)[4]["draw"].tolist())
    assert draws[0] == draws[1]
    first, second, third = draws[0]
    assert first[:2] == second[:2] == third[:2]
    assert len({*first[2:], *second[2:], *third[2:]}) == 6
    assert set(draws[2][1][2:]).isdisjoint(second)


def test_a_worker_may_be_restarted_time_and_again():
    with nothing_left_behind():
        envs = parallel(on_worker_failure="restart")
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        for i in range(6):
            kill(envs, i % 2)
            mask = envs.step(NO_ACTIONS)[4]["worker_restarted"].tolist()
            assert mask == [i % 2 == 0] * 2 + [i % 2 == 1] * 2
        envs.close()
        del envs


def test_all_workers_may_be_restarted_at_once():
    with closing(parallel(on_worker_failure="restart")) as envs:
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        kill(envs, 0)
        kill(envs, 1)
        obs, rewards, _, truncated, infos = envs.step(NO_ACTIONS)
        assert obs[:, 0].tolist() == [0, 100, 200, 300]
        assert rewards.tolist() == [0] * 4
        assert truncated.tolist() == infos["worker_restarted"].tolist() == [True] * 4
        assert envs.step(NO_ACTIONS)[1].tolist() == [1] * 4


def test_a_worker_that_hangs_is_restarted_after_the_timeout():
    makers = fragile_makers(fault=hang)
    with closing(parallel(makers, timeout=1, on_worker_failure="restart")) as envs:
        envs.reset(seed=0)
        begin = time.monotonic()
        *_, truncated, infos = envs.step(FAULT)
        assert 1 <= time.monotonic() - begin < 3
        assert truncated.tolist() == infos["worker_restarted"].tolist() == [False] * 2 + [True] * 2
        assert envs.step(NO_ACTIONS)[1].tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize("how", ["before", "in it"])
def test_a_worker_lost_in_reset_is_restarted_and_reset_with_the_same_seed(how, tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", kill_itself))
    makers[:3] = fragile_makers(3)
    with closing(parallel(makers, on_worker_failure="restart")) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        if how == "before":
            kill(envs, 1)
        options = None if how == "before" else {"fault": True}
        obs, infos = envs.reset(seed=8, options=options)
        assert envs.worker_pids[1] != pids[1]
        with closing(SyncVectorEnv(makers, autoreset_mode="SameStep")) as oracle:
            assert equal((obs, infos), oracle.reset(seed=8))
            assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))


def test_a_worker_lost_before_the_first_reset_is_restarted():
    makers = fragile_makers()
    with closing(parallel(on_worker_failure="restart")) as envs:
        kill(envs, 1)
        with closing(SyncVectorEnv(makers, autoreset_mode="SameStep")) as oracle:
            play_along(envs, oracle, AutoresetMode.SAME_STEP)


def test_a_worker_that_was_lost_gets_the_tasks_that_are_set_next():
    with closing(parallel(on_worker_failure="restart")) as envs:
        envs.set_tasks([1000, 2000])
        envs.reset(seed=0)
        kill(envs, 1)
        envs.set_tasks([3000, 4000])
        assert envs.reset(seed=0)[0][:, 0].tolist() == [3000, 3000, 4000, 4000]


def test_a_worker_that_was_lost_is_toggled_by_the_call_that_finds_it():
    with closing(parallel(on_worker_failure="restart")) as envs:
        envs.reset(seed=0)
        kill(envs, 1)
        envs.call("toggle_double", True)
        envs.reset(seed=0)
        assert envs.step(NO_ACTIONS)[1].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("mask", [[True, False, True, False], [True, False, False, False]])
def test_a_worker_lost_in_a_masked_reset_leaves_no_environment_without_an_episode(mask):
    makers = fragile_makers(length=9)
    with closing(parallel(makers, autoreset_mode="Disabled", on_worker_failure="restart")) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        kill(envs, 1)
        obs, _ = envs.reset(options={"reset_mask": np.array(mask)})
        assert obs[:, 0].tolist() == [0, 101, 200, 300]
        obs, *_ = envs.step(NO_ACTIONS)
        assert obs[:2].tolist() == [[1, 1], [102, 2]]
        assert obs in envs.observation_space


@pytest.mark.parametrize("how", ["before", "in it"])
def test_a_worker_lost_in_a_call_is_restarted_and_called_again(how, tmp_path):
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=partial(once, tmp_path / "done", kill_itself))
    with closing(parallel(makers, on_worker_failure="restart")) as envs:
        envs.set_tasks([1000, 2000])
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        if how == "before":
            (tmp_path / "done").touch()
            kill(envs, 1)
        expected = ("no fault",) * 3 + ("not again",)
        assert envs.call("run_fault") == expected
        assert envs.worker_pids[0] == pids[0]
        assert envs.worker_pids[1] != pids[1]
        assert envs.get_attr("first") == (1000, 1000, 2000, 2000)
        obs, *_ = envs.step(NO_ACTIONS)
        assert obs[:2].tolist() == [[1002, 2], [1002, 2]]
        assert obs in envs.observation_space


def test_a_worker_lost_before_the_first_step_is_reported_by_it():
    with closing(parallel(on_worker_failure="restart")) as envs:
        envs.reset(seed=1)
        kill(envs, 1)
        obs, rewards, _, truncated, infos = envs.step(NO_ACTIONS)
        assert obs.tolist() == [[1, 1], [101, 1], [200, 0], [300, 0]]
        assert rewards.tolist() == [1, 1, 0, 0]
        assert infos["worker_restarted"].tolist() == [False, False, True, True]
        assert truncated.tolist() == [False, False, True, True]


def test_an_episode_lost_outside_of_a_step_is_reported_by_the_next_step():
    with closing(parallel(on_worker_failure="restart")) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        kill(envs, 1)
        envs.get_attr("first")
        *_, truncated, infos = envs.step(NO_ACTIONS)
        assert infos["worker_restarted"].tolist() == [False, False, True, True]
        assert truncated.tolist() == [False, False, True, True]


def test_an_action_that_always_kills_in_a_call_is_an_error_at_last():
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=kill_itself)
    with nothing_left_behind():
        envs = parallel(makers, on_worker_failure="restart")
        envs.reset(seed=1)
        message = r"worker 1 was killed by SIGKILL, with environments 2 to 3 of tasks \[1\]"
        check_died(envs, message, "call", "run_fault")
        del envs


@pytest.mark.parametrize(("fault", "how"), DEATHS[:2])
def test_a_worker_that_dies_again_while_it_is_restarted_is_an_error(fault, how, tmp_path):
    makers = [FragileEnv, partial(build_once, tmp_path / "built", fault)]
    with nothing_left_behind():
        envs = parallel(makers, 2, 1, on_worker_failure="restart")
        envs.reset(seed=0)
        kill(envs, 1)
        message = rf"worker 1 {how}, with environments 1 to 1 of tasks \[1\]"
        check_died(envs, message, "step", [0, 0])
        del envs


def test_a_constructor_that_raises_in_a_restart_is_named(tmp_path):
    makers = [FragileEnv, partial(build_once, tmp_path / "built", break_a_leg)]
    with nothing_left_behind():
        envs = parallel(makers, 2, 1, on_worker_failure="restart")
        envs.reset(seed=0)
        kill(envs, 1)
        message = "the constructor of environment 1 failed: a leg"
        with pytest.raises(ZeroDivisionError, match=message) as info:
            envs.step([0, 0])
        envs.close()
        del envs, info


def test_a_death_and_an_exception_in_one_step_raise_the_exception():
    makers = fragile_makers(fault=break_a_leg)
    makers[2] = partial(makers[2], fault=kill_itself)
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(parallel(makers, on_worker_failure="restart")) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        with pytest.raises(ZeroDivisionError, match="environment 0, task 'a': a leg"):
            envs.step([1, 0, 1, 0])
        play_along(envs, oracle, AutoresetMode.SAME_STEP)
    oracle.close()


def test_texts_and_tuples_survive_a_restart():
    with closing(parallel(partial(WordEnv, 7), on_worker_failure="restart")) as envs:
        envs.reset(seed=0)
        envs.action_space.seed(0)
        before = envs.step(envs.action_space.sample())[0]
        kill(envs, 1)
        obs, *_, truncated, infos = envs.step(envs.action_space.sample())
        assert [len(word) for word in obs] == [3, 3, 1, 1]
        assert infos["word"].tolist() == list(obs)
        assert truncated.tolist() == [False, False, True, True]
        assert infos["final_obs"].tolist() == [None, None, *before[2:]]
        assert [len(w) for w in envs.step(envs.action_space.sample())[0]] == [4, 4, 2, 2]


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_workers_are_restarted_however_they_were_started(context):
    with closing(parallel(on_worker_failure="restart", context=context)) as envs:
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[1].tolist() == [2, 2, 0, 0]
        assert envs.step(NO_ACTIONS)[1].tolist() == [3, 3, 1, 1]


# Ctrl-C in a call, and going on.


@contextmanager
def interrupted():
    with pytest.raises(KeyboardInterrupt):
        yield


def interrupting_makers():
    """Environment 3, which its worker steps last, presses Ctrl-C."""
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=interrupt_parent)
    return makers


INTERRUPT = np.array([0, 0, 0, 1])


@all_modes
@pytest.mark.parametrize("steps_before", [0, 1, 2])
def test_after_an_interrupted_step_a_reset_goes_on_as_if_nothing_had_been(mode, steps_before):
    makers = interrupting_makers()
    oracle = SyncVectorEnv(makers, autoreset_mode=mode)
    with closing(parallel(makers, autoreset_mode=mode)) as envs:
        envs.reset(seed=2)
        for _ in range(steps_before):
            envs.step(NO_ACTIONS)
        with interrupted():
            envs.step(INTERRUPT)
        assert envs.closed is False
        play_along(envs, oracle, mode)
    oracle.close()


def test_after_an_interrupted_step_a_reset_is_due():
    with closing(parallel(interrupting_makers(), autoreset_mode="Disabled")) as envs:
        envs.reset(seed=2)
        with interrupted():
            envs.step(INTERRUPT)
        envs.call("first")
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
            envs.step(NO_ACTIONS)
        envs.reset()
        assert envs.step(NO_ACTIONS)[1].tolist() == [1] * 4


def test_after_an_interrupted_reset_the_next_one_works():
    makers = interrupting_makers()
    with closing(parallel(makers)) as envs, closing(SyncVectorEnv(makers)) as oracle:
        with interrupted():
            envs.reset(options={"fault": True})
        assert equal(envs.reset(seed=4), oracle.reset(seed=4))
        assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))


def test_after_an_interrupted_call_the_episodes_go_on():
    with closing(parallel(interrupting_makers(), autoreset_mode="Disabled")) as envs:
        envs.reset(seed=2)
        envs.step(NO_ACTIONS)
        with interrupted():
            envs.call("run_fault")
        assert envs.get_attr("first") == (0, 100, 200, 300)
        assert envs.step(NO_ACTIONS)[1].tolist() == [2] * 4


def test_an_interrupted_call_forgets_no_reset():
    with closing(parallel(interrupting_makers(), autoreset_mode="Disabled")) as envs:
        envs.reset(seed=2)
        for _ in range(4):
            *_, terminated, _, _ = envs.step(NO_ACTIONS)
        assert terminated.all()
        envs.reset()
        with interrupted():
            envs.call("run_fault")
        envs.get_attr("first")
        assert envs.step(NO_ACTIONS)[1].tolist() == [1] * 4


def test_after_an_interrupted_restart_the_executor_goes_on(tmp_path):
    interrupt_once = partial(once, tmp_path / "interrupted", interrupt_parent)
    makers = [FragileEnv, partial(build_once, tmp_path / "built", interrupt_once)]
    with closing(parallel(makers, 2, 1, on_worker_failure="restart")) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        kill(envs, 1)
        with interrupted():
            envs.step([0, 0])
        assert envs.reset(seed=0)[0][:, 0].tolist() == [0, 900]
        assert envs.step([0, 0])[0][:, 0].tolist() == [1, 901]


def test_an_interrupted_executor_can_be_closed():
    with nothing_left_behind():
        envs = parallel(interrupting_makers())
        envs.reset(seed=2)
        with interrupted():
            envs.step(INTERRUPT)
        begin = time.monotonic()
        envs.close()
        assert time.monotonic() - begin < 2
        del envs


def test_a_step_that_raises_after_its_caller_was_interrupted_is_a_warning():
    makers = interrupting_makers()
    makers[0] = partial(makers[0], fault=partial(raise_after, 0.3))
    with closing(parallel(makers)) as envs:
        envs.reset(seed=2)
        envs.step(NO_ACTIONS)
        with interrupted():
            envs.step([1, 0, 0, 1])
        with pytest.warns(UserWarning, match="an interrupted call had failed: environment 0"):
            envs.reset(seed=2)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1] * 4


# The parent's own end, in processes of its own.

PROLOGUE = """
import os, signal, sys, time
import numpy as np
from functools import partial
from mtwrappers import MetaParallelEnvExecutor
from tests.vector.fakes import *

def main(makers, context="fork"):
    envs = MetaParallelEnvExecutor(makers, len(makers), workers=2, context=context)
    envs.reset(seed=0)
    envs.step(np.zeros(len(makers), int))
    print(*envs.worker_pids, flush=True)
    return envs

if __name__ == "__main__":
"""


@contextmanager
def script(tmp_path, code):
    """A process of its own that has printed the ids of its workers, and these."""
    path = tmp_path / "script.py"
    path.write_text(PROLOGUE + textwrap.indent(textwrap.dedent(code), "    "))
    with subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        try:
            assert len(pids) == 2, process.stderr.read()
            yield process, pids
        finally:
            for pid in (process.pid, *pids):
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("doing", ["nothing", "a step that hangs"])
def test_workers_end_with_a_parent_that_was_killed(context, doing, tmp_path):
    code = f"""
        envs = main([partial(FragileEnv, fault=hang)] * 3, {context!r})
        if {doing!r} != "nothing":
            envs.step_async([1, 0, 1])
        print("ready", flush=True)
        time.sleep(60)
    """
    with script(tmp_path, code) as (process, pids):
        assert process.stdout.readline() == "ready\n"
        assert all(map(is_alive, pids))
        process.kill()
        process.wait()
        assert all_gone(pids, 3)


def test_ctrl_c_in_a_step_leaves_an_executor_that_can_be_closed(tmp_path):
    code = """
        envs = main([partial(FragileEnv, fault=partial(time.sleep, 0.6))] * 3)
        try:
            print("ready", flush=True)
            envs.step([1, 0, 1])
            print("not interrupted")
        except KeyboardInterrupt:
            envs.close()
            print("closed", flush=True)
    """
    with script(tmp_path, code) as (process, pids):
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        # As a terminal does: to every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert (out, err, process.returncode) == ("closed\n", "", 0)
        assert all_gone(pids)


def test_ctrl_c_that_nobody_catches_ends_the_process_and_its_workers(tmp_path):
    code = """
        envs = main([partial(FragileEnv, fault=partial(time.sleep, 0.6))] * 3)
        print("ready", flush=True)
        envs.step([1, 0, 1])
    """
    with script(tmp_path, code) as (process, pids):
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert out == ""
        # One traceback, of the parent; the workers say nothing.
        assert err.count("Traceback (most recent call last)") == 1
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        assert process.returncode in (-signal.SIGINT, 130)
        assert all_gone(pids)


@pytest.mark.parametrize("leave", ["pass", "sys.exit(0)", "envs.step_async([0, 0, 0])", "del envs"])
def test_a_process_that_ends_without_closing_ends_quietly(leave, tmp_path):
    with script(tmp_path, f"envs = main([FragileEnv] * 3)\n{leave}") as (process, pids):
        out, err = process.communicate(timeout=10)
        assert (out, err, process.returncode) == ("", "", 0)
        assert all_gone(pids)


def test_workers_do_not_close_a_dropped_executor_that_they_inherit(tmp_path):
    code = """
        import gc

        class CollectingEnv(FragileEnv):
            def collect(self):
                return gc.collect() > 0

        gc.disable()
        envs = main([FragileEnv] * 3)
        envs.cycle = envs
        pids = envs.worker_pids
        del envs
        # Its workers are forked with the dropped executor, and collect it.
        others = MetaParallelEnvExecutor(CollectingEnv, 2, workers=2, context="fork")
        print(*others.call("collect"), *map(is_alive, pids), flush=True)
        others.close()
    """
    with script(tmp_path, code) as (process, pids):
        out, err = process.communicate(timeout=10)
        assert err == ""
        assert out == "True True True True\n"
        assert process.returncode == 0
        assert all_gone(pids)


def test_the_last_reference_to_an_executor_keeps_its_workers_alive_and_nothing_else_does():
    gc.collect()
    gc.disable()
    try:
        envs = parallel()
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        assert all(map(is_alive, pids))
        del envs
        assert not any(map(is_alive, pids))
    finally:
        gc.enable()


def test_collecting_an_executor_that_was_not_closed_ends_its_workers():
    with nothing_left_behind():
        envs = parallel()
        envs.reset(seed=0)
        pids = envs.worker_pids
        envs.cycle = envs
        del envs
        gc.collect()
        assert all_gone(pids)


def test_dropping_an_executor_in_the_middle_of_a_step_ends_its_workers():
    with nothing_left_behind():
        envs = parallel()
        envs.reset(seed=0)
        envs.step_async(NO_ACTIONS)
        pids = envs.worker_pids
        del envs
        gc.collect()
        assert all_gone(pids)


def test_executors_do_not_disturb_each_other():
    first, second, oracle = parallel(), parallel(), MetaIterativeEnvExecutor(fragile_makers(), 2, 2)
    play_along(first, oracle, AutoresetMode.SAME_STEP, seed=1)
    play_along(second, oracle, AutoresetMode.SAME_STEP, seed=2)
    first.close()
    play_along(second, oracle, AutoresetMode.SAME_STEP, seed=3)
    kill(second, 1)
    with pytest.raises(WorkerDiedError, match="worker 1"):
        second.step(NO_ACTIONS)
    third = parallel()
    play_along(third, oracle, AutoresetMode.SAME_STEP, seed=4)
    third.close()


def test_a_worker_that_does_not_close_is_ended(monkeypatch):
    monkeypatch.setattr("mtwrappers.vector.pool.CLOSE_TIMEOUT", 0.3)
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


# Many kills in one run.


def shared_memory():
    return set(os.listdir("/dev/shm"))


def test_fifty_kills_leave_nothing_behind():
    rng = np.random.default_rng(0)
    makers = fragile_makers(6, length=3)
    actions = np.zeros(6, int)
    before = shared_memory()
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
        envs = parallel(makers, 3, workers=3, on_worker_failure="restart")
        envs.reset(seed=0)
        envs.step(actions)
        killed = restarted = 0
        at_first = None
        while killed < 25:
            if rng.random() < 0.3:
                kill(envs, killed % 3)
                killed += 1
            restarted += "worker_restarted" in envs.step(actions)[4]
            if killed == 1 and at_first is None:
                at_first = len(children()), open_files()
        assert restarted == 25
        assert (len(children()), open_files()) == at_first
        envs.close()
        del envs
    assert wait_until(lambda: shared_memory() <= before, 5)
