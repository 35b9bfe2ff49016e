"""A policy that executes chunks of actions, around a policy that returns them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtwrappers.common.checks import positive
from mtwrappers.common.types import AnyArray
from mtwrappers.samplers.nested import map_arrays
from mtwrappers.samplers.policies import Flags, PolicyMethods, select_tasks


class ActionChunks:
    """A policy whose chunks of actions are executed up to their ``k``-th action.

    The policy is a callable that returns chunks ``(n, H, A)``, or has ``get_actions`` that returns
    ``(M, K, H, A)``, with ``H >= k``. Evaluations and samplers call it for a row when ``k`` actions
    of its chunk were executed or its episode begins, so that rows may be due at different times,
    and do not call it in steps in which no row is due. A callable receives only the rows that are
    due, in its observations and in arguments by name, except for ``due``, the mask of all rows.
    ``get_actions`` receives all rows, with copies of ``rng`` for rows that are not due, whose
    results are dropped. Its ``agent_infos`` are repeated for every action of a chunk.

    It is a policy with ``get_actions`` around the other, and keeps the chunks of the environments
    that it is called for.

    Args:
        policy: The policy that returns chunks, as `PolicyCaller` describes policies.
        k: The number of actions of each chunk that are executed.

    Attributes:
        policy: The policy.
        action_chunk: ``k``; a result names it.
        argument_names: The arguments that it takes by name: ``due``, and those of the policy.

    Raises:
        TypeError: If the policy has no ``get_actions`` and is not callable.
        ValueError: If ``k`` is not a positive integer.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> def policy(observations):  # chunks of 4 actions
    ...     return np.full((len(observations), 4, 2), 0.1)
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> result = mtwrappers.evaluate(mtwrappers.ActionChunks(policy, 3), envs, 1)
    >>> result.description.action_chunk
    3
    """

    def __init__(self, policy: Any, k: int) -> None:
        self._policy, self.action_chunk = policy, positive(k, "k")
        self._methods = PolicyMethods(policy)
        self.argument_names = frozenset({*self._methods.argument_names, "due"})
        # The last chunks with their agent infos, and the number of executed actions of each row's.
        self._chunks: dict[str, Any] | None = None
        self._executed = np.zeros(0, dtype=np.int64)
        self._was_reset = False  # since the last call

    @property
    def policy(self) -> Any:
        """The policy that returns chunks."""
        return self._policy

    @property
    def resets_all_together(self) -> bool:
        """Whether the policy that returns chunks has a ``reset()`` that takes no mask."""
        return self._methods.resets_all_together

    def __getattr__(self, name: str) -> Any:
        if name in ("adapt", "begin_trial", "policy_id"):
            return getattr(self.policy, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def for_tasks(self, indices: Sequence[int]) -> ActionChunks:
        """The policy of some tasks, with its chunks.

        Raises:
            TypeError: If the policy has ``get_actions`` and no ``for_tasks``.
        """
        return ActionChunks(select_tasks(self.policy, indices), self.action_chunk)

    def reset(self, mask: Flags) -> None:
        """Ends the chunks of the environments that begin an episode, ``(n,)`` bool."""
        self._require_rows(len(mask))
        self._executed[mask] = self.action_chunk
        self._was_reset = True
        self._methods.reset(mask)

    def get_actions(
        self, observations: Any, due: Flags, **arguments: AnyArray
    ) -> tuple[AnyArray, dict[str, Any]]:
        """Returns the next action of each row's chunk, and the agent infos of the chunk.

        Args:
            observations: The observations ``(M, K, O)``, or a dict or tuple of such arrays.
            due: A mask of the rows that run an episode, ``(M, K)`` bool.
            **arguments: What else the policy takes by name, ``(M, K)`` each.

        Raises:
            TypeError: If the policy returns something of another form; see `PolicyCaller`.
            ValueError: Likewise, or if it returns chunks of fewer than ``k`` actions.
        """
        shape, running = due.shape, due.ravel()
        self._require_rows(due.size)
        ending = running & (self._executed >= self.action_chunk)
        if self._was_reset and (ending == running).all():
            self._chunks = None  # no row goes on with one, and the next may have another form
        self._was_reset = False
        if ending.any():
            rows, arguments = map_arrays(
                lambda array: array.reshape(due.size, *array.shape[2:]), (observations, arguments)
            )
            chunks = self._plan(rows, arguments, ending, shape)
            name = "what the policy returns:"
            self._chunks = _replace_rows(self._chunks, chunks, ending, name)
            self._executed[ending] = 0
        assert self._chunks is not None  # some row runs an episode, and had no chunk at first
        steps = np.minimum(self._executed, self.action_chunk - 1)
        self._executed += 1
        actions = self._chunks["actions"][np.arange(due.size), steps]
        actions, infos = map_arrays(
            lambda array: array.reshape(*shape, *array.shape[1:]), (actions, self._chunks["infos"])
        )
        return actions, infos

    def _plan(
        self,
        observations: Any,
        arguments: Mapping[str, AnyArray],
        due: Flags,
        shape: tuple[int, ...],
    ) -> dict[str, Any]:
        """Asks the policy for chunks.

        Args:
            observations: The observations of all rows, ``(n, ...)``.
            arguments: What else it takes by name, ``(n,)`` each.
            due: A mask of the rows to plan for, ``(n,)`` bool.
            shape: ``(M, K)``.

        Returns:
            Actions ``(m, k, ...)`` and infos ``(m, ...)`` of the ``m`` rows that are due.
        """
        k = self.action_chunk
        all_rows = self._methods.is_get_actions  # it needs whole tasks
        if all_rows and "rng" in arguments:  # draws for rows that are not due have no effect
            rngs = arguments["rng"].copy()
            for i in np.flatnonzero(~due).tolist():
                rngs[i] = copy.deepcopy(rngs[i])
            arguments = {**arguments, "rng": rngs}
        elif not all_rows:
            shape = (int(due.sum()),)
            observations, arguments = map_arrays(
                lambda array: array[due], (observations, arguments)
            )
        if "due" in self._methods.argument_names:
            arguments = {**arguments, "due": due}
        chunks, infos = self._methods.choose_actions(
            observations, arguments, shape, "chunks of actions"
        )
        if all_rows:
            chunks, infos = map_arrays(lambda array: array[due], (chunks, infos))
        if chunks.ndim < 3:
            raise ValueError(
                f"ActionChunks expects chunks of shape (n, H, A) with H >= {k} from the policy, "
                f"got {chunks.shape}: a policy that returns one action for each row needs no "
                "ActionChunks"
            )
        if chunks.shape[1] < k:
            raise ValueError(
                f"ActionChunks executes {k} actions of each chunk, but the policy returned chunks "
                f"of {chunks.shape[1]}, shape {chunks.shape}: pass k={chunks.shape[1]} or less"
            )
        return {"actions": chunks[:, :k], "infos": infos}

    def _require_rows(self, n: int) -> None:
        """Forgets the chunks of another number of environments than ``n``."""
        if n != len(self._executed):
            self._chunks, self._executed = None, np.full(n, self.action_chunk)


def _replace_rows(old: Any, new: Any, rows: Flags, name: str) -> Any:
    """Arrays ``(n, ...)``, possibly in dicts, with new values in the rows of a mask ``(n,)``."""
    if isinstance(new, dict):
        if isinstance(old, np.ndarray):
            raise ValueError(f"{name} must be an array in every call, got a dict")
        if old is not None and old.keys() != new.keys():
            raise ValueError(
                f"{name} must have the same keys in every call, {sorted(old)}, got {sorted(new)}"
            )
        return {
            key: _replace_rows(None if old is None else old[key], value, rows, f"{name} {key}")
            for key, value in new.items()
        }
    if isinstance(old, dict):
        raise ValueError(f"{name} must be a dict in every call, got an array")
    if old is None:
        old = np.zeros((len(rows), *new.shape[1:]), new.dtype)
    if old.shape[1:] != new.shape[1:]:
        raise ValueError(
            f"{name} must keep the shape {old.shape[1:]} of each row in every call, got "
            f"{new.shape[1:]}"
        )
    values = old.astype(np.result_type(old, new))  # a copy, because earlier steps hold the old ones
    values[rows] = new
    return values
