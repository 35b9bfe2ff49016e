"""The command line: ``mtwrappers rollout``, ``verify``, ``compare`` and so on."""

from __future__ import annotations

import argparse
import os
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

from mtwrappers import __version__, _start
from mtwrappers.cli.common import (
    BENCHMARKS,
    MAX_COUNT,
    MAX_SEED,
    POLICIES,
    UsageError,
    progress,
    quiet_experts,
)
from mtwrappers.common.errors import full_message, is_printable, printable
from mtwrappers.common.extras import import_extra
from mtwrappers.common.registration import TABLE

# Of each column, how a cell is written, and the width of a terminal from which on it is shown.
LIST = {
    "id": ("{:28}", 0),
    "classes": ("{:>7}", 0),
    "goals": ("{:>5}", 0),
    "observation": ("{:11}", 68),
    "action": ("{:11}", 80),
    "encoding": ("{:8}", 0),
    "envs": ("{:>4}", 0),
}
LIST_NOTES = """
goals: how many each class has, or a new one in every episode
encoding: how observations of make() say which class it is
envs: how many make_vec() makes by default"""
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
  mtwrappers rollout MT10 --policy my_policy.py:act
  mtwrappers rollout MT50 --task hammer-v3 --task door-open-v3 --video
  mtwrappers rollout ML10-test --workers 4 --out ml10
  mtwrappers rollout --resume ml10""",
    "protocols": """
  mtwrappers protocols""",
    "verify": """
  mtwrappers rollout MT10 --policy my_policy.py:act
  mtwrappers verify results/results.json
  mtwrappers verify results/results.json --sample 0.1 --workers 4""",
    "compare": """
  mtwrappers compare mine/results.json theirs/results.json
  mtwrappers compare mine-*/results.json theirs-*/results.json --plot compared.png""",
    "check": """
  mtwrappers check my_package.envs:make_env
  mtwrappers check CartPole-v1
  mtwrappers check mtwrappers/MT10-v0 --vector --json""",
    "verify-fast": """
  mtwrappers verify-fast
  mtwrappers verify-fast --full --workers 2""",
}

HELP = {
    "benchmark": f"one of {', '.join(BENCHMARKS)}; ML10 means ML10-train",
    "--task": "play only this class; can be repeated",
    "--policy": "expert (default): Meta-World's scripted expert of each class; random: random "
    "actions; FILE.py:NAME or package.module:NAME: your own, from observations (N, O) to actions "
    "(N, 4) in [-1, 1], or a function without arguments that makes it",
    "--name": "what tables call the policy (default: what --policy says)",
    "--protocol": "play by the rules of a published score; `mtwrappers protocols` shows them",
    "--evidence": "the .npz file with the actions of the episodes (default: the one beside the "
    "result that has its name, as rollout writes it)",
    "--no-evidence": "do not keep the actions (about 8 kB an episode) in results.npz, from which "
    "anyone can verify the results",
    "--episodes": "episodes per class (default: 5, or as many as the protocol has)",
    "--seed": "determines goals, their order and random actions (default: 0); a protocol has its "
    "own goals",
    "--workers": "worker processes (default: all cores)",
    "--execution": "where the workers are: processes here (default), or actors of a Ray cluster",
    "--out": "where to write (default: results); files of an earlier rollout are replaced",
    "--video": "also write an mp4 of the first episode of each class; not together with --resume",
    "--no-fast": "play Meta-World's own classes, which are slower and give the same numbers",
    "--resume": "continue the interrupted or killed rollout in DIR with its settings; only "
    "--workers and --execution may differ. The results are those of a rollout that was never "
    "stopped",
    "result": "what a rollout or EvaluationResult.save has written",
    "results": "results of rollouts or of EvaluationResult.save, two or more",
    "--sample": "replay only this share of each class's episodes, drawn anew every time (default: "
    "1)",
    "--table": "also print the success of each class, with intervals",
    "--plot": "also draw the comparison",
    "--runs": "whether a training run is one network for all-tasks (default), or one per-task",
    "--force": "compare results of different protocols, settings or goals all the same",
    "environment": "package.module:NAME or FILE.py:NAME, a function without arguments that makes "
    "an environment or a vector environment; or a registered id",
    "--kwargs": "arguments for it, as JSON",
    "--vector": "of an id: check what make_vec makes of it",
    "--steps": "how many steps to play at most (default: 600)",
    "--num-envs": "how many sub-environments (default: 3)",
    "--ignore": "an info that is not compared, such as info.action; can be repeated",
    "--json": "print the report as JSON",
    "--full": "play whole episodes of several tasks per class",
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

    def add(self, name: str, **kwargs: Any) -> None:
        """Adds an argument, of which `HELP` says what it is."""
        self.add_argument(name, help=HELP[name], **kwargs)

    def error(self, message: str) -> NoReturn:
        self.refuse(f"{message}; see {self.prog} --help")

    def refuse(self, message: str) -> NoReturn:
        """Ends with a message that says what to do by itself."""
        self.exit(2, f"mtwrappers: error: {printable(' '.join(message.split()))}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0, 1 where classes differ or a result is not true, 2 where input or files are bad.

    After Ctrl-C it is 130, and 141 where nobody reads the output any more, as in
    ``mtwrappers list | head -c 10``.
    """
    try:
        try:
            return _main(argv)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where it can be caught
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to come
        return 128 + signal.SIGPIPE


