"""Rewards and observations of one scale per task: what they are, whose they are, and states."""

import copy
import itertools
import json
import math
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import mtwrappers as mt
from tests.fakes import CountingEnv, counting_makers, equal, play
from tests.wrappers.fakes import TaskedEnv, tasked_makers

SINGLE = [mt.NormalizeRewardPerTask, mt.NormalizeObservationPerTask]
VECTOR = [mt.VectorNormalizeRewardPerTask, mt.VectorNormalizeObservationPerTask]
vector_forms = pytest.mark.parametrize("wrap", VECTOR)
every_form = pytest.mark.parametrize("wrap", SINGLE + VECTOR)


def make_two_tasks(wrap, length=3, dtype=np.float64, **kwargs):
    return wrap(
        mt.FlattenMTEnv(mt.MultiEnvWrapper(counting_makers(2, length=length, dtype=dtype))),
        **kwargs,
    )


def make_wrapped_and_action(wrap, **kwargs):
    """Makes a wrapper of either form over tasks that are called a, b and c, and an action."""
    if wrap in VECTOR:
        return wrap(mt.MetaIterativeEnvExecutor(tasked_makers(), 3), 3, **kwargs), [0] * 3
    multi = mt.MultiEnvWrapper(counting_makers(3, length=4), task_names=["a", "b", "c"])
    return wrap(mt.FlattenMTEnv(multi), **kwargs), 0


def make_vector(wrap, mode, **kwargs):
    """Makes a vector form over the three tasks in an autoreset mode."""
    return wrap(mt.MetaIterativeEnvExecutor(tasked_makers(), 3, autoreset_mode=mode), 3, **kwargs)


def observations(env, n=4, **reset):
    return np.array([result[0] for result in play(env, [0] * n, **reset)])


# Rewards.


def scale_rewards(returns, rewards):
    """Scales by the definition: a ten-thousandth of a sample, 0 with variance 1, comes first."""
    scaled = []
    for t, reward in enumerate(rewards):
        seen, weights = [0.0, *returns[: t + 1]], [1e-4] + [1.0] * (t + 1)
        mean = np.average(seen, weights=weights)
        spread = np.average((np.array(seen) - mean) ** 2, weights=weights)
        scaled.append(reward / math.sqrt(spread + 1e-4 / sum(weights) + 1e-8))
    return scaled


def test_a_reward_is_divided_by_the_deviation_of_its_own_tasks_returns():
    env = make_two_tasks(mt.NormalizeRewardPerTask, gamma=0.5)
    together = []
    for _ in range(2):
        _, *steps = play(env, [0] * 3, seed=0, options={"task_state": 0})
        together += [step[1] for step in steps]
        assert [s[4]["raw_reward"] for s in steps] == [1.0, 2.0, 3.0]
        assert {type(s[1]) for s in steps} == {float}
        play(env, [0] * 2, options={"task_state": 1})  # which a reset cuts
    assert together == pytest.approx(scale_rewards([1, 2.5, 4.25] * 2, [1, 2, 3] * 2))
    assert env.get_state()["count"] == pytest.approx([6.0001, 4.0001])


def test_raw_rewards_are_in_the_infos_of_resets_steps_and_ends():
    envs, _ = make_wrapped_and_action(mt.VectorNormalizeRewardPerTask)
    infos = envs.reset(seed=0)[1]
    assert infos["raw_reward"].tolist() == [0, 0, 0]
    assert infos["_raw_reward"].tolist() == [True] * 3
    envs.step([0] * 3)
    _, scaled, *_, infos = envs.step([0] * 3)
    assert infos["raw_reward"].tolist() == [2, 2, 2] != scaled.tolist()
    assert infos["final_info"]["raw_reward"].tolist() == [2, 0, 0]
    assert infos["final_info"]["_raw_reward"].tolist() == [True, False, False]
    assert infos["final_info"]["steps"].tolist()[0] == 2


# Observations.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observations_are_gymnasiums_per_task_and_the_onehot_is_left_alone(dtype):
    env = make_two_tasks(mt.NormalizeObservationPerTask, 9, dtype)
    space = env.observation_space
    assert space.low.tolist() == [-np.inf, -np.inf, 0, 0]
    assert space.high.tolist() == [np.inf, np.inf, 1, 1]
    for task in (0, 1):
        plain = CountingEnv(9, first=100 * task)  # in float64, as the statistics are
        theirs = gymnasium.wrappers.NormalizeObservation(plain)
        theirs.obs_rms = gymnasium.wrappers.utils.RunningMeanStd(shape=(2,), dtype=np.float64)
        ours = observations(env, options={"task_state": task})
        assert ours.dtype == space.dtype == dtype
        assert all(obs in space for obs in ours)
        assert ours[:, :2] == pytest.approx(observations(theirs), rel=1e-5, abs=1e-6)
        assert ours[:, 2:].tolist() == [np.eye(2)[task].tolist()] * 5


