"""What a few-shot evaluation found: before, while and after the policy adapted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mtwrappers.evaluation import plot
from mtwrappers.evaluation.result import EvaluationResult, StoredResult
from mtwrappers.evaluation.table import table


@dataclass(frozen=True)
class FewShotResult(StoredResult):
    """The episodes that a policy adapted on, and those that it was then evaluated on.

    Intervals are over trials: the episodes of one trial share a goal and what was learnt.

    Args:
        adaptation: The episodes of adaptation. For a policy that adapts between episodes and not
            within (``adapt``, in one step), its success before it has adapted.
        evaluation: The episodes after it.
    """

    FORMAT = "mtwrappers.FewShotResult/2"

    adaptation: EvaluationResult
    evaluation: EvaluationResult

    @cached_property
    def by_episode(self) -> tuple[EvaluationResult, ...]:
        """A result for each place in a trial: the first is before any adaptation."""
        both = (*self.adaptation.episodes, *self.evaluation.episodes)
        settings = (self.evaluation.seed, self.evaluation.confidence, self.evaluation.resamples)
        places = sorted({episode.number for episode in both})
        return tuple(
            EvaluationResult([e for e in both if e.number == place], *settings) for place in places
        )

    @property
    def adaptation_length(self) -> int:
        """How many of `by_episode` are adaptation."""
        return len({episode.number for episode in self.adaptation.episodes})

    def __str__(self) -> str:
        what = ["adaptation"] * self.adaptation_length + ["evaluation"] * len(self.by_episode)
        rows = [
            (f"{what[i]}, episode {i + 1}", len(step.episodes), step.overall["mean"])
            for i, step in enumerate(self.by_episode)
        ]
        steps = table("mean over tasks", rows, self.evaluation.confidence)
        return "\n".join(["after adaptation:", str(self.evaluation), "", *steps])

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        steps = [step.to_dict() for step in self.by_episode]
        return {
            "format": self.FORMAT,
            "adaptation": self.adaptation.to_dict(),
            "evaluation": self.evaluation.to_dict(),
            "by_episode": [{key: step[key] for key in ("tasks", "overall")} for step in steps],
        }

    @classmethod
    def _of_dict(cls, data: Mapping[str, Any]) -> FewShotResult:
        return cls(*(EvaluationResult.from_dict(data[key]) for key in ("adaptation", "evaluation")))

    def plot(self, path: str | Path, title: str = "") -> None:
        """Draws success (or return) by episode of the trial, for each task and on average.

        Args:
            path: Where to write the image; its suffix says which kind.
            title: Above the plot.
        """
        metric = "success_once" if self.evaluation.has_success else "return"
        means = [step.overall["mean"][metric] for step in self.by_episode]
        curves = {
            task: [step.per_task.get(task, {}).get(metric) for step in self.by_episode]
            for task in self.evaluation.tasks
        }
        plot.draw_curves(Path(path), metric, curves, means, self.adaptation_length, title)
