"""What the commands print on a terminal, in a pipe, and where colours are asked for or refused."""

import io
import os
import pty
import re
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from mtwrappers.cli import console, main
from mtwrappers.evaluation import Design, Episode, EvaluationResult

ESCAPE, END = "\x1b", "the end"


@pytest.fixture
def terminal(monkeypatch):
    """Runs a command in a terminal of 80 columns; returns its exit code and its output."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR")

    def read_all(reader):
        drawn = b""
        while not drawn.endswith(END.encode()):
            drawn += os.read(reader, 2**16)
        return drawn.decode().removesuffix(END).replace("\r\n", "\n")

    def run(*arguments):
        reader, writer = pty.openpty()
        with (
            ThreadPoolExecutor() as pool,
            os.fdopen(writer, "w") as screen,
            monkeypatch.context() as patch,
        ):
            drawn = pool.submit(read_all, reader)  # meanwhile: a terminal that is full blocks
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", screen)
            try:
                code = main(arguments)
            except SystemExit as exc:
                code = exc.code
            screen.write(END)  # processes that were started may keep the terminal open
            screen.flush()
            output = drawn.result()
        os.close(reader)
        return code, output

    return run


# Colours.


def test_a_terminal_has_colours_and_no_color_refuses_them(terminal, monkeypatch):
    message = "mtwrappers: error: unknown benchmark 'MT1O'; did you mean 'MT1' or 'MT10'?\n"
    code, drawn = terminal("rollout", "MT1O")
    assert code == 2
    assert drawn == message.replace("mtwrappers: error: ", "\x1b[1;31mmtwrappers: error: \x1b[0m")
    assert ESCAPE in terminal("--help")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal("rollout", "MT1O") == (2, message)
    assert ESCAPE not in terminal("--help")[1]


def test_a_pipe_has_none_unless_they_are_forced(capsys, monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    assert main(["--help"]) == 0
    assert main(["protocols"]) == 0
    plain = capsys.readouterr().out
    assert ESCAPE not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["--help"]) == 0
    assert main(["protocols"]) == 0
    coloured = capsys.readouterr().out
    assert coloured.count(ESCAPE) > 10
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_a_text_from_a_file_draws_nothing(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR")
    console.say("[red]\x1b[31m :smile: a\tb\nhttp://x/1 'y'")
    assert capsys.readouterr().out == "[red]\\x1b[31m :smile: a\\tb\nhttp://x/1 'y'\n"


# What can be copied.


@pytest.mark.usefixtures("short_episodes")
def test_a_rollout_prints_one_command_that_verifies_it_whatever_its_path(
    terminal, tmp_path, monkeypatch
):
    folder = tmp_path / f"a long name of 'mine' {'x' * 80}"
    arguments = ["MT1", "--policy", "random", "--episodes", "1", "--workers", "1"]
    code, drawn = terminal("rollout", *arguments, "--out", str(folder))
    assert code == 0
    *_, hint, command = re.sub(r"\x1b\[[\d;?]*\w", "", drawn).splitlines()
    assert hint == "Anyone who has results.json and results.npz can check the numbers:"
    assert shlex.split(command) == ["mtwrappers", "verify", str(folder / "results.json")]
    code, drawn = terminal(*shlex.split(command)[1:])
    assert code == 0
    assert re.search(r"\x1b\[1;32mverified in \d+ s\x1b\[0m\n", drawn)


# The commands.


def test_without_arguments_it_is_its_help(capsys):
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    assert main([]) == 0
    assert capsys.readouterr() == (help_text, "")


# Few episodes.


@pytest.mark.parametrize(
    ("is_terminal", "lines"),
    [
        (True, ["  extra                 one is missing, two is", " " * 24 + "missing"]),
        (False, ["  extra                 one is missing, two is missing"]),
    ],
)
def test_rows_go_on_in_their_column_on_a_terminal(is_terminal, lines, monkeypatch):
    stdout = io.StringIO()
    monkeypatch.setattr(stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setenv("COLUMNS", "48")
    monkeypatch.setenv("NO_COLOR", "1")
    console.say_row("extra", "one is missing, two is missing")
    assert stdout.getvalue().splitlines() == lines


def test_methods_with_few_episodes_are_warned_of(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in (1, 5, 93):
        episodes = [Episode("reach-v3", i, 1.0, 5, i < 2, False, i) for i in range(number)]
        EvaluationResult(episodes).described(policy=f"mine{number}").save(f"{number}.json")
    assert main(["compare", "5.json", "--format", "csv"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("method,over,")
    assert captured.err == (
        "mtwrappers: warning: mine5 has 5 episodes; from fewer than 93, a 95% interval at a rate "
        "of 0.5 is wider than ±0.10\n"
    )
    assert main(["compare", "1.json"]) == 0
    assert "warning: mine1 has 1 episode; from fewer" in capsys.readouterr().err
    assert main(["compare", "93.json"]) == 0
    assert capsys.readouterr().err == ""
    design = Design(0, 1, trials=2, adaptation_episodes=1, adaptation_steps=1)
    episodes = [Episode("reach-v3", i, 1.0, 5, True, True, trial=t) for t in (0, 1) for i in (0, 1)]
    EvaluationResult(episodes, design).described(policy="meta").save("meta.json")
    assert main(["compare", "meta.json"]) == 0
    assert "warning: meta has 2 trials; from fewer than 93" in capsys.readouterr().err
