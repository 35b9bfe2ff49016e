"""The cameras of one model: frames of a simulation's current state.

A frame is drawn from a copy of the simulation's state after ``mj_forward``. So it is never stale,
unlike Meta-World's first frame after a reset, and drawing does not change the simulation.
"""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_index
from mtwrappers.metaworld.fast.watch import watch_frame
from mtwrappers.metaworld.opengl import FIRST_PATTERN, Drawing, DrawingThread, drawing_thread
from mtwrappers.metaworld.own_cameras import CAMERAS, camera_names, own_model
from mtwrappers.metaworld.varied_scene import VariedScene, patterns

# The kinds of images that can be drawn.
Kind: TypeAlias = Literal["colours", "depth", "segmentation"]
FREE = -1
_FREE_NAME = "free"
_KINDS: dict[str, tuple[Kind, ...]] = {
    "rgb_array": ("colours",),
    "depth_array": ("depth",),
    "rgbd_tuple": ("colours", "depth"),
}
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
# Leaves the scene's camera to us.
_USER = mujoco.MjvCamera()
_USER.type = mujoco.mjtCamera.mjCAMERA_USER


def find_cameras(settings: Any, cameras: Sequence[str] = CAMERAS) -> list[tuple[str, int | None]]:
    """The name and the index of each camera that `SawyerSettings` select.

    The index is -1 for the free camera and ``None`` for a custom camera.

    Args:
        settings: The settings.
        cameras: The names of the model's cameras.

    Raises:
        ValueError: If there is no such camera, or a custom camera has the name of a model's camera.
    """
    names, index = camera_names(settings.camera_name), settings.camera_id
    own = settings.cameras or {}
    for name in own:
        if name in cameras:
            raise ValueError(
                f"the names in cameras must differ from {', '.join(cameras)}, got {name!r}"
            )
    if names is not None:
        what = "camera_name" if isinstance(settings.camera_name, str) else "each of camera_name"
        none = (None,) if isinstance(settings.camera_name, str) else ()
        for name in names:
            check_choice(name, (*cameras, *own, *none), what)
        return [(name, None if name in own else list(cameras).index(name)) for name in names]
    if index is None or (isinstance(index, (int, np.integer)) and index == FREE):
        return [(_FREE_NAME, FREE)]
    index = check_index(index, len(cameras), "camera_id (-1 for the free camera)")
    return [(cameras[index], index)]


@dataclass(frozen=True)
class _View:
    """A camera: the model that has it, its data, the `mujoco.MjvCamera`, and the camera's index.

    ``turned`` says whether its frames are rotated by 180 degrees.
    """

    name: str
    model: Any
    data: Any
    camera: Any
    index: int
    turned: bool


def _fixed(name: str, model: Any, data: Any, index: int, *, upright: bool) -> _View:
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
    camera.fixedcamid = index
    # The vertical component of the camera's upward axis; it is 0 when looking straight down.
    turned = upright and bool(model.cam_mat0[index][7] < -1e-6)
    return _View(name, model, data, camera, index, turned)


