"""The OpenGL backends of MuJoCo: which of them draw on this machine, and why others do not.

The environment variable ``MUJOCO_GL`` chooses one. This module does not import MuJoCo.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

DOCTOR = "`mtwrappers doctor` tries every OpenGL backend, and names the package that each lacks"
# The backends of each system; the last one needs a display.
BACKENDS = {"darwin": ("cgl",), "win32": ("wgl",)}.get(sys.platform, ("egl", "osmesa", "glfw"))
# Further values of MUJOCO_GL, which stand for the backend with a display, or for none.
_ON = ("enable", "enabled", "on", "true", "1", "glx")
_OFF = ("disable", "disabled", "off", "false", "0")
# The library of a backend, and its package in Debian and Ubuntu.
_LIBRARIES = {"egl": ("libEGL", "libegl1"), "osmesa": ("libOSMesa", "libosmesa6")}
_SECONDS = 60.0  # a trial takes about one
_TRIAL = """
import os
try:
    import mujoco
    context = mujoco.GLContext(1, 1)
    context.make_current()
    font = mujoco.mjtFontScale.mjFONTSCALE_50
    mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), font)
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(1)
os._exit(0)
"""


@dataclass(frozen=True)
class Trial:
    """The trial of a backend.

    Attributes:
        backend: The value of ``MUJOCO_GL``.
        cause: The reason why it cannot draw, or ``""`` if it can.
        remedy: How to change that, or ``""`` if that is not known.
    """

    backend: str
    cause: str = ""
    remedy: str = ""

    @property
    def works(self) -> bool:
        """Whether the backend draws."""
        return not self.cause

    @property
    def reason(self) -> str:
        """The cause, with its remedy."""
        return f"{self.cause} ({self.remedy})" if self.remedy else self.cause


def chosen_backend() -> str:
    """The value of ``MUJOCO_GL`` as MuJoCo reads it, or ``""``."""
    return os.environ.get("MUJOCO_GL", "").lower().strip()


def check_value(name: str) -> None:
    """Raises `ValueError` if a value of ``MUJOCO_GL`` names no backend."""
    if name in _OFF:
        raise ValueError(f"{name!r} switches OpenGL off")
    if name not in ("", *BACKENDS, *_ON):
        raise ValueError(f"expected one of {', '.join(BACKENDS)}, got {name!r}")


def choose_gl() -> str | None:
    """The first value of ``MUJOCO_GL`` that works on this machine, or ``None``.

    The user's own value is tried first, then those that need no display.
    """
    headless = [name for name in BACKENDS if name != "glfw"]
    names = dict.fromkeys([chosen_backend(), *headless])
    return next((name for name in names if name and gl_works(name)), None)


def gl_works(name: str) -> bool:
    """Whether frames can be drawn with this value of ``MUJOCO_GL``."""
    return try_backend(name).works


def try_backend(name: str) -> Trial:
    """Tries a value of ``MUJOCO_GL`` in a separate process, because a failure cannot be undone."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRIAL],
            env={**os.environ, "MUJOCO_GL": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Trial(name, f"its driver did not answer within {_SECONDS:g} s")
    if done.returncode == 0:
        return Trial(name)
    if done.returncode < 0:
        return Trial(name, f"its driver crashed with {signal.Signals(-done.returncode).name}")
    return explain(name, " ".join(done.stdout.split()) or f"exit code {done.returncode}")


def explain(name: str, error: str) -> Trial:
    """Explains the error of a backend that cannot draw.

    Args:
        name: The value of ``MUJOCO_GL``.
        error: The type and message of the exception.
    """
    platform = os.environ.get("PYOPENGL_PLATFORM", "")
    try:
        check_value(name)
    except ValueError as exc:
        return Trial(name, str(exc), "unset MUJOCO_GL")
    if "'mujoco'" in error:
        return Trial(name, error, "install the extra: pip install '.[metaworld]'")
    if name in _LIBRARIES and platform and platform.lower() != name:
        cause = f"PYOPENGL_PLATFORM={platform!r} excludes it"
        return Trial(name, cause, "unset PYOPENGL_PLATFORM")
    if name == "egl" and (device := os.environ.get("MUJOCO_EGL_DEVICE_ID")) is not None:
        count = re.search(r"between 0 and (-?\d+)", error)
        reason = f"this machine has {int(count[1]) + 1} (numbered from 0)" if count else error
        cause = f"MUJOCO_EGL_DEVICE_ID={device!r} names no device that works: {reason}"
        return Trial(name, cause, "unset MUJOCO_EGL_DEVICE_ID")
    if name in _LIBRARIES and re.search(r"'NoneType' object|Unable to load", error):
        library, package = _LIBRARIES[name]
        return Trial(name, f"{library} is not installed", f"Debian, Ubuntu: apt install {package}")
    if "Cannot initialize a EGL device" in error:
        return Trial(
            name,
            "EGL finds no device",
            "Debian, Ubuntu: apt install libegl-mesa0, or libosmesa6 for MUJOCO_GL=osmesa; in a "
            "container with an NVIDIA GPU, set NVIDIA_DRIVER_CAPABILITIES=all",
        )
    if name not in _LIBRARIES and sys.platform == "linux" and not os.environ.get("DISPLAY"):
        return Trial(name, "there is no display: DISPLAY is not set", "use egl or osmesa")
    return Trial(name, error)


def describe_failure(name: str, error: str) -> str:
    """The message of an error about frames, which names the cause and what mends it.

    Args:
        name: The value of ``MUJOCO_GL``, or ``""`` if it is not set: then no backend works.
        error: The type and message of the exception, for a backend that was set.
    """
    if name:
        return f"cannot draw frames with MUJOCO_GL={name}: {explain(name, error).reason}. {DOCTOR}"
    trials = map(try_backend, BACKENDS)
    reasons = "; ".join(f"{trial.backend}: {trial.reason}" for trial in trials)
    return f"cannot draw frames: no OpenGL backend works here: {reasons}. {DOCTOR}"


def remember_current_context(backend: str) -> Callable[[], object]:
    """Remembers the OpenGL context that is current in this thread, or that there is none.

    Args:
        backend: The module of `mujoco` with a ``GLContext``, which was imported.

    Returns:
        A function that restores it. With ``"cgl"`` it does nothing: MuJoCo locks a context to the
        thread that draws first.
    """
    library: Any
    if backend == "egl":
        library = importlib.import_module("OpenGL.EGL")
        surfaces = [
            library.eglGetCurrentSurface(end) for end in (library.EGL_DRAW, library.EGL_READ)
        ]
        context, display = library.eglGetCurrentContext(), library.eglGetCurrentDisplay()
        if context:
            return partial(library.eglMakeCurrent, display, *surfaces, context)
        return partial(library.eglReleaseThread)
    if backend == "osmesa":
        library = importlib.import_module("OpenGL.osmesa")
        type_of_channels = importlib.import_module("OpenGL.GL").GL_FLOAT  # MuJoCo's
        context = library.OSMesaGetCurrentContext()
        if not context:
            return partial(library.OSMesaMakeCurrent, None, None, type_of_channels, 0, 0)
        width, height, _, buffer = library.OSMesaGetColorBuffer(context)
        return partial(library.OSMesaMakeCurrent, context, buffer, type_of_channels, width, height)
    if backend == "glfw":
        library = importlib.import_module("glfw")
        library.init()
        return partial(library.make_context_current, library.get_current_context())
    return lambda: None
