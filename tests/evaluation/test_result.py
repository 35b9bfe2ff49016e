"""`EvaluationResult`: its numbers, table, JSON and plot."""

import json

import imageio.v3 as imageio
import numpy as np
import pytest

from mtwrappers.evaluation import (
    Design,
    Environments,
    Episode,
    EvaluationResult,
    load_results,
    save_results,
)


def episodes(task, returns, successes=None, trials=None):
    nothing = [None] * len(returns)
    rows = zip(returns, successes or nothing, trials or nothing, strict=True)
    return [
        Episode(task, i, float(paid), 10 + i, once, None if once is None else False, trial=trial)
        for i, (paid, once, trial) in enumerate(rows)
    ]


def make_result(**kwargs):
    first = episodes("reach-v3", [1, 2, 3, 6], [True, True, False, True])
    second = episodes("push-v3", [10, 20, 30, 40], [False] * 4)
    return EvaluationResult(first + second, **kwargs)


def values(estimates):
    return {name: estimate.value for name, estimate in estimates.items()}


def test_every_task_and_all_have_their_means():
    result = make_result()
    names = ("success_once", "success_final", "return", "length")
    assert {task: values(estimates) for task, estimates in result.per_task.items()} == {
        "reach-v3": dict(zip(names, (0.75, 0.0, 3.0, 11.5), strict=True)),
        "push-v3": dict(zip(names, (0.0, 0.0, 25.0, 11.5), strict=True)),
    }
    assert [*values(result.overall["mean over tasks"]).values()] == [0.375, 0.0, 14.0, 11.5]


def test_every_goal_has_the_numbers_of_its_episodes():
    """Without task states and where goals are continuous, each episode or trial has its own."""

    def paid(goals):
        return {goal: estimates["return"].value for goal, estimates in goals.items()}

    two = [Episode("a", i, paid, 9, task_state=s) for i, (s, paid) in enumerate([(4, 1), (2, 3)])]
    two += [Episode("a", 2, 2.0, 9, task_state=4), Episode("b", 0, 5.0, 9), Episode("b", 1, 7.0, 9)]
    per_goal = EvaluationResult(two).per_goal
    assert [[*paid(goals).items()] for goals in per_goal.values()] == [
        [(2, 3), (4, 1.5)],
        [(0, 5), (1, 7)],
    ]
    # Student's t with one degree of freedom is 12.7062.
    assert per_goal["a"][4]["return"].low == pytest.approx(1.5 - 12.7062 * 0.5, abs=1e-4)
    trials = EvaluationResult(episodes("a", [1, 2, 3, 6], trials=[0, 0, 3, 3]))
    assert paid(trials.per_goal["a"]) == {0: 1.5, 3: 4.5}
    environments = Environments("mtwrappers/MT1-v0", {"benchmark": "MT1", "goals": "continuous"})
    drawn = EvaluationResult(two[:3], environments=environments)
    assert paid(drawn.per_goal["a"]) == {0: 1.0, 1: 3.0, 2: 2.0}


def test_the_episodes_of_a_trial_are_one_value():
    """Ten equal episodes of each of two trials know no more than two."""
    trials = [0] * 10 + [1] * 10
    result = EvaluationResult(episodes("a", [0] * 10 + [1] * 10, trials=trials))
    estimate = result.per_task["a"]["return"]
    assert (estimate.value, estimate.high) == pytest.approx((0.5, 0.5 + 12.7062 * 0.5), abs=1e-4)
    uneven = EvaluationResult(episodes("a", [1, 2, 6], trials=[0, 0, 1]))
    assert uneven.per_task["a"]["return"].value == 3.75


def test_the_table():
    lines = str(EvaluationResult(episodes("a", [2, 2], [True, True]))).splitlines()
    assert lines == [
        "task n      once (95%)     final (95%)  return  steps",
        "a    2  1.00 0.34-1.00  0.00 0.00-0.66     2.0   10.5",
        "once, final: success rates at any and at the last step",
        "95%: intervals over episodes (Wilson for rates, Student's t)",
    ]
    # Without success, the return has an interval; of one episode it has none.
    all_episodes = [*episodes("a", [1, 2, 3]), *episodes("b", [4])]
    assert str(EvaluationResult(all_episodes)).splitlines()[:3] == [
        "task              n     return (95%)  steps",
        "a                 3  2.0 -0.5 to 4.5   11.0",
        "b                 1              4.0   10.0",
    ]
    # One of two tasks reports no success.
    some = str(EvaluationResult([*episodes("a", [1], [True]), *episodes("b", [1])])).splitlines()
    assert some[2].split() == ["b", "1", "0.00", "0.00-0.79", "0.00", "0.00-0.79", "1.0", "10.0"]
    several = str(make_result()).splitlines()
    assert several[3] == "-" * len(several[0])
    assert several[4].startswith("mean over 2 tasks 8  0.38 0.14-0.69")


