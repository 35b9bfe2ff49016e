"""`curves`: each point by hand, which steps are points, and what is drawn and written."""

import csv
import dataclasses
import io

import imageio.v3 as imageio
import numpy as np
import pytest
from matplotlib.figure import Figure

from mtwrappers import protocols
from mtwrappers.evaluation import (
    Episode,
    EvaluationResult,
    FewShotResult,
    IncomparableError,
    Provenance,
    curves,
    scores,
)
from mtwrappers.evaluation.episodes import Trials

PLAIN = Provenance(4, {"mujoco": "3.3.0"}, goals="ab", spec={"id": "x", "kwargs": {}})
UNIQUE = iter(range(10**6))
MEAN = "mean over tasks"


def result(seed=None, steps=None, *, provenance=PLAIN, n=4, paid=None, **successes):
    """A result of tasks with so many successes of ``n``, and with returns of its own."""
    provenance = dataclasses.replace(provenance, training_seed=seed, training_steps=steps)
    paid = float(next(UNIQUE)) if paid is None else paid
    episodes = [
        Episode(task, i, paid, 5, i < k, False, i)
        for task, k in successes.items()
        for i in range(n)
    ]
    return EvaluationResult(episodes, provenance=provenance)


def trials(seed, steps, before, after):
    """Three trials with so many successes in their first episode, and in one after adaptation."""
    provenance = dataclasses.replace(PLAIN, training_seed=seed, training_steps=steps)
    paid = float(next(UNIQUE))

    def episodes(number, successes):
        return [Episode("a", number, paid, 5, i < successes, False, i, i) for i in range(3)]

    return FewShotResult(
        EvaluationResult([*episodes(0, before), *episodes(1, 3)]),
        EvaluationResult(episodes(2, after), provenance=provenance),
        Trials(3, 2, 1, 1, False),
    )


def two_runs():
    """At 0 steps, 0 and 0.25; at 100, 0.375 and 0.75; at 250, 0.75 and 1."""
    return [
        result(0, 0, a=0, b=0),
        result(0, 100, a=1, b=2),
        result(0, 250, a=3, b=3),
        result(1, 250, a=4, b=4),
        result(1, 100, a=4, b=2),
        result(1, 0, a=0, b=2),
    ]


def means(points):
    return {steps: one.overall[MEAN].value for steps, one in points.items()}


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draws curves, and returns the figure."""
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: (figures.append(f), save(f, *a, **k)))

    def draw(found, *args, **kwargs):
        found.plot(tmp_path / "curve.png", *args, **kwargs)
        return figures[-1]

    return draw


# Points.


def test_a_point_is_the_score_of_all_runs_at_its_steps():
    runs = two_runs()
    found = curves({"mine": runs})
    points = found.points["mine"]
    assert [*points] == [0, 100, 250]
    assert means(points) == {0: 0.125, 100: 0.5625, 250: 0.875}
    assert {steps: one.tasks["a"].value for steps, one in points.items()} == {
        0: 0.0,
        100: 0.625,
        250: 0.875,
    }
    for steps, one in points.items():
        of_steps = [run for run in runs if run.provenance.training_steps == steps]
        assert one == scores({"mine": of_steps}).methods["mine"]
        assert (one.runs, one.unit, one.training_steps) == (2, "runs", steps)
    middle = points[100].overall[MEAN]
    assert 0 < middle.low < 0.375
    assert 0.75 < middle.high < 1  # over two runs, and so wider than they are apart
    assert points[0].tasks["a"].low is None
    assert found.caption[1:] == (
        "mine: 2 runs (training seeds 0, 1), 16 episodes at each point.",
        "Bands: 95% intervals over runs (2 are few). Each is for its point alone.",
        "There is no band where runs do not differ.",
    )
    assert (found.levels, found.unadapted, found.omitted, found.forced) == ({}, {}, {}, "")


def test_a_single_run_has_intervals_over_its_episodes():
    """Wilson's of 1 and of 3 successes out of 4."""
    for seed in (None, 7):
        found = curves({"mine": [result(seed, 10, a=1), result(seed, 20, a=3)]})
        low, high = (one.tasks["a"] for one in found.points["mine"].values())
        assert (low.low, low.high) == pytest.approx((0.0456, 0.6994), abs=1e-4)
        assert (high.low, high.high) == pytest.approx((0.3006, 0.9544), abs=1e-4)
        assert found.points["mine"][10].unit == "episodes"
        assert found.caption[-1] == (
            "Bands: 95% intervals of 1 run over its episodes, not over training. Each is for its "
            "point alone."
        )


