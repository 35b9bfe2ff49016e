"""What Meta-World's evaluation and training code calls on each environment of a vector."""

from __future__ import annotations

from typing import Any

import gymnasium

from mtwrappers.metaworld.mt_env import MetaWorldMTEnv

Checkpoint = tuple[str, dict[str, Any]]


class TaskControl(gymnasium.Wrapper[Any, Any, Any, Any]):
    """``sample_tasks``, ``get_checkpoint`` and ``load_checkpoint`` around a whole environment.

    The outermost wrapper, so that a new task also begins a new episode of the wrappers below. The
    names are those of Meta-World's own wrappers; ``toggle_sample_tasks_on_reset``,
    ``toggle_terminate_on_success`` and ``task_name`` are found on `MetaWorldMTEnv`.

    Args:
        env: A `MetaWorldMTEnv`, wrapped or not.
        checkpoint_id: What tells this environment's checkpoint from the others'.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], checkpoint_id: str) -> None:
        super().__init__(env)
        self.checkpoint_id = checkpoint_id
        inner: Any = env
        while not isinstance(inner, MetaWorldMTEnv):
            inner = inner.env
        self._mt_env: MetaWorldMTEnv = inner

    def sample_tasks(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draws the next task and begins its first episode."""
        return self.reset(seed=seed, options={**(options or {}), "resample_task": True})

    def get_checkpoint(self) -> Checkpoint:
        """This environment's id and its state between two episodes, ready for JSON."""
        return self.checkpoint_id, self._mt_env.get_state()

    def load_checkpoint(self, checkpoints: list[Checkpoint]) -> None:
        """Takes this environment's own from a list of checkpoints; `reset` then goes on from it.

        Raises:
            ValueError: If it is not among them.
        """
        for name, state in checkpoints:
            if name == self.checkpoint_id:
                self._mt_env.set_state(state)
                return
        raise ValueError(
            f"no checkpoint of {self.checkpoint_id!r} among {[name for name, _ in checkpoints]}"
        )
