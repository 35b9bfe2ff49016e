"""Gymnasium's own tools on the ids of this package: specs, vectorization, chains of wrappers."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from tests.fakes import equal
from tests.integrations.fakes import plain, run
from tests.vector.fakes import all_modes

SMALL = {"num_goals": 2, "max_episode_steps": 3}
IDS: dict[str, dict[str, Any]] = {
    "MT1": SMALL,
    "CustomMT": SMALL,
    "MultiEnv": {},
    "PointGoal": {"radius": 2.0, "max_episode_steps": 3},
}


def first_steps(envs):
    envs.action_space.seed(0)
    results = [envs.reset(seed=1)]
    results += [envs.step(envs.action_space.sample()) for _ in range(4)]
    return plain(results)


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
    assert equal(first_steps(again), first_steps(envs))


@pytest.mark.parametrize("env_id", ["MultiEnv", "PointGoal"])
@all_modes
def test_sync_and_async_vectorization_give_the_same(env_id, mode):
    made = [
        gymnasium.make_vec(
            f"mtwrappers/{env_id}-v0",
            3,
            vectorization_mode=kind,
            vector_kwargs={"autoreset_mode": mode, **extra},
            wrappers=[gymnasium.wrappers.RecordEpisodeStatistics],
            **{"max_episode_steps": 3, **IDS[env_id]},
        )
        for kind, extra in (("sync", {}), ("async", {"context": "forkserver"}))
    ]
    try:
        sync, other = (run(envs, mode) for envs in made)
        assert equal(sync, other)
        assert [type(envs) for envs in made] == [SyncVectorEnv, AsyncVectorEnv]
        assert all(envs.metadata["autoreset_mode"] is mode for envs in made)
        assert sum(result[3].any() for result in sync if len(result) == 5) >= 2
    finally:
        for envs in made:
            envs.close()


def test_meta_world_in_a_chain_of_vector_wrappers():
    envs = gymnasium.make_vec(
        "mtwrappers/MT10-v0", autoreset_mode="NextStep", record_episode_statistics=False, **SMALL
    )
    wrapped = wrappers.NormalizeObservation(
        wrappers.NormalizeReward(wrappers.RecordEpisodeStatistics(envs))
    )
    results = run(wrapped, AutoresetMode.NEXT_STEP)
    episodes = [
        result[4]["episode"]["l"].tolist() for result in results[1:] if "episode" in result[4]
    ]
    # Steps 3, 7 end the episodes of three steps; 4 and 8 reset.
    assert episodes == [[3] * 10] * 2
    assert all(np.isfinite(result[0]).all() for result in results)
    assert results[-1][4]["task_id"].tolist() == list(range(10))
    wrapped.close()
