"""Frames as observations, for policies that see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_choice
from mtwrappers.metaworld.class_env import OBS_SIZE

ObservationName: TypeAlias = Literal["state", "pixels", "pixels_agent_pos", "pixels_state"]
OBSERVATIONS = ("state", "pixels", "pixels_agent_pos", "pixels_state")
# Vision-language-action projects move corner2 to its place.
CAMERA = "corner4"

_OF_FRAMES = (
    *("observation", "camera_name", "camera_id", "width", "height", "upright", "shadows"),
    "variation",
)

# How many leading numbers of a state are observed beside the frame, under which key.
_BESIDE: dict[str, dict[str, int]] = {
    "pixels": {},
    "pixels_agent_pos": {"agent_pos": 4},
    "pixels_state": {"environment_state": OBS_SIZE},
}


def ask_for_frames(observation: ObservationName, settings: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `SawyerSettings` that frames as observations need, by default `CAMERA`.

    Raises:
        ValueError: If another render mode is asked for.
    """
    if observation == "state":
        return settings
    mode = settings.get("render_mode")
    if mode not in ("rgb_array", None):
        raise ValueError(f"{observation=} needs render_mode='rgb_array', got {mode!r}")
    settings = {**settings, "render_mode": "rgb_array"}
    if settings.get("camera_name") is None and settings.get("camera_id") is None:
        settings["camera_name"] = CAMERA
    return settings


def without_frames(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an id without those that only change what is seen."""
    return {name: value for name, value in kwargs.items() if name not in _OF_FRAMES}


class PixelObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Observes frames of a Meta-World environment's camera, and a part of the state beside them.

    An observation is a dict. ``pixels`` is the frame that `render` returns, ``(height, width, 3)``
    uint8, upright; ``agent_pos`` the hand's position in metres and the gripper's opening, ``(4,)``;
    ``environment_state`` the whole state, ``(39,)``; ``task_onehot`` the one-hot, ``(number of
    classes,)``, and ``task_embedding`` the embedding, where the observations of ``env`` have them
    after the state. Numbers keep their dtype, float64. A frame without anything beside it is the
    observation itself.

    Args:
        env: A `MetaWorldMTEnv` with ``render_mode="rgb_array"``, in wrappers whose observations are
            states, with or without a one-hot at the end.
        observation: ``"pixels"`` is the frame, ``"pixels_agent_pos"`` adds ``agent_pos``, and
            ``"pixels_state"`` adds ``environment_state``.

    Raises:
        ValueError: If there is no such observation.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], observation: ObservationName) -> None:
        RecordConstructorArgs.__init__(self, observation=observation)
        super().__init__(env)
        beside = _BESIDE[check_choice(observation, list(_BESIDE), "observation")]
        state: Any = env.observation_space
        self._parts = {key: slice(size) for key, size in beside.items()}
        end, mt_space = OBS_SIZE, env.unwrapped.observation_space
        if isinstance(mt_space, Dict) and "task_embedding" in mt_space.spaces:
            embedding: Any = mt_space["task_embedding"]
            end += embedding.shape[0]
            self._parts["task_embedding"] = slice(OBS_SIZE, end)
        if state.shape[0] > end:
            self._parts["task_onehot"] = slice(end, None)
        bottom: Any = env.unwrapped
        while hasattr(bottom, "env"):  # a TaskStream, which is an environment of its own
            bottom = bottom.env.unwrapped
        look = bottom.pool.settings
        frame = Box(0, 255, (look.height, look.width, 3), np.uint8)
        low_high = {key: (state.low[part], state.high[part]) for key, part in self._parts.items()}
        boxes = {key: Box(*bounds, dtype=state.dtype) for key, bounds in low_high.items()}
        self.observation_space = Dict({"pixels": frame, **boxes}) if boxes else frame

    def observation(self, obs: Any) -> Any:
        """The present frame, and the parts of the state ``obs`` beside it."""
        frame = self.env.render()
        if not self._parts:
            return frame
        return {"pixels": frame, **{key: obs[part] for key, part in self._parts.items()}}