class Camera:
    """The cameras of one model that `SawyerSettings` select; for the free camera see `begin`."""

    def __init__(self, model: Any, settings: Any) -> None:
        found = find_cameras(settings, [model.camera(i).name for i in range(model.ncam)])
        self._model = model
        self._data = mujoco.MjData(model)
        self._free: Any = None
        if found[0][1] == FREE:
            self._free = mujoco.MjvCamera()
            self._free.distance = model.stat.extent
            self._views = [_View(_FREE_NAME, model, self._data, self._free, FREE, turned=False)]
        else:
            own = own_model(settings.cameras or {})
            own_data = mujoco.MjData(own)
            mujoco.mj_forward(own, own_data)
            self._views = [
                _fixed(name, own, own_data, own.camera(name).id, upright=settings.upright)
                if index is None
                else _fixed(name, model, self._data, index, upright=settings.upright)
                for name, index in found
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
        self._varied: VariedScene | None = None
        if settings.variation is not None:
            names = [view.name for view in self._views]
            self._varied = VariedScene(model, settings.variation, names)

    @property
    def variation_parameters(self) -> dict[str, Any] | None:
        """The variation of the current episode, as plain data; ``None`` without variation."""
        return None if self._varied is None else copy.deepcopy(self._varied.parameters)

    def vary(self, episode: int) -> None:
        """Sets the variation of the episode with this number, from the next frame on."""
        assert self._varied is not None
        self._varied.begin(episode)
        self._drawn = None

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
                to the far clipping plane; ``"segmentation"``, the id and the type of each pixel's
                object, ``(height, width, 2)`` int32, -1 for the background.

        Returns:
            The images by kind and camera.

        Raises:
            DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
            RuntimeError: If this process was forked from one that had drawn frames.
        """
        return self._draw_views(data, kinds, self._views)

    def parameters(self, data: Any) -> dict[str, dict[str, NDArray[np.float64]]]:
        """The matrices of `camera_parameters`, at the current state of a `mujoco.MjData`."""
        self._read(data)
        self._take()
        height, width = self._rect.height, self._rect.width
        found = {}
        for view in self._views:
            position, axes, fovy = self._pose(view)
            right, up, back = axes.T
            # In the axes of images, x to the right and y downwards, as the frame was turned.
            turned = -1.0 if view.turned else 1.0
            rotation = np.stack([turned * right, -turned * up, -back]) + 0.0  # no -0.0
            extrinsics = np.eye(4)
            extrinsics[:3, :3], extrinsics[:3, 3] = rotation, -rotation @ position
            focal = height / 2 / np.tan(np.radians(fovy) / 2)
            intrinsics = np.array(
                [[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]]
            )
            found[view.name] = {"intrinsics": intrinsics, "extrinsics": extrinsics}
        return found

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

    def _pose(self, view: _View) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """The position of a camera, its axes (right, up, back) as columns, and its fovy."""
        if view.camera is not self._free:
            sensor = view.model.cam_sensorsize[view.index]
            if sensor.any():
                raise ValueError(
                    f"expected a camera with a field of view, got {view.name!r} with a sensor of "
                    f"{sensor.tolist()} metres"
                )
            position = view.data.cam_xpos[view.index].copy()
            axes = view.data.cam_xmat[view.index].reshape(3, 3).copy()
            fovy = float(view.model.cam_fovy[view.index])
        else:
            turn, tilt = np.radians([self._free.azimuth, self._free.elevation])
            level = np.array([np.cos(turn), np.sin(turn), 0.0])
            ahead = np.cos(tilt) * level + np.array([0.0, 0.0, np.sin(tilt)])
            right = np.array([level[1], -level[0], 0.0])
            axes = np.stack([right, np.cross(right, ahead), -ahead], axis=1)
            position = self._free.lookat - self._free.distance * ahead
            fovy = float(self._model.vis.global_.fovy)
        if self._varied is None:
            return position, axes, fovy
        return self._varied.pose(view.name, position, axes, fovy)

    def _look(self, view: _View) -> None:
        """Updates the scene for this camera."""
        camera = view.camera
        if view.model is not self._model:
            view.model.stat.extent = self._model.stat.extent
            for name in ("znear", "zfar"):
                setattr(view.model.vis.map, name, getattr(self._model.vis.map, name))
            # The camera comes first, because the position of the floor depends on it.
            mujoco.mjv_updateCamera(view.model, view.data, camera, self._scene)
            camera = _USER
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            self._options,
            None,
            camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        if self._varied is not None:
            self._varied.apply(self._scene, view.name, FIRST_PATTERN)

    def _draw(self, thread: DrawingThread, kinds: Sequence[Kind]) -> dict[Kind, NDArray[Any]]:
        if self._drawing is None:
            self._drawing = thread.add(self._model)
            # Frees the drawing if these cameras are garbage-collected without `close`.
            self._drop = weakref.finalize(self, thread.drop, self._drawing)
            self._drop.atexit = False
            if self._varied is not None:
                self._drawing.add_patterns(patterns())
        images: dict[Kind, NDArray[Any]] = {}
        if "colours" in kinds:
            images["colours"] = self._drawing.colours(self._scene, self._rect)
        if "depth" in kinds or "segmentation" in kinds:
            depth, objects = self._drawing.depth_and_objects(self._scene, self._rect)
            images |= {"depth": depth, "segmentation": objects}
        return images

    def _read(self, data: Any) -> None:
        mujoco.mj_getState(self._model, data, self._state, _STATE)

    def _take(self) -> None:
        """Computes all quantities that depend on the state."""
        mujoco.mj_setState(self._model, self._data, self._state, _STATE)
        mujoco.mj_forward(self._model, self._data)
