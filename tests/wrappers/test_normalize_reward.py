import copy
import json
import math
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from metaworld.wrappers import NormalizeRewardsExponential

from mtwrappers import (
    FlattenMTEnv,
    MultiEnvWrapper,
    NormalizeRewardPerTask,
    TaskNameWrapper,
    TaskOnehotWrapper,
)
from tests.fakes import CountingEnv, check_env_warnings, counting_makers, equal, play


def two_tasks(length=3, **kwargs):
    multi = MultiEnvWrapper(counting_makers(2, length=length), task_names=["a", "b"])
    return NormalizeRewardPerTask(FlattenMTEnv(multi), **kwargs)


def expected(returns, rewards, epsilon=1e-8):
    """The definition: a variance of one counts as a ten-thousandth of a sample of zero."""
    scaled = []
    for t, reward in enumerate(rewards):
        seen, weights = [0.0, *returns[: t + 1]], [1e-4] + [1.0] * (t + 1)
        mean = np.average(seen, weights=weights)
        spread = np.average((np.array(seen) - mean) ** 2, weights=weights)
        spread += 1e-4 / sum(weights)
        scaled.append(reward / math.sqrt(spread + epsilon))
    return scaled


def test_a_reward_is_divided_by_the_deviation_of_its_tasks_return():
    env = two_tasks(gamma=0.5)
    steps = play(env, [0] * 3, seed=0, options={"task_state": 1})[1:]
    assert [s[1] for s in steps] == pytest.approx(expected([1, 2.5, 4.25], [1, 2, 3]))
    assert [s[4]["raw_reward"] for s in steps] == [1.0, 2.0, 3.0]
    assert {type(s[1]) for s in steps} == {float}


def test_each_task_has_statistics_of_its_own_and_an_episode_begins_a_return():
    alone, mixed = two_tasks(gamma=0.5), two_tasks(gamma=0.5)
    apart = [s[1] for _ in range(2) for s in play(alone, [0] * 3, options={"task_state": 0})[1:]]
    together = []
    for _ in range(2):
        together += [s[1] for s in play(mixed, [0] * 3, options={"task_state": 0})[1:]]
        play(mixed, [0] * 2, options={"task_state": 1})  # which a reset cuts
    assert together == apart
    assert apart == pytest.approx(expected([1, 2.5, 4.25] * 2, [1, 2, 3] * 2))


@pytest.mark.parametrize("truncate", [False, True])
def test_an_end_without_a_reset_begins_a_return_too(truncate):
    env = gymnasium.wrappers.Autoreset(CountingEnv(2, truncate=truncate))
    rewards = [s[1] for s in play(NormalizeRewardPerTask(env, gamma=0.5), [0] * 5)[1:]]
    assert rewards == pytest.approx(expected([1, 2.5, 0, 1, 2.5], [1, 2, 0, 1, 2]))


def test_in_an_endless_episode_of_one_task_it_is_gymnasiums():
    ours = NormalizeRewardPerTask(CountingEnv(99), gamma=0.9)
    theirs = gymnasium.wrappers.NormalizeReward(CountingEnv(99), gamma=0.9)
    a, b = ([s[1] for s in play(env, [0] * 30)[1:]] for env in (ours, theirs))
    assert a == pytest.approx([float(x) for x in b])


def test_the_statistics_are_updated_once_a_step():
    env = two_tasks()
    play(env, [0, 0], options={"task_state": 1})
    assert env.get_state()["count"] == pytest.approx([1e-4, 2.0001])
    # Meta-World's wrapper counts a step twice: two rewards of one leave a mean of 1 - 0.5**4.
    upstream = NormalizeRewardsExponential(0.5, CountingEnv())
    upstream.reset()
    upstream.step(0)
    assert upstream._reward_mean == 0.75


