"""What every wrapper with statistics per task promises, single or vector, reward or observation."""

import copy
import json
import math
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from mtwrappers import (
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    TaskNameWrapper,
    TaskOnehotWrapper,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
)
from tests.fakes import CountingEnv, check_env_warnings, counting_makers, equal, play
from tests.wrappers.fakes import makers

SINGLE = [NormalizeRewardPerTask, NormalizeObservationPerTask]
VECTOR = [VectorNormalizeRewardPerTask, VectorNormalizeObservationPerTask]
single = pytest.mark.parametrize("wrap", SINGLE)
both_forms = pytest.mark.parametrize("wrap", SINGLE + VECTOR)


def made(wrap, **kwargs):
    """A wrapper of either form over tasks that are called a, b and c, and an action for it."""
    if wrap in VECTOR:
        return wrap(MetaIterativeEnvExecutor(makers(), 3), 3, **kwargs), [0] * 3
    multi = MultiEnvWrapper(counting_makers(3, length=4), task_names=["a", "b", "c"])
    return wrap(FlattenMTEnv(multi), **kwargs), 0


@both_forms
def test_a_frozen_wrapper_scales_and_learns_nothing(wrap):
    env, action = made(wrap)
    env.update_running_mean = False
    results = play(env, [action] * 6, seed=0)
    assert env.get_state()["count"] == [1e-4] * 3
    # The prior: a mean of zero and a variance of one.
    if "Reward" in wrap.__name__:
        assert np.max(results[1][1]) == pytest.approx(1.0)
    else:
        assert np.ravel(results[1][0])[0] == pytest.approx(1.0)
    env.update_running_mean = True
    play(env, [action], seed=0)
    assert max(env.get_state()["count"]) > 1


@both_forms
def test_a_state_goes_through_json_and_goes_on(wrap):
    (env, action), (other, _) = made(wrap), made(wrap)
    play(env, [action] * 3, seed=0)
    other.set_state(json.loads(json.dumps(env.get_state())))
    assert other.get_state() == env.get_state()
    a, b = (play(e, [action] * 3, seed=0) for e in (env, other))
    assert equal(a, b)


@pytest.mark.parametrize(("one", "many"), list(zip(SINGLE, VECTOR, strict=True)))
def test_statistics_move_between_the_forms(one, many):
    envs, actions = made(many)
    play(envs, [actions] * 6, seed=0)
    env = one(makers()[1](), 3)
    env.set_state(envs.get_state())
    env.update_running_mean = envs.update_running_mean = False
    env.reset()
    envs.reset()
    (obs, reward, *_), (batch, rewards, *_) = env.step(0), envs.step(actions)
    assert (obs.tolist(), reward) == (batch[1].tolist(), rewards[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "else"}, "with kind '(reward|observation)', got 'else'"),
        ({"num_tasks": 4}, "with num_tasks 3, got 4"),
        ({"task_names": ["a", "c"]}, r"tasks \['a', 'b', 'c'\], got those of \['a', 'c'\]"),
        ({"mean": [0.0]}, r"expected mean of shape \(3,.* in the statistics, got one of shape \(1"),
        ({"m2": None}, r"expected m2 of shape \(3,"),
        ({"count": [[1.0], "x"]}, r"expected count of shape \(3,\)"),
    ],
)
@single
def test_statistics_of_something_else_are_refused_and_change_nothing(wrap, change, message):
    env, action = made(wrap)
    play(env, [action], seed=0)
    state = env.get_state()
    with pytest.raises(ValueError, match=message):
        env.set_state({**state, "count": [5.0] * 3, **change})
    assert env.get_state() == state


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@single
def test_a_copy_goes_on_by_itself(wrap, clone):
    env, _ = made(wrap)
    play(env, [0], seed=0, options={"task_state": 1})
    other = clone(env)
    assert equal(other.step(0), env.step(0))
    state = env.get_state()
    other.step(0)
    assert env.get_state() == state != other.get_state()


