"""``mtwrappers check``: what it takes, what it prints, and its exit code."""

import re
import shutil
import sys

import gymnasium
import pytest

from mtwrappers.cli import main
from mtwrappers.testing import rules
from tests.testing import faults


@pytest.fixture(autouse=True)
def _user_environments(tmp_path, monkeypatch):
    shutil.copy(faults.__file__, tmp_path / "my_env.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("my_env", None)


def check(*arguments):
    return main(["check", *arguments, "--steps", "30"])


@pytest.mark.parametrize(
    "env_name", ["my_env:WalkEnv", "my_env.py:WalkEnv", "mtwrappers/PointGoal-v0"]
)
@pytest.mark.slow
def test_without_a_fault_the_exit_code_is_0(env_name, capsys):
    assert check(env_name) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "FAILED" not in "".join(lines)
    assert max(map(len, lines)) <= 80


def test_a_fault_is_named_and_the_exit_code_is_1(tmp_path, capsys):
    assert check("my_env:NumpyFlagEnv") == 1
    assert "FAILED   types" in capsys.readouterr().out
    assert check("my_env:LostFinalVectorEnv") == 1  # which needs an argument
    output = " ".join(capsys.readouterr().out.split())
    assert "it cannot be made: TypeError: " in output
    assert (
        "argument: 'env'; give arguments as kwargs, on the command line as --kwargs JSON" in output
    )
    (tmp_path / "leaving.py").write_text("import sys\n\ndef make():\n    sys.exit(3)\n")
    assert check("leaving.py:make") == 1
    assert "it cannot be made: SystemExit: 3 (leaving.py, line 4" in capsys.readouterr().out


def test_warnings_of_the_constructor_are_printed(tmp_path):
    (tmp_path / "late.py").write_text(
        "import gymnasium, mtwrappers\n\n"
        "def make():\n"
        "    make_each = [lambda: gymnasium.make('Pendulum-v1', g=g) for g in (8.0, 9.0)]\n"
        "    return mtwrappers.MultiEnvWrapper(make_each)\n"
    )
    with pytest.warns(UserWarning, match="reads the variable 'g' of a loop"):
        assert check("late.py:make") == 1


def test_an_id_is_registered_by_a_module_in_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])  # as in a console script
    cart_pole = "gymnasium.envs.classic_control:CartPoleEnv"
    (tmp_path / "registers.py").write_text(
        f"import gymnasium\n\ngymnasium.register('Cart-v0', entry_point={cart_pole!r})\n"
    )
    monkeypatch.setattr("mtwrappers.testing.check.ENV_CHECKS", (rules.runs,))
    try:
        assert check("registers:Cart-v0") == 0
    finally:
        gymnasium.registry.pop("Cart-v0", None)
        sys.modules.pop("registers", None)
    assert "registers:Cart-v0 (environment): 1 passed" in capsys.readouterr().out


def test_of_an_id_its_vector_environment_is_checked_too(capsys):
    assert check("CartPole-v1", "--vector") == 1
    results, _, summary = capsys.readouterr().out.partition("\n\n")
    lines = results.splitlines()
    [failed] = [line for line in lines if line.startswith("FAILED")]
    assert failed.startswith("FAILED   batch size ")  # all starts are drawn at once
    assert lines[:2] == ["passed   runs", "passed   types"]
    assert re.fullmatch(
        r"CartPole-v1 \(vector environment\): 1 FAILED: batch size; \d+ passed; \d+ skipped "
        r"\(\d+ s\)",
        " ".join(summary.split()),
    )


def test_results_are_printed_as_checks_end(monkeypatch, capsys):
    printed = []

    def print_first(subject):
        printed.append(capsys.readouterr().out)

    print_first.__name__ = "close"
    monkeypatch.setattr("mtwrappers.testing.check.ENV_CHECKS", (rules.runs, print_first))
    assert check("my_env:WalkEnv") == 0
    assert printed == ["passed   runs\n"]


def test_checks_that_were_skipped_for_one_reason_are_counted_in_one_row(capsys):
    assert check("my_env:ClockInfoEnv") == 1
    output = " ".join(capsys.readouterr().out.split())
    assert re.search(r"skipped \d+ checks \(new episodes, options, ", output)
    assert output.count("see 'seed repeats'") == 1


def test_a_narrow_terminal_gets_narrow_lines(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    assert check("my_env:NumpyFlagEnv") == 1
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40
