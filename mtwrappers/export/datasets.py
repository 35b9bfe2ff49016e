"""Datasets of Minari and LeRobot, written from replayed episodes."""

from __future__ import annotations

import functools
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation.remake import VerificationError
from mtwrappers.export.writer import WriterProcess
from mtwrappers.metaworld.observations import CAMERA, ObservationName

Env: TypeAlias = gymnasium.Env[Any, Any]
# Frames are square, with sides of this many pixels.
SIZE = 480
# The size of a chunk in Minari's file, which is compressed and read as a whole.
_CHUNK_BYTES = 2**20
_ROOT = "MINARI_DATASETS_PATH"
# The file beside LeRobot's own with all that is needed to replay the episodes.
ABOUT = Path("meta", "mtwrappers.json")


class ExportError(VerificationError):
    """A result that cannot be exported, or whose replay differs from it."""


@dataclass(frozen=True)
class Replayed:
    """A replayed episode of ``T`` steps.

    Args:
        about: ``seed`` (of its reset), ``task_name``, ``task_description`` (if there is one),
            ``task_state``, ``rand_vec`` (Meta-World's random vector) and ``number`` within the
            evaluation.
        data: By their names in Minari: ``observations``, ``(T + 1, O)`` float64, or a dict with
            frames ``(T + 1, H, W, 3)`` uint8 under ``pixels``, for several cameras a dict of them,
            or the frames alone; ``actions``, ``(T, 4)`` float32, in [-1, 1]; ``rewards``, ``(T,)``
            float64; ``terminations`` and ``truncations``, ``(T,)`` bool.
        successes: ``(T,)`` bool.
    """

    about: dict[str, Any]
    data: dict[str, Any]
    successes: NDArray[np.bool_]