def test_the_number_of_tasks_and_their_names_are_the_environments():
    assert made(NormalizeRewardPerTask)[0].get_state()["task_names"] == ["a", "b", "c"]
    onehot = NormalizeRewardPerTask(TaskOnehotWrapper(CountingEnv(), 1, 4))
    assert onehot.get_state()["num_tasks"] == 4
    unnamed = NormalizeRewardPerTask(FlattenMTEnv(MultiEnvWrapper(counting_makers(2))))
    assert unnamed.get_state()["num_tasks"] == 2
    named = NormalizeRewardPerTask(TaskNameWrapper(CountingEnv(), task_id=2), num_tasks=3)
    play(named, [0])
    assert named.get_state()["count"] == pytest.approx([1e-4, 1e-4, 1.0001])


@pytest.mark.parametrize(
    ("env", "num_tasks", "message"),
    [
        (TaskNameWrapper(CountingEnv(), task_id=1), None, r"in \[0, 0\].* with task_id 1; pass"),
        (TaskNameWrapper(CountingEnv(), task_id=-1), None, r"in \[0, 0\].* with task_id -1; pass"),
        (CountingEnv(), 2, r"in \[0, 1\].* with no task_id; .*TaskNameWrapper"),
    ],
)
def test_a_task_id_that_is_no_task_is_refused(env, num_tasks, message):
    env = NormalizeRewardPerTask(env, num_tasks)
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(0)


@pytest.mark.parametrize("wrap", VECTOR)
def test_a_task_id_of_a_vector_that_is_no_task_is_refused(wrap):
    envs = wrap(MetaIterativeEnvExecutor(makers(), 3), 2)
    with pytest.raises(ValueError, match=r"in \[0, 1\], got 2 from environment 2; pass num_tasks="):
        envs.reset()


@pytest.mark.parametrize(
    ("wraps", "kwargs", "message"),
    [
        (SINGLE + VECTOR, {"num_tasks": 0}, "num_tasks must be a positive integer, got 0"),
        (SINGLE + VECTOR, {"epsilon": 0.0}, "epsilon must be above zero and finite, got 0.0"),
        (SINGLE + VECTOR, {"epsilon": math.nan}, "epsilon must be above zero and finite, got nan"),
        ((SINGLE[0], VECTOR[0]), {"gamma": 1.1}, "gamma must be in"),
        ((SINGLE[0], VECTOR[0]), {"gamma": -0.1}, "gamma must be in"),
        ((SINGLE[1], VECTOR[1]), {"num_leading": 0}, "num_leading must be a positive integer"),
        ((SINGLE[1], VECTOR[1]), {"num_leading": 3}, r"num_leading must be in \[1, 2\], got 3"),
        ((SINGLE[1], VECTOR[1]), {"num_leading": 1.5}, "num_leading must be a positive integer"),
        ((SINGLE[1], VECTOR[1]), {"num_leading": True}, "num_leading must be a positive integer"),
    ],
)
def test_a_number_out_of_range_is_refused(wraps, kwargs, message):
    for wrap in wraps:
        env = CountingEnv() if wrap in SINGLE else MetaIterativeEnvExecutor(CountingEnv, 2)
        with pytest.raises(ValueError, match=message):
            wrap(env, **kwargs)


def test_observations_that_are_no_vector_of_floats_are_refused():
    whole = CountingEnv(dtype=np.int64)
    with pytest.raises(TypeError, match="must be a 1-D Box"):
        NormalizeObservationPerTask(MultiEnvWrapper(counting_makers(2)))
    with pytest.raises(TypeError, match="dtype int64 cannot be normalized"):
        NormalizeObservationPerTask(whole)
    with pytest.raises(TypeError, match="dtype int64 cannot be normalized"):
        VectorNormalizeObservationPerTask(MetaIterativeEnvExecutor(lambda: whole, 1))


@pytest.mark.parametrize(
    ("wrap", "kwargs"),
    [
        (NormalizeRewardPerTask, {"num_tasks": np.int64(1), "gamma": 0.5}),
        (NormalizeObservationPerTask, {"num_leading": np.int64(1)}),
    ],
)
def test_it_keeps_gymnasiums_contract_and_its_spec_goes_through_json(wrap, kwargs):
    env = wrap(gymnasium.make("tests/Short-v0"), **kwargs)
    env.update_running_mean = False  # else what was seen before matters, as in Gymnasium's
    warned = check_env_warnings(env, skip_render_check=True)
    assert [w for w in warned if "infinity" not in w] == []
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, wrap)
    fresh = wrap(gymnasium.make("tests/Short-v0"), **kwargs)
    assert equal(play(again, [0, 1], seed=5), play(fresh, [0, 1], seed=5))
