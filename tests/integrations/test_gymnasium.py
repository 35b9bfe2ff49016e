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


def plain(value: Any) -> Any:
    """What can be compared, without times."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items() if key not in ("t", "_t")}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(v) for v in value]
    return value


def run(envs, mode):
    """What ten steps return, with the resets that the mode asks for."""
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(10)]
    results = [plain(envs.reset(seed=3))]
    for action in actions:
        results.append(plain(envs.step(action)))
        over = results[-1][2] | results[-1][3]
        if mode is AutoresetMode.DISABLED and over.any():
            results.append(plain(envs.reset(options={"reset_mask": over})))
    return results


def halve(x):
    return x / 2


def halved(envs, by):
    space = envs.single_action_space
    halves = Box(space.low / 2, space.high / 2, dtype=space.dtype.type)
    return by(envs, wrapper=gymnasium.wrappers.TransformAction, func=halve, action_space=halves)


# The wrappers that remember, read infos or spaces, or look at the autoreset mode; others change an
# array by itself.
WRAPPERS: dict[str, Any] = {
    "DictInfoToList": {},
    "NormalizeObservation": {},
    "NormalizeReward": {},
    "RecordEpisodeStatistics": {},
    "RescaleAction": {"min_action": -5, "max_action": 5},
    "TransformReward": {"func": halve},
    "VectorizeTransformAction": halved,
}
# Gymnasium's own limit: it refuses other modes, over its own vector environments, too.
MODES = {"NormalizeObservation": (AutoresetMode.NEXT_STEP,)}
# A server forks the workers: this process may have threads (torch's).
Parallel = partial(MetaParallelEnvExecutor, workers=2, context="forkserver")


class Oracle(SyncVectorEnv):
    """Gymnasium's own, which takes the mask out of the options before its wrappers read it."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=None if options is None else dict(options))


def wrap(name, envs):
    wrapper, given = getattr(wrappers, name), WRAPPERS[name]
    return given(envs, wrapper) if callable(given) else wrapper(envs, **given)


@pytest.mark.parametrize("name", WRAPPERS)
@all_modes
@pytest.mark.slow_but("SameStep")
def test_a_vector_wrapper_gives_what_it_gives_over_gymnasiums_own(name, mode):
    makers = [
        partial(BoxCountingEnv, length, truncate=i % 2 == 1, first=10 * i)
        for i, length in enumerate((2, 3, 5, 4))
    ]
    # By turns: what the executors return is equal.
    executor = (MetaIterativeEnvExecutor, Parallel)[list(WRAPPERS).index(name) % 2]
    oracle = Oracle(makers, autoreset_mode=mode)
    with closing(executor(makers, 2, 2, autoreset_mode=mode)) as ours, closing(oracle):
        if mode not in MODES.get(name, AutoresetMode):
            for envs in (ours, oracle):
                with pytest.raises((AssertionError, TypeError, ValueError)):
                    run(wrap(name, envs), mode)
            return
        wrapped, expected = wrap(name, ours), wrap(name, oracle)
        assert wrapped.observation_space == expected.observation_space
        assert wrapped.action_space == expected.action_space
        found = run(wrapped, mode)
        assert equal(found, run(expected, mode))
        # No environment's first step is its last, so a wrapper that saw only one would be found.
        ends = [bool((result[2] | result[3]).any()) for result in found if len(result) == 5]
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
    again = gymnasium.make_vec(EnvSpec.from_json(text))
    assert again.spec == envs.spec
    assert again.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert equal(plain(again.reset(seed=1)), plain(envs.reset(seed=1)))


@pytest.mark.parametrize("env_id", ["MultiEnv", "PointGoal"])
@all_modes
@pytest.mark.slow_but("MultiEnv", "SameStep")
def test_sync_and_async_vectorization_give_the_same(env_id, mode):
    found = []
    for kind, extra in (("sync", {}), ("async", {"context": "forkserver"})):
        envs = gymnasium.make_vec(
            f"mtwrappers/{env_id}-v0",
            3,
            vectorization_mode=kind,
            vector_kwargs={"autoreset_mode": mode, **extra},
            wrappers=[gymnasium.wrappers.RecordEpisodeStatistics],
            **{"max_episode_steps": 3, **IDS[env_id]},
        )
        with closing(envs):
            assert type(envs) is {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[kind]
            assert envs.metadata["autoreset_mode"] is mode
            found.append(run(envs, mode))
    assert equal(*found)
    assert sum(result[3].any() for result in found[0] if len(result) == 5) >= 2
