"""``mtwrappers list``: every environment id, with its classes, spaces and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium

from mtwrappers.cli.console import say
from mtwrappers.common.registration import FAMILIES, TABLE
from mtwrappers.metaworld.wrapper_settings import WITHOUT_ONEHOT

# The columns, and the format of their cells.
COLUMNS = {
    "id": "{:32}",
    "classes": "{:>7}",
    "goals": "{:>5}",
    "observation": "{:12}",
    "action": "{:12}",
    "encoding": "{:8}",
    "envs": "{:>4}",
    "extra": "{}",
}
NOTES = """
goals: the number per class, or a new one in every episode
encoding: how observations of make() identify the class
envs: the number that make_vec() makes by default
extra: what they need, as in pip install '.[metaworld]'"""


def run() -> int:
    """Print every environment id with its classes, spaces and sizes."""
    rows: list[Sequence[Any]] = [list(COLUMNS)]
    rows += [_row(env_id, kwargs) for env_id, (_, kwargs, _) in TABLE.items()]
    form = " ".join(COLUMNS.values())
    for row in rows:
        say(form.format(*row), "bold" if row is rows[0] else "")
    say(NOTES)
    return 0


def _row(env_id: str, kwargs: dict[str, Any]) -> Sequence[Any]:
    """The row of an id."""
    env: Any = gymnasium.make(env_id, disable_env_checker=True)
    named = env.has_wrapper_attr("task_names") and env.get_wrapper_attr("task_names") is not None
    num_classes = len(env.get_wrapper_attr("task_names")) if named else 0
    encoding = "onehot" if num_classes else "none"
    extra = "metaworld" if {"sequence", "benchmark"} & kwargs.keys() else "-"
    goals: Any = "new" if "sequence" in kwargs else "-"
    if "benchmark" in kwargs:
        encoding = "none" if kwargs["benchmark"] in WITHOUT_ONEHOT else "onehot"
        goals = env.get_wrapper_attr("num_tasks") // num_classes
    if "family" in kwargs:
        goals, extra = "new", FAMILIES[kwargs["family"]] or "-"
    row = (
        env_id,
        num_classes or "any",
        goals,
        _space(env.observation_space),
        _space(env.action_space),
        encoding,
        1 if env.has_wrapper_attr("phases") else num_classes or 1,
        extra,
    )
    env.close()
    return row


def _space(space: Any) -> str:
    return f"{space}" if not space.shape else f"{space.dtype}{list(space.shape)}"
