"""`Scoring`: how episodes become a score, and the weights of tasks in its means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_type_hints

from mtwrappers.common.checks import check_choice
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.evaluation.plan import TRIAL_NUMBERS
from mtwrappers.evaluation.statistics import equal_weights
from mtwrappers.evaluation.typed import from_plain, to_plain
from mtwrappers.metaworld.env_settings import EnvSettings
from mtwrappers.metaworld.tasks import class_names
from mtwrappers.metaworld.text import DESCRIPTIONS

Means: TypeAlias = Literal["tasks", "groups"]
Groups: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
# The weight of each task in a mean, of those that have one; they sum to 1.
TaskWeights: TypeAlias = Mapping[str, float]

# Meta-World's classes, which need no import of Meta-World.
_CLASSES = tuple(DESCRIPTIONS["metaworld"])
_AT_LEAST_1 = ("success", "episodes_per_task")
_MAX_NUMBER = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The number of episodes, what counts as a success, and what means are taken over.

    Args:
        success: When an episode is a success: at ``"any"`` step, at the ``"last"``, or when success
            was held for this number of consecutive steps.
        means: What successes are averaged over, the headline first: ``"tasks"`` (tasks have equal
            weight) and ``"groups"`` (named groups of tasks have equal weight).
        groups: The named groups and their tasks, which are classes of Meta-World.
        episodes_per_task: The number of episodes per task, or per goal in few-shot evaluation.
        trials: In few-shot evaluation, the number of goals of each task that adapts; else 0.
        adaptation_episodes: In few-shot evaluation, the number of episodes per adaptation step.
        adaptation_steps: In few-shot evaluation, the number of adaptation steps.

    Raises:
        ValueError: If a field is not valid, or fields contradict each other.

    >>> from mtwrappers.evaluation.scoring import Scoring
    >>> Scoring(success="last", episodes_per_task=10).means
    ('tasks',)
    """

    success: Literal["any", "last"] | int = "any"
    means: tuple[Means, ...] = ("tasks",)
    groups: Groups = ()
    episodes_per_task: int = 50
    trials: int = 0
    adaptation_episodes: int = 0
    adaptation_steps: int = 0

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for name, value in list(vars(self).items()):
            value = from_plain(hints[name], to_plain(value), name)
            object.__setattr__(self, name, value)
            least = int(name in _AT_LEAST_1)
            if type(value) is int and not least <= value <= _MAX_NUMBER:
                raise ValueError(f"{name} must be in [{least}, 2**32 - 1], got {value}")
        for contradiction in self._contradictions():
            raise ValueError(contradiction)

    def _contradictions(self) -> Iterator[str]:
        numbers = [getattr(self, name) for name in TRIAL_NUMBERS]
        if any(numbers) and not all(numbers):
            yield f"few-shot evaluation needs all of {', '.join(TRIAL_NUMBERS)}, got {numbers}"
        if not self.means:
            yield "means must be 'tasks', 'groups' or both, got none"
        if len({*self.means}) < len(self.means):
            yield f"means must differ, got {self.means}"
        if "groups" in self.means and not self.groups:
            yield "a mean over groups needs groups"
        names = [name for name, _ in self.groups]
        if len({*names, "tasks", "groups"}) < len(names) + 2:
            yield f"groups need names that differ, other than 'tasks' and 'groups', got {names}"
        for group, tasks in self.groups:
            if not tasks or len({*tasks}) < len(tasks):
                yield f"group {group!r} must have tasks that differ, got {list(tasks)}"
            for task in tasks:
                if task not in _CLASSES:
                    hint = did_you_mean(task, _CLASSES) or (
                        "such as 'reach-v3'; of other environments, average "
                        "EvaluationResult.per_task over a group"
                    )
                    yield f"group {group!r} must have classes of Meta-World, got {task!r}; {hint}"

    @property
    def few_shot(self) -> bool:
        """Whether the policy adapts to each goal before it is evaluated on it."""
        return self.trials > 0

    @property
    def adaptation_length(self) -> int:
        """The number of episodes of each trial that the policy adapts on; they are not scored."""
        return self.adaptation_episodes * self.adaptation_steps

    def on(self, current: EnvSettings, target: EnvSettings) -> Scoring:
        """The same scoring on another benchmark.

        Groups without a task there are left out, and so is the mean over groups if fewer than two
        remain. The number of trials is scaled so that each goal has as many as before.

        Args:
            current: The settings of the environments that this scoring is for.
            target: Those of the others.
        """
        groups, means = self.groups, self.means
        if groups:
            tasks = class_names(target.benchmark, target.kind, target.env_name)
            members = [(name, [task for task in group if task in tasks]) for name, group in groups]
            groups = tuple((name, tuple(group)) for name, group in members if group)
            if len(groups) < 2:
                groups, means = (), ("tasks",)
        trials = self.trials
        if trials:
            trials = max(1, trials * target.num_classes // current.num_classes)
        return replace(self, groups=groups, means=means, trials=trials)


def weigh_tasks(tasks: Iterable[str], mean: str = "tasks", groups: Groups = ()) -> TaskWeights:
    """The weights of tasks in a mean.

    Args:
        tasks: The names of all tasks.
        mean: ``"tasks"`` (tasks have equal weight), ``"groups"`` (groups have equal weight, and so
            have the tasks of each), or the name of a group.
        groups: The named groups and their tasks; others than ``tasks`` do not count.

    Returns:
        The weights by the names of the tasks, sorted.

    Raises:
        ValueError: If there is no such mean, a task is in no group, or a group has no task.
    """
    names = list(tasks)
    if mean == "tasks":
        return dict(zip(sorted(names), equal_weights(len(names)).tolist(), strict=True))
    means = ["tasks", "groups", *(name for name, _ in groups)]
    check_choice(mean, means, "mean")
    weights = dict.fromkeys(names, 0.0)
    chosen = groups if mean == "groups" else [group for group in groups if group[0] == mean]
    for group, members in chosen:
        present = [task for task in members if task in weights]
        if not present:
            raise ValueError(f"a mean over groups needs tasks of {group!r}, got {names}")
        for task in present:
            weights[task] += 1 / len(present) / len(chosen)
    missing = [task for task, weight in weights.items() if not weight]
    if mean == "groups" and missing:
        raise ValueError(f"no group has the tasks {missing}")
    return {task: weights[task] for task in sorted(names) if weights[task]}
