"""One Sawyer class under Gymnasium's contract; every class plays once beside Meta-World's own."""

from types import SimpleNamespace

import metaworld
import numpy as np
import pytest
from metaworld.policies import ENV_POLICY_MAP

from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld.class_env import (
    SawyerClassEnv,
    SawyerSettings,
    observation_box,
)
from tests.metaworld.fakes import actions, bare

CLASSES = metaworld.ALL_V3_ENVIRONMENTS
REACH = {"reach-v3": CLASSES["reach-v3"]}


def build(name, *, max_episode_steps=500, **settings):
    cls = CLASSES[name]
    box = observation_box({name: cls}, goals_visible=True)
    return SawyerClassEnv(name, cls, box, SawyerSettings(**settings), max_episode_steps)


def reach(**kwargs):
    env = build("reach-v3", **kwargs)
    env.set_task(make_benchmark("MT1", num_goals=1).train_tasks[0])
    env.reset()
    return env


def play(env, task, played, policy=None):
    """An episode's beginning: ``[(obs, info), (obs, reward, terminated, truncated, info), ...]``.

    With a policy, its actions replace the given ones.
    """
    env.set_task(task)
    returned = [env.reset()]
    for action in played:
        if policy is not None:
            action = policy.get_action(returned[-1][0])
        returned.append(env.step(action))
    return returned


@pytest.fixture(scope="module", params=CLASSES)
def played(request):
    """One class, ours and Meta-World's, on two visible goals and on a hidden one."""
    name = request.param
    env = build(name)
    shown, hidden = (
        make_benchmark(b, env_name=name, num_goals=2).train_tasks for b in ("MT1", "ML1")
    )
    ours, theirs = [], []
    for one, episodes in ((env, ours), (CLASSES[name](), theirs)):
        episodes.append(play(one, shown[0], actions(10)))
        episodes.append(play(one, hidden[1], actions(10)))
        episodes.append(play(one, shown[1], range(60), ENV_POLICY_MAP[name]()))
    return SimpleNamespace(
        name=name,
        ours=ours,
        theirs=theirs,
        visible_box=env.observation_space,
        hidden_box=observation_box({name: CLASSES[name]}, goals_visible=False),
    )


def test_observations_and_rewards_are_those_of_the_bare_class_bit_for_bit(played):
    for ours, theirs in zip(played.ours, played.theirs, strict=True):
        for our, their in zip(ours, theirs, strict=True):
            assert np.array_equal(our[0], their[0])
        for our, their in zip(ours[1:], theirs[1:], strict=True):
            assert our[1] == their[1]
            numbers = {key: float(value) for key, value in their[4].items()}
            assert our[4] == {**numbers, "task_name": played.name}


def test_observations_lie_in_the_tightest_space_and_show_the_goal_as_the_task_says(played):
    boxes = (played.visible_box, played.hidden_box, played.visible_box)
    for box, episode in zip(boxes, played.ours, strict=True):
        for returned in episode:
            assert returned[0].dtype == box.dtype == np.float64
            assert box.contains(returned[0])
            assert np.any(returned[0][-3:] != 0) == (box is played.visible_box)


def test_scalars_are_plain_and_infos_have_the_same_keys_on_reset_and_step(played):
    for (_, first_info), *steps in played.ours:
        assert [k for k, v in first_info.items() if type(v) is not float] == ["task_name"]
        for _, reward, terminated, truncated, info in steps:
            assert type(reward) is float
            assert terminated is False
            assert truncated is False
            assert info.keys() == first_info.keys()
            assert [k for k, v in info.items() if type(v) is not float] == ["task_name"]


