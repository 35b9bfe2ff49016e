"""The interfaces of Meta-World's objects, which has no types: classes, tasks and benchmarks.

They are what this package uses of them. This module imports neither Meta-World nor MuJoCo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypedDict

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mtwrappers.common.types import AnyArray, Info

if TYPE_CHECKING:
    import mujoco


class Task(Protocol):
    """A `metaworld.Task`: a class and a goal."""

    @property
    def env_name(self) -> str:
        """The name of the class."""

    @property
    def data(self) -> bytes:
        """A pickled `TaskData`."""

    def __hash__(self) -> int:
        """Equal for equal tasks."""


class Sawyer(Protocol):
    """Meta-World's ``SawyerXYZEnv``: the members that this package uses.

    Attributes:
        model: The compiled model.
        data: The simulation.
        curr_path_length: The number of steps of the episode.
        max_path_length: The number of steps after which it is truncated.
        max_snapshots: The number of snapshots that a fast class keeps.
        goal_space: The goals in observations, ``(3,)``, metres.
        np_random: The random generator, which is used if ``seeded_rand_vec`` is set.
        _HAND_SPACE: The bounds of the hand's position, ``(3,)``, metres.
        TARGET_RADIUS: The distance to the goal that is a success, in metres.
        _target_pos: The goal, ``(3,)``, metres.
        _set_task_called: Whether a task was set.
        _freeze_rand_vec: Whether resets keep the random vector.
        _last_rand_vec: The random vector, ``(3,)`` or ``(6,)``, metres; ``None`` before a task.
        _partially_observable: Whether the goal is hidden.
    """

    model: mujoco.MjModel
    data: mujoco.MjData
    curr_path_length: int
    max_path_length: int
    max_snapshots: int
    goal_space: Box
    np_random: np.random.Generator
    _HAND_SPACE: Box
    TARGET_RADIUS: float
    _target_pos: NDArray[np.float64]
    _set_task_called: bool
    _freeze_rand_vec: bool
    _last_rand_vec: NDArray[np.float64]
    _partially_observable: bool

    def __init__(self, *, reward_function_version: str = ...) -> None: ...

    def set_task(self, task: Task) -> None:
        """Sets the task of the next reset."""

    def reset(self) -> tuple[NDArray[np.float64], Info]:
        """Begins an episode."""

    def step(self, action: AnyArray) -> tuple[NDArray[np.float64], float, bool, bool, Info]:
        """Simulates a control step."""

    def close(self) -> None:
        """Frees what is drawn with."""


SawyerClass: TypeAlias = type[Sawyer]
Classes: TypeAlias = dict[str, SawyerClass]


class TaskData(TypedDict):
    """The data of a task."""

    rand_vec: NDArray[np.float64]
    env_cls: SawyerClass
    partially_observable: bool


class Benchmark(Protocol):
    """A `metaworld.Benchmark`."""

    @property
    def train_classes(self) -> Mapping[str, SawyerClass]:
        """The classes of the train tasks by name."""

    @property
    def test_classes(self) -> Mapping[str, SawyerClass]:
        """The classes of the test tasks by name."""

    @property
    def train_tasks(self) -> Sequence[Task]:
        """The train tasks, class by class."""

    @property
    def test_tasks(self) -> Sequence[Task]:
        """The test tasks, class by class."""
