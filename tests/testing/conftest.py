import random

import numpy as np
import pytest


@pytest.fixture
def same_random_state():
    """Gives the global random state back."""
    state = random.getstate(), np.random.get_state()
    yield
    random.setstate(state[0])
    np.random.set_state(state[1])
