"""Gymnasium's own tools over the executors and ids of this package: wrappers, specs, `make_vec`."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import equal
from tests.vector.fakes import BoxCountingEnv, all_modes


def drop_times(value: Any) -> Any:
    """Returns results without times, which differ, and with lists for arrays of objects."""
    if isinstance(value, dict):
        return {key: drop_times(v) for key, v in value.items() if key not in ("t", "_t")}
    if isinstance(value, (list, tuple)):
        return type(value)(drop_times(v) for v in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [drop_times(v) for v in value]
    return value


def run_steps(envs, mode):
    """Returns the results of ten steps, and of the resets that the mode asks for."""
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(10)]
    results = [drop_times(envs.reset(seed=3))]
    for action in actions:
        results.append(drop_times(envs.step(action)))
        ended = results[-1][2] | results[-1][3]
        if mode is AutoresetMode.DISABLED and ended.any():
            results.append(drop_times(envs.reset(options={"reset_mask": ended})))
    return results


def halve(x):
    return x / 2


def halve_actions(envs, wrapper_class):
    space = envs.single_action_space
    halves = Box(space.low / 2, space.high / 2, dtype=space.dtype.type)
    return wrapper_class(
        envs, wrapper=gymnasium.wrappers.TransformAction, func=halve, action_space=halves
    )


# The wrappers that remember, read infos or spaces, or look at the autoreset mode; others change an
# array by itself.
WRAPPERS: dict[str, Any] = {
    "DictInfoToList": {},
    "NormalizeObservation": {},
    "NormalizeReward": {},
    "RecordEpisodeStatistics": {},
    "RescaleAction": {"min_action": -5, "max_action": 5},
    "TransformReward": {"func": halve},
    "VectorizeTransformAction": halve_actions,
}
# Gymnasium's own limit: it refuses other modes, over its own vector environments, too.
MODES = {"NormalizeObservation": (AutoresetMode.NEXT_STEP,)}
# A server forks the workers: this process may have threads (torch's).
make_parallel = partial(MetaParallelEnvExecutor, workers=2, context="forkserver")


class OracleVectorEnv(SyncVectorEnv):
    """Gymnasium's own, which takes the mask out of the options before its wrappers read it."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=None if options is None else dict(options))


def wrap(name, envs):
    wrapper, arguments = getattr(wrappers, name), WRAPPERS[name]
    return arguments(envs, wrapper) if callable(arguments) else wrapper(envs, **arguments)


@pytest.mark.parametrize("name", WRAPPERS)
@all_modes
@pytest.mark.slow_but("SameStep")
def test_a_vector_wrapper_gives_what_it_gives_over_gymnasiums_own(name, mode):
    makers = [
        partial(BoxCountingEnv, length, truncate=i % 2 == 1, first=10 * i)
        for i, length in enumerate((2, 3, 5, 4))
    ]
    # By turns: what the executors return is equal.
    executor = (MetaIterativeEnvExecutor, make_parallel)[list(WRAPPERS).index(name) % 2]
    oracle = OracleVectorEnv(makers, autoreset_mode=mode)
    with closing(executor(makers, 2, 2, autoreset_mode=mode)) as inner_envs, closing(oracle):
        if mode not in MODES.get(name, AutoresetMode):
            for vector_envs in (inner_envs, oracle):
                with pytest.raises((AssertionError, TypeError, ValueError)):
                    run_steps(wrap(name, vector_envs), mode)
            return
        envs, expected_envs = wrap(name, inner_envs), wrap(name, oracle)
        assert envs.observation_space == expected_envs.observation_space
        assert envs.action_space == expected_envs.action_space
        results = run_steps(envs, mode)
        assert equal(results, run_steps(expected_envs, mode))
        # No environment's first step is its last, so a wrapper that saw only one would be found.
        ends = [bool((result[2] | result[3]).any()) for result in results if len(result) == 5]
        assert sum(ends) >= 5


# The ids.

SMALL = {"num_goals": 2, "max_episode_steps": 3}
IDS: dict[str, dict[str, Any]] = {
    "CustomMT": SMALL,
    "MultiEnv": {},
    "PointGoal": {"radius": 2.0, "max_episode_steps": 3},
}


@pytest.mark.parametrize("env_id", IDS)
def test_the_spec_of_a_vector_environment_survives_json(env_id):
    kwargs = {"workers": 1, "autoreset_mode": "NextStep", **IDS[env_id]}
    envs = gymnasium.make_vec(f"mtwrappers/{env_id}-v0", **kwargs)
    text = envs.spec.to_json()
    saved = json.loads(text)
    assert {name: saved["kwargs"].get(name, saved.get(name)) for name in kwargs} == kwargs
    remade = gymnasium.make_vec(EnvSpec.from_json(text))
    assert remade.spec == envs.spec
    assert remade.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert equal(drop_times(remade.reset(seed=1)), drop_times(envs.reset(seed=1)))


@pytest.mark.parametrize("env_id", ["MultiEnv", "PointGoal"])
@all_modes
@pytest.mark.slow_but("MultiEnv", "SameStep")
def test_sync_and_async_vectorization_give_the_same(env_id, mode):
    results = []
    for kind, settings in (("sync", {}), ("async", {"context": "forkserver"})):
        envs = gymnasium.make_vec(
            f"mtwrappers/{env_id}-v0",
            3,
            vectorization_mode=kind,
            vector_kwargs={"autoreset_mode": mode, **settings},
            wrappers=[gymnasium.wrappers.RecordEpisodeStatistics],
            **{"max_episode_steps": 3, **IDS[env_id]},
        )
        with closing(envs):
            assert type(envs) is {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[kind]
            assert envs.metadata["autoreset_mode"] is mode
            results.append(run_steps(envs, mode))
    assert equal(*results)
    assert sum(result[3].any() for result in results[0] if len(result) == 5) >= 2
