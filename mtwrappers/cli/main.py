"""The command line: ``mtwrappers list``, ``rollout`` and ``verify-fast``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
from gymnasium.error import DependencyNotInstalled

from mtwrappers._extras import import_extra
from mtwrappers.cli.common import BENCHMARKS, UsageError, progress, quiet_experts
from mtwrappers.registration import TABLE

# 78 characters in all, so that pipes and files get every column whole.
LIST_ROW = "{:28} {:>5} {:>5}  {:11} {:11} {:8} {:>4}"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"mtwrappers: error: {' '.join(message.split())}\n")


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
    rollout.add_argument(
        "benchmark", nargs="?", help=f"one of {', '.join(BENCHMARKS)}; ML10 is ML10-train"
    )
    rollout.add_argument(
        "--task", action="append", metavar="CLASS", help="only this class; repeatable"
    )
    rollout.add_argument("--policy", choices=("expert", "random"), help="who acts (expert)")
    rollout.add_argument("--episodes", type=_positive, help="episodes per class (5)")
    rollout.add_argument("--seed", type=_seed, help="goals, their order, actions (0)")
    rollout.add_argument("--workers", type=_positive, default=None, help="processes (all cores)")
    rollout.add_argument(
        "--out", type=Path, help="directory (results); files of an earlier rollout are replaced"
    )
    rollout.add_argument(
        "--video",
        action="store_true",
        help="an mp4 of the first episode of each class; not with --resume, which does not play "
        "finished episodes again",
    )
    rollout.add_argument(
        "--no-fast", action="store_true", default=None, help="Meta-World's own classes"
    )
    rollout.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="go on with the interrupted or killed rollout into DIR, with its settings; only "
        "--workers may differ. The results are those of a rollout that was never stopped",
    )
    verify = commands.add_parser(
        "verify-fast", help="compare the fast classes with Meta-World's own, bit for bit"
    )
    verify.add_argument("--full", action="store_true", help="whole episodes, several tasks")
    verify.add_argument("--workers", type=_positive, default=None, help="processes (all cores)")
    args = parser.parse_args(argv)
    try:
        if args.command == "rollout":
            from mtwrappers.cli.rollout import run  # which imports Meta-World

            return run(args)
        return _list() if args.command == "list" else _verify(args)
    except (UsageError, DependencyNotInstalled) as exc:
        parser.error(str(exc))
    except KeyboardInterrupt:
        print("Interrupted; nothing was written.", file=sys.stderr)
        return 130


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32 - 1:
        raise argparse.ArgumentTypeError(f"must be in [0, 2**32 - 2], got {text}")
    return int(text)


def _list() -> int:
    from mtwrappers.metaworld.inputs import default_task_encoding

    rows = [LIST_ROW.format("id", "tasks", "goals", "observation", "action", "encoding", "envs")]
    for env_id, (_, kwargs, _) in TABLE.items():
        env: Any = gymnasium.make(env_id, disable_env_checker=True)
        named = env.has_wrapper_attr("task_names")
        num_classes = len(env.get_wrapper_attr("task_names")) if named else 0
        is_metaworld = "benchmark" in kwargs
        encoding = default_task_encoding(kwargs["benchmark"]) if is_metaworld else "onehot"
        row = (
            num_classes or "any",
            env.get_wrapper_attr("num_tasks") // num_classes if is_metaworld else "-",
            _space(env.observation_space),
            _space(env.action_space),
            encoding if num_classes else "none",
            num_classes or 1,
        )
        rows.append(LIST_ROW.format(env_id, *row))
        env.close()
    print("\n".join(rows))
    print(
        "\ngoals: tasks per class; encoding: how make() shows the task; envs: of make_vec() by "
        "default"
    )
    return 0


def _space(space: Any) -> str:
    return f"{space}" if not space.shape else f"{space.dtype}{list(space.shape)}"


def _verify(args: argparse.Namespace) -> int:
    from mtwrappers.metaworld.upstream import all_classes
    from mtwrappers.metaworld.verify import FULL, QUICK, verify
    from mtwrappers.vector.process import cores

    names = list(all_classes())
    console = import_extra("rich.console", "cli").Console()
    quiet_experts()
    start, differ = time.perf_counter(), {}
    with progress(console) as shown:
        bar = shown.add_task("classes", total=len(names), rate="")
        for name, found in verify(FULL if args.full else QUICK, names, args.workers or cores()):
            if found is not None:
                differ[name] = found
            shown.advance(bar)
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
