"""Streams of tasks as environments: the tasks come in phases, each with a budget of steps."""

from __future__ import annotations

import bisect
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Dict, Discrete, Space
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    check_choice,
    check_env,
    check_flag,
    check_index,
    check_list,
    check_mapping,
    not_negative,
    positive,
)
from mtwrappers.common.counts import format_count
from mtwrappers.core.mtenv import MTEnv, Observation
from mtwrappers.state.env_state import get_state, set_state
from mtwrappers.state.identity import keep_arguments
from mtwrappers.state.registry import require_names
from mtwrappers.vector.contract import StepResult
from mtwrappers.wrappers.task_embedding import check_embeddings, embedding_box
from mtwrappers.wrappers.vector import MetaVectorWrapper

Boundary: TypeAlias = Literal["truncate", "finish"]
TaskObs: TypeAlias = Literal["task", "phase"]
AtEnd: TypeAlias = Literal["stay", "raise"]


class Phase(NamedTuple):
    """A part of a stream; equivalent to a pair ``(tasks, steps)``.

    Attributes:
        tasks: A task, or a list (or range) of tasks from which every reset draws one uniformly. A
            task is a task state, or the name of a task id, which stands for all task states of
            this id.
        steps: The budget: the number of agent steps of the phase.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import MultiEnvWrapper, TaskStream
    >>> from mtwrappers.continual.stream import Phase
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 10.0)]
    >>> stream = TaskStream(MultiEnvWrapper(makers), [Phase(0, 100), Phase([0, 1], 200)])
    >>> stream.phases[1], stream.total_steps
    (Phase(tasks=[0, 1], steps=200), 300)
    """

    tasks: Any
    steps: int


class PhasedStream:
    """The phases of a stream and its position in them: base of its single and vector forms."""

    _held_phase: int | None = None

    def _begin_stream(self, phases: Iterable[Phase], names: Iterable[str], at_end: AtEnd) -> None:
        self.phases, self.phase_names, self.at_end = tuple(phases), tuple(names), at_end
        # The (exclusive) end step of each phase.
        self._ends = list(itertools.accumulate(phase.steps for phase in self.phases))
        self.total_steps = self._ends[-1]
        self.stream_steps = 0

    @property
    def held_phase(self) -> int | None:
        """The phase that all episodes are of from the next `reset` on, or ``None``.

        Raises:
            ValueError: If it is set to something else than the number of a phase.
        """
        return self._held_phase

    @held_phase.setter
    def held_phase(self, phase: int | None) -> None:
        self._hold_phase(self._check_held_phase(phase))

    def _hold_phase(self, phase: int | None) -> None:
        """Sets `held_phase` to the number of a phase, or ``None``."""
        self._held_phase = phase

    def _check_held_phase(self, phase: Any) -> int | None:
        return None if phase is None else check_index(phase, len(self.phases), "held_phase")

    @property
    def phase(self) -> int:
        """The phase of the next step; the last one when the stream is finished."""
        if self._held_phase is not None:
            return self._held_phase
        return min(bisect.bisect_right(self._ends, self.stream_steps), len(self._ends) - 1)

    def phase_of(self, step: int) -> int:
        """Returns the index of the phase that contains ``step``, counted from 0.

        Raises:
            ValueError: If the stream has no such step.
        """
        return bisect.bisect_right(self._ends, check_index(step, self.total_steps, "step"))

    @property
    def stream_finished(self) -> bool:
        """Whether all ``total_steps`` steps were taken, and no phase is held."""
        return self._held_phase is None and self.stream_steps >= self.total_steps

    def _require_more(self) -> None:
        if self.stream_finished and self.at_end == "raise":
            raise RuntimeError(
                f"the stream is finished: its {format_count(len(self.phases), 'phase')} have "
                f"{self.total_steps} steps, and all of them were taken; a reset with a seed "
                "restarts it, and with at_end='stay' the last task continues"
            )


def _delegate(name: str, doc: str) -> Any:
    """A property of a stream: an attribute or a method of the environment in it."""

    def read(stream: TaskStream) -> Any:
        return stream.env.get_wrapper_attr(name)

    def write(stream: TaskStream, value: Any) -> None:
        setattr(stream._mt_env, name, value)

    return property(read, write, doc=doc)


