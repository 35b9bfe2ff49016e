"""`evaluate`: which episodes are run, and what is read of them."""

import traceback
from contextlib import closing
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import mtwrappers
from mtwrappers import MetaIterativeEnvExecutor, compare, evaluate
from mtwrappers.samplers import rollout
from tests.evaluation.fakes import Diary, ScriptedEnv, Telling, drawn, lengths, ones, scripted
from tests.vector.fakes import all_modes

# What is counted.


def test_the_environments_of_a_task_share_its_episodes_whichever_end_first():
    """Quick environments do not take the episodes of slow ones."""
    fast = partial(ScriptedEnv, [1], name="a")
    slow = partial(ScriptedEnv, [50], name="a")
    result = evaluate(ones, MetaIterativeEnvExecutor([fast, slow, slow], 1, 3), 7)
    assert lengths(result, "a") == [1, 50, 50, 1, 50, 50, 1]
    assert [e.episode_return for e in result.episodes] == lengths(result, "a")
    assert [e.number for e in result.episodes] == list(range(7))


@pytest.mark.parametrize(
    ("mode", "workers", "k"),
    [("SameStep", 0, 5), ("NextStep", 0, 2), ("Disabled", 1, 3), ("SameStep", 2, 2)],
)
def test_the_result_is_the_same_in_every_mode_and_on_every_executor(mode, workers, k):
    tasks = [{"lengths": [1, 2, 9], "success_at": 2}, {"lengths": [4, 2], "success_at": 4}]
    expected = evaluate(drawn, scripted(tasks), 7, seed=1)
    assert expected.tasks == ("task 0", "task 1")  # without names, tasks are their groups
    assert len({episode.episode_return for episode in expected.episodes}) == 14
    with closing(scripted(tasks, k, workers, autoreset_mode=mode)) as envs:
        assert evaluate(drawn, envs, 7, seed=1) == expected
        assert evaluate(drawn, envs, 7, seed=1) == expected  # on used environments
        assert evaluate(drawn, envs, 7, seed=2) != expected


@all_modes
def test_a_policy_is_told_of_each_beginning_before_its_first_action(mode):
    diary = Diary()
    envs = scripted([{"lengths": [2]}, {"lengths": [3]}], autoreset_mode=mode)
    evaluate(diary, envs, 2)
    first, second = zip(*diary.steps, strict=True)
    assert (first[:4], second) == ((0, 1, 0, 1), (0, 1, 2, 0, 1, 2))  # then the first one pauses
    assert diary.begun == [[0, 1], [0], [1]]


# Success.


@all_modes
@pytest.mark.parametrize(
    ("key", "at", "once", "final"),
    [("success", 0, 0, 0), ("is_success", 1, 1, 0), ("success", 2, 1, 0), ("is_success", 3, 1, 1)],
)
def test_success_at_any_step_and_at_the_last(mode, key, at, once, final):
    """At step 0, the infos of a reset, is none of the episode's steps."""
    envs = scripted([{"success_at": at, "key": key}], autoreset_mode=mode)
    estimates = evaluate(ones, envs, 2).per_task["task 0"]
    assert (estimates["success_once"].value, estimates["success_final"].value) == (once, final)


def test_success_that_infos_do_not_tell_is_none_and_has_no_column():
    result = evaluate(ones, scripted([{"key": None}]), 2)
    assert [e.success_once for e in result.episodes] == [None, None]
    assert result.overall["mean over tasks"]["success_final"] is None
    assert "success" not in str(result)
    both = evaluate(ones, scripted([{"success_at": 3}, {"key": None}]), 2)
    assert both.per_task["task 1"]["success_once"].value == 0.0
    assert both.overall["mean over tasks"]["success_once"].value == 0.5
    assert both.silent_tasks == ("task 1",)


class TellsInSteps(ScriptedEnv):
    """Succeeds in every step, and tells it in these."""

    def __init__(self, *steps, lengths=(3,)):
        super().__init__(lengths, key=None, name="a")
        self.told = steps

    def _info(self):
        return super()._info() | ({"success": True} if self.steps in self.told else {})


class Following(ScriptedEnv):
    """Succeeds in the steps of a list."""

    def __init__(self, successes):
        super().__init__([len(successes)], name="a")
        self.successes = successes

    def _info(self):
        return {**super()._info(), "success": self.steps > 0 and self.successes[self.steps - 1]}


