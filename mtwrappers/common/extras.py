"""Optional dependencies, imported where they are used."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gymnasium.error import DependencyNotInstalled

T = TypeVar("T")


def import_extra(module: str, extra: str) -> Any:
    """Imports ``module``, or raises an error that names the extra to install.

    Raises:
        DependencyNotInstalled: If the module is not installed.
    """
    try:
        return with_or_without_opengl(lambda: importlib.import_module(module))
    except ModuleNotFoundError as exc:
        if exc.name is None or not (module + ".").startswith(exc.name + "."):
            raise
        raise DependencyNotInstalled(
            f"{exc.name!r} is not installed; it comes with: pip install '.[{extra}]' in a clone of "
            "mtwrappers"
        ) from exc


def with_or_without_opengl(load: Callable[[], T]) -> T:
    """Calls ``load``, which may import MuJoCo, whatever the variable ``MUJOCO_GL`` says.

    MuJoCo loads the OpenGL that ``MUJOCO_GL`` names when it is imported, and fails if it cannot.
    But only drawing needs OpenGL, and reports what is wrong with it.
    """
    if not os.environ.get("MUJOCO_GL") or "mujoco" in sys.modules:
        return load()
    try:
        with opengl_undone_on_error():
            return load()
    except Exception as exc:
        if "mujoco" in sys.modules or not _comes_from_mujoco(exc):
            raise
    with _without_opengl():
        return load()


@contextlib.contextmanager
def opengl_undone_on_error() -> Iterator[None]:
    """After an error of MuJoCo, forgets the OpenGL that it imported, so that another one can be."""
    modules, platform = {*sys.modules}, os.environ.get("PYOPENGL_PLATFORM")
    try:
        yield
    except Exception as exc:
        if _comes_from_mujoco(exc):
            for name in {*sys.modules} - modules:
                if name.partition(".")[0] == "OpenGL":
                    del sys.modules[name]
            if platform is None:  # MuJoCo sets it
                os.environ.pop("PYOPENGL_PLATFORM", None)
        raise


def _comes_from_mujoco(exc: BaseException | None) -> bool:
    """Whether a module of MuJoCo raised an exception, or the cause of it."""
    while exc is not None:
        for frame, _ in traceback.walk_tb(exc.__traceback__):
            if frame.f_globals.get("__name__", "").partition(".")[0] == "mujoco":
                return True
        exc = exc.__cause__
    return False


@contextlib.contextmanager
def _without_opengl() -> Iterator[None]:
    """Lets MuJoCo be imported without OpenGL."""
    backend = os.environ["MUJOCO_GL"]
    os.environ["MUJOCO_GL"] = "disabled"
    try:
        yield
    finally:
        os.environ["MUJOCO_GL"] = backend
