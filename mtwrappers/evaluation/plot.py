"""Results as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtwrappers._extras import import_extra
from mtwrappers.evaluation.statistics import Estimate

if TYPE_CHECKING:
    from mtwrappers.evaluation.few_shot_result import FewShotResult
    from mtwrappers.evaluation.result import EvaluationResult

DARK, LIGHT, INK = "#2a6fb0", "#9cc3e6", "#333333"
_SUCCESS = (
    ("success_once", DARK, "at any step (success_once)"),
    ("success_final", LIGHT, "at the last step (success_final)"),
)


def draw_result(result: EvaluationResult, path: Path, title: str) -> None:
    """Draws a bar a task and metric with its interval, and the aggregates below a line."""
    figure_module = import_extra("matplotlib.figure", "cli")
    has_success = result.overall["mean"]["success_once"] is not None
    series = _SUCCESS if has_success else (("return", DARK, "return"),)
    rows = [(task, found) for task, found in result.per_task.items()]
    n = len(rows)
    if n > 1:
        rows += [(name.replace("_", " "), found) for name, found in result.overall.items()]
    y = np.arange(len(rows)) + 0.5 * (np.arange(len(rows)) >= n)
    figure = figure_module.Figure(
        figsize=(8, 1.8 + 0.36 * len(rows)), layout="constrained", dpi=120
    )
    axes = figure.subplots()
    height = 0.72 / len(series)
    for i, (metric, color, label) in enumerate(series):
        at = y + (i - (len(series) - 1) / 2) * height
        _bars(axes, at, [found[metric] for _, found in rows], 0.95 * height, color, label)
    if n > 1:
        axes.axhline(n - 0.25, color=INK, linewidth=0.8)
    axes.set_yticks(y, [name for name, _ in rows])
    axes.invert_yaxis()
    if has_success:
        axes.set_xlim(0, 1.02)
    axes.set_xlabel("success rate" if has_success else "return")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10, loc="left")
    _footer(figure, result, len(series))
    figure.savefig(path)


def _bars(
    axes: Any,
    at: Any,
    found: list[Estimate | None],
    height: float,
    color: str,
    label: str,
) -> None:
    values = [0.0 if e is None else e.value for e in found]
    axes.barh(at, values, height, label=label, color=color)
    for y, estimate in zip(at, found, strict=True):
        if estimate is not None and estimate.low is not None:
            axes.plot([estimate.low, estimate.high], [y, y], color=INK, linewidth=1.2)


def _footer(figure: Any, result: EvaluationResult, columns: int) -> None:
    unit = "episodes" if result.episodes[0].trial is None else "trials"
    note = f"lines: {result.confidence:.0%} bootstrap intervals over {unit}"
    legend = figure.legend(
        loc="outside lower center", ncols=columns, frameon=False, fontsize=9, title=note
    )
    legend.get_title().set_fontsize(9)


def draw_few_shot(result: FewShotResult, path: Path, title: str) -> None:
    """Draws success (or return) by episode since the trial's begin: each task, and their mean."""
    figure_module = import_extra("matplotlib.figure", "cli")
    has_success = result.evaluation.overall["mean"]["success_once"] is not None
    metric = "success_once" if has_success else "return"
    figure = figure_module.Figure(figsize=(8, 4.5), layout="constrained", dpi=120)
    axes = figure.subplots()
    curve = result.by_episode
    x = np.arange(1, len(curve) + 1)
    for task in result.evaluation.tasks:
        own = [_value(step.per_task.get(task, {}).get(metric)) for step in curve]
        axes.plot(x, own, linewidth=1, marker=".", label=task)
    means = [step.overall["mean"][metric] for step in curve]
    # Below the tasks, which it would hide where they agree.
    values = [_value(e) for e in means]
    axes.plot(x, values, color=INK, linewidth=4, alpha=0.5, marker="o", label="mean", zorder=1)
    low = [np.nan if e is None or e.low is None else e.low for e in means]
    high = [np.nan if e is None or e.high is None else e.high for e in means]
    axes.fill_between(x, low, high, color=INK, alpha=0.15, linewidth=0)
    before = result.adaptation_length
    axes.axvline(before + 0.5, color=DARK, linestyle="--", linewidth=1.2)
    axes.annotate(
        "evaluation",
        (before + 0.5, 1.0),
        xytext=(3, 1),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="bottom",
        color=DARK,
    )
    axes.set_xticks(x if len(x) <= 20 else x[:: len(x) // 10])
    axes.set_xlabel("episode of the trial")
    axes.set_ylabel("success rate (success_once)" if has_success else "return")
    if has_success:
        axes.set_ylim(-0.02, 1.02)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10, loc="left", pad=18)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(path)


def _value(estimate: Estimate | None) -> float:
    return np.nan if estimate is None else estimate.value
