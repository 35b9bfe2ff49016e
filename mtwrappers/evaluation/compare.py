"""Which of several policies is better, task by task and over all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.checks import check_list, check_mapping, positive
from mtwrappers.evaluation.comparison import Comparison, Difference
from mtwrappers.evaluation.differences import (
    Statistic,
    bootstrap,
    improvement,
    interquartile_mean,
    rate_distances,
)
from mtwrappers.evaluation.headline import succeeded, weights
from mtwrappers.evaluation.remake import determining
from mtwrappers.evaluation.result import EvaluationResult, check_confidence
from mtwrappers.evaluation.rules import Rules
from mtwrappers.evaluation.statistics import Estimate, Values, estimate

# Keeps the bootstrap's stream apart from those of results.
_STREAM = 1_000_039


class IncomparableError(ValueError):
    """Results were measured in different ways, so their difference says nothing of the policies."""


def compare(
    policies: Mapping[str, Sequence[EvaluationResult]],
    *,
    force: bool = False,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Comparison]:
    """Compares the success of policies with that of the first.

    An episode is a success if its protocol says so; without a protocol, if any step was one.

    **One result each.** Intervals are over episodes: they say how precisely *these* two policies
    were measured, not what another training run would give. Where both have played the same goals,
    those are compared one by one, which takes the difficulty of goals out of the difference.

    **Several results of a policy** are taken for training runs with different seeds, and intervals
    are over runs, resampled within each task (Agarwal et al. 2021). The interquartile mean is that
    of all runs of all tasks. A policy with a single run adds nothing to their width.

    Args:
        policies: The results of each policy, by its name.
        force: Compare what does not compare, on the tasks that all have; `Comparison.forced` says
            why.
        confidence: How likely the intervals cover the truth, in (0, 1).
        resamples: How many bootstrap resamples.
        seed: Determines the resamples.

    Returns:
        A comparison with the first policy for each of the others.

    Raises:
        IncomparableError: If the results are of different protocols, environments or tasks.
        TypeError: If the policies are no dict of lists of `EvaluationResult`.
        ValueError: If there are fewer than two, no result says anything of success, or a number is
            out of range.

    >>> from mtwrappers.evaluation import Episode
    >>> def result(*successes):
    ...     return EvaluationResult(
    ...         [Episode("reach", i, 0.0, 5, once, once) for i, once in enumerate(successes)]
    ...     )
    >>> found = compare({"a": [result(False, True)], "b": [result(True, True)]})[0]
    >>> found.tasks["reach"].difference.value
    0.5
    """
    check_confidence(confidence)
    resamples = positive(resamples, "resamples")
    named = dict(check_mapping(policies, "policies"))
    for name, results in named.items():
        named[name] = check_list(results, f"the results of {name!r}", "result")
        for result in named[name]:
            if not isinstance(result, EvaluationResult):
                raise TypeError(f"expected results of {name!r}, got {result!r}")
            if not result.has_success:
                raise ValueError(f"a result of {name!r} says nothing of success")
    if len(named) < 2:
        raise ValueError(f"there must be two policies or more to compare, got {list(named)}")
    (first, of_first), *others = named.items()
    rng = Generator(PCG64(SeedSequence(seed, spawn_key=(_STREAM,))))
    found = []
    for name, results in others:
        reason = _why_not([*of_first, *results])
        if reason and not force:
            raise IncomparableError(f"{first} and {name} do not compare: {reason}")
        pair = _Pair(of_first, results, confidence, resamples, rng)
        fields = of_first[0].protocol
        rules = None if fields is None else Rules.from_dict(fields)
        runs = len(of_first), len(results)
        found.append(pair.comparison((first, name), runs, rules, reason))
    return found


def _why_not(results: Sequence[EvaluationResult]) -> str:
    """Why results do not compare, or nothing."""

    def differ(what: str, values: Sequence[Any]) -> str:
        other = next((value for value in values if value != values[0]), values[0])
        return "" if other == values[0] else f"{what} {values[0]} and {other}"

    protocols = [one.protocol or {} for one in results]
    names = [Rules.from_dict(p).label if p else "none" for p in protocols]
    if reason := differ("protocols", names):
        return reason
    every = set.union(*(set(one.tasks) for one in results))
    if alone := [task for one in results for task in sorted(every - set(one.tasks))]:
        return f"{alone[0]} is a task of some of them alone"
    described = [one.provenance for one in results]
    if any(one is None for one in described):
        return ""  # made by hand
    specs = [determining(one.spec) if one and one.spec else ("none", {}) for one in described]
    if reason := differ("id", [env_id for env_id, _ in specs]):
        return reason
    kwargs = [own for _, own in specs]
    for name in dict.fromkeys(key for own in kwargs for key in own):
        if reason := differ(name, [own.get(name) for own in kwargs]):
            return reason
    for name in ("metaworld", "mujoco"):
        versions = [one.versions.get(name) for one in described if one is not None]
        if reason := differ(name, versions):
            return reason
    return ""


class _Task(NamedTuple):
    """The successes of both at a task: of each goal, or of each run."""

    first: Values
    second: Values
    paired: bool = False  # whether those at the same place belong together


class _Pair:
    """Two policies' results, and what their comparison is made of."""

    def __init__(
        self,
        first: Sequence[EvaluationResult],
        second: Sequence[EvaluationResult],
        confidence: float,
        resamples: int,
        rng: Generator,
    ) -> None:
        self._settings, self._confidence = (rng, confidence, resamples), confidence
        self._several = len(first) > 1 or len(second) > 1
        self._tasks: dict[str, _Task] = {}
        same_goals = _same_goals([*first, *second])
        for task in first[0].tasks:
            if task not in second[0].tasks:
                continue
            ones, others = ([_successes(run, task) for run in of] for of in (first, second))
            if self._several:
                self._tasks[task] = _Task(_of_runs(ones), _of_runs(others))
                continue
            [one], [other] = ones, others
            paired = same_goals and one.keys() == other.keys()
            keys = one if paired else other
            values = np.array([*one.values()]), np.array([other[key] for key in keys])
            self._tasks[task] = _Task(*values, paired)
        if not self._tasks:
            raise IncomparableError("the results have no task in common")

    def mean(self, tasks: Sequence[_Task], shares: Values) -> Difference:
        """The weighted mean over tasks, of both and of the difference."""
        both = [task.first for task in tasks], [task.second for task in tasks]
        p1, p2 = (float(shares @ np.array([own.mean() for own in of])) for of in both)
        if not self._several and all(_are_binary(task) for task in tasks):
            ends = np.array([rate_distances(*task, self._confidence) for task in tasks])
            # The method of variance estimates recovery, as for one policy's means.
            below, above = np.sqrt(((shares[:, None] * ends) ** 2).sum(axis=0)).tolist()
            return _difference(p1, p2, below, above)

        def statistic(one: Sequence[Values], other: Sequence[Values]) -> Values:
            apart = [b.mean(axis=-1) - a.mean(axis=-1) for a, b in zip(one, other, strict=True)]
            found: Values = np.tensordot(shares, np.array(apart), axes=1)
            return found

        paired = all(task.paired for task in tasks)
        return Difference(p1, p2, self._bootstrap(statistic, tasks, paired))

    def trimmed(self, tasks: Sequence[_Task]) -> Difference:
        """The interquartile mean, over the runs of all tasks, or over tasks."""
        both = [task.first for task in tasks], [task.second for task in tasks]
        if self._several:

            def statistic(one: Sequence[Values], other: Sequence[Values]) -> Values:
                return interquartile_mean(other) - interquartile_mean(one)

            p1, p2 = (float(interquartile_mean(of)) for of in both)
            return Difference(p1, p2, self._bootstrap(statistic, tasks))
        one, other = (estimate(of, 0.25, *self._settings, rate=True) for of in both)
        if one.low is None or one.high is None or other.low is None or other.high is None:
            return Difference(one.value, other.value, Estimate(other.value - one.value, None, None))
        below = math.hypot(other.value - other.low, one.high - one.value)
        above = math.hypot(other.high - other.value, one.value - one.low)
        return _difference(one.value, other.value, below, above)

    def improvement(self, tasks: Sequence[_Task]) -> Estimate:
        """How likely a run of the second is better than one of the first."""
        return self._bootstrap(improvement, tasks)

    def _bootstrap(
        self, statistic: Statistic, tasks: Sequence[_Task], paired: bool = False
    ) -> Estimate:
        both = [task.first for task in tasks], [task.second for task in tasks]
        rng, confidence, resamples = self._settings
        return bootstrap(statistic, *both, rng, confidence, resamples, paired)

    def comparison(
        self, names: tuple[str, str], runs: tuple[int, int], rules: Rules | None, forced: str
    ) -> Comparison:
        """All of it."""
        all_of = list(self._tasks.values())
        rows = {name: self.mean([task], np.ones(1)) for name, task in self._tasks.items()}
        overall = {}
        for over in ("tasks",) if rules is None or forced else rules.means:
            shares = weights([*self._tasks], over, () if rules is None else rules.groups)
            overall[f"mean over {over}"] = self.mean(all_of, shares)
        overall["interquartile mean"] = self.trimmed(all_of)
        better = self.improvement(all_of) if min(runs) > 1 else None
        paired = sum(task.paired for task in all_of)
        return Comparison(names, runs, rows, overall, better, paired, forced, self._confidence)


