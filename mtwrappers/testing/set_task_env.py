"""Checks of the set-task contract."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import closing
from typing import Any

from gymnasium.error import ResetNeeded

from mtwrappers.state.plain_data import copied
from mtwrappers.testing.difference import same
from mtwrappers.testing.report import must_raise, require
from mtwrappers.testing.seeds import untouched_random
from mtwrappers.testing.subject import Subject
from mtwrappers.testing.workers import require_same_copy

MAX_TASK_BYTES = 4096
_TASKS = 3


def methods(subject: Subject) -> str:
    """It has the methods of the contract."""
    names = ("sample_tasks", "set_task", "get_task")
    for name in names:
        require(callable(getattr(subject.given, name, None)), f"{subject.name} must have {name}()")
    return ", ".join(names)


def sampling(subject: Subject) -> str:
    """``sample_tasks(n)`` draws ``n`` small tasks, which the seed determines."""
    env, seed = subject.given, subject.seed

    def draw(n: int) -> Any:
        env.reset(seed=seed)
        return env.sample_tasks(n)

    with untouched_random("sample_tasks"):
        tasks: list[Any] = copied(draw(_TASKS))
        require(
            isinstance(tasks, list) and len(tasks) == _TASKS,
            f"sample_tasks({_TASKS}) must return a list of {_TASKS} tasks, got {tasks!r}",
        )
        require(
            same(tasks, draw(_TASKS)), f"reset(seed={seed}) must determine the tasks drawn next"
        )
        if num_tasks := getattr(env, "num_tasks", None):
            different = len({pickle.dumps(task) for task in draw(num_tasks)})
            require(
                different == num_tasks,
                f"a sweep of {num_tasks} tasks must not repeat any, got {different} different",
            )
    size = max(len(pickle.dumps(task)) for task in tasks)
    require(
        size < MAX_TASK_BYTES, f"a task must pickle to under {MAX_TASK_BYTES} bytes, got {size}"
    )
    subject.kept["tasks"] = [(task, _on_task(subject)) for task in tasks]
    return f"{len(tasks)} tasks, of at most {size} bytes"


def _on_task(subject: Subject) -> Subject:
    """The same environment, with recordings of its own."""
    return Subject(
        subject.make,
        subject.name,
        False,
        seed=subject.seed,
        steps=subject.steps,
        given=subject.given,
    )


def setting(subject: Subject) -> str:
    """``get_task`` returns the task that was set, and a step needs a reset first."""
    env = subject.given
    for task, _ in subject.kept["tasks"]:
        given = copy.deepcopy(task)
        with untouched_random("set_task"):
            env.set_task(given)
        require(same(task, given), "set_task must not change the task that it is given")
        actual = env.get_task()
        require(
            same(task, actual), f"get_task() must be the task that was set, {task}, got {actual}"
        )
        with must_raise(ResetNeeded, "step() after set_task() without reset()"):
            env.step(subject.actions(env, 1)[0])
    return "a task that is set is returned, and needs a reset"


def on_each_task(check: Callable[[Subject], str]) -> Callable[[Subject], str]:
    """Runs a check on each sampled task."""

    def checked(subject: Subject) -> str:
        says = []
        for task, on_task in subject.kept["tasks"]:
            subject.given.set_task(copy.deepcopy(task))
            says.append(check(on_task))
        return says[-1]

    return checked


def copies(subject: Subject) -> str:
    """Copies and pickles are on the same task and run the same."""
    env = subject.given
    task, on_task = subject.kept["tasks"][-1]
    made: dict[str, Callable[[Any], Any]] = {
        "copy.deepcopy": copy.deepcopy,
        "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    }
    for how, make in made.items():
        with closing(make(env)) as other:
            actual = other.get_task()
            require(same(task, actual), f"{how} must keep the task, {task}, got {actual}")
            require_same_copy(on_task, other, f"a copy made by {how}")
    return f"{' and '.join(made)} keep the task and run the same"


def refusal(subject: Subject) -> str:
    """An object that is not a task is refused, and the current task stays."""
    env = subject.given
    present = copy.deepcopy(env.get_task())
    with must_raise(ValueError, "set_task of something that is not a task"):
        env.set_task(object())
    actual = env.get_task()
    require(
        same(present, actual),
        f"a task that is refused must leave the current one, {present}, got {actual}",
    )
    return "an object that is not a task is refused"
