"""One Sawyer class under Gymnasium's contract; every class runs once beside Meta-World's own."""

import metaworld
import numpy as np
import pytest
from metaworld.policies import ENV_POLICY_MAP

from mtwrappers.metaworld import MetaWorldSetTaskEnv, make_benchmark
from mtwrappers.metaworld.class_env import CAMERAS, observation_box
from tests.fakes import equal
from tests.metaworld.fakes import actions

CLASSES = metaworld.ALL_V3_ENVIRONMENTS
REACH = {"reach-v3": CLASSES["reach-v3"]}


def build(name, **kwargs):
    env = MetaWorldSetTaskEnv("MT1", env_name=name, num_goals=1, **kwargs)
    env.reset()
    return env._env


def episode(env, task, given, policy=None):
    """An episode's beginning: ``[(obs, info), (obs, reward, terminated, truncated, info), ...]``.

    With a policy, its actions replace the given ones.
    """
    getattr(env, "sawyer", env).set_task(task)
    returned = [env.reset()]
    for action in given:
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
    visible, hidden = (
        observation_box({name: CLASSES[name]}, goals_visible=visible) for visible in (True, False)
    )
    (first, second), (_, last) = (
        make_benchmark(b, env_name=name, num_goals=2, seed=0).train_tasks for b in ("MT1", "ML1")
    )
    monkeypatch.setattr(metaworld, "_N_GOALS", 2)
    assert metaworld.MT1(name, seed=0).train_tasks == [first, second]
    expert = ENV_POLICY_MAP[name]()
    for box, task, *how in (
        (visible, first, actions(10)),
        (hidden, last, actions(10)),
        (visible, second, range(60), expert),
    ):
        ours, theirs = (episode(one, task, *how) for one in (env, stock))
        keys = ours[0][1].keys()
        for (obs, *rest, info), (expected, *expected_rest, _) in zip(ours, theirs, strict=True):
            assert np.array_equal(obs, expected)
            assert obs.dtype == box.dtype == np.float64
            assert box.contains(obs)
            assert np.any(obs[-3:] != 0) == (box is visible)
            assert rest[:1] == expected_rest[:1]
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
    before, after = actions(3, 0), actions(3, 1)
    env, undisturbed = build("reach-v3"), build("reach-v3")
    for one in (env, undisturbed):
        for good in before:
            one.step(good)
    with pytest.raises(ValueError, match="reach-v3: expected a finite action"):
        env.step(np.array([0, 0, 0, np.nan]))
    for other in (["0"] * 4, [None] * 4, [True] * 4):
        with pytest.raises(ValueError, match="reach-v3: expected an action of numbers, got array"):
            env.step(other)
    for good in after.tolist():  # a list is an action too
        assert equal(env.step(good), undisturbed.step(np.array(good)))


def test_without_a_time_limit_an_episode_outlasts_that_of_meta_world():
    env = build("reach-v3", max_episode_steps=None)
    assert [env.step(np.zeros(4, np.float32))[3] for _ in range(501)] == [False] * 501
