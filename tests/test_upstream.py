"""Reports to other projects: each has a script, which reproduces the fault that it reports."""

import re
from importlib.util import find_spec

import pytest

from tests.fakes import ROOT, run_with_python

SCRIPTS = sorted((ROOT / "docs/upstream").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_fault_is_still_there(script):
    """Where it is not, with a newer version, say so on the page or leave the script out."""
    package = re.match(r'"""(\S+) [\w.]+: ', script.read_text())[1].replace("-", "_")
    if find_spec(package) is None:
        pytest.skip(f"without {package}")
    assert run_with_python("-W", "ignore", script).endswith("fault: yes\n")
