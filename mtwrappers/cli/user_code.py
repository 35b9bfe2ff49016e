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
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from mtwrappers.cli.console import UsageError
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import full_message
from mtwrappers.samplers.policies import PREDICT_EXAMPLE

# The module name of an imported FILE.py.
USER_MODULE = "user_file"


@dataclass(frozen=True)
class UserPolicy:
    """A policy of the user.

    Args:
        argument: Its place, as the command line names it.
        file: The file that defines it.
        policy: The policy.
    """

    argument: str
    file: str
    policy: Any


def load_policy(argument: str) -> UserPolicy:
    """Imports ``FILE.py:NAME`` or ``package.module:NAME``: a policy, or a factory of one.

    A factory is a function or class that needs no argument.

    Raises:
        UsageError: If the policy does not exist, or its import fails.
    """
    source, _, name = argument.rpartition(":")
    policy, file = load_object(argument, f"--policy {argument}")
    origin = f"{name!r} of {source}"
    if _is_factory(policy):
        origin = f"the result of {name}()"
        try:
            policy = policy()
        except (Exception, SystemExit) as exc:
            raise UsageError(
                f"--policy {argument}: {name}() failed: {_describe(exc, file)}"
            ) from None
    acts = callable(policy) or hasattr(policy, "get_actions")
    if isinstance(policy, type) or not acts:
        raise UsageError(
            f"--policy {argument}: {origin} must be a function from observations (N, O) to "
            f"actions (N, 4), such as {PREDICT_EXAMPLE}, or an object with get_actions, got "
            f"{policy!r}"
        )
    return UserPolicy(argument, file, policy)


def load_object(argument: str, label: str) -> tuple[Any, str]:
    """Returns the object ``FILE.py:NAME`` or ``package.module:NAME``, and its file.

    Raises:
        UsageError: If the import fails or lacks the object; the message begins with ``label``.
    """
    source, _, name = argument.rpartition(":")
    file, path = source, Path(source)
    if source.endswith(".py"):
        problem = "" if path.is_file() else f"there is no file {source!r}"
    else:
        is_path = path.name != source or path.is_file()
        problem = f"a path must end in .py, got {source!r}" if is_path else ""
    if problem:
        hint = did_you_mean(str(path), [str(other) for other in path.parent.glob("*.py")])
        raise UsageError(f"{label}: {problem}{f'; {hint}' if hint else ''}")
    try:
        if source.endswith(".py"):
            module = _run_file(path)
        else:
            sys.path.append(os.getcwd())
            module = importlib.import_module(source)
            file = module.__file__ or source
    except ModuleNotFoundError as exc:
        raise UsageError(f"{label}: {_describe(exc, file)}") from None
    except (Exception, SystemExit) as exc:  # the import runs the user's code
        raise UsageError(f"{label}: the import failed: {_describe(exc, file)}") from None
    if not hasattr(module, name):
        hint = did_you_mean(name, [public for public in vars(module) if public[0] != "_"])
        raise UsageError(f"{label}: {source} has no {name!r}{f'; {hint}' if hint else ''}")
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
def named_errors(user_policy: UserPolicy | None) -> Iterator[None]:
    """Adds the policy's name and line to errors that it raised or that its actions caused."""
    try:
        yield
    except Exception as exc:
        if user_policy is None or isinstance(exc, UsageError):
            raise
        # Invalid actions raise these types; errors of environments have notes.
        refused = type(exc) in (TypeError, ValueError) and not hasattr(exc, "__notes__")
        if not (refused or _find_line(exc, user_policy.file)):
            raise
        description = _describe(exc, user_policy.file)
        raise UsageError(f"--policy {user_policy.argument}: {description}") from None


def _run_file(path: Path) -> ModuleType:
    """Runs a file as the module `USER_MODULE`."""
    sys.path.append(str(path.resolve().parent))  # for imports of files beside it
    module = sys.modules[USER_MODULE] = ModuleType(USER_MODULE)
    module.__file__ = str(path)
    # Not imported: cached bytecode may be of a version that was saved in the same second.
    exec(compile(path.read_bytes(), path, "exec"), vars(module))
    return module


def _describe(exc: BaseException, file: str) -> str:
    """Describes an exception, with its line in a file."""
    line = _find_line(exc, file)
    place = f" ({file}, line {line})" if line else ""
    return f"{type(exc).__name__}: {full_message(exc)}{place}"


def _find_line(exc: BaseException, file: str) -> int | None:
    """Returns the line of a file that raised an exception, or ``None``."""
    path = os.path.realpath(file)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(exc.__traceback__)
        if os.path.realpath(frame.filename) == path
    ]
    return lines[-1] if lines else None
