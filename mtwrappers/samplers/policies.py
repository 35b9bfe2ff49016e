"""How a policy is asked: by ``get_actions``, or as a plain callable."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.nested import map_arrays, stack


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
            what = "what a policy without get_actions returns"
            actions = _array(self._policy(observations), what)
            if not actions.ndim or len(actions) != m * k:
                got = len(actions) if actions.ndim else actions
                raise ValueError(f"expected {m * k} actions from the policy, got {got}")
            return actions, {}
        answer = self._get(map_arrays(lambda a: a.reshape(m, k, *a.shape[1:]), observations))
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise TypeError(
                f"get_actions must return a pair (actions, agent_infos), got {_short(answer)}"
            )
        actions, infos = answer
        if infos is None or (isinstance(infos, (list, tuple)) and not infos):
            infos = {}
        elif isinstance(infos, (list, tuple)):
            per_task = [
                stack(own, "agent_infos", "environment", nodes=dict)
                if isinstance(own, (list, tuple))
                else own
                for own in infos
            ]
            infos = stack(per_task, "agent_infos", "task", nodes=dict)
        if not isinstance(infos, dict):
            raise TypeError(f"agent_infos must be dicts, in lists or not, got {_short(answer[1])}")
        return self._joined(actions, "actions"), self._joined(infos, "agent_infos")

    def _joined(self, values: Any, name: str) -> Any:
        """Arrays ``(M, K, ...)``, in dicts or not, as arrays ``(M * K, ...)``."""
        if isinstance(values, dict):
            return {k: self._joined(value, f"{name}[{k!r}]") for k, value in values.items()}
        array = _array(values, name)
        if array.shape[:2] != (self._m, self._k):
            raise ValueError(
                f"expected {name} of shape {(self._m, self._k)} and more from the policy, got "
                f"{array.shape}"
            )
        return array.reshape(-1, *array.shape[2:])


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function of C without a signature
        return True
    return True


def _array(values: Any, what: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{what} must be an array with rows of one shape, got {_short(values)}"
        ) from None


def _short(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:60] + '...'}"
