"""The two tiers of tests, and what each test leaves as it was."""

import contextlib
import gc
import multiprocessing
import os
import random
import signal

import numpy as np
import pytest

from tests.compiled_models import compile_models_once
from tests.vector.processes import nothing_left_behind

# A fork server has what its workers import, so that each starts sooner.
multiprocessing.set_forkserver_preload(
    ["hypothesis", "metaworld", "tests.evaluation.fakes", "tests.refusals", "tests.vector.faults"]
)

# A process started in the background of a script ignores Ctrl-C, which some tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


FORKING_ROOMS = ("vector", "testing", "samplers")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run the tests marked as slow, too")


def pytest_configure(config):
    """Selects the tier, and the number of examples that hypothesis tries in it."""
    if config.option.all and config.option.markexpr == "not slow":
        config.option.markexpr = ""
    with contextlib.suppress(ImportError):
        from hypothesis import settings

        is_fast = config.option.markexpr == "not slow"
        settings.register_profile("tier", deadline=None, max_examples=10 if is_fast else 40)
        settings.load_profile("tier")
    # Processes take files in their order, whose last ones are quick. By itself, pytest-xdist keeps
    # files of few tests for the end, and some of those are the longest.
    config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Three processes for two cores: a third of the time, tests wait for workers and clocks."""
    return -(-3 * len(os.sched_getaffinity(0)) // 2) if hasattr(os, "sched_getaffinity") else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Puts the tests that fork most first, and marks the slow cases of `slow_but` tests.

    The more a process has imported and made, the longer a fork takes.
    """
    items.sort(key=lambda item: item.path.parent.name not in FORKING_ROOMS)
    for item in items:
        for mark in item.iter_markers("slow_but"):
            if not any(f"-{name}-" in f"-{item.callspec.id}-" for name in mark.args):
                item.add_marker("slow")


@pytest.fixture(autouse=True, scope="module")
def _imports_frozen():
    """Freezes what there is before the tests of a module, as Python recommends before forks.

    Collections of garbage, which many tests ask for, then look only at what the tests make, and
    forked processes do not copy the memory of the rest.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _models_compiled_once():
    """Copies compiled models for all environments of Meta-World, which saves half a minute."""
    with compile_models_once():
        yield


@pytest.fixture
def leaves_nothing_behind():
    """No process and no open file may be left of the test."""
    with nothing_left_behind():
        yield


@pytest.fixture
def same_random_state():
    """Gives the global random state back."""
    state = random.getstate(), np.random.get_state()
    yield
    random.setstate(state[0])
    np.random.set_state(state[1])


@pytest.fixture(autouse=True)
def _ctrl_c_stays():
    """The command line ignores Ctrl-C at its end; the tests after it press it."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)
