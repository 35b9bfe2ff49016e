"""`SampleProcessor` and `MetaSampleProcessor`: flat batches of the steps of all paths."""

import logging

import numpy as np
import pytest

from mtwrappers import (
    LinearFeatureBaseline,
    LinearTimeBaseline,
    MetaSampleProcessor,
    SampleProcessor,
    ZeroBaseline,
)
from tests.fakes import equal
from tests.processors import (
    ObservedValue,
    loop_gae,
    loop_returns,
    make_path,
    random_paths,
    unchanged,
)

ONE = 1 / (1 + 1e-8)


def process(paths, baseline=None, **kwargs):
    processor = SampleProcessor(ZeroBaseline() if baseline is None else baseline, **kwargs)
    return unchanged(paths, processor.process_samples)


# The keys, and what they hold.


def test_the_steps_of_all_paths_stand_one_after_another():
    data = process([make_path([1, 2, 4]), make_path([8])], discount=0.5)
    assert set(data) == {
        "observations",
        "actions",
        "rewards",
        "returns",
        "advantages",
        "env_infos",
        "agent_infos",
    }
    assert data["observations"].tolist() == [[-1, -1], [-2, -2], [-4, -4], [-8, -8]]
    assert data["actions"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 1, 2]]
    assert data["rewards"].tolist() == [1, 2, 4, 8]
    assert data["returns"].tolist() == [3, 4, 4, 8]
    assert data["advantages"].tolist() == [3, 4, 4, 8]
    assert data["env_infos"]["step"].tolist() == [1, 2, 3, 1]
    assert data["agent_infos"]["mean"].shape == (4, 3)
    assert data["agent_infos"]["deep"]["x"].tolist() == [1, 1, 1, 1]


def test_infos_may_be_absent():
    path = {
        "observations": np.zeros((2, 1)),
        "actions": np.zeros((2, 1)),
        "rewards": np.ones(2),
    }
    data = process([path], discount=1.0)
    assert data["env_infos"] == {}
    assert data["agent_infos"] == {}
    assert data["returns"].tolist() == [2, 1]


def test_plain_lists_are_paths_too():
    path = {"observations": [[1.0], [2.0]], "actions": [0, 1], "rewards": [1, 2]}
    data = process([path], discount=0.5)
    assert data["returns"].tolist() == [2, 2]
    assert data["rewards"].dtype == np.float64
    assert data["actions"].tolist() == [0, 1]


def test_the_batch_shares_no_memory_with_the_paths():
    path = make_path([1.0, 2.0])
    data = process([path])
    for key in ("observations", "actions", "rewards"):
        assert not np.shares_memory(data[key], path[key])
    assert not np.shares_memory(data["env_infos"]["step"], path["env_infos"]["step"])


# Returns and advantages.


@pytest.mark.parametrize(
    ("gae_lambda", "expected"),
    [(0, [1, 2, 4, 8]), (0.5, [1.75, 3, 4, 8]), (1, [3, 4, 4, 8])],
)
def test_advantages_without_a_baseline_are_sums_of_rewards(gae_lambda, expected):
    paths = [make_path([1, 2, 4]), make_path([8])]
    data = process(paths, discount=0.5, gae_lambda=gae_lambda)
    assert data["advantages"].tolist() == expected


@pytest.mark.parametrize(
    ("discount", "returns"), [(0, [1, 2, 4]), (0.5, [3, 4, 4]), (1, [7, 6, 4])]
)
def test_returns_at_the_ends_of_the_discount(discount, returns):
    assert process([make_path([1, 2, 4])], discount=discount)["returns"].tolist() == returns


def test_a_baseline_needs_fit_and_predict_alone():
    baseline = ObservedValue()
    paths = [make_path([1, 1, 1], obs=[1, 2, 3, 4]), make_path([2], obs=[5, 6])]
    data = process(paths, baseline, discount=0.5, gae_lambda=0.5)
    assert baseline.fitted == [("returns", [[1.75, 1.5, 1], [2]])]
    # Deltas of the first path: 1 + 0.5 * 2 - 1, 1 + 0.5 * 3 - 2 and 1 - 3.
    assert data["advantages"].tolist() == [1, 0, -2, -3]


