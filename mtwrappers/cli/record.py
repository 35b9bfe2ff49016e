"""``mtwrappers record``: a dataset of successful episodes."""

from __future__ import annotations

import contextlib
import dataclasses
import reprlib
import shlex
from collections.abc import Mapping
from typing import Any

from mtwrappers.cli import ctrl_c
from mtwrappers.cli.classes import count_classes, full_name
from mtwrappers.cli.console import UsageError, say
from mtwrappers.cli.directory import locked
from mtwrappers.cli.own import Own, load_policy, own_errors
from mtwrappers.metaworld.text import check_descriptions
from mtwrappers.recording.episodes import RecordingError
from mtwrappers.recording.record import Settings, Store, record, requirements
from mtwrappers.recording.stores import open_store
from mtwrappers.recording.unfinished import Unfinished

_OF_FRAMES = ("camera", "no_shadows")


def run(given: Mapping[str, Any], out: str | None, resume: str | None) -> int:
    """Runs the command; returns its exit code. ``given`` has the settings that are not default."""
    if resume is not None and out not in (None, resume):
        raise UsageError(f"--resume {resume} continues that dataset, got --out {out}")
    address = resume or out
    if address is None:
        raise UsageError(
            "--out is required, or --resume; such as: mtwrappers record MT10 --out "
            "minari:metaworld/mt10-expert-v0"
        )
    try:
        given = _stored(given)
        store = open_store(address)
        unfinished = Unfinished(store.path)
        if resume is None:
            settings = _new_settings(given, store, unfinished)
        elif store.path.exists():
            settings = _recorded(store)
            policy = dataclasses.replace(settings, **given).marker["policy"]
            _require_same({**given, "policy": policy}, settings.marker, store)
            unfinished.remove()  # left by a kill
            say(f"The recording of {resume} is complete: see {store.path}.")
            return 0
        else:
            settings = _resumed(given, store, unfinished)
        own = None if settings.policy == "expert" else load_policy(settings.policy)
        return _record(store, unfinished, settings, own)
    except RecordingError as exc:
        raise UsageError(str(exc)) from None


def _stored(given: Mapping[str, Any]) -> dict[str, Any]:
    """Converts settings to their stored form, with the full name of the benchmark."""
    given = dict(given)
    if "benchmark" in given:
        given["benchmark"] = full_name(given["benchmark"])
    try:
        if "descriptions" in given:
            check_descriptions(given["descriptions"])
    except ValueError as exc:
        raise UsageError(f"--descriptions: {exc}") from None
    return given


def _new_settings(given: Mapping[str, Any], store: Store, unfinished: Unfinished) -> Settings:
    """Returns the settings of a new recording, whose dataset must not exist."""
    if store.path.exists():
        raise UsageError(f"{store.address} exists: choose another --out, or delete {store.path}")
    if unfinished.begun:
        raise UsageError(
            f"a recording of {store.address} is unfinished: continue it with --resume "
            f"{store.address}, or, if no command is recording it, delete {unfinished.folder}"
        )
    if "benchmark" not in given:
        raise UsageError("a benchmark is required; such as: mtwrappers record MT10 --out DATASET")
    if given.get("policy") == "random":
        raise UsageError("only successful episodes are recorded, and random actions have none")
    settings = Settings(**{**store.defaults, **given})
    if settings.size is None and (of_frames := [name for name in _OF_FRAMES if name in given]):
        option = of_frames[0].replace("_", "-")
        raise UsageError(f"--{option} is for frames: add them with --size")
    if settings.action_chunk is not None and settings.policy == "expert":
        raise UsageError(
            "--action-chunk is for a policy of your own that returns chunks of actions"
        )
    if settings.video and not store.address.startswith("lerobot:"):
        raise UsageError("--video is for lerobot:NAME; Minari stores frames without loss")
    count_classes(settings.benchmark, settings.task, settings.seed)
    try:
        settings.make().close()
    except (TypeError, ValueError) as exc:
        raise UsageError(str(exc)) from None
    return settings


def _resumed(given: Mapping[str, Any], store: Store, unfinished: Unfinished) -> Settings:
    """Returns the settings of a recording to resume; the ``given`` ones must be equal to them."""
    if not unfinished.begun:
        raise UsageError(f"there is no unfinished recording of {store.address}")
    begun = unfinished.settings()
    then = begun.pop("requirements", None)
    if then != (now := requirements(store.packages)):
        raise UsageError(
            f"{store.address} was started with {reprlib.repr(then)}, got {', '.join(now)}; "
            "install the versions it was started with"
        )
    settings = Settings.from_dict(begun)
    _require_same(given, dataclasses.asdict(settings), store)
    if settings.policy not in ("expert", given.get("policy")):
        # The code to run is named by the command only, never by a file.
        raise UsageError(
            f"{store.address} was started with a policy of your own: pass --policy again"
        )
    return settings


def _recorded(store: Store) -> Settings:
    """The settings that a complete dataset was recorded with."""
    try:
        found = store.marker()
    except (OSError, ValueError) as exc:  # another command has written something else there
        found, why = None, f": {exc}"
    else:
        why = ""
    if found is None:
        raise UsageError(
            f"{store.path} exists, without the settings that mtwrappers record writes{why}; "
            "choose another --out"
        )
    try:
        return Settings.from_dict(found)
    except RecordingError as exc:
        raise UsageError(f"{store.path}: {exc}") from None


def _require_same(given: Mapping[str, Any], begun: Mapping[str, Any], store: Store) -> None:
    """Refuses settings that are given and not those of what is there."""
    for name, value in begun.items():
        if (got := given.get(name)) not in (None, value):
            raise UsageError(
                f"{store.address} was started with {name} {reprlib.repr(value)}, got "
                f"{reprlib.repr(got)}"
            )


def _record(store: Store, unfinished: Unfinished, settings: Settings, own: Own | None) -> int:
    ctrl_c.raises()
    with contextlib.ExitStack() as lock:
        try:
            unfinished.folder.mkdir(parents=True, exist_ok=True)
            lock.enter_context(locked(unfinished.folder, "record"))
        except OSError as exc:
            raise UsageError(f"cannot write to {unfinished.folder}: {exc.strerror}") from None
        try:
            if not unfinished.begun:
                packages = {"requirements": requirements(store.packages)}
                unfinished.begin({**dataclasses.asdict(settings), **packages})
            with own_errors(own):
                policy = None if own is None else own.policy
                episodes, steps = record(store, unfinished, settings, policy, say)
        except KeyboardInterrupt:
            if not unfinished.has_any():
                say("Interrupted before an episode was recorded; nothing was written.")
                return ctrl_c.EXIT_CODE
            more = "" if own is None else f" --policy {shlex.quote(own.given)}"
            say("Interrupted: recorded episodes are kept. Continue with:")
            say(f"mtwrappers record --resume {shlex.quote(store.address)}{more}")
            return ctrl_c.EXIT_CODE
        except OSError as exc:
            raise UsageError(
                f"cannot write to {unfinished.folder}: {exc.strerror or exc}; recorded "
                f"episodes are kept: continue with --resume {store.address}"
            ) from None
        finally:
            if not unfinished.has_any():
                unfinished.remove()
    say(f"{store.address}: {episodes} episodes, {steps} steps")
    say("Replay all of it, on any machine:")
    say(f"mtwrappers verify {shlex.quote(store.address)}")
    return 0
