"""``mtwrappers rollout``: evaluates a policy, with a progress bar and output files."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import shlex
import time
import warnings
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import gymnasium
from cyclopts import Parameter
from gymnasium.error import DependencyNotInstalled

from mtwrappers.cli.commands import Count, Seed, Steps, Workers, described
from mtwrappers.cli.console import RESULTS, UsageError, say, unknown, warn
from mtwrappers.cli.film import can_film, film
from mtwrappers.cli.folder import (
    CHART,
    EVIDENCE,
    TABLE_FILE,
    cannot_write,
    find_files,
    open_folder,
)
from mtwrappers.cli.main import raise_on_ctrl_c
from mtwrappers.cli.scripted import POLICIES, ScriptedPolicy
from mtwrappers.cli.user_code import UserPolicy, load_policy, named_errors
from mtwrappers.common.cores import cores
from mtwrappers.common.counts import format_count
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import full_message
from mtwrappers.common.extras import import_extra
from mtwrappers.common.registration import EPISODE_STEPS, TABLE
from mtwrappers.evaluation import (
    Description,
    Design,
    Episode,
    EvaluationResult,
    EvidenceError,
    Observer,
    PlannedEpisode,
    Protocol,
    protocols,
)
from mtwrappers.evaluation.evaluating import (
    find_adapting_method,
    require_begin_trial,
    run_evaluation,
)
from mtwrappers.evaluation.plan import plan_episodes
from mtwrappers.evaluation.report import format_csv
from mtwrappers.metaworld.observations import ObservationName
from mtwrappers.metaworld.tasks import ONE_CLASS, make_benchmark
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.samplers.action_chunks import ActionChunks
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import make_executor

BENCHMARKS = tuple(
    name.removeprefix("mtwrappers/").removesuffix("-v0")
    for name, (_, kwargs, _) in TABLE.items()
    if "benchmark" in kwargs and "train_classes" not in kwargs
)
SIZE = 480  # pixels of each side of a frame
# The columns of the table in `TABLE_FILE`, each with its metric.
_MEANS = {name: name for name in ("success_once", "success_final")} | {"mean_return": "return"}
# Options that change nothing of a result.
_OF_MACHINE = ("workers", "execution", "out", "video", "video_steps", "overwrite", "resume")


def _check_policy(type_: Any, text: str | None) -> None:
    source, _, name = (text or "").rpartition(":")
    if text is None or text in POLICIES or (source and name.isidentifier()):
        return
    if text.endswith(".py"):
        raise ValueError(f"Name the policy in the file too, such as {text}:act.")
    if hint := did_you_mean(text, POLICIES):
        raise ValueError(hint.capitalize())
    forms = ", ".join([*POLICIES, "FILE.py:NAME", "package.module:NAME"])
    raise ValueError(
        f"Choose from {forms}. For a saved model, write a FILE.py with a function NAME that loads "
        "it and returns the policy; see the guide 'Evaluate'."
    )


@described
@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a rollout.

    Args:
        task: Evaluate only this class; can be repeated.
        policy: expert (default): Meta-World's scripted expert of each class; random: random
            actions; FILE.py:NAME or package.module:NAME: your own, from observations (N, O) to
            actions (N, 4) in [-1, 1], or a function without arguments that returns one. It also
            receives task_names, descriptions and rng, if it has arguments of these names.
        name: The label of the policy in tables (default: --policy).
        protocol: Follow the rules of a published score; see mtwrappers protocols. One with few-shot
            adaptation needs a policy of your own with begin_trial(), and adapt(paths) if needed.
        training_seed: The seed of the policy's training run, kept in the result.
        training_steps: The agent steps of this run over all environments, such as 1e6, kept in the
            result.
        episodes: Episodes per class (default: 5, or as many as the protocol has). Another number
            than the protocol's makes a variant of it, whose score is not comparable. With few-shot
            adaptation, they are per goal, after it.
        seed: Determines goals, their order and random actions (default: 0). Under a protocol, it
            chooses and orders goals of the protocol's list, or draws continuous goals; then results
            of other seeds are comparable.
        action_chunk: For a policy of your own that returns chunks of actions (N, H, 4): the number
            of actions to execute before it is called again.
        observation: For a policy of your own: observe states (default), frames, or frames with a
            part of the state.
        size: The height and width in pixels of videos, and of frames that a policy observes
            (default: 480). Small frames are drawn much faster.
        instruction: For a policy of your own: also observe a sentence that describes the task.
        workers: Worker processes (default: all cores). 0 means this process. A policy in PyTorch
            computes on one thread, unless OMP_NUM_THREADS is set.
        execution: Where the workers run: local processes (default), or actors of a Ray cluster.
        out: The output folder (default: results). One that has files of an earlier rollout is
            refused without --overwrite or --resume.
        video: Also write an mp4 of the first episode of each class: a frame of every fourth step
            and of the last one, at 20 frames per second, from the camera corner3, or the policy's
            own if it observes frames.
        video_steps: End each video after this many steps (default: with its episode).
        overwrite: Replace the files of an earlier rollout in the output folder.
        resume: Continue an interrupted or killed rollout. Repeat its command; only --workers,
            --execution, --video and --video-steps may differ. The results are the same as without
            the interruption.
    """

    task: Annotated[tuple[str, ...], Parameter(metavar="CLASS")] = ()
    policy: Annotated[str, Parameter(validator=_check_policy, metavar="POLICY")] = "expert"
    name: Annotated[str | None, Parameter(metavar="NAME")] = None
    protocol: Annotated[str | None, Parameter(metavar="NAME")] = None
    training_seed: Annotated[Steps | None, Parameter(metavar="SEED")] = None
    training_steps: Steps | None = None
    episodes: Count | None = None
    seed: Seed = 0
    action_chunk: Count | None = None
    observation: ObservationName = "state"
    size: Count | None = None
    instruction: bool = False
    workers: Workers | None = None
    execution: Literal["parallel", "ray"] = "parallel"
    out: Annotated[Path, Parameter(metavar="DIR")] = Path("results")
    video: bool = False
    video_steps: Count | None = None
    overwrite: bool = False
    resume: bool = False


