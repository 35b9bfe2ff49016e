"""Stable-Baselines3 trains on our ids, one environment and many, and through a stream."""

import re
import signal
from functools import partial

import gymnasium
import numpy as np
import pytest

import mtwrappers as mt
from mtwrappers.continual.result import ContinualResult
from mtwrappers.evaluation import EvaluationResult
from tests.fakes import ROOT, run_with_python
from tests.integrations import ledgers
from tests.integrations.examples import load_example
from tests.integrations.ledgers import ENVS, STEPS
from tests.vector.processes import RECOVER, needs_proc, run_until_killed

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import PPO, SAC, HerReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_checker import check_env


@pytest.fixture(autouse=True)
def _one_thread():
    """Small networks gain nothing from threads, and the numbers are then the same everywhere."""
    threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads_before)


def make_ppo(env, n_steps, **sizes):
    sizes = {"batch_size": 20, "n_epochs": 2, "seed": 0, **sizes}
    return PPO("MlpPolicy", env, n_steps=n_steps, device="cpu", **sizes)


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [("MT1", {}), ("MT10", {"task_encoding": "dict"}), ("ML10-train", {}), ("MultiEnv", {})],
)
def test_its_checker_is_silent(name, kwargs):
    env = gymnasium.make(f"mtwrappers/{name}-v0", **kwargs)
    check_env(env)
    env.close()


# What it stores of a `Ledger`.

POLICIES = {"vector": "MlpPolicy", "image": "CnnPolicy", "dict": "MultiInputPolicy"}


def check_ppo(envs, observation="vector"):
    """Checks the buffer from which PPO would learn."""
    venv = mt.as_sb3_vec_env(envs)
    sizes = {"n_steps": STEPS, "batch_size": STEPS, "gamma": 1.0}
    model = PPO(POLICIES[observation], venv, device="cpu", **sizes)
    model.policy.predict_values = lambda obs: ledgers.known_value(
        ledgers.observations_to_entries(obs)
    )
    # Nothing is learnt: the buffer is left as it was collected.
    model.train = lambda: None
    model.learn(STEPS * ENVS)
    venv.close()
    buffer = model.rollout_buffer
    obs = ledgers.observations_to_entries(buffer.observations)
    last_obs = ledgers.observations_to_entries(model._last_obs)
    return ledgers.check_on_policy(
        obs,
        buffer.actions,
        buffer.rewards,
        np.concatenate([obs[1:], last_obs[None]]),
        np.concatenate([buffer.episode_starts[1:], model._last_episode_starts[None]]),
    )


def check_sac(envs, observation="vector"):
    """Checks the buffer of SAC before it learns."""
    venv = mt.as_sb3_vec_env(envs)
    sizes = {"buffer_size": STEPS * ENVS, "learning_starts": 99}
    model = SAC(POLICIES[observation], venv, device="cpu", **sizes)
    model.learn(STEPS * ENVS)
    venv.close()
    buffer = model.replay_buffer
    return ledgers.check_transitions(
        buffer.observations,
        buffer.actions,
        buffer.rewards,
        buffer.next_observations,
        buffer.dones * (1 - buffer.timeouts),
        buffer.timeouts,
    )


@pytest.mark.parametrize("observation", POLICIES)
@pytest.mark.parametrize("check", [check_ppo, check_sac])
def test_it_stores_what_was_made_and_bootstraps_from_the_true_last_observation(check, observation):
    workers = 2 if (check, observation) == (check_ppo, "vector") else 1
    envs = ledgers.make(workers=workers, context="forkserver", observation=observation)
    ledgers.assert_complete(check(envs, observation), least=9)


# Runs that stop and go on.


@needs_proc
@pytest.mark.filterwarnings("ignore:.*starting a replacement")
def test_a_learner_learns_the_same_through_kills():
    def train(model, _):
        model.learn(400, reset_num_timesteps=False)
        weights = {key: value.clone() for key, value in model.policy.state_dict().items()}
        return weights, [{"r": info["r"], "l": info["l"]} for info in model.ep_info_buffer]

    def make_learner(executor, **kwargs):
        envs = executor(partial(gymnasium.make, "Pendulum-v1"), 3, 1, 25, **kwargs)
        return envs, make_ppo(mt.as_sb3_vec_env(envs), 100, batch_size=60, seed=1)

    envs, model = make_learner(mt.MetaParallelEnvExecutor, **RECOVER)
    results = run_until_killed(envs, 10, partial(train, model))
    envs.close()
    envs, model = make_learner(mt.MetaIterativeEnvExecutor)
    for weights, episodes in results:
        expected_weights, expected_episodes = train(model, None)
        assert all(torch.equal(weights[key], expected_weights[key]) for key in weights)
        assert episodes == expected_episodes
    envs.close()


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")  # no episode ends
@pytest.mark.slow
def test_the_example_learns_and_continues_with_the_same_numbers(tmp_path, monkeypatch, capsys):
    """Ctrl-C after 1,000 of 2,000 steps, in mid-episode; it goes on in two workers, not in none."""
    example = load_example("sb3_ppo.py")
    monkeypatch.setattr(example, "EPISODE", 100)
    monkeypatch.setattr(example, "ITERATION", 1000)
    arguments = ["--save-every", "2000", "--episodes", "1"]

    def learn_after_interrupt(model, *args, **kwargs):
        if model.num_timesteps == 0:
            signal.raise_signal(signal.SIGINT)
        return learn(model, *args, **kwargs)

    def run(steps, workers, name):
        folder = tmp_path / name
        sizes = ["--steps", steps, "--workers", workers]
        example.main([*arguments, *sizes, "--out", str(folder)])
        return folder / "00002000"

    uninterrupted = run("2000", "0", "uninterrupted")
    learn = PPO.learn
    with monkeypatch.context() as patch:
        patch.setattr(PPO, "learn", learn_after_interrupt)
        with pytest.raises(SystemExit, match="130"):
            run("2000", "0", "continued")
    message = "stopped; 1000 steps are saved; run the same command again to continue\n"
    assert capsys.readouterr().out.endswith(message)
    continued = run("2000", "2", "continued")
    expected_weights = PPO.load(uninterrupted / "model").policy.state_dict()
    weights = PPO.load(continued / "model").policy.state_dict()
    assert all(torch.equal(weights[name], expected_weights[name]) for name in expected_weights)
    result = EvaluationResult.load(continued / "results.json")
    assert result == EvaluationResult.load(uninterrupted / "results.json")
    assert result.description.training_steps == 2_000
    points = [path.name for path in example.points(tmp_path / "continued")]
    assert points == ["00001000", "00002000"]


