"""Wrappers of one environment at a time and side by side: the same numbers."""

from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import mtwrappers as mt
from tests.fakes import equal, play
from tests.vector.fakes import all_modes, both_executors
from tests.wrappers.fakes import TaskedEnv, makers

ACTIONS = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1]
REWARD = (mt.NormalizeRewardPerTask, mt.VectorNormalizeRewardPerTask)
OBSERVATION = (mt.NormalizeObservationPerTask, mt.VectorNormalizeObservationPerTask)
RL2 = (mt.RL2Observation, mt.VectorRL2Observation)
FORMS = {
    "reward": (*REWARD, {"num_tasks": 3, "gamma": 0.5}),
    "observation": (*OBSERVATION, {"num_tasks": 3, "epsilon": 0.1}),
    "rl2": (*RL2, {}),
    "rl2 of Meta-World": (*RL2, {"reward_divisor": 10, "across_episodes": False}),
}
# Three environments that stay with their tasks, and one that moves.
MADE = {
    "stay": mt.TaskOnehotWrapper.wrap_env_cons_list(makers(dtype=np.float32)),
    "move": [partial(TaskedEnv, 0, True, length=2)],
}


def play_both(ours, makers):
    """Steps a vector environment beside Gymnasium's own over ``makers``; both must agree bitwise.

    Returns the observations, and the environments of Gymnasium's.
    """
    theirs = SyncVectorEnv(makers, autoreset_mode=ours.autoreset_mode)
    seen = [ours.reset(seed=0)[0]]
    assert equal(seen[0], theirs.reset(seed=0)[0])
    over = np.zeros(ours.num_envs, dtype=bool)
    for action in ACTIONS:
        if ours.autoreset_mode is AutoresetMode.DISABLED and over.any():
            obs, again = (each.reset(options={"reset_mask": over})[0] for each in (ours, theirs))
            assert equal(obs, again)
        result, expected = (each.step(np.full(len(makers), action)) for each in (ours, theirs))
        over = result[2] | result[3]
        seen.append(result[0])
        finals, last = (each[4].get("final_obs") for each in (result, expected))
        assert equal((*result[:4], finals is None), (*expected[:4], last is None))
        if finals is not None:
            assert all(equal(a, b) for a, b in zip(finals, last, strict=True))
        if ours.autoreset_mode is not AutoresetMode.SAME_STEP:  # whose infos are of the next reset
            assert equal(*(each[4].get("raw_reward") for each in (result, expected)))
    return seen, theirs.envs


@both_executors
@all_modes
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.slow_but("iterative", "reward-stay-NextStep-parallel", "rl2-move-NextStep-parallel")
def test_the_vector_form_is_the_single_form_where_each_task_has_one_environment(
    executor, mode, made, form
):
    (one, many, kwargs), built = FORMS[form], MADE[made]
    envs = many(executor(built, len(built), autoreset_mode=mode), **kwargs)
    seen, singles = play_both(envs, [lambda make=make: one(make(), **kwargs) for make in built])
    assert all(obs in envs.observation_space for obs in seen)
    if one is not mt.RL2Observation:
        own = [env.get_state() for env in singles]
        for task in range(3):
            for key in ("count", "mean", "m2"):
                assert envs.get_state()[key][task] == own[task % len(own)][key][task]
    envs.close()


@pytest.mark.parametrize(("one", "many"), [REWARD, OBSERVATION])
def test_statistics_move_between_the_forms(one, many):
    envs, env = many(mt.MetaIterativeEnvExecutor(makers(), 3), 3), one(makers()[1](), 3)
    play(envs, [[0] * 3] * 6, seed=0)
    env.set_state(envs.get_state())
    env.update_running_mean = envs.update_running_mean = False
    (obs, reward, *_), (batch, scaled, *_) = (
        play(each, [action])[1] for each, action in ((env, 0), (envs, [0] * 3))
    )
    assert (obs.tolist(), reward) == (batch[1].tolist(), scaled[1])
