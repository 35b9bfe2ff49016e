"""The particulars of `MetaWorldMTEnv`; a list of tasks is in ``test_task_list.py``."""

import json

import pytest
from gymnasium.error import ResetNeeded

from mtwrappers import MetaWorldSetTaskEnv
from mtwrappers.metaworld import MetaWorldMTEnv
from mtwrappers.metaworld.experts import expert
from mtwrappers.metaworld.tasks import decode
from tests.metaworld.fakes import HIDDEN, PAIR_ENV, make_vec, run_episode


def draw_tasks(env, n, **reset):
    states = []
    for i in range(n):
        env.reset(**reset if i == 0 else {})
        states.append(env.get_task_state())
    return states


@pytest.mark.parametrize(("kwargs", "visible"), [(PAIR_ENV, True), (HIDDEN, False)])
def test_the_goal_is_known_from_the_first_reset_on_whether_it_is_visible_or_not(kwargs, visible):
    env = MetaWorldMTEnv(**kwargs)
    with pytest.raises(ResetNeeded, match="task 0 has no episode since the environment was made"):
        _ = env.goal
    for state in (0, 1):  # of reach, which draws a start of the object and then the goal
        for obs, *_ in run_episode(env, options={"task_state": state}):
            assert obs["env_obs"][-3:].tolist() == (env.goal.tolist() if visible else [0, 0, 0])
        assert env.goal.tolist() == decode(env.tasks[state])["rand_vec"][3:].tolist()


def test_only_the_chosen_tasks_are_drawn_and_can_be_set():
    env = MetaWorldMTEnv(**PAIR_ENV, task_states=[4, 1])
    assert env.get_task_state() == 4
    assert set(draw_tasks(env, 20, seed=0)) == {1, 4}
    with pytest.raises(ValueError, match=r"one of this environment's own 2: \[4, 1\]; got 0"):
        env.reset(options={"task_state": 0})


def test_whether_a_success_ends_episodes_can_be_set_for_classes_that_are_built_and_those_to_come():
    env, successes = MetaWorldMTEnv(**PAIR_ENV), []
    for state, terminate in ((0, True), (3, True), (3, False), (0, False)):  # reach, push
        env.terminate_on_success = terminate
        act = expert(env.task_names[env.task_ids[state]])
        obs, _ = env.reset(options={"task_state": state})
        for _ in range(200):
            obs, _, terminated, _, info = env.step(act(obs["env_obs"], env.goal))
            assert terminated is (terminate and info["success"] == 1.0)
            if info["success"]:
                successes.append(state)
                break
    assert successes == [0, 3, 3, 0]
    assert env.envs_built == 2


# Rewards v1.


def is_solved(env):
    """Whether Meta-World's scripted policy reports a success on the first task."""
    [name] = env.task_names
    act, (obs, _) = expert(name), env.reset(options={"task_state": 0})
    for _ in range(200):
        obs, *_, info = env.step(act(obs["env_obs"], env.goal))
        if info["success"]:
            return True
    return False


@pytest.mark.parametrize("name", ["hand-insert-v3", "peg-insert-side-v3", "stick-push-v3"])
def test_three_classes_never_succeed_with_rewards_v1_which_a_warning_says(name):
    kwargs = {"env_name": name, "num_goals": 1}
    with pytest.warns(UserWarning, match=f"'v1', {name} can never report success"):
        env = MetaWorldMTEnv("MT1", **kwargs, reward_function_version="v1")
    assert [is_solved(MetaWorldMTEnv("MT1", **kwargs)), is_solved(env)] == [True, False]


def test_the_warning_names_all_classes_that_never_succeed_once():
    kwargs = {"num_goals": 1, "reward_function_version": "v1"}
    both = pytest.warns(UserWarning, match=r"'v1', peg-insert-side-v3, stick-push-v3 can")
    with both as warned, make_vec("ML45-train", **kwargs):
        pass
    assert len(warned) == 1
    with pytest.warns(UserWarning, match="'v1', peg-insert-side-v3 can never report success"):
        MetaWorldSetTaskEnv("MT10", **kwargs)
    MetaWorldMTEnv("MT1", env_name="push-v3", **kwargs)  # which can


# Curricula.


def read_history(env):
    """The tasks of each group, and the returns that are remembered of each task."""
    task_history = env.unwrapped._history
    groups = [task_history.members(g).tolist() for g in range(task_history.num_groups)]
    return groups, [list(task_history.returns(i)) for i in range(sum(map(len, groups)))]


def test_a_curriculum_sees_classes_as_groups_of_goals_and_one_class_as_goals():
    env = MetaWorldMTEnv(**PAIR_ENV, select="least_success", max_episode_steps=2)
    rewards = [step[1] for step in run_episode(env, 2, seed=0, options={"task_state": 4})[1:]]
    assert read_history(env) == ([[0, 1, 2], [3, 4, 5]], [[], [], [], [], [sum(rewards)], []])
    restored = MetaWorldMTEnv(**PAIR_ENV, select="least_success")
    restored.set_state(json.loads(json.dumps(env.get_state())))
    assert read_history(restored) == read_history(env)
    assert draw_tasks(restored, 12) == draw_tasks(env, 12)
    with make_vec("CustomMT", select="least_success", num_goals=2, max_episode_steps=1) as envs:
        run_episode(envs, 6, seed=0)
        for sub_env in envs.envs:  # over its own two goals
            groups, returns = read_history(sub_env)
            assert groups == [[0], [1]]
            assert sum(map(len, returns)) == 6
