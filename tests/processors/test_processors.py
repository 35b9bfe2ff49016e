"""What all four processors promise, and what is particular to flat batches of one or more tasks."""

import logging

import numpy as np
import pytest

from mtwrappers import (
    DiceMetaSampleProcessor,
    DiceSampleProcessor,
    LinearFeatureBaseline,
    LinearTimeBaseline,
    MetaSampleProcessor,
    SampleProcessor,
    ZeroBaseline,
)
from tests.fakes import equal
from tests.processors.fakes import (
    ObservedValue,
    loop_gae,
    loop_returns,
    make_path,
    random_paths,
    unchanged,
)

ONE = 1 / (1 + 1e-8)
TYPES = [SampleProcessor, MetaSampleProcessor, DiceSampleProcessor, DiceMetaSampleProcessor]
METAS = [MetaSampleProcessor, DiceMetaSampleProcessor]
NAN, INF = float("nan"), float("inf")

every_type = pytest.mark.parametrize("processor_type", TYPES)
every_meta = pytest.mark.parametrize("processor_type", METAS)


def make(processor_type, baseline=None, **options):
    """A processor whose advantages are over ``baseline``."""
    baseline = ZeroBaseline() if baseline is None else baseline
    if not issubclass(processor_type, DiceSampleProcessor):
        return processor_type(baseline, **options)
    options = {"normalize_adv": False, **options}
    return processor_type(ZeroBaseline(), 40, return_baseline=baseline, **options)


def process(processor_type, paths, baseline=None, **options):
    """The steps of a task's batch: its rows without their padding, if it is padded."""
    processor = make(processor_type, baseline, **options)
    if processor_type in METAS:
        (data,) = unchanged({3: paths}, processor.process_samples)
    else:
        data = unchanged(paths, processor.process_samples)
    if "mask" not in data:
        return data
    return without(data, data.pop("mask") == 1)


def without(rows, real):
    if isinstance(rows, dict):
        return {key: without(value, real) for key, value in rows.items()}
    assert not rows[~real].any()
    return rows[real]


# The keys, and what they hold.


@every_type
def test_the_steps_of_all_paths_stand_one_after_another(processor_type):
    data = process(processor_type, [make_path([1, 2, 4]), make_path([8])], discount=0.5)
    keys = {"observations", "actions", "rewards", "returns", "env_infos", "agent_infos"}
    own = {"adjusted_rewards"} if issubclass(processor_type, DiceSampleProcessor) else set()
    shared = {"adj_avg_rewards"} if processor_type in METAS else set()
    assert set(data) == keys | {"advantages"} | own | shared
    assert data["observations"].tolist() == [[-1, -1], [-2, -2], [-4, -4], [-8, -8]]
    assert data["actions"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 1, 2]]
    assert data["rewards"].tolist() == [1, 2, 4, 8]
    assert data["returns"].tolist() == [3, 4, 4, 8]
    assert data["advantages"].tolist() == [3, 4, 4, 8]
    assert data["env_infos"]["step"].tolist() == [1, 2, 3, 1]
    assert data["agent_infos"]["mean"].shape == (4, 3)
    assert data["agent_infos"]["deep"]["x"].tolist() == [1, 1, 1, 1]


@every_type
def test_plain_lists_without_infos_are_paths_too(processor_type):
    path = {"observations": [[1.0], [2.0]], "actions": [0, 1], "rewards": [1, 2]}
    data = process(processor_type, [path], discount=0.5)
    assert data["returns"].tolist() == [2, 2]
    assert data["rewards"].dtype == np.float64
    assert data["actions"].tolist() == [0, 1]
    assert data["env_infos"] == {}
    assert data["agent_infos"] == {}


@every_type
def test_arrays_of_different_types_lose_nothing(processor_type):
    paths = [make_path([1], actions=np.array([[a]])) for a in (1, 0.5)]
    assert process(processor_type, paths)["actions"].tolist() == [[1], [0.5]]


@every_type
def test_the_batch_shares_no_memory_with_the_paths(processor_type):
    path = make_path([1.0] * 40)
    data = process(processor_type, [path])
    for key in ("observations", "actions", "rewards"):
        assert not np.shares_memory(data[key], path[key])
    assert not np.shares_memory(data["env_infos"]["step"], path["env_infos"]["step"])


# Returns and advantages.


@every_type
@pytest.mark.parametrize(
    ("discount", "gae_lambda", "expected"),
    [(0.5, 0, [1, 2, 4, 8]), (0.5, 0.5, [1.75, 3, 4, 8]), (1, 1, [7, 6, 4, 8])],
)
def test_advantages_without_a_baseline_are_sums_of_rewards(
    processor_type, discount, gae_lambda, expected
):
    paths = [make_path([1, 2, 4]), make_path([8])]
    data = process(processor_type, paths, discount=discount, gae_lambda=gae_lambda)
    assert data["advantages"].tolist() == expected


