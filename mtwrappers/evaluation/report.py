"""Tables of rates as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mtwrappers.common.errors import printable
from mtwrappers.evaluation.statistics import Estimate

# A label, and an estimate of each method.
Row = tuple[str, Sequence[Estimate]]
_WIDTH = 80  # of text
_LONGEST_HEAD = 20  # of text; longer names are numbered


@dataclass(frozen=True)
class Table:
    """A table with a column per method.

    Args:
        heads: The name of each method.
        over: The unit of each method's intervals.
        parts: The rows: of tasks, and of groups and means; either may be empty.
        warning: A sentence above the table, or ``""``.
        caption: Sentences below the table.
    """

    heads: Sequence[str]
    over: Sequence[str]
    parts: Sequence[Sequence[Row]]
    warning: str
    caption: Sequence[str]

    def _cells(
        self, escape: Callable[[str], str], cell: Callable[[Estimate], str], bold: str = ""
    ) -> list[list[list[str]]]:
        """The cells of the two head lines, and of the rows of each part that is not empty."""
        heads = [["task" if self.parts[0] else "", *self.heads]]
        heads.append(["95% interval over", *self.over])
        parts = [[[*map(escape, row)] for row in heads]]
        for rows in filter(None, self.parts):
            mark = bold if rows is self.parts[-1] else ""
            parts.append(
                [[f"{mark}{escape(label)}{mark}", *map(cell, found)] for label, found in rows]
            )
        return parts

    def text(self) -> str:
        """Lines for a terminal, with as many methods side by side as fit in 80 columns."""
        heads, caption = [printable(one) for one in self.heads], [*self.caption]
        if any(len(one) > _LONGEST_HEAD or not one.isascii() for one in heads):
            heads = [f"({i + 1})" for i in range(len(heads))]
            names = (f"{head}: {name}" for head, name in zip(heads, self.heads, strict=True))
            caption.insert(0, ", ".join(names))
        short = Table(heads, self.over, self.parts, self.warning, caption)
        parts = short._cells(printable, lambda one: _with_ends(one, " ", "-", ""))
        lines = [printable(self.warning)] if self.warning else []
        columns = [*zip(*(row for part in parts for row in part), strict=True)]
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
        for sentence in caption:
            lines += textwrap.wrap(printable(sentence), _WIDTH, break_on_hyphens=False)
        return "\n".join(lines)

    def markdown(self) -> str:
        """A table as GitHub renders it, with the caption below it."""
        cell = lambda one: _with_ends(one, " (", "\N{EN DASH}", ")")  # noqa: E731
        (heads, *rest), *parts = self._cells(_markdown, cell, "**")
        rows = [heads, [":--", *("--:" for _ in self.heads)], *rest]
        rows += (row for part in parts for row in part)
        above = [f"**{_markdown(self.warning)}**\n"] if self.warning else []
        caption = " ".join(map(_markdown, self.caption))
        return "\n".join([*above, *(f"| {' | '.join(row)} |" for row in rows), "", caption])

    def latex(self) -> str:
        r"""A table for a document with ``\usepackage{booktabs}``."""
        cell = lambda one: _with_ends(one, r" {\scriptsize (", "--", ")}")  # noqa: E731
        parts = self._cells(_latex, cell)
        body = "\n    \\midrule\n".join(
            "\n".join(rf"    {' & '.join(row)} \\" for row in part) for part in parts
        )
        caption = " ".join(map(_latex, filter(None, (self.warning, *self.caption))))
        return "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                rf"  \caption{{{caption}}}",
                r"  \label{tab:scores}",
                r"  \par\medskip\footnotesize",
                rf"  \begin{{tabular}}{{@{{}}l{'c' * len(self.heads)}@{{}}}}",
                rf"    \toprule{chr(10)}{body}{chr(10)}    \bottomrule",
                r"  \end{tabular}",
                r"\end{table}",
            ]
        )


def _with_ends(one: Estimate, before: str, to: str, after: str) -> str:
    if one.low is None or one.high is None:
        return f"{one.value:.3f}"
    return f"{one.value:.3f}{before}{one.low:.3f}{to}{one.high:.3f}{after}"


def _markdown(text: str) -> str:
    """Escapes a text for Markdown."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]>|~#$@!])", r"\\\1", text)


_LATEX = {
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


def _latex(text: str) -> str:
    """Escapes a text for LaTeX, which reads UTF-8."""
    escaped = "".join(_LATEX.get(one, one) for one in printable(text))
    return re.sub(r"([-'])(?=\1)", r"\1{}", escaped)  # no ligatures


def as_csv(rows: Iterable[Mapping[str, str | float | None]]) -> str:
    """Formats rows with the same columns; values cannot be formulas in a spreadsheet."""
    text, rows = io.StringIO(), list(rows)
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue().rstrip("\n")


def _cell(value: str | float | None) -> str | float | None:
    """Escapes a value that a spreadsheet would take for a formula."""
    if not isinstance(value, str):
        return value
    value = printable(value)
    first = unicodedata.normalize("NFKC", value).lstrip()[:1]  # wide ones count as well
    return f"'{value}" if first and first in "=+-@" else value