def test_steps_that_not_all_runs_have_are_left_out_and_named():
    runs = [*two_runs(), result(0, 1000, a=4, b=4), result(0, 50, a=0, b=1)]
    found = curves({"mine": runs, "other": [result(0, 1000, a=1, b=1)]})
    assert [*found.points["mine"]] == [0, 100, 250]
    assert found.omitted == {"mine": (50, 1000)}
    assert [*found.points["other"]] == [1000]
    assert "Left out, as not all runs of mine have them: 50, 1,000 steps." in found.caption


def test_networks_of_a_task_each_need_every_run_of_each_task():
    def of(seed, steps, **successes):
        return result(seed, steps, **successes)

    runs = [of(0, 10, a=1), of(1, 10, a=3), of(0, 10, b=2), of(1, 10, b=4), of(0, 20, a=4)]
    found = curves({"mine": runs}, runs="per_task")
    assert means(found.points["mine"]) == {10: 0.625}
    assert found.points["mine"][10].unit == "runs of each task"
    assert found.omitted == {"mine": (20,)}
    alone = curves({"mine": [of(None, 10, a=1), of(None, 10, b=2)]}, runs="per_task")
    assert means(alone.points["mine"]) == {10: 0.375}


def test_what_names_no_training_steps_is_a_level():
    found = curves({"experts": [result(a=4, b=3)], "mine": two_runs()})
    assert [*found.points] == ["mine"]
    assert found.levels["experts"].overall[MEAN].value == 0.875
    assert "experts (training steps not recorded): 1 run, 8 episodes." in found.caption


def test_few_shot_results_have_a_curve_before_adaptation_too():
    """With a memory, the first episode of each trial is before it."""
    runs = [trials(0, 10, 0, 1), trials(1, 10, 1, 3), trials(0, 20, 1, 2), trials(1, 20, 1, 3)]
    found = curves({"mine": runs})
    after, before = (means(of["mine"]) for of in (found.points, found.unadapted))
    assert after == pytest.approx({10: 4 / 6, 20: 5 / 6})
    assert before == pytest.approx({10: 1 / 6, 20: 2 / 6})
    assert found.adaptation == (2, 1)
    assert found.caption[:2] == (
        "Success at any step, after 2 episodes of adaptation in each trial, without a protocol.",
        "Dashed: before adaptation.",
    )
    plain = result(0, 20, a=1)
    with pytest.raises(IncomparableError, match="scores over trials and episodes"):
        curves({"mine": runs, "plain": [plain]})


# What is refused.


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([result(a=1)], r"no result of \['mine'\] names its training_steps"),
        (
            [result(0, 10, a=1), result(1, a=1)],
            "result 2 of 'mine' does not name its training_steps, as others of mine do",
        ),
        (
            [result(0, 10, a=1), result(None, 10, a=1)],
            "result 2 of 'mine' does not name its training_seed, as others of mine do",
        ),
        (
            [result(None, 10, a=1), result(None, 10, a=2)],
            "result 1 of 'mine' and result 2 of 'mine' are both after 10 training steps, and do",
        ),
        (
            [result(0, 10, a=1), result(1, 11, a=2)],
            "the 2 runs of mine have no training_steps in common: they have results at 10, 11$",
        ),
    ],
)
def test_points_that_make_no_curve_are_refused(runs, message):
    with pytest.raises(ValueError, match=message):
        curves({"mine": runs})


def test_results_that_do_not_compare_are_refused_unless_it_is_forced_and_said():
    old = dataclasses.replace(PLAIN, versions={"mujoco": "3.2.0"})
    for runs, message in (
        ([result(0, 10, a=1), result(0, 10, a=2)], "both of training seed 0 after 10 steps"),
        ([result(0, 10, a=1), result(0, 20, a=1, provenance=old)], "mujoco 3.3.0 and 3.2.0"),
        ([result(0, 10, a=1), result(0, 20, b=1)], "only some of them have the task b"),
        ([result(i, 10, paid=0.5, a=1) for i in range(2)], "the same episodes"),
    ):
        with pytest.raises(IncomparableError, match=message):
            curves({"mine": runs})
    runs = [result(0, 10, a=1), result(0, 20, a=1, provenance=old)]
    found = curves({"mine": runs}, force=True)
    assert found.caption[0] == (
        "FORCED, these results are not comparable: mujoco 3.3.0 and 3.2.0 (result 2 of 'mine')."
    )
    assert "FORCED" not in found.to_csv()
    assert {row["forced"][:6] for row in rows(found)} == {"mujoco"}


