"""A benchmark as one multi-task environment: what the registered ids make."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.checks import check_flag, check_index, check_list
from mtwrappers.core import Observation
from mtwrappers.metaworld.benchmarks import Kind
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.metaworld.plain_task import digest
from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv
from mtwrappers.selection import SelectName, Strategy
from mtwrappers.task_list import TaskListMTEnv


class MetaWorldMTEnv(TaskListMTEnv):
    """An `MTEnv` over the tasks (class and goal) of a Meta-World benchmark.

    The task state is the index into the benchmark's own list; ``task_obs`` is the index of the
    task's class. Every `reset` draws the next task, unless a task was set since the last one.
    ``info`` carries ``task_id`` (the class's index), ``task_name`` (such as ``"reach-v3"``) and
    Meta-World's seven numbers. Only the classes that are played are built.

    Args:
        benchmark: The name of a benchmark, or a `metaworld.Benchmark`.
        kind: ``"train"`` or ``"test"`` tasks.
        seed: Determines the goals, and what the first reset that is given no seed is seeded with;
            ``None`` takes the goals of seed 0, and entropy for that reset.
        select: How the next task is drawn; ``"uniform"`` by default, ``"without_replacement"`` for
            meta-learning. A curriculum such as ``"least_success"`` sees classes as groups of tasks,
            and where all tasks are of one class, each goal by itself; see `mtwrappers.selection`.
        task_states: Only these of the benchmark's tasks; all by default.
        sample_tasks_on_reset: Whether every reset draws a task, or only the first and seeded ones.
        terminate_on_success: Whether a success ends the episode.
        max_episode_steps: When to truncate; ``None`` leaves it to a ``TimeLimit``.
        **options: ``env_name``, ``train_classes``, ``test_classes`` and ``num_goals`` as
            `mtwrappers.metaworld.make_benchmark` takes them, when ``benchmark`` is a name; and how
            the classes are built, the fields of `mtwrappers.metaworld.class_env.SawyerSettings`.

    Attributes:
        env: The `MetaWorldSetTaskEnv` that owns the tasks and their environments.
        tasks: This environment's `metaworld.Task`s; ``task_states`` holds the state of each.
        sample_tasks_on_reset: Can be set at any time.
        terminate_on_success: Can be set at any time.

    Raises:
        TypeError: If a flag is no bool, or ``task_states`` is no list.
        ValueError: If an argument is not one of those.
        DependencyNotInstalled: If Meta-World is not installed.
    """

    metadata = METADATA
    _draws_first = True
    _passes_options_on = False

    def __init__(
        self,
        benchmark: Any = "MT10",
        kind: Kind = "train",
        *,
        seed: int | None = None,
        select: SelectName | Strategy | None = None,
        task_states: Sequence[int] | None = None,
        sample_tasks_on_reset: bool = True,
        terminate_on_success: bool = False,
        max_episode_steps: int | None = None,
        **options: Any,
    ) -> None:
        if benchmark is None:
            raise TypeError("benchmark must be a metaworld.Benchmark or its name, got None")
        self.env = MetaWorldSetTaskEnv(
            benchmark, kind, seed=seed, max_episode_steps=max_episode_steps, **options
        )
        every = self.env.tasks
        chosen = range(len(every)) if task_states is None else task_states
        chosen = check_list(chosen, "task_states", "task")
        states = [check_index(state, len(every), "each of task_states") for state in chosen]
        self.tasks = [every[state] for state in states]
        index = {name: i for i, name in enumerate(self.env.task_names)}
        if select is None:
            select = "uniform" if self.env.layout.goals_visible else "without_replacement"
        super().__init__(
            self.env.action_space,
            self.env.observation_space,
            task_ids=[index[task.env_name] for task in every],
            task_names=self.env.task_names,
            task_states=states,
            select=select,
            sample_tasks_on_reset=sample_tasks_on_reset,
            first_seed=seed,
        )
        self.render_mode = self.env.render_mode
        self.terminate_on_success = check_flag(terminate_on_success, "terminate_on_success")

    @property
    def envs_built(self) -> int:
        """How many classes have been built so far."""
        return self.env.envs_built

    @property
    def _max_episode_steps(self) -> int | None:
        """When episodes are truncated, under the name that it has in Gymnasium's ``TimeLimit``."""
        return self.env._max_episode_steps

    @property
    def goal(self) -> NDArray[np.float64]:
        """The present goal, ``(3,)``, in metres. Privileged where observations hide it."""
        self._require_reset()
        goal: NDArray[np.float64] = np.array(self._env.sawyer._target_pos, dtype=np.float64)
        return goal

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Simulates one control step (12.5 ms); see `SawyerClassEnv.step`."""
        obs, reward, _, truncated, info = super().step(action)
        terminated = self.terminate_on_success and info["success"] == 1.0
        if terminated and self._history is not None:
            self._history.end()
        return obs, reward, terminated, truncated, info

    def close(self) -> None:
        """Closes every class that was built."""
        self.env.close()

    def get_state(self) -> dict[str, Any]:
        """The state between two episodes, ready for JSON: the task, streams and settings."""
        return {**super().get_state(), "terminate_on_success": self.terminate_on_success}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned; a ``ValueError`` if it is of other tasks."""
        super().set_state(state)
        self.terminate_on_success = state["terminate_on_success"]

    def __getstate__(self) -> dict[str, Any]:
        # The copy builds its own simulation, so it begins with a reset, on the same task.
        state = {**self.__dict__, "_env": None}
        if self._phase in ("playing", "between"):
            state["_phase"] = "copied"
        return state

    def _activate(self, task_state: int) -> None:
        self._env = self.env.turn_to(task_state)

    @functools.cached_property
    def _identity(self) -> dict[str, Any]:
        classes = sorted({task.env_name for task in self.tasks})
        return {"num_tasks": self.num_tasks, "classes": classes, "goals": digest(self.tasks)}

    def _tasks_identity(self) -> dict[str, Any]:
        return self._identity
