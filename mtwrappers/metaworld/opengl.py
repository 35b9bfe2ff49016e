"""One OpenGL context per thread, for the frames of all models.

The context is made current for every frame, since other renderers may have made theirs current in
between. It holds the meshes and textures of each model (15 to 45 MB), and the shadow map and the
frame buffer (75 MB) that all models share; MuJoCo would allocate these for each model.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import functools
import importlib
import os
import subprocess
import sys
import threading
from collections import deque
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
_FONT = mujoco.mjtFontScale.mjFONTSCALE_50  # nothing is written
_HEADLESS = {"darwin": ["cgl"], "win32": ["wgl"]}.get(sys.platform, ["egl", "osmesa"])

_canvases: dict[threading.Thread, Canvas] = {}
_lock = threading.Lock()
_drawing_process: int | None = None


def choose_gl() -> str | None:
    """The first value of ``MUJOCO_GL`` with which frames can be drawn here, ``None`` without any.

    The user's own comes first, then those that need no display. Each is tried in a process of its
    own: a failed one cannot be taken back.
    """
    code = "import mujoco; mujoco.GLContext(64, 64).make_current()"
    for name in dict.fromkeys([os.environ.get("MUJOCO_GL", ""), *_HEADLESS]):
        if name:
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "MUJOCO_GL": name},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            if done.returncode == 0:
                return name
    return None


class Drawing:
    """What OpenGL holds of one model. It is made and freed while its context is current.

    Args:
        model: The compiled model, a `mujoco.MjModel`.
    """

    def __init__(self, model: Any) -> None:
        quality = model.vis.quality
        self.quality = int(quality.shadowsize), int(quality.offsamples)
        self.context = _bare_context(copy.copy(model))
        self.context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._own = {name: getattr(self.context, name) for name in _BUFFERS}

    def borrow(self, buffers: Any) -> None:
        """Draws into the frame buffer and the shadow map of another `mujoco.MjrContext`."""
        for name in _BUFFERS:
            setattr(self.context, name, getattr(buffers, name))
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self.context)

    def free(self) -> None:
        """Frees what is its own."""
        for name, value in self._own.items():
            setattr(self.context, name, value)
        self.context.free()


class Canvas:
    """The OpenGL context of a thread, and the drawings in it.

    Raises:
        DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
    """

    def __init__(self) -> None:
        name = os.environ.get("MUJOCO_GL", "").lower().strip() or _default_gl()
        module = name if name in ("cgl", "egl", "osmesa") else "glfw"
        try:
            self._gl: Any = importlib.import_module(f"mujoco.{module}").GLContext(1, 1)
            self._gl.make_current()
            _bare_context(mujoco.MjModel.from_xml_string("<mujoco/>")).free()
        except Exception as exc:
            raise DependencyNotInstalled(
                f"cannot draw frames with MUJOCO_GL={name}: {type(exc).__name__}: {exc}. Without a "
                "display, set the environment variable MUJOCO_GL to egl (Debian: apt install "
                "libegl1) or osmesa (apt install libosmesa6) before the process starts"
            ) from exc
        # What was dropped, perhaps by another thread, and is to be freed here.
        self.unused: deque[Drawing] = deque()
        self._drawings: set[Drawing] = set()
        self._buffers: dict[tuple[int, int], Any] = {}

    def add(self, model: Any) -> Drawing:
        """Gives a model's meshes and textures to OpenGL."""
        self._enter()
        drawing = Drawing(model)
        self._drawings.add(drawing)
        return drawing

    def colours(self, drawing: Drawing, scene: Any, rect: Any) -> NDArray[np.uint8]:
        """The colours of a scene, ``(height, width, 3)``, lowest row first."""
        self._render(drawing, scene, rect)
        image = np.empty((rect.height, rect.width, 3), np.uint8)
        mujoco.mjr_readPixels(image, None, rect, drawing.context)
        return image

    def depth(self, drawing: Drawing, scene: Any, rect: Any) -> NDArray[np.float32]:
        """The distances from the camera's plane, ``(height, width)``, metres, lowest row first."""
        # Flat colours, without a mean over several samples per pixel, which would mix distances.
        flags = [int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)]
        scene.flags[flags] = True
        self._render(drawing, scene, rect)
        scene.flags[flags] = False
        image = np.empty((rect.height, rect.width), np.float32)
        mujoco.mjr_readPixels(None, image, rect, drawing.context)
        # The buffer holds 0 at the far clipping plane and 1 at the near one.
        near, far = scene.camera[0].frustum_near, scene.camera[0].frustum_far
        metres: NDArray[np.float64] = near * far / (image.astype(np.float64) * (far - near) + near)
        return metres.astype(np.float32)

    def free_unused(self) -> None:
        """Frees what was dropped, if this thread may."""
        if _canvases.get(threading.current_thread()) is self and not _is_forked():
            self._enter()

    def free(self) -> None:
        """Frees everything, in the thread that ends or after it."""
        self._gl.make_current()
        for freed in (*self._drawings, *self._buffers.values()):
            freed.free()
        self._gl.free()

    def _enter(self) -> None:
        self._gl.make_current()
        while self.unused:
            drawing = self.unused.popleft()
            self._drawings.remove(drawing)
            drawing.free()

    def _render(self, drawing: Drawing, scene: Any, rect: Any) -> None:
        self._enter()
        buffers = self._buffers.get(drawing.quality)
        if buffers is None:
            model = mujoco.MjModel.from_xml_string("<mujoco/>")
            model.vis.global_.offwidth, model.vis.global_.offheight = rect.width, rect.height
            model.vis.quality.shadowsize, model.vis.quality.offsamples = drawing.quality
            buffers = self._buffers[drawing.quality] = mujoco.MjrContext(model, _FONT)
        width, height = max(rect.width, buffers.offWidth), max(rect.height, buffers.offHeight)
        if (width, height) != (buffers.offWidth, buffers.offHeight):
            mujoco.mjr_resizeOffscreen(width, height, buffers)
        drawing.borrow(buffers)
        mujoco.mjr_render(rect, scene, drawing.context)


