"""The multi-task protocol over a declared set of tasks, and their inner environments."""

from __future__ import annotations

import abc
import enum
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic

from gymnasium.error import ResetNeeded

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    check_flag,
    check_index,
    check_mapping,
    check_reset,
    check_step,
    not_negative,
)
from mtwrappers.common.errors import short
from mtwrappers.common.types import AnyEnv, AnySpace, Info, Options, State
from mtwrappers.core.mtenv import MTEnv, Observation
from mtwrappers.core.tasks import Tasks, TaskState
from mtwrappers.state.env_state import get_state, set_state

_STATE_NAMES = (
    "task_state",
    "env_stream",
    "task_stream",
    "was_set",
    "has_set_task",
    "was_seeded",
    "sample_tasks_on_reset",
    "selection",
    "seeded",
    "envs",
)


class ResetDraws(enum.Enum):
    """Which resets draw a task, if none was set since the last reset and no option names one."""

    NEVER = "never"
    AFTER_SEEDING = "the first reset after the task stream was seeded"
    ALWAYS = "every reset"


class EpisodeStatus(enum.Enum):
    """Whether an environment is in an episode of its current task; if not, `step` is an error.

    Setting a task leads to ``TASK_SET``, and a reset to ``BEGUN``. A value is the end of the
    message of that error, after the name of the task.
    """

    NONE = "has no episode since the environment was made, copied or closed, or a reset failed"
    TASK_SET = "was set but not reset"
    BEGUN = "is in an episode"

    def without_episode(self) -> EpisodeStatus:
        """The status once the episode is lost: in a copy, after `close`, and in a failed reset."""
        return EpisodeStatus.NONE if self is EpisodeStatus.BEGUN else self


