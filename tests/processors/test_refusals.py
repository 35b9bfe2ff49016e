"""What processors refuse, and how they name it."""

import re

import numpy as np
import pytest

import mtwrappers as mt
from tests.processors.fakes import (
    METAS,
    ObservedValue,
    every_meta,
    every_type,
    make_path,
    make_processor,
    process,
)

NAN, INF = float("nan"), float("inf")
first_and_last_type = pytest.mark.parametrize(
    "processor_type", [mt.SampleProcessor, mt.DiceMetaSampleProcessor]
)


def short_path(**changes):
    """Makes a path of two steps."""
    return {**make_path([1, 2]), **changes}


def path_without(key):
    return {name: value for name, value in short_path().items() if name != key}


def paths_with_infos(first, second, key="env_infos"):
    """Makes two paths of two steps with these infos."""
    return [short_path(**{key: first}), short_path(**{key: second})]


TWO, THREE = np.ones(2), np.ones(3)  # for two steps, and for three


@pytest.mark.parametrize(
    ("processor_type", "arguments", "message"),
    [
        (mt.MetaSampleProcessor, {"gamma": 0.9}, "got an unex.* 'gamma': did you mean 'discount'"),
        (mt.DiceMetaSampleProcessor, {"lam": 1}, "got an unex.* 'lam': did you mean 'gae_lambda'"),
        (mt.MetaSampleProcessor, {}, r"needs baseline: pass .*mtwrappers\.LinearFeatureBaseline\("),
        (mt.DiceSampleProcessor, {"baseline": mt.ZeroBaseline()}, "needs max_path_length$"),
    ],
)
def test_unknown_and_missing_arguments_are_named_with_the_class(processor_type, arguments, message):
    with pytest.raises(TypeError, match=f"^{processor_type.__name__} {message}"):
        processor_type(**arguments)


@first_and_last_type
@pytest.mark.parametrize(
    ("paths", "message"),
    [
        # Lists of dicts that have the same keys.
        ([], "{} must be a list of at least one path, got none"),
        ([path_without("actions")] * 2, r"path 0 of {} lacks \['actions'\]; it has \["),
        ([short_path(), path_without("rewards")], r"path 1 of {} lacks \['rewards'\]; it has \["),
        # Arrays with a row per step.
        (
            [short_path(rewards=np.ones((2, 1)))],
            r"rewards of path 0 of {} .* 1 or more, got \(2, 1\)",
        ),
        (
            [short_path(actions=np.ones((1, 3)))],
            r"actions of path 0 of {}.* \(2, 3\), got \(1, 3\)",
        ),
        (
            [short_path(), short_path(actions=np.ones((2, 5)))],
            r"actions of path 1 .* \(2, 3\), got \(2, 5\)",
        ),
        ([short_path(observations={"a": TWO})], "observations of {} must be arrays, got dicts"),
        # Infos of the same form.
        (paths_with_infos(2.0, 2.0), "env_infos of path 0 of {} must be a dict, got 2.0"),
        (
            [path_without("env_infos"), short_path()],
            r"env_infos of path 1 of {} .* keys \[\] .* got \['step'\]",
        ),
        (
            paths_with_infos({"a": TWO}, {"a": THREE}),
            r"env_infos\['a'\] of path 1 .*\(2,\), got \(3,\)",
        ),
        (
            paths_with_infos({"a": (TWO, TWO)}, {"a": (TWO,)}),
            r"env_infos\['a'\] of path 1 of {} must be a tuple of 2 as in path 0 .*, got 1",
        ),
        (
            paths_with_infos({"a": (TWO, TWO)}, {"a": np.ones((2, 2))}),
            r"env_infos\['a'\] of path 1 of {} must be a tuple of 2 as in path 0 .*, got array",
        ),
        (
            paths_with_infos({"a": {"b": TWO}}, {"a": TWO}),
            r"env_infos\['a'\] of path 1 .* must be a dict",
        ),
        (
            paths_with_infos({"a": {"b": TWO}}, {"a": {"b": THREE}}),
            r"env_infos\['a'\]\['b'\] of path 1 of",
        ),
        # Finite numbers.
        (
            [short_path(rewards=np.array(["1", "2"]))],
            "each reward of {} must be of numbers, .* <U1",
        ),
        ([make_path([1, 2, -INF]), make_path([NAN])], "reward of path 0 of {} is -inf at step 2"),
        ([short_path(), make_path([1, 1], obs=[1, INF, 0])], "of path 1 .* is inf at step 1"),
        (
            [short_path(), short_path(actions=np.full((2, 3), NAN))],
            "action of path 1 of {} is NaN at step 0",
        ),
    ],
)
def test_malformed_paths_are_named_with_their_task_and_step(processor_type, paths, message):
    batch_name = "paths"
    if processor_type in METAS:
        batch_name, paths = "paths of task '{0}'", {"a": [make_path([1])], "{0}": paths}
    with pytest.raises(ValueError, match=message.replace("{}", re.escape(batch_name))):
        make_processor(processor_type).process_samples(paths)


