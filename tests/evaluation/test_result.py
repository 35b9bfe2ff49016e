"""`EvaluationResult`: its numbers, table, JSON and plot."""

import imageio.v3 as imageio
import numpy as np
import pytest

from mtwrappers.evaluation import EvaluationResult, FewShotResult, Provenance
from mtwrappers.evaluation.episodes import Episode


def episodes(task, returns, successes=None, trials=None):
    nothing = [None] * len(returns)
    rows = zip(returns, successes or nothing, trials or nothing, strict=True)
    return [
        Episode(task, i, float(paid), 10 + i, once, None if once is None else False, trial=trial)
        for i, (paid, once, trial) in enumerate(rows)
    ]


def result(**kwargs):
    first = episodes("reach-v3", [1, 2, 3, 6], [True, True, False, True])
    second = episodes("push-v3", [10, 20, 30, 40], [False] * 4)
    return EvaluationResult(first + second, **kwargs)


def test_every_task_and_all_have_their_means():
    found = result()
    assert found.tasks == ("reach-v3", "push-v3")
    reach, push = found.per_task["reach-v3"], found.per_task["push-v3"]
    assert [e.value for e in reach.values()] == [0.75, 0.0, 3.0, 11.5]
    assert [e.value for e in push.values()] == [0.0, 0.0, 25.0, 11.5]
    assert [e.value for e in found.overall["mean"].values()] == [0.375, 0.0, 14.0, 11.5]
    assert found.overall["interquartile_mean"]["return"].value == 14.0  # too few to leave any out
    assert list(reach) == ["success_once", "success_final", "return", "length"]


def test_every_goal_has_the_numbers_of_its_episodes():
    of_a = [(4, 1.0, True), (2, 3.0, False), (4, 2.0, False)]
    found = EvaluationResult(
        [Episode("a", i, paid, 9, once, once, state) for i, (state, paid, once) in enumerate(of_a)]
        + [Episode("b", 0, 5.0, 9), Episode("b", 1, 7.0, 9)]
    )
    once = {goal: own["success_once"].value for goal, own in found.per_goal["a"].items()}
    assert list(once.items()) == [(2, 0.0), (4, 0.5)]
    paid = {goal: own["return"].value for goal, own in found.per_goal["a"].items()}
    assert paid == {2: 3.0, 4: 1.5}
    assert found.per_goal["a"][4]["return"].low == 1.0  # the lower of the two
    # Without task states each episode stands alone, and in trials each trial.
    assert {goal: own["return"].value for goal, own in found.per_goal["b"].items()} == {
        0: 5.0,
        1: 7.0,
    }
    trials = EvaluationResult(episodes("a", [1, 2, 3, 6], trials=[0, 0, 3, 3]))
    assert [own["return"].value for own in trials.per_goal["a"].values()] == [1.5, 4.5]
    assert list(trials.per_goal["a"]) == [0, 3]


def test_each_episode_has_a_goal_of_its_own_where_they_are_continuous():
    spec = {"id": "mtwrappers/MT1-v0", "kwargs": {"benchmark": "MT1", "goals": "continuous"}}
    two = [Episode("a", i, float(i), 9, task_state=0) for i in range(2)]
    assert list(EvaluationResult(two).per_goal["a"]) == [0]
    drawn = EvaluationResult(two, provenance=Provenance(2, {}, spec=spec))
    assert {goal: own["return"].value for goal, own in drawn.per_goal["a"].items()} == {0: 0, 1: 1}


def test_intervals_hold_the_value_and_grow_with_the_confidence():
    narrow, wide = (result(confidence=c).per_task["push-v3"]["return"] for c in (0.5, 0.99))
    assert 10 <= wide.low < narrow.low < 25 < narrow.high < wide.high <= 40


def test_no_number_depends_on_which_was_asked_for_first():
    one, other = result(), result()
    late = one.overall, one.per_task
    early = other.per_task, other.overall
    assert late == early[::-1]
    assert result(seed=1).per_task != one.per_task


