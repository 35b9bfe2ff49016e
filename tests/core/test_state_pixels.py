"""`StateAndPixels`, and environments that observe numbers, frames or both, as one set."""

import copy
import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import AddRenderObservation, FilterObservation, TransformAction

from mtwrappers import MetaIterativeEnvExecutor, MultiEnvWrapper, PadSpaces
from mtwrappers.core.state_pixels import StateAndPixels
from tests.fakes import CountingEnv, check_env_warnings, equal, play
from tests.mixed_envs import ARMS, SEEING, ArmEnv, SeeingEnv

STILL = np.zeros(2, np.float32)
PIXELS = Box(0, 255, (1, 2, 3), np.uint8)


def grey(*columns):
    """A frame of one row whose pixels are grey."""
    return [[[value] * 3 for value in columns]]


def shown(obs):
    return {key: value.tolist() for key, value in obs.items()}


@pytest.mark.parametrize(
    ("make", "states", "pixels", "mask"),
    [
        (SEEING[0], [[0, 0], [1, 1]], [grey(0, 10), grey(1, 11)], True),
        (SEEING[1], None, [grey(20, 30), grey(21, 31)], True),
        (SEEING[2], [[40] * 3, [41] * 3], [grey(0, 0)] * 2, False),
        (SEEING[3], [[60, 60], [61, 61]], [grey(60, 70), grey(61, 71)], True),
    ],
    ids=["dict", "frame", "numbers", "dict of numbers"],
)
def test_numbers_are_the_state_and_frames_the_pixels_of_one_size(make, states, pixels, mask):
    env = StateAndPixels(make(), (1, 2))
    assert env.pixels_mask is mask
    for count, (obs, *_, info) in enumerate(play(env, [STILL[: env.action_space.shape[0]]])):
        expected = {"pixels": pixels[count], **({"state": states[count]} if states else {})}
        assert shown(obs) == expected
        assert obs in env.observation_space
        assert info["pixels_mask"] is mask
    assert env.observation_space["pixels"] == PIXELS


def test_numbers_of_a_dict_follow_each_other_in_the_order_of_its_keys():
    class Named(SeeingEnv):
        def _obs(self):
            return {"b": np.array([1, 2], np.float32), "a": np.float32(3), "c": np.float32([4])}

    env = StateAndPixels(Named({"b": 2, "a": 0, "c": 1}), 2)
    assert env.reset()[0]["state"].tolist() == [3, 1, 2, 4]
    assert env.observation_space["state"] == Box(0, 99, (4,))


@pytest.mark.parametrize("observes", [{"numbers": {"": 3}}, {"frame": ""}])
def test_only_environments_that_observe_no_frame_render_one(observes):
    make = partial(SeeingEnv, **observes, render_mode="rgb_array")
    env = StateAndPixels(make(), (1, 2), render=True)
    obs, info = env.reset()
    assert obs["pixels"].tolist() == (grey(100, 100) if "numbers" in observes else grey(0, 10))
    assert info["pixels_mask"]
    # Not by itself, though it could.
    assert StateAndPixels(make(), 2).pixels_mask is ("frame" in observes)


def test_what_is_rendered_is_what_gymnasiums_wrapper_observes():
    make = partial(gymnasium.make, "CartPole-v1", render_mode="rgb_array")
    ours, theirs = (
        StateAndPixels(make(), (400, 600), render=True),
        AddRenderObservation(make(), render_only=False),
    )
    assert ours.observation_space == theirs.observation_space
    for (obs, *_), (expected, *_) in zip(
        play(ours, [0, 1], seed=3), play(theirs, [0, 1], seed=3), strict=True
    ):
        assert equal(obs, expected)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (CountingEnv(), None),
        (partial(SeeingEnv, {"a": 1}, "b")(), None),
        (gymnasium.make("FrozenLake-v1"), r"1-D Box, an image .*got Discrete\(16\); .*Transform"),
        (gymnasium.make("Blackjack-v1"), "got Tuple"),
    ],
)
def test_other_observations_are_refused(env, message):
    if message is None:
        assert StateAndPixels(env, 2).observation_space["state"].shape
        return
    with pytest.raises(TypeError, match=message):
        StateAndPixels(env, 2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"second": Box(0, 255, (5, 5, 3), np.uint8)},
            r"\['image', 'second'\] are several images: .*FilterObservation\(env, \['image', 'pos'",
        ),
        ({"depth": Box(0, 1, (2, 4))}, r"got Dict.*; \['depth'\] are neither: .*FilterObservation"),
        ({"kind": Discrete(3), "first": Box(0, 255, (3, 2, 4), np.uint8)}, "'first', 'kind'"),
        ({"both": Dict(a=Box(0, 1))}, r"\['both'\] are neither"),
    ],
)
def test_entries_that_are_no_numbers_and_several_frames_are_refused_and_the_hint_helps(
    more, message
):
    env = SeeingEnv({"pos": 2}, "image")
    env.observation_space = Dict({**env.observation_space.spaces, **more})
    with pytest.raises(TypeError, match=message) as raised:
        MultiEnvWrapper([ArmEnv, lambda: env], unify={"image_size": 2})
    assert "the observation space of task 1 must be" in str(raised.value)
    hint = str(raised.value).split("gymnasium.wrappers.")[1].split(" leaves")[0]
    env = eval(hint, {"FilterObservation": FilterObservation, "env": env})
    assert list(StateAndPixels(env, 2).observation_space) == ["pixels", "state"]


