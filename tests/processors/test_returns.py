"""Discounted sums and advantages of ragged batches."""

import numpy as np
import pytest

from mtwrappers.processors.returns import (
    discounted_sums,
    gae,
    normalized,
    path_ends,
    shifted_to_positive,
)
from tests.processors import loop_gae, loop_returns

FRACTIONS = [0.0, 0.37, 0.5, 0.99, 1.0]


def ragged(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, size=rng.integers(1, 9))
    return rng, lengths, int(lengths.sum())


def test_the_ends_are_the_indices_of_last_steps():
    assert path_ends([2, 3, 1]).tolist() == [1, 4, 5]
    assert path_ends(np.array([4])).tolist() == [3]


@pytest.mark.parametrize(
    ("values", "discount", "lengths", "expected"),
    [
        ([1, 2, 4], 0.5, [3], [3, 4, 4]),
        ([1, 2, 4, 8], 0.5, [3, 1], [3, 4, 4, 8]),
        ([1, 2, 4, 8], 0.5, [1, 3], [1, 6, 8, 8]),
        ([1, 2, 4, 8], 1, [4], [15, 14, 12, 8]),
        ([1, 2, 4, 8], 1, [2, 2], [3, 2, 12, 8]),
        ([1, 2, 4, 8], 0, [4], [1, 2, 4, 8]),
        ([5], 0.5, [1], [5]),
        ([5, 6, 7], 0.5, [1, 1, 1], [5, 6, 7]),
        ([-4, 0, 8], 0.25, [3], [-3.5, 2, 8]),
    ],
)
def test_discounted_sums_by_hand(values, discount, lengths, expected):
    sums = discounted_sums(values, discount, path_ends(lengths))
    assert sums.dtype == np.float64
    assert sums.tolist() == expected


@pytest.mark.parametrize("discount", FRACTIONS)
@pytest.mark.parametrize("seed", range(12))
def test_discounted_sums_equal_a_loop_bit_for_bit(seed, discount):
    rng, lengths, n = ragged(seed)
    values = rng.normal(size=n)
    expected = []
    for own in np.split(values, np.cumsum(lengths)[:-1]):
        expected += loop_returns(own.tolist(), discount)
    assert np.array_equal(discounted_sums(values, discount, path_ends(lengths)), expected)


def test_a_long_path_equals_a_loop_bit_for_bit():
    values = np.random.default_rng(0).normal(size=4000)
    sums = discounted_sums(values, 0.99, [3999])
    assert np.array_equal(sums, loop_returns(values.tolist(), 0.99))


def test_the_input_of_discounted_sums_is_not_changed():
    values, ends = np.array([1.0, 2, 4]), np.array([1, 2])
    sums = discounted_sums(values, 0.5, ends)
    assert values.tolist() == [1, 2, 4]
    assert ends.tolist() == [1, 2]
    assert not np.shares_memory(sums, values)


def test_the_sums_of_one_step_are_a_new_array():
    values = np.array([3.0])
    assert not np.shares_memory(discounted_sums(values, 0.5, [0]), values)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.bool_])
def test_values_of_other_types_are_summed_as_floats(dtype):
    sums = discounted_sums(np.array([1, 1, 1], dtype), 0.5, [2])
    assert sums.dtype == np.float64
    assert sums.tolist() == [1.75, 1.5, 1]


@pytest.mark.parametrize("discount", [0.5, 1.0])
def test_an_infinite_value_stays_in_its_path(discount):
    sums = discounted_sums([1.0, 2.0, np.inf, 3.0], discount, path_ends([1, 2, 1]))
    assert sums.tolist() == [1.0, np.inf, np.inf, 3.0]


# Values 1, 2 and 3 before rewards of 1; with a discount of 0.5, deltas are 1, 0.5 and -2.
@pytest.mark.parametrize(
    ("gae_lambda", "last", "expected"),
    [
        (0, 0, [1, 0.5, -2]),
        (0.5, 0, [1, 0, -2]),
        (1, 0, [0.75, -0.5, -2]),
        (0, 4, [1, 0.5, 0]),
        (0.5, 4, [1.125, 0.5, 0]),
        (1, 4, [1.25, 0.5, 0]),
    ],
)
def test_advantages_by_hand(gae_lambda, last, expected):
    advantages = gae([1.0, 1, 1], [1.0, 2, 3], [last], 0.5, gae_lambda, [2])
    assert advantages.tolist() == expected


def test_advantages_of_two_paths_do_not_mix():
    advantages = gae([1.0, 1, 8], [1.0, 2, 3], [0.0, 4.0], 0.5, 1, path_ends([2, 1]))
    # Deltas: 1 + 0.5 * 2 - 1, 1 + 0.5 * 0 - 2, and 8 + 0.5 * 4 - 3.
    assert advantages.tolist() == [0.5, -1, 7]


def test_advantages_of_one_step():
    assert gae([2.0], [0.5], [0.0], 0.5, 0.5, [0]).tolist() == [1.5]
    assert gae([2.0], [0.5], [4.0], 0.5, 0.5, [0]).tolist() == [3.5]


def test_without_discount_advantages_are_rewards_less_values():
    assert gae([1.0, 5], [3.0, 1], [9.0], 0, 1, [1]).tolist() == [-2, 4]


def test_undiscounted_advantages_are_sums_less_values():
    # Sums of the rewards are 7, 6 and 4.
    assert gae([1.0, 2, 4], [1.0, 2, 3], [0.0], 1, 1, [2]).tolist() == [6, 4, 1]


@pytest.mark.parametrize("gae_lambda", FRACTIONS)
@pytest.mark.parametrize("discount", FRACTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_advantages_equal_a_loop_bit_for_bit(seed, discount, gae_lambda):
    rng, lengths, n = ragged(seed)
    rewards, values, last = rng.normal(size=n), rng.normal(size=n), rng.normal(size=len(lengths))
    expected, cuts = [], np.cumsum(lengths)[:-1]
    for r, v, after in zip(np.split(rewards, cuts), np.split(values, cuts), last, strict=True):
        expected += loop_gae(r.tolist(), v.tolist(), after, discount, gae_lambda)
    advantages = gae(rewards, values, last, discount, gae_lambda, path_ends(lengths))
    assert np.array_equal(advantages, expected)


def test_the_inputs_of_gae_are_not_changed():
    rewards, values, last = np.array([1.0, 2]), np.array([3.0, 4]), np.array([5.0])
    gae(rewards, values, last, 0.5, 0.5, [1])
    assert rewards.tolist() == [1, 2]
    assert values.tolist() == [3, 4]
    assert last.tolist() == [5]


def test_normalized_values_have_mean_zero_and_deviation_one():
    # The mean is 2 and the deviation 1.
    assert normalized(np.array([1.0, 3, 1, 3])).tolist() == [
        -1 / (1 + 1e-8),
        1 / (1 + 1e-8),
        -1 / (1 + 1e-8),
        1 / (1 + 1e-8),
    ]


def test_equal_values_are_normalized_to_zero():
    assert normalized(np.array([4.0, 4, 4])).tolist() == [0, 0, 0]


def test_shifted_values_begin_just_above_zero():
    assert shifted_to_positive(np.array([-1.0, 3, 1])).tolist() == [1e-8, 4 + 1e-8, 2 + 1e-8]
