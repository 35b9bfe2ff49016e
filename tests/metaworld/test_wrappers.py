"""The wrappers for multi-task training on Meta-World."""

import gymnasium
import numpy as np
import pytest

from mtwrappers import (
    MetaWorldSetTaskEnv,
    NormalizeObservationPerTask,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    VectorRL2Observation,
)

PAIR = {"train_classes": ["reach-v3", "push-v3"], "num_goals": 2}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_vector_wears_them_all_and_knows_its_classes(workers):
    envs = gymnasium.make_vec(
        "mtwrappers/CustomMT-v0", workers=workers, max_episode_steps=3, **PAIR
    )
    reward = VectorNormalizeRewardPerTask(envs)
    observation = VectorNormalizeObservationPerTask(reward)
    envs = VectorRL2Observation(observation)
    obs, infos = envs.reset(seed=0)
    goals = envs.call("get_task_state")
    for step in range(3):
        obs, *_, infos = envs.step(np.full((2, 4), 0.5, np.float32))
        assert obs in envs.observation_space, step
    moved = np.not_equal(goals, envs.call("get_task_state"))
    # A class that drew another goal began a trial, and one that drew the same carries on.
    assert (obs[:, -1] == 0).tolist() == moved.tolist()
    assert [infos["final_obs"][i][-1] for i in (0, 1)] == [1, 1]
    assert infos["final_info"]["episode"]["l"].tolist() == [3, 3]
    assert reward.get_state()["task_names"] == PAIR["train_classes"]
    assert reward.get_state()["count"] == pytest.approx([3.0001] * 2)
    assert observation.get_state()["count"] == pytest.approx([5.0001] * 2)
    assert np.shape(observation.get_state()["mean"]) == (2, 39)
    envs.close()


def test_a_one_hot_that_a_set_task_environment_appends_stays_as_it_is():
    inner = MetaWorldSetTaskEnv("MT10", "train", add_env_onehot=True)
    env = NormalizeObservationPerTask(inner)
    inner.set_task(inner.sample_tasks(2)[1])
    obs, _ = env.reset(seed=0)
    assert obs[39:].tolist() == [0, 1, *[0] * 8]
    # The first of its task, so near its own mean.
    assert abs(obs[:39]).max() < 0.01
    env.close()
