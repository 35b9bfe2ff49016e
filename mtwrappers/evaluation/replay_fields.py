"""The fields of a result that its replay depends on.

The fields here are a list, each with the condition under which another value of it would have given
other episodes. A field that is not in the list is said by the file: a replay may be the same with
another value of it, though with some values it differs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtwrappers.common.registration import TABLE
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.plan import Design
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.metaworld.tasks import NUM_CLASSES, NUM_GOALS


@dataclass(frozen=True)
class ReplayedFields:
    """The names of the fields of a result that its replay depends on.

    Args:
        design: Fields of the `Design`.
        environments: Arguments of the environments, their ``"id"`` and their ``"goals_digest"``.
    """

    design: frozenset[str]
    environments: frozenset[str]


def find_replayed_fields(result: EvaluationResult, replayed: Sequence[Episode]) -> ReplayedFields:
    """The fields that the replay of a result depends on.

    Args:
        result: The result, with a design.
        replayed: The episodes that were replayed.
    """
    replay = _ReplayedResult(result, replayed)
    return ReplayedFields(
        frozenset(_list_design_fields(replay)), frozenset(_list_environment_fields(replay))
    )


def _list_design_fields(replay: _ReplayedResult) -> Iterator[str]:
    yield "tasks"
    if replay.seed_chooses_goals:
        yield "seed"
    if replay.few_shot:
        yield "trials"
        if not replay.sets_tasks:
            yield "trial_tasks"
    else:  # in a trial, nothing marks the end of adaptation
        yield "episodes_per_task"
    if replay.has_success_before_limit(in_adaptation=True):
        yield "adaptation_terminate_on_success"


def _list_environment_fields(replay: _ReplayedResult) -> Iterator[str]:
    yield from ("kind", "env_name", "goals", "family")
    if replay.has_reward:
        yield from ("reward_function_version", "action_repeat", "idle_steps")
    if replay.has_all_tasks:  # of tasks that were not evaluated, nothing was replayed
        yield from ("id", "benchmark", "sequence", "goals_digest")
        yield "test_classes" if replay.kwargs.get("kind") == "test" else "train_classes"
    if replay.lists_goals:
        if replay.design.phases is None:
            yield "seed"
        if replay.depends_on_num_goals:
            yield "num_goals"
    if replay.has_success_before_limit(in_adaptation=False):
        yield "terminate_on_success"
    if replay.has_truncated_episode:
        yield "max_episode_steps"
    if replay.depends_on_num_groups:
        yield "meta_batch_size"
    if replay.depends_on_num_envs:
        yield from ("num_envs", "envs_per_task")


@dataclass(frozen=True)
class _ReplayedResult:
    """A result with the episodes that were replayed, and the conditions of its fields.

    Args:
        result: The result.
        episodes: The episodes that were replayed.
    """

    result: EvaluationResult
    episodes: Sequence[Episode]

    @property
    def design(self) -> Design:
        assert self.result.design is not None  # or nothing could be replayed
        return self.result.design

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The arguments of the environments, as far as the file names them."""
        environments = self.result.environments
        return {} if environments is None else environments.kwargs

    @property
    def is_metaworld(self) -> bool:
        return self.result.origin.is_metaworld

    @property
    def few_shot(self) -> bool:
        return self.result.few_shot

    # Tasks and environments.

    @property
    def num_tasks(self) -> int:
        """The number of tasks that the environments have."""
        if self.design.phases is not None:
            return len(self.design.phases)
        kind: Any = self.kwargs.get("kind", "train")
        classes = self.kwargs.get(f"{kind}_classes")
        if isinstance(classes, (list, tuple)):
            return len(classes)
        num_classes = NUM_CLASSES.get(str(self.kwargs.get("benchmark")), {}).get(kind)
        return len(self.result.tasks) if num_classes is None else num_classes

    @property
    def has_all_tasks(self) -> bool:
        """Whether an episode of every task was replayed."""
        return len({episode.task for episode in self.episodes}) == self.num_tasks

    @property
    def depends_on_num_groups(self) -> bool:
        """Whether another number of task groups would have run other episodes.

        In Meta-World these are other trials alone, because the environments of a task share its
        episodes. Elsewhere each group is a task, unless tasks were chosen by their names.
        """
        if self.is_metaworld:
            return self.few_shot
        return self.design.tasks is None

    @property
    def depends_on_num_envs(self) -> bool:
        """Whether other numbers of environments would have run other episodes.

        They would have run other trials, unless those of a task share its trials (as for policies
        with ``adapt``), and another argument decides how many tasks there are. Apart from trials,
        the environments of a task share its episodes.
        """
        fixed_by_other_argument = (
            self.is_metaworld
            and self.design.adapts
            and self.kwargs.get("meta_batch_size") is not None
        )
        return self.few_shot and not fixed_by_other_argument

    # Goals.

    @property
    def sets_tasks(self) -> bool:
        """Whether tasks were given as dicts, of which others may give the same episodes.

        So do goals of a sparse reward that is never reached.
        """
        return any(
            isinstance(task, Mapping) for row in self.design.trial_tasks or () for task in row
        )

    @property
    def lists_goals(self) -> bool:
        """Whether goals come from a list, unless each is new, as in streams by default."""
        default = "list" if self.design.phases is None else "continuous"
        return bool(self.kwargs.get("goals", default) == "list")

    @property
    def num_goals(self) -> int:
        """The number of goals per class in a list."""
        number = self.kwargs.get("num_goals", NUM_GOALS)
        return number if isinstance(number, int) else NUM_GOALS

    @property
    def seed_chooses_goals(self) -> bool:
        """Whether another seed of the evaluation would have chosen other goals."""
        environments = self.result.environments
        if environments is None:
            return False
        if not self.lists_goals:  # no digest has them: they show in rewards alone
            return self.has_reward
        if environments.goals is None or self.design.trial_tasks is not None:
            return False
        num_groups = self.kwargs.get("meta_batch_size")
        if not isinstance(num_groups, int):
            num_groups = self.num_tasks
        return self.num_goals * self.num_tasks > num_groups

    @property
    def depends_on_num_goals(self) -> bool:
        """Whether goals were drawn from a list, or a given number is beyond its first class."""
        given_tasks = [task for row in self.design.trial_tasks or () for task in row]
        given_states = [task for task in given_tasks if isinstance(task, (int, float))]
        if not given_states or self.result.environments is None:
            return True
        return max(given_states) >= self.num_goals

    # Rewards.

    @property
    def has_reward(self) -> bool:
        """Whether an episode had any reward, without which the steps in it may have been others."""
        return any(episode.episode_return != 0.0 for episode in self.episodes)

    # Ends of episodes.

    @property
    def step_limit(self) -> float:
        """The number of steps after which episodes are truncated."""
        environments = self.result.environments
        if environments is None:
            return math.inf
        default = TABLE[environments.id][2] if environments.id in TABLE else None
        limit = environments.kwargs.get("max_episode_steps", default)
        return limit if isinstance(limit, int) else math.inf

    def has_setting_of_adaptation(self, episode: Episode) -> bool:
        """Whether the design says of an episode if a success ends it, not the environments."""
        has_setting = self.design.adaptation_terminate_on_success is not None
        return has_setting and episode.number < self.design.adaptation_length

    def has_success_before_limit(self, in_adaptation: bool) -> bool:
        """Whether an episode had a success that could have ended it before the limit of steps.

        Args:
            in_adaptation: Whether to look at the episodes of which the design says if a success
                ends them, or at those of which the environments do.
        """
        return any(
            episode.steps_to_success is not None and episode.steps_to_success < self.step_limit
            for episode in self.episodes
            if self.has_setting_of_adaptation(episode) is in_adaptation
        )

    @property
    def has_truncated_episode(self) -> bool:
        """Whether an episode ended at the limit of steps, and not because of a success."""
        return any(
            episode.length == self.step_limit and not self._was_ended_by_success(episode)
            for episode in self.episodes
        )

    def _was_ended_by_success(self, episode: Episode) -> bool:
        terminates: Any = self.kwargs.get("terminate_on_success") is True
        if self.has_setting_of_adaptation(episode):
            terminates = self.design.adaptation_terminate_on_success
        return bool(terminates) and episode.steps_to_success == episode.length
