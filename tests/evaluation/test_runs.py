"""Which results are runs, which are parts of one, and which are comparable."""

import dataclasses
import itertools
import random

import pytest

from mtwrappers import evaluation, protocols
from mtwrappers.evaluation import (
    Environments,
    EvaluationResult,
    IncomparableError,
    compare,
    curves,
    scores,
)
from mtwrappers.evaluation.origin import SCORED
from tests.evaluation.measured import result, trials

MINE = {"protocol": protocols["metaworld-3.1"].on("MT10").variant("mine")}
LAST = MINE["protocol"].variant("last", success="last")
OLD = {"versions": {"mujoco": "2"}}


def on(env_id, **kwargs):
    """Where an evaluation on an id was made."""
    return {"environments": Environments(env_id, kwargs, "ab")}


def metaworld(**kwargs):
    return on("mtwrappers/MT10-v0", **{"benchmark": "MT10", **kwargs})


# Runs.


def test_the_last_result_of_each_run_counts():
    named = {"a": (0, 5, 1), "b": (1, 20, 4), "c": (0, 20, 2), "d": (1, 5, 3)}
    table = scores({"mine": {k: result(s, n, a=of) for k, (s, n, of) in named.items()}})
    mine = table.methods["mine"]
    assert (mine.runs, mine.training_seeds, mine.training_steps) == (2, (0, 1), 20)
    assert mine.tasks["a"].value == 0.75