def _main(argv: Sequence[str] | None) -> int:
    about = "Multi-task and meta-RL environments on Gymnasium and Meta-World."
    parser = _Parser("mtwrappers", description=about)
    parser.add_argument("--version", action="version", version=f"mtwrappers {__version__}")
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="{list,rollout,verify,compare,protocols,check,verify-fast}",
    )

    def command(name: str, does: str) -> _Parser:
        made: _Parser = commands.add_parser(
            name, help=does, description=f"{does[0].upper()}{does[1:]}."
        )
        return made

    command("list", "show every environment id with its classes, spaces and sizes")
    rollout = command("rollout", "play a benchmark with a scripted policy and report success rates")
    rollout.add("benchmark", nargs="?")
    rollout.add("--task", action="append", metavar="CLASS")
    rollout.add("--policy", type=_policy, metavar="POLICY")
    rollout.add("--name", type=_name)
    rollout.add("--protocol", metavar="NAME")
    rollout.add("--episodes", type=_positive)
    rollout.add("--seed", type=_seed)
    rollout.add("--workers", type=_positive)
    rollout.add("--execution", choices=("parallel", "ray"), default="parallel")
    rollout.add("--out", type=Path, metavar="DIR")
    rollout.add("--video", action="store_true")
    rollout.add("--no-fast", action="store_true", default=None)
    rollout.add("--no-evidence", dest="evidence", action="store_const", const=False)
    rollout.add("--resume", type=Path, metavar="DIR")
    command("protocols", "show how scores of the literature are measured, side by side")
    verified = command("verify", "replay the actions of a result, and compare every number")
    verified.add("result", type=Path)
    verified.add("--evidence", type=Path, metavar="FILE")
    verified.add("--sample", type=_share, metavar="SHARE")
    verified.add("--table", action="store_true")
    verified.add("--workers", type=_positive)
    verified.add("--no-fast", action="store_true")
    compared = command("compare", "compare the success of policies, task by task and over all")
    compared.add("results", type=Path, nargs="+")
    compared.add("--plot", type=Path, metavar="FILE")
    compared.add("--runs", choices=("all-tasks", "per-task"), default="all-tasks")
    compared.add("--force", action="store_true")
    checked = command("check", "check whether an environment can be trusted, step by step")
    checked.add("environment")
    checked.add("--kwargs", metavar="JSON")
    checked.add("--vector", action="store_true")
    checked.add_argument("--seed", type=_seed, help="the seed of all resets (default: 0)")
    checked.add("--steps", type=_positive)
    checked.add("--num-envs", type=_positive)
    checked.add("--ignore", action="append", metavar="INFO")
    checked.add("--json", action="store_true")
    fast = command(
        "verify-fast", "compare the fast classes with Meta-World's own on this machine, bit for bit"
    )
    fast.add("--full", action="store_true")
    fast.add("--workers", type=_positive)
    args = parser.parse_args(argv)
    try:
        if args.command == "rollout":
            from mtwrappers.cli.rollout import run  # which imports Meta-World

            return run(args)
        if args.command == "verify":
            from mtwrappers.cli import verify

            return verify.run(args)
        if args.command == "compare":
            from mtwrappers.cli import compare

            return compare.run(args)
        if args.command == "check":
            from mtwrappers.cli import check

            return check.run(args)
        if args.command == "protocols":
            from mtwrappers.cli.protocols import show

            return show()
        return _list() if args.command == "list" else _verify_fast(args)
    except (UsageError, DependencyNotInstalled) as exc:
        parser.refuse(full_message(exc))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(_start.INTERRUPTED, file=sys.stderr)
        return 130


