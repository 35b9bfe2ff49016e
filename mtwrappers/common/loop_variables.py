"""Lambdas from a loop, which all read the last value of its variable when they are called."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from mtwrappers.common.callers import find_stacklevel


def warn_of_loop_variables(makers: Iterable[Any], name: str) -> None:
    """Warns if constructors are one function that reads the variable of a loop.

    Such as ``[lambda: gymnasium.make("Pendulum-v1", g=g) for g in (8.0, 10.0)]``, where both
    constructors make an environment with ``g=10.0``. Functions that differ in what they have from
    their definition, such as the default of an argument, are several.

    Args:
        makers: The constructors.
        name: The name of their list.
    """
    places: dict[tuple[Any, ...], dict[int, int]] = {}
    functions: dict[tuple[Any, ...], FunctionType] = {}
    for place, maker in enumerate(makers):
        if isinstance(maker, FunctionType):
            constants = (*(maker.__defaults__ or ()), *(maker.__kwdefaults__ or {}).values())
            key = maker.__code__, *map(id, constants), *map(id, maker.__closure__ or ())
            places.setdefault(key, {}).setdefault(id(maker), place)
            functions[key] = maker
    for key, first_places in places.items():
        if len(first_places) > 1 and (variables := _loop_variables(functions[key])):
            variable = sorted(variables)[0]
            warnings.warn(
                f"constructors {[*first_places.values()]} of {name} are one function, which reads "
                f"the variable {variable!r} of a loop only when it is called, so all make the "
                f"environment of its last value: write lambda {variable}={variable}: ..., or "
                "functools.partial",
                stacklevel=find_stacklevel(),
            )


def _loop_variables(function: FunctionType) -> set[str]:
    """The variables that a function reads of the innermost loop around its definition.

    Variables of outer loops are not meant: a list that is made anew in each of their rounds is
    usually used in the same round.
    """
    code = function.__code__
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    try:
        tree = ast.parse(source)
    except SyntaxError:  # such as a magic command of a notebook
        tree = ast.Module([], [])
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    definitions = [node for node in parents if _first_line(node) == code.co_firstlineno]
    if not definitions:  # no source, as in an interactive session, or that of another text
        return {*code.co_freevars}
    variables: set[str] = set()
    for definition in definitions:
        loop = parents[definition]
        while loop in parents and not _targets(loop):
            loop = parents[loop]
        variables |= _targets(loop)
    return variables & {*code.co_freevars, *code.co_names}


def _first_line(node: ast.AST) -> int | None:
    """The line at which a function begins, with its decorators; ``None`` for any other node."""
    if isinstance(node, ast.Lambda):
        return node.lineno
    if isinstance(node, ast.FunctionDef):
        return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return None


def _targets(node: ast.AST) -> set[str]:
    """The variables of a loop or comprehension."""
    loops: list[Any] = [node] if isinstance(node, ast.For) else getattr(node, "generators", [])
    targets = [target for loop in loops for target in ast.walk(loop.target)]
    return {target.id for target in targets if isinstance(target, ast.Name)}
