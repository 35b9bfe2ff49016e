"""Renders docstrings in the reference, an extension of griffe: doctests as code, names as links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

# From a prompt to the next empty line, or the end.
_DOCTEST = re.compile(r"^( *)>>> (?:.*\n?)+?(?=^\s*$|\Z)", re.MULTILINE)
# An entry of the reference; of a module perhaps with those of its members that are there.
_ENTRY = re.compile(r"^::: (\S+)(?:\n    options:\n      members: \[(.*)\])?$", re.MULTILINE)
_NAME = re.compile(r"(?<![`\[])`([\w.]+)`(?!`)")


class Docstrings(griffe.Extension):
    """Puts a fence around each doctest, and a link on each name that the reference has."""

    def __init__(self) -> None:
        pages = "\n".join(page.read_text() for page in Path(__file__).parent.glob("api/*.md"))
        found = _ENTRY.findall(pages)
        self._entries = {entry.rpartition(".")[2]: entry for entry, _ in found}
        self._members = {f"{entry}.{name}" for entry, own in found for name in own.split(", ")}

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that has been read."""
        if obj.docstring is None:
            return

        def linked(found: re.Match[str]) -> str:
            # `mtwrappers.evaluate`, or `Protocol.evaluate`
            parts = found[1].split(".")
            name = parts[-1] if parts[0] == "mtwrappers" else parts[0]
            its_own = name in (obj.name, obj.parent and obj.parent.name)
            beside = f"{obj.module.path}.{name}"
            entry = beside if beside in self._members else self._entries.get(name)
            return found[0] if its_own or entry is None else f"[{found[0]}][{entry}]"

        text = _NAME.sub(linked, obj.docstring.value)
        obj.docstring.value = _DOCTEST.sub(_fenced, text)


def _fenced(found: re.Match[str]) -> str:
    indent = found[1]
    return f"{indent}```pycon\n{found[0].rstrip()}\n{indent}```\n"
