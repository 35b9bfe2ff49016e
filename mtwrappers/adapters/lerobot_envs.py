"""Meta-World for LeRobot: groups of classes, and an environment of one class."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.spaces import Dict
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_choice
from mtwrappers.common.types import AnyEnv, AnyWrapper, Options
from mtwrappers.evaluation.published import DIFFICULTY
from mtwrappers.metaworld.tasks import make_benchmark
from mtwrappers.metaworld.upstream import all_classes

_BENCHMARKS = ("MT10", "MT25", "MT50")


def classes_of(task: str) -> dict[str, list[str]]:
    """Returns the classes of each part of LeRobot's ``task``, in order.

    Args:
        task: Parts with commas between: a class such as ``"reach-v3"``; LeRobot's groups
            ``"easy"``, ``"medium"``, ``"hard"`` and ``"very_hard"``; ``"MT10"``, ``"MT25"`` or
            ``"MT50"``.

    Raises:
        ValueError: If there is no such part, or a part is given twice.

    >>> from mtwrappers.adapters.lerobot_envs import classes_of
    >>> classes_of("reach-v3, hard")["hard"][:2]
    ['assembly-v3', 'hand-insert-v3']
    """
    groups = {name: list(names) for name, names in DIFFICULTY}
    groups |= {name: [name] for name in all_classes()}
    classes: dict[str, list[str]] = {}
    for name in task.split(","):
        group = name.strip()
        check_choice(group, (*groups, *_BENCHMARKS), "each part of task")
        if group in classes:
            raise ValueError(f"the parts of task must differ, got {group!r} twice in {task!r}")
        if group in _BENCHMARKS:
            groups[group] = list(make_benchmark(group, num_goals=1).train_classes)
        classes[group] = groups[group]
    return classes


class LeRobotEnv(AnyWrapper, RecordConstructorArgs):
    """Returns frames in a dict, and ``is_success``, a bool, in every info.

    Args:
        env: An environment that reports ``success`` in every info. Observations that are frames, of
            one or several cameras, become its ``pixels``.
    """

    def __init__(self, env: AnyEnv) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        space = env.observation_space
        self._only_pixels = not (isinstance(space, Dict) and "pixels" in space.spaces)
        if self._only_pixels:
            self.observation_space = Dict({"pixels": space})

    def reset(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        return self._in_dict(obs), _with_success(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._in_dict(obs), reward, terminated, truncated, _with_success(info)

    def _in_dict(self, obs: Any) -> Any:
        return {"pixels": obs} if self._only_pixels else obs


def _with_success(info: dict[str, Any]) -> dict[str, Any]:
    return {**info, "is_success": bool(info["success"])}


def make_class_env(name: str, **kwargs: Any) -> LeRobotEnv:
    """Makes the environment of one class: goals are continuous, a success ends the episode.

    Its model is compiled at the first `reset`.

    Args:
        name: Such as ``"reach-v3"``.
        **kwargs: Other arguments of `gymnasium.make` for ``mtwrappers/MT1-v0``, such as
            ``observation``, ``width`` and ``height``; see `make_env`.

    >>> from mtwrappers.adapters.lerobot_envs import make_class_env
    >>> env = make_class_env("reach-v3", observation="pixels_agent_pos", width=64, height=64)
    >>> {name: space.shape for name, space in env.observation_space.items()}
    {'agent_pos': (4,), 'pixels': (64, 64, 3)}
    """
    env: AnyEnv = gymnasium.make(
        "mtwrappers:mtwrappers/MT1-v0",
        env_name=name,
        goals="continuous",
        terminate_on_success=True,
        **kwargs,
    )
    return LeRobotEnv(env)
