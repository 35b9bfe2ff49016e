"""`DiceSampleProcessor` and `DiceMetaSampleProcessor`: padded rows, and a mask of what is real."""

import numpy as np
import pytest

from mtwrappers import (
    DiceMetaSampleProcessor,
    DiceSampleProcessor,
    LinearFeatureBaseline,
    LinearTimeBaseline,
    SampleProcessor,
    ZeroBaseline,
)
from tests.fakes import equal
from tests.processors import ObservedValue, make_path, random_paths, unchanged

ONE = 1 / (1 + 1e-8)
PATHS = [make_path([1, 2]), make_path([4])]


def process(paths, longest, baseline=None, **kwargs):
    baseline = ZeroBaseline() if baseline is None else baseline
    return unchanged(paths, DiceSampleProcessor(baseline, longest, **kwargs).process_samples)


def test_rows_are_padded_with_zeros_behind_the_paths():
    data = process(PATHS, 3, discount=0.5)
    assert set(data) == {
        "mask",
        "observations",
        "actions",
        "rewards",
        "returns",
        "adjusted_rewards",
        "env_infos",
        "agent_infos",
    }
    assert equal(data["mask"], np.array([[1.0, 1, 0], [1, 0, 0]]))
    assert data["observations"].tolist() == [
        [[-1, -1], [-2, -2], [0, 0]],
        [[-4, -4], [0, 0], [0, 0]],
    ]
    assert data["actions"].tolist() == [
        [[0, 1, 2], [3, 4, 5], [0, 0, 0]],
        [[0, 1, 2], [0, 0, 0], [0, 0, 0]],
    ]
    assert data["rewards"].tolist() == [[1, 2, 0], [4, 0, 0]]
    assert data["returns"].tolist() == [[2, 2, 0], [4, 0, 0]]
    assert data["env_infos"]["step"].tolist() == [[1, 2, 0], [1, 0, 0]]
    assert data["agent_infos"]["mean"].shape == (2, 3, 3)
    assert data["agent_infos"]["deep"]["x"].tolist() == [[1, 1, 0], [1, 0, 0]]


def test_adjusted_rewards_are_discounted_rewards_less_the_baseline():
    # Discounted rewards are 1 and 0.5 * 2, and 4.
    assert process(PATHS, 3, discount=0.5)["adjusted_rewards"].tolist() == [[1, 1, 0], [4, 0, 0]]
    baseline = ObservedValue()
    paths = [make_path([1, 2], obs=[0.25, 3, 9]), make_path([4], obs=[5, 9])]
    data = process(paths, 3, baseline, discount=0.5)
    assert baseline.fitted == [("discounted_rewards", [[1, 1], [4]])]
    assert data["adjusted_rewards"].tolist() == [[0.75, -2, 0], [-1, 0, 0]]


@pytest.mark.parametrize(
    ("discount", "expected"),
    [
        (0, [[3, 0, 0, 0], [5, 0, 0, 0]]),
        (0.5, [[3, 1, 2, 0], [5, 0, 0, 0]]),
        (1, [[3, 2, 8, 0], [5, 0, 0, 0]]),
    ],
)
def test_adjusted_rewards_at_the_ends_of_the_discount(discount, expected):
    data = process([make_path([3, 2, 8]), make_path([5])], 4, discount=discount)
    assert data["adjusted_rewards"].tolist() == expected


def test_a_path_of_full_length_has_no_padding():
    data = process([make_path([1, 2, 4])], 3, discount=0.5)
    assert data["mask"].tolist() == [[1, 1, 1]]
    assert data["returns"].tolist() == [[3, 4, 4]]


def test_a_single_step_may_be_the_whole_batch():
    data = process([make_path([3])], 1)
    assert data["mask"].tolist() == [[1]]
    assert data["adjusted_rewards"].tolist() == [[3]]