@pytest.mark.parametrize(
    ("env", "kwargs", "changed"),
    [
        (CountingEnv(9, first=7, obs_size=3), {}, [True, True, True]),
        (CountingEnv(9, first=7, obs_size=3), {"num_leading": 1}, [True, False, False]),
        (mt.TaskOnehotWrapper(CountingEnv(9, first=7), 0, 1), {}, [True, True, False]),
        (mt.TaskOnehotWrapper(CountingEnv(9, first=7), 0, 1), {"num_leading": 3}, [True] * 3),
    ],
)
def test_which_entries_are_normalized(env, kwargs, changed):
    plain = observations(copy.deepcopy(env), 3)
    ours = observations(mt.NormalizeObservationPerTask(env, **kwargs), 3)
    assert (plain != ours).any(axis=0).tolist() == changed


def make_untold(size=2):
    """Makes an environment of one task, whose observations do not tell it."""
    env = mt.MultiEnvWrapper([partial(CountingEnv, 9, first=7, obs_size=size)])
    return mt.FlattenMTEnv(env, "none")


def make_wide():
    """Makes one in a wrapper that returns each of its two numbers three times."""
    space = gymnasium.spaces.Box(-np.inf, np.inf, (6,), np.float64)
    return gymnasium.wrappers.TransformObservation(make_untold(), lambda o: o.repeat(3), space)


def make_square():
    """Makes one whose observations are two rows of two numbers."""
    env = CountingEnv(9, first=7, obs_size=4)
    return gymnasium.wrappers.ReshapeObservation(env, (2, 2))


@pytest.mark.parametrize(
    ("env", "changed"),
    [
        (make_wide(), [True] * 6),
        (mt.PadSpaces(make_untold(), 4), [True, True, False, False]),  # zeros stay zeros
        (mt.TaskOnehotWrapper(make_wide(), 0, 1), [True] * 6 + [False]),
        (mt.RL2Observation(make_wide()), [True] * 6 + [False] * 4),
        (
            gymnasium.wrappers.FlattenObservation(mt.MultiEnvWrapper(counting_makers(1, length=9))),
            [True, True, False],
        ),
        (
            gymnasium.wrappers.FlattenObservation(mt.MultiEnvWrapper([make_square])),
            [True] * 4 + [False],
        ),
    ],
)
def test_all_entries_are_the_environments_but_those_that_tell_something_else(env, changed):
    plain = observations(copy.deepcopy(env), 3)
    ours = observations(mt.NormalizeObservationPerTask(env), 3)
    assert (plain != ours).any(axis=0).tolist() == changed


def make_of_task(task, size):
    return mt.TaskNameWrapper(make_untold(size), task_id=task)


@pytest.mark.parametrize("wrap", [lambda envs: envs, mt.VectorRL2Observation])
def test_all_entries_are_normalized_where_environments_are_padded_to_the_longest(wrap):
    envs = mt.as_vector([partial(make_of_task, 0, 2), partial(make_of_task, 1, 4)], unify="pad")
    envs = mt.VectorNormalizeObservationPerTask(wrap(envs), 2)
    envs.reset(seed=0)
    obs, *_ = envs.step([1, 1])
    assert obs[:, :4] == pytest.approx(np.array([[1, 1, 0, 0], [1, 1, 1, 1]]), abs=1e-2)


# Which task it is.


def make_named(task, name, **kwargs):
    return mt.TaskNameWrapper(TaskedEnv(task, **kwargs), task_name=name)


@pytest.mark.parametrize(
    ("tasks", "mean", "variance"),
    [
        ([2, 0, 1], [10, 20, 0], [0, 0, 0]),
        ([2, 0, 2, 1], [10, 30, 10], [0, 0, 100]),
        ([0, 0, 1, 1, 2, 2], [5, 25, 45], [25, 25, 25]),
    ],
)
def test_the_statistics_of_a_step_are_those_of_each_tasks_samples(tasks, mean, variance):
    makers = [partial(make_named, task, str(task), first=10 * i) for i, task in enumerate(tasks)]
    executor = mt.MetaIterativeEnvExecutor(makers, len(tasks))
    envs = mt.VectorNormalizeObservationPerTask(executor, 4)  # of the last of which there is none
    obs, _ = envs.reset(seed=0)
    state = envs.get_state()
    for task in range(3):
        count = 1e-4 + tasks.count(task)
        assert state["count"][task] == pytest.approx(count)
        assert state["mean"][task][0] == pytest.approx(mean[task], rel=1e-3)
        if tasks.count(task) > 1:
            assert state["m2"][task][0] / count == pytest.approx(variance[task], rel=5e-3)
    for i, task in enumerate(tasks):
        deviation = np.sqrt(state["m2"][task][0] / state["count"][task] + 1e-8)
        assert obs[i, 0] == pytest.approx((10 * i - state["mean"][task][0]) / deviation)