# Files.

STREAM = Design(7, 4, ("reach-v3", "push-v3"), phases=(("a", 3), ("b", 4)))
MADE = Environments("mtwrappers/MT1-v0", {"benchmark": "MT1", "x": [1, {"y": None}]}, "ab")


def test_the_table_has_three_decimals_of_returns_below_1():
    """Returns of a sparse reward are often in [0, 1], where one decimal says next to nothing."""
    episodes = [Episode("a", i, 0.04 * i, 5) for i in range(3)]
    assert str(EvaluationResult(episodes)).splitlines()[1] == "a    3  0.040 -0.059 to 0.139    5.0"
    episodes = [Episode("a", i, 0.955, 5, True, True) for i in range(3)]
    assert str(EvaluationResult(episodes)).splitlines()[1].split()[-2:] == ["0.955", "5.0"]


def test_a_file_brings_everything_back(tmp_path):
    saved = make_result(design=STREAM, environments=MADE, versions={"numpy": "1"}, evidence="cd")
    saved = saved.described(policy="ppo", training_seed=3, training_steps=0, note="A note.")
    low, high = (
        EvaluationResult([Episode(task, 0, paid, 5) for task in saved.tasks])
        for paid in (0.0, 40.0)
    )
    saved = saved.normalized(low=low, high=high)
    saved.save(tmp_path / "result.json")
    loaded = EvaluationResult.load(tmp_path / "result.json")
    assert (loaded, hash(loaded)) == (saved, hash(saved))
    described = saved.to_dict()
    assert loaded.to_dict() == described
    for name in ("environments", "versions", "evidence"):
        assert getattr(loaded, name) == getattr(saved, name)
    assert (
        described["score"] == "success at any step 0.375 (0.137 to 0.694, 95%), mean over 2 tasks"
    )
    # A line for each episode, and nothing that follows from them.
    lines = (tmp_path / "result.json").read_text().splitlines()
    assert len([line for line in lines if '"task": "' in line]) == 8
    fields = {*EvaluationResult.__dataclass_fields__} - {"reference"}
    assert described.keys() == {"format", "score", *fields}


def test_a_file_has_one_result_or_several(tmp_path):
    both = [make_result(), make_result().described(training_steps=5)]
    save_results(tmp_path / "both.json", both)
    assert load_results(tmp_path / "both.json") == both
    with pytest.raises(ValueError, match=r"both.json has 2 results: read it with load_results"):
        EvaluationResult.load(tmp_path / "both.json")
    both[0].save(tmp_path / "one.json")
    assert load_results(tmp_path / "one.json") == both[:1]
    with pytest.raises(ValueError, match=r"is saved as JSON, such as result.json, got .*x.npz"):
        both[0].save(tmp_path / "x.npz")


def test_results_are_equal_by_what_was_measured_and_said():
    result = make_result(design=STREAM)
    assert result == make_result(
        design=STREAM, environments=MADE, versions={"numpy": "1"}, evidence="x"
    )
    assert len({result, make_result(design=STREAM), result.described(note="x"), make_result()}) == 3
    assert repr(result.described(training_steps=2e6).description.training_steps) == "2000000"
    noted = result.described(note="x").described(policy="y")
    assert noted.description.note == "x"
    assert "note: x" in str(noted).splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"note": "x" * 1001}, r"the note must have at most 1000 .*xxx\.\.\.' \(1001 characters\)"),
        ({"note": "two\nlines"}, r"the note must have at most 1000 printable .*'two\\nlines'"),
        ({"name": "x"}, r"unexpected keyword argument 'name': did you mean 'policy'\?"),
        ({"seed": 0}, r"unexpected keyword argument 'seed': did you mean 'training_seed'\?"),
        ({"policy": "\u202ea"}, r"the name of a policy must be printable, got '\\u202ea'"),
        ({"training_steps": 0.5}, r"training_steps must be zero or a positive integer, got 0\.5"),
    ],
)
def test_descriptions_are_checked(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make_result().described(**arguments)


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        ([], {"format": "mtwrappers.FewShotResult/1"}, "format '.*/1', got 'mtwrappers.FewShotRes"),
        ([], {"episodes": 3}, "the result, episodes must be of the type .*, got 3"),
        ([], {"episodes": []}, "the result: an evaluation needs at least one episode"),
        ([], {"design": {}}, "the result, design has no 'seed'"),
        ([], {"environments": {"id": 3, "kwargs": {}, "goals": None}}, "environments, id must be"),
        (["description"], {"training_seed": -1}, "description: training_seed must be zero"),
        (["episodes", 1], {"length": 10**400}, "length must be of the type int, got 1000"),
        (["episodes", 1], {"episode_return": float("inf")}, "must be of the type float, got inf"),
        (["episodes", 1], {"more": 1}, "episodes, 1 cannot have 'more'"),
        ([], {"reference": "experts/x"}, "the result cannot have 'reference'"),
    ],
)
def test_a_file_with_something_else_is_refused(place, change, message):
    inner = data = make_result().to_dict()
    for key in place:
        inner = inner[key]
    inner.update(change)
    with pytest.raises(ValueError, match=message):
        EvaluationResult.from_dict(data)


