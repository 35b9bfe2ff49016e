"""How often intervals cover the truth: the docs say what `benchmarks.coverage` has drawn."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import coverage
from mtwrappers.evaluation.statistics import COVERED

DOCS = Path(__file__).parents[2] / "docs/scores.md"


@pytest.fixture(scope="module")
def kept():
    return json.loads(coverage.DATA.read_text())


def test_the_docs_have_the_tables(kept):
    text = DOCS.read_text()
    for name, table in coverage.shown(kept).items():
        assert table in text, name


def test_the_figures_are_seeded(kept):
    """The first draws are those of the benchmark, so few of them come near its figures."""
    once, again = (coverage.part_groups(300, np.random.default_rng([0, 1])) for _ in range(2))
    assert once == again
    for few, many in zip(once, kept["groups"], strict=True):
        assert few["covers"] == pytest.approx(many["covers"], abs=0.045)


def test_means_over_tasks_are_covered_as_often_as_is_said(kept):
    """Where there are enough episodes for a failure to be seen."""
    named = [r for r in kept["means"] if r["tasks"] == 50 or r["episodes"] == 50]
    sparse = "four fifths 0.98, else 0"
    for row in named:
        if row["rates"] != sparse:
            assert 0.94 <= row["covers"] <= 0.975, row
            assert row["below"] > 0, row
    for row in kept["groups"]:
        assert 0.94 <= row["covers"] <= (0.985 if row["episodes"] < 50 else 0.96), row
    assert min(row["covers"] for row in kept["means"]) > 0.935


def test_equal_policies_get_few_stars(kept):
    for row in kept["trials"]:
        for goals in ("other goals", "same goals"):
            assert (row[goals] or 0.0) < 0.068, row


def test_tables_of_runs_say_what_was_simulated(kept):
    column = {"runs": "interquartile mean", "runs of each task": "mean"}
    found = {unit: {} for unit in column}
    for row in kept["runs"]:
        if row["runs"] > 2:
            found[row["unit"]][row["runs"]] = round(row[column[row["unit"]]], 2)
    assert found == COVERED
    assert all(row["mean"] >= 0.95 for row in kept["runs"] if row["unit"] == "runs")
