"""``mtwrappers rollout``: evaluates a policy, with a progress bar and output files."""

from __future__ import annotations

import contextlib
import copy
import csv
import functools
import io
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import gymnasium
import numpy as np
from cyclopts import Parameter
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.cli.commands import Count, Seed, Steps, described
from mtwrappers.cli.console import RESULTS, UsageError, progress_bar, say, say_table, unknown
from mtwrappers.cli.main import EXIT_CODE, raise_on_ctrl_c
from mtwrappers.cli.own import Own, load_policy, own_errors
from mtwrappers.cli.video import Videos, can_film
from mtwrappers.common.cores import cores
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import is_printable
from mtwrappers.common.extras import import_extra
from mtwrappers.common.registration import EPISODE_STEPS, TABLE
from mtwrappers.evaluation import (
    Design,
    Episode,
    EvaluationResult,
    EvidenceError,
    Observer,
    PlannedEpisode,
    Protocol,
    protocols,
)
from mtwrappers.evaluation.evaluate import run_evaluation
from mtwrappers.metaworld.experts import expert
from mtwrappers.metaworld.tasks import make_benchmark
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.samplers.policies import ActionChunks
from mtwrappers.samplers.rollout import Step
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
_COLUMNS = ("task", "episodes", "success_once", "success_final", "mean_return")
_MAX_NOTE = 1000  # characters
# Options that change nothing of a result.
_OF_MACHINE = ("workers", "execution", "out", "video", "overwrite", "resume")


def _check_policy(type_: Any, text: str | None) -> None:
    source, _, name = (text or "").rpartition(":")
    if text is not None and text not in POLICIES and not (source and name.isidentifier()):
        if text.endswith(".py"):
            raise ValueError(f"Name the policy in the file too, such as {text}:act.")
        forms = ", ".join([*POLICIES, "FILE.py:NAME", "package.module:NAME"])
        raise ValueError(did_you_mean(text, POLICIES).capitalize() or f"Choose from {forms}.")


def _check_name(type_: Any, text: str | None) -> None:
    if text is not None and not (text.strip() and len(text) <= 100 and is_printable(text)):
        raise ValueError("Must be 1 to 100 printable characters.")


