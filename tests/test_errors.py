import pickle
import threading

import numpy as np
import pytest

from mtwrappers import SeedNotSetError, WorkerDiedError
from mtwrappers.errors import with_context


class CodedError(Exception):
    """Takes two arguments, writes its own message, and keeps a field and something unpicklable."""

    def __init__(self, code: int, what: str) -> None:
        super().__init__(what)
        self.code = code
        self.lock = threading.Lock()

    def __str__(self):
        return f"code {self.code}"


class FinalError(Exception):
    def __init_subclass__(cls):
        raise TypeError("no subclasses")


def test_our_errors_are_those_that_callers_may_catch():
    assert issubclass(SeedNotSetError, AssertionError)
    assert issubclass(WorkerDiedError, RuntimeError)


@pytest.mark.parametrize(
    ("exc", "message", "fields"),
    [
        (ValueError("it broke"), "task 3: it broke", {"args": ("it broke",)}),
        (RecursionError(), "task 3: RecursionError", {}),
        (MemoryError("no room"), "task 3: no room", {"args": ("no room",)}),
        (KeyError("goal"), "task 3: 'goal'", {"args": ("goal",)}),
        (SeedNotSetError("no seed"), "task 3: no seed", {}),
        (ImportError("no x", name="x", path="p"), "task 3: no x", {"name": "x", "path": "p"}),
        (
            FileNotFoundError(2, "No such file", "goal.xml"),
            "task 3: [Errno 2] No such file: 'goal.xml'",
            {"errno": 2, "strerror": "No such file", "filename": "goal.xml"},
        ),
        (
            UnicodeDecodeError("ascii", b"\xff", 0, 1, "no such letter"),
            "task 3: 'ascii' codec can't decode byte 0xff in position 0: no such letter",
            {"encoding": "ascii", "object": b"\xff", "start": 0, "reason": "no such letter"},
        ),
        (CodedError(7, "it broke"), "task 3: code 7", {"code": 7, "args": ("it broke",)}),
    ],
)
def test_an_error_keeps_its_type_and_its_fields_and_its_message_starts_with_the_place(
    exc, message, fields
):
    kind, before = type(exc), (str(exc), exc.args)
    named = with_context(exc, "task 3")
    for one in (named, pickle.loads(pickle.dumps(named))):
        assert isinstance(one, kind)
        assert type(one).__qualname__ == kind.__qualname__
        assert str(one) == message
        assert {name: getattr(one, name) for name in fields} == fields
    assert (str(exc), exc.args) == before


def test_places_add_up_and_what_does_not_pickle_stays_behind():
    named = with_context(with_context(CodedError(7, "x"), "task 3"), "environment 1")
    assert named.lock
    other = pickle.loads(pickle.dumps(named))
    assert str(other) == str(named) == "environment 1: task 3: code 7"
    assert not hasattr(other, "lock")


def test_an_allocation_that_fails_stays_a_memory_error():
    with pytest.raises(MemoryError) as failed:
        np.zeros(2**55)
    named = with_context(failed.value, "task 3")
    assert isinstance(named, type(failed.value))
    assert str(named).startswith("task 3: Unable to allocate")


def test_an_error_that_cannot_be_subclassed_becomes_a_runtime_error_that_names_it():
    named = with_context(FinalError("it broke"), "task 3")
    assert type(named) is RuntimeError
    assert str(named) == "task 3: it broke (FinalError)"
