"""Tables of success rates as text, Markdown and LaTeX, with a caption."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mtwrappers.common.errors import printable
from mtwrappers.evaluation.statistics import Estimate

Rows = Sequence[tuple[str, Sequence[Estimate]]]
_WIDTH = 80  # of text
_LONGEST_HEAD = 20  # of text; longer names are numbered
# Methods and tasks of a LaTeX table on a page.
_COLUMNS, _ROWS = 3, 30


@dataclass(frozen=True)
class Grid:
    """A table with a row per task and a column per method.

    Args:
        heads: The names of the methods.
        over: The unit of each method's intervals.
        confidence: The confidence level of the intervals.
        rows: The name of each task, and its estimate for each method.
        summary: Likewise for groups and means.
        warning: Sentences above the table.
        caption: Sentences below the table.
    """

    heads: Sequence[str]
    over: Sequence[str]
    confidence: float
    rows: Rows
    summary: Rows
    warning: Sequence[str]
    caption: Sequence[str]

    @property
    def level(self) -> str:
        """The label of ``over``."""
        return f"{100 * self.confidence:g}% interval over"


def as_text(grid: Grid) -> str:
    """Formats lines of 80 columns, with as many methods side by side as fit."""
    heads, caption = [printable(one) for one in grid.heads], grid.caption
    if any(len(one) > _LONGEST_HEAD or not one.isascii() for one in heads):
        heads = [f"({i + 1})" for i in range(len(heads))]
        names = (f"{head}: {name}" for head, name in zip(heads, grid.heads, strict=True))
        caption = [", ".join(names), *caption]
    columns = [[head, over] for head, over in zip(heads, grid.over, strict=True)]
    for _, found in (*grid.rows, *grid.summary):
        for column, one in zip(columns, found, strict=True):
            column.append(_with_ends(one, " ", "-", ""))
    columns = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    labels = ["task" if grid.rows else "", grid.level]
    labels += [printable(label) for label, _ in (*grid.rows, *grid.summary)]
    width = max(map(len, labels))
    labels = [label.ljust(width) for label in labels]
    lines = [printable(one) for one in grid.warning]
    for block in _fitting(columns, width):
        table = ["  ".join(row).rstrip() for row in zip(labels, *block, strict=True)]
        rule = "-" * max(map(len, table))
        body, rest = table[2 : 2 + len(grid.rows)], table[2 + len(grid.rows) :]
        lines += [*table[:2], *([rule, *body] if body else []), rule, *rest, ""]
    for sentence in caption:
        lines += textwrap.wrap(printable(sentence), _WIDTH, break_on_hyphens=False)
    return "\n".join(lines)


def _fitting(columns: Sequence[list[str]], width: int) -> Iterator[list[list[str]]]:
    """The columns in blocks that fit next to the labels."""
    block: list[list[str]] = []
    for column in columns:
        if block and width + sum(len(own[0]) + 2 for own in (*block, column)) > _WIDTH:
            yield block
            block = []
        block.append(column)
    yield block


def _with_ends(one: Estimate, before: str, to: str, after: str) -> str:
    if one.low is None or one.high is None:
        return f"{one.value:.3f}"
    return f"{one.value:.3f}{before}{one.low:.3f}{to}{one.high:.3f}{after}"


def as_markdown(grid: Grid) -> str:
    """Formats a table for GitHub's Markdown, with the caption below it."""
    lines = [["task" if grid.rows else "", *map(_markdown, grid.heads)]]
    lines.append([":--", *("--:" for _ in grid.heads)])
    lines.append([grid.level, *map(_markdown, grid.over)])
    for rows, bold in ((grid.rows, ""), (grid.summary, "**")):
        for label, found in rows:
            cells = (_with_ends(one, " (", "\u2013", ")") for one in found)
            lines.append([f"{bold}{_markdown(label)}{bold}", *cells])
    table = [f"| {' | '.join(line)} |" for line in lines]
    above = [f"**{_markdown(one)}**\n" for one in grid.warning]
    return "\n".join([*above, *table, "", " ".join(map(_markdown, grid.caption))])


