"""Running means and variances per task."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.checks import (
    above_zero,
    check_flag,
    check_index,
    check_list,
    check_mapping,
    number_or_nan,
    positive,
)
from mtwrappers.common.errors import short
from mtwrappers.common.types import AnyArray, AnyEnv, AnyWrapper, State
from mtwrappers.state.registry import require_names
from mtwrappers.wrappers.vector import MetaVectorWrapper, require_single

# As in Gymnasium's RunningMeanStd: a prior variance of one, with the weight of 1e-4 samples.
PRIOR_COUNT = 1e-4
_LEAST = {"count": "above zero", "m2": "zero or greater"}


class Moments:
    """The count, mean, sum of squared deviations and standard deviation of samples.

    All are arrays of the shape of a sample, which is fastest, or floats if it is ``()``.
    """

    __slots__ = ("count", "deviation", "m2", "mean")

    def __init__(self, count: Any, mean: Any, m2: Any, deviation: Any) -> None:
        self.count, self.mean, self.m2, self.deviation = count, mean, m2, deviation


class TaskStatistics:
    """The running mean and standard deviation of each task's samples.

    ``moments`` has an entry for each task or, with ``together``, one entry for all tasks.

    Args:
        kind: The word for the samples, such as ``"reward"``.
        num_tasks: The number of tasks.
        task_names: The names of the tasks, if they have any.
        shape: The shape of a sample.
        epsilon: Added to the variance.
        together: Whether to store all tasks in arrays ``(num_tasks, *shape)``: updating all tasks
            is then much faster, and updating a single one slower.
    """

    moments: list[Moments]

    def __init__(
        self,
        kind: str,
        num_tasks: int,
        task_names: list[str] | None,
        shape: tuple[int, ...],
        epsilon: float,
        together: bool,
    ) -> None:
        self._identity: dict[str, Any] = {
            "kind": kind,
            "num_tasks": num_tasks,
            "task_names": task_names,
        }
        self._shape = (num_tasks, *shape)
        self._moments_shape = self._shape if together else shape
        self._ones: Any = np.ones(self._moments_shape) if self._moments_shape else 1.0
        self._epsilon: Any = self._ones * above_zero(epsilon, "epsilon")
        self._sqrt: Callable[[Any], Any] = np.sqrt if self._moments_shape else math.sqrt
        prior = np.full(self._shape, PRIOR_COUNT)
        self._store_moments(prior, np.zeros(self._shape), prior.copy())

    def _store_moments(
        self, count: NDArray[np.float64], mean: NDArray[np.float64], m2: NDArray[np.float64]
    ) -> None:
        """Stores the count, mean and ``m2`` of each task, and computes the deviations."""
        counts, means, m2s, deviations = (
            self._split_tasks(array)
            for array in (count, mean, m2, np.sqrt(m2 / count + self._epsilon))
        )
        self.moments = [
            Moments(counts[i], means[i], m2s[i], deviations[i]) for i in range(len(counts))
        ]

    def _split_tasks(self, array: NDArray[np.float64]) -> Any:
        """A sequence of arrays of the shape of moments, or of floats if it is ``()``."""
        rows = array.reshape(-1, *self._moments_shape)
        return rows if self._moments_shape else rows.tolist()

    def not_finite(self, task: int, sample: Any) -> ValueError:
        """The error for a sample that would make a task's statistics useless for good."""
        names = self._identity["task_names"]
        name = "" if names is None else f" ({names[task]!r})"
        return ValueError(
            f"expected a finite {self._identity['kind']} to normalize, got {sample} in task "
            f"{task}{name}"
        )

    def update(self, moments: Moments, x: Any) -> Any:
        """Counts a sample and returns it minus the new mean (Welford 1962).

        Args:
            moments: One of ``self.moments``.
            x: A sample, of the shape of these moments.
        """
        moments.count += self._ones
        delta = x - moments.mean
        moments.mean += delta / moments.count
        centered = x - moments.mean
        delta *= centered
        moments.m2 += delta
        variance = moments.m2 / moments.count
        variance += self._epsilon
        moments.deviation = self._sqrt(variance)
        return centered

    def update_some(self, tasks: NDArray[np.int64], x: AnyArray) -> None:
        """Counts samples of ``tasks``, ``(n,)``, which may repeat (Chan et al. 1983).

        The tasks must be kept together.
        """
        [all_tasks] = self.moments
        width = math.prod(x.shape[1:])
        cells = tasks if x.ndim == 1 else (tasks[:, None] * width + np.arange(width)).ravel()

        def sums(values: AnyArray) -> AnyArray:
            return np.bincount(cells, values.ravel(), all_tasks.mean.size).reshape(self._shape)

        n = np.bincount(tasks, np.ones(len(tasks)), self._shape[0])
        n = n if x.ndim == 1 else n[:, None]
        mean: AnyArray = sums(x) / np.maximum(n, 1.0)
        deviation = x - mean.take(tasks, axis=0)
        # Tasks with n = 0 do not change.
        delta = (mean - all_tasks.mean) * n
        all_tasks.count += n
        all_tasks.mean += delta / all_tasks.count
        all_tasks.m2 += sums(deviation * deviation) + delta * (mean - all_tasks.mean)
        all_tasks.deviation = np.sqrt(all_tasks.m2 / all_tasks.count + self._epsilon)

    @property
    def has_samples(self) -> bool:
        """Whether a sample of any task was counted."""
        return any(np.any(np.greater(moments.count, PRIOR_COUNT)) for moments in self.moments)

    def get_state(self) -> State:
        """The statistics of every task, ready for JSON."""
        arrays = {
            name: np.reshape([getattr(moments, name) for moments in self.moments], self._shape)
            for name in ("count", "mean", "m2")
        }
        arrays["count"] = arrays["count"].reshape(self._shape[0], -1)[:, 0]
        return copy.deepcopy(self._identity) | {
            name: array.tolist() for name, array in arrays.items()
        }

    def check_identity(self, state: Mapping[str, Any]) -> None:
        """Raises `ValueError` for statistics of other samples or tasks."""
        for key, expected in self._identity.items():
            value = state.get(key)
            unnamed = key == "task_names" and None in (value, expected)
            if value != expected and not unnamed:
                raise ValueError(f"expected statistics with {key} {expected!r}, got {value!r}")

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned, or raises and changes nothing."""
        self.check_identity(state)
        shapes = {"count": self._shape[:1], "mean": self._shape, "m2": self._shape}
        count, mean, m2 = (read_numbers(state.get(key), shapes[key], key) for key in shapes)
        for key, array, are_valid in (("count", count, count > 0), ("m2", m2, m2 >= 0)):
            if not np.all(are_valid):
                raise ValueError(
                    f"{key} must be {_LEAST[key]} in the statistics, got {short(array.tolist())}"
                )
        counts = np.repeat(count, math.prod(self._shape[1:])).reshape(self._shape)
        self._store_moments(counts, mean, m2)


def read_numbers(value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Returns finite numbers of a state as an array of this shape, or raises `ValueError`.

    ``name`` is what they are, for messages.
    """
    try:
        array = np.array(value, dtype=object)
    except ValueError:  # lists of several lengths
        array = np.empty((), dtype=object)
    if array.shape != shape:
        raise ValueError(
            f"expected {name} of shape {shape} in the statistics, got one of shape {array.shape}: "
            f"{short(value)}"
        )
    numbers = np.array([number_or_nan(item) for item in array.flat]).reshape(shape)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite numbers in the statistics, got {short(value)}")
    return numbers


