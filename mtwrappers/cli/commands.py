"""The commands with their options, as ``--help`` prints them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import App, Group, Parameter, Token
from cyclopts.validators import Number

from mtwrappers import __version__
from mtwrappers.cli.console import UsageError
from mtwrappers.cli.settings import (
    BENCHMARKS,
    MAX_AUTHORS,
    MAX_COUNT,
    MAX_NOTE,
    MAX_SEED,
    POLICIES,
    are_authors,
    is_dataset,
    is_name,
    is_note,
)
from mtwrappers.common.did_you_mean import did_you_mean

F = TypeVar("F", bound=Callable[..., int])


def _examples(*lines: str) -> str:
    return "\n  ".join(["examples:", *lines])


app = App(
    name="mtwrappers",
    help="Multi-task and meta-RL environments on Gymnasium and Meta-World.",
    help_format="plaintext",
    help_epilogue=_examples(
        "mtwrappers list            all environment ids",
        "mtwrappers rollout MT10    evaluate Meta-World's scripted experts",
        "mtwrappers rollout --help  all options",
    ),
    version=f"mtwrappers {__version__}",
    group_parameters=Group("Options"),
    default_parameter=Parameter(negative=(), show_default=False, allow_repeating=True),
    result_action="return_value",
    # `main` prints errors in one line.
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command(
    help="Complete commands and options in your shell.", group="Options"
)
app["--help"].group = app["--version"].group = "Options"


def _command(name: str, *examples: str) -> Callable[[F], F]:
    """Registers a command, whose docstring is its help."""

    def register(function: F) -> F:
        # cyclopts would print the line breaks within an argument's text.
        function.__doc__ = re.sub(r"\n {8,}", " ", inspect.cleandoc(function.__doc__ or ""))
        app.command(function, name=name, help_epilogue=_examples(*examples))
        return function

    return register


def help_of(argv: Sequence[str]) -> str:
    """Returns the call that prints the help of the command in ``argv``."""
    return " ".join(["mtwrappers", *app.parse_commands(argv)[0], "--help"])


def _whole(type_: Any, tokens: Sequence[Token]) -> int:
    """Converts a sign and digits only: cyclopts' ``int`` would misread 1e3, 0x10 and 1.5."""
    [token] = tokens
    if not token.value.removeprefix("-").isdecimal():
        raise ValueError(f'expected a whole number, got "{token.value}".')
    return int(token.value[:20])  # longer ones are too large in any case


def _check_policy(type_: Any, text: str | None) -> None:
    source, _, name = (text or "").rpartition(":")
    if text is not None and text not in POLICIES and not (source and name.isidentifier()):
        if text.endswith(".py"):
            raise ValueError(f"Name the policy in the file too, such as {text}:act.")
        forms = ", ".join([*POLICIES, "FILE.py:NAME", "package.module:NAME"])
        raise ValueError(did_you_mean(text, POLICIES).capitalize() or f"Choose from {forms}.")


def _check_name(type_: Any, text: str | None) -> None:
    if text is not None and not is_name(text):
        raise ValueError("Must be 1 to 100 printable characters.")


def _check_note(type_: Any, text: str | None) -> None:
    if text is not None and not is_note(text):
        raise ValueError(f"Must be at most {MAX_NOTE} printable characters, without line breaks.")


def _check_authors(type_: Any, names: list[str] | None) -> None:
    if not are_authors(names or []):
        raise ValueError(f"Must be at most {MAX_AUTHORS} names of 1 to 100 printable characters.")


_Count = Annotated[
    int, Parameter(converter=_whole, validator=Number(gte=1, lte=MAX_COUNT), metavar="NUMBER")
]
_Seed = Annotated[
    int, Parameter(converter=_whole, validator=Number(gte=0, lte=MAX_SEED), metavar="SEED")
]
_Steps = Annotated[
    int, Parameter(converter=_whole, validator=Number(gte=0, lt=2**63), metavar="NUMBER")
]


