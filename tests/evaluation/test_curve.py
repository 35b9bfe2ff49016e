"""`curves`: points by hand, what is left out or refused, and what the picture and table show."""

import csv
import io

import pytest
from matplotlib.figure import Figure

from mtwrappers.evaluation import IncomparableError, curves, scores
from tests.evaluation.measured import result, trials

MEAN = "mean over tasks"


def two_runs():
    """At 0 steps, 0 and 0.25; at 100, 0.375 and 0.75; at 250, 0.75 and 1."""
    first = [result(0, 0, a=0, b=0), result(0, 100, a=1, b=2), result(0, 250, a=3, b=3)]
    return [*first, result(1, 250, a=4, b=4), result(1, 100, a=4, b=2), result(1, 0, a=0, b=2)]


def means(points):
    return {steps: score.overall[MEAN].value for steps, score in points.items()}


def rows(curve, **kwargs):
    return [*csv.DictReader(io.StringIO(curve.to_csv(**kwargs)))]


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draws curves, and returns the figure."""
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: (figures.append(f), save(f, *a, **k)))

    def draw(curve, *args, **kwargs):
        curve.plot(tmp_path / "curve.png", *args, **kwargs)
        return figures[-1]

    return draw


def test_a_point_is_the_score_of_all_runs_at_its_steps():
    runs = two_runs()
    curve = curves({"mine": runs, "experts": [result(a=4, b=3)]})
    points = curve.points["mine"]
    assert means(points) == {0: 0.125, 100: 0.5625, 250: 0.875}
    for steps, score in points.items():
        of_steps = [run for run in runs if run.description.training_steps == steps]
        assert score == scores({"mine": of_steps}).methods["mine"]
    assert points[0].tasks["a"].low is None
    assert curve.levels["experts"].overall[MEAN].value == 0.875
    assert curve.caption == (
        "Success at any step, without a protocol.",
        "mine: 2 runs (training seeds 0, 1), 16 episodes at each point.",
        "experts (training steps not recorded): 1 run, 8 episodes.",
        "Bands: 95% intervals over runs (2 are few); of 1 run over its episodes, not over "
        "training. Each is for its point alone.",
    )
    assert (curve.unadapted, curve.omitted, curve.mismatch) == ({}, {}, "")


def test_steps_that_not_all_runs_have_are_left_out_and_named():
    runs = [*two_runs(), result(0, 1000, a=4, b=4), result(0, 50, a=0, b=1)]
    curve = curves({"mine": runs, "other": [result(None, 1000, a=1, b=1)]})
    assert [*curve.points["mine"]] == [0, 100, 250]
    assert curve.omitted == {"mine": (50, 1000)}
    assert curve.points["other"][1000].unit == "episodes"
    assert "Left out, as not all runs of mine have them: 50, 1,000 steps." in curve.caption


def test_runs_that_did_the_same_at_the_end_are_named_as_in_a_table():
    """A file that was copied would make the band too narrow. All may begin with one policy."""
    points = [result(seed, 0, a=0, paid=1.0) for seed in range(3)]
    ends = [
        result(seed, 9, a=successes, paid=paid)
        for seed, successes, paid in ((0, 2, 5.0), (1, 2, 5.0), (2, 3, 6.0))
    ]
    sentence = (
        "result 4 of 'm' and result 5 of 'm' have the same episodes and count as two runs: perhaps "
        "they are of one policy"
    )
    drawn = curves({"m": points + ends})
    assert drawn.notes == (sentence,)
    assert f"Note: {sentence}." in drawn.caption
    assert curves({"m": points + ends[:1] + ends[2:] + [result(1, 9, a=1)]}).notes == ()


def test_a_file_per_task_is_a_point_as_well():
    results = [result(0, n, **{task: k}) for n, task, k in ((5, "a", 1), (5, "b", 3), (9, "a", 4))]
    curve = curves({"mine": [*results, result(0, 9, b=2)]})
    assert means(curve.points["mine"]) == {5: 0.5, 9: 0.75}


def test_few_shot_results_have_a_curve_before_adaptation_too(drawn):
    runs = [trials(1, 0, 0, seed=0, steps=10), trials(3, 3, 3, seed=1, steps=10)]
    runs += [trials(3, 3, 3, before=seed + 1, seed=seed, steps=20) for seed in (0, 1)]
    curve = curves({"mine": runs})
    adapted, unadapted = (means(of["mine"]) for of in (curve.points, curve.unadapted))
    assert adapted == pytest.approx({10: 5 / 9, 20: 1.0})
    assert unadapted == pytest.approx({10: 0.0, 20: 0.75})
    assert curve.caption[1] == "Dashed: before adaptation."
    assert [(row["adaptation"], row["training_steps"]) for row in rows(curve, tasks=False)] == [
        *(("before", "10"), ("before", "20"), ("after", "10"), ("after", "20"))
    ]
    [axes] = drawn(curve).axes
    solid, bar, dashed, *_ = axes.lines  # at 20 steps, both runs are at 1
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert dashed.get_label() == "mine, before adaptation"
    assert bar.get_xdata().tolist() == [10, 10]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (result(a=1), result(b=1), r"no result of \['mine'\] names its training_steps"),
        (result(0, 10, a=1), result(1, a=1), "result 2 of 'mine' does not name its training_steps"),
        (result(0, 10, a=1), result(None, 10, a=1), "its training_seed, as others of mine do"),
        (result(None, 10, a=1), result(None, 10, a=2), "are both after 10 training steps, and do"),
        (result(0, 10, a=1), result(1, 11, a=2), "2 runs of mine have no .* results at 10, 11$"),
        (result(0, 10, a=1), result(0, 10, a=2), "both of training seed 0 after 10 steps"),
        (result(0, 10, a=1), result(0, 20, b=1), "does not have the task a, as .* does: evaluate"),
    ],
)
def test_points_that_make_no_curve_are_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        curves({"mine": [first, second]})


def test_a_curve_that_is_forced_says_so():
    runs = [result(0, 10, a=1), result(0, 20, {"versions": {"mujoco": "3.2.0"}}, a=1)]
    with pytest.raises(IncomparableError, match=r"mujoco 3\.3\.0 and 3\.2\.0"):
        curves({"mine": runs})
    curve = curves({"mine": runs}, force=True)
    assert curve.caption[0] == (
        "FORCED, these results are not comparable: mujoco 3.3.0 and 3.2.0 (result 2 of 'mine')."
    )
    assert {row["mismatch"][:6] for row in rows(curve)} == {"mujoco"}


def test_the_picture_has_a_line_per_method_and_a_band_per_interval(drawn):
    many = [result(0, steps, a=2, b=1) for steps in (0, 500_000, 2_000_000)]
    curve = curves({"mine": many, "experts": [result(a=4, b=4)]})
    figure = drawn(curve, "A title", beside={"published": [(1_000_000, 0.5), (0, 0.1)]})
    [axes] = figure.axes
    assert [line.get_xydata().tolist() for line in axes.lines] == [
        [[0, 0.375], [500_000, 0.375], [2_000_000, 0.375]],
        [[0, 1], [2_000_000, 1]],
        [[0, 0.1], [1_000_000, 0.5]],
    ]
    assert [band.get_paths() != [] for band in axes.collections] == [True, True, False]
    assert axes.get_title("left") == "A title"
    figure.canvas.draw()
    assert {"0", "500k", "2M"} <= {text.get_text() for text in axes.get_xticklabels()}
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["mine", "experts", "published"]
    assert "mine: 1 run (training seed 0), 8 episodes at each point." in figure.get_supxlabel()
    assert [axes.get_title() for axes in drawn(curve, tasks=True).axes[1:]] == ["a", "b"]


def test_a_level_beside_points_before_any_training_is_drawn_and_no_step_is_below_zero(drawn):
    figure = drawn(curves({"mine": [result(0, 0, a=1)], "experts": [result(a=4)]}))
    [axes] = figure.axes
    assert [line.get_xydata().tolist() for line in axes.lines if line.get_linestyle() == "-."] == [
        [[0, 1], [1, 1]]
    ]
    assert axes.get_xticks().tolist() == [0]
    assert axes.get_xlim()[0] > -0.1


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"x": [(10, 1.5)]}, r"a rate of 'x' must be in \[0, 1\], got 1.5"),
        ({"x": [(-1, 0.5)]}, "steps of 'x' must be zero or more and finite, got -1"),
        ({"x": [(False, 0.5)]}, "steps of 'x' must be zero or more and finite, got False"),
        ({"x": [0.5]}, "the points of 'x' must be pairs of training steps and a score, got 0.5"),
        ({"x": []}, "the points of 'x' must hold at least one point"),
        ([(1, 0.5)], "beside must be a dict"),
    ],
)
def test_points_from_elsewhere_are_checked(beside, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=message):
        curves({"mine": [result(0, 0, a=1)]}).plot(tmp_path / "curve.png", beside=beside)
    assert [*tmp_path.iterdir()] == []
