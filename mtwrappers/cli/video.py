"""``--video``: the first episode of each class as an mp4."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from multiprocessing import forkserver
from pathlib import Path

import numpy as np

from mtwrappers.cli.console import warn
from mtwrappers.common.extras import import_extra
from mtwrappers.common.interrupts import after_start
from mtwrappers.evaluation import Episode, Observer, PlannedEpisode
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.samplers.rollout import Step
from mtwrappers.state.files import write_atomically
from mtwrappers.vector.contract import MetaVectorEnv

FRAME_EVERY = 4  # steps between two frames of a video: 20 frames per second


def can_film() -> bool:
    """Chooses a renderer for this process and its workers; without one, prints so."""
    import_extra("imageio_ffmpeg", "cli")
    from mtwrappers.metaworld.frames import choose_gl  # which imports mujoco

    name = choose_gl()
    if name is None:
        warn(
            "no video: neither EGL nor OSMesa can render here; install one of them (Debian: "
            "libegl1 or libosmesa6). The rollout continues without one."
        )
        return False
    os.environ["MUJOCO_GL"] = name
    with after_start():  # so that Ctrl-C prints no traceback of the forkserver
        forkserver.ensure_running()
    return True


class Videos(Observer):
    """Films the first episode of each task, in environments that render arrays."""

    def __init__(self, envs: MetaVectorEnv) -> None:
        self._envs = envs
        self._length: dict[int, int] = {}  # of the episodes being filmed
        self._films: dict[int, list[bytes]] = {}
        self._finished: dict[str, list[bytes]] = {}
        self._shape: tuple[int, ...] = ()

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Films the start of a task's first episode."""
        if episode.number == 0:
            self._length[i], self._films[i] = 0, []
            self._film([i])

    def step(self, step: Step) -> None:
        """Films every few steps, except the last, which already belongs to the next episode."""
        for i in self._length:
            self._length[i] += 1
        self._film(
            [i for i, t in self._length.items() if t % FRAME_EVERY == 0 and not step.finished[i]]
        )

    def end(self, i: int, episode: Episode) -> None:
        """Keeps the frames of a finished episode."""
        if self._length.pop(i, None) is not None:
            self._finished[episode.task] = self._films.pop(i)

    def _film(self, which: Sequence[int]) -> None:
        frames = self._envs.call_some(which, "render") if which else []
        for i, frame in zip(which, frames, strict=True):
            self._shape = frame.shape
            # All tasks run at once: uncompressed, the frames of MT50 would take 4 GB.
            self._films[i].append(zlib.compress(frame.tobytes(), 1))

    def write(self, directory: Path) -> list[str]:
        """Writes an mp4 in real time for each task with a finished first episode; the names."""
        imageio, fps = import_extra("imageio.v3", "cli"), METADATA["render_fps"] / FRAME_EVERY
        names = []
        for task, film in self._finished.items():
            frames = [
                np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(self._shape)
                for data in film
            ]
            coded = imageio.imwrite("<bytes>", frames, extension=".mp4", fps=fps, codec="libx264")
            names.append(f"{task}.mp4")
            write_atomically(directory / names[-1], coded)
        return names