@pytest.mark.parametrize("result", [make_result(), EvaluationResult(episodes("a", [1, 2, 3]))])
def test_a_plot_shows_success_or_the_return(result, tmp_path):
    result.plot(tmp_path / "plot.png", "Title")
    pixels = imageio.imread(tmp_path / "plot.png")
    assert pixels.shape[1] == 960
    assert np.all(pixels[..., :3] == (0x2A, 0x6F, 0xB0), axis=-1).sum() > 1000


def test_episodes_with_numpys_scalars_are_saved_and_read(tmp_path):
    episode = Episode(
        "reach", np.int64(0), np.float32(1.5), np.int32(5), np.True_, np.False_, np.uint8(3)
    )
    assert episode == Episode("reach", 0, 1.5, 5, True, False, 3)
    assert type(episode.success_once) is bool
    result = EvaluationResult([episode])
    result.save(tmp_path / "result.json")
    assert EvaluationResult.load(tmp_path / "result.json") == result


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"success_once": 1.0}, TypeError, "success_once must be of the type bool or None, got 1"),
        ({"number": True}, TypeError, "number must be of the type int, got True"),
        ({"episode_return": float("nan")}, ValueError, "episode_return must be finite, got nan"),
        ({"length": 0}, ValueError, "length must be 1 or more, got 0"),
        ({"number": -1}, ValueError, "number must be 0 or more, got -1"),
        ({"success_once": None}, ValueError, "must both be None or neither, got None and True"),
    ],
)
def test_episodes_that_a_file_cannot_have_are_refused(change, error, message):
    fields = {"task": "reach", "number": 0, "episode_return": 1.0, "length": 5}
    fields |= {"success_once": True, "success_final": True}
    with pytest.raises(error, match=message):
        Episode(**{**fields, **change})


def test_an_episode_counts_once_and_all_or_none_are_of_trials():
    episode, trial = Episode("reach", 0, 1.0, 5), Episode("reach", 0, 1.0, 5, trial=1)
    with pytest.raises(ValueError, match="episodes must differ, got 'reach', episode 0 twice"):
        EvaluationResult([episode, episode])
    with pytest.raises(ValueError, match="'reach', trial 1, episode 0 twice"):
        EvaluationResult([trial, trial])
    with pytest.raises(ValueError, match="must be of trials or none, got some of each"):
        EvaluationResult([episode, trial])


def test_a_result_without_episodes_of_adaptation_says_so():
    design = Design(trials=1, episodes_per_task=1, adaptation_episodes=1, adaptation_steps=1)
    result = EvaluationResult([Episode("reach", 1, 1.0, 5, trial=0)], design)
    for name in ("adaptation", "unadapted"):
        with pytest.raises(ValueError, match="no episodes of adaptation, which are the first 1 of"):
            getattr(result, name)


@pytest.mark.parametrize(
    "edit", [lambda data: data["episodes"].pop(3), lambda data: data.pop("score")]
)
def test_a_file_whose_episodes_do_not_have_its_score_is_refused(edit, tmp_path):
    data = make_result().to_dict()
    edit(data)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(data))
    message = r"edited.json contradicts itself: its score is 'success .*by its episodes, got '"
    with pytest.raises(ValueError, match=message):
        EvaluationResult.load(path)
    path.write_text(json.dumps([make_result().to_dict(), data]))
    with pytest.raises(ValueError, match=message):
        load_results(path)


def test_a_file_without_results_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="results must hold at least one result, got none"):
        save_results(tmp_path / "results.json", [])
    assert not any(tmp_path.iterdir())
