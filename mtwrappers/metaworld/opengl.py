"""The thread that draws the frames of all models, in one OpenGL context.

OpenGL's current context belongs to a thread, so other renderers neither make another one current
nor free this one. The context holds the meshes and textures of each model (15 to 45 MB) and, while
there are any, a shadow map and frame buffer (75 MB) that all models share; MuJoCo would allocate
these for each model.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import mujoco
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

# The fields of an MjrContext that name its frame buffer and its shadow map.
_BUFFERS = (
    *("offColor", "offColor_r", "offDepthStencil", "offDepthStencil_r", "offFBO", "offFBO_r"),
    *("offWidth", "offHeight", "offSamples", "shadowFBO", "shadowTex", "shadowSize"),
)
_FONT = mujoco.mjtFontScale.mjFONTSCALE_50  # no text is drawn
_HEADLESS = {"darwin": ["cgl"], "win32": ["wgl"]}.get(sys.platform, ["egl", "osmesa"])


def choose_gl() -> str | None:
    """The first value of ``MUJOCO_GL`` that works on this machine, or ``None``.

    The user's own value is tried first, then values that need no display.
    """
    names = dict.fromkeys([os.environ.get("MUJOCO_GL", ""), *_HEADLESS])
    return next((name for name in names if name and gl_works(name)), None)


def gl_works(name: str) -> bool:
    """Whether frames can be drawn with this value of ``MUJOCO_GL``.

    It is tried in a separate process, because a failure cannot be undone.
    """
    done = subprocess.run(
        [sys.executable, "-c", "import mujoco; mujoco.GLContext(64, 64).make_current()"],
        env={**os.environ, "MUJOCO_GL": name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


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
    name = os.environ.get("MUJOCO_GL", "").lower().strip() or choose_gl() or "glfw"
    module = name if name in ("cgl", "egl", "osmesa") else "glfw"
    try:
        context = importlib.import_module(f"mujoco.{module}").GLContext(1, 1)
        context.make_current()
        _bare_context(mujoco.MjModel.from_xml_string("<mujoco/>")).free()
    except Exception as exc:
        raise DependencyNotInstalled(
            f"cannot draw frames with MUJOCO_GL={name}: {type(exc).__name__}: {exc}. Without a "
            "display, set the environment variable MUJOCO_GL to egl (Debian: apt install "
            "libegl1) or osmesa (apt install libosmesa6) before the process starts"
        ) from exc
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