def test_a_policy_may_be_the_same_before_training_and_at_points_of_one_run():
    def same(seed, steps):
        return result(seed, steps, paid=0.5, a=0)

    found = curves({"mine": [same(0, 0), same(1, 0), result(0, 10, a=1), result(1, 10, a=2)]})
    assert means(found.points["mine"]) == {0: 0.0, 10: 0.375}
    assert [*curves({"mine": [same(0, 5), same(0, 10)]}).points["mine"]] == [5, 10]
    with pytest.raises(IncomparableError, match="the same episodes"):
        curves({"mine": [same(0, 10)], "other": [same(0, 10)]})


def test_the_rules_are_those_of_the_protocol_and_all_its_episodes_count(drawn):
    """The first of its means is drawn, and success is at the last step."""
    protocol = protocols["lerobot-0.6"]
    protocol = dataclasses.replace(
        protocol, name="mine", episodes_per_task=1, means=("groups", "tasks"), success="last"
    )
    tasks = [task for _, members in protocol.groups for task in members]
    named = dataclasses.replace(PLAIN, protocol=protocol)
    with pytest.raises(IncomparableError, match="has 1 of 50 episodes of mine"):
        curves({"mine": [result(0, 10, provenance=named, n=1, **{tasks[0]: 1})]})
    found = curves({"mine": [result(0, 10, provenance=named, n=1, **dict.fromkeys(tasks, 1))]})
    point = found.points["mine"][10]
    assert [*point.overall] == ["mean over groups", MEAN, "interquartile mean"]
    assert [*point.groups] == [name for name, _ in protocol.groups]
    assert point.overall[MEAN].value == 0.0
    assert found.caption[0].startswith(
        f"Success at the last step, protocol {protocol.label} on MT50"
    )
    assert drawn(found).axes[0].get_ylabel() == "success rate, mean over groups"


# The table.


def rows(found, **kwargs):
    return [*csv.DictReader(io.StringIO(found.to_csv(**kwargs)))]


def test_the_table_has_every_point_in_full_precision(tmp_path):
    runs = [result(seed, steps, n=3, a=seed, b=1) for seed in (0, 1) for steps in (0, 10)]
    found = curves({"mine": runs, "=experts": [result(n=3, a=3, b=2)]})
    text = found.to_csv(tmp_path / "curve.csv")
    assert (tmp_path / "curve.csv").read_text() == f"{text}\n"
    table = rows(found)
    names = ["a", "b", MEAN, "interquartile mean"]
    assert [(one["method"], one["training_steps"], one["name"]) for one in table] == [
        (method, steps, name)
        for method, steps in (("mine", "0"), ("mine", "10"), ("'=experts", ""))
        for name in names
    ]
    mean = table[6]
    expected = found.points["mine"][10].overall[MEAN]
    assert [float(mean[name]) for name in ("success", "low", "high")] == [
        expected.value,
        expected.low,
        expected.high,
    ]
    assert expected.value == 0.25
    assert (mean["unit"], mean["runs"], mean["training_seeds"]) == ("runs", "2", "0 1")
    assert mean["adaptation"] == ""
    assert table[1]["success"] == repr(1 / 3)
    assert table[1]["low"] == table[1]["high"] == ""
    assert {one["over"] for one in rows(found, tasks=False)} == {"all"}


def test_the_table_of_few_shot_results_names_what_is_before_adaptation():
    found = curves({"mine": [trials(0, 10, 0, 1), trials(0, 20, 1, 2)]})
    table = rows(found, tasks=False)
    assert [(one["adaptation"], one["training_steps"], one["success"]) for one in table] == [
        ("before", "10", "0.0"),
        ("before", "20", repr(1 / 3)),
        ("after", "10", repr(1 / 3)),
        ("after", "20", repr(2 / 3)),
    ]


# The picture.


