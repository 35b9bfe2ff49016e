import ctypes
import gc
import signal
import sys

import pytest

# A process started in the background of a script ignores Ctrl-C, which some tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def _memory_given_back():
    """Workers are forked from this process, which takes the longer the larger it is."""
    yield
    gc.collect()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


@pytest.fixture(autouse=True)
def _ctrl_c_stays():
    """The command line ignores Ctrl-C at its end; the tests after it press it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
