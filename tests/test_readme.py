"""The README's snippets run as they stand."""

import re

import pytest

from tests.fakes import ROOT, run_with_python

README = ROOT / "README.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_a_snippet_runs(snippet, tmp_path):
    run_with_python("-c", snippet, cwd=tmp_path)


def test_the_commands_of_the_ci_are_marked():
    assert re.findall(r"^<!-- ci: (.*) -->$", README.read_text(), re.MULTILINE) == [
        "main job",
        "tests",
    ]


def test_the_readme_names_every_example_and_a_test_runs_each():
    root = README.parent
    examples = {path.name for path in (root / "examples").glob("*.py")}
    assert set(re.findall(r"examples/(\w+\.py)", README.read_text())) == examples
    tests = "".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))
    assert {name for name in examples if f'"{name}"' not in tests} == set()


def test_every_file_that_the_readme_links_is_there():
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", README.read_text())
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
