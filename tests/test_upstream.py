"""Reports to other projects: each has a script, which reproduces the fault that it reports."""

import re
from importlib.metadata import PackageNotFoundError, version

import pytest

from tests.fakes import ROOT, run_with_python

FOLDER = ROOT / "docs/upstream"
PAGES = [ROOT / "docs/guides/libraries.md", ROOT / "docs/traps.md"]
SCRIPTS = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.py"))}


def named(name):
    """The package and the version that the first line of a script names."""
    return re.match(r'"""(\S+) ([\w.]+): ', SCRIPTS[name]).groups()


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def test_every_script_is_linked():
    linked = [
        name
        for page in PAGES
        for name in re.findall(r"/blob/main/docs/upstream/(\w+)\.py\)", page.read_text())
    ]
    assert len(linked) == 13
    assert sorted(linked) == sorted(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_names_its_version_the_cause_and_a_change(name):
    compile(SCRIPTS[name], f"{name}.py", "exec")
    assert named(name)
    assert re.findall(r"^(Cause|Suggested change): ", SCRIPTS[name], re.MULTILINE) == [
        *("Cause", "Suggested change")
    ]
    assert "mtwrappers" not in SCRIPTS[name]


HERE = [name for name in SCRIPTS if installed(named(name)[0]) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_the_fault_is_still_there(name):
    """Where it is not, with a newer version, say so on the page or leave the script out."""
    assert run_with_python("-W", "ignore", FOLDER / f"{name}.py").endswith("fault: yes\n")


def test_the_faults_of_meta_world_and_gymnasium_are_looked_for():
    assert {named(name)[0] for name in HERE} >= {"gymnasium", "metaworld"}
