"""`PadSpaces`: an environment among others whose spaces have other lengths."""

import copy
import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.wrappers import DtypeObservation, RescaleAction, TransformAction

from mtwrappers import MetaIterativeEnvExecutor, MultiEnvWrapper, PadSpaces
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


def test_actions_between_bounds_of_length_two_are_moved():
    env, expected = (
        PadSpaces(arm(0.0, 2.0), rescale=True),
        RescaleAction(arm(0.0, 2.0), np.float32(-1), np.float32(1)),
    )
    for one in (env, expected):
        one.reset(seed=0)
        one.step(np.array([-1.0, 0.5], np.float32))
    assert env.unwrapped.seen.tolist() == expected.unwrapped.seen.tolist() == [0.0, 1.5]


def test_mixed_environments_have_one_dtype_of_actions_and_each_environment_its_own():
    envs = MetaIterativeEnvExecutor([partial(arm, -1.0, 1.0, t) for t in TYPES], 2, unify="pad")
    assert envs.single_action_space.dtype == np.float64
    envs.reset(seed=0)
    envs.step(np.full((2, 2), 0.1))
    assert [env.unwrapped.seen.dtype for env in envs.envs] == TYPES
    envs.close()


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (-2.0, 1.0)])
def test_other_bounds_are_refused_on_either_side(bounds):
    makers = [partial(arm, -1.0, 1.0), partial(arm, *bounds)]
    with pytest.raises(ValueError, match=r"environment 1 .* has other bounds than"):
        MetaIterativeEnvExecutor(makers, 2, unify="pad")


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
        env = PadSpaces(ArmEnv(2, 3, bound=0.4), 5, 4, rescale=True)
        actions = [np.array([a, -a, padding, padding], np.float32) for a in (0.3, -1, 0.9)]
        results.append(play(env, actions, seed=1))
    assert equal(*results)


BOUNDS = [(-2, 2), (-0.4, 0.4), (0, 1), (-1, 1), (-0.3, 0.7), ([-1, 0.1], [1, 3e3])]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_rescaled_actions_are_those_of_gymnasiums_wrapper(bounds, dtype):
    low, high = (np.broadcast_to(np.array(bound, dtype), (2,)) for bound in bounds)
    env, ones = ArmEnv(), np.ones(2, dtype)
    env.action_space = Box(low, high, dtype=dtype)
    ours, theirs = PadSpaces(env, 9, 3, rescale=True), RescaleAction(env, -ones, ones)
    assert ours.action_space == Box(-1.0, 1.0, (3,), dtype)
    for action in np.random.default_rng(0).uniform(-1, 1, (50, 3)).astype(dtype):
        assert equal(ours._cut(action), np.clip(theirs.func(action[:2]), low, high))


@pytest.mark.parametrize(
    ("change", "args", "error", "message"),
    [
        ({}, (2,), ValueError, "observation_size must be at least the environment's 3, got 2"),
        ({}, (3, 1), ValueError, "action_size must be at least the environment's 2, got 1"),
        ({"observation_space": Box(0, 255, (4, 4, 3), np.uint8)}, (), TypeError, "FlattenObserv"),
        ({"observation_space": Dict(a=Box(0, 1))}, (), TypeError, "1-D Box .*FlattenObservation"),
        ({"action_space": Discrete(3)}, (3, 4), TypeError, r"TransformAction.*np.argmax.*\(3,\)"),
        ({"action_space": Discrete(3)}, (3, None, True), TypeError, "TransformAction"),
        ({"action_space": Box(-1, 1, (2, 2))}, (), TypeError, r"got Box.*\(env, function, Box"),
        (
            {"action_space": Box(-1, np.inf, (2,))},
            (3, 2, True),
            ValueError,
            "only actions with bounds",
        ),
    ],
)
def test_what_cannot_be_padded_is_refused(change, args, error, message):
    env = ArmEnv()
    for name, space in change.items():
        setattr(env, name, space)
    with pytest.raises(error, match=message):
        PadSpaces(env, *args)


