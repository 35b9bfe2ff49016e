"""What type checkers see of the package."""

import ast
import re
import subprocess
import sys

import pytest

import mtwrappers
from tests.fakes import ROOT

CODE = """\
import gymnasium
import mtwrappers
from mtwrappers import MultEnvWrapper
from mtwrappers import MultiEnvWrapper, as_sb3_vec_env, as_torchrl_env

def use(env: mtwrappers.MTEnv) -> None:
    mtwrappers.testing.check_mtenv(env)
    mtwrappers.Nothing
    as_sb3_vec_env(gymnasium.make_vec("mtwrappers/MT10-v0"))
    as_torchrl_env(gymnasium.make_vec("mtwrappers/MT10-v0"), device="cpu")
    MultiEnvWrapper([], initial_task_state=0).num_tasks
    MultiEnvWrapper([], initial_task=0)
"""


@pytest.mark.slow
def test_mypy_finds_wrong_names_and_accepts_what_the_readme_does(tmp_path):
    pytest.importorskip("mypy")
    file = tmp_path / "use.py"
    file.write_text(CODE)
    # With the cache of the last `mypy` over the package, after which this takes a second.
    command = [sys.executable, "-m", "mypy", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = re.findall(r"use\.py:(\d+): error: (.*?)(?:;|  \[)", done.stdout)
    assert found == [
        ("3", 'Module "mtwrappers" has no attribute "MultEnvWrapper"'),
        ("8", 'Module has no attribute "Nothing"'),
        ("12", 'Unexpected keyword argument "initial_task" for "MultiEnvWrapper"'),
    ], done.stdout + done.stderr


def test_the_stub_offers_every_name_that_it_imports():
    """Type checkers hide what is not imported under its own name."""
    stub = ast.parse((ROOT / "mtwrappers" / "__init__.pyi").read_text())
    aliases = [a for node in stub.body if isinstance(node, ast.ImportFrom) for a in node.names]
    assert sorted(a.name for a in aliases) == sorted([*mtwrappers.__all__, "testing"])
    assert [a.name for a in aliases if a.asname != a.name] == []
