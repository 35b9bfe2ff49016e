"""`run`: the one loop over the episodes of a plan, for evaluations and for their replay.

A plan says which episodes there are. An `Actor` chooses their actions: a policy, or the actions
that were recorded. An `EpisodeTracker` makes a record of each episode.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.envs.family import TaskFamilyEnv
from mtwrappers.evaluation.episodes import SUCCESS_KEYS, Episode, EpisodeRecord
from mtwrappers.evaluation.plan import Design, Plan, PlannedEpisode, Stage, stream_seed
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.recorder import Recorder, with_common_infos
from mtwrappers.samplers.rollout import Flags, RolloutPolicy, Step, rollout
from mtwrappers.samplers.task_texts import has_everywhere
from mtwrappers.state.env_state import get_state, normalizers, set_state, set_statistics_updates
from mtwrappers.tasks.draws import read_task
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.wrappers.normalize_observation import (
    NormalizeObservationPerTask,
    VectorNormalizeObservationPerTask,
)
from mtwrappers.wrappers.normalize_reward import name_reward_normalizer

# Called with each episode that ends: the `Episode`, and its actions ``(T, A)`` if they are kept.
OnEpisode = Callable[[Episode, NDArray[Any] | None], object]

_TOGGLE = "toggle_terminate_on_success"
_DRAWS = "sample_tasks_on_reset"
_NO_INFOS: Mapping[str, Any] = {}


class Observer:
    """Follows an evaluation, such as a recorder of frames or a list of episodes.

    A subclass overrides the methods that it needs. The environments are idle during these calls, so
    an observer may use them (``envs.call_some([i], "render")``).

    >>> import gymnasium, numpy as np
    >>> import mtwrappers as mt
    >>> from mtwrappers.evaluation import Observer
    >>> class Printer(Observer):
    ...     def end(self, i, episode):
    ...         print(i, episode.task, episode.number, episode.length)
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mt.evaluate(policy, envs, episodes_per_task=1, observers=[Printer()])
    0 task 0 0 100
    1 task 1 0 100
    """

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Called once before the first episode, with the episodes that are to be run."""

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Called when environment ``i`` was reset for an episode, before the policy is called."""

    def step(self, step: Step) -> None:
        """Called after each step of all environments, before those that ended are reset."""

    def end(self, i: int, episode: Episode) -> None:
        """Called when environment ``i`` has finished an episode."""

    def close(self) -> None:
        """Called once at the end of the evaluation, also after an error or an interruption."""


class Actor(RolloutPolicy, Protocol):
    """Chooses actions, and is notified of the trials of few-shot evaluation."""

    @property
    def adapts(self) -> bool:
        """Whether `adapt` needs the trajectories of the episodes of adaptation."""

    def begin_trial(self) -> None:
        """Called before the first episode of each trial."""

    def adapt(self, paths: list[list[Path]]) -> None:
        """Called after the episodes of each adaptation step, with the trajectories per task."""


def run(
    envs: Any,
    plan: Plan,
    actor: Actor,
    on_episode: OnEpisode,
    *,
    keep_actions: bool = False,
    observers: Sequence[Observer] = (),
) -> None:
    """Runs the episodes of a plan.

    Every episode begins with a reset from here, so that all autoreset modes run the same episodes.

    Args:
        envs: One of our vector environments, or a wrapper of one.
        plan: The plan.
        actor: Chooses the actions.
        on_episode: Called with each episode that ends.
        keep_actions: Whether to pass on the actions of episodes.
        observers: They are called after ``on_episode``.

    Raises:
        ValueError: As `EpisodeRecord`; if actions that are kept change their dtype; or if an
            environment changes its task by itself.
        RuntimeError: If an episode does not end, see `mtwrappers.samplers.rollout.rollout`.
    """
    tracker = EpisodeTracker(on_episode, keep_actions, observers)
    with _without_autoreset(envs):
        for stage in plan.stages:
            quotas = tracker.begin_stage(stage)
            start = (
                _TrialStart(envs, tracker, actor, stage, plan.design)
                if plan.design.trials
                else _ResetStart(envs, tracker)
            )
            rollout(
                envs,
                actor,
                quotas,
                start.observations,
                names=tracker.names,
                seeds=start.seeds,
                begin=start.begin,
                observe=[tracker.add, *start.recorders],
            )
            for recorder in start.recorders:
                envs_per_task = envs.unwrapped.envs_per_task
                actor.adapt(_group_by_task(recorder.paths(), envs_per_task))


def _without_autoreset(envs: Any) -> contextlib.AbstractContextManager[None]:
    """A context manager in which environments do not reset themselves.

    Those in wrappers of others still do, because these may rely on it: Gymnasium's
    ``RecordEpisodeStatistics`` refuses an info with the statistics of an episode, which the infos
    of a last step have if no autoreset follows.
    """
    if not hasattr(envs, "without_autoreset"):
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[None] = envs.without_autoreset()
    return context


class _ResetStart:
    """How episodes begin: each with a reset to its own seed and task state.

    Args:
        envs: The environments.
        tracker: Has the current episodes.

    Attributes:
        observations: Those of the first reset, if it was done.
        recorders: Record the steps after which the policy adapts.
        seeds: The seeds for the policy's generators, see `rollout`.
    """

    observations: Any = None
    recorders: Sequence[Recorder] = ()
    seeds: Callable[[Sequence[int]], Sequence[int]] | None

    def __init__(self, envs: Any, tracker: EpisodeTracker) -> None:
        self._envs, self._tracker = envs, tracker
        self.seeds = lambda rows: [tracker.current(i).seed or 0 for i in rows]

    def begin(self, mask: Flags) -> tuple[Any, Mapping[str, Any]]:
        """Resets the environments that begin an episode, ``(N,)`` bool."""
        rows = np.flatnonzero(mask).tolist()
        observations = _reset(self._envs, {i: self._tracker.current(i) for i in rows})
        self._tracker.begin(rows)
        return observations, {}  # the tracker has the names of the tasks


class _TrialStart(_ResetStart):
    """How the episodes of a stage of a trial begin: the first with a seed, the others go on.

    Args:
        envs: The environments, which are reset.
        tracker: Has the current episodes.
        actor: Begins a trial with its first stage.
        stage: The stage.
        design: The numbers that determine the evaluation.
    """

    def __init__(
        self, envs: Any, tracker: EpisodeTracker, actor: Actor, stage: Stage, design: Design
    ) -> None:
        super().__init__(envs, tracker)
        inner: MetaVectorEnv = envs.unwrapped
        self.seeds = None
        rows, key = range(inner.num_envs), (design.seed, stage.trial)
        if stage.index == 0:
            actor.seed(rows, [stream_seed(*key, i) for i in rows])
            actor.begin_trial()
        if actor.adapts and stage.index + 1 < len(design.stages):
            self.recorders = [Recorder()]
        getattr(envs, "set_tasks", inner.set_tasks)(stage.tasks)
        self.observations, _ = envs.reset(seed=[stream_seed(*key, stage.index, i) for i in rows])
        tracker.begin([i for i, queue in enumerate(stage.queues) if queue])

    def begin(self, mask: Flags) -> tuple[Any, Mapping[str, Any]]:
        """Resets the environments that go on with an episode, ``(N,)`` bool."""
        observations, infos = self._envs.reset(options={"reset_mask": mask})
        self._tracker.begin(np.flatnonzero(mask).tolist())
        return observations, infos


def _group_by_task(paths_of_envs: Sequence[Sequence[Path]], envs_per_task: int) -> list[list[Path]]:
    """The paths of each task: the first of every environment, then the second, and so on."""
    tasks = []
    for first in range(0, len(paths_of_envs), envs_per_task):
        rounds = itertools.zip_longest(*paths_of_envs[first : first + envs_per_task])
        paths = [path for paths_of_round in rounds for path in paths_of_round if path is not None]
        tasks.append(with_common_infos(paths))
    return tasks


def _reset(envs: Any, episodes: Mapping[int, PlannedEpisode]) -> Any:
    """Resets environments for their planned episodes; returns the observations of all."""
    mask = np.zeros(envs.num_envs, dtype=np.bool_)
    seeds: list[int | None] = [None] * envs.num_envs
    options: list[dict[str, Any] | None] = [None] * envs.num_envs
    for i, episode in episodes.items():
        mask[i], seeds[i] = True, episode.seed
        if episode.task_state is not None:
            options[i] = {"task_state": episode.task_state}
    observations, infos = envs.reset(
        seed=seeds, options={"reset_mask": mask, "env_options": options}
    )
    for i, episode in episodes.items() if "task_name" in infos else ():
        name = infos["task_name"][i]
        if infos["_task_name"][i] and name != episode.task:
            raise ValueError(
                f"environment {i} was on task {episode.task!r}, but its reset switched to "
                f"{name!r}: evaluate needs environments that keep their task, or draw it from "
                "task_states"
            )
    return observations


class EpisodeTracker:
    """Makes a record of each episode of ``N`` environments.

    Args:
        on_episode: Called with each episode that ends.
        keep_actions: Whether to keep the actions of episodes for it.
        observers: They are called after it.

    Raises:
        ValueError: As `EpisodeRecord`, or if actions that are kept change their dtype.
    """

    def __init__(
        self, on_episode: OnEpisode, keep_actions: bool, observers: Sequence[Observer]
    ) -> None:
        self._on_episode, self._keep_actions = on_episode, keep_actions
        self._observers = observers
        self._dtype: np.dtype[Any] | None = None  # of the actions so far
        self._queues: list[list[PlannedEpisode]] = []  # the current episode of each row is the last
        self._records: dict[int, EpisodeRecord] = {}

    def begin_stage(self, stage: Stage) -> NDArray[np.int64]:
        """Sets the next episodes of all environments; returns the number of each, ``(N,)``."""
        self._queues = [[*reversed(queue)] for queue in stage.queues]
        return np.array([len(queue) for queue in self._queues], dtype=np.int64)

    def current(self, i: int) -> PlannedEpisode:
        """The current episode of environment ``i``."""
        return self._queues[i][-1]

    def names(self, rows: Sequence[int], infos: Mapping[str, Any]) -> list[str]:
        """The names of the current tasks of some environments."""
        return [self.current(i).task for i in rows]

    def begin(self, rows: Sequence[int]) -> None:
        """Notifies the observers that environments were reset for their current episodes."""
        for i in rows:
            for observer in self._observers:
                observer.begin(i, self.current(i))

    def add(self, step: Step) -> None:
        """Adds a step of all environments."""
        self._check_dtype(step.actions.dtype)
        rewards, successes = step.rewards.tolist(), _collect_successes(step)
        for i in np.flatnonzero(step.counted).tolist():
            if step.began[i]:
                self._records[i] = EpisodeRecord(self.current(i), i)
            record = self._records[i]
            record.add(rewards[i], successes.get(i, _NO_INFOS))
            if self._keep_actions:
                record.actions.append(step.actions[i])
        for observer in self._observers:
            observer.step(step)
        for i in np.flatnonzero(step.finished & step.counted).tolist():
            self._end(i)

    def _end(self, i: int) -> None:
        record = self._records.pop(i)
        episode = record.episode()
        self._queues[i].pop()
        self._on_episode(episode, np.array(record.actions) if self._keep_actions else None)
        for observer in self._observers:
            observer.end(i, episode)

    def _check_dtype(self, dtype: np.dtype[Any]) -> None:
        expected = dtype if self._dtype is None else self._dtype
        if self._keep_actions and dtype != expected:
            raise ValueError(
                "actions that are recorded as evidence must keep their dtype, got "
                f"{expected} and then {dtype}"
            )
        self._dtype = dtype


def _collect_successes(step: Step) -> dict[int, dict[str, Any]]:
    """The infos under `SUCCESS_KEYS` of environments that report one, by their indices."""
    infos: dict[int, dict[str, Any]] = {}
    for key in SUCCESS_KEYS:
        values, reported = step.info(key)
        # Values other than arrays of numbers or objects raise an error when they are read.
        rows = values.tolist() if isinstance(values, np.ndarray) else [values] * len(reported)
        for i in np.flatnonzero(reported).tolist():
            infos.setdefault(i, {})[key] = rows[i]
    return infos


class AdaptationEnds(Observer):
    """Sets whether a success ends an episode of adaptation; later episodes have the own setting.

    Args:
        inner: The environments.
        terminates: Whether a success ends an episode of adaptation.
        length: The number of episodes of adaptation of each trial.
    """

    def __init__(self, inner: MetaVectorEnv, terminates: bool, length: int) -> None:
        if not has_everywhere(inner, _TOGGLE):
            raise ValueError(
                f"adaptation_terminate_on_success={terminates} needs environments with {_TOGGLE}, "
                "such as those of Meta-World's ids"
            )
        self._inner, self._terminates, self._length = inner, terminates, length
        self._settings = [bool(setting) for setting in inner.get_attr("terminate_on_success")]

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Applies the setting of an episode."""
        if episode.number in (0, self._length) or episode.seed is not None:
            in_adaptation = episode.number < self._length
            terminates = self._terminates if in_adaptation else self._settings[i]
            self._inner.call_some([i], _TOGGLE, terminates)

    def close(self) -> None:
        """Restores the environments' own settings."""
        with contextlib.suppress(Exception):  # interrupted environments may not answer
            for i, terminates in enumerate(self._settings):
                self._inner.call_some([i], _TOGGLE, terminates)


