"""``mtwrappers protocols``: prints side by side how published scores are measured."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from mtwrappers.cli.console import say
from mtwrappers.evaluation import Protocol, protocols
from mtwrappers.evaluation.report import align_columns

_WIDTH = 80


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value or "-")


def _sentences(described: Any) -> str:
    """Returns the name of a table of sentences; without a name, the number of its sentences."""
    return f"own-{len(described)}" if isinstance(described, tuple) else _text(described)


# The label of each row, and its cell for a protocol: together they cover all fields.
FIELDS: dict[str, Callable[[Protocol], str]] = {
    "benchmark": lambda p: p.benchmark,
    "tasks": lambda p: p.kind,
    "reward function": lambda p: p.reward_function_version,
    "goals": lambda p: "continuous" if p.num_goals is None else "list",
    "  seed of goals": lambda p: str(p.goals_seed),
    "  per task": lambda p: _text(p.num_goals),
    "horizon, actions": lambda p: str(p.max_episode_steps),
    "action repeat": lambda p: str(p.action_repeat),
    "idle steps": lambda p: _text(p.idle_steps),
    "success ends it": lambda p: _text(p.terminate_on_success),
    "success at": lambda p: f"held {p.success}" if type(p.success) is int else str(p.success),
    "episodes": lambda p: f"{p.episodes_per_task}/{'goal' if p.few_shot else 'task'}",
    "few-shot: tasks": lambda p: _text(p.meta_batch_size),
    "  goals of each": lambda p: _text(p.trials),
    "  adapting on": lambda p: _text(p.adaptation_episodes),
    "  how often": lambda p: _text(p.adaptation_steps),
    "mean over": lambda p: p.means[0],
    "  and over": lambda p: ", ".join(p.means[1:]) or "-",
    "groups of tasks": lambda p: "/".join(str(len(of)) for _, of in p.groups) or "-",
    "agent sees": lambda p: p.observation.partition("_")[0],
    "  and": lambda p: p.observation.partition("_")[2] or "-",
    "  the goal": lambda p: _text(not p.hides_goals),
    "  sentences of": lambda p: _sentences(p.descriptions).partition("-")[0] or "-",
    "    version": lambda p: _sentences(p.descriptions).partition("-")[2] or "-",
    "  camera": lambda p: _text(p.camera_name),
    "  image size": lambda p: " x ".join(map(str, p.image_size or "-")),
    "digest": lambda p: p.digest[:10],
}


def table() -> list[list[str]]:
    """Returns a row of cells per field, after its label, below two rows of protocol names."""
    names = [name.partition("-") for name in protocols]
    heads = [["protocol", *(first for first, _, _ in names)], ["", *(last for _, _, last in names)]]
    rows = [[label, *(say(p) for p in protocols.values())] for label, say in FIELDS.items()]
    return heads + rows


def run() -> int:
    """Print side by side how published scores are measured."""
    for i, line in enumerate(align_columns(table(), right=False)):
        say(line, "bold" if i < 2 else "")  # the names
    say("\nhorizon: in actions of the policy; success: at any step, at the last, or held")
    say("list: Meta-World's goals, each once; continuous: a new goal in every episode")
    say("in rollout, expert and random read states, even where agents see frames\n")
    for protocol in protocols.values():
        say(f"{protocol.label}:", "bold")
        for source in protocol.source:
            say(textwrap.fill(source, _WIDTH, initial_indent="  ", subsequent_indent="    "))
    return 0
