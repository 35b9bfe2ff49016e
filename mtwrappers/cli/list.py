"""``mtwrappers list``: every environment id, with its classes, spaces and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium.error import DependencyNotInstalled

from mtwrappers.cli.console import say
from mtwrappers.common.registration import FAMILIES, TABLE
from mtwrappers.metaworld.wrapper_settings import WITHOUT_ONEHOT

# The columns, and the format of their cells.
COLUMNS = {
    "id": "{:32}",
    "classes": "{:>7}",
    "goals": "{:>5}",
    "observation": "{:12}",
    "action": "{:11}",
    "encoding": "{}",
}
NOTES = """
goals: the number per class, or a new one in every episode
encoding: how observations of make() identify the class
make_vec() makes one environment per class by default, and 1 for CW10, CW20, any"""


def run() -> int:
    """Print every environment id with its classes, spaces and sizes."""
    form = " ".join(COLUMNS.values())
    groups: dict[str, list[str]] = {}
    missing: set[str] = set()
    for env_id, (_, kwargs, _) in TABLE.items():
        extra = _extra(kwargs)
        try:
            cells = _row(env_id, kwargs)
        except DependencyNotInstalled:
            if not extra:
                raise
            cells = [env_id, *[""] * (len(COLUMNS) - 1)]
            missing.add(extra)
        groups.setdefault(extra, []).append(form.format(*cells).rstrip())
    say(form.format(*COLUMNS), "bold")
    for extra, rows in groups.items():
        title = f"with pip install '.[{extra}]'" if extra else "without an extra"
        say(f"\n{title}" + ", which is not installed" * (extra in missing), "bold")
        say("\n".join(rows))
    say(NOTES)
    return 0


def _extra(kwargs: dict[str, Any]) -> str:
    """The extra that environments with some arguments need, or ``""``."""
    if {"sequence", "benchmark"} & kwargs.keys():
        return "metaworld"
    return FAMILIES[kwargs["family"]] or "" if "family" in kwargs else ""


def _row(env_id: str, kwargs: dict[str, Any]) -> Sequence[Any]:
    """The row of an id."""
    env: Any = gymnasium.make(env_id, disable_env_checker=True)
    named = env.has_wrapper_attr("task_names") and env.get_wrapper_attr("task_names") is not None
    num_classes = len(env.get_wrapper_attr("task_names")) if named else 0
    encoding = "onehot" if num_classes else "none"
    goals: Any = "new" if {"sequence", "family"} & kwargs.keys() else "-"
    if "benchmark" in kwargs:
        encoding = "none" if kwargs["benchmark"] in WITHOUT_ONEHOT else "onehot"
        goals = env.get_wrapper_attr("num_tasks") // num_classes
    spaces = _space(env.observation_space), _space(env.action_space)
    env.close()
    return env_id, num_classes or "any", goals, *spaces, encoding


def _space(space: Any) -> str:
    return f"{space}" if not space.shape else f"{space.dtype}{list(space.shape)}"
