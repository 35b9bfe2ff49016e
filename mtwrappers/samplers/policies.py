"""How a policy is called: by ``get_actions``, or as a plain callable.

Beside observations a policy may take ``rng``: the random generator of each environment, for actions
that are the same wherever the policy is called, whatever the rest of the batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, Literal, TypeAlias

import cloudpickle
import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.samplers.nested import join, map_arrays

PolicyIn: TypeAlias = Literal["parent", "workers"]


class PolicyCaller:
    """Calls a policy for the actions of environments among ``M`` tasks times ``K``.

    Args:
        policy: Has ``get_actions(observations) -> actions, agent_infos``, or is a callable from
            observations ``(M * K, O)`` to actions. ``get_actions`` is given observations
            ``(M, K, O)`` (a dict or tuple of such arrays where the environments observe one) and
            returns actions ``(M, K, A)``, as nested lists or arrays. Its ``agent_infos`` are kept
            beside each action: a dict of arrays ``(M, K, ...)``, a list with a
            dict of arrays ``(K, ...)`` per task, a list per task with a dict per environment, or
            ``None``; dicts may be nested. The policy may have ``reset(mask)``, which is called
            with the environments whose episodes begin, ``(M * K,)`` bool, before their first
            action. A ``reset()`` that takes nothing cannot distinguish environments, and is
            called only where all begin together. Where ``get_actions``, or the callable, takes
            ``rng``, it is given one `numpy.random.Generator` per environment, as an array of
            objects ``(M, K)``, or ``(M * K,)``.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        rows: The environments to act for, if not all: those of one worker. A callable then sees
            ``(n, O)``, and ``get_actions`` ``(m, K, O)``, or ``(n, 1, O)`` where these are not
            whole tasks. ``for_tasks(indices)``, if the policy has it, returns the policy for the
            tasks on the first axis.
        seed: Seeds the generators; a tuple of integers.

    Raises:
        TypeError: If the policy has no ``get_actions`` and is not callable.
    """

    def __init__(
        self,
        policy: Any,
        meta_batch_size: int,
        envs_per_task: int,
        rows: slice | None = None,
        seed: tuple[int, ...] = (0,),
    ) -> None:
        if isinstance(policy, PickledPolicy):
            policy = cloudpickle.loads(policy)
        m, k = meta_batch_size, envs_per_task
        rows = slice(0, m * k) if rows is None else rows
        places = range(rows.start, rows.stop)
        # If one task's environments are split across workers, each is given alone.
        together = 1 if rows.start % k or rows.stop % k else k
        tasks = [i // k for i in places[::together]]
        if len(places) < m * k and hasattr(policy, "for_tasks"):
            policy = policy.for_tasks(tasks)
        get_actions = getattr(policy, "get_actions", None)
        if isinstance(policy, type) or not (callable(get_actions) or callable(policy)):
            raise TypeError(
                f"a policy must have get_actions(observations) or be callable, got {policy!r}"
            )
        self._act: Callable[..., Any] = policy
        self._shape: tuple[int, ...] = (len(places),)
        if callable(get_actions):
            self._act, self._shape = get_actions, (len(tasks), together)
        self._extra = {}
        if "rng" in _parameters(self._act):
            rngs = np.empty(len(places), dtype=object)
            rngs[:] = [Generator(PCG64(SeedSequence(seed, spawn_key=(i,)))) for i in places]
            self._extra = {"rng": rngs.reshape(self._shape)}
        reset = getattr(policy, "reset", None)
        self._reset: Callable[..., Any] | None = reset if callable(reset) else None
        self._takes_mask = self._reset is not None and _takes_argument(self._reset)

    def reset(self, mask: NDArray[np.bool_]) -> None:
        """Calls the policy's ``reset`` for the environments that begin an episode, ``(n,)``."""
        if self._reset is None:
            return
        if self._takes_mask:
            self._reset(mask.copy())
        elif mask.all():
            self._reset()

    def __call__(self, observations: Any) -> tuple[NDArray[Any], dict[str, Any]]:
        """Actions ``(n, A)`` and agent infos ``(n, ...)`` for observations ``(n, O)``.

        All are new arrays: a policy may use its arrays again.

        Raises:
            TypeError: If ``get_actions`` returns no pair, a callable a tuple (actions, state), or
                agent infos are of another form.
            ValueError: If the policy returns another number of actions or agent infos.
        """
        # Copies: what a policy changes in place is not what is recorded.
        given = map_arrays(lambda a: a.copy().reshape(*self._shape, *a.shape[1:]), observations)
        answer = self._act(given, **self._extra)
        if len(self._shape) == 1:
            try:
                return self._joined(answer, "actions"), {}
            except ValueError:
                if not self._is_with_state(answer):
                    raise
            raise TypeError(
                "the policy returned a tuple (actions, state): give lambda obs: "
                "model.predict(obs)[0], or an object whose get_actions(observations) returns "
                "(actions, agent_infos)"
            )
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise TypeError(
                f"get_actions must return a pair (actions, agent_infos), got {_short(answer)}"
            )
        actions, infos = answer
        if isinstance(infos, (list, tuple)):
            infos = [
                join(info, "agent_infos", "environment {}".format)
                if isinstance(info, (list, tuple))
                else info
                for info in infos
            ]
            infos = join(infos, "agent_infos", "task {}".format) if infos else {}
        if not isinstance(infos, (dict, type(None))):
            raise TypeError(f"agent_infos must be dicts, in lists or not, got {_short(answer[1])}")
        return self._joined(actions, "actions"), self._joined(infos or {}, "agent_infos")

    def _is_with_state(self, answer: Any) -> bool:
        """Whether these are the actions of all environments, and something else."""
        if not isinstance(answer, tuple) or len(answer) != 2:
            return False
        return getattr(answer[0], "shape", ())[:1] == self._shape

    def _joined(self, values: Any, name: str) -> Any:
        """The values that the policy returned, in dicts or not, as arrays ``(n, ...)``."""
        if isinstance(values, dict):
            return {k: self._joined(value, f"{name}[{k!r}]") for k, value in values.items()}
        try:
            array = np.array(values)
        except ValueError:
            raise ValueError(
                f"{name} must be an array with rows of one shape, got {_short(values)}"
            ) from None
        axes = len(self._shape)
        if array.shape[:axes] != self._shape:
            raise ValueError(
                f"expected {name} of shape {self._shape} and more from the policy, got "
                f"{array.shape}"
            )
        return array.reshape(-1, *array.shape[axes:])


class PickledPolicy(bytes):
    """A policy on its way to workers, where `PolicyCaller` takes it."""


def pickled(policy: Any) -> PickledPolicy:
    """A policy that goes to workers.

    Raises:
        TypeError: If it does not pickle.
    """
    try:
        return PickledPolicy(cloudpickle.dumps(policy))
    except Exception as exc:  # any class may refuse to be pickled in any way
        raise TypeError(
            f"a policy must pickle to go to workers, {_short(policy)} does not ({exc}); "
            "policy_in='parent' calls it in this process"
        ) from exc


def _parameters(function: Callable[..., Any]) -> Collection[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C without a signature
        return ()


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function of C without a signature
        return True
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:60] + '...'}"
