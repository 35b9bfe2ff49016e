"""The command line: ``mtwrappers list``, ``rollout`` and ``verify-fast``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
from gymnasium.error import DependencyNotInstalled

from mtwrappers._extras import import_extra
from mtwrappers.registration import EPISODE_STEPS, TABLE

BENCHMARKS = tuple(
    name.removeprefix("mtwrappers/").removesuffix("-v0")
    for name, (_, kwargs, _) in TABLE.items()
    if "benchmark" in kwargs and "train_classes" not in kwargs
)
LIST_COLUMNS = {
    "id": 28,
    "tasks": 5,
    "goals": 5,
    "observation": 11,
    "action": 11,
    "encoding": 8,
    "envs": 4,
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"mtwrappers: error: {' '.join(message.split())}\n")


class _UsageError(Exception):
    """Bad input, found after parsing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Returns:
        0, or 1 when classes differ, 2 for bad input or where nothing can be written, 130 after
        Ctrl-C.
    """
    parser = _Parser(prog="mtwrappers", description="Multi-task environments on Meta-World.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="{list,rollout,verify-fast}"
    )
    commands.add_parser("list", help="every id with its tasks, spaces and sizes")
    rollout = commands.add_parser("rollout", help="play a benchmark and report success rates")
    rollout.add_argument("benchmark", help=f"one of {', '.join(BENCHMARKS)}; ML10 is ML10-train")
    rollout.add_argument(
        "--task", action="append", default=[], metavar="CLASS", help="only this class; repeatable"
    )
    rollout.add_argument("--policy", default="expert", choices=("expert", "random"))
    rollout.add_argument("--episodes", type=_positive, default=5, help="episodes per class (5)")
    rollout.add_argument("--seed", type=_seed, default=0, help="goals, their order, actions (0)")
    rollout.add_argument("--workers", type=_positive, default=None, help="processes (all cores)")
    rollout.add_argument("--out", type=Path, default=Path("results"), help="directory (results)")
    rollout.add_argument(
        "--video", action="store_true", help="an mp4 of the first episode of each class"
    )
    rollout.add_argument("--no-fast", action="store_true", help="Meta-World's own classes")
    verify = commands.add_parser(
        "verify-fast", help="compare the fast classes with Meta-World's own, bit for bit"
    )
    verify.add_argument("--full", action="store_true", help="whole episodes, several tasks")
    verify.add_argument("--workers", type=_positive, default=None, help="processes (all cores)")
    args = parser.parse_args(argv)
    try:
        return {"list": _list, "rollout": _rollout, "verify-fast": _verify}[args.command](args)
    except (_UsageError, DependencyNotInstalled) as exc:
        parser.error(str(exc))
    except KeyboardInterrupt:
        print("Interrupted; nothing was written.", file=sys.stderr)
        return 130


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return value


def _seed(text: str) -> int:
    value = int(text) if text.isdecimal() else -1
    if not 0 <= value < 2**32 - 1:
        raise argparse.ArgumentTypeError(f"must be in [0, 2**32 - 2], got {text}")
    return value


def _list(args: argparse.Namespace) -> int:
    from mtwrappers.metaworld.registered import default_task_encoding

    console = import_extra("rich.console", "cli").Console()
    table = import_extra("rich.table", "cli").Table(
        box=import_extra("rich.box", "cli").SIMPLE_HEAD, padding=0, show_edge=False
    )
    # Every column at its full width: 79 characters in all, so that pipes and files get it whole.
    for title, width in LIST_COLUMNS.items():
        table.add_column(title, no_wrap=True, min_width=width)
    for env_id, (_, kwargs, _) in TABLE.items():
        env: Any = gymnasium.make(env_id, disable_env_checker=True)
        names: Any = (
            env.get_wrapper_attr("task_names") if env.has_wrapper_attr("task_names") else ()
        )
        is_metaworld = "benchmark" in kwargs
        encoding = default_task_encoding(kwargs["benchmark"]) if is_metaworld else "onehot"
        table.add_row(
            env_id,
            str(len(names)) if names else "any",
            str(env.get_wrapper_attr("num_tasks") // len(names)) if is_metaworld else "-",
            _space(env.observation_space),
            _space(env.action_space),
            encoding if names else "none",
            str(len(names)) if names else "1",
        )
        env.close()
    console.print(table)
    console.print(
        "goals: tasks per class; encoding: how make() shows the task; envs: of make_vec() by "
        "default",
        highlight=False,
    )
    return 0


def _space(space: Any) -> str:
    return f"{space}" if not space.shape else f"{space.dtype}{list(space.shape)}"


def _verify(args: argparse.Namespace) -> int:
    from mtwrappers.metaworld.upstream import all_classes
    from mtwrappers.metaworld.verify import FULL, QUICK, verify

    names = list(all_classes())
    console = import_extra("rich.console", "cli").Console()
    _quiet_experts()
    start, differ = time.perf_counter(), {}
    with _progress(console) as progress:
        bar = progress.add_task("classes", total=len(names), rate="")
        for name, found in verify(FULL if args.full else QUICK, names, args.workers or _cores()):
            if found is not None:
                differ[name] = found
            progress.advance(bar)
    console.print(", ".join(f"{n} {version(n)}" for n in ("metaworld", "mujoco", "numpy", "scipy")))
    for name, found in differ.items():
        console.print(f"{name} differs. {found}", highlight=False)
    answer = "no" if differ else "yes"
    console.print(
        f"{answer}: {len(names) - len(differ)} of {len(names)} classes give Meta-World's own bits "
        f"({time.perf_counter() - start:.0f} s)",
        highlight=False,
    )
    return 1 if differ else 0


def _progress(console: Any) -> Any:
    module = import_extra("rich.progress", "cli")
    return module.Progress(
        *module.Progress.get_default_columns(),
        module.MofNCompleteColumn(),
        module.TextColumn("{task.fields[rate]}"),
        console=console,
    )


def _quiet_experts() -> None:
    """Scripted experts ask for more than the action bounds, and say so; environments clip."""
    warnings.filterwarnings("ignore", message="Constant.s. may be too high")
    # For worker processes.
    os.environ["PYTHONWARNINGS"] = "ignore:Constant(s) may be too high:UserWarning"


def _rollout(args: argparse.Namespace) -> int:
    from mtwrappers.evaluation import EvaluationResult, evaluate
    from mtwrappers.rollout import (
        Finished,
        Interruption,
        ScriptedPolicy,
        Videos,
        results_of,
        write_files,
    )

    env_id, kwargs = _environments(args)
    _require_writable(args.out)
    console = import_extra("rich.console", "cli").Console()
    import_extra("matplotlib.figure", "cli")
    films = args.video and _prepare_video(console)
    if films:
        kwargs.update(render_mode="rgb_array", camera_name="corner3")
    _quiet_experts()
    privileged = args.benchmark.startswith("ML") and args.policy == "expert"
    if privileged:
        family = args.benchmark.partition("-")[0]
        console.print(
            f"{family} hides its goals. The experts read them from the environment: privileged "
            "information that a learner does not have."
        )
    interrupted, videos = False, None
    with _progress(console) as progress:
        bar = progress.add_task("episodes", total=None, rate="")
        start = time.perf_counter()

        def show(episodes: Sequence[Any]) -> None:
            rate = sum(e.length for e in episodes) / (time.perf_counter() - start)
            progress.update(
                bar, total=finished.planned, completed=len(episodes), rate=f"{rate:,.0f} steps/s"
            )

        finished = Finished(show)
        try:
            envs: Any = gymnasium.make_vec(env_id, **kwargs)
            try:
                policy = ScriptedPolicy(args.policy, envs, args.seed)
                videos = Videos(envs) if films else None
                with Interruption() as interruption:
                    observers = [policy, *([videos] if videos else []), finished, interruption]
                    start = time.perf_counter()
                    evaluate(
                        policy,
                        envs,
                        args.episodes,
                        tasks=args.task or None,
                        seed=args.seed,
                        observers=observers,
                    )
            finally:
                envs.close()
        except KeyboardInterrupt:
            interrupted = True
    seconds = time.perf_counter() - start
    # What is finished is written, however often Ctrl-C comes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not finished.episodes:
        console.print("Interrupted before an episode was finished; nothing was written.")
        return 130
    result = EvaluationResult(finished.episodes, args.seed)
    settings = {
        "benchmark": args.benchmark,
        "policy": args.policy,
        "privileged_goal": privileged,
        "episodes": args.episodes,
        "seed": args.seed,
        "interrupted": interrupted,
        "seconds": seconds,
    }
    results = results_of(settings, result)
    # Whole lines, so that pipes and files get the table as it is.
    console.print(str(result), soft_wrap=True, markup=False)
    rate = f"{results['steps_per_second']:,.0f} steps/s"
    console.print(f"{results['steps']:,} steps in {seconds:.1f} s: {rate}")
    title = f"{args.benchmark}, {args.policy} policy, seed {args.seed}, "
    title += f"{args.episodes} episodes per task"
    note = f"interrupted: {len(result.episodes)} of {finished.planned} episodes" * interrupted
    try:
        paths = write_files(args.out, results, result, (title, note), videos)
    except OSError as exc:
        raise _UsageError(
            f"cannot write to {args.out}: {exc.strerror or exc}; nothing of this rollout is kept"
        ) from None
    for path in paths:
        console.print(f"wrote {path}", highlight=False)
    if interrupted:
        console.print("Interrupted: these are the episodes that were finished.")
    return 130 if interrupted else 0


def _environments(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The id of the benchmark, and the arguments of `gymnasium.make_vec`."""
    from mtwrappers.metaworld.benchmarks import make_benchmark
    from mtwrappers.metaworld.upstream import all_classes

    full = args.benchmark if args.benchmark in BENCHMARKS else f"{args.benchmark}-train"
    if full not in BENCHMARKS:
        raise _UsageError(
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
            raise _UsageError(f"{name} has one task, got {len(args.task)}")
    else:
        made = make_benchmark(name, seed=args.seed)
        choices = list(made.test_classes if kind == "test" else made.train_classes)
        num_classes = len(set(args.task) or choices)
    for task in args.task:
        if task not in choices:
            raise _UsageError(
                f"unknown task {task!r} of {args.benchmark} (choose from {', '.join(choices)})"
            )
    if args.task and name in ("MT1", "ML1"):
        kwargs["env_name"] = args.task[0]
    workers = args.workers or _cores()
    # Enough environments of each class for all workers; the result does not depend on it.
    each = min(args.episodes, -(-workers // num_classes))
    workers = min(workers, each * num_classes)
    return f"mtwrappers/{full}-v0", {**kwargs, "envs_per_task": each, "workers": workers}


def _require_writable(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as exc:
        raise _UsageError(f"cannot write to {directory}: {exc.strerror}") from None


def _prepare_video(console: Any) -> bool:
    from mtwrappers.metaworld.opengl import choose_gl

    import_extra("imageio_ffmpeg", "cli")
    name = choose_gl()
    if name is None:
        console.print(
            "No video: neither EGL nor OSMesa can render here. Install one of them (Debian: "
            "libegl1 or libosmesa6). The rollout goes on without."
        )
        return False
    os.environ["MUJOCO_GL"] = name
    return True


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