@described
def run(
    benchmark: Annotated[
        str | None,
        Parameter(
            help=f"One of {', '.join(BENCHMARKS)}; "
            "ML10 means ML10-train, and ML10-test with an ML protocol."
        ),
    ] = None,
    /,
    *,
    options: Annotated[Options, Parameter(name="*")] = Options(),
) -> int:
    """Evaluate a policy on a benchmark and report success rates."""
    if options.resume and options.overwrite:
        raise UsageError(
            "--overwrite replaces a whole rollout, and --resume continues one: pass only one of "
            "them"
        )
    rollout = _plan_rollout(benchmark, options)
    import_extra("matplotlib.figure", "cli")
    with open_folder(options.out, may_exist=options.overwrite or options.resume):
        films = options.video and can_film()
        raise_on_ctrl_c()
        if options.resume and not (options.out / EVIDENCE).exists():
            warn(f"{options.out} has no episodes to continue: starting from the beginning")
        with contextlib.suppress(BrokenPipeError):  # the files are written if nobody reads this
            _announce(rollout)
        counter = EpisodeCounter(options.out)
        try:
            result, seconds = _evaluate(rollout, counter)
            paths = _write_result(rollout, result)
            with contextlib.suppress(BrokenPipeError):
                say(str(result))
                steps = sum(counter.lengths)
                counted = format_count(steps, "step")
                say(f"{counted} in {seconds:.1f} s: {steps / seconds:,.0f} steps/s")
            paths.append(_write_chart(rollout, result))
            if films:
                paths += film(
                    f"mtwrappers/{rollout.benchmark}-v0",
                    rollout.env_kwargs,
                    counter.planned,
                    options.out / EVIDENCE,
                    size=options.size or SIZE,
                    max_steps=options.video_steps,
                )
        except EvidenceError as exc:
            raise UsageError(f"--resume: {exc}") from None
        except OSError as exc:
            raise cannot_write(options.out, exc) from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt(counter.describe()) from None
    for path in paths:
        say(f"wrote {path}", "dim")
    say(f"Anyone who has {RESULTS} and {EVIDENCE} can check the numbers:")
    say(f"mtwrappers verify {shlex.quote(str(options.out / RESULTS))}", "bold")
    return 0