class _PerTask:
    """Statistics of each task, and the switch that freezes them: the base of both forms."""

    _read: Callable[[str], Any]  # reads an attribute of the environment, None if it has none
    _num_groups: int | None = None  # the number of task groups of a vector environment
    update_running_mean: bool = True  # if false, the statistics are frozen

    def _begin_statistics(
        self, kind: str, num_tasks: int | None, epsilon: float, shape: tuple[int, ...] = ()
    ) -> None:
        """Creates the statistics; ``num_tasks`` overrides the environment's number."""
        names = self._read("task_names")
        if num_tasks is None:
            ids = self._read("task_ids")
            num_tasks = len(names) if names is not None else self._read("n_total_tasks")
            if not num_tasks and ids is not None:
                num_tasks = max(ids) + 1
            elif not num_tasks:
                num_tasks = self._num_groups or 1
        self._num_tasks = n = positive(num_tasks, "num_tasks")
        names = None if names is None or len(names) != n else list(names)
        together = self._num_groups is not None
        self._statistics = TaskStatistics(kind, n, names, shape, epsilon, together)

    @property
    def has_samples(self) -> bool:
        """Whether a sample of any task was counted."""
        return self._statistics.has_samples

    def get_state(self) -> State:
        """The statistics of every task, and whether they are updated, ready for JSON."""
        switch = {"update_running_mean": bool(self.update_running_mean)}
        return {**self._statistics.get_state(), **switch}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` of either form of this wrapper returned.

        Raises:
            TypeError, ValueError: If ``state`` does not fit; nothing is changed then.
        """
        switch = check_mapping(state, "a state").get("update_running_mean")
        switch = check_flag(switch, "state['update_running_mean']")
        self._statistics.set_state(state)
        self.update_running_mean = switch


class _TaskIds(dict[Any, int]):
    """The index of each ``info["task_id"]``; a dict lookup is faster than a comparison."""

    def __missing__(self, task: Any) -> int:
        raise ValueError(
            f"expected info['task_id'] in [0, {len(self) - 1}], got an info with task_id {task!r}; "
            "pass num_tasks= for more tasks, and add a TaskNameWrapper if an environment does not "
            "report its task"
        )


class PerTaskWrapper(_PerTask, AnyWrapper):
    """Keeps statistics of each task of an environment; the task is ``info["task_id"]``."""

    def __init__(self, env: AnyEnv) -> None:
        require_single(env, type(self).__name__)
        super().__init__(env)

    def _read(self, name: str) -> Any:
        return self.env.get_wrapper_attr(name) if self.env.has_wrapper_attr(name) else None

    def _begin_statistics(self, *args: Any) -> None:
        super()._begin_statistics(*args)
        self._ids = _TaskIds((task, task) for task in range(self._num_tasks))
        self._default = 0 if self._num_tasks == 1 else None  # the task of an info without one


class PerTaskVectorWrapper(_PerTask, MetaVectorWrapper):
    """Keeps statistics of each task of a vector environment.

    The task of an episode is its ``infos["task_id"]``, or the index of the environment's task group
    if infos do not have it. Task groups that report the same id share its statistics, with a
    warning unless they also report the same ``task_name``. Episodes after the end of a stream,
    ``infos["stream_finished"]``, are not counted.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._num_groups = self.meta_batch_size
        self._tasks = np.arange(self.num_envs) // self.envs_per_task
        self._one_env_per_task = False  # whether environment i is on task i, which is faster
        self._uncounted: NDArray[np.bool_] | None = None  # environments with finished streams
        self._warned = False  # about task groups that share statistics

    def _read(self, name: str) -> Any:
        return self._inner.call(name)[0] if self._envs_have(name) else None

    def _take_tasks(self, infos: dict[str, Any], rows: NDArray[np.bool_]) -> None:
        """Notes the tasks of the episodes that have just begun in ``rows``, ``(N,)`` bool."""
        if not np.count_nonzero(rows):  # a tenth of the time of any()
            return
        if "stream_finished" in infos:
            reported = rows & infos.get("_stream_finished", True)
            uncounted = False if self._uncounted is None else self._uncounted
            self._set_uncounted(np.where(reported, infos["stream_finished"], uncounted))
        if "task_id" in infos:
            rows = rows & infos.get("_task_id", True)
            self._tasks = np.where(rows, infos["task_id"], self._tasks).astype(np.int64)
            if rows.all() and not self._warned:
                self._warn_of_shared(infos)
        n = self._num_tasks
        wrong = np.flatnonzero((self._tasks < 0) | (self._tasks >= n))
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(
                f"expected tasks in [0, {n - 1}], got {int(self._tasks[i])} from environment {i}; "
                "pass num_tasks= for more"
            )
        self._set_tasks(self._tasks)

    def _warn_of_shared(self, infos: dict[str, Any]) -> None:
        """Warns if task groups share a task id, unless they report the same task name."""
        names = infos.get("task_name", [None] * self.num_envs)
        groups: dict[int, dict[int, Any]] = {}
        for i, task in enumerate(self._tasks.tolist()):
            groups.setdefault(task, {})[i // self.envs_per_task] = names[i]
        for task, group_names in groups.items():
            if len(group_names) == 1:
                continue
            distinct_names = {*group_names.values()}
            if None in distinct_names or len(distinct_names) > 1:
                self._warned = True
                warnings.warn(
                    f"task groups {list(group_names)} all report task_id {task} and share its "
                    f"statistics in {type(self).__name__}; if these are different tasks, wrap each "
                    "group's environments in TaskNameWrapper(env, task_id=<the group's index>); if "
                    "they are the same task, name it with TaskNameWrapper(env, task_name=...)",
                    stacklevel=find_stacklevel(),
                )

    def _check_finite(self, values: AnyArray, samples: AnyArray, rows: NDArray[np.bool_]) -> None:
        """Raises `ValueError` if values to be counted, ``(N,)`` or ``(N, O)``, are not finite."""
        if np.isfinite(values).all():
            return
        finite = np.isfinite(values.reshape(self.num_envs, -1)).all(axis=1)
        for i in np.flatnonzero(rows & ~finite).tolist():
            raise self._statistics.not_finite(int(self._tasks[i]), samples[i])

    def _set_uncounted(self, rows: AnyArray) -> None:
        self._uncounted = rows.astype(np.bool_) if rows.any() else None

    def _set_tasks(self, tasks: NDArray[np.int64]) -> None:
        self._tasks = tasks
        self._one_env_per_task = np.array_equal(tasks, np.arange(self._num_tasks))

    def get_state(self) -> State:
        """The statistics, whether they are updated, and the current episodes, ready for JSON."""
        return {**super().get_state(), "episodes": self._episodes()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` of either form of this wrapper returned.

        The current episodes stay as they are if the state is of another number of environments.

        Raises:
            TypeError, ValueError: If ``state`` does not fit; nothing is changed then.
        """
        episodes: Any = check_mapping(state, "a state").get("episodes")
        self._statistics.check_identity(state)
        continues = False
        if episodes is not None:
            tasks = require_names(episodes, self._episodes(), self)["tasks"]
            continues = len(check_list(tasks, "the tasks of the episodes", "task")) == self.num_envs
        if continues:
            self._check_episodes(episodes)
        super().set_state(state)
        if continues:
            self._set_episodes(episodes)

    def _episodes(self) -> dict[str, Any]:
        uncounted = [] if self._uncounted is None else np.flatnonzero(self._uncounted).tolist()
        return {"tasks": self._tasks.tolist(), "uncounted": uncounted}

    def _check_episodes(self, state: Mapping[str, Any]) -> None:
        """Raises `ValueError` if the current episodes in a state do not fit."""
        for task in state["tasks"]:
            check_index(task, self._num_tasks, "a task of the state's episodes")
        if not isinstance(state["uncounted"], list):
            raise ValueError(
                f"expected a list of uncounted environments, got {short(state['uncounted'])}"
            )
        for i in state["uncounted"]:
            check_index(i, self.num_envs, "an uncounted environment of the state's episodes")

    def _set_episodes(self, state: Mapping[str, Any]) -> None:
        self._set_tasks(np.array(state["tasks"]))
        self._set_uncounted(np.isin(np.arange(self.num_envs), state["uncounted"]))

    def _count(self, x: AnyArray, rows: NDArray[np.bool_]) -> None:
        """Counts the samples of the environments in ``rows``, a mask ``(N,)``."""
        if not self.update_running_mean:
            return
        if self._uncounted is not None:
            rows = rows & ~self._uncounted
        if self._one_env_per_task and np.count_nonzero(rows) == len(rows):
            self._statistics.update(self._statistics.moments[0], x)
        else:
            self._statistics.update_some(self._tasks[rows], x[rows])

    def _per_env(self, values: AnyArray) -> AnyArray:
        """The entries of an array ``(num_tasks, ...)`` for each environment's task."""
        return values if self._one_env_per_task else values.take(self._tasks, axis=0)