def make_observers(envs: Any, design: Design) -> list[Observer]:
    """The observers that a design needs; whoever calls this closes them in any case."""
    terminates = design.adaptation_terminate_on_success
    if terminates is None:
        return []
    return [AdaptationEnds(envs.unwrapped, terminates, design.adaptation_length)]


# The state of environments.


@contextlib.contextmanager
def undisturbed(envs: Any) -> Iterator[None]:
    """A context manager that gives the environments back the state that they had before.

    Meanwhile, normalizing wrappers (any with ``update_running_mean``) do not update their
    statistics. A `reset` is due afterwards. If a state cannot be read, a warning says why, and the
    environments keep the state that they have at the end.
    """
    inner: MetaVectorEnv = envs.unwrapped
    around: list[bool] = _read_updates(envs)
    inside: tuple[list[bool], ...] = inner.call(_read_updates)
    state = None
    try:
        state = get_state(envs, between_episodes=True)
    except TypeError as exc:
        warnings.warn(
            f"the environments keep the state of the evaluation, because theirs cannot be read: "
            f"{exc}",
            stacklevel=find_stacklevel(),
        )

    def set_updates(on: bool) -> None:
        set_statistics_updates(envs, around if on else False)
        for i, updates in enumerate(inside):
            if updates:
                inner.call_some([i], "set_statistics_updates", updates if on else False)

    def restore() -> None:
        set_updates(True)
        if state is not None:
            set_state(envs, state)

    try:
        set_updates(False)
        yield
    except BaseException:
        # Interrupted or failed environments may not answer.
        with contextlib.suppress(Exception):
            inner.step_wait()  # in case of an interrupt before it
        with contextlib.suppress(Exception):
            restore()
        raise
    restore()


