"""How often intervals for 95 % cover the truth, simulated: means, differences, trials and runs.

    python -m benchmarks.coverage [--quick] [--part PART]

Every case draws results of policies whose true rates are known, asks for their intervals, and
counts. The figures go to ``coverage.json`` beside this file, and are the tables of
``docs/intervals.md``. Seeded, so that they are the same again; all of it takes three minutes on a
core. ``--quick`` draws a twentieth, and keeps nothing.

A mean over tasks should be covered in 94 to 97.5 % of all cases with ten tasks or more. Where a
rate can hardly fail in so few episodes, intervals cover more: no failure at all is then seen most
of the time.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit, logit, ndtr
from scipy.stats import binom

from benchmarks.common import HERE, table
from mtwrappers.evaluation.statistics import (
    LEAST_VALUES,
    Estimate,
    Interval,
    Values,
    bootstrap,
    difference_interval,
    improvement,
    interquartile_mean,
    mean_interval,
    mean_of_runs,
    runs_interval,
    trimmed_interval,
    trimmed_mean,
    trimmed_runs_interval,
    welch,
)

DATA = HERE / "coverage.json"
DRAWS = {
    "means": 10_000,
    "groups": 10_000,
    "trimmed": 4_000,
    "differences": 4_000,
    "trials": 10_000,
    "runs": 1_000,
    "group": 10_000,
    "method": 4_000,
    "usual": 4_000,
}
RESAMPLES = 1_000  # of runs
GROUPS = (28, 11, 6, 5)  # the classes of MT50 in each of RLinf's and LeRobot's groups
Row = dict[str, Any]


def mixed(m: int) -> dict[str, Values]:
    """True rates of ``m`` tasks that are not at one rate."""
    i = np.arange(m)
    return {
        "0.05 to 0.95": np.linspace(0.05, 0.95, m),
        "0.5 to 1": np.linspace(0.5, 1.0, m),
        "half 0.1, half 0.9": np.where(i % 2, 0.9, 0.1),
        "four fifths 0.9, else 0.1": np.where(i < 0.8 * m, 0.9, 0.1),
        "four fifths 0.98, else 0": np.where(i < 0.8 * m, 0.98, 0.0),
    }


def rates(m: int) -> dict[str, Values]:
    """Of ``m`` tasks: all at one rate, or mixed."""
    return {**{f"{p:g}": np.full(m, p) for p in (0.5, 0.8, 0.9, 0.95, 0.98)}, **mixed(m)}


def episodes(of: Values, n: int, draws: int, rng: Generator) -> list[Values]:
    """Successes ``(draws, n)`` of each task."""
    return [(rng.random((draws, n)) < rate).astype(np.float64) for rate in of]


def even(m: int) -> Values:
    """Weights of ``m`` tasks that count the same."""
    return np.full(m, 1 / m)


def counted(found: Interval, truth: float) -> Row:
    """The share that covers the truth, and the shares that lie below and above it."""
    _, low, high = found
    # What is right but for rounding is right.
    below, above = (high < truth - 1e-9).mean(), (low > truth + 1e-9).mean()
    covers = 1 - below - above
    return {"covers": round(float(covers), 4), "below": float(below), "above": float(above)}


def part_means(draws: int, rng: Generator) -> list[Row]:
    """Means over tasks that count the same."""
    return [
        {
            "tasks": m,
            "episodes": n,
            "rates": name,
            **counted(mean_interval(episodes(of, n, draws, rng), even(m), 0.95), float(of.mean())),
        }
        for m in (10, 50)
        for name, of in rates(m).items()
        for n in (3, 10, 50)
    ]


def part_groups(draws: int, rng: Generator) -> list[Row]:
    """Means over four groups of MT50."""
    weights = np.repeat([1 / size / len(GROUPS) for size in GROUPS], GROUPS)
    of_each = {f"{p:g}": np.full(50, p) for p in (0.5, 0.8, 0.9, 0.95, 0.98)}
    of_each["0.95 / 0.77 / 0.5 / 0.6"] = np.repeat([0.95, 0.77, 0.5, 0.6], GROUPS)
    of_each["0.98 / 0.98 / 0.98 / 0.8"] = np.repeat([0.98, 0.98, 0.98, 0.8], GROUPS)
    of_each["0.98 / 0.98 / 0.98 / 0.5"] = np.repeat([0.98, 0.98, 0.98, 0.5], GROUPS)
    return [
        {
            "episodes": n,
            "rates": name,
            **counted(
                mean_interval(episodes(of, n, draws, rng), weights, 0.95), float(weights @ of)
            ),
        }
        for name, of in of_each.items()
        for n in (3, 10, 50)
    ]


def part_trimmed(draws: int, rng: Generator) -> list[Row]:
    """Interquartile means of tasks."""
    return [
        {
            "tasks": m,
            "episodes": n,
            "rates": name,
            **counted(
                trimmed_interval(episodes(of, n, draws, rng), 0.25, 0.95),
                float(trimmed_mean(of, 0.25)),
            ),
        }
        for m in (10, 50)
        for name, of in rates(m).items()
        for n in (3, 10, 50)
    ]


def part_differences(draws: int, rng: Generator) -> list[Row]:
    """Differences of two policies with one result each, on goals of their own or the same."""
    rows = []
    for m in (1, 10, 50):
        for first, second in ((0.5, 0.5), (0.5, 0.6), (0.8, 0.9), (0.95, 0.95)):
            for n in (3, 10, 50):
                row: Row = {"tasks": m, "episodes": n, "rates": f"{first:g} and {second:g}"}
                for label, correlation in (("other goals", 0.0), ("same goals", 0.7)):
                    # How hard a goal is for each of both: normal, and correlated.
                    shared, *own = rng.standard_normal((3, draws, m, n))
                    hard = [
                        np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * one
                        for one in own
                    ]
                    both = [
                        [(ndtr(one[:, i]) < p).astype(np.float64) for i in range(m)]
                        for one, p in zip(hard, (first, second), strict=True)
                    ]
                    paired = [bool(correlation)] * m
                    found = difference_interval(both[0], both[1], paired, even(m), 0.95)
                    row[label] = counted(found, second - first)["covers"]
                rows.append(row)
    return rows


def part_trials(draws: int, rng: Generator) -> list[Row]:
    """Few-shot evaluation: trials of three episodes, and two policies that are as good.

    A goal has a rate of its own, from a beta distribution, or is solved always or never.
    """
    rows = []
    for m in (1, 5, 10):
        for name, a, b in (
            ("always or never", 0.0, 0.0),
            ("around 0.5", 2.0, 2.0),
            ("around 0.8", 8.0, 2.0),
        ):
            for n in (2, 3, 5, 10, 20):
                size = 2, draws, m, n
                goals = rng.beta(a, b, size) if a else rng.integers(2, size=size)
                # The second policy meets goals of its own, and then those of the first.
                samples = [
                    list((rng.binomial(3, goals[i]) / 3).transpose(1, 0, 2)) for i in (0, 1, 0)
                ]
                truth = a / (a + b) if a else 0.5
                row: Row = {"tasks": m, "goals": name, "trials": n}
                row["covers"] = counted(mean_interval(samples[0], even(m), 0.95), truth)["covers"]
                for label, i in (("other goals", 1), ("same goals", 2)):
                    found = difference_interval(samples[0], samples[i], [i == 2] * m, even(m), 0.95)
                    covers = counted(found, 0.0)["covers"]
                    row[label] = None if m * n < LEAST_VALUES else round(1 - covers, 4)
                rows.append(row)
    return rows


def mean(one: Sequence[Values], other: Sequence[Values]) -> Values:
    """How much higher the second's mean over tasks is."""
    total: Values = np.mean([b.mean(-1) - a.mean(-1) for a, b in zip(one, other, strict=True)], 0)
    return total


