"""The lines of ``progress.jsonl``, which are read as data: nothing in them is taken for granted."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mtwrappers.cli.common import MAX_COUNT, MAX_SEED
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.files import opened
from mtwrappers.registration import EPISODE_STEPS

# What is read of a file: longer lines and larger files are none of ours.
MAX_LINE, MAX_SIZE = 2**16, 2**28
MAX_SECONDS = 1e9
# What determines a rollout, and what it is where the command does not say.
DEFAULTS: dict[str, Any] = {
    "benchmark": None,
    "task": [],
    "policy": "expert",
    "episodes": 5,
    "seed": 0,
    "no_fast": False,
    "protocol": None,
    "name": None,
    "evidence": False,
}
_IS_SETTING: dict[str, Callable[[Any], bool]] = {
    "benchmark": lambda value: type(value) is str and len(value) < 100,
    "task": lambda value: type(value) is list and all(type(name) is str for name in value),
    "policy": lambda value: type(value) is str,
    "episodes": lambda value: type(value) is int and 1 <= value <= MAX_COUNT,
    "seed": lambda value: type(value) is int and 0 <= value <= MAX_SEED,
    "no_fast": lambda value: type(value) is bool,
    "protocol": lambda value: value is None or type(value) is str,
    "name": lambda value: value is None or type(value) is str,
    "evidence": lambda value: type(value) is bool,
}


def whole_lines(path: Path) -> tuple[int, list[Any]]:
    """The lines of a file up to the first that was cut, and how many bytes they take."""
    with opened(path, MAX_SIZE) as file:
        size, lines = 0, []
        while (line := file.readline(MAX_LINE)).endswith(b"\n"):
            try:
                lines.append(json.loads(line))
            except RecursionError:
                lines.append(None)
            except ValueError:  # such as the zeros that a power cut leaves
                break
            size += len(line)
        if len(line) == MAX_LINE and line.strip(b"\0"):
            lines.append(None)
    return size, lines or [None]


def of_header(header: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The versions and the settings in the first line, or `ValueError`."""
    if set(header) != {"format", "settings", "versions"}:
        raise ValueError(f"expected format, settings and versions, got {reprlib.repr([*header])}")
    versions, settings = header["versions"], header["settings"]
    if not isinstance(versions, dict) or not all(map(_is_version, versions.values())):
        raise ValueError(f"expected versions, got {reprlib.repr(versions)}")
    if not isinstance(settings, dict) or settings.keys() != DEFAULTS.keys():
        raise ValueError(f"expected settings {[*DEFAULTS]}, got {reprlib.repr(settings)}")
    for name, value in settings.items():
        if not _IS_SETTING[name](value):
            raise ValueError(f"{name} cannot be {reprlib.repr(value)}")
    return versions, settings


def check_line(line: Any, settings: Mapping[str, Any]) -> None:
    """Raises `ValueError` unless a line is of an episode that such a rollout may have."""
    if not isinstance(line, dict) or line.keys() != {"seconds", "episode"}:
        raise ValueError(f"expected seconds and an episode, got {reprlib.repr(line)}")
    seconds, episode = line["seconds"], Episode.from_dict(line["episode"])
    if type(seconds) not in (int, float) or not 0 <= seconds < MAX_SECONDS:
        raise ValueError(f"seconds cannot be {reprlib.repr(seconds)}")
    if len(episode.task) > 100:
        raise ValueError(f"there is no task {reprlib.repr(episode.task)}")
    most = {"length": EPISODE_STEPS, "number": settings["episodes"] - 1, "episode_return": 1e9}
    for name, limit in most.items():
        if abs(value := getattr(episode, name)) > limit:
            raise ValueError(f"{name} cannot be {value!r}")


def _is_version(value: Any) -> bool:
    return type(value) is str and re.fullmatch(r"[\w.+!-]{1,50}", value, re.ASCII) is not None