@dataclass(frozen=True)
class Rollout:
    """A rollout with checked options.

    Args:
        options: The options.
        benchmark: As in ids: ``"MT10"``, ``"ML10-train"``.
        env_kwargs: The arguments of `gymnasium.make` and `make_vec`.
        design: The numbers that determine the episodes.
        protocol: The protocol, if there is one.
        user_policy: The policy, unless it is in `POLICIES`.
        description: What is said about the result.
        num_classes: The number of classes that are evaluated.
        workers: The number of workers, 0 for none but this process.
        envs_per_task: The number of environments of each class, enough for all workers.
    """

    options: Options
    benchmark: str
    env_kwargs: dict[str, Any]
    design: Design
    protocol: Protocol | None
    user_policy: UserPolicy | None
    description: Description
    num_classes: int
    workers: int
    envs_per_task: int

    @property
    def extent(self) -> str:
        """How many episodes there are."""
        n = self.design.episodes_per_task
        if self.few_shot:
            trials = format_count(self.design.trials, "trial")
            return f"{trials}, {format_count(n, 'episode')} after adaptation per {self.unit}"
        return f"{format_count(n, 'episode')} per {self.unit}"

    @property
    def unit(self) -> str:
        """The word for what has a number of episodes."""
        return _name_unit(self.few_shot)

    @property
    def few_shot(self) -> bool:
        """Whether the policy adapts before it is evaluated."""
        return self.design.trials > 0


def _name_unit(few_shot: bool) -> str:
    """The word for what has a number of episodes, also in names of variants."""
    return "goal" if few_shot else "class"


