"""Observations and infos are batched as Gymnasium batches them, of whatever kind they are."""

import collections
import math
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    Text,
    Tuple,
)
from gymnasium.vector import SyncVectorEnv

from mtwrappers import MetaIterativeEnvExecutor
from mtwrappers.vector.buffers import LETTERS, NUMBERS, TEXTS
from tests.fakes import CountingEnv
from tests.vector.fakes import both_executors


class ShowingEnv(gymnasium.Env):
    """Returns observations and infos by turns."""

    action_space = Discrete(2)

    def __init__(self, space, observations, infos=({},)):
        self.observation_space, self.observations, self.infos = space, observations, infos
        self.t = -1

    def reset(self, *, seed=None, options=None):
        self.t += 1
        obs = self.observations[self.t % len(self.observations)]
        info = self.infos[self.t % len(self.infos)]
        return obs, info

    def step(self, action):
        obs, info = self.reset()
        return obs, 0.0, False, False, info


def run_steps(envs):
    """Returns the observations and infos of a reset and of four steps."""
    with closing(envs):
        results = [envs.reset()]
        for _ in range(4):
            obs, *_, infos = envs.step([0] * envs.num_envs)
            results.append((obs, infos))
        return results


BOX = Box(-1.0, 1.0, (2, 3), np.float32)
SPACES = {
    "box": BOX,
    "scalar box": Box(0, 9, (), np.float64),
    "bytes": Box(0, 255, (5,), np.uint8),
    "bools": Box(0, 1, (2,), np.bool_),
    "discrete from 3": Discrete(5, start=3),
    "small discrete": Discrete(5, dtype=np.int8),
    "multi discrete grid": MultiDiscrete([[3, 4], [5, 6]], dtype=np.int32),
    "multi binary": MultiBinary((2, 2)),
    "dict of one": Dict({"only": Discrete(3)}),
    "nested": Dict({"x": Tuple((BOX, Dict({"z": MultiBinary(2), "y": BOX}))), "w": Discrete(2)}),
    "text": Text(5),
    "dict with a text": Dict({"a": BOX, "b": Text(5)}),
    "tuple of texts": Tuple((Text(1), Dict({"b": Text(1024, charset="a \u00e9\U0001f600")}))),
    # Not in arrays.
    "long text": Text(1025),
    "sequence": Sequence(BOX),
    "graph": Graph(BOX, Discrete(3)),
    "empty dict": Dict({}),
    "dict with an empty tuple": Dict({"a": Tuple((Dict({}),))}),
}


@both_executors
@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.slow_but("iterative", "nested-parallel", "text-parallel", "box-parallel")
def test_observations_of_any_space_are_batched_as_gymnasium_does(executor, kind):
    space = SPACES[kind]
    space.seed(0)
    makers = [partial(ShowingEnv, space, [space.sample() for _ in range(3)]) for _ in range(3)]
    assert repr(run_steps(executor(makers, 3))) == repr(run_steps(SyncVectorEnv(makers)))


@both_executors
def test_infos_that_do_not_go_together_are_named(executor):
    makers = [partial(ShowingEnv, Discrete(2), [1], [{"shape": np.zeros(n)}]) for n in (2, 3)]
    message = "the info 'shape' of environment 1 does not fit the others: "
    with closing(executor(makers, 2)) as envs, pytest.raises(ValueError, match=message):
        envs.reset()


def reset_with_observation(kind, observation):
    """Returns the batch of an environment that observes this in a space of this kind."""
    maker = partial(ShowingEnv, SPACES[kind], [observation])
    with closing(MetaIterativeEnvExecutor(maker, 1)) as envs:
        return envs.reset()[0]


@pytest.mark.parametrize(
    ("kind", "observation", "expected"),
    [
        ("scalar box", 3, 3.0),
        ("scalar box", np.float32(0.1), float(np.float32(0.1))),
        ("bytes", [1, 2, 3, 4, 255], [1, 2, 3, 4, 255]),
        ("bytes", np.arange(5.0), [0, 1, 2, 3, 4]),
        ("bools", np.array([0, 1]), [False, True]),
        ("small discrete", 4, 4),
        ("multi binary", np.eye(2, dtype=bool), [[1, 0], [0, 1]]),
        ("box", np.zeros((2, 3)), [[0, 0, 0], [0, 0, 0]]),
    ],
)
def test_observations_of_another_dtype_are_taken_where_no_value_is_lost(
    kind, observation, expected
):
    assert reset_with_observation(kind, observation)[0].tolist() == expected


@pytest.mark.parametrize(
    ("kind", "observation", "message"),
    [
        ("box", 3.0, r"an observation of shape \(2, 3\) and dtype float32, got 3\.0 of shape \(\)"),
        ("box", np.zeros(5), r"got of shape \(5,\) and dtype float64"),
        ("box", [[1, 2], [3]], r"\(list\)"),
        ("bytes", [1, 2, 3, 4, 256], "dtype uint8, got of shape"),
        ("small discrete", 1.7, r"of shape \(\) and dtype int8, got 1\.7"),
        ("dict of one", {"other": 1}, r"an observation with a part \['only'\], got \{'other': 1\}"),
        ("text", "abcdef", r"is a string of at most 5 characters, .* got a string of 6"),
        ("text", "ab\0", r"the last of them not zero, got a string of 3"),
        ("dict with a text", {"a": BOX.low, "b": 3}, r"a part \['b'\] that is a string .* got 3"),
    ],
)
def test_observations_that_do_not_fit_are_refused(kind, observation, message):
    with pytest.raises(ValueError, match="^environment 0: expected .*" + message):
        reset_with_observation(kind, observation)


