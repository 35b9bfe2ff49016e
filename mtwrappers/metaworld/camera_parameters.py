"""Camera matrices, and the names of the objects in segmentations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.metaworld.class_env import class_env_of
from mtwrappers.vector.calls import read_only


@read_only
def camera_parameters(env: gymnasium.Env[Any, Any]) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Returns the intrinsics and extrinsics of each camera in use, for its observed images.

    ``intrinsics``, ``(3, 3)``, are in pixels. ``extrinsics``, ``(4, 4)``, map world coordinates
    (metres) to camera coordinates in the current state: cameras on the gripper move. Camera
    coordinates are OpenCV's: x to the right of the image, y down, z forward. A point ``(x, y, z)``
    of the world is in the image at row ``v`` and column ``u``::

        x, y, depth = (extrinsics @ [x, y, z, 1])[:3]
        u, v, _ = intrinsics @ [x / depth, y / depth, 1]

    where whole numbers are the centres of pixels, ``image[v, u]``, and ``depth`` is the value of
    the depth image there if nothing occludes the point. If ``upright`` has rotated the images, x
    and y refer to the rotated image.

    In a vector environment, ``envs.call(camera_parameters)`` returns one result per environment.

    Args:
        env: An environment of Meta-World that draws frames, in any wrappers, after a reset.

    Returns:
        The two matrices by the name of the camera; the free camera is ``"free"``.

    Raises:
        TypeError: If ``env`` is not an environment of this package on Meta-World.
        ValueError: If ``env`` draws no frames.
        ResetNeeded: If no task was set yet.

    >>> import gymnasium, mtwrappers
    >>> from mtwrappers.metaworld import camera_parameters
    >>> look = {"render_mode": "rgb_array", "camera_name": "corner4", "width": 64, "height": 48}
    >>> env = gymnasium.make("mtwrappers/MT1-v0", num_goals=1, **look)
    >>> obs, info = env.reset(seed=0)
    >>> camera = camera_parameters(env)["corner4"]
    >>> x, y, depth = (camera["extrinsics"] @ [*obs[:3], 1])[:3]  # of the hand
    >>> u, v, _ = camera["intrinsics"] @ [x / depth, y / depth, 1]
    >>> round(u), round(v), f"{depth:.1f} m"
    (34, 23, '1.0 m')
    """
    one = class_env_of(env)
    found: dict[str, dict[str, NDArray[np.float64]]] = one.camera.parameters(one.sawyer.data)
    return found


@read_only
def segmentation_names(env: gymnasium.Env[Any, Any]) -> dict[tuple[int, int], tuple[str, str]]:
    """Maps the two numbers of a segmentation's pixel to names.

    The numbers are MuJoCo's: the id of a geom or site in the model of the current class, and its
    type, 5 for a geom and 6 for a site (`mujoco.mjtObj`). Ids differ between classes.
    ``segmentation_names(env)[tuple(pixel)]`` is the name of the geom or site, which most geoms
    lack, and the name of its body. Both are empty for the background.

    In a vector environment, ``envs.call(segmentation_names)`` returns one dict per environment.

    Args:
        env: An environment of Meta-World, in any wrappers, after a reset.

    Raises:
        TypeError: If ``env`` is not an environment of this package on Meta-World.
        ResetNeeded: If no task was set yet.

    >>> import gymnasium
    >>> import mtwrappers
    >>> from mtwrappers.metaworld import segmentation_names
    >>> env = gymnasium.make("mtwrappers/MT1-v0", env_name="drawer-open-v3", num_goals=1)
    >>> obs, info = env.reset(seed=0)
    >>> sorted({body for _, body in segmentation_names(env).values() if "drawer" in body})
    ['drawer_link', 'drawercase_link']
    """
    import mujoco

    model = class_env_of(env).sawyer.model
    found = {(-1, -1): ("", "")}
    for kind, number, of, body in (
        (mujoco.mjtObj.mjOBJ_GEOM, model.ngeom, model.geom, model.geom_bodyid),
        (mujoco.mjtObj.mjOBJ_SITE, model.nsite, model.site, model.site_bodyid),
    ):
        for i in range(number):
            found[i, int(kind)] = of(i).name, model.body(body[i]).name
    return found
