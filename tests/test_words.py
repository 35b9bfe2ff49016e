"""One word for each thing, in the documentation and in docstrings: see `docs/concepts.md`."""

import ast
import re

import pytest

from tests.fakes import ROOT

# Words that had stood for something that has another name.
OUT = {
    r"plays?|played|playing": "run, step, evaluate or collect",
    r"shows?|shown|showed|showing": "return, observe, print or display",
    r"tells?|told|telling": "send, call, report or distinguish",
    r"rests|resting|rested|(?<!(?:at|to) )(?<!the\s)rest": "pause, paused",
    r"(?:what|who|episodes?) (?:is|are) over": "finished, ended",
    r"rooms?": "module, folder",
    r"famil(?:y|ies)": "environments, set of environments",
}
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
PAGES = {
    path.relative_to(ROOT).as_posix(): FENCE.sub("", path.read_text())
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
}
# The folders of the package whose docstrings are still to be written so.
NOT_YET = {"envs", "metaworld", "vector"}


def docstrings(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text


FOLDERS = sorted({path.parent.name for path in ROOT.glob("mtwrappers/*/__init__.py")} - NOT_YET)
DOCSTRINGS = {
    place: text
    for folder in FOLDERS
    for path in sorted(ROOT.glob(f"mtwrappers/{folder}/**/*.py"))
    for place, text in docstrings(path)
} | {place: text for path in sorted(ROOT.glob("examples/*.py")) for place, text in docstrings(path)}


@pytest.mark.parametrize("word", OUT)
def test_no_page_or_docstring_has_a_second_word_for_a_thing(word):
    found = [
        f"{place}: {text[max(0, m.start() - 40) : m.end() + 20]!r}"
        for place, text in {**PAGES, **DOCSTRINGS}.items()
        for m in re.finditer(rf"\b(?:{word})\b", text, re.IGNORECASE)
    ]
    assert found == [], f"write {OUT[word]}"


def test_a_docstring_begins_with_a_verb_or_a_noun():
    assert [place for place, text in DOCSTRINGS.items() if re.match(r"What\b", text)] == []
    assert len(DOCSTRINGS) > 100
