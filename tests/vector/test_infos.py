"""Infos are batched as Gymnasium batches them, by column or through shared memory."""

import math
import threading

import numpy as np
import pytest
from gymnasium.vector import VectorEnv

from mtwrappers.vector.infos import (
    Cells,
    Columns,
    InfoBatcher,
    columns,
    fits_cells,
    layout_of,
    matches,
)
from tests.fakes import equal

BIG = 2**63
LOCK = threading.Lock()


def gymnasiums(infos):
    """What Gymnasium makes of infos; ``None`` stands for an environment that reports nothing."""
    envs = VectorEnv()
    envs.num_envs = len(infos)
    batched = {}
    for i, info in enumerate(infos):
        if info is not None:
            batched = envs._add_info(batched, info, i)
    return batched


def batcher(n):
    envs = VectorEnv()
    envs.num_envs = n
    batch = InfoBatcher()
    return lambda infos: batch(infos, envs._add_info)


def ours(infos):
    return batcher(len(infos))(infos)


SAME_LAYOUT = {
    "empty": [{}, {}, {}],
    "floats": [{"a": 1.0}, {"a": -0.0}, {"a": math.inf}],
    "ints": [{"a": 1}, {"a": -(2**63)}, {"a": 2**63 - 1}],
    "bools": [{"a": True}, {"a": False}, {"a": True}],
    "strings": [{"a": "x"}, {"a": ""}, {"a": "longer"}],
    "numpy floats": [{"a": np.float32(i / 3), "b": np.float16(i / 3)} for i in range(3)],
    "numpy ints": [{"a": np.int8(-i), "b": np.uint8(250 + i), "c": np.int64(i)} for i in range(3)],
    "numpy wide": [{"a": np.uint64(i), "b": np.int64(-BIG + i)} for i in range(3)],
    "several": [{"n": i, "r": i / 7, "won": i > 1, "name": "abc"[i]} for i in range(3)],
    "float64": [{"a": np.float64(i / 7)} for i in range(3)],
}
OTHER = {
    "beyond int64": [{"a": np.uint64(BIG + i), "b": 1} for i in range(3)],
    "numpy bools": [{"a": np.bool_(i)} for i in range(3)],
    "numpy strings": [{"a": np.str_(i)} for i in range(3)],
    "complex": [{"a": complex(i, 1)} for i in range(3)],
    "numpy complex": [{"a": np.complex64(i)} for i in range(3)],
    "long doubles": [{"a": np.longdouble(i) / 3} for i in range(3)],
    "none": [{"a": None}] * 3,
    "lists": [{"a": [1, i]} for i in range(3)],
    "tuples": [{"a": (1, i)} for i in range(3)],
    "arrays": [{"a": np.arange(4) * i, "b": np.eye(2, dtype=np.float32)} for i in range(3)],
    "scalar arrays": [{"a": np.array(i)} for i in range(3)],
    "dicts": [{"a": {"n": i, "deeper": {"s": "x", "v": np.ones(2)}}} for i in range(3)],
    "bytes": [{"a": b"xyz"}] * 3,
    "objects": [{"a": LOCK}, {"a": LOCK}, {"a": None}],
    "another key in one": [{"a": 1}, {"a": 2, "b": 3}, {"a": 4}],
    "a key less in one": [{"a": 1, "b": 2}, {"a": 2, "b": 3}, {"a": 4}],
    "a key less in the first": [{"a": 1}, {"a": 2, "b": 3.0}, {"a": 2, "b": 3.0}],
    "other keys": [{"a": 1}, {"b": 2.0}, {"c": "x"}],
    "an empty one": [{"a": 1}, {}, {"a": 2}],
    "an empty first one": [{}, {"a": 1}, {"a": 2}],
    "nothing reported": [None, None, None],
    "one reports nothing": [{"a": 1, "b": "x"}, None, {"a": 2, "b": "y"}],
    "the first reports nothing": [None, {"a": 1}, {"a": 2}],
    "int, float, int": [{"a": 1}, {"a": 2.5}, {"a": 3}],
    "float, int": [{"a": 1.5}, {"a": 2}, {"a": True}],
    "bool, int": [{"a": True}, {"a": 2}, {"a": 0}],
    "int, bool": [{"a": 7}, {"a": True}, {"a": False}],
    "float, numpy float": [{"a": 1.5}, {"a": np.float64(2)}, {"a": np.float32(3)}],
    "small int, large int": [{"a": np.int8(1)}, {"a": np.int64(100)}, {"a": 3}],
    "string, none": [{"a": "x"}, {"a": None}, {"a": 3}],
    "orders differ": [{"a": 1, "b": 2.0}, {"b": 3.0, "a": 4}, {"a": 5, "b": 6.0}],
    "final_obs": [{"final_obs": np.ones(2), "final_info": {"a": i}} for i in range(3)],
}
# Keys that mean something to Gymnasium, or that it spells in its own way.
SPECIAL = {
    "a number as final_obs": [{"final_obs": i} for i in range(3)],
    "a key that is another's mask": [{"a": 1, "_a": 5} for _ in range(3)],
    "a mask before its key": [{"_a": 5, "a": 1} for _ in range(3)],
    "a key that is no string": [{1: 2.0, "a": 3} for _ in range(3)],
}
CASES = SAME_LAYOUT | OTHER


