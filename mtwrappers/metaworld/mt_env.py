"""A benchmark as one multi-task environment: what the registered ids make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from mtwrappers.core import Observation
from mtwrappers.indexed import IndexedMTEnv, check_index
from mtwrappers.metaworld.benchmarks import Kind, is_meta_learning, make_benchmark, split_of
from mtwrappers.metaworld.class_env import (
    METADATA,
    ClassPool,
    SawyerClassEnv,
    SawyerSettings,
    action_box,
)
from mtwrappers.selection import SelectName, Strategy


class MetaWorldMTEnv(IndexedMTEnv):
    """An `MTEnv` over the tasks (class and goal) of a Meta-World benchmark.

    The task state is the index into `tasks`, the benchmark's own list; ``task_obs`` is the index of
    the task's class. Every `reset` draws the next task, unless a task was set since the last one;
    an unseeded environment seeds itself from entropy at its first reset, as Gymnasium's do.
    ``info`` carries ``task_id`` (the class's index), ``task_name`` (such as ``"reach-v3"``) and
    Meta-World's seven numbers. Only the classes that are played are built.

    Args:
        benchmark: See `mtwrappers.metaworld.make_benchmark`, as for the next five.
        kind: ``"train"`` or ``"test"`` tasks.
        env_name: The class of MT1 and ML1.
        train_classes: The classes of CustomMT and CustomML.
        test_classes: The test classes of CustomML.
        num_goals: How many tasks a class.
        seed: Determines the benchmark's goals.
        select: How the next task is drawn; ``"uniform"`` by default, ``"without_replacement"`` for
            meta-learning. A curriculum such as ``"least_success"`` sees classes as groups of tasks,
            and where all tasks are of one class, each goal by itself; see `mtwrappers.selection`.
        task_states: The tasks to draw from; all by default. Any task can still be set.
        sample_tasks_on_reset: Whether every reset draws a task, or only the first and seeded ones.
        terminate_on_success: Whether a success ends the episode.
        max_episode_steps: When to truncate; ``None`` leaves it to a ``TimeLimit``.
        **settings: See `SawyerSettings`.

    Raises:
        ValueError: If an argument is not one of those.
        DependencyNotInstalled: If Meta-World is not installed.
    """

    metadata = METADATA

    def __init__(
        self,
        benchmark: str = "MT10",
        kind: Kind = "train",
        *,
        env_name: str | None = None,
        train_classes: Sequence[str] | None = None,
        test_classes: Sequence[str] | None = None,
        num_goals: int = 50,
        seed: int | None = 0,
        select: SelectName | Strategy | None = None,
        task_states: Sequence[int] | None = None,
        sample_tasks_on_reset: bool = True,
        terminate_on_success: bool = False,
        max_episode_steps: int | None = None,
        **settings: Any,
    ) -> None:
        made = make_benchmark(
            benchmark,
            env_name=env_name,
            train_classes=train_classes,
            test_classes=test_classes,
            seed=seed,
            num_goals=num_goals,
        )
        classes, tasks = split_of(made, kind)
        self.tasks: list[Any] = tasks
        self._class_index = {name: i for i, name in enumerate(classes)}
        hidden = is_meta_learning(benchmark)
        self._pool = ClassPool(
            classes,
            goals_visible=not hidden,
            settings=SawyerSettings(**settings),
            max_episode_steps=max_episode_steps,
        )
        n = len(self.tasks)
        if task_states is None:
            self._choices = list(range(n))
        else:
            self._choices = [check_index(i, n, "each of task_states") for i in task_states]
        if not self._choices:
            raise ValueError("task_states must hold at least one task, got none")
        # A curriculum weighs classes; where there is but one, it weighs its goals.
        drawn = [self._class_index[self.tasks[i].env_name] for i in self._choices]
        self._place = {state: place for place, state in enumerate(self._choices)}
        if select is None:
            select = "without_replacement" if hidden else "uniform"
        super().__init__(
            n,
            action_box(),
            self._pool.observation_space,
            Discrete(len(classes)),
            initial_task_state=self._choices[0],
            select=select,
            num_choices=len(self._choices),
            choice_groups=drawn if len(set(drawn)) > 1 else None,
            sample_tasks_on_reset=sample_tasks_on_reset,
        )
        self.render_mode = self._pool.settings.render_mode
        self.terminate_on_success = terminate_on_success
        self._fresh = True
        self._stays = False
        self._env: SawyerClassEnv | None = None
        self._describe(self._task_state)

    # What a task is.

    @property
    def task_names(self) -> tuple[str, ...]:
        """The benchmark's classes, in the order of ``task_id``."""
        return tuple(self._class_index)

    @property
    def task_ids(self) -> tuple[int, ...]:
        """The index of each task's class, ``num_tasks`` integers."""
        return tuple(self._class_index[task.env_name] for task in self.tasks)

    @property
    def task_states(self) -> tuple[int, ...]:
        """The tasks that resets and ``sample_tasks`` draw from."""
        return tuple(self._choices)

    @property
    def task_name(self) -> str:
        """The upstream name of the present class, such as ``"SawyerReachEnvV3"``.

        It is what `metaworld.evaluation` asks for.
        """
        return self._pool.classes[self.tasks[self._task_state].env_name].__name__

    @property
    def envs_built(self) -> int:
        """How many classes have been built so far."""
        return self._pool.envs_built

    @property
    def goal(self) -> NDArray[np.float64]:
        """The present goal, ``(3,)``, in metres. Privileged where observations hide it."""
        self._check_stepping()
        assert self._env is not None
        goal: NDArray[np.float64] = np.array(self._env.sawyer._target_pos, dtype=np.float64)
        return goal

    def get_task_obs(self) -> np.int64:
        """The index of the present task's class."""
        return self._task_obs

    def sample_task_state(self) -> int:
        """Draws the index of a task, without setting it."""
        return self._choices[super().sample_task_state()]

    def toggle_sample_tasks_on_reset(self, on: bool) -> None:
        """Says whether every reset draws a task."""
        self.sample_tasks_on_reset = bool(on)

    def toggle_terminate_on_success(self, on: bool) -> None:
        """Says whether a success ends the episode."""
        self.terminate_on_success = bool(on)

    @property
    def is_unseeded(self) -> bool:
        """Whether no task seed was set yet."""
        return self._task_seed is None

    def get_checkpoint(self) -> dict[str, Any]:
        """The state between two episodes, ready for JSON: the task, streams and settings."""
        return {
            "num_tasks": self.num_tasks,
            "task_state": self._task_state,
            "env_seed": self._env_seed,
            "task_seed": self._task_seed,
            "env_stream": _stream_state(self._np_random if self._env_seed is not None else None),
            "task_stream": _stream_state(self._np_random_task),
            "selection": self._selector.get_state(),
            "fresh": self._fresh,
            "task_was_set": self._task_was_set,
            "sample_tasks_on_reset": self.sample_tasks_on_reset,
            "terminate_on_success": self.terminate_on_success,
        }

    def load_checkpoint(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_checkpoint` returned, with the next `reset`.

        Raises:
            ValueError: If it is of another benchmark.
        """
        if state.get("num_tasks") != self.num_tasks:
            raise ValueError(
                f"expected a checkpoint of {self.num_tasks} tasks, got one of "
                f"{state.get('num_tasks')}"
            )
        self.set_task_state(state["task_state"])
        if state["env_seed"] is not None:
            self.seed(state["env_seed"])
            assert self._np_random is not None
            self._np_random.bit_generator.state = state["env_stream"]
        if state["task_seed"] is not None:
            self.seed_task(state["task_seed"])
            self.np_random_task.bit_generator.state = state["task_stream"]
        self._selector.set_state(state["selection"])
        self._fresh = state["fresh"]
        self._task_was_set = state["task_was_set"]
        self.sample_tasks_on_reset = state["sample_tasks_on_reset"]
        self.terminate_on_success = state["terminate_on_success"]

    # Episodes.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode; see the class for which task it is."""
        super().reset(seed=seed, options=options)
        if self._env is None:  # a copy, on the task that it was copied on
            self._activate(self._task_state)
        assert self._env is not None
        env_obs, info = self._env.reset()
        self._fresh = self._stays = False
        self._begin_episode()
        info["task_id"] = self._task_id
        info["task_name"] = self._env.name
        return {"env_obs": env_obs, "task_obs": self._task_obs}, info

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Simulates an eightieth of a second; see `SawyerClassEnv.step`."""
        env = self._env
        if self._reset_needed or env is None:
            self._check_stepping()
        assert env is not None
        env_obs, reward, _, truncated, info = env.step(action)
        info["task_id"] = self._task_id
        info["task_name"] = env.name
        terminated = self.terminate_on_success and info["success"] == 1.0
        if self._history is not None:
            self._history.step(reward, terminated or truncated, info)
        return {"env_obs": env_obs, "task_obs": self._task_obs}, reward, terminated, truncated, info

    def render(self) -> Any:
        """A frame of the present class."""
        self._check_stepping()
        assert self._env is not None
        return self._env.render()

    def close(self) -> None:
        """Closes every class that was built."""
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        # The copy builds its own simulation, so it begins with a reset, on the same task.
        state = {**self.__dict__, "_reset_needed": True, "_env": None}
        state["_stays"] = not self._fresh
        return state

    def _draws_on_reset(self, seed: int | None) -> bool:
        if seed is not None:
            return True
        return not self._stays and (self.sample_tasks_on_reset or self._fresh)

    def _choice(self) -> int | None:
        return self._place.get(self._task_state)

    def _activate(self, index: int) -> None:
        task = self.tasks[index]
        env = self._pool.get(task.env_name)
        env.set_task(task)
        self._env = env
        self._describe(index)

    def _describe(self, index: int) -> None:
        self._task_id = self._class_index[self.tasks[index].env_name]
        self._task_obs = np.int64(self._task_id)


def _stream_state(rng: np.random.Generator | None) -> dict[str, Any] | None:
    return None if rng is None else dict(rng.bit_generator.state)
