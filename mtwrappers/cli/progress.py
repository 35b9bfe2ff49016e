"""``unfinished.jsonl``: the settings of a rollout, and its finished episodes.

Its lines are untrusted data, and all of them are checked.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import reprlib
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from numpy.typing import NDArray

from mtwrappers.cli.console import UsageError
from mtwrappers.cli.settings import POLICIES, Settings
from mtwrappers.common.registration import EPISODE_STEPS
from mtwrappers.evaluation import Episode, PlannedEpisode
from mtwrappers.evaluation.evidence import ActionRecorder, EvidenceWriter, actions_of, to_npy
from mtwrappers.evaluation.result import versions
from mtwrappers.samplers.rollout import Step
from mtwrappers.state.files import opened, write_atomically

NAME = "unfinished.jsonl"
FORMAT = "mtwrappers.rollout/5"
START = "start one with: mtwrappers rollout MT10 --out DIR"
# Limits for reading: longer lines and larger files were not written by a rollout.
MAX_LINE, MAX_SIZE = 2**16, 2**32
MAX_SECONDS = 1e9


def cannot_write(directory: Path, exc: OSError) -> UsageError:
    """Returns the error for a directory that is not writable."""
    return UsageError(
        f"cannot write to {directory}: {exc.strerror}; choose another directory with --out DIR"
    )


class Progress(ActionRecorder):
    """Writes a line of JSON with the settings, then one per finished episode with its actions.

    Every episode begins with its seed, so finished episodes need only be kept, and an unfinished
    one is run again from its start. Lines are flushed to the operating system at once: a kill
    loses none, and a power cut only the last ones, which are run again. A context manager.
    """

    def __init__(self, directory: Path, settings: Settings, size: int = 0) -> None:
        super().__init__(self.add)
        self.directory, self.settings = directory, settings
        self.episodes: dict[Episode, int] = {}  # each finished episode: offset of its line
        self.resumed = 0  # the number of episodes that were in the file
        self.planned = 0
        self.bar: Any = None  # called with the progress, if set
        self._file: BinaryIO
        self._size = size  # the number of bytes of the file to keep
        self._before, self._began = 0.0, 0.0

    @classmethod
    def load(cls, directory: Path) -> Progress:
        """Loads the progress in a directory, if it was written by the same versions."""
        path, number = directory / NAME, 1
        try:
            with opened(path, MAX_SIZE) as file:
                lines = _whole_lines(file)
                first: tuple[int, Any] = next(lines, (0, None))
                size, header = first
                found = header.get("format") if isinstance(header, dict) else None
                if found != FORMAT:
                    raise UsageError(
                        f"no rollout to resume: {path} must begin with a line of the format "
                        f"{FORMAT!r}, got {reprlib.repr(found)}; {START}"
                    )
                then, settings = _of_header(header)
                kept = cls(directory, settings, size)
                for size, data in lines:
                    number += 1
                    line = _of_line(data, settings)
                    if line.episode in kept.episodes:
                        raise ValueError("the file contains its episode twice")
                    kept.episodes[line.episode] = kept._size
                    kept._size, kept._before = size, line.seconds
        except OSError as exc:
            raise UsageError(f"no rollout to resume: {path}: {exc.strerror}; {START}") from None
        except ValueError as exc:
            raise UsageError(
                f"line {number} of {path} was not written by a rollout: {exc}; {START}"
            ) from None
        now = {name: text for name, text in versions().items() if name != "python"}
        if changed := [f"{n} {then.get(n)}, not {now[n]}" for n in now if then.get(n) != now[n]]:
            raise UsageError(
                f"the rollout into {directory} was started with {', '.join(changed)}; install "
                f"that version, or start again without --resume"
            )
        kept.resumed = len(kept.episodes)
        return kept

    def __enter__(self) -> Progress:
        """Writes a new file with the settings, or the complete lines of the loaded one.

        Nothing is appended to a file that another program has made, which may be a link.
        """
        path = self.directory / NAME
        try:
            if self._size:
                with opened(path, MAX_SIZE) as file:
                    begun = file.read(self._size)
            else:
                settings = asdict(self.settings)
                begun = _encoded({"format": FORMAT, "settings": settings, "versions": versions()})
                self._size = len(begun)
            write_atomically(path, begun)
            self._file = path.open("ab")
        except OSError as exc:
            raise cannot_write(self.directory, exc) from None
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):  # a full disk, already reported
            self._file.close()

    @property
    def seconds(self) -> float:
        """The duration of the rollout so far."""
        return self._before + (time.perf_counter() - self._began if self.planned else 0.0)

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Starts the clock, and notes the order of the episodes."""
        self._began, self.planned = time.perf_counter(), len(episodes)
        self._order = {
            (episode.task, episode.number): place for place, episode in enumerate(episodes)
        }

    def step(self, step: Step) -> None:
        """Records the actions of a step, if actions are kept."""
        if self.settings.evidence:
            super().step(step)

    def end(self, i: int, episode: Episode) -> None:
        """Records a finished episode."""
        if self.settings.evidence:
            super().end(i, episode)
        else:
            self.add(episode, None)

    def add(self, episode: Episode, actions: NDArray[Any] | None) -> None:
        """Writes an episode and its actions, ``(T, 4)``."""
        self.episodes[episode] = self._size
        try:
            self._write(_Line(self.seconds, episode, actions).to_json())
        except OSError as exc:
            raise self.cannot_go_on(exc) from None
        if self.bar is not None:
            steps = sum(e.length for e in [*self.episodes][self.resumed :])
            rate = f"{steps / (self.seconds - self._before):,.0f} steps/s"
            self.bar(total=self.planned, completed=len(self.episodes), rate=rate)

    def in_order(self) -> list[Episode]:
        """Returns the finished episodes, in the order of the plan."""
        return sorted(self.episodes, key=lambda episode: self._order[episode.task, episode.number])

    def write_evidence(self, path: Path) -> str:
        """Writes the actions of the finished episodes, in this order; returns their digest."""
        with (self.directory / NAME).open("rb") as file, EvidenceWriter(path) as writer:
            for episode in self.in_order():
                file.seek(self.episodes[episode])
                actions = _of_line(json.loads(file.readline()), self.settings).actions
                assert actions is not None  # as each line was checked
                writer.add(episode, actions)
            return writer.digest

    def remove(self) -> None:
        """Removes the file."""
        (self.directory / NAME).unlink(missing_ok=True)

    def how_to_resume(self) -> str:
        """Returns the command that resumes the rollout."""
        policy = self.settings.policy
        own = "" if policy in POLICIES else f" --policy {shlex.quote(policy)}"
        return f"mtwrappers rollout --resume {shlex.quote(str(self.directory))}{own}"

    def cannot_go_on(self, exc: OSError) -> UsageError:
        """Returns the error for a full disk when there are finished episodes."""
        return UsageError(
            f"cannot write to {self.directory}: {exc.strerror or exc}; finished episodes are "
            f"kept: continue with {self.how_to_resume()}"
        )

    def is_foreign(self, exc: Exception) -> UsageError:
        """Returns the error for finished episodes that do not match the settings in the file."""
        path = self.directory / NAME
        return UsageError(f"{path} was not written by a rollout: {exc}; {START}")

    def _write(self, line: Mapping[str, Any]) -> None:
        data = _encoded(line)
        self._file.write(data)
        self._file.flush()
        self._size += len(data)


