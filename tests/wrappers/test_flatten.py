import copy

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import FlattenObservation

from mtwrappers import EnvToMTEnv, FlattenMTEnv, MTEnv, MultiEnvWrapper, TaskOnehotWrapper
from tests.fakes import (
    CountingEnv,
    counting_makers,
    play,
)


class ShownTaskEnv(MTEnv):
    """Shows the task that it is given, in the space that it is given."""

    def __init__(self, task_space, task_obs, dtype="float64"):
        box = Box(0, 100, (2,), np.dtype(dtype).type)
        super().__init__(Discrete(2), box, task_space)
        self.task_obs = task_obs

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.count = 5
        return self.observe(self._count()), {}

    def step(self, action):
        self.count += 1
        return self.observe(self._count()), 1.0, False, False, {}

    def _count(self):
        return np.full(2, self.count, self.env_observation_space.dtype)

    def get_task_obs(self):
        return copy.copy(self.task_obs)

    def get_task_state(self):
        return self.task_obs

    def set_task_state(self, task_state):
        self.task_obs = task_state

    def sample_task_state(self):
        return self.task_observation_space.sample()


# Observations.


def test_the_task_becomes_a_onehot_behind_the_observation():
    env = FlattenMTEnv(MultiEnvWrapper(counting_makers(3)))
    low, high = np.zeros(5), np.array([1000.0, 1000, 1, 1, 1])
    assert env.observation_space == Box(low, high, dtype=np.float64)
    obs, info = env.reset(options={"task_state": 1})
    assert obs.tolist() == [100, 100, 0, 1, 0]
    assert info["task_id"] == 1
    obs, reward, terminated, truncated, info = env.step(0)
    assert obs.tolist() == [101, 101, 0, 1, 0]
    assert (reward, terminated, truncated, info["task_id"]) == (1.0, False, False, 1)
    assert env.reset(options={"task_state": 2})[0].tolist() == [200, 200, 0, 0, 1]
    onehot = TaskOnehotWrapper(CountingEnv(first=200), 2, 3)
    assert env.observation_space == onehot.observation_space
    assert np.array_equal(env.step(0)[0], play(onehot, [0])[1][0])


def test_without_an_encoding_the_task_is_left_out_and_another_is_refused():
    env = FlattenMTEnv(MultiEnvWrapper(counting_makers(3)), "none")
    assert env.observation_space == Box(0, 1000, (2,), np.float64)
    obs, info = env.reset(options={"task_state": 1})
    assert (obs.tolist(), info["task_id"]) == ([100, 100], 1)
    assert env.step(0)[0].tolist() == [101, 101]
    with pytest.raises(ValueError, match="task_encoding must be 'onehot' or 'none', got 'dict'"):
        FlattenMTEnv(MultiEnvWrapper(counting_makers(3)), "dict")


FLOAT_TASK = (Box(np.array([-1.0, 0]), np.array([2.0, 9]), dtype=np.float64), np.array([0.5, 7]))
INT_TASK = (Box(0, 9, (3,), np.int64), np.array([0, 9, 4]))


@pytest.mark.parametrize(
    ("task_space", "task_obs"),
    [(Discrete(4), 3), (Discrete(4), np.int64(0)), (Discrete(3, start=5), 6), FLOAT_TASK, INT_TASK],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_the_numbers_are_those_of_gymnasium_in_the_dtype_of_the_environment(
    task_space, task_obs, dtype
):
    if dtype == "uint8" and task_space is FLOAT_TASK[0]:
        return  # which is refused
    flat = FlattenMTEnv(ShownTaskEnv(task_space, task_obs, dtype))
    reference = FlattenObservation(ShownTaskEnv(task_space, task_obs, dtype))
    assert np.array_equal(flat.observation_space.low, reference.observation_space.low)
    assert np.array_equal(flat.observation_space.high, reference.observation_space.high)
    returned = zip(play(flat, [0, 1]), play(reference, [0, 1]), strict=True)
    for (obs, *rest), (expected, *expected_rest) in returned:
        assert obs.dtype == np.dtype(dtype)
        assert np.array_equal(obs, expected)
        assert rest == expected_rest


def test_fractions_of_a_task_are_not_cut_off_among_integers():
    env = ShownTaskEnv(Box(0, 1, (1,), np.float64), np.array([0.5]), "uint8")
    with pytest.raises((TypeError, ValueError), match="task_obs"):
        FlattenMTEnv(env)


@pytest.mark.parametrize("task", [(Discrete(4), 3), FLOAT_TASK])
@pytest.mark.parametrize("encoding", ["onehot", "none"])
def test_nothing_is_handed_out_twice(task, encoding):
    env = FlattenMTEnv(ShownTaskEnv(*task), encoding)
    first, second = (obs for obs, *_ in play(env, [0]))
    expected = second.copy()
    first[:] = 77
    assert np.array_equal(second, expected)
    env.step(0)
    assert np.array_equal(second, expected)


# What does not fit.


def test_an_environment_without_a_task_is_refused():
    with pytest.raises(TypeError, match=r"expected an MTEnv with observations {env_obs, task_obs}"):
        FlattenMTEnv(CountingEnv())


@pytest.mark.parametrize("encoding", ["onehot", "none"])
def test_an_observation_that_is_no_1d_box_is_refused(encoding):
    env = EnvToMTEnv(CountingEnv(), [0], lambda env, task: None)
    env.observation_space = Dict({"env_obs": Discrete(2), "task_obs": Discrete(2)})
    with pytest.raises(TypeError, match=r"space of env_obs must be a 1-D Box, got Discrete\(2\)"):
        FlattenMTEnv(env, encoding)


@pytest.mark.parametrize("task_space", [Box(0, 1, (2, 2)), Dict({"a": Discrete(2)})])
def test_a_task_of_another_kind_is_refused_where_it_would_be_shown(task_space):
    env = ShownTaskEnv(task_space, None)
    with pytest.raises(TypeError, match="space of task_obs must be Discrete or a 1-D Box, got "):
        FlattenMTEnv(env)
    assert FlattenMTEnv(env, "none").reset()[0].tolist() == [5, 5]
