"""`check_vector_env` names what is wrong with environments, and nothing of those that are right."""

import json
import os
import time
from functools import partial
from multiprocessing import resource_tracker

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import DictInfoToList, NormalizeReward
from gymnasium.wrappers.vector import RecordEpisodeStatistics as VectorStatistics

from mtwrappers import MetaParallelEnvExecutor, PointGoalEnv
from mtwrappers.testing import check_vector_env
from mtwrappers.testing.processes import guarded
from mtwrappers.testing.recording import without
from tests.testing import faults
from tests.vector.processes import children, nothing_left_behind, wait_until

check = partial(check_vector_env, steps=80)
NEXT, SAME = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP


@pytest.mark.parametrize(
    "given", ["CartPole-v1", "mtwrappers/Ledger-v0", faults.WalkEnv, PointGoalEnv()]
)
@pytest.mark.slow
def test_environments_without_a_fault_pass(given):
    report = check(given)
    assert report.ok, str(report)
    assert report.kind == "environment"
    assert {r.name for r in report.results if r.outcome == "skipped"} <= {
        "render",
        "resets itself",
        "statistics",
        "vector statistics",
    }


@pytest.mark.slow
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
    faults.ReusedBufferEnv: (["new arrays", "autoreset SameStep"], "is reused", "observation[0]"),
    faults.CountedEnv: (["batch size"], "something else than as the only one", "observation"),
    faults.HiddenStateEnv: (["killed worker"], "a lost worker cannot be replaced", None),
}


@pytest.mark.parametrize(("make", "found"), ENVS.items(), ids=[e.__name__ for e in ENVS])
@pytest.mark.usefixtures("same_random_state")
@pytest.mark.slow_but("HiddenStateEnv")
def test_the_fault_of_an_environment_in_vector_environments_is_found_and_named(make, found):
    names, says, key = found
    report = check(make)
    assert set(names) <= set(report.failed), str(report)
    assert report.failed[0] == names[0], str(report)
    first = report[names[0]]
    assert says in first.says
    assert (first.difference.key.startswith(key)) if key else first.difference is None


# The same, of those that are found without a vector environment: all the checks that fail.
ALONE = {
    faults.OutsideEnv: (["spaces"], "not in its space", "observation[0]"),
    faults.TupleEnv: (["spaces"], "not in its space", "observation[1]"),
    faults.NumpyFlagEnv: (["types"], "wrong type", "terminated"),
    faults.UnseededEnv: (["seed repeats"], "two runs from reset(seed=0)", "observation[1]"),
    faults.GlobalGoalEnv: (["seed repeats", "global random"], "two runs", "observation[1]"),
    faults.GlobalReadEnv: (["global random"], "depends on the global random state", "observation"),
    faults.LeftoverEnv: (["seed repeats"], "some of their state is left", "observation[0]"),
    faults.BlindingEnv: (
        ["seed repeats", "new arrays"],
        "two runs from reset(seed=0)",
        "observation['near'][0]",
    ),
    faults.BlindingStepEnv: (
        ["seed repeats", "new arrays"],
        "two runs from reset(seed=0)",
        "observation[0]",
    ),
    faults.ReusedInfoEnv: (["new arrays", "statistics"], "is reused", "info['place']"),
    faults.SelfResettingEnv: (["resets itself"], "calls reset() itself", None),
    faults.QuietlyResettingEnv: (["resets itself"], "first observation of the next", None),
    faults.ReservedKeyEnv: (["infos"], "a batch of infos has keys of this name", "info"),
    faults.PickledElsewhereEnv: (["pickling"], "a pickled environment runs differently", "obs"),
    lambda: faults.WrongStatistics(RecordEpisodeStatistics(faults.WalkEnv())): (
        ["statistics"],
        "not the sums",
        "info['episode']['l']",
    ),
    faults.LeftAtTheEndEnv: (["seed repeats"], "after an episode has ended, reset(", "observation"),
    faults.RepeatedSeedEnv: (["other seeds"], "each repeats reset(seed=0)", None),
    faults.DefaultSeedEnv: (["other seeds"], "the seed is then a constant", None),
    faults.ConstantSeedEnv: (["other seeds"], "in favour of a constant", None),
    faults.SeededByAConstantEnv: (["other seeds"], "in favour of a constant", None),
    faults.OwnConstantEnv: (["other seeds"], "in favour of a constant", None),
    faults.ConstantSlipEnv: (["other seeds"], "in favour of a constant", None),
    faults.UnseenConstantEnv: (["other seeds"], "in favour of a constant", None),
    faults.OwnPythonConstantEnv: (["other seeds"], "in favour of a constant", None),
    faults.RandomStateEnv: (["types"], "Gymnasium promises a numpy.random.Generator", "np_random"),
    faults.ClippingEnv: (["actions"], "changes the action that it is given", "action[0]"),
    faults.DictPushEnv: (["actions"], "changes the action that it is given", "action['push']"),
    faults.KeepingEnv: (["actions"], "keeps the array of the action", "observation[0]"),
    faults.MovedByRenderEnv: (["render"], "render() changes the state", "observation[0]"),
    faults.DrawingFromGeneratorEnv: (["render"], "render() draws random numbers", None),
}


