"""Workers killed at random moments change nothing that anybody sees."""

from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest

import mtwrappers as mt
from tests.fakes import CountingSetTaskEnv, equal
from tests.vector import faults
from tests.vector.fakes import KINDS, kinds_and_modes
from tests.vector.processes import (
    MANY,
    RECOVER,
    needs_proc,
    nothing_left_behind,
    run_until_killed,
)

pytestmark = [needs_proc, faults.loses_workers]


def run_steps(envs, t, steps=40):
    """Returns the results of a reset and some steps.

    For every fourth ``t``, environments with workers are also built anew in mid-episode, which
    changes nothing either.
    """

    def before_step(step):
        if step == 15 and t % 4 == 3 and hasattr(envs, "worker_pids"):
            envs.set_state(envs.get_state())

    envs.action_space.seed(t)
    actions = [envs.action_space.sample() for _ in range(steps)]
    return [envs.reset(seed=None if t % 3 else t), *faults.run_steps(envs, actions, before_step)]


@kinds_and_modes
@pytest.mark.slow_but("nested", "cartpole")
def test_kills_at_random_moments_change_nothing(kind, mode):
    makers = KINDS[kind]
    with nothing_left_behind():
        envs = mt.MetaParallelEnvExecutor(makers, len(makers), autoreset_mode=mode, **RECOVER)
        results = run_until_killed(envs, 8 * MANY, partial(run_steps, envs))
        envs.close()
        del envs
    with closing(mt.MetaIterativeEnvExecutor(makers, len(makers), autoreset_mode=mode)) as oracle:
        for t, result in enumerate(results):
            assert equal(result, run_steps(oracle, t)), t


class RandomLengthEnv(CountingSetTaskEnv):
    """Counts from where its task says, for a random number of steps."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self.length = int(self.np_random.integers(1, 30))
        return result


class CoinPolicy:
    """A random policy."""

    def get_actions(self, observations, rng):
        return np.array([[env_rng.integers(2) for env_rng in task_rngs] for task_rngs in rng]), {}

    def for_tasks(self, indices):
        return self


@pytest.mark.parametrize("policy_in", ["parent", "workers"])
@pytest.mark.slow_but("workers")
def test_a_meta_sampler_collects_the_same_paths_through_kills(policy_in):
    def sample(sampler, _):
        return sampler.update_tasks(), sampler.obtain_samples()

    make = partial(
        mt.MetaSampler,
        RandomLengthEnv,
        CoinPolicy(),
        rollouts_per_meta_task=3,
        meta_batch_size=4,
        max_path_length=20,
        envs_per_task=2,
        seed=1,
    )
    with closing(make(parallel=True, policy_in=policy_in, **RECOVER)) as sampler:
        results = run_until_killed(sampler.envs, 3 * MANY, partial(sample, sampler))
    with closing(make()) as sampler:
        for t, result in enumerate(results):
            assert equal(result, sample(sampler, t)), t


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
@pytest.mark.slow_but("NextStep")
def test_an_evaluation_finds_the_same_through_kills(mode):
    make = partial(gymnasium.make_vec, "mtwrappers/PointGoal-v0", num_envs=4, autoreset_mode=mode)

    def assess(envs, t):
        policy = partial(np.multiply, -0.1)
        result = mt.evaluate(policy, envs, 2, seed=t).to_dict()
        del result["environments"]  # which has the arguments of these executors
        return result

    with closing(make(**RECOVER)) as envs:
        results = run_until_killed(envs, 2 * MANY, partial(assess, envs))
    with closing(make()) as oracle:
        for t, result in enumerate(results):
            assert result == assess(oracle, t), t
