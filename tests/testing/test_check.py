"""`check_vector_env` names what is wrong with environments, and nothing of those that are right."""

import gc
import multiprocessing
import os
import re
import sys
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv
from gymnasium.wrappers.vector import NormalizeReward
from gymnasium.wrappers.vector import RecordEpisodeStatistics as VectorStatistics

from mtwrappers import (
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    VectorNormalizeObservationPerTask,
)
from mtwrappers.testing import check_vector_env, rules
from mtwrappers.testing.check import CheckResult, format_result
from mtwrappers.testing.vector_rules import can_start
from tests.testing import faults
from tests.testing.conftest import MANY
from tests.testing.faults import NEXT, LongEnv, WalkEnv
from tests.vector.processes import nothing_left_behind

check = partial(check_vector_env, steps=80)

ALONE = [name for name, (_, rows, *_) in faults.ENVS.items() if not rows.startswith(MANY)]
INSIDE = [name for name in faults.ENVS if name not in ALONE]
# Of each kind one in the fast tier.
FAST_INSIDE = ("counted", "late in workers", "process")
FAST_VECTORS = ("#1132", "finals at once", "swapped actions", "masked reset", "keeps actions")


def assert_fault_is_reported(make, rows, message="", other_rows=(), rows_left_out=()):
    """Returns the report on a fault, whose first failed rows and first message are as expected."""
    rows = [row for row in rows.split(", ") if row not in rows_left_out]
    report = check(make)
    assert [*report.failed][: len(rows)] == rows, str(report)
    assert set(report.failed) <= {*rows, *other_rows}, str(report)
    assert message in report[rows[0]].message
    return report


@pytest.mark.usefixtures("alone", "same_random_state")
@pytest.mark.parametrize("fault", ALONE)
def test_the_fault_of_an_environment_by_itself_is_found_and_named(fault):
    assert_fault_is_reported(
        *faults.ENVS[fault], other_rows=["task observation"], rows_left_out=MANY
    )


@pytest.mark.usefixtures("among")
@pytest.mark.parametrize("fault", INSIDE)
@pytest.mark.slow_but(*FAST_INSIDE)
def test_the_fault_of_an_environment_among_others_is_found_and_named(fault):
    assert_fault_is_reported(*faults.ENVS[fault], other_rows=MANY)


@pytest.mark.parametrize("fault", faults.HASHED)
@pytest.mark.slow_but("hash order")
def test_results_that_differ_from_process_to_process_are_found(fault):
    report = check(faults.HASHED[fault])
    assert "other process" in report.failed, str(report)
    assert set(report.failed) <= {*MANY}, str(report)
    assert "depend on the order of a set or on hash()" in report["other process"].message


@pytest.mark.parametrize("fault", faults.VECTORS)
@pytest.mark.slow_but(*FAST_VECTORS)
def test_the_fault_of_a_vector_environment_is_found_and_named(fault):
    assert assert_fault_is_reported(*faults.VECTORS[fault]).kind == "vector environment"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("env", [*faults.RIGHT, faults.KeptStartEnv])
def test_an_environment_without_a_fault_passes_by_itself(env):
    report = check(env)
    assert report.ok, str(report)
    assert report["other seeds"].outcome == report["pickling"].outcome == "passed"


@pytest.mark.parametrize("env", [*faults.RIGHT, "CartPole-v1"])
@pytest.mark.slow_but("TaskIdEnv")
def test_an_environment_without_a_fault_passes_among_others(env):
    report = check(env)
    assert report.ok, str(report)
    assert report["workers"].outcome == report["killed worker"].outcome == "passed"


@pytest.mark.parametrize("env", [*faults.RIGHT, faults.KeptStartEnv])
@pytest.mark.slow_but("WalkEnv", "DiscreteTaskEnv")
def test_a_vector_environment_without_a_fault_passes(env):
    report = check(partial(faults.make_sync, env=env))
    # Of Gymnasium 1.4: it takes the mask out of the caller's options.
    assert set(report.failed) <= {"partial reset"}, str(report)
    assert report["independence"].outcome == report["as sync"].outcome == "passed"


