"""``mtwrappers rollout``: evaluates a policy, with a progress bar and output files."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import gymnasium
import numpy as np
from cyclopts import Parameter
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.cli.commands import Count, Seed, Steps, Workers, described
from mtwrappers.cli.console import RESULTS, UsageError, say, unknown, warn
from mtwrappers.cli.main import raise_on_ctrl_c
from mtwrappers.cli.user_code import UserPolicy, load_policy, named_errors
from mtwrappers.common.cores import cores
from mtwrappers.common.did_you_mean import did_you_mean
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
from mtwrappers.evaluation.evaluating import run_evaluation
from mtwrappers.evaluation.evidence import name_of, read_evidence
from mtwrappers.evaluation.plan import plan_episodes
from mtwrappers.evaluation.report import format_csv
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.metaworld.experts import expert
from mtwrappers.metaworld.observations import ObservationName
from mtwrappers.metaworld.opengl import DOCTOR, choose_gl
from mtwrappers.metaworld.tasks import ONE_CLASS, make_benchmark
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.samplers.action_chunks import ActionChunks
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.state.files import locked, write_atomically
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import make_executor

BENCHMARKS = tuple(
    name.removeprefix("mtwrappers/").removesuffix("-v0")
    for name, (_, kwargs, _) in TABLE.items()
    if "benchmark" in kwargs and "train_classes" not in kwargs
)
POLICIES = ("expert", "random")  # built in
EVIDENCE, TABLE_FILE, CHART = "results.npz", "results.csv", "success.png"
# The columns of the table in `TABLE_FILE`, each with its metric.
_MEANS = {name: name for name in ("success_once", "success_final")} | {"mean_return": "return"}
FRAME_EVERY = 4  # steps between two frames of a video: 20 frames per second
# Options that change nothing of a result.
_OF_MACHINE = ("workers", "execution", "out", "video", "overwrite", "resume")


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
        "it and returns the policy; see the guide 'Evaluate and report'."
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
        protocol: Follow the rules of a published score; see mtwrappers protocols.
        training_seed: The seed of the policy's training run, kept in the result.
        training_steps: The agent steps of this run over all environments, kept in the result.
        episodes: Episodes per class (default: 5, or as many as the protocol has).
        seed: Determines goals, their order and random actions (default: 0); a protocol has its own
            goals.
        action_chunk: For a policy of your own that returns chunks of actions (N, H, 4): the number
            of actions to execute before it is called again.
        observation: For a policy of your own: observe states (default), frames of 480 x 480 pixels,
            or frames with a part of the state.
        instruction: For a policy of your own: also observe a sentence that describes the task.
        workers: Worker processes (default: all cores). 0 means this process.
        execution: Where the workers run: local processes (default), or actors of a Ray cluster.
        out: The output folder (default: results). One that has files of an earlier rollout is
            refused without --overwrite or --resume.
        video: Also write an mp4 of the first episode of each class.
        overwrite: Replace the files of an earlier rollout in the output folder.
        resume: Continue an interrupted or killed rollout: the same command, of which only
            --workers, --execution and --video may differ. The results are the same as without the
            interruption.
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
    instruction: bool = False
    workers: Workers | None = None
    execution: Literal["parallel", "ray"] = "parallel"
    out: Annotated[Path, Parameter(metavar="DIR")] = Path("results")
    video: bool = False
    overwrite: bool = False
    resume: bool = False


@described
def run(
    benchmark: Annotated[
        str | None, Parameter(help=f"One of {', '.join(BENCHMARKS)}; ML10 means ML10-train.")
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
    rollout = _checked(benchmark, options)
    import_extra("matplotlib.figure", "cli")
    with _folder(options):
        films = options.video and _can_film()
        raise_on_ctrl_c()
        if options.resume and not (options.out / EVIDENCE).exists():
            warn(f"{options.out} has no episodes to continue: starting from the beginning")
        with contextlib.suppress(BrokenPipeError):  # the files are written if nobody reads this
            _announce(rollout)
        follower, start = _Follower(options.out), time.perf_counter()
        try:
            result, planned = _evaluate(rollout, follower)
            seconds = time.perf_counter() - start
            paths = _write(rollout, result)
            if films:
                paths += _film(rollout, planned)
        except EvidenceError as exc:
            raise UsageError(f"--resume: {exc}") from None
        except OSError as exc:
            raise _cannot_write(options.out, exc) from None
        except KeyboardInterrupt:
            total = rollout.num_classes * rollout.design.episodes_per_task
            finished = follower.count_finished(total)
            done = "no episode was begun"
            if finished is not None:
                done = f"{finished} of {total} episodes were finished"
            raise KeyboardInterrupt(done) from None
    say(str(result))
    steps = sum(follower.lengths)
    say(f"{steps:,} steps in {seconds:.1f} s: {steps / seconds:,.0f} steps/s")
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
        own: The policy, unless it is in `POLICIES`.
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
    own: UserPolicy | None
    description: Description
    num_classes: int
    workers: int
    envs_per_task: int

    @property
    def extent(self) -> str:
        """How many episodes there are."""
        n = self.design.episodes_per_task
        return f"{n} episode{'s' * (n > 1)} per class"


def _checked(benchmark: str | None, options: Options) -> Rollout:
    """Checks the options.

    Raises:
        UsageError: If the benchmark, a class, the protocol or the policy is unknown, or they are
            incompatible.
    """
    protocol = None if options.protocol is None else _protocol(options.protocol)
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
    seen = {"observation": options.observation, "instruction": options.instruction}
    observed = {name: value for name, value in seen.items() if value not in ("state", False)}
    for name in observed if scripted or protocol is not None else ():
        what = f"{options.policy} reads states" if scripted else "a protocol says what is observed"
        raise UsageError(f"--{name} is for a policy of your own without a protocol: {what}")
    full = benchmark if benchmark in BENCHMARKS else f"{benchmark}-train"
    if full not in BENCHMARKS:
        if benchmark in all_classes():
            raise UsageError(
                f"{benchmark} is a class: choose it with mtwrappers rollout MT1 --task {benchmark}"
            )
        raise unknown(f"benchmark {benchmark!r}", benchmark.rpartition("/")[2], BENCHMARKS)
    if options.instruction and full.startswith("ML"):
        raise UsageError(f"--instruction would reveal the class, which {benchmark} hides")
    num_classes = _count_classes(full, options)
    kwargs: dict[str, Any] = {
        "seed": options.seed,
        "max_episode_steps": EPISODE_STEPS,
        **observed,
    }
    if options.task and full.partition("-")[0] in ONE_CLASS:
        kwargs["env_name"] = options.task[0]
    privileged = full.startswith("ML") and options.policy == "expert"
    try:
        description = Description(
            options.name or options.policy,
            options.training_seed,
            options.training_steps,
            note="the policy reads hidden goals" * privileged,
        )
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    design = Design(options.seed, options.episodes or 5, options.task or None)
    if protocol is not None:
        if scripted:
            protocol = protocol.with_states()  # which these policies read
        try:
            protocol = protocol.on(benchmark, kwargs.get("env_name"))
        except ValueError as exc:
            raise UsageError(f"--protocol {options.protocol}: {exc}") from None
        episodes = protocol.scoring.episodes_per_task
        if options.episodes not in (None, episodes):
            raise UsageError(
                f"--protocol {options.protocol}: it has {episodes} episodes per class, got "
                f"{options.episodes}; leave out --episodes"
            )
        kwargs.update(protocol.settings.arguments)
        design = protocol.design(options.seed, tasks=options.task or None)
    if options.execution == "ray":
        if options.workers == 0:
            raise UsageError("--execution ray needs one worker or more, got --workers 0")
        import_extra("ray", "ray")
    own = None if scripted else load_policy(options.policy)
    chunks = own is not None and isinstance(own.policy, ActionChunks)
    if chunks and options.action_chunk is not None:
        raise UsageError(
            f"--action-chunk {options.action_chunk}: {options.policy} is an ActionChunks, which "
            "has a number of its own; leave out --action-chunk"
        )
    workers = cores() if options.workers is None else options.workers
    each = min(design.episodes_per_task, -(-max(workers, 1) // num_classes))
    workers = min(workers, each * num_classes)
    return Rollout(
        options, full, kwargs, design, protocol, own, description, num_classes, workers, each
    )


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


def _count_classes(full: str, options: Options) -> int:
    """The number of chosen classes, by default of all of a benchmark."""
    name, _, kind = full.partition("-")
    if name in ONE_CLASS:
        known = sorted(all_classes())
        if len(options.task) > 1:
            raise UsageError(
                f"{name} has one class, got {len(options.task)}; several are in MT10, MT50, ..."
            )
        others: list[str] = []
    else:
        made = make_benchmark(name, seed=options.seed)
        known, others = list(made.train_classes), list(made.test_classes)
        if kind == "test":
            known, others = others, known
    for task in options.task:
        if "," in task:
            raise UsageError(f"--task takes one class, got {task!r}: repeat --task for each class")
        if options.task.count(task) > 1:
            raise UsageError(f"--task {task} is given {options.task.count(task)} times")
        if task in others:
            other = f"{name}-{'train' if kind == 'test' else 'test'}"
            raise UsageError(
                f"{task} is not a class of {full} but of {other}: mtwrappers rollout {other} "
                f"--task {task}"
            )
        if task not in known:
            in_others = did_you_mean(task, others) and not did_you_mean(task, known)
            raise unknown(f"class {task!r} of {full}", task, others if in_others else known)
    return 1 if name in ONE_CLASS else len(options.task or known)


def _announce(rollout: Rollout) -> None:
    """Prints what is about to run."""
    if rollout.benchmark.startswith("ML") and rollout.options.policy == "expert":
        say(
            f"{rollout.benchmark.partition('-')[0]} has hidden goals. The experts read them from "
            "the environment: privileged\ninformation that a learner does not have."
        )
    place = f"on {rollout.workers} worker{'s' * (rollout.workers > 1)}"
    if rollout.workers == 0:
        place = "in this process"
    say(f"Running {rollout.benchmark} {place}: {rollout.extent} into {rollout.options.out}")


def _make_envs(rollout: Rollout) -> MetaVectorEnv:
    """Makes environments of each class; with ``--task``, one per worker that runs all of them.

    These build only the classes that they run.
    """
    kwargs, workers, each = dict(rollout.env_kwargs), rollout.workers, rollout.envs_per_task
    env_id = f"mtwrappers/{rollout.benchmark}-v0"
    execution: Any = "ray" if rollout.options.execution == "ray" else None
    if not rollout.options.task:
        options = {"workers": workers, "envs_per_task": each, "execution": execution}
        return cast(MetaVectorEnv, gymnasium.make_vec(env_id, **kwargs, **options))
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
    return envs


class ScriptedPolicy(Observer):
    """A Meta-World expert, or random actions, for each environment, chosen anew per episode.

    So its actions depend neither on the number of workers nor on the rest of the batch.
    """

    def __init__(self, experts: bool, envs: MetaVectorEnv, seed: int) -> None:
        self._experts, self._envs, self._seed = experts, envs, seed
        self._class_index = {task: i for i, task in enumerate(envs.get_attr("task_names")[0])}
        self._act: list[Callable[[NDArray[Any]], NDArray[np.float32]]] = [
            lambda obs: np.zeros(4, np.float32)
        ] * envs.num_envs

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Chooses the policy of environment ``i``."""
        if self._experts:
            act, [goal] = expert(episode.task), self._envs.call_some([i], "goal")
            self._act[i] = lambda obs: act(obs, goal)
        else:
            key = (self._class_index[episode.task], episode.number)
            rng = Generator(PCG64(SeedSequence(self._seed, spawn_key=key)))
            self._act[i] = lambda obs: rng.uniform(-1.0, 1.0, 4).astype(np.float32)

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Returns actions ``(N, 4)`` for observations ``(N, O)``."""
        return np.stack([act(obs) for act, obs in zip(self._act, observations, strict=True)])


@contextlib.contextmanager
def _folder(options: Options) -> Iterator[None]:
    """Makes and locks the output folder, which may have an earlier rollout only if that is said."""
    out = options.out
    with contextlib.ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            free = stack.enter_context(locked(out))
            earlier = _files_of_rollouts(out)
        except OSError as exc:
            raise _cannot_write(out, exc) from None
        if not free:
            raise UsageError(
                f"another rollout is writing into {out}: wait until it has ended, or choose "
                "another place with --out"
            )
        if earlier and not (options.overwrite or options.resume):
            raise UsageError(
                f"{out} has files of an earlier rollout ({', '.join(earlier)}): replace them with "
                "--overwrite, continue it with --resume, or choose another folder with --out DIR"
            )
        yield


def _files_of_rollouts(out: Path) -> list[str]:
    known = {RESULTS, EVIDENCE, TABLE_FILE, CHART, *(f"{task}.mp4" for task in all_classes())}
    return sorted(known.intersection(os.listdir(out)))


def _cannot_write(out: Path, exc: OSError) -> UsageError:
    return UsageError(
        f"cannot write to {out}: {exc.strerror or exc}; choose another directory with --out DIR, "
        "or make this one writable and continue with --resume"
    )


class _Follower(Observer):
    """Counts episodes; at the first, removes the files of an earlier rollout."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._planned: int | None = None  # the episodes that are left to this rollout
        self.lengths: list[int] = []  # of those that it has finished

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Counts the episodes that are left."""
        self._planned = len(episodes)

    def count_finished(self, total: int) -> int | None:
        """How many of all episodes are finished, here or before; ``None`` if none was begun."""
        if self._planned is None:
            return None
        return total - self._planned + len(self.lengths)

    def end(self, i: int, episode: Episode) -> None:
        """Counts an episode, which is in the evidence by now."""
        if not self.lengths:
            for name in _files_of_rollouts(self._out):
                if name != EVIDENCE:
                    (self._out / name).unlink()
        self.lengths.append(episode.length)


def _evaluate(
    rollout: Rollout, follower: _Follower
) -> tuple[EvaluationResult, Sequence[PlannedEpisode]]:
    """Runs the episodes that are left; returns the result of all, and their plan."""
    options, observers = rollout.options, list[Observer]([follower])
    with (
        warnings.catch_warnings(),
        contextlib.closing(_make_envs(rollout)) as envs,
        named_errors(rollout.own),
    ):
        warnings.filterwarnings("always", message=".* episodes are taken from")
        warnings.showwarning = lambda message, *_: warn(str(message))
        policy: Any
        if rollout.own is None:
            policy = ScriptedPolicy(options.policy == "expert", envs, options.seed)
            observers.insert(0, policy)
        elif options.action_chunk is None:
            policy = rollout.own.policy
        else:
            policy = ActionChunks(rollout.own.policy, options.action_chunk)
        result = run_evaluation(
            policy,
            envs,
            rollout.design,
            rollout.protocol,
            observers=observers,
            evidence=options.out / EVIDENCE,
            resume=options.resume,
            progress=True,
            command={k: v for k, v in asdict(options).items() if k not in _OF_MACHINE},
        )
        planned = plan_episodes(envs, rollout.design).episodes
    chunk = result.description.action_chunk  # of the policy or of the command
    return replace(result, description=replace(rollout.description, action_chunk=chunk)), planned


def _write(rollout: Rollout, result: EvaluationResult) -> list[Path]:
    """Writes the files beside the evidence, each whole or not at all; returns all paths."""
    out, options = rollout.options.out, rollout.options
    rows: list[dict[str, Any]] = [
        {"task": task, "episodes": len(result.of_task(task))}
        | {head: (one := found[metric]) and one.value for head, metric in _MEANS.items()}
        for task, found in result.per_task.items()
    ]
    format_csv(rows, out / TABLE_FILE)
    title = f"{rollout.benchmark}, {options.policy} policy, seed {options.seed}, {rollout.extent}"
    result.plot(out / CHART, title)
    result.save(out / RESULTS)
    return [out / name for name in (TABLE_FILE, RESULTS, CHART, EVIDENCE)]


# Videos.


def _can_film() -> bool:
    """Chooses a renderer for this process and its workers; without one, prints so."""
    import_extra("imageio_ffmpeg", "cli")
    name = choose_gl()
    if name is None:
        warn(
            "no video: neither EGL nor OSMesa can render here; install one of them (Debian: "
            f"libegl1 or libosmesa6). The rollout continues without one. {DOCTOR}."
        )
        return False
    os.environ["MUJOCO_GL"] = name
    return True


def _film(rollout: Rollout, planned: Sequence[PlannedEpisode]) -> list[Path]:
    """Replays the first episode of each class into an mp4 in real time; returns the paths."""
    imageio, out = import_extra("imageio.v3", "cli"), rollout.options.out
    kwargs = {"render_mode": "rgb_array", **rollout.env_kwargs}
    if kwargs.get("observation", "state") == "state":  # else the policy's own camera
        kwargs["camera_name"] = "corner3"
    paths, actions = [], read_evidence(out / EVIDENCE)
    env_id = f"mtwrappers/{rollout.benchmark}-v0"
    first = [one for one in planned if one.number == 0]
    with (
        contextlib.closing(gymnasium.make(env_id, disable_env_checker=True, **kwargs)) as env,
        ProgressBar(True).of("videos", len(first)) as advance,
    ):
        for one in first:
            env.reset(seed=one.seed, options={"task_state": one.task_state})
            frames = [env.render()]
            for t, action in enumerate(actions[name_of(one)], 1):
                _, _, terminated, truncated, _ = env.step(action)
                if t % FRAME_EVERY == 0 and not (terminated or truncated):
                    frames.append(env.render())
            fps = METADATA["render_fps"] / FRAME_EVERY
            coded = imageio.imwrite("<bytes>", frames, extension=".mp4", fps=fps, codec="libx264")
            paths.append(out / f"{one.task}.mp4")
            write_atomically(paths[-1], coded)
            advance(1)
    return paths
