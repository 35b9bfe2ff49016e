"""The cameras of one model: frames of a simulation's current state.

A frame is drawn from a copy of the simulation's state after ``mj_forward``. So it is never stale,
unlike Meta-World's first frame after a reset, and drawing does not change the simulation.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

from mtwrappers.metaworld.fast.watch import watch_frame
from mtwrappers.metaworld.opengl import Drawing, DrawingThread, drawing_thread
from mtwrappers.metaworld.settings import FREE, find_cameras

# The kinds of images that can be drawn.
Kind: TypeAlias = Literal["colours", "depth"]
_KINDS: dict[str, tuple[Kind, ...]] = {
    "rgb_array": ("colours",),
    "depth_array": ("depth",),
    "rgbd_tuple": ("colours", "depth"),
}
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class _View(NamedTuple):
    """The name of a camera, its `mujoco.MjvCamera`, and whether its frames are rotated by 180°."""

    name: str
    camera: Any
    turned: bool


def _fixed(model: Any, name: str, index: int, *, upright: bool) -> _View:
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
    camera.fixedcamid = index
    # The vertical component of the camera's upward axis; it is 0 when looking straight down.
    return _View(name, camera, upright and bool(model.cam_mat0[index][7] < -1e-6))


class Camera:
    """The cameras of one model that `SawyerSettings` select; for the free camera see `begin`."""

    def __init__(self, model: Any, settings: Any) -> None:
        found = find_cameras(settings, [model.camera(i).name for i in range(model.ncam)])
        self._model = model
        self._data = mujoco.MjData(model)
        self._free: Any = None
        if found == {"free": FREE}:
            self._free = mujoco.MjvCamera()
            self._free.distance = model.stat.extent
            self._views = [_View("free", self._free, turned=False)]
        else:
            self._views = [
                _fixed(model, name, index, upright=settings.upright)
                for name, index in found.items()
            ]
        self._rect = mujoco.MjrRect(0, 0, settings.width, settings.height)
        self._options = mujoco.MjvOption()
        self._scene = mujoco.MjvScene(model, 1000)  # as many geoms as Gymnasium allows
        if not settings.shadows:
            flags = mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION
            self._scene.flags[[int(flag) for flag in flags]] = False
        self._state = np.empty(mujoco.mj_stateSize(model, _STATE))
        self._watch = watch_frame(model)
        # The last images, by camera and kind, and what they depend on besides the model: the state,
        # and where the free camera looks.
        self._images: dict[tuple[str, Kind], NDArray[Any]] = {}
        self._drawn: tuple[bytes, bytes] | None = None
        self._drawing: Drawing | None = None

    def begin(self, data: Any) -> None:
        """Begins an episode: points the free camera at the median of the geoms' positions.

        Gymnasium does this once, at the first frame. Here it is done at the start of each episode,
        so that a frame depends only on its episode.
        """
        if self._free is not None:
            self._read(data)
            self._take()
            self._free.lookat[:] = np.median(self._data.geom_xpos, axis=0)

    def frame(self, data: Any, mode: Literal["rgb_array", "depth_array", "rgbd_tuple"]) -> Any:
        """Draws the current state of a `mujoco.MjData`, which is not changed, by the first camera.

        Returns:
            For ``"rgb_array"``, colours; for ``"depth_array"``, the depth; for ``"rgbd_tuple"``,
            both; see `images`.

        Raises:
            DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
            RuntimeError: If this process was forked from one that had drawn frames.
        """
        drawn = self._draw_views(data, _KINDS[mode], self._views[:1])
        images = [image for by_camera in drawn.values() for image in by_camera.values()]
        return tuple(images) if mode == "rgbd_tuple" else images[0]

    def images(self, data: Any, kinds: Iterable[Kind]) -> dict[Kind, dict[str, NDArray[Any]]]:
        """Draws the current state of a `mujoco.MjData`, which is not changed, by every camera.

        A camera draws a state once; as long as neither it nor the model changes, calls return
        copies.

        Args:
            data: The state.
            kinds: What to draw: ``"colours"``, ``(height, width, 3)`` uint8; ``"depth"``, the
                distance from the camera's plane in metres, ``(height, width)`` float32, at most up
                to the far clipping plane.

        Returns:
            The images by kind and camera.

        Raises:
            DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
            RuntimeError: If this process was forked from one that had drawn frames.
        """
        return self._draw_views(data, kinds, self._views)

    def close(self) -> None:
        """Frees the OpenGL resources of these cameras. The next frame allocates them again."""
        self._images, self._drawn = {}, None
        if self._drawing is not None:
            self._drawing = None
            if (done := self._drop()) is not None:
                done.exception()  # once it is done, the memory can go back to the system

    def _draw_views(
        self, data: Any, kinds: Iterable[Kind], views: Sequence[_View]
    ) -> dict[Kind, dict[str, NDArray[Any]]]:
        thread, kinds = drawing_thread(), tuple(kinds)
        self._read(data)
        looking = b"" if self._free is None else self._free.lookat.tobytes()
        present = self._state.tobytes(), looking
        drawn, self._drawn = self._drawn, None  # in case drawing fails
        if drawn != present or not self._watch.unchanged():
            self._watch.remember()
            self._images = {}
        taken = False
        for view in views:
            missing = [kind for kind in kinds if (view.name, kind) not in self._images]
            if missing and not taken:
                self._take()
                taken = True
            if missing:
                self._look(view)
                images = thread.run(functools.partial(self._draw, thread, missing))
                # OpenGL's first row is the lowest.
                for kind, image in images.items():
                    upright = image[:, ::-1] if view.turned else image[::-1]
                    self._images[view.name, kind] = upright
        self._drawn = present
        names = [view.name for view in views]
        return {kind: {name: self._images[name, kind].copy() for name in names} for kind in kinds}

    def _look(self, view: _View) -> None:
        """Updates the scene for this camera."""
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            self._options,
            None,
            view.camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )

    def _draw(self, thread: DrawingThread, kinds: Sequence[Kind]) -> dict[Kind, NDArray[Any]]:
        if self._drawing is None:
            self._drawing = thread.add(self._model)
            # Frees the drawing if these cameras are garbage-collected without `close`.
            self._drop = weakref.finalize(self, thread.drop, self._drawing)
            self._drop.atexit = False
        images: dict[Kind, NDArray[Any]] = {}
        if "colours" in kinds:
            images["colours"] = self._drawing.colours(self._scene, self._rect)
        if "depth" in kinds:
            images["depth"] = self._drawing.depth(self._scene, self._rect)
        return images

    def _read(self, data: Any) -> None:
        mujoco.mj_getState(self._model, data, self._state, _STATE)

    def _take(self) -> None:
        """Computes all quantities that depend on the state."""
        mujoco.mj_setState(self._model, self._data, self._state, _STATE)
        mujoco.mj_forward(self._model, self._data)