@pytest.mark.parametrize(("make", "found"), ALONE.items(), ids=[e.__name__ for e in ALONE])
@pytest.mark.usefixtures("alone", "same_random_state")
def test_the_fault_of_an_environment_by_itself_is_found_and_named(make, found):
    names, says, key = found
    report = check(make)
    assert report.failed == tuple(names), str(report)
    first = report[names[0]]
    assert says in first.says
    assert (first.difference.key.startswith(key)) if key else first.difference is None
    if key:
        assert first.difference.call.startswith(("step ", "reset(seed=", "the reset after step "))


@pytest.mark.slow
def test_a_generator_of_another_kind_is_named_once():
    report = check(faults.RandomStateEnv)
    assert report.failed == ("types",), str(report)
    assert report["killed worker"].says == "see 'types'"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "make",
    [
        faults.FixedEnv,
        faults.UnseededFixedEnv,
        faults.HomeEnv,
        faults.SlipperyEnv,
        faults.CoinEnv,
        faults.PushEnv,
        faults.LateEnv,
        faults.DrawnEnv,
    ],
)
def test_what_looks_like_a_fault_and_is_none_passes(make):
    report = check(make)
    assert report.ok, str(report)
    assert report["other seeds"].outcome == report["actions"].outcome == "passed"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("seed", range(1, 5))
def test_episodes_that_seldom_differ_are_no_repeated_seed(seed):
    assert check(faults.CoinEnv, seed=seed).ok


@pytest.mark.usefixtures("alone")
def test_seeds_that_change_nothing_pass_where_nothing_is_drawn():
    says = check(faults.FixedEnv)["other seeds"].says
    assert says == "seeds reach np_random and change nothing within 10 steps"
    says = check(faults.UnseededFixedEnv)["other seeds"].says
    assert says == "seeds change nothing: it draws no random numbers"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "make", [faults.ConstantSeedEnv, partial(faults.make_same, faults.ConstantSeedEnv)]
)
def test_a_constant_seed_is_found_where_only_a_reset_draws(make):
    report = check(make, steps=2)  # in which no episode ends
    assert "in favour of a constant" in report["other seeds"].says


@pytest.mark.usefixtures("alone")
def test_an_end_is_looked_for_before_a_seeded_reset_is_compared():
    says = check(faults.WalkEnv, steps=3)["seed repeats"].says
    assert says.endswith("on a used one in mid-episode (none ended within 3 steps)")


@pytest.mark.usefixtures("alone")
def test_frames_are_drawn_in_a_mode_that_the_constructor_takes():
    says = check(faults.DrawnEnv)["render"].says
    assert says == "with render_mode='rgb_array', 5 calls of render() change nothing"
    says = check(lambda: faults.DrawnEnv())["render"].says
    assert says.startswith("with render_mode=None, 5 calls")
    report = check(lambda: faults.MovedByRenderEnv("rgb_array"))
    assert report.failed == ("render",)
    assert check(lambda: faults.DrawnEnv("human"))["render"].says == "its render_mode is 'human'"


@pytest.mark.usefixtures("alone")
def test_a_mode_that_cannot_be_drawn_here_is_no_fault():
    class NoGraphics(faults.DrawnEnv):
        def draw(self):
            raise RuntimeError("no display")

    report = check(NoGraphics)
    assert report["render"].outcome == "passed"
    assert report["render"].says.endswith("there is nothing here to draw 'rgb_array' with")
    report = check(lambda: NoGraphics("rgb_array"))
    assert report["render"].outcome == "skipped"
    assert "render() raises RuntimeError: no display" in report["render"].says


