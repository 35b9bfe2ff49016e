"""``mtwrappers doctor``: versions, extras, workers and OpenGL, whatever works."""

from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest

from mtwrappers import __version__
from mtwrappers.cli import doctor, main
from mtwrappers.metaworld.opengl import Trial

NO_LIBRARY = Trial("osmesa", "libOSMesa is not installed", "Debian, Ubuntu: apt install libosmesa6")


def run_doctor(capsys):
    """The rows by name, and the last line."""
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[2:24].strip(): line[24:] for line in lines if line[:2] == "  "}, lines[-1]


@pytest.fixture
def trials(monkeypatch):
    """Only EGL works."""
    for name in ("MUJOCO_EGL_DEVICE_ID", "PYOPENGL_PLATFORM", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    backends = {"egl": Trial("egl"), "osmesa": NO_LIBRARY}
    monkeypatch.setattr(doctor, "try_backend", lambda name: backends.get(name, Trial(name, "no")))
    return backends


def test_it_prints_versions_extras_workers_and_each_backend(capsys, monkeypatch, trials):
    monkeypatch.setattr(doctor, "cores", lambda: 3)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr(
        doctor, "default_start_method", lambda replaces: ["fork", "forkserver"][replaces]
    )
    rows, last = run_doctor(capsys)
    assert (rows["mtwrappers"], rows["numpy"]) == (__version__, np.__version__)
    assert rows["metaworld"].startswith("yes: metaworld 3.")  # the extra
    assert rows["cli"].startswith(f"yes: cyclopts {version('cyclopts')}, ")
    assert not {"test", "docs"} & rows.keys()
    assert rows["cores"] == "3 of 64, as many workers as commands have by default"
    assert rows["start method"] == "fork"
    assert rows["to recover"] == "forkserver, with on_worker_failure='recover'"
    assert rows["cache folder"] == "none: only the files that you name are written"
    assert rows["MUJOCO_GL"] == "not set"
    assert rows["egl"] == "works"
    assert rows["osmesa"] == (
        "no: libOSMesa is not installed (Debian, Ubuntu: apt install libosmesa6)"
    )
    assert last == "frames are drawn with egl"


@pytest.mark.parametrize(
    ("chosen", "works", "last"),
    [
        ("osmesa", True, "frames cannot be drawn with MUJOCO_GL=osmesa: set it to egl"),
        ("foo", True, "frames cannot be drawn with MUJOCO_GL=foo: set it to egl"),
        ("EGL", True, "frames are drawn with egl"),
        ("", False, "frames cannot be drawn; environments that draw none work"),
    ],
)
def test_it_says_what_draws_frames(chosen, works, last, capsys, monkeypatch, trials):
    monkeypatch.setenv("MUJOCO_GL", chosen)
    trials["egl"] = Trial("egl", "" if works else "EGL finds no device")
    assert run_doctor(capsys)[1] == last


def test_the_extras_of_a_folder_are_unknown(capsys, monkeypatch, trials):
    def find_metadata(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "metadata", find_metadata)
    rows, _ = run_doctor(capsys)
    assert rows["unknown"] == "mtwrappers was imported from a folder, not installed"


REQUIRES = {
    "mtwrappers": [
        "numpy>=2",
        "sb3-like>=3; extra == 'old'",
        "absent; extra == 'absent'",
        "later; python_version >= '3.98' and extra == 'later'",
        "mtwrappers[old]; extra == 'nested'",
        "numpy>=1; extra == 'fine'",
        "elsewhere; sys_platform == 'nowhere' and extra == 'fine'",
    ]
}
VERSIONS = {"mtwrappers": "0.1.0", "sb3-like": "2.9", "numpy": "2.4"}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("old", "no: sb3-like is 2.9, not >=3; pip install '.[old]'"),
        ("absent", "no: absent is missing; pip install '.[absent]'"),
        ("later", "no: later is for a later Python; pip install '.[later]'"),
        ("nested", "no: sb3-like is 2.9, not >=3; pip install '.[nested]'"),
        ("fine", "yes: numpy 2.4"),
    ],
)
def test_an_extra_is_complete_or_names_what_it_lacks(extra, expected, monkeypatch):
    def find_version(name):
        if name not in VERSIONS:
            raise PackageNotFoundError(name)
        return VERSIONS[name]

    monkeypatch.setattr(doctor, "requires", REQUIRES.get)
    monkeypatch.setattr(doctor, "version", find_version)
    assert doctor.describe_extra(extra) == expected
