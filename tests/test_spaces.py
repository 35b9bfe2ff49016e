import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mtwrappers import spaces


def box(low, high, dtype=np.float64):
    return Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


def test_a_1d_box_is_returned_itself():
    space = box([0], [1])
    assert spaces.require_flat_box(space, "the space") is space


@pytest.mark.parametrize("space", [Discrete(3), Box(0, 1, (2, 2)), Box(0, 1, ())])
def test_what_is_no_1d_box_is_refused_by_its_name(space):
    with pytest.raises(TypeError, match=r"the space of x must be a 1-D Box, got (Box|Discrete)\("):
        spaces.require_flat_box(space, "the space of x")


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_an_appended_onehot_keeps_the_bounds_and_the_dtype(dtype):
    given = box([0, 2], [5, 7], dtype)
    assert spaces.append_onehot(given, 3) == box([0, 2, 0, 0, 0], [5, 7, 1, 1, 1], dtype)
    assert given == box([0, 2], [5, 7], dtype)


def test_appended_bounds_are_those_given_in_the_dtype_of_the_box():
    low, high = np.array([-2.5, 0.0]), np.array([0.5, 9.0])
    appended = spaces.append_box(box([0], [1], np.float32), low, high)
    assert appended == box([0, -2.5, 0], [1, 0.5, 9], np.float32)


def test_padding_holds_every_box_and_the_zeros_behind_it():
    given = [box([1, 2, 3], [4, 5, 6]), box([-9], [9]), box([0, 3], [1, 7])]
    padded = spaces.pad_boxes(given)
    assert padded == box([-9, 0, 0], [9, 7, 6])
    assert [spaces.fits_padded(space, padded) for space in given] == [True] * 3


def test_padding_boxes_of_two_dtypes_is_refused_with_both():
    expected = r"padding needs one dtype, .*\['float32', 'float64'\]"
    with pytest.raises(ValueError, match=expected):
        spaces.pad_boxes([box([0], [1], np.float64), box([0], [1], np.float32)])


def test_padding_what_is_no_1d_box_names_the_task():
    with pytest.raises(TypeError, match="observation space of task 1 must be a 1-D Box"):
        spaces.pad_boxes([box([0], [1]), Discrete(2)])


OUTER = box([0, -1], [4, 1])


@pytest.mark.parametrize(
    ("inner", "outer", "fits", "fits_padded"),
    [
        (box([0, -1], [4, 1]), OUTER, True, True),
        (box([1, 0], [2, 0]), OUTER, True, True),
        (box([-1, 0], [2, 0]), OUTER, False, False),
        (box([1, 0], [5, 0]), OUTER, False, False),
        (box([0, -1], [4, 1], np.float32), OUTER, False, False),
        (box([0, -1, 0], [4, 1, 0]), OUTER, False, False),
        (box([0], [4]), OUTER, False, True),
        (box([1], [5]), OUTER, False, False),
        (box([1], [4], np.float32), OUTER, False, False),
        (box([1], [2]), box([1, 1], [2, 2]), False, False),
        (Box(0, 1, (1, 1), np.float64), OUTER, False, False),
        (Discrete(2), OUTER, False, False),
    ],
)
def test_a_box_fits_in_a_box_that_holds_all_of_it(inner, outer, fits, fits_padded):
    assert spaces.fits(inner, outer) is fits
    assert spaces.fits_padded(inner, outer) is fits_padded


def test_other_spaces_fit_only_if_they_are_equal():
    assert spaces.fits(Discrete(3), Discrete(3)) is True
    assert spaces.fits(Discrete(2), Discrete(3)) is False
    assert spaces.fits(Discrete(3), OUTER) is False
