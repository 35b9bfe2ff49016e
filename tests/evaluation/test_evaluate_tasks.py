"""`evaluate`: which tasks are played, and which of their goals."""

from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import FlattenMTEnv, MetaIterativeEnvExecutor, MultiEnvWrapper, evaluate
from mtwrappers.evaluation.plan import make_plan
from tests.evaluation.fakes import ScriptedEnv, lengths, ones


def small_benchmark(num_envs, **kwargs):
    return gymnasium.make_vec(
        "mtwrappers/CustomMT-v0",
        num_envs=num_envs,
        train_classes=["reach-v3", "drawer-close-v3"],
        num_goals=4,
        max_episode_steps=4,
        **kwargs,
    )


def act(observations):
    return np.tanh(observations[:, :4] * [3, 1, -2, 1])


def test_every_goal_is_played_once_before_any_comes_again_on_all_executors_and_in_all_modes():
    result = evaluate(act, small_benchmark(2), 10)
    for task, first in (("reach-v3", 0), ("drawer-close-v3", 4)):
        states = [episode.task_state - first for episode in result.of_task(task)]
        assert sorted(states[:4]) == sorted(states[4:8]) == [0, 1, 2, 3]
        assert len(set(states[8:])) == 2
        returns = {e.task_state: e.episode_return for e in result.of_task(task)}
        assert len(set(returns.values())) == 4
    for kwargs in (
        {"workers": 2},
        {"envs_per_task": 3, "autoreset_mode": "Disabled"},
        {"autoreset_mode": "NextStep", "select": "round_robin"},
    ):
        with closing(small_benchmark(1, **kwargs)) as envs:
            assert evaluate(act, envs, 10) == result
    [task] = (some := evaluate(act, small_benchmark(2), 10, tasks=["drawer-close-v3"])).tasks
    assert some.of_task(task) == result.of_task(task)


def test_goals_come_in_an_order_that_the_seed_draws_anew_for_each_sweep():
    choices = [{"a": list(range(20))}]
    first, other = (
        [slot.task_state for slot in make_plan(choices, 40, seed)[0]] for seed in (0, 1)
    )
    orders = [first[:20], first[20:], other[:20], other[20:]]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len({tuple(order) for order in [*orders, range(20)]}) == 5


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
    whole, some = evaluate(ones, envs, 5), evaluate(ones, envs, 5, tasks=["c", "b"])
    assert {task: lengths(whole, task) for task in whole.tasks} == {
        "a": [1] * 5,
        "b": [2] * 5,
        "c": [3] * 5,
    }
    # Some tasks are played as they are among all.
    assert [e for e in whole.episodes if e.task != "a"] == list(some.episodes)


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
