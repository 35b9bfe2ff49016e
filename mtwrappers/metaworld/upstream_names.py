"""Meta-World's own names of arguments, which the registered ids accept.

So only the id in `gymnasium.make` or `gymnasium.make_vec` has to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtwrappers.common.checks import check_choice, positive
from mtwrappers.metaworld.class_env import CAMERAS, FREE

# Meta-World's keyword -> ours.
UPSTREAM_NAMES = {
    "vector_strategy": "execution",
    "use_one_hot": "task_encoding",
    "task_select": "select",
    "envs_list": "train_classes",
    "train_envs": "train_classes",
    "test_envs": "test_classes",
    "total_tasks_per_cls": "num_goals",
    "camera_id": "camera_name",
}
# Meta-World's values -> ours, for the keywords whose values differ.
_VALUES: dict[str, dict[Any, str]] = {
    "vector_strategy": {"sync": "iterative", "async": "parallel"},
    "use_one_hot": {True: "onehot", False: "none"},
    "task_select": {"random": "uniform", "pseudorandom": "without_replacement"},
    "camera_id": {FREE: "free", **dict(enumerate(CAMERAS))},
}


def rename_arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces Meta-World's names and values of keyword arguments by ours.

    Raises:
        TypeError: If both names of an argument are given.
        ValueError: If Meta-World does not accept a value.
    """
    renamed = dict(kwargs)
    for upstream_name, name in UPSTREAM_NAMES.items():
        value = renamed.pop(upstream_name, None)
        if value is None:  # Meta-World's default
            continue
        if upstream_name in _VALUES:
            values = _VALUES[upstream_name]
            value = values[check_choice(value, list(values), upstream_name)]
        if upstream_name == "total_tasks_per_cls":
            # Meta-World takes this many tasks from a list of num_goals.
            most = kwargs.get("num_goals", value)
            if positive(value, upstream_name) > positive(most, "num_goals"):
                raise ValueError(f"{upstream_name} must be at most num_goals={most}, got {value}")
        # The default classes of an id are in kwargs too, and are replaced.
        elif name in kwargs and not name.endswith("_classes"):
            raise TypeError(f"{upstream_name} is Meta-World's name for {name}, got both")
        renamed[name] = value
    return renamed
