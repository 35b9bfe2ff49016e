import pickle

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mtwrappers import TaskNameWrapper, TaskOnehotWrapper
from tests.fakes import CountingEnv, counting_makers, equal, play, run_python

DTYPES = ["float32", "float64", "uint8"]


@pytest.fixture
def env():
    return TaskOnehotWrapper(CountingEnv(), 1, 3)


# Observations.


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_onehot_follows_the_observation_in_its_dtype(dtype):
    env = TaskOnehotWrapper(CountingEnv(low=2, high=9, first=5, dtype=dtype), 1, 3)
    dtype = np.dtype(dtype)
    low, high = np.array([2, 2, 0, 0, 0], dtype), np.array([9, 9, 1, 1, 1], dtype)
    assert env.observation_space == Box(low, high, dtype=dtype.type)
    obs, _ = env.reset(seed=0)
    assert equal(obs, np.array([5, 5, 0, 1, 0], dtype))
    obs, *_ = env.step(0)
    assert equal(obs, np.array([6, 6, 0, 1, 0], dtype))


def test_the_rest_of_a_step_is_that_of_the_environment(env):
    _, info = env.reset(seed=0)
    draw = info["draw"]
    assert info == {"steps": 0, "draw": draw, "task_id": 1}
    assert [env.step(0)[1:] for _ in range(3)] == [
        (1.0, False, False, {"steps": 1, "draw": draw, "task_id": 1}),
        (2.0, False, False, {"steps": 2, "draw": draw, "task_id": 1}),
        (3.0, True, False, {"steps": 3, "draw": draw, "task_id": 1}),
    ]
    assert env.action_space == Discrete(2)


class BufferedEnv(CountingEnv):
    """Hands out one buffer again and again."""

    def _obs(self):
        self.buffer = getattr(self, "buffer", np.zeros(2))
        self.buffer[:] = self.steps
        return self.buffer

    def _info(self):
        self.shared = getattr(self, "shared", {})
        return self.shared


def test_nothing_is_handed_out_twice_even_if_the_environment_does():
    env = TaskOnehotWrapper(BufferedEnv(), 0, 2)
    (first, first_info), (second, *_, second_info), (third, *_) = play(env, [0, 0])
    assert [first.tolist(), second.tolist(), third.tolist()] == [
        [0, 0, 1, 0],
        [1, 1, 1, 0],
        [2, 2, 1, 0],
    ]
    assert not np.shares_memory(first, second)
    assert not np.shares_memory(second, third)
    assert first_info is not second_info
    assert env.unwrapped.shared == {}
    (*_, first_info), (*_, second_info) = play(TaskNameWrapper(env.unwrapped, task_id=0), [0])
    first_info["task_id"] = 7
    assert second_info == {"task_id": 0}
    assert env.unwrapped.shared == {}


# Lists of environments.


def test_each_environment_of_a_list_gets_the_onehot_of_its_place():
    envs = [CountingEnv(first=first) for first in (10, 20, 30)]
    wrapped = TaskOnehotWrapper.wrap_env_list(envs)
    assert [env.reset()[0].tolist() for env in wrapped] == [
        [10, 10, 1, 0, 0],
        [20, 20, 0, 1, 0],
        [30, 30, 0, 0, 1],
    ]
    assert [env.env for env in wrapped] == envs


def test_wrapping_constructors_calls_none_of_them():
    def fail():
        raise OSError("it was called")

    (make,) = TaskOnehotWrapper.wrap_env_cons_list([fail])
    with pytest.raises(OSError, match="it was called"):
        make()


def test_wrapped_constructors_pickle_with_plain_pickle_and_work_in_another_process():
    makers = TaskOnehotWrapper.wrap_env_cons_list(counting_makers(3))
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        copies = pickle.loads(pickle.dumps(makers, protocol))
        for make, copied in zip(makers, copies, strict=True):
            assert equal(play(copied(), [0, 1], seed=5), play(make(), [0, 1], seed=5))
    assert [make().reset()[0].tolist() for make in makers] == [
        [0, 0, 1, 0, 0],
        [100, 100, 0, 1, 0],
        [200, 200, 0, 0, 1],
    ]
    code = f"import pickle; print(pickle.loads({pickle.dumps(makers[2])!r})().reset()[0].tolist())"
    assert run_python(code) == "[200.0, 200.0, 0.0, 0.0, 1.0]"


class LoudOnehotWrapper(TaskOnehotWrapper):
    pass


def test_a_subclass_wraps_with_itself():
    (env,) = LoudOnehotWrapper.wrap_env_list([CountingEnv()])
    (make,) = LoudOnehotWrapper.wrap_env_cons_list([CountingEnv])
    assert type(env) is LoudOnehotWrapper
    assert type(pickle.loads(pickle.dumps(make))()) is LoudOnehotWrapper
