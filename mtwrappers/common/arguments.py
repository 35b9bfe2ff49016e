"""Explains calls with arguments that a function does not take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

from mtwrappers.common.checks import check_keywords
from mtwrappers.common.counts import format_count

_P = ParamSpec("_P")
_R = TypeVar("_R")


def explains_arguments(
    settings: Iterable[str] = (),
    *,
    example: str = "",
    hints: Mapping[str, str] | None = None,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator of a function: a call with unknown, misplaced or missing arguments names them.

    Of a constructor, which subclasses may inherit, the message names the class that was called.

    Args:
        settings: The names that the function takes as ``**settings``.
        example: If it takes any names, an argument for the message, such as ``"envs=envs"``.
        hints: The end of the message about names that are known elsewhere, or that are missing.

    >>> from mtwrappers.common.arguments import explains_arguments
    >>> @explains_arguments()
    ... def save(path, *, overwrite=False):
    ...     pass
    >>> save("a.json", True)
    Traceback (most recent call last):
    ...
    TypeError: save takes 1 positional argument (path), got 2: pass others by name: overwrite
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        parameters = [*inspect.signature(function).parameters.values()]
        # A method has its object first.
        positional = [
            parameter.name
            for parameter in parameters
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        visible = [name for name in positional if name != "self"]
        keywords = [
            parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
        ]
        keywords += settings
        required = [
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        accepted = {*visible, *keywords}

        def find_name(args: tuple[object, ...]) -> str:
            is_constructor = function.__name__ == "__init__"
            return type(args[0]).__name__ if is_constructor else function.__qualname__

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if len(args) > len(positional):
                listed = f" ({', '.join(visible)})" if visible else ""
                raise TypeError(
                    f"{find_name(args)} takes "
                    f"{format_count(len(visible), 'positional argument')}{listed}, got "
                    f"{len(args) - len(positional) + len(visible)}: pass others by name: "
                    f"{example or ', '.join(keywords)}"
                )
            if not example and not accepted.issuperset(kwargs):
                check_keywords(kwargs, accepted, find_name(args), hints)
            passed = {*positional[: len(args)], *kwargs}
            missing = [argument for argument in required if argument not in passed]
            if missing:
                hint = next((hints[name] for name in missing if hints and name in hints), "")
                message = f"{find_name(args)} needs {', '.join(missing)}"
                raise TypeError(f"{message}: {hint}" if hint else message)
            return function(*args, **kwargs)

        return checked

    return decorate
