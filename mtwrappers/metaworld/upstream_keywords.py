"""Meta-World's own keywords, so that changing the id of `gymnasium.make_vec` is all."""

from __future__ import annotations

from typing import Any

# Meta-World's keyword -> ours, and what each of its values is here (``None``: the same).
KEYWORDS: dict[str, tuple[str, dict[Any, Any] | None]] = {
    "vector_strategy": ("execution", {"sync": "iterative", "async": "parallel"}),
    "use_one_hot": ("task_encoding", {True: "onehot", False: "none"}),
    "task_select": ("select", {"random": "uniform", "pseudorandom": "without_replacement"}),
    "envs_list": ("train_classes", None),
    "train_envs": ("train_classes", None),
    "test_envs": ("test_classes", None),
}


def translated(benchmark: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of one of our ids, with Meta-World's own names replaced.

    Args:
        benchmark: The benchmark's name. The classes that its id has by default give way.
        kwargs: The arguments; not changed.

    Raises:
        TypeError: If an argument is given under both names.
        ValueError: If a value is none of Meta-World's.
    """
    result = dict(kwargs)
    for name, (ours, values) in KEYWORDS.items():
        if name not in kwargs:
            continue
        value = result.pop(name)
        if values is not None and not any(value is known or value == known for known in values):
            raise ValueError(f"{name} must be one of {list(values)}, got {value!r}")
        if ours in kwargs and not ours.endswith("_classes"):
            raise TypeError(f"{name} is Meta-World's name for {ours}, got both")
        result[ours] = value if values is None else values[value]
    return result
