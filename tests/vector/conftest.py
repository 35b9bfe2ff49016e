"""What tests of processes share."""

import pytest

from tests.vector.processes import nothing_left_behind


@pytest.fixture
def leaves_nothing_behind():
    """No process and no open file may be left of the test."""
    with nothing_left_behind():
        yield
