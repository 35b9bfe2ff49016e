"""The commands, each in a file of its own that is imported when it runs, and types of options."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, TypeVar

from cyclopts import (
    App,
    Argument,
    ArgumentCollection,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    Token,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.validators import Number

from mtwrappers import __version__

# A number that every option refuses; larger ones, such as 1e999999, would fill the memory.
_TOO_LARGE = Decimal(2**64)
F = TypeVar("F", bound=Callable[..., int] | type)

# What other libraries call our options.
_OTHER_WORDS = {
    **dict.fromkeys(("env", "env-name", "env-id", "task-name"), ("task",)),
    **dict.fromkeys(("num-envs", "n-envs"), ("workers", "episodes")),
    **dict.fromkeys(("jobs", "n-jobs", "num-processes"), ("workers",)),
    **dict.fromkeys(("o", "save", "save-dir", "log-dir"), ("out",)),
    **dict.fromkeys(("model", "model-path", "checkpoint"), ("policy",)),
    **dict.fromkeys(("latex", "markdown", "csv"), ("format",)),
    "render": ("video",),
}
# What a command takes beside options.
_TAKES = {
    "list": "list takes no argument and prints all ids; for some: mtwrappers list | grep MT10",
    "rollout": "rollout takes one benchmark; choose classes with --task CLASS, once for each",
    "export": "export takes one result and one dataset",
    "verify": "verify takes one result",
    "protocols": "protocols takes no argument and prints all protocols",
    "check": "check takes one environment; --kwargs has the arguments of its constructor",
    "verify-fast": "verify-fast takes no argument and compares all classes",
    "doctor": "doctor takes no argument and tries every OpenGL backend",
}


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


def get_help_command(argv: Sequence[str]) -> str:
    """Returns the call that prints the help of the command in ``argv``."""
    return " ".join(["mtwrappers", *app.parse_commands(argv)[0], "--help"])


def describe_parse_error(exc: CycloptsError) -> str:
    """Returns the message of an error of parsing."""
    command = (exc.command_chain or [""])[-1]
    if isinstance(exc, UnknownOptionError):
        return _unknown_option(exc.token.keyword or exc.token.value, command)
    if isinstance(exc, UnusedCliTokensError):
        token = (exc.unused_tokens or [""])[0]
        words = list(exc.root_input_tokens or [token])
        previous = words[words.index(token) - 1]
        takes = f"{previous} takes no value" if previous.startswith("--") else _TAKES[command]
        return f'Unexpected argument "{token}": {takes}.'
    if isinstance(exc, MissingArgumentError) and exc.argument is not None:
        name = exc.argument.name
        about = next(argument for argument in _arguments(command) if argument.name == name)
        return f"{command} needs a value for {name}: {_about(about)}."
    return str(exc)


def _unknown_option(option: str, command: str) -> str:
    options = {
        name[2:]: argument
        for argument in _arguments(command)
        for name in argument.names
        if name.startswith("--")
    }
    if meant := _find_meant(option.lstrip("-"), list(options)):
        hint = f"Did you mean {' or '.join(f'--{name}' for name in meant)}? "
        hint += " ".join(f"--{name}: {_about(options[name])}." for name in meant)
    elif options:
        hint = f"{command} has {', '.join(f'--{name}' for name in options)}."
    else:
        hint = f"{command} has no options."
    return f"Unknown option: {option}. {hint}"


def _arguments(command: str) -> ArgumentCollection:
    """The arguments of a command, with their help."""
    return app[command].assemble_argument_collection(
        default_parameter=app.default_parameter, parse_docstring=True
    )


def _find_meant(word: str, options: Sequence[str]) -> list[str]:
    """Returns the options that a word could mean, which is none of them itself."""
    translated = [name for name in _OTHER_WORDS.get(word, ()) if name in options]
    contained = [name for name in options if name in word or (len(word) > 2 and word in name)]
    return translated or contained or difflib.get_close_matches(word, options, 1, 0.7)


def _about(argument: Argument) -> str:
    """The first sentence of an argument's help."""
    return (argument.parameter.help or "").partition(". ")[0].rstrip(".")


def described(documented: F) -> F:
    """Joins the lines of each argument's text, whose breaks cyclopts would print."""
    documented.__doc__ = re.sub(r"\n {8,}", " ", inspect.cleandoc(documented.__doc__ or ""))
    return documented


def _parse_whole(type_: Any, tokens: Sequence[Token]) -> int:
    """Converts a whole number such as 1000000 or 1e6, exactly; cyclopts' ``int`` rounds 1.5."""
    [token] = tokens
    try:
        number = Decimal(token.value)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(f'expected a whole number such as 1000000 or 1e6, got "{token.value}".')
    return int(number.min(_TOO_LARGE))


def _parse_share(type_: Any, tokens: Sequence[Token]) -> float:
    """Converts a number, and says of what else comes which numbers there are."""
    [token] = tokens
    try:
        return float(token.value)
    except ValueError:
        raise ValueError(f'expected a number such as 0.1, got "{token.value}".') from None


def _number(metavar: str, least: int, most: int) -> Any:
    return Parameter(converter=_parse_whole, validator=Number(gte=least, lte=most), metavar=metavar)


Count = Annotated[int, _number("NUMBER", 1, 1_000_000)]
Workers = Annotated[int, _number("NUMBER", 0, 1_000_000)]
Seed = Annotated[int, _number("SEED", 0, 2**32 - 2)]
Share = Annotated[
    float, Parameter(converter=_parse_share, validator=Number(gte=0, lte=1), metavar="SHARE")
]
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
        "mtwrappers protocols metaworld-3.1",
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
    "doctor": (
        "Print what is installed, and whether frames can be drawn.",
        "mtwrappers doctor",
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