@every_type
def test_a_baseline_needs_fit_and_predict_alone(processor_type):
    baseline = ObservedValue()
    paths = [make_path([1, 1, 1], obs=[1, 2, 3, 4]), make_path([2], obs=[5, 6])]
    data = process(processor_type, paths, baseline, discount=0.5, gae_lambda=0.5)
    assert baseline.fitted == [("returns", [[1.75, 1.5, 1], [2]])]
    # Deltas of the first path: 1 + 0.5 * 2 - 1, 1 + 0.5 * 3 - 2 and 1 - 3.
    assert data["advantages"].tolist() == [1, 0, -2, -3]


@every_type
@pytest.mark.parametrize("bootstrap", [False, True])
def test_random_paths_equal_a_loop_bit_for_bit(processor_type, bootstrap):
    paths = random_paths(1, n=9, longest=30)
    options = {"discount": 0.97, "gae_lambda": 0.9, "bootstrap_truncated": bootstrap}
    data = process(processor_type, paths, ObservedValue(), **options)
    returns, advantages = [], []
    for path in paths:
        after = path["next_observation"][0] if bootstrap and path["truncated"][-1] else 0.0
        values = path["observations"][:, 0].tolist()
        returns += loop_returns(path["rewards"].tolist(), 0.97)
        advantages += loop_gae(path["rewards"].tolist(), values, after, 0.97, 0.9)
    assert data["returns"].tolist() == returns
    assert data["advantages"].tolist() == advantages


@every_type
@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("baseline_type", [ZeroBaseline, LinearFeatureBaseline, LinearTimeBaseline])
def test_baselines_are_fitted_to_the_returns(processor_type, baseline_type, bootstrap):
    if bootstrap and baseline_type is not LinearFeatureBaseline:
        pytest.skip("cannot be bootstrapped")
    paths = random_paths(0, n=9, longest=30)
    baseline = baseline_type()
    options = {"discount": 0.9, "gae_lambda": 0.95, "bootstrap_truncated": bootstrap}
    data = process(processor_type, paths, baseline_type(), **options)
    cuts = np.cumsum([len(path["rewards"]) for path in paths])[:-1]
    split = np.split(data["returns"], cuts)
    fitted = [{**path, "returns": own} for path, own in zip(paths, split, strict=True)]
    if bootstrap:
        baseline.fit_bootstrapped(fitted, 0.9)
    else:
        baseline.fit(fitted)
    expected = []
    for path in paths:
        values = baseline.predict(path).tolist()
        after = 0.0
        if bootstrap and path["truncated"][-1]:
            (after,) = baseline.predict({"observations": path["next_observation"][None]})
        expected += loop_gae(path["rewards"].tolist(), values, after, 0.9, 0.95)
    # All steps are predicted in one product there, and path by path here.
    np.testing.assert_allclose(data["advantages"], expected, rtol=1e-9, atol=1e-9)


# Paths that a time limit cut.


@every_type
@pytest.mark.parametrize(
    ("ended", "bootstrap", "expected"),
    [
        ("terminated", True, [1, 0, -2]),
        ("truncated", False, [1, 0, -2]),
        ("truncated", True, [1.125, 0.5, 0]),
        ("both", True, [1, 0, -2]),
        (None, True, [1, 0, -2]),
    ],
)
def test_the_next_observation_is_worth_something_where_a_time_limit_cut(
    processor_type, ended, bootstrap, expected
):
    # Values are 1, 2, 3 and, after the last step, 4.
    path = make_path([1, 1, 1], obs=[1, 2, 3, 4], ended="truncated" if ended == "both" else ended)
    if ended == "both":
        path["terminated"] = path["truncated"]
    options = {"discount": 0.5, "gae_lambda": 0.5, "bootstrap_truncated": bootstrap}
    baseline = ObservedValue()
    data = process(processor_type, [path], baseline, **options)
    assert data["advantages"].tolist() == expected
    assert data["returns"].tolist() == [1.75, 1.5, 1]
    assert baseline.fitted == [("returns", [[1.75, 1.5, 1]])]


@every_type
def test_a_reward_of_one_for_ever_has_no_advantage_before_a_cut(processor_type):
    """Its value is 100 at every step, and so it is after the last."""
    paths = [make_path([1.0] * 40, obs=[0.5] * 41, ended="truncated")]
    baseline = LinearFeatureBaseline()
    data = process(processor_type, paths, baseline, discount=0.99, bootstrap_truncated=True)
    np.testing.assert_allclose(data["advantages"], np.zeros(40), atol=1e-3)
    value = baseline.predict({"observations": paths[0]["next_observation"][None]})
    np.testing.assert_allclose(value, [100], atol=1e-3)


