"""Plots of results."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation.statistics import Estimate
from mtwrappers.state.files import write_atomically

DARK, LIGHT, INK = "#2a6fb0", "#9cc3e6", "#333333"
# The labels of axes with a fixed range.
RATE, DIFFERENCE = "success rate", "difference"
# The label of the axis of a score, by its metric.
AXES = {"success": RATE, "return": "return"}
_LIMITS = 0.1, 0.2, 0.4, 0.6, 1.0  # of the axis of differences; no label has three digits
# The colors of Okabe & Ito (2008), which color-blind readers can distinguish; black is last.
METHODS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"
_MARKS = "osD^vP"  # 6 marks and 7 colors, so that 42 methods differ
_ACROSS = 2  # panels of tasks per row
# Inches, pixels per inch and points: at the width of a phone, labels have nine pixels or more.
_WIDTH, _DPI, _LABEL, _LINE = 4.8, 200, 9, 72  # _LINE: characters per line of a label
_Field: TypeAlias = Literal["value", "low", "high"]
_FIELDS: tuple[_Field, ...] = "value", "low", "high"
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


class Series(NamedTuple):
    """Estimates to draw, one in each row, in one color or each in its own."""

    label: str
    color: str | Sequence[str]
    estimates: Sequence[Estimate | None]


def check_image_suffix(path: Path, name: str) -> None:
    """Raises `ValueError` for the name of a file that is of no image format.

    Args:
        path: The file; without a suffix it is a PNG image.
        name: The name of the argument in the error.
    """
    canvas = import_extra("matplotlib.backend_bases", "cli").FigureCanvasBase
    formats = canvas.get_supported_filetypes()
    if path.suffix and path.suffix[1:].lower() not in formats:
        hint = did_you_mean(path.suffix, [f".{suffix}" for suffix in formats])
        raise ValueError(
            f"{name} must end in the suffix of an image, such as .png, .pdf or .svg, got "
            f"{str(path)!r}{hint and f'; {hint}'}"
        )


class _Picture:
    """A figure as wide as a phone, with a title above and text below its panels."""

    def __init__(self, height: float) -> None:
        module = import_extra("matplotlib.figure", "cli")
        self.figure = module.Figure((_WIDTH, height), layout="constrained", dpi=_DPI)

    def legend(self, *handles: Any, place: str = "lower center", **options: Any) -> None:
        """A legend outside of the panels."""
        style = {"frameon": False, "fontsize": _LABEL, "title_fontsize": _LABEL, **options}
        self.figure.legend(*handles, loc=f"outside {place}", **style)

    def save(self, path: Path, title: str, footer: str = "") -> None:
        """Writes it in the format of the path's suffix, or as PNG without one."""
        check_image_suffix(path, "path")
        for axes in self.figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=_LABEL)
        if title:
            self.figure.suptitle(_wrap(title, _LINE - 8), fontsize=_LABEL + 1)
        if footer:
            self.figure.supxlabel(_wrap(footer), fontsize=_LABEL, ha="left", x=0.01)
        data = io.BytesIO()
        self.figure.savefig(data, format=path.suffix[1:] or "png")
        write_atomically(path, data.getvalue())


def draw_rows(
    path: Path,
    names: Sequence[str],
    num_tasks: int,
    panels: Mapping[str, Sequence[Series]],
    title: str,
    footer: str,
) -> None:
    """Draws estimates as points with their intervals, in panels side by side.

    Args:
        path: The image file.
        names: The name of each row: of tasks, and of means, which are below a line.
        num_tasks: The number of tasks.
        panels: The series of each panel, by the label of its axis.
        title: A title above the panels.
        footer: A text below them.
    """
    y = np.arange(len(names)) + 0.5 * (np.arange(len(names)) >= num_tasks)
    most_series = max(map(len, panels.values()))
    picture = _Picture(1.8 + (0.16 + 0.06 * most_series) * len(names))
    all_axes = picture.figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (head, panel) in zip(all_axes, panels.items(), strict=True):
        for i, series in enumerate(panel):
            _draw_series(axes, series, y + 0.6 * ((i + 0.5) / len(panel) - 0.5))
        if len(names) > num_tasks:
            axes.axhline(num_tasks - 0.25, color=INK, linewidth=0.8)
        axes.set_xlabel(head, fontsize=_LABEL)
        axes.xaxis.set_major_formatter("{x:g}")  # short, so that those of two panels do not touch
        if head == DIFFERENCE:
            axes.axvline(0, color=INK, linewidth=0.8)
            limit = _find_limit(panel)
            axes.set_xlim(-limit, limit)
            axes.set_xticks([-limit / 2, 0, limit / 2])
        elif head == RATE:
            axes.set_xlim(0, 1)
    all_axes[0].set_yticks(y, names)
    all_axes[0].set_ylim(y[-1] + 0.5, y[0] - 0.5)  # downwards, with room for every row
    if any(series.label for panel in panels.values() for series in panel):
        picture.legend(ncols=2, title=_wrap(footer))
        footer = ""
    picture.save(path, title, footer)


