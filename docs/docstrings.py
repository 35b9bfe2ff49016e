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
# An entry of the reference; that of a module may list some of its members.
_ENTRY = re.compile(r"^::: (\S+)(?:\n    options:\n      members: \[(.*)\])?$", re.MULTILINE)
# The pages that describe modules without an entry.
_PAGES = {
    "mtwrappers.metaworld.text": "../guides/pixels.md",
    "mtwrappers.metaworld.observations": "../guides/pixels.md",
    "mtwrappers.samplers.path": "samplers.md#trajectories",
}
_NAME = re.compile(r"(?<![`\[])`([\w.]+)`(?!`)")


class Docstrings(griffe.Extension):
    """Adds a fence around each doctest, and a link to each name that the reference has.

    In signatures, it replaces names that a reader could not look up: ``Goals`` becomes
    ``Literal["list", "continuous"]``, and ``TIMEOUT`` its value.
    """

    def __init__(self) -> None:
        home = Path(__file__).parent / "api"
        for page in _PAGES.values():  # links that no builder checks
            (home / page.partition("#")[0]).resolve(strict=True)
        pages = "\n".join(page.read_text() for page in home.glob("*.md"))
        entries = _ENTRY.findall(pages)
        self._entries = {entry.rpartition(".")[2]: entry for entry, _ in entries}
        self._members = {
            f"{entry}.{name}" for entry, members in entries for name in members.split(", ")
        }

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that has been read."""
        if obj.docstring is None:
            return

        def add_link(match: re.Match[str]) -> str:
            code, path = match[0], match[1]
            if path in _PAGES:
                return f"[{code}]({_PAGES[path]})"
            # The last name of `mtwrappers.evaluate`, the first of `Protocol.evaluate`.
            names = path.split(".")
            name = names[-1] if names[0] == "mtwrappers" else names[0]
            # An object's docstring has no links to the object, or to its class.
            is_self = names[0] == name and name in (obj.name, obj.parent and obj.parent.name)
            member = f"{obj.module.path}.{name}"
            entry = member if member in self._members else self._entries.get(name)
            return code if is_self or entry is None else f"[{code}][{entry}]"

        text = _NAME.sub(add_link, obj.docstring.value)
        obj.docstring.value = _DOCTEST.sub(_add_fence, text)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when the whole package has been read."""
        for obj in _objects(pkg):
            if isinstance(obj, griffe.Attribute):
                obj.annotation = _expand(obj.annotation, pkg)
                if isinstance(obj.parent, griffe.Class):  # a field of a dataclass
                    obj.value = _expand(obj.value, pkg)
            elif isinstance(obj, griffe.Function):
                obj.returns = _expand(obj.returns, pkg)
                for parameter in obj.parameters:
                    parameter.annotation = _expand(parameter.annotation, pkg)
                    parameter.default = _expand(parameter.default, pkg)
                    if parameter.kind in _VARIADIC:
                        parameter.default = None  # griffe's default of *args and **kwargs


_VARIADIC = (griffe.ParameterKind.var_positional, griffe.ParameterKind.var_keyword)


def _objects(module: griffe.Module) -> Iterator[griffe.Object]:
    """Everything in a module, its classes and the modules below it."""
    for obj in module.members.values():
        if isinstance(obj, griffe.Object):
            yield obj
            if isinstance(obj, (griffe.Module, griffe.Class)):
                yield from _objects(obj)


def _expand(value: Any, package: griffe.Module) -> Any:
    """Replaces the aliases and constants of this package in a type or a default by their values."""
    if isinstance(value, list):
        return [_expand(item, package) for item in value]
    if isinstance(value, (griffe.ExprName, griffe.ExprAttribute)):
        home, _, path = value.canonical_path.partition(".")
        try:
            obj = package[path] if home == package.name else None
        except KeyError:
            return value
        if not isinstance(obj, griffe.Attribute):
            return value
        if isinstance(obj.value, str) and str(obj.annotation) != "TypeAlias":
            return obj.value  # a number or a text, as it stands in the code
        is_type = isinstance(obj.value, (griffe.ExprSubscript, griffe.ExprBinOp))
        return _expand(obj.value, package) if is_type else value
    if not isinstance(value, griffe.Expr):
        return value
    fields = (field.name for field in dataclasses.fields(value))
    return dataclasses.replace(
        value, **{name: _expand(getattr(value, name), package) for name in fields}
    )


def _add_fence(match: re.Match[str]) -> str:
    indent = match[1]
    return f"{indent}```pycon\n{match[0].rstrip()}\n{indent}```\n"
