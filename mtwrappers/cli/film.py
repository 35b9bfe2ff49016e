"""Videos of a rollout: the first episode of each class, replayed in real time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.cli.console import warn
from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation import PlannedEpisode
from mtwrappers.evaluation.evidence import name_actions, read_evidence
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.metaworld.opengl import DOCTOR, choose_gl
from mtwrappers.samplers.bar import Advance, ProgressBar
from mtwrappers.state.files import write_atomically

FRAME_EVERY = 4  # steps between two frames of a video: 20 frames per second


def can_film() -> bool:
    """Chooses a renderer for this process and its workers; without one, prints so."""
    import_extra("imageio_ffmpeg", "cli")
    backend = choose_gl()
    if backend is None:
        warn(
            "no video: neither EGL nor OSMesa can render here; install one of them (Debian: "
            f"libegl1 or libosmesa6). The rollout continues without one. {DOCTOR}."
        )
        return False
    os.environ["MUJOCO_GL"] = backend
    return True


def film(
    env_id: str,
    kwargs: Mapping[str, Any],
    planned: Sequence[PlannedEpisode],
    evidence: Path,
    *,
    size: int,
    max_steps: int | None,
) -> list[Path]:
    """Replays the first episode of each class into an mp4 beside the evidence.

    Args:
        env_id: The id of the environments.
        kwargs: The arguments of `gymnasium.make`.
        planned: The episodes of the rollout.
        evidence: The file with their actions.
        size: The height and width of frames in pixels, unless the policy observes frames.
        max_steps: The number of steps after which a video ends; ``None`` for whole episodes.

    Returns:
        The paths of the videos.
    """
    kwargs = {"render_mode": "rgb_array", **kwargs}
    if kwargs.get("observation", "state") == "state":  # else the policy's own camera
        kwargs |= {"camera_name": "corner3", "width": size, "height": size}
    actions = read_evidence(evidence)
    episodes = [
        (episode, actions[name_actions(episode)][:max_steps])
        for episode in planned
        if episode.number == 0
    ]
    num_frames = sum(count_frames(len(steps)) for _, steps in episodes)
    paths = []
    imageio = import_extra("imageio.v3", "cli")
    with (
        contextlib.closing(gymnasium.make(env_id, disable_env_checker=True, **kwargs)) as env,
        ProgressBar(True).track("frames of videos", num_frames) as advance,
    ):
        for episode, steps in episodes:
            video = imageio.imwrite(
                "<bytes>",
                list(_draw_frames(env, episode, steps, advance)),
                extension=".mp4",
                fps=METADATA["render_fps"] / FRAME_EVERY,
                codec="libx264",
                macro_block_size=2,
            )
            path = evidence.with_name(f"{episode.task}.mp4")
            write_atomically(path, video)
            paths.append(path)
    return paths


def count_frames(num_steps: int) -> int:
    """The number of frames of a video of an episode with so many steps."""
    return 1 + -(-num_steps // FRAME_EVERY)


def _draw_frames(
    env: gymnasium.Env[Any, Any],
    episode: PlannedEpisode,
    actions: NDArray[Any],
    advance: Advance,
) -> Iterator[NDArray[np.uint8]]:
    """Replays an episode.

    Yields:
        The frame of its reset, those after every `FRAME_EVERY`-th step, and the one after the last
        step, which may be the only one of a success.
    """
    env.reset(seed=episode.seed, options={"task_state": episode.task_state})
    yield _draw(env)
    advance(1)
    for t, action in enumerate(actions, 1):
        env.step(action)
        if t % FRAME_EVERY == 0 or t == len(actions):
            yield _draw(env)
            advance(1)


def _draw(env: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
    frame: Any = env.render()
    return frame  # type: ignore[no-any-return]
