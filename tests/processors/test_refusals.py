"""What all processors refuse, and how they name it."""

import numpy as np
import pytest

from mtwrappers import LinearTimeBaseline, ZeroBaseline
from tests.processors.fakes import (
    METAS,
    ObservedValue,
    every_type,
    make,
    make_path,
    process,
)

NAN, INF = float("nan"), float("inf")


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