@vector_forms
@pytest.mark.parametrize("names", [[None] * 3, ["reach", "push", "pick"]])
def test_task_groups_that_share_an_id_are_named_once(wrap, names):
    makers = [
        partial(make_named, task, name) if name else partial(TaskedEnv, task)
        for task, name in zip([0, 1, 0], names, strict=True)
    ]
    envs = mt.VectorRL2Observation(wrap(mt.MetaIterativeEnvExecutor(makers, 3, 2), 2))
    message = rf"task groups \[0, 2\] all report task_id 0 .* in {wrap.__name__}; .*TaskNameWrapper"
    with pytest.warns(UserWarning, match=message) as warned:
        envs.reset(seed=0)
    assert [warning.filename for warning in warned] == [__file__]
    envs.reset(seed=0)


# Resets of some.


def test_a_reset_of_some_begins_and_counts_those_alone():
    inner = make_vector(mt.VectorNormalizeRewardPerTask, AutoresetMode.DISABLED, gamma=1.0)
    envs = mt.VectorNormalizeObservationPerTask(inner, 3)
    envs.reset(seed=0)
    envs.step([0] * 3)
    mask = np.array([False, True, False])
    infos = envs.reset(options={"reset_mask": mask})[1]
    assert infos["_raw_reward"].tolist() == mask.tolist()
    assert envs.get_state()["count"] == pytest.approx([2.0001, 3.0001, 2.0001])
    envs.step([0] * 3)  # whose returns are 1 + 2, 1 and 1 + 2
    assert inner.get_state()["mean"] == pytest.approx([2, 1, 2], rel=1e-3)


# Freezing, and states.


@every_form
def test_a_frozen_wrapper_scales_and_learns_nothing(wrap):
    env, action = make_wrapped_and_action(wrap)
    env.update_running_mean = False
    results = play(env, [action] * 6, seed=0)
    assert env.get_state()["count"] == [1e-4] * 3
    # The prior: a mean of zero and a variance of one.
    first = results[1][1] if "Reward" in wrap.__name__ else np.ravel(results[1][0])[0]
    assert np.max(first) == pytest.approx(1.0)
    env.update_running_mean = True
    play(env, [action], seed=0)
    assert max(env.get_state()["count"]) > 1


@every_form
@pytest.mark.parametrize("updates", [True, False])
def test_a_state_goes_through_json_and_goes_on(wrap, updates):
    (env, action), (restored, _) = make_wrapped_and_action(wrap), make_wrapped_and_action(wrap)
    play(env, [action] * 3, seed=0)
    env.update_running_mean = updates
    restored.set_state(json.loads(json.dumps(env.get_state())))
    assert restored.get_state() == env.get_state()
    assert equal(play(restored, [action] * 3, seed=0), play(env, [action] * 3, seed=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "else"}, "with kind '(reward|observation)', got 'else'"),
        ({"num_tasks": 4}, "with num_tasks 3, got 4"),
        ({"task_names": ["a", "c"]}, r"task_names \['a', 'b', 'c'\], got \['a', 'c'\]"),
        ({"mean": [0.0]}, r"expected mean of shape \(3,.* in the statistics, got one of shape \(1"),
        ({"m2": None}, r"expected m2 of shape \(3,"),
        ({"update_running_mean": 1}, r"\['update_running_mean'\] must be True or False, got 1"),
    ],
)
def test_statistics_of_something_else_are_refused_and_change_nothing(change, message):
    for wrap in SINGLE:
        env, action = make_wrapped_and_action(wrap)
        play(env, [action], seed=0)
        state = env.get_state()
        with pytest.raises((TypeError, ValueError), match=message):
            env.set_state({**state, "count": [5.0] * 3, **change})
        assert env.get_state() == state


