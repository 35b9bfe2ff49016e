"""The exceptions of this package, and notes on where an exception came from.

An exception of an environment is raised unchanged; a note says that it came from environment 3 (see
`BaseException.add_note`). An exception that this package itself raised has the place in its message
instead, for programs that read only messages.
"""

from __future__ import annotations

import contextlib
import pickle
import re
from typing import Any, TypeVar

import cloudpickle
import gymnasium

E = TypeVar("E", bound=BaseException)
# Modules whose exceptions are our own. Gymnasium's vector environments batch infos for ours.
_OURS = ("mtwrappers.", "gymnasium.vector.")
# Invisible characters that `str.isprintable` accepts: letters and marks that draw nothing
# (Default_Ignorable_Code_Point of Unicode 15.1), and Braille's blank.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)


class SeedNotSetError(AssertionError):
    """A random stream was used before it was seeded.

    It is an ``AssertionError`` for compatibility with MTEnv, and is raised under ``python -O`` too.
    """


class WorkerDiedError(RuntimeError):
    """A worker process died, or hung for longer than its timeout, and its episodes are lost.

    The message names the worker, how it ended, its environments and their tasks.
    """


class NotDeterministicError(RuntimeError):
    """An environment returned different values when the same calls were repeated."""


class WorkerTraceback(Exception):  # noqa: N818 (it is a cause, never raised itself)
    """The traceback of a worker's exception, as the cause of the exception raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def printable(text: str, most: int | None = None) -> str:
    r"""Escapes an untrusted text so that it is safe to print on a terminal.

    It escapes control characters (which move the cursor and erase), characters that change the
    direction of writing, have no width or draw nothing, lone surrogates, and all white space but
    the space. Other characters are kept. Only the first ``most`` characters are printed.

    >>> from mtwrappers.common.errors import printable
    >>> print(printable("naïve 技 \x1b[2K\u202everified\u200b"))
    naïve 技 \x1b[2K\u202everified\u200b
    """
    if most is not None and len(text) > most:
        return f"{printable(text[:most])}..."
    if is_printable(text):
        return text
    return "".join(char if is_printable(char) else ascii(char)[1:-1] for char in text)


def short(value: Any, most: int = 120) -> str:
    """The first ``most`` characters of the ``repr`` of a value, for a message."""
    text = repr(value)
    return text if len(text) <= most else f"{' '.join(text[:most].split())}..."


def is_printable(text: str) -> bool:
    """Whether `printable` leaves a text as it is."""
    return text.isprintable() and _INVISIBLE.search(text) is None


def with_place(exc: E, where: str) -> E:
    """Adds the place where a caught exception came from, such as ``"environment 3"``.

    If this package raised it, the place is put in front of its message. Any other exception gets a
    note and is not changed otherwise.

    Returns:
        The same object, like `BaseException.with_traceback`.
    """
    if is_ours(exc) and exc.args == (str(exc),):
        exc.args = (f"{where}: {exc}",)
    elif where not in _notes(exc):  # an environment may raise the same object twice
        with contextlib.suppress(Exception):  # such as a frozen dataclass
            exc.add_note(where)
    return exc


def full_message(exc: BaseException) -> str:
    """The message of an exception in one line, with its notes: ``"environment 3: it broke"``."""
    text = ": ".join([*reversed(_notes(exc)), str(exc) or type(exc).__name__])
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def warn_about_close(exc: BaseException) -> None:
    """Warns of an environment that could not be closed."""
    gymnasium.logger.warn(f"could not be closed, {full_message(exc)} ({type(exc).__name__})")


def picklable(exc: BaseException) -> Any:
    """Returns ``exc``, or an object that unpickles as a similar exception.

    An exception that does not survive pickling with its notes is rebuilt from its class, its
    ``args`` and its picklable attributes. If that fails too, it becomes a ``RuntimeError`` whose
    message names its class.
    """
    for candidate in (exc, _Rebuilt(exc)):
        with contextlib.suppress(Exception):  # any class may refuse to be pickled in any way
            arrived = pickle.loads(cloudpickle.dumps(candidate))
            if isinstance(arrived, BaseException) and _notes(arrived) == _notes(exc):
                return candidate
    substitute = RuntimeError(f"{type(exc).__name__}: {exc}")
    for note in _notes(exc):
        substitute.add_note(note)
    return substitute


class _Rebuilt:
    """Pickles as an exception that does not pickle itself."""

    def __init__(self, exc: BaseException) -> None:
        self._exc = exc

    def __reduce__(self) -> Any:
        exc = self._exc
        fields = {name: value for name, value in vars(exc).items() if _pickles(value)}
        return _rebuild, (type(exc), exc.args, fields)


def _rebuild(cls: type[Exception], args: tuple[Any, ...], fields: dict[str, Any]) -> Exception:
    # Its constructor is not called, because it may take other arguments than `args`.
    exc = cls.__new__(cls, *args)
    exc.args = args
    vars(exc).update(fields)
    return exc


def _pickles(value: Any) -> bool:
    try:
        pickle.loads(cloudpickle.dumps(value))
    except Exception:  # any class may refuse to be pickled in any way
        return False
    return True


def _notes(exc: BaseException) -> list[str]:
    return getattr(exc, "__notes__", [])


def is_ours(exc: BaseException) -> bool:
    """Whether this package raised the exception, and not an environment."""
    frame = exc.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(_OURS)
