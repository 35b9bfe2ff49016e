"""Normalised scores: `EvaluationResult.normalized` and ``evaluate(..., normalize=...)``."""

import dataclasses
import json

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest

from mtwrappers import EvaluationResult, evaluate, protocols, verify
from mtwrappers.evaluation import Provenance, VerificationError
from mtwrappers.evaluation.episodes import Episode
from tests.evaluation.fakes import drawn, scripted


def of(**returns):
    """A result of these returns of each task."""
    return EvaluationResult(
        [
            Episode(task, i, float(paid), 10)
            for task, own in returns.items()
            for i, paid in enumerate(own)
        ]
    )


def named(result, policy, **given):
    """The same result of a policy with a name."""
    made = {"spec": {"id": "x", "kwargs": {"wind": 1, "num_envs": len(policy)}}, **given}
    return dataclasses.replace(result, provenance=Provenance(2, {}, policy=policy, **made))


RANGES = {"hop": (0.0, 20.0), "run": (100.0, 200.0)}


def test_a_return_is_placed_between_low_and_high_and_not_clipped():
    before = of(hop=[0, 10], run=[100, 300])
    found = before.normalized(RANGES)
    scores = {task: own["normalized"] for task, own in found.per_task.items()}
    assert {task: own.value for task, own in scores.items()} == {"hop": 0.25, "run": 1.0}
    assert (scores["run"].low, scores["run"].high) == (0.0, 2.0)
    paid = before.per_task["hop"]["return"]
    assert (scores["hop"].low, scores["hop"].high) == (paid.low / 20, paid.high / 20)
    assert found.overall["mean"]["normalized"].value == 0.625
    below = of(hop=[-20, -20, -20], run=[0, 0, 0]).normalized(RANGES)
    assert below.per_task["hop"]["normalized"].value == -1.0
    # All other numbers are as they were.
    for task, own in before.per_task.items():
        assert {**found.per_task[task], **own} == found.per_task[task]
        assert "normalized" not in own
    assert found != before


def test_intervals_are_those_of_returns_on_another_scale():
    before = dataclasses.replace(of(hop=[0, 3, 10, 40, 41]), resamples=30)
    found = before.normalized({"hop": (0.0, 8.0)}).per_task["hop"]
    paid, score = found["return"], found["normalized"]
    assert (score.low, score.high) == (paid.low / 8, paid.high / 8)


def test_the_interquartile_mean_leaves_out_the_lowest_and_the_highest_score():
    found = of(a=[1], b=[2], c=[3], d=[100]).normalized(dict.fromkeys("abcd", (0, 10)))
    assert found.overall["interquartile_mean"]["normalized"].value == pytest.approx(0.25)


def test_the_table_has_a_column_and_says_what_it_is(tmp_path):
    found = of(hop=[0, 10], run=[100, 300]).normalized(RANGES)
    lines = str(found).splitlines()
    assert lines[0].split() == ["task", "n", "return", "(95%)", "normalized", "(95%)", "steps"]
    assert lines[1].split()[-5:] == ["0.25", "0.00", "to", "0.50", "10.0"]
    assert lines[6:8] == [
        "normalized: (return - low) / (high - low), not clipped",
        "  low and high as given",
    ]
    found.plot(tmp_path / "plot.png")
    pixels = imageio.imread(tmp_path / "plot.png")
    bars = np.all(pixels[..., :3] == (0x2A, 0x6F, 0xB0), axis=-1)
    # The bars of 0.25 and of 1.0, of intervals up to 2.
    widths = bars.sum(axis=1)
    assert 3.5 < widths[widths > widths.max() / 10].max() / widths[widths > 50].min() < 4.5


def test_two_results_are_the_ends_and_are_named(tmp_path):
    low = named(of(hop=[1, 3], run=[0, 0], more=[1, 1]), "random", evidence="ab")
    high = named(of(run=[10, 10], hop=[6, 6]), "expert")
    result = named(of(hop=[4], run=[-5]), "mine")
    found = result.normalized(low=low, high=high)
    assert found.normalization.ranges == {"hop": (2.0, 6.0), "run": (0.0, 10.0)}
    assert [own["normalized"].value for own in found.per_task.values()] == [0.5, -0.5]
    assert "  low: random, high: expert" in str(found).splitlines()
    found.save(tmp_path / "r.json")
    loaded = EvaluationResult.load(tmp_path / "r.json")
    assert loaded == found
    assert loaded.to_dict() == found.to_dict()
    written = json.loads((tmp_path / "r.json").read_text())["normalization"]
    assert written == {
        "ranges": {"hop": [2.0, 6.0], "run": [0.0, 10.0]},
        "low": {"policy": "random", "evidence": "ab"},
        "high": {"policy": "expert", "evidence": None},
    }


def test_references_that_were_measured_in_another_way_are_refused():
    result = named(of(hop=[4]), "mine")
    good = named(of(hop=[4]), "high")
    protocol = protocols["metaworld-3.1"]
    for given, message in (
        ({"max_episode_steps": 9}, "its max_episode_steps of the evaluation is 9, not None"),
        ({"protocol": protocol}, r"its protocol is 'metaworld-3.1 \(.{10}\)', not None"),
        ({"spec": {"id": "y", "kwargs": {"wind": 1}}}, "its id is 'y', not 'x'"),
        ({"spec": {"id": "x", "kwargs": {"wind": 2}}}, "its wind is 2, not 1"),
    ):
        low = named(of(hop=[0]), "low", **given)
        message = f"the low reference was measured in another way: {message}"
        with pytest.raises(ValueError, match=message):
            result.normalized(low=low, high=good)
    with pytest.raises(ValueError, match="the high reference has no episodes of 'hop'"):
        result.normalized(low=good, high=of(run=[1]))
    with pytest.raises(ValueError, match=r"'hop' must be finite with low < high, got \(4.0, 4.0\)"):
        result.normalized(low=good, high=good)


