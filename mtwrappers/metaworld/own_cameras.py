"""Custom cameras as plain data: position, orientation and field of view."""

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


def check_cameras(cameras: Any, camera_name: CameraNames) -> None:
    """Checks that custom cameras are well-formed and in use.

    Args:
        cameras: Dicts by name, with ``pos``, three numbers (metres, in world coordinates),
            ``quat``, four numbers (w, x, y, z), and ``fovy`` (the vertical field of view, degrees).
        camera_name: The cameras in use.

    Raises:
        TypeError: If ``cameras`` is not a dict of dicts by name.
        ValueError: If a camera lacks a field, has another one, has an invalid value, or is not in
            use.
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
            if len(_numbers(camera[field])) != size:
                got = reprlib.repr(camera[field])
                raise ValueError(f"{field} of {what} must be {size} finite numbers, got {got}")
        if not any(_numbers(camera["quat"])):
            raise ValueError(f"quat of {what} must not be zero, got {camera['quat']!r}")
        fovy = _numbers([camera["fovy"]])
        if not fovy or not 0 < fovy[0] < 180:
            got = reprlib.repr(camera["fovy"])
            raise ValueError(f"fovy of {what} must be between 0 and 180 degrees, got {got}")
        if name not in used:
            raise ValueError(
                f"camera_name must contain each name in cameras, got {camera_name!r} without "
                f"{name!r}"
            )


def _numbers(value: Any) -> list[float]:
    """Returns a sequence of finite numbers as floats, or an empty list for anything else."""
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
    """A `mujoco.MjModel` of only these cameras, in order."""
    import mujoco

    spec = mujoco.MjSpec()
    for name, camera in cameras.items():
        spec.worldbody.add_camera(
            name=name, pos=camera["pos"], quat=camera["quat"], fovy=camera["fovy"]
        )
    return spec.compile()
