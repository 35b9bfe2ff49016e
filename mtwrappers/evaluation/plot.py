"""Plots of results."""

from __future__ import annotations

import io
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation.statistics import Estimate, Estimates
from mtwrappers.state.files import write_atomically

DARK, LIGHT, INK = "#2a6fb0", "#9cc3e6", "#333333"
_SUCCESS = (
    ("success_once", DARK, "at any step (success_once)"),
    ("success_final", LIGHT, "at the last step (success_final)"),
)
# The colours of Okabe & Ito (2008), which colour-blind readers can distinguish; black is last.
_METHODS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"
_MARKS = "osD^vP"  # 6 marks and 7 colours, so that 42 methods differ
_ACROSS = 2  # panels of tasks per row
# Inches, pixels per inch and points: at the width of a phone, labels have nine pixels or more.
_WIDTH, _DPI, _LABEL, _LINE = 4.8, 200, 9, 72  # _LINE: characters per line of a label
Kind: TypeAlias = Literal["curve", "unadapted", "level", "beside"]


class Line(NamedTuple):
    """The scores of a method against its training steps, to be drawn.

    Args:
        label: The method's name.
        points: The estimates by training steps, ascending.
        kind: A ``"curve"``, a curve before adaptation (``"unadapted"``), a ``"level"`` that is the
            same at all steps, or points from other sources (``"beside"``).
    """

    label: str
    points: Mapping[float, Estimate]
    kind: Kind


def draw_bars(
    path: Path,
    per_task: Mapping[str, Estimates],
    overall: Mapping[str, Estimates],
    title: str,
    footer: str,
) -> None:
    """Draws a bar per task and metric with its interval, and the aggregates below a line."""
    has_success = overall["mean"]["success_once"] is not None
    normalized = "normalized" in overall["mean"]
    paid = ("normalized", DARK, "normalised return") if normalized else ("return", DARK, "return")
    series = _SUCCESS if has_success else (paid,)
    rows = list(per_task.items())
    n = len(rows)
    if n > 1:
        rows += [(name.replace("_", " "), found) for name, found in overall.items()]
    y = np.arange(len(rows)) + 0.5 * (np.arange(len(rows)) >= n)
    figure, axes = _figure(1.8 + 0.36 * len(rows))
    height = 0.72 / len(series)
    for i, (metric, color, label) in enumerate(series):
        at = y + (i - (len(series) - 1) / 2) * height
        found = [estimates[metric] for _, estimates in rows]
        axes.barh(at, np.nan_to_num(_values(found)), 0.95 * height, label=label, color=color)
        for where, estimate in zip(at, found, strict=True):
            if estimate is not None and estimate.low is not None:
                ends = [estimate.low, estimate.high]
                axes.plot(ends, [where, where], color=INK, linewidth=1.2)
    if n > 1:
        axes.axhline(n - 0.25, color=INK, linewidth=0.8)
    axes.set_yticks(y, [name for name, _ in rows])
    axes.invert_yaxis()
    if has_success:
        axes.set_xlim(0, 1.02)
    axes.set_xlabel("success rate" if has_success else paid[2])
    _title(figure, title)
    legend = figure.legend(
        loc="outside lower center", frameon=False, fontsize=_LABEL, title=_wrapped(footer)
    )
    legend.get_title().set_fontsize(_LABEL)
    _save(figure, path)


class GoalMark(NamedTuple):
    """A goal in a plot: the start and goal positions of the object from above, in metres.

    ``success`` is the share of its episodes that succeeded.
    """

    start: tuple[float, float] | None
    end: tuple[float, float]
    success: float


# The name, color and marker of goals that succeeded, succeeded in some episodes, and failed. The
# colors can be distinguished by color-blind readers, and in gray.
_GOALS = (
    ("succeeded", LIGHT, "o"),
    ("succeeded in some episodes", "#e69f00", "s"),
    ("failed", "#b3321c", "X"),
)