def test_the_episodes_of_a_trial_are_one_value():
    """Ten equal episodes of each of two trials know no more than two."""
    trials = [0] * 10 + [1] * 10
    found = EvaluationResult(episodes("a", [0] * 10 + [1] * 10, trials=trials))
    estimate = found.per_task["a"]["return"]
    assert (estimate.low, estimate.value, estimate.high) == (0.0, 0.5, 1.0)
    alone = EvaluationResult(episodes("a", [0] * 10 + [1] * 10)).per_task["a"]["return"]
    assert 0.2 < alone.low < 0.5 < alone.high < 0.8
    uneven = EvaluationResult(episodes("a", [1, 2, 6], trials=[0, 0, 1]))
    assert uneven.per_task["a"]["return"].value == 3.75


def test_the_table():
    lines = str(EvaluationResult(episodes("a", [2, 2], [True, True]))).splitlines()
    assert lines == [
        "task n      once (95%)     final (95%)  return  steps",
        "a    2  1.00 0.34-1.00  0.00 0.00-0.66     2.0   10.5",
        "once, final: success rates at any and at the last step",
        "95%: intervals over episodes (Wilson for rates, bootstrap, 2000 resamples)",
    ]
    # Without success, the return has an interval; of one episode it has none.
    found = [*episodes("a", [1, 2, 3]), *episodes("b", [4])]
    assert str(EvaluationResult(found)).splitlines()[:3] == [
        "task               n    return (95%)  steps",
        "a                  3  2.0 1.0 to 3.0   11.0",
        "b                  1             4.0   10.0",
    ]
    # One of two tasks knows no success.
    some = str(EvaluationResult([*episodes("a", [1], [True]), *episodes("b", [1])])).splitlines()
    assert some[2].split() == ["b", "1", "-", "-", "1.0", "10.0"]
    several = str(result(confidence=0.9)).splitlines()
    assert several[0].split()[3:6:2] == ["(90%)", "(90%)"]
    assert [line.split()[:2] for line in several[1:3]] == [["reach-v3", "4"], ["push-v3", "4"]]
    assert several[3] == "-" * len(several[0])
    assert several[4].startswith("mean               8  0.38 0.16-0.65")
    assert several[5].startswith("interquartile mean 8  0.38 0.16-0.65")
    assert several[7].startswith("90%: intervals")


def test_the_table_of_all_classes_fits_80_columns():
    name, many = "button-press-topdown-wall-v3", [-4321.0 - i for i in range(999)]
    two = [*episodes(name, many, [True] * 999), *episodes("b", many, [False] * 999)]
    lines = str(EvaluationResult(two, resamples=9)).splitlines()
    assert max(map(len, lines)) == 80
    assert [line.split()[2:] for line in lines[1:3]] == [
        ["1.00", "1.00-1.00", "0.00", "0.00-0.00", "-4820", "509.0"],
        ["0.00", "0.00-0.00", "0.00", "0.00-0.00", "-4820", "509.0"],
    ]


def test_a_file_brings_everything_back(tmp_path):
    before = result(seed=7, confidence=0.8, resamples=100)
    before.save(tmp_path / "result.json")
    after = EvaluationResult.load(tmp_path / "result.json")
    assert after == before
    assert after.to_dict() == before.to_dict()
    described = before.to_dict()
    assert described["tasks"][0]["success_once"]["value"] == 0.75
    assert described["overall"]["mean"]["return"]["value"] == 14.0
    assert described["episodes"][5]["episode_return"] == 20.0


