"""The number of a protocol: which episodes count as successes, and what they are averaged over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.rules import Groups, Rules
from mtwrappers.evaluation.statistics import Estimate, Values

# How many tasks the benchmarks have; the test split for meta-learning.
TASKS = {"MT1": 1, "MT10": 10, "MT25": 25, "MT50": 50, "ML1": 1, "ML10": 5, "ML25": 5, "ML45": 5}


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


def lines(rules: Rules, found: Mapping[str, Estimate] | None, episodes: int) -> list[str]:
    """What a table says below its rows: the protocol and its numbers, or what is missing."""
    when = {"any": "at any step", "last": "at the last step"}
    success = when.get(rules.success, f"held for {rules.held_for} steps")
    split = "-test" if rules.kind == "test" else ""
    where = f"{rules.benchmark}{split} ({rules.digest[:12]})"
    head = f"protocol {rules.name} on {where}: success {success}"
    if found is None:
        return [head, f"no score: {episodes} of {episodes_needed(rules)} episodes"]
    rows = []
    for name, mean in found.items():
        label = f"mean over {name}" if name in ("tasks", "groups") else f"  {name}"
        ends = "" if mean.low is None else f"  {mean.low:.3f}-{mean.high:.3f}"
        rows.append(f"{label:<18}{mean.value:.3f}{ends}")
    return [head, *rows]