@pytest.mark.parametrize("baseline_type", [ZeroBaseline, LinearFeatureBaseline, LinearTimeBaseline])
@pytest.mark.parametrize(("discount", "gae_lambda"), [(0.99, 1), (0.9, 0.95), (1, 0), (0, 1)])
def test_random_paths_agree_with_a_loop(baseline_type, discount, gae_lambda):
    paths = random_paths(0, n=9, longest=30)
    baseline = baseline_type()
    data = process(paths, baseline, discount=discount, gae_lambda=gae_lambda)
    returns = [loop_returns(path["rewards"].tolist(), discount) for path in paths]
    assert np.array_equal(data["returns"], np.concatenate(returns))
    advantages = [
        loop_gae(path["rewards"].tolist(), baseline.predict(path).tolist(), 0, discount, gae_lambda)
        for path in paths
    ]
    # The baseline predicts all steps in one product there, and path by path here.
    np.testing.assert_allclose(data["advantages"], np.concatenate(advantages), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("bootstrap", [False, True])
def test_random_paths_with_a_plain_baseline_equal_a_loop_bit_for_bit(bootstrap):
    paths = random_paths(1, n=9, longest=30)
    data = process(
        paths, ObservedValue(), discount=0.97, gae_lambda=0.9, bootstrap_truncated=bootstrap
    )
    expected = []
    for path in paths:
        cut = bootstrap and path["truncated"][-1]
        after = path["next_observation"][0] if cut else 0.0
        values = path["observations"][:, 0].tolist()
        expected += loop_gae(path["rewards"].tolist(), values, after, 0.97, 0.9)
    assert np.array_equal(data["advantages"], expected)


@pytest.mark.parametrize("baseline_type", [LinearFeatureBaseline, LinearTimeBaseline])
def test_the_baseline_is_fitted_to_the_returns(baseline_type):
    paths = random_paths(2)
    baseline, direct = baseline_type(), baseline_type()
    data = process(paths, baseline, discount=0.9)
    cuts = np.cumsum([len(path["rewards"]) for path in paths])[:-1]
    split = np.split(data["returns"], cuts)
    direct.fit([{**path, "returns": own} for path, own in zip(paths, split, strict=True)])
    assert np.array_equal(baseline.get_param_values(), direct.get_param_values())


# Paths that a time limit cut.


@pytest.mark.parametrize(
    ("ended", "bootstrap", "expected"),
    [
        ("terminated", False, [1, 0, -2]),
        ("terminated", True, [1, 0, -2]),
        ("truncated", False, [1, 0, -2]),
        ("truncated", True, [1.125, 0.5, 0]),
        (None, True, [1, 0, -2]),
    ],
)
def test_the_next_observation_is_worth_something_where_a_time_limit_cut(ended, bootstrap, expected):
    # Values are 1, 2, 3 and, after the last step, 4.
    data = process(
        [make_path([1, 1, 1], obs=[1, 2, 3, 4], ended=ended)],
        ObservedValue(),
        discount=0.5,
        gae_lambda=0.5,
        bootstrap_truncated=bootstrap,
    )
    assert data["advantages"].tolist() == expected
    assert data["returns"].tolist() == [1.75, 1.5, 1]


def test_a_path_that_is_both_terminated_and_truncated_is_worth_nothing_after():
    path = make_path([1, 1, 1], obs=[1, 2, 3, 4], ended="truncated")
    path["terminated"] = path["truncated"]
    data = process([path], ObservedValue(), discount=0.5, gae_lambda=0.5, bootstrap_truncated=True)
    assert data["advantages"].tolist() == [1, 0, -2]


def test_only_the_paths_that_were_cut_are_bootstrapped():
    paths = [make_path([1], obs=[1, 4], ended=ended) for ended in ("terminated", "truncated", None)]
    data = process(paths, ObservedValue(), discount=0.5, bootstrap_truncated=True)
    assert data["advantages"].tolist() == [0, 2, 0]


@pytest.mark.parametrize("baseline_type", [LinearFeatureBaseline, LinearTimeBaseline])
def test_linear_baselines_bootstrap_at_the_time_after_the_last_step(baseline_type):
    paths = random_paths(3, ended=("truncated",))
    baseline = baseline_type()
    data = process(paths, baseline, discount=0.9, gae_lambda=0.8, bootstrap_truncated=True)
    expected = []
    for path in paths:
        longer = np.vstack([path["observations"], path["next_observation"]])
        values = baseline.predict({"observations": longer}).tolist()
        expected += loop_gae(path["rewards"].tolist(), values[:-1], values[-1], 0.9, 0.8)
    # As above, of the order of the products.
    np.testing.assert_allclose(data["advantages"], expected, rtol=1e-9, atol=1e-9)


def test_bootstrapping_without_a_next_observation_is_refused():
    paths = [make_path([1]), make_path([1], ended="truncated")]
    for path in paths:
        del path["next_observation"]
    with pytest.raises(ValueError, match="path 1 is truncated and has no next_observation"):
        process(paths, bootstrap_truncated=True)
    assert process(paths)["returns"].tolist() == [1, 1]


# Shaped advantages.


def test_normalized_advantages_have_mean_zero_and_deviation_one():
    # Without discount the advantages are the rewards: mean 2, deviation 1.
    paths = [make_path([1, 3]), make_path([1]), make_path([3])]
    data = process(paths, discount=0, normalize_adv=True)
    assert data["advantages"].tolist() == [-ONE, ONE, -ONE, ONE]
    assert data["returns"].tolist() == [1, 3, 1, 3]


def test_positive_advantages_begin_just_above_zero():
    data = process([make_path([-1, 3])], discount=0, positive_adv=True)
    assert data["advantages"].tolist() == [1e-8, 4 + 1e-8]


def test_advantages_are_normalized_before_they_are_made_positive():
    data = process([make_path([1, 3])], discount=0, normalize_adv=True, positive_adv=True)
    assert data["advantages"].tolist() == [1e-8, 2 * ONE + 1e-8]


# What is logged.


def test_returns_are_logged_with_the_prefix():
    logged = {}
    processor = SampleProcessor(ZeroBaseline(), 0.5, log_sink=logged.__setitem__)
    paths = [make_path([1, 2, 4]), make_path([3])]
    processor.process_samples(paths)
    assert logged == {}
    processor.process_samples(paths, log=True, log_prefix="train/")
    # Discounted returns are 3 and 3, sums of rewards 7 and 3.
    expected = {
        "train/AverageDiscountedReturn": 3,
        "train/AverageReturn": 5,
        "train/NumTrajs": 2,
        "train/StdReturn": 2,
        "train/MaxReturn": 7,
        "train/MinReturn": 3,
    }
    assert {key: logged.get(key) for key in expected} == expected
    assert all(key.startswith("train/") for key in logged)


def test_figures_may_go_to_a_logger(caplog):
    logger = logging.getLogger("tests.processor")
    with caplog.at_level(logging.INFO, "tests.processor"):
        SampleProcessor(ZeroBaseline(), log_sink=logger).process_samples(
            [make_path([1, 2])], log=True, log_prefix="a/"
        )
    assert "a/AverageReturn: 3.0" in caplog.messages


def test_a_log_sink_must_be_callable():
    with pytest.raises(TypeError, match="a log sink must be a callable"):
        SampleProcessor(ZeroBaseline(), log_sink="stdout")


# What is refused.


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "0.5", None])
@pytest.mark.parametrize("name", ["discount", "gae_lambda"])
def test_fractions_must_be_between_zero_and_one(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be in \[0, 1\], got"):
        SampleProcessor(ZeroBaseline(), **{name: value})


@pytest.mark.parametrize("baseline", [None, 3, object()])
def test_a_baseline_must_fit_and_predict(baseline):
    with pytest.raises(TypeError, match="a baseline must have fit and predict, got"):
        SampleProcessor(baseline)


@pytest.mark.parametrize("paths", [[], {}, None])
def test_there_must_be_a_path(paths):
    with pytest.raises(ValueError, match="paths must be a list of at least one path"):
        SampleProcessor(ZeroBaseline()).process_samples(paths)


def test_paths_must_have_the_same_keys():
    with pytest.raises(ValueError, match=r"path 1 of paths has the keys .* expected .* in path 0"):
        process([make_path([1]), make_path([1], extra=1)])


def test_arrays_must_fit_together():
    with pytest.raises(ValueError, match=r"actions of path 0 .* shape \(2, 3\), got \(1, 3\)"):
        process([make_path([1, 2], actions=np.zeros((1, 3)))])


def test_a_nan_reward_is_named():
    with pytest.raises(ValueError, match="reward of path 1 of paths is NaN at step 2"):
        SampleProcessor(ZeroBaseline()).process_samples(
            [make_path([1]), make_path([1, 2, float("nan")])]
        )


# MetaSampleProcessor.


def meta(paths, baseline=None, **kwargs):
    processor = MetaSampleProcessor(ZeroBaseline() if baseline is None else baseline, **kwargs)
    return unchanged(paths, processor.process_samples)


def test_each_task_gets_a_batch_like_that_of_its_own_paths_alone():
    paths = {task: random_paths(task, n=4) for task in range(3)}
    options = {"discount": 0.9, "gae_lambda": 0.8, "normalize_adv": True}
    options["bootstrap_truncated"] = True
    batches = meta(paths, LinearFeatureBaseline(), **options)
    assert len(batches) == 3
    for task, data in enumerate(batches):
        alone = process(paths[task], LinearFeatureBaseline(), **options)
        del data["adj_avg_rewards"]
        assert equal(data, alone)


def test_adjusted_average_rewards_are_normalized_over_all_tasks():
    # Over all four steps the mean is 2 and the deviation 1.
    one, two = meta({0: [make_path([1, 1])], 1: [make_path([3]), make_path([3])]})
    assert one["adj_avg_rewards"].tolist() == [-ONE, -ONE]
    assert two["adj_avg_rewards"].tolist() == [ONE, ONE]
    assert one["rewards"].tolist() == [1, 1]


def test_every_step_counts_once_in_the_average_of_all_tasks():
    # Over five steps, 0 four times and 10 once, the mean is 2 and the variance (4 * 4 + 64) / 5.
    one, two = meta({0: [make_path([0, 0, 0, 0])], 1: [make_path([10])]})
    assert one["adj_avg_rewards"].tolist() == [-2 / (4 + 1e-8)] * 4
    assert two["adj_avg_rewards"].tolist() == [8 / (4 + 1e-8)]


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 2), (np.float64, 5), (np.float64, 2)])
def test_each_tasks_observations_keep_their_own_type_and_size(dtype, size):
    """Observations of one kind are concatenated for all tasks at once, and others are not."""
    other = [
        {**p, "observations": np.full((len(p["rewards"]), size), 0.1, dtype)}
        for p in random_paths(1)
    ]
    paths = {0: random_paths(0), 1: other}
    batches = MetaSampleProcessor(ZeroBaseline()).process_samples(paths)
    for batch, own in zip(batches, paths.values(), strict=True):
        joined = np.concatenate([path["observations"] for path in own])
        assert batch["observations"].dtype == joined.dtype
        assert np.array_equal(batch["observations"], joined)


