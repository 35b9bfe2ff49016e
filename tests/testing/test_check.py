"""`check_vector_env` names what is wrong with environments, and nothing of those that are right."""

import json
import os
import time
from functools import partial
from multiprocessing import resource_tracker

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import NormalizeReward
from gymnasium.wrappers.vector import RecordEpisodeStatistics as VectorStatistics

from mtwrappers import MetaParallelEnvExecutor, PointGoalEnv
from mtwrappers.testing import check_vector_env
from mtwrappers.testing.check.processes import guarded
from tests.testing import faults
from tests.vector.processes import children, nothing_left_behind, wait_until

check = partial(check_vector_env, steps=80)
NEXT, SAME = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP


@pytest.mark.parametrize(
    "given", ["CartPole-v1", "mtwrappers/Ledger-v0", faults.WalkEnv, PointGoalEnv()]
)
def test_environments_without_a_fault_pass(given):
    report = check(given)
    assert report.ok, str(report)
    assert report.kind == "environment"
    assert {r.name for r in report.results if r.outcome == "skipped"} <= {
        "resets itself",
        "statistics",
        "vector statistics",
    }


def test_a_space_of_a_class_of_its_own_is_no_fault():
    report = check(faults.WordEnv)
    assert report.ok, str(report)
    assert report["sync = async"].says.endswith("only with shared_memory=False")


def test_what_follows_from_several_rewards_is_not_reported_again():
    report = check(faults.ManyRewardsEnv)
    assert report.failed == ("types",), str(report)
    assert report["types"].difference.key == "reward"
    assert report["sync = ours"].says == report["statistics"].says == "see 'types'"


def test_whole_rewards_are_no_fault():
    report = check(lambda: faults.WholeRewards(faults.make_sync()))
    assert report.ok, str(report)


# Of each fault: the checks that must fail, the first one's words, and where it differs.
ENVS = {
    faults.OutsideEnv: (["spaces"], "not in its space", "observation[0]"),
    faults.NumpyFlagEnv: (["types"], "wrong type", "terminated"),
    faults.UnseededEnv: (["seed repeats"], "two plays from reset(seed=0)", "observation[1]"),
    faults.GlobalGoalEnv: (["seed repeats", "global random"], "two plays", "observation[1]"),
    faults.GlobalReadEnv: (["global random"], "depends on the global random state", "observation"),
    faults.LeftoverEnv: (["seed repeats"], "something of them is left", "observation[0]"),
    faults.ReusedBufferEnv: (["new arrays", "autoreset SameStep"], "is reused", "observation[0]"),
    faults.BlindingEnv: (
        ["seed repeats", "new arrays"],
        "two plays from reset(seed=0)",
        "observation['near'][0]",
    ),
    faults.BlindingStepEnv: (
        ["seed repeats", "new arrays"],
        "two plays from reset(seed=0)",
        "observation[0]",
    ),
    faults.ReusedInfoEnv: (["new arrays"], "is reused", "info['place']"),
    faults.SelfResettingEnv: (["resets itself"], "calls reset() itself", None),
    faults.QuietlyResettingEnv: (["resets itself"], "first observation of the next", None),
    faults.ReservedKeyEnv: (["infos"], "a batch of infos has keys of this name", "info"),
    faults.CountedEnv: (["batch size"], "something else than if it is the only one", "observation"),
    faults.PickledElsewhereEnv: (["pickling"], "a pickled environment plays differently", "obs"),
    faults.HiddenStateEnv: (["killed worker"], "a lost worker cannot be replaced", None),
    lambda: faults.WrongStatistics(RecordEpisodeStatistics(faults.WalkEnv())): (
        ["statistics"],
        "not the sums",
        "info['episode']['l']",
    ),
}


@pytest.mark.parametrize(("make", "found"), ENVS.items(), ids=[e.__name__ for e in ENVS])
@pytest.mark.usefixtures("same_random_state")
def test_the_fault_of_an_environment_is_found_and_named(make, found):
    names, says, key = found
    report = check(make)
    assert set(names) <= set(report.failed), str(report)
    first = report[names[0]]
    assert says in first.says
    if key is not None:
        assert first.difference.key.startswith(key)
        assert first.difference.call.startswith(("step ", "reset(seed=", "the reset after step "))
    assert report.failed[0] == names[0], str(report)