@pytest.mark.parametrize("case", CASES | SPECIAL)
def test_infos_are_those_of_gymnasium(case):
    given = (CASES | SPECIAL)[case]
    infos, expected = ours(given), gymnasiums(given)
    assert equal(infos, expected)
    assert list(infos) == list(expected)
    # equal() takes 0.0 for -0.0.
    for key, value in infos.items():
        if isinstance(value, np.ndarray) and value.dtype != object:
            assert value.tobytes() == expected[key].tobytes()


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_infos_of_fewer_environments_are_those_of_gymnasium(case, n):
    assert equal(ours(CASES[case][:n]), gymnasiums(CASES[case][:n]))


@pytest.mark.parametrize("last", [math.nan, -math.nan, np.float64(math.nan), None])
def test_nan_is_kept_bit_for_bit(last):
    infos = [{"a": math.nan}, {"a": 1.0}, {"a": last}]
    assert ours(infos)["a"].tobytes() == gymnasiums(infos)["a"].tobytes()


@pytest.mark.parametrize(
    "infos",
    [
        [{"a": BIG}, {"a": 1}],
        [{"a": 1}, {"a": -BIG - 1}],
        [{"a": 2**200, "b": 0.5}] * 2,
        [{"a": np.int8(1)}, {"a": 300}],
        [{"a": 1}, {"a": "word"}],
        [{"a": np.ones(2)}, {"a": np.ones(3)}],
        [{"a": np.timedelta64(1, "s")}] * 2,
    ],
    ids=[
        "beyond 64 bits",
        "below 64 bits",
        "far beyond",
        "beyond 8 bits",
        "a string among ints",
        "arrays of two shapes",
        "time differences",
    ],
)
def test_what_gymnasium_refuses_is_refused_in_the_same_words(infos):
    with pytest.raises((OverflowError, TypeError, ValueError)) as expected:
        gymnasiums(infos)
    with pytest.raises(expected.type) as refused:
        ours(infos)
    assert str(refused.value) == str(expected.value)


def test_a_batcher_follows_infos_that_change():
    batch = batcher(3)
    for case in [*CASES, *reversed(CASES), "floats", "floats", "several", "ints", "several"]:
        assert equal(batch(CASES[case]), gymnasiums(CASES[case])), case


def test_a_batcher_goes_on_after_an_int_beyond_64_bits():
    batch = batcher(2)
    assert equal(batch([{"a": 1}, {"a": 2}]), gymnasiums([{"a": 1}, {"a": 2}]))
    with pytest.raises(OverflowError, match="too large to convert"):
        batch([{"a": 1}, {"a": BIG}])
    assert equal(batch([{"a": 3}, {"a": 4}]), gymnasiums([{"a": 3}, {"a": 4}]))


@pytest.mark.parametrize("case", ["floats", "several", "arrays", "one reports nothing"])
def test_every_batch_is_new_and_the_infos_stay_as_they_were(case):
    batch = batcher(3)
    given = [None if info is None else dict(info) for info in CASES[case]]
    first, second = batch(given), batch(given)
    assert equal(given, CASES[case])
    for key in first:
        assert not np.shares_memory(first[key], second[key])


# Layouts.


