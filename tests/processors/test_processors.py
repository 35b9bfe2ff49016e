"""What all four processors promise, and what is particular to several tasks and padded batches."""

import inspect

import numpy as np
import pytest

import mtwrappers as mt
from tests.fakes import equal
from tests.processors.fakes import (
    METAS,
    ObservedValue,
    every_meta,
    every_type,
    make_path,
    make_processor,
    process,
    process_and_check_inputs,
    random_paths,
)

UNIT = 1 / (1 + 1e-8)  # a deviation of 1, normalized


# The keys, and what they hold.


@every_type
def test_the_steps_of_all_paths_stand_one_after_another(processor_type):
    data = process(processor_type, [make_path([1, 2, 4]), make_path([8])], discount=0.5)
    keys = {"observations", "actions", "rewards", "returns", "advantages"}
    keys |= {"env_infos", "agent_infos"}
    if issubclass(processor_type, mt.DiceSampleProcessor):
        keys.add("adjusted_rewards")
    if processor_type in METAS:
        keys.add("adj_avg_rewards")
    assert set(data) == keys
    assert data["observations"].tolist() == [[-1, -1], [-2, -2], [-4, -4], [-8, -8]]
    assert data["actions"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 1, 2]]
    assert data["rewards"].tolist() == [1, 2, 4, 8]
    assert data["returns"].tolist() == [3, 4, 4, 8]
    assert data["advantages"].tolist() == [3, 4, 4, 8]
    assert data["env_infos"]["step"].tolist() == [1, 2, 3, 1]
    assert data["agent_infos"]["mean"].shape == (4, 3)
    assert data["agent_infos"]["deep"]["x"].tolist() == [1, 1, 1, 1]


# Returns and advantages.


@every_type
@pytest.mark.parametrize("baseline_type", [mt.LinearFeatureBaseline, mt.LinearTimeBaseline])
def test_all_paths_at_once_are_predicted_as_one_by_one(processor_type, baseline_type):
    class Subclass(baseline_type):
        """Is asked path by path, as any baseline is."""

    paths, options = random_paths(0, n=9, longest=30), {"discount": 0.9, "gae_lambda": 0.95}
    actual, expected = (
        process(processor_type, paths, kind(), **options)["advantages"]
        for kind in (baseline_type, Subclass)
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@every_type
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Without discount the advantages are the rewards: mean 2, deviation 1.
        ({"normalize_adv": True}, [-UNIT, UNIT, -UNIT, UNIT]),
        ({"positive_adv": True}, [1e-8, 2 + 1e-8, 1e-8, 2 + 1e-8]),
        (
            {"normalize_adv": True, "positive_adv": True},
            [1e-8, 2 * UNIT + 1e-8, 1e-8, 2 * UNIT + 1e-8],
        ),
    ],
)
def test_advantages_are_normalized_and_then_made_positive(processor_type, options, expected):
    paths = [make_path([1, 3]), make_path([1]), make_path([3])]
    data = process(processor_type, paths, discount=0, **options)
    assert data["advantages"].tolist() == expected
    assert data["returns"].tolist() == [1, 3, 1, 3]


LOGGED_RETURNS = {
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
    [
        (False, ()),
        (True, LOGGED_RETURNS),
        (np.True_, LOGGED_RETURNS),
        ("all", LOGGED_RETURNS),
        ("reward", ("AverageReturn",)),
    ],
)
def test_returns_of_all_paths_are_logged_with_the_prefix(processor_type, log, keys):
    logged = {}
    processor = make_processor(processor_type, discount=0.5, log_sink=logged.__setitem__)
    paths = [make_path([1, 2, 4]), make_path([3])]
    samples = {0: paths[:1], 1: paths[1:]} if processor_type in METAS else paths
    processor.process_samples(samples, log=log, log_prefix="m/")
    assert logged == {f"m/{key}": LOGGED_RETURNS[key] for key in keys}


@every_meta
def test_each_task_gets_a_batch_like_that_of_its_own_paths_alone(processor_type):
    paths = {task: random_paths(task, n=4) for task in (5, 2, 9)}
    options = {"discount": 0.9, "gae_lambda": 0.8, "normalize_adv": True}
    processor = make_processor(processor_type, mt.LinearFeatureBaseline(), **options)
    base_type = processor_type.__base__
    single_processor = make_processor(base_type, mt.LinearFeatureBaseline(), **options)
    batches = process_and_check_inputs(paths, processor.process_samples)
    assert len(batches) == 3
    for task_paths, data in zip(paths.values(), batches, strict=True):
        del data["adj_avg_rewards"]
        assert equal(data, single_processor.process_samples(task_paths))


