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
    except Exception:
        return RuntimeError(f"{where}: {type(exc).__name__}: {exc}")
    return named if message in str(named) else RuntimeError(f"{message} ({type(exc).__name__})")