@_command(
    "list",
    "mtwrappers list",
    "mtwrappers list | grep ML10",
)
def _list() -> int:
    """Print every environment id with its classes, spaces and sizes."""
    from mtwrappers.cli import list as listing

    return listing.run()


@_command(
    "rollout",
    "mtwrappers rollout MT10",
    "mtwrappers rollout MT10 --policy random --episodes 50 --out random",
    "mtwrappers rollout MT10 --policy my_policy.py:act --out mine",
    "mtwrappers rollout MT50 --task hammer-v3 --video --overwrite",
    "mtwrappers rollout ML10-test --workers 4 --out ml10",
    "mtwrappers rollout --resume ml10",
)
def _rollout(
    benchmark: Annotated[
        str | None, Parameter(help=f"One of {', '.join(BENCHMARKS)}; ML10 means ML10-train.")
    ] = None,
    /,
    *,
    task: Annotated[list[str] | None, Parameter(metavar="CLASS")] = None,
    policy: Annotated[str | None, Parameter(validator=_check_policy, metavar="POLICY")] = None,
    name: Annotated[str | None, Parameter(validator=_check_name, metavar="NAME")] = None,
    protocol: Annotated[str | None, Parameter(metavar="NAME")] = None,
    training_seed: Annotated[_Steps | None, Parameter(metavar="SEED")] = None,
    training_steps: _Steps | None = None,
    note: Annotated[str | None, Parameter(validator=_check_note, metavar="TEXT")] = None,
    author: Annotated[list[str] | None, Parameter(validator=_check_authors, metavar="NAME")] = None,
    episodes: _Count | None = None,
    seed: _Seed | None = None,
    action_chunk: _Count | None = None,
    workers: _Count | None = None,
    execution: Literal["parallel", "ray"] = "parallel",
    out: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    video: bool = False,
    no_fast: bool = False,
    no_evidence: bool = False,
    overwrite: bool = False,
    resume: Annotated[Path | None, Parameter(metavar="DIR")] = None,
) -> int:
    """Evaluate a policy on a benchmark and report success rates.

    Args:
        benchmark: One of `BENCHMARKS`.
        task: Evaluate only this class; can be repeated.
        policy: expert (default): Meta-World's scripted expert of each class; random: random
            actions; FILE.py:NAME or package.module:NAME: your own, from observations (N, O) to
            actions (N, 4) in [-1, 1], or a function without arguments that returns one. It also
            receives task_names, descriptions and rng, if it has arguments of these names.
        name: The label of the policy in tables (default: --policy).
        training_seed: The seed of the policy's training run, kept in the result.
        training_steps: The agent steps of this run over all environments, kept in the result.
        note: A line of text to keep in the result.
        author: The author of the result; can be repeated.
        protocol: Follow the rules of a published score; see mtwrappers protocols.
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
        no_evidence: Do not keep the actions (about 8 kB per episode) in results.npz, from which
            anyone can verify the results.
        overwrite: Remove the files of an earlier rollout from the output folder first.
        resume: Continue the interrupted or killed rollout in DIR with its settings; only --workers
            and --execution may differ. The results are the same as without the interruption.
    """
    from mtwrappers.cli import rollout

    given = {
        "benchmark": benchmark,
        "task": task,
        "policy": policy,
        "episodes": episodes,
        "seed": seed,
        "no_fast": no_fast or None,
        "protocol": protocol,
        "name": name,
        "evidence": False if no_evidence else None,
        "training_seed": training_seed,
        "training_steps": training_steps,
        "action_chunk": action_chunk,
        "note": note,
        "authors": author,
    }
    return rollout.run(
        {name: value for name, value in given.items() if value is not None},
        workers=workers,
        execution=execution,
        out=out,
        video=video,
        overwrite=overwrite,
        resume=resume,
    )