def test_batches_of_two_tasks_do_not_overlap():
    paths = {0: random_paths(0), 1: random_paths(1)}
    one, two = MetaSampleProcessor(ZeroBaseline()).process_samples(paths)
    before = two["observations"].copy()
    one["observations"][:] = 7
    assert np.array_equal(two["observations"], before)


def test_batches_come_in_the_order_of_the_tasks():
    batches = meta({"b": [make_path([1])], "a": [make_path([2])]})
    assert [data["rewards"].tolist() for data in batches] == [[1], [2]]


def test_the_returns_of_all_tasks_are_logged_together():
    logged = {}
    processor = MetaSampleProcessor(ZeroBaseline(), 0.5, log_sink=logged.__setitem__)
    paths = {0: [make_path([1, 2, 4])], 1: [make_path([3])]}
    processor.process_samples(paths, log=True, log_prefix="m/")
    expected = {
        "m/AverageDiscountedReturn": 3,
        "m/AverageReturn": 5,
        "m/NumTrajs": 2,
        "m/StdReturn": 2,
        "m/MaxReturn": 7,
        "m/MinReturn": 3,
    }
    assert {key: logged.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("paths", "got"), [({}, "none"), ([], "list"), ([[make_path([1])]], "list"), (None, "NoneType")]
)
def test_there_must_be_a_task(paths, got):
    with pytest.raises(
        ValueError, match=f"expected a dict of the paths of at least one task, got {got}"
    ):
        MetaSampleProcessor(ZeroBaseline()).process_samples(paths)


def test_a_task_without_paths_is_named():
    with pytest.raises(ValueError, match="paths of task 7 must be a list of at least one path"):
        MetaSampleProcessor(ZeroBaseline()).process_samples({3: [make_path([1])], 7: []})


def test_a_nan_reward_is_named_with_its_task():
    paths = {"a": [make_path([1])], "b": [make_path([1]), make_path([1, float("nan")])]}
    with pytest.raises(ValueError, match="reward of path 1 of paths of task 'b' is NaN at step 1"):
        MetaSampleProcessor(ZeroBaseline()).process_samples(paths)


def test_a_missing_next_observation_is_named_with_its_task():
    bad = make_path([1], ended="truncated")
    del bad["next_observation"]
    processor = MetaSampleProcessor(ZeroBaseline(), bootstrap_truncated=True)
    with pytest.raises(ValueError, match="task 4"):
        processor.process_samples({3: [make_path([1])], 4: [bad]})
