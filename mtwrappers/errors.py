"""The exceptions of this package, and a way to say where one came from."""

from __future__ import annotations


class SeedNotSetError(AssertionError):
    """A random stream was asked for a number before it was seeded.

    It is an ``AssertionError`` because that is what MTEnv raised, but it is raised under
    ``python -O`` too.
    """


def with_context(exc: Exception, where: str) -> Exception:
    """An exception of the same type whose message starts with ``where``.

    Callers keep catching what they caught before, and the message names the offender. A type that
    cannot be built from one string becomes a ``RuntimeError``.
    """
    message = f"{where}: {exc}" if str(exc) else f"{where}: {type(exc).__name__}"
    try:
        named = type(exc)(message)
    except Exception:  # its class may take other arguments, and do anything with this one
        return RuntimeError(f"{where}: {type(exc).__name__}: {exc}")
    return named if message in str(named) else RuntimeError(f"{message} ({type(exc).__name__})")


class WorkerDiedError(RuntimeError):
    """A worker process died, or hung for longer than its time-out, and its steps are lost.

    The message names the worker, how it ended, its environments and their tasks.
    """


class WorkerTraceback(Exception):  # noqa: N818 (it is a cause, never raised itself)
    """The traceback of an exception in a worker, as the cause of the one raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"
