"""Values are recorded without what need not repeat; the first difference is found and named."""

import numpy as np
import pytest

from mtwrappers.testing.recording import difference, find, text_of, without

NAN = float("nan")


class Plain:
    """Has no notion of equality."""


class Odd:
    def __eq__(self, other):
        raise RuntimeError("cannot compare")

    __hash__ = None


@pytest.mark.parametrize(
    "value",
    [
        *(1, 1 << 100, NAN, -0.0, None, np.float64(NAN), np.array([1.0, NAN, -0.0])),
        np.array([np.zeros(2), None], dtype=object),
        {"a": [1, (2, "b")]},
    ],
)
def test_equal_values_have_no_difference(value):
    assert find(value, value) is find(value, value, loose=True) is None


def test_objects_are_compared_as_far_as_they_can_be():
    assert find(Plain(), Plain()) is None
    assert find(Odd(), Odd()) is not None


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, (("b",), "no such key", "2")),
        ({"a": {"b": 1}}, {"a": {}}, (("a", "b"), "1", "no such key")),
        ([1, 2], [1], ((), "2 items", "1 items")),
        ([1, 2], (1, 2), ((), "list [1, 2]", "tuple (1, 2)")),
        ([1, "a"], [1, "b"], ((1,), "'a'", "'b'")),
        (1, True, ((), "int 1", "bool True")),
        (1.0, np.float64(1.0), ((), "float 1.0", "float64 1.0")),
        (0.0, -0.0, ((), "0.0", "-0.0")),
        (np.zeros(2), np.array([0.0, -0.0]), (((1,),), "0.0", "-0.0")),
        (np.zeros(2, np.float32), np.zeros(2), ((), "dtype float32", "dtype float64")),
        (np.zeros(2), np.zeros((1, 2)), ((), "shape (2,)", "shape (1, 2)")),
        (np.eye(2), np.diag([1.0, 2.0]), (((1, 1),), "1.0", "2.0")),
        (np.array([0.0, 1.0]), np.array([0.0, NAN]), (((1,),), "1.0", "nan")),
        (
            {"x": np.array([None, np.zeros(2)], dtype=object)},
            {"x": np.array([None, np.array([0.0, 1.0])], dtype=object)},
            (("x", (1,), (1,)), "0.0", "1.0"),
        ),
    ],
)
def test_the_first_difference_is_where_it_is_and_what_it_is(expected, actual, found):
    assert find(expected, actual) == found


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(1, np.float64(1)), (True, np.True_), ([1, 2], (1, 2)), (np.zeros(2), np.zeros(2, int))],
)
def test_loosely_numbers_may_have_other_types_and_lists_be_tuples(expected, actual):
    assert find(expected, actual)
    assert find(expected, actual, loose=True) is None


def test_in_words_the_first_index_may_be_of_a_sub_environment():
    found = find({"a": np.zeros((2, 3))}, {"a": np.eye(2, 3)}, ("observation",))
    assert str(difference(found, "step 4", vector=False)) == (
        "step 4, observation['a'][0, 0]: expected 0.0, got 1.0"
    )
    assert difference(found, "step 4", vector=True).env == 0


def test_long_values_are_one_short_line():
    assert text_of(np.float32(0.5)) == "0.5"
    assert len(text_of(np.zeros(1000))) == 60


def test_what_is_ignored_goes_with_its_mask_and_its_last_value():
    info = {"t": 1, "_t": True, "x": {"t": 2, "y": 3}, "final_info": {"t": 4, "_t": True, "z": 5}}
    left = without({"reward": 0.0, "info": info}, {"info.t", "info.x.y"})
    assert left == {"reward": 0.0, "info": {"x": {"t": 2}, "final_info": {"z": 5}}}