class Scaled(gymnasium.vector.VectorWrapper):
    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        return 2 * obs, np.floor(rewards).astype(np.int32), terminated, truncated, infos


@pytest.mark.skipif(
    gymnasium.__version__ < "1.4", reason="older wrappers of Gymnasium leave steps out"
)
@pytest.mark.parametrize(
    "make",
    [
        faults.wrap_sync(Scaled),
        faults.wrap_sync(VectorStatistics),
        faults.wrap_sync(lambda envs: NormalizeReward(VectorStatistics(envs)), mode=NEXT),
    ],
)
@pytest.mark.slow_but("make2")
def test_what_wrappers_change_is_no_fault(make):
    report = check(make)
    assert report.ok, str(report)
    assert report["as sync"].outcome == "passed"


@pytest.mark.parametrize(
    "normalize",
    [
        gymnasium.wrappers.NormalizeObservation,
        gymnasium.wrappers.NormalizeReward,
        NormalizeObservationPerTask,
        NormalizeRewardPerTask,
    ],
)
@pytest.mark.slow_but("NormalizeObservation")
def test_running_statistics_are_no_fault(normalize):
    report = check(lambda: normalize(LongEnv()))
    assert report.ok, str(report)
    names = ("new episodes", "close", "workers", "killed worker")
    assert {report[name].outcome for name in names} == {"passed"}


@pytest.mark.usefixtures("alone")
def test_running_statistics_hide_no_fault():
    fault, rows, *_ = faults.ENVS["repeated seed"]
    report = check(lambda: gymnasium.wrappers.NormalizeObservation(fault()))
    assert report.failed == (rows,)


def test_running_statistics_of_a_vector_environment_are_no_fault():
    report = check(lambda: VectorNormalizeObservationPerTask(MetaIterativeEnvExecutor(LongEnv, 3)))
    assert report.ok, str(report)


@pytest.mark.usefixtures("alone")
def test_what_cannot_be_drawn_here_is_no_fault_and_ends_nothing():
    for draw in (lambda s: faults.raise_error(RuntimeError("no display")), lambda s: os.abort()):
        report = check(faults.subclass(faults.DrawnEnv, draw=draw))
        assert report.ok
        assert report["render"].outcome == "skipped"
    assert check(faults.DrawnEnv)["render"].outcome == "passed"


@pytest.mark.usefixtures("alone")
def test_a_report_is_a_table_of_80_columns_in_which_faults_come_first():
    report = check(faults.subclass(step=lambda s, a: (s.see(), 0.0, np.False_, False, {})))
    assert str(report) == (
        "Broken (environment)\n"
        "FAILED   types             a value has the wrong type: step 0, terminated:\n"
        "                           expected a bool of Python, got numpy.bool False\n"
        "skipped  statistics        it keeps no statistics\n"
        "skipped  task observation  infos have no task_id\n"
        "skipped  resets itself     no episode ended within 80 steps\n"
        "skipped  render            it has no render()\n"
        "skipped  tasks             it has no tasks\n"
        "passed   runs, infos, spaces, new arrays, seed repeats, new episodes, options,\n"
        "         global random, actions, sampling, other seeds, pickling, global\n"
        "         settings"
    )


@pytest.mark.usefixtures("alone")
def test_each_result_is_told_when_its_check_has_ended():
    results, steps = [], []

    class CountedSteps(faults.NumpyFlagEnv):
        def step(self, action):
            steps.append(action)
            return super().step(action)

    report = check(CountedSteps, on_result=lambda result: results.append((result, len(steps))))
    assert tuple(result for result, _ in results) == report.results
    step_counts = {result.name: step_count for result, step_count in results}
    assert step_counts["runs"] == step_counts["types"] == 80  # which look at what was recorded
    assert (
        step_counts["runs"]
        < step_counts["spaces"]
        < step_counts["new arrays"]
        < step_counts["seed repeats"]
    )


def test_a_row_is_wrapped_below_its_name_where_there_are_few_columns():
    result = CheckResult("close", "failed", "threads are still running after close(): a, b")
    assert format_result(result, 80, 8) == [
        "FAILED   close     threads are still running after close(): a, b"
    ]
    assert format_result(result, 30) == [
        "FAILED   close",
        "  threads are still running",
        "  after close(): a, b",
    ]


