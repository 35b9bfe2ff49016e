"""Constructors from a loop that all make the environment of its last value are reported."""

# ruff: noqa: B023, PERF401 (they are the faults that are reported)

import functools
import warnings
from functools import partial

import pytest

import mtwrappers as mt
from mtwrappers.common.loop_variables import warn_of_loop_variables
from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
from tests.fakes import CountingEnv
from tests.samplers.fakes import lazy

FIRSTS = (10, 20, 30)

at_module_level = []
for first_of_module in FIRSTS:
    at_module_level.append(lambda: CountingEnv(first=first_of_module))


def comprehension():
    return [lambda: CountingEnv(first=first) for first in FIRSTS]


def comprehension_with_an_index():
    return [lambda: CountingEnv(first=FIRSTS[i]) for i, _ in enumerate(FIRSTS)]


def loop():
    makers = []
    for first in FIRSTS:
        makers.append(lambda: CountingEnv(first=first))
    return makers


def loop_with_functions():
    makers = []
    for first in FIRSTS:

        @functools.cache
        def decorated():
            return CountingEnv(first=first)

        def make():
            return CountingEnv(first=first)

        makers += [make, decorated.__wrapped__]
    return makers


def without_source():
    names = {"CountingEnv": CountingEnv, "FIRSTS": FIRSTS}
    exec("def make(): return [lambda: CountingEnv(first=first) for first in FIRSTS]", names)
    return names["make"]()


@pytest.mark.parametrize(
    ("make", "variable"),
    [
        (lambda: at_module_level, "first_of_module"),
        (comprehension, "first"),
        (comprehension_with_an_index, "i"),
        (loop, "first"),
        (without_source, "first"),
    ],
    ids=["module", "comprehension", "index", "loop", "no-source"],
)
def test_functions_that_read_the_variable_of_their_loop_are_reported(make, variable):
    makers = make()
    assert [make_env().first for make_env in makers] == [30, 30, 30]
    message = rf"constructors \[0, 1, 2\] of makers are .* '{variable}' .* {variable}={variable}: "
    with pytest.warns(UserWarning, match=message):
        warn_of_loop_variables(makers, "makers")


def test_each_function_of_a_loop_is_reported():
    with pytest.warns(UserWarning, match="of makers are one function") as reports:
        warn_of_loop_variables(loop_with_functions(), "makers")
    assert [str(report.message)[:22] for report in reports] == [
        "constructors [0, 2, 4]",
        "constructors [1, 3, 5]",
    ]


def make_later(first):
    return lambda: CountingEnv(first=first)


def makers_in_an_outer_loop():
    for first in (10, 20):
        makers = [lambda: CountingEnv(first=first) for _ in range(3)]
    return makers


def makers_from_an_argument(first):
    return [lambda: CountingEnv(first=first) for _ in range(3)]


@pytest.mark.parametrize(
    "makers",
    [
        [lambda: CountingEnv(first=10) for _ in range(3)],
        [lambda: CountingEnv(first=10)] * 3,
        [lambda first=first: CountingEnv(first=first) for first in FIRSTS],
        [lambda *, first=first: CountingEnv(first=first) for first in FIRSTS],
        [partial(CountingEnv, first=first) for first in FIRSTS],
        [make_later(first) for first in FIRSTS],
        makers_in_an_outer_loop(),
        makers_from_an_argument(10),
        [CountingEnv, CountingEnv],
    ],
    ids=lambda makers: None,
)
def test_others_are_not(makers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_loop_variables(makers, "makers")


@pytest.mark.parametrize(
    "take",
    [
        lambda makers: mt.as_vector(makers, 3).close(),
        lambda makers: mt.MetaIterativeEnvExecutor(makers, 3).close(),
        lambda makers: mt.MetaSampler(makers, lazy, 1, 3, 5).close(),
        mt.MultiEnvWrapper,
        mt.ConstructEnvsSampler,
        mt.TaskOnehotWrapper.wrap_env_cons_list,
        TerminateOnSuccess.wrap_env_cons_list,
    ],
    ids=["vector", "executor", "sampler", "multi", "tasks", "onehot", "ends"],
)
def test_every_list_of_constructors_is_looked_at(take):
    with pytest.warns(UserWarning, match=r"\[0, 1, 2\] of .* reads the variable 'first' of a loop"):
        take(comprehension())
