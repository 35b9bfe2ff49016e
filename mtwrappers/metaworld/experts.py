"""Meta-World's scripted experts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.extras import import_extra
from mtwrappers.common.types import AnyArray
from mtwrappers.metaworld.class_env import OBS_SIZE
from mtwrappers.metaworld.upstream import with_globals

# Returns an action, given an observation and a goal.
Expert: TypeAlias = Callable[[AnyArray, AnyArray], NDArray[np.float32]]


class _ScriptedPolicy(Protocol):
    """A policy of Meta-World."""

    def get_action(self, obs: NDArray[np.float64]) -> NDArray[np.float32]:
        """The action, ``(4,)``, for an observation, ``(39,)``."""


_GOAL = slice(OBS_SIZE - 3, OBS_SIZE)


def expert_actions(
    task_names: Sequence[str], observations: AnyArray, goals: ArrayLike | None = None
) -> NDArray[np.float32]:
    """Returns the actions of scripted experts, as labels for DAgger or as a policy to record.

    Each row has its own expert, and its action depends only on that row. Nothing is stepped or
    changed, so a learner can query experts in any state that it visits.

    Args:
        task_names: The ``N`` class names, such as ``infos["task_name"]`` of ``make_vec``.
        observations: ``(N, 39 + anything)``, such as states with a one-hot.
        goals: ``(N, 3)`` in metres, which replace the goals in the observations. They are required
            if goals are hidden (ML): ``envs.get_attr("goal")``.

    Returns:
        Actions ``(N, 4)``, float32, clipped to [-1, 1].

    Raises:
        ValueError: If a class has no expert, the shapes do not fit, or a goal is hidden.

    >>> import gymnasium, mtwrappers
    >>> from mtwrappers.metaworld.experts import expert_actions
    >>> envs = gymnasium.make_vec("mtwrappers/MT10-v0")
    >>> observations, infos = envs.reset(seed=0)
    >>> expert_actions(infos["task_name"], observations).shape
    (10, 4)
    >>> envs.close()
    """
    rows, n = np.asarray(observations), len(task_names)
    if rows.ndim != 2 or len(rows) != n or rows.shape[1] < OBS_SIZE:
        raise ValueError(
            f"observations of {n} tasks must be ({n}, {OBS_SIZE} or more), got {rows.shape}"
        )
    if goals is None:
        goals = rows[:, _GOAL]
        if hidden := [i for i in range(n) if not goals[i].any()]:
            raise ValueError(
                f"the goal is hidden in observation {hidden[0]} ({task_names[hidden[0]]}): pass "
                'goals, such as envs.get_attr("goal")'
            )
    goals = np.asarray(goals)
    if goals.shape != (n, 3):
        raise ValueError(f"goals of {n} tasks must be ({n}, 3), got {goals.shape}")
    actions = np.empty((n, 4), np.float32)
    for i, name in enumerate(task_names):
        actions[i] = expert(name)(rows[i], goals[i])
    return actions.clip(-1.0, 1.0)


def expert(class_name: str) -> Expert:
    """Meta-World's scripted expert of a class: ``act(obs, goal) -> action``.

    ``obs`` is ``(39 + anything,)``; ``goal``, ``(3,)`` in metres, replaces the goal in ``obs``; the
    action, ``(4,)``, may be out of bounds. `expert_actions` clips actions, and takes a batch.

    Raises:
        ValueError: If there is no such expert.

    >>> import gymnasium, mtwrappers
    >>> from mtwrappers.metaworld.experts import expert
    >>> env = gymnasium.make("mtwrappers/MT1-v0", env_name="reach-v3", num_goals=1)
    >>> obs, info = env.reset(seed=0)
    >>> act, steps = expert("reach-v3"), 0
    >>> while not info["success"]:
    ...     action = act(obs, env.unwrapped.goal).clip(-1, 1)
    ...     obs, reward, terminated, truncated, info = env.step(action)
    ...     steps += 1
    >>> steps
    51
    """
    policy = _policy(class_name)

    def act(obs: AnyArray, goal: AnyArray) -> NDArray[np.float32]:
        frame = np.array(obs[:OBS_SIZE], dtype=np.float64)
        frame[_GOAL] = goal
        return policy.get_action(frame)

    return act


@functools.cache
def _policy(class_name: str) -> _ScriptedPolicy:
    """Meta-World's policy, which is stateless, without its warnings about clipped actions."""
    policies = import_extra("metaworld.policies", "metaworld").ENV_POLICY_MAP
    if class_name not in policies:
        hint = did_you_mean(class_name, policies) or f"expected one of {sorted(policies)}"
        raise ValueError(f"no expert for {class_name!r}; {hint}")
    cls = policies[class_name]
    names = {"get_action": with_globals(cls.get_action, {"move": _move})}
    policy: _ScriptedPolicy = type(cls.__name__, (cls,), names)()
    return policy


def _move(
    from_xyz: NDArray[np.float64], to_xyz: NDArray[np.float64], p: float
) -> NDArray[np.float64]:
    """Meta-World's ``move`` without its warning."""
    return p * (to_xyz - from_xyz)
