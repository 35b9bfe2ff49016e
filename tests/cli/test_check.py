"""``mtwrappers check``: what it takes, what it prints, and its exit code."""

import shutil
import sys

import pytest

from mtwrappers.cli import main
from tests.testing import faults


@pytest.fixture(autouse=True)
def _own_environments(tmp_path, monkeypatch):
    shutil.copy(faults.__file__, tmp_path / "my_env.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("my_env", None)


def check(*arguments):
    return main(["check", *arguments, "--steps", "30"])


@pytest.mark.parametrize(
    "given", ["my_env:WalkEnv", "my_env.py:WalkEnv", "mtwrappers/PointGoal-v0"]
)
@pytest.mark.slow
def test_without_a_fault_the_exit_code_is_0(given, capsys):
    assert check(given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "FAILED" not in "".join(lines)
    assert max(map(len, lines)) <= 80


def test_a_fault_is_named_and_the_exit_code_is_1(tmp_path, capsys):
    assert check("my_env:NumpyFlagEnv") == 1
    assert "FAILED   types" in capsys.readouterr().out
    assert check("my_env:LostFinalVectorEnv") == 1  # which needs an argument
    said = " ".join(capsys.readouterr().out.split())
    assert "it cannot be made: TypeError: " in said
    assert "argument: 'env'; give arguments as kwargs, on the command line as --kwargs JSON" in said
    (tmp_path / "leaving.py").write_text("import sys\n\ndef make():\n    sys.exit(3)\n")
    assert check("leaving.py:make") == 1
    assert "it cannot be made: SystemExit: 3 (leaving.py, line 4" in capsys.readouterr().out


def test_of_an_id_its_vector_environment_is_checked_too(capsys):
    assert check("CartPole-v1", "--vector") == 1
    head, failed, *_ = capsys.readouterr().out.splitlines()
    assert head == "CartPole-v1 (vector environment)"
    assert failed.startswith("FAILED   batch size ")  # all starts are drawn at once
