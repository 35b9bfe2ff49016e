"""The examples of docstrings, as a reader pastes them: into a session that has no names yet."""

import ast
import doctest
import importlib
import inspect
import itertools

import pytest
from gymnasium.error import DependencyNotInstalled

from tests.fakes import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "mtwrappers").rglob("*.py")
    if ">>> " in path.read_text()
)


class Runner(doctest.DocTestRunner):
    """Skips what needs a library that is not installed."""

    def report_unexpected_exception(self, out, test, example, exc_info):
        if isinstance(exc_info[1], DependencyNotInstalled):
            pytest.skip(str(exc_info[1]))
        super().report_unexpected_exception(out, test, example, exc_info)


# Its example starts workers many times over.
SLOW = ("mtwrappers.testing.check",)


def examples(module):
    """Those of its docstrings, and of the texts below the assignments of attributes."""
    doctests = doctest.DocTestFinder().find(module, globs={})
    parse = doctest.DocTestParser().get_doctest
    for node, below in itertools.pairwise(ast.parse(inspect.getsource(module)).body):
        if isinstance(node, ast.Assign) and isinstance(below, ast.Expr):
            text = inspect.cleandoc(ast.literal_eval(below.value))
            doctests.append(parse(text, {}, node.targets[0].id, None, None))
    return [example for example in doctests if example.examples]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODULES]
)
def test_each_example_runs_in_an_empty_namespace(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except DependencyNotInstalled as error:
        pytest.skip(str(error))
    runner, failures = Runner(verbose=False), []
    doctests = examples(module)
    assert doctests
    for example in doctests:
        runner.run(example, out=failures.append)
    assert not failures, "".join(failures)
