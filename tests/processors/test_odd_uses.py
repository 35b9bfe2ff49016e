"""Odd uses of processors: what was expected and what came."""

import numpy as np

from mtwrappers import (
    DiceSampleProcessor,
    LinearFeatureBaseline,
    LinearTimeBaseline,
    SampleProcessor,
    ZeroBaseline,
)
from mtwrappers.processors.returns import discounted_sums, gae
from tests.refusals import assert_refused, refusal, refusals

PATH = {"observations": np.zeros((3, 2)), "actions": np.zeros((3, 1)), "rewards": np.ones(3)}
PATH["terminated"] = PATH["truncated"] = np.zeros(3, bool)


def process(**changes):
    """Processes a path of three steps with these arrays."""
    return SampleProcessor(ZeroBaseline()).process_samples([{**PATH, **changes}])


@refusals(
    refusal(
        lambda: SampleProcessor(None),
        TypeError,
        "a baseline must be ...with fit and predict, such as ...got None",
    ),
    refusal(
        lambda: DiceSampleProcessor(ZeroBaseline(), 2, bootstrap_truncated=True),
        ValueError,
        "...a return_baseline",
    ),
    refusal(
        lambda: SampleProcessor(ZeroBaseline()).process_samples([PATH], log="al"),
        ValueError,
        "log ...got 'al'",
    ),
    refusal(
        lambda: process(observations=np.full(3, None)),
        ValueError,
        "each observation of ...got dtype object",
    ),
    refusal(
        lambda: LinearFeatureBaseline(-1),
        ValueError,
        "reg_coeff must be zero or more and finite, got -1",
    ),
    refusal(
        lambda: LinearTimeBaseline().predict({}),
        ValueError,
        "path 0 of those to predict lacks ['observations']; it",
    ),
    refusal(
        lambda: SampleProcessor(ZeroBaseline()).process_samples({0: [PATH]}),
        ValueError,
        "...; the paths of several",
    ),
    refusal(
        lambda: ZeroBaseline().predict(None),
        ValueError,
        "path 0 of those to predict must be a dict, got None",
    ),
    refusal(
        lambda: discounted_sums([1, 2, 3], 0.9, [2]),
        ValueError,
        "lengths must add up to 3 steps, got [2]",
    ),
    refusal(
        lambda: discounted_sums(np.ones(3), 1.5, [3]),
        ValueError,
        "discount must be in [0, 1], got 1.5",
    ),
    refusal(
        lambda: discounted_sums(np.ones(3), 0.5, [0, 3]),
        ValueError,
        "each length must be 1 or more, got [0, 3]",
    ),
    refusal(
        lambda: discounted_sums(1.0, 0.5, [1]),
        ValueError,
        "lengths must add up to 1 steps, got [1] for values of shape ()",
    ),
    refusal(
        lambda: gae(np.ones(2), np.ones(2), [0.0], 0.9, 0.5, [3]),
        ValueError,
        "lengths must add up to 2 steps, got [3]",
    ),
    refusal(
        lambda: gae(np.ones(2), np.ones(2), [0.0], 2.0, 0.5, [2]),
        ValueError,
        "discount must be in [0, 1], got 2.0",
    ),
    refusal(
        lambda: gae(np.ones(2), np.ones(2), [0.0], 0.9, 2.0, [2]),
        ValueError,
        "gae_lambda must be in [0, 1], got 2.0",
    ),
    refusal(
        lambda: LinearTimeBaseline().set_state({}),
        ValueError,
        "expected ['params'] of LinearTimeBaseline, got []",
    ),
)
def test_odd_uses_say_what_was_expected_and_what_came(call, error, message):
    assert_refused(call, error, message)
