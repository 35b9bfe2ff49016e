"""`Protocol`: data with a digest, environments and episodes that follow it, and its numbers."""

import dataclasses
import json
from contextlib import closing
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import VectorWrapper
from gymnasium.wrappers import vector as vector_wrappers

import mtwrappers
from mtwrappers import protocols
from mtwrappers.cli import main
from mtwrappers.evaluation import (
    Design,
    Episode,
    EvaluationResult,
    IncomparableError,
    VerificationError,
    compare,
    scores,
    verify,
)
from mtwrappers.evaluation.protocol import count_needed_episodes, succeeded
from mtwrappers.evaluation.scoring import weigh_tasks
from mtwrappers.metaworld.frames import Cameras
from mtwrappers.metaworld.opengl import choose_gl
from mtwrappers.metaworld.tasks import class_names

NAMES = ["metaworld-3.1", "metaworld-3.1-ml", "lerobot-0.6", "rlinf", "tdmpc2"]
ML = protocols["metaworld-3.1-ml"]
SMALL = protocols["metaworld-3.1"].variant(
    "small",
    benchmark="MT1",
    env_name="drawer-close-v3",
    episodes_per_task=2,
    max_episode_steps=5,
)
SEEN_FIELDS = {
    **{"observation": "pixels", "camera_name": "corner4", "height": 24, "width": 32},
    "descriptions": "metaworld",
}
SEEN = SMALL.variant("seen", episodes_per_task=1, max_episode_steps=2, **SEEN_FIELDS)


AS_ARGUMENTS = ("max_episode_steps", "action_repeat", "idle_steps", "terminate_on_success")


def still(observations):
    return np.zeros((len(observations), 4), np.float32)


# Data.


def test_a_printed_protocol_has_its_name_digest_environments_scoring_and_source(capsys):
    assert main(["protocols", "metaworld-3.1"]) == 0
    command = capsys.readouterr().out.split("\n\n")
    table, source = str(protocols["metaworld-3.1"]).split("\n\n")
    assert [table, source] == [command[0], command[-1].rstrip("\n")]
    lines = str(SMALL).splitlines()
    assert lines[0].split() == ["protocol", "small"]
    assert lines[1].split() == ["benchmark", "MT1", "drawer-close-v3"]
    assert "episodes          2/task" in lines
    assert f"digest            {SMALL.digest[:10]}" in lines
    assert f"small ({SMALL.digest[:10]}, not a published protocol):" in lines
    assert lines[-1].startswith("  ")
    assert max(map(len, lines)) <= 80


def test_protocols_are_found_by_name_and_an_unknown_name_is_told_the_others():
    assert list(protocols) == NAMES
    assert all(protocols[name].name == name for name in NAMES)
    assert mtwrappers.protocols is protocols
    with pytest.raises(KeyError, match=r"no protocol 'rlinv'; did you mean 'rlinf'\?"):
        protocols["rlinv"]
    with pytest.raises(TypeError):
        protocols["rlinf"] = SMALL


