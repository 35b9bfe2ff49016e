"""`check_vector_env` and environments that raise: they are named, and nothing stays open."""

import multiprocessing
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers.testing import check_vector_env
from mtwrappers.testing.executors import alone
from mtwrappers.testing.processes import can_start, start_method
from mtwrappers.testing.subject import subject_of
from tests.testing.faults import WalkEnv


class FailingEnv(WalkEnv):
    """Fails to be made, reset or stepped as the third of all."""

    made: list["FailingEnv"]

    def __init__(self, fails, made):
        super().__init__()
        self.fails, self.made, self.closed = fails, made, False
        self._fail("make")
        made.append(self)

    def _fail(self, where):
        if self.fails == where and len(self.made) >= 2:
            raise RuntimeError(f"cannot {where}")

    def reset(self, *, seed=None, options=None):
        self._fail("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._fail("step")
        return super().step(action)

    def close(self):
        self.closed = True


@pytest.mark.parametrize("fails", ["make", "reset", "step"])
def test_environments_that_run_by_themselves_are_closed_if_one_of_them_raises(fails):
    subject = subject_of(WalkEnv, {}, None, None)
    subject.make = partial(FailingEnv, fails, made := [])
    with pytest.raises(RuntimeError, match=f"cannot {fails}"):
        alone(subject, [[0] * 3], AutoresetMode.SAME_STEP)
    assert [env.closed for env in made] == [True] * (2 if fails == "make" else 3)


def no_message():
    raise AssertionError


def leave():
    sys.exit(3)


class UnreadableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class OddEnv(WalkEnv):
    """Does something odd at ``where``."""

    def __init__(self, where, do):
        super().__init__()
        self.where, self.do = where, do
        if where == "action_space":
            self.action_space = None

    def reset(self, *, seed=None, options=None):
        return self.do() if self.where == "reset" else super().reset(seed=seed, options=options)

    def step(self, action):
        return self.do() if self.where == "step" else super().step(action)

    def close(self):
        if self.where == "close":
            self.do()

    def __del__(self):
        if self.where == "__del__":
            self.do()


def unreadable():
    raise UnreadableError


FILE = r"\(test_check_failures.py, line \d+, in {}\)".format


@pytest.mark.parametrize(
    ("make", "check", "says"),
    [
        (
            no_message,
            "runs",
            f"it cannot be made: AssertionError without a message {FILE('no_.*')}",
        ),
        (leave, "runs", f"it cannot be made: SystemExit: 3 {FILE('leave')}"),
        (partial(OddEnv, "reset", leave), "runs", f"SystemExit: 3 {FILE('leave')}"),
        (partial(OddEnv, "step", no_message), "runs", "AssertionError without a message"),
        (partial(OddEnv, "step", unreadable), "runs", "UnreadableError: its message cannot"),
        (partial(OddEnv, "close", no_message), "runs", "AssertionError without a message"),
        (partial(OddEnv, "__del__", no_message), "close", "deleted raises AssertionError without"),
        (partial(OddEnv, "reset", list), "runs", r"must return \(observation, info\), got \[\]"),
        (
            partial(OddEnv, "step", lambda: None),
            "runs",
            r"step 0 must return \(.*info\), got None",
        ),
        (partial(OddEnv, "action_space", None), "runs", "must be a gymnasium.Space, got None"),
    ],
)
def test_whatever_an_environment_raises_is_named_with_its_place(make, check, says, capfd):
    report = check_vector_env(make, steps=30)
    assert report.failed == (check,)
    assert re.search(says, report[check].says)
    if start_method() == "fork":  # other workers print by themselves what their __del__ raises
        assert capfd.readouterr() == ("", "")


def test_a_module_of_an_id_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_ids.py").write_text("raise OSError('no file')")
    monkeypatch.syspath_prepend(tmp_path)
    report = check_vector_env("broken_ids:Walk-v0")
    expected = (
        "broken_ids cannot be imported: OSError: no file (broken_ids.py, line 1, in <module>)"
    )
    assert report["runs"].says == expected


class OneBufferVectorEnv(SyncVectorEnv):
    """Gives all its environments the same seed, and returns their observations in one array."""

    def __init__(self):
        super().__init__([WalkEnv] * 3, copy=False)

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if seed is None else [seed] * 3, options=options)


def test_an_array_that_a_vector_environment_uses_again_does_not_hide_equal_seeds():
    report = check_vector_env(OneBufferVectorEnv, steps=30)
    assert {"seeds of each", "new arrays"} <= set(report.failed)
    assert "all have the same seed" in report["seeds of each"].says


def leave_a_worker():
    env = WalkEnv()
    if multiprocessing.parent_process() is not None:
        env.step = lambda action: leave()
    return env


@pytest.mark.slow
def test_workers_that_end_are_a_fault_in_words():
    report = check_vector_env(leave_a_worker, steps=30)
    says = report["sync = async"].says
    assert re.search(r"^AsyncVectorEnv fails in mode NextStep: \w+ without a message \(", says)
    assert "with 1 worker fails in mode SameStep: WorkerDied" in report["sync = 1 worker"].says


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
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr  # in which libraries that draw may complain
    assert ", 0 failed, " in ran.stdout
    assert ran.stdout.count("no worker process can start: each imports the main") == 1
    assert ran.stdout.count("see 'sync = async'") == 4


def test_with_a_main_guard_workers_start(monkeypatch):
    monkeypatch.setattr("mtwrappers.testing.processes.start_method", lambda: "spawn")
    assert can_start()


class BlindEnv(WalkEnv):
    """Observes nothing of where it is, and a distance that is no number."""

    def see(self):
        return np.zeros(2)

    def step(self, action):
        *returned, _ = super().step(action)
        return *returned, {"distance": np.array([np.nan])}


class CoinEnv(WalkEnv):
    """Begins at 0 or 1, and ends after two steps at 1."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.integers(2)), 0
        return self.see(), {}

    def step(self, action):
        self.steps += 1
        self.place, self.goal = 1.0, 0.0
        return self.see(), 0.0, self.steps == 2, False, {}

    def draw_goal(self):
        return 0.0


def vector_of(env, num_envs=3, autoreset_mode=AutoresetMode.SAME_STEP):
    return SyncVectorEnv([env] * num_envs, autoreset_mode=autoreset_mode)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("env", [BlindEnv, CoinEnv])
@pytest.mark.slow
def test_an_end_that_looks_like_a_beginning_is_no_fault_where_that_may_be(env):
    report = check_vector_env(env, steps=30)
    assert report.ok, str(report)
    assert (report["resets itself"].outcome == "skipped") is (env is BlindEnv)
    report = check_vector_env(partial(vector_of, env), steps=30)
    assert report["autoreset"].outcome == "passed", str(report)


def test_that_others_are_reset_does_not_change_what_the_first_environment_shows():
    make = partial(vector_of, WalkEnv, autoreset_mode=AutoresetMode.DISABLED)
    report = check_vector_env(make, steps=30)
    assert report["batch size"].outcome == "passed", str(report)
