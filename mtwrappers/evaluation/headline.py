"""The number of a protocol: which episodes count as successes, and what they are averaged over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.rules import TASKS, Groups, Rules
from mtwrappers.evaluation.statistics import Estimate, Values


def succeeded(episode: Episode, rules: Rules) -> bool:
    """Whether an episode is a success."""
    if rules.success == "held":
        return (episode.longest_success or 0) >= rules.held_for
    return bool(episode.success_once if rules.success == "any" else episode.success_final)


def episodes_needed(rules: Rules) -> int:
    """How many episodes count in all."""
    goals = rules.meta_batch_size * rules.trials
    return (goals or TASKS[rules.benchmark]) * rules.episodes_per_task


def weights(tasks: Sequence[str], over: str, groups: Groups) -> Values:
    """The weight of each task ``(M,)`` in a mean over ``"tasks"``, ``"groups"``, or of one group.

    Raises:
        ValueError: If a task is in no group, or a group has no task.
    """
    if over == "tasks":
        return np.full(len(tasks), 1 / len(tasks))
    found = np.zeros(len(tasks))
    chosen = groups if over == "groups" else [group for group in groups if group[0] == over]
    for name, members in chosen:
        present = [task for task in members if task in tasks]
        if not present:
            raise ValueError(f"a mean over groups needs tasks of {name!r}, got {list(tasks)}")
        for task in present:
            found[tasks.index(task)] += 1 / len(present) / len(chosen)
    if over == "groups" and not found.all():
        missing = [task for task, w in zip(tasks, found, strict=True) if not w]
        raise ValueError(f"no group has the tasks {missing}")
    return found


def headline(
    tasks: Sequence[str], rules: Rules, estimate: Callable[[Values], Estimate]
) -> dict[str, Estimate]:
    """The means that a protocol takes, the headline first, and then that of each of its groups.

    ``estimate`` gives the mean success rate for weights of the tasks ``(M,)``.
    """
    names = [*rules.means, *(name for name, _ in rules.groups)]
    return {name: estimate(weights(tasks, name, rules.groups)) for name in names}


def lines(
    rules: Rules, found: Mapping[str, Estimate] | None, episodes: int, confidence: float
) -> list[str]:
    """What a table says below its rows: the protocol and its numbers, or what is missing."""
    when = {"any": "at any step", "last": "at the last step"}
    success = when.get(rules.success, f"held for {rules.held_for} steps")
    where = rules.benchmark + "-test" * (rules.kind == "test")
    head = [f"protocol {rules.label}", f"on {where}{_of(rules.env_name)}: success {success}"]
    if found is None:
        return [*head, f"no score: {episodes} of {episodes_needed(rules)} episodes"]
    return [*head, *rows(found, confidence)]


def rows(found: Mapping[str, Estimate], confidence: float) -> list[str]:
    """The means of a headline with their intervals, a line each."""
    lines = []
    for name, mean in found.items():
        label = f"mean over {name}" if name in ("tasks", "groups") else f"  {name}"
        ends = ""
        if mean.low is not None and mean.high is not None:
            ends = f"  {mean.low:.3f} to {mean.high:.3f} ({100 * confidence:g}%)"
        lines.append(f"{label:<18}{mean.value:.3f}{ends}")
    return lines


def _of(env_name: str | None) -> str:
    return f" {env_name}" if env_name else ""
