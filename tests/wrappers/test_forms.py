"""Wrappers of an environment and their forms for vector environments: the same numbers."""

from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import mtwrappers as mt
from tests.fakes import equal, play
from tests.vector.fakes import all_modes, both_executors
from tests.wrappers.fakes import TaskedEnv, tasked_makers

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
TASK_MAKERS = {
    "stay": mt.TaskOnehotWrapper.wrap_env_cons_list(tasked_makers(dtype=np.float32)),
    "move": [partial(TaskedEnv, 0, True, length=2)],
}


def play_beside_gymnasium(envs, makers):
    """Steps a vector environment beside Gymnasium's own over ``makers``; both must agree bitwise.

    Returns the observations, and the environments of Gymnasium's.
    """
    oracle = SyncVectorEnv(makers, autoreset_mode=envs.autoreset_mode)
    observations = [envs.reset(seed=0)[0]]
    assert equal(observations[0], oracle.reset(seed=0)[0])
    ended = np.zeros(envs.num_envs, dtype=bool)
    for action in ACTIONS:
        if envs.autoreset_mode is AutoresetMode.DISABLED and ended.any():
            options = {"reset_mask": ended}
            assert equal(envs.reset(options=options)[0], oracle.reset(options=options)[0])
        actions = np.full(len(makers), action)
        actual, expected = envs.step(actions), oracle.step(actions)
        ended = actual[2] | actual[3]
        observations.append(actual[0])
        assert equal(actual[:4], expected[:4])
        infos, expected_infos = actual[4], expected[4]
        assert ("final_obs" in infos) == ("final_obs" in expected_infos)
        if "final_obs" in infos:
            final_obs = zip(infos["final_obs"], expected_infos["final_obs"], strict=True)
            assert all(equal(obs, expected_obs) for obs, expected_obs in final_obs)
        if envs.autoreset_mode is not AutoresetMode.SAME_STEP:  # whose infos are of the next reset
            assert equal(infos.get("raw_reward"), expected_infos.get("raw_reward"))
    return observations, oracle.envs


@both_executors
@all_modes
@pytest.mark.parametrize("tasks", TASK_MAKERS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.slow_but("iterative", "reward-stay-NextStep-parallel", "rl2-move-NextStep-parallel")
def test_the_vector_form_is_the_single_form_where_each_task_has_one_environment(
    executor, mode, tasks, form
):
    (single_wrapper, vector_wrapper, kwargs), makers = FORMS[form], TASK_MAKERS[tasks]
    envs = vector_wrapper(executor(makers, len(makers), autoreset_mode=mode), **kwargs)
    single_makers = [lambda make=make: single_wrapper(make(), **kwargs) for make in makers]
    observations, single_envs = play_beside_gymnasium(envs, single_makers)
    assert all(obs in envs.observation_space for obs in observations)
    if single_wrapper is not mt.RL2Observation:
        states = [env.get_state() for env in single_envs]
        for task in range(3):
            state = states[task % len(states)]
            for key in ("count", "mean", "m2"):
                assert envs.get_state()[key][task] == state[key][task]
    envs.close()


@pytest.mark.parametrize(("single_wrapper", "vector_wrapper"), [REWARD, OBSERVATION])
def test_statistics_move_between_the_forms(single_wrapper, vector_wrapper):
    envs = vector_wrapper(mt.MetaIterativeEnvExecutor(tasked_makers(), 3), 3)
    env = single_wrapper(tasked_makers()[1](), 3)
    play(envs, [[0] * 3] * 6, seed=0)
    env.set_state(envs.get_state())
    env.update_running_mean = envs.update_running_mean = False
    obs, reward, *_ = play(env, [0])[1]
    observations, rewards, *_ = play(envs, [[0] * 3])[1]
    assert (obs.tolist(), reward) == (observations[1].tolist(), rewards[1])
