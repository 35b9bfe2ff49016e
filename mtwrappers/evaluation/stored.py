"""Results that are kept as JSON."""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

Result = TypeVar("Result", bound="StoredResult")


class StoredResult(abc.ABC):
    """A result that is saved to JSON and loaded from it.

    A subclass says how it is named there (``FORMAT``), and implements `to_dict` and `_of_dict`.
    """

    FORMAT: ClassVar[str]

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON, with ``FORMAT`` as its ``format``."""

    @classmethod
    @abc.abstractmethod
    def _of_dict(cls: type[Result], data: Mapping[str, Any]) -> Result:
        """The result that `to_dict` described, whose format was checked."""

    @classmethod
    def from_dict(cls: type[Result], data: Mapping[str, Any]) -> Result:
        """The result that `to_dict` described.

        Raises:
            ValueError: If it is of another format.
        """
        found = data.get("format") if isinstance(data, Mapping) else data
        if found != cls.FORMAT:
            raise ValueError(f"expected an evaluation of the format {cls.FORMAT!r}, got {found!r}")
        return cls._of_dict(data)

    def save(self, path: str | Path) -> None:
        """Writes `to_dict` as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def load(cls: type[Result], path: str | Path) -> Result:
        """Reads what `save` wrote.

        Raises:
            ValueError: If it is something else.
        """
        return cls.from_dict(json.loads(Path(path).read_text()))
