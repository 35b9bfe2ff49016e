"""``mtwrappers protocols``: prints side by side how published scores are measured."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from mtwrappers.cli.commands import described
from mtwrappers.cli.console import say, unknown
from mtwrappers.evaluation import protocols
from mtwrappers.evaluation.protocol_text import FIELDS, list_sources, tabulate_fields
from mtwrappers.evaluation.report import align_columns


@described
def run(name: Annotated[str | None, Parameter(metavar="NAME")] = None, /) -> int:
    """Print side by side how published scores are measured.

    Args:
        name: Print only the protocol of this name.
    """
    if name is not None and name not in protocols:
        raise unknown(f"protocol {name!r}", name, protocols)
    shown = protocols if name is None else {name: protocols[name]}
    table = tabulate_fields(shown)
    for (label, *_), line in zip(table, align_columns(table, right=False), strict=True):
        say(line, "" if label in FIELDS else "bold")
    say("\nhorizon: in actions of the policy; success: at any step, at the last, or held")
    say("list: Meta-World's goals, each once; continuous: a new goal in every episode")
    say("in rollout, expert and random read states, even where agents see frames\n")
    for protocol in shown.values():
        label, *sources = list_sources(protocol)
        say(label, "bold")
        for line in sources:
            say(line)
    return 0
