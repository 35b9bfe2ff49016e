"""Running means and variances per task, and which task a step belongs to."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mtwrappers.checks import above_zero, check_mapping, positive
from mtwrappers.wrappers.vector import EpisodeVectorWrapper

# As in Gymnasium's RunningMeanStd: a variance of one that counts as a ten-thousandth of a sample.
PRIOR_COUNT = 1e-4


class Moments:
    """The mean, the sum of squared deviations and the deviation of samples of a shape.

    All numbers are floats if the shape is ``()``, and arrays of the shape otherwise. That includes
    ``count`` and the ``epsilon`` that is added to the variance: arrays of one shape are computed
    fastest.
    """

    deviation: Any

    def __init__(self, shape: tuple[int, ...], epsilon: float) -> None:
        self.shape = shape
        self.mean: Any = np.zeros(shape) if shape else 0.0
        self.m2: Any = self.mean + PRIOR_COUNT
        self.count: Any = self.mean + PRIOR_COUNT
        self._one, self._epsilon = self.mean + 1.0, self.mean + epsilon
        self._sqrt: Any = np.sqrt if shape else math.sqrt  # which is much faster on a float
        self.measure()

    def update(self, x: Any) -> Any:
        """Counts a sample and returns it less the new mean (Welford 1962)."""
        self.count += self._one
        delta = x - self.mean
        self.mean += delta / self.count
        centered = x - self.mean
        delta *= centered
        self.m2 += delta
        variance = self.m2 / self.count
        variance += self._epsilon
        self.deviation = self._sqrt(variance)
        return centered

    def update_some(self, tasks: NDArray[np.int64], x: NDArray[Any]) -> None:
        """Counts samples of some rows, ``tasks`` ``(n,)``, which may repeat (Chan et al. 1983)."""
        width = math.prod(x.shape[1:])
        cells = tasks if x.ndim == 1 else (tasks[:, None] * width + np.arange(width)).ravel()

        def sums(values: NDArray[Any]) -> NDArray[Any]:
            return np.bincount(cells, values.ravel(), self.mean.size).reshape(self.shape)

        n = np.bincount(tasks, np.ones(len(tasks)), self.shape[0])
        n = n if x.ndim == 1 else n[:, None]
        mean: NDArray[Any] = sums(x) / np.maximum(n, 1.0)
        deviation = x - mean.take(tasks, axis=0)
        # Where n is zero nothing changes.
        delta = (mean - self.mean) * n
        self.count += n
        self.mean += delta / self.count
        self.m2 += sums(deviation * deviation) + delta * (mean - self.mean)
        self.measure()

    def measure(self) -> None:
        """Computes the deviation anew, of moments that were changed from outside."""
        self.deviation = self._sqrt(self.m2 / self.count + self._epsilon)


class _TaskMoments(dict[Any, Moments]):
    """Those of each task id."""

    def __missing__(self, task: Any) -> Moments:
        raise ValueError(
            f"expected info['task_id'] in [0, {len(self) - 1}], got an info with task_id {task!r}; "
            "pass num_tasks= for more tasks, and add a TaskNameWrapper where an environment does "
            "not say which task it plays"
        )


class _KeepsStatistics:
    """What the single and the vector form share: the moments of what was seen of each task."""

    _ask: Callable[[str], Any]  # reads an attribute of the environment, None if it has none
    _num_groups: int | None = None  # of a vector environment, how many task groups it has
    update_running_mean: bool = True  # where it is false, the statistics stay as they are

    def _keep(
        self, kind: str, num_tasks: int | None, epsilon: float, shape: tuple[int, ...] = ()
    ) -> None:
        """Begins statistics of samples of a shape; the caller's own ``num_tasks`` wins."""
        names = self._ask("task_names")
        if num_tasks is None:
            ids = self._ask("task_ids")
            own = len(names) if names is not None else self._ask("n_total_tasks")
            num_tasks = own or (self._num_groups or 1 if ids is None else max(ids) + 1)
        n = positive(num_tasks, "num_tasks")
        names = None if names is None or len(names) != n else list(names)
        self._of = {"kind": kind, "num_tasks": n, "task_names": names}
        self._shape = (n, *shape)
        # One for each task, or one for all where they are computed together.
        shapes = [shape] * n if self._num_groups is None else [self._shape]
        self._moments = [Moments(each, above_zero(epsilon, "epsilon")) for each in shapes]

    def get_state(self) -> dict[str, Any]:
        """The statistics of every task, ready for JSON."""
        count, mean, m2 = (
            np.reshape([getattr(each, name) for each in self._moments], self._shape)
            for name in ("count", "mean", "m2")
        )
        counts = count.reshape(len(count), -1)[:, 0].tolist()
        return copy.deepcopy(
            {**self._of, "count": counts, "mean": mean.tolist(), "m2": m2.tolist()}
        )

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes what `get_state` returned, here or in the other form of this wrapper.

        Raises:
            TypeError, ValueError: If it is of something else; nothing is changed then.
        """
        check_mapping(state, "a state")
        for key, expected in self._of.items():
            found = state.get(key)
            unnamed = key == "task_names" and None in (found, expected)
            if found != expected and not unnamed:
                raise ValueError(f"expected statistics with {key} {expected!r}, got {found!r}")
        arrays = {}
        for key, shape in (("mean", self._shape), ("m2", self._shape), ("count", self._shape[:1])):
            arrays[key] = np.array(state.get(key), dtype=np.float64)
            if arrays[key].shape != shape:
                raise ValueError(
                    f"expected {key} of shape {shape} in the statistics, got one of shape "
                    f"{arrays[key].shape}"
                )
        width = math.prod(self._shape[1:])
        arrays["count"] = np.repeat(arrays["count"], width).reshape(self._shape)
        for name, array in arrays.items():
            rows = array.reshape(len(self._moments), *self._moments[0].shape)
            for each, row in zip(self._moments, rows, strict=True):
                setattr(each, name, row if each.shape else float(row))
        for each in self._moments:
            each.measure()


class PerTaskWrapper(_KeepsStatistics, gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps statistics of each task of an environment; the task is ``info["task_id"]``."""

    def _ask(self, name: str) -> Any:
        return self.env.get_wrapper_attr(name) if self.env.has_wrapper_attr(name) else None

    def _keep(self, *args: Any) -> None:
        super()._keep(*args)
        self._of_task = _TaskMoments(enumerate(self._moments))
        self._default = 0 if len(self._moments) == 1 else None  # the task of an info without one


