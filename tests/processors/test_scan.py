"""The recurrence in blocks, for long paths: against a loop over the steps."""

import numpy as np
import pytest

from mtwrappers.processors.returns import discounted_sums, gae, path_ends
from tests.processors import loop_gae, loop_returns

FACTORS = [0.0, 1e-300, 1e-9, 0.37, 0.9405, 0.999, 1.0]


def long_lengths(rng, n):
    """Lengths of paths, 400 on average, that sum to ``n``; some are of a single step."""
    lengths = []
    while sum(lengths) < n:
        longest = 2 if rng.random() < 0.2 else 1000
        lengths.append(min(int(rng.integers(1, longest)), n - sum(lengths)))
    return lengths


@pytest.mark.parametrize("n", [4096, 4097, 9999, 40000])
@pytest.mark.parametrize("factor", FACTORS)
def test_sums_of_long_paths_equal_a_loop_to_rounding(factor, n):
    rng = np.random.default_rng(n)
    lengths = long_lengths(rng, n)
    values = rng.normal(size=n)
    expected = []
    for own in np.split(values, np.cumsum(lengths)[:-1]):
        expected += loop_returns(own.tolist(), factor)
    sums = discounted_sums(values, factor, path_ends(lengths))
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("lengths", [[4096], [5000], [4090, 6], [16, 4080], [15, 4081], [17, 4079]])
def test_sums_of_ones_by_hand(lengths):
    """With a factor of one and values of one, each sum is the number of steps that are left."""
    sums = discounted_sums(np.ones(sum(lengths)), 1.0, path_ends(lengths))
    assert sums.tolist() == [left for n in lengths for left in range(n, 0, -1)]


def test_halves_are_summed_exactly():
    """Powers of two are exact, so there is nothing to round."""
    values = np.zeros(8192)
    values[[40, 5000]] = 1.0
    sums = discounted_sums(values, 0.5, path_ends([5000, 3192]))
    expected = np.zeros(8192)
    expected[:41] = 0.5 ** np.arange(40, -1, -1)
    expected[5000] = 1.0
    assert sums.tolist() == expected.tolist()


def test_the_input_of_long_paths_is_not_changed():
    rng = np.random.default_rng(0)
    values, rewards = rng.normal(size=(2, 5000))
    before = values.copy(), rewards.copy()
    discounted_sums(values, 0.9, [4999])
    gae(rewards, values, [0.5], 0.9, 0.8, [4999])
    assert np.array_equal(values, before[0])
    assert np.array_equal(rewards, before[1])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1e-300])
def test_what_is_not_finite_stays_in_its_long_path(bad, factor):
    values = np.ones(6000)
    values[2500] = bad
    sums = discounted_sums(values, factor, path_ends([2000, 2000, 2000]))
    expected = loop_returns([1.0] * 2000, factor)
    assert sums[:2000].tolist() == expected
    assert sums[4000:].tolist() == expected
    assert np.isfinite(sums[2501:4000]).all()
    np.testing.assert_equal(sums[2500], bad)


def test_advantages_of_long_paths_equal_a_loop_to_rounding():
    rng = np.random.default_rng(0)
    lengths = [3000, 1, 999, 2000]
    ends = path_ends(lengths)
    rewards, values = rng.normal(size=(2, 6000))
    last = [0.5, -1.0, 0.0, 2.0]
    expected = []
    for start, stop, after in zip([0, *(ends[:-1] + 1)], ends + 1, last, strict=True):
        expected += loop_gae(
            rewards[start:stop].tolist(), values[start:stop].tolist(), after, 0.99, 0.95
        )
    advantages = gae(rewards, values, last, 0.99, 0.95, ends)
    np.testing.assert_allclose(advantages, expected, rtol=0, atol=1e-12)
