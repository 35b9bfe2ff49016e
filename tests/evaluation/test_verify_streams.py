"""Verification of the points of a stream: its environments, its files, and what no replay sees."""

import functools
import json
import re
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from mtwrappers import EnvToMTEnv, FlattenMTEnv, PointGoalEnv, TaskStream
from mtwrappers.continual.evaluate import PhaseEvaluator
from mtwrappers.evaluation import Design, VerificationError, remake, save_results, verify

STREAM = functools.partial(
    gymnasium.make, "mtwrappers/CW10-v0", steps_per_task=4, max_episode_steps=3
)


def still(observations):
    return np.zeros((len(observations), 4), np.float32)


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """A file with three points of two phases of CW10, and their evidence beside it."""
    folder = tmp_path_factory.mktemp("points")
    with closing(PhaseEvaluator(STREAM, 1, phases=[0, 3], evidence=folder / "r.npz")) as evaluator:
        for step in (0, 4, 8):
            evaluator(still, step)
    save_results(folder / "r.json", evaluator.results)
    return folder / "r.json"


def changed(path, folder, change):
    """A changed copy of a file with results, with the same evidence."""
    results = json.loads(path.read_text())
    change(results)
    (folder / "r.json").write_text(json.dumps(results))
    for evidence in path.parent.glob("*.npz"):
        (folder / evidence.name).write_bytes(evidence.read_bytes())
    return folder / "r.json"


def test_the_points_of_a_stream_are_replayed_on_environments_that_are_made_once(
    points, monkeypatch
):
    calls = []
    make = remake._make_phases
    monkeypatch.setattr(remake, "_make_phases", lambda *args: calls.append(args) or make(*args))
    verification = verify(points)
    assert verification.ok
    assert verification.replayed == {"0 hammer-v3": 3, "3 push-back-v3": 3}
    assert len(calls) == 1


def test_the_sequence_and_the_budgets_of_a_stream_are_said_by_the_file(points, tmp_path):
    """Each phase is replayed by itself, so a forged budget gives the same episodes."""

    def enlarge(results):
        names = [name for name, _ in results[0]["design"]["phases"]]
        for result in results:
            result["design"]["phases"] = [[name, 10**6] for name in names * 2]
            result["environments"]["id"] = "mtwrappers/CW20-v0"
            result["environments"]["kwargs"] |= {"sequence": "CW20", "steps_per_task": 10**6}

    verification = verify(changed(points, tmp_path, enlarge))
    assert verification.ok
    replayed, _, said_fields = " ".join(str(verification).split()).partition("said by the file ")
    for field in ("CW20", "steps_per_task", "phases", "1000000"):
        assert field not in replayed
    assert 'id="mtwrappers/CW20-v0", sequence="CW20", steps_per_task=1000000' in said_fields
    assert 'design_phases=[["hammer-v3", 1000000]' in said_fields
    assert 'tasks=["0 hammer-v3", "3 push-back-v3"]' in replayed


def test_points_in_which_the_same_fields_change_have_one_row(points, tmp_path):
    lines = str(verify(points)).splitlines()
    assert "  results 1 to 2  training_steps=[4, 8]" in lines

    def name_policy(results):
        results[2]["description"]["policy"] = "mine"

    lines = str(verify(changed(points, tmp_path, name_policy))).splitlines()
    assert "  result 1        training_steps=4" in lines
    assert '  result 2        policy="mine", training_steps=8' in lines


def test_what_a_later_result_lacks_is_printed_and_the_versions_of_all_results_are_compared(
    points, tmp_path
):
    def change(results):
        results[0]["description"]["policy"] = "mine"
        results[0]["versions"]["numpy"] = "1.0"

    verification = verify(changed(points, tmp_path, change))
    text = " ".join(str(verification).split())
    assert 'result 1 training_steps=4, versions_numpy="' in text
    assert '", policy=null result 2 training_steps=8 versions' in text
    assert verification.versions.keys() == {"numpy"}
    assert verification.versions["numpy"][0] == "1.0"


def test_a_repeated_task_is_refused_before_an_environment_is_made(points, tmp_path, monkeypatch):
    def repeat(results):
        results[0]["design"]["tasks"] *= 10_000

    monkeypatch.setattr(remake, "_make_phases", lambda *args: pytest.fail("it is made"))
    message = "tasks must differ, got '0 hammer-v3' 10000 times"
    with pytest.raises(VerificationError, match=message):
        verify(changed(points, tmp_path, repeat))
    with pytest.raises(ValueError, match="tasks must differ, got 'a' 2 times"):
        Design(tasks=("a", "b", "a"))


