"""Runs and loads the scripts of the folder ``examples``."""

import importlib.util
import os
import re
import sys
from types import ModuleType

import pytest

from tests.fakes import ROOT, run_with_python


def run_example(name: str, cwd: os.PathLike[str], **environment: str) -> list[str]:
    """Runs ``examples/{name}`` with these environment variables, and returns what it prints."""
    return run_with_python(ROOT / "examples" / name, cwd=cwd, **environment).splitlines()


def load_example(name: str) -> ModuleType:
    """Loads the module of ``examples/{name}``, without running it."""
    spec = importlib.util.spec_from_file_location(
        name.removesuffix(".py"), ROOT / "examples" / name
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # so that its classes pickle
    spec.loader.exec_module(module)
    return module


def check_learnt(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs a script that trains on two classes, a little; requires that it changed the policy."""
    script.main(steps=2400, episodes_per_task=1)
    output = capsys.readouterr().out
    for name in script.CLASSES:
        line = rf"^{name}: return (\d+) before, (\d+) after, success "
        return_before, return_after = re.search(line, output, re.MULTILINE).groups()
        assert return_before != return_after
