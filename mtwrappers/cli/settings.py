"""The settings that determine the results of a rollout."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from mtwrappers.common.registration import TABLE

BENCHMARKS = tuple(
    name.removeprefix("mtwrappers/").removesuffix("-v0")
    for name, (_, kwargs, _) in TABLE.items()
    if "benchmark" in kwargs and "train_classes" not in kwargs
)
POLICIES = ("expert", "random")  # which need no file of one's own
MAX_SEED = 2**32 - 2
MAX_COUNT = 1_000_000  # of episodes per class, and of workers

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
}


@dataclass(frozen=True)
class Settings:
    """The settings of a rollout, as the options of the command name them."""

    benchmark: str
    task: list[str] = field(default_factory=list)  # the classes; all without any
    policy: str = "expert"
    episodes: int = 5
    seed: int = 0
    no_fast: bool = False
    protocol: str | None = None
    name: str | None = None
    evidence: bool = True

    @classmethod
    def from_dict(cls, data: Any) -> Settings:
        """The settings that `dataclasses.asdict` has described, as they are read from a file.

        Raises:
            ValueError: If they are anything else.
        """
        names = [one.name for one in fields(cls)]
        if not isinstance(data, dict) or data.keys() != set(names):
            raise ValueError(f"expected settings {names}, got {reprlib.repr(data)}")
        for name, value in data.items():
            if not _IS_ALLOWED[name](value):
                raise ValueError(f"{name} cannot be {reprlib.repr(value)}")
        return cls(**data)