def trimmed(one: Sequence[Values], other: Sequence[Values]) -> Values:
    """How much higher the second's interquartile mean is."""
    return interquartile_mean(other) - interquartile_mean(one)


def covers(found: Estimate, truth: float) -> bool:
    """Whether the interval of an estimate covers the truth; no interval covers everything."""
    if found.low is None or found.high is None:
        return True
    return found.low <= truth + 1e-9 and truth - 1e-9 <= found.high


def part_runs(draws: int, rng: Generator) -> list[Row]:
    """Two equal policies with several training runs on ten tasks.

    Rates scatter by 0.07 from run to run, the same for all tasks, and by 0.1 from task to task.
    With a network for each task there is the second scatter alone.
    """
    m, rows = 10, []
    for unit, shared in (("runs", 0.07), ("runs of each task", 0.0)):
        whole = unit == "runs"
        for n in (2, 3, 5, 10):
            hits = []
            for _ in range(draws):
                scatter = shared * rng.standard_normal((2, 1, n))
                rates = 0.6 + scatter + 0.1 * rng.standard_normal((2, m, n))
                first, second = (list(own) for own in rates.clip(0, 1))
                settings = rng, 0.95, RESAMPLES, whole, 2
                of_means = bootstrap(mean, first, second, *settings)
                if whole:
                    means = [even(m) @ np.array(own) for own in (first, second)]
                    of_means = welch(means[0], means[1], 0.95)
                hits.append(
                    (
                        covers(welch(first[0], second[0], 0.95), 0.0),
                        covers(of_means, 0.0),
                        covers(bootstrap(trimmed, first, second, *settings), 0.0),
                        covers(bootstrap(improvement, first, second, *settings), 0.5),
                    )
                )
            labels = ("a task", "mean", "interquartile mean", "chance to be better")
            shares = np.mean(hits, axis=0).round(3).tolist()
            rows.append({"unit": unit, "runs": n, **dict(zip(labels, shares, strict=True))})
    return rows