@pytest.mark.parametrize(
    "space",
    [
        Discrete(3),
        Discrete(3, start=1),
        Discrete(4, start=-2),
        MultiBinary(3),
        MultiBinary([2, 3]),
        MultiDiscrete([3, 2, 4]),
        MultiDiscrete([3, 2], start=[1, -1]),
        MultiDiscrete([[3, 2], [4, 5]]),
    ],
    ids=str,
)
def test_what_a_message_says_of_actions_gives_all_of_them_and_no_others(space):
    env = CountingEnv(99)
    env.action_space = space
    with pytest.raises(TypeError) as raised:
        PadSpaces(env, 2, 30)
    hint = str(raised.value).split("as in gymnasium.wrappers.")[1]
    wrapped = eval(hint, {"TransformAction": TransformAction, "np": np, "Box": Box, "env": env})
    env = PadSpaces(wrapped, 2, 30, rescale=True)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(300):
        env.step(env.action_space.sample())
        env.reset()
    seen = env.unwrapped.actions
    assert all(action in space for action in seen)
    space.seed(0)
    drawn = [space.sample() for _ in range(300)]
    columns = [np.transpose([np.ravel(action) for action in each]) for each in (seen, drawn)]
    assert [set(values) for values in columns[0]] == [set(values) for values in columns[1]]


def test_what_the_messages_say_helps():
    env = TransformAction(gymnasium.make("CartPole-v1"), np.argmax, Box(-1, 1, (2,)))
    env = PadSpaces(env, 6, 3)
    env.reset(seed=0)
    assert env.step(np.float32([0.1, 0.2, 9]))[0][1] > 0  # pushed to the right
    frames = ArmEnv()
    frames.observation_space = Box(0, 255, (2, 2, 3), np.uint8)
    padded = PadSpaces(gymnasium.wrappers.FlattenObservation(frames), 20)
    assert padded.observation_space.dtype == np.uint8


def test_an_action_of_another_shape_is_refused():
    env = PadSpaces(ArmEnv(), 3, 4)
    env.reset()
    for action in ([0.0, 0.0], np.zeros(5, np.float32), 0.0):
        with pytest.raises(ValueError, match=r"expected an action of shape \(4,\), got"):
            env.step(action)
    with pytest.raises(ValueError, match=r"expected an observation of shape \(3,\)"):
        env._pad(np.zeros(2))


def test_it_goes_through_json_pickle_and_copies_and_passes_the_checker():
    env = PadSpaces(gymnasium.make("Pendulum-v1"), np.int64(5), action_size=2, rescale=True)
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.action_space == env.action_space == Box(-1, 1, (2,))
    assert again.observation_space == env.observation_space
    actions = [np.float32([0.3, 7])] * 3
    results = [play(e, actions, seed=2) for e in (env, again)]
    twins = pickle.loads(pickle.dumps(env)), copy.deepcopy(env)
    results += [play(twin, actions, seed=2) for twin in twins]
    assert all(equal(results[0], result) for result in results[1:])
    assert check_env_warnings(env, skip_render_check=True) == []


@pytest.mark.parametrize("together", [False, True], ids=["alone", "beside float64"])
def test_rescaled_actions_are_in_the_environments_own_space(together):
    """Without clipping, rounding puts one of six ends of an interval beyond its bound."""
    rng = np.random.default_rng(0)
    for dtype in TYPES * 100:
        low, high = np.sort(rng.normal(scale=10, size=(2, 5)), axis=0).astype(dtype)
        inner = ArmEnv(5, length=9)
        inner.action_space = Box(low, high, dtype=dtype)
        env = PadSpaces(inner, rescale=True)
        if together:
            makers = [partial(_same, inner), partial(arm, 0.0, 2.0, np.float64)]
            env = MultiEnvWrapper(makers, unify={"rescale": True})
        env.reset(seed=0)
        for action in (-np.ones(5), np.ones(5), *rng.uniform(-1, 1, (3, 5))):
            env.step(action.astype(env.action_space.dtype))  # which asserts it


def _same(env):
    return env


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("unify", [{}, {"observation_size": 4, "action_size": 3}])
def test_the_dtype_of_actions_does_not_depend_on_which_environment_is_first(order, unify):
    types = TYPES[::order]
    makers = [partial(arm, -1.0, 1.0, dtype) for dtype in types]
    env = MultiEnvWrapper(makers, unify={"rescale": True, **unify})
    assert env.action_space.dtype == np.float64
    for task, dtype in enumerate(types):
        env.reset(seed=0, options={"task_state": task})
        env.step(np.full(env.action_space.shape, 0.1))
        seen = env.active_env.unwrapped.seen
        assert seen.dtype == dtype
        assert (seen == dtype(0.1)).all()


