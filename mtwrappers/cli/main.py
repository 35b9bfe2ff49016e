"""The command line: ``mtwrappers list``, ``rollout`` and ``verify-fast``."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
from gymnasium.error import DependencyNotInstalled

from mtwrappers import __version__
from mtwrappers._extras import import_extra
from mtwrappers.cli.common import BENCHMARKS, UsageError, progress, quiet_experts
from mtwrappers.registration import TABLE

# Title, and how a cell is written; 79 characters in all, so that pipes and files get every column.
LIST = {
    "id": "{:28}",
    "tasks": "{:>5}",
    "goals": "{:>5}",
    "observation": " {:11}",
    "action": "{:11}",
    "encoding": "{:8}",
    "envs": "{:>4}",
}
# What narrow terminals do without, in this order.
LIST_WIDE = ("action", "observation")
LIST_NOTES = (
    "goals: tasks per class; encoding: how make() shows the task",
    "envs: how many make_vec() makes by default",
)
EXAMPLES = {
    "mtwrappers": """
  mtwrappers list            what there is
  mtwrappers rollout MT10    play it with Meta-World's scripted experts
  mtwrappers rollout --help  all options""",
    "list": """
  mtwrappers list
  mtwrappers list | grep ML10""",
    "rollout": """
  mtwrappers rollout MT10
  mtwrappers rollout MT10 --policy random --episodes 50 --seed 1
  mtwrappers rollout MT50 --task hammer-v3 --task door-open-v3 --video
  mtwrappers rollout ML10-test --workers 4 --out ml10
  mtwrappers rollout --resume ml10""",
    "verify-fast": """
  mtwrappers verify-fast
  mtwrappers verify-fast --full --workers 2""",
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; its help ends with examples."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        examples = EXAMPLES[prog.split()[-1]]
        super().__init__(
            prog=prog,
            epilog=f"examples:{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **kwargs,
        )

    def error(self, message: str) -> NoReturn:
        self.refuse(f"{message}; see {self.prog} --help")

    def refuse(self, message: str) -> NoReturn:
        """Ends with a message that says what to do by itself."""
        self.exit(2, f"mtwrappers: error: {' '.join(message.split())}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Returns:
        0, or 1 when classes differ, 2 for bad input or where nothing can be written, 130 after
        Ctrl-C.
    """
    about = "Multi-task and meta-RL environments on Gymnasium and Meta-World."
    parser = _Parser(prog="mtwrappers", description=about)
    parser.add_argument("--version", action="version", version=f"mtwrappers {__version__}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="{list,rollout,verify-fast}"
    )

    def command(name: str, does: str) -> _Parser:
        made: _Parser = commands.add_parser(
            name, help=does, description=f"{does[0].upper()}{does[1:]}."
        )
        return made

    command("list", "show every environment id with its tasks, spaces and sizes")
    rollout = command("rollout", "play a benchmark with a scripted policy and report success rates")
    rollout.add_argument(
        "benchmark", nargs="?", help=f"one of {', '.join(BENCHMARKS)}; ML10 means ML10-train"
    )
    rollout.add_argument(
        "--task", action="append", metavar="CLASS", help="play only this class; can be repeated"
    )
    rollout.add_argument(
        "--policy",
        choices=("expert", "random"),
        help="Meta-World's scripted expert of each class, or random actions (default: expert)",
    )
    rollout.add_argument("--episodes", type=_positive, help="episodes per class (default: 5)")
    rollout.add_argument(
        "--seed", type=_seed, help="determines goals, their order and random actions (default: 0)"
    )
    rollout.add_argument(
        "--workers", type=_positive, default=None, help="worker processes (default: all cores)"
    )
    rollout.add_argument(
        "--execution",
        choices=("parallel", "ray"),
        default="parallel",
        help="where the workers are: processes here (default), or actors of a Ray cluster",
    )
    rollout.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where to write (default: results); files of an earlier rollout are replaced",
    )
    rollout.add_argument(
        "--video",
        action="store_true",
        help="also write an mp4 of the first episode of each class; not together with --resume",
    )
    rollout.add_argument(
        "--no-fast",
        action="store_true",
        default=None,
        help="play Meta-World's own classes, which are slower and give the same numbers",
    )
    rollout.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="continue the interrupted or killed rollout in DIR with its settings; only --workers "
        "and --execution may differ. The results are those of a rollout that was never stopped",
    )
    verify = command(
        "verify-fast", "compare the fast classes with Meta-World's own on this machine, bit for bit"
    )
    verify.add_argument(
        "--full", action="store_true", help="play whole episodes of several tasks per class"
    )
    verify.add_argument(
        "--workers", type=_positive, default=None, help="worker processes (default: all cores)"
    )
    args = parser.parse_args(argv)
    try:
        if args.command == "rollout":
            from mtwrappers.cli.rollout import run  # which imports Meta-World

            return run(args)
        return _list() if args.command == "list" else _verify(args)
    except (UsageError, DependencyNotInstalled) as exc:
        parser.refuse(str(exc))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("Interrupted; nothing was written. Run the command again.", file=sys.stderr)
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

    rows: list[Sequence[Any]] = [list(LIST)]
    for env_id, (_, kwargs, _) in TABLE.items():
        env: Any = gymnasium.make(env_id, disable_env_checker=True)
        named = env.has_wrapper_attr("task_names")
        num_classes = len(env.get_wrapper_attr("task_names")) if named else 0
        is_metaworld = "benchmark" in kwargs
        encoding = default_task_encoding(kwargs["benchmark"]) if is_metaworld else "onehot"
        row = (
            env_id,
            num_classes or "any",
            env.get_wrapper_attr("num_tasks") // num_classes if is_metaworld else "-",
            _space(env.observation_space),
            _space(env.action_space),
            encoding if num_classes else "none",
            num_classes or 1,
        )
        rows.append(row)
        env.close()
    columns = shutil.get_terminal_size().columns
    narrow = [LIST_WIDE[:0], LIST_WIDE[:1], LIST_WIDE]
    tables = [_table(rows, left_out) for left_out in narrow]
    print(next((t for t in tables if len(t.partition("\n")[0]) <= columns), tables[-1]))
    print("", *LIST_NOTES, sep="\n")
    return 0


def _table(rows: Sequence[Sequence[Any]], left_out: Sequence[str]) -> str:
    """The rows of `LIST` without some columns."""
    lines = []
    for row in rows:
        cells = zip(LIST.items(), row, strict=True)
        lines.append(
            " ".join(form.format(cell) for (name, form), cell in cells if name not in left_out)
        )
    return "\n".join(lines)


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
    if differ:
        console.print(
            "Here, pass fast=False to make and make_vec: it takes Meta-World's own classes."
        )
    return 1 if differ else 0