@pytest.mark.parametrize("baseline_type", [LinearFeatureBaseline, LinearTimeBaseline])
def test_the_baseline_is_fitted_to_discounted_rewards(baseline_type):
    paths = random_paths(0)
    baseline, direct = baseline_type(), baseline_type()
    data = process(paths, 12, baseline, discount=0.5)
    # Powers of a half are exact.
    targets = [path["rewards"] * 0.5 ** np.arange(len(path["rewards"])) for path in paths]
    fitted = [{**path, "target": own} for path, own in zip(paths, targets, strict=True)]
    direct.fit(fitted, target_key="target")
    assert np.array_equal(baseline.get_param_values(), direct.get_param_values())
    for i, path in enumerate(paths):
        n = len(path["rewards"])
        # Predicted in one product there, and path by path here.
        expected = targets[i] - direct.predict(path)
        np.testing.assert_allclose(data["adjusted_rewards"][i, :n], expected, rtol=0, atol=1e-12)
        assert not data["adjusted_rewards"][i, n:].any()


def test_actions_of_different_types_lose_nothing():
    paths = [
        make_path([1], actions=np.array([[1]])),
        make_path([1], actions=np.array([[0.5]])),
    ]
    assert process(paths, 2)["actions"].tolist() == [[[1], [0]], [[0.5], [0]]]


def test_infos_may_be_absent():
    path = {"observations": np.ones((2, 1)), "actions": np.ones((2, 1)), "rewards": np.ones(2)}
    data = process([path], 3, discount=1.0)
    assert data["env_infos"] == {}
    assert data["agent_infos"] == {}
    assert data["returns"].tolist() == [[2, 1, 0]]


# Advantages.


def test_advantages_need_a_return_baseline():
    assert "advantages" not in process(PATHS, 3)


def test_advantages_by_hand():
    baseline = ObservedValue()
    paths = [make_path([1, 1, 1], obs=[1, 2, 3, 4]), make_path([2], obs=[5, 6])]
    data = process(paths, 4, discount=0.5, gae_lambda=0.5, return_baseline=baseline)
    assert baseline.fitted == [("returns", [[1.75, 1.5, 1], [2]])]
    assert data["advantages"].tolist() == [[1, 0, -2, 0], [-3, 0, 0, 0]]


def test_advantages_of_a_path_that_a_time_limit_cut():
    path = make_path([1, 1, 1], obs=[1, 2, 3, 4], ended="truncated")
    data = process(
        [path],
        4,
        discount=0.5,
        gae_lambda=0.5,
        return_baseline=ObservedValue(),
        bootstrap_truncated=True,
    )
    assert data["advantages"].tolist() == [[1.125, 0.5, 0, 0]]


@pytest.mark.parametrize("bootstrap_truncated", [False, True])
@pytest.mark.parametrize(
    "shape", [{}, {"normalize_adv": True}, {"normalize_adv": True, "positive_adv": True}]
)
@pytest.mark.parametrize(
    "baseline_type", [LinearFeatureBaseline, LinearTimeBaseline, ObservedValue]
)
def test_advantages_equal_those_of_the_flat_processor(baseline_type, shape, bootstrap_truncated):
    paths = random_paths(1, n=8)
    options = {"discount": 0.95, "gae_lambda": 0.9, "bootstrap_truncated": bootstrap_truncated}
    flat = SampleProcessor(baseline_type(), **options, **shape).process_samples(paths)
    data = process(paths, 15, return_baseline=baseline_type(), **options, **shape)
    real = data["mask"] == 1
    assert np.array_equal(data["advantages"][real], flat["advantages"])
    assert np.array_equal(data["returns"][real], flat["returns"])
    assert not data["advantages"][~real].any()


# Shaped values.


def test_normalizing_counts_real_steps_alone():
    # Without padding the mean is 2 and the deviation 1.
    paths = [make_path([1, 3]), make_path([1]), make_path([3])]
    data = process(paths, 5, discount=1, normalize_adv=True)
    assert data["adjusted_rewards"].tolist() == [
        [-ONE, ONE, 0, 0, 0],
        [-ONE, 0, 0, 0, 0],
        [ONE, 0, 0, 0, 0],
    ]
    assert data["rewards"].tolist()[0] == [1, 3, 0, 0, 0]


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


# DiceMetaSampleProcessor.