@contextlib.contextmanager
def set_tasks_kept(envs: Any, *, warns: bool = True) -> Iterator[None]:
    """A context manager in which resets keep the tasks that were set, instead of drawing others.

    Environments whose episodes get the task states of a list do not keep them. If resets have drawn
    other tasks in some environments since, none keeps its task. A warning then says what is
    evaluated instead.

    Args:
        envs: The environments.
        warns: Whether set tasks that are not kept are a reason for a warning.
    """
    inner: MetaVectorEnv = envs.unwrapped
    settings = inner.call(_read_task_settings)
    drawing = [i for i, setting in enumerate(settings) if setting.draws]
    problem = ""
    if has_everywhere(inner, "task_states"):
        set_there = [setting for setting in settings if setting.is_set]
        most = max(set_there, key=lambda setting: setting.num_states, default=None)
        if most is not None and most.num_states > 1:
            making = "with sample_tasks_on_reset=False"
            if most.draws_after_seeding:
                making = "as mtwrappers.as_vector([lambda: gymnasium.make(id, task_states=[...])])"
            problem = (
                f"the episodes of each environment are drawn from all of its {most.num_states} "
                f"task states; to keep the tasks, make the environments {making}; to choose some "
                "by name, pass tasks=[...]"
            )
        drawing = []
    elif unset := [i for i in drawing if not settings[i].is_set]:
        if len(unset) < len(drawing):
            problem = (
                f"resets have drawn others in {len(unset)} of {len(drawing)} environments since, "
                "so each episode draws one; to keep the tasks, call set_tasks before the "
                "evaluation, or make the environments with sample_tasks_on_reset=False"
            )
        drawing = []
    if problem and warns:
        warnings.warn(
            f"the evaluation does not keep the tasks that were set: {problem}",
            stacklevel=find_stacklevel(),
        )

    def set_draws(on: bool) -> None:
        if drawing:
            inner.call_some(drawing, "set_wrapper_attr", _DRAWS, on)

    try:
        set_draws(False)
        yield
    except BaseException:
        # Interrupted or failed environments may not answer.
        with contextlib.suppress(Exception):
            inner.step_wait()  # in case of an interrupt before it
        with contextlib.suppress(Exception):
            set_draws(True)
        raise
    set_draws(True)


