"""``mtwrappers doctor``: what is installed here, and what works."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

from mtwrappers import __version__
from mtwrappers.cli.console import say, say_row
from mtwrappers.common.cores import cores
from mtwrappers.metaworld.opengl import BACKENDS, Trial, chosen_backend, try_backend
from mtwrappers.vector.start_methods import default_start_method

# Versions on which results depend, whether or not an extra asks for them.
PACKAGES = ("gymnasium", "numpy", "scipy", "metaworld", "mujoco")
_DEVELOPERS = {"test", "bench", "docs", "dev"}  # extras that are not for users
_ABSENT = "not installed"
_VARIABLES = ("MUJOCO_GL", "MUJOCO_EGL_DEVICE_ID", "PYOPENGL_PLATFORM", "DISPLAY")


def run() -> int:
    """Print what is installed here, and whether frames can be drawn."""
    _say("versions", {"mtwrappers": __version__, "Python": platform.python_version()})
    _say(
        "",
        {"system": platform.platform(), **{name: _version(name) or _ABSENT for name in PACKAGES}},
    )
    extras = {name: describe_extra(name) for name in _extras()}
    _say("extras", extras or {"unknown": "mtwrappers was imported from a folder, not installed"})
    recovering = default_start_method(replaces=True)
    _say(
        "workers",
        {
            "cores": f"{cores()} of {os.cpu_count()}, as many workers as commands have by default",
            "start method": default_start_method(replaces=False),
            "to recover": f"{recovering}, with on_worker_failure='recover'",
        },
    )
    _say("files", {"cache folder": "none: only the files that you name are written"})
    _say("OpenGL", {name: os.environ.get(name, "not set") for name in _VARIABLES})
    trials = [try_backend(name) for name in _backends()]
    verdicts = {
        trial.backend: "works" if trial.works else f"no: {trial.reason}" for trial in trials
    }
    _say("", verdicts)
    say(f"\n{_conclude(trials)}")
    return 0


def describe_extra(extra: str) -> str:
    """What the packages of an extra lack, or their versions."""
    if lacking := list(dict.fromkeys(_lacking("mtwrappers", extra))):
        return f"no: {', '.join(lacking)}; pip install '.[{extra}]'"
    names = [requirement.name for requirement in _requirements("mtwrappers", extra)]
    versions = [f"{name} {_version(name)}" for name in names if name != "mtwrappers"]
    return f"yes: {', '.join(versions)}"


def _extras() -> list[str]:
    try:
        provided = metadata("mtwrappers").get_all("Provides-Extra") or []
    except PackageNotFoundError:  # it is imported from a folder
        return []
    return [extra for extra in provided if extra not in _DEVELOPERS]


def _requirements(distribution: str, extra: str) -> Iterator[Requirement]:
    """The requirements that an extra adds on this system, with any version of Python."""
    for requirement in map(Requirement, requires(distribution) or ()):
        marker, later = requirement.marker, {"python_version": "3.99"}
        if marker and not marker.evaluate({"extra": ""}):
            with_extra = {"extra": extra}
            if marker.evaluate(with_extra) or marker.evaluate({**with_extra, **later}):
                yield requirement


def _lacking(distribution: str, extra: str) -> Iterator[str]:
    """The packages of an extra that are missing or have other versions."""
    for requirement in _requirements(distribution, extra):
        name, marker, installed = requirement.name, requirement.marker, _version(requirement.name)
        if marker is not None and not marker.evaluate({"extra": extra}):
            yield f"{name} is for a later Python"
        elif installed is None:
            yield f"{name} is missing"
        elif not requirement.specifier.contains(installed, prereleases=True):
            yield f"{name} is {installed}, not {requirement.specifier}"
        else:
            for nested in requirement.extras:
                yield from _lacking(name, nested)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _backends() -> list[str]:
    """The backends to try: all, and another value of ``MUJOCO_GL``."""
    return [name for name in dict.fromkeys([*BACKENDS, chosen_backend()]) if name]


def _conclude(trials: Sequence[Trial]) -> str:
    """The backend that draws frames, or what to do."""
    works, chosen = [trial.backend for trial in trials if trial.works], chosen_backend()
    if not works:
        return "frames cannot be drawn; environments that draw none work"
    if chosen and chosen not in works:
        return f"frames cannot be drawn with MUJOCO_GL={chosen}: set it to {' or '.join(works)}"
    return f"frames are drawn with {chosen or works[0]}"


def _say(title: str, rows: dict[str, str]) -> None:
    if title:
        say(title, "bold")
    for name, value in rows.items():
        say_row(name, value)
