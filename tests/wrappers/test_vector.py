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
from tests.wrappers.fakes import makers


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


# Pauses.


@both_executors
@all_modes
@pytest.mark.slow_but("iterative", "NextStep-parallel")
def test_a_paused_environment_counts_nowhere(executor, mode):
    def run(turns):
        """Twelve steps of each environment, which take turns."""
        rewards = mt.VectorNormalizeRewardPerTask(executor(makers(), 3, autoreset_mode=mode), 3)
        observations = mt.VectorNormalizeObservationPerTask(rewards, 3)
        with closing(mt.VectorRL2Observation(observations)) as envs:
            envs.reset(seed=0)
            seen, over = [[], [], []], np.zeros(3, np.bool_)
            for action in [0, 1, 1] * 4:
                if mode is AutoresetMode.DISABLED and over.any():
                    envs.reset(options={"reset_mask": over})
                for rows in turns:
                    envs.unwrapped.pause(~np.isin(np.arange(3), rows))
                    obs, paid, terminated, truncated, _ = envs.step([action] * 3)
                    over[rows] = (terminated | truncated)[rows]
                    for i in rows:
                        seen[i].append((obs[i].tolist(), paid[i], over[i]))
            return seen, [one.get_state() for one in (observations, rewards)]

    together, inturns = run([[0, 1, 2]]), run([[1], [0, 2]])
    assert len(together[0][2]) == 12
    assert equal(together, inturns)


def test_without_autoreset_is_as_in_the_mode_in_which_nothing_resets_itself():
    def run(mode):
        rewards = mt.VectorNormalizeRewardPerTask(
            mt.MetaIterativeEnvExecutor(makers(), 3, autoreset_mode=mode), 3
        )
        observations = mt.VectorNormalizeObservationPerTask(rewards, 3)
        results = []
        with closing(mt.VectorRL2Observation(observations)) as envs:
            envs.reset(seed=0)
            with envs.unwrapped.without_autoreset():
                over = np.zeros(3, np.bool_)
                for action in [0, 1, 1] * 3:
                    if over.any():
                        results.append(envs.reset(options={"reset_mask": over}))
                    results.append(envs.step([action] * 3))
                    over = results[-1][2] | results[-1][3]
                envs.reset(seed=1)
            return results, [wrapper.get_state() for wrapper in (observations, rewards)]

    results, states = run(AutoresetMode.SAME_STEP)
    assert sum(len(result) == 2 for result in results) > 2  # resets
    assert equal((results, states), run(AutoresetMode.DISABLED))
