"""`check_vector_env` names what is wrong with environments, and nothing of those that are right."""

import json
import os
import re
import subprocess
import sys
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv
from gymnasium.wrappers.vector import NormalizeReward
from gymnasium.wrappers.vector import RecordEpisodeStatistics as VectorStatistics

from mtwrappers import MetaParallelEnvExecutor, PointGoalEnv
from mtwrappers.testing import check_vector_env
from mtwrappers.testing.processes import can_start, guarded
from tests.fakes import run_python
from tests.testing import faults
from tests.testing.conftest import MANY
from tests.testing.faults import DISABLED, NEXT, SAME, WalkEnv
from tests.vector.processes import nothing_left_behind

check = partial(check_vector_env, steps=80)

ALONE = [name for name, (_, rows, _) in faults.ENVS.items() if not rows[0].startswith(MANY)]
INSIDE = [name for name in faults.ENVS if name not in ALONE]
# Of each kind one in the fast tier.
FAST_INSIDE = ("counted, late", "late in workers", "hidden state", "thread")
FAST_VECTORS = ("#1132", "final of neighbour", "swapped actions", "masked reset", "seed // 10")


def found(make, rows, says, others=()):
    """The report on a fault, whose first failed rows and words are as expected."""
    report = check(make)
    assert [*report.failed][: len(rows)] == rows, str(report)
    assert set(report.failed) <= {*rows, *others}, str(report)
    assert says in str(report[rows[0]])
    return report


@pytest.mark.usefixtures("alone", "same_random_state")
@pytest.mark.parametrize("fault", ALONE)
def test_the_fault_of_an_environment_by_itself_is_found_and_named(fault):
    make, rows, says = faults.ENVS[fault]
    rows = [row for row in rows if not row.startswith(MANY)]
    found(make, rows, says, ["task observation"])


@pytest.mark.parametrize("fault", INSIDE)
@pytest.mark.slow_but(*FAST_INSIDE)
def test_the_fault_of_an_environment_among_others_is_found_and_named(fault):
    make, rows, says = faults.ENVS[fault]
    others = [f"autoreset {mode.value}" for mode in (NEXT, SAME, DISABLED)]
    found(make, rows, says, [*others, "sync = async", "sync = 2 workers", "killed worker"])


@pytest.mark.parametrize("fault", faults.VECTORS)
@pytest.mark.slow_but(*FAST_VECTORS)
def test_the_fault_of_a_vector_environment_is_found_and_named(fault):
    assert found(*faults.VECTORS[fault]).kind == "vector environment"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("env", faults.RIGHT)
def test_an_environment_without_a_fault_passes_by_itself(env):
    report = check(env)
    assert report.ok, str(report)
    assert report["other seeds"].outcome == report["pickling"].outcome == "passed"


@pytest.mark.parametrize("given", [*faults.RIGHT, "CartPole-v1", "mtwrappers/Ledger-v0"])
@pytest.mark.slow_but("TaskIdEnv")
def test_an_environment_without_a_fault_passes_among_others(given):
    report = check(given)
    assert report.ok, str(report)
    assert report["sync = 2 workers"].outcome == report["killed worker"].outcome == "passed"


def test_an_environment_is_checked_by_its_copies():
    assert check(PointGoalEnv(), steps=20).ok


@pytest.mark.parametrize("env", faults.RIGHT)
@pytest.mark.slow_but("WalkEnv", "DiscreteTaskEnv")
def test_a_vector_environment_without_a_fault_passes(env):
    report = check(partial(faults.make_sync, env=env))
    # Of Gymnasium 1.4: it takes the mask out of the caller's options.
    assert set(report.failed) <= {"partial reset"}, str(report)
    assert report["independence"].outcome == report["as SyncVectorEnv"].outcome == "passed"


class Scaled(gymnasium.vector.VectorWrapper):
    def step(self, actions):
        obs, rewards, *rest = self.env.step(actions)
        return 2 * obs, np.floor(rewards).astype(np.int32), *rest


@pytest.mark.skipif(
    gymnasium.__version__ < "1.4", reason="older wrappers of Gymnasium leave steps out"
)
@pytest.mark.parametrize(
    "make",
    [
        faults.same(Scaled),
        faults.same(VectorStatistics),
        faults.same(lambda envs: NormalizeReward(VectorStatistics(envs)), mode=NEXT),
    ],
)
def test_what_wrappers_change_is_no_fault(make):
    report = check(make)
    assert report.ok, str(report)
    assert report["as SyncVectorEnv"].outcome == "passed"


