"""Optional dependencies, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from gymnasium.error import DependencyNotInstalled


def import_extra(module: str, extra: str) -> Any:
    """Imports ``module``, or raises an error that names the extra to install.

    Raises:
        DependencyNotInstalled: If the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is None or not (module + ".").startswith(exc.name + "."):
            raise
        raise DependencyNotInstalled(
            f"{module!r} is not installed; it comes with: pip install '.[{extra}]' in a clone of "
            "mtwrappers"
        ) from exc
