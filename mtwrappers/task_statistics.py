"""Running means and variances, one for each task, that can be saved and restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.checks import positive

# As in Gymnasium's RunningMeanStd: a variance of one that counts as a ten-thousandth of a sample.
PRIOR_COUNT = 1e-4


def declared_tasks(
    has: Callable[[str], bool], get: Callable[[str], Any]
) -> tuple[int | None, Sequence[str] | None]:
    """How many values ``info["task_id"]`` has in an environment, and their names, if it says so.

    Args:
        has: Whether the environment has an attribute.
        get: The value of that attribute.
    """
    names = get("task_names") if has("task_names") else None
    if names is not None:
        return len(names), tuple(names)
    if has("n_total_tasks"):
        return int(get("n_total_tasks")), None
    return (max(get("task_ids")) + 1 if has("task_ids") else None), None


class TaskStatistics:
    """The mean and variance of what was seen of each task.

    Attributes:
        mean: Shape ``(num_tasks, *shape)``, float64.
        m2: The sums of squared deviations from the mean (Welford 1962), likewise.
        count: How many samples, shape ``(num_tasks,)`` with a 1 for each axis of ``shape``.

    Args:
        kind: What is counted; a state of another kind is refused.
        num_tasks: How many tasks.
        task_names: Their names, if known; a state of tasks with other names is refused.
        shape: Of a sample.
    """

    def __init__(
        self,
        kind: str,
        num_tasks: int,
        task_names: Sequence[str] | None,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.kind = kind
        self.num_tasks = positive(num_tasks, "num_tasks")
        named = task_names is not None and len(task_names) == self.num_tasks
        self.task_names = list(task_names) if named and task_names is not None else None
        self.count = np.full((self.num_tasks,) + (1,) * len(shape), PRIOR_COUNT)
        self.mean = np.zeros((self.num_tasks, *shape))
        self.m2 = np.full_like(self.mean, PRIOR_COUNT)

    def get_state(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "kind": self.kind,
            "num_tasks": self.num_tasks,
            "task_names": None if self.task_names is None else list(self.task_names),
            "count": self.count.ravel().tolist(),
            "mean": self.mean.tolist(),
            "m2": self.m2.tolist(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes what `get_state` returned, in place.

        Raises:
            ValueError: If it is of another kind, of other tasks, or of other sizes.
        """
        for key, expected in (("kind", self.kind), ("num_tasks", self.num_tasks)):
            if state.get(key) != expected:
                raise ValueError(
                    f"expected statistics with {key} {expected!r}, got {state.get(key)!r}"
                )
        names = state.get("task_names")
        if names is not None and self.task_names is not None and list(names) != self.task_names:
            raise ValueError(
                f"expected statistics of the tasks {self.task_names}, got those of {list(names)}"
            )
        arrays: dict[str, NDArray[np.float64]] = {}
        for key in ("mean", "m2", "count"):
            own = getattr(self, key)
            expected_shape = own.ravel().shape if key == "count" else own.shape
            try:
                given = np.asarray(state.get(key), dtype=np.float64)
            except (TypeError, ValueError):
                given = np.empty(())
            if given.shape != expected_shape:
                raise ValueError(
                    f"expected {key} of shape {expected_shape} in the statistics, got one of "
                    f"shape {given.shape}"
                )
            arrays[key] = given.reshape(own.shape)
        for key, given in arrays.items():
            getattr(self, key)[...] = given


def check_positive_epsilon(epsilon: float) -> float:
    """Returns ``epsilon``.

    Raises:
        ValueError: If it is not above zero.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be above zero, got {epsilon!r}")
    return epsilon
