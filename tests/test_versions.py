"""The version, the supported Pythons and the extras are the same wherever they stand."""

import re
import tomllib

import mtwrappers
from tests.fakes import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()


def test_the_version_is_that_of_the_package():
    """`pyproject.toml` reads it from there, too."""
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "mtwrappers/__init__.py"}
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.M) == [mtwrappers.__version__]
    assert re.findall(r"^  version = \{(.+)\},$", README, re.M) == [mtwrappers.__version__]
    plugin = tomllib.loads((ROOT / "plugins/lerobot_env_mtwrappers/pyproject.toml").read_text())
    assert plugin["project"]["version"] == mtwrappers.__version__


def test_the_supported_pythons_are_those_of_the_readme_and_of_ci():
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    minors = [int(minor) for minor in re.findall(r"Python :: 3\.(\d+)$", classifiers, re.M)]
    oldest, newest = min(minors), max(minors)
    assert minors == [*range(oldest, newest + 1)]
    assert PROJECT["project"]["requires-python"] == f">=3.{oldest}"
    assert f"Python 3.{oldest} to 3.{newest}" in README
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    matrix = ", ".join(f'"3.{minor}"' for minor in minors)
    assert f"python: [{matrix}]" in workflow


def test_no_extra_brings_a_version_of_mujoco_that_gymnasiums_robots_do_not_support():
    """Meta-World, and dm-control below, name one version."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert "mujoco<4" in extras["mujoco"]
    assert "mujoco==3.3.0" in extras["dm-control"]


def test_the_command_line_can_be_installed_without_metaworld():
    extras = PROJECT["project"]["optional-dependencies"]
    assert not any(requirement.startswith("mtwrappers") for requirement in extras["cli"])
    assert "pip install '.[metaworld,cli]'" in README