class Wrong(SeeingEnv):
    """Observes and renders what it is given."""

    def __init__(self, given, **kwargs):
        super().__init__(**kwargs)
        self.given = given

    def _obs(self):
        return self.given

    def render(self):
        return self.given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "array of dtype uint8, got NoneType"),
        (np.zeros((2, 2, 3)), "array of dtype uint8, got dtype float64"),
        (np.zeros((2, 2), np.uint8), r"\(height, width, 3\), got one of shape \(2, 2\)"),
        (np.zeros((0, 2, 3), np.uint8), r"got one of shape \(0, 2, 3\)"),
    ],
)
def test_what_is_rendered_must_be_a_frame(given, message):
    env = Wrong(given, numbers={"": 1}, render_mode="rgb_array")
    with pytest.raises(ValueError, match=rf"expected render\(\) to return an {message}|{message}"):
        StateAndPixels(env, 2, render=True).reset()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((3, 4, 3), np.uint8), r"shape \(2, 4, 3\) and dtype uint8, got"),
        (np.full((2, 4, 3), 256), r"shape \(2, 4, 3\) and dtype uint8, got"),
    ],
)
def test_what_is_observed_must_be_a_frame_of_the_space(given, message):
    with pytest.raises(ValueError, match=message):
        StateAndPixels(Wrong(given, frame=""), 2).reset()


def test_integers_that_numbers_beside_them_would_round_are_refused():
    env = SeeingEnv({"a": 1, "b": 1})
    env.observation_space = Dict(a=Box(0, 1, (1,)), b=Box(-(2**63), 2**63 - 2, (1,), np.int64))
    with pytest.raises(ValueError, match="cannot represent all integers beyond 9007199254740992"):
        StateAndPixels(env, 2)
    env.observation_space = Dict(a=Box(0, 1, (1,)), b=Box(0, 9, (1,), np.int64))
    env._obs = lambda: {"a": np.float32([0.5]), "b": np.array([2**53 + 1])}
    with pytest.raises(ValueError, match=r"integers in \[-9007199254740992, 9007199254740992\]"):
        StateAndPixels(env, 2).reset()


# As one set.

UNION = Dict(
    pixels=PIXELS,
    state=Box(0.0, 99.0, (3,), np.float64),
)
EXPECTED = [
    ({"state": [0, 0, 0], "pixels": grey(0, 10)}, [True, True, False], True),
    ({"state": [0, 0, 0], "pixels": grey(20, 30)}, [False] * 3, True),
    ({"state": [40, 40, 40], "pixels": grey(0, 0)}, [True] * 3, False),
    ({"state": [60, 60, 0], "pixels": grey(60, 70)}, [True, True, False], True),
]


@pytest.mark.parametrize(
    "sizes", [{}, {"observation_size": 3, "action_size": 2}], ids=["all", "lazy"]
)
def test_a_set_of_all_kinds_has_one_dict_and_masks_that_say_what_is_real(sizes):
    env = MultiEnvWrapper(SEEING, unify={"image_size": (1, 2), **sizes})
    space = env.env_observation_space
    if sizes:
        assert env.envs_built == 1
        assert space == Dict(pixels=PIXELS, state=Box(-np.inf, np.inf, (3,), np.float64))
    else:
        assert space == UNION
    for task, (expected, state_mask, pixels_mask) in enumerate(EXPECTED):
        obs, info = env.reset(seed=0, options={"task_state": task})
        assert shown(obs["env_obs"]) == expected
        assert obs in env.observation_space
        for masks in (info, {name: getattr(env, name) for name in ("observation_mask",)}):
            assert masks["observation_mask"].tolist() == state_mask
        assert (info["pixels_mask"], env.pixels_mask) == (pixels_mask, pixels_mask)
        assert info["action_mask"].tolist() == [True, task != 2]
        *_, info = env.step(STILL.astype(env.action_space.dtype))
        assert info["pixels_mask"] is pixels_mask
        obs["env_obs"]["state"][:] = 77  # which is the caller's own
        obs["env_obs"]["pixels"][:] = 77
    obs, _ = env.reset(options={"task_state": 1})
    assert shown(obs["env_obs"]) == EXPECTED[1][0]


