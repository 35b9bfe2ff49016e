"""Frames of a simulation's current state.

A frame is drawn from a copy of the simulation's state after ``mj_forward``. So it is never stale,
unlike Meta-World's first frame after a reset, and drawing does not change the simulation.

One thread draws the frames of all models, in one OpenGL context. OpenGL's current context belongs
to a thread, so other renderers neither make another one current nor free this one. The context
holds the meshes and textures of each model (15 to 45 MB) and, while there are any, a shadow map and
frame buffer (75 MB) that all models share; MuJoCo would allocate these for each model.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, TypeAlias

import mujoco
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from mtwrappers.common.extras import opengl_undone_on_error
from mtwrappers.metaworld.opengl import check_value, choose_gl, chosen_backend, describe_failure

# The fields of an MjrContext that name its frame buffer and its shadow map.
_BUFFERS = (
    *("offColor", "offColor_r", "offDepthStencil", "offDepthStencil_r", "offFBO", "offFBO_r"),
    *("offWidth", "offHeight", "offSamples", "shadowFBO", "shadowTex", "shadowSize"),
)
_FONT = mujoco.mjtFontScale.mjFONTSCALE_50  # no text is drawn


class DrawingThread:
    """Runs jobs one after another in a thread with its own OpenGL context.

    Raises:
        DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
    """

    def __init__(self) -> None:
        # Finalizers may put jobs at any moment, which is safe with this kind of queue.
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._drawings: set[Drawing] = set()
        self._buffers: dict[tuple[int, int], Any] = {}
        self.process: int | None = os.getpid()  # None once the thread has ended
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        try:
            self._context = self.run(_open_context)
        except DependencyNotInstalled:
            self._jobs.put(None)
            raise
        # Registered after MuJoCo's own handler, which ends EGL, and so called before it.
        atexit.register(self._end)

    def run(self, job: Callable[[], Any]) -> Any:
        """Runs ``job`` in the thread; returns its result, or raises its exception."""
        done: Future[Any] = Future()
        self._jobs.put((done, job))
        return done.result()

    def add(self, model: Any) -> Drawing:
        """Loads a model's meshes and textures into OpenGL; call it in the thread itself."""
        drawing = Drawing(model, self._buffers)
        self._drawings.add(drawing)
        return drawing

    def drop(self, drawing: Drawing) -> Future[None] | None:
        """Schedules a drawing to be freed; call it in any thread.

        Returns:
            A future that ends when it is freed, or ``None`` in the thread itself and in a fork,
            which cannot wait for it.
        """
        self._drawings.discard(drawing)
        done: Future[None] = Future()
        self._jobs.put((done, functools.partial(self._free, drawing)))
        here = self.process == os.getpid() and threading.current_thread() is not self._thread
        return done if here else None

    def _free(self, drawing: Drawing) -> None:
        drawing.free()
        if not self._drawings:
            for buffers in self._buffers.values():
                buffers.free()
            self._buffers.clear()

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            done, job = given
            try:
                done.set_result(job())
            except BaseException as exc:
                done.set_exception(exc)
            del given, done, job  # they refer to the environment

    def _end(self) -> None:
        if self.process == os.getpid():  # a fork does not have the thread
            self.process = None
            for held in (*self._drawings, *self._buffers.values(), self._context):
                # SDL ends EGL for the whole process when it quits, so freeing may fail.
                with contextlib.suppress(Exception):
                    self.run(held.free)


def _open_context() -> Any:
    name = chosen_backend() or choose_gl() or ""
    module = name if name in ("cgl", "egl", "osmesa") else "glfw"
    try:
        check_value(name)
        with opengl_undone_on_error():
            backend = importlib.import_module(f"mujoco.{module}")
        context = backend.GLContext(1, 1)
        context.make_current()
        # Without a window, MuJoCo would raise now, and then hang in the next attempt.
        if module == "glfw" and not importlib.import_module("glfw").get_current_context():
            raise RuntimeError("GLFW opened no window")
        _bare_context(mujoco.MjModel.from_xml_string("<mujoco/>")).free()
    except Exception as exc:
        error = f"{type(exc).__name__}: {exc}"
        raise DependencyNotInstalled(describe_failure(name, error)) from exc
    return context


_lock = threading.Lock()
_thread: DrawingThread | None = None


