"""The commands with their options, as ``--help`` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter, Token
from cyclopts.validators import Number
from rich.console import Console

from mtwrappers import __version__
from mtwrappers.cli.settings import BENCHMARKS, MAX_COUNT, MAX_SEED, POLICIES
from mtwrappers.common.errors import is_printable

app = App(
    name="mtwrappers",
    help="Multi-task and meta-RL environments on Gymnasium and Meta-World.",
    help_format="plaintext",
    help_epilogue="""examples:
  mtwrappers list            all environment ids
  mtwrappers rollout MT10    evaluate Meta-World's scripted experts
  mtwrappers rollout --help  all options""",
    version=f"mtwrappers {__version__}",
    group_parameters=Group("Options"),
    default_parameter=Parameter(negative=(), show_default=False, allow_repeating=True),
    result_action="return_value",
    # `main` says what is wrong, in one line.
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command(
    help="Complete commands and options in your shell.", group="Options"
)
app["--help"].group = app["--version"].group = "Options"


class HelpConsole(Console):
    """A console that leaves a pipe that nobody reads to `main`."""

    def on_broken_pipe(self) -> None:
        """Raises the error again that has called it."""
        raise


def help_of(argv: Sequence[str]) -> str:
    """The call that prints the help of the command that arguments name."""
    return " ".join(["mtwrappers", *app.parse_commands(argv)[0], "--help"])


def _whole(type_: Any, tokens: Sequence[Token]) -> int:
    """A number of digits alone: ``int`` would take 1e3, 0x10 and 1.5 for others than they are."""
    [token] = tokens
    if not token.value.isdecimal():
        raise ValueError(f'expected a whole number, got "{token.value}".')
    return int(token.value[:20])  # longer ones are too large in any case


def _check_policy(type_: Any, text: str | None) -> None:
    source, _, name = (text or "").rpartition(":")
    if text is not None and text not in POLICIES and not (source and name.isidentifier()):
        known = ", ".join(POLICIES)
        raise ValueError(f"Choose from {known}, FILE.py:NAME, package.module:NAME.")


def _check_name(type_: Any, text: str | None) -> None:
    if text is not None and not (1 <= len(text.strip()) <= 100 and is_printable(text)):
        raise ValueError("Must be 1 to 100 printable characters.")


_COUNT = Parameter(converter=_whole, validator=Number(gte=1, lte=MAX_COUNT), metavar="NUMBER")
_SEED = Parameter(converter=_whole, validator=Number(gte=0, lte=MAX_SEED), metavar="SEED")
_Workers = Annotated[
    int | None, _COUNT, Parameter(help="Worker processes (default: all cores).", metavar="NUMBER")
]
_NoFast = Annotated[
    bool,
    Parameter(help="Run Meta-World's own classes, which are slower and give the same numbers."),
]


@app.command(
    name="list",
    help_epilogue="""examples:
  mtwrappers list
  mtwrappers list | grep ML10""",
)
def _list() -> int:
    """Print every environment id with its classes, spaces and sizes."""
    from mtwrappers.cli import list as listing

    return listing.run()


@app.command(
    name="rollout",
    help_epilogue="""examples:
  mtwrappers rollout MT10
  mtwrappers rollout MT10 --policy random --episodes 50 --seed 1
  mtwrappers rollout MT10 --policy my_policy.py:act
  mtwrappers rollout MT50 --task hammer-v3 --task door-open-v3 --video
  mtwrappers rollout ML10-test --workers 4 --out ml10
  mtwrappers rollout --resume ml10""",
)
def _rollout(
    benchmark: Annotated[
        str | None, Parameter(help=f"One of {', '.join(BENCHMARKS)}; ML10 means ML10-train.")
    ] = None,
    /,
    *,
    task: Annotated[
        list[str] | None,
        Parameter(help="Evaluate only this class; can be repeated.", metavar="CLASS"),
    ] = None,
    policy: Annotated[
        str | None,
        Parameter(
            help="expert (default): Meta-World's scripted expert of each class; random: random "
            "actions; FILE.py:NAME or package.module:NAME: your own, from observations (N, O) to "
            "actions (N, 4) in [-1, 1], or a function without arguments that makes it.",
            validator=_check_policy,
            metavar="POLICY",
        ),
    ] = None,
    name: Annotated[
        str | None,
        Parameter(
            help="The label of the policy in tables (default: --policy).",
            validator=_check_name,
            metavar="NAME",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        Parameter(
            help="Follow the rules of a published score; see mtwrappers protocols.", metavar="NAME"
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        _COUNT,
        Parameter(help="Episodes per class (default: 5, or as many as the protocol has)."),
    ] = None,
    seed: Annotated[
        int | None,
        _SEED,
        Parameter(
            help="Determines goals, their order and random actions (default: 0); a protocol has "
            "its own goals."
        ),
    ] = None,
    workers: _Workers = None,
    execution: Annotated[
        Literal["parallel", "ray"],
        Parameter(
            help="Where the workers are: processes here (default), or actors of a Ray cluster."
        ),
    ] = "parallel",
    out: Annotated[
        Path | None,
        Parameter(
            help="Where to write (default: results); files of an earlier rollout are replaced.",
            metavar="DIR",
        ),
    ] = None,
    video: Annotated[
        bool,
        Parameter(
            help="Also write an mp4 of the first episode of each class; not together with --resume."
        ),
    ] = False,
    no_fast: _NoFast = False,
    no_evidence: Annotated[
        bool,
        Parameter(
            help="Do not keep the actions (about 8 kB an episode) in results.npz, from which "
            "anyone can verify the results."
        ),
    ] = False,
    resume: Annotated[
        Path | None,
        Parameter(
            help="Continue the interrupted or killed rollout in DIR with its settings; only "
            "--workers and --execution may differ. The results are those of a rollout that was "
            "never stopped.",
            metavar="DIR",
        ),
    ] = None,
) -> int:
    """Evaluate a policy on a benchmark and report success rates."""
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
    }
    return rollout.run(
        {name: value for name, value in given.items() if value is not None},
        workers=workers,
        execution=execution,
        out=out,
        video=video,
        resume=resume,
    )


@app.command(
    name="verify",
    help_epilogue="""examples:
  mtwrappers rollout MT10 --policy my_policy.py:act
  mtwrappers verify results/results.json
  mtwrappers verify results/results.json --sample 0.1 --workers 4""",
)
def _verify(
    result: Annotated[Path, Parameter(help="A file of rollout or EvaluationResult.save.")],
    /,
    *,
    evidence: Annotated[
        Path | None,
        Parameter(
            help="The .npz file with the actions of the episodes (default: the one beside the "
            "result that has its name, as rollout writes it).",
            metavar="FILE",
        ),
    ] = None,
    sample: Annotated[
        float,
        Parameter(
            help="Replay only this share of each class's episodes, drawn anew every time "
            "(default: 1).",
            validator=Number(gte=0, lte=1),
            metavar="SHARE",
        ),
    ] = 1.0,
    table: Annotated[
        bool, Parameter(help="Also print the success of each class, with intervals.")
    ] = False,
    workers: _Workers = None,
    no_fast: _NoFast = False,
) -> int:
    """Replay the actions of a result, and compare every number."""
    from mtwrappers.cli import verify

    return verify.run(result, evidence, sample, table, workers, no_fast)


@app.command(
    name="compare",
    help_epilogue="""examples:
  mtwrappers compare mine/results.json theirs/results.json
  mtwrappers compare mine-*/results.json theirs-*/results.json --plot plot.png""",
)
def _compare(
    results: Annotated[
        list[Path], Parameter(help="Files of rollouts or of EvaluationResult.save, two or more.")
    ],
    /,
    *,
    plot: Annotated[
        Path | None, Parameter(help="Also draw the comparison.", metavar="FILE")
    ] = None,
    runs: Annotated[
        Literal["all-tasks", "per-task"],
        Parameter(
            help="Whether a training run is one network for all-tasks (default), or one per-task."
        ),
    ] = "all-tasks",
    force: Annotated[
        bool,
        Parameter(help="Compare results of different protocols, settings or goals all the same."),
    ] = False,
) -> int:
    """Compare the success of policies, task by task and over all."""
    from mtwrappers.cli import compare

    return compare.run(results, plot, "all_tasks" if runs == "all-tasks" else "per_task", force)


@app.command(
    name="protocols",
    help_epilogue="""examples:
  mtwrappers protocols""",
)
def _protocols() -> int:
    """Print how scores of the literature are measured, side by side."""
    from mtwrappers.cli import protocols

    return protocols.run()


@app.command(
    name="check",
    help_epilogue="""examples:
  mtwrappers check my_package.envs:make_env
  mtwrappers check CartPole-v1
  mtwrappers check mtwrappers/MT10-v0 --vector --json""",
)
def _check(
    environment: Annotated[
        str,
        Parameter(
            help="package.module:NAME or FILE.py:NAME, a function without arguments that makes an "
            "environment or a vector environment; or a registered id."
        ),
    ],
    /,
    *,
    kwargs: Annotated[
        str | None, Parameter(help="Arguments for it, as JSON.", metavar="JSON")
    ] = None,
    vector: Annotated[bool, Parameter(help="Of an id: check the result of make_vec.")] = False,
    seed: Annotated[int, _SEED, Parameter(help="The seed of all resets (default: 0).")] = 0,
    steps: Annotated[
        int, _COUNT, Parameter(help="Take at most this many steps (default: 600).")
    ] = 600,
    num_envs: Annotated[
        int | None, _COUNT, Parameter(help="How many sub-environments (default: 3).")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        Parameter(
            help="An info that is not compared, such as info.action; can be repeated.",
            metavar="INFO",
        ),
    ] = None,
    json: Annotated[bool, Parameter(help="Print the report as JSON.")] = False,
) -> int:
    """Check whether an environment can be trusted, step by step."""
    from mtwrappers.cli import check

    return check.run(environment, kwargs, vector, seed, steps, num_envs, ignore or (), json)


@app.command(
    name="verify-fast",
    help_epilogue="""examples:
  mtwrappers verify-fast
  mtwrappers verify-fast --full --workers 2""",
)
def _verify_fast(
    *,
    full: Annotated[bool, Parameter(help="Run whole episodes of several tasks per class.")] = False,
    workers: _Workers = None,
) -> int:
    """Compare the fast classes with Meta-World's own on this machine, bit for bit."""
    from mtwrappers.cli import verify_fast

    return verify_fast.run(full, workers)


COMMANDS = [name for name in app if not name.startswith("-")]
for _place, _name in enumerate(COMMANDS):
    app[_name].sort_key = _place  # not by the alphabet
