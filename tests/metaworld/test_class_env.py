"""One Sawyer class under Gymnasium's contract; every class runs once beside Meta-World's own."""

import metaworld
import numpy as np
import pytest
from metaworld.policies import ENV_POLICY_MAP

from mtwrappers.metaworld import MetaWorldSetTaskEnv, make_benchmark
from mtwrappers.metaworld.class_env import CAMERAS, observation_box
from tests.fakes import equal
from tests.metaworld.fakes import random_actions

CLASSES = metaworld.ALL_V3_ENVIRONMENTS
REACH = {"reach-v3": CLASSES["reach-v3"]}


def build(name, **kwargs):
    env = MetaWorldSetTaskEnv("MT1", env_name=name, num_goals=1, **kwargs)
    env.reset()
    return env._env


def run_episode(env, task, actions, policy=None):
    """An episode's beginning: ``[(obs, info), (obs, reward, terminated, truncated, info), ...]``.

    With a policy, its actions replace the given ones.
    """
    getattr(env, "sawyer", env).set_task(task)
    returned = [env.reset()]
    for action in actions:
        if policy is not None:
            action = policy.get_action(returned[-1][0])
        returned.append(env.step(action))
    return returned


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.slow_but("reach-v3", "push-v3", "pick-place-v3", "door-open-v3")
def test_a_class_has_the_tasks_of_the_bare_one_and_plays_as_it_bit_for_bit_in_plain_python(
    name, monkeypatch
):
    env, stock = build(name), CLASSES[name]()
    assert tuple(stock.model.camera(i).name for i in range(stock.model.ncam)) == CAMERAS
    visible = observation_box({name: CLASSES[name]}, goals_visible=True)
    hidden = observation_box({name: CLASSES[name]}, goals_visible=False)
    first, second = make_benchmark("MT1", env_name=name, num_goals=2, seed=0).train_tasks
    _, hidden_task = make_benchmark("ML1", env_name=name, num_goals=2, seed=0).train_tasks
    monkeypatch.setattr(metaworld, "_N_GOALS", 2)
    assert metaworld.MT1(name, seed=0).train_tasks == [first, second]
    expert = ENV_POLICY_MAP[name]()
    for box, task, actions, policy in (
        (visible, first, random_actions(10), None),
        (hidden, hidden_task, random_actions(10), None),
        (visible, second, range(60), expert),
    ):
        ours = run_episode(env, task, actions, policy)
        theirs = run_episode(stock, task, actions, policy)
        keys = ours[0][1].keys()
        for (obs, *reward_and_flags, info), (expected, *expected_reward_and_flags, _) in zip(
            ours, theirs, strict=True
        ):
            assert np.array_equal(obs, expected)
            assert obs.dtype == box.dtype == np.float64
            assert box.contains(obs)
            assert np.any(obs[-3:] != 0) == (box is visible)
            assert reward_and_flags[:1] == expected_reward_and_flags[:1]
            assert info.keys() == keys
            assert [k for k, v in info.items() if type(v) is not float] == ["task_name"]
        for (_, reward, *flags, info), (*_, numbers) in zip(ours[1:], theirs[1:], strict=True):
            assert type(reward) is float
            assert flags[0] is flags[1] is False
            assert info == {**{k: float(v) for k, v in numbers.items()}, "task_name": name}


def test_the_observation_box_has_the_bounds_of_hand_gripper_objects_and_goal():
    box = observation_box(REACH, goals_visible=True)
    low = [-0.525, 0.348, -0.0525, -1.0, *[-1e10] * 14]
    high = [0.525, 1.025, 0.7, 1.0, *[1e10] * 14]
    assert box.dtype == np.float64
    assert box.low.tolist() == [*low, *low, -0.1, 0.8, 0.05]
    assert box.high.tolist() == [*high, *high, 0.1, 0.9, 0.3]
    hidden = observation_box(REACH, goals_visible=False)
    assert hidden.low.tolist()[36:] == [-0.1, 0.0, 0.0]  # which hold zero
    assert hidden.high.tolist()[36:] == [0.1, 0.9, 0.3]


def test_a_bad_action_is_refused_before_the_step_and_the_episode_goes_on():
    first_actions, last_actions = random_actions(3, 0), random_actions(3, 1)
    env, undisturbed = build("reach-v3"), build("reach-v3")
    for reach_env in (env, undisturbed):
        for action in first_actions:
            reach_env.step(action)
    with pytest.raises(ValueError, match="reach-v3: expected a finite action"):
        env.step(np.array([0, 0, 0, np.nan]))
    for bad_action in (["0"] * 4, [None] * 4, [True] * 4):
        with pytest.raises(ValueError, match="reach-v3: expected an action of numbers, got array"):
            env.step(bad_action)
    for action in last_actions.tolist():  # a list is an action too
        assert equal(env.step(action), undisturbed.step(np.array(action)))


def test_without_a_time_limit_an_episode_outlasts_that_of_meta_world():
    env = build("reach-v3", max_episode_steps=None)
    assert [env.step(np.zeros(4, np.float32))[3] for _ in range(501)] == [False] * 501