def drawing_thread() -> DrawingThread:
    """The drawing thread of this process, made on first use.

    Raises:
        RuntimeError: In a fork of a process that has drawn frames.
    """
    global _thread
    if _thread is None:
        with _lock:
            _thread = _thread or DrawingThread()
    if _thread.process != os.getpid():
        raise RuntimeError(
            "cannot draw frames in a process that was forked from one that had drawn some: OpenGL "
            "is not fork-safe. Start it with 'forkserver' or 'spawn': pass "
            "context='forkserver' to gymnasium.make_vec, or, with vectorization_mode='async', "
            "vector_kwargs={'context': 'forkserver'}"
        )
    return _thread


class Drawing:
    """A model's OpenGL resources, for use in the drawing thread.

    ``shared`` holds the frame buffers and shadow maps of all models, by quality.
    """

    def __init__(self, model: Any, shared: dict[tuple[int, int], Any]) -> None:
        quality = model.vis.quality
        self._quality = int(quality.shadowsize), int(quality.offsamples)
        self._shared = shared
        self._context = _bare_context(model)
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._own = {name: getattr(self._context, name) for name in _BUFFERS}

    def colours(self, scene: Any, rect: Any) -> NDArray[np.uint8]:
        """The colours of a scene, ``(height, width, 3)``, lowest row first."""
        self._render(scene, rect)
        image = np.empty((rect.height, rect.width, 3), np.uint8)
        mujoco.mjr_readPixels(image, None, rect, self._context)
        return image

    def depth(self, scene: Any, rect: Any) -> NDArray[np.float32]:
        """Distances from the camera's plane as `mujoco.Renderer` computes them.

        They are ``(height, width)``, in metres, lowest row first.
        """
        # Flat colours without multisampling, which would mix distances.
        flags = [int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)]
        scene.flags[flags] = True
        self._render(scene, rect)
        scene.flags[flags] = False
        image = np.empty((rect.height, rect.width), np.float32)
        mujoco.mjr_readPixels(None, image, rect, self._context)
        return _metres(image, scene.camera[0])

    def free(self) -> None:
        """Frees the resources that are not shared."""
        self._use(self._own)
        self._context.free()

    def _render(self, scene: Any, rect: Any) -> None:
        buffers = self._shared.get(self._quality)
        if buffers is None:
            model = mujoco.MjModel.from_xml_string("<mujoco/>")
            model.vis.global_.offwidth, model.vis.global_.offheight = rect.width, rect.height
            model.vis.quality.shadowsize, model.vis.quality.offsamples = self._quality
            buffers = self._shared[self._quality] = mujoco.MjrContext(model, _FONT)
        width, height = max(rect.width, buffers.offWidth), max(rect.height, buffers.offHeight)
        if (width, height) != (buffers.offWidth, buffers.offHeight):
            mujoco.mjr_resizeOffscreen(width, height, buffers)
        self._use({name: getattr(buffers, name) for name in _BUFFERS})
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        mujoco.mjr_render(rect, scene, self._context)

    def _use(self, buffers: dict[str, Any]) -> None:
        for name, value in buffers.items():
            setattr(self._context, name, value)


def _bare_context(model: Any) -> Any:
    """A `mujoco.MjrContext` with buffers of the smallest size. The model is not changed."""
    quality, size = model.vis.quality, model.vis.global_
    before = quality.shadowsize, size.offwidth, size.offheight
    quality.shadowsize, size.offwidth, size.offheight = 0, 1, 1
    try:
        return mujoco.MjrContext(model, _FONT)
    finally:
        quality.shadowsize, size.offwidth, size.offheight = before


def _metres(buffer: NDArray[np.float32], camera: Any) -> NDArray[np.float32]:
    """Converts a depth buffer, 0 at the far clipping plane and 1 at the near one, to metres."""
    # Rounds as OpenGL's float32 matrix does; the rounding of a pixel is smaller.
    near, far = np.float32(camera.frustum_near), np.float32(camera.frustum_far)
    half = np.float32(0.5)
    scale = half * ((far + near) / (far - near)) - half
    shift = half * ((np.float32(2) * far * near) / (far - near))
    metres: NDArray[np.float64] = float(shift) / (buffer.astype(np.float64) + float(scale))
    return metres.astype(np.float32)


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


