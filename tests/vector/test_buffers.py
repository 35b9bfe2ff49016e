"""Batches are those of Gymnasium, in arrays of known places."""

import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)
from gymnasium.vector.utils import concatenate, create_empty_array

from mtwrappers.vector.buffers import Buffers, ObsLayout
from tests.fakes import equal

BOX = Box(-1.0, 1.0, (2, 3), np.float32)
FIXED = {
    "box": BOX,
    "scalar box": Box(0, 9, (), np.float64),
    "bytes": Box(0, 255, (5,), np.uint8),
    "bools": Box(0, 1, (2,), np.bool_),
    "discrete from 3": Discrete(5, start=3),
    "small discrete": Discrete(5, dtype=np.int8),
    "multi discrete grid": MultiDiscrete([[3, 4], [5, 6], [7, 8]], dtype=np.int32),
    "multi binary": MultiBinary((2, 2)),
    "tuple of one": Tuple((BOX,)),
    "dict of one": Dict({"only": Discrete(3)}),
    "nested": Dict({"x": Tuple((BOX, Dict({"z": MultiBinary(2), "y": BOX}))), "w": Discrete(2)}),
}
NOT_FIXED = {
    "text": Text(5),
    "sequence": Sequence(BOX),
    "graph": Graph(BOX, Discrete(3)),
    "one of": OneOf((BOX, Discrete(3))),
    "dict with a text": Dict({"a": BOX, "b": Text(5)}),
    "empty dict": Dict({}),
    "dict with an empty tuple": Dict({"a": Tuple((Dict({}),))}),
}


def buffers(layout):
    return Buffers(layout, 0, memoryview(bytearray(Buffers.nbytes(layout, 0))))


@pytest.mark.parametrize("kind", [*FIXED, *NOT_FIXED])
def test_a_batch_is_that_of_gymnasium(kind):
    space = {**FIXED, **NOT_FIXED}[kind]
    layout = ObsLayout(space, 5)
    space.seed(0)
    rows, others = ([space.sample() for _ in range(5)] for _ in range(2))
    expected = concatenate(space, rows, create_empty_array(space, 5))
    arrays = buffers(layout).obs
    if kind in FIXED:
        layout.write(arrays, 3, rows[3:])
        layout.write(arrays, 0, rows[:3])
    batch = layout.batch(arrays, rows)
    assert layout.fixed is bool(arrays) is (kind in FIXED)
    if kind in FIXED:  # what was read does not change with the arrays
        layout.write(arrays, 0, others)
        assert equal(batch, expected)
    else:
        assert repr(batch) == repr(expected)


def test_the_arrays_of_all_buffers_are_apart_and_begin_on_cache_lines():
    layout = ObsLayout(FIXED["nested"], 5)
    memory = memoryview(bytearray(Buffers.nbytes(layout, 3)))
    found = Buffers(layout, 3, memory)
    arrays = [*found.obs, found.actions(np.float64, (3,)), found.rewards, found.terminated]
    arrays += [found.truncated, found.numbers, found.texts]
    begin = np.frombuffer(memory, np.uint8).ctypes.data
    offsets = [array.ctypes.data - begin for array in arrays]
    assert all(offset % 64 == 0 for offset in offsets)
    ends = [offset + array.nbytes for offset, array in zip(offsets, arrays, strict=True)]
    assert all(e <= b for e, b in zip(ends, [*offsets[1:], len(memory)], strict=True))


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
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
def test_observations_of_another_dtype_are_taken_where_no_value_is_lost(kind, given, stored):
    layout = ObsLayout(FIXED[kind], 1)
    arrays = buffers(layout).obs
    layout.write(arrays, 0, [given])
    assert layout.batch(arrays, [])[0].tolist() == stored


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("box", 3.0, r"an observation of shape \(2, 3\) and dtype float32, got 3\.0 of shape \(\)"),
        ("box", np.zeros(5), r"got of shape \(5,\) and dtype float64"),
        ("box", None, r"got None \(NoneType\)"),
        ("box", [[1, 2], [3]], r"\(list\)"),
        ("bytes", [1, 2, 3, 4, 256], "dtype uint8, got of shape"),
        ("bytes", np.full(5, np.nan), "dtype uint8, got of shape"),
        ("small discrete", 1.7, r"of shape \(\) and dtype int8, got 1\.7"),
        ("small discrete", 300, "and dtype int8, got 300"),
        ("dict of one", {"other": 1}, r"an observation with a part \['only'\], got \{'other': 1\}"),
        ("dict of one", {"only": "x"}, r"a part \['only'\] of shape \(\) and dtype int64, got 'x'"),
        ("tuple of one", 4, r"an observation with a part \[0\], got 4"),
    ],
)
def test_observations_that_do_not_fit_are_refused(kind, given, message):
    layout = ObsLayout(FIXED[kind], 1)
    with pytest.raises(ValueError, match="^expected .*" + message):
        layout.write(buffers(layout).obs, 0, [given])