@all_modes
@pytest.mark.parametrize(
    ("successes", "final", "first", "longest"),
    [
        ([1, 1, 0, 1, 1, 1, 0, 1], True, 1, 3),
        ([0, 1, 1, 0, 1, 0], False, 2, 2),
        ([1, 0, 0], False, 1, 1),
        ([0, 0, 1], True, 3, 1),
        ([0, 0], False, None, 0),
    ],
)
def test_each_step_has_its_own_success(successes, final, first, longest, mode):
    """The longest run is one of the runs of successes, and none of their sum."""
    envs = MetaIterativeEnvExecutor(partial(Following, successes), 1, autoreset_mode=mode)
    for episode in evaluate(ones, envs, 2).episodes:
        assert (episode.success_once, episode.success_final) == (any(successes), final)
        assert (episode.steps_to_success, episode.longest_success) == (first, longest)


def test_an_episode_that_tells_nothing_among_others_that_do_did_not_succeed():
    makers = [partial(TellsInSteps, 2, 3), partial(TellsInSteps, 2, 3, lengths=[1])]
    estimates = evaluate(ones, MetaIterativeEnvExecutor(makers, 1, 2), 4).per_task["a"]
    assert (estimates["success_once"].value, estimates["success_final"].value) == (0.5, 0.5)


@all_modes
@pytest.mark.parametrize(
    ("told", "final", "longest"),
    [((1, 2), False, 2), ((1, 3), True, 1), ((2,), False, 1), ((1, 2, 3), True, 3)],
)
def test_a_step_that_reports_no_success_is_none_if_another_one_reports_it(
    told, final, longest, mode
):
    makers = [partial(TellsInSteps, lengths=[9]), partial(TellsInSteps, *told)]
    envs = MetaIterativeEnvExecutor(makers, 1, 2, autoreset_mode=mode)
    result = evaluate(ones, envs, 2)
    episode = result.episodes[1]
    assert (episode.success_final, episode.longest_success) == (final, longest)
    assert episode.steps_to_success == min(told)
    assert [episode.success_once for episode in result.episodes] == [None, True]


@pytest.mark.parametrize(
    ("value", "refused_as"),
    [
        *((value, None) for value in (True, 1, 1.0, np.float32(1), np.bool_(True))),
        ("False", "'False'"),
        (0.5, "0.5"),
        (np.array([1.0]), r".*\[1\.0?\].*"),
        ({"x": 1}, "{'x': .*}"),
    ],
)
def test_success_is_a_bool_or_0_or_1(value, refused_as):
    envs = MetaIterativeEnvExecutor(partial(Telling, value), 2)
    if refused_as is None:
        assert evaluate(ones, envs, 2).per_task["a"]["success_final"].value == 1.0
    else:
        message = rf"'success'\] must be a bool, 0 or 1, got {refused_as} from environment 0, task"
        with pytest.raises(ValueError, match=message):
            evaluate(ones, envs, 2)


# What is refused.


def test_episodes_that_never_end_are_refused_without_a_limit(monkeypatch):
    monkeypatch.setattr(rollout, "ENDLESS", 50)
    envs = scripted([{"lengths": [49]}, {"lengths": [10**9]}])
    with pytest.raises(
        RuntimeError,
        match=r"environments \[1\] have not ended after 50 steps: give the environments a limit",
    ):
        evaluate(ones, envs, 2)


def test_a_policy_is_six_functions_in_four_files_away_from_evaluate():
    """So that a reader who follows it soon arrives."""
    package = str(Path(mtwrappers.__file__).parent)
    stack = []

    def policy(observations):
        frames = traceback.extract_stack()
        stack[:] = [frame.filename for frame in frames if frame.filename.startswith(package)]
        return ones(observations)

    evaluate(policy, scripted([{}]), 1)
    assert len(stack) <= 6
    assert len({*stack}) <= 4


def test_copies_of_episodes_are_said_by_evaluation_and_comparison():
    """With more episodes than goals, a deterministic policy repeats them."""
    settings = {"env_name": "reach-v3", "num_goals": 2, "max_episode_steps": 3}
    results = {}
    with closing(gymnasium.make_vec("mtwrappers/MT1-v0", **settings)) as envs:
        for name, action in {"still": 0.0, "up": 1.0}.items():
            policy = partial(np.full, (1, 4), action)
            evaluate(lambda obs, policy=policy: policy(), envs, 2)  # each goal once, without a word
            with pytest.warns(UserWarning, match=r"\['reach-v3'\] are copies of those on 2 goals"):
                results[name] = [evaluate(lambda obs, policy=policy: policy(), envs, 3)]

        def draw_actions(obs, rng):
            return [rng[0].uniform(-1, 1, 4)]

        evaluate(draw_actions, envs, 3)  # noise makes other episodes of the same goals
    [comparison] = compare(results)
    assert len([note for note in comparison.notes if "copies of those on 2 goals" in note]) == 2
