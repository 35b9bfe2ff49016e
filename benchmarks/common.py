"""Shared by the benchmarks: rates side by side, memory, the machine, tables and plots."""

from __future__ import annotations

import json
import os
import platform
import re
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


def measure_rates(
    workloads: Mapping[str, Callable[[], int]], rounds: int
) -> dict[str, list[float]]:
    """Measures steps per second of each workload in every round, after a round of warm-up.

    Workloads take turns, so that all of them meet the same load of the machine.

    Args:
        workloads: Functions that step environments and return the number of environment steps.
        rounds: How often each is measured.
    """
    for run in workloads.values():
        run()
    rates: dict[str, list[float]] = {name: [] for name in workloads}
    for _ in range(rounds):
        for name, run in workloads.items():
            start = time.perf_counter()
            steps = run()
            rates[name].append(steps / (time.perf_counter() - start))
    return rates


def median_ratio(rates: Mapping[str, list[float]], name: str, baseline: str) -> float:
    """How many times faster a workload is than a baseline: the median over rounds."""
    return median(a / b for a, b in zip(rates[name], rates[baseline], strict=True))


def measure_pss(include_self: bool = True) -> float:
    """Proportional set size of this process and its descendants, in GB."""
    parent = psutil.Process()
    processes = parent.children(recursive=True)
    if include_self:
        processes.append(parent)
    kibibytes = 0
    for process in processes:
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # ended, or of another user
        kibibytes += int(re.search(r"^Pss: +(\d+)", text, re.MULTILINE)[1])
    return kibibytes * 1024 / 1e9


def machine() -> dict[str, Any]:
    """The processor, cores and versions of packages with which figures are measured."""
    names = ("gymnasium", "metaworld", "mujoco", "numpy", "scipy", "envpool", "mtwrappers")
    versions = {name: version_or_none(name) for name in names}
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": versions,
    }


def version_or_none(name: str) -> str | None:
    """The version of a package, ``None`` if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The processor's name as the kernel reports it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def table(rows: list[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table, which is also how a terminal shows them."""
    columns = list(rows[0])
    cells = [columns, *[[str(row[column]) for column in columns] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = []
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("| " + " | ".join(padded) + " |")
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def target_row(quantity: str, measured: float, at_least: float, unit: str = "x") -> dict[str, str]:
    """A row of a table of targets, for a quantity that has a minimum."""
    return {
        "what": quantity,
        "measured": f"{measured:.2f}{unit}",
        "at least": f"{at_least:g}{unit}",
        "reached": "yes" if measured >= at_least else "no",
    }


def limit_row(quantity: str, measured: float, at_most: float, unit: str = "") -> dict[str, str]:
    """A row of a table of targets, for a cost that has a maximum."""
    return {
        "what": quantity,
        "measured": f"{measured:.3g}{unit}",
        "at least": f"at most {at_most:g}{unit}",
        "reached": "yes" if measured <= at_most else "no",
    }


def save(name: str, results: Mapping[str, Any]) -> None:
    """Writes ``results/NAME.json``, with the machine."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine(), **results}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def bar_plot(path: Path, title: str, groups: Mapping[str, Mapping[str, float]], unit: str) -> None:
    """Draws horizontal bars, with a panel for each group."""
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
