"""What the benchmarks share: rates side by side, memory, the machine, tables and plots."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from matplotlib.figure import Figure

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def rates(
    players: Mapping[str, Callable[[], int]], rounds: int, warmup: bool = True
) -> dict[str, list[float]]:
    """Steps per second of each player, in every round; the players take turns.

    A player plays a while and returns how many environment steps it took.
    """
    found: dict[str, list[float]] = {name: [] for name in players}
    if warmup:
        for play in players.values():
            play()
    for _ in range(rounds):
        for name, play in players.items():
            start = time.perf_counter()
            steps = play()
            found[name].append(steps / (time.perf_counter() - start))
    return found


def ratio(found: Mapping[str, list[float]], one: str, other: str) -> float:
    """The median over rounds of how many times faster ``one`` is than ``other``."""
    return median(a / b for a, b in zip(found[one], found[other], strict=True))


def pss(include_self: bool = True) -> float:
    """Proportional set size of this process and all below it, in GB."""
    me = psutil.Process()
    total = 0
    for process in [me, *me.children(recursive=True)] if include_self else me.children(True):
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        total += next(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")
    return total * 1024 / 1e9


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    names = ("gymnasium", "metaworld", "mujoco", "numpy", "scipy", "envpool", "mtwrappers")
    versions = {name: version_or_none(name) for name in names}
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": versions,
    }


def version_or_none(name: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The processor's name, as the kernel has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def table(rows: list[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table, which is also how a terminal shows them."""
    heads = list(rows[0])
    cells = [heads, *[[str(row[head]) for head in heads] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def target_row(what: str, measured: float, at_least: float, unit: str = "x") -> dict[str, str]:
    """A row of a table of targets."""
    return {
        "what": what,
        "measured": f"{measured:.2f}{unit}",
        "at least": f"{at_least:g}{unit}",
        "reached": "yes" if measured >= at_least else "no",
    }


def limit_row(what: str, measured: float, at_most: float, unit: str = "") -> dict[str, str]:
    """A row of a table of targets for a cost."""
    return {
        "what": what,
        "measured": f"{measured:.3g}{unit}",
        "at least": f"at most {at_most:g}{unit}",
        "reached": "yes" if measured <= at_most else "no",
    }


def save(name: str, results: Mapping[str, Any]) -> None:
    """Writes ``results/NAME.json``."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine(), **results}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def bar_plot(path: Path, title: str, groups: Mapping[str, Mapping[str, float]], unit: str) -> None:
    """Horizontal bars, one panel a group."""
    figure = Figure(
        figsize=(8, 0.6 + sum(0.45 + 0.32 * len(bars) for bars in groups.values())),
        layout="constrained",
        dpi=120,
    )
    panels = figure.subplots(
        len(groups), 1, squeeze=False, height_ratios=[len(bars) + 1 for bars in groups.values()]
    )
    for axes, (group, bars) in zip(panels[:, 0], groups.items(), strict=True):
        colors = ["#2a6fb0" if name.startswith("mtwrappers") else "#b8c4d0" for name in bars]
        axes.barh(list(bars), list(bars.values()), 0.7, color=colors)
        axes.bar_label(axes.containers[0], fmt="{:,.0f}", padding=3, fontsize=8)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set_title(group, fontsize=9, loc="left")
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1, 0].set_xlabel(unit, fontsize=9)
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    figure.savefig(path)
