"""The multi-task protocol: one environment, a task that can be read, set and sampled."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeAlias

import gymnasium
from gymnasium.spaces import Dict
from numpy.random import Generator

from mtwrappers.common import seeding
from mtwrappers.common.checks import check_flag, check_mapping, check_options, check_space
from mtwrappers.common.errors import SeedNotSetError
from mtwrappers.common.types import AnySpace, Info, Options, State
from mtwrappers.state.plain_data import make_generator, set_generator
from mtwrappers.state.registry import require_names

Observation: TypeAlias = dict[str, Any]
TASK_OPTIONS = frozenset({"task_state", "resample_task"})


class MTEnv(gymnasium.Env[Observation, Any], abc.ABC):
    """A Gymnasium environment whose task is part of its interface.

    An observation is ``{"env_obs": ..., "task_obs": ...}``: the observation of a single-task
    environment, and what the agent may know about the task. The *task state* is all that is needed
    to return to a task. Separate random streams drive the environment and the choice of tasks. A
    subclass implements `step`, `reset`, `get_task_obs`, `get_task_state`, `set_task_state` and
    `sample_task_state`; its `reset` begins with ``super().reset(seed=seed, options=options)``, as
    in Gymnasium, which seeds both streams and applies the task options, and ends with
    ``return self.observe(env_obs), info``.

    An environment that was never seeded takes its seed from entropy. As in MTEnv, calling
    `sample_task_state` before a task seed is set is an error; an environment that draws a task at
    every reset sets one itself.

    Terms used throughout this package:

    * A *task* is what the agent has to do in an episode; on Meta-World, a class with a goal.
    * A *task state* identifies a task for `set_task_state`; for a list of tasks it is the index
      into the list. ``num_tasks`` is the number of task states; ``task_states`` are the ones that
      the environment switches between by itself.
    * A *task id*, ``info["task_id"]``, is the number that ``task_obs`` and one-hots encode; on
      Meta-World, the index of the class. ``task_ids[task_state]`` is the id of a task.
    * A *task name*, ``info["task_name"]``, is the name of a task id: ``task_names[task_id]``.

    It is the protocol of MTEnv (Sodhani et al. 2021, https://github.com/facebookresearch/mtenv) on
    current Gymnasium.

    Args:
        action_space: The action space, the same for every task.
        env_observation_space: The space of ``env_obs``, the same for every task.
        task_observation_space: The space of ``task_obs``.

    Raises:
        TypeError: If an argument is not a space.

    >>> import numpy as np
    >>> from gymnasium.spaces import Box, Discrete
    >>> from mtwrappers import MTEnv
    >>> class Walk(MTEnv):
    ...     goal = 0
    ...     def __init__(self):
    ...         super().__init__(Discrete(2), Box(-9, 9, (1,), np.float64), Discrete(3))
    ...     def reset(self, *, seed=None, options=None):
    ...         super().reset(seed=seed, options=options)
    ...         self.x = 0.0
    ...         return self.observe(np.array([self.x])), {}
    ...     def step(self, action):
    ...         self.x += 2.0 * action - 1.0
    ...         done = self.x == self.goal
    ...         return self.observe(np.array([self.x])), float(done), done, False, {}
    ...     def get_task_obs(self): return self.goal
    ...     def get_task_state(self): return self.goal
    ...     def set_task_state(self, task_state): self.goal = task_state
    ...     def sample_task_state(self): return int(self.np_random_task.integers(3))
    >>> env = Walk()
    >>> env.reset(seed=0, options={"task_state": 2})[0]
    {'env_obs': array([0.]), 'task_obs': 2}
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)
    # Whether unknown options may belong to a wrapped environment, and what to pass instead of them.
    _passes_options_on = True
    # The beginnings of options that no wrapped environment reads.
    _option_prefixes: tuple[str, ...] = ()
    _options_hint = ""

    def __init__(
        self,
        action_space: AnySpace,
        env_observation_space: AnySpace,
        task_observation_space: AnySpace,
    ) -> None:
        self.action_space = check_space(action_space, "action_space")
        self.env_observation_space = check_space(env_observation_space, "env_observation_space")
        self.task_observation_space = check_space(task_observation_space, "task_observation_space")
        self.observation_space = Dict(
            {"env_obs": env_observation_space, "task_obs": task_observation_space}
        )
        self._env_seed: int | None = None
        self._task_seed: int | None = None
        self._np_random_task: Generator | None = None

    # The task.

    @abc.abstractmethod
    def get_task_obs(self) -> Any:
        """The observation of the current task, an element of the space of ``task_obs``."""

    @abc.abstractmethod
    def get_task_state(self) -> Any:
        """All that `set_task_state` needs to return to the current task."""

    @abc.abstractmethod
    def set_task_state(self, task_state: Any) -> None:
        """Makes ``task_state`` the current task, from the next `reset` on.

        Raises:
            ValueError: If there is no such task; the current task is then kept.
        """

    @abc.abstractmethod
    def sample_task_state(self) -> Any:
        """Draws a task state from the task stream, without setting it.

        Raises:
            SeedNotSetError: If no task seed was set.
        """

    def reset_task_state(self) -> None:
        """Draws a task state and sets it.

        Raises:
            SeedNotSetError: If no task seed was set.
        """
        self.set_task_state(self.sample_task_state())

    # The two random streams.

    def seed(self, seed: int | None = None) -> list[int]:
        """Seeds the environment stream; ``None`` takes a seed from entropy.

        Returns:
            A list of one integer, the seed that was used.
        """
        self._env_seed = self._np_random_seed = seeding.chosen_seed(seed)
        self._np_random = seeding.env_generator(self._env_seed)
        return [self._env_seed]

    def seed_task(self, seed: int | None = None) -> list[int]:
        """Seeds the task stream and the space of ``task_obs``, as `seed` does the environment's."""
        self._task_seed = seeding.chosen_seed(seed)
        self._np_random_task = seeding.task_generator(self._task_seed)
        self.task_observation_space.seed(self._task_seed)
        return [self._task_seed]

    @property
    def np_random_task(self) -> Generator:
        """The task stream.

        Raises:
            SeedNotSetError: If no task seed was set.
        """
        if self._np_random_task is None:
            raise SeedNotSetError(
                "the task seed is not set: call seed_task(s) or reset(seed=s) first"
            )
        return self._np_random_task

    def assert_env_seed_is_set(self) -> None:
        """Raises `SeedNotSetError` unless the environment stream was seeded."""
        if self._env_seed is None:
            raise SeedNotSetError(
                "the environment seed is not set: call seed(s) or reset(seed=s) first"
            )

    def assert_task_seed_is_set(self) -> None:
        """Raises `SeedNotSetError` unless the task stream was seeded."""
        _ = self.np_random_task

    # The state between two episodes.

    def get_state(self) -> State:
        """The state between two episodes: the task and both random streams.

        It consists of JSON values, and arrays where task states are arrays. An environment stream
        that was not seeded is first seeded from entropy, as on access to ``np_random``.
        """
        if self._env_seed is None:
            self.seed()
        return {
            "task_state": self.get_task_state(),
            "env_stream": seeding.stream_state(self._env_seed, self._np_random),
            "task_stream": seeding.stream_state(self._task_seed, self._np_random_task),
        }

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned; the next `reset` continues from it.

        Raises:
            TypeError: If ``state`` is not a dict.
            ValueError: If ``state`` is malformed or belongs to other tasks. Nothing is changed
                then, unless `set_task_state` changes something before it raises.
        """
        self._require_state(state, ("task_state", "env_stream", "task_stream"))
        env_stream, task_stream = state["env_stream"], state["task_stream"]
        self.set_task_state(state["task_state"])
        self.seed(env_stream["seed"])
        set_generator(self.np_random, env_stream["state"])
        if task_stream is None:
            self._task_seed = self._np_random_task = None
        else:
            self.seed_task(task_stream["seed"])
            set_generator(self.np_random_task, task_stream["state"])

    def _require_state(self, state: State, names: Sequence[str]) -> None:
        """Raises unless a state is a dict with these keys, and its streams can be set.

        A subclass may add keys.
        """
        missing = sorted({*names} - check_mapping(state, "a state").keys())
        if missing:
            raise ValueError(
                f"expected {sorted(names)} in the state of {type(self).__name__}, got none of "
                f"{missing}"
            )
        for name in ("env_stream", "task_stream"):
            if name == "env_stream" or state[name] is not None:
                check_stream(state[name], f"the {name} of the state", self)

    # Episodes.

    def reset(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[Observation, Info]:
        """Seeds both streams and applies the task options; a subclass returns its own result.

        Args:
            seed: Seeds the environment stream and the task stream.
            options: ``{"task_state": s}`` switches to that task; ``{"resample_task": True}``
                draws a new one. The dict is not changed. Other keys belong to the subclass.

        Raises:
            TypeError: If the options are not a dict, or ``resample_task`` is not a bool.
            ValueError: If both options are given, or an option with a similar name.
            SeedNotSetError: If a task is to be drawn and no task seed was set.
        """
        task_options, _ = self._split_options(options)
        if seed is not None:
            self.seed(seed)
            self.seed_task(seed)
        if "resample_task" in task_options:
            self.reset_task_state()
        elif "task_state" in task_options:
            self.set_task_state(task_options["task_state"])
        return {}, {}

    def _split_options(self, options: Options | None) -> tuple[Options, Options]:
        """Returns the given task option, if any, and the other options, or raises."""
        if options is None:
            return {}, {}
        check_options(
            options,
            TASK_OPTIONS,
            type(self).__name__,
            passes_on=self._passes_options_on,
            prefixes=self._option_prefixes,
            hint=self._options_hint,
        )
        other_options = dict(options)
        task_options = {name: other_options.pop(name) for name in TASK_OPTIONS if name in options}
        if not check_flag(task_options.get("resample_task", False), "options['resample_task']"):
            task_options.pop("resample_task", None)
        if len(task_options) > 1:
            raise ValueError(
                "options must hold task_state or resample_task, not both; got "
                f"task_state={task_options['task_state']!r} and resample_task=True"
            )
        return task_options, other_options

    def observe(self, env_obs: object) -> Observation:
        """Returns ``{"env_obs": env_obs, "task_obs": ...}`` for the current task."""
        return {"env_obs": env_obs, "task_obs": self.get_task_obs()}


def check_stream(stream: Any, name: str, owner: object) -> None:
    """Raises `TypeError` or `ValueError` unless ``owner`` can restore a stream from a state.

    ``name`` is the stream's, for messages.
    """
    seeding.check_seed(require_names(stream, ("seed", "state"), owner)["seed"])
    make_generator(stream["state"], name)
