import pytest

from mtwrappers import SeedNotSetError, WorkerDiedError
from mtwrappers.errors import WorkerTraceback, with_context


def test_a_seed_that_is_not_set_is_an_assertion_error():
    assert issubclass(SeedNotSetError, AssertionError)


def test_a_dead_worker_is_a_runtime_error():
    assert issubclass(WorkerDiedError, RuntimeError)


def test_the_traceback_of_a_worker_begins_on_a_line_of_its_own():
    assert str(WorkerTraceback("Traceback: here")) == "\nTraceback: here"


@pytest.mark.parametrize("kind", [ValueError, TypeError, OSError, ImportError, SeedNotSetError])
def test_an_error_keeps_its_type_and_its_message_starts_with_the_place(kind):
    named = with_context(kind("it broke"), "task 3")
    assert type(named) is kind
    assert str(named) == "task 3: it broke"


def test_an_error_without_a_message_is_named_by_its_type():
    named = with_context(RecursionError(), "task 3")
    assert type(named) is RecursionError
    assert str(named) == "task 3: RecursionError"


def test_a_key_error_keeps_its_type_although_it_quotes_its_message():
    named = with_context(KeyError("goal"), "task 3")
    assert type(named) is KeyError
    assert named.args == ("task 3: 'goal'",)


def test_an_error_that_takes_more_than_a_message_becomes_a_runtime_error():
    original = UnicodeDecodeError("ascii", b"\xff", 0, 1, "no such letter")
    named = with_context(original, "task 3")
    assert type(named) is RuntimeError
    assert str(named) == (
        "task 3: UnicodeDecodeError: 'ascii' codec can't decode byte 0xff in position 0: "
        "no such letter"
    )


class SilentError(Exception):
    def __str__(self):
        return "always the same"


def test_an_error_that_would_lose_the_place_becomes_a_runtime_error():
    named = with_context(SilentError("unseen"), "task 3")
    assert type(named) is RuntimeError
    assert str(named) == "task 3: always the same (SilentError)"


def test_the_original_error_is_not_changed():
    original = ValueError("it broke")
    with_context(original, "task 3")
    assert str(original) == "it broke"