@pytest.mark.usefixtures("alone")
def test_an_info_that_does_not_repeat_is_named_and_can_be_ignored():
    report = check(faults.ClockInfoEnv)
    assert report.failed == ("seed repeats",)
    assert (
        "--ignore info.action, in Python ignore=['info.action']" in report["seed repeats"].message
    )
    blocked = [r.name for r in report.results if r.message == "see 'seed repeats'"]
    assert blocked == [
        *("new episodes", "options", "global random", "actions", "sampling"),
        *("other seeds", "pickling", "render", "tasks"),
    ]
    table = " ".join(str(report).split())
    assert f"skipped 9 checks ({', '.join(blocked)}): see 'seed repeats'" in table
    assert check(faults.ClockInfoEnv, ignore=["info.action.clock", "info.goal", "info.gaol"]).ok


@pytest.mark.parametrize(
    ("make_env", "outcome"),
    [(partial(gymnasium.make, "CartPole-v1"), "passed"), (WalkEnv, "skipped")],
)
def test_constructors_that_were_an_iterator_are_found_by_specs(make_env, outcome):
    report = check(lambda: faults.SyncVectorEnv(iter([make_env] * 2), autoreset_mode=NEXT))
    assert report.ok, str(report)
    assert report["as sync"].outcome == outcome


# Parts of checks that cannot run.


def no_loading():
    """An environment whose wrapper asks for attributes in an endless recursion while it loads."""
    return faults.NoLoadingWrapper(WalkEnv())


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("make", "row", "message"),
    [
        (
            no_loading,
            "pickling",
            "its constructor can be sent to a worker, but these copies cannot be checked: a copy "
            "made by pickle (RecursionError: ",
        ),
        (
            faults.subclass(faults.GoalArrayEnv, sample_tasks=property()),
            "tasks",
            "it has set_task() but no sample_tasks()",
        ),
        (
            faults.subclass(faults.GoalArrayEnv, set_task=property()),
            "tasks",
            "it has sample_tasks() but no set_task()",
        ),
        (
            faults.run_before_reset(lambda s, options: options is not None and options["level"]),
            "options",
            "reset() needs an option: KeyError: 'level'",
        ),
    ],
)
def test_a_check_that_cannot_run_is_skipped_with_the_reason(make, row, message):
    report = check(make)
    assert report.ok, str(report)
    assert report[row].outcome == "skipped"
    assert message in report[row].message


@pytest.mark.usefixtures("alone")
def test_tasks_that_cannot_be_read_are_named_where_the_check_passes():
    report = check(faults.ScaledEnv)
    assert report["tasks"].outcome == "passed"
    note = "passed tasks it has no get_task(), so the tasks that it is on could not be compared"
    assert note in " ".join(str(report).split())
    assert not check(faults.GoalArrayEnv)["tasks"].message


def test_a_list_of_seeds_that_is_refused_is_named():
    def refuse(envs, seed, options):
        if isinstance(seed, list):
            raise TypeError("one seed only")
        return envs.env.reset(seed=seed, options=dict(options or {}))

    report = check(faults.wrap_sync(faults.Resets, refuse, mode=faults.DISABLED))
    assert report.ok, str(report)
    for row in ("seeds of each", "partial reset"):
        assert report[row].outcome == "skipped"
        assert "TypeError: one seed only" in report[row].message


def test_an_environment_that_cannot_run_in_a_new_process_is_named():
    here = os.getpid()

    def make():
        if os.getpid() != here and multiprocessing.parent_process() is None:
            raise OSError("no licence")
        return WalkEnv()

    report = check(make)
    assert report.ok, str(report)
    assert report["other process"].outcome == "skipped"
    assert report["other process"].message == (
        "it cannot be made and run in a new process: OSError: no licence"
    )


