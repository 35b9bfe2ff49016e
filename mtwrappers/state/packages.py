"""Other packages whose objects a state may have, and which module of ours knows these.

The module is imported when an object of the package is met, or when a file names the package: a
name in a file only selects among the entries of `KNOWN_BY`. See `KnowsObjects` for what it has.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

from mtwrappers.common.extras import import_extra

# By the name of a package, which is that of our extra as well.
KNOWN_BY = {"metaworld": "mtwrappers.metaworld.kept"}


class KnowsObjects(Protocol):
    """The functions of a module that knows the objects of a package."""

    def is_plain(self, value: Any) -> bool:
        """Whether a value is plain data, which nobody can change."""

    def to_plain(self, value: Any) -> Any:
        """Plain data as what JSON knows and arrays, or a `TypeError`."""

    def from_plain(self, plain: Any) -> Any:
        """The value of which `to_plain` returned this; a `ValueError` if it returned it of none.

        ``plain`` comes from a file, and nothing in it is run.
        """

    def attributes(self, cls: type[Any]) -> tuple[str, ...]:
        """The attributes that a class of the package, bases aside, keeps between episodes."""

    def guard(self, env: Any) -> None:
        """Lets the environments inside ``env`` run nothing that they are given from now on."""

    def check(self, layer: Any, values: Mapping[str, Any]) -> None:
        """Raises `ValueError` unless a layer may take these attributes from a file."""


def known_by(package: str) -> KnowsObjects:
    """The module that knows the objects of a package of `KNOWN_BY`.

    Raises:
        DependencyNotInstalled: If the package is not installed.
    """
    import_extra(package, package)
    return cast("KnowsObjects", importlib.import_module(KNOWN_BY[package]))


def package_of(cls: type[Any]) -> str | None:
    """The package of `KNOWN_BY` that a class is of, if any."""
    package = cls.__module__.partition(".")[0]
    return package if package in KNOWN_BY else None


def is_plain(value: Any) -> bool:
    """Whether a value is plain data of one of these packages."""
    package = package_of(type(value))
    return package is not None and known_by(package).is_plain(value)


def to_plain(value: Any) -> tuple[str, Any] | None:
    """The package of a value and what its `to_plain` returns, or None if there is no such."""
    package = package_of(type(value))
    if package is None or not (module := known_by(package)).is_plain(value):
        return None
    return package, module.to_plain(value)


def imported() -> Iterator[KnowsObjects]:
    """Those of the packages of which this process can have objects."""
    return (known_by(package) for package in KNOWN_BY if sys.modules.get(package) is not None)
