"""Simulates how often 95% intervals cover the truth: of means, differences, trials and runs.

    python -m benchmarks.coverage [--quick] [--part PART]

Each case draws results of policies whose true rates are known, computes the intervals of these
results, and counts how many cover the truth. Prints the tables of all parts, which are those of
``coverage.md``, and writes the figures into ``coverage.json``, both beside this file. ``--part``
simulates one part and takes the others from that file. Simulations are seeded, so they give the
same figures again. All parts take a minute or two on a core; ``--quick`` draws a twentieth and
writes nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    mean_difference,
    mean_rate,
    mean_run_rate,
    rate_difference,
    run_rate_difference,
    student,
)

DATA = HERE / "coverage.json"
GROUPS = (28, 11, 6, 5)  # the classes of MT50 in each of RLinf's and LeRobot's groups
Row = dict[str, Any]


def make_rates(m: int) -> dict[str, Values]:
    """The true rates of ``m`` tasks in each case: the same at all tasks, or mixed."""
    i = np.arange(m)
    return {
        **{f"{p:g}": np.full(m, p) for p in (0.5, 0.8, 0.9, 0.95, 0.98)},
        "0.05 to 0.95": np.linspace(0.05, 0.95, m),
        "0.5 to 1": np.linspace(0.5, 1.0, m),
        "half 0.1, half 0.9": np.where(i % 2, 0.9, 0.1),
        "four fifths 0.9, else 0.1": np.where(i < 0.8 * m, 0.9, 0.1),
        "four fifths 0.98, else 0": np.where(i < 0.8 * m, 0.98, 0.0),
    }


def draw_successes(rates: Values, n: int, draws: int, rng: Generator) -> list[Values]:
    """Draws the successes of ``n`` episodes, ``(draws, n)`` 0.0 or 1.0 for each task."""
    return [(rng.random((draws, n)) < rate).astype(np.float64) for rate in rates]


def measure_coverage(intervals: Intervals, truth: float) -> Row:
    """The share of intervals that cover the truth, and the shares that lie below and above it.

    Draws that have no interval (NaN) do not count.
    """
    low, high = (end[~np.isnan(end)] for end in (intervals.low, intervals.high))
    # An end that differs from the truth by rounding covers it.
    below, above = (high < truth - 1e-9).mean(), (low > truth + 1e-9).mean()
    covers = 1 - below - above
    return {"covers": round(float(covers), 4), "below": float(below), "above": float(above)}


def simulate_equal_means(
    sizes: Sequence[int], cases: Sequence[str], counts: Sequence[int], draws: int, rng: Generator
) -> list[Row]:
    """Means over equally weighted tasks of a single run.

    Args:
        sizes: The numbers of tasks.
        cases: The names of the true rates, of `make_rates`.
        counts: The numbers of episodes of each task.
        draws: The number of simulated runs of each case.
        rng: The source of randomness.
    """
    rows = []
    for m in sizes:
        for name, rates in make_rates(m).items():
            if name not in cases:
                continue
            for n in counts:
                successes = draw_successes(rates, n, draws, rng)
                intervals = mean_rate(successes, equal_weights(m))
                row: Row = {"tasks": m, "rates": name, "episodes": n}
                rows.append(row | measure_coverage(intervals, float(rates.mean())))
    return rows


def part_single(draws: int, rng: Generator) -> list[Row]:
    """The rate of a single task."""
    return simulate_equal_means(
        (1,), ("0.5", "0.8", "0.9", "0.95", "0.98"), (3, 10, 50, 200), draws, rng
    )


def part_means(draws: int, rng: Generator) -> list[Row]:
    """Means over all tasks."""
    return simulate_equal_means((10, 50), [*make_rates(10)], (3, 10, 50), draws, rng)


def part_group(draws: int, rng: Generator) -> list[Row]:
    """Means over the tasks of one group of MT50."""
    cases = ("0.5", "0.9", "0.98", "0.5 to 1", "half 0.1, half 0.9")
    return simulate_equal_means(sorted(GROUPS), cases, (3, 10, 50), draws, rng)


def part_groups(draws: int, rng: Generator) -> list[Row]:
    """Means over four groups of MT50."""
    weights = np.repeat([1 / size / len(GROUPS) for size in GROUPS], GROUPS)
    cases = {f"{rate:g}": np.full(50, rate) for rate in (0.5, 0.8, 0.9, 0.95, 0.98)}
    for group_rates in ((0.95, 0.77, 0.5, 0.6), (0.98, 0.98, 0.98, 0.8), (0.98, 0.98, 0.98, 0.5)):
        name = " / ".join(f"{rate:g}" for rate in group_rates)
        cases[name] = np.repeat(group_rates, GROUPS)
    rows = []
    for name, rates in cases.items():
        for n in (3, 10, 50):
            intervals = mean_rate(draw_successes(rates, n, draws, rng), weights)
            row: Row = {"rates": name, "episodes": n}
            rows.append(row | measure_coverage(intervals, float(weights @ rates)))
    return rows


def stack_estimates(estimates: Sequence[Estimate]) -> Intervals:
    """The intervals of estimates, one of each draw; ``None`` becomes NaN."""
    rows = [(estimate.value, estimate.low, estimate.high) for estimate in estimates]
    return Intervals(*np.array(rows, np.float64).T)


def make_distributions(rng: Generator) -> dict[str, Callable[[tuple[int, ...]], Values]]:
    """Functions that draw returns with mean 0, by the name of their distribution."""
    return {
        "normal": rng.standard_normal,
        "exponential": lambda size: rng.exponential(size=size) - 1,
        "0, or 100 in a tenth": lambda size: 100.0 * (rng.random(size) < 0.1) - 10,
    }


def part_returns(draws: int, rng: Generator) -> list[Row]:
    """Mean returns over the episodes of a single run, from three distributions with mean 0."""
    rows = []
    for m in (1, 10):
        for name, draw in make_distributions(rng).items():
            for n in (3, 10, 50):
                returns = draw((draws, m, n))
                estimates = [student(list(task_returns)) for task_returns in returns]
                row: Row = {"tasks": m, "returns": name, "episodes": n}
                rows.append(row | measure_coverage(stack_estimates(estimates), 0.0))
    return rows


def part_differences(draws: int, rng: Generator) -> list[Row]:
    """Differences of two policies with one result each, on different goals or the same."""
    rows = []
    for m in (1, 10, 50):
        for first, second in ((0.5, 0.5), (0.5, 0.6), (0.8, 0.9), (0.95, 0.95)):
            for n in (3, 10, 50):
                row: Row = {"tasks": m, "rates": f"{first:g} and {second:g}", "episodes": n}
                for label, correlation in (("other goals", 0.0), ("same goals", 0.7)):
                    # How hard a goal is for either policy: normal, with this correlation.
                    shared, *noises = rng.standard_normal((3, draws, m, n))
                    successes = []
                    for noise, rate in zip(noises, (first, second), strict=True):
                        hard = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * noise
                        solved = (ndtr(hard) < rate).astype(np.float64)
                        successes.append([solved[:, i] for i in range(m)])
                    is_paired = [bool(correlation)] * m
                    intervals = rate_difference(*successes, is_paired, equal_weights(m))
                    row[label] = measure_coverage(intervals, second - first)["covers"]
                rows.append(row)
    return rows


def part_trials(draws: int, rng: Generator) -> list[Row]:
    """Few-shot evaluation: means of one policy, and differences of two equally good policies.

    A trial has three episodes on a goal. The rate of a goal is from a beta distribution, or 0 or 1.
    "other goals" and "same goals" are the shares of differences that count as significant.
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
                # The rates of trials: of the first policy, and of the second on other goals and
                # on the same.
                first, other_goals, same_goals = (
                    list((rng.binomial(3, goals[i]) / 3).transpose(1, 0, 2)) for i in (0, 1, 0)
                )
                truth = a / (a + b) if a else 0.5
                weights = equal_weights(m)
                row: Row = {"tasks": m, "goals": name, "trials": n}
                row["covers"] = measure_coverage(mean_rate(first, weights), truth)["covers"]
                for label, second, is_paired in (
                    ("other goals", other_goals, False),
                    ("same goals", same_goals, True),
                ):
                    row[label] = None  # too few values for an interval
                    if m * n >= LEAST_VALUES:
                        intervals = rate_difference(first, second, [is_paired] * m, weights)
                        row[label] = round(1 - measure_coverage(intervals, 0.0)["covers"], 4)
                rows.append(row)
    return rows