def draw_goals(path: Path, tasks: Mapping[str, Sequence[GoalMark]], title: str) -> None:
    """Draws a panel per task: a mark at each goal, and a line to it from the object's start.

    Failures are on top. Each panel has its own scale, the same for x and y.
    """
    module, lines = (import_extra(f"matplotlib.{name}", "cli") for name in ("figure", "lines"))
    columns = min(len(tasks), 3)
    rows, side = -(-len(tasks) // columns), _WIDTH / columns
    figure = module.Figure((_WIDTH, 1.15 * side * rows + 1.3), layout="constrained", dpi=_DPI)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(tasks) :]:
        axes.set_axis_off()
    for axes, (task, marks) in zip(panels, tasks.items(), strict=False):
        for i, (_, color, marker) in enumerate(_GOALS):
            own = [one for one in marks if _kind(one) == i]
            for one in own:
                if one.start is not None:
                    x, y = zip(one.start, one.end, strict=True)
                    axes.plot(x, y, color=color, linewidth=0.6, alpha=0.7, zorder=2 + i)
                    axes.plot(*one.start, ".", color=INK, markersize=2, zorder=5)
            ends = [one.end[0] for one in own], [one.end[1] for one in own]
            edge = {"markeredgecolor": "white" if i else DARK, "markeredgewidth": 0.4}
            axes.plot(*ends, marker, color=color, markersize=3.5 + 0.4 * i, zorder=6 + i, **edge)
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.12)
        axes.locator_params(nbins=3)
        axes.tick_params(labelsize=_LABEL, length=2, pad=1.5)
        solved = sum(_kind(one) == 0 for one in marks)
        name = task.removesuffix("-v3")
        name = textwrap.fill(name.replace("-", "- "), 15).replace("- ", "-")
        axes.set_title(f"{name}\n{solved} of {len(marks)}", fontsize=_LABEL)
    counts = Counter(_kind(one) for marks in tasks.values() for one in marks)
    handles = [
        lines.Line2D([], [], linestyle="", marker=marker, color=color, label=f"{name}: {counts[i]}")
        for i, (name, color, marker) in enumerate(_GOALS)
        if counts[i]
    ]
    dot = {"marker": ".", "color": INK, "linewidth": 0.6}
    handles.append(lines.Line2D([], [], **dot, label="where the object starts"))
    _title(figure, title)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=_LABEL,
        title="goals from above, x and y in metres; the robot is at y = 0",
        title_fontsize=_LABEL,
    )
    _save(figure, path)


def _kind(mark: GoalMark) -> int:
    """Which of `_GOALS` a goal is."""
    return 0 if mark.success == 1 else 2 if mark.success == 0 else 1


