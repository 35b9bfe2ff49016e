"""Frames of one size: each new pixel is the mean of the area that it covers."""

from fractions import Fraction

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mtwrappers.common.frames import check_image_size, frame_space, is_frame_space, resized


def frame(rows):
    """A frame whose three channels are these rows, their double and their triple."""
    return (np.array(rows)[:, :, None] * [1, 2, 3]).astype(np.uint8)


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [
        ([[0, 10], [20, 30]], (1, 1), [[15]]),
        ([[0, 10], [20, 30]], (1, 2), [[10, 20]]),
        ([[0, 10], [20, 30]], (2, 1), [[5], [25]]),
        ([[0, 10], [20, 30]], (2, 2), [[0, 10], [20, 30]]),
        ([[0, 10], [20, 30]], (4, 2), [[0, 10], [0, 10], [20, 30], [20, 30]]),
        # Two thirds of a pixel are of one and one third of the other.
        ([[0, 30, 60]], (1, 2), [[10, 50]]),
        ([[0, 60]], (1, 3), [[0, 30, 60]]),
        ([[0, 10, 20, 30, 40]], (1, 2), [[8, 32]]),
    ],
)
def test_each_new_pixel_is_the_mean_of_the_area_that_it_covers(rows, size, expected):
    given = frame(rows)
    new = resized(given, *size)
    assert new.tolist() == frame(expected).tolist()
    assert (new.dtype, new.flags.c_contiguous) == (np.uint8, True)
    new[...] = 77  # which is the caller's own
    assert given.tolist() == frame(rows).tolist()


def test_halves_are_rounded_up():
    assert resized(np.full((1, 2, 3), [[[0], [1]]], np.uint8), 1, 1).tolist() == [[[1, 1, 1]]]
    assert resized(np.full((1, 2, 3), [[[4], [5]]], np.uint8), 1, 1).tolist() == [[[5, 5, 5]]]


@pytest.mark.parametrize("size", [(3, 5), (7, 4), (9, 11), (5, 20)])
def test_the_means_are_those_of_fractions(size):
    """Computed another way, pixel by pixel, without rounding in between."""
    given = np.random.default_rng(0).integers(0, 256, (7, 10, 3)).astype(np.uint8)

    def covered(n, m, i):
        """How much of each of ``n`` pixels the new pixel ``i`` of ``m`` covers."""
        start, end = Fraction(i * n, m), Fraction((i + 1) * n, m)
        return [max(Fraction(0), min(end, j + 1) - max(start, Fraction(j))) for j in range(n)]

    new = resized(given, *size)
    for i in range(size[0]):
        for k in range(size[1]):
            rows, columns = covered(7, size[0], i), covered(10, size[1], k)
            total = sum(
                r * c * given[y, x].astype(object)
                for y, r in enumerate(rows)
                for x, c in enumerate(columns)
            )
            mean = total / (sum(rows) * sum(columns))
            assert new[i, k].tolist() == [(value + Fraction(1, 2)).__floor__() for value in mean]


def test_the_brightest_frame_of_a_large_size_stays_as_bright():
    white = np.full((1080, 1920, 3), 255, np.uint8)
    assert (resized(white, 17, 23) == 255).all()


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Box(0, 255, (2, 4, 3), np.uint8), True),
        (Box(0, 255, (3, 2, 4), np.uint8), False),
        (Box(0, 255, (2, 4, 3), np.int64), False),
        (Box(0, 255, (2, 4), np.uint8), False),
        (Box(0, 255, (0, 4, 3), np.uint8), False),
        (Discrete(3), False),
    ],
)
def test_frames_have_three_channels_of_bytes_in_the_end(space, expected):
    assert is_frame_space(space) is expected


def test_a_size_is_a_number_or_a_pair():
    assert check_image_size(64, "image_size") == (64, 64)
    assert check_image_size([48, np.int64(64)], "image_size") == (48, 64)
    assert frame_space(48, 64) == Box(0, 255, (48, 64, 3), np.uint8)
    for wrong in (0, -1, 2.5, True, "64", (64,), (1, 2, 3), (0, 4), None):
        with pytest.raises(ValueError, match=r"image_size must be a positive integer"):
            check_image_size(wrong, "image_size")