def test_the_observation_box_has_the_bounds_of_hand_gripper_objects_and_goal():
    box = observation_box(REACH, goals_visible=True)
    hand_low, hand_high = [-0.525, 0.348, -0.0525], [0.525, 1.025, 0.7]
    assert box.dtype == np.float64
    assert box.low.tolist()[:4] == box.low.tolist()[18:22] == [*hand_low, -1.0]
    assert box.high.tolist()[:4] == box.high.tolist()[18:22] == [*hand_high, 1.0]
    assert box.low.tolist()[4:18] == box.low.tolist()[22:36] == [-1e10] * 14
    assert box.high.tolist()[4:18] == box.high.tolist()[22:36] == [1e10] * 14
    assert box.low.tolist()[36:] == [-0.1, 0.8, 0.05]
    assert box.high.tolist()[36:] == [0.1, 0.9, 0.3]
    hidden = observation_box(REACH, goals_visible=False)
    assert hidden.low.tolist()[36:] == [-0.1, 0.0, 0.0]  # which hold zero
    assert hidden.high.tolist()[36:] == [0.1, 0.9, 0.3]


def test_the_box_of_several_classes_is_the_union_of_theirs_and_has_width_everywhere():
    union = observation_box(CLASSES, goals_visible=True)
    boxes = [observation_box({n: c}, goals_visible=True) for n, c in CLASSES.items()]
    assert np.array_equal(union.low, np.min([box.low for box in boxes], axis=0))
    assert np.array_equal(union.high, np.max([box.high for box in boxes], axis=0))
    for box in (union, *boxes):
        assert np.all(box.low < box.high)
        assert np.all(np.isfinite([box.low, box.high]))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([np.nan, 0, 0, 0], r"reach-v3: expected a finite action, got \[nan  0.  0.  0.\]"),
        ([0, 0, 0, np.nan], "reach-v3: expected a finite action"),
        ([np.inf, -np.inf, 0, 0], "reach-v3: expected a finite action"),
        ([0, 0, 0], r"reach-v3: expected an action of shape \(4,\), got \(3,\)"),
        ([[0, 0, 0, 0]], r"reach-v3: expected an action of shape \(4,\), got \(1, 4\)"),
        (0.0, r"reach-v3: expected an action of shape \(4,\), got \(\)"),
    ],
)
def test_a_bad_action_is_refused_before_the_step_and_the_episode_goes_on(action, message):
    before, after = actions(3, 0), actions(3, 1)
    env, undisturbed = reach(), reach()
    for one in (env, undisturbed):
        for good in before:
            one.step(good)
    with pytest.raises(ValueError, match=message):
        env.step(np.array(action))
    for good in after.tolist():  # a list is an action too
        (obs, reward, *_), (expected, expected_reward, *_) = (
            env.step(good),
            undisturbed.step(np.array(good)),
        )
        assert np.array_equal(obs, expected)
        assert reward == expected_reward


def test_without_a_time_limit_an_episode_outlasts_that_of_meta_world():
    env = reach(max_episode_steps=None)
    assert [env.step(np.zeros(4, np.float32))[3] for _ in range(501)] == [False] * 501


def test_the_reward_function_version_reaches_the_class():
    rewards = []
    for version in ("v1", "v2"):
        stock = bare("reach-v3", reward_function_version=version)
        stock.reset()
        env = reach(reward_function_version=version)
        rewards.append([env.step(action)[1] for action in actions(3)])
        assert rewards[-1] == [stock.step(action)[1] for action in actions(3)]
    assert rewards[0] != rewards[1]


REFUSED = [
    ({"reward_function_version": "v3"}, "version must be 'v1' or 'v2', got 'v3'"),
    (
        {"render_mode": "ansi"},
        "must be 'rgb_array', 'depth_array', 'rgbd_tuple' or None, got 'ansi",
    ),
    ({"camera_name": "a", "camera_id": 1}, "camera_name or camera_id, not both; got 'a' and 1"),
    ({"width": 0}, "width must be a positive integer, got 0"),
    ({"height": 2.5}, r"height must be a positive integer, got 2\.5"),
    ({"upright": "no"}, "upright must be True or False, got 'no'"),
    ({"fast": None}, "fast must be 'auto', True or False, got None"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_settings_that_do_not_exist_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SawyerSettings(**settings)
