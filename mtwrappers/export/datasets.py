"""Datasets of Minari and LeRobot, written from replayed episodes."""

from __future__ import annotations

import contextlib
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
from mtwrappers.metaworld.agent_view import CAMERA, ObservationName

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
        seed: The seed of its reset.
        about: ``task_state``, ``task_name``, ``task_description`` (if there is one), ``rand_vec``
            (Meta-World's random vector) and ``number`` within the evaluation.
        observations: ``(T + 1, O)`` float64; or a dict with frames ``(T + 1, H, W, 3)`` uint8 under
            ``pixels``, for several cameras a dict of them; or the frames alone.
        actions: ``(T, 4)`` float32, in [-1, 1].
        rewards: ``(T,)`` float64.
        terminations: ``(T,)`` bool.
        truncations: ``(T,)`` bool.
        successes: ``(T,)`` bool.
    """

    seed: int
    about: Mapping[str, Any]
    observations: Any
    actions: NDArray[np.float32]
    rewards: NDArray[np.float64]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    successes: NDArray[np.bool_]


@dataclass(frozen=True)
class Frames:
    """The observations of a dataset's episodes.

    Args:
        observation: ``"state"``, or frames: see `PixelObservation`.
        cameras: The names of the cameras of the frames.
        size: The number of pixels of each side of a frame.
        shadows: Whether frames have shadows and reflections.
        descriptions: The sentences of the tasks, see `mtwrappers.metaworld.text`; ``None`` for
            those of the result.
        video: Whether to store frames as video, with loss.
    """

    observation: ObservationName = "state"
    cameras: tuple[str, ...] = (CAMERA,)
    size: int = SIZE
    shadows: bool = True
    descriptions: str | None = None
    video: bool = False

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments of an id."""
        found: dict[str, Any] = {}
        if self.descriptions is not None:
            found["descriptions"] = self.descriptions
        if self.observation == "state":
            return found
        camera = self.cameras[0] if len(self.cameras) == 1 else list(self.cameras)
        view = {"observation": self.observation, "camera_name": camera, "shadows": self.shadows}
        return {**found, **view, "width": self.size, "height": self.size}


class MinariDataset:
    """A dataset of Minari, in its folder of datasets (``MINARI_DATASETS_PATH``).

    Args:
        name: Such as ``"metaworld/mt10-expert-v0"``.
        frames: What its episodes observe.

    Raises:
        DependencyNotInstalled: If Minari is not installed.
        ExportError: If Minari has no such names, or frames are to be stored as video.
    """

    packages: Sequence[str] = ("minari",)

    def __init__(self, name: str, frames: Frames) -> None:
        if frames.video:
            raise ExportError("video is for LeRobot: Minari stores frames without loss")
        self._minari = import_extra("minari", "minari")
        self._h5py = import_extra("h5py", "minari")
        parse = import_extra("minari.dataset.minari_dataset", "minari").parse_dataset_id
        try:
            self._namespace = parse(name)[0]
        except (TypeError, ValueError):
            raise ExportError(
                f"a name for Minari must look like metaworld/mt10-expert-v0, got {name}"
            ) from None
        self._name, self.frames = name, frames
        self.path = Path(import_extra("minari.storage", "minari").get_dataset_path(name))

    def write(
        self, place: Path, env: Env, episodes: Iterator[Replayed], about: Mapping[str, Any]
    ) -> Path:
        """Writes the dataset, compressed, within a folder; returns its path."""
        EpisodeBuffer = import_extra("minari.data_collector", "minari").EpisodeBuffer  # noqa: N806
        of_episodes = []

        def buffers() -> Iterator[Any]:
            for one in episodes:
                of_episodes.append(dict(one.about))
                yield EpisodeBuffer(
                    seed=one.seed,
                    observations=one.observations,
                    actions=one.actions,
                    rewards=one.rewards,
                    terminations=one.terminations,
                    truncations=one.truncations,
                )

        ends = ", each until its first success" * about["successes"]
        with _datasets_in(place), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="minari")  # there is no author
            dataset = self._minari.create_dataset_from_buffers(
                self._name,
                buffers(),
                env=env,
                algorithm_name=about["policy"],
                description=f"The verified episodes of a result{ends}.",
                requirements=about["requirements"],
                jpeg_encoding=False,  # which would change frames
            )
            dataset.storage.update_episode_metadata(of_episodes)
        path = place / self._name
        self._compress(path / "data" / "main_data.hdf5")
        size = dataset.storage.get_size()
        dataset.storage.update_metadata({"dataset_size": size, "mtwrappers_result": dict(about)})
        namespaces = import_extra("minari.namespace", "minari")
        if self._namespace and self._namespace not in namespaces.list_local_namespaces():
            namespaces.create_namespace(self._namespace)
        return path

    def _compress(self, path: Path) -> None:
        """Rewrites an HDF5 file with all arrays compressed losslessly."""
        h5py, smaller = self._h5py, path.with_name("compressed.hdf5")
        with h5py.File(path) as file, h5py.File(smaller, "w", track_order=True) as new:

            def copy(name: str, one: Any) -> None:
                if isinstance(one, h5py.Group):
                    new.create_group(name).attrs.update(one.attrs)
                    return
                rows = max(1, _CHUNK_BYTES // (one.nbytes // len(one)))
                new.create_dataset(
                    name,
                    data=one[:],
                    chunks=(min(rows, len(one)), *one.shape[1:]),
                    maxshape=one.maxshape,
                    compression="gzip",
                    shuffle=True,
                )

            file.visititems(copy)
        os.replace(smaller, path)


@contextlib.contextmanager
def _datasets_in(folder: Path) -> Iterator[None]:
    """Makes Minari store its datasets in a folder."""
    before = os.environ.get(_ROOT)
    os.environ[_ROOT] = str(folder)
    try:
        yield
    finally:
        del os.environ[_ROOT]
        if before is not None:
            os.environ[_ROOT] = before


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


Dataset: TypeAlias = MinariDataset | LeRobotDataset
