"""`PointGoalEnv`: a point that looks for a goal it cannot see."""

import copy
import math
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor, PointGoalEnv
from mtwrappers.testing import check_set_task_env
from tests.fakes import equal, play

ID = "mtwrappers/PointGoal-v0"


def test_check_env_has_nothing_to_say():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(ID).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("radius", [0.5, 1.0, 4.0])
def test_it_keeps_the_set_task_contract(radius):
    check_set_task_env(PointGoalEnv(radius))


def test_the_reward_is_the_negative_distance_to_the_goal():
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


@pytest.mark.parametrize(("x", "success"), [(0.05, 1.0), (0.051, 0.0), (0.0, 1.0)])
def test_success_is_a_distance_of_a_twentieth_at_most(x, success):
    env = PointGoalEnv()
    env.set_task({"goal": (x, 0.0)})
    assert env.reset()[1] == {"distance": x, "success": success}


def test_a_step_moves_at_most_a_tenth_along_each_axis():
    env = PointGoalEnv()
    env.reset()
    assert env.step([5.0, -0.03])[0].tolist() == [0.1, -0.03]
    assert env.step(np.array([-7.0, 0.0], np.float32))[0].tolist() == [0, -0.03]


def test_the_point_stays_within_its_bounds():
    env = PointGoalEnv()
    env.reset()
    for _ in range(60):
        obs = env.step([0.1, -0.1])[0]
    assert obs.tolist() == [5, -5]
    assert obs in env.observation_space


def test_every_reset_begins_at_the_origin():
    env = PointGoalEnv()
    env.reset()
    env.step([0.1, 0.1])
    assert env.reset()[0].tolist() == [0, 0]


def test_the_actions_given_are_not_changed_and_observations_are_new():
    env = PointGoalEnv()
    first, _ = env.reset()
    action = np.array([5.0, 5.0])
    second = env.step(action)[0]
    assert action.tolist() == [5, 5]
    assert first.tolist() == [0, 0]
    second[:] = 9
    assert env.step([0.0, 0.0])[0].tolist() == [0.1, 0.1]


@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_goals_lie_on_the_circle_all_around(radius):
    env = PointGoalEnv(radius)
    env.reset(seed=0)
    goals = np.array([task["goal"] for task in env.sample_tasks(200)])
    # Cosine and sine are rounded.
    np.testing.assert_allclose(np.hypot(*goals.T), radius, rtol=1e-12)
    quadrants = np.unique(np.sign(goals), axis=0, return_counts=True)[1]
    assert len(quadrants) == 4
    assert quadrants.min() > 30


def test_a_seeded_reset_determines_the_goals_that_are_drawn():
    one, two = PointGoalEnv(), PointGoalEnv()
    one.reset(seed=4)
    two.reset(seed=4)
    drawn = one.sample_tasks(3)
    assert drawn == two.sample_tasks(1) + two.sample_tasks(2)
    two.reset(seed=5)
    assert drawn != two.sample_tasks(3)


def test_no_goals_may_be_drawn():
    assert PointGoalEnv().sample_tasks(0) == []


@pytest.mark.parametrize("n", [-1, 1.5, "2", True, None])
def test_a_number_of_goals_must_not_be_negative(n):
    with pytest.raises(ValueError, match="n_tasks must be zero or a positive integer, got"):
        PointGoalEnv().sample_tasks(n)


@pytest.mark.parametrize("goal", [(0.5, -1.0), [0.5, -1.0], np.array([0.5, -1.0])])
def test_a_task_is_kept_as_plain_numbers(goal):
    env = PointGoalEnv()
    task = {"goal": goal}
    env.set_task(task)
    assert env.get_task() == {"goal": (0.5, -1.0)}
    assert {type(x) for x in env.get_task()["goal"]} == {float}


def test_the_task_that_is_returned_is_a_copy():
    env = PointGoalEnv()
    env.get_task()["goal"] = (3.0, 3.0)
    assert env.get_task() == {"goal": (1.0, 0.0)}


@pytest.mark.parametrize(
    "task",
    [
        None,
        (1.0, 0.0),
        {},
        {"goal": None},
        {"goal": 1.0},
        {"goal": (1.0, 0.0, 0.0)},
        {"goal": (1.0, float("nan"))},
        {"goal": (float("inf"), 0.0)},
        {"goal": ("a", "b")},
    ],
)
def test_what_is_no_task_is_refused_and_the_present_one_kept(task):
    env = PointGoalEnv()
    env.set_task({"goal": (0.0, 1.0)})
    with pytest.raises(ValueError, match=r"a task must be \{'goal': \(x, y\)\}, got"):
        env.set_task(task)
    assert env.get_task() == {"goal": (0.0, 1.0)}


def test_a_step_needs_a_reset():
    env = PointGoalEnv()
    with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
        env.step([0.0, 0.0])
    env.reset()
    env.set_task({"goal": (0.0, 1.0)})
    with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
        env.step([0.0, 0.0])


