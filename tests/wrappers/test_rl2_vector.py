"""The input of RL^2 for vector environments."""

from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import (
    MetaIterativeEnvExecutor,
    RL2Observation,
    VectorRL2Observation,
)
from tests.fakes import CountingEnv
from tests.vector.fakes import BoxCountingEnv, all_modes, both_executors
from tests.wrappers.fakes import assert_same, makers, play_many, play_one

ACTIONS = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1]


@all_modes
def test_the_vector_form_takes_the_same_arguments(mode):
    kwargs = {"reward_divisor": 10, "across_episodes": False}
    executor = MetaIterativeEnvExecutor(makers(), 3, autoreset_mode=mode)
    shown = play_many(VectorRL2Observation(executor, **kwargs), ACTIONS)
    for i, make in enumerate(makers()):
        one = play_one(RL2Observation(make(), **kwargs), ACTIONS, mode)
        assert_same(shown[i], one)
        assert one[1]["obs"][4] == 0.1


@both_executors
@all_modes
@pytest.mark.parametrize("moves", [False, True], ids=["one task", "moving"])
def test_it_is_the_single_form(executor, mode, moves):
    made = makers(moves, dtype=np.float32)
    envs = VectorRL2Observation(executor(made, 3, autoreset_mode=mode))
    many = play_many(envs, ACTIONS)
    for i, make in enumerate(made):
        assert_same(many[i], play_one(RL2Observation(make()), ACTIONS, mode))
        for shown in many[i]:
            assert shown["obs"] in envs.single_observation_space
    assert envs.observation_space.shape == (3, 6)
    envs.close()


def test_a_same_step_reset_within_a_trial_carries_on_and_the_final_observation_has_its_own():
    envs = VectorRL2Observation(MetaIterativeEnvExecutor(partial(CountingEnv, 2), 1))
    envs.reset(seed=0)
    envs.step([0])
    obs, *_, infos = envs.step([1])
    assert infos["final_obs"][0].tolist() == [2, 2, 0, 1, 2, 1]
    assert obs.tolist() == [[0, 0, 0, 1, 2, 1]]
    assert infos["final_info"]["steps"].tolist() == [2]


def test_setting_tasks_begins_trials_even_of_the_same_task():
    envs = VectorRL2Observation(MetaIterativeEnvExecutor(makers(), 3))
    envs.reset(seed=0)
    assert envs.reset()[0][:, 2:].tolist() == [[0] * 4] * 3  # nothing was done since
    envs.step([1] * 3)
    envs.set_tasks([{"task": i} for i in range(3)])
    assert envs.reset()[0][:, 2:].tolist() == [[0] * 4] * 3
    envs.step([1] * 3)
    assert envs.reset()[0][:, 2:].tolist() == [[0, 1, 1, 1]] * 3


class MovingGoalEnv(CountingEnv):
    """Has another task in every episode, in one and the same dict; infos do not tell."""

    def __init__(self):
        super().__init__(2)
        self.task = {"goal": 0}

    def get_task(self):
        return self.task

    def reset(self, *, seed=None, options=None):
        self.task["goal"] += 1
        return super().reset(seed=seed, options=options)


@all_modes
def test_a_task_that_is_changed_in_place_is_another_though_infos_do_not_tell(mode):
    envs = VectorRL2Observation(MetaIterativeEnvExecutor(MovingGoalEnv, 1, autoreset_mode=mode))
    shown = [shown["obs"][2:].tolist() for shown in play_many(envs, [1, 1, 1])[0]]
    same, following = {
        "SameStep": ([0] * 4, [0, 1, 1, 0]),
        "NextStep": ([0, 1, 2, 1], [0] * 4),
    }.get(mode.value, ([0, 1, 2, 1], [0, 1, 1, 0]))
    assert shown == [[0] * 4, [0, 1, 1, 0], same, following]
    one = RL2Observation(MovingGoalEnv())
    one.reset()
    one.step(1)
    assert one.reset()[0][2:].tolist() == [0] * 4


@pytest.mark.parametrize(
    ("reset", "zeros"),
    [
        ({}, [False, False, False]),
        ({"seed": 1}, [True, True, True]),
        ({"seed": [None, 4, None]}, [False, True, False]),
        ({"options": {"resample_task": True}}, [True, True, True]),
    ],
)
def test_which_resets_begin_a_trial(reset, zeros):
    envs = VectorRL2Observation(MetaIterativeEnvExecutor(makers(), 3))
    envs.reset(seed=0)
    envs.step([1] * 3)
    obs, _ = envs.reset(**reset)
    assert (obs[:, 2:] == 0).all(axis=1).tolist() == zeros


def test_a_reset_of_some_leaves_the_others_as_they_are():
    executor = MetaIterativeEnvExecutor(makers(), 3, autoreset_mode=AutoresetMode.DISABLED)
    envs = VectorRL2Observation(executor)
    envs.reset(seed=0)
    envs.step([1] * 3)
    obs, _ = envs.reset(seed=0, options={"reset_mask": np.array([True, False, False])})
    assert obs[:, 2:].tolist() == [[0] * 4, [0, 1, 1, 0], [0, 1, 1, 0]]


def test_the_actions_are_those_of_the_steps_beginning_and_results_are_the_callers():
    envs = VectorRL2Observation(MetaIterativeEnvExecutor(partial(BoxCountingEnv, 9), 2))
    envs.reset(seed=0)
    actions = np.array([[0.5, -0.5], [1.0, 0.0]], np.float32)
    envs.step_async(actions)
    actions[:] = 0
    obs = envs.step_wait()[0]
    envs.step(actions)
    assert obs[:, 2:4].tolist() == [[0.5, -0.5], [1.0, 0.0]]
    obs[:] = 9
    assert envs.reset()[0][:, 2:].tolist() == [[0, 0, 2, 1]] * 2
