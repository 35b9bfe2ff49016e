"""`BatchLayout`: batches are those of Gymnasium, in arrays of known places."""

import mmap

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

from mtwrappers.vector.layout import BatchLayout
from tests.fakes import equal

BOX = Box(-1.0, 1.0, (2, 3), np.float32)
FIXED = {
    "box": BOX,
    "scalar box": Box(0, 9, (), np.float64),
    "bytes": Box(0, 255, (5,), np.uint8),
    "bools": Box(0, 1, (2,), np.bool_),
    "discrete": Discrete(5),
    "discrete from 3": Discrete(5, start=3),
    "small discrete": Discrete(5, dtype=np.int8),
    "multi discrete": MultiDiscrete([3, 4]),
    "multi discrete grid": MultiDiscrete([[3, 4], [5, 6], [7, 8]], dtype=np.int32),
    "multi binary": MultiBinary(3),
    "multi binary grid": MultiBinary((2, 2)),
    "dict": Dict({"b": BOX, "a": Discrete(3)}),
    "tuple": Tuple((BOX, Discrete(3), MultiBinary(2))),
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
    "tuple with a sequence": Tuple((BOX, Sequence(Discrete(2)))),
    "empty dict": Dict({}),
    "empty tuple": Tuple(()),
    "dict with an empty tuple": Dict({"a": Tuple((Dict({}),))}),
}


def samples(space, n, seed=0):
    space.seed(seed)
    return [space.sample() for _ in range(n)]


def batch_of_gymnasium(space, rows):
    return concatenate(space, rows, create_empty_array(space, len(rows)))


@pytest.mark.parametrize("kind", FIXED)
def test_a_batch_of_a_fixed_space_is_that_of_gymnasium(kind):
    space = FIXED[kind]
    layout = BatchLayout(space, 4)
    assert layout.fixed is True
    rows = samples(space, 4)
    arrays = layout.empty()
    layout.write(arrays, 0, rows)
    assert equal(layout.batch(arrays), batch_of_gymnasium(space, rows))


@pytest.mark.parametrize("kind", NOT_FIXED)
def test_a_batch_of_any_other_space_is_that_of_gymnasium(kind):
    space = NOT_FIXED[kind]
    layout = BatchLayout(space, 3)
    assert layout.fixed is False
    assert layout.empty() == []
    assert layout.nbytes == 0
    rows = samples(space, 3)
    assert repr(layout.stack(rows)) == repr(batch_of_gymnasium(space, rows))


@pytest.mark.parametrize("kind", FIXED)
def test_rows_may_be_written_block_by_block_into_shared_memory(kind):
    space = FIXED[kind]
    layout = BatchLayout(space, 5)
    buffer = memoryview(mmap.mmap(-1, layout.nbytes))
    rows = samples(space, 5)
    layout.write(layout.views(buffer), 3, rows[3:])
    layout.write(layout.views(buffer), 0, rows[:3])
    # Another view of the same memory sees them.
    assert equal(layout.batch(layout.views(buffer)), batch_of_gymnasium(space, rows))


@pytest.mark.parametrize("kind", FIXED)
def test_views_lie_one_after_another_on_cache_lines(kind):
    layout = BatchLayout(FIXED[kind], 5)
    buffer = memoryview(mmap.mmap(-1, layout.nbytes))
    arrays = layout.views(buffer)
    start = np.frombuffer(buffer, np.uint8).ctypes.data
    offsets = [array.ctypes.data - start for array in arrays]
    ends = [offset + array.nbytes for offset, array in zip(offsets, arrays, strict=True)]
    assert offsets[0] == 0
    assert all(offset % 64 == 0 for offset in offsets)
    for end, begin in zip(ends, [*offsets[1:], layout.nbytes], strict=True):
        assert end <= begin < end + 64


def test_the_memory_of_a_batch_is_rounded_up_for_each_part():
    assert BatchLayout(Box(0, 1, (3,), np.float32), 4).nbytes == 64
    assert BatchLayout(Box(0, 1, (16,), np.float32), 1).nbytes == 64
    assert BatchLayout(Box(0, 1, (17,), np.float32), 1).nbytes == 128
    assert BatchLayout(Tuple((Discrete(2), Discrete(2), Discrete(2))), 9).nbytes == 3 * 128


def test_only_a_space_that_is_one_array_is_flat():
    flat = {kind for kind, space in FIXED.items() if BatchLayout(space, 2).flat}
    assert flat == set(FIXED) - {"dict", "tuple", "tuple of one", "dict of one", "nested"}
    assert not any(BatchLayout(space, 2).flat for space in NOT_FIXED.values())


def test_a_write_leaves_the_other_rows_alone():
    layout = BatchLayout(Discrete(9), 4)
    [array] = arrays = layout.empty()
    array[:] = 8
    layout.write(arrays, 1, [3, 4])
    assert array.tolist() == [8, 3, 4, 8]


def test_every_call_makes_new_arrays():
    layout = BatchLayout(FIXED["nested"], 2)
    for first, second in zip(layout.empty(), layout.empty(), strict=True):
        assert not np.shares_memory(first, second)


def test_the_keys_of_a_batch_are_in_the_order_of_the_space():
    layout = BatchLayout(FIXED["nested"], 2)
    batch = layout.batch(layout.empty())
    assert list(batch) == list(create_empty_array(FIXED["nested"], 2)) == ["w", "x"]
