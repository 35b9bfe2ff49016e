"""Stable-Baselines3 trains through a stream whose end comes in the middle of a rollout."""

import re
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import (
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MultiEnvWrapper,
    TaskStream,
    VectorTaskStream,
    as_sb3_vec_env,
    continual_evaluate,
)
from mtwrappers.continual.result import ContinualResult
from tests.fakes import ROOT, run_with_python

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

PHASES = [("moon", 80), ("earth", 80), ("moon", 80)]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(at_end="stay"):
    makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 10.0)]
    tasks = MultiEnvWrapper(makers, task_names=["moon", "earth"], max_episode_steps=50)
    return FlattenMTEnv(TaskStream(tasks, PHASES, at_end=at_end))


def ppo(env, n_steps=256):
    return PPO("MlpPolicy", env, n_steps=n_steps, batch_size=64, n_epochs=1, seed=0, device="cpu")


class Seen(BaseCallback):
    """The info of every step."""

    def _on_training_start(self):
        self.infos = []

    def _on_step(self):
        self.infos += self.locals["infos"]
        return True


def test_a_rollout_that_goes_beyond_the_end_ends_with_its_model(tmp_path):
    env, seen = make(), Seen()
    model = ppo(env)
    before = [weight.clone() for weight in model.policy.parameters()]
    model.learn(env.unwrapped.total_steps, callback=seen)
    assert model.num_timesteps == 256
    assert [info["stream_finished"] for info in seen.infos] == [False] * 240 + [True] * 16
    assert [info["phase"] for info in seen.infos] == [0] * 80 + [1] * 80 + [2] * 96
    assert {info["task_name"] for info in seen.infos[240:]} == {"moon"}
    assert (env.unwrapped.stream_steps, env.unwrapped.stream_finished) == (240, True)
    after = model.policy.parameters()
    assert not all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    model.save(tmp_path / "model")
    obs = env.observation_space.sample()
    expected = model.predict(obs, deterministic=True)[0]
    assert (PPO.load(tmp_path / "model").predict(obs, deterministic=True)[0] == expected).all()


def test_where_the_end_is_an_error_the_loop_dies_of_it():
    env = make("raise")
    with pytest.raises(RuntimeError, match="the stream is finished: its 3 phases have 240 steps"):
        ppo(env).learn(env.unwrapped.total_steps)


def test_environments_side_by_side_come_to_the_end_of_a_rollout_too():
    envs = VectorTaskStream(MetaIterativeEnvExecutor(make, 4))
    model = ppo(as_sb3_vec_env(envs), n_steps=64)
    model.learn(envs.total_steps)
    assert (model.num_timesteps, envs.stream_steps, envs.stream_finished) == (256, 240, True)


def test_what_ppo_has_learnt_is_scored_at_the_steps_of_its_rollouts():
    """Rollouts of 64 steps in three phases of 80."""

    def make_learner(env):
        model = ppo(env, n_steps=64)

        def learn(steps):
            model.learn(steps, reset_num_timesteps=False)
            return lambda obs: model.predict(obs, deterministic=True)[0]

        return learn

    points = continual_evaluate(make_learner, make, 2, episodes_per_phase=1)
    found = ContinualResult(points, metric="return")
    assert found.points == (0, 64, 128, 192, 240)
    assert np.isfinite(found.scores).all()


@pytest.mark.slow
def test_the_loop_of_the_guide_runs(tmp_path):
    guide = (ROOT / "docs/guides/streams.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    run_with_python("-c", code, cwd=tmp_path)
    assert (tmp_path / "stream.zip").stat().st_size > 10_000