# A list is one info per environment.
INFOS = {
    "empty": [{}, {}, {}],
    "floats": [{"a": 1.0}, {"a": -0.0}, {"a": math.inf}],
    "nan": [{"a": math.nan}, {"a": -math.nan}, {"a": 1.0}],
    "ints": [{"a": 1}, {"a": -(2**63)}, {"a": 2**63 - 1}],
    "strings": [{"a": "x"}, {"a": ""}, {"a": "longer \U0001f600 \ud800"}],
    "numpy floats": [{"a": np.float32(i / 3), "b": np.float16(i / 3)} for i in range(3)],
    "numpy ints": [{"a": np.int8(-i), "b": np.uint8(250 + i), "c": np.int64(i)} for i in range(3)],
    "numpy wide": [{"a": np.uint64(2**63 + i), "b": np.int64(i - 2**63)} for i in range(3)],
    "several": [{"n": i, "r": i / 7, "won": i > 1, "name": "abc"[i]} for i in range(3)],
    "as many as may be": [{str(k): float(k) for k in range(NUMBERS)}] * 3,
    "numpy bools": [{"a": np.bool_(i)} for i in range(3)],
    "long doubles": [{"a": np.longdouble(i) / 3} for i in range(3)],
    "none": [{"a": None}] * 3,
    "arrays": [{"a": np.arange(4) * i} for i in range(3)],
    "another key in one": [{"a": 1}, {"a": 2, "b": 3}, {"a": 4}],
    "a key less in the first": [{"a": 1}, {"a": 2, "b": 3.0}, {"a": 2, "b": 3.0}],
    "float, numpy float": [{"a": 1.5}, {"a": np.float64(2)}, {"a": np.float32(3)}],
    "orders differ": [{"a": 1, "b": 2.0}, {"b": 3.0, "a": 4}, {"a": 5, "b": 6.0}],
    "too many numbers": [{str(k): k for k in range(NUMBERS + 1)}] * 3,
    "too many strings": [{str(k): "x" for k in range(TEXTS + 1)}] * 3,
    # Keys that mean something to Gymnasium.
    "final_obs": [{"final_obs": 1.0}] * 3,
    "a mask": [{"a": 1, "_a": 5}] * 3,
    "a key that is no string": [{1: 2.0, "a": 3}] * 3,
}
# The second environment of three reports one of these in its third info, instead of the usual one.
USUAL_INFO = {"a": 1, "b": "x" * LETTERS}
REPORTED_ONCE = [
    {"a": 1, "b": "x", "c": 1},
    {"b": "x", "a": 1},
    {"a": 1},
    {"a": 1.0, "b": "x"},
    {"a": True, "b": "x"},
    {"a": 1, "b": "x" * (LETTERS + 1)},
    {"a": 1, "b": "x\0"},
]
BY_TURNS = {
    **{name: [[info] for info in infos] for name, infos in INFOS.items()},
    **{
        str(info): [[USUAL_INFO], [USUAL_INFO, USUAL_INFO, info], [USUAL_INFO]]
        for info in REPORTED_ONCE
    },
    "sometimes one": [[{}], [{}, {}, {"a": 1}], [{}]],
}


def to_bits(value):
    """Converts infos to a form that tells 0.0 from -0.0, and in which NaN equals itself."""
    if isinstance(value, dict):
        return [(key, to_bits(item)) for key, item in value.items()]
    return value.dtype, repr(value.tolist())


@both_executors
@pytest.mark.parametrize("case", BY_TURNS)
@pytest.mark.slow_but("iterative", "arrays-parallel", "several-parallel", "none-parallel")
def test_infos_of_any_kind_are_batched_as_gymnasium_does(executor, case):
    makers = [partial(ShowingEnv, Discrete(2), [1], infos) for infos in BY_TURNS[case]]
    actual, expected = run_steps(executor(makers, 3)), run_steps(SyncVectorEnv(makers))
    assert [to_bits(infos) for _, infos in actual] == [to_bits(infos) for _, infos in expected]


class ReusesInfo(CountingEnv):
    """Returns one object as its info, of a class of dict, and changes it in every call."""

    def __init__(self, info_class):
        super().__init__(2)
        self.info = info_class()

    def _info(self):
        self.info["steps"] = self.steps
        return self.info


@pytest.mark.parametrize(
    "info_class", [dict, collections.OrderedDict, partial(collections.defaultdict, float)]
)
@both_executors
def test_the_last_info_of_an_environment_that_reuses_it_is_kept(executor, info_class):
    with closing(executor(partial(ReusesInfo, info_class), 2)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        infos = envs.step([0, 0])[4]
        assert infos["final_info"]["steps"].tolist() == [2, 2]
        assert infos["_final_info"].tolist() == [True, True]
        assert infos["_final_obs"].tolist() == [True, True]
        assert infos["steps"].tolist() == [0, 0]
