"""`PointGoalEnv`: a point that looks for a goal it cannot see."""

import math

import gymnasium
import numpy as np
import pytest

from mtwrappers import PointGoalEnv
from tests.testing.families import assert_strict_set_task_contract

ID = "mtwrappers/PointGoal-v0"


def test_it_keeps_the_set_task_contract():
    assert_strict_set_task_contract(PointGoalEnv(4.0))


def test_the_reward_is_the_negative_distance_to_the_goal_and_a_twentieth_is_success():
    env = PointGoalEnv()
    env.set_task({"goal": (0.3, 0.4)})
    obs, info = env.reset(seed=0)
    assert obs.tolist() == [0, 0]
    assert info == {"distance": 0.5, "success": 0.0}
    obs, reward, terminated, truncated, info = env.step([0.0, 0.1])
    assert obs.tolist() == [0, 0.1]
    assert reward == -math.hypot(0.3, 0.1 - 0.4)
    assert (terminated, truncated) == (False, False)
    assert info == {"distance": -reward, "success": 0.0}
    for x, success in ((0.05, 1.0), (0.051, 0.0), (0.0, 1.0)):
        env.set_task({"goal": (x, 0.0)})
        assert env.reset()[1] == {"distance": x, "success": success}


def test_a_step_moves_at_most_a_tenth_along_each_axis_and_stays_within_the_bounds():
    env = PointGoalEnv()
    env.reset()
    assert env.step([5.0, -0.03])[0].tolist() == [0.1, -0.03]
    assert env.step(np.array([-7.0, 0.0], np.float32))[0].tolist() == [0, -0.03]
    for _ in range(60):
        obs = env.step([0.1, -0.1])[0]
    assert obs.tolist() == [5, -5]
    assert obs in env.observation_space
    assert env.reset()[0].tolist() == [0, 0]


def test_goals_lie_on_the_circle_all_around():
    env = PointGoalEnv(2.0)
    env.reset(seed=0)
    goals = np.array([task["goal"] for task in env.sample_tasks(200)])
    # Cosine and sine are rounded.
    np.testing.assert_allclose(np.hypot(*goals.T), 2.0, rtol=1e-12)
    quadrants = np.unique(np.sign(goals), axis=0, return_counts=True)[1]
    assert len(quadrants) == 4
    assert quadrants.min() > 30


@pytest.mark.parametrize(
    "change", [{"order": {}}, {"order": None}, {"task": {"goal": (1.0,)}}, {"tasks": 3}]
)
def test_a_state_that_is_refused_changes_nothing(change):
    env, other_env = PointGoalEnv(), PointGoalEnv()
    other_env.set_task({"goal": (0.0, 1.0)})
    state = env.get_state()
    with pytest.raises(ValueError, match=r"must|expected \['order', 'task'\] of PointGoalEnv"):
        env.set_state({**other_env.get_state(), **change})
    assert env.get_state() == state


# Registered.


@pytest.mark.parametrize(
    ("kwargs", "num_tasks", "num_envs"),
    [
        ({"num_envs": 3, "max_episode_steps": -1}, 3, 3),
        ({"num_envs": 6, "meta_batch_size": 2}, 2, 6),
        ({"meta_batch_size": 3}, 3, 3),
    ],
)
def test_make_vec_makes_tasks_side_by_side(kwargs, num_tasks, num_envs):
    kwargs = {"max_episode_steps": 2, **kwargs}
    envs = gymnasium.make_vec(ID, **kwargs)
    assert (envs.unwrapped.meta_batch_size, envs.num_envs) == (num_tasks, num_envs)
    tasks = [{"goal": (float(i + 1), 0.0)} for i in range(num_tasks)]
    envs.unwrapped.set_tasks(tasks)
    obs, infos = envs.reset(seed=0)
    assert obs.tolist() == [[0, 0]] * num_envs
    envs_per_task = num_envs // num_tasks
    assert infos["distance"].tolist() == [
        i + 1 for i in range(num_tasks) for _ in range(envs_per_task)
    ]
    for t in range(2):
        _, rewards, _, truncated, _ = envs.step(np.full((num_envs, 2), 0.0))
        assert rewards.tolist() == (-infos["distance"]).tolist()
        assert truncated.tolist() == [t + 1 == kwargs["max_episode_steps"]] * num_envs
    envs.close()