@dataclass(frozen=True)
class Frames:
    """The observations of a dataset's episodes.

    Args:
        observation: ``"state"``, or frames: see `AgentObservation`.
        cameras: The names of the cameras of the frames.
        size: The number of pixels of each side of a frame.
        shadows: Whether frames have shadows and reflections.
        video: Whether to store frames as video, with loss.
    """

    observation: ObservationName = "state"
    cameras: tuple[str, ...] = (CAMERA,)
    size: int = SIZE
    shadows: bool = True
    video: bool = False

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments of an id."""
        if self.observation == "state":
            return {}
        camera = self.cameras[0] if len(self.cameras) == 1 else list(self.cameras)
        view = {"shadows": self.shadows, "width": self.size, "height": self.size}
        return {"observation": self.observation, "camera_name": camera, **view}


class MinariDataset:
    """A dataset of Minari, in its folder of datasets (``MINARI_DATASETS_PATH``).

    Args:
        name: Such as ``"metaworld/mt10-expert-v0"``.
        frames: What its episodes observe.

    Raises:
        DependencyNotInstalled: If Minari is not installed.
        ExportError: If Minari has no such names or would not find the dataset in its folder, or
            frames are to be stored as video.
    """

    packages: Sequence[str] = ("minari",)

    def __init__(self, name: str, frames: Frames) -> None:
        if frames.video:
            raise ExportError("video is for LeRobot: Minari stores frames without loss")
        import_extra("minari", "minari")
        import_extra("h5py", "minari")
        parse = import_extra("minari.dataset.minari_dataset", "minari").parse_dataset_id
        try:
            self._namespace = parse(name)[0]
        except (TypeError, ValueError):
            raise ExportError(
                f"a name for Minari must look like metaworld/mt10-expert-v0, got {name}"
            ) from None
        self._name, self.frames, self.kwargs = name, frames, frames.kwargs
        root = Path(import_extra("minari.storage", "minari").get_dataset_path()).absolute()
        self.path = root / name
        _check_listed(name, root)

    def write(
        self, place: Path, env: Env, episodes: Iterator[Replayed], about: Mapping[str, Any]
    ) -> Path:
        """Writes the dataset, compressed, within a folder; returns its path."""
        path = place / self._name
        described = _DescribedEnv(env.spec, env.observation_space, env.action_space)
        write = functools.partial(_write_minari, self._name, place, described, dict(about))
        with WriterProcess(write, self.path) as writer:
            for episode in episodes:
                writer.send(episode)
        namespaces = import_extra("minari.namespace", "minari")
        if self._namespace and self._namespace not in namespaces.list_local_namespaces():
            namespaces.create_namespace(self._namespace)
        return path


def _check_listed(name: str, root: Path) -> None:
    """Raises `ExportError` for a dataset that Minari would not find again in its folder."""
    segments = name.split("/")
    if "" in segments or "data" in segments:
        raise ExportError(
            "no part of a name for Minari may be 'data', as the folders in its datasets, or empty: "
            f"got {name}"
        )
    for length in range(len(segments)):
        above = root.joinpath(*segments[:length])
        if (above / "data").exists():
            raise ExportError(
                f"{above} has a folder 'data' and so is a dataset for Minari, which finds none "
                f"below it: choose a name other than {name}"
            )


class _DescribedEnv(gymnasium.Env[Any, Any]):
    """The spec and the spaces of an environment, which is all that a dataset keeps of it."""

    def __init__(self, spec: Any, observation_space: Any, action_space: Any) -> None:
        self.spec = spec
        self.observation_space, self.action_space = observation_space, action_space


def _write_minari(
    name: str, place: Path, env: Env, about: dict[str, Any], episodes: Iterator[Replayed]
) -> None:
    """Writes a dataset of Minari within a folder; runs in a process of its own."""
    minari = import_extra("minari", "minari")
    buffer = import_extra("minari.data_collector", "minari").EpisodeBuffer
    all_about: list[dict[str, Any]] = []

    def buffers() -> Iterator[Any]:
        for episode in episodes:
            all_about.append(episode.about)
            yield buffer(seed=episode.about["seed"], **episode.data)

    rounded = ", with actions rounded to float32" * (about["rounded_from"] is not None)
    ends = ", each until its first success" * about["successes"]
    os.environ[_ROOT] = str(place)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="minari")  # there is no author
        dataset = minari.create_dataset_from_buffers(
            name,
            buffers(),
            env=env,
            algorithm_name=about["policy"],
            description=f"The verified episodes of a result{rounded}{ends}.",
            requirements=about["requirements"],
            jpeg_encoding=False,  # which would change frames
        )
    _compress(place / name / "data" / "main_data.hdf5")
    dataset.storage.update_episode_metadata(all_about)
    dataset.storage.update_metadata({"mtwrappers_result": about})


def _compress(path: Path) -> None:
    """Rewrites an HDF5 file with all arrays compressed losslessly."""
    h5py, smaller = import_extra("h5py", "minari"), path.with_name("compressed.hdf5")
    with h5py.File(path) as file, h5py.File(smaller, "w", track_order=True) as new:

        def copy(name: str, stored: Any) -> None:
            if isinstance(stored, h5py.Group):
                new.create_group(name).attrs.update(stored.attrs)
                return
            rows = max(1, _CHUNK_BYTES // (stored.nbytes // len(stored)))
            new.create_dataset(
                name,
                data=stored[:],
                chunks=(min(rows, len(stored)), *stored.shape[1:]),
                maxshape=stored.maxshape,
                compression="gzip",
                shuffle=True,
            )

        file.visititems(copy)
    os.replace(smaller, path)


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
        self.kwargs = {**frames.kwargs, "descriptions": "lerobot-0.6.1"}  # LeRobot's own sentences

    def write(
        self, place: Path, env: Env, episodes: Iterator[Replayed], about: Mapping[str, Any]
    ) -> Path:
        """Writes the dataset into a folder within a folder; returns its path."""
        frames, path = self.frames, place / "whole"
        config = import_extra("mtwrappers.adapters.lerobot", "lerobot").MTWrappersEnv(
            obs_type=frames.observation,
            observation_height=frames.size,
            observation_width=frames.size,
            camera_name=",".join(frames.cameras),
        )
        images = "video" if frames.video else "image"
        features = {
            config.features_map[key]: _feature(
                images if feature.type.value == "VISUAL" else "float32", feature.shape
            )
            for key, feature in config.features.items()
        }
        features["next.reward"] = _feature("float32", (1,))
        features |= {flag: _feature("bool", (1,)) for flag in ("next.success", "next.done")}
        dataset = self._dataset.create(
            f"mtwrappers/{self.path.name}",
            config.fps,
            features,
            root=path,
            use_videos=frames.video,
            video_backend="pyav",  # LeRobot's default requires FFmpeg's libraries
        )
        import_extra("datasets", "lerobot").disable_progress_bars()  # one per episode
        all_about = []
        for episode in episodes:
            episode_about, columns = episode.about, _columns(episode, config)
            all_about.append(episode_about)
            task = episode_about.get("task_description", episode_about["task_name"])
            for t in range(len(episode.successes)):
                frame = {name: np.atleast_1d(column[t]) for name, column in columns.items()}
                dataset.add_frame({**frame, "task": task})
            dataset.save_episode()
        dataset.finalize()
        shutil.rmtree(path / "images", ignore_errors=True)  # the folders of frames on their way
        assert env.spec is not None
        spec = {"env_spec": json.loads(env.spec.to_json())}
        described = {**about, **spec, "episodes": all_about}
        (path / ABOUT).write_text(json.dumps(described, indent=2) + "\n")
        return path


def _columns(episode: Replayed, config: Any) -> dict[str, NDArray[Any]]:
    """The features of an episode by LeRobot's names, with a row (or more) for each step."""
    data = episode.data
    seen = data["observations"]
    if not (isinstance(seen, dict) and "pixels" in seen):
        seen = {"pixels": seen}  # frames alone
    if isinstance(seen["pixels"], dict):
        seen = seen | {f"pixels/{camera}": images for camera, images in seen["pixels"].items()}
    seen = {**seen, "action": data["actions"]}
    columns = {config.features_map[key]: seen[key] for key in config.features}
    columns["next.reward"] = data["rewards"]
    for name, column in columns.items():
        if column.dtype != np.uint8:
            columns[name] = column.astype(np.float32)
    ends = data["terminations"] | data["truncations"]
    return {**columns, "next.success": episode.successes, "next.done": ends}


def _feature(dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    names = ["height", "width", "channels"] if len(shape) == 3 else None
    return {"dtype": dtype, "shape": shape, "names": names}


Dataset: TypeAlias = MinariDataset | LeRobotDataset