class TaskStream(PhasedStream, MTEnv):
    """A multi-task environment whose tasks come in phases that are fixed beforehand.

    Every `reset` begins an episode on a task of the current phase. The phase follows from how many
    steps the agent has taken: the budgets of all phases, one after another, divide the steps from 0
    to ``total_steps`` among them, and `phase_of` says which has a step. ``info["phase"]`` is the
    phase of the current episode. After ``total_steps`` steps the stream is finished, and ``at_end``
    says what follows. ``info["stream_finished"]`` is true in the episodes that begin then.

    A reset with a seed begins the stream anew. A reset whose options name a task, and the first one
    after `set_task_state`, is on that task, in the budget of the current phase.

    With the defaults, the phases and their ends are those of ``ContinualLearningEnv`` of Continual
    World (Wolczyk et al. 2021, arXiv:2105.10919), whose stream ends with an error, as with
    ``at_end="raise"``. `VectorTaskStream` lets the environments of a
    vector environment share a stream. What chooses tasks by what was seen is no stream: see
    ``select`` of `MultiEnvWrapper`.

    Args:
        env: An `MTEnv`, which may be in wrappers that leave its observations as they are.
        phases: Pairs ``(tasks, steps)``; see `Phase`.
        boundary: What happens to an episode that runs at the end of a phase: ``"truncate"`` ends
            it, ``"finish"`` lets it go on, in the budget of the next phase, whose tasks come with
            the next reset. The end of the stream truncates in either case.
        task_obs: What ``task_obs`` stands for: the ``"task"``, as in ``env``, or the index of the
            ``"phase"``. A repeated task then looks like a new one.
        task_embedding: Numbers to observe in each phase, ``(num_phases, E)``. Observations then
            have a third key, ``task_embedding``, ``(E,)``. Where ``env`` has an embedding of each
            task, as `MultiEnvWrapper` can, observations have that without this argument.
        at_end: What follows when the stream is finished: with ``"stay"`` the last phase goes on,
            but its steps count for nothing, neither here nor in the statistics of
            `NormalizeObservationPerTask` and `NormalizeRewardPerTask`, so that an algorithm whose
            rollout goes beyond the end comes to its own; with ``"raise"`` another step is an error,
            and only a reset still works.

    Attributes:
        phases: The `Phase`s, each with its list of task states.
        phase_names: The names of each phase's tasks, such as ``"push-v3"`` or
            ``"push-v3, reach-v3"``.
        total_steps: The sum of all budgets.
        stream_steps: The number of steps taken, until the stream is finished.
        held_phase: While this is set, from a `reset` on, episodes are of this phase, nothing is
            truncated and steps do not count: this is how a phase is evaluated.

    Raises:
        TypeError: If ``env`` is no `MTEnv`, or a phase is no pair.
        ValueError: If there is no phase, no such task, a budget is no positive integer, an argument
            is none of those, or ``env`` has an embedding already where one is given.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import MultiEnvWrapper, TaskStream
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 10.0)]
    >>> env = MultiEnvWrapper(makers, task_names=["moon", "earth"])
    >>> stream = TaskStream(env, [("moon", 2), ("earth", 1), ("moon", 2)])
    >>> obs, info = stream.reset(seed=0)
    >>> for _ in range(stream.total_steps):
    ...     obs, reward, terminated, truncated, info = stream.step([0.0])
    ...     print(info["phase"], info["task_name"], truncated)
    ...     if terminated or truncated:
    ...         obs, info = stream.reset()
    0 moon False
    0 moon True
    1 earth True
    2 moon False
    2 moon True
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        phases: Iterable[tuple[Any, int]],
        *,
        boundary: Boundary = "truncate",
        task_obs: TaskObs = "task",
        task_embedding: ArrayLike | None = None,
        at_end: AtEnd = "stay",
    ) -> None:
        keep_arguments(self, locals())
        self.env = check_env(env, "env")
        self._mt_env: Any = env.unwrapped
        spaces = _read_spaces(env)
        listed = check_list(phases, "phases", "pair (tasks, steps)")
        at_end = check_choice(at_end, ("stay", "raise"), "at_end")
        checked = [self._check_phase(pair, i) for i, pair in enumerate(listed)]
        names = [", ".join(dict.fromkeys(map(self._name, phase.tasks))) for phase in checked]
        self._begin_stream(checked, names, at_end)
        keep_arguments(self, {"phases": self.phases})  # names and task states of the same tasks
        self._truncates = check_choice(boundary, ("truncate", "finish"), "boundary") == "truncate"
        self._observes_phase = check_choice(task_obs, ("task", "phase"), "task_obs") == "phase"
        self._embeddings = check_embeddings(task_embedding, len(self.phases), "phase")
        if self._observes_phase:
            spaces["task_obs"] = Discrete(len(self.phases))
        if self._embeddings is not None:
            if "task_embedding" in spaces:
                raise ValueError(
                    f"task_embedding must be None, because {env} has an embedding of each task "
                    f"already, got one of shape {self._embeddings.shape}"
                )
            spaces["task_embedding"] = embedding_box(self._embeddings)
        super().__init__(env.action_space, spaces["env_obs"], spaces["task_obs"])
        self.observation_space = Dict(spaces)
        self.metadata, self.render_mode = env.metadata, env.render_mode
        self._task_is_set = False
        # The current episode: its phase and infos, the steps that each step counts, and its end.
        self._phase_obs, self._episode_info = np.int64(0), dict[str, Any]()
        self._step_size, self._episode_end = 1, -1

    # The task, and whatever else belongs to `env`.

    num_tasks = _delegate("num_tasks", "The number of task states, if ``env`` reports it.")
    task_ids = _delegate("task_ids", "The task id of each task state, if ``env`` reports it.")
    task_names = _delegate("task_names", "The name of each task id, if ``env`` reports it.")
    task = _delegate("task", "The name of the current class, on Meta-World.")
    task_description = _delegate("task_description", "The aim of that class, as a sentence.")
    description_space = _delegate("description_space", "The space of `task_description`.")
    get_task_state = _delegate("get_task_state", "Returns the current task's state.")
    assert_env_seed_is_set = _delegate("assert_env_seed_is_set", "See `MTEnv`.")
    seed = _delegate("seed", "Seeds the environment stream of ``env``.")
    _max_episode_steps = _delegate("_max_episode_steps", "Its time limit.")
    # Gymnasium's attributes of the environment stream.
    _np_random = _delegate("_np_random", "The generator of the environment stream.")
    _np_random_seed = _delegate("_np_random_seed", "Its seed.")

    def get_task_obs(self) -> Any:
        """The observation of the current task, or the phase of the current episode."""
        return self._phase_obs if self._observes_phase else self._mt_env.get_task_obs()

    def observe(self, env_obs: Any) -> Observation:
        """The observation of the protocol, with ``task_embedding`` if there is one."""
        return self._add_phase(self._mt_env.observe(env_obs))

    def _add_phase(self, obs: Observation) -> Observation:
        """Adds the phase and its embedding to an observation of ``env``, if requested."""
        if self._observes_phase:
            obs = {**obs, "task_obs": self._phase_obs}
        if self._embeddings is not None:
            obs = {**obs, "task_embedding": self._embeddings[self._phase_obs].copy()}
        return obs

    def set_task_state(self, task_state: Any) -> None:
        """Makes ``task_state`` the task of the next episode."""
        self._mt_env.set_task_state(task_state)
        self._task_is_set = True
        self._episode_end = -1

    def sample_task_state(self) -> Any:
        """Draws a task state of the current phase, without setting it."""
        rng, states = self.np_random_task, self.phases[self.phase].tasks
        return states[0] if len(states) == 1 else states[int(rng.integers(len(states)))]

    def seed_task(self, seed: int | None = None) -> list[int]:
        """Seeds the stream that draws within phases, and the task stream of ``env``."""
        seeds = self._seed_draws(seed)
        self._mt_env.seed_task(*seeds)
        return seeds

    def _seed_draws(self, seed: int | None) -> list[int]:
        seeds = super().seed_task(seed)
        self._np_random_task = seeding.phase_generator(*seeds)
        return seeds

    # Episodes.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode on a task of the current phase; a seed restarts the stream."""
        position = self.stream_steps, self._task_seed, self._np_random_task
        try:
            return self._reset(seed, options)
        except Exception:  # a reset that is refused leaves the stream where it was
            self.stream_steps, self._task_seed, self._np_random_task = position
            raise

    def _reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Observation, dict[str, Any]]:
        task_options, env_options = self._split_options(options)
        if seed is not None:
            self._seed_draws(seed)
            self.stream_steps = 0
        elif self._task_seed is None:
            self._seed_draws(getattr(self._mt_env, "_first_seed", None))
        if "resample_task" in task_options or not (task_options or self._task_is_set):
            task_options = {"task_state": self.sample_task_state()}
        obs, info = self.env.reset(seed=seed, options={**env_options, **task_options} or None)
        self._task_is_set = False
        phase, finished = self.phase, self.stream_finished
        self._phase_obs = np.int64(phase)
        self._episode_info = {"phase": phase, "stream_finished": finished}
        if self.held_phase is not None or (finished and self.at_end == "stay"):
            self._step_size, self._episode_end = 0, sys.maxsize
        else:
            end = self._ends[phase] if self._truncates else self.total_steps
            self._step_size, self._episode_end = 1, end
        return self._add_phase(obs), {**info, **self._episode_info}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Steps the environment.

        Raises:
            RuntimeError: If the stream is finished and ``at_end="raise"``.
            ResetNeeded: If the episode was truncated at a phase's end, or a task was set.
        """
        if self.stream_steps >= self._episode_end:
            self._require_more()
            raise ResetNeeded(
                "call reset() before step(): the episode has ended, a task was set, or the phase "
                f"ended during a pause, at step {self.stream_steps} of the stream, in phase "
                f"{self.phase}"
            )
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.stream_steps += self._step_size
        if self.stream_steps == self._episode_end:
            truncated = True
        info = {**info, **self._episode_info}
        return self._add_phase(obs), reward, terminated, truncated, info

    def render(self) -> Any:
        """Renders the environment."""
        return self.env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    # The state between two episodes.

    def get_state(self) -> dict[str, Any]:
        """Returns the state between two episodes: position, random streams, and ``env``."""
        return {
            "stream_steps": self.stream_steps,
            "held_phase": self.held_phase,
            "task_is_set": self._task_is_set,
            "draws": seeding.stream_state(self._task_seed, self._np_random_task),
            "env": get_state(self.env),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned, with the next `reset`.

        Raises:
            TypeError, ValueError: If ``state`` is not a dict, or does not fit.
        """
        names = "stream_steps", "held_phase", "task_is_set", "draws", "env"
        require_names(check_mapping(state, "a state"), names, self)
        # Everything is checked before anything changes.
        stream_steps = not_negative(state["stream_steps"], "stream_steps of a state")
        held_phase = self._check_held_phase(state["held_phase"])
        task_is_set = check_flag(state["task_is_set"], "task_is_set of a state")
        set_state(self.env, state["env"])
        if state["draws"] is None:
            self._task_seed = self._np_random_task = None
        else:
            self._seed_draws(state["draws"]["seed"])
            self.np_random_task.bit_generator.state = state["draws"]["state"]
        self.stream_steps, self.held_phase = stream_steps, held_phase
        self._task_is_set = task_is_set
        self._episode_end = -1

    # The tasks of phases.

    def _check_phase(self, pair: Any, i: int) -> Phase:
        """Returns a phase with the list of its task states."""
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"phase {i} must be a pair (tasks, steps), got {pair!r}")
        tasks, steps = pair
        if not isinstance(tasks, (list, range)):  # a tuple may be a task state
            tasks = [tasks]
        listed = check_list(tasks, f"the tasks of phase {i}", "task")
        states = [state for task in listed for state in self._states(task, i)]
        return Phase(states, positive(steps, f"the steps of phase {i}"))

    def _states(self, task: Any, i: int) -> Sequence[Any]:
        """Returns the task states that ``task`` stands for."""
        task_set = getattr(self._mt_env, "_task_set", None)
        if task_set is None:
            return [task]
        if not isinstance(task, str) or task_set.names is None:
            return [task_set.check(task, f"phase {i}: a task state")]
        if task not in task_set.names:
            names = list(task_set.names)
            raise ValueError(f"phase {i}: a task must be one of {names}, got {task!r}")
        return [state for state in task_set.states if self._name(state) == task]

    def _name(self, task_state: Any) -> str:
        ids, names = (getattr(self._mt_env, name, None) for name in ("task_ids", "task_names"))
        if ids is None:
            return str(task_state)
        task_id = ids[task_state[0] if isinstance(task_state, tuple) else task_state]
        return f"task {task_id}" if names is None else names[task_id]


