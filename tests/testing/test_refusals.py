"""Odd uses of the checkers, and of the package itself: what was expected and what came."""

import mtwrappers
from mtwrappers.testing import check_meta_vector_env, check_vector_env
from tests.fakes import CountingEnv, counting_makers
from tests.refusals import assert_refused, refusal, refusals


@refusals(
    refusal(
        lambda: check_vector_env(CountingEnv, ignore="info.a"),
        ValueError,
        "ignore must be names of infos such as",
    ),
    refusal(
        lambda: check_vector_env(CountingEnv, ignore=["info."]),
        ValueError,
        "ignore must be names of infos such as",
    ),
    refusal(
        lambda: check_vector_env(CountingEnv, vector=True),
        ValueError,
        "vector is for ids; leave it out",
    ),
    refusal(
        lambda: check_meta_vector_env(lambda m, **_: 3, counting_makers(2)),
        AssertionError,
        "make_vector must ...got 3",
    ),
    refusal(
        lambda: mtwrappers.NotThere,
        AttributeError,
        "module 'mtwrappers' has no attribute 'NotThere'",
    ),
)
def test_odd_uses_say_what_was_expected_and_what_came(call, error, message):
    assert_refused(call, error, message)