def draw_curves(
    path: Path,
    metric: str,
    curves: Mapping[str, Sequence[Estimate | None]],
    means: Sequence[Estimate | None],
    adaptation_length: int,
    title: str,
) -> None:
    """Draws a metric against the episode of the trial: each task, and their mean."""
    figure, axes = _figure(3.6 + 0.1 * len(curves))
    x = np.arange(1, len(means) + 1)
    for task, curve in curves.items():
        axes.plot(x, _values(curve), linewidth=1, marker=".", label=task)
    # Below the tasks, so that it does not hide them.
    mean = {"color": INK, "linewidth": 4, "alpha": 0.5, "marker": "o", "zorder": 1}
    axes.plot(x, _values(means), label="mean", **mean)
    low, high = _values(means, "low"), _values(means, "high")
    axes.fill_between(x, low, high, color=INK, alpha=0.15, linewidth=0)
    begins = {"color": DARK, "linestyle": "--", "linewidth": 1.2, "label": "evaluation begins"}
    axes.axvline(adaptation_length + 0.5, **begins)
    axes.set_xticks(x if len(x) <= 20 else x[:: len(x) // 10])
    axes.set_xlabel("episode of the trial")
    axes.set_ylabel("return" if metric == "return" else f"success rate ({metric})")
    if metric != "return":
        axes.set_ylim(-0.02, 1.02)
    _title(figure, title)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=_LABEL)
    _save(figure, path)


def draw_training(
    path: Path, panels: Mapping[str, Sequence[Line]], title: str, caption: Sequence[str]
) -> None:
    """Draws success rates against training steps: a wide panel, and small panels below it."""
    module, ticker = (import_extra(f"matplotlib.{name}", "cli") for name in ("figure", "ticker"))
    (name, lines), *others = panels.items()
    rows = -(-len(others) // _ACROSS)
    notes = [line for one in caption for line in textwrap.wrap(one, _LINE)]
    height = 3.6 + 1.4 * rows + 0.17 * len(notes)
    figure = module.Figure((_WIDTH, height), layout="constrained", dpi=_DPI)
    grid = figure.add_gridspec(1 + rows, _ACROSS, height_ratios=[2.2] + [1] * rows)
    wide = figure.add_subplot(grid[0, :])
    places = [grid[1 + i // _ACROSS, i % _ACROSS] for i in range(len(others))]
    small = [figure.add_subplot(place) for place in places]
    colors = {label: i for i, label in enumerate(dict.fromkeys(line.label for line in lines))}
    end = max(max(line.points) for line in lines)
    for i, axes in enumerate((wide, *small)):
        axes.spines[["top", "right"]].set_visible(False)
        for line in panels[name] if i == 0 else others[i - 1][1]:
            _draw_line(axes, line, colors[line.label], end, 1.0 if i else 1.6)
        axes.set_ylim(-0.02, 1.02)
        if end > 0:
            axes.set_xlim(-0.02 * end, 1.02 * end)
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
        axes.xaxis.set_major_locator(ticker.MaxNLocator(3 if i else 5, steps=[1, 2, 5, 10]))
        axes.tick_params(labelsize=_LABEL)
        if i:
            axes.set_title(others[i - 1][0], fontsize=_LABEL, pad=3)
            axes.set_yticks([0, 0.5, 1])
            labels = {"labelleft": i % _ACROSS == 1, "labelbottom": i + _ACROSS > len(small)}
            axes.tick_params(**labels)
    wide.set_xlabel("environment steps of training", fontsize=_LABEL)
    wide.set_ylabel(f"success rate, {name}", fontsize=_LABEL)
    wide.set_title(_wrapped(title, _LINE - 16), fontsize=_LABEL + 1, loc="left")
    handles, names = wide.get_legend_handles_labels()
    names = [_wrapped(one, _LINE - 12) for one in names]
    figure.legend(handles, names, loc="outside upper left", frameon=False, fontsize=_LABEL)
    figure.supxlabel("\n".join(notes), fontsize=_LABEL, ha="left", x=0.01)
    _save(figure, path)


def _draw_line(axes: Any, line: Line, place: int, end: float, width: float) -> None:
    """Draws a line of a panel; ``end`` is the right end of a level."""
    style: dict[str, Any] = {
        "color": _METHODS[place % len(_METHODS)],
        "marker": _MARKS[place % len(_MARKS)],
        "markersize": 2.5 * width,
        "linewidth": width,
        "label": line.label,
    }
    steps, found = [*line.points], [*line.points.values()]
    if line.kind == "level":
        steps, found = [0.0, end], found * 2
        style |= {"marker": None, "linestyle": "-."}
    elif line.kind == "unadapted":
        style |= {"linestyle": "--", "label": f"{line.label}, before adaptation"}
    elif line.kind == "beside":
        style |= {"linestyle": ":", "markersize": 6, "markerfacecolor": "white"}
    axes.plot(steps, _values(found), **style)
    low, high = _values(found, "low"), _values(found, "high")
    color = style["color"]
    alpha = 0.09 if line.kind == "unadapted" else 0.18
    axes.fill_between(steps, low, high, color=color, alpha=alpha, linewidth=0)
    known = [False, *np.isfinite(low), False]
    for i, (x, *ends) in enumerate(zip(steps, low, high, strict=True)):
        if known[i + 1] and not known[i] and not known[i + 2]:  # a band of one point has no area
            axes.plot([x, x], ends, color=color, linewidth=2 * width, alpha=0.35)


def draw_stream(
    path: Path,
    points: Sequence[int],
    ends: Sequence[int],
    mean: Sequence[Estimate | None],
    each: Mapping[str, Sequence[Estimate | None]],
    title: str,
    footer: str,
) -> None:
    """Draws the mean of all phases against agent steps, and each phase in a row below it."""
    module, ticker = (import_extra(f"matplotlib.{name}", "cli") for name in ("figure", "ticker"))
    n = len(each)
    figure = module.Figure((_WIDTH, 2.6 + 0.62 * n), layout="constrained", dpi=_DPI)
    ratios = [2.4] + [1.0] * n
    rows = figure.subplots(n + 1, 1, sharex=True, sharey=True, height_ratios=ratios)
    begins = (0, *ends)
    for i, (axes, curve) in enumerate(zip(rows, (mean, *each.values()), strict=True)):
        color = INK if i == 0 else DARK
        axes.spines[["top", "right"]].set_visible(False)
        for end in ends:
            axes.axvline(end, color=INK, linewidth=0.5, alpha=0.4)
        if i > 0:
            axes.axvspan(begins[i - 1], begins[i], color=LIGHT, alpha=0.6, linewidth=0)
        axes.fill_between(
            points, _values(curve, "low"), _values(curve, "high"), color=color, alpha=0.25, lw=0
        )
        axes.plot(points, _values(curve), color=color, linewidth=1.6, marker=".", markersize=3)
        name = "mean of all" if i == 0 else list(each)[i - 1]
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=_LABEL)
        axes.tick_params(labelsize=_LABEL)
        axes.locator_params(axis="y", nbins=2)
        axes.locator_params(axis="x", nbins=5)
    _title(figure, title)
    rows[-1].set_xlabel("agent steps; shaded: the phase is trained", fontsize=_LABEL)
    rows[-1].xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    rows[0].set_xlim(0, max(points[-1], ends[-1]))
    figure.supxlabel(_wrapped(footer), fontsize=_LABEL, ha="left", x=0.01)
    _save(figure, path)


def draw_differences(
    path: Path,
    tasks: Mapping[str, Estimate],
    overall: Mapping[str, Estimate],
    title: str,
    footer: str,
) -> None:
    """Draws a point per task with its interval, and the aggregates below a line."""
    figure, axes = _figure(1.8 + 0.28 * (len(tasks) + len(overall)))
    n, found = len(tasks), [*tasks.values(), *overall.values()]
    y = np.arange(len(found)) + 0.5 * (np.arange(len(found)) >= n)
    for where, one in zip(y, found, strict=True):
        clear = one.low is not None and one.low * (one.high or 0.0) > 0
        color = DARK if clear else LIGHT
        if one.low is not None:
            axes.plot([one.low, one.high], [where, where], color=color, linewidth=2)
        axes.plot([one.value], [where], "o" if where < n else "D", color=color, markersize=6)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.axhline(n - 0.25, color=INK, linewidth=0.8)
    axes.set_yticks(y, [*tasks, *overall])
    axes.invert_yaxis()
    axes.set_xlim(-1.05, 1.05)
    axes.set_xlabel("difference of success rates", fontsize=_LABEL)
    _title(figure, title)
    notes = _wrapped(f"{footer}; dark: excludes zero")
    figure.supxlabel(notes, fontsize=_LABEL, ha="left", x=0.01)
    _save(figure, path)


def _figure(height: float) -> tuple[Any, Any]:
    module = import_extra("matplotlib.figure", "cli")
    figure = module.Figure((_WIDTH, height), layout="constrained", dpi=_DPI)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=_LABEL)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    """Writes a figure in the format of the path's suffix, or as PNG without one."""
    data = io.BytesIO()
    figure.savefig(data, format=path.suffix[1:] or "png")
    write_atomically(path, data.getvalue())


def _title(figure: Any, title: str) -> None:
    """Writes a title above all else, in as many lines as it needs."""
    if title:
        figure.suptitle(_wrapped(title, _LINE - 8), fontsize=_LABEL + 1, x=0.01, ha="left")


def _wrapped(text: str, width: int = _LINE) -> str:
    """A text whose lines fit into a figure."""
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


def _values(found: Sequence[Estimate | None], end: str = "value") -> list[float]:
    """A field of each estimate, NaN where there is none."""
    values = (None if estimate is None else getattr(estimate, end) for estimate in found)
    return [np.nan if value is None else float(value) for value in values]
