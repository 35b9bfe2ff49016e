"""Multi-task and meta-RL environments on Gymnasium and Meta-World.

Importing it registers its ids with Gymnasium, and nothing more: every name is loaded on first use.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from mtwrappers.registration import register_all

__version__ = "0.1.0"

# The stub beside this file is the list of public names, for type checkers and for us.
_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOME = {name: home for home, name in re.findall(r"from (\S+) import[\s(]+(\w+) as", _STUB)}
__all__ = sorted(name for name, home in _HOME.items() if home != __name__)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    if home == __name__:
        return importlib.import_module(f"{home}.{name}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


register_all()
