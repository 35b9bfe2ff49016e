"""Frames as observations, for vision policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_choice
from mtwrappers.metaworld.class_env import FAR, OBS_SIZE, class_env_of
from mtwrappers.metaworld.settings import camera_names

ObservationName: TypeAlias = Literal["state", "pixels", "pixels_agent_pos", "pixels_state"]
OBSERVATIONS = ("state", "pixels", "pixels_agent_pos", "pixels_state")
# Vision-language-action projects move corner2 to the place of this camera.
CAMERA = "corner4"

# No far clipping plane of Meta-World's own models is beyond this, in metres.
FAR_PLANE = 120.0

_OF_FRAMES = (
    *("observation", "camera_name", "camera_id", "depth"),
    *("width", "height", "upright", "shadows"),
)

# The parts of a state to observe with the frame: the key, and the number of leading entries.
_BESIDE: dict[str, dict[str, int]] = {
    "pixels": {},
    "pixels_agent_pos": {"agent_pos": 4},
    "pixels_state": {"environment_state": OBS_SIZE},
}
# The kind of image for each key.
_KINDS = {"pixels": "colours", "depth": "depth"}


def ask_for_frames(observation: ObservationName, settings: dict[str, Any]) -> dict[str, Any]:
    """Completes arguments of `SawyerSettings` for frames as observations, by default of `CAMERA`.

    Raises:
        ValueError: If ``settings`` has another render mode.
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
    """The arguments of an id without those that only change frames and sentences."""
    seen = (*_OF_FRAMES, "instruction")
    return {name: value for name, value in kwargs.items() if name not in seen}


def parts_of_task(env: gymnasium.Env[Any, Any]) -> dict[str, slice]:
    """The slices of ``task_embedding`` and ``task_onehot`` in a flat observation."""
    space: Any = env.observation_space
    parts, end, mt_space = {}, OBS_SIZE, env.unwrapped.observation_space
    if isinstance(mt_space, Dict) and "task_embedding" in mt_space.spaces:
        embedding: Any = mt_space["task_embedding"]
        end += embedding.shape[0]
        parts["task_embedding"] = slice(OBS_SIZE, end)
    if space.shape[0] > end:
        parts["task_onehot"] = slice(end, None)
    return parts


class PixelObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Observes frames of a Meta-World environment's cameras, with or without parts of the state.

    An observation is a dict. ``pixels`` is a frame, ``(height, width, 3)`` uint8, upright;
    ``depth`` is the distance of each pixel's object from the camera's plane, ``(height, width)``
    float32, in metres. With several cameras, each of these is a dict by camera name.
    ``agent_pos`` is the hand's position in metres and the gripper's opening,
    ``(4,)``; ``environment_state`` is the whole state, ``(39,)``; ``task_onehot``, ``(number of
    classes,)``, and ``task_embedding`` are present if the observations of ``env`` have them after
    the state. Numbers keep their dtype, float64. If there is nothing but ``pixels``, the
    observation is the frame itself.

    Args:
        env: A `MetaWorldMTEnv` with ``render_mode="rgb_array"``, in wrappers whose observations are
            states, with or without a one-hot at the end.
        observation: ``"pixels"`` for frames; ``"pixels_agent_pos"`` adds ``agent_pos``, and
            ``"pixels_state"`` adds ``environment_state``.
        depth: Whether to add ``depth``.

    Raises:
        ValueError: If there is no such observation.

    >>> import gymnasium, mtwrappers
    >>> look = {"observation": "pixels_agent_pos", "width": 64, "height": 48}
    >>> env = gymnasium.make("mtwrappers/MT10-v0", num_goals=1, **look)
    >>> {name: space.shape for name, space in env.observation_space.items()}
    {'agent_pos': (4,), 'pixels': (48, 64, 3), 'task_onehot': (10,)}
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        observation: ObservationName,
        depth: bool = False,
    ) -> None:
        RecordConstructorArgs.__init__(self, observation=observation, depth=depth)
        super().__init__(env)
        beside = _BESIDE[check_choice(observation, list(_BESIDE), "observation")]
        state: Any = env.observation_space
        self._parts = {**{key: slice(size) for key, size in beside.items()}, **parts_of_task(env)}
        bottom: Any = env.unwrapped
        while hasattr(bottom, "env"):  # a TaskStream, whose `unwrapped` is itself
            bottom = bottom.env.unwrapped
        if not hasattr(bottom, "pool"):
            raise TypeError(
                "PixelObservation expects an environment of mtwrappers on Meta-World, such as "
                f"mtwrappers/MT10-v0, got {env}; gymnasium.wrappers.AddRenderObservation observes "
                "the frames of any other"
            )
        look, upstream = bottom.pool.settings, bottom.pool.layout.is_upstream
        size = look.height, look.width
        images: dict[str, Any] = {"pixels": Box(0, 255, (*size, 3), np.uint8)}
        if depth:
            images["depth"] = Box(0.0, FAR_PLANE if upstream else FAR, size, np.float32)
        self._kinds = {key: _KINDS[key] for key in images}
        names = camera_names(look.camera_name)
        self._several = names is not None and not isinstance(look.camera_name, str)
        if names is not None and self._several:
            images = {key: Dict(dict.fromkeys(names, box)) for key, box in images.items()}
        low_high = {key: (state.low[part], state.high[part]) for key, part in self._parts.items()}
        boxes = {key: Box(*bounds, dtype=state.dtype) for key, bounds in low_high.items()}
        self._alone = len(images) == 1 and not boxes
        self.observation_space = images["pixels"] if self._alone else Dict({**images, **boxes})

    def observation(self, obs: Any) -> Any:
        """Returns the current frames and parts of the state ``obs``."""
        drawn = class_env_of(self.env).images(self._kinds.values())
        images: dict[str, Any] = {}
        for key, kind in self._kinds.items():
            images[key] = drawn[kind] if self._several else next(iter(drawn[kind].values()))
        if self._alone:
            return images["pixels"]
        return {**images, **{key: obs[part] for key, part in self._parts.items()}}