def _difference(p1: float, p2: float, below: float, above: float) -> Difference:
    low, high = max(-1.0, p2 - p1 - below), min(1.0, p2 - p1 + above)
    return Difference(p1, p2, Estimate(p2 - p1, low, high))


def _of_runs(runs: Sequence[Mapping[Any, float]]) -> Values:
    """The success rate of each run, ``(n,)``."""
    return np.array([np.mean([*run.values()]) for run in runs], dtype=np.float64)


def _are_binary(task: _Task) -> bool:
    return all(((own == 0) | (own == 1)).all() for own in (task.first, task.second))


def _same_goals(results: Sequence[EvaluationResult]) -> bool:
    """Whether the episodes of one goal (or of one number, of goals from a seed) belong together."""
    described = [one.provenance for one in results]
    if any(one is None or one.goals is None for one in described):
        return False
    if len({one.goals for one in described if one is not None}) > 1:
        return False
    return not _continuous(results[0]) or len({one.seed for one in results}) == 1


def _continuous(result: EvaluationResult) -> bool:
    """Whether each episode has a goal of its own, which its number and the seed determine."""
    spec = result.provenance and result.provenance.spec
    return bool(spec) and dict(spec or {}).get("kwargs", {}).get("goals") == "continuous"


def _successes(result: EvaluationResult, task: str) -> dict[Any, float]:
    """The success at each goal of a task; of a trial's or a goal's several episodes the mean."""
    found: dict[Any, list[float]] = {}
    numbered, fields = _continuous(result), result.protocol
    rules = None if fields is None else Rules.from_dict(fields)
    for one in result.of_task(task):
        key = one.number if one.trial is None else ("trial", one.trial)
        if one.task_state is not None and not numbered:
            key = one.task_state
        success = one.success_once if rules is None else succeeded(one, rules)
        found.setdefault(key, []).append(float(bool(success)))
    return {key: float(np.mean(values)) for key, values in found.items()}
