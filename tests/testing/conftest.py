import pytest

from mtwrappers.testing import check as tables


@pytest.fixture
def alone(monkeypatch):
    """Leaves out the checks in vector environments."""
    vectors = ("autoreset", "batch", "vector", "sync", "close", "killed")
    table = {k: v for k, v in tables.ENV_CHECKS.items() if not k.startswith(vectors)}
    monkeypatch.setattr(tables, "ENV_CHECKS", table)
