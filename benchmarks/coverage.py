"""How often intervals for 95% cover the truth, simulated: means, differences, trials and runs.

    python -m benchmarks.coverage [--quick] [--part PART]

Every case draws results of policies whose true rates are known, asks for their intervals, and
counts. The figures go to ``coverage.json`` beside this file, and are the tables of
``coverage.md`` there. Seeded, so that they are the same again; all of it takes a minute or two on a
core. ``--quick`` draws a twentieth, and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit, logit, ndtr, stdtrit
from scipy.stats import binom

from benchmarks.common import HERE, table
from mtwrappers.evaluation.statistics import (
    LEAST_RUNS,
    LEAST_VALUES,
    Estimate,
    Intervals,
    Values,
    equal_weights,
    interquartile,
    interquartile_difference,
    mean_rate,
    mean_run_rate,
    rate_difference,
    run_rate_difference,
    student,
)

DATA = HERE / "coverage.json"
GROUPS = (28, 11, 6, 5)  # the classes of MT50 in each of RLinf's and LeRobot's groups
Row = dict[str, Any]


def rates(m: int) -> dict[str, Values]:
    """True rates of ``m`` tasks: all at one rate, or mixed."""
    i = np.arange(m)
    return {
        **{f"{p:g}": np.full(m, p) for p in (0.5, 0.8, 0.9, 0.95, 0.98)},
        "0.05 to 0.95": np.linspace(0.05, 0.95, m),
        "0.5 to 1": np.linspace(0.5, 1.0, m),
        "half 0.1, half 0.9": np.where(i % 2, 0.9, 0.1),
        "four fifths 0.9, else 0.1": np.where(i < 0.8 * m, 0.9, 0.1),
        "four fifths 0.98, else 0": np.where(i < 0.8 * m, 0.98, 0.0),
    }


def episodes(of: Values, n: int, draws: int, rng: Generator) -> list[Values]:
    """Successes ``(draws, n)`` of each task."""
    return [(rng.random((draws, n)) < rate).astype(np.float64) for rate in of]


def counted(found: Intervals, truth: float) -> Row:
    """The share of intervals that cover the truth, and the shares that lie below and above it."""
    low, high = (end[~np.isnan(end)] for end in (found.low, found.high))
    # What is right but for rounding is right.
    below, above = (high < truth - 1e-9).mean(), (low > truth + 1e-9).mean()
    covers = 1 - below - above
    return {"covers": round(float(covers), 4), "below": float(below), "above": float(above)}


def means(
    sizes: Sequence[int], names: Sequence[str], counts: Sequence[int], draws: int, rng: Generator
) -> list[Row]:
    """Means over tasks that count the same, of a single run."""
    return [
        {
            "tasks": m,
            "rates": name,
            "episodes": n,
            **counted(mean_rate(episodes(of, n, draws, rng), equal_weights(m)), float(of.mean())),
        }
        for m in sizes
        for name, of in rates(m).items()
        if name in names
        for n in counts
    ]


def part_single(draws: int, rng: Generator) -> list[Row]:
    """The rate of a single task."""
    return means((1,), ("0.5", "0.8", "0.9", "0.95", "0.98"), (3, 10, 50, 200), draws, rng)


def part_means(draws: int, rng: Generator) -> list[Row]:
    """Means over all tasks."""
    return means((10, 50), [*rates(10)], (3, 10, 50), draws, rng)


def part_group(draws: int, rng: Generator) -> list[Row]:
    """Means over the tasks of one group of MT50."""
    names = ("0.5", "0.9", "0.98", "0.5 to 1", "half 0.1, half 0.9")
    return means(sorted(GROUPS), names, (3, 10, 50), draws, rng)


def part_groups(draws: int, rng: Generator) -> list[Row]:
    """Means over four groups of MT50."""
    weights = np.repeat([1 / size / len(GROUPS) for size in GROUPS], GROUPS)
    of_each = {f"{p:g}": np.full(50, p) for p in (0.5, 0.8, 0.9, 0.95, 0.98)}
    for each in ((0.95, 0.77, 0.5, 0.6), (0.98, 0.98, 0.98, 0.8), (0.98, 0.98, 0.98, 0.5)):
        of_each[" / ".join(f"{p:g}" for p in each)] = np.repeat(each, GROUPS)
    return [
        {
            "rates": name,
            "episodes": n,
            **counted(mean_rate(episodes(of, n, draws, rng), weights), float(weights @ of)),
        }
        for name, of in of_each.items()
        for n in (3, 10, 50)
    ]


def part_returns(draws: int, rng: Generator) -> list[Row]:
    """Mean returns, which are no rates, over the episodes of a single run."""
    shapes: dict[str, Callable[[tuple[int, ...]], Values]] = {
        "normal": rng.standard_normal,
        "exponential": lambda size: rng.exponential(size=size) - 1,
        "0, or 100 in a tenth": lambda size: 100.0 * (rng.random(size) < 0.1) - 10,
    }
    rows = []
    for m in (1, 10):
        for name, draw in shapes.items():
            for n in (3, 10, 50):
                samples = draw((draws, m, n))
                found = [student(list(own)) for own in samples]
                ends = np.array([(e.value, e.low, e.high) for e in found], np.float64).T
                row = counted(Intervals(*ends), 0.0)
                rows.append({"tasks": m, "returns": name, "episodes": n, **row})
    return rows


def part_differences(draws: int, rng: Generator) -> list[Row]:
    """Differences of two policies with one result each, on goals of their own or the same."""
    rows = []
    for m in (1, 10, 50):
        for first, second in ((0.5, 0.5), (0.5, 0.6), (0.8, 0.9), (0.95, 0.95)):
            for n in (3, 10, 50):
                row: Row = {"tasks": m, "rates": f"{first:g} and {second:g}", "episodes": n}
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
                    found = rate_difference(
                        both[0], both[1], [bool(correlation)] * m, equal_weights(m)
                    )
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
                row["covers"] = counted(mean_rate(samples[0], equal_weights(m)), truth)["covers"]
                for label, i in (("other goals", 1), ("same goals", 2)):
                    found = rate_difference(samples[0], samples[i], [i == 2] * m, equal_weights(m))
                    row[label] = None  # of too few values
                    if m * n >= LEAST_VALUES:
                        row[label] = round(1 - counted(found, 0.0)["covers"], 4)
                rows.append(row)
    return rows


# Runs.


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


def truths(of: Values, fails: float, n: int) -> tuple[Values, float]:
    """The mean of each task over infinitely many runs, and the interquartile mean of all."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    scattered = expit(logit(of)[:, None] + np.hypot(0.4, 0.5) * nodes)
    # How likely a run has 0, ..., n successes of n at each task.
    pmf = (shares / shares.sum()) @ binom.pmf(np.arange(n + 1), n, scattered[..., None])
    pmf *= 1 - fails
    pmf[:, 0] += fails
    values, below = np.arange(n + 1) / n, np.cumsum(pmf.mean(axis=0))
    return pmf @ values, 2 * float(np.diff(below.clip(0.25, 0.75), prepend=0.25) @ values)


