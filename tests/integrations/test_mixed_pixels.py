"""State and pixels of real environments as one set: Meta-World, MuJoCo and classic control."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AddRenderObservation

import mtwrappers
from mtwrappers.common.frames import resized
from mtwrappers.metaworld import opengl
from tests.fakes import equal

ID = "mtwrappers/MultiEnv-v0"
REACH = {"env_name": "reach-v3", "observation": "pixels_state", "shadows": False}
CLASSIC = {
    "env_ids": ["Pendulum-v1", "MountainCarContinuous-v0"],
    "env_kwargs": [{"max_episode_steps": 6}, {"max_episode_steps": 8}],
    "unify": {"image_size": [12, 16], "render": True, "rescale": True},
}


@pytest.fixture
def gl(monkeypatch):
    """Makes Gymnasium's MuJoCo environments draw without a display, as ours do by themselves."""
    pytest.importorskip("metaworld")
    if (found := opengl.choose_gl()) is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    monkeypatch.setenv("MUJOCO_GL", found)


def mixed(**kwargs):
    """Meta-World at the size asked for, and two that are resized, or not."""
    pytest.importorskip("metaworld")
    size = {"width": 16, "height": 16}
    given = {
        "env_ids": ["mtwrappers/MT1-v0", "HalfCheetah-v5", "Pendulum-v1"],
        "env_kwargs": [{**REACH, **size}, {"width": 32, "height": 48}, {}],
        "unify": {"image_size": 16, "render": True, "rescale": True},
    }
    return {**given, **kwargs}


def test_classic_control_is_rendered_and_resized():
    envs = gymnasium.make_vec(ID, **CLASSIC)
    obs, infos = envs.reset(seed=0)
    assert infos["pixels_mask"].tolist() == [True, True]
    for i, env_id in enumerate(CLASSIC["env_ids"]):
        alone = AddRenderObservation(gymnasium.make(env_id, render_mode="rgb_array"), False)
        seed = envs.get_attr("active_env")[i].np_random_seed
        expected, _ = alone.reset(seed=seed)
        n = len(expected["state"])
        assert obs["state"][i, :n].tolist() == expected["state"].tolist()
        assert equal(obs["pixels"][i], resized(expected["pixels"], 12, 16))
    envs.close()


@pytest.mark.slow
@pytest.mark.usefixtures("gl")
def test_meta_world_mujoco_and_classic_control_are_one_set_on_any_number_of_workers():
    envs = gymnasium.make_vec(ID, **mixed())
    # A server that forks may have started before the environment variable was set.
    workers = gymnasium.make_vec(ID, **mixed(), workers=2, context="spawn")
    both = [each.reset(seed=0) for each in (envs, workers)]
    assert equal(*both)
    obs, infos = both[0]
    assert obs["pixels"].shape == (3, 16, 16, 3)
    assert infos["observation_mask"].sum(axis=1).tolist() == [39, 17, 3]
    assert infos["pixels_mask"].all()
    for actions in np.random.default_rng(0).uniform(-1, 1, (4, 3, 6)):
        results = [each.step(actions) for each in (envs, workers)]
        assert equal(*results)
    # Of Meta-World it is the frame that its own id observes, and of the cheetah a resized one.
    reach, cheetah, _ = envs.get_attr("active_env")
    obs = results[0][0]
    assert equal(obs["pixels"][0], reach.render())
    assert equal(obs["pixels"][1], resized(cheetah.render(), 16, 16))
    envs.close()
    workers.close()


@pytest.mark.slow
@pytest.mark.usefixtures("gl")
def test_stable_baselines3_learns_from_state_and_pixels_of_all_tasks():
    sb3 = pytest.importorskip("stable_baselines3")
    kwargs = mixed(unify={"image_size": 36, "render": True, "rescale": True})
    envs = gymnasium.make_vec(ID, **kwargs)
    normalized = mtwrappers.VectorNormalizeObservationPerTask(envs, key="state")
    venv = mtwrappers.as_sb3_vec_env(normalized)
    model = sb3.PPO("MultiInputPolicy", venv, n_steps=8, batch_size=24, n_epochs=1, seed=0)
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(24)
    after = model.policy.state_dict()
    for part in ("pixels.cnn.0.weight", "pixels.linear.0.weight"):
        name = f"features_extractor.extractors.{part}"
        assert (before[name] != after[name]).any()
    result = mtwrappers.evaluate(
        lambda obs: model.predict(obs, deterministic=True)[0], normalized, 1, max_episode_steps=3
    )
    assert [episode.length for episode in result.episodes] == [3, 3, 3]
    venv.close()
