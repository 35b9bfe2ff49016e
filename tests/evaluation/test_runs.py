"""Results as training runs: by seed and steps, the last of each, and which is without episodes."""

import dataclasses

import pytest

from mtwrappers import protocols
from mtwrappers.evaluation import Episode, EvaluationResult, IncomparableError, Provenance
from mtwrappers.evaluation.runs import by_policy, comparable, last_of, repeated, runs_of

PLAIN = Provenance(3, {"mujoco": "3.3.0"}, goals="ab", spec={"id": "x", "kwargs": {}})
UNIQUE = iter(range(10**6))


def result(seed=None, steps=None, tasks="ab", policy=None, **changes):
    """A result of two episodes of each task, with returns of its own."""
    provenance = dataclasses.replace(
        PLAIN, training_seed=seed, training_steps=steps, policy=policy, **changes
    )
    paid = float(next(UNIQUE))
    episodes = [Episode(task, i, paid, 5, i == 0, False, i) for task in tasks for i in range(2)]
    return EvaluationResult(episodes, provenance=provenance)


def runs(**results):
    return runs_of({"mine": results})["mine"]


def labels(found):
    return [one.label for one in found]


def test_results_are_grouped_by_the_name_of_their_policy():
    one, two, three, nameless = (result(policy=name) for name in ("x", "y", "x", None))
    found = by_policy({"1.json": one, "2.json": two, "3.json": three, "4.json": nameless})
    assert {name: list(own) for name, own in found.items()} == {
        "x": ["1.json", "3.json"],
        "y": ["2.json"],
        "4.json": ["4.json"],
    }


def test_results_of_a_policy_that_differ_in_their_chunks_are_told_apart():
    eight, none, other = (result(policy="x", action_chunk=n) for n in (8, None, 8))
    found = by_policy({"1": eight, "2": none, "3": other, "4": result(policy="y", action_chunk=2)})
    assert {name: list(own) for name, own in found.items()} == {
        "x, action_chunk=8": ["1", "3"],
        "x, action_chunk=None": ["2"],
        "y": ["4"],
    }


def test_results_of_one_policy_with_other_chunks_are_refused():
    found = runs(a=result(0, action_chunk=8), b=result(1, action_chunk=16))
    message = r"the results of mine are not comparable: action_chunk of one policy 8 and 16 \(b\)"
    with pytest.raises(IncomparableError, match=message):
        comparable({"mine": found}, "all_tasks", False)
    both = {"x": runs(a=result(action_chunk=8)), "y": runs(b=result(action_chunk=16))}
    assert comparable(both, "all_tasks", False)[1] == ""


def test_the_last_result_of_each_run_counts():
    found = runs(a=result(0, 100), b=result(1, 200), c=result(0, 200), d=result(1, 100))
    last, reason = last_of(found, "all_tasks")
    assert (labels(last), reason) == (["b", "c"], "")
    assert [(one.seed, one.steps) for one in last] == [(1, 200), (0, 200)]


def test_runs_that_end_at_different_steps_are_refused():
    found = runs(a=result(0, 100), b=result(0, 200), c=result(1, 100))
    assert last_of(found, "all_tasks")[1] == "the ends of training, 200 steps and 100 steps (c)"
    message = r"the results of mine are not comparable: the ends of training, 200 steps and 100"
    with pytest.raises(IncomparableError, match=message):
        comparable({"mine": found}, "all_tasks", False)
    last, forced = comparable({"mine": found}, "all_tasks", True)
    assert labels(last["mine"]) == ["b", "c"]
    assert forced.startswith("the ends")
    unknown = runs(a=result(0, 100), b=result(1))
    assert (
        last_of(unknown, "all_tasks")[1] == "the ends of training, 100 steps and unknown steps (b)"
    )
    silent = runs(a=result(0, 100), b=result(0))
    expected = "b does not name its training_steps, as a does"
    assert last_of(silent, "all_tasks")[1] == expected
    assert last_of(silent[::-1], "all_tasks")[1] == expected


def test_results_without_a_seed_are_runs_by_themselves():
    found = runs(a=result(), b=result(), c=result(0))
    assert last_of(found, "all_tasks") == (found, "")
    assert repeated(found, "all_tasks") == ""


