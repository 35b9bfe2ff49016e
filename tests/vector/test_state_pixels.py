"""Executors over environments that observe numbers, frames or both, as one set."""

import os
import signal
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from mtwrappers import (
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    VectorNormalizeObservationPerTask,
    evaluate,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.core.pad_spaces import PadSpaces
from mtwrappers.core.state_pixels import StateAndPixels
from mtwrappers.testing import check_meta_vector_env
from tests.fakes import equal
from tests.mixed_envs import SEEING, SeeingEnv

UNIFY = {"image_size": (1, 2)}
parallel = partial(MetaParallelEnvExecutor, workers=2, context="fork")
executors = pytest.mark.parametrize(
    "executor", [MetaIterativeEnvExecutor, parallel], ids=["iterative", "parallel"]
)


def unified(executor=MetaIterativeEnvExecutor, makers=None, **kwargs):
    """An executor over ``SEEING``, whatever it is asked for."""
    return executor(SEEING, 4, **{"unify": UNIFY, **kwargs})


def alone(make):
    env = PadSpaces(StateAndPixels(make(), (1, 2)), 3, 2)
    both = MultiEnvWrapper(SEEING, unify=UNIFY)
    env.observation_space, env.action_space = both.env_observation_space, both.action_space
    env._zeros = np.zeros(3)  # float64, as one of the others has
    return env


@executors
def test_each_environment_returns_what_it_does_alone(executor):
    check_meta_vector_env(
        partial(unified, executor), [partial(alone, make) for make in SEEING], steps=20
    )


@executors
def test_a_batch_has_one_array_of_each_and_masks_say_what_is_real(executor):
    with closing(unified(executor)) as envs:
        obs, infos = envs.reset(seed=0)
        assert obs["state"].tolist() == [[0, 0, 0], [0, 0, 0], [40, 40, 40], [60, 60, 0]]
        assert obs["pixels"][:, 0, :, 0].tolist() == [[0, 10], [20, 30], [0, 0], [60, 70]]
        assert (obs["pixels"].dtype, obs["state"].dtype) == (np.uint8, np.float64)
        assert infos["pixels_mask"].tolist() == [True, True, False, True]
        assert infos["observation_mask"].sum(axis=1).tolist() == [2, 0, 3, 2]
        obs, *_, infos = envs.step(np.zeros(envs.action_space.shape, np.float32))
        assert obs["state"][:, 0].tolist() == [1, 0, 41, 61]
        assert infos["pixels_mask"].tolist() == [True, True, False, True]


def test_a_checkpoint_goes_on_with_the_same_observations(tmp_path):
    actions = np.zeros((4, 2), np.float32)
    with closing(unified(journal=True)) as envs, closing(unified(parallel, journal=True)) as again:
        envs.reset(seed=0)
        envs.step(actions)
        save_checkpoint(tmp_path / "run", envs=envs)
        load_checkpoint(tmp_path / "run", envs=again)
        for _ in range(4):
            assert equal(again.step(actions)[:-1], envs.step(actions)[:-1])


@pytest.mark.filterwarnings("ignore:.*worker 1 was killed")
def test_a_killed_worker_is_replaced_without_a_trace():
    actions = np.zeros((4, 2), np.float32)
    with (
        closing(unified()) as envs,
        closing(unified(parallel, on_worker_failure="recover")) as other,
    ):
        assert equal(envs.reset(seed=0), other.reset(seed=0))
        assert equal(envs.step(actions), other.step(actions))
        os.kill(other.worker_pids[1], signal.SIGKILL)
        for _ in range(3):
            assert equal(envs.step(actions), other.step(actions))
        assert other.recoveries == 1


# With the task beside it, and normalized.

ID = "mtwrappers/MultiEnv-v0"
for name, entry in zip("abcd", SEEING, strict=True):
    gymnasium.register(f"tests/Seeing-{name}-v0", entry)
KWARGS = {"env_ids": [f"tests/Seeing-{name}-v0" for name in "abcd"], "unify": UNIFY}


def test_the_task_has_a_key_beside_them_and_specs_go_through_json():
    given = {**KWARGS, "task_embedding": [[0.5], [1.5], [2.5], [3.5]]}
    env = gymnasium.make(ID, **given, select="round_robin")
    spec = env.spec.to_json()
    again = gymnasium.make(EnvSpec.from_json(spec))
    assert again.observation_space == env.observation_space
    assert list(env.observation_space) == ["pixels", "state", "task_embedding", "task_onehot"]
    for seed in (0, None, None, None):
        obs, info = env.reset(seed=seed)
        assert equal((obs, info), again.reset(seed=seed))
        task = info["task_id"]
        assert obs["task_onehot"].tolist() == [float(i == task) for i in range(4)]
        assert obs["task_embedding"].tolist() == [task + 0.5]
        assert obs in env.observation_space
    env = gymnasium.make(ID, **KWARGS, task_encoding="none")
    assert list(env.observation_space) == ["pixels", "state"]
    with closing(gymnasium.make_vec(ID, **given)) as envs:
        obs, _ = envs.reset(seed=0)
        assert obs["task_onehot"].tolist() == np.eye(4).tolist()
        assert obs["state"][:, 0].tolist() == [0, 0, 40, 60]


def test_a_dict_with_a_key_of_the_task_and_a_task_out_of_range_are_refused():
    env = MultiEnvWrapper([partial(SeeingEnv, {"task_onehot": 1})])
    with pytest.raises(ValueError, match=r"without the keys \['task_onehot'\], got Dict"):
        FlattenMTEnv(env)
    env = FlattenMTEnv(MultiEnvWrapper([SEEING[0]]))
    for task in (-1, 1):
        with pytest.raises(ValueError, match=r"expected task_obs in Discrete\(1\), got"):
            env.observation({"env_obs": {}, "task_obs": task})


def test_evaluation_and_render_need_nothing_else():
    given = {**KWARGS, "unify": {"image_size": 2, "render": True}}
    with closing(gymnasium.make_vec(ID, **given)) as envs:
        assert envs.reset(seed=0)[0]["pixels"][2].max() == 140
        assert envs.render_mode == "rgb_array"

        def policy(obs):  # (4, ...) -> (4, 2)
            return np.full((4, 2), obs["pixels"].max(axis=(1, 2, 3))[:, None] / 255, np.float32)

        result = evaluate(policy, envs, 1)
    returns = [episode.episode_return for episode in result.episodes]
    # The brightest of each step, and 140, 141 and 142 are rendered.
    assert returns[2] == pytest.approx((140 + 141 + 142) / 255)
    assert returns[0] == pytest.approx((10 + 11 + 12) / 255)


def test_the_state_is_normalized_alike_in_both_forms_and_the_rest_stays():
    single = gymnasium.make(ID, **KWARGS, select="round_robin")
    one = NormalizeObservationPerTask(single, key="state")
    with closing(gymnasium.make_vec(ID, **KWARGS)) as envs:
        many = VectorNormalizeObservationPerTask(envs, key="state")
        assert list(many.single_observation_space) == ["pixels", "state", "task_onehot"]
        assert many.single_observation_space["state"].high.tolist() == [np.inf] * 3
        obs, _ = many.reset(seed=0)
        rows = {}
        for task in range(4):
            row, _ = one.reset(seed=0, options={"task_state": task})
            rows[task] = row
            assert equal(row, {key: value[task] for key, value in obs.items()})
        for _ in range(4):
            obs, _, terminated, _, infos = many.step(np.zeros((4, 2)))
            for i in np.flatnonzero(terminated):
                assert infos["final_obs"][i]["pixels"].shape == (1, 2, 3)
                assert abs(infos["final_obs"][i]["state"][:2]).sum() > (0 if i != 1 else -1)
            assert obs["state"][1].tolist() == [0, 0, 0]  # padded
        assert many.get_state()["count"][2] > 4
    for key, error in ((None, TypeError), ("no", ValueError)):
        with pytest.raises(error, match=r"key must be (one|an entry) of"):
            NormalizeObservationPerTask(single, key=key)
