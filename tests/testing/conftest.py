import pytest

from mtwrappers.testing import check as tables

# The rows that make vector environments.
MANY = ("autoreset", "sync", "close", "killed")


@pytest.fixture
def alone(monkeypatch):
    """Leaves out the checks of an environment in vector environments."""
    table = {k: v for k, v in tables.ENV_CHECKS.items() if not k.startswith(MANY)}
    monkeypatch.setattr(tables, "ENV_CHECKS", table)