# Runs.


@dataclass(frozen=True)
class Method:
    """A training method, from which runs are drawn.

    Args:
        rates: The typical success rate at each task, ``(M,)``.
        failures: How often a run fails a task altogether.
    """

    rates: Values
    failures: float = 0.0

    def draw_runs(self, n: int, runs: int, draws: int, rng: Generator) -> Values:
        """Draws the rates of runs with ``n`` episodes of each task, ``(draws, M, runs)``.

        The logits of a run's rates scatter by 0.4 together, as one network has learnt all tasks,
        and by 0.5 at each task.
        """
        scatter = 0.5 * rng.standard_normal((draws, len(self.rates), runs))
        logits = logit(self.rates)[:, None] + scatter
        rates = expit(logits + 0.4 * rng.standard_normal((draws, 1, runs)))
        rates[rng.random(rates.shape) < self.failures] = 0.0
        return rng.binomial(n, rates) / n

    def compute_true_means(self, n: int) -> tuple[Values, float]:
        """The mean of each task over infinitely many runs, and the interquartile mean of all."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(80)
        rates = expit(logit(self.rates)[:, None] + np.hypot(0.4, 0.5) * nodes)
        # How likely a run has 0, ..., n successes in n episodes of each task.
        pmf = (weights / weights.sum()) @ binom.pmf(np.arange(n + 1), n, rates[..., None])
        pmf *= 1 - self.failures
        pmf[:, 0] += self.failures
        values, cdf = np.arange(n + 1) / n, np.cumsum(pmf.mean(axis=0))
        # The middle half of the distribution of all tasks' rates.
        middle_shares = np.diff(cdf.clip(0.25, 0.75), prepend=0.25)
        return pmf @ values, 2 * float(middle_shares @ values)


def make_methods(m: int) -> dict[str, Method]:
    """The methods of all cases, with ``m`` tasks."""
    return {
        "0.6": Method(np.full(m, 0.6)),
        "0.97": Method(np.full(m, 0.97)),
        "0.05 to 0.95": Method(np.linspace(0.05, 0.95, m)),
        "0.5 to 0.99": Method(np.linspace(0.5, 0.99, m)),
        "half 0.1, half 0.9": Method(np.where(np.arange(m) % 2, 0.9, 0.1)),
        "0.98, a tenth fails": Method(np.full(m, 0.98), failures=0.1),
    }


def compute_share(intervals: Intervals, truth: float) -> float:
    """The share of intervals that cover the truth, rounded."""
    return compute_joint_share([intervals], np.array([truth]))


def compute_joint_share(intervals: Sequence[Intervals], truths: Values) -> float:
    """The share of the intervals of several tasks that cover the truth of their task, rounded.

    Draws that have no interval (NaN) do not count.
    """
    low = np.array([task_intervals.low for task_intervals in intervals])  # (tasks, draws)
    high = np.array([task_intervals.high for task_intervals in intervals])
    truth = truths[:, None]
    covers = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
    return round(float(covers[~np.isnan(low)].mean()), 3)


def part_method(draws: int, rng: Generator) -> list[Row]:
    """A method with several training runs; see `Method`.

    The truth is that of infinitely many such runs, each evaluated on as many episodes.
    """
    rows: list[Row] = []
    for m, n in ((10, 50), (50, 10)):
        for name, method in make_methods(m).items():
            task_means, true_iqm = method.compute_true_means(n)
            for num_runs in (2, 3, 5, 10):
                runs = method.draw_runs(n, num_runs, draws, rng)
                tasks = [mean_run_rate(runs[:, i]) for i in range(m)]
                five_tasks = mean_run_rate(runs[:, :5].mean(axis=1))
                mean = mean_run_rate(runs.mean(axis=1))
                row: Row = {"tasks": m, "rates": name, "runs": num_runs}
                row["a task"] = compute_joint_share(tasks, task_means)
                row["five tasks"] = compute_share(five_tasks, float(task_means[:5].mean()))
                row["mean"] = compute_share(mean, float(task_means.mean()))
                row["interquartile mean"] = None
                if num_runs >= LEAST_RUNS:
                    iqm, contributions = interquartile(runs)
                    intervals = mean_run_rate(contributions, iqm)
                    row["interquartile mean"] = compute_share(intervals, true_iqm)
                rows.append(row)
    return rows


def part_runs(draws: int, rng: Generator) -> list[Row]:
    """Two equal methods with several training runs on ten tasks; see `Method`."""
    rows: list[Row] = []
    for name in ("0.6", "0.97", "0.5 to 0.99"):
        method = make_methods(10)[name]
        for num_runs in (2, 3, 5, 10):
            first, second = (method.draw_runs(50, num_runs, draws, rng) for _ in range(2))
            pairs = [*zip(first, second, strict=True)]
            task = [run_rate_difference(a[0], b[0]) for a, b in pairs]
            mean = [run_rate_difference(a.mean(axis=0), b.mean(axis=0)) for a, b in pairs]
            row: Row = {"rates": name, "runs": num_runs}
            row["a task"] = compute_share(stack_estimates(task), 0.0)
            row["mean"] = compute_share(stack_estimates(mean), 0.0)
            row["interquartile mean"] = None
            if num_runs >= LEAST_RUNS:
                iqm = [interquartile_difference(a, b) for a, b in pairs]
                row["interquartile mean"] = compute_share(stack_estimates(iqm), 0.0)
            rows.append(row)
    return rows


def part_usual(draws: int, rng: Generator) -> list[Row]:
    """A method by the usual intervals: Student's, and the bootstrap of whole runs."""

    def student_intervals(run_rates: Values) -> Intervals:
        return stack_estimates([student([rates]) for rates in run_rates])

    def bootstrap(runs: Values) -> Intervals:
        """Percentiles of resampled runs, expanded (Hesterberg 2015, arXiv:1411.5279)."""
        n = runs.shape[-1]
        tail = float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025)))
        iqms = []
        for rates in runs:
            resampled = rates[:, rng.integers(n, size=(1000, n))].swapaxes(0, 1)
            iqms.append(interquartile(resampled)[0])
        low, high = np.quantile(iqms, (tail, 1 - tail), axis=1)
        return Intervals(interquartile(runs)[0], low, high)

    rows: list[Row] = []
    for name in ("0.6", "0.97"):
        method = make_methods(10)[name]
        task_means, true_iqm = method.compute_true_means(50)
        for num_runs in (3, 5, 10):
            runs = method.draw_runs(50, num_runs, draws, rng)
            iqm = bootstrap(runs[: draws // 4])  # which is slow
            task, mean = student_intervals(runs[:, 0]), student_intervals(runs.mean(axis=1))
            row: Row = {"rates": name, "runs": num_runs}
            row["a task"] = compute_share(task, task_means[0])
            row["mean"] = compute_share(mean, float(task_means.mean()))
            row["interquartile mean"] = compute_share(iqm, true_iqm)
            rows.append(row)
    return rows


def part_return_differences(draws: int, rng: Generator) -> list[Row]:
    """Differences of the returns of two policies with one result each, of mean 0.

    The second's returns scatter twice as much. On the same goals, both have a part of the returns
    in common.
    """
    rows = []
    for m in (1, 10):
        for name, draw in make_distributions(rng).items():
            for n in (3, 10, 50):
                row: Row = {"tasks": m, "returns": name, "episodes": n}
                for label, share in (("other goals", 0.0), ("same goals", 0.7)):
                    shared, first, second = draw((3, draws, m, n))
                    firsts = share * shared + (1 - share) * first
                    seconds = share * shared + (1 - share) * 2 * second
                    is_paired = [share > 0] * m
                    estimates = [
                        mean_difference(list(first), list(second), is_paired)
                        for first, second in zip(firsts, seconds, strict=True)
                    ]
                    row[label] = measure_coverage(stack_estimates(estimates), 0.0)["covers"]
                rows.append(row)
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
    "return_differences": (part_return_differences, 4_000),
}


def simulate(name: str, draws: int) -> list[Row]:
    """Simulates a part; each has its random stream, so that none depends on the others."""
    return PARTS[name][0](draws, np.random.default_rng([0, [*PARTS].index(name)]))


def format_misses(row: Row) -> str:
    """The share that covers the truth, and the per cent that lie below and above it."""
    return f"{row['covers']:.3f} ({100 * row['below']:.1f} + {100 * row['above']:.1f})"


def format_differences(row: Row) -> str:
    """The shares that cover the true difference, on other goals and on the same."""
    return f"{row['other goals']:.3f} / {row['same goals']:.3f}"


def format_trials(row: Row) -> str:
    """The share that covers the truth, and the per cent of equal policies that differ.

    Of the latter there are two: on other goals, and on the same.
    """
    shares = (row["other goals"], row["same goals"])
    percents = ("-" if share is None else f"{100 * share:.1f}" for share in shares)
    return f"{row['covers']:.3f} ({' / '.join(percents)})"


def format_runs(row: Row) -> str:
    """The per cent that cover the truth, of each quantity."""
    quantities = ("a task", "five tasks", "mean", "interquartile mean")
    shares = (row[quantity] for quantity in quantities if quantity in row)
    return " ".join("-" if share is None else f"{100 * share:.0f}" for share in shares)


FORMATS = {
    "differences": format_differences,
    "return_differences": format_differences,
    "trials": format_trials,
    "method": format_runs,
    "runs": format_runs,
    "usual": format_runs,
}


def render_tables(data: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """The tables of all parts, by their names: a column per number of episodes, trials or runs."""
    tables = {}
    for name, rows in data.items():
        format_cell = FORMATS.get(name, format_misses)
        lines: dict[tuple[Any, ...], dict[str, str]] = {}
        for row in rows:
            [unit] = [unit for unit in ("episodes", "trials", "runs") if unit in row]
            labels = {
                key: str(row[key]) for key in ("tasks", "rates", "goals", "returns") if key in row
            }
            line = lines.setdefault(tuple(labels.values()), labels)
            line[f"{row[unit]} {unit}"] = format_cell(row)
        tables[name] = table([*lines.values()])
    return tables


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a twentieth of the draws")
    parser.add_argument("--part", choices=list(PARTS), help="only this one; all by default")
    args = parser.parse_args()
    saved: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    data = {name: saved[name] for name in PARTS if name in saved}
    for name, (_, draws) in PARTS.items():
        if args.part in (None, name):
            data[name] = simulate(name, draws // (20 if args.quick else 1))
    for name, text in render_tables(data).items():
        print(f"{name}\n\n{text}\n")
    if not args.quick:
        DATA.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