def part_group(draws: int, rng: Generator) -> list[Row]:
    """The mean of one group of MT50, of a single run."""
    return [
        {
            "tasks": m,
            "episodes": n,
            "rates": name,
            **counted(mean_interval(episodes(of, n, draws, rng), even(m), 0.95), float(of.mean())),
        }
        for m in sorted(GROUPS)
        for name, of in rates(m).items()
        if name in ("0.5", "0.9", "0.98", "0.5 to 1", "half 0.1, half 0.9")
        for n in (3, 10, 50)
    ]


def methods(m: int) -> dict[str, tuple[Values, float]]:
    """The typical rates of a method at each task, and how often a run fails a task altogether."""
    return {
        "0.6": (np.full(m, 0.6), 0.0),
        "0.97": (np.full(m, 0.97), 0.0),
        "0.05 to 0.95": (np.linspace(0.05, 0.95, m), 0.0),
        "0.5 to 0.99": (np.linspace(0.5, 0.99, m), 0.0),
        "half 0.1, half 0.9": (np.where(np.arange(m) % 2, 0.9, 0.1), 0.0),
        "0.98, a tenth fails": (np.full(m, 0.98), 0.1),
    }


def measured(of: Values, fails: float, spread: float, n: int) -> Values:
    """How likely a run has ``0, ..., n`` successes of ``n`` at each task, ``(M, n + 1)``."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    scattered = expit(logit(of)[:, None] + spread * nodes)
    found = (shares / shares.sum()) @ binom.pmf(np.arange(n + 1), n, scattered[..., None])
    found *= 1 - fails
    found[:, 0] += fails
    result: Values = found
    return result


def truths(of: Values, fails: float, shared: float, n: int) -> tuple[Values, float]:
    """The mean of each task over infinitely many runs, and the interquartile mean of all."""
    pmf = measured(of, fails, float(np.hypot(shared, 0.5)), n)
    values = np.arange(n + 1) / n
    below = np.cumsum(pmf.mean(axis=0))
    return pmf @ values, 2 * float(np.diff(below.clip(0.25, 0.75), prepend=0.25) @ values)


def runs_of(
    of: Values, fails: float, shared: float, n: int, runs: int, draws: int, rng: Generator
) -> list[Values]:
    """The rates of a method's runs with ``n`` episodes, ``(draws, runs)`` of each task."""
    at = logit(of)[:, None] + 0.5 * rng.standard_normal((draws, len(of), runs))
    found = expit(at + shared * rng.standard_normal((draws, 1, runs)))
    found[rng.random(found.shape) < fails] = 0.0
    return list(rng.binomial(n, found).transpose(1, 0, 2) / n)


def share(intervals: Sequence[tuple[Interval, float]]) -> float:
    """How often intervals cover the truth, of those that there are."""
    ends = np.array([found[1:] for found, _ in intervals])  # (.., 2, draws)
    true = np.array([truth for _, truth in intervals])[:, None]
    inside = (ends[:, 0] <= true + 1e-9) & (true - 1e-9 <= ends[:, 1])
    return round(float(inside[~np.isnan(ends[:, 0])].mean()), 3)


def part_method(draws: int, rng: Generator) -> list[Row]:
    """A method with several training runs.

    The logits of a run's rates scatter by 0.4 together, as one network has learnt all tasks, and by
    0.5 at each task. With a network for each task there is the second scatter alone. The truth is
    that of infinitely many such runs, each evaluated on as many episodes.
    """
    rows: list[Row] = []
    for unit, shared in (("runs", 0.4), ("runs of each task", 0.0)):
        whole, few = unit == "runs", 5
        for m, n_episodes in ((10, 50), (50, 10)):
            for name, (of, fails) in methods(m).items():
                each, middle = truths(of, fails, shared, n_episodes)
                for n in (2, 3, 5, 10):
                    samples = runs_of(of, fails, shared, n_episodes, n, draws, rng)
                    tasks = [runs_interval([own], np.ones(1), 0.95, whole) for own in samples]
                    some = runs_interval(samples[:few], even(few), 0.95, whole)
                    mean = runs_interval(samples, even(m), 0.95, whole)
                    trimmed = trimmed_runs_interval(samples, 0.95, whole)
                    rows.append(
                        {
                            "unit": unit,
                            "tasks": m,
                            "rates": name,
                            "runs": n,
                            "a task": share([*zip(tasks, each, strict=True)]),
                            "five tasks": share([(some, float(each[:few].mean()))]),
                            "mean": share([(mean, float(each.mean()))]),
                            "interquartile mean": share([(trimmed, middle)]),
                        }
                    )
    return rows