@_command(
    "record",
    "mtwrappers record MT10 --out minari:metaworld/mt10-expert-v0",
    "mtwrappers record MT10 --size 84 --no-shadows --out minari:me/mt10-seen-v0",
    "mtwrappers record MT50 --task hammer-v3 --size 84 --out lerobot:me/hammer",
    "mtwrappers record MT10 --policy my_policy.py:act --out minari:me/mt10-mine-v0",
    "mtwrappers record --resume minari:metaworld/mt10-expert-v0",
)
def _record(
    benchmark: Annotated[
        str | None, Parameter(help=f"One of {', '.join(BENCHMARKS)}; ML10 means ML10-train.")
    ] = None,
    /,
    *,
    task: Annotated[list[str] | None, Parameter(metavar="CLASS")] = None,
    policy: Annotated[str | None, Parameter(validator=_check_policy, metavar="POLICY")] = None,
    episodes: _Count | None = None,
    goals: _Count | None = None,
    seed: _Seed | None = None,
    size: _Count | None = None,
    camera: Annotated[list[str] | None, Parameter(metavar="CAMERA")] = None,
    no_shadows: bool = False,
    descriptions: Annotated[str | None, Parameter(metavar="NAME")] = None,
    action_chunk: _Count | None = None,
    video: bool = False,
    out: Annotated[str | None, Parameter(metavar="DATASET")] = None,
    resume: Annotated[str | None, Parameter(metavar="DATASET")] = None,
) -> int:
    """Record successful episodes as a Minari or LeRobot dataset, each replayed bit for bit.

    Args:
        benchmark: One of `BENCHMARKS`.
        task: Record only this class; can be repeated.
        policy: expert (default): Meta-World's scripted expert of each class; FILE.py:NAME or
            package.module:NAME: your own, as in rollout.
        episodes: Episodes per class (default: 5); each ends at its first success, and failures are
            left out.
        goals: Goals per class to take in order (default: 50, the benchmark's own).
        seed: Determines goals and random numbers (default: 0).
        size: Also record square frames with sides of this many pixels (default: none; for LeRobot
            480).
        camera: The camera of the frames (default: corner4); can be repeated.
        no_shadows: Draw frames without shadows and reflections, which is faster.
        descriptions: The table of task sentences (default: metaworld; for LeRobot its own).
        action_chunk: As in rollout.
        video: Store LeRobot's frames as video, which is smaller and lossy (default: PNG, lossless).
        out: The dataset, minari:NAME or lerobot:NAME, in the library's own folder.
        resume: Continue the interrupted or killed recording of a dataset with its settings. The
            data are the same as without the interruption.
    """
    from mtwrappers.cli import record

    given = {
        "benchmark": benchmark,
        "task": task,
        "policy": policy,
        "episodes": episodes,
        "goals": goals,
        "seed": seed,
        "size": size,
        "camera": camera,
        "no_shadows": no_shadows or None,
        "descriptions": descriptions,
        "action_chunk": action_chunk,
        "video": video or None,
    }
    return record.run(
        {name: value for name, value in given.items() if value is not None}, out, resume
    )


@_command(
    "verify",
    "mtwrappers rollout MT10 --policy my_policy.py:act --out mine",
    "mtwrappers verify mine/results.json",
    "mtwrappers verify mine/results.json --sample 0.1 --workers 4",
    "mtwrappers verify minari:metaworld/mt10-expert-v0",
)
def _verify(
    result: Annotated[str, Parameter(metavar="RESULT")],
    /,
    *,
    evidence: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    sample: Annotated[float, Parameter(validator=Number(gte=0, lte=1), metavar="SHARE")] = 1.0,
    table: bool = False,
    workers: _Count | None = None,
    no_fast: bool = False,
) -> int:
    """Replay the actions of a result or a dataset, and compare every number.

    Args:
        result: A file of rollout or EvaluationResult.save, the folder of a rollout, or a dataset of
            record (minari:NAME or lerobot:NAME, without options).
        evidence: The .npz file with the actions of the episodes (default: the file of the same
            name beside the result, as rollout writes it).
        sample: Replay only this share of each class's episodes, chosen at random (default: 1).
        table: Also print the success of each class, with intervals.
        workers: Worker processes (default: all cores).
        no_fast: Run Meta-World's own classes, which are slower and give the same numbers.
    """
    from mtwrappers.cli import verify
    from mtwrappers.cli.directory import result_file

    if is_dataset(result):
        if evidence or sample != 1.0 or table or workers or no_fast:
            raise UsageError(
                f"{result} is a dataset, which is replayed whole: leave out the options"
            )
        return verify.run_dataset(result)
    return verify.run(result_file(result), evidence, sample, table, workers, no_fast)


