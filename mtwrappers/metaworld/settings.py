"""The settings that Sawyer classes are built and drawn with."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from mtwrappers.common.checks import check_choice, check_index, not_negative, positive
from mtwrappers.metaworld.fast.known_good import Fast

CameraNames: TypeAlias = str | Sequence[str] | None
# The cameras of Meta-World's own models, in their order.
CAMERAS = ("topview", "corner", "corner2", "corner3", "corner4", "behindGripper", "gripperPOV")
FREE = -1  # the index of MuJoCo's free camera
RENDER_MODES = ("rgb_array", "depth_array", "rgbd_tuple")
# The settings with a fixed set of values.
_KNOWN: dict[str, tuple[Any, ...]] = {
    "reward_function_version": ("v1", "v2"),
    "render_mode": (*RENDER_MODES, None),
    "upright": (True, False),
    "shadows": (True, False),
    "fast": ("auto", True, False),
}


@dataclass(frozen=True)
class SawyerSettings:
    """The settings that Sawyer classes are built with.

    Args:
        reward_function_version: Meta-World's ``"v1"`` or ``"v2"``.
        render_mode: What `render` returns: ``"rgb_array"``, ``"depth_array"`` (metres),
            ``"rgbd_tuple"`` (both), or ``None`` for nothing.
        camera_name: A camera of the model, such as ``"corner2"``, or a list of several, of which
            `render` draws the first; by default the free camera.
        camera_id: The index of a camera of the model, -1 for the free camera.
        width: Width of a frame in pixels.
        height: Height of a frame in pixels.
        upright: Whether to rotate the frames of Meta-World's corner cameras, which are mounted
            upside down.
        shadows: Whether frames have shadows and reflections. Without a graphics card they take most
            of the drawing time.
        fast: Whether to use the fast classes; ``"auto"`` uses them if they are verified.
        idle_steps: The number of zero actions after each reset, for objects to settle. The reset
            returns the observation after them. They do not count towards the episode's length or
            return.

    Raises:
        TypeError: If ``camera_name`` is neither a name nor a list of names.
        ValueError: If a value is not allowed.

    >>> import gymnasium, mtwrappers
    >>> for version in ("v1", "v2"):
    ...     settings = {"reward_function_version": version, "idle_steps": 5}
    ...     env = gymnasium.make("mtwrappers/MT1-v0", env_name="push-v3", num_goals=1, **settings)
    ...     obs, info = env.reset(seed=0)
    ...     print(version, round(env.step([0.5, 0.0, 0.0, 0.0])[1], 3))
    v1 -0.158
    v2 0.053
    """

    reward_function_version: Literal["v1", "v2"] = "v2"
    render_mode: str | None = None
    camera_name: CameraNames = None
    camera_id: int | None = None
    width: int = 480
    height: int = 480
    upright: bool = True
    shadows: bool = True
    fast: Fast = "auto"
    idle_steps: int = 0

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            check_choice(getattr(self, name), known, name)
        if self.camera_name is not None and self.camera_id is not None:
            raise ValueError(
                "give camera_name or camera_id, not both; got "
                f"{self.camera_name!r} and {self.camera_id!r}"
            )
        camera_names(self.camera_name)
        positive(self.width, "width")
        positive(self.height, "height")
        not_negative(self.idle_steps, "idle_steps")


def camera_names(camera_name: CameraNames) -> tuple[str, ...] | None:
    """The names of the cameras in ``camera_name``; ``None`` if it is ``None``.

    Raises:
        TypeError: If it is neither a name nor a list of names.
        ValueError: If the list is empty, or contains a name twice.
    """
    if camera_name is None:
        return None
    if isinstance(camera_name, str):
        return (camera_name,)
    listed = isinstance(camera_name, (list, tuple))
    if not listed or not all(isinstance(name, str) for name in camera_name):
        got = reprlib.repr(camera_name)
        raise TypeError(f"camera_name must be a name, a list of names or None, got {got}")
    if not camera_name or len(set(camera_name)) < len(camera_name):
        raise ValueError(
            f"camera_name must hold at least one name, and none twice, got {list(camera_name)}"
        )
    return tuple(camera_name)


def find_cameras(settings: SawyerSettings, cameras: Sequence[str] = CAMERAS) -> dict[str, int]:
    """The index of each camera that ``settings`` select, by name; ``FREE`` for the free camera.

    Args:
        settings: The settings.
        cameras: The names of the model's cameras.

    Raises:
        ValueError: If there is no such camera.
    """
    names, index = camera_names(settings.camera_name), settings.camera_id
    if names is not None:
        one = isinstance(settings.camera_name, str)
        for name in names:
            what = "camera_name" if one else "each of camera_name"
            check_choice(name, (*cameras, None) if one else tuple(cameras), what)
        return {name: list(cameras).index(name) for name in names}
    if index is None or (isinstance(index, (int, np.integer)) and index == FREE):
        return {"free": FREE}
    index = check_index(index, len(cameras), "camera_id (-1 for the free camera)")
    return {cameras[index]: index}
