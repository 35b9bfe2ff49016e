"""Environments that report their task in infos."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.fakes import CountingEnv


class TaskedEnv(CountingEnv):
    """A `CountingEnv` that moves from task 0 to 1, 2, 0, ... with every reset if ``moves``."""

    def __init__(self, task: int, moves: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.task, self.moves, self.resets = task, moves, 0

    def get_task(self):
        return {"task": self.task}

    def set_task(self, task):
        self.task = task["task"]

    def reset(self, *, seed=None, options=None):
        if self.moves and self.resets:
            self.task = (self.task + 1) % 3
        self.resets += 1
        return super().reset(seed=seed, options=options)

    def _info(self):
        return {**super()._info(), "task_id": self.task}


def tasked_makers(**kwargs: Any) -> list[Any]:
    """Makes constructors of three tasks, whose episodes have 2, 3 and 4 steps."""
    return [
        partial(TaskedEnv, i, **{"length": n, "first": 10 * i, **kwargs})
        for i, n in enumerate((2, 3, 4))
    ]
