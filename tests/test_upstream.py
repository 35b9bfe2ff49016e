"""Reports to other projects: each has a script, which reproduces the fault that it reports."""

import re
from importlib.metadata import PackageNotFoundError, version

import pytest

from tests.fakes import ROOT, run_with_python

FOLDER = ROOT / "docs/upstream"
SECTION = re.compile(r"^## [^\n]+ \{ #(\w+) \}\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
REPORTS = dict(SECTION.findall((FOLDER / "index.md").read_text()))
SCRIPTS = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.py"))}


def named(name):
    """The package and the version that the first line of a script names."""
    return re.match(r'"""(\S+) ([\w.]+): ', SCRIPTS[name]).groups()


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def test_every_report_has_a_script():
    assert len(REPORTS) == 13
    assert sorted(REPORTS) == sorted(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_report_names_its_script_its_version_and_what_it_printed(name):
    report, script = REPORTS[name], SCRIPTS[name]
    compile(script, f"{name}.py", "exec")
    assert f"/blob/main/docs/upstream/{name}.py)" in report
    (printed,) = re.findall(r"^```text\n(.*?)^```$", report, re.MULTILINE | re.DOTALL)
    assert printed.endswith("fault: yes\n")
    assert re.findall(r"^\*\*(.*?)\.\*\*", report, re.M)[:2] == ["Cause", "Suggested change"]
    package, number = named(name)
    assert re.search(rf"\bseen with .*\b{package} {re.escape(number)}\b", report)
    assert "mtwrappers" not in script


HERE = [name for name in SCRIPTS if installed(named(name)[0]) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_the_fault_is_still_there(name):
    """Where it is not, with a newer version, say so on the page or leave the report out."""
    assert run_with_python("-W", "ignore", FOLDER / f"{name}.py").endswith("fault: yes\n")


def test_the_faults_of_meta_world_and_gymnasium_are_looked_for():
    assert {named(name)[0] for name in HERE} >= {"gymnasium", "metaworld"}
