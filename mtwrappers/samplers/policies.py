"""How a policy is asked: by ``get_actions``, or as a plain callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

AgentInfos = dict[str, NDArray[Any]]


class PolicyCaller:
    """Asks a policy for the actions of ``M`` tasks times ``K`` environments.

    Args:
        policy: Has ``get_actions(observations (M, K, O)) -> actions, agent_infos``, with actions
            as nested lists or arrays, and agent_infos as a list (a task) of lists (an environment)
            of dicts, a list (a task) of dicts of arrays, a dict of arrays ``(M, K, ...)``, or
            ``None``. Or it is a callable from observations ``(M * K, O)`` to actions. It may have
            ``reset(mask)``, which is called with the environments whose episodes begin.
        meta_batch_size: ``M``.
        envs_per_task: ``K``.

    Raises:
        TypeError: If it is neither.
    """

    def __init__(self, policy: Any, meta_batch_size: int, envs_per_task: int) -> None:
        get_actions = getattr(policy, "get_actions", None)
        if not callable(get_actions) and not callable(policy):
            raise TypeError(
                f"a policy must have get_actions(observations) or be callable, got {policy!r}"
            )
        self._get: Callable[[Any], Any] | None = get_actions if callable(get_actions) else None
        self._policy = policy
        self._m, self._k = meta_batch_size, envs_per_task
        reset = getattr(policy, "reset", None)
        self._reset: Callable[[Any], Any] | None = reset if callable(reset) else None

    def reset(self, mask: NDArray[np.bool_]) -> None:
        """Tells the policy which environments begin an episode, shape ``(M * K,)``."""
        if self._reset is not None:
            self._reset(mask)

    def __call__(self, observations: NDArray[Any]) -> tuple[NDArray[Any], AgentInfos]:
        """Actions ``(M * K, ...)`` and agent infos ``(M * K, ...)`` for ``(M * K, O)``.

        Raises:
            ValueError: If the policy returns another number of actions.
        """
        m, k = self._m, self._k
        if self._get is None:
            actions = np.asarray(self._policy(observations))
            got = len(actions) if actions.ndim else actions
            if not actions.ndim or got != m * k:
                raise ValueError(f"expected {m * k} actions from the policy, got {got}")
            return actions, {}
        actions, infos = self._get(observations.reshape(m, k, *observations.shape[1:]))
        right = (
            actions.shape[:2] == (m, k)
            if isinstance(actions, np.ndarray)
            else len(actions) == m and all(len(own) == k for own in actions)
        )
        if not right:
            counts = [len(own) for own in actions]
            raise ValueError(
                f"expected {k} actions for each of {m} tasks from the policy, got {counts}"
            )
        array = np.asarray(actions)
        return array.reshape(m * k, *array.shape[2:]), self._flat_infos(infos)

    def _flat_infos(self, infos: Any) -> AgentInfos:
        m, k = self._m, self._k
        if infos is None or len(infos) == 0:
            return {}
        if isinstance(infos, Mapping):
            arrays = {key: np.asarray(value) for key, value in infos.items()}
            for key, a in arrays.items():
                if a.shape[:2] != (m, k):
                    raise ValueError(
                        f"expected agent_infos[{key!r}] of shape {(m, k)} and more, got {a.shape}"
                    )
            return {key: a.reshape(m * k, *a.shape[2:]) for key, a in arrays.items()}
        if len(infos) != m:
            raise ValueError(f"expected agent_infos for {m} tasks, got {len(infos)}")
        if isinstance(infos[0], Mapping):
            for task, own in enumerate(infos):
                for key, value in own.items():
                    if len(value) != k:
                        raise ValueError(
                            f"expected agent_infos[{key!r}] of task {task} to have {k} rows, got "
                            f"{len(value)}"
                        )
            return {key: np.concatenate([own[key] for own in infos]) for key in infos[0]}
        each = [info for own in infos for info in own]
        if len(each) != m * k:
            raise ValueError(f"expected agent_infos for {m * k} environments, got {len(each)}")
        return _by_key(each)


def _by_key(infos: Sequence[Mapping[str, Any]]) -> AgentInfos:
    return {key: np.asarray([info[key] for info in infos]) for key in infos[0]}
