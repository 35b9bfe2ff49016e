"""How a policy is asked: by ``get_actions``, or as a plain callable."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.nested import map_arrays


class PolicyCaller:
    """Asks a policy for the actions of ``M`` tasks times ``K`` environments.

    Args:
        policy: Has ``get_actions(observations) -> actions, agent_infos``, or is a callable from
            observations ``(M * K, O)`` to actions. ``get_actions`` is given observations
            ``(M, K, O)`` (a dict or tuple of such arrays where the environments observe one) and
            answers with actions ``(M, K, A)``, as nested lists or arrays. Its ``agent_infos`` are
            what is to be kept beside each action: a dict of arrays ``(M, K, ...)``, a list with a
            dict of arrays ``(K, ...)`` per task, a list per task with a dict per environment, or
            ``None``; dicts may be nested. The policy may have ``reset(mask)``, which is called
            with the environments whose episodes begin, ``(M * K,)`` bool, before their first
            action. A ``reset()`` that takes nothing cannot tell environments apart, and is called
            only where all begin together.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.

    Raises:
        TypeError: If the policy has no ``get_actions`` and is not callable.
    """

    def __init__(self, policy: Any, meta_batch_size: int, envs_per_task: int) -> None:
        get_actions = getattr(policy, "get_actions", None)
        if isinstance(policy, type) or not (callable(get_actions) or callable(policy)):
            raise TypeError(
                f"a policy must have get_actions(observations) or be callable, got {policy!r}"
            )
        self._get: Callable[[Any], Any] | None = get_actions if callable(get_actions) else None
        self._policy = policy
        self._m, self._k = meta_batch_size, envs_per_task
        reset = getattr(policy, "reset", None)
        self._reset: Callable[..., Any] | None = reset if callable(reset) else None
        self._takes_mask = self._reset is not None and _takes_argument(self._reset)

    def reset(self, mask: NDArray[np.bool_]) -> None:
        """Tells the policy which environments begin an episode, shape ``(M * K,)``."""
        if self._reset is None:
            return
        if self._takes_mask:
            self._reset(mask)
        elif mask.all():
            self._reset()

    def __call__(self, observations: Any) -> tuple[NDArray[Any], dict[str, Any]]:
        """Actions ``(M * K, A)`` and agent infos ``(M * K, ...)`` for ``(M * K, O)``.

        Raises:
            TypeError: If ``get_actions`` returns no pair, or agent infos are of another form.
            ValueError: If the policy returns another number of actions or agent infos.
        """
        m, k = self._m, self._k
        if self._get is None:
            actions = _array(
                self._policy(observations), "what a policy without get_actions returns"
            )
            got = len(actions) if actions.ndim else actions
            if not actions.ndim or got != m * k:
                raise ValueError(f"expected {m * k} actions from the policy, got {got}")
            return actions, {}
        answer = self._get(map_arrays(lambda a, *_: a.reshape(m, k, *a.shape[1:]), observations))
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise TypeError(
                f"get_actions must return a pair (actions, agent_infos), got {_short(answer)}"
            )
        actions, infos = answer
        shaped = isinstance(actions, np.ndarray) and actions.shape[:2] == (m, k)
        if not shaped and (counts := _lengths(actions)) != [k] * m:
            raise ValueError(
                f"expected {k} actions for each of {m} tasks from the policy, got {counts}"
            )
        array = _array(actions, "the policy's actions")
        return array.reshape(m * k, *array.shape[2:]), self._flat(infos)

    def _flat(self, infos: Any) -> dict[str, Any]:
        """Agent infos of any form as a nested dict of arrays ``(M * K, ...)``."""
        m, k = self._m, self._k
        if infos is None or (isinstance(infos, (dict, list, tuple)) and len(infos) == 0):
            return {}
        if not isinstance(infos, dict):
            if not isinstance(infos, (list, tuple)):
                raise TypeError(f"agent_infos must be dicts, in lists or not, got {_short(infos)}")
            if len(infos) != m:
                raise ValueError(f"expected agent_infos for {m} tasks, got {len(infos)}")
            if not isinstance(infos[0], dict):
                each = [info for own in infos for info in own]
                if len(each) != m * k:
                    raise ValueError(
                        f"expected agent_infos for {m * k} environments, got {len(each)}"
                    )
                return _stacked(each, "agent_infos")
            infos = _stacked(infos, "agent_infos")

        def flat(values: Any, *path: Any) -> NDArray[Any]:
            array = _array(values, f"agent_infos{_keys(path)}")
            if array.shape[:2] != (m, k):
                raise ValueError(
                    f"expected agent_infos{_keys(path)} of shape {(m, k)} and more, got "
                    f"{array.shape}"
                )
            return array.reshape(m * k, *array.shape[2:])

        arrays: dict[str, Any] = map_arrays(flat, infos)
        return arrays


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function of C without a signature
        return True
    return True


def _stacked(infos: Sequence[Any], what: str) -> dict[str, Any]:
    """Dicts of the same keys, one per task or environment, as a dict of arrays."""
    first = infos[0]
    for i, info in enumerate(infos):
        if not isinstance(info, dict) or info.keys() != first.keys():
            got = sorted(info) if isinstance(info, dict) else repr(info)
            raise ValueError(
                f"{what} {i} must have the keys {sorted(first)} of the first, got {got}"
            )
    stacked: dict[str, Any] = {}
    for key, value in first.items():
        values, own = [info[key] for info in infos], f"{what}[{key!r}]"
        stacked[key] = _stacked(values, own) if isinstance(value, dict) else _array(values, own)
    return stacked


def _array(values: Any, what: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{what} must be an array with rows of one shape, got {_short(values)}"
        ) from None


def _lengths(actions: Any) -> Any:
    """How many actions there are per task, or what there is instead."""
    try:
        return [len(own) for own in actions]
    except TypeError:
        return _short(actions)


def _keys(path: Sequence[Any]) -> str:
    return "".join(f"[{key!r}]" for key in path)


def _short(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:60] + '...'}"