def warn_of_drawn_tasks(inner: MetaVectorEnv, trials: int) -> None:
    """Warns if tasks were set in environments whose trials are to draw tasks."""
    if any(inner.call(_has_unlisted_task)):
        warnings.warn(
            "trials draw their own tasks; those set in the environments are not used. To evaluate "
            f"on tasks that you choose, pass trials=[tasks] * {trials}",
            stacklevel=find_stacklevel(),
        )


@read_only
def _has_unlisted_task(env: Any) -> bool:
    """Whether a task was set that is not in the list of a family, from which trials draw.

    `gymnasium.make_vec` itself sets the tasks of such a list.
    """
    listed = env.unwrapped.tasks if isinstance(env.unwrapped, TaskFamilyEnv) else []
    return _read_task_settings(env).is_set and read_task(env) not in listed


class _TaskSettings(NamedTuple):
    """How an environment chooses its task.

    Args:
        draws: Whether every reset draws one, unless one was set before it.
        is_set: Whether the current one was set, not drawn.
        num_states: The number of task states that resets switch between; 0 if they are not listed.
        draws_after_seeding: Whether the first reset after a seed draws one in any case.
    """

    draws: bool
    is_set: bool
    num_states: int
    draws_after_seeding: bool = False


@read_only
def _read_task_settings(env: Any) -> _TaskSettings:
    """How an environment chooses its task; one without `TaskSetMTEnv` keeps it."""
    if not all(env.has_wrapper_attr(name) for name in (_DRAWS, "has_set_task")):
        return _TaskSettings(draws=False, is_set=False, num_states=0)
    states = env.get_wrapper_attr("task_states") if env.has_wrapper_attr("task_states") else ()
    draws, is_set = env.get_wrapper_attr(_DRAWS), env.get_wrapper_attr("has_set_task")
    draws_after_seeding = env.get_wrapper_attr("draws_after_seeding")
    return _TaskSettings(draws, is_set, len(states), draws_after_seeding)


