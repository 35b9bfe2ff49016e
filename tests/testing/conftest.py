import pytest

from mtwrappers.testing import check

# The checks that make vector environments or processes.
MANY = ("autoreset", "workers", "close", "killed worker", "other process")


def _leave_out(monkeypatch, is_left_out):
    checks = [rule for rule in check.ENV_CHECKS if not is_left_out(rule.__name__.replace("_", " "))]
    monkeypatch.setattr(check, "ENV_CHECKS", checks)


@pytest.fixture
def alone(monkeypatch):
    """Leaves out the checks of an environment in vector environments."""
    _leave_out(monkeypatch, lambda name: name in MANY)


@pytest.fixture
def among(monkeypatch):
    """Leaves out all checks of an environment but those in vector environments."""
    _leave_out(monkeypatch, lambda name: name not in ("runs", *MANY))
