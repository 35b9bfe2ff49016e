"""A recording that has not come to its end: a file per episode, beside the datasets."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtwrappers.recording.episodes import Episode, RecordingError
from mtwrappers.state.files import load_json, remove, write_atomically

_MAX_SETTINGS = 2**20
_PARTS = ("observations", "actions", "rewards", "terminations", "truncations")


class Unfinished:
    """The episodes that a recording has so far, in a hidden folder beside its dataset.

    An episode is written, read again and replayed; from `keep` on it counts, also after a kill.

    Args:
        path: Where the dataset will be.
    """

    def __init__(self, path: Path) -> None:
        self.folder = path.with_name(f".{path.name}.unfinished")
        self._settings = self.folder / "settings.json"

    @property
    def begun(self) -> bool:
        """Whether there is such a recording."""
        return self._settings.exists()

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Starts a recording with settings, as JSON has them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._settings, json.dumps(settings, indent=2).encode())

    def settings(self) -> dict[str, Any]:
        """The settings that it was begun with.

        Raises:
            RecordingError: If they cannot be read.
        """
        try:
            found = load_json(self._settings, _MAX_SETTINGS)
        except (OSError, ValueError) as exc:
            raise RecordingError(f"cannot read {self._settings}: {exc}") from None
        if not isinstance(found, dict):
            raise RecordingError(f"{self._settings} was not written by a recording")
        return found

    def has(self, task_state: int) -> bool:
        """Whether a task is done with."""
        return self._file(task_state).exists()

    def has_any(self) -> bool:
        """Whether a task is done with."""
        return any(path.stem.isdecimal() for path in self.folder.glob("*.npz"))

    def write(self, episode: Episode | None) -> None:
        """Writes an episode, None where the policy has failed, which counts from `keep` on."""
        arrays: dict[str, Any] = {}
        if episode is not None:
            about = dict(episode.about)
            arrays["rand_vec"] = about.pop("rand_vec")
            arrays["about"] = np.array(json.dumps({"seed": episode.seed, **about}))
            for part in _PARTS:
                arrays |= _flat(part, getattr(episode, part))
        data = io.BytesIO()
        np.savez(data, **arrays)
        write_atomically(self._file("new"), data.getvalue())

    def keep(self, task_state: int) -> None:
        """Lets the episode that was written count."""
        os.replace(self._file("new"), self._file(task_state))

    def succeeded(self, name: int | str = "new") -> bool:
        """Whether there is an episode of a task, or in what was written last."""
        with np.load(self._file(name)) as file:
            return bool(file.files)

    def read(self, name: int | str = "new") -> Episode:
        """The episode of a task, or what was written last."""
        with np.load(self._file(name)) as file:
            about = json.loads(str(file["about"]))
            seed, about["rand_vec"] = about.pop("seed"), file["rand_vec"]
            return Episode(seed, about, *(_nested(part, file) for part in _PARTS))

    def place(self) -> Path:
        """A folder for the dataset that is being made, empty."""
        whole = self.folder / "whole"
        remove(whole)  # what a kill has left
        return whole

    def remove(self) -> None:
        """Removes all of it."""
        remove(self.folder)

    def _file(self, name: int | str) -> Path:
        return self.folder / f"{name}.npz"


def _flat(name: str, value: Any) -> dict[str, Any]:
    """Arrays in dicts by their path, such as ``observations/pixels``."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key in value for k, v in _flat(f"{name}/{key}", value[key]).items()}


def _nested(name: str, flat: Mapping[str, Any]) -> Any:
    """The array of a path, or the dict of those below it."""
    if name in flat:
        return flat[name]
    below = [path.removeprefix(f"{name}/") for path in flat if path.startswith(f"{name}/")]
    keys = dict.fromkeys(path.partition("/")[0] for path in below)
    return {key: _nested(f"{name}/{key}", flat) for key in keys}
