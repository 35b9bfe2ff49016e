"""Normalised scores: `EvaluationResult.normalized`."""

import dataclasses
import json

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest

from mtwrappers import EvaluationResult, evaluate, verify
from mtwrappers.evaluation import Episode
from tests.evaluation.measured import Made


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
    return Made(policy=policy, **made).result(result.episodes)


ENDS = {"low": of(hop=[0], run=[100]), "high": of(hop=[20], run=[200])}


def test_a_return_is_placed_between_low_and_high_and_not_clipped():
    before = of(hop=[0, 10], run=[100, 300])
    found = before.normalized(**ENDS)
    scores = {task: own["normalized"] for task, own in found.per_task.items()}
    assert {task: own.value for task, own in scores.items()} == {"hop": 0.25, "run": 1.0}
    paid = before.per_task["hop"]["return"]
    assert (scores["hop"].low, scores["hop"].high) == pytest.approx((paid.low / 20, paid.high / 20))
    assert found.overall["mean"]["normalized"].value == 0.625
    below = of(hop=[-20, -20, -20], run=[0, 0, 0]).normalized(**ENDS)
    assert below.per_task["hop"]["normalized"].value == -1.0
    # All other numbers are as they were.
    for task, own in before.per_task.items():
        assert {**found.per_task[task], **own} == found.per_task[task]
        assert "normalized" not in own
    assert found != before


def test_the_table_has_a_column_and_says_what_it_is(tmp_path):
    found = of(hop=[0, 10], run=[100, 300]).normalized(**ENDS)
    lines = str(found).splitlines()
    assert lines[0].split() == ["task", "n", "return", "(95%)", "normalized", "(95%)", "steps"]
    assert lines[1].split()[-5] == "0.25"
    assert "normalized: (return - low) / (high - low), not clipped" in lines
    found.plot(tmp_path / "plot.png")
    pixels = imageio.imread(tmp_path / "plot.png")
    assert np.all(pixels[..., :3] == (0x2A, 0x6F, 0xB0), axis=-1).sum() > 1000


def test_two_results_are_the_ends(tmp_path):
    low = named(of(hop=[1, 3], run=[0, 0], more=[1, 1]), "random", evidence="ab")
    high = named(of(run=[10, 10], hop=[6, 6]), "expert")
    result = named(of(hop=[4], run=[-5]), "mine")
    found = result.normalized(low=low, high=high)
    assert found.normalization == {"hop": (2.0, 6.0), "run": (0.0, 10.0)}
    assert [own["normalized"].value for own in found.per_task.values()] == [0.5, -0.5]
    found.save(tmp_path / "r.json")
    assert EvaluationResult.load(tmp_path / "r.json") == found


def test_references_that_were_measured_in_another_way_are_refused():
    result = named(of(hop=[4]), "mine")
    good = named(of(hop=[4]), "high")
    for given, message in (
        ({"spec": {"id": "y", "kwargs": {"wind": 1}}}, "its id is 'y', not 'x'"),
        ({"spec": {"id": "x", "kwargs": {"wind": 2}}}, "its wind is 2, not 1"),
    ):
        low = named(of(hop=[0]), "low", **given)
        message = f"the low reference was measured in another way: {message}"
        with pytest.raises(ValueError, match=message):
            result.normalized(low=low, high=good)
    with pytest.raises(ValueError, match="the high reference has no episodes of 'hop'"):
        result.normalized(low=good, high=of(run=[1]))
    with pytest.raises(ValueError, match=r"'hop' needs two returns low < high .* got \(4.0, 4.0\)"):
        result.normalized(low=good, high=good)
    with pytest.raises(TypeError, match="the high reference must be an EvaluationResult, got 3"):
        result.normalized(low=good, high=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (5, "normalization must be of the type"),
        ([], "normalization must be of the type"),
        ({"hop": [0, 1, 2]}, "normalization, hop must be"),
        ({"hop": [0, None]}, "normalization, hop, 1 must be of the type float"),
        ({"hop": [1, 0]}, "'hop' needs two returns low < high"),
        ({"hop": [0, 5e-324]}, "'hop' needs two returns low < high"),
        ({"hop": [-1e308, 1e308]}, "'hop' needs two returns .* nor too far apart"),
        ({"run": [0, 1]}, "'hop' needs two returns low < high"),
    ],
)
def test_a_normalization_of_a_file_is_checked(change, message):
    data = json.loads(json.dumps(of(hop=[1, 2], run=[1, 2]).normalized(**ENDS).to_dict()))
    data["normalization"] = change
    with pytest.raises(ValueError, match=message):
        EvaluationResult.from_dict(data)


def test_verify_says_what_the_file_says_of_the_ends(tmp_path):
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=3)
    act = lambda obs: np.full((2, 2), 0.1)  # noqa: E731
    result = evaluate(act, envs, 3, evidence=tmp_path / "r.npz")
    envs.close()
    low = dataclasses.replace(result, episodes=[*result.episodes])
    high = [dataclasses.replace(one, episode_return=9.0) for one in result.episodes]
    result = result.normalized(low=low, high=dataclasses.replace(result, episodes=high))
    result.save(tmp_path / "r.json")
    found = verify(tmp_path / "r.json")
    assert found.ok
    assert found.result == result
    assert "normalization_task 0=" in " ".join(str(found).split())
