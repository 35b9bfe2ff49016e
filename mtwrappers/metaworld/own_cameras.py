"""Cameras of one's own: where they are, where they look and what they see of it, as plain data."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mtwrappers.common.checks import check_mapping

# The cameras of Meta-World's own models, beside which one's own are.
CAMERAS = ("topview", "corner", "corner2", "corner3", "corner4", "behindGripper", "gripperPOV")
CameraNames: TypeAlias = str | Sequence[str] | None
_SIZES = {"pos": 3, "quat": 4}
_FIELDS = [*_SIZES, "fovy"]


def camera_names(camera_name: CameraNames) -> tuple[str, ...] | None:
    """The names of the cameras that ``camera_name`` asks for; ``None`` if it names none.

    Raises:
        TypeError: If it is neither a name nor a list of names.
        ValueError: If there is no name in the list, or one stands there twice.
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


def check_cameras(cameras: Any, camera_name: CameraNames) -> None:
    """Refuses cameras of one's own that are none, or of which one is not in use.

    Args:
        cameras: By name: ``pos``, three numbers (metres, in the frame of the world), ``quat``, four
            (w, x, y, z), and ``fovy`` (the vertical field of view, degrees).
        camera_name: Which cameras are in use.

    Raises:
        TypeError: If it is not a dict of dicts by names.
        ValueError: If a camera lacks one of these, has anything else, or is not in use.
    """
    used = camera_names(camera_name) or ()
    for name, camera in check_mapping(cameras, "cameras").items():
        if not isinstance(name, str) or name in ("", "pixels"):
            raise TypeError(
                "the names in cameras must be strings, and not 'pixels', a key of observations, "
                f"got {name!r}"
            )
        what = f"cameras[{name!r}]"
        if sorted(check_mapping(camera, what)) != sorted(_FIELDS):
            raise ValueError(f"{what} must have {', '.join(_FIELDS)}, got {sorted(camera)}")
        for field, size in _SIZES.items():
            if len(numbers := _numbers(camera[field])) != size:
                got = reprlib.repr(camera[field])
                raise ValueError(f"{field} of {what} must be {size} finite numbers, got {got}")
        if not any(numbers):
            raise ValueError(f"quat of {what} must not be zero, got {camera['quat']!r}")
        fovy = _numbers([camera["fovy"]])
        if not fovy or not 0 < fovy[0] < 180:
            got = reprlib.repr(camera["fovy"])
            raise ValueError(f"fovy of {what} must be between 0 and 180 degrees, got {got}")
        if name not in used:
            raise ValueError(
                f"camera_name must have each of cameras, got {camera_name!r} without {name!r}"
            )


def _numbers(value: Any) -> list[float]:
    """A sequence of finite numbers as floats; empty if it is none."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return []
    kinds = (int, float, np.integer, np.floating)
    if not all(isinstance(one, kinds) and not isinstance(one, bool) for one in value):
        return []
    try:
        found = [float(one) for one in value]
    except OverflowError:
        return []
    return found if all(map(math.isfinite, found)) else []


def own_model(cameras: Mapping[str, Any]) -> Any:
    """A `mujoco.MjModel` of nothing but these cameras, in their order."""
    import mujoco

    spec = mujoco.MjSpec()
    for name, camera in cameras.items():
        spec.worldbody.add_camera(
            name=name, pos=camera["pos"], quat=camera["quat"], fovy=camera["fovy"]
        )
    return spec.compile()
