"""The contract of environments whose task is set from outside."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from mtwrappers.common.checks import positive
from mtwrappers.state.plain_data import copied
from mtwrappers.testing.checks import (
    check_episode,
    play,
    raises,
    require,
    same,
    untouched_random,
)

MAX_TASK_BYTES = 4096


def check_set_task_env(env: gymnasium.Env[Any, Any], *, seed: int = 3, steps: int = 10) -> None:
    """Checks that an environment keeps the set-task contract.

    ``sample_tasks(n)`` returns ``n`` small tasks, ``set_task(task)`` and ``get_task()`` agree, a
    switch needs a reset, seeds determine tasks and episodes, copies and pickles work on the same
    task, and nothing global or of the caller's is changed.

    Args:
        env: The environment; it is reset and stepped. It may have ``num_tasks``.
        seed: The seed to check with.
        steps: How many steps to take in an episode.

    Raises:
        AssertionError: At the first breach; the message says what was expected and what came.
        ValueError: If ``steps`` is not positive.
    """
    positive(steps, "steps")
    for name in ("sample_tasks", "set_task", "get_task"):
        require(callable(getattr(env, name, None)), f"{type(env).__name__} must have {name}()")
    task_env: Any = env
    with untouched_random():
        first = _check_sampling(task_env, seed)
        for task in first:
            _check_setting(task_env, task)
            require(
                same(play(env, seed, steps), play(env, seed, steps)),
                f"two reset(seed={seed}) on one task and the steps after them must agree",
            )
            check_episode(env, steps)
        _check_copies(task_env, seed, steps)
    present = copy.deepcopy(task_env.get_task())
    with raises(ValueError, "set_task of something that is no task"):
        task_env.set_task(object())
    require(same(present, task_env.get_task()), "a task that is refused must leave the present one")
    env.reset()


def _check_sampling(env: Any, seed: int) -> list[Any]:
    def draw(n: int) -> Any:
        env.reset(seed=seed)
        return env.sample_tasks(n)

    tasks: list[Any] = copied(draw(3))
    require(
        isinstance(tasks, list) and len(tasks) == 3,
        f"sample_tasks(3) must return a list of 3 tasks, got {tasks!r}",
    )
    require(same(tasks, draw(3)), f"reset(seed={seed}) must determine the tasks drawn next")
    num_tasks = getattr(env, "num_tasks", None)
    if num_tasks:
        different = len({pickle.dumps(task) for task in draw(num_tasks)})
        require(
            different == num_tasks,
            f"a sweep of {num_tasks} tasks must not repeat any, got {different} different",
        )
    size = max(len(pickle.dumps(task)) for task in tasks)
    require(
        size < MAX_TASK_BYTES, f"a task must pickle to under {MAX_TASK_BYTES} bytes, got {size}"
    )
    return tasks


def _check_setting(env: Any, task: Any) -> None:
    given = copy.deepcopy(task)
    env.set_task(task)
    require(same(task, given), "set_task must not change the task that it is given")
    require(
        same(env.get_task(), task),
        f"get_task() must be the task that was set, got {env.get_task()}",
    )
    with raises(ResetNeeded, "step() after set_task() without reset()"):
        env.step(env.action_space.sample())


def _check_copies(env: Any, seed: int, steps: int) -> None:
    expected = play(env, seed, steps)
    copies = {"copy.deepcopy": copy.deepcopy(env), "pickle": pickle.loads(pickle.dumps(env))}
    for how, other in copies.items():
        require(same(other.get_task(), env.get_task()), f"{how} must keep the task")
        require(
            same(play(other, seed, steps), expected),
            f"{how} must give an environment that plays the task as the original does",
        )
        other.close()