def runs_of(of: Values, fails: float, n: int, runs: int, draws: int, rng: Generator) -> Values:
    """The rates of a method's runs with ``n`` episodes of each task, ``(draws, M, runs)``.

    The logits of a run's rates scatter by 0.4 together, as one network has learnt all tasks, and by
    0.5 at each task.
    """
    at = logit(of)[:, None] + 0.5 * rng.standard_normal((draws, len(of), runs))
    found = expit(at + 0.4 * rng.standard_normal((draws, 1, runs)))
    found[rng.random(found.shape) < fails] = 0.0
    return rng.binomial(n, found) / n


def share(intervals: Sequence[tuple[Intervals, float]]) -> float:
    """How often intervals cover the truth, of those that there are."""
    ends = np.array([(found.low, found.high) for found, _ in intervals])  # (.., 2, draws)
    true = np.array([truth for _, truth in intervals])[:, None]
    inside = (ends[:, 0] <= true + 1e-9) & (true - 1e-9 <= ends[:, 1])
    return round(float(inside[~np.isnan(ends[:, 0])].mean()), 3)


def share_of(found: Sequence[Estimate], truth: float) -> float:
    """The same of estimates."""
    value, low, high = np.array([(e.value, e.low, e.high) for e in found], np.float64).T
    return share([(Intervals(value, low, high), truth)])


def part_method(draws: int, rng: Generator) -> list[Row]:
    """A method with several training runs; see `runs_of`.

    The truth is that of infinitely many such runs, each evaluated on as many episodes.
    """
    rows: list[Row] = []
    for m, n_episodes in ((10, 50), (50, 10)):
        for name, (of, fails) in methods(m).items():
            each, middle = truths(of, fails, n_episodes)
            for n in (2, 3, 5, 10):
                samples = runs_of(of, fails, n_episodes, n, draws, rng)
                tasks = [(mean_run_rate(samples[:, i]), each[i]) for i in range(m)]
                some = [(mean_run_rate(samples[:, :5].mean(axis=1)), float(each[:5].mean()))]
                mean = [(mean_run_rate(samples.mean(axis=1)), float(each.mean()))]
                rate, numbers = interquartile(samples)
                trimmed = [(mean_run_rate(numbers, rate), middle)]
                rows.append(
                    {
                        "tasks": m,
                        "rates": name,
                        "runs": n,
                        "a task": share(tasks),
                        "five tasks": share(some),
                        "mean": share(mean),
                        "interquartile mean": None if n < LEAST_RUNS else share(trimmed),
                    }
                )
    return rows


