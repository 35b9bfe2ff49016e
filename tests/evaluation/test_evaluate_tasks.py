"""`evaluate`: on which tasks and goals, and what wrappers around environments do to it."""

from contextlib import closing
from functools import partial

import gymnasium
import metaworld.wrappers
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from gymnasium.wrappers import vector as vector_wrappers

from mtwrappers import (
    ActionChunks,
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    evaluate,
    few_shot_evaluate,
    protocols,
)
from mtwrappers.evaluation import Observer
from mtwrappers.state.env_state import get_state, set_state
from mtwrappers.vector.calls import read_only
from tests.evaluation.fakes import Namesakes, ScriptedEnv, Telling, lengths, ones, scripted
from tests.vector.fakes import HalfReward, all_modes


def act(observations):
    return np.tanh(observations[:, :4] * [3, 1, -2, 1])


def test_goals_come_in_an_order_that_the_seed_draws_anew_for_each_sweep():
    rules = protocols["metaworld-3.1"].variant(
        "mine", benchmark="MT1", env_name="reach-v3", num_goals=20, episodes_per_task=40
    )
    first, second = ([episode.task_state for episode in rules.plan(seed)] for seed in (0, 1))
    orders = [first[:20], first[20:], second[:20], second[20:]]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len({tuple(order) for order in [*orders, range(20)]}) == 5


def test_groups_of_a_meta_learning_class_share_its_row_and_play_their_own_goals():
    envs = gymnasium.make_vec(
        "mtwrappers/CustomML-test-v0", num_goals=6, meta_batch_size=2, max_episode_steps=5
    )
    group_states = [set(indices) for indices in envs.get_attr("task_states")]
    result = evaluate(lambda obs: np.zeros((2, 4)), envs, 6)
    assert result.tasks == ("door-open-v3",)
    states = [episode.task_state for episode in result.episodes]
    assert sorted(states) == list(range(6))
    assert all(state in group_states[i % 2] for i, state in enumerate(states))


def moving(**kwargs):
    """One environment that moves between three tasks of other lengths."""
    makers = [partial(ScriptedEnv, [n], name=None) for n in (1, 2, 3)]
    return FlattenMTEnv(MultiEnvWrapper(makers, task_names=("a", "b", "c"), **kwargs), "none")


def test_environments_that_move_between_tasks_are_told_which_to_play():
    envs = MetaIterativeEnvExecutor(partial(moving, sample_tasks_on_reset=True), 2)
    all_tasks, some_tasks = evaluate(ones, envs, 5), evaluate(ones, envs, 5, tasks=["c", "b"])
    assert {task: lengths(all_tasks, task) for task in all_tasks.tasks} == {
        "a": [1] * 5,
        "b": [2] * 5,
        "c": [3] * 5,
    }
    # Some tasks have the episodes that they have among all.
    assert [e for e in all_tasks.episodes if e.task != "a"] == list(some_tasks.episodes)


def test_environments_that_stay_on_their_task_are_left_there():
    envs = MetaIterativeEnvExecutor(moving, 2)
    envs.set_tasks([2, 1])
    left_out = r"2 of 3 tasks, \['c', 'b'\] and not \['a'\]: the environments stay on their current"
    with pytest.warns(UserWarning, match=left_out) as warned:
        result = evaluate(ones, envs, 2)
    assert [warning.filename for warning in warned] == [__file__]
    assert evaluate(ones, envs, 2, tasks=["c", "b"]).episodes == result.episodes
    assert result.tasks == ("c", "b")
    assert lengths(result, "c") == [3, 3]


class Wanders(ScriptedEnv):
    def reset(self, *, seed=None, options=None):
        self.name = "b" if self.name == "a" else "a"
        return super().reset(seed=seed, options=options)


def test_an_environment_that_moves_on_its_own_is_refused():
    envs = MetaIterativeEnvExecutor(Wanders, 2)
    with pytest.raises(ValueError, match="0 was on task 'a', but its reset switched to 'b'"):
        evaluate(ones, envs, 2)


# Names of tasks.


def test_environments_of_one_name_are_one_task_only_if_they_are_alike():
    make = partial(ScriptedEnv, [3], name="a")
    for makers, m, k in ((make, 2, 1), ([make] * 2, 2, 1), ([make, partial(make)], 1, 2)):
        result = evaluate(ones, MetaIterativeEnvExecutor(makers, m, k), 3)
        assert [len(result.of_task(task)) for task in result.tasks] == [3]
    longer = partial(ScriptedEnv, [5], name="a")
    message = r"must have names that differ, got 'a' for environments 0 and 2: .*task_name=\.\.\."
    with pytest.raises(ValueError, match=message):
        evaluate(ones, MetaIterativeEnvExecutor([make, longer], 2, 2), 3)


