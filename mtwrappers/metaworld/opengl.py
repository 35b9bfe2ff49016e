"""One OpenGL context per thread, for the frames of all models.

The context is made current for every frame, since other renderers may have made theirs current in
between. It holds the meshes and textures of each model (15 to 45 MB), and the shadow map and the
frame buffer (75 MB) that all models share; MuJoCo would allocate these for each model.
"""

from __future__ import annotations

import atexit
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

_local = threading.local()
_lock = threading.Lock()
_drawing_process: int | None = None


def choose_gl() -> str | None:
    """The first value of ``MUJOCO_GL`` with which frames can be drawn here, ``None`` without any.

    The user's own comes first, then those that need no display.
    """
    names = dict.fromkeys([os.environ.get("MUJOCO_GL", ""), *_HEADLESS])
    return next((name for name in names if name and gl_works(name)), None)


def gl_works(name: str) -> bool:
    """Whether frames can be drawn with this value of ``MUJOCO_GL``.

    It is tried in a process of its own: a failed one cannot be taken back.
    """
    done = subprocess.run(
        [sys.executable, "-c", "import mujoco; mujoco.GLContext(64, 64).make_current()"],
        env={**os.environ, "MUJOCO_GL": name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


class Drawing:
    """What OpenGL holds of one model. It is made and freed while its context is current."""

    def __init__(self, model: Any) -> None:
        quality = model.vis.quality
        self.quality = int(quality.shadowsize), int(quality.offsamples)
        self.context = _bare_context(model)
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
    """The OpenGL context of a thread, and the drawings in it; current inside a ``with`` block."""

    def __init__(self) -> None:
        name = os.environ.get("MUJOCO_GL", "").lower().strip() or _default_gl()
        module = name if name in ("cgl", "egl", "osmesa") else "glfw"
        try:
            make = importlib.import_module(f"mujoco.{module}").GLContext
            self._gl: Any = make(1, 1)
            # Current between frames: where others free their objects in whichever context is
            # current, as MuJoCo's and Gymnasium's renderers do, they do not hit this one.
            self._decoy: Any = make(1, 1)
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

    def __enter__(self) -> None:
        self._gl.make_current()
        while self.unused:
            drawing = self.unused.popleft()
            self._drawings.remove(drawing)
            drawing.free()

    def __exit__(self, *args: object) -> None:
        self._decoy.make_current()

    def add(self, model: Any) -> Drawing:
        """Gives a model's meshes and textures to OpenGL."""
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
        if _owns_contexts() and hasattr(_local, "owner") and _local.owner.canvas is self:
            with self:
                pass

    def free(self) -> None:
        """Frees everything."""
        with self:
            for freed in (*self._drawings, *self._buffers.values()):
                freed.free()
        self._gl.free()
        self._decoy.free()

    def _render(self, drawing: Drawing, scene: Any, rect: Any) -> None:
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
    """The canvas of this thread, made on first use; not in a fork of a process that has drawn."""
    global _drawing_process
    if not _owns_contexts():
        raise RuntimeError(
            "cannot draw frames in a process that was forked from one that had drawn some: OpenGL "
            "does not survive a fork. Start it with 'forkserver' or 'spawn', for example "
            "vector_kwargs={'context': 'forkserver'} in gymnasium.make_vec"
        )
    if not hasattr(_local, "owner"):
        with _lock:
            _local.owner = _Owner(Canvas())
            if _drawing_process is None:
                _drawing_process = os.getpid()
                # Registered after MuJoCo's own handler, which ends EGL, and so called before it.
                atexit.register(_stop_drawing)
    owner: _Owner = _local.owner
    return owner.canvas


class _Owner:
    """Frees the canvas of its thread when that ends, in it: no other thread may."""

    def __init__(self, canvas: Canvas) -> None:
        self.canvas = canvas

    def __del__(self) -> None:
        if _owns_contexts():
            self.canvas.free()


@functools.cache
def _default_gl() -> str:
    """What to draw with where the user does not say."""
    return choose_gl() or "glfw"


def _bare_context(model: Any) -> Any:
    """A `mujoco.MjrContext` with buffers of the smallest size. The model is as before."""
    quality, size = model.vis.quality, model.vis.global_
    before = quality.shadowsize, size.offwidth, size.offheight
    quality.shadowsize, size.offwidth, size.offheight = 0, 1, 1
    try:
        return mujoco.MjrContext(model, _FONT)
    finally:
        quality.shadowsize, size.offwidth, size.offheight = before


def _owns_contexts() -> bool:
    """Whether this process, and not the one that it was forked from, has drawn what was drawn."""
    return _drawing_process in (None, os.getpid())


def _stop_drawing() -> None:
    """Frees this thread's canvas; threads that are still drawing leave theirs to the system."""
    global _drawing_process
    _local.__dict__.clear()
    _drawing_process = 0