def test_a_note_and_authors_are_kept_and_change_nothing_else(tmp_path):
    before = result()
    after = before.described(note="With the fixed seed.", authors=["A. Author", "Bo Ó Riain"])
    assert after == before
    assert hash(after) == hash(before)
    assert (before.note, before.authors) == ("", ())
    assert after.described(note="").authors == ("A. Author", "Bo Ó Riain")
    after.save(tmp_path / "result.json")
    loaded = EvaluationResult.load(tmp_path / "result.json")
    assert (loaded.note, loaded.authors) == ("With the fixed seed.", ("A. Author", "Bo Ó Riain"))
    one, other = loaded.to_dict(), before.to_dict()
    assert {key for key in one if one[key] != other[key]} == {"note", "authors"}
    [line] = [line for line in str(loaded).splitlines() if line not in str(before).splitlines()]
    assert line == "by: A. Author, Bo Ó Riain; note: With the fixed seed."
    many = before.described(authors=["A. Author"] * 30, note="x" * 1000)
    assert max(map(len, str(many).splitlines())) == 80
    few = FewShotResult(before, before).described(note="of trials")
    assert (few.evaluation.note, few.adaptation.note) == ("of trials", "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"note": "x" * 1001},
            r"the note must be 0 to 1000 printable.*xxx\.\.\.' \(1001 characters\)",
        ),
        ({"note": "two\nlines"}, r"the note must be 0 to 1000 printable .*'two\\nlines'"),
        ({"note": 3}, "the note must be a string, got 3"),
        ({"authors": "A. Author"}, "authors must be a list of names, got 'A. Author'"),
        ({"authors": ["A"] * 31}, "there may be at most 30 authors, got 31"),
        ({"authors": [""]}, "the name of an author must be 1 to 100 printable characters, got ''"),
        ({"authors": ["\u202eA"]}, r"the name of an author must be .*'\\u202eA'"),
    ],
)
def test_notes_and_authors_are_checked(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        result().described(**given)
    with pytest.raises(ValueError, match=message):
        EvaluationResult.from_dict({**result().to_dict(), **given})


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "other.json"
    for text, got in (
        ('{"format": "mtwrappers.FewShotResult/1"}', "'mtwrappers.FewShotResult/1'"),
        ("{}", "None"),
        ("[1]", r"\[1\]"),
    ):
        path.write_text(text)
        for kind in (EvaluationResult, FewShotResult):
            with pytest.raises(ValueError, match=f"format {kind.FORMAT!r}, got {got}"):
                kind.load(path)


def test_a_plot_shows_success_or_the_return_and_that_the_evaluation_was_interrupted(tmp_path):
    def drawn(made, *texts):
        made.plot(tmp_path / "plot.png", *texts)
        pixels = imageio.imread(tmp_path / "plot.png")
        assert pixels.shape[1] == 960
        bars = np.all(pixels[..., :3] == (0x2A, 0x6F, 0xB0), axis=-1).sum()
        return bars, (pixels[-150:, :, 0] < 128).sum()

    # Half of the axes for a return of 2 out of about 2.1.
    assert drawn(EvaluationResult(episodes("a", [1, 2, 3])))[0] > 10_000
    # A note has a line of its own, which leaves less room for the axes.
    plain, ink = drawn(result(), "Title")
    noted, more = drawn(result(), "Title", "interrupted: 7 of 50 episodes")
    assert 0 < noted < plain
    assert more > ink


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": 3}, "task of an episode must be of the type str, got 3"),
        ({"length": "5"}, "length of an episode must be of the type int, got '5'"),
        ({"length": 10**400}, "length of an episode must be of the type int, got 1000"),
        ({"episode_return": float("inf")}, "episode_return of an episode must be of the type floa"),
        ({"success_once": "no"}, r"success_once of an episode must be of the type bool \| None"),
        ({"more": 1}, "expected an episode, got {"),
    ],
)
def test_episodes_of_a_file_are_checked(change, message):
    data = result().to_dict()
    data["episodes"][1].update(change)
    with pytest.raises(ValueError, match=message):
        EvaluationResult.from_dict(data)
    del data["episodes"][1]["task"]
    with pytest.raises(ValueError, match=r"expected an episode|task of an episode"):
        EvaluationResult.from_dict(data)
    with pytest.raises(ValueError, match="episodes must be a list, got 3"):
        EvaluationResult.from_dict({**data, "episodes": 3})
