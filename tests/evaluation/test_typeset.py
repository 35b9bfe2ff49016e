"""Tables as text, Markdown and LaTeX, whatever the names are; LaTeX compiles where a TeX is."""

import re
import shutil
import subprocess

import pytest

from mtwrappers.evaluation.statistics import Estimate
from mtwrappers.evaluation.typeset import Grid, as_latex, as_markdown, as_text

A, B, NONE = Estimate(0.9, 0.85, 0.95), Estimate(0.25, 0.1, 0.5), Estimate(1.0, None, None)
NASTY = [
    r"\input{/etc/passwd}",
    "a_b%c&d#e$f{g}^h~i",
    "[x]*'' -- ?` |<b>`x`|",
    "π0 naïve Ångström 技 \x1b[2K\nnew",
    "[link](http://x.y)",
    "![i](j) <script>&amp;",
    '"a "u \\ \\\\ %',
]


def grid(heads=("mine", "theirs"), tasks=("reach-v3", "push-v3"), caption=("Some words.",)):
    columns = [A, B, NONE, *[A] * len(heads)][: len(heads)]
    return Grid(
        heads=heads,
        over=["3 runs", *["episodes"] * (len(heads) - 1)],
        confidence=0.95,
        rows=[(task, columns) for task in tasks],
        summary=[("mean over tasks", columns)],
        warning=[],
        caption=caption,
    )


def test_text_has_a_column_for_each_method():
    assert as_text(grid()).splitlines() == [
        "task               mine               theirs",
        "95% interval over  3 runs             episodes",
        "-" * 55,
        "reach-v3           0.900 0.850-0.950  0.250 0.100-0.500",
        "push-v3            0.900 0.850-0.950  0.250 0.100-0.500",
        "-" * 55,
        "mean over tasks    0.900 0.850-0.950  0.250 0.100-0.500",
        "",
        "Some words.",
    ]


def test_text_of_many_methods_and_long_names_stays_in_80_columns():
    heads = [f"method-{i}" for i in range(7)]
    wide = grid(heads, ["button-press-topdown-wall-v3"], ["word " * 60])
    lines = as_text(wide).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("button") for line in lines) == 3
    assert [one for line in lines for one in re.findall(r"method-\d", line)] == heads
    long = as_text(grid(["x" * 21, "y"])).splitlines()
    assert long[0].split() == ["task", "(1)", "(2)"]
    assert f"(1): {'x' * 21}, (2): y" in long


def test_text_without_tasks_has_the_means_alone():
    lines = as_text(grid(tasks=())).splitlines()
    assert [line.split()[0] for line in lines if line] == ["mine", "95%", "-" * 55, "mean", "Some"]


def test_names_draw_nothing_on_a_terminal():
    text = as_text(grid(NASTY[3:5], NASTY))
    assert all(one.isprintable() for one in text.split("\n"))
    assert r"\x1b[2K\nnew" in text


def test_markdown_is_a_table_of_github():
    assert as_markdown(grid()).splitlines() == [
        "| task | mine | theirs |",
        "| :-- | --: | --: |",
        "| 95% interval over | 3 runs | episodes |",
        "| reach-v3 | 0.900 (0.850\u20130.950) | 0.250 (0.100\u20130.500) |",
        "| push-v3 | 0.900 (0.850\u20130.950) | 0.250 (0.100\u20130.500) |",
        "| **mean over tasks** | 0.900 (0.850\u20130.950) | 0.250 (0.100\u20130.500) |",
        "",
        "Some words.",
    ]


def test_names_stay_names_in_markdown():
    markdown = pytest.importorskip("markdown")
    text = as_markdown(grid(NASTY, NASTY, NASTY))
    rows = text.partition("\n\n")[0].splitlines()
    bars = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    assert set(bars) == {len(NASTY) + 2}
    html = markdown.markdown(text, extensions=["tables"])
    assert set(re.findall(r"<(/?\w+)", html)) == {
        *("table", "thead", "tbody", "tr", "th", "td", "p", "strong"),
        *("/table", "/thead", "/tbody", "/tr", "/th", "/td", "/p", "/strong"),
    }


def test_latex_is_a_table_of_booktabs():
    lines = as_latex(grid(["my_method", "50%"], ["reach-v3"], ["A & B."])).splitlines()
    numbers = r"0.900 {\scriptsize (0.850--0.950)} & 0.250 {\scriptsize (0.100--0.500)} \\"
    assert [line.strip() for line in lines] == [
        r"\begin{table}",
        r"\centering",
        r"\caption{A \& B.}",
        r"\label{tab:scores}",
        r"\par\medskip\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        r"\begin{tabular}{@{}lcc@{}}",
        r"\toprule",
        r"Task & my\_method & 50\% \\",
        r"95\% interval over & 3 runs & episodes \\",
        r"\midrule",
        f"reach-v3 & {numbers}",
        r"\midrule",
        f"mean over tasks & {numbers}",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_latex_of_50_tasks_and_four_methods_is_continued():
    tasks = [f"task-{i}" for i in range(50)]
    text = as_latex(grid(["a", "b", "c", "d"], tasks))
    assert text.count(r"\begin{table}") == 4
    assert text.count("(continued)") == text.count(r"\addtocounter{table}{-1}") == 3
    assert text.count("task-") == 100
    assert text.count("mean over tasks") == 2
    assert text.count("Some words.") == text.count(r"\label") == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("a--b", "a{-}{-}b"),
        ("''", "{'}{'}"),
        ("[x]", "{[}x{]}"),
        ("π0", r"\ensuremath{\pi}0"),
        ("λ", r"\ensuremath{\lambda}"),
        ("naïve", r"na\"{\i{}}ve"),
        ("Ångström", r"\r{A}ngstr\"{o}m"),
        ("e\u0301", r"\'{e}"),
        ("技", "U+6280"),
        ("a\nb", r"a\textbackslash{}nb"),
    ],
)
def test_names_are_escaped_in_latex(name, text):
    assert f"Task & {text} & x" in as_latex(grid([name, "x"]))


def tex():
    return shutil.which("pdflatex") or shutil.which("tectonic")


@pytest.mark.slow
@pytest.mark.skipif(tex() is None, reason="there is no TeX")
def test_latex_compiles_whatever_the_names_are(tmp_path):
    tables = [as_latex(grid()), as_latex(grid(NASTY, NASTY, NASTY))]
    tables.append(as_latex(grid(NASTY[::-1], tasks=[])))
    source = tmp_path / "table.tex"
    preamble = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    source.write_text(preamble + "\n".join(tables) + "\n\\end{document}\n")
    options = [] if tex().endswith("tectonic") else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run(
        [tex(), *options, source.name], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert source.with_suffix(".pdf").stat().st_size > 5000
