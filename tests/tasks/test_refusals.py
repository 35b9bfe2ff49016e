"""Odd uses of task samplers and updates: what was expected and what came."""

import gymnasium

from mtwrappers import EnvPoolSampler, NewEnvUpdate, PointGoalEnv, SetTaskSampler, SetTaskUpdate
from tests.fakes import CountingEnv
from tests.refusals import assert_refused, refusal, refusals

ENV = CountingEnv()


class UncopyableEnv(CountingEnv):
    def __deepcopy__(self, memo):
        raise RuntimeError("it holds a socket")


def env_pool():
    """A pool of one environment."""
    return EnvPoolSampler([CountingEnv()])


@refusals(
    refusal(
        lambda: env_pool().sample(2),
        ValueError,
        "the pool holds 1 environments, got n_tasks=2; grow_pool(2)",
    ),
    refusal(
        lambda: env_pool().sample(1, True),
        ValueError,
        "a pool of environments cannot be sampled with replacement",
    ),
    refusal(
        lambda: EnvPoolSampler([UncopyableEnv()]).grow_pool(2),
        TypeError,
        "cannot copy ...Uncopyable...it holds",
    ),
    refusal(
        lambda: EnvPoolSampler([gymnasium.Wrapper(ENV), gymnasium.Wrapper(ENV)]),
        ValueError,
        "environments 0 and 1 of envs are the same environment",
    ),
    refusal(
        lambda: env_pool().set_state({}),
        ValueError,
        "expected ['rng'] of EnvPoolSampler, got []",
    ),
    refusal(
        lambda: env_pool().set_state({"rng": {}}),
        ValueError,
        "rng of the state must have the state of a generator",
    ),
    refusal(
        lambda: SetTaskSampler(PointGoalEnv).set_state(env_pool().get_state()),
        ValueError,
        "expected ['env', 'rng'] of SetTaskSampler, got ['rng']",
    ),
    refusal(
        lambda: SetTaskSampler(CountingEnv),
        TypeError,
        "<CountingEnv instance> has no sample_tasks(n)",
    ),
    refusal(
        lambda: NewEnvUpdate(lambda: None)(),
        TypeError,
        "what env_constructor makes must be a ...got None",
    ),
    refusal(
        lambda: SetTaskUpdate(CountingEnv, 1)(),
        TypeError,
        "<CountingEnv instance> has no set_task(task)",
    ),
    refusal(
        lambda: SetTaskUpdate(PointGoalEnv, {"goal": (0, 1)}, dict)(),
        TypeError,
        "in wrapper(env, task), which",
    ),
)
def test_odd_uses_say_what_was_expected_and_what_came(call, error, message):
    assert_refused(call, error, message)
