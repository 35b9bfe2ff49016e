"""The place that a warning names: the user's line, however many of our functions are between."""

from __future__ import annotations

import sys

# The modules of frames that are passed over: this package's, and those of `with` in between.
_PASSED_OVER = ("mtwrappers.", "contextlib")


def find_stacklevel() -> int:
    """The ``stacklevel`` for `warnings.warn` in the calling function.

    With it, the warning names the innermost frame outside this package. (Python 3.12 has
    ``skip_file_prefixes`` for that.)
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(_PASSED_OVER):
        frame, level = frame.f_back, level + 1
    return level
