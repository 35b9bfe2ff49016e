"""The settings that determine the results of a rollout."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from mtwrappers.common.errors import is_printable
from mtwrappers.common.registration import TABLE

BENCHMARKS = tuple(
    name.removeprefix("mtwrappers/").removesuffix("-v0")
    for name, (_, kwargs, _) in TABLE.items()
    if "benchmark" in kwargs and "train_classes" not in kwargs
)
POLICIES = ("expert", "random")  # built in
LIBRARIES = ("minari", "lerobot")  # that have datasets
MAX_SEED = 2**32 - 2
MAX_NOTE, MAX_AUTHORS = 1000, 30  # characters, names
MAX_COUNT = 1_000_000  # of episodes per class, and of workers


def is_dataset(text: str) -> bool:
    """Whether a text is the address of a dataset, not a path."""
    return text.startswith(tuple(f"{library}:" for library in LIBRARIES))


def is_note(text: str) -> bool:
    """Whether a text is a valid note of a result."""
    return len(text) <= MAX_NOTE and is_printable(text)


def is_name(text: Any) -> bool:
    """Whether a text is a valid name of a policy or an author."""
    if not isinstance(text, str) or len(text) > 100:
        return False
    return bool(text.strip()) and is_printable(text)


def are_authors(names: list[Any]) -> bool:
    """Whether names are valid authors of a result."""
    return len(names) <= MAX_AUTHORS and all(map(is_name, names))


def _is_chunk(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MAX_COUNT


_IS_ALLOWED: dict[str, Callable[[Any], bool]] = {
    "benchmark": lambda value: type(value) is str and len(value) < 100,
    "task": lambda value: type(value) is list and all(type(name) is str for name in value),
    "policy": lambda value: type(value) is str,
    "episodes": lambda value: type(value) is int and 1 <= value <= MAX_COUNT,
    "seed": lambda value: type(value) is int and 0 <= value <= MAX_SEED,
    "no_fast": lambda value: type(value) is bool,
    "protocol": lambda value: value is None or type(value) is str,
    "name": lambda value: value is None or type(value) is str,
    "evidence": lambda value: type(value) is bool,
    "training_seed": lambda value: value is None or (type(value) is int and 0 <= value < 2**63),
    "training_steps": lambda value: value is None or (type(value) is int and 0 <= value < 2**63),
    "action_chunk": lambda value: value is None or _is_chunk(value),
    "note": lambda value: type(value) is str and is_note(value),
    "authors": lambda value: type(value) is list and are_authors(value),
}


@dataclass(frozen=True)
class Settings:
    """The settings of a rollout, named like the options of the command."""

    benchmark: str
    task: list[str] = field(default_factory=list)  # the classes; if empty, all
    policy: str = "expert"
    episodes: int = 5
    seed: int = 0
    no_fast: bool = False
    protocol: str | None = None
    name: str | None = None
    evidence: bool = True
    training_seed: int | None = None
    training_steps: int | None = None
    action_chunk: int | None = None
    note: str = ""
    authors: list[str] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: Any) -> Settings:
        """Returns the settings from their `dataclasses.asdict`, as read from a file.

        Raises:
            ValueError: If ``data`` is anything else.
        """
        names = [one.name for one in fields(cls)]
        if not isinstance(data, dict) or data.keys() != set(names):
            raise ValueError(f"expected settings {names}, got {reprlib.repr(data)}")
        for name, value in data.items():
            if not _IS_ALLOWED[name](value):
                raise ValueError(f"{name} cannot be {reprlib.repr(value)}")
        return cls(**data)
