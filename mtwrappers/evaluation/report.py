"""Tables of rates as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import itertools
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mtwrappers.common.errors import printable
from mtwrappers.evaluation.statistics import Estimate
from mtwrappers.state.files import write_atomically

Cells: TypeAlias = list[list[str]]
# A label, and an estimate of each method.
Row: TypeAlias = tuple[str, Sequence[Estimate]]
_WIDTH = 80  # of text
_LONGEST_HEAD = 20  # of text; longer names are numbered


def write_table(
    layout: str,
    heads: Sequence[str],
    over: Sequence[str],
    parts: Sequence[Sequence[Row]],
    caption: Sequence[str],
    warning: str = "",
) -> str:
    """Formats a table with a column per method.

    Args:
        layout: ``"table"`` for a terminal, ``"markdown"`` as GitHub renders it, or ``"latex"``.
        heads: The name of each method.
        over: The unit of each method's intervals.
        parts: The rows: of tasks, and of groups and means; either may be empty.
        caption: Sentences below the table.
        warning: A sentence above the table, or ``""``.
    """
    write, escape, before, to, after, bold = _LAYOUTS[layout]
    long = any(len(one) > _LONGEST_HEAD or not one.isascii() for one in map(printable, heads))
    if layout == "table" and long:
        numbers = [f"({i + 1})" for i in range(len(heads))]
        names = (f"{number}: {name}" for number, name in zip(numbers, heads, strict=True))
        heads, caption = numbers, [", ".join(names), *caption]

    def cell(one: Estimate) -> str:
        if one.low is None or one.high is None:
            return f"{one.value:.3f}"
        return f"{one.value:.3f}{before}{one.low:.3f}{to}{one.high:.3f}{after}"

    first = ["task" if parts[0] else "", *heads], ["95% interval over", *over]
    cells = [[[*map(escape, row)] for row in first]]
    for rows in filter(None, parts):
        mark = bold if rows is parts[-1] else ""
        cells.append([[f"{mark}{escape(label)}{mark}", *map(cell, of)] for label, of in rows])
    return write(cells, [*map(printable, caption)], printable(warning))


def _text(parts: list[Cells], caption: list[str], warning: str) -> str:
    """Lines for a terminal, with as many methods side by side as fit in 80 columns."""
    lines = [warning] if warning else []
    columns = [*zip(*itertools.chain(*parts), strict=True)]
    labels, *others = ([cell.ljust(max(map(len, own))) for cell in own] for own in columns)
    while others:
        block = [labels, others.pop(0)]
        while others and sum(len(own[0]) + 2 for own in (*block, others[0])) - 2 <= _WIDTH:
            block.append(others.pop(0))
        rows = ["  ".join(row).rstrip() for row in zip(*block, strict=True)]
        rule = "-" * max(map(len, rows))
        for part in parts:
            lines += [*rows[: len(part)], rule]
            rows = rows[len(part) :]
        lines[-1] = ""
    wrapped = (textwrap.wrap(one, _WIDTH, break_on_hyphens=False) for one in caption)
    return "\n".join([*lines, *itertools.chain(*wrapped)])


def _in_markdown(parts: list[Cells], caption: list[str], warning: str) -> str:
    """A table as GitHub renders it, with the caption below it."""
    warning, caption = _for_markdown(warning), [*map(_for_markdown, caption)]
    heads, *rows = itertools.chain(*parts)
    rows = [heads, [":--", *["--:"] * (len(heads) - 1)], *rows]
    above = [f"**{warning}**\n"] if warning else []
    return "\n".join([*above, *(f"| {' | '.join(row)} |" for row in rows), "", " ".join(caption)])


def _in_latex(parts: list[Cells], caption: list[str], warning: str) -> str:
    r"""A table for a document with ``\usepackage{booktabs}``.

    The caption has the first sentence (and the warning); the others are comments, for its author.
    """
    first, *others = caption
    notes = "".join(f"  % {one}\n" for one in others)
    rows = ("\n".join(rf"    {' & '.join(row)} \\" for row in part) for part in parts)
    body = "\n    \\midrule\n".join(rows)
    return rf"""\begin{{table}}
  \centering
  \caption{{{_for_latex(" ".join(filter(None, [warning, first])))}}}
  \label{{tab:scores}}
  \par\medskip\footnotesize
  \begin{{tabular}}{{@{{}}l{"c" * (len(parts[0][0]) - 1)}@{{}}}}
    \toprule
{body}
    \bottomrule
  \end{{tabular}}
{notes}\end{{table}}"""


def _for_markdown(text: str) -> str:
    """Escapes a text for Markdown."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]>|~#$@!])", r"\\\1", text)


_WORDS = {"\\": "textbackslash", "^": "textasciicircum", "~": "textasciitilde", '"': "char34"}
_WORDS |= {"<": "textless", ">": "textgreater", "|": "textbar"}
_LATEX = {one: rf"\{word}{{}}" for one, word in _WORDS.items()}
_LATEX |= {one: rf"\{one}" for one in "{}$&#_%"}
_LATEX |= {one: f"{{{one}}}" for one in "[]*`"}  # neither an argument nor a ligature


def _for_latex(text: str) -> str:
    """Escapes a text for LaTeX, which reads UTF-8."""
    escaped = "".join(_LATEX.get(one, one) for one in printable(text))
    return re.sub(r"([-'])(?=\1)", r"\1{}", escaped)  # no ligatures


# For each layout: what writes it and what escapes a text, the characters around the ends of
# intervals, and the mark of means.
_Writer: TypeAlias = Callable[[list[Cells], list[str], str], str]
_LAYOUTS: dict[str, tuple[_Writer, Callable[[str], str], str, str, str, str]] = {
    "table": (_text, printable, " ", "-", "", ""),
    "markdown": (_in_markdown, _for_markdown, " (", "\N{EN DASH}", ")", "**"),
    "latex": (_in_latex, _for_latex, r" {\scriptsize (", "--", ")}", ""),
}


def aligned(rows: Sequence[Sequence[str]], right: bool = True) -> list[str]:
    """Formats rows as lines whose columns have one width, to the right of the first column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    just = str.rjust if right else str.ljust
    cells = [(row[0].ljust(widths[0]), *map(just, row[1:], widths[1:])) for row in rows]
    return ["  ".join(row).rstrip() for row in cells]


def as_csv(rows: Iterable[Mapping[str, str | float | None]], path: str | Path | None = None) -> str:
    """Formats rows with the same columns; values cannot be formulas in a spreadsheet.

    Raises:
        OSError: If there is a path, and it cannot be written.
    """
    text, rows = io.StringIO(), [{name: _cell(one) for name, one in row.items()} for row in rows]
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if path is not None:
        write_atomically(path, text.getvalue().encode())
    return text.getvalue().rstrip("\n")


def _cell(value: str | float | None) -> str | float | None:
    """Escapes a value that a spreadsheet would take for a formula."""
    if not isinstance(value, str):
        return value
    value = printable(value)
    first = unicodedata.normalize("NFKC", value).lstrip()[:1]  # wide ones count as well
    return f"'{value}" if first and first in "=+-@" else value
