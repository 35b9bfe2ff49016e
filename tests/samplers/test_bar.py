"""A progress bar, and the lines that stand for it where there is no terminal."""

import re
import threading
import time

import pytest

from mtwrappers.samplers import bar
from mtwrappers.samplers.bar import ProgressBar
from tests.vector.processes import wait_until


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("counts", "line"),
    [(True, r"episodes: 1,200 of 5,000 after 0 s\n"), (False, r"episodes: after 0 s\n")],
)
def test_without_a_terminal_lines_say_that_it_goes_on(counts, line, monkeypatch, capsys):
    monkeypatch.setattr(bar, "LINE_EVERY", 0.01)
    printed = []
    with ProgressBar(True).track("episodes", 5000, counts=counts) as advance:
        advance(1200)
        assert wait_until(lambda: printed.append(capsys.readouterr().err) or "".join(printed))
    assert re.fullmatch(f"({line})+", "".join(printed))
    assert threading.active_count() == 1  # the one that printed has ended
    time.sleep(0.03)
    capsys.readouterr()
    time.sleep(0.03)
    assert capsys.readouterr() == ("", "")


def test_what_takes_less_than_half_a_minute_prints_nothing(capsys):
    assert bar.LINE_EVERY == 30
    with ProgressBar(True).track("episodes", 2) as advance:
        advance(2)
    with ProgressBar(False).track("episodes", 2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")
