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


@pytest.mark.parametrize(
    ("page", "method"),
    [
        ("evaluation.md", "Protocol.evaluate"),
        ("evaluation.md", "EvaluationResult.save"),
        ("vector.md", "MetaVectorEnv.step"),
        ("samplers.md", "MetaSampler.obtain_samples"),
    ],
)
def test_the_reference_has_the_methods_of_classes(page, method):
    text = (ROOT / "docs/reference" / page).read_text()
    assert f"\n### {method}\n" in text
