"""The flat view of a multi-task environment; see also ``test_single.py``."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import FlattenObservation

import mtwrappers as mt
from mtwrappers import EnvToMTEnv, FlattenMTEnv
from tests.fakes import CountingEnv, equal, play


def make_observed_task_env(space, task, dtype):
    """Makes an environment of one task, which it observes in this space."""
    return EnvToMTEnv(
        CountingEnv(high=100, first=5, dtype=dtype),
        [task],
        lambda env, task: None,
        task_obs=lambda task: task,
        task_observation_space=space,
    )


FLOAT_TASK = (Box(np.array([-1.0, 0]), np.array([2.0, 9]), dtype=np.float64), np.array([0.5, 7]))
INT_TASK = (Box(0, 9, (3,), np.int64), np.array([0, 9, 4]))


@pytest.mark.parametrize(
    ("space", "task", "dtype"),
    [
        (Discrete(4), 3, "float64"),
        (Discrete(4), np.int64(0), "uint8"),
        (Discrete(3, start=5), 6, "float32"),
        (*FLOAT_TASK, "float32"),
        (*FLOAT_TASK, "float64"),
        (*INT_TASK, "uint8"),
    ],
)
def test_the_numbers_are_those_of_gymnasium_in_the_dtype_of_the_environment(space, task, dtype):
    flat = FlattenMTEnv(make_observed_task_env(space, task, dtype), "onehot")
    hidden = FlattenMTEnv(make_observed_task_env(space, task, dtype), "none")
    reference = FlattenObservation(make_observed_task_env(space, task, dtype))
    assert np.array_equal(flat.observation_space.low, reference.observation_space.low)
    assert np.array_equal(flat.observation_space.high, reference.observation_space.high)
    assert hidden.observation_space == CountingEnv(high=100, dtype=dtype).observation_space
    results = [play(env, [0, 1], seed=0) for env in (flat, hidden, reference)]
    for flat_result, hidden_result, reference_result in zip(*results, strict=True):
        obs = flat_result[0]
        assert obs.dtype == np.dtype(dtype)
        assert np.array_equal(obs, reference_result[0])
        assert equal(flat_result[1:], reference_result[1:])
        assert equal(hidden_result, (obs[:2], *reference_result[1:]))


def test_observations_of_any_kind_stay_as_they_are_without_the_task():
    counting = CountingEnv(first=5)
    counting.observation_space = space = Box(0, 255, (4, 4, 3), np.uint8)
    env = FlattenMTEnv(EnvToMTEnv(counting, [0, 1], lambda env, task: None), "none")
    assert env.observation_space == space
    assert equal(env.reset()[0], np.full((4, 4, 3), 5, np.uint8))


def test_a_task_that_does_not_fit_the_dtype_of_env_obs_is_refused():
    class BytesEnv(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (2,), np.uint8)
        action_space = gymnasium.spaces.Discrete(2)

        def set_task(self, task):
            pass

    env = mt.EnvToMTEnv(
        BytesEnv(),
        [0, 1],
        task_obs=lambda task: np.array([[-5], [1000]][task], np.int64),
        task_observation_space=gymnasium.spaces.Box(-5, 1000, (1,), np.int64),
    )
    with pytest.raises(TypeError, match="cannot be appended to env_obs of dtype uint8"):
        mt.FlattenMTEnv(env)