def test_tasks_of_one_environment_have_names_that_differ():
    envs = MetaIterativeEnvExecutor(Namesakes, 1)
    with pytest.raises(ValueError, match="names that differ, got 'a' for the tasks 0 and 1"):
        evaluate(ones, envs, 1)


def test_an_environment_without_a_name_is_named_by_its_group():
    makers = [partial(ScriptedEnv, [3]), partial(ScriptedEnv, [5], name="car")]
    result = evaluate(ones, MetaIterativeEnvExecutor(makers, 2), 2)
    assert {task: result.per_task[task]["length"].value for task in result.tasks} == {
        "task 0": 3.0,
        "car": 5.0,
    }
    makers[1] = partial(ScriptedEnv, [5], name="task 0")
    with pytest.raises(ValueError, match="names that differ, got 'task 0' for environments 0 and"):
        evaluate(ones, MetaIterativeEnvExecutor(makers, 2), 2)


def test_chosen_tasks_differ():
    with pytest.raises(ValueError, match="tasks must differ, got 'a' 2 times"):
        evaluate(ones, scripted([{"name": "a"}]), 1, tasks=["a", "b", "a"])


# Wrappers: what they change, and what stays.


@all_modes
def test_wrappers_of_ours_and_of_gymnasiums_are_evaluated_with_what_they_change(mode):
    envs = scripted([{"lengths": [2], "name": "a"}], autoreset_mode=mode)
    result = evaluate(ones, vector_wrappers.RecordEpisodeStatistics(HalfReward(envs)), 3)
    assert [e.episode_return for e in result.episodes] == [1.0, 1.0, 1.0]


class Counted(ScriptedEnv):
    """Counts its resets."""

    resets = 0

    def reset(self, **kwargs):
        self.resets += 1
        return super().reset(**kwargs)


@all_modes
@pytest.mark.parametrize(
    "wrap", [lambda envs: envs, HalfReward, vector_wrappers.RecordEpisodeStatistics]
)
def test_each_episode_has_one_reset_after_observers_have_seen_the_end_of_the_last(mode, wrap):
    inner = MetaIterativeEnvExecutor(partial(Counted, [2]), 2, autoreset_mode=mode)
    seen = []

    class Last(Observer):
        def step(self, step):
            seen.append((inner.get_attr("steps"), inner.get_attr("resets")))

    evaluate(ones, wrap(inner), 3, observers=[Last()])
    if wrap is vector_wrappers.RecordEpisodeStatistics and mode.value == "SameStep":
        return  # environments in it go on to reset themselves, too
    assert inner.get_attr("resets")[0] == 4  # one to name the tasks, and one for each episode
    assert seen == [((steps,) * 2, (resets,) * 2) for resets in (2, 3, 4) for steps in (1, 2)]


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


def list_statistics(env):
    """The count of each normalizing wrapper, and whether it goes on counting."""
    statistics = []
    while isinstance(env, (gymnasium.Wrapper, gymnasium.vector.VectorWrapper)):
        if hasattr(env, "get_state"):
            # Which episodes there are is another matter: an evaluation begins new ones.
            state = {key: value for key, value in env.get_state().items() if key != "episodes"}
            statistics.append((state, env.update_running_mean))
        elif hasattr(env, "update_running_mean"):
            rms = getattr(env, "return_rms", None) or env.obs_rms
            statistics.append((rms.count, np.sum(rms.mean), env.update_running_mean))
        env = env.env
    return statistics


def list_all_statistics(envs):
    return list_statistics(envs) + list(envs.unwrapped.call(list_statistics))