def _check_note(type_: Any, text: str | None) -> None:
    if text is not None and not (len(text) <= _MAX_NOTE and is_printable(text)):
        raise ValueError(f"Must be at most {_MAX_NOTE} printable characters, without line breaks.")


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
        note: A line of text to keep in the result.
        episodes: Episodes per class (default: 5, or as many as the protocol has).
        seed: Determines goals, their order and random actions (default: 0); a protocol has its own
            goals.
        action_chunk: For a policy of your own that returns chunks of actions (N, H, 4): the number
            of actions to execute before it is called again.
        workers: Worker processes (default: all cores).
        execution: Where the workers run: local processes (default), or actors of a Ray cluster.
        out: The output folder (default: results). One that has files of an earlier rollout is
            refused without --overwrite or --resume.
        video: Also write an mp4 of the first episode of each class; not with --resume.
        no_fast: Run Meta-World's own classes, which are slower and give the same numbers.
        overwrite: Replace the files of an earlier rollout in the output folder.
        resume: Continue an interrupted or killed rollout: the same command, of which only --workers
            and --execution may differ. The results are the same as without the interruption.
    """

    task: Annotated[tuple[str, ...], Parameter(metavar="CLASS")] = ()
    policy: Annotated[str, Parameter(validator=_check_policy, metavar="POLICY")] = "expert"
    name: Annotated[str | None, Parameter(validator=_check_name, metavar="NAME")] = None
    protocol: Annotated[str | None, Parameter(metavar="NAME")] = None
    training_seed: Annotated[Steps | None, Parameter(metavar="SEED")] = None
    training_steps: Steps | None = None
    note: Annotated[str, Parameter(validator=_check_note, metavar="TEXT")] = ""
    episodes: Count | None = None
    seed: Seed = 0
    action_chunk: Count | None = None
    workers: Count | None = None
    execution: Literal["parallel", "ray"] = "parallel"
    out: Annotated[Path, Parameter(metavar="DIR")] = Path("results")
    video: bool = False
    no_fast: bool = False
    overwrite: bool = False
    resume: bool = False

    def line(self, benchmark: str | None) -> str:
        """The command that continues this one."""
        words = ["mtwrappers", "rollout", *([benchmark] if benchmark else [])]
        left_out = {"video", "overwrite", "resume"}
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default or field.name in left_out:
                continue
            option = f"--{field.name.replace('_', '-')}"
            values = value if isinstance(value, tuple) else [value]
            words += [option] if value is True else [w for one in values for w in (option, one)]
        return shlex.join(map(str, [*words, "--resume"]))


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
    for other, does in (("overwrite", "replaces"), ("video", "films")):
        if options.resume and getattr(options, other):
            raise UsageError(
                f"--{other} {does} a whole rollout, and --resume continues one: pass only one of "
                "them"
            )
    rollout = Rollout.of(benchmark, options)
    import_extra("matplotlib.figure", "cli")
    with _folder(options):
        films = options.video and can_film()
        raise_on_ctrl_c()
        with contextlib.suppress(BrokenPipeError):  # the files are written if nobody reads this
            rollout.announce()
        follower, start = _Follower(options.out), time.perf_counter()
        try:
            result, videos = _evaluate(rollout, follower, films)
            seconds = time.perf_counter() - start
            paths = _write(rollout, result, videos)
        except EvidenceError as exc:
            raise UsageError(f"--resume: {exc}") from None
        except OSError as exc:
            raise _cannot_write(options.out, exc) from None
        except KeyboardInterrupt:
            done, due = len(follower.lengths), follower.planned
            say(f"Interrupted: {done} of {due} episodes were finished. Continue with:", "yellow")
            say(options.line(benchmark), "bold")
            return EXIT_CODE
    say_table(str(result))
    steps = sum(follower.lengths)
    say(f"{steps:,} steps in {seconds:.1f} s: {steps / seconds:,.0f} steps/s")
    for path in paths:
        say(f"wrote {path}", "dim")
    say(f"Anyone who has {RESULTS} and {EVIDENCE} can check the numbers:")
    say(f"mtwrappers verify {shlex.quote(str(options.out / RESULTS))}", "bold")
    return 0


@dataclass(frozen=True)
class Rollout:
    """A rollout with checked options: its environments, policy and protocol."""

    options: Options
    benchmark: str  # as in ids: "MT10", "ML10-train"
    env_kwargs: dict[str, Any]  # for `gymnasium.make` and `make_vec`
    episodes: int  # per class
    num_classes: int
    protocol: Protocol | None
    own: Own | None  # the policy, unless it is in `POLICIES`

    @classmethod
    def of(cls, benchmark: str | None, options: Options) -> Rollout:
        """Checks the options.

        Raises:
            UsageError: If the benchmark, a class, the protocol or the policy is unknown, or they
                are incompatible.
        """
        protocol, own = None, None
        if options.protocol is not None:
            protocol = _protocol(options.protocol)
            benchmark = benchmark or protocol.benchmark + "-test" * (protocol.kind == "test")
        if benchmark is None:
            raise UsageError("a benchmark is required, such as: mtwrappers rollout MT10")
        scripted = options.policy in POLICIES
        if options.action_chunk is not None and scripted:
            raise UsageError(
                f"--action-chunk {options.action_chunk} is for a policy that returns chunks of "
                f"actions, and {options.policy} returns single ones; give --policy or leave it out"
            )
        full = benchmark if benchmark in BENCHMARKS else f"{benchmark}-train"
        if full not in BENCHMARKS:
            raise unknown(f"benchmark {benchmark!r}", benchmark, BENCHMARKS)
        num_classes = _count_classes(full, options)
        kwargs: dict[str, Any] = {
            "seed": options.seed,
            "fast": False if options.no_fast else "auto",
            "max_episode_steps": EPISODE_STEPS,
        }
        if options.task and _has_one_class(full):
            kwargs["env_name"] = options.task[0]
        episodes = options.episodes or 5
        if protocol is not None:
            if scripted:
                protocol = protocol.with_states()  # which these policies read
            episodes = protocol.episodes_per_task
            try:
                protocol = protocol.on(benchmark, kwargs.get("env_name"))
                if options.episodes not in (None, episodes):
                    raise ValueError(
                        f"it has {episodes} episodes per class, got {options.episodes}"
                    )
            except ValueError as exc:
                raise UsageError(f"--protocol {options.protocol}: {exc}") from None
            kwargs.update(protocol.settings)
        if options.execution == "ray":
            import_extra("ray", "ray")
        own = None if scripted else load_policy(options.policy)
        return cls(options, full, kwargs, episodes, num_classes, protocol, own)

    @property
    def design(self) -> Design:
        """The numbers that determine the episodes."""
        tasks, seed = self.options.task or None, self.options.seed
        if self.protocol is not None:
            return self.protocol.design(seed, tasks=tasks)
        return Design(seed, self.episodes, tasks)

    @property
    def reads_hidden_goals(self) -> bool:
        """Whether the policy reads goals that are hidden from a learner."""
        return self.benchmark.startswith("ML") and self.options.policy == "expert"

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of workers, and of environments of each class, enough for all of them.

        They do not change results.
        """
        workers = self.options.workers or cores()
        each = min(self.episodes, -(-workers // self.num_classes))
        return min(workers, each * self.num_classes), each

    def announce(self) -> None:
        """Prints what is about to run."""
        if self.reads_hidden_goals:
            say(
                f"{self.benchmark.partition('-')[0]} has hidden goals. The experts read them from "
                "the environment: privileged\ninformation that a learner does not have."
            )
        numbers = {"worker": self.sizes[0], "episode": self.episodes}
        workers, episodes = (f"{n} {what}{'s' * (n > 1)}" for what, n in numbers.items())
        say(
            f"Running {self.benchmark.removesuffix('-train')} on {workers}: {episodes} per class "
            f"into {self.options.out}"
        )

    def make_envs(self, films: bool) -> MetaVectorEnv:
        """Makes one environment per class; with ``task``, one per worker that runs all of them.

        These build only the classes that they run.
        """
        kwargs, (workers, each) = dict(self.env_kwargs), self.sizes
        env_id = f"mtwrappers/{self.benchmark}-v0"
        execution: Any = "ray" if self.options.execution == "ray" else None
        if films:
            kwargs["render_mode"] = "rgb_array"
            kwargs["camera_name"] = kwargs.get("camera_name", "corner3")
        if not self.options.task or self.protocol is not None:
            options = {"workers": workers, "envs_per_task": each, "execution": execution}
            made: Any = gymnasium.make_vec(env_id, **kwargs, **options)
            return cast(MetaVectorEnv, made)
        make = functools.partial(
            gymnasium.make, f"mtwrappers:{env_id}", disable_env_checker=True, **kwargs
        )
        envs = make_executor(
            [make] * workers, workers, workers=workers, execution=execution, renders=films
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


def _has_one_class(full: str) -> bool:
    """Whether a benchmark has a single class, which the user chooses."""
    return full.partition("-")[0] in ("MT1", "ML1")


def _count_classes(full: str, options: Options) -> int:
    """The number of chosen classes, by default of all of a benchmark."""
    name, _, kind = full.partition("-")
    if _has_one_class(full):
        choices = sorted(all_classes())
        if len(options.task) > 1:
            raise UsageError(
                f"{name} has one class, got {len(options.task)}; several are in MT10, MT50, ..."
            )
    else:
        made = make_benchmark(name, seed=options.seed)
        choices = list(made.test_classes if kind == "test" else made.train_classes)
    for task in options.task:
        if task not in choices:
            raise unknown(f"class {task!r} of {full}", task, choices)
    return 1 if _has_one_class(full) else len(set(options.task) or choices)


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
        "or continue with --resume where episodes were finished"
    )


class _Follower(Observer):
    """Counts episodes and displays them; at the first, removes the files of an earlier rollout."""

    def __init__(self, out: Path) -> None:
        self._out, self.planned = out, 0
        self.lengths: list[int] = []  # of the finished episodes
        self.display: Any = None  # called with the progress
        self._began = 0.0

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Starts the clock."""
        self.planned, self._began = len(episodes), time.perf_counter()

    def end(self, i: int, episode: Episode) -> None:
        """Counts an episode, which is in the evidence by now."""
        if not self.lengths:
            for name in _files_of_rollouts(self._out):
                if name != EVIDENCE:
                    (self._out / name).unlink()
        self.lengths.append(episode.length)
        rate = sum(self.lengths) / (time.perf_counter() - self._began)
        done = len(self.lengths)
        self.display(total=self.planned, completed=done, rate=f"{rate:,.0f} steps/s")


def _evaluate(
    rollout: Rollout, follower: _Follower, films: bool
) -> tuple[EvaluationResult, Videos | None]:
    """Runs the episodes that are left."""
    options, videos = rollout.options, None
    with (
        # Workers are forked before the progress bar starts its thread.
        contextlib.closing(rollout.make_envs(films)) as envs,
        progress_bar() as display,
        Interruption() as interruption,
        own_errors(rollout.own),
    ):
        bar = display.add_task("episodes", total=None, rate="")
        follower.display = functools.partial(display.update, bar)
        observers: list[Observer] = [follower, interruption]
        if films:
            videos = Videos(envs)
            observers.insert(0, videos)
        policy: Any
        if rollout.own is not None:
            policy = rollout.own.policy
            if options.action_chunk is not None:
                policy = ActionChunks(policy, options.action_chunk)
        else:
            policy = ScriptedPolicy(options.policy == "expert", envs, options.seed)
            observers.insert(0, policy)
        result = run_evaluation(
            policy,
            envs,
            rollout.design,
            rollout.protocol,
            "parent",
            observers,
            options.out / EVIDENCE,
            options.resume,
            {k: v for k, v in asdict(options).items() if k not in _OF_MACHINE},
        )
    result = result.described(
        policy=options.name or options.policy,
        training_seed=options.training_seed,
        training_steps=options.training_steps,
        note=options.note or "the policy reads hidden goals" * rollout.reads_hidden_goals,
    )
    return result, videos


class Interruption(Observer):
    """Defers Ctrl-C to a ``KeyboardInterrupt`` between two steps; a second Ctrl-C acts at once.

    So the first never splits a message to a worker. After the block Ctrl-C is ignored while
    workers end and files are written.
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


def _write(rollout: Rollout, result: EvaluationResult, videos: Videos | None) -> list[Path]:
    """Writes the files beside the evidence, each whole or not at all; returns all paths."""
    options, table = rollout.options, io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(_COLUMNS)
    for task, found in result.per_task.items():
        known = (found["success_once"], found["success_final"], found["return"])
        values = [estimate and estimate.value for estimate in known]
        writer.writerow([task, len(result.of_task(task)), *values])
    write_atomically(options.out / TABLE_FILE, table.getvalue().encode())
    title = f"{rollout.benchmark.removesuffix('-train')}, {options.policy} policy, "
    title += f"seed {options.seed}, {rollout.episodes} episodes per class"
    result.plot(options.out / CHART, title)
    films = [] if videos is None else videos.write(options.out)
    result.save(options.out / RESULTS)
    names = (TABLE_FILE, RESULTS, *films, CHART, EVIDENCE)
    return [options.out / name for name in names]
