"""`evaluate`: which episodes are played, and what is read of them."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import mtwrappers
from mtwrappers import (
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MetaVectorWrapper,
    MultiEnvWrapper,
    PointGoalEnv,
    evaluate,
)
from mtwrappers.evaluation.plan import make_plan
from tests.evaluation.fakes import Diary, ScriptedEnv, drawn, ones, scripted
from tests.vector.fakes import WordEnv, all_modes


def lengths(result, task):
    return [episode.length for episode in result.of_task(task)]


# What is counted.


@all_modes
def test_every_task_plays_its_episodes_however_short_they_are(mode):
    envs = scripted(
        [{"lengths": [2], "name": "short"}, {"lengths": [7], "name": "long"}], autoreset_mode=mode
    )
    result = evaluate(ones, envs, 3)
    assert result.tasks == ("short", "long")
    assert lengths(result, "short") == [2, 2, 2]
    assert lengths(result, "long") == [7, 7, 7]
    assert [e.episode_return for e in result.of_task("long")] == [7.0, 7.0, 7.0]
    assert [e.number for e in result.of_task("long")] == [0, 1, 2]


def test_the_environments_of_a_task_share_its_episodes_whichever_end_first():
    """Quick environments do not take the episodes of slow ones."""
    fast = partial(ScriptedEnv, [1], name="a")
    slow = partial(ScriptedEnv, [50], name="a")
    envs = MetaIterativeEnvExecutor([fast, slow, slow], 1, 3)
    assert lengths(evaluate(ones, envs, 7), "a") == [1, 50, 50, 1, 50, 50, 1]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_result_does_not_depend_on_the_environments_that_share_a_task(k):
    tasks = [{"lengths": [1, 2, 9], "name": "a"}, {"lengths": [4, 2], "name": "b"}]
    expected = evaluate(drawn, scripted(tasks), 7, seed=4)
    assert len({episode.episode_return for episode in expected.episodes}) == 14
    assert evaluate(drawn, scripted(tasks, k), 7, seed=4) == expected


@all_modes
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_result_is_the_same_in_every_mode_and_on_every_executor(mode, workers):
    tasks = [{"lengths": [1, 2, 9], "success_at": 2}, {"lengths": [4, 2], "success_at": 4}]
    expected = evaluate(drawn, scripted(tasks), 5, seed=1)
    envs = scripted(tasks, 2, workers, autoreset_mode=mode)
    try:
        assert evaluate(drawn, envs, 5, seed=1) == expected
        assert evaluate(drawn, envs, 5, seed=1) == expected  # on used environments
        assert evaluate(drawn, envs, 5, seed=2) != expected
    finally:
        envs.close()


@all_modes
def test_a_policy_is_told_of_each_beginning_before_its_first_action(mode):
    diary = Diary()
    envs = scripted([{"lengths": [2]}, {"lengths": [3]}], autoreset_mode=mode)
    evaluate(diary, envs, 2)
    assert diary.steps == [[0, 0], [1, 1], [0, 2], [1, 0], [0, 1], [1, 2]]
    assert diary.begun == [[0, 1], [0], [1], [0]]


def test_episodes_that_never_end_are_cut():
    envs = MetaIterativeEnvExecutor(PointGoalEnv(), 2)
    result = evaluate(lambda obs: np.full((2, 2), 0.1), envs, 2, max_episode_steps=5)
    assert [episode.length for episode in result.episodes] == [5, 5, 5, 5]
    assert result.per_task["task 0"]["success_once"].value == 0.0


@all_modes
@pytest.mark.parametrize("limit", [2, 3, 4])
def test_a_cut_that_meets_an_end_is_one_episode(mode, limit):
    envs = scripted([{"lengths": [3], "success_at": 2, "name": "a"}], autoreset_mode=mode)
    result = evaluate(ones, envs, 3, max_episode_steps=limit)
    assert lengths(result, "a") == [min(limit, 3)] * 3
    assert [e.success_final for e in result.episodes] == [limit == 2] * 3


# Success.


@all_modes
@pytest.mark.parametrize("key", ["success", "is_success"])
@pytest.mark.parametrize(("at", "once", "final"), [(0, 0, 0), (1, 1, 0), (2, 1, 0), (3, 1, 1)])
def test_success_at_any_step_and_at_the_last(mode, key, at, once, final):
    """At step 0, the infos of a reset, is none of the episode's steps."""
    envs = scripted([{"success_at": at, "key": key}], autoreset_mode=mode)
    found = evaluate(ones, envs, 2).per_task["task 0"]
    assert (found["success_once"].value, found["success_final"].value) == (once, final)


def test_success_that_infos_do_not_tell_is_none_and_has_no_column():
    result = evaluate(ones, scripted([{"key": None}]), 2)
    assert [e.success_once for e in result.episodes] == [None, None]
    assert result.per_task["task 0"]["success_once"] is None
    assert result.overall["mean"]["success_final"] is None
    assert "success" not in str(result)


