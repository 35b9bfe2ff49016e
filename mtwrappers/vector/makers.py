"""What an executor may be given: a constructor, a list of them, or an environment that pickles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import cloudpickle
import gymnasium

Maker: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]


def resolve_makers(
    env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
    meta_batch_size: int,
    envs_per_task: int,
) -> list[Maker]:
    """One constructor for each of ``meta_batch_size * envs_per_task`` environments.

    Raises:
        TypeError: If ``env`` is none of the three, or does not pickle.
        ValueError: If a list has another length than the tasks or the environments.
    """
    n = meta_batch_size * envs_per_task
    makers: list[Any]
    if isinstance(env, gymnasium.Env):
        try:
            data = cloudpickle.dumps(env)
        except Exception as exc:
            raise TypeError(
                f"an environment must pickle to be given to an executor, {env} does not ({exc}); "
                "give its constructor instead"
            ) from exc
        makers = [functools.partial(cloudpickle.loads, data)] * n
    elif callable(env):
        makers = [env] * n
    elif isinstance(env, Sequence) and not isinstance(env, (str, bytes)):
        if len(env) == n:
            makers = list(env)
        elif len(env) == meta_batch_size:
            makers = [maker for maker in env for _ in range(envs_per_task)]
        else:
            raise ValueError(
                f"expected {meta_batch_size} constructors (one a task) or {n} (one an "
                f"environment), got {len(env)}"
            )
    else:
        raise TypeError(
            f"expected a constructor, a list of constructors or a gymnasium.Env, got {env!r}"
        )
    for i, maker in enumerate(makers):
        if not callable(maker):
            raise TypeError(f"the constructor of environment {i} must be callable, got {maker!r}")
    return makers