@pytest.mark.parametrize(
    ("wrap_env", "outside", "mode", "workers"),
    [
        (NormalizeObservation, "theirs", "NextStep", 2),
        (lambda env: NormalizeObservationPerTask(env, 1), "theirs", "NextStep", 0),
        (NormalizeObservation, "ours", "Disabled", 0),
        (lambda env: env, "ours", "SameStep", 2),
    ],
)
@pytest.mark.filterwarnings("ignore:task groups .* share its statistics")
def test_statistics_stay_as_they_are(mode, workers, wrap_env, outside):
    executor = partial(MetaParallelEnvExecutor, workers=2) if workers else MetaIterativeEnvExecutor
    envs = inner = executor([lambda: wrap_env(Tasked([3]))] * 2, 2, autoreset_mode=mode)
    if outside == "theirs":
        envs = vector_wrappers.NormalizeObservation(envs)
    else:
        envs = VectorNormalizeObservationPerTask(envs, 1)
    with closing(inner):
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(np.full((2, 2), 0.5))
        statistics = list_all_statistics(envs)
        result = evaluate(ones, envs, 2)
        assert list_all_statistics(envs) == statistics
        assert [episode.episode_return for episode in result.episodes] == [30.0] * 2
        envs.reset(seed=0)
        envs.step(np.ones((2, 2)))
        assert list_all_statistics(envs) != statistics


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (
            lambda make: VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(make, 1), 1),
            "VectorNormalizeRewardPerTask",
        ),
        (
            lambda make: vector_wrappers.NormalizeReward(
                MetaIterativeEnvExecutor(make, 1, autoreset_mode="NextStep")
            ),
            "NormalizeReward",
        ),
        (
            lambda make: VectorNormalizeObservationPerTask(
                MetaIterativeEnvExecutor(lambda: ours(make()), 1), 1
            ),
            "NormalizeRewardPerTask",
        ),
        (lambda make: MetaParallelEnvExecutor(lambda: theirs(make()), 1), "NormalizeReward"),
        (
            lambda make: MetaIterativeEnvExecutor(
                lambda: metaworld.wrappers.NormalizeRewardsExponential(0.001, make()), 1
            ),
            "NormalizeRewardsExponential",
        ),
    ],
)
def test_normalized_rewards_are_refused_and_the_wrapper_is_named(wrap, name):
    with closing(wrap(lambda: Tasked([3]))) as envs:
        with pytest.raises(ValueError, match=f"and these are in {name}: pass environments that"):
            evaluate(ones, envs, 2)
        if hasattr(envs, "env") and not name.startswith("Norm"):
            assert evaluate(ones, envs.env, 1).episodes[0].episode_return == 30.0


class WithoutMask:
    """Remembers, and forgets everything at once."""

    def reset(self): ...

    def __call__(self, observations):
        return ones(observations)


class PlansWithoutMask(WithoutMask):
    def __call__(self, observations):
        return ones(observations)[:, None]


def test_a_policy_whose_reset_takes_no_mask_is_refused_where_rows_end_at_different_times():
    message = r"takes no mask, so it cannot begin an episode in 1 of 2 environments alone: give"
    with pytest.raises(ValueError, match=message):
        evaluate(WithoutMask(), scripted([{"name": "a", "lengths": (2,)}, {"name": "b"}]), 2)
    chunks = scripted([{"name": "a", "lengths": (2,)}, {"name": "b"}])
    with pytest.raises(ValueError, match=message):
        evaluate(ActionChunks(PlansWithoutMask(), 1), chunks, 2)
    evaluate(WithoutMask(), scripted([{"name": "a"}, {"name": "b"}]), 2)
    evaluate(WithoutMask(), scripted([{"name": "a", "lengths": (2, 3)}]), 4)


@pytest.mark.parametrize(
    ("wrap_env", "wrap", "name"),
    [
        (NormalizeObservation, lambda envs: envs, "NormalizeObservation"),
        (lambda env: NormalizeObservationPerTask(env, 1), lambda envs: envs, "NormalizeObs.*Task"),
        (lambda env: env, vector_wrappers.NormalizeObservation, "NormalizeObservation"),
        (lambda env: env, VectorNormalizeObservationPerTask, "VectorNormalizeObservationPerTask"),
    ],
)
def test_new_environments_have_no_statistics_of_observations(wrap_env, wrap, name):
    def make():
        return wrap(
            MetaParallelEnvExecutor(lambda: wrap_env(Tasked([3])), 1, autoreset_mode="NextStep")
        )

    with closing(make()) as training_envs, closing(make()) as envs:
        message = f"observations are not normalized, because {name} has no statistics yet: evaluate"
        with pytest.warns(UserWarning, match=message) as warned:
            evaluate(ones, envs, 1)
        assert [warning.filename for warning in warned] == [__file__]
        training_envs.reset(seed=0)
        evaluate(ones, training_envs, 1)
        # As the warning says.
        set_state(envs, get_state(training_envs, between_episodes=True))
        evaluate(ones, envs, 1)