class PerTaskVectorWrapper(_KeepsStatistics, EpisodeVectorWrapper):
    """Keeps statistics of each task that the environments play.

    The task of an episode is its ``infos["task_id"]``; where infos do not have it, it is the index
    of the environment's task group. Task groups that report one id share its statistics; a warning
    says so, unless they report one ``task_name`` too.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._num_groups = self.meta_batch_size
        self._tasks = np.arange(self.num_envs) // self.envs_per_task
        self._one_each = False  # environment i plays task i, which is faster to compute
        self._warned = False  # of task groups that share statistics

    def _ask(self, name: str) -> Any:
        return self._inner.call(name)[0] if self._envs_have(name) else None

    def _take_tasks(self, infos: dict[str, Any], rows: NDArray[np.bool_] | None) -> None:
        """Notes the tasks of the episodes that have just begun in ``rows``, ``(N,)`` bool."""
        if rows is None:
            return
        if "task_id" in infos:
            rows = rows & infos.get("_task_id", True)
            self._tasks = np.where(rows, infos["task_id"], self._tasks).astype(np.int64)
            if rows.all() and not self._warned:
                self._warn_of_shared(infos)
        n = self._shape[0]
        wrong = np.flatnonzero((self._tasks < 0) | (self._tasks >= n))
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(
                f"expected tasks in [0, {n - 1}], got {int(self._tasks[i])} from environment {i}; "
                "pass num_tasks= for more"
            )
        self._keep_tasks(self._tasks)

    def _warn_of_shared(self, infos: dict[str, Any]) -> None:
        """Warns where task groups share a task id, unless its name says that it is one task."""
        names = infos.get("task_name", [None] * self.num_envs)
        groups: dict[int, dict[int, Any]] = {}
        for i, task in enumerate(self._tasks.tolist()):
            groups.setdefault(task, {})[i // self.envs_per_task] = names[i]
        for task, named in groups.items():
            if len(named) > 1 and (None in named.values() or len(set(named.values())) > 1):
                self._warned = True
                warnings.warn(
                    f"task groups {list(named)} all report task_id {task} and share its statistics "
                    f"in {type(self).__name__}; if these are different tasks, wrap each group's "
                    "environments in TaskNameWrapper(env, task_id=<the group's index>), and if it "
                    "is one task, give it a name with TaskNameWrapper(env, task_name=...)",
                    stacklevel=4,
                )

    def _keep_tasks(self, tasks: NDArray[np.int64]) -> None:
        self._tasks = tasks
        self._one_each = np.array_equal(tasks, np.arange(self._shape[0]))

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "episodes": self._episodes()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        if "episodes" in state:
            self._set_episodes(state["episodes"])

    def _episodes(self) -> dict[str, Any]:
        return {"tasks": self._tasks.tolist(), "due": self._due_rows()}

    def _set_episodes(self, state: Mapping[str, Any]) -> None:
        self._keep_tasks(np.array(state["tasks"]))
        self._set_due(state["due"])

    def _count(self, x: NDArray[Any], rows: Any) -> None:
        """Counts the samples of some environments; ``rows`` is a mask, or a slice for all."""
        if not self.update_running_mean:
            return
        if self._one_each and isinstance(rows, slice):
            self._moments[0].update(x)
        else:
            self._moments[0].update_some(self._tasks[rows], x[rows])

    def _each(self, of_tasks: NDArray[Any]) -> NDArray[Any]:
        """Of every environment what an array ``(num_tasks, ...)`` has for its task."""
        return of_tasks if self._one_each else of_tasks.take(self._tasks, axis=0)