@pytest.mark.parametrize(
    ("steps", "said"), [(None, "training seed 3"), (500, "training seed 3 after 500 steps")]
)
def test_two_results_of_one_seed_and_step_are_refused_by_their_names(steps, said):
    found = runs(**{"a.json": result(3, steps), "b.json": result(3, steps)})
    message = f"not comparable: a.json and b.json are both of {said}"
    with pytest.raises(IncomparableError, match=message):
        comparable({"mine": found}, "all_tasks", False)
    # One seed of two methods is not one run.
    comparable({"mine": found[:1], "theirs": found[1:]}, "all_tasks", False)


def test_networks_of_a_task_each_share_a_seed():
    found = runs(a=result(0, 10, "a"), b=result(0, 10, "b"), c=result(0, 5, "a"))
    assert "are both of training seed 0" in repeated(runs(a=result(0), b=result(0)), "per_task")
    assert repeated(found, "per_task") == ""
    assert labels(last_of(found, "per_task")[0]) == ["a", "b"]
    last, _ = comparable({"mine": found}, "per_task", False)
    assert labels(last["mine"]) == ["a", "b"]


def test_a_result_without_all_episodes_of_its_protocol_is_refused():
    protocol = protocols["metaworld-3.1"]
    kept = {"protocol": dataclasses.replace(protocol, name="mine", episodes_per_task=2)}
    part = runs(**{"a.json": result(**kept)})
    with pytest.raises(IncomparableError, match=r"a\.json has 4 of 20 episodes of mine"):
        comparable({"mine": part}, "all_tasks", False)
    assert comparable({"mine": part}, "all_tasks", True)[1] == "a.json has 4 of 20 episodes of mine"
    # With a network for each task, a result may be of some tasks.
    assert comparable({"mine": part}, "per_task", False)[1] == ""
    fewer = dataclasses.replace(part[0].result, episodes=part[0].result.episodes[:3])
    short = [part[0]._replace(result=fewer)]
    with pytest.raises(IncomparableError, match=r"a\.json has 3 of 4 episodes of mine"):
        comparable({"mine": short}, "per_task", False)


@pytest.mark.parametrize(
    ("numbers", "trials", "refused"),
    [
        (range(2), 4, False),  # of a learner that adapts: all until then
        (range(1), 4, False),  # of one with a memory: the first
        (range(3, 4), 4, True),  # one of the two that count
        (range(2), 3, True),
    ],
)
def test_episodes_before_adaptation_compare_under_a_protocol(numbers, trials, refused):
    protocol = dataclasses.replace(
        protocols["metaworld-3.1-ml"],
        name="mine",
        meta_batch_size=2,
        trials=2,
        adaptation_episodes=2,
        episodes_per_task=2,
    )

    def of(numbers, trials):
        paid = float(next(UNIQUE))
        episodes = [
            Episode("a", i, paid, 5, False, False, 0, trial=trial)
            for trial in range(trials)
            for i in numbers
        ]
        return EvaluationResult(episodes, provenance=dataclasses.replace(PLAIN, protocol=protocol))

    both = runs_of({"before": [of(numbers, trials)], "after": [of(range(2, 4), 4)]})
    with pytest.raises(IncomparableError, match="episodes of mine"):  # they are no score of it
        comparable(both, "all_tasks", False)
    if refused:
        with pytest.raises(IncomparableError, match="episodes of mine"):
            comparable(both, "all_tasks", False, unadapted=True)
    else:
        assert comparable(both, "all_tasks", False, unadapted=True)[1] == ""


def test_episodes_and_trials_are_not_mixed():
    plain = result()
    trials = [dataclasses.replace(one, trial=one.number) for one in result().episodes]
    few = dataclasses.replace(result(), episodes=trials)
    message = r"scores over episodes and trials \(b\)"
    with pytest.raises(IncomparableError, match=message):
        comparable({"mine": runs(a=plain, b=few)}, "all_tasks", False)


def test_the_result_that_differs_is_named():
    others = result(versions={"mujoco": "3.2.0"})
    message = r"mine and theirs are not comparable: mujoco 3\.3\.0 and 3\.2\.0 \(their\.json\)"
    with pytest.raises(IncomparableError, match=message):
        comparable(
            runs_of({"mine": [result(), result()], "theirs": {"their.json": others}}),
            "all_tasks",
            False,
        )