@pytest.mark.slow
def test_an_info_that_does_not_repeat_can_be_ignored_and_is_still_named():
    report = check(faults.ClockInfoEnv)
    assert report.failed == ("seed repeats",)
    assert "--ignore info.action, in Python ignore=['info.action']" in report["seed repeats"].says
    assert len([r for r in report.results if r.says == "see 'seed repeats'"]) > 10
    report = check(faults.ClockInfoEnv, ignore=["info.action"])
    assert report.ok, str(report)
    skipped = {r.name for r in report.results if r.outcome == "skipped"}
    skipped -= {"vector statistics"}  # of an older Gymnasium, which leaves steps out
    assert skipped == {"render", "killed worker"}  # which can be replaced by replays only
    says = report["seed repeats"].says
    assert "info.action is ignored: it does not repeat (step 0, info['action']['clock']" in says


@pytest.mark.usefixtures("alone")
def test_what_is_ignored_is_named_with_how_it_behaves():
    report = check(faults.ClockInfoEnv, ignore=["info.action.clock"])
    assert report.ok, str(report)
    says = report["seed repeats"].says
    expected = "info.action.clock is ignored: it does not repeat (step 0, info['action']['clock']"
    assert expected in says
    report = check(faults.ClockInfoEnv, ignore=["info.action", "info.goal", "info.gaol"])
    says = report["seed repeats"].says
    assert says.endswith(
        "info.gaol is ignored: it was never returned; info.goal is ignored: it repeats"
    )


def test_an_info_is_ignored_in_batches_with_its_mask_and_its_last_value():
    make = partial(faults.make_same, faults.ClockInfoEnv)
    report = check(make)
    assert report.failed == ("seed repeats",)
    assert "--ignore info.action," in report["seed repeats"].says
    report = check(make, ignore=["info.action"])
    assert report.ok, str(report)
    assert report["independence"].outcome == "passed"


def test_what_is_ignored_goes_with_its_mask_and_its_last_value():
    info = {"t": 1, "_t": True, "x": {"t": 2, "y": 3}, "final_info": {"t": 4, "_t": True, "z": 5}}
    left = without({"reward": 0.0, "info": info}, {"info.t", "info.x.y"})
    assert left == {"reward": 0.0, "info": {"x": {"t": 2}, "final_info": {"z": 5}}}


@pytest.mark.parametrize("ignore", ["info.action", ["action"], ["observation.time"], ["info."]])
def test_only_infos_can_be_ignored(ignore):
    with pytest.raises(ValueError, match=r"must be names of infos such as \['info.action'\], got"):
        check(faults.WalkEnv, ignore=ignore)


def same(env, wrapper, *arguments):
    """A vector environment in mode ``SAME_STEP`` with a fault, and no other mode to try."""
    return partial(faults.make_same, env, lambda envs: wrapper(envs, *arguments))


