"""Plots of results."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation.statistics import Estimate
from mtwrappers.state.files import write_atomically

DARK, LIGHT, INK = "#2a6fb0", "#9cc3e6", "#333333"
# The labels of axes with a fixed range.
RATE, DIFFERENCE = "success rate", "difference"
# The colors of Okabe & Ito (2008), which color-blind readers can distinguish; black is last.
METHODS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"
_MARKS = "osD^vP"  # 6 marks and 7 colors, so that 42 methods differ
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


class Series(NamedTuple):
    """Estimates to draw, one in each row, in one color or each in its own."""

    label: str
    color: str | Sequence[str]
    found: Sequence[Estimate | None]


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
        for axes in self.figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=_LABEL)
        if title:
            above = {"fontsize": _LABEL + 1, "x": 0.01, "ha": "left"}
            self.figure.suptitle(_wrapped(title, _LINE - 8), **above)
        if footer:
            self.figure.supxlabel(_wrapped(footer), fontsize=_LABEL, ha="left", x=0.01)
        data = io.BytesIO()
        self.figure.savefig(data, format=path.suffix[1:] or "png")
        write_atomically(path, data.getvalue())


def draw_rows(
    path: Path,
    names: Sequence[str],
    tasks: int,
    panels: Mapping[str, Sequence[Series]],
    title: str,
    footer: str,
) -> None:
    """Draws estimates as points with their intervals, in panels side by side.

    Args:
        path: The image file.
        names: The name of each row: of tasks, and of means, which are below a line.
        tasks: The number of tasks.
        panels: The series of each panel, by the label of its axis.
        title: A title above the panels.
        footer: A text below them.
    """
    y = np.arange(len(names)) + 0.5 * (np.arange(len(names)) >= tasks)
    most = max(map(len, panels.values()))
    picture = _Picture(1.8 + (0.16 + 0.06 * most) * len(names))
    row = picture.figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (head, series) in zip(row, panels.items(), strict=True):
        for i, one in enumerate(series):
            at = y + 0.6 * ((i + 0.5) / len(series) - 0.5)
            colors = [one.color] * len(names) if isinstance(one.color, str) else one.color
            low, high, values = (_values(one.found, end) for end in ("low", "high", "value"))
            axes.hlines(at, low, high, color=colors, linewidth=2, clip_on=False)
            axes.scatter(values, at, color=colors, s=24, clip_on=False)
            if one.label:
                axes.plot([], [], "o-", color=colors[0], label=one.label)
        if len(names) > tasks:
            axes.axhline(tasks - 0.25, color=INK, linewidth=0.8)
        axes.set_xlabel(head, fontsize=_LABEL)
        axes.xaxis.set_major_formatter("{x:g}")  # short, so that those of two panels do not touch
        if head == DIFFERENCE:
            axes.axvline(0, color=INK, linewidth=0.8)
            axes.set_xlim(-1, 1)
        elif head == RATE:
            axes.set_xlim(0, 1)
    row[0].set_yticks(y, names)
    row[0].set_ylim(y[-1] + 0.5, y[0] - 0.5)  # downwards, with room for every row
    if any(one.label for own in panels.values() for one in own):
        picture.legend(ncols=2, title=_wrapped(footer))
        footer = ""
    picture.save(path, title, footer)


def draw_lines(
    path: Path,
    panels: Mapping[str, Sequence[Line]],
    title: str,
    caption: Sequence[str],
    against: str = "environment steps of training",
    of: str = RATE,
) -> None:
    """Draws estimates against steps or episodes: a wide panel, and small panels below it.

    Args:
        path: The image file.
        panels: The lines of each panel, by its name; the first one is wide.
        title: A title above the panels.
        caption: Sentences below them.
        against: The label of x.
        of: The label of y; all panels have the same range.
    """
    ticker = import_extra("matplotlib.ticker", "cli")
    (name, lines), *others = panels.items()
    rows = -(-len(others) // _ACROSS)
    notes = [line for one in caption for line in textwrap.wrap(one, _LINE)]
    picture = _Picture(3.6 + 1.4 * rows + 0.17 * len(notes))
    grid = picture.figure.add_gridspec(1 + rows, _ACROSS, height_ratios=[2.2] + [1] * rows)
    places = [grid[1 + i // _ACROSS, i % _ACROSS] for i in range(len(others))]
    wide, *small = (picture.figure.add_subplot(place) for place in (grid[0, :], *places))
    colors = {label: i for i, label in enumerate(dict.fromkeys(line.label for line in lines))}
    last = max(max(line.points) for line in lines)
    end = last or 1.0  # a level needs some width
    for i, (axes, (task, drawn)) in enumerate(zip((wide, *small), panels.items(), strict=True)):
        for line in drawn:
            _draw_line(axes, line, colors[line.label], end, 1.0 if i else 1.6)
        if of == RATE:
            axes.set_ylim(-0.02, 1.02)
        axes.set_xlim(-0.02 * end, 1.02 * end)
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
        ticks = ticker.MaxNLocator(3 if i else 5, steps=[1, 2, 5, 10], integer=True)
        axes.xaxis.set_major_locator(ticks if last else ticker.FixedLocator([0]))
        if i:
            axes.set_title(task, fontsize=_LABEL, pad=3)
            axes.locator_params(axis="y", nbins=2)
            labels = {"labelleft": i % _ACROSS == 1, "labelbottom": i + _ACROSS > len(small)}
            axes.tick_params(**labels)
    wide.set_xlabel(against, fontsize=_LABEL)
    wide.set_ylabel(f"{of}, {name}", fontsize=_LABEL)
    wide.set_title(_wrapped(title, _LINE - 16), fontsize=_LABEL + 1, loc="left")
    handles, names = wide.get_legend_handles_labels()
    if any(names):
        picture.legend(handles, [_wrapped(one, _LINE - 12) for one in names], place="upper left")
    picture.save(path, "", "\n".join(notes))


def _draw_line(axes: Any, line: Line, place: int, end: float, width: float) -> None:
    """Draws a line of a panel; ``end`` is the right end of a level."""
    color = METHODS[place % len(METHODS)]
    style = {"marker": _MARKS[place % len(_MARKS)], "markersize": 2.5 * width, "label": line.label}
    steps, found = [*line.points], [*line.points.values()]
    if line.kind == "level":
        steps, found = [0.0, end], found * 2
        style |= {"marker": None, "linestyle": "-."}
    elif line.kind == "unadapted":
        style |= {"linestyle": "--", "label": f"{line.label}, before adaptation"}
    elif line.kind == "beside":
        style |= {"linestyle": ":", "markersize": 6, "markerfacecolor": "white"}
    axes.plot(steps, _values(found), color=color, linewidth=width, **style)
    _band(axes, steps, found, color, 0.09 if line.kind == "unadapted" else 0.18)
    known = [False, *(one.low is not None for one in found), False]
    for i, (x, one) in enumerate(zip(steps, found, strict=True)):
        if known[i + 1] and not known[i] and not known[i + 2]:  # a band of one point has no area
            axes.plot([x, x], [one.low, one.high], color=color, linewidth=2 * width, alpha=0.35)


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
    ticker = import_extra("matplotlib.ticker", "cli")
    n, curves = len(each), {"mean of all": mean, **each}
    picture = _Picture(2.6 + 0.62 * n)
    shared = {"sharex": True, "sharey": True, "height_ratios": [2.4] + [1.0] * n}
    rows, begins = picture.figure.subplots(n + 1, 1, **shared), (0, *ends)
    for i, (axes, (name, curve)) in enumerate(zip(rows, curves.items(), strict=True)):
        color = DARK if i else INK
        for end in ends:
            axes.axvline(end, color=INK, linewidth=0.5, alpha=0.4)
        if i:
            axes.axvspan(begins[i - 1], begins[i], color=LIGHT, alpha=0.6, linewidth=0)
        _band(axes, points, curve, color, 0.25)
        axes.plot(points, _values(curve), color=color, linewidth=1.6, marker=".", markersize=3)
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=_LABEL)
        axes.locator_params(axis="y", nbins=2)
        axes.locator_params(axis="x", nbins=5)
    rows[-1].set_xlabel("agent steps; shaded: the phase is trained", fontsize=_LABEL)
    rows[-1].xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    rows[0].set_xlim(0, max(points[-1], ends[-1]))
    picture.save(path, title, footer)


def _band(axes: Any, x: Any, found: Sequence[Estimate | None], color: str, alpha: float) -> None:
    """Draws the intervals of a curve."""
    low, high = _values(found, "low"), _values(found, "high")
    axes.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0)


def _wrapped(text: str, width: int = _LINE) -> str:
    """A text whose lines fit into a figure."""
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


def _values(found: Sequence[Estimate | None], end: str = "value") -> list[float]:
    """A field of each estimate, NaN where there is none."""
    values = (None if estimate is None else getattr(estimate, end) for estimate in found)
    return [np.nan if value is None else float(value) for value in values]
