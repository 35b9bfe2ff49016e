"""The examples of docstrings, as a reader pastes them: into a namespace that has nothing."""

import doctest
import importlib
import inspect

import pytest

from tests.fakes import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "mtwrappers").rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run_without_its_names(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    runner = doctest.DocTestRunner(verbose=False)
    found = [test for test in doctest.DocTestFinder().find(module, globs={}) if test.examples]
    assert found
    for test in found:
        report = []
        runner.run(test, out=report.append)
        assert not report, "".join(report)
