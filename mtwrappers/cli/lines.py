"""The lines of ``unfinished.jsonl``, which are data: nothing in them is taken for granted."""

from __future__ import annotations

import base64
import json
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, BinaryIO, NamedTuple

from numpy.typing import NDArray

from mtwrappers.cli.common import MAX_COUNT, MAX_SEED
from mtwrappers.common.registration import EPISODE_STEPS
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.evidence import actions_of, to_npy

# What is read of a file: longer lines and larger files are none of ours.
MAX_LINE, MAX_SIZE = 2**16, 2**32
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
    "evidence": True,
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


class Line(NamedTuple):
    """A finished episode."""

    seconds: float  # that the rollout had taken by then
    episode: Episode
    actions: NDArray[Any] | None  # (T, 4), or None if they are not kept

    def to_json(self) -> dict[str, Any]:
        """What `of_line` reads."""
        kept = self.actions
        actions = None if kept is None else base64.b64encode(to_npy(kept)).decode()
        return {"seconds": self.seconds, "episode": asdict(self.episode), "actions": actions}


def whole_lines(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """The lines of a file up to the first that was cut, each with the place where it ends."""
    end = 0
    while (line := file.readline(MAX_LINE)).endswith(b"\n"):
        try:
            data = json.loads(line)
        except RecursionError:
            data = None
        except ValueError:  # such as the zeros that a power cut leaves
            return
        end += len(line)
        yield end, data
    if len(line) == MAX_LINE and line.strip(b"\0"):
        yield end, None


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


def of_line(line: Any, settings: Mapping[str, Any]) -> Line:
    """The episode in a line, or `ValueError` unless such a rollout may have it."""
    if not isinstance(line, dict) or line.keys() != {"seconds", "episode", "actions"}:
        raise ValueError(f"expected seconds, an episode and actions, got {reprlib.repr(line)}")
    seconds, episode = line["seconds"], Episode.from_dict(line["episode"])
    if type(seconds) not in (int, float) or not 0 <= seconds < MAX_SECONDS:
        raise ValueError(f"seconds cannot be {reprlib.repr(seconds)}")
    if len(episode.task) > 100:
        raise ValueError(f"there is no task {reprlib.repr(episode.task)}")
    most = {"length": EPISODE_STEPS, "number": settings["episodes"] - 1, "episode_return": 1e9}
    for name, limit in most.items():
        if abs(value := getattr(episode, name)) > limit:
            raise ValueError(f"{name} cannot be {value!r}")
    return Line(seconds, episode, _actions(line["actions"], episode, settings["evidence"]))


def _actions(text: Any, episode: Episode, kept: bool) -> NDArray[Any] | None:
    if not kept and text is None:
        return None
    if not kept or not isinstance(text, str):
        raise ValueError(f"actions cannot be {reprlib.repr(text)}")
    actions = actions_of("actions", base64.b64decode(text, validate=True))
    if actions.shape != (episode.length, 4):
        raise ValueError(f"{episode.length} actions cannot be of the shape {actions.shape}")
    return actions


def _is_version(value: Any) -> bool:
    return type(value) is str and re.fullmatch(r"[\w.+!-]{1,50}", value, re.ASCII) is not None
