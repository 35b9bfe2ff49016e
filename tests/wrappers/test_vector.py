"""The additions of `MetaVectorWrapper` to the executor that it forwards to."""

import signal
from contextlib import closing

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

import mtwrappers as mt
from mtwrappers.wrappers.vector import MetaVectorWrapper
from tests.fakes import counting_makers, equal
from tests.vector.fakes import HalfReward, all_modes, both_executors
from tests.wrappers.fakes import tasked_makers


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
    with (
        closing(executor(makers, 2)) as inner,
        closing(executor(makers, 2)) as undisturbed,
    ):
        envs = HalfReward(InterruptedOnce(inner))
        envs.reset(seed=0)
        with pytest.raises(KeyboardInterrupt):
            envs.step([0, 0])
        with pytest.raises(ResetNeeded):
            envs.step([0, 0])
        assert equal(envs.reset(seed=1), undisturbed.reset(seed=1))
        for expected_rewards in ([0.5, 0.5], [1.0, 1.0], [1.5, 1.5]):
            obs, rewards, *ends_and_infos = envs.step([0, 0])
            assert rewards.tolist() == expected_rewards
            assert equal((obs, 2 * rewards, *ends_and_infos), undisturbed.step([0, 0]))


# Pauses.


@both_executors
@all_modes
@pytest.mark.slow_but("iterative", "NextStep-parallel")
def test_a_paused_environment_counts_nowhere(executor, mode):
    def step_in_turns(turns):
        """Makes twelve steps of each environment, which take turns; returns them and states."""
        inner = executor(tasked_makers(), 3, autoreset_mode=mode)
        rewards = mt.VectorNormalizeRewardPerTask(inner, 3)
        observations = mt.VectorNormalizeObservationPerTask(rewards, 3)
        with closing(mt.VectorRL2Observation(observations)) as envs:
            envs.reset(seed=0)
            histories, ended = [[], [], []], np.zeros(3, np.bool_)
            for action in [0, 1, 1] * 4:
                if mode is AutoresetMode.DISABLED and ended.any():
                    envs.reset(options={"reset_mask": ended})
                for rows in turns:
                    envs.unwrapped.pause(~np.isin(np.arange(3), rows))
                    obs, step_rewards, terminated, truncated, _ = envs.step([action] * 3)
                    ended[rows] = (terminated | truncated)[rows]
                    for i in rows:
                        histories[i].append((obs[i].tolist(), step_rewards[i], ended[i]))
            return histories, [observations.get_state(), rewards.get_state()]

    together, in_turns = step_in_turns([[0, 1, 2]]), step_in_turns([[1], [0, 2]])
    assert len(together[0][2]) == 12
    assert equal(together, in_turns)


# No autoreset.


def wrap_all(envs):
    rewards = mt.VectorNormalizeRewardPerTask(envs, 3)
    observations = mt.VectorNormalizeObservationPerTask(rewards, 3)
    memory = mt.VectorRL2Observation(observations)
    return memory, (rewards, observations, memory)


@both_executors
@all_modes
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.slow_but("True-iterative", "SameStep-parallel")
def test_without_autoreset_wrappers_return_the_same_as_in_the_mode_disabled(executor, mode, inside):
    with (
        closing(executor(tasked_makers(moves=True), 3, autoreset_mode=mode)) as inner,
        closing(executor(tasked_makers(moves=True), 3, autoreset_mode="Disabled")) as disabled,
    ):
        envs, wrappers = wrap_all(inner)
        oracle, oracle_wrappers = wrap_all(disabled)
        with (inner if inside else envs).without_autoreset():
            assert equal(envs.reset(seed=0), oracle.reset(seed=0))
            assert equal(envs.step([1, 0, 1]), oracle.step([1, 0, 1]))
            ended = envs.step([0, 1, 1])
            assert equal(ended, oracle.step([0, 1, 1]))
            assert ended[2].tolist() == [True, False, False]
            mask = {"reset_mask": ended[2]}
            assert equal(envs.reset(options=mask), oracle.reset(options=mask))
            assert equal(envs.step([1, 0, 1]), oracle.step([1, 0, 1]))
        for wrapper, oracle_wrapper in zip(wrappers, oracle_wrappers, strict=True):
            assert equal(wrapper.get_state(), oracle_wrapper.get_state())


@both_executors
def test_a_wrapper_forwards_the_methods_of_our_vector_environments(executor):
    with closing(HalfReward(executor(tasked_makers(), 3, autoreset_mode="NextStep"))) as envs:
        envs.reset(seed=0)
        envs.pause(np.array([False, True, False]))
        envs.step([0, 0, 0])
        assert envs.stepped.tolist() == [True, False, True]
        envs.step([0, 0, 0])
        envs.step([0, 0, 0])
        assert envs.restarted.tolist() == [True, False, False]
        assert envs.call_some([2, 1], "get_wrapper_attr", "steps") == [3, 0]
