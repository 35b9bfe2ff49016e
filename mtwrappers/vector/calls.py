"""What environments are asked and told beside their episodes, one call at a time."""

from __future__ import annotations

import abc
import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import VectorEnv

from mtwrappers import state as layers
from mtwrappers.checks import check_callable
from mtwrappers.vector.block import EachCall

# What `MetaVectorEnv.map_blocks` calls: with environments, and which of all they are.
BlockFunction: TypeAlias = "Callable[[CallingVectorEnv, slice], Any]"

Method = TypeVar("Method", bound=Callable[..., Any])


def exclusive(method: Method) -> Method:
    """Refuses a call on a closed executor, during another call, or while a step is under way."""
    name = method.__name__

    @functools.wraps(method)
    def alone(self: CallingVectorEnv, /, *args: Any, **kwargs: Any) -> Any:
        if self.closed or self._pid != os.getpid():
            self._require_open()
        if not self._turn.acquire(blocking=False):
            raise RuntimeError(
                f"{name}() during another call of this {type(self).__name__}: its methods must be "
                "called by one thread at a time"
            )
        try:
            self._user = threading.get_ident()
            if self._stepping and name != "step_wait":
                raise RuntimeError(f"{name}() while a step is under way: call step_wait() first")
            return method(self, *args, **kwargs)
        finally:
            self._turn.release()

    return cast("Method", alone)


class CallingVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment with `call` and its kin, tasks, and functions of whole blocks."""

    meta_batch_size: int
    envs_per_task: int
    _was_reset = False
    # For copies of an environment: a seed for the first reset of each.
    _first_seeds: list[int] | None = None
    _setter: str | None = None  # the method by which environments are turned to a task
    closed = True  # until it is built

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._user = threading.get_ident()  # the thread whose call is, or was last, under way
        self._stepping = False  # whether a step was begun and not ended

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"{type(self).__name__} was closed")

    def close(self, **kwargs: Any) -> None:
        """Closes every environment; a second call does nothing.

        Raises:
            RuntimeError: If another thread's call is under way.
        """
        # A signal handler may close in the middle of its own thread's call.
        if not self.closed and self._turn.locked() and self._user != threading.get_ident():
            raise RuntimeError("close() while another thread's call is under way")
        super().close(**kwargs)

    def __del__(self) -> None:
        """Closes what was not closed, but not in a forked process, which only inherited it."""
        if not self.closed and self._pid == os.getpid():
            self.close()

    @exclusive
    def set_tasks(self, tasks: Sequence[Any]) -> None:
        """Turns each task's environments to a task, from the next `reset` on.

        Args:
            tasks: ``M`` tasks, each for the environments' own ``set_task``, or ``set_task_state``
                where there is no ``set_task``.

        Raises:
            ValueError: If there are not exactly ``M``.
            AttributeError: If the environments have neither method.
        """
        m, k = self.meta_batch_size, self.envs_per_task
        is_list = isinstance(tasks, (Sequence, np.ndarray)) and not isinstance(tasks, (str, bytes))
        if not is_list or len(tasks) != m:
            got = len(tasks) if is_list else repr(tasks)
            raise ValueError(
                f"expected {m} tasks, one for each group of {k} environments, got {got}"
            )
        if self._setter is None:
            has = self._call_each("has_wrapper_attr", [(("set_task",), {})] * self.num_envs)
            self._setter = "set_task" if all(has) else "set_task_state"
        each: EachCall = [((task,), {}) for task in tasks for _ in range(k)]
        self._was_reset = False
        self._call_each(self._setter, each)

    @exclusive
    def call(self, name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method, or reads an attribute, of each environment, through its wrappers.

        ``name`` may be a function ``name(env, *args, **kwargs)``, too, which is run where the
        environment is and must pickle where that is a worker.
        """
        return tuple(self._call_each(name, [(args, kwargs)] * self.num_envs))

    @exclusive
    def call_some(
        self, indices: Sequence[int], name: str | Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """What `call` does, with the environments ``indices`` alone."""
        chosen = set(indices)
        each = [(args, kwargs) if i in chosen else None for i in range(self.num_envs)]
        results = self._call_each(name, each)
        return [results[i] for i in indices]

    @exclusive
    def map_blocks(self, function: BlockFunction) -> list[Any]:
        """Calls a function where environments are, with those that are there.

        So a whole rollout takes a single message to each worker and back: `MetaSampler` and
        `evaluate` do this with ``policy_in="workers"``.

        Args:
            function: ``function(envs, rows)``, where ``envs`` is a `MetaVectorEnv` of the
                environments ``rows`` of this one, as one task each, in their present state. It may
                reset, step and call them. It is sent with cloudpickle, and so are its results.

        Returns:
            What each call has returned, by block: one per worker, or a single one where there are
            no workers.

        Raises:
            TypeError: If the function does not pickle and has to.
            WorkerDiedError: If a worker is lost and not recovered. A worker that takes the place of
                another one calls the function again.
            Exception: Whatever the function raises; a `reset` of all environments is then due.
        """
        return self._map_blocks(check_callable(function, "function"))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each environment; a method is called, as in Gymnasium."""
        return self.call(name)

    @exclusive
    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of each environment.

        Args:
            name: The attribute, looked up through the environment's wrappers.
            values: A list or tuple with one value per environment, or one value for all. (A
                `metaworld.Task` is a tuple: put it in a list.)

        Raises:
            ValueError: If a list has another length than the environments.
        """
        n = self.num_envs
        values = list(values) if isinstance(values, (list, tuple)) else [values] * n
        if len(values) != n:
            raise ValueError(f"expected {n} values, one per environment, got {len(values)}")
        self._call_each("set_wrapper_attr", [((name, value), {}) for value in values])

    @exclusive
    def get_states(self) -> dict[str, Any]:
        """The state between two episodes of each environment, which needs no journal."""
        each = self._call_each(layers.get_state, [((), {})] * self.num_envs)
        return {"first_seeds": self._first_seeds, "envs": each}

    @exclusive
    def set_states(self, states: Mapping[str, Any]) -> None:
        """Takes what `get_states` returned; a `reset` of all environments is then due.

        Raises:
            ValueError: If they are the states of other environments.
        """
        each = states["envs"]
        if len(each) != self.num_envs:
            raise ValueError(f"expected states of {self.num_envs} environments, got {len(each)}")
        self._was_reset = False
        self._call_each(layers.set_state, [((state,), {}) for state in each])
        self._first_seeds = states["first_seeds"]

    @exclusive
    def render(self) -> tuple[Any, ...]:
        """A frame of each environment."""
        return tuple(self._call_each("render", [((), {})] * self.num_envs))

    @property  # type: ignore[misc] # Gymnasium's SyncVectorEnv has no setter either
    def np_random(self) -> Any:
        """Each environment's generator."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> Any:
        """Each environment's seed."""
        return self.get_attr("np_random_seed")

    @abc.abstractmethod
    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]: ...

    @abc.abstractmethod
    def _map_blocks(self, function: BlockFunction) -> list[Any]: ...