@every_type
@pytest.mark.parametrize("baseline", [LinearTimeBaseline(), ZeroBaseline()])
def test_baselines_that_cannot_value_what_follows_a_cut_are_refused(processor_type, baseline):
    with pytest.raises(ValueError, match=f"fit_bootstrapped, .* got <.*{type(baseline).__name__}"):
        make(processor_type, baseline, bootstrap_truncated=True)


@every_type
@pytest.mark.parametrize("key", ["next_observation", "truncated"])
def test_bootstrapping_without_what_it_needs_is_refused(processor_type, key):
    paths = [make_path([1]), make_path([1], ended="truncated")]
    for path in paths:
        del path[key]
    with pytest.raises(ValueError, match=f"^path . .*{key}"):
        process(processor_type, paths, ObservedValue(), bootstrap_truncated=True)
    assert process(processor_type, paths)["returns"].tolist() == [1, 1]


# Shaped advantages.


@every_type
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Without discount the advantages are the rewards: mean 2, deviation 1.
        ({"normalize_adv": True}, [-ONE, ONE, -ONE, ONE]),
        ({"positive_adv": True}, [1e-8, 2 + 1e-8, 1e-8, 2 + 1e-8]),
        (
            {"normalize_adv": True, "positive_adv": True},
            [1e-8, 2 * ONE + 1e-8, 1e-8, 2 * ONE + 1e-8],
        ),
    ],
)
def test_advantages_are_normalized_and_then_made_positive(processor_type, options, expected):
    paths = [make_path([1, 3]), make_path([1]), make_path([3])]
    data = process(processor_type, paths, discount=0, **options)
    assert data["advantages"].tolist() == expected
    assert data["returns"].tolist() == [1, 3, 1, 3]


# What is logged.

FIGURES = {
    # Discounted returns are 3 and 3, sums of rewards 7 and 3.
    "AverageDiscountedReturn": 3,
    "AverageReturn": 5,
    "NumTrajs": 2,
    "StdReturn": 2,
    "MaxReturn": 7,
    "MinReturn": 3,
}


@every_type
@pytest.mark.parametrize(
    ("log", "keys"),
    [(False, ()), (True, FIGURES), ("all", FIGURES), ("reward", ("AverageReturn",))],
)
def test_returns_of_all_paths_are_logged_with_the_prefix(processor_type, log, keys):
    logged = {}
    processor = make(processor_type, discount=0.5, log_sink=logged.__setitem__)
    paths = [make_path([1, 2, 4]), make_path([3])]
    given = {0: paths[:1], 1: paths[1:]} if processor_type in METAS else paths
    processor.process_samples(given, log=log, log_prefix="m/")
    assert logged == {f"m/{key}": FIGURES[key] for key in keys}


@every_type
def test_what_to_log_is_checked(processor_type):
    processor = make(processor_type)
    paths = [make_path([1])]
    with pytest.raises(ValueError, match="log must be True, False, 'all' or 'reward', got 'al'"):
        processor.process_samples({0: paths} if processor_type in METAS else paths, log="al")


def test_figures_may_go_to_a_logger(caplog):
    with caplog.at_level(logging.INFO, "tests.processor"):
        make(SampleProcessor, log_sink=logging.getLogger("tests.processor")).process_samples(
            [make_path([1, 2])], log=True, log_prefix="a/"
        )
    assert "a/AverageReturn: 3.0" in caplog.messages


# What is refused.


@every_type
@pytest.mark.parametrize("value", [-0.1, 1.1, NAN, "0.5", None])
@pytest.mark.parametrize("name", ["discount", "gae_lambda"])
def test_fractions_must_be_between_zero_and_one(processor_type, name, value):
    with pytest.raises(ValueError, match=rf"{name} must be in \[0, 1\], got"):
        make(processor_type, **{name: value})


@every_type
def test_baseline_and_log_sink_must_have_their_methods(processor_type):
    with pytest.raises(TypeError, match="a baseline must have fit and predict, got 3"):
        make(processor_type, 3)
    with pytest.raises(TypeError, match="a log sink must be a callable"):
        make(processor_type, log_sink="stdout")


