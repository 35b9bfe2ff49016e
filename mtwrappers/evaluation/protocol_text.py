"""Protocols as text: a table of their fields, and where these come from."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mtwrappers.evaluation.report import align_columns

if TYPE_CHECKING:  # that module imports this one: a protocol prints itself
    from mtwrappers.evaluation.protocol import Protocol

_WIDTH = 80


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value or "-")


def _sentences(described: Any) -> str:
    """The name of a table of sentences; without a name, the number of its sentences."""
    return f"own-{len(described)}" if isinstance(described, tuple) else _text(described)


def _describe_rule(success: str | int) -> str:
    return f"held {success}" if isinstance(success, int) else success


def _describe_tasks(benchmark: str, env_name: str | None) -> str:
    return benchmark if env_name is None else f"{benchmark} {env_name}"


def _image_size(height: int | None, width: int | None) -> str:
    return "-" if height is None else f"{height} x {width}"


# The label of each row, and its cell for a protocol: together they cover all fields.
FIELDS: dict[str, Callable[[Protocol], str]] = {
    "benchmark": lambda p: _describe_tasks(p.settings.benchmark, p.settings.env_name),
    "tasks": lambda p: p.settings.kind,
    "reward function": lambda p: p.settings.reward_function_version,
    "goals": lambda p: p.settings.goals,
    "  seed of goals": lambda p: str(p.settings.seed),
    "  per task": lambda p: str(p.settings.num_goals) if p.settings.goals == "list" else "-",
    "horizon, actions": lambda p: str(p.settings.max_episode_steps),
    "action repeat": lambda p: str(p.settings.action_repeat),
    "idle steps": lambda p: _text(p.settings.idle_steps),
    "success ends it": lambda p: _text(p.settings.terminate_on_success),
    "success at": lambda p: _describe_rule(p.scoring.success),
    "episodes": lambda p: f"{p.scoring.episodes_per_task}/{'goal' if p.few_shot else 'task'}",
    "meta-batch size": lambda p: _text(p.settings.meta_batch_size),
    "trials": lambda p: _text(p.scoring.trials),
    "adapt. episodes": lambda p: _text(p.scoring.adaptation_episodes),
    "adaptation steps": lambda p: _text(p.scoring.adaptation_steps),
    "mean over": lambda p: p.scoring.means[0],
    "  and over": lambda p: ", ".join(p.scoring.means[1:]) or "-",
    "groups of tasks": lambda p: "/".join(str(len(of)) for _, of in p.scoring.groups) or "-",
    "agent sees": lambda p: p.settings.observation.partition("_")[0],
    "  and": lambda p: p.settings.observation.partition("_")[2] or "-",
    "  the goal": lambda p: _text(not p.settings.hides_goals),
    "  sentences of": lambda p: _sentences(p.settings.descriptions).partition("-")[0] or "-",
    "    version": lambda p: _sentences(p.settings.descriptions).partition("-")[2] or "-",
    "  camera": lambda p: _text(p.settings.camera_name),
    "  image size": lambda p: _image_size(p.settings.height, p.settings.width),
    "digest": lambda p: p.digest[:10],
}


def tabulate_fields(shown: Mapping[str, Protocol]) -> list[list[str]]:
    """A row of cells per field, after its label, below the names of the protocols.

    In the table of a single protocol, fields without a value are left out.
    """
    if len(shown) == 1:
        [(name, protocol)] = shown.items()
        cells = {label: describe(protocol) for label, describe in FIELDS.items()}
        return [
            ["protocol", name],
            *([label, cell] for label, cell in cells.items() if cell != "-"),
        ]
    names = [name.partition("-") for name in shown]
    heads = [["protocol", *(first for first, _, _ in names)]]
    if any(last for _, _, last in names):
        heads.append(["", *(last for _, _, last in names)])
    rows = [
        [label, *(describe(protocol) for protocol in shown.values())]
        for label, describe in FIELDS.items()
    ]
    return heads + rows


def list_sources(protocol: Protocol) -> list[str]:
    """The label of a protocol, and below it where its fields come from, in 80 columns."""
    lines = [f"{protocol.label}:"]
    for source in protocol.source:
        lines += textwrap.wrap(source, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def format_protocol(protocol: Protocol) -> str:
    """The fields of a protocol as a table, and where they come from."""
    table = align_columns(tabulate_fields({protocol.name: protocol}), right=False)
    return "\n".join([*table, "", *list_sources(protocol)])
