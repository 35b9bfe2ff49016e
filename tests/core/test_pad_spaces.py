"""`PadSpaces`: an environment among others whose spaces have other lengths."""

import copy
import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete

from mtwrappers import MultiEnvWrapper, PadSpaces
from tests.fakes import CountingEnv, check_env_warnings, equal, play
from tests.mixed_envs import ArmEnv

TYPES = [np.float32, np.float64]


def test_zeros_are_appended_to_observations_and_actions_are_cut():
    env = PadSpaces(ArmEnv(2, 3, bound=2.0), 5, 4)
    low, high = np.full(5, -100, np.float32), np.full(5, 100, np.float32)
    low[3:], high[3:] = 0, 1
    assert env.observation_space == Box(low, high)
    assert env.action_space == Box(np.float32([-2, -2, -1, -1]), np.float32([2, 2, 1, 1]))
    bare = ArmEnv(2, 3, bound=2.0)
    action = np.array([1.5, -0.5, 1, -1], np.float32)
    obs, info = env.reset(seed=3)
    alone = play(bare, [action[:2]] * 2, seed=3)
    assert equal(obs, np.append(alone[0][0], np.float32([0, 0])))
    for expected in alone[1:]:
        obs, *others = env.step(action)
        assert equal(obs, np.append(expected[0], np.float32([0, 0])))
        *others, said = others
        assert equal((*others, {"steps": said["steps"]}), expected[1:])
    assert equal(env.unwrapped.seen, action[:2])
    assert info["steps"] == 0


def test_masks_are_attributes_and_in_every_info():
    env = PadSpaces(ArmEnv(2, 3), 5, 4)
    _, info = env.reset()
    for masks in (info, {name: getattr(env, name) for name in info if name != "steps"}):
        assert masks["observation_mask"].tolist() == [True] * 3 + [False] * 2
        assert masks["action_mask"].tolist() == [True] * 2 + [False] * 2
        assert masks["action_mask"].dtype == np.bool_
    info["action_mask"][:] = False  # which is the caller's own
    assert env.reset()[1]["action_mask"].tolist() == [True, True, False, False]
    info = env.step(env.action_space.sample())[4]
    assert info["observation_mask"].tolist() == [True] * 3 + [False] * 2


def arm(low, high, dtype=np.float32):
    env = ArmEnv()
    env.action_space = Box(dtype(low), dtype(high), (2,), dtype)
    return env


def test_without_sizes_nothing_changes_and_other_actions_stay_as_they_are():
    env = PadSpaces(ArmEnv())
    assert (env.observation_space, env.action_space) == (
        ArmEnv().observation_space,
        ArmEnv().action_space,
    )
    assert env.observation_mask.all()
    env = PadSpaces(CountingEnv(), 3)
    _, info = env.reset()
    assert env.action_space == Discrete(2)
    assert env.action_mask is None
    assert "action_mask" not in info
    assert env.step(1)[0].tolist() == [1, 1, 0]
    assert env.unwrapped.actions == [1]


@pytest.mark.parametrize("junk", [0.0, 1.0, -0.0, 1e38, np.inf, np.nan])
def test_junk_in_padded_actions_changes_nothing(junk):
    results = []
    for padding in (0.5, junk):
        env = PadSpaces(ArmEnv(2, 3), 5, 4)
        actions = [np.array([a, -a, padding, padding], np.float32) for a in (0.3, -1, 0.9)]
        results.append(play(env, actions, seed=1))
    assert equal(*results)


def test_other_discrete_actions_are_refused_with_a_way_to_equal_ones():
    makers = [partial(gymnasium.make, name) for name in ("CartPole-v1", "MountainCar-v0")]
    message = (
        r"task 1 .* Discrete\(2\) as the first one .* give all of them one space.*TransformAct"
    )
    with pytest.raises(ValueError, match=message):
        MultiEnvWrapper(makers, unify="pad")


def test_an_action_of_another_shape_is_refused():
    env = PadSpaces(ArmEnv(), 3, 4)
    env.reset()
    for action in ([0.0, 0.0], np.zeros(5, np.float32), 0.0):
        with pytest.raises(ValueError, match=r"expected an action of shape \(4,\), got"):
            env.step(action)


def test_it_goes_through_json_pickle_and_copies_and_passes_the_checker():
    env = PadSpaces(gymnasium.make("MountainCarContinuous-v0"), np.int64(5), action_size=2)
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.action_space == env.action_space == Box(-1, 1, (2,))
    assert again.observation_space == env.observation_space
    actions = [np.float32([0.3, 7])] * 3
    results = [play(e, actions, seed=2) for e in (env, again)]
    twins = pickle.loads(pickle.dumps(env)), copy.deepcopy(env)
    results += [play(twin, actions, seed=2) for twin in twins]
    assert all(equal(results[0], result) for result in results[1:])
    assert check_env_warnings(env, skip_render_check=True) == []


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("unify", [{}, {"observation_size": 4, "action_size": 3}])
def test_the_dtype_of_actions_does_not_depend_on_which_environment_is_first(order, unify):
    types = TYPES[::order]
    makers = [partial(arm, -1.0, 1.0, dtype) for dtype in types]
    env = MultiEnvWrapper(makers, unify=unify or "pad")
    assert env.action_space.dtype == np.float64
    for task, dtype in enumerate(types):
        env.reset(seed=0, options={"task_state": task})
        env.step(np.full(env.action_space.shape, 0.1))
        seen = env.active_env.unwrapped.seen
        assert seen.dtype == dtype
        assert (seen == dtype(0.1)).all()