@every_type
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "{} must be a list of at least one path, got none"),
        ([make_path([1]), make_path([1], extra=1)], "path 1 of {} has the keys .* in path 0"),
        ([make_path([1, 2], actions=np.ones((1, 3)))], r"actions of path 0 of {}.* got \(1, 3\)"),
        ([make_path([1]), make_path([1, NAN])], "reward of path 1 of {} is NaN at step 1"),
        ([make_path([1, 2, -INF])], "reward of path 0 of {} is -inf at step 2"),
        (
            [make_path([1]), make_path([1, 1], obs=[1, NAN, 0])],
            "observation of path 1 of {} is NaN at step 1",
        ),
        (
            [{**make_path([1]), "rewards": np.array(["1"])}],
            "each reward of {} must be of numbers",
        ),
    ],
)
def test_malformed_paths_are_named_with_their_task_and_step(processor_type, bad, message):
    what = "paths"
    if processor_type in METAS:
        what, bad = "paths of task 'b'", {"a": [make_path([1])], "b": bad}
    with pytest.raises(ValueError, match=message.format(what)):
        make(processor_type).process_samples(bad)


@every_type
@pytest.mark.parametrize(
    ("bootstrap", "predicted", "message"),
    [
        # The lengths add up, so that joined they would only have shifted.
        (False, [[1, 2], [3]], r"must predict shape \(1,\) for path 0 of .*, got \(2,\)"),
        (False, [[1], [3]], r"must predict shape \(2,\) for path 1 of .*, got \(1,\)"),
        (False, [[[1]], [3, 4]], r"must predict shape \(1,\) for path 0 of .*, got \(1, 1\)"),
        (True, [[1], [3, 4, 5]], r"must predict shape \(2,\) for path 0 of .*, got \(1,\)"),
        (False, [[1], [3, NAN]], "prediction of path 1 of .* is NaN at step 1"),
        (True, [[1, INF], [3, 4, 5]], "prediction of path 0 of .* is inf at step 1"),
    ],
)
def test_predictions_of_wrong_lengths_are_named(processor_type, bootstrap, predicted, message):
    class Wrong(ObservedValue):
        def predict(self, path):
            return np.array(left.pop(0))

    left = list(predicted)
    paths = [make_path([1], ended="truncated"), make_path([1, 1], ended="truncated")]
    with pytest.raises(ValueError, match=message):
        process(processor_type, paths, Wrong(), bootstrap_truncated=bootstrap)


# Several tasks.


@every_meta
def test_each_task_gets_a_batch_like_that_of_its_own_paths_alone(processor_type):
    paths = {task: random_paths(task, n=4) for task in (5, 2, 9)}
    options = {"discount": 0.9, "gae_lambda": 0.8, "normalize_adv": True}
    processor = make(processor_type, LinearFeatureBaseline(), **options)
    alone = make(processor_type.__base__, LinearFeatureBaseline(), **options)
    batches = unchanged(paths, processor.process_samples)
    assert len(batches) == 3
    for own, data in zip(paths.values(), batches, strict=True):
        del data["adj_avg_rewards"]
        assert equal(data, alone.process_samples(own))


def test_adjusted_average_rewards_are_normalized_over_the_steps_of_all_tasks():
    # Over five steps, 0 four times and 10 once, the mean is 2 and the variance (4 * 4 + 64) / 5.
    paths = {0: [make_path([0, 0, 0]), make_path([0])], 1: [make_path([10])]}
    low, high = -2 / (4 + 1e-8), 8 / (4 + 1e-8)
    one, two = make(MetaSampleProcessor).process_samples(paths)
    assert one["adj_avg_rewards"].tolist() == [low] * 4
    assert two["adj_avg_rewards"].tolist() == [high]
    # Padding counts for nothing, and is zero.
    one, two = DiceMetaSampleProcessor(ZeroBaseline(), 3).process_samples(paths)
    assert one["adj_avg_rewards"].tolist() == [[low] * 3, [low, 0, 0]]
    assert two["adj_avg_rewards"].tolist() == [[high, 0, 0]]
    assert two["rewards"].tolist() == [[10, 0, 0]]


@every_meta
def test_each_tasks_observations_keep_their_own_type_and_size(processor_type):
    other = [
        {**p, "observations": np.full((len(p["rewards"]), 5), 0.1, np.float32)}
        for p in random_paths(1)
    ]
    one, two = make(processor_type).process_samples({0: random_paths(0), 1: other})
    assert one["observations"].dtype == np.float64
    assert two["observations"].dtype == np.float32
    assert two["observations"].shape[-1] == 5


@every_meta
@pytest.mark.parametrize(
    ("paths", "got"), [({}, "none"), ([], "list"), ([[make_path([1])]], "list"), (None, "NoneType")]
)
def test_there_must_be_a_task(processor_type, paths, got):
    with pytest.raises(
        ValueError, match=f"expected a dict of the paths of at least one task, got {got}"
    ):
        make(processor_type).process_samples(paths)