def test_a_frozen_wrapper_scales_and_learns_nothing():
    env = two_tasks(gamma=0.5)
    play(env, [0] * 3, seed=0, options={"task_state": 0})
    env.update_running_mean = False
    state = env.get_state()
    scaled = [s[1] for s in play(env, [0] * 2, options={"task_state": 0})[1:]]
    deviation = math.sqrt(state["m2"][0] / state["count"][0] + 1e-8)
    assert scaled == pytest.approx([1 / deviation, 2 / deviation])
    assert env.get_state() == state


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_goes_on_by_itself(clone):
    env = two_tasks()
    play(env, [0] * 2, seed=0, options={"task_state": 1})
    other = clone(env)
    state = env.get_state()
    assert equal(other.step(0), env.step(0))
    assert state["count"] == pytest.approx([1e-4, 2.0001])


def test_a_state_goes_through_json_and_goes_on():
    env, other = two_tasks(), two_tasks()
    play(env, [0] * 3, options={"task_state": 1})
    other.set_state(json.loads(json.dumps(env.get_state())))
    a, b = ([s[1] for s in play(e, [0] * 3, options={"task_state": 1})[1:]] for e in (env, other))
    assert a == b
    assert other.get_state() == env.get_state()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "observation"}, "with kind 'reward', got 'observation'"),
        ({"num_tasks": 3}, "with num_tasks 2, got 3"),
        ({"task_names": ["a", "c"]}, r"tasks \['a', 'b'\], got those of \['a', 'c'\]"),
        ({"mean": [0.0]}, r"expected mean of shape \(2,\) in the statistics, got one of shape \(1"),
        ({"m2": None}, r"expected m2 of shape \(2,\)"),
    ],
)
def test_statistics_of_something_else_are_refused_and_change_nothing(change, message):
    env = two_tasks()
    play(env, [0], options={"task_state": 1})
    state = env.get_state()
    with pytest.raises(ValueError, match=message):
        env.set_state({**state, "count": [5.0, 5.0], **change})
    assert env.get_state() == state


def test_the_number_of_tasks_and_their_names_are_the_environments():
    assert two_tasks().get_state()["task_names"] == ["a", "b"]
    onehot = NormalizeRewardPerTask(TaskOnehotWrapper(CountingEnv(), 1, 4))
    assert onehot.get_state()["num_tasks"] == 4
    named = NormalizeRewardPerTask(TaskNameWrapper(CountingEnv(), task_id=2), num_tasks=3)
    play(named, [0])
    assert named.get_state()["count"] == pytest.approx([1e-4, 1e-4, 1.0001])


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (TaskNameWrapper(CountingEnv(), task_id=1), r"in \[0, 0\], got an info with task_id 1"),
        (TaskNameWrapper(CountingEnv(), task_id=-1), r"in \[0, 0\], got an info with task_id -1"),
    ],
)
def test_a_task_id_that_is_no_task_is_refused(env, message):
    env = NormalizeRewardPerTask(env)
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(0)


def test_an_environment_that_does_not_say_its_task_is_refused_where_there_are_several():
    env = NormalizeRewardPerTask(CountingEnv(), num_tasks=2)
    env.reset()
    with pytest.raises(ValueError, match=r"no task_id; .*TaskNameWrapper"):
        env.step(0)


@pytest.mark.parametrize(
    "kwargs", [{"gamma": 1.1}, {"gamma": -0.1}, {"epsilon": 0.0}, {"num_tasks": 0}]
)
def test_a_number_out_of_range_is_refused(kwargs):
    with pytest.raises(ValueError, match=f"{next(iter(kwargs))} must be"):
        NormalizeRewardPerTask(CountingEnv(), **kwargs)


def test_it_keeps_gymnasiums_contract_and_its_spec_goes_through_json():
    env = NormalizeRewardPerTask(gymnasium.make("tests/Short-v0"), np.int64(1), gamma=0.5)
    env.update_running_mean = False  # else what was seen before matters, as in Gymnasium's
    assert check_env_warnings(env, skip_render_check=True) == []
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, NormalizeRewardPerTask)
    fresh = NormalizeRewardPerTask(gymnasium.make("tests/Short-v0"), gamma=0.5)
    assert equal(play(again, [0, 1], seed=5), play(fresh, [0, 1], seed=5))
