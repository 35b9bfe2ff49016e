"""`evaluate`: which episodes are played, and what is read of them."""

from contextlib import closing
from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from gymnasium.wrappers import vector as vector_wrappers

from mtwrappers import (
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    evaluate,
)
from mtwrappers.evaluation import EvaluationResult, Observer
from mtwrappers.evaluation.plan import make_plan
from mtwrappers.samplers import rollout
from tests.evaluation.fakes import Diary, ScriptedEnv, drawn, ones, scripted
from tests.vector.fakes import HalfReward, WordEnv, all_modes


def lengths(result, task):
    return [episode.length for episode in result.of_task(task)]


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
    assert (first[:4], second) == ((0, 1, 0, 1), (0, 1, 2, 0, 1, 2))  # then the first one rests
    assert diary.begun == [[0, 1], [0], [1]]


class Watch(Observer):
    """Notes what is planned and what begins."""

    def __init__(self):
        self.begun = []

    def plan(self, slots):
        self.planned = [(slot.task, slot.number) for slot in slots]

    def begin(self, i, slot):
        self.begun.append((slot.task, slot.number))


@pytest.mark.parametrize("kept", [[], [0], [3, 13, 1, 7, 8], [*range(7)], [*range(14)]])
@pytest.mark.parametrize(("k", "workers"), [(1, 0), (3, 2)])
def test_finished_episodes_count_and_are_not_played_again(kept, k, workers):
    tasks = [{"lengths": [1, 2, 9]}, {"lengths": [4, 2]}]
    expected = evaluate(drawn, scripted(tasks), 7, seed=1)
    watch, finished = Watch(), [expected.episodes[i] for i in kept]
    with closing(scripted(tasks, k, workers)) as envs:
        assert evaluate(drawn, envs, 7, seed=1, observers=[watch], finished=finished) == expected
    assert watch.planned == [(e.task, e.number) for e in expected.episodes]
    left = [place for i, place in enumerate(watch.planned) if i not in kept]
    assert sorted(watch.begun) == sorted(left)


def test_finished_episodes_must_be_those_of_this_evaluation():
    envs = scripted([{}, {}])
    first, *_ = evaluate(drawn, envs, 2).episodes
    for wrong in (
        [first, first],
        [replace(first, task="task 2")],
        [replace(first, number=2)],
        [replace(first, task_state=0)],
        [replace(first, trial=0)],
    ):
        with pytest.raises(ValueError, match=r"finished must be episodes of this eval.* got Epis"):
            evaluate(drawn, envs, 2, finished=wrong)
    with pytest.raises(TypeError, match=r"finished must be a list of Episode, got 'task 0'"):
        evaluate(drawn, envs, 2, finished=["task 0"])


@pytest.mark.parametrize(
    ("mode", "limit"), [("SameStep", 2), ("NextStep", 3), ("Disabled", 3), ("SameStep", 4)]
)
def test_a_cut_that_meets_an_end_is_one_episode(mode, limit):
    envs = scripted([{"lengths": [3], "success_at": 2, "name": "a"}], autoreset_mode=mode)
    result = evaluate(ones, envs, 3, max_episode_steps=limit)
    assert lengths(result, "a") == [min(limit, 3)] * 3
    assert [e.success_final for e in result.episodes] == [limit == 2] * 3


# Success.


@all_modes
@pytest.mark.parametrize(
    ("key", "at", "once", "final"),
    [("success", 0, 0, 0), ("is_success", 1, 1, 0), ("success", 2, 1, 0), ("is_success", 3, 1, 1)],
)
def test_success_at_any_step_and_at_the_last(mode, key, at, once, final):
    """At step 0, the infos of a reset, is none of the episode's steps."""
    envs = scripted([{"success_at": at, "key": key}], autoreset_mode=mode)
    found = evaluate(ones, envs, 2).per_task["task 0"]
    assert (found["success_once"].value, found["success_final"].value) == (once, final)


