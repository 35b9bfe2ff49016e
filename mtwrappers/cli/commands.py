"""The commands, each in a file of its own that is imported when it runs, and types of options."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from cyclopts import (
    App,
    CycloptsError,
    Group,
    Parameter,
    Token,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.validators import Number

from mtwrappers import __version__

F = TypeVar("F", bound=Callable[..., int] | type)


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


def help_of(argv: Sequence[str]) -> str:
    """Returns the call that prints the help of the command in ``argv``."""
    return " ".join(["mtwrappers", *app.parse_commands(argv)[0], "--help"])


def said_of(exc: CycloptsError) -> str:
    """Returns the message of an error of parsing."""
    if isinstance(exc, UnusedCliTokensError):
        return f'Unexpected argument "{(exc.unused_tokens or [""])[0]}".'
    if isinstance(exc, UnknownOptionError):
        # Dashes do not count here, unlike in cyclopts, which takes --env-name for --name.
        given = exc.token.keyword or exc.token.value
        known = [name[2:] for one in exc.argument_collection for name in one.names]
        close = difflib.get_close_matches(given.lstrip("-"), known, 1, 0.7)
        return f"Unknown option: {given}.{f' Did you mean --{close[0]}?' if close else ''}"
    return str(exc)


def described(documented: F) -> F:
    """Joins the lines of each argument's text, whose breaks cyclopts would print."""
    documented.__doc__ = re.sub(r"\n {8,}", " ", inspect.cleandoc(documented.__doc__ or ""))
    return documented


def _whole(type_: Any, tokens: Sequence[Token]) -> int:
    """Converts a sign and digits only: cyclopts' ``int`` would misread 1e3, 0x10 and 1.5."""
    [token] = tokens
    if not token.value.removeprefix("-").isdecimal():
        raise ValueError(f'expected a whole number, got "{token.value}".')
    return int(token.value[:20])  # longer ones are too large in any case


def _number(metavar: str, least: int, most: int) -> Any:
    return Parameter(converter=_whole, validator=Number(gte=least, lte=most), metavar=metavar)


Count = Annotated[int, _number("NUMBER", 1, 1_000_000)]
Seed = Annotated[int, _number("SEED", 0, 2**32 - 2)]
Steps = Annotated[int, _number("NUMBER", 0, 2**63 - 1)]


# The help and the examples of each command, whose function is `run` in the file of its name.
_COMMANDS = {
    "list": (
        "Print every environment id with its classes, spaces and sizes.",
        "mtwrappers list",
        "mtwrappers list | grep ML10",
    ),
    "rollout": (
        "Evaluate a policy on a benchmark and report success rates.",
        "mtwrappers rollout MT10",
        "mtwrappers rollout MT10 --policy random --episodes 50 --out random",
        "mtwrappers rollout MT10 --policy my_policy.py:act --out mine",
        "mtwrappers rollout MT50 --task hammer-v3 --video --overwrite",
        "mtwrappers rollout ML10-test --workers 4 --out ml10",
        "mtwrappers rollout ML10-test --out ml10 --resume",
    ),
    "export": (
        "Replay a result into a Minari or LeRobot dataset.",
        "mtwrappers export experts minari:metaworld/mt10-expert-v0 --successes",
        "mtwrappers export experts minari:me/seen-v0 --observation pixels --size 84",
        "mtwrappers export experts lerobot:out --camera corner2 --camera gripperPOV",
    ),
    "verify": (
        "Replay the actions of a result, and compare every number.",
        "mtwrappers rollout MT10 --policy my_policy.py:act --out mine",
        "mtwrappers verify mine/results.json",
        "mtwrappers verify mine/results.json --sample 0.1 --workers 4",
    ),
    "compare": (
        "Print and compare the scores of methods over training runs.",
        "mtwrappers compare mine-*/results.json",
        "mtwrappers compare mine/results.json reference:experts",
        "mtwrappers compare mine-*/results.json theirs-*/results.json --plot plot.png",
        "mtwrappers compare mine-*/results.json --format latex > table.tex",
        "mtwrappers compare mine-*/results.json --curve curve.png",
    ),
    "protocols": (
        "Print side by side how published scores are measured.",
        "mtwrappers protocols",
    ),
    "check": (
        "Check whether an environment can be trusted, step by step.",
        "mtwrappers check my_package.envs:make_env",
        "mtwrappers check CartPole-v1",
        "mtwrappers check mtwrappers/MT10-v0 --vector",
    ),
    "verify-fast": (
        "Compare the fast classes with Meta-World's own, bit for bit.",
        "mtwrappers verify-fast",
        "mtwrappers verify-fast --full --workers 2",
    ),
}
COMMANDS = list(_COMMANDS)
for _place, (_name, (_help, *_lines)) in enumerate(_COMMANDS.items()):
    app.command(
        f"mtwrappers.cli.{_name.replace('-', '_')}:run",
        name=_name,
        help=_help,
        help_epilogue=_examples(*_lines),
        sort_key=_place,
    )
