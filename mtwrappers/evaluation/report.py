"""Tables of rates or returns as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import itertools
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mtwrappers.common.errors import printable
from mtwrappers.evaluation.statistics import CONFIDENCE, Estimate
from mtwrappers.state.files import write_atomically

Cells: TypeAlias = list[list[str]]
_WIDTH = 80  # of text
_LONGEST_HEAD = 20  # of text; longer names are numbered


@dataclass(frozen=True)
class TableRow:
    """A row of a table: a label, and an estimate of each method."""

    label: str
    estimates: Sequence[Estimate]


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a table are written.

    Args:
        decimals: The number of decimals.
        between_ends: The characters between the ends of an interval; by default the layout's own.
    """

    decimals: int
    between_ends: str | None = None


RATES = NumberFormat(3)


def count_decimals(estimates: Iterable[Estimate]) -> int:
    """The decimals with which the largest number of some estimates has 4 digits, at most 3."""
    numbers = [
        abs(number)
        for estimate in estimates
        for number in (estimate.value, estimate.low, estimate.high)
        if number is not None
    ]
    largest = max(numbers, default=0.0)
    return sum(largest < limit for limit in (10, 100, 1000))


@dataclass(frozen=True)
class _Layout:
    """A layout of tables.

    Args:
        write: What joins sections of cells, the caption and the warning.
        escape: What escapes a text.
        before_interval: The characters before an interval.
        between_ends: Those between its ends.
        after_interval: Those after it.
        emphasis: The mark around the label of a mean.
        minus: The sign of a negative number.
    """

    write: Callable[[list[Cells], list[str], str], str]
    escape: Callable[[str], str]
    before_interval: str
    between_ends: str
    after_interval: str
    emphasis: str = ""
    minus: str = "-"

    def format_cell(self, estimate: Estimate, number_format: NumberFormat) -> str:
        """An estimate with its interval."""

        def number(value: float) -> str:
            return f"{value:.{number_format.decimals}f}".replace("-", self.minus)

        if estimate.low is None or estimate.high is None:
            return number(estimate.value)
        between = number_format.between_ends or self.between_ends
        ends = f"{number(estimate.low)}{between}{number(estimate.high)}"
        return f"{number(estimate.value)}{self.before_interval}{ends}{self.after_interval}"

    def format_rows(
        self, rows: Sequence[TableRow], number_format: NumberFormat, mark: str = ""
    ) -> Cells:
        """The cells of rows, with a mark around the labels."""
        return [
            [
                f"{mark}{self.escape(row.label)}{mark}",
                *(self.format_cell(estimate, number_format) for estimate in row.estimates),
            ]
            for row in rows
        ]


def write_table(
    layout: str,
    heads: Sequence[str],
    units: Sequence[str],
    task_rows: Sequence[TableRow],
    mean_rows: Sequence[TableRow],
    caption: Sequence[str],
    warning: str = "",
    number_format: NumberFormat = RATES,
) -> str:
    """Formats a table with a column per method.

    Args:
        layout: ``"table"`` for a terminal, ``"markdown"`` as GitHub renders it, or ``"latex"``.
        heads: The name of each method.
        units: The unit of each method's intervals.
        task_rows: The rows of tasks; may be empty.
        mean_rows: The rows of groups and means.
        caption: Sentences below the table.
        warning: A sentence above the table, or ``""``.
        number_format: How numbers are written.
    """
    chosen = _LAYOUTS[layout]
    names = [printable(head) for head in heads]
    if layout == "table" and any(len(name) > _LONGEST_HEAD or not name.isascii() for name in names):
        numbers = [f"({i + 1})" for i in range(len(heads))]
        key = ", ".join(f"{number}: {name}" for number, name in zip(numbers, heads, strict=True))
        heads, caption = numbers, [key, *caption]
    head_rows = [["task" if task_rows else "", *heads], [f"{CONFIDENCE:.0%} interval over", *units]]
    sections = [[[*map(chosen.escape, row)] for row in head_rows]]
    if task_rows:
        sections.append(chosen.format_rows(task_rows, number_format))
    sections.append(chosen.format_rows(mean_rows, number_format, chosen.emphasis))
    return chosen.write(sections, [*map(printable, caption)], printable(warning))


