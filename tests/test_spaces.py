import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mtwrappers import spaces

DTYPES = [np.float32, np.float64, np.uint8, np.int64]


def box(low, high, dtype=np.float64):
    return Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


def test_a_1d_box_is_returned_itself():
    space = box([0], [1])
    assert spaces.require_flat_box(space, "the space") is space


@pytest.mark.parametrize("space", [Discrete(3), Box(0, 1, (2, 2)), Box(0, 1, ())])
def test_what_is_no_1d_box_is_refused_by_its_name(space):
    with pytest.raises(TypeError, match=r"the space of x must be a 1-D Box, got (Box|Discrete)\("):
        spaces.require_flat_box(space, "the space of x")


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_appended_onehot_keeps_the_bounds_and_the_dtype(dtype):
    given = box([0, 2], [5, 7], dtype)
    assert spaces.append_onehot(given, 3) == box([0, 2, 0, 0, 0], [5, 7, 1, 1, 1], dtype)
    assert given == box([0, 2], [5, 7], dtype)


def test_appended_bounds_are_those_given_in_the_dtype_of_the_box():
    low, high = np.array([-2.5, 0.0]), np.array([0.5, 9.0])
    appended = spaces.append_box(box([0], [1], np.float32), low, high)
    assert appended == box([0, -2.5, 0], [1, 0.5, 9], np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_template_is_zeros_and_then_a_onehot(dtype):
    template = spaces.onehot_template(box([5, 5], [7, 7], dtype), 1, 3)
    assert template.tolist() == [0, 0, 0, 1, 0]
    assert template.dtype == dtype


def test_padding_holds_every_box_and_the_zeros_behind_it():
    padded = spaces.pad_boxes([box([1, 2, 3], [4, 5, 6]), box([-9], [9]), box([0, 3], [1, 7])])
    assert padded == box([-9, 0, 0], [9, 7, 6])


def test_padding_boxes_of_two_dtypes_is_refused_with_both():
    expected = r"padding needs one dtype, .*\['float32', 'float64'\]"
    with pytest.raises(ValueError, match=expected):
        spaces.pad_boxes([box([0], [1], np.float64), box([0], [1], np.float32)])


def test_padding_what_is_no_1d_box_names_the_task():
    with pytest.raises(TypeError, match="observation space of task 1 must be a 1-D Box"):
        spaces.pad_boxes([box([0], [1]), Discrete(2)])


OUTER = box([0, -1], [4, 1])


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (box([0, -1], [4, 1]), True),
        (box([1, 0], [2, 0]), True),
        (box([-1, 0], [2, 0]), False),
        (box([1, 0], [5, 0]), False),
        (box([0, -1], [4, 1], np.float32), False),
        (box([0], [4]), False),
        (box([0, -1, 0], [4, 1, 0]), False),
        (Discrete(2), False),
    ],
)
def test_a_box_fits_in_a_box_that_holds_all_of_it(inner, expected):
    assert spaces.fits(inner, OUTER) is expected


def test_other_spaces_fit_only_if_they_are_equal():
    assert spaces.fits(Discrete(3), Discrete(3)) is True
    assert spaces.fits(Discrete(2), Discrete(3)) is False
    assert spaces.fits(Discrete(3), OUTER) is False
    assert spaces.fits(Box(0, 2, (), np.int64), Discrete(3)) is False


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (box([0, -1], [4, 1]), True),
        (box([1, 0], [2, 0]), True),
        (box([1], [4]), True),
        (box([1], [5]), False),
        (box([-1], [4]), False),
        (box([1], [4], np.float32), False),
        (box([0, -1, 0], [4, 1, 0]), False),
        (Box(0, 1, (1, 1), np.float64), False),
        (Discrete(2), False),
    ],
)
def test_a_padded_box_fits_if_it_and_its_zeros_lie_within(inner, expected):
    assert spaces.fits_padded(inner, OUTER) is expected


def test_a_padded_box_does_not_fit_where_zero_is_out_of_bounds():
    assert spaces.fits_padded(box([1], [2]), box([1, 1], [2, 2])) is False


def test_boxes_fit_padded_in_what_padding_makes_of_them():
    given = [box([1, 1, 1], [2, 2, 2]), box([1, 1], [3, 3])]
    padded = spaces.pad_boxes(given)
    assert [spaces.fits_padded(space, padded) for space in given] == [True, True]