def test_each_task_gets_rows_like_those_of_its_own_paths_alone():
    paths = {task: random_paths(task, n=4) for task in (5, 2, 9)}
    options = {"discount": 0.9, "gae_lambda": 0.8, "normalize_adv": True}
    processor = DiceMetaSampleProcessor(
        LinearTimeBaseline(), 12, **options, return_baseline=LinearFeatureBaseline()
    )
    batches = unchanged(paths, processor.process_samples)
    assert len(batches) == 3
    for task, data in zip((5, 2, 9), batches, strict=True):
        alone = process(
            paths[task],
            12,
            LinearTimeBaseline(),
            return_baseline=LinearFeatureBaseline(),
            **options,
        )
        assert equal(data, alone)


def test_the_returns_of_all_tasks_are_logged_together_with_the_prefix():
    logged = {}
    processor = DiceMetaSampleProcessor(ZeroBaseline(), 3, 0.5, log_sink=logged.__setitem__)
    paths = {0: [make_path([1, 2, 4])], 1: [make_path([3])]}
    processor.process_samples(paths)
    assert logged == {}
    processor.process_samples(paths, log=True, log_prefix="d/")
    # Discounted returns are 3 and 3, sums of rewards 7 and 3.
    assert logged["d/AverageDiscountedReturn"] == 3
    assert logged["d/AverageReturn"] == 5
    assert logged["d/StdReturn"] == 2
    assert logged["d/NumTrajs"] == 2
    assert all(key.startswith("d/") for key in logged)


def test_the_returns_of_one_task_are_logged_with_the_prefix():
    logged = {}
    processor = DiceSampleProcessor(ZeroBaseline(), 3, 0.5, log_sink=logged.__setitem__)
    processor.process_samples(PATHS, log=True, log_prefix="one/")
    # Sums of rewards are 3 and 4.
    assert logged["one/AverageReturn"] == 3.5
    assert logged["one/MaxReturn"] == 4
    assert all(key.startswith("one/") for key in logged)


# What is refused.


def test_a_path_that_is_too_long_is_named():
    paths = [make_path([1]), make_path([1, 2, 3, 4])]
    with pytest.raises(
        ValueError, match="path 1 of paths has 4 steps, at most max_path_length=3 were expected"
    ):
        process(paths, 3)
    with pytest.raises(ValueError, match="path 1 of paths of task 'b' has 4 steps, at most"):
        DiceMetaSampleProcessor(ZeroBaseline(), 3).process_samples({"a": paths[:1], "b": paths})


@pytest.mark.parametrize("length", [0, -1, 2.5, None, True])
def test_the_longest_length_must_be_a_positive_integer(length):
    with pytest.raises(ValueError, match="max_path_length must be a positive integer, got"):
        DiceSampleProcessor(ZeroBaseline(), length)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("name", ["discount", "gae_lambda"])
@pytest.mark.parametrize("processor_type", [DiceSampleProcessor, DiceMetaSampleProcessor])
def test_fractions_must_be_between_zero_and_one(processor_type, name, value):
    with pytest.raises(ValueError, match=rf"{name} must be in \[0, 1\], got"):
        processor_type(ZeroBaseline(), 3, **{name: value})


def test_both_baselines_must_fit_and_predict():
    with pytest.raises(TypeError, match="a baseline must have fit and predict, got 3"):
        DiceSampleProcessor(3, 5)
    with pytest.raises(TypeError, match="a baseline must have fit and predict, got 4"):
        DiceSampleProcessor(ZeroBaseline(), 5, return_baseline=4)


def test_there_must_be_paths_and_tasks():
    with pytest.raises(ValueError, match="paths must be a list of at least one path, got none"):
        process([], 3)
    with pytest.raises(ValueError, match="expected a dict of the paths of at least one task"):
        DiceMetaSampleProcessor(ZeroBaseline(), 3).process_samples({})


def test_paths_must_have_the_same_keys():
    with pytest.raises(ValueError, match=r"path 1 of paths has the keys .* expected .* in path 0"):
        process([make_path([1]), make_path([1], extra=1)], 3)


def test_a_nan_reward_is_named_with_its_task_and_step():
    bad = [make_path([1]), make_path([1, float("nan")])]
    with pytest.raises(ValueError, match="reward of path 1 of paths is NaN at step 1"):
        DiceSampleProcessor(ZeroBaseline(), 3).process_samples(bad)
    with pytest.raises(ValueError, match="reward of path 1 of paths of task 6 is NaN at step 1"):
        DiceMetaSampleProcessor(ZeroBaseline(), 3).process_samples({6: bad})
