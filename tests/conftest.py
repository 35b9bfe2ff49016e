import ctypes
import gc
import sys

import pytest


@pytest.fixture(autouse=True, scope="session")
def _goals_of_their_own(tmp_path_factory):
    """Tests neither read nor write the user's cache, in this process or below it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTWRAPPERS_CACHE_DIR", str(tmp_path_factory.mktemp("goals")))
        yield


@pytest.fixture(autouse=True, scope="module")
def _memory_given_back():
    """Workers are forked from this process, which takes the longer the larger it is."""
    yield
    gc.collect()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
