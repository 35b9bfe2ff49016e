import ctypes
import gc
import sys

import pytest


@pytest.fixture(autouse=True, scope="module")
def _memory_given_back():
    """Workers are forked from this process, which takes the longer the larger it is."""
    yield
    gc.collect()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
