"""Other packages whose objects a state may contain, and our modules that handle these objects.

The module is imported when an object of the package is found, or when a file names the package: a
name in a file only selects among the entries of `MODULES`. `PackageModule` lists its functions. It
also registers the states of the package's classes, see `mtwrappers.state.registry`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Protocol, cast

from mtwrappers.common.extras import import_extra

# The module for each package; our extra has the same name as the package.
MODULES = {"metaworld": "mtwrappers.metaworld.state"}


class PackageModule(Protocol):
    """The functions of a module that handles the objects of a package."""

    def is_plain(self, value: Any) -> bool:
        """Whether a value is immutable plain data."""

    def to_plain(self, value: Any) -> Any:
        """Returns plain data as JSON values and arrays, or raises `TypeError`."""

    def from_plain(self, plain: Any) -> Any:
        """Reverses `to_plain`, or raises `ValueError`.

        ``plain`` may come from an untrusted file; nothing in it is run.
        """

    def guard(self, env: Any) -> None:
        """Keeps the environments inside ``env`` from running data that they are given."""


def load_module(package: str) -> PackageModule:
    """Imports the module that handles the objects of a package in `MODULES`.

    Raises:
        DependencyNotInstalled: If the package is not installed.
    """
    import_extra(package, package)
    return cast("PackageModule", importlib.import_module(MODULES[package]))


def find_owner(value: Any) -> str | None:
    """The package in `MODULES` whose plain data a value is, if any."""
    package = type(value).__module__.partition(".")[0]
    return package if package in MODULES and load_module(package).is_plain(value) else None


def import_modules() -> list[PackageModule]:
    """Imports and returns the modules for the packages that this process has imported."""
    return [load_module(package) for package in MODULES if sys.modules.get(package) is not None]