class WholeEnv(ArmEnv):
    """Observes integers, the first of which is ``given``."""

    def __init__(self, low, high, given=0, dtype=np.int64):
        super().__init__()
        self.observation_space, self.given = Box(low, high, (3,), dtype), given

    def _obs(self):
        return np.array([self.given, 0, 0])


@pytest.mark.parametrize(
    "space",
    [(0, 2**53 + 2), (-(2**53) - 2, 0), (0, 2**63, 0, np.uint64)],
    ids=["above", "below", "unsigned"],
)
@pytest.mark.parametrize("unify", ["pad", {"observation_size": 4, "action_size": 2}])
def test_integers_that_would_lose_digits_are_refused(space, unify):
    makers = [ArmEnv, partial(WholeEnv, *space)]
    message = (
        "task 1 has .*, and float64, .*, cannot represent all integers beyond 9007199254740992"
    )
    with pytest.raises(ValueError, match=message):
        MultiEnvWrapper(makers, unify=unify).reset(seed=0, options={"task_state": 1})
    with pytest.raises(ValueError, match=message.replace("task", "environment")):
        MetaIterativeEnvExecutor(makers, 2, unify="pad")
    # Among integers alone they are kept, and what the message says helps.
    alone = MultiEnvWrapper([makers[1]] * 2, unify="pad")
    assert alone.env_observation_space.dtype == makers[1]().observation_space.dtype
    converted = [ArmEnv, lambda: DtypeObservation(makers[1](), np.float64)]
    MultiEnvWrapper(converted, unify=unify).reset(seed=0, options={"task_state": 1})


@pytest.mark.parametrize("given", [2**53, -(2**53)])
def test_integers_that_a_float_holds_are_kept_and_others_are_refused(given):
    def make(given):
        makers = [ArmEnv, partial(WholeEnv, -(2**53), 2**53, given)]
        return MultiEnvWrapper(makers, 1, unify="pad")

    assert int(make(given).reset(seed=0)[0]["env_obs"][0]) == given
    with pytest.raises(ValueError, match=r"integers in \[-9007199254740992, 9007199254740992\]"):
        make(given + (1 if given > 0 else -1)).reset(seed=0)


@pytest.mark.parametrize(
    ("dtype", "given"), [(np.uint8, 256), (np.uint8, -1), (np.int8, 128), (np.uint64, -1)]
)
def test_observations_outside_of_their_integer_dtype_are_refused(dtype, given):
    env = partial(WholeEnv, 0, 100, given, dtype)
    message = rf"expected an observation of shape \(3,\) and dtype {dtype.__name__}, got .*{given}"
    for padded in (PadSpaces(env(), 5), MultiEnvWrapper([env, ArmEnv], unify="pad")):
        with pytest.raises(ValueError, match=message):
            padded.reset(seed=0)
    inside = PadSpaces(WholeEnv(0, 100, 100, dtype), 5)  # of another dtype, which holds it
    assert inside.reset(seed=0)[0].tolist() == [100, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["observation", "action"])
def test_environments_without_any_entries_are_refused(kind):
    def make():
        env = ArmEnv()
        setattr(env, f"{kind}_space", Box(-1, 1, (0,)))
        return env

    message = (
        rf"all environments have an {kind} space without entries, Box\(\[\], .* to pad to: "
        rf"unify=\{{'{kind}_size': 1\}} pads them to one"
    )
    with pytest.raises(ValueError, match=message):
        MetaIterativeEnvExecutor(make, 2, unify="pad")
    with pytest.raises(ValueError, match=message):
        MultiEnvWrapper([make, make], unify="pad")
    env = MultiEnvWrapper([make, make], unify={f"{kind}_size": 1})
    assert getattr(env, f"{'env_' * (kind == 'observation')}{kind}_space").shape == (1,)
    env = MultiEnvWrapper([make, ArmEnv], unify="pad")
    assert getattr(env, f"{'env_' * (kind == 'observation')}{kind}_space").shape != (0,)
