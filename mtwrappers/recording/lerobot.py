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
from mtwrappers.recording.episodes import Episode, RecordingError, Stored
from mtwrappers.recording.record import Env, Settings, requirements
from mtwrappers.state.files import load_json

# The file beside LeRobot's own with all that is needed to replay the episodes.
_ABOUT = Path("meta", "mtwrappers.json")
_MAX_ABOUT = 2**28
# No video frame is read here, and LeRobot's default requires FFmpeg's libraries.
_BACKEND = "pyav"
_FLAGS = ("next.success", "next.done")


class LeRobotStore:
    """A LeRobotDataset, in LeRobot's folder of datasets (``HF_LEROBOT_HOME``).

    Its features are those of the environment that `mtwrappers.adapters.lerobot` gives to LeRobot,
    with the reward, the success and the end of each step, as LeRobot's own recordings have them.

    Args:
        name: Such as ``"me/mt10"``, LeRobot's ``repo_id``.

    Raises:
        DependencyNotInstalled: If LeRobot is not installed.
        RecordingError: If LeRobot has no such names.
    """

    packages: Sequence[str] = (
        "mtwrappers",
        "metaworld",
        "mujoco",
        "gymnasium",
        "numpy",
        "scipy",
        "lerobot",
    )

    def __init__(self, name: str) -> None:
        datasets = import_extra("lerobot.datasets.lerobot_dataset", "lerobot")
        self._dataset, self._metadata = datasets.LeRobotDataset, datasets.LeRobotDatasetMetadata
        home: Path = import_extra("lerobot.utils.constants", "lerobot").HF_LEROBOT_HOME
        hub: Any = import_extra("huggingface_hub.utils", "lerobot")
        try:
            hub.validate_repo_id(name)
        except hub.HFValidationError:
            raise RecordingError(f"a name for LeRobot must look like me/mt10, got {name}") from None
        self._name, self.address, self.path = name, f"lerobot:{name}", home / name

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The frames and sentences that policies receive in LeRobot's environment."""
        config = _adapter().MTWrappersEnv()
        return {"size": config.observation_height, "descriptions": config.descriptions}

    def write(self, place: Path, env: Env, settings: Settings, episodes: Iterator[Episode]) -> Path:
        """Writes the dataset into a subfolder of ``folder``; returns the subfolder."""
        config = _adapter().MTWrappersEnv(
            observation_height=settings.size,
            observation_width=settings.size,
            camera_name=",".join(settings.camera),
        )
        dtype = "video" if settings.video else "image"
        features = {
            config.features_map[key]: _visual(dtype, one.shape)
            if one.type.value == "VISUAL"
            else _numbers("float32", one.shape)
            for key, one in config.features.items()
        }
        features["next.reward"] = _numbers("float32", (1,))
        features |= {flag: _numbers("bool", (1,)) for flag in _FLAGS}
        dataset = self._dataset.create(
            self._name,
            config.fps,
            features,
            root=place,
            use_videos=settings.video,
            video_backend=_BACKEND,
        )
        about = []
        with _without_bars():
            for episode in episodes:
                about.append({"seed": episode.seed, **_plain(episode.about)})
                columns = _columns(episode)
                for t in range(len(episode.actions)):
                    frame = {key: np.atleast_1d(column[t]) for key, column in columns.items()}
                    dataset.add_frame({**frame, "task": episode.about["task_description"]})
                dataset.save_episode()
            dataset.finalize()
        shutil.rmtree(place / "images", ignore_errors=True)  # the folders of frames on their way
        assert env.spec is not None
        described = {
            "env_spec": json.loads(env.spec.to_json()),
            "algorithm": settings.algorithm,
            "settings": settings.marker,
            "requirements": requirements(self.packages),
            "video": settings.video,
            "episodes": about,
        }
        (place / _ABOUT).write_text(json.dumps(described, indent=2) + "\n")
        return place

    def stored(self, episode: Episode) -> Stored:
        """Returns the stored form: no last observation, numbers as float32."""
        return Stored(episode.seed, episode.about, episode.actions, _columns(episode))

    def read(self, path: Path) -> Iterator[Stored]:
        """Yields the episodes of the dataset at a path."""
        about = _described(path)
        with _offline():
            self._require_files(path, len(about["episodes"]))
            dataset = self._dataset(self._name, root=path, video_backend=_BACKEND)
        lossy = set(dataset.meta.video_keys)
        rows = dataset.hf_dataset.with_format("numpy")
        ends = np.cumsum([one["length"] for one in dataset.meta.episodes])
        for own, end, one in zip(about["episodes"], ends, dataset.meta.episodes, strict=True):
            found = rows[int(end) - one["length"] : int(end)]
            columns: dict[str, Any] = {
                key: None if key in lossy else found[key]
                for key in dataset.features
                if key.startswith(("observation", "action", "next."))
            }
            own = {**own, "rand_vec": np.array(own["rand_vec"])}
            yield Stored(own.pop("seed"), own, columns["action"], columns)

    def _require_files(self, path: Path, episodes: int) -> None:
        """Raises `RecordingError` if a file is missing, which LeRobot would try to download."""
        for pattern in ("meta/info.json", "meta/tasks.parquet", "meta/episodes/*/*.parquet"):
            if not any(path.glob(pattern)):
                raise RecordingError(f"there is no {path / pattern}, and nothing is downloaded")
        meta = self._metadata(self._name, root=path)
        if meta.total_episodes != episodes:
            raise RecordingError(
                f"{path / _ABOUT} has {episodes} episodes, and {path / 'meta' / 'info.json'} "
                f"{meta.total_episodes}"
            )
        for i in range(episodes):
            videos = [meta.get_video_file_path(i, key) for key in meta.video_keys]
            for file in (meta.get_data_file_path(i), *videos):
                if not (path / file).is_file():
                    raise RecordingError(f"there is no {path / file}, and nothing is downloaded")

    def spec(self) -> Mapping[str, Any]:
        """Returns the spec of the dataset's environment."""
        found: Mapping[str, Any] = _described(self.path)["env_spec"]
        return found

    def requirements(self) -> list[str]:
        """Returns the packages that recorded the dataset."""
        found: list[str] = _described(self.path)["requirements"]
        return found

    def marker(self) -> Any:
        """The settings that it was recorded with, or ``None``."""
        return _described(self.path).get("settings")


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Refuses what would go to the network, as ``HF_HUB_OFFLINE=1`` does."""
    constants = import_extra("huggingface_hub.constants", "lerobot")
    errors = import_extra("huggingface_hub.errors", "lerobot")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as exc:
        raise RecordingError(
            "LeRobot would download what its files lack, and nothing is downloaded: "
            f"{str(exc).splitlines()[0]}"
        ) from None
    finally:
        constants.HF_HUB_OFFLINE = before


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


def _adapter() -> Any:
    return import_extra("mtwrappers.adapters.lerobot", "lerobot")


def _visual(dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "names": ["height", "width", "channels"]}


def _numbers(dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "names": None}


def _columns(episode: Episode) -> dict[str, NDArray[Any]]:
    """Returns the features of an episode, ``(T, ...)``."""
    obs = episode.observations
    frames = obs["pixels"]
    if isinstance(frames, dict):
        images = {f"observation.images.{camera}": own[:-1] for camera, own in frames.items()}
    else:
        images = {"observation.image": frames[:-1]}
    return {
        **images,
        "observation.state": obs["environment_state"][:-1, :4].astype(np.float32),
        "action": episode.actions,
        "next.reward": episode.rewards.astype(np.float32),
        "next.success": episode.terminations,
        "next.done": episode.terminations | episode.truncations,
    }


def _described(path: Path) -> dict[str, Any]:
    """Reads the file beside LeRobot's own with all that is needed to replay the episodes."""
    try:
        found = load_json(path / _ABOUT, _MAX_ABOUT)
    except FileNotFoundError:
        raise RecordingError(
            f"there is no {path / _ABOUT}, which mtwrappers record writes"
        ) from None
    if not isinstance(found, dict):
        raise RecordingError(f"expected a JSON object in {path / _ABOUT}, got {found!r:.40}")
    return found


def _plain(about: dict[str, Any]) -> dict[str, Any]:
    return {**about, "rand_vec": np.asarray(about["rand_vec"]).tolist()}
