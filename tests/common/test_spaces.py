import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from mtwrappers.common.spaces import as_row, difference


def box(*low):
    return Box(np.array(low, np.float32), np.ones(len(low), np.float32))


SMALL, LARGE = box(-1, -2, -3), box(-1, -9, -9)


@pytest.mark.parametrize(
    ("space", "expected", "message"),
    [
        (
            SMALL,
            LARGE,
            "its bounds at 1 are [-2.0, 1.0], expected [-9.0, 1.0]; "
            "its bounds at 2 are [-3.0, 1.0], expected [-9.0, 1.0]",
        ),
        (
            MultiDiscrete([2, 3]),
            MultiDiscrete([2, 4]),
            "it is MultiDiscrete([2 3]), expected Multi",
        ),
        (
            Dict(a=SMALL, b=SMALL),
            Dict(a=box(-1, -2, -9), c=SMALL),
            "at 'a': its bounds at 2 are [-3.0, 1.0], expected [-9.0, 1.0]; "
            "it has 'b', which is not expected; it has no 'c'",
        ),
        (
            Tuple([SMALL, Discrete(2)]),
            Tuple([SMALL, Discrete(3), SMALL]),
            "at 1: it is Discrete(2), expected Discrete(3); it has no 2",
        ),
        (
            Box(0, 1, (2, 1)),
            Box(0, np.array([[1], [2]], np.float32)),
            "its bounds at (1, 0) are [0.0, 1.0], expected [0.0, 2.0]",
        ),
        (
            box(-1),
            Box(0, 1, (4,)),
            "it is Box(-1.0, 1.0, (1,), float32), expected Box(0.0, 1.0, (4,",
        ),
        (Discrete(2), Discrete(2, start=1), "it is Discrete(2), expected Discrete(2, start=1)"),
        (Box(0, 1, ()), Box(0, 2, ()), "its bounds at () are [0.0, 1.0], expected [0.0, 2.0]"),
    ],
)
def test_spaces_differ_in_bounds_or_parts_and_only_these_are_named(space, expected, message):
    assert difference(space, expected).startswith(message)


def test_of_many_bounds_the_first_three_are_named():
    wide = Box(np.arange(150, dtype=np.float32), np.float32(200))
    message = difference(wide, Box(-1, 200, (150,)))
    first = "its bounds at 0 are [0.0, 200.0], expected [-1.0, 200.0]; its bounds at 1 are"
    assert message.startswith(first)
    assert message.endswith("; and 147 more")
    assert len(message) < 250
    assert difference(wide, SMALL) == (
        "it is a Box of shape (150,) and dtype float32, expected "
        "Box([-1. -2. -3.], 1.0, (3,), float32)"
    )


def test_a_box_is_beyond_another_where_its_bounds_are():
    message = "its bounds at 1 are [-9.0, 1.0], expected within [-2.0, 1.0]; its bounds at 2 are"
    assert difference(LARGE, SMALL, contained=True).startswith(message)


@pytest.mark.parametrize(
    ("observation", "numbers"), [([0.5, 1.0], "0.5, 1. "), ([256, 1], "256,   1")]
)
def test_observations_that_do_not_go_into_a_dtype_are_refused(observation, numbers):
    with pytest.raises(ValueError, match=rf"dtype uint8, got array\(\[{numbers}\]\)"):
        as_row(np.array(observation), Box(0, 9, (2,), np.uint8))
