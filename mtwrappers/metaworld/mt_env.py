"""A benchmark as one multi-task environment: what the registered ids make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.checks import check_index, check_options
from mtwrappers.core import TASK_OPTIONS, Observation
from mtwrappers.metaworld.benchmarks import Kind, is_meta_learning, make_benchmark, split_of
from mtwrappers.metaworld.class_env import (
    METADATA,
    ClassPool,
    SawyerSettings,
    action_box,
)
from mtwrappers.selection import SelectName, Strategy
from mtwrappers.task_list import TaskListMTEnv


class MetaWorldMTEnv(TaskListMTEnv):
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
    _draws_first = True

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
        if task_states is not None:
            task_states = [check_index(i, n, "each of task_states") for i in task_states]
            if not task_states:
                raise ValueError("task_states must hold at least one task, got none")
        if select is None:
            select = "without_replacement" if hidden else "uniform"
        super().__init__(
            action_box(),
            self._pool.observation_space,
            task_ids=[self._class_index[task.env_name] for task in self.tasks],
            task_names=list(classes),
            task_states=task_states,
            select=select,
            sample_tasks_on_reset=sample_tasks_on_reset,
        )
        self.render_mode = self._pool.settings.render_mode
        self.terminate_on_success = terminate_on_success

    # What a task is.

    @property
    def task_names(self) -> tuple[str, ...]:
        """The benchmark's classes, in the order of ``task_id``."""
        return tuple(self._class_index)

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
        if self._phase != "playing":
            self._refuse()
        goal: NDArray[np.float64] = np.array(self._env.sawyer._target_pos, dtype=np.float64)
        return goal

    def toggle_sample_tasks_on_reset(self, on: bool) -> None:
        """Says whether every reset draws a task."""
        self.sample_tasks_on_reset = bool(on)

    def toggle_terminate_on_success(self, on: bool) -> None:
        """Says whether a success ends the episode."""
        self.terminate_on_success = bool(on)

    def get_state(self) -> dict[str, Any]:
        """The state between two episodes, ready for JSON: the task, streams and settings."""
        return {**super().get_state(), "terminate_on_success": self.terminate_on_success}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned, with the next `reset`.

        Raises:
            ValueError: If it is of an environment on other tasks.
        """
        super().set_state(state)
        self.terminate_on_success = state["terminate_on_success"]

    # Episodes.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode; see the class for which task it is."""
        check_options(options, TASK_OPTIONS, "a Meta-World environment")
        return super().reset(seed=seed, options=options)

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Simulates an eightieth of a second; see `SawyerClassEnv.step`."""
        obs, reward, _, truncated, info = super().step(action)
        terminated = self.terminate_on_success and info["success"] == 1.0
        if terminated and self._history is not None:
            self._history.end()
        return obs, reward, terminated, truncated, info

    def close(self) -> None:
        """Closes every class that was built."""
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        # The copy builds its own simulation, so it begins with a reset, on the same task.
        state = {**self.__dict__, "_env": None}
        if self._phase in ("playing", "between"):
            state["_phase"] = "copied"
        return state

    def _activate(self, task_state: int) -> None:
        task = self.tasks[task_state]
        env = self._pool.get(task.env_name)
        env.set_task(task)
        self._env = env
