"""The exceptions of this package, and a way to say where one came from."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import cloudpickle


class SeedNotSetError(AssertionError):
    """A random stream was asked for a number before it was seeded.

    It is an ``AssertionError`` because that is what MTEnv raised, but it is raised under
    ``python -O`` too.
    """


class WorkerDiedError(RuntimeError):
    """A worker process died, or hung for longer than its timeout, and its steps are lost.

    The message names the worker, how it ended, its environments and their tasks.
    """


class NotDeterministicError(RuntimeError):
    """An environment that was told the same again did not show the same again."""


class WorkerTraceback(Exception):  # noqa: N818 (it is a cause, never raised itself)
    """The traceback of an exception in a worker, as the cause of the one raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def with_context(exc: Exception, where: str) -> Exception:
    """A copy of an exception, with a message that starts with ``where``: ``"environment 3"``.

    It is an instance of the type of ``exc`` and has all its fields (``args``, ``errno``,
    ``filename``, a class's own), so whoever catches ``exc`` catches and reads it as before. It
    pickles; fields that do not pickle are left behind then. A type that cannot be subclassed
    becomes a ``RuntimeError`` whose message names it.
    """
    kind = exc.kind if isinstance(exc, _Placed) else type(exc)
    return _build(kind, f"{where}: {str(exc) or kind.__name__}", _fields(exc))


class _Placed:
    """What an exception with context has besides its own type.

    No exception itself: the memory layout, and with it ``__new__``, is to be that of its own type.
    """

    __slots__ = ()
    kind: type[Exception]
    message: str

    def __str__(self) -> str:
        return self.message

    def __reduce_ex__(self, protocol: Any) -> Any:
        fields = {name: value for name, value in _fields(self).items() if _pickles(value)}
        return _build, (self.kind, self.message, fields)


def _build(kind: type[Exception], message: str, fields: dict[str, Any]) -> Exception:
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    try:
        placed: Any = type(kind.__name__, (_Placed, kind), names)
        # Not through its constructor, which may take any arguments and do anything with them.
        exc: Exception = placed.__new__(placed, *fields.get("args", ()))
    except Exception:  # a class that is final, or whose __new__ asks for more
        return RuntimeError(f"{message} ({kind.__name__})")
    for name, value in {**fields, "kind": kind, "message": message}.items():
        with contextlib.suppress(AttributeError, TypeError):  # a field that is read-only
            setattr(exc, name, value)
    return exc


def _fields(exc: Any) -> dict[str, Any]:
    """All that an exception holds: ``args``, its ``__dict__``, and what is in slots or in C."""
    fields = {}
    for cls in type(exc).__mro__:
        for name, member in vars(cls).items():
            if inspect.isdatadescriptor(member) and not name.startswith("__"):
                with contextlib.suppress(Exception):  # unset, or a property that raises
                    fields[name] = getattr(exc, name)
    return {**fields, **vars(exc)}


def _pickles(value: Any) -> bool:
    try:
        cloudpickle.loads(cloudpickle.dumps(value))
    except Exception:  # any class may refuse to be pickled in any way
        return False
    return True
