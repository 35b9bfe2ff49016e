"""Termination of episodes on success."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_makers, check_string, check_success
from mtwrappers.common.types import AnyEnv, AnyWrapper, Info
from mtwrappers.wrappers.task_onehot import construct


class TerminateOnSuccess(AnyWrapper, RecordConstructorArgs):
    """Terminates an episode at the first step whose ``info["success"]`` is true.

    Infos, observations and rewards are not changed. For a vector environment, wrap each
    sub-environment with `wrap_env_cons_list`, before any wrapper that counts episodes.

    Args:
        env: An environment that reports ``info["success"]`` at every step.
        key: The key of the success in infos, such as ``"is_success"``.

    Raises:
        TypeError: If the key is not a string.
        ValueError: On a step whose info lacks the key, or has something else than a bool, 0 or 1.

    >>> from mtwrappers import PointGoalEnv
    >>> from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
    >>> env = TerminateOnSuccess(PointGoalEnv(radius=0.1))
    >>> obs, info = env.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = env.step([0.1, 0.0])
    >>> terminated, info["success"]
    (True, 1.0)
    """

    def __init__(self, env: AnyEnv, key: str = "success") -> None:
        check_string(key, "key")
        RecordConstructorArgs.__init__(self, key=key)
        super().__init__(env)
        self._key, self._name = key, f"info[{key!r}]"

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        try:
            success = info[self._key]
        except KeyError:
            raise ValueError(
                f"expected {self._key!r} in the info of every step, got {sorted(info)}"
            ) from None
        succeeded = check_success(success, self._name)
        return obs, reward, terminated or succeeded, truncated, info

    @classmethod
    def wrap_env_cons_list(
        cls, env_cons: Sequence[Callable[[], AnyEnv]], key: str = "success"
    ) -> list[Callable[[], TerminateOnSuccess]]:
        """Wraps each constructor; the results can be pickled if the constructors can.

        Use it for vector environments: ``MetaParallelEnvExecutor(wrap_env_cons_list(makers), M,
        K)``.
        """
        check_string(key, "key")
        makers = check_makers(env_cons, "env_cons")
        return [functools.partial(construct, cls, make, key) for make in makers]