def test_success_that_infos_do_not_tell_is_none_and_has_no_column():
    result = evaluate(ones, scripted([{"key": None}]), 2)
    assert [e.success_once for e in result.episodes] == [None, None]
    assert result.overall["mean"]["success_final"] is None
    assert "success" not in str(result)
    both = evaluate(ones, scripted([{"success_at": 3}, {"key": None}]), 2)
    assert both.per_task["task 1"]["success_once"] is None
    assert both.overall["mean"]["success_once"].value == 1.0  # of those that tell


class TellsOnlySuccess(ScriptedEnv):
    def _info(self):
        return {"success": True} if self.steps == 2 else {}


def test_an_episode_that_tells_nothing_among_others_that_do_did_not_succeed():
    makers = [TellsOnlySuccess, partial(TellsOnlySuccess, [1])]
    found = evaluate(ones, MetaIterativeEnvExecutor(makers, 1, 2), 4).per_task["task 0"]
    assert (found["success_once"].value, found["success_final"].value) == (0.5, 0.0)


# Names and goals.


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
        [slot.task_state for slot in make_plan([""], choices, 40, seed)[0]] for seed in (0, 1)
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


# Wrappers.


@all_modes
def test_wrappers_of_ours_and_of_gymnasiums_are_evaluated_with_what_they_change(mode):
    envs = scripted([{"lengths": [2], "name": "a"}], autoreset_mode=mode)
    result = evaluate(ones, vector_wrappers.RecordEpisodeStatistics(HalfReward(envs)), 3)
    assert [e.episode_return for e in result.episodes] == [1.0, 1.0, 1.0]


def test_policies_of_samplers_are_taken_and_the_global_random_state_is_left_alone():
    class ByTask:
        actions = np.full((2, 3, 2), 0.25)

        def get_actions(self, observations):
            assert observations.shape == (2, 3, 3)
            return self.actions, None

    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    result = evaluate(ByTask(), scripted([{}, {}], 3), 3)
    assert {episode.episode_return for episode in result.episodes} == {0.75}
    assert (np.random.get_state()[1] == before).all()
    assert (ByTask.actions == 0.25).all()


# What is read of the environments.


class Telling(ScriptedEnv):
    """Says of its success whatever it is made with."""

    def __init__(self, value):
        super().__init__([2], name="a")
        self.value = value

    def _info(self):
        return {**super()._info(), "success": self.value}


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


class Tasked(ScriptedEnv):
    """Pays its action ten times over, and says which task it has."""

    def step(self, action):
        obs, reward, *rest, info = super().step(action)
        return obs, 10 * reward, *rest, info

    def _info(self):
        return {**super()._info(), "task_id": 0}


def theirs(env):
    return NormalizeReward(NormalizeObservation(env))


def ours(env):
    return NormalizeRewardPerTask(NormalizeObservationPerTask(env, 1), 1)


def statistics_of(env):
    """What each normalizing wrapper has counted, and whether it goes on counting."""
    found = []
    while isinstance(env, (gymnasium.Wrapper, gymnasium.vector.VectorWrapper)):
        if hasattr(env, "get_state"):
            # Which episodes there are is another matter: an evaluation begins new ones.
            state = {key: value for key, value in env.get_state().items() if key != "episodes"}
            found.append((state, env.update_running_mean))
        elif hasattr(env, "update_running_mean"):
            rms = getattr(env, "return_rms", None) or env.obs_rms
            found.append((rms.count, np.sum(rms.mean), env.update_running_mean))
        env = env.env
    return found


def all_statistics(envs):
    return statistics_of(envs) + list(envs.unwrapped.call(statistics_of))


