"""Values are recorded without what need not repeat; the first difference is found and named."""

import numpy as np
import pytest

from mtwrappers.testing.recording import find, text_of

NAN = float("nan")


class Plain:
    """Has no notion of equality."""


class Odd:
    def __eq__(self, other):
        raise RuntimeError("cannot compare")

    __hash__ = None


def test_equal_values_have_no_difference():
    for value in (
        *(1, 1 << 100, NAN, -0.0, None, np.float64(NAN), np.array([1.0, NAN, -0.0]), Plain()),
        *(np.array([np.zeros(2), None], dtype=object), {"a": [1, (2, "b")]}),
    ):
        assert find(value, value) is find(value, value, loose=True) is None
    assert find(Plain(), Plain()) is None
    assert find(Odd(), Odd()) is not None


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, "x['b']: expected no such key, got int 2"),
        ({"a": {"b": 1}}, {"a": {}}, "x['a']['b']: expected int 1, got no such key"),
        ([1, 2], [1], "x: expected 2 items, got 1 items"),
        ([1, 2], (1, 2), "x: expected list [1, 2], got tuple (1, 2)"),
        ([1, "a"], [1, "b"], "x[1]: expected 'a', got 'b'"),
        (1, True, "x: expected int 1, got bool True"),
        (1.0, np.float64(1.0), "x: expected float 1.0, got float64 1.0"),
        (0.0, -0.0, "x: expected 0.0, got -0.0"),
        (np.zeros(2), np.array([0.0, -0.0]), "x[1]: expected 0.0, got -0.0"),
        (np.zeros(2, "f4"), np.zeros(2), "x: expected dtype float32, got dtype float64"),
        (np.zeros(2), np.zeros((1, 2)), "x: expected shape (2,), got shape (1, 2)"),
        (np.eye(2), np.diag([1.0, 2.0]), "x[1, 1]: expected 1.0, got 2.0"),
        (np.array([0.0, 1.0]), np.array([0.0, NAN]), "x[1]: expected 1.0, got nan"),
        (
            {"a": np.array([None, np.zeros(2)], dtype=object)},
            {"a": np.array([None, np.array([0.0, 1.0])], dtype=object)},
            "x['a'][1][1]: expected 0.0, got 1.0",
        ),
    ],
)
def test_the_first_difference_is_where_it_is_and_what_it_is(expected, actual, found):
    assert find(expected, actual, "x") == found


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(1, np.float64(1)), (True, np.True_), ([1, 2], (1, 2)), (np.zeros(2), np.zeros(2, int))],
)
def test_loosely_numbers_may_have_other_types_and_lists_be_tuples(expected, actual):
    assert find(expected, actual)
    assert find(expected, actual, loose=True) is None


def test_long_values_are_one_short_line():
    assert text_of(np.float32(0.5)) == "0.5"
    assert len(text_of(np.zeros(1000))) == 60
