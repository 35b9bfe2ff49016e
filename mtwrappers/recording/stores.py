"""Datasets by their addresses: ``minari:NAME`` and ``lerobot:NAME``."""

from __future__ import annotations

from collections.abc import Callable

from mtwrappers.recording.episodes import RecordingError
from mtwrappers.recording.lerobot import LeRobotStore
from mtwrappers.recording.minari import MinariStore
from mtwrappers.recording.record import Store

STORES: dict[str, Callable[[str], Store]] = {"minari": MinariStore, "lerobot": LeRobotStore}


def open_store(address: str) -> Store:
    """The dataset of an address, which need not exist.

    Raises:
        DependencyNotInstalled: If the library is not installed.
        RecordingError: If there is no such library or name.
    """
    library, _, name = address.partition(":")
    if library not in STORES:
        raise RecordingError(f"a dataset must be minari:NAME or lerobot:NAME, got {address!r}")
    return STORES[library](name)
