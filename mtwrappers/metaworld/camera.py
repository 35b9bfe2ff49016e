"""A camera of one model: frames of a simulation as it is now.

A frame is drawn from a copy of the simulation's state after ``mj_forward``. So it is true at every
moment, where Meta-World's first frame after a reset may be of the scene before the last move, and
the simulation keeps its bits.
"""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Sequence
from typing import Any, Literal

import mujoco
import numpy as np

from mtwrappers.common.checks import check_choice, check_index
from mtwrappers.metaworld.fast.watch import watch_frame
from mtwrappers.metaworld.opengl import FIRST_PATTERN, Drawing, DrawingThread, drawing_thread
from mtwrappers.metaworld.varied_scene import VariedScene, patterns

# The cameras of Meta-World's own models.
CAMERAS = ("topview", "corner", "corner2", "corner3", "corner4", "behindGripper", "gripperPOV")
FREE = -1
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


def find_camera(settings: Any, cameras: Sequence[str] = CAMERAS) -> int:
    """The index of the camera that `SawyerSettings` ask for, -1 for the free camera."""
    name, index = settings.camera_name, settings.camera_id
    check_choice(name, (*cameras, None), "camera_name")
    if name is not None:
        return list(cameras).index(name)
    if index is None or (isinstance(index, (int, np.integer)) and index == FREE):
        return FREE
    return check_index(index, len(cameras), "camera_id (-1 for the free camera)")


class Camera:
    """The camera of one model that `SawyerSettings` ask for; for the free camera see `begin`."""

    def __init__(self, model: Any, settings: Any) -> None:
        found = find_camera(settings, [model.camera(i).name for i in range(model.ncam)])
        self._model = model
        self._is_free = found == FREE
        self._view = mujoco.MjvCamera()
        self._view.distance = model.stat.extent
        self._turned = False
        if not self._is_free:
            self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
            self._view.fixedcamid = found
            # How far the camera's upward axis rises; it is 0 when looking straight down.
            self._turned = settings.upright and model.cam_mat0[found][7] < -1e-6
        self._rect = mujoco.MjrRect(0, 0, settings.width, settings.height)
        self._options = mujoco.MjvOption()
        self._scene = mujoco.MjvScene(model, 1000)  # as many geoms as Gymnasium allows
        self._data = mujoco.MjData(model)
        if not settings.shadows:
            flags = mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION
            self._scene.flags[[int(flag) for flag in flags]] = False
        self._state = np.empty(mujoco.mj_stateSize(model, _STATE))
        self._watch = watch_frame(model)
        # The images drawn last, and of what beside the model: the mode, the state, and where the
        # camera looks.
        self._images: list[Any] = []
        self._drawn: tuple[str, bytes, bytes] | None = None
        self._drawing: Drawing | None = None
        self._name = "free" if self._is_free else model.camera(found).name
        self._varied: VariedScene | None = None
        if settings.variation is not None:
            self._varied = VariedScene(model, settings.variation, [self._name])

    @property
    def variation_parameters(self) -> dict[str, Any] | None:
        """How the present episode varies, as plain data; ``None`` where nothing does."""
        return None if self._varied is None else copy.deepcopy(self._varied.parameters)

    def vary(self, episode: int) -> None:
        """Makes everything look as the episode of this number does, from the next frame on."""
        assert self._varied is not None
        self._varied.begin(episode)
        self._drawn = None

    def begin(self, data: Any) -> None:
        """Begins an episode: turns the free camera to the median of the geoms' positions.

        Gymnasium does so once, at the first frame. Here it is done when an episode begins, so that
        a frame depends on its episode alone.
        """
        if self._is_free:
            self._read(data)
            self._take()
            self._view.lookat[:] = np.median(self._data.geom_xpos, axis=0)

    def frame(self, data: Any, mode: Literal["rgb_array", "depth_array", "rgbd_tuple"]) -> Any:
        """Draws the present state of a `mujoco.MjData`, which is not changed.

        A state is drawn once: while it and the model are the same, each call returns a copy.

        Returns:
            For ``"rgb_array"``, colours, ``(height, width, 3)`` uint8; for ``"depth_array"``, the
            distance from the camera's plane in metres, ``(height, width)`` float32, at most that of
            the far clipping plane; for ``"rgbd_tuple"``, both.

        Raises:
            DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
            RuntimeError: If this process was forked from one that had drawn frames.
        """
        thread = drawing_thread()
        self._read(data)
        present = mode, self._state.tobytes(), self._view.lookat.tobytes()
        drawn, self._drawn = self._drawn, None  # whatever fails
        if drawn != present or not self._watch.unchanged():
            self._watch.remember()
            self._images = self._draw_upright(thread, mode)
        self._drawn = present
        images = [image.copy() for image in self._images]
        return tuple(images) if mode == "rgbd_tuple" else images[0]

    def close(self) -> None:
        """Frees what OpenGL holds for this camera, and nothing else. A next frame begins anew."""
        self._images, self._drawn = [], None
        if self._drawing is not None:
            self._drawing = None
            if (done := self._drop()) is not None:
                done.exception()  # once it is done, the memory can go back to the system

    def _draw_upright(self, thread: DrawingThread, mode: str) -> list[Any]:
        self._take()
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            self._options,
            None,
            self._view,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        if self._varied is not None:
            self._varied.apply(self._scene, self._name, FIRST_PATTERN)
        images = thread.run(functools.partial(self._draw, thread, mode))
        # OpenGL's first row is the lowest.
        return [image[:, ::-1] if self._turned else image[::-1] for image in images]

    def _draw(self, thread: DrawingThread, mode: str) -> list[Any]:
        if self._drawing is None:
            self._drawing = thread.add(self._model)
            # Where this camera is forgotten rather than closed.
            self._drop = weakref.finalize(self, thread.drop, self._drawing)
            self._drop.atexit = False
            if self._varied is not None:
                self._drawing.add_patterns(patterns())
        images: list[Any] = []
        if mode != "depth_array":
            images.append(self._drawing.colours(self._scene, self._rect))
        if mode != "rgb_array":
            images.append(self._drawing.depth(self._scene, self._rect))
        return images

    def _read(self, data: Any) -> None:
        mujoco.mj_getState(self._model, data, self._state, _STATE)

    def _take(self) -> None:
        """Computes what follows from the state."""
        mujoco.mj_setState(self._model, self._data, self._state, _STATE)
        mujoco.mj_forward(self._model, self._data)
