"""Discounted sums and advantages of ragged batches."""

import tracemalloc

import numpy as np
import pytest

from mtwrappers.processors.returns import discounted_sums, gae, steps_before
from tests.processors.fakes import loop_gae, loop_returns

FRACTIONS = [0.0, 1e-300, 0.99, 1.0]
# Few and many paths, of one length and of any, with single steps at either end.
LENGTHS = [
    [1],
    [1, 1, 1],
    [5] * 40,
    [30, 1, 7, 8, 15, 16, 2],
    [1, 4000, 1],
    [3, 1000, 5, 600, 1, 1, 90],
]
every_length = pytest.mark.parametrize("lengths", LENGTHS, ids=str)


def test_the_steps_before_a_step_start_anew_with_each_path():
    assert steps_before([2, 3, 1]).tolist() == [0, 1, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("values", "discount", "lengths", "expected"),
    [
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
    for dtype in (np.int64, np.float32, np.float64):
        sums = discounted_sums(np.array(values, dtype), discount, lengths)
        assert sums.dtype == np.float64
        assert sums.tolist() == expected


@every_length
@pytest.mark.parametrize("discount", FRACTIONS)
def test_discounted_sums_equal_a_loop_bit_for_bit(lengths, discount):
    values = np.random.default_rng(0).normal(size=sum(lengths))
    before = values.copy()
    expected = []
    for own in np.split(values, np.cumsum(lengths)[:-1]):
        expected += loop_returns(own.tolist(), discount)
    sums = discounted_sums(values, discount, lengths)
    assert sums.tolist() == expected
    assert np.array_equal(values, before)
    assert not np.shares_memory(sums, values)


@every_length
@pytest.mark.parametrize(
    ("discount", "gae_lambda"), [(0.0, 0.95), (0.37, 1.0), (0.99, 0.95), (1.0, 0.0), (1.0, 1.0)]
)
def test_advantages_equal_a_loop_bit_for_bit(lengths, discount, gae_lambda):
    rng = np.random.default_rng(1)
    rewards, values = rng.normal(size=(2, sum(lengths)))
    last = rng.normal(size=len(lengths))
    before = rewards.copy(), values.copy(), last.copy()
    expected, cuts = [], np.cumsum(lengths)[:-1]
    for r, v, after in zip(np.split(rewards, cuts), np.split(values, cuts), last, strict=True):
        expected += loop_gae(r.tolist(), v.tolist(), after, discount, gae_lambda)
    assert gae(rewards, values, last, discount, gae_lambda, lengths).tolist() == expected
    assert all(map(np.array_equal, (rewards, values, last), before))


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("discount", [0.0, 0.5, 1.0])
def test_what_is_not_finite_stays_in_its_path_and_reaches_no_later_step(bad, discount):
    values = np.ones(60)
    values[25] = bad
    sums = discounted_sums(values, discount, [20, 20, 20])
    expected = loop_returns([1.0] * 20, discount)
    assert sums[:20].tolist() == expected
    assert sums[26:40].tolist() == expected[6:]
    assert sums[40:].tolist() == expected
    np.testing.assert_equal(sums[25], bad)


def test_one_long_path_among_thousands_of_short_ones_takes_little_memory():
    """As rows of one length these steps would take 4.8 GB."""
    lengths = [200_000] + [1] * 3000
    values = np.ones(sum(lengths))
    tracemalloc.start()
    try:
        sums = discounted_sums(values, 1.0, lengths)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sums[:3].tolist() == [200_000, 199_999, 199_998]
    assert set(sums[200_000:].tolist()) == {1}
    assert peak < 20 * values.nbytes


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
    assert gae([1, 1, 1], [1, 2, 3], [last], 0.5, gae_lambda, [3]).tolist() == expected
