"""``FILE.py:NAME`` and ``package.module:NAME``: the user's policies and environments."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from mtwrappers.cli.console import UsageError
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import full_message

# The module name of an imported FILE.py.
OWN_FILE = "own_file"


class Own(NamedTuple):
    """A policy of the user."""

    given: str  # on the command line
    file: str  # that defines the policy
    policy: Any


def load_policy(given: str) -> Own:
    """Imports ``FILE.py:NAME`` or ``package.module:NAME``: a policy, or a factory of one.

    A factory is a function or class that needs no argument.

    Raises:
        UsageError: If the policy does not exist, or its import fails.
    """
    source, _, name = given.rpartition(":")
    policy, file = own_object(given, f"--policy {given}")
    made = ""
    if _is_factory(policy):
        try:
            policy, made = policy(), f"the result of {name}()"
        except (Exception, SystemExit) as exc:
            raise UsageError(
                f"--policy {given}: {name}() failed: {_described(exc, file)}"
            ) from None
    acts = callable(policy) or hasattr(policy, "get_actions")
    if isinstance(policy, type) or not acts:
        raise UsageError(
            f"--policy {given}: {made or f'{name!r} of {source}'} must be a function from "
            "observations (N, O) to actions (N, 4), such as lambda obs: model.predict(obs)[0], or "
            f"an object with get_actions, got {policy!r}"
        )
    return Own(given, file, policy)


def own_object(given: str, what: str) -> tuple[Any, str]:
    """Returns the object ``FILE.py:NAME`` or ``package.module:NAME``, and its file.

    Raises:
        UsageError: If the import fails or lacks the object; the message begins with ``what``.
    """
    source, _, name = given.rpartition(":")
    file = source
    if source.endswith(".py") and not Path(source).is_file():
        beside = [str(path) for path in Path(source).parent.glob("*.py")]
        hint = did_you_mean(source, beside)
        raise UsageError(f"{what}: there is no file {source!r}{f'; {hint}' if hint else ''}")
    try:
        if source.endswith(".py"):
            module = _module_of_file(Path(source))
        else:
            sys.path.append(os.getcwd())
            module = importlib.import_module(source)
            file = module.__file__ or source
    except ModuleNotFoundError as exc:
        raise UsageError(f"{what}: {_described(exc, file)}") from None
    except (Exception, SystemExit) as exc:  # the import runs the user's code
        raise UsageError(f"{what}: the import failed: {_described(exc, file)}") from None
    if not hasattr(module, name):
        hint = did_you_mean(name, [known for known in vars(module) if known[0] != "_"])
        raise UsageError(f"{what}: {source} has no {name!r}{f'; {hint}' if hint else ''}")
    return getattr(module, name), file


def _is_factory(candidate: Any) -> bool:
    """Whether it is a function or a class that needs no arguments; any other object is a policy.

    So is a function of ``*args``, which may pass them on to a policy.
    """
    is_class = isinstance(candidate, type)
    try:
        function = candidate if is_class else inspect.unwrap(candidate)
        signature = inspect.signature(candidate)
        signature.bind()
    except (TypeError, ValueError):  # ValueError: no signature
        return False
    if not (is_class or inspect.isroutine(function) or isinstance(function, functools.partial)):
        return False
    return is_class or not any(
        parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.parameters.values()
    )


@contextlib.contextmanager
def own_errors(own: Own | None) -> Iterator[None]:
    """Adds the policy's name and line to errors that it raised or that its actions caused."""
    try:
        yield
    except Exception as exc:
        # Invalid actions raise these types; errors of environments have notes.
        refused = type(exc) in (TypeError, ValueError) and not hasattr(exc, "__notes__")
        if own is None or isinstance(exc, UsageError) or not (refused or _line(exc, own.file)):
            raise
        raise UsageError(f"--policy {own.given}: {_described(exc, own.file)}") from None


def _module_of_file(path: Path) -> ModuleType:
    sys.path.append(str(path.resolve().parent))  # for imports of files beside it
    module = sys.modules[OWN_FILE] = ModuleType(OWN_FILE)
    module.__file__ = str(path)
    # Not imported: cached bytecode may be of a version that was saved in the same second.
    exec(compile(path.read_bytes(), path, "exec"), vars(module))
    return module


def _described(exc: BaseException, file: str) -> str:
    """Describes an exception, with its line in a file."""
    line = _line(exc, file)
    where = f" ({file}, line {line})" if line else ""
    return f"{type(exc).__name__}: {full_message(exc)}{where}"


def _line(exc: BaseException, file: str) -> int | None:
    """Returns the line of a file that raised an exception, or ``None``."""
    frames, own = traceback.extract_tb(exc.__traceback__), os.path.realpath(file)
    lines = [frame.lineno for frame in frames if os.path.realpath(frame.filename) == own]
    return lines[-1] if lines else None
