"""``mtwrappers rollout``: evaluates a policy, with a progress bar and output files."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
import reprlib
import shlex
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import gymnasium

from mtwrappers.cli import ctrl_c
from mtwrappers.cli.classes import count_classes, full_name, has_one_class
from mtwrappers.cli.console import UsageError, progress_bar, say, say_table, unknown
from mtwrappers.cli.directory import EVIDENCE, RESULTS, clear, locked, write_files
from mtwrappers.cli.own import Own, load_policy, own_errors
from mtwrappers.cli.progress import MAX_SIZE, NAME, Progress, cannot_write
from mtwrappers.cli.scripted import ScriptedPolicy
from mtwrappers.cli.settings import POLICIES, Settings
from mtwrappers.cli.video import Videos, can_film
from mtwrappers.common.cores import cores
from mtwrappers.common.extras import import_extra
from mtwrappers.common.registration import EPISODE_STEPS
from mtwrappers.evaluation import (
    EvaluationResult,
    Observer,
    Protocol,
    Provenance,
    evaluate,
    protocols,
)
from mtwrappers.evaluation.episodes import ForeignEpisodeError
from mtwrappers.samplers.rollout import Step
from mtwrappers.state.files import opened
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import make_executor


def run(
    given: Mapping[str, Any],
    *,
    workers: int | None,
    execution: Literal["parallel", "ray"],
    out: Path | None,
    video: bool,
    overwrite: bool,
    resume: Path | None,
) -> int:
    """Runs the command; returns its exit code. ``given`` has the settings that are not default."""
    with contextlib.ExitStack() as lock:
        if resume is None:
            kept = Progress(out or Path("results"), _new_settings(given))
            rollout = Rollout.of(kept.settings, workers, execution)
            try:
                kept.directory.mkdir(parents=True, exist_ok=True)
                lock.enter_context(locked(kept.directory))
                clear(kept.directory, overwrite)
            except OSError as exc:
                raise cannot_write(kept.directory, exc) from None
        else:
            if overwrite:
                raise UsageError(
                    "--overwrite replaces an earlier rollout, and --resume continues one: pass "
                    "only one of them"
                )
            if video:
                raise UsageError(
                    "--video films a rollout from its start, and --resume continues one: pass only "
                    "one of them"
                )
            if out is not None and out.resolve() != resume.resolve():
                raise UsageError(
                    f"--resume {resume} writes into that directory, got --out {out}; leave --out "
                    "away"
                )
            with contextlib.suppress(OSError):  # no such directory, or not writable
                lock.enter_context(locked(resume))
            found = _resumed(resume, given)
            if found is None:
                say(f"The rollout into {resume} is complete: see {resume / RESULTS}.")
                return 0
            kept = found
            rollout = Rollout.of(kept.settings, workers, execution)
        return _finish(rollout, kept, video)


@dataclass(frozen=True)
class Rollout:
    """A rollout with checked settings: its environments, policy and protocol."""

    settings: Settings
    env_id: str
    env_kwargs: Mapping[str, Any]  # for `gymnasium.make` and `make_vec`
    envs_per_class: int
    workers: int
    execution: Literal["ray"] | None  # None for processes
    protocol: Protocol | None
    own: Own | None  # the policy, unless it is in `POLICIES`

    @classmethod
    def of(
        cls, settings: Settings, workers: int | None, execution: Literal["parallel", "ray"]
    ) -> Rollout:
        """Returns the rollout of settings.

        Raises:
            UsageError: If the benchmark, a class, the protocol or the policy is unknown, or they
                are incompatible.
        """
        protocol = _protocol(settings.protocol) if settings.protocol is not None else None
        if settings.action_chunk is not None and settings.policy in POLICIES:
            raise UsageError(
                f"--action-chunk {settings.action_chunk} is for a policy that returns chunks of "
                f"actions, and {settings.policy} returns single ones; give --policy or leave it out"
            )
        full = full_name(settings.benchmark)
        num_classes = count_classes(full, settings.task, settings.seed)
        kwargs: dict[str, Any] = {
            "seed": settings.seed,
            "fast": False if settings.no_fast else "auto",
            "max_episode_steps": EPISODE_STEPS,
        }
        if settings.task and has_one_class(full):
            kwargs["env_name"] = settings.task[0]
        if protocol is not None:
            protocol = _fitted(protocol, settings, kwargs.get("env_name"))
            kwargs.update(protocol.settings)
        if execution == "ray":
            import_extra("ray", "ray")
        workers = workers or cores()
        # Enough environments of each class for all workers; the number does not affect results.
        each = min(settings.episodes, -(-workers // num_classes))
        return cls(
            settings,
            f"mtwrappers/{full}-v0",
            kwargs,
            envs_per_class=each,
            workers=min(workers, each * num_classes),
            execution="ray" if execution == "ray" else None,
            protocol=protocol,
            own=None if settings.policy in POLICIES else load_policy(settings.policy),
        )

    @property
    def name(self) -> str:
        """The name of the policy in tables."""
        return self.settings.name or self.settings.policy

    @property
    def has_privileged_goal(self) -> bool:
        """Whether the policy reads goals that are hidden from a learner."""
        return self.settings.benchmark.startswith("ML") and self.settings.policy == "expert"

    def make_envs(self, films: bool) -> MetaVectorEnv:
        """Returns one environment per class; with ``task``, one per worker that runs all of them.

        These build only the classes that they run.
        """
        kwargs = dict(self.env_kwargs)
        if films:
            kwargs["render_mode"] = "rgb_array"
            kwargs["camera_name"] = kwargs.get("camera_name", "corner3")
        if not self.settings.task or self.protocol is not None:
            made: Any = gymnasium.make_vec(
                self.env_id,
                **kwargs,
                workers=self.workers,
                envs_per_task=self.envs_per_class,
                execution=self.execution,
            )
            return cast(MetaVectorEnv, made)
        make = functools.partial(
            gymnasium.make, f"mtwrappers:{self.env_id}", disable_env_checker=True, **kwargs
        )
        envs = make_executor(
            [make] * self.workers,
            self.workers,
            workers=self.workers,
            execution=self.execution,
            renders=films,
        )
        # The benchmark's own environments run the same episodes, and its spec is simpler.
        envs.spec = copy.deepcopy(gymnasium.spec(self.env_id))
        envs.spec.kwargs.update(kwargs)
        return envs


def _protocol(name: str) -> Protocol:
    if name not in protocols:
        raise unknown(f"protocol {name!r}", name, protocols)
    protocol = protocols[name]
    if protocol.few_shot:
        raise UsageError(
            f"--protocol {name} lets policies adapt, which a plain function cannot. Evaluate in "
            f"Python: mtwrappers.protocols[{name!r}].evaluate(policy, workers=2, "
            "evidence='r.npz').save('r.json'); verify and compare read the file"
        )
    return protocol


def _fitted(protocol: Protocol, settings: Settings, env_name: str | None) -> Protocol:
    """Returns the protocol on the benchmark of the settings."""
    if settings.policy in POLICIES:
        protocol = protocol.with_states()  # the scripted policies read states
    try:
        protocol = protocol.on(settings.benchmark, env_name)
        if settings.episodes != (due := protocol.episodes_per_task):
            raise ValueError(f"it has {due} episodes per class, got {settings.episodes}")
    except ValueError as exc:
        raise UsageError(f"--protocol {settings.protocol}: {exc}") from None
    return protocol


def _new_settings(given: Mapping[str, Any]) -> Settings:
    """Returns the settings of a new rollout."""
    defaults: dict[str, Any] = {}
    if "protocol" in given:
        protocol = _protocol(given["protocol"])
        split = "-test" if protocol.kind == "test" else ""
        defaults["benchmark"] = protocol.benchmark + split
        defaults["episodes"] = protocol.episodes_per_task
    elif "benchmark" not in given:
        raise UsageError(
            "a benchmark is required, or --resume DIR; such as: mtwrappers rollout MT10"
        )
    return Settings(**{**defaults, **given})


def _resumed(directory: Path, given: Mapping[str, Any]) -> Progress | None:
    """Returns the progress of the rollout into ``directory``; ``None`` if it is complete."""
    complete = None if (directory / NAME).exists() else _settings_of_results(directory)
    kept = None if complete else Progress.load(directory)
    begun = dataclasses.asdict(kept.settings) if kept else complete or {}
    for name, value in begun.items():
        if given.get(name, value) != value:
            raise UsageError(
                f"the rollout into {directory} was started with {name} {reprlib.repr(value)}, got "
                f"{given[name]!r}; leave it out, or start a new rollout with another --out"
            )
    if kept and kept.settings.policy not in (*POLICIES, given.get("policy")):
        # The code to run is named by the command only, never by a file.
        raise UsageError(
            f"the rollout into {directory} was started with a policy of your own: pass --policy "
            "again"
        )
    return kept


def _settings_of_results(directory: Path) -> dict[str, Any] | None:
    """Returns the settings in the results of a complete rollout, or ``None`` without results."""
    try:
        with opened(directory / RESULTS, MAX_SIZE) as file:
            whole = json.load(file)
        results = whole["rollout"]
        if results["interrupted"]:
            return None
        found = {name: results[name] for name in ("benchmark", "policy", "episodes", "seed")}
        made = whole.get("provenance") or {}
        if "action_chunk" in made:
            found["action_chunk"] = made["action_chunk"]
        return found
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


@dataclass(frozen=True)
class Outcome:
    """The finished episodes of a rollout that is complete or was interrupted."""

    result: EvaluationResult
    interrupted: bool
    videos: Videos | None


def _finish(rollout: Rollout, kept: Progress, video: bool) -> int:
    """Runs the remaining episodes, and writes the results; returns the exit code."""
    import_extra("matplotlib.figure", "cli")
    films = video and can_film()
    ctrl_c.raises()
    with kept:
        with contextlib.suppress(BrokenPipeError):  # the files are written if nobody reads this
            _announce(rollout, kept)
        outcome = _evaluate(rollout, kept, films)
    if outcome is None:
        if not kept.episodes:
            kept.remove()
        say(
            "Interrupted before an episode was finished; nothing was written. Run the command "
            "again."
        )
        return ctrl_c.EXIT_CODE
    _write(rollout, kept, outcome)
    if outcome.interrupted:
        say("Interrupted: these are the finished episodes. Continue with:", "yellow")
        say(kept.how_to_resume(), "bold")
        return ctrl_c.EXIT_CODE
    if kept.settings.evidence:
        say(f"Anyone who has {RESULTS} and {EVIDENCE} can check the numbers:")
        say(f"mtwrappers verify {shlex.quote(str(kept.directory / RESULTS))}", "bold")
    return 0


def _announce(rollout: Rollout, kept: Progress) -> None:
    settings = rollout.settings
    if rollout.has_privileged_goal:
        say(
            f"{settings.benchmark.partition('-')[0]} has hidden goals. The experts read them from "
            "the environment: privileged\ninformation that a learner does not have."
        )
    workers = f"{rollout.workers} worker{'s' * (rollout.workers > 1)}"
    episodes = f"{settings.episodes} episode{'s' * (settings.episodes > 1)}"
    plan = f"{episodes} per class into {kept.directory}"
    say(f"Running {settings.benchmark} on {workers}: {plan}")


def _evaluate(rollout: Rollout, kept: Progress, films: bool) -> Outcome | None:
    """Runs the remaining episodes; ``None`` if an interruption came before any was finished."""
    settings, protocol, tasks = rollout.settings, rollout.protocol, rollout.settings.task or None
    result = videos = provenance = None
    training = {name: getattr(settings, name) for name in ("training_seed", "training_steps")}
    try:
        with (
            # Workers are forked before the progress bar starts its thread.
            contextlib.closing(rollout.make_envs(films)) as envs,
            progress_bar() as bar,
            Interruption() as interruption,
            own_errors(rollout.own),
        ):
            kept.bar = functools.partial(bar.update, bar.add_task("episodes", total=None, rate=""))
            observers: list[Observer] = [kept, interruption]
            if films:
                videos = Videos(envs)
                observers.insert(0, videos)
            if rollout.own is not None:
                policy = rollout.own.policy
            else:
                policy = ScriptedPolicy(settings.policy == "expert", envs, settings.seed)
                observers.insert(0, policy)
            provenance = Provenance.of(
                envs,
                settings.episodes,
                tasks=tasks,
                policy=rollout.name,
                protocol=protocol,
                action_chunk=settings.action_chunk,
                **training,
            )
            measure: Any = evaluate if protocol is None else protocol.evaluate
            result = measure(
                policy,
                envs,
                episodes_per_task=settings.episodes,
                tasks=tasks,
                action_chunk=settings.action_chunk,
                seed=settings.seed,
                observers=observers,
                finished=tuple(kept.episodes),
                policy_name=rollout.name,
                **training,
            )
    except KeyboardInterrupt:
        result = None
    except ForeignEpisodeError as exc:
        raise kept.is_foreign(exc) from None
    except UsageError:
        if not kept.episodes:
            kept.remove()
        raise
    if result is not None:
        return Outcome(result, False, videos)
    if len(kept.episodes) == kept.resumed:
        return None
    result = EvaluationResult(kept.in_order(), settings.seed, provenance=provenance)
    return Outcome(result, True, videos)


class Interruption(Observer):
    """Defers Ctrl-C to a ``KeyboardInterrupt`` between two steps; a second Ctrl-C acts at once.

    So the first never splits a message to a worker. After the block Ctrl-C is ignored while
    workers end and finished episodes are written.
    """

    def __init__(self) -> None:
        self._asked = False

    def __enter__(self) -> Interruption:
        signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _ask(self, *signal_and_frame: Any) -> None:
        if self._asked:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise KeyboardInterrupt
        self._asked = True

    def step(self, step: Step) -> None:
        """Raises the deferred ``KeyboardInterrupt``."""
        if self._asked:
            raise KeyboardInterrupt


def _write(rollout: Rollout, kept: Progress, outcome: Outcome) -> None:
    """Writes the results, and then prints them: the reader of a pipe may leave after a line."""
    settings = rollout.settings
    result = outcome.result.described(note=settings.note, authors=settings.authors)
    seconds, steps = kept.seconds, sum(episode.length for episode in result.episodes)
    rate = steps / seconds
    described = {
        "benchmark": settings.benchmark,
        "policy": settings.policy,
        "episodes": settings.episodes,
        "seed": settings.seed,
        "protocol": settings.protocol,
        "name": rollout.name,
        "privileged_goal": rollout.has_privileged_goal,
        "interrupted": outcome.interrupted,
        "seconds": seconds,
        "steps": steps,
        "steps_per_second": rate,
    }
    title = f"{settings.benchmark}, {settings.policy} policy, seed {settings.seed}, "
    title += f"{settings.episodes} episodes per class"
    note = f"interrupted: {len(result.episodes)} of {kept.planned} episodes" * outcome.interrupted
    try:
        paths = write_files(kept, described, result, (title, note), outcome.videos)
    except OSError as exc:
        raise kept.cannot_go_on(exc) from None
    if not outcome.interrupted:
        kept.remove()
    say_table(str(result))
    say(f"{steps:,} steps in {seconds:.1f} s: {rate:,.0f} steps/s")
    for path in paths:
        say(f"wrote {path}", "dim")
