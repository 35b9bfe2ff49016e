import pytest

from mtwrappers.testing import check

# The checks that make vector environments.
MANY = ("autoreset", "workers", "close", "killed worker", "other process")


@pytest.fixture
def alone(monkeypatch):
    """Leaves out the checks of an environment in vector environments."""
    some = [each for each in check.ENV_CHECKS if each.__name__.replace("_", " ") not in MANY]
    monkeypatch.setattr(check, "ENV_CHECKS", some)