class Camera:
    """The cameras of one model; for the free camera see `begin`.

    Args:
        model: The model.
        found: The index of each camera by name, -1 for the free camera.
        settings: The `SawyerSettings` to draw with.
    """

    def __init__(self, model: Any, found: Mapping[str, int], settings: Any) -> None:
        self._model = model
        self._data = mujoco.MjData(model)
        self._free: Any = None
        self._views = []
        for name, index in found.items():
            camera = mujoco.MjvCamera()
            turned = False
            if index == -1:
                self._free = camera
                camera.distance = model.stat.extent
            else:
                camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
                camera.fixedcamid = index
                # The vertical component of its upward axis, which is 0 if it looks straight down.
                turned = bool(model.cam_mat0[index][7] < -1e-6)
            self._views.append(_View(name, camera, turned))
        self._rect = mujoco.MjrRect(0, 0, settings.width, settings.height)
        self._options = mujoco.MjvOption()
        self._scene = mujoco.MjvScene(model, 1000)  # as many geoms as Gymnasium allows
        if not settings.shadows:
            flags = mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION
            self._scene.flags[[int(flag) for flag in flags]] = False
        self._state = np.empty(mujoco.mj_stateSize(model, _STATE))
        self._drawing: Drawing | None = None

    def begin(self, data: Any) -> None:
        """Begins an episode: points the free camera at the median of the geoms' positions.

        Gymnasium does this once, at the first frame. Here it is done at the start of each episode,
        so that a frame depends only on its episode.
        """
        if self._free is not None:
            self._take(data)
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
        by_kind = self.images(data, _KINDS[mode], self._views[:1])
        images = [image for by_camera in by_kind.values() for image in by_camera.values()]
        return tuple(images) if mode == "rgbd_tuple" else images[0]

    def images(
        self, data: Any, kinds: Iterable[Kind], views: Sequence[_View] | None = None
    ) -> dict[Kind, dict[str, NDArray[Any]]]:
        """Draws the current state of a `mujoco.MjData`, which is not changed.

        Args:
            data: The state.
            kinds: What to draw: ``"colours"``, ``(height, width, 3)`` uint8; ``"depth"``, the
                distance from the camera's plane in metres, ``(height, width)`` float32, at most up
                to the far clipping plane.
            views: The cameras to draw; by default all.

        Returns:
            The images by kind and camera.

        Raises:
            DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
            RuntimeError: If this process was forked from one that had drawn frames.
        """
        thread, kinds = drawing_thread(), tuple(kinds)
        self._take(data)
        drawn: dict[Kind, dict[str, NDArray[Any]]] = {kind: {} for kind in kinds}
        for view in self._views if views is None else views:
            mujoco.mjv_updateScene(
                self._model,
                self._data,
                self._options,
                None,
                view.camera,
                mujoco.mjtCatBit.mjCAT_ALL,
                self._scene,
            )
            for kind, image in thread.run(functools.partial(self._draw, thread, kinds)).items():
                # OpenGL's first row is the lowest.
                upright = image[:, ::-1] if view.turned else image[::-1]
                drawn[kind][view.name] = upright.copy()
        return drawn

    def close(self) -> None:
        """Frees the OpenGL resources of these cameras. The next frame allocates them again."""
        if self._drawing is not None:
            self._drawing = None
            if (done := self._drop()) is not None:
                done.exception()  # once it is done, the memory can go back to the system

    def _draw(self, thread: DrawingThread, kinds: Sequence[Kind]) -> dict[Kind, NDArray[Any]]:
        if self._drawing is None:
            self._drawing = thread.add(self._model)
            # Frees the drawing if these cameras are garbage-collected without `close`.
            self._drop = weakref.finalize(self, thread.drop, self._drawing)
            self._drop.atexit = False
        draw: dict[Kind, Callable[[Any, Any], NDArray[Any]]]
        draw = {"colours": self._drawing.colours, "depth": self._drawing.depth}
        return {kind: draw[kind](self._scene, self._rect) for kind in kinds}

    def _take(self, data: Any) -> None:
        """Copies the state of ``data``, and computes all quantities that depend on it."""
        mujoco.mj_getState(self._model, data, self._state, _STATE)
        mujoco.mj_setState(self._model, self._data, self._state, _STATE)
        mujoco.mj_forward(self._model, self._data)