def _positive(text: str) -> int:
    number = _whole(text)
    if not 1 <= number <= MAX_COUNT:
        limit = "1 or more" if number < 1 else f"at most {MAX_COUNT:,}"
        raise argparse.ArgumentTypeError(f"must be {limit}, got {text}")
    return number


def _policy(text: str) -> str:
    source, _, name = text.rpartition(":")
    if text not in POLICIES and not (source and name.isidentifier()):
        known = ", ".join(map(repr, POLICIES))
        raise argparse.ArgumentTypeError(
            f"invalid choice: {text!r} (choose from {known}, FILE.py:NAME, package.module:NAME)"
        )
    return text


def _name(text: str) -> str:
    if not 1 <= len(text.strip()) <= 100 or not is_printable(text):
        raise argparse.ArgumentTypeError(f"must be 1 to 100 characters, got {text!r}")
    return text


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"must be in [0, 1], got {text}")
    return share


def _seed(text: str) -> int:
    number = _whole(text)
    if not 0 <= number <= MAX_SEED:
        raise argparse.ArgumentTypeError(f"must be in [0, 2**32 - 2], got {text}")
    return number


def _whole(text: str) -> int:
    """A number without a sign, or -1 if it is none."""
    return int(text[:20]) if text.isdecimal() else -1  # longer ones are too large in any case


def _list() -> int:
    from mtwrappers.metaworld.agent_view import default_task_encoding

    rows: list[Sequence[Any]] = [list(LIST)]
    for env_id, (_, kwargs, _) in TABLE.items():
        env: Any = gymnasium.make(env_id, disable_env_checker=True)
        named = env.has_wrapper_attr("task_names")
        num_classes = len(env.get_wrapper_attr("task_names")) if named else 0
        is_metaworld = "benchmark" in kwargs
        encoding = default_task_encoding(kwargs["benchmark"]) if is_metaworld else "onehot"
        goals: Any = "new" if "sequence" in kwargs else "-"
        if is_metaworld:
            goals = env.get_wrapper_attr("num_tasks") // num_classes
        row = (
            env_id,
            num_classes or "any",
            goals,
            _space(env.observation_space),
            _space(env.action_space),
            encoding if num_classes else "none",
            1 if env.has_wrapper_attr("phases") else num_classes or 1,
        )
        rows.append(row)
        env.close()
    columns = shutil.get_terminal_size().columns
    for texts in rows:
        cells = zip(LIST.values(), texts, strict=True)
        print(*(form.format(cell) for (form, width), cell in cells if width <= columns))
    print(LIST_NOTES)
    return 0


def _space(space: Any) -> str:
    return f"{space}" if not space.shape else f"{space.dtype}{list(space.shape)}"


def _verify_fast(args: argparse.Namespace) -> int:
    from mtwrappers.common.cores import cores
    from mtwrappers.metaworld.fast.equality import FULL, QUICK, compare_classes
    from mtwrappers.metaworld.upstream import all_classes

    names = list(all_classes())
    console = import_extra("rich.console", "cli").Console()
    _start.catch()
    quiet_experts()
    start, differ = time.perf_counter(), {}
    with progress(console) as shown:
        bar = shown.add_task("classes", total=len(names), rate="")
        extent = FULL if args.full else QUICK
        for name, found in compare_classes(extent, names, args.workers or cores()):
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