def test_frames_alone_need_no_numbers():
    env = MultiEnvWrapper([SEEING[1]] * 2, unify={"image_size": (1, 2)})
    assert env.env_observation_space == Dict(pixels=PIXELS)
    assert shown(env.reset(seed=0)[0]["env_obs"]) == {"pixels": grey(20, 30)}
    env = MultiEnvWrapper([SEEING[1]] * 2, unify={"image_size": (1, 2), "observation_size": 2})
    assert shown(env.reset(seed=0)[0]["env_obs"])["state"] == [0, 0]


def test_an_environment_with_numbers_does_not_fit_a_space_without():
    unify = {"image_size": (1, 2), "action_size": 2}
    env = MultiEnvWrapper(
        [SEEING[1], SEEING[0]], env_observation_space=Dict(pixels=PIXELS), unify=unify
    )
    with pytest.raises(ValueError, match=r"task 1 has observation space Dict.*expected one within"):
        env.set_task_state(1)
    other = Dict(pixels=Box(0, 255, (9, 9, 3), np.uint8))
    with pytest.raises(ValueError, match=r"task 0 has observation space .*expected one within"):
        MultiEnvWrapper([SEEING[1]], env_observation_space=other, unify=unify)


def test_all_that_observe_no_frame_render_one_or_are_refused_by_name():
    makers = [partial(SEEING[0], render_mode="rgb_array"), SEEING[2]]
    unify = {"image_size": (1, 2), "render": True}
    message = "1 has observation space Box.* has no image, and needs render_mode='rgb_array' .*None"
    with pytest.raises(ValueError, match=f"task {message}"):
        MultiEnvWrapper(makers, unify=unify)
    with pytest.raises(ValueError, match=f"^environment 1.*: the environment {message[2:]}"):
        MetaIterativeEnvExecutor(makers, 2, unify=unify)
    makers[1] = partial(SEEING[2], render_mode="rgb_array")
    env = MultiEnvWrapper(makers, unify=unify)
    pixels = [env.reset(options={"task_state": i})[0]["env_obs"]["pixels"] for i in (0, 1)]
    assert [frame.tolist() for frame in pixels] == [grey(0, 10), grey(140, 140)]


@pytest.mark.parametrize("makers", [[SEEING[0], ARMS[0]], [ARMS[0], SEEING[1]]])
def test_without_a_size_for_frames_the_error_names_it(makers):
    with pytest.raises(TypeError, match=r"task \d must be a 1-D Box.*'image_size': 64"):
        MultiEnvWrapper(makers, unify="pad")
    other = MultiEnvWrapper(makers)
    with pytest.raises(ValueError, match=r"task 1 has observation"):
        other.set_task_state(1)
    frames = [SEEING[1], SEEING[0]]
    with pytest.raises(ValueError, match=r"environment 1 has .*unify=\{'image_size': 64\} gives"):
        MetaIterativeEnvExecutor(frames, 2)
    with pytest.raises(ValueError, match=r"task 1 has .*unify=\{'image_size': 64\} gives"):
        MultiEnvWrapper(frames).set_task_state(1)


def test_it_goes_through_json_pickle_and_copies_and_passes_the_checker():
    cart_pole = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env = PadSpaces(StateAndPixels(cart_pole, (20, 30), render=True), 6)
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.observation_space == env.observation_space
    assert again.spec == env.spec
    assert env.observation_space["state"].shape == (6,)
    results = [play(e, [0, 1], seed=2) for e in (env, again)]
    assert equal(*results)
    # Those that render keep a window of pygame, which does not pickle.
    env = PadSpaces(StateAndPixels(gymnasium.make("Pendulum-v1"), 2), 5, rescale=True)
    results = [play(each, [[0.5]], seed=2) for each in (env, pickle.loads(pickle.dumps(env)))]
    results.append(play(copy.deepcopy(env), [[0.5]], seed=2))
    assert equal(*results[:2])
    assert equal(*results[1:])
    assert check_env_warnings(env, skip_render_check=True) == []


def test_actions_can_be_made_alike_first():
    def cart_pole():
        env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
        return TransformAction(env, np.argmax, Box(-1, 1, (2,)))

    env = MultiEnvWrapper([cart_pole, SEEING[0]], unify={"image_size": 8, "render": True})
    obs, info = env.reset(seed=0)
    assert obs["env_obs"]["pixels"].shape == (8, 8, 3)
    assert obs["env_obs"]["pixels"].max() == 255
    assert info["observation_mask"].all()