def part_runs(draws: int, rng: Generator) -> list[Row]:
    """Two equal methods with several training runs on ten tasks; see `runs_of`."""
    rows: list[Row] = []
    for name in ("0.6", "0.97", "0.5 to 0.99"):
        of, fails = methods(10)[name]
        for n in (2, 3, 5, 10):
            first, second = (runs_of(of, fails, 50, n, draws, rng) for _ in range(2))
            pairs = [*zip(first, second, strict=True)]
            row: Row = {"rates": name, "runs": n}
            row["a task"] = share_of([run_rate_difference(a[0], b[0]) for a, b in pairs], 0.0)
            means = [run_rate_difference(a.mean(axis=0), b.mean(axis=0)) for a, b in pairs]
            row["mean"] = share_of(means, 0.0)
            middles = [interquartile_difference(a, b) for a, b in pairs] if n >= LEAST_RUNS else []
            row["interquartile mean"] = share_of(middles, 0.0) if middles else None
            rows.append(row)
    return rows


def part_usual(draws: int, rng: Generator) -> list[Row]:
    """A method by the usual intervals: Student's, and the bootstrap of whole runs."""

    def of_students(numbers: Values, truth: float) -> float:
        return share_of([student([own]) for own in numbers], truth)

    def bootstrap(runs: Values) -> Intervals:
        """Percentiles of resampled runs, expanded (Hesterberg 2015, arXiv:1411.5279)."""
        n = runs.shape[-1]
        tail = float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025)))
        drawn = [
            interquartile(own[:, rng.integers(n, size=(1000, n))].swapaxes(0, 1))[0] for own in runs
        ]
        low, high = np.quantile(drawn, (tail, 1 - tail), axis=1)
        return Intervals(interquartile(runs)[0], low, high)

    rows: list[Row] = []
    for name in ("0.6", "0.97"):
        of, fails = methods(10)[name]
        each, middle = truths(of, fails, 50)
        for n in (3, 5, 10):
            samples = runs_of(of, fails, 50, n, draws, rng)
            found = bootstrap(samples[: draws // 4])
            rows.append(
                {
                    "rates": name,
                    "runs": n,
                    "a task": of_students(samples[:, 0], each[0]),
                    "mean": of_students(samples.mean(axis=1), float(each.mean())),
                    "interquartile mean": share([(found, middle)]),
                }
            )
    return rows


PARTS: dict[str, tuple[Callable[[int, Generator], list[Row]], int]] = {
    "single": (part_single, 10_000),
    "means": (part_means, 10_000),
    "groups": (part_groups, 10_000),
    "group": (part_group, 10_000),
    "returns": (part_returns, 4_000),
    "differences": (part_differences, 4_000),
    "trials": (part_trials, 10_000),
    "runs": (part_runs, 4_000),
    "method": (part_method, 4_000),
    "usual": (part_usual, 4_000),
}


def drawn(name: str, draws: int) -> list[Row]:
    """The rows of a part; each has a stream of its own, so that none depends on the others."""
    return PARTS[name][0](draws, np.random.default_rng([0, [*PARTS].index(name)]))


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


def over_runs(row: Row) -> str:
    """The shares of each column, in per cent."""
    names = ("a task", "five tasks", "mean", "interquartile mean")
    shares = (row[name] for name in names if name in row)
    return " ".join("-" if one is None else f"{100 * one:.0f}" for one in shares)


CELLS = {"differences": both, "trials": stars, "method": over_runs, "runs": over_runs}
CELLS["usual"] = over_runs


def shown(data: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """The tables of all parts, by their names: a column per number of episodes, trials or runs."""
    tables = {}
    for name, rows in data.items():
        lines: dict[tuple[Any, ...], dict[str, str]] = {}
        for row in rows:
            [over] = [unit for unit in ("episodes", "trials", "runs") if unit in row]
            labels = {k: str(row[k]) for k in ("tasks", "rates", "goals", "returns") if k in row}
            line = lines.setdefault(tuple(labels.values()), labels)
            line[f"{row[over]} {over}"] = CELLS.get(name, misses)(row)
        tables[name] = table([*lines.values()])
    return tables


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a twentieth of the draws")
    parser.add_argument("--part", choices=list(PARTS), help="only this one; all by default")
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    data = {name: kept[name] for name in PARTS if name in kept}
    for name, (_, draws) in PARTS.items():
        if args.part in (None, name):
            data[name] = drawn(name, draws // (20 if args.quick else 1))
    for name, text in shown(data).items():
        print(f"{name}\n\n{text}\n")
    if not args.quick:
        DATA.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