@pytest.mark.usefixtures("alone")
def test_what_was_seen_is_said():
    says = {
        (faults.FixedEnv, "other seeds"): "seeds reach its generators and change nothing within 10",
        (faults.UnseededFixedEnv, "other seeds"): "seeds change nothing: it draws no random",
        (faults.DrawnEnv, "render"): "with render_mode='rgb_array', 5 calls of render() change no",
        (faults.TaskIdEnv, "task observation"): "it is info['task_id'] on resets and steps, in 1",
        (faults.WalkEnv, "resets itself"): "step() never resets by itself (3 ends of episodes",
    }
    for (env, row), text in says.items():
        assert check(env)[row].says.startswith(text)
    says = check(WalkEnv, steps=3)["seed repeats"].says
    assert says.endswith("on a used one in mid-episode (none ended within 3 steps)")


@pytest.mark.usefixtures("alone")
def test_what_cannot_be_drawn_here_is_no_fault_and_ends_nothing():
    for draw in (lambda s: faults.raise_(RuntimeError("no display")), lambda s: os.abort()):
        env = faults.broken(faults.DrawnEnv, draw=draw)
        says = check(env)["render"].says
        assert says.endswith("there is nothing here to draw 'rgb_array' with")
        assert check(lambda env=env: env("rgb_array"))["render"].outcome == "skipped"


@pytest.mark.slow
def test_two_models_without_a_display_do_not_end_the_interpreter():
    pytest.importorskip("mujoco")
    code = (
        "import os; [os.environ.pop(name, None) for name in ('DISPLAY', 'MUJOCO_GL')]\n"
        "from mtwrappers.testing import check_vector_env\n"
        "for name in ('Hopper-v5', 'Swimmer-v5'):\n"
        "    print(check_vector_env(name, steps=20).ok)"
    )
    assert run_python(code).split() == ["True", "True"]


# Infos that are ignored.


@pytest.mark.usefixtures("alone")
def test_an_info_that_does_not_repeat_can_be_ignored_and_is_still_named():
    report = check(faults.ClockInfoEnv)
    assert report.failed == ("seed repeats",)
    assert "--ignore info.action, in Python ignore=['info.action']" in report["seed repeats"].says
    blocked = [r.name for r in report.results if r.says == "see 'seed repeats'"]
    assert len(blocked) == 5
    table = " ".join(str(report).split())
    assert f"skipped 5 checks compare with what failed: {', '.join(blocked)}" in table
    report = check(faults.ClockInfoEnv, ignore=["info.action.clock", "info.goal", "info.gaol"])
    assert report.ok, str(report)
    says = report["seed repeats"].says
    assert "info.action.clock is ignored: it does not repeat (step 0, info['action']" in says
    assert says.endswith(
        "info.gaol is ignored: it was never returned; info.goal is ignored: it repeats"
    )


def test_an_info_is_ignored_in_batches_with_its_mask_and_its_last_value():
    make = faults.same(env=faults.ClockInfoEnv)
    assert check(make).failed == ("seed repeats",)
    assert check(make, ignore=["info.action"]).ok


@pytest.mark.parametrize("ignore", ["info.action", ["action"], ["observation.time"], ["info."]])
def test_only_infos_can_be_ignored(ignore):
    with pytest.raises(ValueError, match=r"must be names of infos such as \['info.action'\], got"):
        check(WalkEnv, ignore=ignore)


# Reports.


@pytest.mark.usefixtures("alone")
def test_a_report_is_a_table_of_80_columns_and_data():
    report = check(faults.NumpyFlagEnv, num_envs=2)
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["NumpyFlagEnv (environment)", "seed 0, sub-environments: 2"]
    data = json.loads(json.dumps(report.to_dict()))
    [types] = [result for result in data["results"] if result["name"] == "types"]
    assert not data["ok"]
    assert types["difference"] == {
        "env": None,
        "call": "step 0",
        "key": "terminated",
        "expected": "a bool of Python",
        "actual": "numpy.bool False",
    }


@pytest.mark.usefixtures("alone")
def test_the_callers_random_state_stays(same_random_state):
    np.random.seed(5)
    expected = np.random.get_state()[1].tolist()
    check(faults.ENVS["np.random"][0], steps=10)
    assert np.random.get_state()[1].tolist() == expected


# Environments that raise.


class UnreadableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def no_message():
    raise AssertionError


def leave():
    sys.exit(3)


def odd(name, do):
    return faults.broken(**{name: lambda s, *args, **kwargs: do()})