@pytest.mark.parametrize(
    ("ranges", "error", "message"),
    [
        ({"run": (0, 1)}, ValueError, "'hop' has none; got ranges of .*'run'"),
        ({"hop": (1, 1)}, ValueError, r"'hop' must be finite with low < high, got \(1, 1\)"),
        ({"hop": (2, 1)}, ValueError, r"low < high, got \(2, 1\)"),
        ({"hop": (0, np.inf)}, ValueError, r"low < high, got \(0, inf\)"),
        ({"hop": (np.nan, 1)}, ValueError, r"low < high, got \(nan, 1\)"),
        ({"hop": (-1e308, 1e308)}, ValueError, r"low < high, got \(-1e\+308, 1e\+308\)"),
        ({"hop": (0, 10**400)}, ValueError, r"low < high, got \(0, 1000"),
        ({"hop": (0, 5e-324)}, ValueError, r"'hop' are too far from its range \(0.0, 5e-324\)"),
        ({"hop": (0, "1")}, TypeError, r"two numbers \(low, high\), got \(0, '1'\)"),
        ({"hop": (0, True)}, TypeError, r"two numbers \(low, high\), got \(0, True\)"),
        ({"hop": 5}, TypeError, r"two numbers \(low, high\), got 5"),
        ([0, 1], TypeError, "the ranges of returns must be a dict, got"),
    ],
)
def test_ranges_are_checked(ranges, error, message):
    with pytest.raises(error, match=message):
        of(hop=[1, 2]).normalized(ranges)


def test_ranges_and_references_do_not_go_together():
    one = of(hop=[1])
    for given in ({}, {"low": one}, {"high": one}, {"ranges": {"hop": (0, 1)}, "low": one}):
        with pytest.raises(TypeError, match=r"either ranges .* or two results as low and high"):
            one.normalized(**given)
    with pytest.raises(TypeError, match="the high reference must be an EvaluationResult, got 3"):
        one.normalized(low=one, high=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (5, "expected a normalization with"),
        ({"more": 1}, "expected a normalization with"),
        ({"ranges": []}, "ranges of a normalization cannot be"),
        ({"ranges": {"hop": 1, "run": [0, 1]}}, "ranges of a normalization cannot be"),
        ({"ranges": {"hop": [0, 1, 2], "run": [0, 1]}}, "two numbers"),
        ({"ranges": {"hop": [0, None], "run": [0, 1]}}, "two numbers"),
        ({"ranges": {"hop": [1, 0], "run": [0, 1]}}, "low < high"),
        ({"ranges": {"hop": [0, 1]}}, "'run' has none"),
        ({"low": "random"}, "low of a normalization cannot be 'random'"),
        ({"high": {"policy": "expert"}}, "high of a normalization cannot be {'policy'"),
        ({"high": {"policy": 3, "evidence": None}}, "high of a normalization cannot be {"),
    ],
)
def test_a_normalization_of_a_file_is_checked(change, message):
    data = of(hop=[1, 2], run=[1, 2]).normalized(RANGES).to_dict()
    before = data["normalization"]
    data["normalization"] = {**before, **change} if isinstance(change, dict) else change
    with pytest.raises(ValueError, match=message):
        EvaluationResult.from_dict(data)


def test_an_evaluation_normalises_before_it_runs_anything(tmp_path):
    tasks = [{"name": "a", "lengths": (2,)}, {"name": "b", "lengths": (4,)}]
    ranges = {"a": (0, 1), "b": (0.0, 2.0), "c": (0.0, 3.0)}
    found = evaluate(drawn, scripted(tasks), 2, normalize=ranges)
    assert found.normalization.ranges == {"a": (0.0, 1.0), "b": (0.0, 2.0)}
    assert found == evaluate(drawn, scripted(tasks), 2).normalized(ranges)
    one = evaluate(drawn, scripted(tasks), 2, tasks=["b"], normalize={"b": (0.0, 2.0)})
    assert one.overall["mean"]["normalized"] == found.per_task["b"]["normalized"]

    def never(observations):
        raise AssertionError("it was asked")

    with pytest.raises(ValueError, match="'b' has none"):
        evaluate(never, scripted(tasks), 2, normalize={"a": (0, 1)})
    with pytest.raises(ValueError, match="low < high"):
        evaluate(never, scripted(tasks), 2, normalize={"a": (1, 0)})


def test_verify_computes_normalised_scores_again_from_the_episodes(tmp_path):
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=3)
    act = lambda obs: np.full((2, 2), 0.1)  # noqa: E731
    ranges = {"task 0": (-5, 0), "task 1": (-5, 0)}
    result = evaluate(act, envs, 3, evidence=tmp_path / "r.npz", normalize=ranges)
    envs.close()
    result.save(tmp_path / "r.json")
    found = verify(tmp_path / "r.json")
    assert found.ok
    assert found.result == result
    data = result.to_dict()
    data["overall"]["mean"]["normalized"]["value"] += 0.1
    (tmp_path / "r.json").write_text(json.dumps(data))
    with pytest.raises(VerificationError, match="do not follow from its episodes: overall, mean"):
        verify(tmp_path / "r.json")