def test_a_layout_holds_each_key_with_its_type():
    infos = [{"n": 1, "r": np.float32(2), "s": "x", "b": True}] * 2
    assert layout_of(infos) == (("n", int), ("r", np.float32), ("s", str), ("b", bool))
    assert layout_of([{}, {}]) == ()


@pytest.mark.parametrize("case", SAME_LAYOUT)
def test_scalars_of_one_type_a_key_have_a_layout(case):
    infos = CASES[case]
    layout = layout_of(infos)
    assert [key for key, _ in layout] == list(infos[0])
    assert all(matches(info, layout) for info in infos)
    assert equal(columns(infos, Columns(layout)), gymnasiums(infos))


@pytest.mark.parametrize(
    "case",
    [
        "numpy bools",
        "numpy strings",
        "none",
        "lists",
        "arrays",
        "dicts",
        "long doubles",
        "another key in one",
        "a key less in one",
        "int, float, int",
        "bool, int",
        "float, numpy float",
    ],
)
def test_anything_else_has_none(case):
    assert layout_of(CASES[case]) is None


@pytest.mark.parametrize(
    ("info", "fits"),
    [
        ({"a": 1, "b": "x"}, True),
        ({"b": "y", "a": 2}, True),
        ({"a": 1}, False),
        ({"a": 1, "b": "x", "c": 1}, False),
        ({"a": 1, "c": "x"}, False),
        ({"a": 1.0, "b": "x"}, False),
        ({"a": True, "b": "x"}, False),
        ({"a": np.int64(1), "b": "x"}, False),
        ({"a": 1, "b": None}, False),
        ({}, False),
    ],
)
def test_an_info_matches_a_layout_with_the_same_keys_and_types(info, fits):
    assert matches(info, (("a", int), ("b", str))) is fits


# Shared memory.


def strings_of(layout, infos):
    return {key: [info[key] for info in infos] for key, kind in layout if kind is str}


def cells(n, slots=8):
    return Cells(memoryview(bytearray(Cells.nbytes(slots, n))), slots, n)


@pytest.mark.parametrize("case", SAME_LAYOUT)
def test_cells_give_back_what_was_written(case):
    infos = CASES[case]
    layout = layout_of(infos)
    assert fits_cells(layout, 8)
    shared, how = cells(3), Columns(layout)
    # As two workers write them.
    shared.write(how, 0, infos[:1])
    shared.write(how, 1, infos[1:])
    read = shared.read(how, strings_of(layout, infos))
    assert equal(read, gymnasiums(infos))
    for key, kind in layout:
        assert kind is str or read[key].tobytes() == gymnasiums(infos)[key].tobytes()
    each = shared.read_each(how, 1, 3, strings_of(layout, infos[1:]))
    assert equal(each, infos[1:])
    assert [[type(v) for v in one.values()] for one in each] == [
        [type(v) for v in info.values()] for info in infos[1:]
    ]


def test_what_is_read_from_cells_does_not_change_with_them():
    how = Columns((("a", float), ("b", int), ("c", np.float64), ("d", np.int64)))
    shared = cells(2)
    shared.write(how, 0, [dict.fromkeys("abcd", 1)] * 2)
    read, each = shared.read(how, {}), shared.read_each(how, 0, 2, {})
    shared.write(how, 0, [dict.fromkeys("abcd", 2)] * 2)
    assert [read[key].tolist() for key in "abcd"] == [[1, 1]] * 4
    assert each == [dict.fromkeys("abcd", 1)] * 2


def test_an_int_beyond_64_bits_does_not_fit_a_cell():
    shared = cells(2)
    with pytest.raises(OverflowError, match="too large to convert"):
        shared.write(Columns((("a", int),)), 0, [{"a": 1}, {"a": BIG}])


def test_cells_take_eight_bytes_each():
    assert Cells.nbytes(3, 5) == 120


@pytest.mark.parametrize(
    ("layout", "fits"),
    [
        ((), True),
        ((("a", int), ("b", str)), True),
        ((("a", int), ("b", str), ("c", float)), False),
        ((("a", np.complex64),), False),
        ((("a", np.complex128),), False),
    ],
)
def test_real_numbers_and_strings_fit_cells_while_there_is_room(layout, fits):
    assert fits_cells(layout, 2) is fits