def test_every_field_counts_in_the_digest():
    changes = {
        **{"source": ("x",), "env_name": "reach-v3"},
        **{"reward_function_version": "v1", "seed": 1},
        **{"num_goals": 3, "max_episode_steps": 6, "action_repeat": 2, "idle_steps": 1},
        **{"terminate_on_success": False, "success": "last"},
        **{"episodes_per_task": 3, "groups": (("all", ("drawer-close-v3",)),)},
    }
    changed = {k: SMALL.variant("small", **{k: v}) for k, v in changes.items()}
    changed["name"] = SMALL.variant("other")
    assert len({rules.digest for rules in changed.values()} | {SMALL.digest}) == len(changes) + 2
    for name in ("reward_function_version", "seed", "num_goals", *AS_ARGUMENTS):
        assert changed[name].settings.arguments[name] == changes[name]
    observed = {"observation": "pixels_state", "camera_name": "corner2", "height": 84, "width": 85}
    observed |= {"descriptions": "lerobot-0.6.1"}
    digests = {SEEN.variant("seen", **{k: v}).digest for k, v in observed.items()}
    assert len(digests | {SEEN.digest}) == len(observed) + 1
    of_trials = {"adaptation_steps": 2, "trials": 9}
    digests = {ML.variant("few", **{k: v}).digest for k, v in of_trials.items()}
    assert len(digests) == len(of_trials)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_episode_steps": 0}, "max_episode_steps must be a positive integer, got 0"),
        ({"success": 0}, r"success must be in \[1, 2\*\*32 - 1\], got 0"),
        ({"num_goals": 51}, "num_goals must be at most 50, got 51"),
        ({"means": ()}, "means must be 'tasks', 'groups' or both, got none"),
        ({"means": ("groups",)}, "a mean over groups needs groups"),
        ({"benchmark": "MT10"}, "MT10 takes no env_name, got 'drawer-close-v3'"),
        ({"benchmark": "MT10", "env_name": ""}, "MT10 takes no env_name, got ''"),
        ({"env_name": None}, "MT1 needs an env_name, got None"),
        ({"kind": "test"}, "MT1 has no test tasks"),
        ({"success": "first"}, "success must be of the type .*'any', 'last'.* int"),
        ({"trials": 3}, r"few-shot evaluation needs all of .*, got \[3, 0, 0\]"),
        ({"meta_batch_size": 3}, "meta_batch_size is for meta-learning benchmarks, got 3 for MT1"),
        ({"seed": 2**32}, "seed must be at most 4294967295, got 4294967296"),
        ({"terminate_on_success": "no"}, "terminate_on_success must be True or False, got 'no'"),
        (
            {"descriptions": "lerobot-0.6.1"},
            "descriptions are for frames, got 'lerobot-0.6.1' with states",
        ),
        ({"camera_name": "corner"}, "observation='state' and camera_name='corner' do not go"),
        ({"observation": "pixels"}, "observation='pixels' and camera_name=None do not go together"),
        ({**SEEN_FIELDS, "descriptions": None}, "needs descriptions, got None"),
        (
            {**SEEN_FIELDS, "descriptions": [["push-v3", "Push"], ["push-v3", "Shove"]]},
            r"descriptions must have each class once, got \['push-v3', 'push-v3'\]",
        ),
        ({"name": "a\nb"}, r"must be printable ASCII .*, got 'a\\nb'"),
        ({"name": "rlinf"}, "rlinf is for MT50, got MT1: .* give a variant another name"),
        ({"name": "lerobot-0.6-states"}, "is derived from lerobot-0.6, .*: give a variant ano"),
        ({"means": ("tasks", "tasks")}, r"means must differ, got \('tasks', 'tasks'\)"),
        ({"groups": [("a", ["reach-v2"])]}, "got 'reach-v2'; did you mean 'reach-v3'"),
        ({"groups": [("a", [])]}, r"group 'a' must have tasks that differ, got \[\]"),
        ({"groups": [("a", ["push-v3"] * 2)]}, "group 'a' must have tasks that differ, got"),
        (
            {"groups": [("a", ["push-v3"]), ("a", ["reach-v3"])]},
            r"groups need names that differ, other than 'tasks' and 'groups', got \['a', 'a'\]",
        ),
        ({"groups": [("tasks", ["push-v3"])]}, "groups need names that differ, other than"),
        ({"episode_per_task": 3}, "'episode_per_task'.*did you mean 'episodes_per_task'"),
    ],
)
def test_what_is_no_protocol_is_refused(fields, message):
    changes = json.loads(json.dumps({"name": "small", **fields}))
    with pytest.raises((TypeError, ValueError), match=message):
        SMALL.variant(**changes)


def test_a_variant_needs_a_name_of_its_own():
    with pytest.raises(TypeError, match=r"needs name: .*such as variant\('mine', \.\.\.\)"):
        SMALL.variant(episodes_per_task=2)


