"""Rewards and observations of one scale per task."""

import copy
import math

import gymnasium
import numpy as np
import pytest
from metaworld.wrappers import NormalizeRewardsExponential

from mtwrappers import (
    FlattenMTEnv,
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    TaskOnehotWrapper,
)
from tests.fakes import CountingEnv, counting_makers, play

ACTIONS = [0] * 12


def two_tasks(wrap, length=3, dtype=np.float64, **kwargs):
    return wrap(
        FlattenMTEnv(MultiEnvWrapper(counting_makers(2, length=length, dtype=dtype))), **kwargs
    )


def rewards(env, n=3, **reset):
    return [float(step[1]) for step in play(env, [0] * n, **reset)[1:]]


def observations(env, n=4, **reset):
    return np.array([result[0] for result in play(env, [0] * n, **reset)])


def expected(returns, rewards):
    """The definition: a variance of one counts as a ten-thousandth of a sample of zero."""
    scaled = []
    for t, reward in enumerate(rewards):
        seen, weights = [0.0, *returns[: t + 1]], [1e-4] + [1.0] * (t + 1)
        mean = np.average(seen, weights=weights)
        spread = np.average((np.array(seen) - mean) ** 2, weights=weights)
        scaled.append(reward / math.sqrt(spread + 1e-4 / sum(weights) + 1e-8))
    return scaled


# Rewards, one by one.


def test_a_reward_is_divided_by_the_deviation_of_its_tasks_return():
    env = two_tasks(NormalizeRewardPerTask, gamma=0.5)
    steps = play(env, [0] * 3, seed=0, options={"task_state": 1})[1:]
    assert [s[1] for s in steps] == pytest.approx(expected([1, 2.5, 4.25], [1, 2, 3]))
    assert [s[4]["raw_reward"] for s in steps] == [1.0, 2.0, 3.0]
    assert {type(s[1]) for s in steps} == {float}


def test_each_task_has_statistics_of_its_own_and_an_episode_begins_a_return():
    alone, mixed = (two_tasks(NormalizeRewardPerTask, gamma=0.5) for _ in range(2))
    apart = [r for _ in range(2) for r in rewards(alone, options={"task_state": 0})]
    together = []
    for _ in range(2):
        together += rewards(mixed, options={"task_state": 0})
        rewards(mixed, 2, options={"task_state": 1})  # which a reset cuts
    assert together == apart
    assert apart == pytest.approx(expected([1, 2.5, 4.25] * 2, [1, 2, 3] * 2))


@pytest.mark.parametrize("truncate", [False, True])
def test_an_end_without_a_reset_begins_a_return_too(truncate):
    env = gymnasium.wrappers.Autoreset(CountingEnv(2, truncate=truncate))
    assert rewards(NormalizeRewardPerTask(env, gamma=0.5), 5) == pytest.approx(
        expected([1, 2.5, 0, 1, 2.5], [1, 2, 0, 1, 2])
    )


def test_in_an_endless_episode_of_one_task_it_is_gymnasiums():
    ours = NormalizeRewardPerTask(CountingEnv(99), gamma=0.9)
    theirs = gymnasium.wrappers.NormalizeReward(CountingEnv(99), gamma=0.9)
    assert rewards(ours, 30) == pytest.approx(rewards(theirs, 30))


def test_the_statistics_are_updated_once_per_step():
    env = two_tasks(NormalizeRewardPerTask)
    rewards(env, 2, options={"task_state": 1})
    assert env.get_state()["count"] == pytest.approx([1e-4, 2.0001])
    # Meta-World's wrapper counts a step twice: two rewards of one leave a mean of 1 - 0.5**4.
    upstream = NormalizeRewardsExponential(0.5, CountingEnv())
    upstream.reset()
    upstream.step(0)
    assert upstream._reward_mean == 0.75


# Observations, one by one.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observations_are_gymnasiums_per_task_and_the_onehot_is_left_alone(dtype):
    env = two_tasks(NormalizeObservationPerTask, 9, dtype)
    for task in (0, 1):
        plain = CountingEnv(9, first=100 * task)  # in float64, as the statistics are
        theirs = gymnasium.wrappers.NormalizeObservation(plain)
        theirs.obs_rms = gymnasium.wrappers.utils.RunningMeanStd(shape=(2,), dtype=np.float64)
        ours = observations(env, options={"task_state": task})
        assert ours.dtype == dtype
        assert ours[:, :2] == pytest.approx(observations(theirs), rel=1e-5, abs=1e-6)
        assert ours[:, 2:].tolist() == [np.eye(2)[task].tolist()] * 5


def test_statistics_are_those_of_all_observations_resets_included():
    env = two_tasks(NormalizeObservationPerTask, 9)
    for _ in range(2):
        observations(env, 3, options={"task_state": 1})
    state = env.get_state()
    assert state["count"] == pytest.approx([1e-4, 8.0001])
    assert state["mean"][0] == [0, 0]
    assert state["mean"][1] == pytest.approx([101.5, 101.5], rel=1e-4)
    assert state["m2"][1][0] / 8 == pytest.approx(1.25, rel=0.2)


def test_the_space_has_no_bounds_but_those_of_the_tail_and_every_observation_is_in_it():
    env = two_tasks(NormalizeObservationPerTask, 9, np.float32)
    space = env.observation_space
    assert space.low.tolist() == [-np.inf, -np.inf, 0, 0]
    assert space.high.tolist() == [np.inf, np.inf, 1, 1]
    assert space.dtype == np.float32
    assert all(obs in space for obs in observations(env, options={"task_state": 1}))


@pytest.mark.parametrize(
    ("env", "kwargs", "changed"),
    [
        (CountingEnv(9, first=7, obs_size=3), {}, [True, True, True]),
        (CountingEnv(9, first=7, obs_size=3), {"num_leading": 1}, [True, False, False]),
        (TaskOnehotWrapper(CountingEnv(9, first=7), 0, 1), {}, [True, True, False]),
        (TaskOnehotWrapper(CountingEnv(9, first=7), 0, 1), {"num_leading": 3}, [True] * 3),
    ],
)
def test_which_entries_are_normalized(env, kwargs, changed):
    plain = observations(copy.deepcopy(env), 3)
    ours = observations(NormalizeObservationPerTask(env, **kwargs), 3)
    assert (plain != ours).any(axis=0).tolist() == changed


def test_an_observation_belongs_to_the_caller():
    env = two_tasks(NormalizeObservationPerTask, 9)
    first, _ = env.reset(seed=0)
    kept = first.copy()
    env.step(0)
    assert first.tolist() == kept.tolist()
    env.step(0)[0][:] = 77
    assert env.get_state()["mean"][0][0] < 2
