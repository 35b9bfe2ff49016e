import copy
import json
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from mtwrappers import FlattenMTEnv, MultiEnvWrapper, NormalizeObservationPerTask, TaskOnehotWrapper
from tests.fakes import CountingEnv, check_env_warnings, counting_makers, equal, play


def two_tasks(dtype=np.float64, **kwargs):
    makers = counting_makers(2, length=9, dtype=dtype)
    return NormalizeObservationPerTask(FlattenMTEnv(MultiEnvWrapper(makers)), **kwargs)


def observations(env, n=4, **reset):
    return np.array([result[0] for result in play(env, [0] * n, **reset)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_gymnasiums_for_each_task_and_leaves_the_onehot_alone(dtype):
    env = two_tasks(dtype)
    for task in (0, 1):
        plain = CountingEnv(9, first=100 * task)  # in float64, as the statistics are
        theirs = gymnasium.wrappers.NormalizeObservation(plain)
        theirs.obs_rms = gymnasium.wrappers.utils.RunningMeanStd(shape=(2,), dtype=np.float64)
        ours = observations(env, options={"task_state": task})
        assert ours.dtype == dtype
        assert ours[:, :2] == pytest.approx(observations(theirs), rel=1e-5, abs=1e-6)
        assert ours[:, 2:].tolist() == [np.eye(2)[task].tolist()] * 5


def test_statistics_are_those_of_all_observations_resets_included():
    env = two_tasks()
    for _ in range(2):
        observations(env, 3, options={"task_state": 1})
    state = env.get_state()
    assert state["count"] == pytest.approx([1e-4, 8.0001])
    assert state["mean"][0] == [0, 0]
    assert state["mean"][1] == pytest.approx([101.5, 101.5], rel=1e-4)
    assert state["m2"][1][0] / 8 == pytest.approx(1.25, rel=0.2)


def test_the_space_has_no_bounds_but_those_of_the_tail_and_every_observation_is_in_it():
    env = two_tasks(np.float32)
    space = env.observation_space
    assert space.low.tolist() == [-np.inf, -np.inf, 0, 0]
    assert space.high.tolist() == [np.inf, np.inf, 1, 1]
    assert space.dtype == np.float32
    for obs in (r[0] for r in play(env, [0] * 4, options={"task_state": 1})):
        assert obs in space


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
    plain = [r[0] for r in play(copy.deepcopy(env), [0] * 3)]
    ours = [r[0] for r in play(NormalizeObservationPerTask(env, **kwargs), [0] * 3)]
    assert (np.array(plain) != np.array(ours)).any(axis=0).tolist() == changed


def test_a_frozen_wrapper_normalizes_and_learns_nothing():
    env = two_tasks()
    observations(env, options={"task_state": 1})
    env.update_running_mean = False
    state = env.get_state()
    mean = state["mean"][1][0]
    deviation = np.sqrt(state["m2"][1][0] / state["count"][1] + 1e-8)
    frozen = observations(env, 2, options={"task_state": 1})[:, 0]
    assert frozen == pytest.approx((np.array([100.0, 101, 102]) - mean) / deviation)
    assert env.get_state() == state


def test_an_observation_belongs_to_the_caller():
    env = two_tasks()
    first, *_ = env.reset(seed=0)
    kept = first.copy()
    env.step(0)
    assert first.tolist() == kept.tolist()
    before = env.get_state()
    env.step(0)[0][:] = 77
    assert before["mean"] != env.get_state()["mean"] != [[77, 77], [77, 77]]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_goes_on_by_itself(clone):
    env = two_tasks()
    observations(env, seed=0, options={"task_state": 1})
    other = clone(env)
    assert equal(other.step(0), env.step(0))
    state = env.get_state()
    other.step(0)
    assert env.get_state() == state
    assert other.get_state()["mean"] != state["mean"]


def test_a_state_goes_through_json_and_goes_on():
    env, other = two_tasks(), two_tasks()
    observations(env, options={"task_state": 1})
    other.set_state(json.loads(json.dumps(env.get_state())))
    a, b = (observations(e, options={"task_state": 1}) for e in (env, other))
    assert a.tolist() == b.tolist()
    with pytest.raises(ValueError, match=r"expected mean of shape \(2, 1\).*got one of.*\(2, 2\)"):
        two_tasks(num_leading=1).set_state(env.get_state())


@pytest.mark.parametrize("given", [0, 5, 1.5, True])
def test_a_number_of_entries_that_there_are_not_is_refused(given):
    with pytest.raises(ValueError, match=r"num_leading must be (a positive integer|in \[1, 4\])"):
        two_tasks(num_leading=given)


def test_other_observations_are_refused():
    with pytest.raises(TypeError, match="must be a 1-D Box"):
        NormalizeObservationPerTask(MultiEnvWrapper(counting_makers(2)))
    with pytest.raises(TypeError, match="dtype int64 cannot be normalized"):
        NormalizeObservationPerTask(CountingEnv(dtype=np.int64))
    with pytest.raises(ValueError, match="epsilon must be above zero, got 0"):
        NormalizeObservationPerTask(CountingEnv(), epsilon=0)


def test_it_keeps_gymnasiums_contract_but_for_its_memory_and_its_spec_goes_through_json():
    env = NormalizeObservationPerTask(gymnasium.make("tests/Short-v0"), num_leading=np.int64(1))
    env.update_running_mean = False  # else what was seen before matters, as in Gymnasium's
    warned = check_env_warnings(env, skip_render_check=True)
    assert [w for w in warned if "infinity" not in w] == []
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, NormalizeObservationPerTask)
    assert again.observation_space == env.observation_space
