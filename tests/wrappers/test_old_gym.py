"""`OldGym`: the interface of OpenAI Gym before 0.26."""

import copy
import pickle
import sys
import types

import gymnasium
import numpy as np
import pytest

import mtwrappers
from mtwrappers import OldGym, PointGoalEnv

TASKS = [{"goal": (1.0, 0.0)}, {"goal": (0.0, 1.0)}]


def make_point(steps=3):
    return gymnasium.make("mtwrappers/PointGoal-v0", max_episode_steps=steps)


def test_reset_returns_an_observation_and_step_four_values():
    env = OldGym(make_point(), TASKS)
    assert env.reset().tolist() == [0, 0]
    obs, reward, done, info = env.step(np.array([0.1, 0.0]))
    assert obs.tolist() == [0.1, 0]
    assert (reward, done) == (-0.9, False)
    assert "TimeLimit.truncated" not in info


def test_a_time_limit_is_done_and_named_in_the_info():
    env = OldGym(make_point(2))
    env.reset()
    steps = [env.step(np.zeros(2)) for _ in range(2)]
    assert [step[2] for step in steps] == [False, True]
    assert steps[1][3]["TimeLimit.truncated"] is True


@pytest.mark.parametrize(
    ("terminated", "truncated", "done", "flag"),
    [(True, False, True, None), (True, True, True, False), (False, True, True, True)],
)
def test_an_end_is_truncated_only_if_the_limit_alone_ended_it(terminated, truncated, done, flag):
    class Ends(PointGoalEnv):
        def step(self, action):
            obs, reward, _, _, info = super().step(action)
            return obs, reward, terminated, truncated, info

    env = OldGym(Ends())
    env.reset()
    _, _, ended, info = env.step(np.zeros(2))
    assert ended is done
    assert info.get("TimeLimit.truncated") is flag


def test_a_task_is_set_by_its_index_and_stays():
    env = OldGym(gymnasium.make("mtwrappers/PointRobot-v0"), TASKS)  # whose resets draw
    assert env.get_all_task_idx() == range(2)
    for index in (1, 0, np.int64(1)):
        env.reset_task(index)
        for _ in range(3):
            env.reset()
            assert env.get_task() == TASKS[index]
            assert env._goal == TASKS[index]["goal"]


def test_a_task_can_be_passed_or_drawn():
    env = OldGym(gymnasium.make("mtwrappers/PointRobot-v0"))
    env.reset_task({"goal": (0.5, 0.25)})
    assert env.get_task() == {"goal": (0.5, 0.25)}
    env.seed(3)
    env.reset_task()
    drawn = env.get_task()
    env.reset()
    assert env.get_task() == drawn
    env.seed(3)
    assert env.sample_tasks(1) == [drawn]


def test_seed_seeds_observations_and_tasks_at_once():
    envs = [OldGym(gymnasium.make("mtwrappers/PointRobot-v0")) for _ in range(3)]
    assert [env.seed(seed) for env, seed in zip(envs, (5, 5, 6), strict=True)] == [[5], [5], [6]]
    assert envs[0].seed() == []
    first, second, different = ([env.sample_tasks(2), env.reset().tolist()] for env in envs)
    assert first == second
    assert first[0] != different[0]
    assert first[1] != different[1]


def test_task_states_are_the_tasks_of_an_mtenv():
    make = mtwrappers.MultiEnvWrapper
    env = OldGym(make([make_point, make_point], sample_tasks_on_reset=True))
    env.seed(0)
    assert env.get_all_task_idx() == range(2)
    for index in (1, 0, 1):
        env.reset_task(index)
        env.reset()
        assert env.get_task() == index
    drawn = set()
    for _ in range(20):
        env.reset_task()
        task = env.get_task()
        env.reset()
        assert env.get_task() == task
        drawn.add(task)
    assert drawn == {0, 1}


@pytest.mark.parametrize("index", [0, 1])
def test_seed_keeps_the_task_state_that_was_set(index):
    env = OldGym(mtwrappers.MultiEnvWrapper([make_point] * 2, sample_tasks_on_reset=True))
    env.reset_task(index)
    for seed in (0, 1):
        env.seed(seed)
        assert env.get_task() == index
        env.reset()
        assert env.get_task() == index


def test_an_index_is_a_place_in_the_environments_own_task_states():
    pytest.importorskip("metaworld")
    from mtwrappers.metaworld import MetaWorldMTEnv

    settings = {"env_name": "reach-v3", "num_goals": 3, "task_states": [2, 1]}
    env = OldGym(MetaWorldMTEnv("MT1", **settings))
    assert env.get_all_task_idx() == range(2)
    for index, task_state in ((0, 2), (1, 1)):
        env.reset_task(index)
        assert env.get_task() == task_state
    with pytest.raises(ValueError, match=r"integer in \[0, 1\], got 2"):
        env.reset_task(2)


def test_task_states_can_be_passed_as_tasks():
    env = OldGym(mtwrappers.MultiEnvWrapper([make_point] * 3), tasks=[2, 0])
    for index, task_state in ((0, 2), (1, 0)):
        env.reset_task(index)
        assert env.get_task() == task_state
        assert env._goal == task_state
    env.seed(0)
    drawn = set()
    for _ in range(20):
        env.reset_task()
        assert env._goal == env.get_task()
        drawn.add(env.get_task())
    assert drawn == {2, 0}