def _plan_rollout(benchmark: str | None, options: Options) -> Rollout:
    """Checks the options, and returns the rollout that they describe.

    Raises:
        UsageError: If the benchmark, a class, the protocol or the policy is unknown, or they are
            incompatible.
    """
    protocol = None if options.protocol is None else _find_protocol(options)
    if protocol is not None:
        benchmark = benchmark or protocol.env_id.removeprefix("mtwrappers/").removesuffix("-v0")
    if benchmark is None:
        raise UsageError("a benchmark is required, such as: mtwrappers rollout MT10")
    scripted = options.policy in POLICIES
    if options.action_chunk is not None and scripted:
        raise UsageError(
            f"--action-chunk {options.action_chunk} is for a policy that returns chunks of "
            f"actions, and {options.policy} returns single ones; give --policy or leave it out"
        )
    observed = _check_observation(options)
    env_kwargs = {"seed": options.seed, "max_episode_steps": EPISODE_STEPS, **observed}
    kind = "test" if protocol is not None and protocol.few_shot else "train"
    full_name = _find_benchmark(benchmark, kind)
    num_classes = _count_classes(full_name, options)
    if options.task and full_name.partition("-")[0] in ONE_CLASS:
        env_kwargs["env_name"] = options.task[0]
    design = Design(options.seed, options.episodes or 5, options.task or None)
    user_policy = None
    if not scripted:
        # Read by PyTorch on import. Workers need the other cores, and results then depend less on
        # the machine.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        user_policy = load_policy(options.policy)
    if protocol is not None:
        if scripted:
            protocol = protocol.with_states()  # which these policies read
        if protocol.few_shot and user_policy is not None:
            with named_errors(user_policy):
                require_begin_trial(user_policy.policy)
        adapts = user_policy is not None and callable(getattr(user_policy.policy, "adapt", None))
        protocol, design = _apply_protocol(protocol, benchmark, options, adapts=adapts)
        env_kwargs.update(protocol.settings.arguments)
    if options.execution == "ray":
        import_extra("ray", "ray")
    chunks = user_policy is not None and isinstance(user_policy.policy, ActionChunks)
    if chunks and options.action_chunk is not None:
        raise UsageError(
            f"--action-chunk {options.action_chunk}: {options.policy} is an ActionChunks, which "
            "has a number of its own; leave out --action-chunk"
        )
    workers = cores() if options.workers is None else options.workers
    envs_per_task = min(design.episodes_per_task, -(-max(workers, 1) // num_classes))
    if not design.trials:  # of which each environment runs its own
        workers = min(workers, envs_per_task * num_classes)
    return Rollout(
        options,
        full_name,
        env_kwargs,
        design,
        protocol,
        user_policy,
        _describe_policy(full_name, options),
        num_classes,
        workers,
        envs_per_task,
    )


def _find_benchmark(benchmark: str, kind: str) -> str:
    """The full name of a benchmark, which may lack its kind, ``"train"`` or ``"test"``."""
    full_name = benchmark if benchmark in BENCHMARKS else f"{benchmark}-{kind}"
    if full_name in BENCHMARKS:
        return full_name
    classes: Collection[str] = ()
    with contextlib.suppress(DependencyNotInstalled):  # this error is not about a class
        classes = all_classes()
    if benchmark in classes:
        raise UsageError(
            f"{benchmark} is a class: choose it with mtwrappers rollout MT1 --task {benchmark}"
        )
    name = benchmark.rpartition("/")[2].removesuffix("-v0")
    env_id = f"mtwrappers/{name}-v0"
    if env_id in TABLE and name not in BENCHMARKS:
        _, kwargs, _ = TABLE[env_id]
        call = f"mtwrappers.evaluate(policy, gymnasium.make_vec({env_id!r}))"
        if "sequence" in kwargs:
            call = "mtwrappers.continual_evaluate"
        if "family" in kwargs:
            envs = f"gymnasium.make_vec({env_id!r}, num_envs=20)"
            call = (
                f"mtwrappers.few_shot_evaluate(policy, {envs}), or mtwrappers.evaluate for a "
                "policy that does not adapt (docs/guides/families.md)"
            )
        raise UsageError(
            f"rollout evaluates on Meta-World's benchmarks alone, such as MT10; {name} is "
            f"evaluated in Python, with {call}"
        )
    if did_you_mean(name, BENCHMARKS):
        raise unknown(f"benchmark {benchmark!r}", name, BENCHMARKS)
    raise UsageError(
        f"unknown benchmark {benchmark!r}; choose from {', '.join(BENCHMARKS)}; for other "
        "environments use mtwrappers.evaluate (docs/guides/own-environments.md)"
    )


def _find_protocol(options: Options) -> Protocol:
    name = options.protocol or ""
    if name not in protocols:
        raise unknown(f"protocol {name!r}", name, protocols)
    protocol = protocols[name]
    if protocol.few_shot and options.policy in POLICIES:
        raise UsageError(
            f"--protocol {name} is for a policy that adapts, and {options.policy} does not: give "
            "a policy of your own with begin_trial(), as --policy FILE.py:NAME"
        )
    if protocol.few_shot and options.video:
        raise UsageError(f"--video is for single episodes, and --protocol {name} has trials")
    return protocol


def _apply_protocol(
    protocol: Protocol, benchmark: str, options: Options, *, adapts: bool
) -> tuple[Protocol, Design]:
    """The protocol on a benchmark, or its variant with ``--episodes``; and its episodes."""
    one_class = benchmark.partition("-")[0] in ONE_CLASS
    tasks = options.task or None
    try:
        protocol = protocol.on(benchmark, options.task[0] if tasks and one_class else None)
        if protocol.few_shot and one_class:
            tasks = None  # the one class of the environments
        if options.episodes not in (None, protocol.scoring.episodes_per_task):
            unit = _name_unit(protocol.few_shot)
            name = f"{protocol.name} with {format_count(options.episodes, 'episode')} per {unit}"
            protocol = protocol.variant(name, episodes_per_task=options.episodes)
        design = protocol.design(options.seed, tasks=tasks, adapts=adapts)
    except ValueError as exc:
        raise UsageError(f"--protocol {options.protocol}: {exc}") from None
    return protocol, design


def _check_observation(options: Options) -> dict[str, Any]:
    """The arguments of environments for what a policy of the user observes."""
    if options.size is not None and options.observation == "state" and not options.video:
        raise UsageError("--size is for frames: add --observation or --video")
    if options.video_steps is not None and not options.video:
        raise UsageError("--video-steps is for videos: add --video")
    observed: dict[str, Any] = {}
    if options.observation != "state":
        observed = {"observation": options.observation}
        if options.size is not None:
            observed |= {"width": options.size, "height": options.size}
    if options.instruction:
        observed["instruction"] = True
    for name in ("observation", "instruction"):
        if name in observed and options.policy in POLICIES:
            reason = f"{options.policy} reads states"
        elif name in observed and options.protocol is not None:
            reason = "a protocol says what is observed"
        else:
            continue
        raise UsageError(f"--{name} is for a policy of your own without a protocol: {reason}")
    return observed


def _describe_policy(benchmark: str, options: Options) -> Description:
    privileged = benchmark.startswith("ML") and options.policy == "expert"
    try:
        return Description(
            options.name or options.policy,
            options.training_seed,
            options.training_steps,
            note="the policy reads hidden goals" * privileged,
        )
    except ValueError as exc:
        raise UsageError(str(exc)) from None


def _count_classes(benchmark: str, options: Options) -> int:
    """The number of chosen classes, by default of all of a benchmark."""
    name, _, kind = benchmark.partition("-")
    if name in ONE_CLASS:
        if len(options.task) > 1:
            raise UsageError(
                f"{name} has one class, got {len(options.task)}; several are in MT10, MT50, ..."
            )
        for task in options.task:
            if task not in all_classes():
                raise unknown(f"class {task!r} of {benchmark}", task, sorted(all_classes()))
        return 1
    classes = make_benchmark(name, seed=options.seed)
    own_classes, other_classes = list(classes.train_classes), list(classes.test_classes)
    if kind == "test":
        own_classes, other_classes = other_classes, own_classes
    for task in options.task:
        if "," in task:
            raise UsageError(f"--task takes one class, got {task!r}: repeat --task for each class")
        if options.task.count(task) > 1:
            raise UsageError(f"--task {task} is given {options.task.count(task)} times")
        if task in other_classes:
            other_name = f"{name}-{'train' if kind == 'test' else 'test'}"
            raise UsageError(
                f"{task} is not a class of {benchmark} but of {other_name}: mtwrappers rollout "
                f"{other_name} --task {task}"
            )
        if task not in own_classes:
            is_other = did_you_mean(task, other_classes) and not did_you_mean(task, own_classes)
            known_classes = other_classes if is_other else own_classes
            raise unknown(f"class {task!r} of {benchmark}", task, known_classes)
    return len(options.task or own_classes)


def _announce(rollout: Rollout) -> None:
    """Prints what is about to run."""
    if rollout.benchmark.startswith("ML") and rollout.options.policy == "expert":
        say(
            f"{rollout.benchmark.partition('-')[0]} has hidden goals. The experts read them from "
            "the environment: privileged\ninformation that a learner does not have."
        )
    policy = None if rollout.user_policy is None else rollout.user_policy.policy
    if not rollout.few_shot and find_adapting_method(policy):
        meta_learning = "metaworld-3.1-ml"
        warn(
            f"{rollout.options.policy} does not adapt in this rollout, which does not call its "
            f"adapt() or begin_trial(): add --protocol {meta_learning} to evaluate it after "
            "adaptation"
        )
    place = f"on {format_count(rollout.workers, 'worker')}"
    if rollout.workers == 0:
        place = "in this process"
    say(f"Running {rollout.benchmark} {place}: {rollout.extent} into {rollout.options.out}")
    if rollout.protocol is not None:
        name = rollout.options.protocol or ""
        expected = protocols[name].scoring.episodes_per_task
        if rollout.design.episodes_per_task != expected:
            say(
                f"This is a variant of {name}, which has {format_count(expected, 'episode')} per "
                f"{rollout.unit}:\nits score is not comparable with scores of {name}."
            )


def _make_envs(rollout: Rollout) -> MetaVectorEnv:
    """Makes environments of each class; with ``--task``, one per worker that runs all of them.

    These build only the classes that they run.
    """
    kwargs, workers = dict(rollout.env_kwargs), rollout.workers
    execution: Any = "ray" if rollout.options.execution == "ray" else None
    if rollout.protocol is not None and rollout.few_shot:
        # As many as the protocol says, each with its own trials.
        return rollout.protocol.make_vec(workers=workers or None, execution=execution)
    env_id = f"mtwrappers/{rollout.benchmark}-v0"
    if not rollout.options.task:
        settings: dict[str, Any] = {"workers": workers, "envs_per_task": rollout.envs_per_task}
        envs: Any = gymnasium.make_vec(env_id, **kwargs, **settings, execution=execution)
        return cast(MetaVectorEnv, envs)
    make = functools.partial(
        gymnasium.make, f"mtwrappers:{env_id}", disable_env_checker=True, **kwargs
    )
    num_envs = max(workers, 1)
    envs = make_executor(
        [make] * num_envs,
        num_envs,
        workers=workers,
        execution=execution,
        renders="observation" in kwargs,
    )
    # The benchmark's own environments run the same episodes, and its spec is simpler.
    envs.spec = copy.deepcopy(gymnasium.spec(env_id))
    envs.spec.kwargs.update(kwargs)
    return cast(MetaVectorEnv, envs)


class EpisodeCounter(Observer):
    """Counts episodes; at the first, removes the files of an earlier rollout.

    Attributes:
        planned: All episodes, once it is known.
        num_finished: How many of them are finished, here or before.
        lengths: The numbers of steps of those that this rollout has finished.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.planned: Sequence[PlannedEpisode] = ()
        self.num_finished: int | None = None
        self.lengths: list[int] = []

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Counts the episodes that an earlier rollout has finished."""
        self.num_finished = len(self.planned) - len(episodes)

    def end(self, i: int, episode: Episode) -> None:
        """Counts an episode, which is in the evidence by now."""
        if not self.lengths:
            for name in find_files(self._folder):
                if name != EVIDENCE:
                    (self._folder / name).unlink()
        self.lengths.append(episode.length)
        self.num_finished = (self.num_finished or 0) + 1

    def describe(self) -> str:
        """How many episodes are finished."""
        if self.num_finished is None:
            return "no episode was begun"
        return f"{self.num_finished} of {len(self.planned)} episodes were finished"


def _evaluate(rollout: Rollout, counter: EpisodeCounter) -> tuple[EvaluationResult, float]:
    """Runs the episodes that are left; returns the result of all, and the seconds that it took."""
    options, observers = rollout.options, list[Observer]([counter])
    start = time.perf_counter()
    try:
        envs = _make_envs(rollout)
    except (TypeError, ValueError) as exc:  # what is refused has no note of a worker
        if hasattr(exc, "__notes__"):
            raise
        raise UsageError(full_message(exc)) from None
    with (
        warnings.catch_warnings(),
        contextlib.closing(envs),
        named_errors(rollout.user_policy),
    ):
        warnings.filterwarnings("always", message=".* episodes are taken from")
        warnings.showwarning = lambda message, *_: warn(str(message))
        policy: Any
        if rollout.user_policy is None:
            policy = ScriptedPolicy(options.policy == "expert", envs, options.seed)
            observers.insert(0, policy)
        elif options.action_chunk is None:
            policy = rollout.user_policy.policy
        else:
            policy = ActionChunks(rollout.user_policy.policy, options.action_chunk)
        counter.planned = plan_episodes(envs, rollout.design).episodes
        result = run_evaluation(
            policy,
            envs,
            rollout.design,
            rollout.protocol,
            observers=observers,
            evidence=options.out / EVIDENCE,
            resume=options.resume,
            progress=True,
            command=_determining_options(options),
        )
    chunk = result.description.action_chunk  # of the policy or of the command
    description = replace(rollout.description, action_chunk=chunk)
    return replace(result, description=description), time.perf_counter() - start


def _determining_options(options: Options) -> dict[str, Any]:
    """The options that the evidence of a rollout has, which a continuation must share."""
    values = {name: value for name, value in asdict(options).items() if name not in _OF_MACHINE}
    if options.observation == "state":
        del values["size"]  # of videos alone
    return values


def _write_result(rollout: Rollout, result: EvaluationResult) -> list[Path]:
    """Writes the result and its table, each whole or not at all; returns the paths of all files."""
    folder = rollout.options.out
    result.save(folder / RESULTS)
    rows: list[dict[str, Any]] = []
    for task, estimates in result.per_task.items():
        row: dict[str, Any] = {"task": task, "episodes": len(result.of_task(task))}
        for column, metric in _MEANS.items():
            estimate = estimates[metric]
            row[column] = None if estimate is None else estimate.value
        rows.append(row)
    format_csv(rows, folder / TABLE_FILE)
    return [folder / name for name in (RESULTS, TABLE_FILE, EVIDENCE)]


def _write_chart(rollout: Rollout, result: EvaluationResult) -> Path:
    options, path = rollout.options, rollout.options.out / CHART
    name = options.name or f"{options.policy} policy"
    title = f"{rollout.benchmark}, {name}, seed {options.seed}, {rollout.extent}"
    if rollout.protocol is not None:
        title += f", protocol {rollout.protocol.name}"
    result.plot(path, title)
    return path