VECTORS = {
    "#1132": (
        lambda: faults.LostFinalVectorEnv(faults.make_sync()),
        "autoreset",
        "is the first observation of that episode",
    ),
    "last again": (
        same(faults.WalkEnv, faults.LastAgain),
        "autoreset",
        "continue the episode: the first observation of the next episode is missing",
    ),
    "last again, NextStep": (
        lambda: faults.LastAgainNextStep(faults.make_sync(autoreset_mode=NEXT)),
        "autoreset",
        "returns the episode's last observation once more, in all 7 episodes",
    ),
    "final of neighbour": (
        same(faults.WalkEnv, faults.FinalOfNeighbour),
        "independence",
        "its infos have the end of another environment's episode",
    ),
    "finals at once": (
        same(faults.ShortEnv, faults.SwappedFinals),
        "independence",
        "its infos have the end of another environment's episode",
    ),
    "no final_info": (
        same(faults.WalkEnv, faults.ChangedInfos, faults.lose_final_info),
        "autoreset",
        "the infos of an episode's last step must be in final_info",
    ),
    "next final_info, counter": (
        same(faults.ElapsedEnv, faults.ChangedInfos, faults.next_final_info),
        "autoreset",
        "info['final_info'] has the first infos of the next episode, in all 8 episodes",
    ),
    "next final_info, goal": (
        same(faults.GoalInfoEnv, faults.ChangedInfos, faults.next_final_info),
        "autoreset",
        "info['final_info'] has the first infos of the next episode, in all 8 episodes",
    ),
    "next final_info, none": (
        same(faults.WalkEnv, faults.ChangedInfos, faults.empty_final_info),
        "autoreset",
        "info['final_info'] has the first infos of the next episode, in all 8 episodes",
    ),
    "final everywhere": (
        same(faults.WalkEnv, faults.ChangedInfos, faults.final_everywhere),
        "autoreset",
        "the infos have a final_obs where no episode ended",
    ),
    "final everywhere, unmasked": (
        same(faults.WalkEnv, faults.ChangedInfos, faults.final_obs_everywhere),
        "autoreset",
        "the infos have a final_obs where no episode ended",
    ),
    "no mask": (
        same(faults.WalkEnv, faults.ChangedInfos, faults.lose_mask),
        "infos",
        "infos have values of 'goal', but no mask",
    ),
    "no mask in final_info": (
        same(faults.WalkEnv, faults.ChangedInfos, faults.lose_final_mask),
        "infos",
        "infos have values of 'goal', but no mask",
    ),
    "swapped actions": (
        same(faults.WalkEnv, faults.SwappedActions),
        "independence",
        "actions, or what follows from them, reach the wrong environment",
    ),
    "one action": (
        same(faults.WalkEnv, faults.OneAction),
        "independence",
        "actions, or what follows from them, reach the wrong environment",
    ),
    "clipped actions": (
        same(faults.PushEnv, faults.ClippingVectorEnv),
        "actions",
        "changes the action that it is given in place",
    ),
    "clipped actions, below": (
        partial(faults.make_same, faults.ClippingEnv),
        "actions",
        "changes the action that it is given in place",
    ),
    "kept actions": (
        same(faults.PushEnv, faults.KeepingVectorEnv),
        "actions",
        "keeps the array of the action that it is given",
    ),
    "kept actions, below": (
        partial(faults.make_same, faults.KeepingEnv),
        "actions",
        "keeps the array of the action that it is given",
    ),
    "masked reset": (
        lambda: faults.MovingReset(faults.make_sync(autoreset_mode=AutoresetMode.DISABLED)),
        "partial reset",
        "a reset with a mask moves environments that it should leave alone, or their generators",
    ),
    "masked reset, hidden": (
        lambda: faults.HiddenReset(faults.make_sync(autoreset_mode=AutoresetMode.DISABLED)),
        "partial reset",
        "a reset with a mask moves environments that it should leave alone, or their generators",
    ),
    "masked reset, of steps": (
        lambda: faults.MovingReset(
            faults.make_sync(autoreset_mode=AutoresetMode.DISABLED, env=faults.NoisyEnv)
        ),
        "partial reset",
        "a reset with a mask moves environments that it should leave alone, or their generators",
    ),
    "list of infos": (
        lambda: DictInfoToList(faults.make_sync()),
        "types",
        "infos must be a dict",
    ),
    "constant seed": (
        same(faults.WalkEnv, faults.NoSeed),
        "other seeds",
        "it ignores the seed in favour of a constant",
    ),
    "repeated seed": (
        same(faults.WalkEnv, faults.RepeatedSeed),
        "other seeds",
        "each repeats reset(seed=0)",
    ),
    "left at the end": (
        same(faults.WalkEnv, faults.LeftAtTheEnd),
        "seed repeats",
        "after an episode has ended, reset(seed=0) leads to other results",
    ),
    "render": (
        same(faults.WalkEnv, faults.RenderedVectorEnv),
        "render",
        "render() draws random numbers",
    ),
    "RandomState": (
        partial(faults.make_same, faults.RandomStateEnv),
        "types",
        "Gymnasium promises",
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
@pytest.mark.slow_but(
    "kept actions",
    "clipped actions",
    "masked reset",
    "constant seed",
    "RandomState",
)
def test_the_fault_of_a_vector_environment_is_found_and_named(fault):
    make, name, says = VECTORS[fault]
    report = check(make)
    assert report.kind == "vector environment"
    assert report.failed == (name,), str(report)
    assert says in report[name].says


@pytest.mark.parametrize("wrapper", [faults.SwappedActions, faults.OneAction])
def test_actions_of_others_are_found_where_no_episode_ends(wrapper):
    report = check(same(faults.WalkEnv, wrapper), steps=3)
    assert report.failed == ("independence",), str(report)


# Of each fault in one mode: what the other modes say of it. SyncVectorEnv takes masks in DISABLED.
MODES = {
    "neighbour": (faults.WalkEnv, faults.FinalOfNeighbour, "final_obs'][1][0]"),
    "counter": (faults.ElapsedEnv, faults.NextFinalInfo, "info['final_info']['elapsed'][1]"),
    "goal": (faults.GoalInfoEnv, faults.NextFinalInfo, "info['final_info']['goal'][1]"),
    "flag": (faults.HoldingEnv, faults.NoFinalFlag, "info['final_info']['right'][1]"),
}


@pytest.mark.parametrize("fault", MODES)
def test_the_end_of_an_episode_is_compared_with_that_in_another_mode(fault):
    env, wrapper, key = MODES[fault]

    def make(autoreset_mode=SAME):
        envs = SyncVectorEnv([env] * 3, autoreset_mode=autoreset_mode)
        return wrapper(envs) if autoreset_mode is SAME else envs

    report = check(make)
    result = report["autoreset"]
    assert result.outcome == "failed"
    assert "the end of an episode differs between modes SameStep and NextStep" in result.says
    assert result.difference.key.endswith(key)


def test_modes_and_resets_are_not_compared_where_seeds_do_not_repeat():
    def make(autoreset_mode=SAME):
        return SyncVectorEnv([faults.UnseededEnv] * 3, autoreset_mode=autoreset_mode)

    report = check(make)
    assert report.failed == ("seed repeats", "partial reset"), str(report)
    # Which is of Gymnasium 1.4.
    assert "out of the caller's options" in report["partial reset"].says


@pytest.mark.parametrize("modes", [False, True])
@pytest.mark.parametrize(
    "env",
    [
        faults.WalkEnv,
        faults.FixedEnv,
        faults.UnseededFixedEnv,
        faults.HomeEnv,
        faults.SlipperyEnv,
        faults.CoinEnv,
        faults.LateEnv,
        faults.DrawnEnv,
        faults.ShortEnv,
        faults.ElapsedEnv,
        faults.GoalInfoEnv,
        faults.HoldingEnv,
    ],
)
@pytest.mark.slow_but("WalkEnv-True", "CoinEnv-False", "ShortEnv-True")
def test_vector_environments_without_a_fault_pass(env, modes):
    def make(autoreset_mode=SAME):
        return SyncVectorEnv([env] * 3, autoreset_mode=autoreset_mode)

    report = check(make if modes else lambda: make())
    # Of Gymnasium 1.4: it takes the mask out of the caller's options.
    assert set(report.failed) <= ({"partial reset"} if modes else set()), str(report)
    assert report["independence"].outcome == report["autoreset"].outcome == "passed"
    assert report["infos"].outcome == "passed"


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
    monkeypatch.setattr("mtwrappers.testing.workers.start_method", lambda: "fork")


@pytest.mark.usefixtures("forks")
def test_workers_are_killed_for_real():
    with nothing_left_behind():
        report = check(
            lambda: MetaParallelEnvExecutor(faults.WalkEnv, 2, workers=2, context="fork")
        )
    assert report.ok, str(report)
    assert report["killed worker"].says.startswith("step() raised WorkerDiedError")


@pytest.mark.usefixtures("forks")
@pytest.mark.slow
def test_a_vector_environment_that_hangs_when_a_worker_is_killed_is_found(monkeypatch):
    class Hanging(AsyncVectorEnv):
        def step_wait(self, timeout=None):
            while not all(process.is_alive() for process in self.processes):
                pass
            return super().step_wait(timeout)

    monkeypatch.setattr("mtwrappers.testing.workers._HANGS", 0.5)
    resource_tracker.ensure_running()  # of Python, which stays
    before = children()
    report = check(lambda: Hanging([faults.WalkEnv] * 2))
    assert wait_until(lambda: children() <= before)
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


@pytest.mark.usefixtures("alone")
@pytest.mark.slow
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


def test_what_cannot_be_made_or_run_is_a_report_and_what_is_none_an_error():
    def fail():
        raise RuntimeError("no model file")

    class Broken(faults.WalkEnv):
        def step(self, action):
            raise RuntimeError("no physics")

    assert "it cannot be made: RuntimeError: no model file" in check(fail)["runs"].says
    report = check(Broken)
    assert [r.name for r in report.results] == ["runs"]
    assert "no physics" in report["runs"].says
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
