"""The fast tier, which runs without options, has a test of everything that is promised."""

import re

import pytest

from tests.fakes import ROOT, run_with_python

GUARANTEES = (ROOT / "docs/guarantees.md").read_text()
FILES = {
    str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")
}


@pytest.mark.slow
def test_every_file_that_holds_a_promise_and_every_test_with_fast_cases_is_in_the_fast_tier():
    lines = run_with_python("-m", "pytest", "--collect-only", cwd=ROOT).splitlines()
    fast = {line.partition("[")[0] for line in lines if "::" in line}
    held = set(re.findall(r"/blob/main/(tests/[\w/]+\.py)\)", GUARANTEES))
    without = held - {name.partition("::")[0] for name in fast}
    assert held
    assert {name for name in without if "importorskip" not in FILES[name]} == set()
    cases = {
        f"{file}::{name}"
        for file, text in FILES.items()
        for name in re.findall(r"slow_but\([^()]*\)\ndef (\w+)", text)
        if "importorskip" not in text
    }
    assert cases
    assert cases - fast == set()