@pytest.mark.parametrize(
    ("within", "outside", "mode", "workers"),
    [
        (theirs, "theirs", "NextStep", 2),
        (theirs, "ours", "Disabled", 0),
        (theirs, None, "SameStep", 2),
        (ours, "theirs", "SameStep", 0),
        (ours, "ours", "NextStep", 2),
        (ours, None, "Disabled", 2),
        (lambda env: env, "theirs", "NextStep", 0),
        (lambda env: env, "ours", "SameStep", 2),
    ],
)
def test_normalized_rewards_are_reported_raw_and_statistics_stay(mode, workers, within, outside):
    executor = partial(MetaParallelEnvExecutor, workers=2) if workers else MetaIterativeEnvExecutor
    envs = inner = executor([lambda: within(Tasked([3]))] * 2, 2, autoreset_mode=mode)
    if outside == "theirs":
        envs = vector_wrappers.NormalizeReward(envs)
        if mode == "NextStep":  # it refuses the others
            envs = vector_wrappers.NormalizeObservation(envs)
    elif outside == "ours":
        envs = VectorNormalizeRewardPerTask(VectorNormalizeObservationPerTask(envs, 1), 1)
    with closing(inner):
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(np.full((2, 2), 0.5))
        before = all_statistics(envs)
        result = evaluate(ones, envs, 2)
        assert all_statistics(envs) == before
        if not (within is ours and outside == "ours"):  # normalized twice
            returns = [episode.episode_return for episode in result.episodes]
            assert returns == pytest.approx([30.0] * 2, rel=1e-6)
        envs.reset(seed=0)
        envs.step(np.ones((2, 2)))
        assert all_statistics(envs) != before


def test_statistics_go_on_after_an_evaluation_that_failed():
    envs = MetaIterativeEnvExecutor(lambda: ours(Telling("no")), 1)
    with pytest.raises(ValueError, match="must be a bool"):
        evaluate(ones, envs, 1)
    assert envs.get_attr("update_running_mean") == (True,)


def test_episodes_that_never_end_are_refused_without_a_limit(monkeypatch):
    monkeypatch.setattr(rollout, "ENDLESS", 50)
    envs = scripted([{"lengths": [49]}, {"lengths": [10**9]}])
    with pytest.raises(
        RuntimeError, match=r"environments \[1\] have not ended after 50 steps: .*max_episode_steps"
    ):
        evaluate(ones, envs, 2)
    assert lengths(evaluate(ones, envs, 2, max_episode_steps=60), "task 1") == [60, 60]


# Who follows.


class Following(Observer):
    """Keeps all that it is told, and asks the environments meanwhile."""

    def __init__(self, envs, stop=None):
        self.envs, self.stop = envs, stop
        self.log, self.episodes = [], []

    def plan(self, slots):
        self.log.append([(slot.task, slot.number) for slot in slots])

    def begin(self, i, slot):
        self.log.append((i, slot.task, slot.number, self.envs.call_some([i], "steps")[0]))

    def step(self, step):
        self.log.append(step.over.tolist())

    def end(self, i, episode):
        self.log.append((i, episode.number, episode.length))
        self.episodes.append(episode)
        if len(self.episodes) == self.stop:
            raise KeyboardInterrupt


@all_modes
@pytest.mark.parametrize("workers", [0, 2])
def test_observers_follow_every_episode_while_the_environments_can_be_asked(mode, workers):
    tasks = [{"lengths": [1], "name": "a"}, {"lengths": [2], "name": "b"}]
    with closing(scripted(tasks, 1, workers, autoreset_mode=mode)) as envs:
        observer = Following(envs)
        result = evaluate(ones, envs, 2, observers=[observer])
    assert observer.log == [
        [("a", 0), ("a", 1), ("b", 0), ("b", 1)],
        (0, "a", 0, 0),
        (1, "b", 0, 0),
        [True, False],
        (0, 0, 1),
        (0, "a", 1, 0),
        [True, True],
        (0, 1, 1),
        (1, 0, 2),
        (1, "b", 1, 0),
        [False, False],  # the first one rests
        [False, True],
        (1, 1, 2),
    ]
    assert sorted(observer.episodes, key=lambda e: e.task) == list(result.episodes)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_observer_has_what_was_finished_before_an_interruption(workers):
    with closing(scripted([{"lengths": [2], "name": "a"}] * 2, 1, workers)) as envs:
        observer = Following(envs, stop=3)
        with pytest.raises(KeyboardInterrupt):
            evaluate(ones, envs, 5, observers=[observer])
        assert len(EvaluationResult(observer.episodes).of_task("a")) == 3
        assert len(evaluate(ones, envs, 2).episodes) == 2  # they can be used on


def test_actions_that_are_no_arrays_are_refused():
    envs = MetaIterativeEnvExecutor(partial(WordEnv, 3), 1)
    with pytest.raises(TypeError, match=r"actions must be arrays, got Tuple"):
        evaluate(ones, envs, 2)