VECTORS = {
    "#1132": (
        lambda: faults.LostFinalVectorEnv(faults.make_sync()),
        "autoreset",
        "is the first observation of the next episode",
    ),
    "#1624": (
        lambda: faults.SkippingStatistics(faults.make_sync()),
        "statistics",
        "not the sums of its steps",
    ),
    "#1668": (
        lambda: faults.SkippingNormalizeReward(faults.make_sync()),
        "statistics",
        "(return_rms) do not count every step once",
    ),
    "#1696": (
        lambda: faults.TakenMask(faults.make_sync(autoreset_mode=AutoresetMode.DISABLED)),
        "partial reset",
        "takes 'reset_mask' out of the caller's options",
    ),
    "flags": (lambda: faults.WholeFlags(faults.make_sync()), "types", "has the wrong type"),
    "batch size": (faults.BatchVectorEnv, "batch size", "something else if there are 6 and not 3"),
    "one seed": (
        lambda: faults.BatchVectorEnv(shared=True),
        "seeds of each",
        "all have the same seed",
    ),
    "buffer": (lambda: faults.BatchVectorEnv(buffer=True), "new arrays", "is reused"),
}


@pytest.mark.parametrize("fault", VECTORS)
def test_the_fault_of_a_vector_environment_is_found_and_named(fault):
    make, name, says = VECTORS[fault]
    report = check(make)
    assert report.kind == "vector environment"
    assert report.failed == (name,), str(report)
    assert says in report[name].says


@pytest.mark.skipif(
    gymnasium.__version__ < "1.4", reason="older wrappers of Gymnasium leave steps out"
)
@pytest.mark.parametrize(
    "make",
    [
        lambda: VectorStatistics(faults.make_sync()),
        lambda: NormalizeReward(faults.make_sync(autoreset_mode=NEXT)),
        lambda: NormalizeReward(VectorStatistics(faults.make_sync())),
    ],
)
def test_gymnasiums_statistics_pass(make):
    report = check(make)
    assert report.ok, str(report)
    assert report["statistics"].outcome == "passed"


@pytest.fixture
def forks(monkeypatch):
    """Lets the check fork although this process may have threads, or have loaded OpenGL."""
    monkeypatch.setattr("mtwrappers.testing.check.workers.start_method", lambda: "fork")


@pytest.mark.usefixtures("forks")
def test_workers_are_killed_for_real():
    with nothing_left_behind():
        report = check(lambda: MetaParallelEnvExecutor(faults.WalkEnv, 2, workers=2))
    assert report.ok, str(report)
    assert report["killed worker"].says.startswith("step() raised WorkerDiedError")


@pytest.mark.usefixtures("forks")
def test_a_vector_environment_that_hangs_when_a_worker_is_killed_is_found(monkeypatch):
    class Hanging(AsyncVectorEnv):
        def step_wait(self, timeout=None):
            while not all(process.is_alive() for process in self.processes):
                pass
            return super().step_wait(timeout)

    monkeypatch.setattr("mtwrappers.testing.check.workers._HANGS", 0.5)
    resource_tracker.ensure_running()  # of Python, which stays
    before = children()
    report = check(lambda: Hanging([faults.WalkEnv] * 2))
    assert wait_until(lambda: children() <= before, 2)
    assert report.failed == ("killed worker",), str(report)
    assert "hangs" in report["killed worker"].says


def test_an_answer_does_not_wait_for_what_was_left_behind():
    def leave_a_process():
        if os.fork() == 0:
            time.sleep(10)
            os._exit(0)
        return "an answer"

    start = time.monotonic()
    assert guarded(leave_a_process, 5) == "an answer"
    assert time.monotonic() - start < 5
    with pytest.raises(RuntimeError, match="ended without an answer"):
        guarded(lambda: os._exit(0), 5)


def test_a_report_is_a_table_of_80_columns_and_data(monkeypatch):
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


def test_what_cannot_be_made_or_played_is_a_report_and_what_is_none_an_error():
    def fail():
        raise RuntimeError("no model file")

    class Broken(faults.WalkEnv):
        def step(self, action):
            raise RuntimeError("no physics")

    assert "it cannot be made: RuntimeError: no model file" in check(fail)["plays"].says
    report = check(Broken)
    assert [r.name for r in report.results] == ["plays"]
    assert "no physics" in report["plays"].says
    with pytest.raises(TypeError, match="expected an id, an environment"):
        check(3)
    with pytest.raises(TypeError, match=r"must make a gymnasium\.Env or VectorEnv, got 3"):
        check(lambda: 3)
    env = faults.WalkEnv()
    env.hook = (i for i in ())  # which does not pickle
    with pytest.raises(TypeError, match="give the function that makes it"):
        check(env)
    with pytest.raises(gymnasium.error.NameNotFound):
        check("NoSuch-v0")


def test_the_callers_random_state_stays(same_random_state):
    np.random.seed(5)
    expected = np.random.get_state()[1].tolist()
    check(faults.GlobalGoalEnv, steps=10)
    assert np.random.get_state()[1].tolist() == expected