def part_usual(draws: int, rng: Generator) -> list[Row]:
    """The same by the usual intervals: Student's, and the bootstrap of whole runs, of ten tasks."""

    def student(values: Values) -> Interval:
        found = [mean_of_runs(own, 0.95) for own in values]
        ends = ((one.value, one.low, one.high) for one in found)
        value, low, high = np.array([*ends], np.float64).T
        return value, low, high

    def resampled(samples: Sequence[Values]) -> Interval:
        found = []
        for i in range(draws // 10):
            own = [values[i] for values in samples]
            settings = rng, 0.95, RESAMPLES, True, 2
            found.append(bootstrap(lambda one, _: interquartile_mean(one), own, own, *settings))
        value, low, high = np.array([(e.value, e.low, e.high) for e in found], np.float64).T
        return value, low, high

    rows: list[Row] = []
    for name in ("0.6", "0.97"):
        of, fails = methods(10)[name]
        each, middle = truths(of, fails, 0.4, 50)
        for n in (3, 5, 10):
            samples = runs_of(of, fails, 0.4, 50, n, draws, rng)
            tasks = [(student(own), truth) for own, truth in zip(samples, each, strict=True)]
            rows.append(
                {
                    "rates": name,
                    "runs": n,
                    "a task": share(tasks),
                    "mean": share([(student(np.mean(samples, axis=0)), float(each.mean()))]),
                    "interquartile mean": share([(resampled(samples), middle)]),
                }
            )
    return rows


PARTS: dict[str, Callable[[int, Generator], list[Row]]] = {
    "means": part_means,
    "groups": part_groups,
    "trimmed": part_trimmed,
    "differences": part_differences,
    "trials": part_trials,
    "runs": part_runs,
    "group": part_group,
    "method": part_method,
    "usual": part_usual,
}


def misses(row: Row) -> str:
    """How much is covered, and what is missed on either side in per cent."""
    return f"{row['covers']:.3f} ({100 * row['below']:.1f} + {100 * row['above']:.1f})"


def both(row: Row) -> str:
    """How much is covered on goals of their own, and on the same."""
    return f"{row['other goals']:.3f} / {row['same goals']:.3f}"


def stars(row: Row) -> str:
    """How much is covered, and the stars on goals of their own and on the same."""
    shares = (
        f"{100 * row[k]:.1f}" if row[k] is not None else "-" for k in ("other goals", "same goals")
    )
    return f"{row['covers']:.3f} ({' / '.join(shares)})"


def wide(rows: Sequence[Row], over: str, cell: Callable[[Row], str]) -> str:
    """A table with a column for each number of episodes, or of trials."""
    lines: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in rows:
        labels: dict[str, str] = {
            name: str(row[name]) for name in ("tasks", "rates", "goals") if name in row
        }
        line = lines.setdefault(tuple(labels.values()), labels)
        line[f"{row[over]} {over}"] = cell(row)
    return table([*lines.values()])


def over_runs(rows: Sequence[Row]) -> str:
    """A table with the shares of a task, of five, of the mean and of the interquartile mean."""
    lines: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in rows:
        labels = {name: str(row[name]) for name in ("unit", "tasks", "rates")}
        cells = (row[name] for name in ("a task", "five tasks", "mean", "interquartile mean"))
        line = lines.setdefault(tuple(labels.values()), labels)
        line[f"{row['runs']} runs"] = " ".join(f"{100 * share:.0f}" for share in cells)
    return table([*lines.values()])


def shown(data: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """The tables of all parts, by their names."""
    cells = {"differences": both, "trials": stars}
    tables = {
        name: wide(
            data[name], "trials" if name == "trials" else "episodes", cells.get(name, misses)
        )
        for name in data
        if name not in ("runs", "method", "usual")
    }
    for name in (name for name in ("runs", "usual") if name in data):
        shares = [
            {k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()}
            for row in data[name]
        ]
        tables[name] = table([*shares])
    if "method" in data:
        tables["method"] = over_runs(data["method"])
    return tables


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a twentieth of the draws")
    parser.add_argument("--part", choices=list(PARTS), help="only this one; all by default")
    args = parser.parse_args()
    data: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    for i, (name, part) in enumerate(PARTS.items()):
        if args.part in (None, name):
            # A stream each, so that no part depends on which are run.
            data[name] = part(
                DRAWS[name] // (20 if args.quick else 1), np.random.default_rng([0, i])
            )
    for name, text in shown(data).items():
        print(f"{name}\n\n{text}\n")
    if not args.quick:
        DATA.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