def canvas_of_this_thread() -> Canvas:
    """The canvas of this thread, made on first use.

    Raises:
        DependencyNotInstalled: If OpenGL does not work here; the message says what to do.
        RuntimeError: If this process was forked from one that had drawn frames.
    """
    global _drawing_process
    if _is_forked():
        raise RuntimeError(
            "cannot draw frames in a process that was forked from one that had drawn some: OpenGL "
            "does not survive a fork. Start it with 'forkserver' or 'spawn', for example "
            "vector_kwargs={'context': 'forkserver'} in gymnasium.make_vec"
        )
    thread = threading.current_thread()
    with _lock:
        for ended in [t for t in _canvases if not t.is_alive()]:
            _canvases.pop(ended).free()
        if thread not in _canvases:
            _canvases[thread] = Canvas()
            if _drawing_process is None:
                _drawing_process = os.getpid()
                # Registered after MuJoCo's own handler, which ends EGL, and so called before it.
                atexit.register(_free_all)
        return _canvases[thread]


@functools.cache
def _default_gl() -> str:
    """What to draw with where the user does not say."""
    return choose_gl() or "glfw"


def _bare_context(model: Any) -> Any:
    """A `mujoco.MjrContext` with buffers of no size. The model is changed."""
    model.vis.quality.shadowsize = 0
    model.vis.global_.offwidth = model.vis.global_.offheight = 1  # EGL needs some
    return mujoco.MjrContext(model, _FONT)


def _is_forked() -> bool:
    return _drawing_process not in (None, os.getpid())


def _free_all() -> None:
    """Frees everything at the interpreter's exit, but what a thread may still be drawing with."""
    if _is_forked():
        return
    here = threading.current_thread()
    for thread, canvas in _canvases.items():
        if thread is here or not thread.is_alive():
            with contextlib.suppress(Exception):
                canvas.free()
