"""``mtwrappers rollout``: an evaluation of scripted experts, with a progress bar and files."""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import os
import shlex
from multiprocessing import forkserver
from typing import Any

import gymnasium

from mtwrappers import _start
from mtwrappers.cli.common import (
    BENCHMARKS,
    EVIDENCE,
    POLICIES,
    RESULTS,
    UsageError,
    progress,
    quiet_experts,
)
from mtwrappers.cli.files import locked, write_files
from mtwrappers.cli.observers import Interruption, ScriptedPolicy, Videos
from mtwrappers.cli.policies import Own, load_policy, own_errors
from mtwrappers.cli.progress import (
    Progress,
    begun,
    cannot_begin,
    cannot_write,
    foreign,
    how_to_resume,
    resumed,
)
from mtwrappers.common.cores import cores
from mtwrappers.common.extras import import_extra
from mtwrappers.common.interrupts import after_start
from mtwrappers.common.registration import EPISODE_STEPS
from mtwrappers.evaluation import EvaluationResult, Observer, Provenance, evaluate
from mtwrappers.evaluation.episodes import ForeignEpisodeError
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.published import protocols
from mtwrappers.metaworld.benchmarks import make_benchmark
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.vector.make import Execution, make_executor

# The settings that the results name.
SHOWN = ("benchmark", "policy", "episodes", "seed", "protocol")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    with contextlib.ExitStack() as stack:
        if args.resume is None:
            if args.protocol is not None:
                protocol = _protocol(args.protocol)
                split = "-test" if protocol.kind == "test" else ""
                args.benchmark = args.benchmark or protocol.benchmark + split
                args.episodes = args.episodes or protocol.episodes_per_task
            kept = begun(args)
            made = _environments(args, kept)
            try:
                kept.directory.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(kept.directory))
            except OSError as exc:
                raise cannot_begin(kept.directory, exc) from None
        else:
            with contextlib.suppress(OSError):  # there is none, as `resumed` will find
                stack.enter_context(locked(args.resume))
            found = resumed(args)
            if found is None:
                print(f"The rollout into {args.resume} is complete: see {args.resume / RESULTS}.")
                return 0
            kept = found
            made = _environments(args, kept)
        return _play(args, kept, *made)


def _play(
    args: argparse.Namespace,
    kept: Progress,
    env_id: str,
    kwargs: dict[str, Any],
    own: Own | None,
    protocol: Protocol | None,
) -> int:
    """Plays what is not finished, and writes what came of it."""
    console = import_extra("rich.console", "cli").Console()
    import_extra("matplotlib.figure", "cli")
    plain = {"soft_wrap": True, "markup": False, "highlight": False}
    films = args.video and _prepare_video(console)
    if films:
        kwargs.update(render_mode="rgb_array", camera_name=kwargs.get("camera_name", "corner3"))
    quiet_experts()
    privileged = args.benchmark.startswith("ML") and args.policy == "expert"
    interrupted, videos, played = False, None, None
    name = args.name or args.policy
    alone = bool(args.task) and protocol is None
    _start.catch()  # from here on there is something to keep
    with kept:
        if privileged:
            family = args.benchmark.partition("-")[0]
            console.print(
                f"{family} hides its goals. The experts read them from the environment: privileged "
                "information that a learner does not have."
            )
        workers = f"{kwargs['workers']} worker{'s' * (kwargs['workers'] > 1)}"
        plan = f"{args.episodes} episodes per class into {args.out}"
        console.print(f"Playing {args.benchmark} on {workers}: {plan}", **plain)
        try:
            with (
                # Workers are forked only where there are no threads, such as the progress bar's.
                contextlib.closing(_make(env_id, alone, **kwargs)) as envs,
                progress(console) as shown,
                Interruption() as interruption,
                own_errors(own),
            ):
                bar = shown.add_task("episodes", total=None, rate="")
                kept.bar = functools.partial(shown.update, bar)
                observers: list[Observer] = [kept, interruption]
                if films:
                    videos = Videos(envs)
                    observers.insert(0, videos)
                policy: Any = own and own.policy
                if policy is None:
                    policy = ScriptedPolicy(args.policy == "expert", envs, args.seed)
                    observers.insert(0, policy)
                tasks = args.task or None
                whence = {
                    "tasks": tasks,
                    "policy": name,
                    "protocol": protocol,
                }
                provenance = Provenance.of(envs, args.episodes, **whence)
                measure: Any = evaluate if protocol is None else protocol.evaluate
                played = measure(
                    policy,
                    envs,
                    episodes_per_task=args.episodes,
                    tasks=tasks,
                    seed=args.seed,
                    observers=observers,
                    finished=tuple(kept.episodes),
                    policy_name=name,
                )
        except KeyboardInterrupt:
            interrupted = True
        except ForeignEpisodeError as exc:
            raise foreign(kept.directory, exc) from None
        except UsageError:
            if not kept.episodes:
                kept.remove()
            raise
    if interrupted and len(kept.episodes) == kept.resumed:
        if not kept.episodes:
            kept.remove()
        console.print(
            "Interrupted before an episode was finished; nothing was written. Run the "
            "command again to start anew."
        )
        return 130
    result = played or EvaluationResult(kept.in_order(), args.seed, provenance=provenance)
    seconds, steps = kept.seconds, sum(episode.length for episode in result.episodes)
    settings = {
        **{key: getattr(args, key) for key in SHOWN},
        "name": name,
        "privileged_goal": privileged,
        "interrupted": interrupted,
        "seconds": seconds,
        "steps": steps,
        "steps_per_second": (rate := steps / seconds),
    }
    # Whole lines, so that pipes and files get the table as it is.
    console.print(str(result), soft_wrap=True, markup=False)
    console.print(f"{steps:,} steps in {seconds:.1f} s: {rate:,.0f} steps/s")
    title = f"{args.benchmark}, {args.policy} policy, seed {args.seed}, "
    title += f"{args.episodes} episodes per class"
    note = f"interrupted: {len(result.episodes)} of {kept.planned} episodes" * interrupted
    try:
        paths = write_files(kept, settings, result, (title, note), videos)
    except OSError as exc:
        raise cannot_write(args.out, args.policy, exc) from None
    for path in paths:
        console.print(f"wrote {path}", highlight=False)
    if interrupted:
        console.print("Interrupted: these are the episodes that were finished. Go on with:")
        console.print(how_to_resume(args.out, args.policy), **plain)
        return 130
    kept.remove()
    if kept.settings["evidence"]:
        both = f"{RESULTS} and {EVIDENCE}"
        console.print(f"Anyone who has {both} can check the numbers:", **plain)
        console.print(f"mtwrappers verify {shlex.quote(str(args.out / RESULTS))}", **plain)
    return 0


