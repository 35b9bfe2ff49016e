"""Frames of a simulation's current state.

A frame is drawn from a copy of the simulation's state after ``mj_forward``. So it is never stale,
unlike Meta-World's first frame after a reset, and drawing does not change the simulation.

The cameras of a model have a `ModelRenderer`, which holds the meshes and textures of the model (15
to 45 MB), a frame buffer of the size of a frame and, with shadows, a shadow map (64 MB). All
renderers of a process draw in one OpenGL context, see `OpenGL`. A `mujoco.Renderer` would have one
of its own, of the backend that ``MUJOCO_GL`` names when MuJoCo is imported, and cannot draw in a
shared one, because it does not bind its frame buffer again.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import mujoco
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from mtwrappers.common.extras import opengl_undone_on_error
from mtwrappers.common.types import AnyArray
from mtwrappers.metaworld.opengl import (
    check_value,
    choose_gl,
    chosen_backend,
    describe_failure,
    remember_current_context,
)

_FONT = mujoco.mjtFontScale.mjFONTSCALE_50  # no text is drawn
_MAX_GEOMS = 1000  # as many as Gymnasium allows in a scene
# The kinds of images that can be drawn, and images by kind and camera.
ImageKind: TypeAlias = Literal["colours", "depth"]
Images: TypeAlias = dict[ImageKind, dict[str, AnyArray]]
_KINDS: dict[str, tuple[ImageKind, ...]] = {
    "rgb_array": ("colours",),
    "depth_array": ("depth",),
    "rgbd_tuple": ("colours", "depth"),
}
_SHADOW_FLAGS = [int(mujoco.mjtRndFlag.mjRND_SHADOW), int(mujoco.mjtRndFlag.mjRND_REFLECTION)]
_FLAT_FLAGS = [int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)]
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


@dataclass(frozen=True)
class FrameSettings:
    """The settings of frames; see `mtwrappers.metaworld.class_env.SawyerSettings`."""

    width: int
    height: int
    shadows: bool


class OpenGL:
    """The OpenGL context of this process, which is current only while something is drawn.

    So any thread can draw. And other renderers, which free their objects in whichever context is
    current, never free those of this package.

    Attributes:
        process: The id of the process; its forks cannot use the context.

    Raises:
        DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self._lock = threading.RLock()
        # A garbage collection may begin while a frame is drawn, and must not free anything then.
        self._unused_renderers: list[ModelRenderer] = []
        self._backend, self._context = _open_context()
        # Registered after MuJoCo's own handler, which ends EGL, and so called before it.
        atexit.register(self._close)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Makes the context current, and afterwards the one that was current before.

        Other threads wait until then.
        """
        with self._lock:
            restore_context = remember_current_context(self._backend)
            try:
                self._context.make_current()
                while self._unused_renderers:
                    self._unused_renderers.pop().free()
                yield
            finally:
                restore_context()

    def free(self, renderer: ModelRenderer) -> None:
        """Frees a renderer, except in a fork, which has no part in it."""
        self.free_later(renderer)
        if self.process == os.getpid():
            # SDL ends EGL for the whole process when it quits, and the renderers with it.
            with contextlib.suppress(Exception), self.current():
                pass

    def free_later(self, renderer: ModelRenderer) -> None:
        """Frees a renderer when the context is current the next time."""
        self._unused_renderers.append(renderer)

    def _close(self) -> None:
        if self.process == os.getpid():
            with contextlib.suppress(Exception):  # as in `free`
                self._context.free()


def _open_context() -> tuple[str, mujoco.GLContext]:
    """Opens a context.

    Returns:
        The module of `mujoco` that it is from, and the ``GLContext``.
    """
    name = chosen_backend() or choose_gl() or ""
    module = name if name in ("cgl", "egl", "osmesa") else "glfw"
    try:
        check_value(name)
        with opengl_undone_on_error():
            backend = importlib.import_module(f"mujoco.{module}")
        restore_context = remember_current_context(module)
        try:
            context = backend.GLContext(1, 1)
            context.make_current()
            # Without a window, MuJoCo would raise now, and then hang in the next attempt.
            if module == "glfw" and not importlib.import_module("glfw").get_current_context():
                raise RuntimeError("GLFW opened no window")
            empty_model = mujoco.MjModel.from_xml_string("<mujoco/>")
            mujoco.MjrContext(empty_model, _FONT).free()
        finally:
            restore_context()
    except Exception as exc:
        error = f"{type(exc).__name__}: {exc}"
        raise DependencyNotInstalled(describe_failure(name, error)) from exc
    return module, context


_lock = threading.Lock()
_opengl: OpenGL | None = None


def process_opengl() -> OpenGL:
    """The OpenGL context of this process, opened on first use.

    Raises:
        RuntimeError: In a fork of a process that has drawn frames.
    """
    global _opengl
    if _opengl is None:
        with _lock:
            _opengl = _opengl or OpenGL()
    if _opengl.process != os.getpid():
        raise RuntimeError(
            "cannot draw frames in a process that was forked from one that had drawn some: OpenGL "
            "is not fork-safe. Start it with 'forkserver' or 'spawn': pass "
            "context='forkserver' to gymnasium.make_vec, or, with vectorization_mode='async', "
            "vector_kwargs={'context': 'forkserver'}"
        )
    return _opengl


class ModelRenderer:
    """Draws scenes of a model, as `mujoco.Renderer` does, in the OpenGL context that is current.

    Args:
        model: The model, which is not changed.
        settings: What to draw with.
    """

    def __init__(self, model: mujoco.MjModel, settings: FrameSettings) -> None:
        self._model = model
        self._has_shadows = settings.shadows
        self._options = mujoco.MjvOption()
        self._scene = mujoco.MjvScene(model, _MAX_GEOMS)
        self._rect = mujoco.MjrRect(0, 0, settings.width, settings.height)
        quality, size = model.vis.quality, model.vis.global_
        old_sizes = quality.shadowsize, size.offwidth, size.offheight
        try:
            size.offwidth, size.offheight = settings.width, settings.height
            if not settings.shadows:
                quality.shadowsize = 0
            self._context = mujoco.MjrContext(model, _FONT)
        finally:
            quality.shadowsize, size.offwidth, size.offheight = old_sizes
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR

    def update_scene(self, data: mujoco.MjData, view: mujoco.MjvCamera) -> None:
        """Sets what is drawn, and from where."""
        category = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self._model, data, self._options, None, view, category, self._scene)

    def draw(self, kind: ImageKind) -> AnyArray:
        """Draws the scene; see `Cameras.images`. The first row is the lowest."""
        is_depth = kind == "depth"
        self._scene.flags[_SHADOW_FLAGS] = self._has_shadows
        # Flat colours without multisampling, which would mix distances.
        self._scene.flags[_FLAT_FLAGS] = is_depth
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        mujoco.mjr_render(self._rect, self._scene, self._context)
        size = self._rect.height, self._rect.width
        if is_depth:
            depth = np.empty(size, np.float32)
            mujoco.mjr_readPixels(None, depth, self._rect, self._context)
            return _metres(depth, self._scene.camera[0])
        colours = np.empty((*size, 3), np.uint8)
        mujoco.mjr_readPixels(colours, None, self._rect, self._context)
        return colours

    def free(self) -> None:
        """Frees what the renderer holds in OpenGL."""
        self._context.free()


def _metres(buffer: NDArray[np.float32], camera: mujoco.MjvGLCamera) -> NDArray[np.float32]:
    """Converts a depth buffer, 0 at the far clipping plane and 1 at the near one, to metres."""
    # Rounds as OpenGL's float32 matrix does; the rounding of a pixel is smaller.
    near, far = np.float32(camera.frustum_near), np.float32(camera.frustum_far)
    half = np.float32(0.5)
    scale = half * ((far + near) / (far - near)) - half
    shift = half * ((np.float32(2) * far * near) / (far - near))
    metres: NDArray[np.float64] = float(shift) / (buffer.astype(np.float64) + float(scale))
    return metres.astype(np.float32)


@dataclass(frozen=True)
class _Camera:
    """A camera of a model.

    Attributes:
        view: Where it is.
        is_rotated: Whether its frames are rotated by 180 degrees, because it hangs upside down.
    """

    view: mujoco.MjvCamera
    is_rotated: bool


class Cameras:
    """The cameras of one model; for the free camera see `begin`.

    Args:
        model: The model.
        indices: The index of each camera by name, -1 for the free camera.
        settings: What to draw with.
    """

    def __init__(
        self, model: mujoco.MjModel, indices: Mapping[str, int], settings: FrameSettings
    ) -> None:
        self._model = model
        self._settings = settings
        self._data = mujoco.MjData(model)
        self._state = np.empty(mujoco.mj_stateSize(model, _STATE))
        self._free_view: mujoco.MjvCamera | None = None
        self._cameras: dict[str, _Camera] = {}
        for name, index in indices.items():
            view = mujoco.MjvCamera()
            is_rotated = False
            if index == -1:
                self._free_view = view
                view.distance = model.stat.extent
            else:
                view.type = mujoco.mjtCamera.mjCAMERA_FIXED
                view.fixedcamid = index
                # The vertical component of its upward axis, which is 0 if it looks straight down.
                is_rotated = bool(model.cam_mat0[index][7] < -1e-6)
            self._cameras[name] = _Camera(view, is_rotated)
        self._renderer: ModelRenderer | None = None

    def begin(self, data: mujoco.MjData) -> None:
        """Begins an episode: points the free camera at the median of the geoms' positions.

        Gymnasium does this once, at the first frame. Here it is done at the start of each episode,
        so that a frame depends only on its episode.
        """
        if self._free_view is not None:
            self._copy_state(data)
            self._free_view.lookat[:] = np.median(self._data.geom_xpos, axis=0)

    def frame(self, data: mujoco.MjData, mode: str) -> AnyArray | tuple[AnyArray, ...]:
        """Draws the current state of a `mujoco.MjData`, which is not changed, by the first camera.

        Returns:
            For ``"rgb_array"``, colours; for ``"depth_array"``, the depth; for ``"rgbd_tuple"``,
            both; see `images`.

        Raises:
            DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
            RuntimeError: If this process was forked from one that had drawn frames.
        """
        first_camera = next(iter(self._cameras))
        by_kind = self.images(data, _KINDS[mode], [first_camera])
        images = [by_camera[first_camera] for by_camera in by_kind.values()]
        return tuple(images) if mode == "rgbd_tuple" else images[0]

    def images(
        self, data: mujoco.MjData, kinds: Iterable[ImageKind], names: Iterable[str] | None = None
    ) -> Images:
        """Draws the current state of a `mujoco.MjData`, which is not changed.

        Args:
            data: The state.
            kinds: What to draw: ``"colours"``, ``(height, width, 3)`` uint8; ``"depth"``, the
                distance from the camera's plane in metres, ``(height, width)`` float32, at most up
                to the far clipping plane.
            names: The cameras to draw; by default all.

        Returns:
            The images by kind and camera.

        Raises:
            DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
            RuntimeError: If this process was forked from one that had drawn frames.
        """
        opengl = process_opengl()
        images: Images = {kind: {} for kind in kinds}
        self._copy_state(data)
        with opengl.current():
            renderer = self._renderer or self._make_renderer(opengl)
            for name in self._cameras if names is None else names:
                camera = self._cameras[name]
                renderer.update_scene(self._data, camera.view)
                for kind, by_camera in images.items():
                    image = renderer.draw(kind)
                    # OpenGL's first row is the lowest.
                    upright = image[:, ::-1] if camera.is_rotated else image[::-1]
                    by_camera[name] = upright.copy()
        return images

    def close(self) -> None:
        """Frees the renderer of these cameras. The next frame makes another one."""
        if self._renderer is not None:
            self._free_later.detach()
            renderer, self._renderer = self._renderer, None
            self._opengl.free(renderer)

    def _make_renderer(self, opengl: OpenGL) -> ModelRenderer:
        renderer = ModelRenderer(self._model, self._settings)
        # Frees the renderer if these cameras are garbage-collected without `close`.
        self._free_later = weakref.finalize(self, opengl.free_later, renderer)
        self._free_later.atexit = False
        self._opengl, self._renderer = opengl, renderer
        return renderer

    def _copy_state(self, data: mujoco.MjData) -> None:
        """Copies the state of ``data``, and computes all quantities that depend on it."""
        mujoco.mj_getState(self._model, data, self._state, _STATE)
        mujoco.mj_setState(self._model, self._data, self._state, _STATE)
        mujoco.mj_forward(self._model, self._data)