def test_a_published_protocol_moves_to_another_of_its_benchmarks_and_no_further():
    protocol = protocols["metaworld-3.1"].on("MT1", "push-v3")
    assert (protocol.env_id, protocol.settings.env_name) == ("mtwrappers/MT1-v0", "push-v3")
    assert (protocol.name, protocol.base) == ("metaworld-3.1", None)
    assert protocols["metaworld-3.1"].benchmarks == ("MT1", "MT10", "MT25", "MT50")
    assert ML.on("ML45-test").env_id == "mtwrappers/ML45-test-v0"
    with pytest.raises(ValueError, match=r"is for ML1-test, ML10-test, .*ML45-test, got 'MT10'"):
        ML.on("MT10")
    with pytest.raises(ValueError, match="got 'ML10-train'"):
        ML.on("ML10-train")
    assert protocols["metaworld-3.1"].on("MT1").settings.env_name == "reach-v3"
    with pytest.raises(ValueError, match=r"has idle_steps=15, got 3: give a variant another name"):
        protocols["rlinf"].variant("rlinf", idle_steps=3)


def test_only_names_that_on_and_with_states_give_are_derived():
    moved = protocols["lerobot-0.6"].on("MT10")
    assert moved.with_states().name == "lerobot-0.6-states on MT10"
    assert moved.on("MT10") == moved
    assert protocols["lerobot-0.6"].with_states().on("MT10") == moved.with_states()
    assert moved.on("MT25") == protocols["lerobot-0.6"].on("MT25")
    assert moved.with_states().on("MT50") == protocols["lerobot-0.6"].with_states()
    assert (moved.base, moved.with_states().base) == ("lerobot-0.6", "lerobot-0.6")
    # No other protocol has such a name, with or without a base.
    for derived in (moved, moved.with_states(), ML.on("ML1")):
        with pytest.raises(ValueError, match=r"is derived from .*: give a variant another name"):
            derived.variant(derived.name, episodes_per_task=1)
        scoring = dataclasses.replace(derived.scoring, episodes_per_task=1)
        with pytest.raises(ValueError, match=r"has episodes_per_task=.*give a variant another"):
            dataclasses.replace(derived, scoring=scoring)
        with pytest.raises(ValueError, match=f"has name='{derived.name}', got 'mine'"):
            dataclasses.replace(derived, name="mine")
    with pytest.raises(ValueError, match=r"lerobot-0\.6-states is derived from lerobot-0\.6"):
        moved.variant("lerobot-0.6-states")
    with pytest.raises(ValueError, match=r"base must be the name of a published .*, got 'mine'"):
        dataclasses.replace(moved, base="mine")
    with pytest.raises(ValueError, match=r"lerobot-0\.6 is for MT50, got MT10: call Protocol\.on"):
        moved.variant("lerobot-0.6")
    # Nor has it one that only reads so.
    for name in ("metaworld-3.1 on MT10", "metaworld-3.1-states", "Metaworld-3.1", "RLinf on ml10"):
        with pytest.raises(ValueError, match=r"reads as a form of the published protocol"):
            moved.variant(name)
    assert moved.label == f"lerobot-0.6 on MT10 ({moved.digest[:10]}, derived from lerobot-0.6)"
    # Other names are nobody's, whatever they contain.
    for name in ("lerobot-0.6 on MT10, quick", "rlinf on my desk", "tdmpc2-state"):
        mine = moved.variant(name, episodes_per_task=2)
        assert mine.base is None
        assert mine.on("MT1", "push-v3").name == name
        assert mine.with_states().name == f"{name}-states"


# Environments and episodes.


def test_environments_are_those_of_the_protocol():
    with closing(SMALL.make_vec(envs_per_task=2, max_episode_steps=5)) as envs:
        assert envs.num_envs == 2
        assert envs.get_attr("terminate_on_success") == (True, True)
        assert envs.single_observation_space.shape == (39,)


@pytest.mark.parametrize(
    ("protocol", "argument", "expected"),
    [
        (SMALL, {"max_episode_steps": 500}, "small fixes max_episode_steps=5, got 500"),
        (SMALL, {"train_classes": ["reach-v3"]}, "small takes no train_classes in make_vec, got"),
        (SMALL, {"reward_normalization_method": "gymnasium"}, "takes no reward_normalization_me"),
        (SMALL, {"observation": "pixels"}, "small fixes observation='state', got 'pixels'"),
        (SEEN, {"camera_name": "corner2"}, "seen fixes camera_name='corner4', got 'corner2'"),
        (SEEN, {"observation": "state"}, "seen fixes observation='pixels', got 'state'"),
        (ML, {"envs_per_task": 2}, "fixes envs_per_task=1, got 2"),
    ],
)
def test_make_vec_refuses_what_contradicts_the_protocol(protocol, argument, expected):
    with pytest.raises(ValueError, match=expected):
        protocol.make_vec(**argument)


