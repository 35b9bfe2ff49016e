"""The task of an environment, tasks that it draws, and whether its seed determines them."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.tasks.updates import Env
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.journal import hash_value

# How often tasks are drawn to compare them: two draws among few tasks are often the same.
_DRAWS = 8


class TaskDraws:
    """Draws tasks from an environment that has ``sample_tasks``.

    The first draw after a seed is checked on other environments, so that it returns what it would
    without the check. There is a warning if they draw other tasks after the same seed, as an
    environment does whose ``sample_tasks`` draws from ``np.random``.

    Args:
        env: The environment to draw from.
        make_env: Makes other environments like it; if it returns ``env``, nothing is checked.
        seed: Seeds the environment at once; ``None`` leaves it as it is.
        way_out: The end of the warning.
    """

    def __init__(self, env: Env, make_env: Callable[[], Env], seed: int | None, way_out: str):
        self._env, self._make_env, self._way_out = env, make_env, way_out
        self._unchecked_seed = seed
        if seed is not None and env.has_wrapper_attr("sample_tasks"):
            seed_tasks(env, seed)

    def __call__(self, n: int) -> Any:
        """Draws ``n`` tasks."""
        sample: Any = self._env.get_wrapper_attr("sample_tasks")
        seed, self._unchecked_seed = self._unchecked_seed, None
        # Ours draw from their own streams, and some take seconds to make.
        is_ours = str(getattr(sample, "__module__", "")).startswith("mtwrappers.")
        if seed is not None and not is_ours and not self._is_determined(seed, n):
            warn_of_unseeded_tasks(self._env, seed, self._way_out)
        return sample(n)

    def _is_determined(self, seed: int, n: int) -> bool:
        """Whether a seed determines the tasks that a new environment draws, ``n`` at a time.

        An environment that cannot be made again, and tasks that are objects, cannot be compared.
        """
        with kept_random_states():
            try:
                with self._another_env() as env:
                    digests = _draw_after(env, seed, n)
                    if digests == _draw_after(env, seed, n):
                        return True
                # It may remember what it has drawn, in order to draw without replacement.
                with self._another_env() as env:
                    return digests == _draw_after(env, seed, n)
            except Exception:  # any class may refuse to be copied in any way
                return True

    @contextlib.contextmanager
    def _another_env(self) -> Iterator[Env]:
        """Makes another environment and closes it, or raises if it is the one to draw from."""
        env = self._make_env()
        if env.unwrapped is self._env.unwrapped:
            raise ValueError(f"expected another environment, got {env} again")
        with contextlib.closing(env):
            yield env


def seed_tasks(env: Env, seed: int) -> None:
    """Seeds the tasks that an environment draws, and draws none of them.

    An environment whose resets draw tasks would take the first task of a sweep.
    """
    if env.has_wrapper_attr("seed_task"):
        if env.has_wrapper_attr("seed"):
            env.get_wrapper_attr("seed")(seed)
        env.get_wrapper_attr("seed_task")(seed)
        return
    draws_on_reset = "sample_tasks_on_reset"
    if not env.has_wrapper_attr(draws_on_reset):
        env.reset(seed=seed)
        return
    was_on = env.get_wrapper_attr(draws_on_reset)
    env.set_wrapper_attr(draws_on_reset, False)
    try:
        env.reset(seed=seed)
    finally:
        env.set_wrapper_attr(draws_on_reset, was_on)


@read_only
def read_task(env: Env) -> Any:
    """The task of an environment; ``None`` if it does not tell it."""
    for name in ("get_task", "get_task_state"):
        if env.has_wrapper_attr(name):
            try:
                return env.get_wrapper_attr(name)()
            except TypeError:  # it takes arguments, so it is another method
                return None
    return None


def warn_of_unseeded_tasks(env: Any, seed: int, way_out: str) -> None:
    """Warns that ``sample_tasks`` draws other tasks after the same seed."""
    warnings.warn(
        f"sample_tasks of {env} draws other tasks after the same seed, so seed={seed} does not "
        "determine the tasks: let it draw from self.np_random, which reset(seed=...) seeds, "
        f"instead of np.random or another generator, {way_out}",
        stacklevel=find_stacklevel(),
    )


def _draw_after(env: Env, seed: int, n: int) -> list[int]:
    """Hashes of the tasks that an environment draws after a seed."""
    seed_tasks(env, seed)
    sample: Any = env.get_wrapper_attr("sample_tasks")
    digests: list[int] = []
    for _ in range(_DRAWS):
        try:
            tasks = sample(n)
        except Exception:  # there may be too few tasks for all draws
            break
        digests.append(digest_tasks(tasks))
    return digests


def digest_tasks(tasks: Any) -> int:
    """A hash of the numbers, texts and arrays in tasks, or in the attributes of tasks."""
    return hash_value([getattr(task, "__dict__", task) for task in tasks])


@contextlib.contextmanager
def kept_random_states() -> Iterator[None]:
    """Restores the global random states of ``random`` and ``np.random``."""
    states = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