def test_the_task_of_an_mtenv_is_current_as_soon_as_it_is_set():
    env = OldGym(mtwrappers.MultiEnvWrapper([make_point] * 3, sample_tasks_on_reset=True))
    env.set_task(2)
    assert env.get_task() == 2
    env.reset()
    with pytest.raises(ValueError, match=r"integer in \[0, 2\], got 3"):
        env.set_task(3)
    assert env.get_task() == 2
    env.set_task_state(1)  # the environment's own method
    for _ in range(3):
        env.reset()
        assert env.get_task() == 1


def test_a_task_is_drawn_from_the_list():
    env = OldGym(mtwrappers.MultiEnvWrapper([make_point] * 9), tasks=[7, 2])
    drawn = []
    for _ in range(2):
        env.seed(0)
        for _ in range(9):
            env.reset_task()
            drawn.append(env.get_task())
    assert {*drawn} == {7, 2}
    assert drawn[:9] == drawn[9:]


def test_the_environment_and_the_tasks_can_be_replaced():
    first, second = mtwrappers.MultiEnvWrapper([make_point] * 3), make_point()
    first.tasks = "the environment's own"
    env = OldGym(first, tasks=[2, 0])
    env.tasks = [1]
    assert (env.get_all_task_idx(), first.tasks) == (range(1), "the environment's own")
    env.set_task(1)
    env.env, env.tasks = second, TASKS
    assert env.env is second
    env.reset_task(1)
    assert second.unwrapped.get_task() == TASKS[1]
    with pytest.raises(TypeError, match=r"must be a gymnasium\.Env, got 3"):
        env.env = 3
    with pytest.raises(ValueError, match="tasks must hold at least one task"):
        env.tasks = []
    with pytest.raises(AttributeError, match="unwrapped"):
        env.unwrapped = second
    assert (env.env, env.tasks) == (second, TASKS)


def test_an_environment_without_tasks_says_so():
    env = OldGym(gymnasium.make("CartPole-v1"))
    with pytest.raises(ValueError, match="there is no list of tasks"):
        env.get_all_task_idx()
    with pytest.raises(TypeError, match=r"has no get_task\(\) and no get_task_state\(\)"):
        env.get_task()
    with pytest.raises(TypeError, match="to draw a task"):
        env.reset_task()


def test_attributes_are_read_and_set_on_the_environment():
    point = make_point()
    env = OldGym(point)
    assert env._max_episode_steps == 3
    assert env.unwrapped is env
    env.radius = 2.0  # as in `env._freeze_rand_vec = False`
    assert point.unwrapped.radius == 2.0
    env.task_dim = 2  # VariBAD
    assert vars(env)["task_dim"] == 2
    assert not hasattr(point.unwrapped, "task_dim")
    env.reset_task = lambda task: "replaced"
    assert env.reset_task(0) == "replaced"
    with pytest.raises(AttributeError, match="no_such"):
        env.no_such  # noqa: B018


def test_copies_and_pickles_are_on_the_same_task():
    env = OldGym(PointGoalEnv(), TASKS)
    env.reset_task(1)
    for copied_env in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        copied_env.reset()
        assert copied_env.get_task() == TASKS[1]
        assert copied_env.env is not env.env


def test_spaces_are_those_of_the_old_gym_if_it_was_imported(monkeypatch):
    env = OldGym(PointGoalEnv())
    assert env.action_space == env.env.action_space
    spaces = types.SimpleNamespace(
        Box=lambda low, high, dtype: ("Box", low.tolist(), high.tolist(), dtype),
        Discrete=lambda n: ("Discrete", n),
    )
    monkeypatch.setitem(sys.modules, "gym", types.SimpleNamespace(spaces=spaces))
    assert env.action_space == ("Box", [-0.1, -0.1], [0.1, 0.1], np.float64)
    bandit = OldGym(gymnasium.make("mtwrappers/Bandit-v0", arms=4))
    assert bandit.action_space == ("Discrete", 4)


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"must be a gymnasium\.Env, got 3"):
        OldGym(3)
    with pytest.raises(ValueError, match="tasks"):
        OldGym(PointGoalEnv(), [])
    env = OldGym(PointGoalEnv(), TASKS)
    with pytest.raises(ValueError, match=r"integer in \[0, 1\], got 2"):
        env.reset_task(2)
    env = OldGym(PointGoalEnv())
    with pytest.raises(ValueError, match="there is no list of tasks: pass one"):
        env.reset_task(0)
    env = OldGym(gymnasium.make("CartPole-v1"))
    with pytest.raises(TypeError, match="has no set_task"):
        env.set_task({})


def test_what_a_project_sets_after_a_task_is_not_undone_by_a_reset():
    class Freezes(PointGoalEnv):
        """Like Meta-World's classes, whose `set_task` stops them from drawing goals."""

        frozen = False

        def set_task(self, task):
            super().set_task(task)
            self.frozen = True

    env = OldGym(Freezes())
    env.set_task(TASKS[0])
    env.frozen = False  # Continual World's `random_init_all`
    env.reset()
    assert env.frozen is False