def test_evaluate_makes_environments_or_takes_those_that_fit():
    result = SMALL.evaluate(still)
    assert [e.length for e in result.episodes] == [5, 5]
    assert result.protocol == SMALL
    with closing(SMALL.make_vec(envs_per_task=2)) as envs:
        assert SMALL.evaluate(still, envs) == result
        with pytest.raises(TypeError, match="workers are for environments"):
            SMALL.evaluate(still, envs, workers=2)
        longer = SMALL.variant("other", max_episode_steps=6)
        with pytest.raises(ValueError, match=r"other fixes max_episode_steps=6, got 5"):
            longer.evaluate(still, envs)
    with (
        closing(gymnasium.make_vec("mtwrappers/PointGoal-v0")) as envs,
        pytest.raises(ValueError, match=r"small fixes id=.* on environments of its make_vec"),
    ):
        SMALL.evaluate(still, envs)


class Cheats(VectorWrapper):
    """Reports success in every step."""

    def step(self, actions):
        *rest, infos = self.env.step(actions)
        return *rest, {**infos, "success": np.ones(self.num_envs)}


def test_a_wrapper_that_may_change_what_is_scored_has_no_score_and_is_named(tmp_path):
    with closing(SMALL.make_vec(autoreset_mode="NextStep")) as envs:
        result = SMALL.evaluate(still, Cheats(envs), evidence=tmp_path / "r.npz")
    assert result.headline is None
    reason = "no score: the environments were in Cheats, which may change what is scored"
    assert str(result).endswith(f"success at any step\n{reason}")
    plain = SMALL.evaluate(still)
    with pytest.raises(IncomparableError, match="of 'b' has no score of small: the environments"):
        scores({"b": [result]})
    with pytest.raises(IncomparableError, match=r"wrappers None and \['Cheats'\]"):
        compare({"a": [plain], "b": [result]})
    result.save(tmp_path / "r.json")
    verification = verify(tmp_path / "r.json")
    assert verification.difference.startswith(
        "drawer-close-v3, episode 0: success_once is False in the"
    )
    assert "(it was measured in Cheats, which no replay is)" in str(verification)
    assert 'wrappers=["Cheats"]' in str(verification).partition("said by the file")[2]


def test_a_wrapper_that_only_counts_changes_nothing(tmp_path):
    with closing(SMALL.make_vec()) as envs:
        counting = vector_wrappers.RecordEpisodeStatistics(envs)
        result = SMALL.evaluate(still, counting, evidence=tmp_path / "r.npz")
    plain = SMALL.evaluate(still)
    assert result == plain
    assert result.headline == plain.headline
    compare({"a": [plain], "b": [result]})
    result.save(tmp_path / "r.json")
    assert verify(tmp_path / "r.json").ok


def test_environments_that_are_given_to_verify_are_those_of_the_protocol(tmp_path):
    result = SMALL.evaluate(still, evidence=tmp_path / "r.npz")
    # As if it were made by hand: nothing says where it was measured.
    dataclasses.replace(result, environments=None, versions={}).save(tmp_path / "r.json")
    with closing(SMALL.make_vec()) as envs:
        assert verify(tmp_path / "r.json", envs=envs).result.headline == result.headline
        envs.call("toggle_terminate_on_success", False)
        with pytest.raises(VerificationError, match=r"which was changed since .* got \(False,\)"):
            verify(tmp_path / "r.json", envs=envs)
    kwargs = {"env_name": "drawer-close-v3", "terminate_on_success": True, "max_episode_steps": 5}
    for change, message in (
        ({"max_episode_steps": 9}, "small fixes max_episode_steps=5, got 9"),
        ({"reward_function_version": "v1"}, "small fixes reward_function_version='v2', got 'v1'"),
        ({"terminate_on_success": False}, "small fixes terminate_on_success=True, got False"),
    ):
        with (
            closing(gymnasium.make_vec("mtwrappers/MT1-v0", **{**kwargs, **change})) as envs,
            pytest.raises(VerificationError, match=message),
        ):
            verify(tmp_path / "r.json", envs=envs)
    # Without a protocol they are those that the file names.
    dataclasses.replace(result, protocol=None).save(tmp_path / "r.json")
    with (
        closing(gymnasium.make_vec("mtwrappers/MT1-v0", **kwargs, idle_steps=1)) as envs,
        pytest.raises(VerificationError, match="not those of the result: expected idle_steps=0"),
    ):
        verify(tmp_path / "r.json", envs=envs)
    with closing(gymnasium.make_vec("mtwrappers/MT1-v0", **kwargs, envs_per_task=2)) as envs:
        assert verify(tmp_path / "r.json", envs=envs).ok
        envs.spec = None
        verification = verify(tmp_path / "r.json", envs=envs)
    assert verification.ok
    assert 'id="mtwrappers/MT1-v0"' in str(verification).partition("said by the file")[2]