def test_the_picture_has_a_line_per_method_and_a_band_per_interval(drawn):
    many = [result(0, steps, a=2, b=1) for steps in (0, 500_000, 2_000_000)]
    found = curves({"mine": many, "experts": [result(a=4, b=4)]})
    figure = drawn(found, "A title", beside={"published": [(1_000_000, 0.5), (0, 0.1)]})
    [axes] = figure.axes
    mine, experts, published = axes.lines
    assert mine.get_xydata().tolist() == [[0, 0.375], [500_000, 0.375], [2_000_000, 0.375]]
    assert experts.get_xydata().tolist() == [[0, 1], [2_000_000, 1]]
    assert published.get_xydata().tolist() == [[0, 0.1], [1_000_000, 0.5]]
    assert (published.get_markerfacecolor(), mine.get_markerfacecolor()) == ("white", "#0072B2")
    assert [band.get_paths() != [] for band in axes.collections] == [True, True, False]
    assert axes.get_ylim() == (-0.02, 1.02)
    assert (axes.get_xlabel(), axes.get_title("left")) == (
        "environment steps of training",
        "A title",
    )
    figure.canvas.draw()
    assert {"0", "500k", "2M"} <= {text.get_text() for text in axes.get_xticklabels()}
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["mine", "experts", "published"]
    assert "mine: 1 run (training seed 0), 8 episodes at each point." in figure.get_supxlabel()


def test_curves_before_adaptation_are_dashed_and_a_lone_interval_is_a_bar(drawn):
    runs = [trials(0, 10, 0, 1), trials(1, 10, 0, 3), trials(0, 20, 1, 3), trials(1, 20, 1, 3)]
    [axes] = drawn(curves({"mine": runs})).axes
    after, bar, before = axes.lines  # at 20 steps, both runs are at 1
    assert (after.get_linestyle(), before.get_linestyle()) == ("-", "--")
    assert before.get_label() == "mine, before adaptation"
    assert after.get_color() == before.get_color()
    assert bar.get_xdata().tolist() == [10, 10]
    assert bar.get_ydata()[0] < 2 / 3 < bar.get_ydata()[1]


def test_tasks_have_panels_of_their_own(drawn, tmp_path):
    names = [f"a-task-with-a-long-name-{i}-v3" for i in range(7)]
    runs = [
        result(seed, steps, **{name: (i + seed) % 5 for i, name in enumerate(names)})
        for seed in range(3)
        for steps in (0, 10)
    ]
    wide, *small = drawn(curves({"mine": runs}), tasks=True).axes
    assert wide.get_ylabel() == "success rate, mean over tasks"
    assert [axes.get_title() for axes in small] == names
    assert small[1].lines[0].get_ydata().tolist() == [0.5, 0.5]
    pixels = imageio.imread(tmp_path / "curve.png")
    assert pixels.shape[1] == 960
    assert np.all(pixels[..., :3] == (0x00, 0x72, 0xB2), axis=-1).sum() > 500
    [alone] = drawn(curves({"mine": [result(0, 0, a=1)]}), tasks=True).axes
    assert alone.lines[0].get_xydata().tolist() == [[0, 0.25]]


@pytest.mark.parametrize(
    ("beside", "error", "message"),
    [
        ({"x": [(10, 1.5)]}, ValueError, r"a rate of 'x' must be in \[0, 1\], got 1.5"),
        ({"x": [(-1, 0.5)]}, ValueError, "training steps must be above zero and finite, got -1"),
        ({"x": []}, ValueError, "the points of 'x' must hold at least one point"),
        ([(1, 0.5)], TypeError, "beside must be a dict"),
    ],
)
def test_points_from_elsewhere_are_checked(beside, error, message, tmp_path):
    with pytest.raises(error, match=message):
        curves({"mine": [result(0, 0, a=1)]}).plot(tmp_path / "curve.png", beside=beside)
    assert [*tmp_path.iterdir()] == []


def test_results_of_one_policy_with_other_chunks_are_no_curve():
    chunked = [dataclasses.replace(PLAIN, action_chunk=n) for n in (4, 8)]
    both = [result(0, n, provenance=one, a=1) for n, one in zip((0, 100), chunked, strict=True)]
    with pytest.raises(IncomparableError, match="action_chunk of one policy 4 and 8"):
        curves({"mine": both})
    found = curves({"mine": [result(0, n, provenance=chunked[1], a=1) for n in (0, 100)]})
    assert "mine: 1 run (training seed 0), 4 episodes, 8 actions of each chunk" in found.caption[1]