def test_tasks_that_tell_and_tasks_that_do_not_stand_side_by_side():
    tasks = [{"success_at": 3, "name": "a"}, {"key": None, "name": "b"}]
    result = evaluate(ones, scripted(tasks), 2)
    assert result.per_task["a"]["success_once"].value == 1.0
    assert result.per_task["b"]["success_once"] is None
    assert result.overall["mean"]["success_once"].value == 1.0  # of those that tell


class TellsOnlySuccess(ScriptedEnv):
    def _info(self):
        return {"success": True} if self.steps == 2 else {}


def test_an_episode_that_tells_nothing_among_others_that_do_did_not_succeed():
    makers = [TellsOnlySuccess, partial(TellsOnlySuccess, [1])]
    result = evaluate(ones, MetaIterativeEnvExecutor(makers, 1, 2), 4)
    assert result.per_task["task 0"]["success_once"].value == 0.5
    assert result.per_task["task 0"]["success_final"].value == 0.0


# Names and goals.


def test_tasks_without_names_are_their_groups():
    result = evaluate(ones, scripted([{}, {}], 2), 3)
    assert result.tasks == ("task 0", "task 1")
    assert len(result.episodes) == 6


def small_benchmark(num_envs, **kwargs):
    return gymnasium.make_vec(
        "mtwrappers/CustomMT-v0",
        num_envs=num_envs,
        train_classes=["reach-v3", "drawer-close-v3"],
        num_goals=4,
        max_episode_steps=12,
        **kwargs,
    )


def act(observations):
    return np.tanh(observations[:, :4] * [3, 1, -2, 1])


@pytest.mark.parametrize("k", [1, 3])
def test_every_goal_is_played_once_before_any_comes_again(k):
    result = evaluate(act, small_benchmark(2 * k), 10)
    for task, first in (("reach-v3", 0), ("drawer-close-v3", 4)):
        states = [episode.task_state - first for episode in result.of_task(task)]
        assert sorted(states[:4]) == sorted(states[4:8]) == [0, 1, 2, 3]
        assert len(set(states[8:])) == 2
        returns = {e.task_state: e.episode_return for e in result.of_task(task)}
        assert len(set(returns.values())) == 4


def test_goals_come_in_an_order_that_the_seed_draws_anew_for_each_sweep():
    choices = [{"a": list(range(20))}]
    first, other = (
        [slot.task_state for slot in make_plan([""], choices, 40, seed)[0]] for seed in (0, 1)
    )
    orders = [first[:20], first[20:], other[:20], other[20:]]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len({tuple(order) for order in [*orders, range(20)]}) == 5


def test_goals_on_meta_world_are_the_same_on_all_executors_and_in_all_modes():
    expected = evaluate(act, small_benchmark(2), 5)
    for kwargs in (
        {"workers": 2},
        {"envs_per_task": 2, "autoreset_mode": "Disabled"},
        {"autoreset_mode": "NextStep", "select": "round_robin"},
    ):
        envs = small_benchmark(1, **kwargs)
        assert evaluate(act, envs, 5) == expected
        envs.close()


def test_groups_of_a_meta_learning_class_share_its_row_and_play_their_own_goals():
    envs = gymnasium.make_vec(
        "mtwrappers/CustomML-test-v0", num_goals=6, meta_batch_size=2, max_episode_steps=5
    )
    own = [set(indices) for indices in envs.get_attr("task_states")]
    result = evaluate(lambda obs: np.zeros((2, 4)), envs, 6)
    assert result.tasks == ("door-open-v3",)
    states = [episode.task_state for episode in result.episodes]
    assert sorted(states) == list(range(6))
    assert all(state in own[i % 2] for i, state in enumerate(states))


def moving(**kwargs):
    """One environment that moves between three tasks of other lengths."""
    makers = [partial(ScriptedEnv, [n], name=None) for n in (1, 2, 3)]
    return FlattenMTEnv(MultiEnvWrapper(makers, task_names=("a", "b", "c"), **kwargs), "none")


def test_environments_that_move_between_tasks_are_told_which_to_play():
    envs = MetaIterativeEnvExecutor(partial(moving, sample_tasks_on_reset=True), 2)
    result = evaluate(ones, envs, 5)
    assert {task: lengths(result, task) for task in result.tasks} == {
        "a": [1] * 5,
        "b": [2] * 5,
        "c": [3] * 5,
    }


def test_environments_that_stay_on_their_task_are_left_there():
    envs = MetaIterativeEnvExecutor(moving, 2)
    envs.set_tasks([2, 1])
    result = evaluate(ones, envs, 2)
    assert result.tasks == ("c", "b")
    assert lengths(result, "c") == [3, 3]


