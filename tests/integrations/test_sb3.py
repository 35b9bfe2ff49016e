"""Stable-Baselines3 trains on our ids, one environment and many."""

import re
import signal
from functools import partial

import gymnasium
import numpy as np
import pytest

import mtwrappers
from mtwrappers.evaluation import EvaluationResult
from tests.integrations.examples import load_example
from tests.vector.processes import RECOVER, needs_proc, run_until_killed

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_checker import check_env

POINT = "mtwrappers/PointGoal-v0"
# Two classes, two environments each.
FOUR = {"num_envs": 4, "workers": 2, "max_episode_steps": 20, "num_goals": 3}
make_four = partial(gymnasium.make_vec, "mtwrappers/CustomMT-v0", **FOUR)


@pytest.fixture(autouse=True)
def _one_thread():
    """Small networks gain nothing from threads, and the numbers are then the same everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("MT1", {}),
        ("MT10", {}),
        ("MT10", {"task_encoding": "dict"}),
        ("ML10-train", {}),
        ("CustomML-test", {}),
        ("MultiEnv", {}),
    ],
)
def test_its_checker_is_silent(name, kwargs):
    env = gymnasium.make(f"mtwrappers/{name}-v0", **kwargs)
    check_env(env)
    env.close()


@pytest.mark.slow
def test_a_run_that_stops_in_mid_episode_goes_on_with_the_same_numbers(tmp_path):
    def make():
        envs = make_four(max_episode_steps=7, journal=True)
        return envs, mtwrappers.as_sb3_vec_env(envs)

    def go_on(model):
        model.learn(40, reset_num_timesteps=False)
        weights = {key: value.tolist() for key, value in model.policy.state_dict().items()}
        return weights, [{**info, "t": 0} for info in model.ep_info_buffer], model.num_timesteps

    envs, venv = make()
    model = PPO("MlpPolicy", venv, n_steps=10, batch_size=20, n_epochs=2, seed=0, device="cpu")
    model.learn(40)
    model.save(tmp_path / "model")
    generators = {
        "torch": torch.get_rng_state().numpy(),
        "numpy": np.random.get_state(legacy=False),
    }
    mtwrappers.save_checkpoint(tmp_path / "run.ckpt", envs=envs, generators=generators)
    expected = go_on(model)
    envs.close()
    assert [info["l"] for info in expected[1]] == [7] * 8  # in 20 steps; the run stops after 10
    envs, venv = make()
    loaded = PPO.load(tmp_path / "model", env=venv, force_reset=False, device="cpu")
    generators = {}
    mtwrappers.load_checkpoint(tmp_path / "run.ckpt", envs=envs, generators=generators)
    torch.set_rng_state(torch.from_numpy(generators["torch"]))
    np.random.set_state(generators["numpy"])
    assert go_on(loaded) == expected
    envs.close()


def test_off_policy_learners_keep_the_true_last_observation():
    envs = gymnasium.make_vec(POINT, num_envs=2, max_episode_steps=5)
    venv = mtwrappers.as_sb3_vec_env(envs)
    model = SAC("MlpPolicy", venv, learning_starts=100, seed=0, device="cpu")
    model.learn(40)
    buffer = model.replay_buffer
    moved = np.abs(buffer.next_observations[:20] - buffer.observations[:20])
    # A move of at most 0.1 each; the first observation of the next episode would be farther off.
    assert moved.max() <= 0.1 + 1e-6
    assert (moved.reshape(20, -1).max(axis=1) > 0).all()
    # An episode that was cut is no end: its value goes on.
    assert buffer.dones[:20].sum() == buffer.timeouts[:20].sum() == 8
    venv.close()


@pytest.mark.slow
def test_the_example_learns_and_continues_with_the_same_numbers(tmp_path, monkeypatch, capsys):
    """Ctrl-C between 5,000 and 10,000 of 20,000 steps; it goes on in two workers, not in none."""
    example = load_example("sb3_ppo.py")
    short = ["--save-every", "20000", "--episodes", "1"]

    def interrupted(model, *args, **kwargs):
        if model.num_timesteps == 5000:
            signal.raise_signal(signal.SIGINT)
        return learn(model, *args, **kwargs)

    def run(steps, workers, out):
        example.main([*short, "--steps", steps, "--workers", workers, "--out", str(tmp_path / out)])
        return tmp_path / out / "00020000"

    whole = run("20000", "0", "whole")
    learn = PPO.learn
    with monkeypatch.context() as patch:
        patch.setattr(PPO, "learn", interrupted)
        with pytest.raises(SystemExit, match="130"):
            run("20000", "0", "parts")
    said = "stopped; 10000 steps are saved; run the same command again to continue\n"
    assert capsys.readouterr().out.endswith(said)
    parts = run("20000", "2", "parts")
    weights = [PPO.load(folder / "model").policy.state_dict() for folder in (whole, parts)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    results = [EvaluationResult.load(folder / "results.json") for folder in (whole, parts)]
    assert results[0] == results[1]
    assert results[0].description.training_steps == 20_000
    # Untrained: 80 and 298.
    assert results[0].per_task["button-press-topdown-v3"]["return"].value > 200
    assert results[0].per_task["door-open-v3"]["return"].value > 400
    assert [path.name for path in example.points(tmp_path / "parts")] == ["00010000", "00020000"]


def test_the_example_does_not_go_on_with_another_seed(tmp_path):
    example = load_example("sb3_ppo.py")
    envs, model, run = example.make(None, 1, 0)
    example.save(tmp_path / "00010000", model, run)
    envs.close()
    line = f"{tmp_path} has a run with --seed 1, got --seed 2: choose --out"
    for steps in ("10000", "20000"):
        with pytest.raises(SystemExit, match=re.escape(line)):
            example.main(["--seed", "2", "--steps", steps, "--out", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["00010000"]


@needs_proc
@pytest.mark.filterwarnings("ignore:.*starting a replacement")
def test_a_learner_learns_the_same_through_kills():
    def train(model, _):
        model.learn(400, reset_num_timesteps=False)
        weights = {key: value.clone() for key, value in model.policy.state_dict().items()}
        return weights, [{"r": info["r"], "l": info["l"]} for info in model.ep_info_buffer]

    def learner(execute, **kwargs):
        envs = execute(partial(gymnasium.make, "Pendulum-v1"), 3, 1, 25, **kwargs)
        venv = mtwrappers.as_sb3_vec_env(envs)
        model = PPO("MlpPolicy", venv, n_steps=100, batch_size=60, n_epochs=2, seed=1, device="cpu")
        return envs, model

    envs, model = learner(mtwrappers.MetaParallelEnvExecutor, **RECOVER)
    results = run_until_killed(envs, 10, partial(train, model))
    envs.close()
    envs, model = learner(mtwrappers.MetaIterativeEnvExecutor)
    for weights, episodes in results:
        expected = train(model, None)
        assert all(torch.equal(weights[key], expected[0][key]) for key in weights)
        assert episodes == expected[1]
    envs.close()


@pytest.mark.slow
def test_a_policy_learns_from_two_cameras_and_from_depth_and_nested_dicts_are_refused():
    look = {"observation": "pixels", "width": 40, "height": 36, "shadows": False}
    made = {"num_goals": 1, "task_encoding": "none", **look}
    two = {"camera_name": ["corner4", "gripperPOV"]}
    for kwargs in (two, {"depth": True}):
        envs = gymnasium.make_vec("mtwrappers/CustomMT-v0", **made, **kwargs)
        venv = mtwrappers.as_sb3_vec_env(envs)
        PPO("MultiInputPolicy", venv, n_steps=2, batch_size=4, n_epochs=1, seed=0).learn(4)
        venv.close()
    envs = gymnasium.make_vec("mtwrappers/CustomMT-v0", **made, **two, depth=True)
    with pytest.raises(ValueError, match="takes no Dict in a Dict, got one as 'depth'"):
        mtwrappers.as_sb3_vec_env(envs)
    envs.close()
