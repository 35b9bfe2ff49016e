"""The sentence that describes the current task as an observation, for language policies."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.spaces import Box, Dict
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.metaworld.class_env import OBS_SIZE
from mtwrappers.metaworld.pixels import parts_of_task


class InstructionObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Observes a dict with the sentence that describes the task as ``instruction``.

    ``instruction`` is a string in a `gymnasium.spaces.Text` that contains every sentence of the
    table. It is added to a dict with ``pixels``. Plain frames become ``pixels``. A state becomes
    ``environment_state``, ``(39,)``, and ``task_embedding`` and ``task_onehot`` if it ends with
    them, in its dtype.

    Args:
        env: A `MetaWorldMTEnv`, or a stream of its tasks, in wrappers whose observations are
            states or frames, with descriptions for each class.

    Raises:
        AttributeError: If tasks are hidden, and there are no descriptions.
        ValueError: If a class has no description.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        text = env.get_wrapper_attr("description_space")
        space: Any = env.observation_space
        self._parts: dict[str, slice] = {}
        is_state = isinstance(space, Box) and len(space.shape) == 1
        # A frame, or a dict of the frames of several cameras.
        self._is_frame = not is_state and not (isinstance(space, Dict) and "pixels" in space.spaces)
        if is_state:
            self._parts = {"environment_state": slice(OBS_SIZE), **parts_of_task(env)}
            boxes: dict[str, Any] = {
                key: Box(space.low[part], space.high[part], dtype=space.dtype.type)
                for key, part in self._parts.items()
            }
        else:
            boxes = {"pixels": space} if self._is_frame else dict(space.spaces)
        self.observation_space = Dict({**boxes, "instruction": text})

    def observation(self, obs: Any) -> dict[str, Any]:
        """Returns the observation or its parts with the sentence."""
        sentence = self.env.get_wrapper_attr("task_description")
        if self._is_frame:
            return {"pixels": obs, "instruction": sentence}
        parts = {key: obs[part] for key, part in self._parts.items()} or obs
        return {**parts, "instruction": sentence}
