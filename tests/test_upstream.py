"""Reports to other projects: each has a script, which reproduces the fault that it reports."""

import re
from importlib.metadata import PackageNotFoundError, version

import pytest

from tests.fakes import ROOT, run_with_python

FOLDER = ROOT / "docs/upstream"
INDEX = (FOLDER / "index.md").read_text()
REPORTS = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem != "index")
ROW = re.compile(r"^\| [^|]+ \S+ \| \[(.+)\]\((\w+)\.md\) \| \[script\]\(\S+/(\w+)\.py\) \|", re.M)
SECTIONS = ["Observed", "Expected", "Cause", "Suggested change"]


def read(name):
    """A report, and its script."""
    return (FOLDER / f"{name}.md").read_text(), (FOLDER / f"{name}.py").read_text()


def named(script):
    """The package and the version that the first line of a script names."""
    package, number = re.match(r'"""(\S+) ([\w.]+): ', script).groups()
    return package, number


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def test_every_report_has_a_script_and_a_row_in_the_table():
    assert len(REPORTS) == 13
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == REPORTS
    rows = {report: (title, script) for title, report, script in ROW.findall(INDEX)}
    assert rows == {name: (read(name)[0].splitlines()[0][2:], name) for name in REPORTS}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_contains_its_script_and_what_it_printed(name):
    report, script = read(name)
    compile(script, f"{name}.py", "exec")
    assert f"```python\n{script}```\n" in report
    (printed,) = re.findall(r"^```text\n(.*?)^```$", report, re.MULTILINE | re.DOTALL)
    assert printed.endswith("fault: yes\n")
    assert re.findall(r"^## (.*)$", report, re.MULTILINE) == SECTIONS
    package, number = named(script)
    assert re.search(rf"^\| seen with \|.*\b{package} {re.escape(number)}\b", report, re.M)
    assert "mtwrappers" not in script


HERE = [name for name in REPORTS if installed(named(read(name)[1])[0]) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_the_fault_is_still_there(name):
    """Where it is not, with a newer version, say so in the table or leave the report out."""
    assert run_with_python("-W", "ignore", FOLDER / f"{name}.py").endswith("fault: yes\n")


def test_the_faults_of_meta_world_and_gymnasium_are_looked_for():
    assert {named(read(name)[1])[0] for name in HERE} >= {"gymnasium", "metaworld"}