@_command(
    "compare",
    "mtwrappers compare mine-*/results.json",
    "mtwrappers compare mine/results.json reference:experts",
    "mtwrappers compare mine-*/results.json theirs-*/results.json --plot plot.png",
    "mtwrappers compare mine-*/results.json --format latex > table.tex",
    "mtwrappers compare mine-*/results.json --curve curve.png",
)
def _compare(
    results: list[str],
    /,
    *,
    format: Literal["table", "markdown", "latex", "csv"] = "table",
    no_tasks: bool = False,
    plot: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    curve: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    force: bool = False,
) -> int:
    """Print and compare the scores of methods over training runs.

    Args:
        results: Files of rollouts or of EvaluationResult.save, or folders of rollouts. Files with
            the same --name are training runs of one method. reference:NAME is a result that comes
            with mtwrappers, by the same protocol: reference:experts for Meta-World's scripted
            experts, reference:random for random actions.
        format: table (default) also prints the differences from the first method; latex needs the
            package booktabs; csv has full precision.
        no_tasks: Print and draw only the means over all tasks and over groups of tasks.
        plot: Also draw the differences.
        curve: Also draw success against --training-steps, and write a CSV file beside the image.
        force: Compare results even if their protocols, settings or goals differ.
    """
    from mtwrappers.cli import compare

    return compare.run(results, format, not no_tasks, plot, curve, force)


@_command(
    "protocols",
    "mtwrappers protocols",
)
def _protocols() -> int:
    """Print side by side how published scores are measured."""
    from mtwrappers.cli import protocols

    return protocols.run()


@_command(
    "check",
    "mtwrappers check my_package.envs:make_env",
    "mtwrappers check CartPole-v1",
    "mtwrappers check mtwrappers/MT10-v0 --vector --json",
)
def _check(
    environment: str,
    /,
    *,
    kwargs: Annotated[str | None, Parameter(metavar="JSON")] = None,
    vector: bool = False,
    seed: _Seed = 0,
    steps: _Count = 1200,
    num_envs: _Count | None = None,
    ignore: Annotated[list[str] | None, Parameter(metavar="INFO")] = None,
    verbose: Annotated[bool, Parameter(alias="-v")] = False,
    json: bool = False,
) -> int:
    """Check whether an environment can be trusted, step by step.

    Args:
        environment: package.module:NAME or FILE.py:NAME, a function without arguments that returns
            an environment or a vector environment; or a registered id.
        kwargs: Arguments of the function or id, as JSON.
        vector: Given an id, check make_vec(id) instead of make(id).
        seed: The seed of all resets (default: 0).
        steps: Take at most this many steps (default: 1200).
        num_envs: The number of sub-environments (default: 3).
        ignore: An info that is not compared, such as info.action; can be repeated.
        verbose: Also print the checks that passed.
        json: Print the whole report as JSON.
    """
    from mtwrappers.cli import check

    return check.run(
        environment, kwargs, vector, seed, steps, num_envs, ignore or (), verbose, json
    )


@_command(
    "verify-fast",
    "mtwrappers verify-fast",
    "mtwrappers verify-fast --full --workers 2",
)
def _verify_fast(*, full: bool = False, workers: _Count | None = None) -> int:
    """Compare the fast classes with Meta-World's own, bit for bit.

    Args:
        full: Run complete episodes of several tasks per class.
        workers: Worker processes (default: all cores).
    """
    from mtwrappers.cli import verify_fast

    return verify_fast.run(full, workers)


COMMANDS = [name for name in app if not name.startswith("-")]
for _place, _name in enumerate(COMMANDS):
    app[_name].sort_key = _place  # not alphabetically
