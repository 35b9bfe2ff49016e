"""`PadSpaces`: an environment among others whose spaces have other lengths."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from mtwrappers import MultiEnvWrapper, PadSpaces, as_vector
from mtwrappers.vector.settings import DifferentSpacesError
from tests.fakes import CountingEnv, equal, play
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
    unpadded = play(bare, [action[:2]] * 2, seed=3)
    assert equal(obs, np.append(unpadded[0][0], np.float32([0, 0])))
    for expected in unpadded[1:]:
        obs, reward, terminated, truncated, step_info = env.step(action)
        assert equal(obs, np.append(expected[0], np.float32([0, 0])))
        steps = {"steps": step_info["steps"]}
        assert equal((reward, terminated, truncated, steps), expected[1:])
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


def test_other_discrete_actions_are_refused_with_a_way_to_equal_ones():
    makers = [partial(gymnasium.make, name) for name in ("CartPole-v1", "MountainCar-v0")]
    message = (
        r"task 1 .* give all of them one space.*TransformAct.*: it is Discrete\(3\), expected Disc"
    )
    with pytest.raises(ValueError, match=message):
        MultiEnvWrapper(makers, unify="pad")


def test_an_action_of_another_shape_is_refused():
    env = PadSpaces(ArmEnv(), 3, 4)
    env.reset()
    for action in ([0.0, 0.0], np.zeros(5, np.float32), 0.0):
        with pytest.raises(ValueError, match=r"expected an action of shape \(4,\), got"):
            env.step(action)


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


def test_bounds_are_compared_in_the_dtype_of_each_environment():
    env = MultiEnvWrapper([partial(arm, -0.1, 0.1, dtype) for dtype in TYPES[::-1]], unify="pad")
    assert env.action_space.high.tolist() == [0.1, 0.1]
    env.reset(seed=0, options={"task_state": 1})
    env.step(env.action_space.high)
    assert env.active_env.unwrapped.seen in env.active_env.unwrapped.action_space
    makers = [partial(arm, -0.1, 0.1, dtype) for dtype in TYPES]  # float32's 0.1 is above 0.1
    with pytest.raises(ValueError, match=r"task 1 .* other bounds.* expected \[-0\.1000000014"):
        MultiEnvWrapper(makers, unify="pad")


# What the error about different spaces names is what makes them the same.


def flat(size, bound=1.0, dtype=np.float32):
    return Box(dtype(-bound), dtype(bound), (size,), dtype)


ANY_DICT = Dict(a=flat(1))
FLATTEN = gymnasium.wrappers.FlattenObservation


class SpacesEnv(gymnasium.Env):
    """Observes and takes whatever is in its spaces."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        return self.observation_space.sample(), 0.0, False, False, {}


def rescale(env):
    return gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))


def bound_actions(env):
    return gymnasium.wrappers.TransformAction(env, lambda a: env.action_space.sample(), flat(2))


def one_observation(env):
    return gymnasium.wrappers.TransformObservation(env, lambda obs: np.zeros(2, "f"), flat(2))


@pytest.mark.parametrize(
    ("first", "second", "hint", "wrap", "unify"),
    [
        ((flat(3), flat(2)), (flat(5), flat(2)), "unify", None, "pad"),
        ((flat(3), flat(2)), (flat(3), flat(4)), "unify", None, "pad"),
        ((flat(3), flat(2)), (flat(3), flat(2, dtype=np.float64)), "unify", None, "pad"),
        ((flat(3), flat(2)), (flat(3), flat(2, 3.0)), "make .* RescaleAction", rescale, None),
        ((flat(3), flat(2)), (flat(3), flat(4, 3.0)), "wrap .* RescaleAction", rescale, "pad"),
        ((flat(3), flat(2)), (flat(5), flat(2, 3.0)), "wrap .* RescaleAction", rescale, "pad"),
        ((flat(3), flat(2)), (flat(3), Discrete(3)), "make .* TransformAct", bound_actions, None),
        ((flat(3), Discrete(3)), (flat(3), flat(2)), "make .* TransformAct", bound_actions, None),
        ((flat(3), flat(2)), (flat(5), Discrete(3)), "wrap .* TransformAct", bound_actions, "pad"),
        ((flat(3), Discrete(3)), (flat(5), Discrete(3)), "unify", None, "pad"),
        (
            (flat(3), flat(2, dtype=np.int64)),
            (flat(5), flat(2, dtype=np.int64)),
            "wrap .* TransformAction of",
            bound_actions,
            "pad",
        ),
        ((ANY_DICT, flat(2)), (ANY_DICT, flat(4)), "wrap .* FlattenObservation", FLATTEN, "pad"),
        (
            (ANY_DICT, flat(2)),
            (flat(3), flat(2)),
            "make .* TransformObservation of",
            one_observation,
            None,
        ),
        (
            (ANY_DICT, flat(2)),
            (flat(3), Discrete(3)),
            "make .* TransformObservation and TransformAction of",
            lambda env: one_observation(bound_actions(env)),
            None,
        ),
    ],
)
def test_the_error_about_different_spaces_names_what_makes_them_the_same(
    first, second, hint, wrap, unify
):
    makers = [partial(SpacesEnv, *first), partial(SpacesEnv, *second)]
    difference = f"; {hint}.*own-environments.md\\): .*expected "
    with pytest.raises(DifferentSpacesError, match=f"environment 1 has .*{difference}"):
        as_vector(makers)
    env = MultiEnvWrapper(makers)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=f"task 1 has .*{difference}"):
        env.reset(options={"task_state": 1})
    if wrap is not None:
        makers = [lambda maker=maker: wrap(maker()) for maker in makers]
    envs, env = as_vector(makers, unify=unify), MultiEnvWrapper(makers, unify=unify)
    envs.reset(seed=0)
    envs.step(envs.action_space.sample())
    for task_state in (0, 1):
        env.reset(seed=0, options={"task_state": task_state})
        env.step(env.action_space.sample())
    envs.close()
