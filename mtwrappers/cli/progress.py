"""What a rollout has finished so far, kept in a file, and how a rollout begins or goes on."""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import reprlib
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from mtwrappers.cli.common import POLICIES, RESULTS, UsageError
from mtwrappers.cli.lines import DEFAULTS, MAX_SIZE, Line, of_header, of_line, whole_lines
from mtwrappers.evaluation.episodes import Episode, PlannedEpisode
from mtwrappers.evaluation.evidence import ActionRecorder, EvidenceWriter
from mtwrappers.evaluation.result import versions
from mtwrappers.samplers.rollout import Step
from mtwrappers.state.files import opened

NAME = "unfinished.jsonl"
FORMAT = "mtwrappers.rollout/3"
START = "start one with: mtwrappers rollout MT10 --out DIR"


class Progress(ActionRecorder):
    """Writes each finished episode with its actions as a line of JSON, below one with the settings.

    Every episode begins with its seed, so finished ones need only be remembered, and one that was
    not finished is played again from its start. Lines are handed to the operating system at once:
    a kill loses none, and a power cut only the last ones, which are played again. A context
    manager.
    """

    def __init__(self, directory: Path, settings: Mapping[str, Any], size: int = 0) -> None:
        super().__init__(self.add)
        self.directory, self.settings = directory, settings
        self.episodes: dict[Episode, int] = {}  # the finished ones, and where their lines begin
        self.resumed = 0  # how many of them were in the file
        self.planned = 0
        self.bar: Any = None  # a progress bar to be kept up to date, if there is one
        self._file: BinaryIO
        self._size = size  # how many bytes of the file are to be kept
        self._before, self._began = 0.0, 0.0

    @classmethod
    def load(cls, directory: Path) -> Progress:
        """What was written into a directory, if these versions wrote it."""
        path, number = directory / NAME, 1
        try:
            with opened(path, MAX_SIZE) as file:
                lines = whole_lines(file)
                first: tuple[int, Any] = next(lines, (0, None))
                size, header = first
                found = header.get("format") if isinstance(header, dict) else None
                if found != FORMAT:
                    raise UsageError(
                        f"no rollout to resume: {path} must begin with a line of the format "
                        f"{FORMAT!r}, got {reprlib.repr(found)}; {START}"
                    )
                then, settings = of_header(header)
                kept = cls(directory, settings, size)
                for size, data in lines:
                    number += 1
                    line = of_line(data, settings)
                    if line.episode in kept.episodes:
                        raise ValueError("its episode is there twice")
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
                f"the rollout into {directory} was begun with {', '.join(changed)}; install what "
                f"it was begun with, or start again without --resume"
            )
        kept.resumed = len(kept.episodes)
        return kept

    def __enter__(self) -> Progress:
        """Opens the file: a new one, or that which was loaded, up to its last whole line."""
        path = self.directory / NAME
        try:
            if path.exists() and not path.is_file():  # a pipe would be waited for
                raise OSError(errno.EINVAL, f"{NAME} is not a regular file")
            self._file = path.open("ab" if self._size else "wb")
            if self._size:
                self._file.truncate(self._size)
            else:
                self._write({"format": FORMAT, "settings": self.settings, "versions": versions()})
        except OSError as exc:
            raise cannot_begin(self.directory, exc) from None
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):  # a full disk, which was reported before
            self._file.close()

    @property
    def seconds(self) -> float:
        """How long the rollout has taken."""
        return self._before + (time.perf_counter() - self._began if self.planned else 0.0)

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Starts the clock, and notes the order of the episodes."""
        self._began, self.planned = time.perf_counter(), len(episodes)
        self._order = {
            (episode.task, episode.number): place for place, episode in enumerate(episodes)
        }

    def step(self, step: Step) -> None:
        """Notes the actions of a step, if they are to be kept."""
        if self.settings["evidence"]:
            super().step(step)

    def end(self, i: int, episode: Episode) -> None:
        """Takes an episode."""
        if self.settings["evidence"]:
            super().end(i, episode)
        else:
            self.add(episode, None)

    def add(self, episode: Episode, actions: NDArray[Any] | None) -> None:
        """Writes an episode and its actions, ``(T, 4)``."""
        self.episodes[episode] = self._size
        try:
            self._write(Line(self.seconds, episode, actions).to_json())
        except OSError as exc:
            raise cannot_write(self.directory, self.settings["policy"], exc) from None
        if self.bar is not None:
            steps = sum(e.length for e in [*self.episodes][self.resumed :])
            rate = f"{steps / (self.seconds - self._before):,.0f} steps/s"
            self.bar(total=self.planned, completed=len(self.episodes), rate=rate)

    def in_order(self) -> list[Episode]:
        """The finished episodes, in the order of the plan."""
        return sorted(self.episodes, key=lambda episode: self._order[episode.task, episode.number])

    def write_evidence(self, path: Path) -> str:
        """Writes the actions of the finished episodes, in that order; returns their digest."""
        with (self.directory / NAME).open("rb") as file, EvidenceWriter(path) as writer:
            for episode in self.in_order():
                file.seek(self.episodes[episode])
                actions = of_line(json.loads(file.readline()), self.settings).actions
                assert actions is not None  # as each line was checked
                writer.add(episode, actions)
            return writer.digest

    def remove(self) -> None:
        """Removes the file."""
        (self.directory / NAME).unlink(missing_ok=True)

    def _write(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        self._file.write(data)
        self._file.flush()
        self._size += len(data)


def begun(args: argparse.Namespace) -> Progress:
    """The progress of a new rollout: none."""
    if args.benchmark is None:
        raise UsageError(
            "the following arguments are required: benchmark, or --resume DIR; such as: mtwrappers "
            "rollout MT10"
        )
    given = _given(args)
    settings = {name: DEFAULTS[name] if given[name] is None else given[name] for name in DEFAULTS}
    return Progress(args.out or Path("results"), settings)


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command gives, ``None`` for those that it leaves out."""
    return {name: getattr(args, name) for name in DEFAULTS}


