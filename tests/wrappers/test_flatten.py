"""The flat view of a multi-task environment; see also ``test_single.py``."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import FlattenObservation

from mtwrappers import EnvToMTEnv, FlattenMTEnv, MultiEnvWrapper, TaskOnehotWrapper
from tests.fakes import CountingEnv, counting_makers, equal, play


def observing(space, task, dtype):
    """An environment of one task, which is observed in a space of its own."""
    return EnvToMTEnv(
        CountingEnv(high=100, first=5, dtype=dtype),
        [task],
        lambda env, task: None,
        task_obs=lambda task: task,
        task_observation_space=space,
    )


def test_the_task_becomes_a_onehot_behind_the_observation_or_is_left_out():
    env, plain = (FlattenMTEnv(MultiEnvWrapper(counting_makers(3)), e) for e in ("onehot", "none"))
    onehot = TaskOnehotWrapper(CountingEnv(first=200), 2, 3)
    assert env.observation_space == onehot.observation_space
    assert plain.observation_space == Box(0, 1000, (2,), np.float64)
    for state, tail in ((1, [0, 1, 0]), (2, [0, 0, 1])):
        runs = [play(each, [0], seed=0, options={"task_state": state}) for each in (env, plain)]
        for count, (flattened, hidden) in enumerate(zip(*runs, strict=True)):
            assert hidden[0].tolist() == [100 * state + count] * 2
            assert flattened[0].tolist() == [*hidden[0], *tail]
            assert equal(flattened[1:], hidden[1:])
    assert np.array_equal(flattened[0], play(onehot, [0])[1][0])


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
    flat = FlattenMTEnv(observing(space, task, dtype))
    reference = FlattenObservation(observing(space, task, dtype))
    assert np.array_equal(flat.observation_space.low, reference.observation_space.low)
    assert np.array_equal(flat.observation_space.high, reference.observation_space.high)
    returned = [play(env, [0, 1], seed=0) for env in (flat, reference)]
    for (obs, *rest), (expected, *expected_rest) in zip(*returned, strict=True):
        assert obs.dtype == np.dtype(dtype)
        assert np.array_equal(obs, expected)
        assert equal(rest, expected_rest)
