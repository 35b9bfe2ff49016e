"""Datasets of Minari."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mtwrappers.common.extras import import_extra
from mtwrappers.recording.episodes import Episode, RecordingError, Stored, columns_of
from mtwrappers.recording.record import Env, Settings, requirements
from mtwrappers.state.files import opened

_ROOT = "MINARI_DATASETS_PATH"
_MARKER = "mtwrappers_settings"  # among the metadata
# The size of a chunk in the file, which is compressed and read as a whole.
_CHUNK_BYTES = 2**20
_MAX_METADATA = 2**28  # contains the bounds of each pixel


class MinariStore:
    """A dataset of Minari, in its folder of datasets (``MINARI_DATASETS_PATH``).

    Args:
        name: Such as ``"metaworld/mt10-expert-v0"``.

    Raises:
        DependencyNotInstalled: If Minari is not installed.
        RecordingError: If Minari has no such names.
    """

    packages: Sequence[str] = (
        "mtwrappers",
        "metaworld",
        "mujoco",
        "gymnasium",
        "numpy",
        "scipy",
        "minari",
    )

    def __init__(self, name: str) -> None:
        self._minari = import_extra("minari", "minari")
        self._h5py = import_extra("h5py", "minari")
        self._storage = import_extra("minari.storage", "minari")
        try:
            parse = import_extra("minari.dataset.minari_dataset", "minari").parse_dataset_id
            self._namespace = parse(name)[0]
        except (TypeError, ValueError):
            raise RecordingError(
                f"a name for Minari must look like metaworld/mt10-expert-v0, got {name}"
            ) from None
        self._name, self.address = name, f"minari:{name}"
        self.path = Path(self._storage.get_dataset_path(name))

    @property
    def defaults(self) -> Mapping[str, Any]:
        """No settings: the defaults of `Settings` apply."""
        return {}

    def write(self, place: Path, env: Env, settings: Settings, episodes: Iterator[Episode]) -> Path:
        """Writes the dataset, compressed, into a subfolder; returns the subfolder."""
        EpisodeBuffer = import_extra("minari.data_collector", "minari").EpisodeBuffer  # noqa: N806
        about = []

        def buffers() -> Iterator[Any]:
            for episode in episodes:
                seed, own, *arrays = episode
                about.append(own)
                keys = ("observations", "actions", "rewards", "terminations", "truncations")
                yield EpisodeBuffer(seed=seed, **dict(zip(keys, arrays, strict=True)))

        with _datasets_in(place), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="minari")  # there is no author
            dataset = self._minari.create_dataset_from_buffers(
                self._name,
                buffers(),
                env=env,
                algorithm_name=settings.algorithm,
                description="Episodes up to their first success; each was replayed bit for bit.",
                requirements=requirements(self.packages),
                jpeg_encoding=False,  # which would change frames
            )
            dataset.storage.update_episode_metadata(about)
        path = place / self._name
        self._compress(path / "data" / "main_data.hdf5")
        size = dataset.storage.get_size()
        dataset.storage.update_metadata({"dataset_size": size, _MARKER: settings.marker})
        namespaces = import_extra("minari.namespace", "minari")
        if self._namespace and self._namespace not in namespaces.list_local_namespaces():
            namespaces.create_namespace(self._namespace)
        return path

    def stored(self, episode: Episode) -> Stored:
        """Returns the stored form: the whole episode."""
        return Stored(episode.seed, episode.about, episode.actions, columns_of(episode))

    def read(self, path: Path) -> Iterator[Stored]:
        """Yields the episodes of the dataset at a path."""
        if not {"observation_space", "action_space"} <= self._metadata(path).keys():
            # Minari would make the file's environment by running any code that the file names.
            raise RecordingError("its metadata have no observation_space or no action_space")
        storage = import_extra("minari.dataset.minari_storage", "minari").MinariStorage
        dataset = self._minari.MinariDataset(storage.read(path / "data"))
        for data in dataset.iterate_episodes():
            (about,) = dataset.storage.get_episode_metadata([data.id])
            flags = (data.terminations, data.truncations)
            seed = about.pop("seed")
            yield self.stored(
                Episode(seed, about, data.observations, data.actions, data.rewards, *flags)
            )

    def spec(self) -> Mapping[str, Any]:
        """Returns the spec of the dataset's environment."""
        found: Mapping[str, Any] = json.loads(self._metadata(self.path)["env_spec"])
        return found

    def requirements(self) -> list[str]:
        """Returns the packages that recorded the dataset."""
        found: list[str] = self._metadata(self.path)["requirements"]
        return found

    def marker(self) -> Any:
        """The settings that it was recorded with, or ``None``."""
        return self._metadata(self.path).get(_MARKER)

    def _metadata(self, path: Path) -> Any:
        with opened(file := path / "data" / "metadata.json", _MAX_METADATA) as stream:
            if not isinstance(found := json.load(stream), dict):
                raise RecordingError(f"expected a JSON object in {file}, got {found!r:.40}")
            return found

    def _compress(self, path: Path) -> None:
        """Rewrites an HDF5 file with all arrays compressed losslessly."""
        smaller = path.with_name("compressed.hdf5")
        with (
            self._h5py.File(path, "r") as file,
            self._h5py.File(smaller, "w", track_order=True) as new,
        ):
            for i in range(len(file)):
                self._copy(file[f"episode_{i}"], new.create_group(f"episode_{i}"))
        os.replace(smaller, path)

    def _copy(self, group: Any, new: Any) -> None:
        new.attrs.update(group.attrs)
        for name, value in group.items():
            if isinstance(value, self._h5py.Group):
                self._copy(value, new.create_group(name))
                continue
            rows = max(1, _CHUNK_BYTES // (value.nbytes // len(value)))
            new.create_dataset(
                name,
                data=value[:],
                chunks=(min(rows, len(value)), *value.shape[1:]),
                maxshape=value.maxshape,
                compression="gzip",
                shuffle=True,
            )


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