def resumed(args: argparse.Namespace) -> Progress | None:
    """The progress of the rollout into ``args.resume``; ``None`` if that is complete."""
    directory = args.resume
    if args.video:
        raise UsageError(
            "--video films a rollout from its start, --resume plays what is left; leave one out"
        )
    if args.out is not None and args.out.resolve() != directory.resolve():
        raise UsageError(
            f"--resume {directory} writes into that directory, got --out {args.out}; "
            "leave --out away"
        )
    complete = None if (directory / NAME).exists() else _settings_of_results(directory)
    progress = None if complete else Progress.load(directory)
    command = _given(args)
    for name, value in (progress.settings if progress else complete or {}).items():
        given = command[name]
        if given is not None and given != value:
            raise UsageError(
                f"the rollout into {directory} was begun with {name} {reprlib.repr(value)}, got "
                f"{given!r}; leave it out, or start another rollout with another --out"
            )
    if progress and progress.settings["policy"] not in (*POLICIES, args.policy):
        # What code to run comes from the command alone, not from a file that is read.
        raise UsageError(
            f"the rollout into {directory} was begun with a policy of your own: give --policy again"
        )
    return progress


def how_to_resume(directory: Path, policy: str) -> str:
    """The command that resumes a rollout."""
    played = "" if policy in POLICIES else f" --policy {shlex.quote(policy)}"
    return f"mtwrappers rollout --resume {shlex.quote(str(directory))}{played}"


def cannot_begin(directory: Path, exc: OSError) -> UsageError:
    """The error for a directory that cannot be written to."""
    return UsageError(
        f"cannot write to {directory}: {exc.strerror}; choose another directory with --out DIR"
    )


def foreign(directory: Path, exc: Exception) -> UsageError:
    """The error for finished episodes that do not belong to the settings beside them."""
    return UsageError(f"{directory / NAME} was not written by a rollout: {exc}; {START}")


def cannot_write(directory: Path, policy: str, exc: OSError) -> UsageError:
    """The error for a full disk, once there are finished episodes."""
    return UsageError(
        f"cannot write to {directory}: {exc.strerror or exc}; the episodes that were finished are "
        f"kept: go on with {how_to_resume(directory, policy)}"
    )


def _settings_of_results(directory: Path) -> dict[str, Any] | None:
    """The settings in the results of a complete rollout; ``None`` if there are no such results."""
    try:
        with opened(directory / RESULTS, MAX_SIZE) as file:
            results = json.load(file)["rollout"]
        if results["interrupted"]:
            return None
        return {name: results[name] for name in ("benchmark", "policy", "episodes", "seed")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