def _find_limit(panel: Sequence[Series]) -> float:
    """The limit of a symmetric axis that has room for all differences and their intervals."""
    numbers = [
        abs(number)
        for series in panel
        for field in _FIELDS
        for number in _list_numbers(series.estimates, field)
    ]
    largest = float(np.nanmax(numbers))
    if largest > _LIMITS[-1]:  # of returns
        power = 10.0 ** np.floor(np.log10(largest))
        return float(next(step * power for step in (1, 2, 4, 6, 10) if step * power >= largest))
    return next(limit for limit in _LIMITS if limit >= largest)


def _draw_series(axes: Any, series: Series, y: NDArray[np.float64]) -> None:
    """Draws the points and intervals of a series at heights ``(N,)``."""
    colors = series.color
    if isinstance(colors, str):
        colors = [colors] * len(y)
    low, high = _list_numbers(series.estimates, "low"), _list_numbers(series.estimates, "high")
    axes.hlines(y, low, high, color=colors, linewidth=2, clip_on=False)
    axes.scatter(_list_numbers(series.estimates), y, color=colors, s=24, clip_on=False)
    if series.label:
        axes.plot([], [], "o-", color=colors[0], label=series.label)


def draw_lines(
    path: Path,
    panels: Mapping[str, Sequence[Line]],
    title: str,
    caption: Sequence[str],
    x_label: str = "environment steps of training",
    y_label: str = RATE,
    adaptation: int | None = None,
) -> None:
    """Draws estimates against steps or episodes: a wide panel, and small panels below it.

    Args:
        path: The image file.
        panels: The lines of each panel, by its name; the first one is wide.
        title: A title above the panels.
        caption: Sentences below them.
        x_label: The label of the horizontal axis.
        y_label: The label of the vertical axis. Panels of rates have the range 0 to 1, others one
            of their own each.
        adaptation: For episodes of trials, the number of the first ones, of adaptation, which are
            shaded. Without it, the horizontal axis begins at 0.
    """
    ticker = import_extra("matplotlib.ticker", "cli")
    wide_name = next(iter(panels))
    num_small = len(panels) - 1
    num_rows = -(-num_small // _ACROSS)
    footer = [line for sentence in caption for line in textwrap.wrap(sentence, _LINE)]
    picture = _Picture(3.6 + 1.4 * num_rows + 0.17 * len(footer))
    heights = [2.2] + [1] * num_rows
    grid = picture.figure.add_gridspec(1 + num_rows, _ACROSS, height_ratios=heights)
    wide = picture.figure.add_subplot(grid[0, :])
    small = [
        picture.figure.add_subplot(grid[1 + i // _ACROSS, i % _ACROSS]) for i in range(num_small)
    ]
    labels = dict.fromkeys(line.label for line in panels[wide_name])
    methods = {label: i for i, label in enumerate(labels)}
    last_step = max(max(line.points) for line in panels[wide_name])
    end = last_step or 1.0  # a level needs some width
    for i, (axes, lines) in enumerate(zip((wide, *small), panels.values(), strict=True)):
        for line in lines:
            _draw_line(axes, line, methods[line.label], end, 1.0 if i else 1.6)
        if y_label == RATE:
            axes.set_ylim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
        if adaptation is None:
            axes.set_xlim(-0.02 * end, 1.02 * end)
            ticks = ticker.MaxNLocator(3 if i else 5, steps=[1, 2, 5, 10], integer=True)
            axes.xaxis.set_major_locator(ticks if last_step else ticker.FixedLocator([0]))
        else:
            axes.set_xlim(0.5, end + 0.5)
            axes.set_xticks(range(1, int(end) + 1, -(-int(end) // (6 if i else 12))))
            axes.axvspan(0.5, adaptation + 0.5, color=INK, alpha=0.08, linewidth=0)
    for i, (axes, task) in enumerate(zip(small, [*panels][1:], strict=True)):
        axes.set_title(task, fontsize=_LABEL, pad=3)
        axes.locator_params(axis="y", nbins=2)
        is_lowest = i + _ACROSS >= num_small
        has_shared_range = y_label == RATE
        axes.tick_params(labelleft=i % _ACROSS == 0 or not has_shared_range, labelbottom=is_lowest)
    wide.set_xlabel(x_label, fontsize=_LABEL)
    wide.set_ylabel(f"{y_label}, {wide_name}", fontsize=_LABEL)
    wide.set_title(_wrap(title, _LINE - 16), fontsize=_LABEL + 1, loc="left")
    handles, names = wide.get_legend_handles_labels()
    if any(names):
        picture.legend(handles, [_wrap(name, _LINE - 12) for name in names], place="upper left")
    picture.save(path, "", "\n".join(footer))


def _draw_line(axes: Any, line: Line, method: int, end: float, width: float) -> None:
    """Draws a line of a panel.

    Args:
        axes: The panel.
        line: The line.
        method: The index of its method, which determines color and mark.
        end: The right end of a level.
        width: The width of the line, in points.
    """
    color = METHODS[method % len(METHODS)]
    style = {"marker": _MARKS[method % len(_MARKS)], "markersize": 2.5 * width}
    style |= {"label": line.label}
    steps, estimates = [*line.points], [*line.points.values()]
    if line.kind == "level":
        steps, estimates = [0.0, end], estimates * 2
        style |= {"marker": None, "linestyle": "-."}
    elif line.kind == "unadapted":
        style |= {"linestyle": "--", "label": f"{line.label}, before adaptation"}
    elif line.kind == "beside":
        style |= {"linestyle": ":", "markersize": 6, "markerfacecolor": "white"}
    axes.plot(steps, _list_numbers(estimates), color=color, linewidth=width, **style)
    _draw_band(axes, steps, estimates, color, 0.09 if line.kind == "unadapted" else 0.18)
    has_interval = [False, *(estimate.low is not None for estimate in estimates), False]
    for i, (x, estimate) in enumerate(zip(steps, estimates, strict=True)):
        neighbours = has_interval[i] or has_interval[i + 2]
        if has_interval[i + 1] and not neighbours:  # a band of one point has no area
            ends = [estimate.low, estimate.high]
            axes.plot([x, x], ends, color=color, linewidth=2 * width, alpha=0.35)


def draw_stream(
    path: Path,
    ends: Sequence[int],
    mean: Line,
    phases: Sequence[Line],
    title: str,
    footer: str,
) -> None:
    """Draws the mean of all phases against agent steps, and each phase in a row below it.

    Args:
        path: The image file.
        ends: The agent steps at which the phases end.
        mean: The curve of the mean.
        phases: The curve of each phase, with the same steps.
        title: A title above the panels.
        footer: A text below them.
    """
    ticker = import_extra("matplotlib.ticker", "cli")
    n, steps = len(phases), [*mean.points]
    picture = _Picture(2.6 + 0.62 * n)
    heights = [2.4] + [1.0] * n
    panels = picture.figure.subplots(n + 1, 1, sharex=True, sharey=True, height_ratios=heights)
    for axes, begin, end in zip(panels[1:], (0, *ends), ends, strict=False):
        axes.axvspan(begin, end, color=LIGHT, alpha=0.6, linewidth=0)
    for axes, line in zip(panels, (mean, *phases), strict=True):
        color = INK if line is mean else DARK
        estimates = [*line.points.values()]
        for end in ends:
            axes.axvline(end, color=INK, linewidth=0.5, alpha=0.4)
        _draw_band(axes, steps, estimates, color, 0.25)
        numbers = _list_numbers(estimates)
        style = {"linewidth": 1.6, "marker": ".", "markersize": 3, "clip_on": False}
        axes.plot(steps, numbers, color=color, **style)
        axes.set_ylabel(line.label, rotation=0, ha="right", va="center", fontsize=_LABEL)
        axes.locator_params(axis="y", nbins=2)
    panels[-1].set_xlabel("agent steps; shaded: the phase is trained", fontsize=_LABEL)
    panels[-1].xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    panels[0].set_xlim(0, max(steps[-1], ends[-1]))
    panels[-1].set_xticks(_choose_ticks(ends))
    picture.save(path, title, footer)


def _choose_ticks(ends: Sequence[int]) -> list[int]:
    """Zero, and the ends of phases that are so far apart that their labels do not touch."""
    least = 0.13 * ends[-1]
    ticks = [ends[-1]]
    for end in reversed(ends):
        if ticks[-1] - end >= least <= end:
            ticks.append(end)
    return [0, *reversed(ticks)]


def _draw_band(
    axes: Any, x: Any, estimates: Sequence[Estimate | None], color: str, alpha: float
) -> None:
    """Draws the intervals of a curve."""
    low, high = _list_numbers(estimates, "low"), _list_numbers(estimates, "high")
    axes.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0)


def _wrap(text: str, width: int = _LINE) -> str:
    """A text whose lines fit into a figure."""
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


def _list_numbers(estimates: Sequence[Estimate | None], field: _Field = "value") -> list[float]:
    """A field of each estimate, NaN where there is none."""
    numbers = [None if estimate is None else getattr(estimate, field) for estimate in estimates]
    return [np.nan if number is None else float(number) for number in numbers]