FILE = r"\(test_check.py, line \d+, in {}\)".format


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (no_message, f"it cannot be made: AssertionError without a message {FILE('no_.*')}"),
        (leave, f"it cannot be made: SystemExit: 3 {FILE('leave')}"),
        (odd("reset", leave), f"SystemExit: 3 {FILE('leave')}"),
        (odd("step", no_message), "AssertionError without a message"),
        (odd("step", lambda: faults.raise_(UnreadableError())), "UnreadableError: its message"),
        (odd("close", no_message), "AssertionError without a message"),
        (odd("reset", list), r"must return \(observation, info\), got \[\]"),
        (odd("step", lambda: None), r"step 0 must return \(.*info\), got None"),
        (faults.broken(actions=None), "must be a gymnasium.Space, got None"),
    ],
)
def test_whatever_an_environment_raises_is_named_with_its_place(make, says):
    report = check(make)
    assert [r.name for r in report.results] == ["runs"]
    assert re.search(says, report["runs"].says)


def test_what_is_no_environment_is_an_error():
    with pytest.raises(TypeError, match="expected an id, an environment"):
        check(3)
    with pytest.raises(TypeError, match=r"must make a gymnasium\.Env or VectorEnv, got 3"):
        check(lambda: 3)
    env = WalkEnv()
    env.hook = (i for i in ())  # which does not pickle
    with pytest.raises(TypeError, match="give the function that makes it"):
        check(env)
    with pytest.raises(gymnasium.error.NameNotFound):
        check("NoSuch-v0")


def test_a_module_of_an_id_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_ids.py").write_text("raise OSError('no file')")
    monkeypatch.syspath_prepend(tmp_path)
    says = check("broken_ids:Walk-v0")["runs"].says
    assert (
        says == "broken_ids cannot be imported: OSError: no file (broken_ids.py, line 1, in "
        "<module>)"
    )


# Workers.


@pytest.fixture
def forks(monkeypatch):
    """Lets the check fork although this process may have threads, or have loaded OpenGL."""
    monkeypatch.setattr("mtwrappers.testing.vector.start_method", lambda: "fork")


@pytest.mark.usefixtures("forks")
def test_workers_are_killed_for_real():
    with nothing_left_behind():
        report = check(lambda: MetaParallelEnvExecutor(WalkEnv, 2, workers=2, context="fork"))
    assert report.ok, str(report)
    assert report["killed worker"].says.startswith("step() raised WorkerDiedError")


class Hanging(AsyncVectorEnv):
    def step_wait(self, timeout=None):
        while not all(process.is_alive() for process in self.processes):
            pass
        return super().step_wait(timeout)


@pytest.mark.usefixtures("forks")
@pytest.mark.slow
def test_a_vector_environment_that_hangs_when_a_worker_is_killed_is_found(monkeypatch):
    monkeypatch.setattr("mtwrappers.testing.vector._HANGS", 0.5)
    report = check(lambda: Hanging([WalkEnv] * 2))
    assert report.failed == ("killed worker",), str(report)
    assert "hangs" in report["killed worker"].says


def test_an_answer_does_not_wait_for_what_was_left_behind():
    def leave_a_process():
        if os.fork() == 0:
            time.sleep(10)
            os._exit(0)
        return "an answer"

    start = time.monotonic()
    assert guarded(leave_a_process, 60) == "an answer"
    assert time.monotonic() - start < 9
    with pytest.raises(RuntimeError, match="ended without an answer"):
        guarded(lambda: os._exit(0), 60)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.slow
def test_without_a_main_guard_one_sentence_says_so(method, tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import multiprocessing\n"
        f"multiprocessing.set_start_method({method!r}, force=True)\n"
        "from mtwrappers.testing import check_vector_env\n"
        "print(check_vector_env('CartPole-v1', steps=30))\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0
    assert ", 0 failed, " in ran.stdout
    assert ran.stdout.count("no worker process can start: each imports the main") == 1


@pytest.mark.slow
def test_workers_of_a_fork_server_know_the_registered_ids(tmp_path):
    script = tmp_path / "threaded.py"
    script.write_text(
        "import threading\n"
        "if __name__ == '__main__':\n"  # what a worker imports anew does not register the id
        "    from mtwrappers.testing import check_vector_env\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "    print(check_vector_env('mtwrappers/PointGoal-v0', steps=30))\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
    assert "FAILED" not in ran.stdout
    assert "passed   sync = async" in ran.stdout


def test_with_a_main_guard_workers_start(monkeypatch):
    monkeypatch.setattr("mtwrappers.testing.processes.start_method", lambda: "spawn")
    assert can_start()
