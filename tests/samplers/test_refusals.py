"""Odd uses of samplers: what was expected and what came."""

from functools import partial

import numpy as np
from gymnasium.error import ClosedEnvironmentError

import mtwrappers
from tests.fakes import CountingEnv
from tests.refusals import NAN, assert_refused, closed, make, make_vec, refusal, refusals


def sampler(env=mtwrappers.PointGoalEnv, policy=np.negative, **kwargs):
    """Two rollouts of at most five steps in each of two tasks."""
    sizes = {"rollouts_per_meta_task": 2, "meta_batch_size": 2, "max_path_length": 5}
    return mtwrappers.MetaSampler(env, policy, **{**sizes, **kwargs})


POLICY = (
    "a policy takes the observations and, by name, any of ['rng', 'task_names', 'descriptions', "
    "'due'], got function <function ..."
)


ORDER = "MetaSampler takes the environment, or what makes it without arguments, before the policy"


class WithInfos:
    """Returns agent infos that are an array."""

    def get_actions(self, observations):
        return np.zeros(observations.shape), np.zeros((2, 2))


def restored(saved, loaded):
    """Loads the state of a sampler in another one."""
    loaded.set_state(saved.get_state())


@refusals(
    refusal(
        lambda: sampler(np.cos, mtwrappers.PointGoalEnv()),
        TypeError,
        f"{ORDER}: MetaSampler(env, policy, ...); got ufunc <ufunc 'cos'> as env and PointGoalEnv",
    ),
    refusal(lambda: sampler(lambda obs: obs, partial(make, "PointGoal")), TypeError, ORDER),
    refusal(lambda: sampler(WithInfos(), partial(make, "PointGoal")), TypeError, ORDER),
    refusal(lambda: sampler(np.cos, mtwrappers.PointGoalEnv), TypeError, ORDER),
    refusal(
        lambda: mtwrappers.Sampler(lambda obs: obs, mtwrappers.PointGoalEnv(), 1, 5),
        TypeError,
        "Sampler takes the environment, ...before the policy: Sampler(env, policy, ...); got",
    ),
    refusal(
        lambda: sampler([mtwrappers.PointGoalEnv] * 2, WithInfos()).obtain_samples(),
        TypeError,
        "agent_infos must be a dict of arrays (2, 2, ...), such as {'mean': means}, or such dicts "
        "in lists, and {} or None if there are none, got ndarray array([[0.",
    ),
    refusal(
        lambda: restored(sampler(), sampler(rollouts_per_meta_task=4)),
        ValueError,
        "expected a state with 4 environments per task, got 2: pass envs_per_task=2, or "
        "rollouts_per_meta_task=2, its default",
    ),
    refusal(
        lambda: sampler(policy=lambda obs, state: obs),
        TypeError,
        f"{POLICY} that also needs ['state']; functools.partial sets",
    ),
    refusal(
        lambda: sampler(policy=lambda obs, *, names: obs),
        TypeError,
        f"{POLICY} that also needs ['names']; functools.partial sets",
    ),
    refusal(lambda: sampler(policy=lambda: 0), TypeError, f"{POLICY} that takes nothing; "),
    refusal(
        lambda: mtwrappers.Sampler(CountingEnv, np.negative, 1, 5),
        TypeError,
        "env must be a gymnasium.Env, got <class ...>: call it, and pass the environment that",
    ),
    refusal(
        lambda: sampler(envs_per_task=3),
        ValueError,
        "envs_per_task=3 is more than rollouts_per_meta_task=2",
    ),
    refusal(
        lambda: sampler(parallel=True, execution="ray"),
        ValueError,
        "parallel=True means ...got execution='ray'",
    ),
    refusal(
        lambda: sampler(log_sink="stdout"),
        TypeError,
        "a log sink must be a callable (key, value) ...got 'stdout'",
    ),
    refusal(
        lambda: sampler(nope=1),
        TypeError,
        "MetaSampler got an unexpected keyword argument 'nope': it takes",
    ),
    refusal(
        lambda: sampler(autoreset_mode="NextStep"),
        TypeError,
        "MetaSampler got ...mode': it resets environments",
    ),
    refusal(
        lambda: sampler(sed=0),
        TypeError,
        "MetaSampler got an unexpected keyword argument 'sed': did you mean 'seed'?",
    ),
    refusal(
        lambda: mtwrappers.MetaSampler(num_envs=3),
        TypeError,
        "MetaSampler got ...'num_envs': it makes envs_per_task environments for each of meta_batch",
    ),
    refusal(
        lambda: mtwrappers.MetaSampler(mtwrappers.PointGoalEnv, np.negative, 2),
        TypeError,
        "MetaSampler needs meta_batch_size, max_path_length",
    ),
    refusal(
        lambda: sampler(make_vec("PointGoal", num_envs=2)),
        TypeError,
        "expected a constructor, ...got MetaIter..., a vector environment: pass a function that",
    ),
    refusal(
        lambda: sampler().update_tasks(4),
        ValueError,
        "expected a list of 2 tasks, one for each group of 2 environments, got 4",
    ),
    refusal(
        lambda: sampler(partial(make, "MultiEnv"), lambda obs: [0] * len(obs)).update_tasks(),
        TypeError,
        "... has no sample_tasks(n); give update_tasks the tasks, which are task states, such as "
        "[0, 1]",
    ),
    refusal(
        lambda: sampler(env=CountingEnv).update_tasks(),
        TypeError,
        "<CountingEnv instance> has no sample_tasks(n);",
    ),
    refusal(
        lambda: sampler([mtwrappers.PointGoalEnv] * 2, lambda o: o * NAN).obtain_samples(),
        ValueError,
        "actions of environments [0, 1, 2,",
    ),
    refusal(
        lambda: closed(sampler(meta_batch_size=1)).obtain_samples(),
        ClosedEnvironmentError,
        "MetaIterativeEnvExecutor was",
    ),
)
def test_odd_uses_say_what_was_expected_and_what_came(call, error, message):
    assert_refused(call, error, message)
