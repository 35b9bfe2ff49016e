import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from mtwrappers.common.spaces import as_row, difference


def box(*low):
    return Box(np.array(low, np.float32), np.ones(len(low), np.float32))


SMALL, LARGE = box(-1, -2, -3), box(-1, -9, -9)


@pytest.mark.parametrize(
    ("space", "expected", "message"),
    [
        (SMALL, LARGE, "; they differ at [1, 2]"),
        (MultiDiscrete([2, 3]), MultiDiscrete([2, 4]), "; they differ at [1]"),
        (Dict(a=SMALL, b=SMALL), Dict(a=LARGE, c=SMALL), "; they differ at ['a', 'b', 'c']"),
        (Tuple([SMALL, SMALL]), Tuple([SMALL, LARGE, SMALL]), "; they differ at [1, 2]"),
        (Box(0, 1, (1, 2)), Box(0, 2, (1, 2)), "; they differ at [(0, 0), (0, 1)]"),
        (SMALL, SMALL, ""),
        (SMALL, Box(0, 1, (4,)), ""),
        (SMALL, MultiBinary(3), ""),
        (Discrete(2), Discrete(3), ""),
        (Box(0, 1, ()), Box(0, 2, ()), ""),
    ],
)
def test_two_spaces_differ_at_indices_or_keys(space, expected, message):
    assert difference(space, expected) == message


def test_of_many_places_the_first_ten_are_named():
    message = difference(Box(0, 1, (20,)), Box(0, 2, (20,)))
    assert message == "; they differ at [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]"


def test_a_box_goes_beyond_another_where_its_bounds_do():
    assert difference(LARGE, SMALL, within=True) == "; it goes beyond at [1, 2]"
    assert difference(SMALL, LARGE, within=True) == ""


@pytest.mark.parametrize(("given", "said"), [([0.5, 1.0], "0.5, 1. "), ([256, 1], "256,   1")])
def test_observations_that_do_not_go_into_a_dtype_are_refused(given, said):
    with pytest.raises(ValueError, match=rf"dtype uint8, got array\(\[{said}\]\)"):
        as_row(np.array(given), Box(0, 9, (2,), np.uint8))