class _Line(NamedTuple):
    """A finished episode."""

    seconds: float  # since the start of the rollout
    episode: Episode
    actions: NDArray[Any] | None  # (T, 4), or None if they are not kept

    def to_json(self) -> dict[str, Any]:
        """The line as JSON, which `_of_line` reads."""
        kept = self.actions
        actions = None if kept is None else base64.b64encode(to_npy(kept)).decode()
        return {"seconds": self.seconds, "episode": asdict(self.episode), "actions": actions}


def _encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _whole_lines(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """Yields the lines of a file up to the first incomplete one, each after its end offset."""
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


def _of_header(header: Mapping[str, Any]) -> tuple[dict[str, str], Settings]:
    """Returns the versions and settings in the first line, or raises `ValueError`."""
    if set(header) != {"format", "settings", "versions"}:
        raise ValueError(f"expected format, settings and versions, got {reprlib.repr([*header])}")
    found = header["versions"]
    if not isinstance(found, dict) or not all(map(_is_version, found.values())):
        raise ValueError(f"expected versions, got {reprlib.repr(found)}")
    return found, Settings.from_dict(header["settings"])


def _of_line(line: Any, settings: Settings) -> _Line:
    """Returns the episode in a line; raises `ValueError` if the settings rule it out."""
    if not isinstance(line, dict) or line.keys() != {"seconds", "episode", "actions"}:
        raise ValueError(f"expected seconds, an episode and actions, got {reprlib.repr(line)}")
    seconds, episode = line["seconds"], Episode.from_dict(line["episode"])
    if type(seconds) not in (int, float) or not 0 <= seconds < MAX_SECONDS:
        raise ValueError(f"seconds cannot be {reprlib.repr(seconds)}")
    if len(episode.task) > 100:
        raise ValueError(f"there is no task {reprlib.repr(episode.task)}")
    most = {"length": EPISODE_STEPS, "number": settings.episodes - 1, "episode_return": 1e9}
    for name, limit in most.items():
        if abs(value := getattr(episode, name)) > limit:
            raise ValueError(f"{name} cannot be {value!r}")
    return _Line(seconds, episode, _actions(line["actions"], episode, settings.evidence))


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
