"""Executors over environments whose spaces differ, which are padded."""

from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from mtwrappers import MetaIterativeEnvExecutor, load_checkpoint, save_checkpoint
from mtwrappers.testing import check_meta_vector_env
from tests.fakes import CountingEnv, equal
from tests.mixed_envs import ARMS, ArmEnv
from tests.vector.fakes import EXECUTORS, all_modes, both_executors
from tests.vector.faults import kill, loses_workers, run_steps


class ReferenceArmEnv(gymnasium.Wrapper):
    """Pads an environment to the spaces of ``ARMS`` itself, and adds their masks to infos."""

    def __init__(self, make):
        super().__init__(make())
        self.observation_space = Box(-100.0, 100.0, (5,), np.float64)
        self.action_space = Box(-1.0, 1.0, (4,))

    def reset(self, **kwargs):
        return self._padded(*self.env.reset(**kwargs))

    def step(self, action):
        obs, *reward_and_ends, info = self.env.step(action[: len(self.env.action_space.low)])
        obs, info = self._padded(obs, info)
        return obs, *reward_and_ends, info

    def _padded(self, obs, info):
        masks = {
            "observation_mask": np.arange(5) < len(obs),
            "action_mask": np.arange(4) < len(self.env.action_space.low),
        }
        return np.concatenate([obs, np.zeros(5 - len(obs))]), {**info, **masks}


def make_padded_envs(executor, makers=None, **kwargs):
    """Makes an executor over ``ARMS``, whose environments it pads; ``makers`` are not used."""
    return executor(ARMS, 3, **{"unify": "pad", **kwargs})


@both_executors
def test_padding_changes_no_bit_of_an_environment(executor):
    reference_makers = [partial(ReferenceArmEnv, maker) for maker in ARMS]
    check_meta_vector_env(partial(make_padded_envs, executor), reference_makers, steps=20)
    with closing(make_padded_envs(executor)) as envs:
        masks = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)
        assert equal(np.stack(envs.get_attr("observation_mask")), masks)


@both_executors
def test_sizes_can_be_given_and_bounds_stay_where_they_agree(executor):
    unify = {"observation_size": 9, "action_size": 6}
    with closing(executor([partial(ArmEnv, n, n) for n in (1, 3)], 2, unify=unify)) as envs:
        assert envs.single_observation_space.shape == (9,)
        assert envs.single_action_space == Box(-1, 1, (6,))
        assert envs.reset(seed=0)[0].shape == (2, 9)
        assert envs.observation_space.contains(envs.step(np.ones((2, 6), np.float32))[0])


def test_bounds_that_differ_make_one_space_that_has_all():
    makers = [partial(CountingEnv, high=high) for high in (10, 20)]
    with closing(MetaIterativeEnvExecutor(makers, 2, unify="pad")) as envs:
        assert envs.single_observation_space == Box(0, 20, (2,), np.float64)


@all_modes
@loses_workers
def test_a_kill_and_a_checkpoint_in_mid_episode_change_nothing(mode, tmp_path):
    actions = np.random.default_rng(0).uniform(-1, 1, (9, 3, 4)).astype(np.float32)
    make_iterative = partial(
        make_padded_envs, MetaIterativeEnvExecutor, autoreset_mode=mode, journal=True
    )
    make_parallel = partial(make_padded_envs, EXECUTORS["parallel"], autoreset_mode=mode)
    with closing(make_iterative()) as envs:
        envs.reset(seed=5)
        expected = run_steps(envs, actions)
    with closing(make_parallel(on_worker_failure="recover")) as envs:
        envs.reset(seed=5)
        results = run_steps(envs, actions[:6], lambda t: t == 3 and kill(envs, 1))
        assert envs.recoveries == 1
        save_checkpoint(tmp_path / "run", envs=envs)
    with closing(make_iterative()) as envs:
        load_checkpoint(tmp_path / "run", envs=envs)
        assert equal(results + run_steps(envs, actions[6:]), expected)
