"""Flat processors: batches of all steps of the paths of one or several tasks.

The names, the arguments and the keys are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.checks import (
    LogSink,
    check_choice,
    check_flag,
    check_fraction,
    check_log_sink,
)
from mtwrappers.processors.baselines import Baseline, check_baseline, fit_predict
from mtwrappers.processors.batches import MetaSamplesData, SamplesData
from mtwrappers.processors.returns import Floats, gae
from mtwrappers.processors.steps import Steps, join_task_steps
from mtwrappers.samplers.path import Path

Log: TypeAlias = bool | Literal["all", "reward"]
# What to pass for arguments that other libraries name otherwise, or that are missing.
HINTS = {
    "gamma": "did you mean 'discount'?",
    "lam": "did you mean 'gae_lambda'?",
    "baseline": "pass one such as mtwrappers.LinearFeatureBaseline()",
}
PathsOfTasks: TypeAlias = Mapping[Any, Sequence[Path]] | Sequence[Sequence[Path]]


class SampleProcessor:
    """Turns the paths of one task into a training batch of flat arrays.

    Returns are discounted sums of rewards, the baseline is fitted to them, and advantages are
    generalized advantage estimates; see `mtwrappers.processors.returns`. Paths are not changed.

    Args:
        baseline: Predicts returns; has ``fit`` and ``predict``, see
            `mtwrappers.processors.baselines.Baseline`.
        discount: In [0, 1].
        gae_lambda: In [0, 1].
        normalize_adv: Whether to normalize advantages to mean 0 and standard deviation 1.
        positive_adv: Whether to shift advantages to positive values afterwards.
        bootstrap_truncated: Whether to bootstrap paths that were truncated and not terminated: the
            value after the last step is the baseline's value of ``next_observation``, not 0 as in
            ProMP. The baseline is then fitted to bootstrapped returns, for which it needs
            ``fit_bootstrapped``; ``returns`` in the batch are still sums of rewards.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`.

    Raises:
        ValueError: If ``discount`` or ``gae_lambda`` is outside [0, 1], or ``bootstrap_truncated``
            is set and the baseline has no ``fit_bootstrapped``.
        TypeError: If the baseline has no ``fit`` and ``predict``, or another argument has the wrong
            type.

    >>> import numpy as np
    >>> import mtwrappers as mt
    >>> def policy(observations):
    ...     return np.full((len(observations), 2), 0.1)
    >>> paths = mt.Sampler(mt.PointGoalEnv(), policy, 2, 20, seed=0).obtain_samples()
    >>> processor = mt.SampleProcessor(mt.LinearFeatureBaseline(), discount=0.99, gae_lambda=0.95)
    >>> batch = processor.process_samples(paths)
    >>> batch["observations"].shape, batch["advantages"].shape
    ((40, 2), (40,))
    """

    @explains_arguments(hints=HINTS)
    def __init__(
        self,
        baseline: Baseline,
        discount: float = 0.99,
        gae_lambda: float = 1.0,
        normalize_adv: bool = False,
        positive_adv: bool = False,
        *,
        bootstrap_truncated: bool = False,
        log_sink: LogSink | logging.Logger | None = None,
    ) -> None:
        self.baseline = check_baseline(baseline, bootstrap_truncated)
        self.discount = check_fraction(discount, "discount")
        self.gae_lambda = check_fraction(gae_lambda, "gae_lambda")
        self.normalize_adv = check_flag(normalize_adv, "normalize_adv")
        self.positive_adv = check_flag(positive_adv, "positive_adv")
        self.bootstrap_truncated = check_flag(bootstrap_truncated, "bootstrap_truncated")
        self._sink = check_log_sink(log_sink)

    def process_samples(
        self, paths: Sequence[Path], log: Log = False, log_prefix: str = ""
    ) -> SamplesData:
        """Makes the batch of one task's paths.

        Args:
            paths: A list of paths; see `mtwrappers.samplers.path`.
            log: Whether to log statistics of returns; ``"reward"`` logs only their mean.
            log_prefix: A prefix of every logged key.

        Raises:
            ValueError: If ``log`` is something else, the paths are malformed, or a value is not
                finite; the message names path and step.
        """
        data: SamplesData = self._batches([Steps(paths, "paths")], log, log_prefix)[0]
        return data

    def _batches(self, tasks: list[Steps], log: Log, prefix: str) -> list[Any]:
        """Makes a batch for each task, and logs the returns of the paths of all tasks."""
        log = check_choice(log, (True, False, "all", "reward"), "log")
        batches = [self._batch(steps) for steps in tasks]
        if log:
            sums, first = [], []
            for steps in tasks:
                sums.append(np.add.reduceat(steps.rewards, steps.starts))
                returns = steps.returns(self.discount)
                first.append(returns[steps.starts])
            figures = {
                "AverageDiscountedReturn": np.mean(np.concatenate(first)),
                "AverageReturn": np.mean(np.concatenate(sums)),
                "NumTrajs": sum(map(len, sums)),
                "StdReturn": np.std(np.concatenate(sums)),
                "MaxReturn": np.max(np.concatenate(sums)),
                "MinReturn": np.min(np.concatenate(sums)),
            }
            for key in ("AverageReturn",) if log == "reward" else figures:
                self._sink(f"{prefix}{key}", float(figures[key]))
        return batches

    def _batch(self, steps: Steps) -> Any:
        """Makes the flat batch of one task."""
        # 1. Returns: discounted sums of rewards.
        returns = steps.returns(self.discount)
        # 2. Values: fit the baseline to the returns, and predict each step and the state after it.
        bootstrap = self.discount if self.bootstrap_truncated else None
        values, last_values = fit_predict(self.baseline, steps, returns, "returns", bootstrap)
        # 3. Advantages: generalized advantage estimates over these values.
        advantages = self._rescale(
            gae(steps.rewards, values, last_values, self.discount, self.gae_lambda, steps.lengths)
        )
        # 4. The batch: arrays (S, ...), one path after another.
        return {**steps.data, "returns": returns, "advantages": advantages}

    def _rescale(self, values: Floats) -> Floats:
        """Normalizes values ``(S,)`` and makes them positive, if the settings ask for it."""
        if self.normalize_adv:
            values = (values - np.mean(values)) / (np.std(values) + 1e-8)
        if self.positive_adv:
            values = values - np.min(values) + 1e-8
        return values


class MetaSampleProcessor(SampleProcessor):
    """Turns the paths of several tasks into a flat batch for each.

    The baseline is fitted to each task anew. Each batch also has ``adj_avg_rewards``: the rewards
    minus their mean, divided by their standard deviation plus 1e-8, both over the steps of all
    tasks (E-MAML, Stadie et al. 2018, as in ProMP).

    Args:
        baseline: Predicts returns; has ``fit`` and ``predict``, see
            `mtwrappers.processors.baselines.Baseline`.
        discount: In [0, 1].
        gae_lambda: In [0, 1].
        normalize_adv: Whether to normalize advantages to mean 0 and standard deviation 1 over the
            steps of a task.
        positive_adv: Whether to shift advantages to positive values afterwards.
        bootstrap_truncated: Whether to bootstrap paths that were truncated and not terminated; see
            `SampleProcessor`.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`.

    Raises:
        ValueError: If ``discount`` or ``gae_lambda`` is outside [0, 1], or ``bootstrap_truncated``
            is set and the baseline has no ``fit_bootstrapped``.
        TypeError: If the baseline has no ``fit`` and ``predict``, or another argument has the wrong
            type.

    >>> import numpy as np
    >>> import mtwrappers as mt
    >>> def policy(observations):
    ...     return np.full((len(observations), 2), 0.1)
    >>> # 2 paths of each of 3 tasks
    >>> sampler = mt.MetaSampler(mt.PointGoalEnv(), policy, 2, 3, 20, seed=0)
    >>> tasks = sampler.update_tasks()
    >>> processor = mt.MetaSampleProcessor(mt.LinearFeatureBaseline())
    >>> batches = processor.process_samples(sampler.obtain_samples())
    >>> len(batches), batches[0]["advantages"].shape
    (3, (40,))
    """

    # Takes the paths of all tasks, as ProMP's does.
    def process_samples(  # type: ignore[override]
        self, paths_meta_batch: PathsOfTasks, log: Log = False, log_prefix: str = ""
    ) -> list[MetaSamplesData]:
        """Makes the batches in the order of the tasks; logs cover the paths of all tasks.

        Args:
            paths_meta_batch: The paths of each task: a dict by task index, as from `MetaSampler`,
                or a list with an entry per task, as `few_shot_evaluate` passes to ``adapt``.
            log: Whether to log returns: all figures, or only their mean with ``"reward"``.
            log_prefix: A prefix of every logged key.

        Raises:
            ValueError: If there are no tasks, paths are malformed, or an observation, a reward or a
                prediction is not finite; the message names task, path and step.
        """
        return self._batches(join_task_steps(paths_meta_batch), log, log_prefix)
