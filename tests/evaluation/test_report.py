"""Tables as text, Markdown and LaTeX, whatever the names are; LaTeX compiles where a TeX is."""

import re

import pytest

from mtwrappers.evaluation.report import TableRow, write_table
from mtwrappers.evaluation.statistics import Estimate

A, B, NONE = Estimate(0.9, 0.85, 0.95), Estimate(0.25, 0.1, 0.5), Estimate(1.0)
NASTY = [
    r"\input{/etc/passwd}",
    "a_b%c&d#e$f{g}^h~i",
    "[x]*'' -- ?` |<b>`x`|",
    "naïve Ångström \x1b[2K\nnew",
    "[link](http://x.y)",
    '"a "u \\ \\\\ %',
]


def table(
    layout, heads=("mine", "theirs"), tasks=("reach-v3", "push-v3"), caption=("Some words.",)
):
    columns = [A, B, NONE, *[A] * len(heads)][: len(heads)]
    units = ["3 runs", *["episodes"] * (len(heads) - 1)]
    task_rows = [TableRow(task, columns) for task in tasks]
    return write_table(
        layout, heads, units, task_rows, [TableRow("mean over tasks", columns)], caption
    )


def test_text_has_a_column_for_each_method():
    numbers = "0.900 0.850-0.950  0.250 0.100-0.500"
    lines = table("table").splitlines()
    assert lines == [
        "task               mine               theirs",
        "95% interval over  3 runs             episodes",
        "-" * 55,
        f"reach-v3           {numbers}",
        f"push-v3            {numbers}",
        "-" * 55,
        f"mean over tasks    {numbers}",
        "",
        "Some words.",
    ]
    assert table("table", tasks=()).splitlines()[2:] == lines[5:]


def test_text_of_many_methods_and_long_names_stays_in_80_columns():
    heads = [f"method-{i}" for i in range(7)]
    lines = table("table", heads, ["button-press-topdown-wall-v3"], ["word " * 60]).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("button") for line in lines) == 3
    assert [head for line in lines for head in re.findall(r"method-\d", line)] == heads
    long = table("table", ["x" * 21, "y"]).splitlines()
    assert long[0].split() == ["task", "(1)", "(2)"]
    assert f"(1): {'x' * 21}, (2): y" in long
    text = table("table", NASTY[3:5], NASTY)
    assert all(line.isprintable() for line in text.split("\n"))


def test_markdown_is_a_table_of_github():
    numbers = "0.900 (0.850\u20130.950) | 0.250 (0.100\u20130.500)"
    assert table("markdown", ["a|b", "c"], ["reach-v3"]).splitlines() == [
        r"| task | a\|b | c |",
        "| :-- | --: | --: |",
        "| 95% interval over | 3 runs | episodes |",
        f"| reach-v3 | {numbers} |",
        f"| **mean over tasks** | {numbers} |",
        "",
        "Some words.",
    ]
    markdown = pytest.importorskip("markdown")
    html = markdown.markdown(table("markdown", NASTY, NASTY, NASTY), extensions=["tables"])
    assert set(re.findall(r"<(\w+)", html)) == {
        *("table", "thead", "tbody", "tr", "th", "td", "p", "strong")
    }


def test_latex_is_a_table_of_booktabs_whose_caption_is_one_sentence():
    text = table("latex", ["my_method", "50%"], ["a-v3"], ["A & B -- C.", "50% of\nit.", r"\x{y}"])
    numbers = r"0.900 {\scriptsize (0.850--0.950)} & 0.250 {\scriptsize (0.100--0.500)} \\"
    assert [line.strip() for line in text.splitlines()] == [
        r"\begin{table}",
        r"\centering",
        r"\caption{A \& B -{}- C.}",
        r"\label{tab:scores}",
        r"\par\medskip\footnotesize",
        r"\begin{tabular}{@{}lcc@{}}",
        r"\toprule",
        r"task & my\_method & 50\% \\",
        r"95\% interval over & 3 runs & episodes \\",
        r"\midrule",
        f"a-v3 & {numbers}",
        r"\midrule",
        f"mean over tasks & {numbers}",
        r"\bottomrule",
        r"\end{tabular}",
        *(r"% 50% of\nit.", r"% \x{y}", r"\end{table}"),
    ]
    assert r"\textbackslash{}input\{/etc/passwd\}" in table("latex", NASTY)
