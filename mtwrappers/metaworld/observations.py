"""Observations in a dict: frames, parts of the state, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, flatdim
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_choice
from mtwrappers.common.spaces import require_flat_box
from mtwrappers.common.types import AnyArray, AnyEnv, AnySpace
from mtwrappers.metaworld.class_env import FAR, OBS_SIZE, camera_names
from mtwrappers.metaworld.class_pool import ClassPoolEnv
from mtwrappers.metaworld.env import MetaWorldMTEnv

if TYPE_CHECKING:
    from mtwrappers.metaworld.frames import ImageKind

ObservationName: TypeAlias = Literal["state", "pixels", "pixels_agent_pos", "pixels_state"]
# The parts of a state in an observation that is a dict: the key, and the number of leading entries.
_STATE_SIZES: dict[ObservationName, dict[str, int]] = {
    "state": {"environment_state": OBS_SIZE},
    "pixels": {},
    "pixels_agent_pos": {"agent_pos": 4},
    "pixels_state": {"environment_state": OBS_SIZE},
}
OBSERVATIONS = tuple(_STATE_SIZES)
# Vision-language-action projects move corner2 to the place of this camera.
CAMERA = "corner4"
# No far clipping plane of Meta-World's own models is beyond this, in metres.
FAR_PLANE = 120.0


def drop_frame_arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an id without those that only change frames and sentences."""
    names = {"observation", "camera_name", "camera_id", "depth", "width", "height", "shadows"}
    names.add("instruction")
    return {name: value for name, value in kwargs.items() if name not in names}


class AgentObservation(gymnasium.ObservationWrapper[Any, Any, AnyArray], RecordConstructorArgs):
    """Observes a Meta-World environment by frames, parts of the state, and a sentence, in a dict.

    ``pixels`` is a frame, ``(height, width, 3)`` uint8, upright;
    ``depth`` is the distance of each pixel's object from the camera's plane, ``(height, width)``
    float32, in metres. With several cameras, each of these is a dict by camera name.
    ``agent_pos`` is the hand's position in metres and the gripper's opening,
    ``(4,)``; ``environment_state`` is the whole state, ``(39,)``; ``task_onehot``, ``(number of
    classes,)``, and ``task_embedding`` are present if the observations of ``env`` have them after
    the state. Numbers keep their dtype, float64. ``instruction`` is the sentence that describes the
    task, in a `gymnasium.spaces.Text` that contains every sentence of the table. If there is
    nothing but ``pixels``, the observation is the frame itself.

    Args:
        env: A `MetaWorldMTEnv`, or a stream of its tasks, in wrappers whose observations are
            states, with or without a one-hot at the end; for frames, with
            ``render_mode="rgb_array"``.
        observation: ``"pixels"`` for frames; ``"pixels_agent_pos"`` adds ``agent_pos``, and
            ``"pixels_state"`` adds ``environment_state``, which ``"state"`` has without frames.
        depth: Whether to add ``depth``.
        instruction: Whether to add ``instruction``.

    Raises:
        AttributeError: If sentences are to be observed, tasks are hidden, and there are no
            descriptions.
        TypeError: If ``env`` is not an environment of this package on Meta-World.
        ValueError: If there is no such observation, or a class has no sentence.

    >>> import gymnasium, mtwrappers
    >>> look = {"observation": "pixels_agent_pos", "width": 64, "height": 48}
    >>> env = gymnasium.make("mtwrappers/MT10-v0", num_goals=1, **look)
    >>> {name: space.shape for name, space in env.observation_space.items()}
    {'agent_pos': (4,), 'pixels': (48, 64, 3), 'task_onehot': (10,)}
    """

    def __init__(
        self,
        env: AnyEnv,
        observation: ObservationName,
        depth: bool = False,
        instruction: bool = False,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, observation=observation, depth=depth, instruction=instruction
        )
        super().__init__(env)
        sizes = _STATE_SIZES[check_choice(observation, OBSERVATIONS, "observation")]
        state_slices = {key: slice(size) for key, size in sizes.items()}
        self._slices = {**state_slices, **_slice_task_parts(env)}
        self._pool_env = _find_pool_env(env)
        pool = self._pool_env.pool
        size = pool.settings.height, pool.settings.width
        spaces: dict[str, AnySpace] = {}
        self._image_kinds: dict[str, ImageKind] = {}  # by key of the observation
        if observation != "state":
            self._image_kinds["pixels"] = "colours"
            spaces["pixels"] = Box(0, 255, (*size, 3), np.uint8)
        if depth:
            self._image_kinds["depth"] = "depth"
            far = FAR_PLANE if pool.layout.is_upstream else FAR
            spaces["depth"] = Box(0.0, far, size, np.float32)
        camera_name = pool.settings.camera_name
        self._has_several_cameras = not isinstance(camera_name, (str, type(None)))
        if self._has_several_cameras:
            names = camera_names(camera_name) or ()
            spaces = {key: Dict(dict.fromkeys(names, box)) for key, box in spaces.items()}
        state = require_flat_box(env.observation_space, "the state")
        for key, entries in self._slices.items():
            spaces[key] = Box(state.low[entries], state.high[entries], dtype=state.dtype.type)
        # The environment that has the sentence, if it is observed.
        self._described_env: MetaWorldMTEnv | None = None
        if instruction:
            if not isinstance(self._pool_env, MetaWorldMTEnv):
                raise AttributeError(
                    "instruction=True needs the descriptions of an MTEnv, such as "
                    f"mtwrappers/MT10-v0; {type(self._pool_env).__name__} has none"
                )
            self._described_env = self._pool_env
            spaces["instruction"] = self._described_env.description_space
        self._is_frame_alone = list(spaces) == ["pixels"]
        self.observation_space = spaces["pixels"] if self._is_frame_alone else Dict(spaces)

    def observation(self, obs: AnyArray) -> Any:
        """Returns the current frames, the parts of the state ``obs``, and the sentence."""
        observation: dict[str, object] = {}
        if self._image_kinds:
            images = self._pool_env.images(self._image_kinds.values())
            for key, kind in self._image_kinds.items():
                by_camera = images[kind]
                observation[key] = (
                    by_camera if self._has_several_cameras else next(iter(by_camera.values()))
                )
        if self._is_frame_alone:
            return observation["pixels"]
        observation |= {key: obs[entries] for key, entries in self._slices.items()}
        if self._described_env is not None:
            observation["instruction"] = self._described_env.task_description
        return observation


def _find_pool_env(env: AnyEnv) -> ClassPoolEnv[Any]:
    bottom = env.unwrapped
    while hasattr(bottom, "env"):  # a TaskStream, whose `unwrapped` is itself
        bottom = bottom.env.unwrapped
    if not isinstance(bottom, ClassPoolEnv):
        raise TypeError(
            "AgentObservation expects an environment of mtwrappers on Meta-World, such as "
            f"mtwrappers/MT10-v0, got {env}; gymnasium.wrappers.AddRenderObservation observes "
            "the frames of any other"
        )
    return bottom


def _slice_task_parts(env: AnyEnv) -> dict[str, slice]:
    """The slices of ``task_embedding`` and ``task_onehot`` in a flat observation."""
    space = require_flat_box(env.observation_space, "the state")
    slices: dict[str, slice] = {}
    end = OBS_SIZE
    mt_space = env.unwrapped.observation_space
    if isinstance(mt_space, Dict) and "task_embedding" in mt_space.spaces:
        end += flatdim(mt_space["task_embedding"])
        slices["task_embedding"] = slice(OBS_SIZE, end)
    if space.shape[0] > end:
        slices["task_onehot"] = slice(end, None)
    return slices
