"""Normalised scores: `EvaluationResult.normalized`."""

import imageio.v3 as imageio
import numpy as np
import pytest

from mtwrappers import EvaluationResult
from mtwrappers.evaluation import Design, Environments, Episode, plot
from tests.evaluation.measured import measured


def make_result(**returns):
    """A result of these returns of each task."""
    return EvaluationResult(
        [
            Episode(task, i, float(paid), 10)
            for task, task_returns in returns.items()
            for i, paid in enumerate(task_returns)
        ]
    )


def named(result, policy, env_id="x", wind=1):
    """The same result of a policy with a name, in as many environments as that has letters."""
    environments = Environments(env_id, {"wind": wind, "num_envs": len(policy)}, "ab")
    return measured(result.episodes, Design(0, 4), {"environments": environments}, policy=policy)


ENDS = {"low": make_result(hop=[0], run=[100]), "high": make_result(hop=[20], run=[200])}


def test_a_return_is_placed_between_low_and_high_and_not_clipped(tmp_path):
    result = make_result(hop=[0, 10], run=[100, 300])
    normalized = result.normalized(**ENDS)
    scores = {task: estimates["normalized"] for task, estimates in normalized.per_task.items()}
    assert {task: estimate.value for task, estimate in scores.items()} == {"hop": 0.25, "run": 1.0}
    paid = result.per_task["hop"]["return"]
    assert (scores["hop"].low, scores["hop"].high) == pytest.approx((paid.low / 20, paid.high / 20))
    assert normalized.overall["mean over tasks"]["normalized"].value == 0.625
    below = make_result(hop=[-20, -20, -20], run=[0, 0, 0]).normalized(**ENDS)
    assert below.per_task["hop"]["normalized"].value == -1.0
    # All other numbers are as they were.
    for task, estimates in result.per_task.items():
        assert {**estimates, "normalized": scores[task]} == normalized.per_task[task]
    assert normalized != result
    lines = str(normalized).splitlines()
    assert lines[0].split() == ["task", "n", "return", "(95%)", "normalized", "(95%)", "steps"]
    assert lines[1].split()[-5] == "0.25"
    assert "normalized: (return - low) / (high - low), not clipped" in lines
    normalized.plot(tmp_path / "plot.png")
    pixels = imageio.imread(tmp_path / "plot.png")
    assert np.all(pixels[..., :3] == (0x2A, 0x6F, 0xB0), axis=-1).sum() > 1000


def test_few_shot_curves_are_of_normalised_returns(tmp_path, monkeypatch):
    design = Design(0, 1, trials=2, adaptation_episodes=1, adaptation_steps=1, adapts=True)
    episodes = [Episode("hop", n, 15.0, 10, trial=t) for t in range(2) for n in range(2)]
    drawn = {}
    monkeypatch.setattr(
        plot, "draw_lines", lambda path, panels, *texts: drawn.update(panels, axis=texts[3])
    )
    result = EvaluationResult(episodes, design, normalization={"hop": (10.0, 20.0)})
    result.plot(tmp_path / "plot.png")
    assert result.score.startswith("normalized return 0.500")
    assert drawn.pop("axis") == "normalized"
    [[line]] = drawn.values()
    assert [estimate.value for estimate in line.points.values()] == [0.5, 0.5]


def test_two_results_are_the_ends_which_may_differ_in_what_is_not_scored():
    low = named(make_result(hop=[1, 3], run=[0, 0], more=[1, 1]), "random")
    high = named(make_result(run=[10, 10], hop=[6, 6]), "expert")
    normalized = named(make_result(hop=[4], run=[-5]), "mine").normalized(low=low, high=high)
    assert normalized.normalization == {"hop": (2.0, 6.0), "run": (0.0, 10.0)}
    assert [task["normalized"].value for task in normalized.per_task.values()] == [0.5, -0.5]


GOOD = named(make_result(hop=[4]), "good")


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (
            named(make_result(hop=[0]), "low", env_id="y"),
            GOOD,
            "the low reference was measured in another way: its id is 'y', not 'x'",
        ),
        (
            named(make_result(hop=[0]), "low", wind=2),
            GOOD,
            "the low reference was measured in another way: its wind is 2, not 1",
        ),
        (GOOD, make_result(run=[1]), "the high reference has no episodes of 'hop'"),
        (GOOD, GOOD, r"'hop' needs two returns low < high .* got \(4.0, 4.0\)"),
        (GOOD, 3, "the high reference must be an EvaluationResult, got 3"),
    ],
)
def test_references_that_do_not_fit_are_refused(low, high, message):
    with pytest.raises((TypeError, ValueError), match=message):
        named(make_result(hop=[4]), "mine").normalized(low=low, high=high)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([], "normalization must be of the type"),
        ({"hop": [0, None]}, "normalization, hop, 1 must be of the type float"),
        ({"hop": [1, 0]}, "'hop' needs two returns low < high"),
        ({"hop": [-1e308, 1e308]}, "'hop' needs two returns .* nor too far apart"),
        ({"run": [0, 1]}, "'hop' needs two returns low < high"),
    ],
)
def test_a_normalization_of_a_file_is_checked(change, message):
    data = {**make_result(hop=[1, 2], run=[1, 2]).to_dict(), "normalization": change}
    with pytest.raises(ValueError, match=message):
        EvaluationResult.from_dict(data)
