"""The reference as text in the repository says what the docstrings say."""

import importlib.util

import pytest

from tests.fakes import ROOT


@pytest.mark.slow
def test_the_pages_of_the_reference_are_current():
    pytest.importorskip("griffe")
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    current = {path.name: path.read_text() for path in reference.FOLDER.glob("*.md")}
    pages = reference.write_pages()
    assert current.keys() == pages.keys()
    outdated = [name for name in pages if pages[name] != current[name]]
    assert outdated == [], "run python -m docs.reference"
    for method in ("Protocol.evaluate", "EvaluationResult.save", "MetaVectorEnv.set_tasks"):
        assert any(f"\n### {method}\n" in page for page in pages.values()), method