class TaskSetMTEnv(MTEnv, Generic[TaskState]):
    """An `MTEnv` over a set of tasks, with an inner environment for each of them.

    A subclass implements `_activate`, which switches ``_env`` to a task. If
    ``sample_tasks_on_reset`` is set, every reset draws the next task, unless one was set since the
    last reset; such an environment seeds itself at its first reset if it was not seeded before.

    Each inner environment has a branch of the environment seed (``_branch`` for the current one),
    which seeds it at its first reset after each `seed`. So results do not depend on which
    environments were used before.

    Args:
        action_space: The action space of all tasks.
        env_observation_space: The space of ``env_obs`` of all tasks.
        task_observation_space: The space of ``task_obs``; by default that of ``tasks``.
        tasks: The set of tasks.
        initial_task_state: The task at the start; by default the first.
        sample_tasks_on_reset: Whether every reset draws a task.
        draws_after_seeding: Whether the first reset after each task seed draws a task, even if
            ``sample_tasks_on_reset`` is not set.
        first_seed: The seed that an unseeded environment gives itself; ``None`` for entropy.

    Raises:
        TypeError: If ``sample_tasks_on_reset`` is not a bool.
        ValueError: If ``initial_task_state`` is not one of the tasks.
    """

    # Such as the option task_name, which infos have: it would be ignored.
    _option_prefixes = ("task_", "resample")
    # The environment of the current task, ``None`` until the first reset needs it.
    _env: AnyEnv | None = None
    # Its branch of the environment seed; ``None`` if it is deterministic.
    _branch: int | None = None
    # The inner environments that were built and have a random stream, by branch.
    _envs: Mapping[int, AnyEnv] = MappingProxyType({})
    # The observation and the infos of the current task.
    _task_obs: object
    _task_info: dict[str, object]
    _episode = EpisodeStatus.NONE
    _has_set_task = False
    # Whether the task stream was seeded since the last reset, and no task was set since then.
    _was_seeded = False

    def __init__(
        self,
        action_space: AnySpace,
        env_observation_space: AnySpace,
        task_observation_space: AnySpace | None,
        tasks: Tasks[TaskState],
        *,
        initial_task_state: object = None,
        sample_tasks_on_reset: bool = False,
        draws_after_seeding: bool = False,
        first_seed: int | None = None,
    ) -> None:
        self._seeded: set[int] = set()  # the branches whose environments were seeded
        self._task_set = tasks
        self._history = tasks.history
        self.task_names = tasks.names
        space = task_observation_space
        super().__init__(
            action_space,
            env_observation_space,
            tasks.space if space is None else space,
        )
        self._draws_by_itself = (
            ResetDraws.AFTER_SEEDING if draws_after_seeding else ResetDraws.NEVER
        )
        self.sample_tasks_on_reset = sample_tasks_on_reset
        self._first_seed = first_seed
        self._task_state = tasks.first()
        if initial_task_state is not None:
            self._task_state = tasks.check(initial_task_state, "initial_task_state")
        self._task_obs, self._task_info = self._task_set.describe(self._task_state)

    @property
    def sample_tasks_on_reset(self) -> bool:
        """Whether every reset draws a task. Can be set at any time."""
        return self._resets_draw is ResetDraws.ALWAYS

    @sample_tasks_on_reset.setter
    def sample_tasks_on_reset(self, on: bool) -> None:
        every_reset = check_flag(on, "sample_tasks_on_reset")
        self._resets_draw = ResetDraws.ALWAYS if every_reset else self._draws_by_itself

    @property
    def draws_after_seeding(self) -> bool:
        """Whether the first reset after a seed draws a task, also if other resets do not."""
        return self._draws_by_itself is ResetDraws.AFTER_SEEDING

    @property
    def has_set_task(self) -> bool:
        """Whether the current task is one that `set_task_state` has set, not one that was drawn."""
        return self._has_set_task

    # Only for a list of tasks; an environment over a space has no such attributes.

    @property
    def num_tasks(self) -> int:
        """The number of task states."""
        return len(self._require_indices(self._task_set.states, "num_tasks"))

    @property
    def task_ids(self) -> tuple[int, ...]:
        """The task id of each task state."""
        return self._require_indices(self._task_set.ids, "task_ids")

    @property
    def task_states(self) -> tuple[int, ...]:
        """The task states that resets switch between without options."""
        states = self._require_indices(self._task_set.states, "task_states")
        if self._resets_draw is not ResetDraws.NEVER:
            return states
        assert isinstance(self._task_state, int)  # as are all task states of a list
        return (self._task_state,)

    @property
    def settable_task_ids(self) -> tuple[int, ...]:
        """The task id of each task state that can be set, without repetition."""
        ids = self._require_indices(self._task_set.ids, "settable_task_ids")
        states = self._require_indices(self._task_set.states, "settable_task_ids")
        return tuple(sorted({ids[state] for state in states}))

    def _require_indices(self, indices: tuple[int, ...] | None, name: str) -> tuple[int, ...]:
        if indices is None:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: its task states are not indices into a list"
            )
        return indices

    @abc.abstractmethod
    def _activate(self, task_state: TaskState) -> None:
        """Switches ``_env`` to a task, or raises and changes nothing."""

    def _build(self, branch: int) -> AnyEnv:
        """One of ``_envs``, built if necessary; `ValueError` if it has none of this branch."""
        if branch not in self._envs:
            raise ValueError(
                f"expected the states of inner environments {sorted(self._envs)}, got one of "
                f"{branch}"
            )
        return self._envs[branch]

    def get_task_obs(self) -> Any:
        """The observation of the current task; for a list of tasks, its id, ``np.int64``."""
        return self._task_obs

    def get_task_state(self) -> TaskState:
        """The current task's state."""
        return self._task_state

    def set_task_state(self, task_state: object) -> None:
        """Makes ``task_state`` the current task, from the next `reset` on."""
        self._switch_to(self._task_set.check(task_state, "task state"))
        self._has_set_task = True

    def reset_task_state(self) -> None:
        """Draws a task state and makes it the current task, from the next `reset` on.

        Raises:
            SeedNotSetError: If no task seed was set.
        """
        super().reset_task_state()
        self._has_set_task = False

    def _switch_to(self, task_state: TaskState) -> None:
        task_state = self._task_set.draw_missing(task_state)
        self._activate(task_state)
        self._task_state = task_state
        self._episode, self._was_seeded = EpisodeStatus.TASK_SET, False
        self._task_obs, self._task_info = self._task_set.describe(task_state)

    def sample_task_state(self) -> TaskState:
        """Draws a task state from the task stream, without setting it."""
        return self._task_set.draw(self.np_random_task)

    def seed(self, seed: int | None = None) -> list[int]:
        """Seeds the environment stream; inner environments are seeded at their next reset."""
        seeds = super().seed(seed)
        self._seeded = set()
        return seeds

    def seed_task(self, seed: int | None = None) -> list[int]:
        """Seeds the task stream and the space of ``task_obs``; the selection starts over."""
        seeds = super().seed_task(seed)
        if self._episode is not EpisodeStatus.TASK_SET:
            self._was_seeded = True
        self._task_set.restart()
        return seeds

    def reset(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[Observation, Info]:
        """Begins an episode as `MTEnv.reset` does; other options reach the inner environment.

        The option ``task`` and those that begin with ``task_`` or ``resample`` do not: such a one
        is misspelt.
        """
        task_options, other_options = self._split_options(options)
        state = None
        if "task_state" in task_options:
            state = self._task_set.check(task_options["task_state"], "task state")
        if seed is None:
            self._seed_itself()
        else:
            self.seed(seed)
            self.seed_task(seed)
        if self._history is not None:
            self._history.end()  # records an episode that is cut here, before the next draw
        if "resample_task" in task_options or (state is None and self._next_reset_draws()):
            state = self.sample_task_state()
        if state is not None:
            self._switch_to(state)
            self._has_set_task = False
        elif self._env is None:
            self._activate(self._task_state)
        self._episode = self._episode.without_episode()  # if the reset fails
        env_obs, info = self._reset_below(other_options)
        self._episode, self._was_seeded = EpisodeStatus.BEGUN, False
        self._task_set.begin_episode(self._task_state)
        return self.observe(env_obs), {**info, **self._task_info}

    def _seed_itself(self) -> None:
        """Seeds the streams that were not seeded, if resets draw tasks."""
        if self._resets_draw is not ResetDraws.NEVER:
            if self._env_seed is None:
                self.seed(self._first_seed)
            if self._task_seed is None:
                self.seed_task(self._first_seed)

    def _next_reset_draws(self) -> bool:
        """Whether a reset whose options name no task draws one."""
        if self._episode is EpisodeStatus.TASK_SET or self._resets_draw is ResetDraws.NEVER:
            return False
        return self._resets_draw is ResetDraws.ALWAYS or self._was_seeded

    def _reset_below(self, options: Options) -> tuple[object, Info]:
        """Resets the environment of the current task, at first with the seed of its branch."""
        branch, seed = self._branch, None
        if branch is not None and self._env_seed is not None and branch not in self._seeded:
            seed = seeding.child_seed(self._env_seed, branch)
        result = check_reset(self._current_env.reset(seed=seed, options=options or None))
        if seed is not None and branch is not None:
            self._seeded.add(branch)
        return result

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """Steps the environment of the current task, or raises `ResetNeeded`."""
        if self._episode is not EpisodeStatus.BEGUN:
            self._require_reset()
        step = check_step(self._current_env.step(action))
        env_obs, reward, terminated, truncated, info = step
        if self._history is not None:
            self._history.step(reward, bool(terminated or truncated), info)
        return (
            self.observe(env_obs),
            reward,
            bool(terminated),
            bool(truncated),
            {**info, **self._task_info},
        )

    def render(self) -> Any:
        """Renders the environment of the current task; needs a `reset`, as `step` does."""
        self._require_reset()
        return self._current_env.render()

    @property
    def _current_env(self) -> AnyEnv:
        assert self._env is not None  # a reset has set it
        return self._env

    def _require_reset(self) -> None:
        if self._episode is not EpisodeStatus.BEGUN:
            raise ResetNeeded(
                f"task {self._task_state} {self._episode.value}: call reset() before step() and "
                "render()"
            )

    def get_state(self) -> State:
        """The state between two episodes: task, streams, settings and inner environments."""
        self._seed_itself()
        return {
            **super().get_state(),
            "was_set": self._episode is EpisodeStatus.TASK_SET,
            "has_set_task": self._has_set_task,
            "was_seeded": self._was_seeded,
            "sample_tasks_on_reset": self.sample_tasks_on_reset,
            "selection": self._task_set.get_state(),
            "seeded": sorted(self._seeded),
            "envs": {str(i): get_state(env) for i, env in self._envs.items()},
        }

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned; the next `reset` continues from it.

        Raises:
            TypeError: If ``state`` is not a dict.
            ValueError: If ``state`` is malformed or does not fit. Only a state that an inner
                environment refuses leaves a part of it set.
        """
        self._require_state(state, _STATE_NAMES)
        self._task_set.check(state["task_state"], "the task state of the state")
        for name in ("was_set", "has_set_task", "was_seeded", "sample_tasks_on_reset"):
            check_flag(state[name], f"{name} of the state")
        if not isinstance(state["seeded"], list):
            raise ValueError(f"seeded of the state must be a list, got {short(state['seeded'])}")
        seeded = {check_index(branch, sys.maxsize, "seeded") for branch in state["seeded"]}
        inner_states = [
            (self._build(not_negative(int(branch), "an environment of the state")), env_state)
            for branch, env_state in check_mapping(state["envs"], "envs of the state").items()
        ]
        self._task_set.set_state(state["selection"])  # which refuses one that does not fit
        super().set_state(state)
        self._task_set.set_state(state["selection"])  # again, because seeding made it start over
        self._seeded = seeded
        for env, env_state in inner_states:
            set_state(env, env_state)
        self.sample_tasks_on_reset = state["sample_tasks_on_reset"]
        self._episode = EpisodeStatus.TASK_SET if state["was_set"] else EpisodeStatus.NONE
        self._has_set_task, self._was_seeded = state["has_set_task"], state["was_seeded"]


def find_current_env(env: TaskSetMTEnv[Any]) -> AnyEnv | None:
    """The environment of the current task; ``None`` if no reset has built it yet."""
    return env._env