@read_only
def _read_updates(env: Any) -> list[bool]:
    """Whether each normalizing wrapper of an environment updates its statistics."""
    return [bool(wrapper.update_running_mean) for wrapper in normalizers(env)]


def check_rewards(envs: Any) -> None:
    """Checks that rewards are the environments' own.

    Raises:
        ValueError: If a wrapper normalizes them, ours, Gymnasium's or Meta-World's, around the
            vector environment or around an environment in it.
    """
    inner: MetaVectorEnv = envs.unwrapped
    for name in filter(None, [name_reward_normalizer(envs), *inner.call(name_reward_normalizer)]):
        raise ValueError(
            f"an evaluation reports the environments' own rewards, and these are in {name}: "
            "pass environments that are not in it, such as the env of that wrapper, or those "
            "of gymnasium.make_vec without reward_normalization_method"
        )


def warn_of_empty_statistics(envs: Any) -> None:
    """Warns if a wrapper, ours or Gymnasium's, would normalize observations without statistics."""
    inner: MetaVectorEnv = envs.unwrapped
    names = [_name_empty_normalizer(envs), *inner.call(_name_empty_normalizer)]
    if name := next(filter(None, names), None):
        warnings.warn(
            f"observations are not normalized, because {name} has no statistics yet: evaluate in "
            "the environments of the training, or copy theirs, as with mtwrappers.state.env_state: "
            "set_state(envs, get_state(training_envs, between_episodes=True))",
            stacklevel=find_stacklevel(),
        )


@read_only
def _name_empty_normalizer(env: Any) -> str | None:
    """The class of a wrapper that has counted no observation to normalize, if there is one."""
    for wrapper in normalizers(env):
        if isinstance(wrapper, (NormalizeObservationPerTask, VectorNormalizeObservationPerTask)):
            has_samples = wrapper.has_samples
        else:  # Gymnasium's, whose prior counts as less than a sample
            has_samples = not hasattr(wrapper, "obs_rms") or wrapper.obs_rms.count >= 1
        if not has_samples:
            return type(wrapper).__name__
    return None