def _read_spaces(env: gymnasium.Env[Any, Any]) -> dict[str, Space[Any]]:
    """Returns the spaces of the observations of an `MTEnv` by name, or raises `TypeError`."""
    space = env.observation_space
    spaces = dict(space.spaces) if isinstance(space, Dict) else {}
    keys = spaces.keys() - {"task_embedding"}
    if keys != {"env_obs", "task_obs"} or not isinstance(env.unwrapped, MTEnv):
        raise TypeError(
            "expected an MTEnv with observations {env_obs, task_obs}, such as a MultiEnvWrapper, "
            f"got {env} with {space}; wrappers that change observations, such as FlattenMTEnv (or "
            "task_encoding of gymnasium.make), go around a TaskStream"
        )
    return spaces


class VectorTaskStream(PhasedStream, MetaVectorWrapper):
    """A stream of tasks that the environments of a vector environment share.

    Each of them is a `TaskStream`, or has one inside its wrappers, with the same phases. By itself,
    each would go through the whole stream. Here the budget of a phase counts the steps of all of
    them, and they go to the next phase together: in the step with which the budget is used up,
    every environment is at the end of the phase, as `TaskStream` describes it. Where the budgets
    are no multiples of ``num_envs``, that step goes beyond the end of the phase, and the next phase
    is that many steps shorter. Steps in which NEXT_STEP resets an environment do not count, nor do
    those of environments that are paused.

    After ``total_steps`` steps the stream is finished for all of them, and ``at_end`` of the
    `TaskStream`s says what follows. A reset with seeds restarts the stream.

    Args:
        env: One of our vector environments, or a `MetaVectorWrapper` of one.

    Attributes:
        phases: The `Phase`s, with the list of task states of each.
        phase_names: The name of each phase.
        total_steps: The budgets of all phases.
        at_end: What follows when the stream is finished, ``"stay"`` or ``"raise"``.
        stream_steps: How many steps all environments have taken together, until the stream is
            finished.
        held_phase: While this is set, it is that of all environments: from a `reset` on, episodes
            are of this phase, nothing is truncated and steps do not count.

    Raises:
        TypeError: If an environment has no `TaskStream`, or ``env`` is none of ours.
        ValueError: If the environments have different streams, or a budget is below ``num_envs``.

    >>> import gymnasium
    >>> import mtwrappers as mt
    >>> from functools import partial
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 10.0)]
    >>> def make():
    ...     return mt.TaskStream(mt.MultiEnvWrapper(makers), [(0, 4), (1, 4)])
    >>> envs = mt.VectorTaskStream(mt.MetaIterativeEnvExecutor(make, 2))
    >>> obs, infos = envs.reset(seed=0)
    >>> for _ in range(2):
    ...     obs, rewards, terminated, truncated, infos = envs.step([[0.0], [0.0]])
    ...     print(truncated, infos["phase"])
    [False False] [0 0]
    [ True  True] [1 1]
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        if not self._envs_have("stream_steps"):
            raise TypeError(
                "expected a vector environment in which every environment is a TaskStream, or has "
                f"one inside, got {env}"
            )
        names = "phases", "phase_names", "at_end"
        streams = list(zip(*map(self._inner.call, names), strict=True))
        first = streams[0]
        for i, stream in enumerate(streams):
            if repr(stream) != repr(first):
                raise ValueError(
                    f"the environments must have the same {', '.join(names)}, got {first} in "
                    f"environment 0 and {stream} in environment {i}"
                )
        self._begin_stream(*first)
        if (least := min(phase.steps for phase in self.phases)) < self.num_envs:
            raise ValueError(
                f"a phase must have at least {format_count(self.num_envs, 'step')}, one per "
                f"environment, got {least}"
            )
        self._step_size = self.num_envs  # the count of the step under way

    def _hold_phase(self, phase: int | None) -> None:
        super()._hold_phase(phase)
        self._inner.set_attr("held_phase", phase)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        every = bool(self._reset_rows(options).all())
        seeded = [env_seed is not None for env_seed in np.ravel(seed)]
        if any(seeded) and not (every and all(seeded)):
            raise ValueError(
                "a seed restarts the stream: reset all environments, with a seed for each"
            )
        if every and not any(seeded):  # a step that raised was counted by some of them
            self._inner.set_attr("stream_steps", self.stream_steps)
        result = self._inner.reset(seed=seed, options=options)
        if any(seeded):
            self.stream_steps = 0
        return result

    def step_async(self, actions: Any) -> None:
        """Begins a step; a `RuntimeError` if the stream is finished and ``at_end="raise"``."""
        self._require_more()
        idle = ~self._executor.will_be_stepped
        stays = self.stream_finished or self._held_phase is not None
        counted = 0 if stays else self.num_envs - int(np.count_nonzero(idle))
        self._step_size, end = counted, self._ends[self.phase]
        if counted and self.stream_steps + counted >= end:
            # Their next step is the last of the phase; environments reset instead begin the next.
            self._inner.set_attr("stream_steps", (end - 1 + idle).tolist())
        self._inner.step_async(actions)

    def step_wait(self) -> StepResult:
        result = self._inner.step_wait()
        self.stream_steps += self._step_size
        return result

    def get_state(self) -> dict[str, Any]:
        """Returns the position in the stream as JSON types."""
        state: dict[str, Any] = {"stream_steps": self.stream_steps}
        if self._held_phase is not None:
            state["held_phase"] = self._held_phase
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        Raises:
            TypeError, ValueError: If ``state`` is not a dict, or does not fit.
        """
        names = {"stream_steps", *(check_mapping(state, "a state").keys() & {"held_phase"})}
        require_names(state, names, self)
        held_phase = self._check_held_phase(state.get("held_phase"))
        self.stream_steps = not_negative(state["stream_steps"], "stream_steps of a state")
        self._held_phase = held_phase  # as in the states of the environments