@pytest.mark.parametrize(
    "baseline", [mt.LinearFeatureBaseline(), mt.LinearTimeBaseline(), mt.ZeroBaseline()]
)
def test_a_return_beyond_float64_is_named_whatever_the_baseline(baseline):
    paths = [short_path(), make_path([1, 1e308, 1e308])]
    with pytest.raises(ValueError, match="return of path 1 of paths is inf at step 0"):
        process(mt.SampleProcessor, paths, baseline)


@every_meta
@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ({}, "paths of at least one task, or a list with an entry for each task, got none"),
        (3, "paths of at least one task, or a list with an entry for each task, got int"),
        (
            [short_path()],
            "got a list of paths: SampleProcessor and DiceSampleProcessor take one task",
        ),
        ([[short_path()], [3]], "path 0 of paths of task 1 must be a dict, got 3"),
    ],
)
def test_what_is_no_paths_of_tasks_is_refused(processor_type, paths, message):
    with pytest.raises(ValueError, match=message):
        make_processor(processor_type).process_samples(paths)


@first_and_last_type
@pytest.mark.parametrize(
    ("bootstrap", "predictions", "message"),
    [
        # The lengths add up, so that joined they would only have shifted.
        (False, [[1, 2], [3]], r"must predict shape \(1,\) for path 0 of .*, got \(2,\)"),
        (False, [[[1]], [3, 4]], r"must predict shape \(1,\) for path 0 of .*, got \(1, 1\)"),
        (True, [[1], [3, 4, 5]], r"must predict shape \(2,\) for path 0 of .*, got \(1,\)"),
        (False, [[1], [3, NAN]], "prediction of path 1 of .* is NaN at step 1"),
        (True, [[1, INF], [3, 4, 5]], "prediction of path 0 of .* is inf at step 1"),
    ],
)
def test_predictions_of_wrong_lengths_are_named(processor_type, bootstrap, predictions, message):
    class WrongBaseline(ObservedValue):
        def predict(self, path):
            return np.array(predictions.pop(0))

    predictions = list(predictions)
    paths = [make_path([1], ended="truncated"), make_path([1, 1], ended="truncated")]
    with pytest.raises(ValueError, match=message):
        process(processor_type, paths, WrongBaseline(), bootstrap_truncated=bootstrap)


@every_type
@pytest.mark.parametrize("baseline", [mt.LinearTimeBaseline(), mt.ZeroBaseline()])
def test_baselines_that_cannot_value_what_follows_a_cut_are_refused(processor_type, baseline):
    with pytest.raises(ValueError, match=f"fit_bootstrapped, .* got <.*{type(baseline).__name__}"):
        make_processor(processor_type, baseline, bootstrap_truncated=True)


@first_and_last_type
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"truncated": None}, "path . of .* must have the key .truncated."),
        ({"next_observation": None}, "path 1 of .* is truncated, but has no next_observation"),
        ({"next_observation": THREE}, r"next_observation of path 1 .* shape \(2,\) and"),
        ({"next_observation": np.array([1, INF])}, r"path 1 .* finite numbers, got \[ 1. inf\]"),
    ],
)
@pytest.mark.parametrize("baseline", [ObservedValue(), mt.LinearFeatureBaseline()])
def test_bootstrapping_without_what_it_needs_is_refused(processor_type, changes, message, baseline):
    paths = [make_path([1]), make_path([1], ended="truncated", **changes)]
    for path in paths:
        for key in [key for key, value in changes.items() if value is None]:
            del path[key]
    with pytest.raises(ValueError, match=message):
        process(processor_type, paths, baseline, bootstrap_truncated=True)
    assert process(processor_type, paths)["returns"].tolist() == [1, 1]


@pytest.mark.parametrize("flags", [np.zeros(5, np.bool_), np.zeros(0, np.bool_)])
@pytest.mark.parametrize("key", ["terminated", "truncated"])
def test_flags_of_another_number_of_steps_are_refused(key, flags):
    path = short_path(**{"terminated": False, "truncated": True, key: flags})
    processor = mt.SampleProcessor(mt.LinearFeatureBaseline(), bootstrap_truncated=True)
    message = rf"{key} of path 0 of paths must have shape \(2,\), got \({len(flags)},\)"
    with pytest.raises(ValueError, match=message):
        processor.process_samples([path])