def test_a_new_process_imports_the_module_of_an_id_of_a_vector_environment(tmp_path, monkeypatch):
    (tmp_path / "vector_ids.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('tests/VectorIds-v0', 'tests.testing.faults:WalkEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    report = check("vector_ids:tests/VectorIds-v0", vector=True)
    assert (report.kind, report["other process"].outcome) == ("vector environment", "passed")


# Environments that raise.


def no_message():
    raise AssertionError


def leave():
    sys.exit(3)


def make_env_that_calls(function, method):
    return faults.subclass(**{method: lambda s, *args, **kwargs: function()})


FILE = r"\(test_check.py, line \d+, in {}\)".format


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (no_message, f"it cannot be made: AssertionError without a message {FILE('no_.*')}"),
        (leave, f"it cannot be made: SystemExit: 3 {FILE('leave')}"),
        (make_env_that_calls(leave, "reset"), f"SystemExit: 3 {FILE('leave')}"),
        (make_env_that_calls(no_message, "close"), "AssertionError without a message"),
        (
            make_env_that_calls(list, "reset"),
            r"must return \(.*info\), got \[\]; an environment of the old",
        ),
        (make_env_that_calls(lambda: None, "step"), r"step 0 must return \(.*info\), got None"),
        (faults.subclass(actions=None), "must be a gymnasium.Space, got None"),
    ],
)
def test_whatever_an_environment_raises_is_named_with_its_place(make, message):
    report = check(make)
    assert [r.name for r in report.results] == ["runs"]
    assert re.search(message, report["runs"].message)


def test_a_module_of_an_id_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_ids.py").write_text("raise OSError('no file')")
    monkeypatch.syspath_prepend(tmp_path)
    assert check("broken_ids:Walk-v0")["runs"].message == (
        "broken_ids cannot be imported: OSError: no file (broken_ids.py, line 1, in <module>)"
    )


# Workers.


@pytest.fixture
def forks(monkeypatch):
    """Lets the check fork although this process may have threads, or have loaded OpenGL."""
    monkeypatch.setattr("mtwrappers.testing.vector_rules.start_method", lambda: "fork")


@pytest.mark.usefixtures("forks")
def test_workers_are_killed_for_real():
    with nothing_left_behind():
        report = check(lambda: MetaParallelEnvExecutor(WalkEnv, 2, workers=2, context="fork"))
    assert report.ok, str(report)
    assert report["killed"].outcome == "passed"


def test_without_workers_the_report_says_how_to_ask_for_them():
    report = check(lambda: MetaIterativeEnvExecutor(WalkEnv, 2))
    assert report["killed"].message == (
        "it has no worker processes; if it takes an argument for them, such as workers=2, pass it "
        "as kwargs, on the command line --kwargs '{\"workers\": 2}'"
    )


class Hanging(AsyncVectorEnv):
    def step_wait(self, timeout=None):
        while not all(process.is_alive() for process in self.processes):
            time.sleep(0.1)
        return super().step_wait(timeout)


@pytest.mark.usefixtures("forks")
@pytest.mark.slow
def test_a_vector_environment_that_hangs_when_a_worker_is_killed_is_found(monkeypatch):
    monkeypatch.setattr("mtwrappers.testing.vector_rules._KILL_TIMEOUT", 0.5)
    report = check(lambda: Hanging([WalkEnv] * 2))
    assert report.failed == ("killed",), str(report)
    assert "hangs" in report["killed"].message


class LeavingWorkers(AsyncVectorEnv):
    """Does not end its workers if any of them was killed."""

    def close(self, **kwargs):
        if all(process.is_alive() for process in self.processes):
            super().close(**kwargs)


@pytest.mark.usefixtures("forks")
def test_a_vector_environment_that_leaves_workers_when_one_is_killed_is_found():
    report = check(lambda: LeavingWorkers([WalkEnv] * 2))
    assert report.failed == ("killed",), str(report)
    assert report["killed"].message == "after a worker was killed, close() leaves processes"


def test_with_a_main_guard_workers_start():
    assert can_start("spawn")


def test_the_garbage_collector_is_put_back_as_it_was():
    gc.disable()
    try:
        with rules.restored_globals():
            gc.enable()
        assert not gc.isenabled()
    finally:
        gc.enable()
