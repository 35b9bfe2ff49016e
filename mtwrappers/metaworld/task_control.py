"""What Meta-World's evaluation and training code calls on each environment of a vector."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.wrappers import RecordEpisodeStatistics

from mtwrappers.metaworld.mt_env import MetaWorldMTEnv

Checkpoint = tuple[str, dict[str, Any]]


class TaskControl(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The methods of Meta-World's own wrappers, under their names, around a whole environment.

    The outermost wrapper, so that a new task also begins a new episode of the wrappers below.
    ``checkpoint_id`` tells this environment's checkpoint from the others'.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], checkpoint_id: str) -> None:
        super().__init__(env)
        self.checkpoint_id = checkpoint_id
        self._mt_env: MetaWorldMTEnv = env.unwrapped  # type: ignore[assignment]

    @property
    def task_name(self) -> str:
        """The upstream name of the present class, such as ``"SawyerReachEnvV3"``."""
        env = self._mt_env
        name = env.env.tasks[env.get_task_state()].env_name
        return env.env.layout.classes[name].__name__

    def sample_tasks(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draws the next task and begins its first episode."""
        return self.reset(seed=seed, options={**(options or {}), "resample_task": True})

    def toggle_sample_tasks_on_reset(self, on: bool) -> None:
        """Says whether every reset draws a task."""
        self._mt_env.sample_tasks_on_reset = bool(on)

    def toggle_terminate_on_success(self, on: bool) -> None:
        """Says whether a success ends the episode."""
        self._mt_env.terminate_on_success = bool(on)

    def get_checkpoint(self) -> Checkpoint:
        """This environment's id and its state between two episodes, ready for JSON."""
        return self.checkpoint_id, self._mt_env.get_state()

    def load_checkpoint(self, checkpoints: list[Checkpoint]) -> None:
        """Takes this environment's own from a list of checkpoints; `reset` then goes on from it.

        Raises:
            ValueError: If it is not among them, or of other tasks.
        """
        for name, state in checkpoints:
            if name == self.checkpoint_id:
                self._mt_env.set_state(state)
                return
        raise ValueError(
            f"no checkpoint of {self.checkpoint_id!r} among {[name for name, _ in checkpoints]}"
        )


class RecordingTaskControl(TaskControl, RecordEpisodeStatistics):
    """`TaskControl` and Gymnasium's ``RecordEpisodeStatistics`` in one layer."""