@pytest.mark.parametrize("action", [0.1, [0.1], [0.1, 0.1, 0.1], [0.1, float("nan")], [[0.1, 0.1]]])
def test_an_action_of_another_shape_or_not_finite_is_refused(action):
    env = PointGoalEnv()
    env.reset()
    with pytest.raises(ValueError, match=r"expected a finite action of shape \(2,\), got"):
        env.step(action)
    assert env.step([0.0, 0.0])[0].tolist() == [0, 0]


@pytest.mark.parametrize("radius", [0, -1, 4.1, float("nan")])
def test_the_radius_must_fit_the_plane(radius):
    with pytest.raises(ValueError, match=r"radius must be in \(0, 4\], got"):
        PointGoalEnv(radius)


def test_there_is_nothing_to_render():
    with pytest.raises(ValueError, match="render_mode must be None, got 'rgb_array'"):
        PointGoalEnv(render_mode="rgb_array")


@pytest.mark.parametrize("how", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_draw_the_same_goals_and_play_alike(how):
    env = PointGoalEnv(2.0)
    env.reset(seed=1)
    other = how(env)
    assert other.sample_tasks(2) == env.sample_tasks(2)
    actions = [[0.1, 0.0], [0.05, -0.1]]
    assert equal(play(other, actions, seed=2), play(env, actions, seed=2))


# Registered.


def test_make_takes_a_radius_and_limits_episodes():
    env = gymnasium.make(ID, radius=2.0)
    assert env.unwrapped.radius == 2.0
    assert env.spec.max_episode_steps == 100
    env.reset(seed=0)
    truncated = [env.step(np.zeros(2))[3] for _ in range(100)]
    assert truncated == [False] * 99 + [True]


@pytest.mark.parametrize(
    ("kwargs", "num_tasks", "num_envs"),
    [
        ({}, 1, 1),
        ({"num_envs": 3}, 3, 3),
        ({"num_envs": 6, "meta_batch_size": 2}, 2, 6),
    ],
)
def test_make_vec_makes_tasks_side_by_side(kwargs, num_tasks, num_envs):
    envs = gymnasium.make_vec(ID, **kwargs)
    assert isinstance(envs.unwrapped, MetaIterativeEnvExecutor)
    assert (envs.unwrapped.meta_batch_size, envs.num_envs) == (num_tasks, num_envs)
    tasks = [{"goal": (float(i + 1), 0.0)} for i in range(num_tasks)]
    envs.unwrapped.set_tasks(tasks)
    obs, infos = envs.reset(seed=0)
    assert obs.tolist() == [[0, 0]] * num_envs
    each = num_envs // num_tasks
    assert infos["distance"].tolist() == [i + 1 for i in range(num_tasks) for _ in range(each)]
    rewards = envs.step(np.full((num_envs, 2), 0.0))[1]
    assert rewards.tolist() == (-infos["distance"]).tolist()
    envs.close()


def test_make_vec_truncates_and_begins_anew_in_the_same_step():
    envs = gymnasium.make_vec(ID, num_envs=2, max_episode_steps=2)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    envs.reset(seed=0)
    actions = np.full((2, 2), 0.1)
    envs.step(actions)
    obs, _, terminated, truncated, infos = envs.step(actions)
    assert terminated.tolist() == [False, False]
    assert truncated.tolist() == [True, True]
    assert obs.tolist() == [[0, 0], [0, 0]]
    assert np.stack(infos["final_obs"]).tolist() == [[0.2, 0.2], [0.2, 0.2]]
    envs.close()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_workers_return_what_one_process_returns(dtype):
    results = []
    for workers in (1, 2):
        envs = gymnasium.make_vec(ID, num_envs=4, workers=workers)
        if workers == 2:
            assert isinstance(envs.unwrapped, MetaParallelEnvExecutor)
        actions = np.random.default_rng(0).uniform(-0.1, 0.1, (3, 4, 2)).astype(dtype)
        results.append(play(envs, list(actions), seed=1))
        envs.close()
    assert equal(*results)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasiums_own_vector_environments_work_too(mode):
    envs = gymnasium.make_vec(ID, num_envs=2, vectorization_mode=mode)
    obs, _ = envs.reset(seed=0)
    assert obs.tolist() == [[0, 0], [0, 0]]
    envs.close()


@pytest.mark.parametrize(("num_envs", "tasks"), [(3, 2), (2, 3), (2, 0)])
def test_the_tasks_must_divide_the_environments(num_envs, tasks):
    with pytest.raises(
        ValueError, match=f"num_envs={num_envs} must be a multiple of meta_batch_size={tasks}"
    ):
        gymnasium.make_vec(ID, num_envs=num_envs, meta_batch_size=tasks)


def test_no_environments_are_refused():
    with pytest.raises(ValueError, match="num_envs"):
        gymnasium.make_vec(ID, num_envs=0)