@vector_forms
def test_statistics_move_to_another_number_of_environments_without_the_episodes(wrap):
    envs = make_wrapped_and_action(wrap)[0]
    pairs = [maker for maker in tasked_makers() for _ in range(2)]
    larger = wrap(mt.MetaIterativeEnvExecutor(pairs, 3, 2), 3)
    envs.reset(seed=0)
    larger.reset(seed=0)
    envs.step([0] * 3)
    episodes = larger.get_state()["episodes"]
    larger.set_state(envs.get_state())
    assert larger.get_state() == {**envs.get_state(), "episodes": episodes}
    larger.step([0] * 6)


@pytest.mark.parametrize(
    ("wrap", "change"),
    [
        *itertools.product(
            VECTOR,
            [{"tasks": [0, 1, 3]}, {"tasks": "012"}, {"uncounted": [3]}, {"uncounted": None}],
        ),
        (mt.VectorNormalizeRewardPerTask, {"returns": [0.0]}),
        (mt.VectorNormalizeRewardPerTask, {"returns": ["0", "1", "2"]}),
        (mt.VectorNormalizeRewardPerTask, {"returns": [0.0, math.nan, 0.0]}),
    ],
)
def test_episodes_that_do_not_fit_are_refused_before_anything_changes(wrap, change):
    envs, actions = make_wrapped_and_action(wrap)
    envs.reset(seed=0)
    state = envs.get_state()
    envs.step(actions)
    state_before = envs.get_state()
    with pytest.raises((TypeError, ValueError), match=r"episodes|expected a list of uncounted"):
        envs.set_state({**state, "episodes": {**state["episodes"], **change}})
    [name] = change
    without = {key: value for key, value in state["episodes"].items() if key != name}
    with pytest.raises(ValueError, match=rf"expected \['.* of {wrap.__name__}, got \['"):
        envs.set_state({**state, "episodes": without})
    with pytest.raises(ValueError, match="expected statistics with kind"):
        envs.set_state({**state, "kind": "else", "episodes": {}})
    assert envs.get_state() == state_before


@every_form
@pytest.mark.parametrize(
    "change",
    [
        {"count": 0.0},
        {"count": -1.0},
        {"count": "2.0"},
        {"m2": -1.0},
        {"m2": math.nan},
        {"m2": "2.0"},
        {"mean": math.nan},
        {"mean": "2.0"},
        {"mean": True},
    ],
)
def test_statistics_that_no_samples_have_are_refused(wrap, change):
    env = make_wrapped_and_action(wrap)[0]
    state = env.get_state()
    [(key, value)] = change.items()
    wrong_values = np.full(np.shape(state[key]), value, dtype=object).tolist()
    with pytest.raises(ValueError, match=f"{key} .*in the statistics"):
        env.set_state({**state, key: wrong_values})
    assert env.get_state() == state


# Samples that are not finite.


class OneValueEnv(gymnasium.Env):
    """Observes and rewards ``value``."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)
    value = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        return np.full(1, self.value), self.value, False, False, {}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@every_form
def test_a_sample_that_is_not_finite_is_refused_and_leaves_the_statistics_as_they_were(wrap, value):
    is_vector = wrap in VECTOR
    env = wrap(mt.as_vector([OneValueEnv, OneValueEnv]) if is_vector else OneValueEnv())
    actions = [0, 0] if is_vector else 0
    env.reset(seed=0)
    env.step(actions)
    state_before = copy.deepcopy(env.get_state())
    if is_vector:
        env.set_attr("value", [1.0, value])
    else:
        env.unwrapped.value = value
    task = "task 1" if is_vector else "task 0"
    with pytest.raises(ValueError, match=rf"expected a finite \w+ to normalize, got .* in {task}"):
        env.step(actions)
    assert env.get_state() == state_before
    env.set_state(state_before)


@pytest.mark.parametrize("onehot", [False, True])
def test_the_action_reward_and_done_flag_of_rl2_are_not_normalized(onehot):
    env = mt.RL2Observation(gymnasium.make("Pendulum-v1"))
    env = mt.TaskOnehotWrapper(env, 0, 1) if onehot else env
    env = mt.NormalizeObservationPerTask(env)
    env.reset(seed=0)
    obs, reward, *_ = env.step([1.0])
    assert obs[3:].tolist() == [1.0, pytest.approx(reward), 0.0] + [1.0] * onehot


def test_the_action_reward_and_done_flag_of_rl2_are_not_normalized_in_the_vector_form():
    envs = mt.VectorRL2Observation(mt.as_vector([OneValueEnv, OneValueEnv]))
    envs = mt.VectorNormalizeObservationPerTask(mt.VectorNormalizeRewardPerTask(envs))
    envs.reset(seed=0)
    obs, _, *_ = envs.step([1, 1])
    assert obs[:, 1:].tolist() == [[0.0, 1.0, 1.0, 0.0]] * 2
