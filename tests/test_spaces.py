import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mtwrappers import spaces


def box(low, high, dtype=np.float64):
    return Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


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
        (Discrete(3), Discrete(3), True, False),
        (Discrete(2), Discrete(3), False, False),
    ],
)
def test_a_box_fits_in_a_box_that_holds_all_of_it(inner, outer, fits, fits_padded):
    assert spaces.fits(inner, outer) is fits
    assert spaces.fits_padded(inner, outer) is fits_padded