@pytest.mark.parametrize(("seed", "per_trial"), [(None, None), (3, None), (3, 3)])
def test_how_episodes_are_divided_into_results_changes_nothing(seed, per_trial):
    """209 episodes of eleven tasks in one file, in a file per task, and dealt out at random."""
    dice = random.Random(0)
    tasks = {f"t{i}": [dice.random() < 0.09 * i for _ in range(19)] for i in range(11)}
    undivided, opponent = (
        result(seed, **tasks),
        result(9, **{t: successes[::-1] for t, successes in tasks.items()}),
    )

    def replace_episodes(result, episodes):
        in_trials = [
            dataclasses.replace(episode, trial=per_trial and episode.number // per_trial)
            for episode in episodes
        ]
        return dataclasses.replace(result, episodes=in_trials)

    def divide(n):
        episodes = dice.sample(undivided.episodes, len(undivided.episodes))
        return [replace_episodes(undivided, episodes[i::n]) for i in range(n)]

    per_task = [replace_episodes(undivided, undivided.of_task(task)) for task in undivided.tasks]
    outcomes = []
    for division in (divide(1), per_task, per_task[::-1], divide(2), divide(7)):
        policies = {"mine": division, "other": [replace_episodes(opponent, opponent.episodes)]}
        outcomes.append((compare(policies)[0], scores(policies).methods["mine"]))
        assert outcomes[-1] == outcomes[0]
    assert outcomes[0][0].overall["mean over tasks"].difference.low is not None
    assert (outcomes[0][1].unit, outcomes[0][1].runs) == ("trials" if per_trial else "episodes", 1)


def test_no_number_depends_on_the_order_of_runs():
    dice = random.Random(1)
    runs = [
        result(s, **{t: [dice.random() < 0.7 for _ in range(9)] for t in "abc"}) for s in range(6)
    ]
    trained = [trials(*(dice.randrange(4) for _ in range(5)), seed=s) for s in range(3)]
    for all_of in (runs, trained):
        once = scores({"x": all_of}).methods["x"]
        for _ in range(5):
            dice.shuffle(all_of)
            reordered = scores({"x": all_of}).methods["x"]
            assert (reordered.tasks, reordered.overall) == (once.tasks, once.overall)


def test_results_without_a_seed_that_share_episodes_are_refused_by_the_name_of_the_seed():
    both = {"mine": {"a.json": result(a=1), "b.json": result(a=3)}}
    message = (
        "a.json and b.json both have 'a', episode 0, and do not name their training_seed: give it "
        "to rollout as --training-seed, or to result"
    )
    with pytest.raises(IncomparableError, match=message):
        scores(both)
    assert scores(both, force=True).methods["mine"].runs == 2


def test_the_caption_says_which_rule_makes_results_a_run():
    results = [result(seed, 9, **{task: 1}) for seed in (0, 1) for task in "ab"]
    table = scores({"mine": [*results, result(0, 5, a=1, b=1)]})
    runs = "2 runs (training seeds 0, 1; from 4 results that share no episode)"
    end = "after 9 training steps, the last of 2 points, 16 episodes."
    assert table.caption[1] == f"mine: {runs} {end}"
    [comparison] = compare({"mine": results, "other": [result(0, 9, a=2, b=2)]})
    lines = str(comparison).splitlines()
    assert lines[0] == (
        "A: mine (2 runs from 4 results that share no episode after 9 training steps)"
    )


def test_a_reference_is_no_run_of_a_method_with_other_results():
    reference = dataclasses.replace(result(1, a=3), reference="experts/x")
    for policies in ([result(0, a=1), reference], [reference, result(0, a=1)]):
        message = "result . of 'mine' is a reference that comes with mtwrappers, and no run of 'min"
        with pytest.raises(ValueError, match=message):
            scores({"mine": policies}, force=True)
    policies = {"mine": [result(0, a=1)], "experts": [reference.described(policy="mine")]}
    assert "experts: reference of mtwrappers, 1 run (training seed 1), 4 episodes." in (
        scores(policies).caption
    )
    assert (
        str(compare(policies)[0]).splitlines()[1] == "B: experts (reference of mtwrappers, 1 run)"
    )
    assert "reference:experts/x, a result that comes with mtwrappers" in str(reference).splitlines()


def test_runs_that_did_the_same_are_compared_with_a_warning():
    same = [result(seed, paid=0.0, a=0) for seed in (1, 2)]
    table = scores({"mine": same})
    assert table.methods["mine"].tasks["a"].value == 0.0
    count_twice = " and count as two runs: perhaps they are of one policy"
    note = f"result 1 of 'mine' and result 2 of 'mine' have the same episodes{count_twice}"
    assert table.caption[-1] == f"Note: {note}."
    [both] = compare({"mine": same[:1], "copy": {"copy.json": same[0]}})
    assert both.notes == ("result 1 of 'mine' and copy.json have the same episodes",)
    assert both.notes[0] in str(both)
    results = [result(i, fields={"evidence": e}, paid=0.0, a=0) for i, e in enumerate("aba")]
    assert scores({"mine": results[:2]}).notes == ()  # other actions may come to the same
    table = scores({"mine": {f"mine-{i}.json": run for i, run in enumerate(results)}})
    note = f"mine-0.json and mine-2.json have the same actions{count_twice}"
    assert table.notes == (note,)
    assert f"Note: {note}." in " ".join(str(table).split())


@pytest.mark.parametrize("seed", [None, 3])
def test_the_last_result_of_a_run_counts_with_and_without_a_seed(seed):
    table = scores({"mine": [result(seed, steps, a=steps) for steps in (0, 2, 4)]})
    mine = table.methods["mine"]
    assert (mine.runs, mine.training_steps, mine.tasks["a"].value) == (1, 4, 1.0)
    assert [*curves({"mine": [result(seed, n, a=n) for n in (0, 2, 4)]}).points["mine"]] == [
        0,
        2,
        4,
    ]


def test_results_of_other_evaluation_seeds_are_not_taken_for_training_runs():
    """Nothing says whether they are of one policy or of two."""
    first, second = result(a=1), result(a=3)
    second = dataclasses.replace(second, design=dataclasses.replace(second.design, seed=1))
    message = "both have 'a', episode 0, and do not name their training_seed"
    with pytest.raises(IncomparableError, match=message):
        scores({"mine": [first, second]})
    named = [run.described(training_seed=i) for i, run in enumerate((first, second))]
    assert scores({"mine": named}).methods["mine"].runs == 2


def test_parts_without_a_seed_are_of_one_plan():
    result_a, result_b = result(a=1), result(b=3)
    assert scores({"mine": {"a": result_a, "b": result_b}}).methods["mine"].runs == 1
    result_b = dataclasses.replace(result_b, design=dataclasses.replace(result_b.design, seed=1))
    message = (
        r"a and b are of different evaluations \(seed 0, 4 episodes per task and seed 1, 4 "
        r"episodes per task\), and do not name their training_seed"
    )
    with pytest.raises(IncomparableError, match=message):
        scores({"mine": {"a": result_a, "b": result_b}})
    named = [run.described(training_seed=3) for run in (result_a, result_b)]
    assert scores({"mine": named}).methods["mine"].runs == 1


# What is refused, unless it is forced and said.


@pytest.mark.parametrize(
    ("result_a", "result_b", "reason"),
    [
        (result(3, a=1), result(3, a=2), "a and b are both of training seed 3, and both have 'a'"),
        (result(3, 5, a=1), result(3, 5, a=2), "both of training seed 3 after 5 steps, and both"),
        (result(paid=0.0, a=1), result(paid=0.0, a=1), "a and b both have 'a', episode 0, and do"),
        (result(0, 9, a=1), result(1, 5, a=2), r"the ends of training, 9 steps and 5 steps \(b"),
        (result(0, 9, a=1), result(1, a=2), "9 steps and unknown steps.*: give .*--training-steps"),
        (result(0, chunk=8, a=1), result(1, chunk=16, a=1), r"action_chunk 8 and 16 \(b\)"),
        (result(0, 9, a=1), result(0, a=2), "b does not name its training_steps, as a does"),
        (result(0, a=1), result(a=2), "b does not name its training_seed, as a does"),
        (result(0, a=1), result(1, a=1, b=1), "a does not have the task b, as b does: evaluate"),
        (result(a=1), result(fields=OLD, b=1), r"mujoco 3.3.0 and 2 \(b\)"),
        (result(0, a=1), result(1, fields=on("y"), a=2), "id x and y"),
        (result(0, a=1), EvaluationResult(result(a=2).episodes), "b does not say where it was mea"),
        (trials(1, 2, seed=0), result(1, a=2), r"scores over trials and episodes \(b\)"),
        (result(0, a=1), result(1, fields=MINE, a=1), r"a has no protocol, and b has mine \("),
        (
            result(0, fields=MINE, a=1),
            result(1, fields=MINE, a=2),
            "a has 4 of 500 episodes of mine",
        ),
    ],
)
def test_runs_that_are_not_comparable_are_refused_by_their_names(result_a, result_b, reason):
    policies = {"mine": {"a": result_a, "b": result_b}}
    message = f"the results of mine are not comparable: .*{reason}"
    with pytest.raises(IncomparableError, match=message):
        scores(policies)
    if "mujoco" in reason:  # parts of one run, each with its tasks
        return
    first = str(scores(policies, force=True)).splitlines()[0]
    assert first.startswith("FORCED, these results are not comparable: ")


@pytest.mark.parametrize(
    ("results", "left_out"),
    [
        # Those with most episodes stay, with all others that share none with them.
        (
            {"a": result(3, a=1, b=2), "b": result(3, a=4), "c": result(3, c=3)},
            "b is left out: a and b are both of training seed 3, and both have 'a', episode 0",
        ),
        # Of equally many, those whose returns come first.
        (
            {"a": result(3, paid=2.0, a=1), "b": result(3, paid=1.0, a=4)},
            "a is left out: b and a are both of training seed 3, and both have 'a', episode 0",
        ),
        (
            {"a": result(3, a=1), "b": result(3, a=4, b=2), "c": result(3, 5, a=4, b=1)},
            "a is left out: b and a are both of training seed 3, and both have 'a', episode 0",
        ),
        # Parts by several protocols are scored by one of them.
        (
            {
                "a": result(3, fields={"protocol": LAST}, a=4),
                "b": result(3, fields={"protocol": MINE["protocol"]}, b=4),
            },
            None,
        ),
    ],
)
def test_what_is_forced_does_not_depend_on_the_order_and_names_what_is_left_out(results, left_out):
    forced = []
    for labels in itertools.permutations(results):
        policies = {"mine": {label: results[label] for label in labels}}
        scored = scores(policies, force=True)
        forced.append(scored.methods)
        assert forced[-1] == forced[0]
        assert (left_out in scored.notes) == (left_out is not None)
        if left_out is not None:
            assert f"Note: {left_out}." in str(scored).replace("\n", " ")


def test_a_forced_comparison_and_a_forced_curve_name_what_is_left_out():
    results = [result(3, 5, a=1, b=2), result(3, 5, a=4)]
    left_out = "result 2 of 'mine' is left out: result 1 of 'mine' and result 2 of 'mine' are both "
    [comparison] = compare({"mine": results, "other": [result(4, 5, a=1, b=1)]}, force=True)
    assert comparison.notes[0].startswith(left_out)
    assert left_out in str(comparison).replace("\n", " ")
    assert curves({"mine": results}, force=True).notes[0].startswith(left_out)


def test_runs_without_a_seed_that_end_apart_are_refused():
    results = [result(None, steps, a=1) for steps in (5, 9, 9)]
    message = (
        "result 2 of 'mine' and result 3 of 'mine' are both after 9 training steps, and do not "
        "name their training_seed"
    )
    with pytest.raises(IncomparableError, match=message):
        scores({"mine": results})


def test_results_without_a_task_in_common_cannot_be_forced():
    with pytest.raises(IncomparableError, match="the results have no task in common"):
        scores({"mine": [result(0, a=1), result(1, b=1)]}, force=True)


def test_protocols_are_compared_field_by_field_as_they_are_now():
    """A digest that was read before a field changed is no witness."""
    protocol, changed = (MINE["protocol"].variant("mine", episodes_per_task=4) for _ in range(2))
    assert protocol.digest == changed.digest
    object.__setattr__(changed.scoring, "success", "last")
    both = [result(i, fields={"protocol": p}, a=1) for i, p in enumerate((protocol, changed))]
    with pytest.raises(IncomparableError, match=r"protocols mine .* and mine .*"):
        scores({"mine": both})


MULTI = {"env_ids": ["CartPole-v1"]}


@pytest.mark.parametrize(
    ("plain_fields", "other_fields"),
    [
        [
            on("mtwrappers/MultiEnv-v0", **MULTI, **kwargs)
            for kwargs in ({}, {"select": "round_robin"})
        ],
        *(
            (metaworld(), metaworld(**kwargs))
            for kwargs in (
                {"recurrent_info_in_obs": True},
                {"normalize_observations": True},
                {"select": "round_robin"},
                {"width": 64},
                {"shadows": True},
                {"observation": "pixels", "camera_name": "corner2"},
                {"task_encoding": "none"},
                {"num_envs": 20, "workers": 2},
                {"max_episode_steps": 500, "seed": 0},  # the defaults
            )
        ),
    ],
)
def test_what_a_policy_observes_is_its_own_affair(plain_fields, other_fields):
    [comparison] = compare(
        {"plain": [result(fields=plain_fields, a=1)], "other": [result(fields=other_fields, a=2)]}
    )
    assert (comparison.tasks["a"].difference.value, comparison.mismatch) == (0.25, "")


def test_a_familys_environments_are_the_same_however_their_arguments_are_written():
    plain = on("mtwrappers/Bandit-v0", family="Bandit")
    for arguments in ({"source": "rl2"}, {"tasks": None}, {"source": None, "family": "Bandit"}):
        rewritten = on("mtwrappers/Bandit-v0", **arguments)
        [comparison] = compare(
            {"A": [result(fields=plain, a=1)], "B": [result(fields=rewritten, a=2)]}
        )
        assert comparison.mismatch == ""
    robot = on("mtwrappers/PointRobot-v0", max_episode_steps=20)
    for arguments in ({"episode_steps": 20}, {"max_episode_steps": 20, "episode_steps": 7}):
        rewritten = on("mtwrappers/PointRobot-v0", **arguments)
        [comparison] = compare(
            {"A": [result(fields=robot, a=1)], "B": [result(fields=rewritten, a=2)]}
        )
        assert comparison.mismatch == ""
    shorter = on("mtwrappers/PointRobot-v0", episode_steps=7)
    with pytest.raises(IncomparableError, match="episode_steps 20 and 7"):
        compare({"A": [result(fields=robot, a=1)], "B": [result(fields=shorter, a=2)]})


BOTH = {"metaworld": "3.1.1", "mujoco": "3.3.0"}
HALF = {"env_ids": ["CartPole-v1", "HalfCheetah-v5"]}


@pytest.mark.parametrize(
    ("fields", "versions", "reason"),
    [
        # Of no package that they do not use.
        (on("mtwrappers/PointGoal-v0"), {"mujoco": "3.4.0"}, None),
        (on("mtwrappers/Bandit-v0"), {"mujoco": "3.4.0", "metaworld": "4"}, None),
        (on("mtwrappers/PointRobot-v0"), {"mujoco": "3.4.0"}, None),
        (on("mtwrappers/AntGoal-v0"), {"mujoco": "3.3.0", "metaworld": "4"}, None),
        (on("mtwrappers/AntGoal-v0"), {"mujoco": "3.4.0"}, "mujoco 3.3.0 and 3.4.0"),
        (on("mtwrappers/MultiEnv-v0"), {"mujoco": "3.4.0"}, None),
        (on("mtwrappers/MultiEnv-v0", **MULTI), {"mujoco": "3.4.0"}, None),
        (on("mtwrappers/MultiEnv-v0", **HALF), {"mujoco": "3.3.0", "metaworld": "4"}, None),
        (on("mtwrappers/MultiEnv-v0", **HALF), {"mujoco": "3.4.0"}, "mujoco 3.3.0 and 3.4.0"),
        # What was not installed was not used, whatever the environments are.
        (on("mine/Own-v0"), {"numpy": "2"}, None),
        (on("mine/Own-v0"), {"mujoco": "3.4.0"}, "mujoco 3.3.0 and 3.4.0"),
        (on("mtwrappers/MultiEnv-v0", env_ids=["os:X"]), {"mujoco": "4"}, "mujoco 3.3.0 and 4"),
        # Meta-World's use all.
        (metaworld(), {"mujoco": "3.3.0"}, "metaworld 3.1.1 and None"),
        (on("mtwrappers/CW10-v0"), {"mujoco": "3.3.0"}, "metaworld 3.1.1 and None"),
    ],
)
def test_only_versions_of_packages_that_environments_use_have_to_be_equal(fields, versions, reason):
    run, other_run = (
        result(fields={**fields, "versions": BOTH}, paid=1.0, a=1),
        result(paid=0.0, a=2),
    )
    other_run = dataclasses.replace(other_run, **fields, versions={"python": "3.11.0", **versions})
    if reason is None:
        for policies in ([run, other_run], [other_run, run]):
            [comparison] = compare({str(i): [run] for i, run in enumerate(policies)})
            assert comparison.mismatch == ""
        run.normalized(low=other_run, high=result(fields=fields, paid=2.0, a=1))
        return
    with pytest.raises(IncomparableError, match=reason):
        compare({"one": [run], "other": [other_run]})
    with pytest.raises(ValueError, match="the low reference was measured in another way: its "):
        run.normalized(low=other_run, high=run)


@pytest.mark.parametrize(
    ("name", "value", "usual"),
    [
        ("max_episode_steps", 150, 500),
        ("terminate_on_success", True, False),
        ("num_goals", 10, 50),
        ("goals", "continuous", "list"),
        ("seed", 1, 0),
        ("idle_steps", 15, 0),
        ("action_repeat", 2, 1),
        ("reward_function_version", "v1", "v2"),
        ("kind", "test", "train"),
    ],
)
def test_what_is_scored_has_to_be_the_same(name, value, usual):
    both = [result(fields=metaworld(**kwargs), a=1) for kwargs in ({}, {name: value})]
    with pytest.raises(IncomparableError, match=f"{name} {usual} and {value} "):
        compare({"plain": both[:1], "other": both[1:]})


def test_every_argument_that_a_protocol_fixes_is_scored_or_observed():
    fixed = {name for protocol in protocols.values() for name in protocol.settings.fixed_arguments}
    assert fixed - set(SCORED) == {
        *("observation", "camera_name", "depth", "width", "height"),
        *("shadows", "task_encoding", "descriptions", "instruction"),
        "envs_per_task",  # scored in trials
    }


def test_episodes_before_any_adaptation_compare_with_those_after():
    sizes = {"meta_batch_size": 1, "trials": 4, "adaptation_episodes": 2, "episodes_per_task": 3}
    few = protocols["metaworld-3.1-ml"].variant("few", **sizes)
    fields = {"protocol": few, **metaworld(benchmark="ML10", kind="test")}
    adapted = trials(3, 2, 3, 3, before=1, fields=fields, task="drawer-open-v3")
    [comparison] = compare({"before": [adapted.unadapted], "after": [adapted]})
    task = comparison.tasks["drawer-open-v3"]
    assert (task.first, task.second) == (0.5, pytest.approx(11 / 12))
    incomplete = dataclasses.replace(adapted.unadapted, episodes=adapted.unadapted.episodes[:-1])
    for function, policies in (
        (scores, {"before": [adapted.unadapted]}),
        (compare, {"before": [incomplete], "after": [adapted]}),
    ):
        with pytest.raises(IncomparableError, match="has 0 of 12 episodes of few"):
            function(policies)
    plain, other_run = trials(3, 2), trials(1, 2)
    longer = dataclasses.replace(other_run.design, adaptation_episodes=1)
    with pytest.raises(IncomparableError, match=r"adapt on, and after, \(2, 3\) and \(1, 3\)"):
        compare({"x": [plain], "y": [dataclasses.replace(other_run, design=longer)]})


def test_protocols_that_differ_are_told_apart_by_a_field():
    long = protocols["metaworld-3.1"].on("MT1", "reach-v3").variant("q", episodes_per_task=4)
    short = long.variant("q2", max_episode_steps=9)
    runs = [result(fields={"protocol": protocol}, **{"reach-v3": 1}) for protocol in (long, short)]
    with pytest.raises(IncomparableError, match=r"differ in max_episode_steps: 500 and 9$"):
        compare({"A": runs[:1], "B": runs[1:]})


def test_references_by_several_protocols_are_to_be_chosen_like_a_result():
    with pytest.raises(IncomparableError, match=r"reference\('experts', like=result\)"):
        scores({"experts": evaluation.reference("experts")})


@pytest.mark.parametrize(
    ("policies", "error", "message"),
    [
        ({"x": [3]}, TypeError, "EvaluationResult as result 1 of 'x', got int"),
        ([1], TypeError, "policies must be a dict"),
        ({"x": {}}, ValueError, "the results of 'x' must hold at least one result, got none"),
        ({}, ValueError, "there must be results of one policy or more, got none"),
    ],
)
def test_what_is_given_is_checked(policies, error, message):
    with pytest.raises(error, match=message):
        scores(policies)


def test_parts_that_adapt_on_other_numbers_of_episodes_are_refused():
    first, second = trials(1, 2, seed=0), trials(1, 2, seed=0, task="b")
    assert scores({"mine": [first, second]}).methods["mine"].episodes == 12
    design = dataclasses.replace(second.design, adaptation_episodes=1)
    for results in ([first, dataclasses.replace(second, design=design)], [first, result(0, b=1)]):
        for order in (results, results[::-1]):
            with pytest.raises(IncomparableError, match="are not parts of one evaluation: they"):
                scores({"mine": order})


def test_runs_with_the_same_actions_are_named_whichever_run_is_first():
    results = [result(i, fields={"evidence": e}, paid=0.0, a=0) for i, e in enumerate("abb")]
    table = scores({"mine": {f"mine-{i}.json": run for i, run in enumerate(results)}})
    [note] = table.notes
    assert note.startswith(
        "mine-1.json and mine-2.json have the same actions and count as two runs"
    )


@pytest.mark.parametrize(
    ("env_id", "kwargs", "is_metaworld"),
    [
        ("mine/MT3-v0", {"benchmark": "CustomMT"}, True),
        ("mtwrappers/CW10-v0", {"sequence": "CW10"}, True),
        ("mtwrappers/MT10-v0", {}, True),
        ("mtwrappers/PointGoal-v0", {"num_envs": 2}, False),
    ],
)
def test_metaworld_is_told_by_arguments_or_by_the_id(env_id, kwargs, is_metaworld):
    environments = Environments(env_id, kwargs)
    assert environments.is_metaworld is is_metaworld
    settings = result(fields={"environments": environments}, a=1).origin.settings
    assert ("reward_function_version" in settings) is is_metaworld