def _environments(
    args: argparse.Namespace, kept: Progress
) -> tuple[str, dict[str, Any], Own | None, Protocol | None]:
    """The arguments of `gymnasium.make_vec`, a policy of one's own if that is to play, and so on.

    Settings of the progress go to ``args``.
    """
    vars(args).update(kept.settings, out=kept.directory)
    full = args.benchmark if args.benchmark in BENCHMARKS else f"{args.benchmark}-train"
    protocol = None if args.protocol is None else _protocol(args.protocol)
    if protocol is not None and args.policy in POLICIES:
        protocol = protocol.with_states()  # which these read
    if full not in BENCHMARKS:
        raise UsageError(
            f"unknown benchmark {args.benchmark!r} (choose from {', '.join(BENCHMARKS)})"
        )
    name, _, kind = full.partition("-")
    kwargs: dict[str, Any] = {
        "seed": args.seed,
        "fast": False if args.no_fast else "auto",
        "max_episode_steps": EPISODE_STEPS,
    }
    if name in ("MT1", "ML1"):
        choices, num_classes = sorted(all_classes()), 1
        if len(args.task) > 1:
            raise UsageError(
                f"{name} has one class, got {len(args.task)}; several are in MT10, MT50, ..."
            )
    else:
        made = make_benchmark(name, seed=args.seed)
        choices = list(made.test_classes if kind == "test" else made.train_classes)
        num_classes = len(set(args.task) or choices)
    for task in args.task:
        if task not in choices:
            raise UsageError(
                f"unknown class {task!r} of {args.benchmark} (choose from {', '.join(choices)})"
            )
    if args.task and name in ("MT1", "ML1"):
        kwargs["env_name"] = args.task[0]
    if protocol is not None:
        try:
            protocol = protocol.on(args.benchmark, kwargs.get("env_name"))
            if args.episodes != (due := protocol.episodes_per_task):
                raise ValueError(f"it has {due} episodes of each class, got {args.episodes}")
        except ValueError as exc:
            raise UsageError(f"--protocol {args.protocol}: {exc}") from None
        kwargs.update(protocol.settings)
    if args.execution == "ray":
        import_extra("ray", "ray")
        kwargs["execution"] = "ray"
    workers = args.workers or cores()
    # Enough environments of each class for all workers; the result does not depend on it.
    each = min(args.episodes, -(-workers // num_classes))
    kwargs.update(envs_per_task=each, workers=min(workers, each * num_classes))
    own = None if args.policy in POLICIES else load_policy(args.policy)
    return f"mtwrappers/{full}-v0", kwargs, own, protocol


def _protocol(name: str) -> Protocol:
    if name not in protocols:
        raise UsageError(f"unknown protocol {name!r} (choose from {', '.join(protocols)})")
    protocol = protocols[name]
    if protocol.few_shot:
        raise UsageError(
            f"--protocol {name} lets policies adapt, which takes more than a function. Measure one "
            f"in Python: mtwrappers.protocols[{name!r}].evaluate(policy, workers=2, "
            "evidence='r.npz').save('r.json'); verify and compare take the file"
        )
    return protocol


def _make(
    env_id: str,
    chosen: bool,
    workers: int,
    envs_per_task: int,
    execution: Execution | None = None,
    **kwargs: Any,
) -> Any:
    """One environment per class; where classes are chosen, environments that move among all.

    These build only the classes that they play.
    """
    if not chosen:
        kwargs.update(workers=workers, envs_per_task=envs_per_task, execution=execution)
        return gymnasium.make_vec(env_id, **kwargs)
    make = functools.partial(
        gymnasium.make, f"mtwrappers:{env_id}", disable_env_checker=True, **kwargs
    )
    renders = "render_mode" in kwargs
    many = [make] * workers
    envs = make_executor(many, workers, workers=workers, execution=execution, renders=renders)
    # They give the episodes of the benchmark's own environments, which are easier to make again.
    envs.spec = copy.deepcopy(gymnasium.spec(env_id))
    envs.spec.kwargs.update(kwargs)
    return envs


def _prepare_video(console: Any) -> bool:
    import_extra("imageio_ffmpeg", "cli")
    from mtwrappers.metaworld.opengl import choose_gl  # which imports mujoco

    name = choose_gl()
    if name is None:
        console.print(
            "No video: neither EGL nor OSMesa can render here. Install one of them (Debian: "
            "libegl1 or libosmesa6). The rollout goes on without."
        )
        return False
    os.environ["MUJOCO_GL"] = name
    with after_start():  # so that the process that starts workers does not print where it was
        forkserver.ensure_running()
    return True
