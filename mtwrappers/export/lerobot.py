"""LeRobotDatasets, version 3."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.extras import import_extra
from mtwrappers.export.export import Env, ExportError, Frames, Replayed

# The file beside LeRobot's own with all that is needed to replay the episodes.
ABOUT = Path("meta", "mtwrappers.json")


class LeRobotDataset:
    """A LeRobotDataset in a folder.

    Its features are those of the environment that `mtwrappers.adapters.lerobot` gives to LeRobot,
    with the reward, the success and the end of each step, as LeRobot's own recordings have them.

    Args:
        path: The folder.
        frames: What its episodes observe.

    Raises:
        DependencyNotInstalled: If LeRobot is not installed.
        ExportError: If there are no frames.
    """

    packages: Sequence[str] = ("lerobot",)

    def __init__(self, path: str, frames: Frames) -> None:
        if frames.observation == "state":
            raise ExportError("a LeRobotDataset has frames: choose the observation pixels, ...")
        datasets = import_extra("lerobot.datasets.lerobot_dataset", "lerobot")
        self._dataset, self.path, self.frames = datasets.LeRobotDataset, Path(path), frames

    def write(
        self, place: Path, env: Env, episodes: Iterator[Replayed], about: Mapping[str, Any]
    ) -> Path:
        """Writes the dataset into a folder within a folder; returns its path."""
        frames = self.frames
        config = import_extra("mtwrappers.adapters.lerobot", "lerobot").MTWrappersEnv(
            obs_type=frames.observation,
            observation_height=frames.size,
            observation_width=frames.size,
            camera_name=",".join(frames.cameras),
        )
        dtype = "video" if frames.video else "image"
        features = {
            config.features_map[key]: _feature(
                dtype if one.type.value == "VISUAL" else "float32", one.shape
            )
            for key, one in config.features.items()
        }
        features["next.reward"] = _feature("float32", (1,))
        features |= {flag: _feature("bool", (1,)) for flag in ("next.success", "next.done")}
        dataset = self._dataset.create(
            f"mtwrappers/{self.path.name}",
            config.fps,
            features,
            root=place / "whole",
            use_videos=frames.video,
            video_backend="pyav",  # LeRobot's default requires FFmpeg's libraries
        )
        of_episodes = []
        with _without_bars():
            for episode in episodes:
                own = dict(episode.about)
                rand_vec = np.asarray(own.pop("rand_vec")).tolist()
                of_episodes.append({"seed": episode.seed, **own, "rand_vec": rand_vec})
                task = own.get("task_description", own["task_name"])
                found = _columns(episode, config.features_map)
                columns = {name: value for name, value in found.items() if name in features}
                for t in range(len(episode.actions)):
                    frame = {key: np.atleast_1d(column[t]) for key, column in columns.items()}
                    dataset.add_frame({**frame, "task": task})
                dataset.save_episode()
            dataset.finalize()
        path: Path = place / "whole"
        shutil.rmtree(path / "images", ignore_errors=True)  # the folders of frames on their way
        assert env.spec is not None
        spec = {"env_spec": json.loads(env.spec.to_json())}
        described = {**about, **spec, "episodes": of_episodes}
        (path / ABOUT).write_text(json.dumps(described, indent=2) + "\n")
        return path


def _columns(episode: Replayed, names: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """The features of an episode, ``(T, ...)``."""
    seen = episode.observations
    if not (isinstance(seen, dict) and "pixels" in seen):
        seen = {"pixels": seen}  # frames alone
    if isinstance(seen["pixels"], dict):
        seen = seen | {f"pixels/{camera}": own for camera, own in seen["pixels"].items()}
    columns = {names[key]: value[:-1] for key, value in seen.items() if key in names}
    for name, column in columns.items():
        if column.dtype != np.uint8:
            columns[name] = column.astype(np.float32)
    return {
        **columns,
        "action": episode.actions,
        "next.reward": episode.rewards.astype(np.float32),
        "next.success": episode.successes,
        "next.done": episode.terminations | episode.truncations,
    }


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """Disables the progress bars of LeRobot's libraries, one per episode."""
    datasets = import_extra("datasets", "lerobot")
    disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not disabled:
            datasets.enable_progress_bars()


def _feature(dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    names = ["height", "width", "channels"] if len(shape) == 3 else None
    return {"dtype": dtype, "shape": shape, "names": names}