def test_adjusted_average_rewards_are_normalized_over_the_steps_of_all_tasks():
    # Over five steps, 0 four times and 10 once, the mean is 2 and the variance (4 * 4 + 64) / 5.
    paths = {0: [make_path([0, 0, 0]), make_path([0])], 1: [make_path([10])]}
    low, high = -2 / (4 + 1e-8), 8 / (4 + 1e-8)
    first_batch, second_batch = make_processor(mt.MetaSampleProcessor).process_samples(paths)
    assert first_batch["adj_avg_rewards"].tolist() == [low] * 4
    assert second_batch["adj_avg_rewards"].tolist() == [high]
    # Padding counts for nothing, and is zero.
    dice_processor = mt.DiceMetaSampleProcessor(mt.ZeroBaseline(), 3)
    first_batch, second_batch = dice_processor.process_samples(paths)
    assert first_batch["adj_avg_rewards"].tolist() == [[low] * 3, [low, 0, 0]]
    assert second_batch["adj_avg_rewards"].tolist() == [[high, 0, 0]]
    assert second_batch["rewards"].tolist() == [[10, 0, 0]]


# Padded batches: rows, a mask of what is real, and adjusted rewards.


def process_padded(paths, longest, baseline=None, *, normalize_adv=False, **kwargs):
    baseline = mt.ZeroBaseline() if baseline is None else baseline
    processor = mt.DiceSampleProcessor(baseline, longest, normalize_adv=normalize_adv, **kwargs)
    return process_and_check_inputs(paths, processor.process_samples)


def test_rows_are_padded_with_zeros_behind_the_paths():
    data = process_padded([make_path([1, 2]), make_path([4])], 3, discount=0.5)
    assert "advantages" not in data  # they need a return baseline
    assert data["mask"].dtype == np.float64
    assert data["mask"].tolist() == [[1, 1, 0], [1, 0, 0]]
    assert data["observations"][..., 0].tolist() == [[-1, -2, 0], [-4, 0, 0]]
    assert data["returns"].tolist() == [[2, 2, 0], [4, 0, 0]]
    assert data["agent_infos"]["deep"]["x"].tolist() == [[1, 1, 0], [1, 0, 0]]


def test_adjusted_rewards_are_discounted_rewards_less_the_baseline():
    baseline = ObservedValue()
    paths = [make_path([1, 2], obs=[0.25, 3, 9]), make_path([4], obs=[5, 9])]
    data = process_padded(paths, 3, baseline, discount=0.5)
    assert baseline.fitted == [("discounted_rewards", [[1, 1], [4]])]
    assert data["adjusted_rewards"].tolist() == [[0.75, -2, 0], [-1, 0, 0]]


def test_a_path_that_is_too_long_is_named():
    paths = [make_path([1]), make_path([1, 2, 3, 4])]
    message = "path 1 of paths of task 'b' has 4 steps, at most max_path_length=3 were expected"
    with pytest.raises(ValueError, match=message):
        mt.DiceMetaSampleProcessor(mt.ZeroBaseline(), 3).process_samples(
            {"a": paths[:1], "b": paths}
        )


# What ProMP's trainer asks for.

ARGUMENTS = {"discount": 0.99, "gae_lambda": 1, "normalize_adv": False, "positive_adv": False}
DICE = {**ARGUMENTS, "normalize_adv": True, "return_baseline": None}


@pytest.mark.parametrize(
    ("processor_type", "required", "defaults"),
    [
        (mt.SampleProcessor, ["baseline"], ARGUMENTS),
        (mt.MetaSampleProcessor, ["baseline"], ARGUMENTS),
        (mt.DiceSampleProcessor, ["baseline", "max_path_length"], DICE),
        (mt.DiceMetaSampleProcessor, ["baseline", "max_path_length"], DICE),
    ],
)
def test_arguments_have_promps_names_order_and_defaults(processor_type, required, defaults):
    parameters = inspect.signature(processor_type).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional] == [*required, *defaults]
    assert {p.name: p.default for p in positional if p.name not in required} == defaults


@every_meta
def test_the_paths_of_tasks_come_in_a_dict_or_in_a_list(processor_type):
    task_paths = [random_paths(0), random_paths(1)]
    expected = make_processor(processor_type).process_samples({0: task_paths[0], 1: task_paths[1]})
    assert equal(make_processor(processor_type).process_samples(task_paths), expected)
    assert equal(make_processor(processor_type).process_samples(tuple(task_paths)), expected)
