"""What an evaluation is made of: one record an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mtwrappers.evaluation.statistics import Values

METRICS = ("success_once", "success_final", "return", "length")


@dataclass(frozen=True)
class Episode:
    """One whole episode.

    Args:
        task: The name of its task.
        number: Which of its task's episodes it is, from 0; in few-shot evaluation, which of its
            trial's.
        episode_return: The undiscounted sum of rewards.
        length: Steps.
        success_once: Whether any step was a success; ``None`` where infos do not say.
        success_final: Whether the last step was one.
        task_state: The task state that was played, where the evaluation chose it.
        trial: The trial it belongs to; ``None`` where every episode stands alone.
    """

    task: str
    number: int
    episode_return: float
    length: int
    success_once: bool | None = None
    success_final: bool | None = None
    task_state: int | None = None
    trial: int | None = None

    def metric(self, name: str) -> float | None:
        """One of `METRICS` as a number."""
        value = getattr(self, "episode_return" if name == "return" else name)
        return None if value is None else float(value)

    def to_dict(self) -> dict[str, Any]:
        """Its fields, ready for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def samples_of(episodes: Sequence[Episode], name: str) -> Values | None:
    """The independent values ``(n,)`` of a metric, or ``None`` where no episode has it.

    Episodes of one trial share their goal and what was learnt, so they count as one value: their
    mean. An episode that does not say whether it succeeded, among others that do, did not.
    """
    values = [episode.metric(name) for episode in episodes]
    if all(value is None for value in values):
        return None
    units: dict[Any, list[float]] = {}
    for i, (episode, value) in enumerate(zip(episodes, values, strict=True)):
        unit = ("episode", i) if episode.trial is None else ("trial", episode.trial)
        units.setdefault(unit, []).append(value or 0.0)
    return np.array([np.mean(unit) for unit in units.values()], dtype=np.float64)
