"""Renders the doctests of docstrings as code in the reference (an extension of griffe)."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a prompt to the next empty line, or the end.
_DOCTEST = re.compile(r"^( *)>>> (?:.*\n?)+?(?=^\s*$|\Z)", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around each doctest."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(_fenced, obj.docstring.value)


def _fenced(found: re.Match[str]) -> str:
    indent = found[1]
    return f"{indent}```pycon\n{found[0].rstrip()}\n{indent}```\n"