@pytest.mark.slow
def test_a_protocol_of_frames_shows_them_and_is_replayed_without(tmp_path, monkeypatch):
    name = choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    monkeypatch.setenv("MUJOCO_GL", name)

    def policy(observations):
        assert observations.shape == (1, 24, 32, 3)
        return np.full((1, 4), observations.mean() / 255, np.float32)

    result = SEEN.evaluate(policy, evidence=tmp_path / "r.npz")
    assert result.protocol == SEEN
    result.save(tmp_path / "r.json")
    without = SEEN.with_states()
    assert (without.name, without.settings.observation) == ("seen-states", "state")
    assert without.with_states() is without
    with closing(without.make_vec()) as envs, pytest.raises(ValueError, match="got 'state'"):
        SEEN.evaluate(policy, envs)
    monkeypatch.setattr(Cameras, "__init__", lambda *_: pytest.fail("it draws"))
    assert verify(tmp_path / "r.json").ok
    file = json.loads((tmp_path / "r.json").read_text())
    file["environments"]["kwargs"]["camera_name"] = "corner"
    (tmp_path / "r.json").write_text(json.dumps(file))
    with pytest.raises(VerificationError, match="fixes camera_name='corner4', got 'corner'"):
        verify(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("groups", "means", "message"),
    [
        ((("arm", ("sweep-v3",)),), ("tasks",), "must have tasks of mtwrappers/MT10-v0, got 'swee"),
        ((("arm", ("push-v3",)),), ("tasks", "groups"), r"no group has the tasks \['reach-v3', 'p"),
    ],
)
def test_groups_of_other_tasks_are_refused_before_the_first_episode(groups, means, message):
    protocol = protocols["metaworld-3.1"].variant("mine", groups=groups, means=means)
    for function in (protocol.make_vec, lambda: protocol.evaluate(still)):
        with pytest.raises(ValueError, match=message):
            function()


@pytest.mark.parametrize("goals", ["continuous", "list"])
@pytest.mark.parametrize("adapts", [True, False])
def test_the_plan_is_that_of_the_evaluation_in_few_shot_too(goals, adapts):
    sizes = {"benchmark": "ML1", "env_name": "reach-v3", "meta_batch_size": 2, "trials": 2}
    sizes |= {"adaptation_episodes": 1, "episodes_per_task": 1, "max_episode_steps": 2}
    few = ML.variant("few", goals=goals, num_goals=4 if goals == "list" else 50, **sizes)

    class Policy:
        def __call__(self, observations):
            return still(observations)

        def begin_trial(self):
            pass

    if adapts:
        Policy.adapt = lambda self, paths: None
    planned = few.plan(3, adapts=adapts)
    episodes = few.evaluate(Policy(), seed=3).episodes
    assert [(episode.place, episode.task_state) for episode in planned] == [
        (episode.place, episode.task_state) for episode in episodes
    ]
    assert {episode.task_state is None for episode in planned} == {goals == "continuous"}


