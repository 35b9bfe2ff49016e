"""The additions of `MetaVectorWrapper` to the executor that it forwards to."""

import signal
from contextlib import closing

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ResetNeeded
from gymnasium.vector import VectorEnv

from mtwrappers.wrappers.vector import MetaVectorWrapper
from tests.fakes import counting_makers, equal
from tests.vector.fakes import HalfReward, both_executors


class InterruptedOnce(MetaVectorWrapper):
    """Is interrupted as by Ctrl-C between the two halves of its first step."""

    interrupted = False

    def step_async(self, actions):
        super().step_async(actions)
        if not self.interrupted:
            self.interrupted = True
            signal.raise_signal(signal.SIGINT)


@both_executors
def test_after_an_interrupt_between_the_halves_of_a_step_a_reset_is_all_that_is_due(executor):
    makers = counting_makers(2, length=3)
    with closing(executor(makers, 2)) as inner, closing(executor(makers, 2)) as undisturbed:
        envs = HalfReward(InterruptedOnce(inner))
        envs.reset(seed=0)
        with pytest.raises(KeyboardInterrupt):
            envs.step([0, 0])
        with pytest.raises(ResetNeeded):
            envs.step([0, 0])
        assert equal(envs.reset(seed=1), undisturbed.reset(seed=1))
        for rewards in ([0.5, 0.5], [1.0, 1.0], [1.5, 1.5]):
            obs, halves, *rest = envs.step([0, 0])
            assert halves.tolist() == rewards
            assert equal((obs, 2 * halves, *rest), undisturbed.step([0, 0]))


@both_executors
def test_a_step_during_another_is_refused_and_leaves_that_one_under_way(executor):
    with closing(HalfReward(executor(counting_makers(2), 2))) as envs:
        envs.reset(seed=0)
        envs.step_async([0, 0])
        with pytest.raises(AlreadyPendingCallError, match="call step_wait"):
            envs.step([0, 0])
        assert np.array_equal(envs.step_wait()[1], [0.5, 0.5])


class Lookalike(VectorEnv):
    """Has the methods that a wrapper needs, and is none of our vector environments."""

    num_envs, meta_batch_size, envs_per_task = 2, 2, 1

    def step_async(self, actions): ...

    def step_wait(self):
        return np.zeros(2), np.ones(2), np.zeros(2, bool), np.zeros(2, bool), {}

    def call(self, name): ...

    def set_tasks(self, tasks): ...


def test_whatever_has_the_methods_of_an_executor_can_be_wrapped_and_stepped():
    assert HalfReward(Lookalike()).step([0, 0])[1].tolist() == [0.5, 0.5]
