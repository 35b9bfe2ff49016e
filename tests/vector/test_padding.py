"""Executors over environments whose spaces differ: padded, or refused."""

import os
import signal
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from mtwrappers import (
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.testing import check_meta_vector_env
from tests.fakes import CountingEnv, equal
from tests.mixed_envs import ARMS, ArmEnv
from tests.vector.fakes import all_modes

parallel = partial(MetaParallelEnvExecutor, workers=2, context="fork")
executors = pytest.mark.parametrize(
    "executor", [MetaIterativeEnvExecutor, parallel], ids=["iterative", "parallel"]
)


class Alone(gymnasium.Wrapper):
    """What an environment plays alone, in the spaces of ``ARMS`` and with their masks."""

    def __init__(self, make):
        super().__init__(make())
        self.observation_space = Box(-100.0, 100.0, (5,), np.float64)
        self.action_space = Box(-1.0, 1.0, (4,))

    def _padded(self, obs):
        return np.concatenate([obs, np.zeros(5 - len(obs))])

    def reset(self, **given):
        obs, info = self.env.reset(**given)
        return self._padded(obs), self._with_masks(obs, info)

    def _with_masks(self, obs, info):
        sizes = {"observation_mask": (5, len(obs)), "action_mask": (4, len(self._bounds))}
        masks = {key: np.array([i < n for i in range(size)]) for key, (size, n) in sizes.items()}
        return {**info, **masks}

    def step(self, action):
        obs, *rest, info = self.env.step(action[: len(self._bounds)])
        return self._padded(obs), *rest, self._with_masks(obs, info)

    @property
    def _bounds(self):
        return self.env.action_space.low


ALONE = [partial(Alone, make) for make in ARMS]


def padded(executor, makers=None, **kwargs):
    """An executor over ``ARMS``, whatever it is asked for."""
    return executor(ARMS, 3, **{"unify": "pad", **kwargs})


@executors
def test_padding_changes_no_bit_of_an_environment(executor):
    check_meta_vector_env(partial(padded, executor), ALONE, steps=20)


@executors
def test_masks_come_with_all_infos_and_are_attributes(executor):
    with closing(padded(executor)) as envs:
        _, infos = envs.reset(seed=0)
        masks = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)
        assert equal(infos["observation_mask"], masks)
        assert infos["action_mask"].sum(axis=1).tolist() == [2, 1, 4]
        assert equal(np.stack(envs.get_attr("observation_mask")), masks)
        *_, infos = envs.step(np.zeros((3, 4), np.float32))
        assert equal(infos["observation_mask"], masks)


@executors
def test_sizes_can_be_given_and_bounds_stay_where_they_agree(executor):
    unify = {"observation_size": 9, "action_size": 6}
    with closing(executor([partial(ArmEnv, n, n) for n in (1, 3)], 2, unify=unify)) as envs:
        assert envs.single_observation_space.shape == (9,)
        assert envs.single_action_space == Box(-1, 1, (6,))
        assert envs.reset(seed=0)[0].shape == (2, 9)
        assert envs.observation_space.contains(envs.step(np.ones((2, 6), np.float32))[0])


@executors
@pytest.mark.parametrize(
    ("makers", "unify", "error", "message"),
    [
        (
            [ArmEnv, partial(ArmEnv, bound=2.0)],
            "pad",
            ValueError,
            r"environment 1 has action .* other bounds than .*RescaleAction\(env, -1, 1\)",
        ),
        (ARMS, {"observation_size": 4}, ValueError, "environment 1 has .*, expected at most 4 ent"),
        (ARMS, {"action_size": 3}, ValueError, "environment 2 has .*at most 3 entries"),
        ([ArmEnv, CountingEnv], "pad", TypeError, "space of environment 1 .*TransformAction"),
        (ARMS, "crop", ValueError, "unify must be 'pad', a dict"),
        (ARMS, None, ValueError, r"environment 1 has observation .*unify='pad' makes"),
    ],
)
def test_what_does_not_fit_is_refused(executor, makers, unify, error, message):
    with pytest.raises(error, match=message):
        executor(makers, len(makers), unify=unify)


@all_modes
@pytest.mark.filterwarnings("ignore:.*starting a replacement")
def test_a_kill_and_a_checkpoint_in_mid_episode_change_nothing(mode, tmp_path):
    make = partial(padded, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    over = np.zeros(3, bool)

    def run_steps(envs, steps):
        nonlocal over
        for action in steps:
            if mode.name == "DISABLED" and over.any():
                yield envs.reset(options={"reset_mask": over})
            result = envs.step(action)
            over = result[2] | result[3]
            yield result

    actions = rng.uniform(-1, 1, (9, 3, 4)).astype(np.float32)
    with closing(make(MetaIterativeEnvExecutor)) as envs:
        envs.reset(seed=5)
        expected = list(run_steps(envs, actions))
    over[:] = False
    with closing(make(parallel, on_worker_failure="recover")) as envs:
        envs.reset(seed=5)
        found = list(run_steps(envs, actions[:3]))
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        found += list(run_steps(envs, actions[3:6]))
        assert envs.recoveries == 1
        save_checkpoint(tmp_path / "run", envs=envs)
    with closing(make(MetaIterativeEnvExecutor, journal=True)) as envs:
        load_checkpoint(tmp_path / "run", envs=envs)
        found += list(run_steps(envs, actions[6:]))
    assert equal(found, expected)


def test_a_function_of_the_environments_where_they_are_sees_them_all():
    def shapes(envs, rows):
        return rows.start, envs.single_observation_space, envs.reset(seed=1)[0].shape

    with closing(padded(parallel)) as envs:
        results = envs.map_blocks(shapes)
    box = Box(-100.0, 100.0, (5,), np.float64)
    assert results == [(0, box, (1, 5)), (1, box, (2, 5))]


# Bounds.


NESTED = Dict(a=Discrete(2), b=Box(0, 1, (2,)))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"high": 5}, "environment 1 has observation space Box.*; unify='pad' makes one space"),
        ({"obs_size": 3}, "environment 1 has observation .*expected .*; unify='pad' makes one sp"),
        ({"space": NESTED}, "environment 1 has observation space Dict"),
        ({"num_actions": 3}, r"environment 1 has action space Discrete\(3\), expected Discrete\(2"),
    ],
)
def test_spaces_that_differ_are_refused(others, message):
    def other():
        env = CountingEnv(**{key: others[key] for key in others if key != "space"})
        env.observation_space = others.get("space", env.observation_space)
        return env

    with pytest.raises(ValueError, match=message):
        MetaIterativeEnvExecutor([CountingEnv, other], 2)


def test_bounds_that_differ_make_one_space_that_has_all():
    makers = [partial(CountingEnv, high=high) for high in (10, 20)]
    with closing(MetaIterativeEnvExecutor(makers, 2, unify="pad")) as envs:
        assert envs.single_observation_space == Box(0, 20, (2,), np.float64)
