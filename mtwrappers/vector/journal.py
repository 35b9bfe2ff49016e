"""What a worker that takes another's place is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtwrappers import seeding
from mtwrappers.vector.block import EachCall
from mtwrappers.vector.pool import command


class Journal:
    """What environments were told, so that a worker that takes another's place has the same tasks.

    Args:
        n: How many environments there are.
    """

    def __init__(self, n: int) -> None:
        self._seeds: list[int | None] = [None] * n
        self._restarts = 0
        self._began = False  # whether there was a reset
        self.columns: bytes | None = None  # the message that says which infos are shared
        # The last calls and attributes by name, in the order in which they were made.
        self._told: dict[str, tuple[str, Sequence[Any]]] = {}

    def note_seeds(self, seeds: Sequence[int | None]) -> None:
        """Notes the seeds of a reset; ``None`` keeps the last seed of an environment."""
        self._began = True
        both = zip(seeds, self._seeds, strict=True)
        self._seeds = [old if new is None else new for new, old in both]

    def note_call(self, name: str, each: EachCall) -> None:
        """Notes a call; environments that were left alone keep what they were told before."""
        before = self._told.pop(name, ("call", [None] * len(each)))[1]
        self._told[name] = "call", [new or old for new, old in zip(each, before, strict=True)]

    def note_attribute(self, name: str, values: Sequence[Any]) -> None:
        """Notes the values of an attribute."""
        self._told.pop(name, None)
        self._told[name] = "set_attr", values

    def messages(self, rows: slice) -> list[bytes]:
        """All that the environments in ``rows`` were told between episodes."""
        told = [command(what, name, each[rows]) for name, (what, each) in self._told.items()]
        if self.columns is not None:
            told.append(self.columns)
        return told

    def restart(self, rows: slice) -> bytes | None:
        """A reset from branches of the last seeds; ``None`` where there was no reset yet."""
        if not self._began:
            return None
        self._restarts += 1
        seeds = [
            None if seed is None else seeding.child_seed(seed, self._restarts)
            for seed in self._seeds[rows]
        ]
        return command("reset", seeds, None, None)
