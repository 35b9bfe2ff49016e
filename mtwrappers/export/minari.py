"""Datasets of Minari."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mtwrappers.common.extras import import_extra
from mtwrappers.export.export import Env, ExportError, Frames, Replayed

_ROOT = "MINARI_DATASETS_PATH"
# The size of a chunk in the file, which is compressed and read as a whole.
_CHUNK_BYTES = 2**20


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
