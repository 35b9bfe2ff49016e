"""Observations of numbers, of a frame or of both, as one Dict of the two."""

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

    ``state``, ``(n,)``, is a 1-D Box of the environment, or those of its Dict one after the other,
    in the order of its keys. It is left out where there are no numbers. ``pixels``, ``(height,
    width, 3)`` uint8, is the frame that the environment observes, whatever its key, or renders; if
    it does neither, zeros. `mtwrappers.common.frames.resized` gives it its size.

    ``pixels_mask``, a bool, is true where there is a frame; it is an attribute, and in every
    ``info``.

    Args:
        env: An environment that observes a 1-D Box, a frame ``(h, w, 3)`` uint8, or a Dict of one
            frame at most and Boxes of at most one dimension.
        image_size: The size in pixels: an integer, or ``(height, width)``.
        render: Whether an environment that observes no frame observes what it renders. Its render
            mode must be ``"rgb_array"``.

    Raises:
        TypeError: If observations are of another kind.
        ValueError: If the size is not positive, or the environment has another render mode; on a
            step, if an observation is not one of the space, or what is rendered is no frame.

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
        # A list, so that specs are equal after JSON.
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
    """The numbers and the frame of an observation, by their keys; ``None`` is all of it.

    Attributes:
        numbers: The Boxes of numbers, in order.
        frames: One at most.
    """

    numbers: dict[str | None, Box]
    frames: dict[str | None, Box]


def parts_of(space: Space[Any], name: str = "the environment") -> Parts:
    """The parts of observations of a space, or a `TypeError` that names the environment."""
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
    """The space of `StateAndPixels` over observations of a space.

    Raises:
        TypeError: If they are of another kind; the message names the environment.
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
    """Requires that an environment that observes no frame renders one."""
    if parts_of(env.observation_space, name).frames or env.render_mode == "rgb_array":
        return
    raise ValueError(
        f"{name} has observation space {env.observation_space}, which has no image, and needs "
        f"render_mode='rgb_array' to render one, got {env.render_mode!r}"
    )


def _rendered(frame: Any) -> NDArray[np.uint8]:
    """Returns a frame that was rendered, or raises `ValueError` if it is none."""
    if isinstance(frame, np.ndarray) and frame.dtype == np.uint8:
        if len(frame.shape) == 3 and frame.shape[2] == 3 and frame.size:
            return frame
        raise ValueError(
            f"expected render() to return an array (height, width, 3), got one of shape "
            f"{frame.shape}"
        )
    kind = f"dtype {frame.dtype}" if isinstance(frame, np.ndarray) else type(frame).__name__
    raise ValueError(f"expected render() to return an array of dtype uint8, got {kind}")