@pytest.mark.filterwarnings("ignore:observations are not normalized")
def test_statistics_go_on_after_an_evaluation_that_failed():
    envs = MetaIterativeEnvExecutor(lambda: NormalizeObservationPerTask(Telling("no"), 1), 1)
    with pytest.raises(ValueError, match="must be a bool"):
        evaluate(ones, envs, 1)
    assert envs.get_attr("update_running_mean") == (True,)


# The choice of tasks, which is training's.


def list_chosen_tasks(envs, episodes):
    """The tasks of the next episodes."""
    tasks = []
    for _ in range(episodes):
        _, infos = envs.reset()
        tasks.append(infos["task_id"].tolist())
        envs.step(np.ones((2, 2)))
    return tasks


@read_only
def get_selection(env):
    return env.unwrapped.get_state()["selection"]


def list_selections(envs):
    return envs.call(get_selection)


class Fails:
    def __init__(self):
        self.asked = 0

    def __call__(self, observations):
        self.asked += 1
        if self.asked > 3:
            raise ZeroDivisionError
        return ones(observations)


class Adapts:
    def begin_trial(self): ...

    def __call__(self, observations):
        return ones(observations)


def few_shot(envs):
    envs.set_attr("sample_tasks_on_reset", [False, False])
    few_shot_evaluate(Adapts(), envs, 2, 2, 1)
    envs.set_attr("sample_tasks_on_reset", [True, True])


def failing(envs):
    with pytest.raises(ZeroDivisionError):
        evaluate(Fails(), envs, 3)


@pytest.mark.parametrize(
    ("evaluation", "workers", "select"),
    [
        (lambda envs: evaluate(ones, envs, 3), 0, "least_success"),
        (lambda envs: evaluate(ones, envs, 3), 2, "without_replacement"),
        (few_shot, 2, "without_replacement"),
        (failing, 2, "least_success"),
    ],
)
def test_an_evaluation_leaves_the_choice_of_tasks_as_it_was(evaluation, workers, select):
    executor = partial(MetaParallelEnvExecutor, workers=workers)
    if not workers:
        executor = MetaIterativeEnvExecutor
    make = partial(moving, sample_tasks_on_reset=True, select=select)
    outcomes = []
    for evaluates in (False, True):
        with closing(executor(make, 2)) as envs:
            envs.reset(seed=0)
            list_chosen_tasks(envs, 7)
            initial_selections = list_selections(envs)
            if evaluates:
                evaluation(envs)
                assert list_selections(envs) == initial_selections
            outcomes.append((list_chosen_tasks(envs, 9), list_selections(envs)))
    assert outcomes[0] == outcomes[1]


def test_an_episode_that_an_evaluation_cut_counts_as_far_as_it_was_played():
    make = partial(MultiEnvWrapper, [partial(ScriptedEnv, [9])] * 2, select="least_success")
    states = []
    for evaluates in (False, True):
        envs = MetaIterativeEnvExecutor(lambda: FlattenMTEnv(make(), "none"), 1)
        envs.reset(seed=0, options={"task_state": 1})
        for _ in range(3):
            envs.step(np.ones((1, 2)))
        if evaluates:
            evaluate(ones, envs, 2, tasks=["task 1"])
            with pytest.raises(ResetNeeded, match="call reset"):
                envs.step(np.ones((1, 2)))
        envs.reset()
        states += list_selections(envs)
    assert states[0] == states[1]
    assert states[0]["history"]["tasks"] == [[], [[3.0, False]]]


class Keeps(gymnasium.Wrapper):
    """Keeps what is not plain data."""

    kept = None

    def reset(self, **kwargs):
        self.kept = object()
        return super().reset(**kwargs)


def test_environments_whose_state_is_unknown_are_evaluated_too():
    envs = MetaIterativeEnvExecutor(lambda: Keeps(ScriptedEnv([3], name="a")), 2)
    envs.reset(seed=0)
    assert lengths(evaluate(ones, envs, 2), "a") == [3, 3]


class FaultyStateEnv(ScriptedEnv):
    """Has a mistake in its ``get_state``."""

    def get_state(self):
        return {"count": None + 1}

    def set_state(self, state):
        raise AssertionError("there is no state")


def test_a_state_that_cannot_be_read_is_named_in_a_warning():
    envs = MetaIterativeEnvExecutor(lambda: FaultyStateEnv([3], name="a"), 2)
    with pytest.warns(UserWarning, match="keep the state of the evaluation") as warned:
        assert lengths(evaluate(ones, envs, 2), "a") == [3, 3]
    assert "'NoneType' and 'int'" in str(warned[0].message)
    assert warned[0].filename == __file__