# Observations that are dicts.


@pytest.mark.slow
def test_a_policy_learns_from_two_cameras_and_from_depth_and_nested_dicts_are_refused():
    pixel_settings = {"observation": "pixels", "width": 40, "height": 36, "shadows": False}
    env_settings = {"num_goals": 1, "task_encoding": "none", **pixel_settings}
    two_cameras = {"camera_name": ["corner4", "gripperPOV"]}
    for kwargs in (two_cameras, {"depth": True}):
        envs = gymnasium.make_vec("mtwrappers/CustomMT-v0", **env_settings, **kwargs)
        venv = mt.as_sb3_vec_env(envs)
        PPO("MultiInputPolicy", venv, n_steps=2, batch_size=4, n_epochs=1, seed=0).learn(4)
        venv.close()
    envs = gymnasium.make_vec("mtwrappers/CustomMT-v0", **env_settings, **two_cameras, depth=True)
    with pytest.raises(ValueError, match="takes no Dict in a Dict, got one as 'depth'"):
        mt.as_sb3_vec_env(envs)
    envs.close()


@pytest.mark.slow
def test_sac_learns_with_hindsight_from_a_robot_of_gymnasium_robotics_in_workers():
    gymnasium.register_envs(pytest.importorskip("gymnasium_robotics"))
    venv = mt.as_sb3_vec_env(mt.as_vector("FetchReach-v4", 4, workers=2))
    hindsight = {"replay_buffer_class": HerReplayBuffer, "learning_starts": 250}
    model = SAC("MultiInputPolicy", venv, device="cpu", **hindsight)
    model.learn(260)
    assert model.num_timesteps == 260
    venv.close()


# A stream, whose end comes in the middle of a rollout.


def make_stream():
    makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 10.0)]
    tasks = mt.MultiEnvWrapper(makers, task_names=["moon", "earth"], max_episode_steps=50)
    return mt.FlattenMTEnv(mt.TaskStream(tasks, [("moon", 80), ("earth", 80), ("moon", 80)]))


class RecordInfos(BaseCallback):
    """Records the info of every step."""

    def _on_training_start(self):
        self.infos = []

    def _on_step(self):
        self.infos += self.locals["infos"]
        return True


def test_a_rollout_that_goes_beyond_the_end_of_a_stream_ends():
    env, recorder = make_stream(), RecordInfos()
    model = make_ppo(env, 256, batch_size=64)
    model.learn(env.unwrapped.total_steps, callback=recorder)
    infos = recorder.infos
    assert model.num_timesteps == 256
    assert [info["stream_finished"] for info in infos] == [False] * 240 + [True] * 16
    assert [info["phase"] for info in infos] == [0] * 80 + [1] * 80 + [2] * 96
    assert {info["task_name"] for info in infos[240:]} == {"moon"}
    envs = mt.VectorTaskStream(mt.MetaIterativeEnvExecutor(make_stream, 4))
    model = make_ppo(mt.as_sb3_vec_env(envs), 64, batch_size=64)
    model.learn(envs.total_steps)
    assert (model.num_timesteps, envs.stream_steps, envs.stream_finished) == (256, 240, True)


def test_what_it_has_learnt_is_scored_at_the_steps_of_its_rollouts():
    """Rollouts of 64 steps in three phases of 80."""

    def make_learner(env):
        model = make_ppo(env, 64, batch_size=64)

        def learn(steps):
            model.learn(steps, reset_num_timesteps=False)
            return lambda obs: model.predict(obs, deterministic=True)[0]

        return learn

    scored_points = mt.continual_evaluate(make_learner, make_stream, 2, episodes_per_phase=1)
    result = ContinualResult(scored_points, metric="return")
    assert result.points == (0, 64, 128, 192, 240)
    assert np.isfinite(result.scores).all()


@pytest.mark.slow
def test_the_loop_of_the_guide_to_streams_runs(tmp_path):
    guide = (ROOT / "docs/guides/streams.md").read_text()
    # It uses names of the first snippet of the page.
    (code,) = re.findall(r"^```py\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    first = re.search(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)[1]
    run_with_python("-c", first + code, cwd=tmp_path)
    assert (tmp_path / "stream.zip").stat().st_size > 10_000
