"""Observations of numbers, a frame or both, as a Dict of state and pixels."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Space
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from mtwrappers.common.checks import check_env, check_flag
from mtwrappers.common.frames import check_image_size, frame_space, is_frame_space, resized
from mtwrappers.common.spaces import as_row, check_exact, require_exact


class StateAndPixels(gymnasium.Wrapper[dict[str, Any], Any, Any, Any], RecordConstructorArgs):
    """Observes a Dict: all numbers of an observation in ``state``, its frame in ``pixels``.

    ``state``, ``(n,)``, is the environment's 1-D Box, or the Boxes of its Dict, concatenated in the
    order of its keys. It is left out if there are no numbers. ``pixels``, ``(height, width, 3)``
    uint8, is the frame that the environment observes, under any key, or renders; otherwise zeros.
    `mtwrappers.common.frames.resized` resizes it.

    ``pixels_mask``, a bool, is true if there is a frame; it is an attribute, and in every ``info``.

    Args:
        env: An environment that observes a 1-D Box, a frame ``(h, w, 3)`` uint8, or a Dict of at
            most one frame and of Boxes with at most one dimension.
        image_size: The size in pixels: an integer, or ``(height, width)``.
        render: Whether to use the rendered frame of an environment that observes none. Its render
            mode must be ``"rgb_array"``.

    Raises:
        TypeError: If the observation space has another type.
        ValueError: If the size is not positive, or the environment has another render mode; on a
            step, if an observation does not fit its space, or `render` returns anything else.

    >>> from mtwrappers.envs.point_goal import PointGoalEnv
    >>> from mtwrappers.core.state_pixels import StateAndPixels
    >>> env = StateAndPixels(PointGoalEnv(), (4, 6))
    >>> obs, info = env.reset(seed=0)
    >>> obs["state"].shape, obs["pixels"].shape, info["pixels_mask"]
    ((2,), (4, 6, 3), False)
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], image_size: int | Any, render: bool = False
    ) -> None:
        check_env(env, "env")
        self._height, self._width = height, width = check_image_size(image_size, "image_size")
        render = check_flag(render, "render")
        # A list, so that a spec equals itself after a round trip through JSON.
        RecordConstructorArgs.__init__(self, image_size=[height, width], render=render)
        parts = parts_of(env.observation_space)
        self._renders = renders = render and not parts.frames
        if renders:
            require_renders(env)
        super().__init__(env)
        self._numbers, self._frames = parts.numbers, parts.frames
        space = as_state_and_pixels(env.observation_space, (height, width))
        self.observation_space = space
        self._dtype: Any = space["state"].dtype if parts.numbers else None
        self.pixels_mask = bool(parts.frames or renders)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Resets the environment."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._observe(obs), {**info, "pixels_mask": self.pixels_mask}

    def step(self, action: Any) -> tuple[dict[str, Any], Any, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        info = {**info, "pixels_mask": self.pixels_mask}
        return self._observe(obs), reward, terminated, truncated, info

    def _observe(self, obs: Any) -> dict[str, Any]:
        out = {"pixels": self._pixels(obs)}
        if self._numbers:
            rows = [self._row(obs, key, box) for key, box in self._numbers.items()]
            out["state"] = np.concatenate(rows, dtype=self._dtype)
        return out

    def _row(self, obs: Any, key: str | None, box: Box) -> NDArray[Any]:
        row = as_row(obs if key is None else obs[key], box).astype(box.dtype, copy=False)
        check_exact(row, self._dtype)
        return row.reshape(-1)

    def _pixels(self, obs: Any) -> NDArray[np.uint8]:
        if not self.pixels_mask:
            return np.zeros((self._height, self._width, 3), np.uint8)
        if self._renders:
            frame = _rendered(self.env.render())
        else:
            [(key, box)] = self._frames.items()
            frame = as_row(obs if key is None else obs[key], box).astype(np.uint8, copy=False)
        return resized(frame, self._height, self._width)


class Parts(NamedTuple):
    """The numbers and the frame of an observation by key; the key ``None`` stands for all of it.

    Attributes:
        numbers: The Boxes of numbers, in order.
        frames: The Box of the frame, if there is one.
    """

    numbers: dict[str | None, Box]
    frames: dict[str | None, Box]


def parts_of(space: Space[Any], name: str = "the environment") -> Parts:
    """Splits a space into its parts, or raises a `TypeError` that names the environment."""
    in_dict = isinstance(space, Dict)
    entries: dict[Any, Any] = dict(space.items()) if isinstance(space, Dict) else {None: space}
    frames = {key: box for key, box in entries.items() if is_frame_space(box)}
    numbers = {
        key: box
        for key, box in entries.items()
        if isinstance(box, Box) and len(box.shape) <= 1 and (in_dict or box.shape)
    }
    others = [key for key in entries if key not in frames and key not in numbers]
    if not others and len(frames) <= 1:
        return Parts(numbers, frames)
    found = (
        f"the observation space of {name} must be a 1-D Box, an image Box (height, width, 3) of "
        f"uint8, or a Dict of one image and 1-D Boxes, got {space}"
    )
    if not in_dict:
        raise TypeError(f"{found}; convert it with gymnasium.wrappers.TransformObservation first")
    fault = f"{others} are neither" if others else f"{list(frames)} are several images"
    kept = [*list(frames)[:1], *numbers]
    raise TypeError(
        f"{found}; {fault}: gymnasium.wrappers.FilterObservation(env, {kept}) leaves others out"
    )


def as_state_and_pixels(
    space: Space[Any], image_size: tuple[int, int], name: str = "the environment"
) -> Dict:
    """The observation space of `StateAndPixels` over an environment with ``space``.

    Raises:
        TypeError: If ``space`` has another type; the message names the environment.
        ValueError: If the dtype that NumPy promotes all numbers to does not hold all integers.
    """
    boxes = list(parts_of(space, name).numbers.values())
    pixels = frame_space(*image_size)
    if not boxes:
        return Dict({"pixels": pixels})
    dtype: Any = np.result_type(*(box.dtype for box in boxes))
    for box in boxes:
        require_exact(box, name, dtype)
    low, high = (
        np.concatenate([bound.reshape(-1) for bound in bounds], dtype=dtype)
        for bounds in ([box.low for box in boxes], [box.high for box in boxes])
    )
    return Dict({"state": Box(low, high, dtype=dtype), "pixels": pixels})


def require_renders(env: gymnasium.Env[Any, Any], name: str = "the environment") -> None:
    """Raises `ValueError` if an environment neither observes nor renders a frame."""
    if parts_of(env.observation_space, name).frames or env.render_mode == "rgb_array":
        return
    raise ValueError(
        f"{name} has observation space {env.observation_space}, which has no image, and needs "
        f"render_mode='rgb_array' to render one, got {env.render_mode!r}"
    )


def _rendered(frame: Any) -> NDArray[np.uint8]:
    """Returns a rendered frame, or raises `ValueError` if it is something else."""
    if isinstance(frame, np.ndarray) and frame.dtype == np.uint8:
        if len(frame.shape) == 3 and frame.shape[2] == 3 and frame.size:
            return frame
        raise ValueError(
            f"expected render() to return an array (height, width, 3), got one of shape "
            f"{frame.shape}"
        )
    kind = f"dtype {frame.dtype}" if isinstance(frame, np.ndarray) else type(frame).__name__
    raise ValueError(f"expected render() to return an array of dtype uint8, got {kind}")
