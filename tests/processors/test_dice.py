"""What is particular to padded batches: rows, a mask of what is real, and adjusted rewards."""

import numpy as np
import pytest

from mtwrappers import (
    DiceMetaSampleProcessor,
    DiceSampleProcessor,
    ZeroBaseline,
)
from tests.processors.fakes import ObservedValue, make_path, unchanged

ONE = 1 / (1 + 1e-8)
PATHS = [make_path([1, 2]), make_path([4])]


def process(paths, longest, baseline=None, *, normalize_adv=False, **kwargs):
    baseline = ZeroBaseline() if baseline is None else baseline
    processor = DiceSampleProcessor(baseline, longest, normalize_adv=normalize_adv, **kwargs)
    return unchanged(paths, processor.process_samples)


def test_rows_are_padded_with_zeros_behind_the_paths():
    data = process(PATHS, 3, discount=0.5)
    assert "advantages" not in data  # they need a return baseline
    assert data["mask"].dtype == np.float64
    assert data["mask"].tolist() == [[1, 1, 0], [1, 0, 0]]
    assert data["observations"].tolist() == [
        [[-1, -1], [-2, -2], [0, 0]],
        [[-4, -4], [0, 0], [0, 0]],
    ]
    assert data["returns"].tolist() == [[2, 2, 0], [4, 0, 0]]
    assert data["agent_infos"]["deep"]["x"].tolist() == [[1, 1, 0], [1, 0, 0]]


def test_adjusted_rewards_are_discounted_rewards_less_the_baseline():
    baseline = ObservedValue()
    paths = [make_path([1, 2], obs=[0.25, 3, 9]), make_path([4], obs=[5, 9])]
    data = process(paths, 3, baseline, discount=0.5)
    assert baseline.fitted == [("discounted_rewards", [[1, 1], [4]])]
    assert data["adjusted_rewards"].tolist() == [[0.75, -2, 0], [-1, 0, 0]]


def test_adjusted_rewards_are_normalized_over_real_steps_unless_told_otherwise():
    # Without padding the mean is 2 and the deviation 1.
    paths = [make_path([1, 3]), make_path([1]), make_path([3])]
    one = DiceSampleProcessor(ZeroBaseline(), 3, discount=1).process_samples(paths)
    (of_many,) = DiceMetaSampleProcessor(ZeroBaseline(), 3, discount=1).process_samples({0: paths})
    for data in (one, of_many):
        assert data["adjusted_rewards"].tolist() == [[-ONE, ONE, 0], [-ONE, 0, 0], [ONE, 0, 0]]
        assert data["rewards"].tolist()[0] == [1, 3, 0]


def test_positive_values_leave_the_padding_zero():
    data = process(
        [make_path([-1, 3])],
        4,
        discount=1,
        gae_lambda=0,
        positive_adv=True,
        return_baseline=ZeroBaseline(),
    )
    assert data["adjusted_rewards"].tolist() == [[1e-8, 4 + 1e-8, 0, 0]]
    assert data["advantages"].tolist() == [[1e-8, 4 + 1e-8, 0, 0]]


def test_a_path_that_is_too_long_is_named():
    paths = [make_path([1]), make_path([1, 2, 3, 4])]
    with pytest.raises(
        ValueError, match="path 1 of paths has 4 steps, at most max_path_length=3 were expected"
    ):
        process(paths, 3)
    with pytest.raises(ValueError, match="path 1 of paths of task 'b' has 4 steps, at most"):
        DiceMetaSampleProcessor(ZeroBaseline(), 3).process_samples({"a": paths[:1], "b": paths})
