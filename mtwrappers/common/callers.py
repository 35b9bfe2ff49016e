"""The place that a warning names: the user's line, however many of our functions are between."""

from __future__ import annotations

import sys
from types import FrameType

# The modules of frames that are passed over: this package's, and in between those of `with` and of
# Gymnasium's `make`.
_PASSED_OVER = ("mtwrappers.", "contextlib", "gymnasium.envs.registration")


def find_stacklevel() -> int:
    """The ``stacklevel`` for `warnings.warn` in the calling function.

    With it, the warning names the innermost frame that is neither in this package nor in
    Gymnasium's `make`. (Python 3.12 has ``skip_file_prefixes`` for that.)
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _module_name(frame).startswith(_PASSED_OVER):
        frame, level = frame.f_back, level + 1
    return level


def _module_name(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")  # code that `exec` runs may have none
    return name