def test_a_few_shot_protocol_adapts_and_names_itself():
    class Learner:
        adapted = 0

        def begin_trial(self):
            pass

        def __call__(self, observations):
            return still(observations)

        def adapt(self, paths):
            self.adapted += 1

    sizes = {"env_name": "reach-v3", "meta_batch_size": 4, "trials": 2}
    sizes |= {"benchmark": "ML1"}
    short = {"max_episode_steps": 2, "num_goals": 8, "adaptation_episodes": 1}
    few = ML.variant("few", **sizes, **short)
    policy = Learner()
    with pytest.raises(TypeError, match=r"in trials, a policy must have begin_trial\(\)"):
        few.evaluate(SimpleNamespace(adapt=policy.adapt, get_actions=policy))
    with closing(few.make_vec()) as envs:
        envs.set_tasks([4, 5, 6, 7])  # of which no warning is given, as the protocol says the tasks
        result = few.evaluate(policy, envs)
    assert policy.adapted == 2
    assert len(result.scored) == 4 * 2 * 3
    assert len(result.adaptation.episodes) == 4 * 2
    assert result.protocol == few
    assert set(result.headline) == {"mean over tasks"}


# The number.

EASY, HARD = ("a", "b", "c"), ("d",)


def test_means_over_tasks_and_over_groups_are_different_numbers():
    assert weigh_tasks("dbca") == {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}
    groups = (("easy", EASY), ("hard", HARD))
    of_groups = {"a": 1 / 6, "b": 1 / 6, "c": 1 / 6, "d": 1 / 2}
    assert weigh_tasks("abcd", "groups", groups) == pytest.approx(of_groups)
    assert weigh_tasks("abcd", "easy", groups) == {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    with pytest.raises(ValueError, match=r"mean must be .*, got 'middle'"):
        weigh_tasks("abcd", "middle", groups)
    with pytest.raises(ValueError, match=r"no group has the tasks \['e'\]"):
        weigh_tasks("abcde", "groups", groups)
    with pytest.raises(ValueError, match="needs tasks of 'hard'"):
        weigh_tasks("abc", "groups", groups)


def test_the_published_68_of_smolvla_is_a_mean_of_groups_and_over_tasks_it_is_75():
    sizes = {"easy": 28, "medium": 11, "hard": 6, "very_hard": 5}
    groups = protocols["rlinf"].scoring.groups
    assert {name: len(tasks) for name, tasks in groups} == sizes
    of = {task: name for name, tasks in groups for task in tasks}
    rate = {"easy": 87.1, "medium": 51.8, "hard": 70.0, "very_hard": 64.0}

    def mean(task_weights):
        return round(sum(weight * rate[of[task]] for task, weight in task_weights.items()), 1)

    assert mean(weigh_tasks(of, "groups", groups)) == 68.2
    assert mean(weigh_tasks(of, "tasks", groups)) == 75.0


@pytest.mark.parametrize(
    ("success", "expected"), [("any", True), ("last", False), (3, True), (4, False)]
)
def test_success_is_at_any_step_at_the_last_or_held(success, expected):
    episode = Episode("a", 0, 1.0, 9, True, False, steps_to_success=2, longest_success=3)
    protocol = SMALL.variant("other", success=success)
    assert succeeded(episode, protocol) is expected


def test_the_headline_of_a_result_is_the_first_of_its_means():
    *other_classes, last = class_names("MT10")
    groups = (("easy", tuple(other_classes)), ("hard", (last,)))
    fields = {"means": ("groups", "tasks"), "groups": groups, "episodes_per_task": 2}
    protocol = protocols["metaworld-3.1"].variant("grouped", **fields)
    tasks = [*other_classes, last]
    episodes = [Episode(t, n, 0.0, 1, t == last, False) for t in tasks for n in range(2)]
    result = EvaluationResult(episodes, protocol=protocol)
    expected = {"mean over groups": 0.5, "mean over tasks": 0.1, "easy": 0.0, "hard": 1.0}
    values = {name: estimate.value for name, estimate in result.headline.items()}
    assert values == pytest.approx(expected)
    assert list(values) == list(expected)
    plain, hard = (
        result.overall["mean over tasks"]["success_once"],
        result.per_task[last]["success_once"],
    )
    assert dataclasses.astuple(result.headline["mean over tasks"]) == pytest.approx(
        dataclasses.astuple(plain)
    )
    assert result.headline["hard"] == hard
    # Half of it is one task, which two episodes leave in doubt.
    assert result.headline["mean over groups"].low == pytest.approx(
        0.5 - (hard.value - hard.low) / 2, abs=0.05
    )


def test_a_result_has_the_number_once_all_episodes_are_there():
    result = SMALL.evaluate(still)
    assert result.headline["mean over tasks"].value == 0.0
    lines = str(result).splitlines()
    assert lines[-3] == f"protocol small ({SMALL.digest[:10]}, not a published protocol)"
    assert lines[-2] == "on MT1 drawer-close-v3: success at any step"
    assert lines[-1] == "mean over 1 task  0.000  0.000 to 0.658 (95%)"
    assert result.score == "success 0.000 (0.000 to 0.658, 95%), mean over 1 task"
    incomplete = dataclasses.replace(result, episodes=result.episodes[:1])
    assert incomplete.headline is None
    assert "no score: not all 2 episodes of the protocol are here" in str(incomplete)
    assert EvaluationResult(result.episodes).headline is None


def test_episodes_of_adaptation_are_no_score():
    """Even where there are as many as a score takes."""
    sizes = {"num_goals": 2, "meta_batch_size": 5, "trials": 2}
    sizes |= {"adaptation_episodes": 1, "episodes_per_task": 1}
    protocol = protocols["metaworld-3.1-ml"].variant("small", **sizes)
    design, names = Design(0, 1), class_names("ML10", "test")
    unadapted, adapted = (
        EvaluationResult(
            [Episode(names[i % 5], number, 0.0, 1, True, True, trial=i) for i in range(10)],
            design,
            protocol,
        )
        for number in (0, 1)
    )
    assert unadapted.headline is None
    assert adapted.headline["mean over tasks"].value == 1.0


def test_every_episode_before_the_last_adaptation_step_is_no_score():
    sizes = {"num_goals": 2, "meta_batch_size": 5, "trials": 2, "adaptation_steps": 2}
    sizes |= {"adaptation_episodes": 5, "episodes_per_task": 1}
    protocol = protocols["metaworld-3.1-ml"].variant("small", **sizes)
    assert protocol.scoring.adaptation_length == 10
    names = class_names("ML10", "test")
    episodes = [
        Episode(names[trial % 5], number, 0.0, 1, True, True, trial=trial)
        for trial in range(10)
        for number in range(11)
    ]
    result = EvaluationResult(episodes, protocol.design(adapts=True), protocol)
    headlines = [episode.headline is not None for episode in result.by_episode]
    assert headlines == [False] * 10 + [True]
    unadapted = result.by_episode[5]
    with pytest.raises(IncomparableError, match="has 0 of 10 episodes of small"):
        scores({"A": [unadapted]})


def test_a_score_needs_its_episodes_of_every_task():
    """And not as many of one task alone."""
    ten = protocols["metaworld-3.1"].on("MT10")
    episodes = [Episode("reach-v3", i, 0.0, 5, i > 0, False) for i in range(500)]
    result = EvaluationResult(episodes, protocol=ten)
    assert result.headline is None
    assert result.no_score == "it has 500 episodes of reach-v3, the protocol 50"
    assert "no score: it has 500 episodes" in str(result)
    with pytest.raises(IncomparableError, match=r"no score of .*: it has 500 episodes of reach-v3"):
        compare({"A": [result], "B": [result]})
    grouped = EvaluationResult(episodes, protocol=protocols["lerobot-0.6"])
    assert "no score: it has 0 episodes of assembly-v3, the protocol 10" in str(grouped)


def test_of_training_tasks_the_training_classes_are_counted():
    few = protocols["metaworld-3.1-ml"].variant("few", kind="train")
    trials_per_class = few.scoring.trials * few.settings.meta_batch_size / 10
    on_ml45 = few.on("ML45")
    assert (on_ml45.name, on_ml45.scoring.trials) == ("few", 45)
    assert on_ml45.scoring.trials * on_ml45.settings.meta_batch_size / 45 == trials_per_class
    adapts = dict.fromkeys(("trials", "adaptation_episodes", "adaptation_steps"), 0)
    plain = few.variant("plain", meta_batch_size=None, **adapts)
    needed = dict.fromkeys(class_names("ML10", "train"), plain.scoring.episodes_per_task)
    assert count_needed_episodes(plain) == needed
