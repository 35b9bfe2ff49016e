"""`evaluate` of wrapped environments and policies: what wrappers change, and what stays."""

from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from gymnasium.wrappers import vector as vector_wrappers

from mtwrappers import (
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    evaluate,
)
from tests.evaluation.fakes import ScriptedEnv, Telling, ones, scripted
from tests.vector.fakes import HalfReward, all_modes


@all_modes
def test_wrappers_of_ours_and_of_gymnasiums_are_evaluated_with_what_they_change(mode):
    envs = scripted([{"lengths": [2], "name": "a"}], autoreset_mode=mode)
    result = evaluate(ones, vector_wrappers.RecordEpisodeStatistics(HalfReward(envs)), 3)
    assert [e.episode_return for e in result.episodes] == [1.0, 1.0, 1.0]


class Tasked(ScriptedEnv):
    """Pays its action ten times over, and says which task it has."""

    def step(self, action):
        obs, reward, *rest, info = super().step(action)
        return obs, 10 * reward, *rest, info

    def _info(self):
        return {**super()._info(), "task_id": 0}


def theirs(env):
    return NormalizeReward(NormalizeObservation(env))


def ours(env):
    return NormalizeRewardPerTask(NormalizeObservationPerTask(env, 1), 1)


def statistics_of(env):
    """What each normalizing wrapper has counted, and whether it goes on counting."""
    found = []
    while isinstance(env, (gymnasium.Wrapper, gymnasium.vector.VectorWrapper)):
        if hasattr(env, "get_state"):
            # Which episodes there are is another matter: an evaluation begins new ones.
            state = {key: value for key, value in env.get_state().items() if key != "episodes"}
            found.append((state, env.update_running_mean))
        elif hasattr(env, "update_running_mean"):
            rms = getattr(env, "return_rms", None) or env.obs_rms
            found.append((rms.count, np.sum(rms.mean), env.update_running_mean))
        env = env.env
    return found


def all_statistics(envs):
    return statistics_of(envs) + list(envs.unwrapped.call(statistics_of))


@pytest.mark.parametrize(
    ("within", "outside", "mode", "workers"),
    [
        (theirs, "theirs", "NextStep", 2),
        (theirs, "ours", "Disabled", 0),
        (theirs, None, "SameStep", 2),
        (ours, "theirs", "SameStep", 0),
        (ours, "ours", "NextStep", 2),
        (ours, None, "Disabled", 2),
        (lambda env: env, "theirs", "NextStep", 0),
        (lambda env: env, "ours", "SameStep", 2),
    ],
)
def test_normalized_rewards_are_reported_raw_and_statistics_stay(mode, workers, within, outside):
    executor = partial(MetaParallelEnvExecutor, workers=2) if workers else MetaIterativeEnvExecutor
    envs = inner = executor([lambda: within(Tasked([3]))] * 2, 2, autoreset_mode=mode)
    if outside == "theirs":
        envs = vector_wrappers.NormalizeReward(envs)
        if mode == "NextStep":  # it refuses the others
            envs = vector_wrappers.NormalizeObservation(envs)
    elif outside == "ours":
        envs = VectorNormalizeRewardPerTask(VectorNormalizeObservationPerTask(envs, 1), 1)
    with closing(inner):
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(np.full((2, 2), 0.5))
        before = all_statistics(envs)
        result = evaluate(ones, envs, 2)
        assert all_statistics(envs) == before
        if not (within is ours and outside == "ours"):  # normalized twice
            returns = [episode.episode_return for episode in result.episodes]
            assert returns == pytest.approx([30.0] * 2, rel=1e-6)
        envs.reset(seed=0)
        envs.step(np.ones((2, 2)))
        assert all_statistics(envs) != before


def test_statistics_go_on_after_an_evaluation_that_failed():
    envs = MetaIterativeEnvExecutor(lambda: ours(Telling("no")), 1)
    with pytest.raises(ValueError, match="must be a bool"):
        evaluate(ones, envs, 1)
    assert envs.get_attr("update_running_mean") == (True,)
