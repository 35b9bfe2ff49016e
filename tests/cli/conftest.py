import pytest

from mtwrappers.cli import rollout


@pytest.fixture(autouse=True)
def _environment_is_put_back(monkeypatch):
    """The command sets these for its workers and for the renderer."""
    for name in ("PYTHONWARNINGS", "MUJOCO_GL"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def short_episodes(monkeypatch):
    """Episodes of 40 steps."""
    monkeypatch.setattr(rollout, "EPISODE_STEPS", 40)
