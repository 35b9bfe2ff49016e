"""`check_meta_vector_env` finds what is wrong with executors that break the contract."""

import re
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics

from mtwrappers import MetaIterativeEnvExecutor as Base
from mtwrappers.testing import check_meta_vector_env
from tests.fakes import CountingEnv
from tests.testing.broken_executors import BROKEN, infos
from tests.vector.fakes import BoxCountingEnv

LENGTHS = (2, 3, 5, 4)
DISCRETE = [partial(CountingEnv, length, first=100 * i) for i, length in enumerate(LENGTHS)]
MAKERS = [partial(BoxCountingEnv, length, first=100 * i) for i, length in enumerate(LENGTHS)]


def check(cls, makers=MAKERS, **given):
    check_meta_vector_env(partial(make, cls), makers, **{"steps": 12, **given})


def make(cls, makers, **kwargs):
    return cls(makers, 2, 2, **kwargs)


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize(("broken", "message"), BROKEN.values(), ids=BROKEN)
def test_a_breach_is_found_and_named(broken, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        check(broken)


@pytest.mark.parametrize("makers", [MAKERS, DISCRETE], ids=["boxes", "discrete"])
def test_an_executor_that_keeps_the_contract_is_accepted_by_the_steps_that_were_asked_for(makers):
    calls = []

    class Notes(Base):
        def reset(self, **kwargs):
            calls.append(0)
            return super().reset(**kwargs)

        def step(self, actions):
            returned = super().step(actions)
            calls[-1] += 1
            return returned

    check(Base, makers)
    for steps in (2, 5):  # more than the two of the check of masks
        calls.clear()
        check(Notes, makers, seed=5, steps=steps)
        assert max(calls) == steps


class OneBufferEnv(BoxCountingEnv):
    """All environments return all observations in one array, with a number from nowhere."""

    buffer, calls = np.zeros(2), 0

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        return self.same_buffer(obs), info

    def step(self, action):
        obs, *others = super().step(action)
        return self.same_buffer(obs), *others

    def same_buffer(self, obs):
        OneBufferEnv.calls += 1
        self.buffer[:] = obs[0], self.calls % 997
        return self.buffer


def test_what_differs_in_a_buffer_that_is_used_again_is_found():
    with pytest.raises(
        AssertionError,
        match=r"SyncVectorEnv differ in mode NextStep: .*, reset\(seed=.*\), observation\[",
    ):
        check(Base, [OneBufferEnv] * 4)


def test_gymnasiums_own_vector_environment_lacks_what_is_ours():
    with pytest.raises(AssertionError, match="must make a MetaVectorEnv, got SyncVectorEnv"):
        check_meta_vector_env(SyncVectorEnv, MAKERS)


def test_of_episode_statistics_all_but_the_wall_clock_is_compared():
    def lose_lengths(infos):
        if "episode" in infos:
            infos["episode"]["l"] += 1

    makers = [lambda n=n: RecordEpisodeStatistics(CountingEnv(n)) for n in (3, 4)]
    check_meta_vector_env(lambda makers, **kwargs: Base(makers, 2, **kwargs), makers, steps=9)
    lossy = infos(lose_lengths)
    with pytest.raises(
        AssertionError, match=r"in mode NextStep: .*step 2, info\['episode'\]\['l'\]"
    ):
        check_meta_vector_env(lambda m, **kwargs: lossy(m, 2, **kwargs), makers, steps=9)


def test_the_vector_environments_are_closed_after_a_breach():
    made = []

    def make_vector(makers, **kwargs):
        made.append(make(BROKEN["seeds all alike"][0], makers, **kwargs))
        return made[-1]

    with pytest.raises(AssertionError, match="and SyncVectorEnv differ"):
        check_meta_vector_env(make_vector, MAKERS)
    assert [envs.closed for envs in made] == [True]
