import signal

import pytest

from mtwrappers.cli import rollout


@pytest.fixture(autouse=True)
def _environment_is_put_back(monkeypatch):
    """The command sets these for its workers and for the renderer, and reads the terminal's."""
    colours = ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    for name in ("PYTHONWARNINGS", "MUJOCO_GL", "OMP_NUM_THREADS", *colours):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)  # which an interrupted rollout leaves ignored


@pytest.fixture
def short_episodes(monkeypatch):
    """Episodes of 40 steps."""
    monkeypatch.setattr(rollout, "EPISODE_STEPS", 40)