def test_a_phase_that_a_stream_lacks_is_refused_before_an_environment_is_made(
    points, tmp_path, monkeypatch
):
    def rename(results):
        results[0]["design"]["tasks"] = ["10 hammer-v3"]

    monkeypatch.setattr(gymnasium, "make", lambda *args, **kwargs: pytest.fail("it is made"))
    with pytest.raises(VerificationError, match="its stream has no phase '10 hammer-v3'"):
        verify(changed(points, tmp_path, rename))


def make_own_stream():
    goals = [{"goal": (x, y)} for x, y in ((0.5, 0.0), (0.0, 0.5))]
    env = EnvToMTEnv(TimeLimit(PointGoalEnv(), 5), goals)
    return FlattenMTEnv(TaskStream(env, [(0, 10), (1, 10)], task_obs="phase"))


def test_the_points_of_a_stream_of_ones_own_are_verified_with_its_environments(tmp_path):
    with closing(PhaseEvaluator(make_own_stream, 2, evidence=tmp_path / "s.npz")) as evaluator:
        for step in (0, 10, 20):
            evaluator(lambda obs: np.full((len(obs), 2), 0.05), step)
        save_results(tmp_path / "s.json", evaluator.results)
    with pytest.raises(VerificationError, match=r"PhaseEvaluator\(\.\.\.\)\.envs of the same str"):
        verify(tmp_path / "s.json")
    with closing(PhaseEvaluator(make_own_stream)) as evaluator:
        verification = verify(tmp_path / "s.json", envs=evaluator.envs)
    assert verification.ok
    assert "environments" not in str(verification)  # the file does not name any
    assert verification.replayed == {"0 task 0": 6, "1 task 1": 6}


class HalfReward(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2


def test_the_environments_that_were_measured_are_those_of_the_result_in_wrappers_too(tmp_path):
    wrapped = PhaseEvaluator(
        lambda: HalfReward(STREAM()), 1, phases=[0], evidence=tmp_path / "r.npz"
    )
    with closing(wrapped) as evaluator:
        evaluator(still, 0)
        save_results(tmp_path / "r.json", evaluator.results)
        assert evaluator.results[0].environments.wrappers == ("HalfReward",)
        assert verify(tmp_path / "r.json", envs=evaluator.envs).ok
    with closing(PhaseEvaluator(STREAM, phases=[0])) as evaluator:
        verification = verify(tmp_path / "r.json", envs=evaluator.envs)
    assert "episode_return is" in verification.difference


def test_environments_of_other_phases_than_those_of_a_result_are_refused(tmp_path):
    """Episodes depend on the phases that are evaluated together, so they would all differ."""
    path = tmp_path / "s.json"
    with closing(
        PhaseEvaluator(make_own_stream, 1, phases=[1], evidence=tmp_path / "s.npz")
    ) as evaluator:
        evaluator(lambda obs: np.full((len(obs), 2), 0.05), 0)
        save_results(path, evaluator.results)
        assert verify(path, envs=evaluator.envs).ok
    message = re.escape("expected an environment for each of its phases ['1 task 1'], as PhaseEv")
    with (
        closing(PhaseEvaluator(make_own_stream)) as evaluator,
        pytest.raises(VerificationError, match=message),
    ):
        verify(path, envs=evaluator.envs)


def test_a_single_point_is_verified_with_the_evidence_that_has_its_number(tmp_path):
    with closing(PhaseEvaluator(STREAM, 1, phases=[0], evidence=tmp_path / "r.npz")) as evaluator:
        evaluator(still, 0)
    save_results(tmp_path / "r.json", evaluator.results)
    assert verify(tmp_path / "r.json").ok
    (tmp_path / "r-0.npz").unlink()
    with pytest.raises(VerificationError, match=re.escape(f"there is no file {tmp_path}/r.npz")):
        verify(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([0, 1, 0], "phases must hold each phase once, got 0 twice in [0, 1, 0]"),
        ([-1], "each of phases must be an integer in [0, 1], got -1"),
        ([], "phases must hold at least one phase, got none"),
    ],
)
def test_phases_to_evaluate_are_numbers_of_the_stream_each_once(phases, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        PhaseEvaluator(make_own_stream, phases=phases)