def _write_text(sections: list[Cells], caption: list[str], warning: str) -> str:
    """Lines for a terminal, with as many methods side by side as fit in 80 columns."""
    lines = [warning] if warning else []
    columns = [
        [cell.ljust(max(map(len, column))) for cell in column]
        for column in zip(*itertools.chain(*sections), strict=True)
    ]
    labels, *method_columns = columns
    while method_columns:
        block = [labels, method_columns.pop(0)]
        while method_columns and _measure_width([*block, method_columns[0]]) <= _WIDTH:
            block.append(method_columns.pop(0))
        rows = ["  ".join(row).rstrip() for row in zip(*block, strict=True)]
        rule = "-" * max(map(len, rows))
        for section in sections:
            lines += [*rows[: len(section)], rule]
            rows = rows[len(section) :]
        lines[-1] = ""
    wrapped = (textwrap.wrap(sentence, _WIDTH, break_on_hyphens=False) for sentence in caption)
    return "\n".join([*lines, *itertools.chain(*wrapped)])


def _measure_width(columns: Sequence[Sequence[str]]) -> int:
    """The width of columns side by side, in characters."""
    return sum(len(column[0]) + 2 for column in columns) - 2


def _write_markdown(sections: list[Cells], caption: list[str], warning: str) -> str:
    """A table as GitHub renders it, with the caption below it."""
    warning, caption = _escape_markdown(warning), [*map(_escape_markdown, caption)]
    heads, *rows = itertools.chain(*sections)
    rows = [heads, [":--", *["--:"] * (len(heads) - 1)], *rows]
    above = [f"**{warning}**\n"] if warning else []
    return "\n".join([*above, *(f"| {' | '.join(row)} |" for row in rows), "", " ".join(caption)])


def _write_latex(sections: list[Cells], caption: list[str], warning: str) -> str:
    r"""A table for a document with ``\usepackage{booktabs}``.

    The caption has the first sentence (and the warning); the others are comments, for its author.
    """
    title = _escape_latex(" ".join(filter(None, [warning, caption[0]])))
    comments = "".join(f"  % {sentence}\n" for sentence in caption[1:])
    bodies = ("\n".join(rf"    {' & '.join(row)} \\" for row in section) for section in sections)
    body = "\n    \\midrule\n".join(bodies)
    columns = "c" * (len(sections[0][0]) - 1)
    return rf"""\begin{{table}}
  \centering
  \caption{{{title}}}
  \label{{tab:scores}}
  \par\medskip\footnotesize
  \begin{{tabular}}{{@{{}}l{columns}@{{}}}}
    \toprule
{body}
    \bottomrule
  \end{{tabular}}
{comments}\end{{table}}"""


def _escape_markdown(text: str) -> str:
    """Escapes a text for Markdown."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]>|~#$@!])", r"\\\1", text)


_WORDS = {"\\": "textbackslash", "^": "textasciicircum", "~": "textasciitilde", '"': "char34"}
_WORDS |= {"<": "textless", ">": "textgreater", "|": "textbar"}
_LATEX = {letter: rf"\{word}{{}}" for letter, word in _WORDS.items()}
_LATEX |= {letter: rf"\{letter}" for letter in "{}$&#_%"}
_LATEX |= {letter: f"{{{letter}}}" for letter in "[]*`"}  # neither an argument nor a ligature


def _escape_latex(text: str) -> str:
    """Escapes a text for LaTeX, which reads UTF-8."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in printable(text))
    return re.sub(r"([-'])(?=\1)", r"\1{}", escaped)  # no ligatures


_LAYOUTS = {
    "table": _Layout(_write_text, printable, " ", "-", ""),
    "markdown": _Layout(_write_markdown, _escape_markdown, " (", "\N{EN DASH}", ")", emphasis="**"),
    "latex": _Layout(_write_latex, _escape_latex, r" {\scriptsize (", "--", ")}", minus="$-$"),
}


def align_columns(rows: Sequence[Sequence[str]], right: bool = True) -> list[str]:
    """Formats rows as lines whose columns have one width, to the right of the first column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    justify = str.rjust if right else str.ljust
    cells = [(row[0].ljust(widths[0]), *map(justify, row[1:], widths[1:])) for row in rows]
    return ["  ".join(row).rstrip() for row in cells]


def format_csv(
    records: Iterable[Mapping[str, str | float | None]], path: str | Path | None = None
) -> str:
    """Formats records with the same names; values cannot be formulas in a spreadsheet.

    Raises:
        OSError: If there is a path, and it cannot be written.
    """
    rows = [{name: _escape_formula(value) for name, value in record.items()} for record in records]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if path is not None:
        write_atomically(path, text.getvalue().encode())
    return text.getvalue().rstrip("\n")


def _escape_formula(value: str | float | None) -> str | float | None:
    """Escapes a value that a spreadsheet would take for a formula."""
    if not isinstance(value, str):
        return value
    value = printable(value)
    first = unicodedata.normalize("NFKC", value).lstrip()[:1]  # wide ones count as well
    return f"'{value}" if first and first in "=+-@" else value