class Wanders(ScriptedEnv):
    def reset(self, *, seed=None, options=None):
        self.name = "b" if self.name == "a" else "a"
        return super().reset(seed=seed, options=options)


def test_an_environment_that_moves_on_its_own_is_refused():
    envs = MetaIterativeEnvExecutor(Wanders, 2)
    with pytest.raises(ValueError, match="environment 0 was on task 'a' and its reset went to 'b'"):
        evaluate(ones, envs, 2)


# Wrappers.


class HalfReward(MetaVectorWrapper):
    def step_wait(self):
        obs, rewards, terminated, truncated, infos = self.env.step_wait()
        return obs, rewards / 2, terminated, truncated, infos


@all_modes
def test_wrappers_of_ours_and_of_gymnasiums_are_evaluated_with_what_they_change(mode):
    envs = scripted([{"lengths": [2], "name": "a"}], autoreset_mode=mode)
    result = evaluate(ones, RecordEpisodeStatistics(HalfReward(envs)), 3)
    assert [e.episode_return for e in result.episodes] == [1.0, 1.0, 1.0]


def test_observations_in_dicts_reach_the_policy():
    envs = gymnasium.make_vec(
        "mtwrappers/MT1-v0", task_encoding="dict", max_episode_steps=3, num_goals=2
    )
    result = evaluate(lambda obs: np.zeros((len(obs["env_obs"]), 4)), envs, 2)
    assert [episode.length for episode in result.episodes] == [3, 3]


def test_policies_of_samplers_are_taken_too():
    class ByTask:
        def get_actions(self, observations):
            assert observations.shape == (2, 3, 3)
            return np.full((2, 3, 2), 0.25), None

    result = evaluate(ByTask(), scripted([{}, {}], 3), 3)
    assert {episode.episode_return for episode in result.episodes} == {0.75}


def test_the_global_random_state_and_the_policys_output_are_left_alone():
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    actions = np.zeros((1, 2))
    evaluate(lambda obs: actions, scripted([{}]), 2)
    assert (np.random.get_state()[1] == before).all()
    assert (actions == 0).all()


# Bad input.


def returning(actions):
    return lambda obs: np.array(actions)


def only_one_nan(obs):
    return np.array([[0.0, 0.0], [0.0, np.nan]])


@pytest.mark.parametrize(
    ("error", "message", "kwargs"),
    [
        (ValueError, "episodes_per_task must be a positive integer, got 0", {"n": 0}),
        (ValueError, "episodes_per_task must be a positive integer, got -3", {"n": -3}),
        (ValueError, "episodes_per_task must be a positive integer, got 2.5", {"n": 2.5}),
        (ValueError, "a seed must be zero or greater, got -1", {"seed": -1}),
        (TypeError, "a seed must be an integer, got 0.5", {"seed": 0.5}),
        (ValueError, "max_episode_steps must be a positive", {"max_episode_steps": 0}),
        (ValueError, r"confidence must be a number in \(0, 1\), got 95", {"confidence": 95}),
        (ValueError, "resamples must be a positive integer, got 0", {"resamples": 0}),
        (TypeError, "a policy must have get_actions.* or be callable, got None", {"policy": None}),
        (
            ValueError,
            r"expected actions of shape \(2, 2\) from the policy, got \(2, 3\)",
            {"policy": returning([[0.0] * 3] * 2)},
        ),
        (
            ValueError,
            r"expected actions of shape \(2, 2\) from the policy, got \(2,\)",
            {"policy": returning([0.0, 0.0])},
        ),
        (ValueError, "expected 2 actions from the policy, got 3", {"policy": returning([1, 2, 3])}),
        (ValueError, "actions are NaN for environments 1 .b.", {"policy": only_one_nan}),
    ],
)
def test_bad_arguments_are_named(error, message, kwargs):
    arguments = {"policy": ones, "n": 2, **kwargs}
    policy, n = arguments.pop("policy"), arguments.pop("n")
    with pytest.raises(error, match=message):
        evaluate(policy, scripted([{"name": "a"}, {"name": "b"}]), n, **arguments)


def test_environments_of_another_kind_are_refused():
    sync = gymnasium.vector.SyncVectorEnv([ScriptedEnv])
    for envs in (sync, FlattenObservation(ScriptedEnv()), None):
        with pytest.raises(TypeError, match="envs must be a vector environment of this package"):
            evaluate(ones, envs, 2)


def test_actions_that_are_no_arrays_are_refused():
    envs = MetaIterativeEnvExecutor(partial(WordEnv, 3), 1)
    with pytest.raises(TypeError, match=r"actions must be arrays, got Tuple"):
        evaluate(ones, envs, 2)


def test_it_is_public():
    assert mtwrappers.evaluate is evaluate
    assert mtwrappers.evaluation.EvaluationResult.__name__ == "EvaluationResult"
