import contextlib
import gc
import multiprocessing
import random
import signal

import numpy as np
import pytest

from tests.vector.processes import nothing_left_behind

with contextlib.suppress(ImportError):  # without MuJoCo there are no models
    import tests.models  # noqa: F401

# A fork server, which then has what its workers import: each worker imports the module of its test.
multiprocessing.set_forkserver_preload(
    ["hypothesis", "metaworld", "tests.evaluation.fakes", "tests.refusals", "tests.vector.faults"]
)

# A process started in the background of a script ignores Ctrl-C, which some tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run the tests marked as slow, too")


def pytest_configure(config):
    """Runs the tier that was asked for, and hypothesis as long as it is worth there.

    Files that are shared out among processes keep their order, whose last ones are quick: by
    itself, pytest-xdist keeps files of few tests for the end, and some of those are the longest.
    """
    if config.option.all and config.option.markexpr == "not slow":
        config.option.markexpr = ""
    with contextlib.suppress(ImportError):
        from hypothesis import settings

        slow = config.option.markexpr != "not slow"
        settings.register_profile("tier", deadline=None, max_examples=40 if slow else 10)
        settings.load_profile("tier")
    config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Puts tests of workers first, and marks the slow cases of the tests that have fast ones, too.

    The larger this process is, the longer a fork takes; and once a library has threads, workers
    come from a fork server, which is slower.
    """
    items.sort(key=lambda item: item.path.parent.name not in ("vector", "testing", "samplers"))
    for item in items:
        for mark in item.iter_markers("slow_but"):
            if not any(f"-{name}-" in f"-{item.callspec.id}-" for name in mark.args):
                item.add_marker("slow")


@pytest.fixture(autouse=True, scope="module")
def _short_collections():
    """What was imported by now is no garbage: the collections of a module need not look at it."""
    gc.collect()
    gc.freeze()


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
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
