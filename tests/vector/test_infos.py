"""Infos are batched as Gymnasium batches them, whether or not they go through arrays."""

import math
import pickle
import threading

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.vector import VectorEnv

from mtwrappers.vector.buffers import LETTERS, NUMBERS, TEXTS, Buffers, ObsLayout
from mtwrappers.vector.infos import Columns, layout_of

BIG = 2**63
LOCK = threading.Lock()


def gymnasiums(infos):
    """What Gymnasium makes of infos."""
    envs = VectorEnv()
    envs.num_envs = len(infos)
    batched = {}
    for i, info in enumerate(infos):
        batched = envs._add_info(batched, info, i)
    return batched


def buffers():
    layout = ObsLayout(Discrete(2), 3)
    return Buffers(layout, 0, memoryview(bytearray(Buffers.nbytes(layout, 0))))


FIT = {
    "empty": [{}, {}, {}],
    "floats": [{"a": 1.0}, {"a": -0.0}, {"a": math.inf}],
    "nan": [{"a": math.nan}, {"a": -math.nan}, {"a": 1.0}],
    "float64": [{"a": np.float64(i / 7), "b": i / 3} for i in range(3)],
    "ints": [{"a": 1}, {"a": -(2**63)}, {"a": 2**63 - 1}],
    "bools": [{"a": True}, {"a": False}, {"a": True}],
    "strings": [{"a": "x"}, {"a": ""}, {"a": "longer \U0001f600 \ud800"}],
    "numpy floats": [{"a": np.float32(i / 3), "b": np.float16(i / 3)} for i in range(3)],
    "numpy ints": [{"a": np.int8(-i), "b": np.uint8(250 + i), "c": np.int64(i)} for i in range(3)],
    "numpy wide": [{"a": np.uint64(i), "b": np.int64(-BIG + i)} for i in range(3)],
    "several": [{"n": i, "r": i / 7, "won": i > 1, "name": "abc"[i]} for i in range(3)],
    "as many as may be": [{str(k): float(k) for k in range(NUMBERS)}] * 3,
}
DO_NOT_FIT = {
    "numpy bools": [{"a": np.bool_(i)} for i in range(3)],
    "numpy strings": [{"a": np.str_(i)} for i in range(3)],
    "complex": [{"a": complex(i, 1)} for i in range(3)],
    "numpy complex": [{"a": np.complex64(i)} for i in range(3)],
    "long doubles": [{"a": np.longdouble(i) / 3} for i in range(3)],
    "none": [{"a": None}] * 3,
    "lists": [{"a": [1, i]} for i in range(3)],
    "arrays": [{"a": np.arange(4) * i} for i in range(3)],
    "dicts": [{"a": {"n": i}} for i in range(3)],
    "objects": [{"a": LOCK}, {"a": LOCK}, {"a": None}],
    "another key in one": [{"a": 1}, {"a": 2, "b": 3}, {"a": 4}],
    "a key less in the first": [{"a": 1}, {"a": 2, "b": 3.0}, {"a": 2, "b": 3.0}],
    "an empty one": [{"a": 1}, {}, {"a": 2}],
    "int, float, int": [{"a": 1}, {"a": 2.5}, {"a": 3}],
    "bool, int": [{"a": True}, {"a": 2}, {"a": 0}],
    "float, numpy float": [{"a": 1.5}, {"a": np.float64(2)}, {"a": np.float32(3)}],
    "orders differ": [{"a": 1, "b": 2.0}, {"b": 3.0, "a": 4}, {"a": 5, "b": 6.0}],
    "too many numbers": [{str(k): k for k in range(NUMBERS + 1)}] * 3,
    "too many strings": [{str(k): "x" for k in range(TEXTS + 1)}] * 3,
    # Keys that mean something to Gymnasium.
    "final_obs": [{"final_obs": 1.0}] * 3,
    "a mask": [{"a": 1, "_a": 5}] * 3,
    "a key that is no string": [{1: 2.0, "a": 3}] * 3,
}


@pytest.mark.parametrize("case", FIT)
def test_columns_give_back_what_gymnasium_would(case):
    infos, shared = FIT[case], buffers()
    layout = layout_of(infos, shared)
    assert layout == tuple((key, type(value)) for key, value in infos[0].items())
    # As two workers write them.
    writer, reader = Columns(layout, shared), Columns(layout, shared)
    assert writer.write(0, infos[:1])
    assert writer.write(1, infos[1:])
    found, each, expected = reader.read(), reader.read_each(slice(0, 3)), gymnasiums(infos)
    # What was read does not change with the arrays.
    shared.numbers[...] = shared.texts[...] = 0
    assert list(found) == list(expected)
    for key, value in found.items():  # equal() takes 0.0 for -0.0, and no nan
        assert value.dtype == expected[key].dtype
        assert pickle.dumps(value.tolist()) == pickle.dumps(expected[key].tolist())
    assert repr(each) == repr(infos)


@pytest.mark.parametrize("case", DO_NOT_FIT)
def test_anything_else_has_no_layout(case):
    assert layout_of(DO_NOT_FIT[case], buffers()) is None


@pytest.mark.parametrize(
    "other",
    [
        {"a": 1, "b": "x", "c": 1},
        {"b": "x", "a": 1},
        {"a": 1},
        {"a": 1.0, "b": "x"},
        {"a": True, "b": "x"},
        {"a": BIG, "b": "x"},
        {"a": 1, "b": "x" * (LETTERS + 1)},
        {"a": 1, "b": "x\0"},
        None,
    ],
)
def test_columns_refuse_an_info_that_does_not_fit(other):
    columns = Columns((("a", int), ("b", str)), buffers())
    assert columns.write(0, [{"a": 1, "b": "x" * LETTERS}] * 3) is True
    assert columns.write(0, [{"a": 1, "b": "x"}, other]) is False
    assert Columns((), buffers()).write(0, [{}, other]) is False
