import pickle
from functools import partial

import cloudpickle
import gymnasium
import pytest

from mtwrappers import PointGoalEnv
from mtwrappers.common.errors import full_message, picklable, with_place


class CodedError(Exception):
    """Takes two arguments, writes its own message, and keeps a field."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __str__(self):
        return f"code {self.code}"


class ForgetfulError(Exception):
    """Pickles without its notes."""

    def __reduce__(self):
        return ForgetfulError, self.args


class FinalError(CodedError):
    """Cannot be made without its constructor."""

    def __new__(cls, code: int, message: str):
        return super().__new__(cls, message)


def catch(call):
    try:
        call()
    except Exception as exc:
        return exc


def raise_error(exc):
    raise exc


@pytest.mark.parametrize(
    ("exc", "message", "fields"),
    [
        (RecursionError(), "", {}),
        (KeyError("goal"), "'goal'", {}),
        (ImportError("no x", name="x", path="p"), "no x", {"name": "x", "path": "p"}),
        (
            FileNotFoundError(2, "No such file", "goal.xml"),
            "[Errno 2] No such file: 'goal.xml'",
            {"errno": 2, "strerror": "No such file", "filename": "goal.xml"},
        ),
        (CodedError(7, "it broke"), "code 7", {"code": 7}),
        (ForgetfulError("it broke"), "it broke", {}),
    ],
)
def test_an_exception_of_an_environment_stays_what_it_is_here_and_elsewhere(exc, message, fields):
    kind, args = type(exc), exc.args
    noted = with_place(catch(partial(raise_error, exc)), "task 3")
    assert with_place(noted, "task 3") is exc  # which an environment may raise twice
    for error in (exc, pickle.loads(cloudpickle.dumps(picklable(exc)))):
        assert (type(error), str(error), error.args, error.__notes__) == (
            kind,
            message,
            args,
            ["task 3"],
        )
        assert {name: getattr(error, name) for name in fields} == fields
        assert full_message(error) == f"task 3: {message or kind.__name__}"


def test_a_full_message_is_one_line():
    exc = with_place(ValueError("expected\n    a  goal,\n\n got None\n"), "task 3")
    assert full_message(exc) == "task 3: expected a  goal, got None"


def test_the_message_of_an_error_of_ours_begins_with_its_place():
    exc = catch(partial(PointGoalEnv().step, [0, 0]))
    with_place(with_place(exc, "task 3"), "environment 1")
    assert type(exc) is gymnasium.error.ResetNeeded
    assert str(exc).startswith("environment 1: task 3: call reset")
    assert not hasattr(exc, "__notes__")
    assert full_message(exc) == str(exc) == str(pickle.loads(pickle.dumps(exc)))


def test_an_exception_that_cannot_be_built_anew_arrives_as_a_runtime_error_that_names_it():
    exc = picklable(with_place(FinalError(7, "it broke"), "task 3"))
    assert type(exc) is RuntimeError
    assert full_message(exc) == "task 3: FinalError: code 7"
