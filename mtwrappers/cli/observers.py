"""The observers of a rollout: scripted policies, Ctrl-C, and videos."""

from __future__ import annotations

import signal
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation.episodes import Episode, Observer, PlannedEpisode
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.metaworld.experts import expert
from mtwrappers.samplers.rollout import Step
from mtwrappers.vector.contract import MetaVectorEnv

FRAME_EVERY = 4  # steps between two frames of a video: 20 frames per second


class ScriptedPolicy(Observer):
    """A Meta-World expert, or random actions, for each environment, chosen anew per episode.

    So its actions depend neither on the number of workers nor on who shares the batch.
    """

    def __init__(self, experts: bool, envs: MetaVectorEnv, seed: int) -> None:
        self._experts, self._envs, self._seed = experts, envs, seed
        self._class_index = {task: i for i, task in enumerate(envs.get_attr("task_names")[0])}
        self._act: list[Callable[[NDArray[Any]], NDArray[np.float32]]] = [
            lambda obs: np.zeros(4, np.float32)
        ] * envs.num_envs

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Chooses what acts in environment ``i``."""
        if self._experts:
            act, [goal] = expert(episode.task), self._envs.call_some([i], "goal")
            self._act[i] = lambda obs: act(obs, goal)
        else:
            key = (self._class_index[episode.task], episode.number)
            rng = Generator(PCG64(SeedSequence(self._seed, spawn_key=key)))
            self._act[i] = lambda obs: rng.uniform(-1.0, 1.0, 4).astype(np.float32)

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Actions ``(N, 4)`` for observations ``(N, O)``."""
        return np.stack([act(obs) for act, obs in zip(self._act, observations, strict=True)])


class Interruption(Observer):
    """Turns Ctrl-C into a ``KeyboardInterrupt`` between two steps; a second one comes at once.

    So the first one never breaks a message to a worker in two. After the block they are ignored:
    workers end, and what is finished is written.
    """

    def __init__(self) -> None:
        self._asked = False

    def __enter__(self) -> Interruption:
        signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _ask(self, *signal_and_frame: Any) -> None:
        if self._asked:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise KeyboardInterrupt
        self._asked = True

    def step(self, step: Step) -> None:
        """Raises what was asked for."""
        if self._asked:
            raise KeyboardInterrupt


class Videos(Observer):
    """Films the first episode of each task, in environments that render arrays."""

    def __init__(self, envs: MetaVectorEnv) -> None:
        self._envs = envs
        self._length: dict[int, int] = {}  # of the episodes that are being filmed
        self._films: dict[int, list[bytes]] = {}
        self._finished: dict[str, list[bytes]] = {}
        self._shape: tuple[int, ...] = ()

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Films how a task's first episode begins."""
        if episode.number == 0:
            self._length[i], self._films[i] = 0, []
            self._film([i])

    def step(self, step: Step) -> None:
        """Films every few steps, but not past the end: there the next episode has begun."""
        for i in self._length:
            self._length[i] += 1
        self._film(
            [i for i, t in self._length.items() if t % FRAME_EVERY == 0 and not step.finished[i]]
        )

    def end(self, i: int, episode: Episode) -> None:
        """Keeps what was filmed."""
        if self._length.pop(i, None) is not None:
            self._finished[episode.task] = self._films.pop(i)

    def _film(self, which: Sequence[int]) -> None:
        frames = self._envs.call_some(which, "render") if which else []
        for i, frame in zip(which, frames, strict=True):
            self._shape = frame.shape
            # All tasks play at once: uncompressed, the frames of MT50 would take 4 GB.
            self._films[i].append(zlib.compress(frame.tobytes(), 1))

    def write(self, directory: Path) -> None:
        """Writes an mp4 in real time for each task whose first episode is finished."""
        imageio = import_extra("imageio.v2", "cli")
        for task, film in self._finished.items():
            fps = METADATA["render_fps"] / FRAME_EVERY
            with imageio.get_writer(directory / f"{task}.mp4", fps=fps, codec="libx264") as writer:
                for data in film:
                    frame = np.frombuffer(zlib.decompress(data), dtype=np.uint8)
                    writer.append_data(frame.reshape(self._shape))
