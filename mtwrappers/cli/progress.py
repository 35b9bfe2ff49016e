"""What a rollout has finished so far, kept in a file."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

from mtwrappers.cli.common import UsageError
from mtwrappers.evaluation.episodes import Episode, Observer
from mtwrappers.evaluation.plan import Slot

NAME = "progress.jsonl"
FORMAT = "mtwrappers.rollout/1"
START = "start one with: mtwrappers rollout MT10 --out DIR"
# Whatever takes part in an episode's numbers.
PACKAGES = ("gymnasium", "metaworld", "mtwrappers", "mujoco", "numpy", "scipy")


class Progress(Observer):
    """Writes each finished episode as a line of JSON, below a line with the settings.

    Every episode begins with a seed of its own, so those that are finished need only be remembered,
    and one that was not is played anew. Lines are handed to the operating system at once: a kill
    loses none, and a power cut only the last ones, which are played again. A context manager.

    Args:
        directory: Where the rollout writes.
        settings: What determines the rollout, ready for JSON.
        episodes: Those that are finished.
        seconds: How long they took.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Any],
        episodes: Sequence[Episode] = (),
        seconds: float = 0.0,
    ) -> None:
        self.settings, self.episodes, self.seconds = settings, tuple(episodes), seconds
        self.directory = directory
        self._file: BinaryIO
        self._started = False

    @classmethod
    def load(cls, directory: Path) -> Progress:
        """What was written into a directory.

        Raises:
            UsageError: If there is nothing, or other versions wrote it.
        """
        path = directory / NAME
        try:
            header, *lines = [*_whole_lines(path.read_bytes())] or [{}]
        except OSError as exc:
            raise UsageError(f"no rollout to resume: {path}: {exc.strerror}; {START}") from None
        if header.get("format") != FORMAT:
            raise UsageError(
                f"no rollout to resume: {path} must begin with a line of the format {FORMAT!r}, "
                f"got {header.get('format')!r}; {START}"
            )
        then, now = header["versions"], _versions()
        if changed := [f"{n} {then.get(n)}, not {now[n]}" for n in now if then.get(n) != now[n]]:
            raise UsageError(
                f"the rollout into {directory} was begun with {', '.join(changed)}; install what "
                f"it was begun with, or start again without --resume"
            )
        episodes = [Episode(**line["episode"]) for line in lines]
        seconds = lines[-1]["seconds"] if lines else 0.0
        return cls(directory, header["settings"], episodes, seconds)

    def __enter__(self) -> Progress:
        """Writes what is known in the place of an earlier file, which stays until it is written.

        Raises:
            UsageError: If it cannot be written.
        """
        path = self.directory / NAME
        fresh = path.with_suffix(".new")
        header = {"format": FORMAT, "settings": self.settings, "versions": _versions()}
        lines = [{"seconds": self.seconds, "episode": asdict(e)} for e in self.episodes]
        try:
            self._file = fresh.open("wb")
            self._write(header, *lines)
            os.fsync(self._file.fileno())
            os.replace(fresh, path)
            self._started = True
        except OSError as exc:
            raise UsageError(
                f"cannot write to {self.directory}: {exc.strerror}; make room, or choose another "
                "directory with --out DIR"
            ) from None
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):  # a full disk, which was told of
            self._file.close()

    def plan(self, slots: Sequence[Slot]) -> None:
        """Starts the clock."""
        self._began = time.perf_counter()

    def end(self, i: int, episode: Episode) -> None:
        """Writes an episode."""
        seconds = self.seconds + time.perf_counter() - self._began
        try:
            self._write({"seconds": seconds, "episode": asdict(episode)})
        except OSError as exc:
            raise cannot_write(self.directory, exc) from None

    def remove(self) -> None:
        """Removes the file, if it was started."""
        if self._started:
            (self.directory / NAME).unlink(missing_ok=True)

    def _write(self, *lines: Mapping[str, Any]) -> None:
        for line in lines:
            self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()


def how_to_resume(directory: Path) -> str:
    """What to type to go on."""
    return f"mtwrappers rollout --resume {shlex.quote(str(directory))}"


def cannot_write(directory: Path, exc: OSError) -> UsageError:
    """What to say of a full disk, once there are episodes that are kept."""
    return UsageError(
        f"cannot write to {directory}: {exc.strerror or exc}; the episodes that were finished are "
        f"kept: go on with {how_to_resume(directory)}"
    )


def _whole_lines(text: bytes) -> Iterator[dict[str, Any]]:
    """The lines up to the first that was cut."""
    for line in text.split(b"\n")[:-1]:
        try:
            value = json.loads(line)
        except ValueError:  # such as the zeros that a power cut leaves
            return
        if not isinstance(value, dict):
            return
        yield value


@functools.cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}
