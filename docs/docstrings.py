"""Renders the reference, an extension of griffe.

Doctests become code, and names become links. In signatures, aliases of types and constants of this
package are written out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

# From a prompt to the next empty line, or the end.
_DOCTEST = re.compile(r"^( *)>>> (?:.*\n?)+?(?=^\s*$|\Z)", re.MULTILINE)
# An entry of the reference; of a module perhaps with those of its members that are there.
_ENTRY = re.compile(r"^::: (\S+)(?:\n    options:\n      members: \[(.*)\])?$", re.MULTILINE)
# Where modules are described that have no entry.
_PAGES = {
    "mtwrappers.metaworld.text": "../guides/pixels.md",
    "mtwrappers.metaworld.observations": "../guides/pixels.md",
    "mtwrappers.samplers.path": "samplers.md#trajectories",
}
_NAME = re.compile(r"(?<![`\[])`([\w.]+)`(?!`)")


class Docstrings(griffe.Extension):
    """Puts a fence around each doctest, and a link on each name that the reference has.

    Writes out what a reader of a signature could not look up: ``Goals`` becomes
    ``Literal["list", "continuous"]``, and ``TIMEOUT`` its value.
    """

    def __init__(self) -> None:
        home = Path(__file__).parent / "api"
        for page in _PAGES.values():  # links that no builder checks
            (home / page.partition("#")[0]).resolve(strict=True)
        pages = "\n".join(page.read_text() for page in home.glob("*.md"))
        found = _ENTRY.findall(pages)
        self._entries = {entry.rpartition(".")[2]: entry for entry, _ in found}
        self._members = {f"{entry}.{name}" for entry, own in found for name in own.split(", ")}

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that has been read."""
        if obj.docstring is None:
            return

        def linked(found: re.Match[str]) -> str:
            if found[1] in _PAGES:
                return f"[{found[0]}]({_PAGES[found[1]]})"
            # `mtwrappers.evaluate`, or `Protocol.evaluate`
            parts = found[1].split(".")
            name = parts[-1] if parts[0] == "mtwrappers" else parts[0]
            its_own = parts[0] == name and name in (obj.name, obj.parent and obj.parent.name)
            beside = f"{obj.module.path}.{name}"
            entry = beside if beside in self._members else self._entries.get(name)
            return found[0] if its_own or entry is None else f"[{found[0]}][{entry}]"

        text = _NAME.sub(linked, obj.docstring.value)
        obj.docstring.value = _DOCTEST.sub(_fenced, text)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when the whole package has been read."""
        for obj in _objects(pkg):
            if isinstance(obj, griffe.Attribute):
                obj.annotation = _written_out(obj.annotation, pkg)
                if isinstance(obj.parent, griffe.Class):  # a field of a dataclass
                    obj.value = _written_out(obj.value, pkg)
            elif isinstance(obj, griffe.Function):
                obj.returns = _written_out(obj.returns, pkg)
                for parameter in obj.parameters:
                    parameter.annotation = _written_out(parameter.annotation, pkg)
                    parameter.default = _written_out(parameter.default, pkg)
                    if parameter.kind in _VARIADIC:
                        parameter.default = None  # of none that a caller could give


_VARIADIC = (griffe.ParameterKind.var_positional, griffe.ParameterKind.var_keyword)


def _objects(module: griffe.Module) -> Iterator[griffe.Object]:
    """Everything in a module, its classes and the modules below it."""
    for obj in module.members.values():
        if isinstance(obj, griffe.Object):
            yield obj
            if isinstance(obj, (griffe.Module, griffe.Class)):
                yield from _objects(obj)


def _written_out(value: Any, package: griffe.Module) -> Any:
    """A type or a default, with what this package's aliases and constants stand for."""
    if isinstance(value, list):
        return [_written_out(one, package) for one in value]
    if isinstance(value, (griffe.ExprName, griffe.ExprAttribute)):
        home, _, path = value.canonical_path.partition(".")
        try:
            known = package[path] if home == package.name else None
        except KeyError:
            return value
        if not isinstance(known, griffe.Attribute):
            return value
        if isinstance(known.value, str) and str(known.annotation) != "TypeAlias":
            return known.value  # a number or a text, as it stands in the code
        is_type = isinstance(known.value, (griffe.ExprSubscript, griffe.ExprBinOp))
        return _written_out(known.value, package) if is_type else value
    if not isinstance(value, griffe.Expr):
        return value
    fields = (field.name for field in dataclasses.fields(value))
    return dataclasses.replace(
        value, **{name: _written_out(getattr(value, name), package) for name in fields}
    )


def _fenced(found: re.Match[str]) -> str:
    indent = found[1]
    return f"{indent}```pycon\n{found[0].rstrip()}\n{indent}```\n"
