"""Gymnasium-Robotics: observations that are dicts, in workers, with hindsight experience replay."""

import gymnasium
import pytest

import mtwrappers


@pytest.mark.slow
def test_sac_learns_with_hindsight_from_a_robot_in_workers():
    robotics = pytest.importorskip("gymnasium_robotics")
    library = pytest.importorskip("stable_baselines3")
    gymnasium.register_envs(robotics)
    envs = mtwrappers.as_vector("FetchReach-v4", 4, workers=2)
    obs, _ = envs.reset(seed=0)
    assert obs["desired_goal"].shape == (4, 3)
    made = mtwrappers.as_sb3_vec_env(envs)
    hindsight = {"replay_buffer_class": library.HerReplayBuffer, "learning_starts": 250}
    model = library.SAC("MultiInputPolicy", made, device="cpu", **hindsight)
    model.learn(260)
    assert model.num_timesteps == 260
    made.close()