def _markdown(text: str) -> str:
    """Escapes a text for Markdown."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]>|~#$@!])", r"\\\1", text)


def as_latex(grid: Grid) -> str:
    r"""Formats tables for a document with ``\usepackage{booktabs}``, one per page."""
    parts = []
    of_each = -(-len(grid.rows) // max(1, -(-len(grid.rows) // _ROWS))) or 1
    starts = range(0, max(1, len(grid.rows)), of_each)
    for first in range(0, len(grid.heads), _COLUMNS):
        chosen = slice(first, first + _COLUMNS)
        for start in starts:
            rows = grid.rows[start : start + of_each]
            summary = grid.summary if start == starts[-1] else []
            parts.append(_tabular(grid, chosen, rows, summary))
    caption = " ".join(_latex(one) for one in (*grid.warning, *grid.caption))
    lines = []
    for i, part in enumerate(parts):
        again = [r"  \addtocounter{table}{-1}", r"  \caption{(continued)}"]
        above = again if i else [rf"  \caption{{{caption}}}", r"  \label{tab:scores}"]
        small = [r"  \par\medskip\footnotesize", r"  \setlength{\tabcolsep}{4pt}"]
        lines += [r"\begin{table}", r"  \centering", *above, *small, *part, r"\end{table}"]
    return "\n".join(lines)


def _tabular(grid: Grid, chosen: slice, rows: Rows, summary: Rows) -> Iterator[str]:
    heads = [_latex(one) for one in grid.heads[chosen]]
    yield rf"  \begin{{tabular}}{{@{{}}l{'c' * len(heads)}@{{}}}}"
    yield r"    \toprule"
    yield f"    {' & '.join(['Task' if rows else '', *heads])} \\\\"
    yield f"    {' & '.join(map(_latex, [grid.level, *grid.over[chosen]]))} \\\\"
    for part in (rows, summary):
        if part:
            yield r"    \midrule"
        for label, found in part:
            cells = [_with_ends(one, r" {\scriptsize (", "--", ")}") for one in found[chosen]]
            yield f"    {' & '.join([_latex(label), *cells])} \\\\"
    yield r"    \bottomrule"
    yield r"  \end{tabular}"


_LATEX: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    **{one: rf"\{one}" for one in "{}$&#_%"},
    **{one: f"{{{one}}}" for one in "[]*`"},  # neither an argument nor a ligature
}
_MARKS = "\u0300\u0301\u0302\u0303\u0304\u0308\u030a\u030c\u0327"
_ACCENTS = dict(zip(_MARKS, "`'^~=\"rvc", strict=True))
_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau"
    "|upsilon|phi|chi|psi|omega"
)


def _latex(text: str) -> str:
    """Escapes a text for LaTeX; characters without a glyph become Unicode code points."""
    text = unicodedata.normalize("NFC", printable(text))
    ligatures = re.compile("--+|''+")
    return ligatures.sub(lambda of: f"{{{of[0][0]}}}" * len(of[0]), "".join(map(_letter, text)))


def _letter(one: str) -> str:
    if one in _LATEX:
        return _LATEX[one]
    if one.isascii():
        return one
    plain, *accents = [*unicodedata.normalize("NFD", one)]
    if len(accents) == 1 and accents[0] in _ACCENTS and plain.isascii() and plain.isalpha():
        base = {"i": r"\i{}", "j": r"\j{}"}.get(plain, plain) if accents[0] != "\u0327" else plain
        return rf"\{_ACCENTS[accents[0]]}{{{base}}}"
    name = unicodedata.name(one, "").replace("LAMDA", "LAMBDA").lower()
    if _GREEK.fullmatch(letter := name.removeprefix("greek small letter ")):
        return rf"\ensuremath{{\{letter}}}"
    return f"U+{ord(one):04X}"
