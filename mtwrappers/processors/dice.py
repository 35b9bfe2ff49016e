"""Padded processors for DiCE: paths as rows of one length, with a mask of real steps."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.checks import LogSink, check_flag, positive
from mtwrappers.common.types import AnyArray
from mtwrappers.processors.baselines import Baseline, check_baseline, fit_predict
from mtwrappers.processors.batches import DiceMetaSamplesData, DiceSamplesData
from mtwrappers.processors.processors import HINTS, Log, PathsOfTasks, SampleProcessor
from mtwrappers.processors.returns import gae, steps_before
from mtwrappers.processors.steps import Steps, join_task_steps
from mtwrappers.samplers.nested import map_arrays
from mtwrappers.samplers.path import Path


class DiceSampleProcessor(SampleProcessor):
    r"""Turns the paths of one task into arrays of ``P`` paths times ``max_path_length`` steps.

    Entries after a path's end are zero, and ``mask`` is one for real steps. For the DiCE estimator
    (Foerster et al. 2018, arXiv:1802.05098), ``adjusted_rewards`` are discounted rewards
    :math:`\gamma^t r_t` minus the baseline, which is fitted to these discounted rewards. With a
    ``return_baseline``, the batch also has ``advantages``, equal to `SampleProcessor`'s.

    Args:
        baseline: Predicts discounted rewards; has ``fit`` and ``predict``.
        max_path_length: The length of the rows, in steps.
        discount: In [0, 1].
        gae_lambda: In [0, 1]; only for ``advantages``.
        normalize_adv: Whether to normalize ``adjusted_rewards`` and ``advantages`` to mean 0 and
            standard deviation 1 over the real steps.
        positive_adv: Whether to shift both to positive values afterwards.
        return_baseline: Predicts returns, for ``advantages``; has ``fit`` and ``predict``.
        bootstrap_truncated: Whether ``advantages`` are bootstrapped at a time limit, see
            `SampleProcessor`; the ``return_baseline`` then needs ``fit_bootstrapped``.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`.

    Raises:
        ValueError: If ``discount`` or ``gae_lambda`` is outside [0, 1], ``max_path_length`` is not
            positive, or there is no ``return_baseline`` that ``bootstrap_truncated`` can fit.
        TypeError: If a baseline has no ``fit`` and ``predict``, or another argument has the wrong
            type.

    >>> import numpy as np
    >>> import mtwrappers as mt
    >>> def policy(observations):
    ...     return np.full((len(observations), 2), 0.1)
    >>> paths = mt.Sampler(mt.PointGoalEnv(), policy, 2, 20, seed=0).obtain_samples()
    >>> processor = mt.DiceSampleProcessor(mt.LinearTimeBaseline(), max_path_length=25)
    >>> batch = processor.process_samples(paths)
    >>> batch["adjusted_rewards"].shape, batch["mask"].sum(axis=1)
    ((2, 25), array([20., 20.]))
    """

    @explains_arguments(hints=HINTS)
    def __init__(
        self,
        baseline: Baseline,
        max_path_length: int,
        discount: float = 0.99,
        gae_lambda: float = 1.0,
        normalize_adv: bool = True,
        positive_adv: bool = False,
        return_baseline: Baseline | None = None,
        *,
        bootstrap_truncated: bool = False,
        log_sink: LogSink | logging.Logger | None = None,
    ) -> None:
        super().__init__(
            baseline, discount, gae_lambda, normalize_adv, positive_adv, log_sink=log_sink
        )
        self.max_path_length = positive(max_path_length, "max_path_length")
        self.bootstrap_truncated = check_flag(bootstrap_truncated, "bootstrap_truncated")
        if return_baseline is not None:
            check_baseline(return_baseline, bootstrap_truncated)
        elif bootstrap_truncated:
            raise ValueError("bootstrap_truncated needs a return_baseline, which is None")
        self.return_baseline = return_baseline

    # The batch has other keys, as ProMP's has.
    def process_samples(  # type: ignore[override]
        self, paths: Sequence[Path], log: Log = False, log_prefix: str = ""
    ) -> DiceSamplesData:
        """Makes the padded batch of one task's paths.

        Args:
            paths: A list of paths of at most ``max_path_length`` steps.
            log: Whether to log returns: all figures, or only their mean with ``"reward"``.
            log_prefix: A prefix of every logged key.

        Raises:
            ValueError: If the paths are malformed or too long, or an observation, a reward or a
                prediction is not finite; the message names path and step.
        """
        data: DiceSamplesData = self._batches([Steps(paths, "paths")], log, log_prefix)[0]
        return data

    def _batch(self, steps: Steps) -> Any:
        """Makes the padded batch of one task."""
        # 1. Rows: one per path; where their steps are real.
        for i, length in enumerate(steps.lengths):
            if length > self.max_path_length:
                raise ValueError(
                    f"path {i} of {steps.label} has {length} steps, at most "
                    f"max_path_length={self.max_path_length} were expected"
                )
        real = np.arange(self.max_path_length) < np.array(steps.lengths)[:, None]
        # 2. Returns: discounted sums of rewards.
        returns = steps.returns(self.discount)
        # 3. Adjusted rewards: discount the rewards, fit the baseline to them, and subtract it.
        powers = np.cumprod([1.0, *[self.discount] * (self.max_path_length - 1)])
        discounted = steps.rewards * powers[steps_before(steps.lengths)]
        predicted, _ = fit_predict(self.baseline, steps, discounted, "discounted_rewards")
        adjusted = self._rescale(discounted - predicted)
        mask = np.ones(len(returns))
        batch = {**steps.data, "mask": mask, "returns": returns, "adjusted_rewards": adjusted}
        # 4. Advantages, as in a flat batch, if there is a baseline of returns.
        if self.return_baseline is not None:
            bootstrap = self.discount if self.bootstrap_truncated else None
            values, last_values = fit_predict(
                self.return_baseline, steps, returns, "returns", bootstrap
            )
            batch["advantages"] = self._rescale(
                gae(
                    steps.rewards,
                    values,
                    last_values,
                    self.discount,
                    self.gae_lambda,
                    steps.lengths,
                )
            )
        # 5. The batch: arrays (P, T, ...), a row per path and zeros behind its end.
        return map_arrays(lambda values: _fill_rows(values, real), batch)


def _fill_rows(values: AnyArray, real: NDArray[np.bool_]) -> AnyArray:
    """Values ``(S, ...)`` where ``real``, ``(P, T)`` bool, and zeros elsewhere: ``(P, T, ...)``."""
    if real.all():  # no path ended early: the steps are the rows
        return values.reshape(real.shape + values.shape[1:])
    rows = np.zeros(real.shape + values.shape[1:], values.dtype)
    rows[real] = values
    return rows


class DiceMetaSampleProcessor(DiceSampleProcessor):
    """Turns the paths of several tasks into a padded batch for each.

    The baselines are fitted to each task anew. Each batch also has ``adj_avg_rewards``: the rewards
    minus their mean, divided by their standard deviation plus 1e-8, both over the steps of all
    tasks (E-MAML, Stadie et al. 2018, as in ProMP).

    Args:
        baseline: Predicts discounted rewards; has ``fit`` and ``predict``.
        max_path_length: The length of the rows, in steps.
        discount: In [0, 1].
        gae_lambda: In [0, 1]; only for ``advantages``.
        normalize_adv: Whether to normalize ``adjusted_rewards`` and ``advantages`` to mean 0 and
            standard deviation 1 over the real steps of a task.
        positive_adv: Whether to shift both to positive values afterwards.
        return_baseline: Predicts returns, for ``advantages``; has ``fit`` and ``predict``.
        bootstrap_truncated: Whether ``advantages`` are bootstrapped at a time limit, see
            `SampleProcessor`; the ``return_baseline`` then needs ``fit_bootstrapped``.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`.

    Raises:
        ValueError: If ``discount`` or ``gae_lambda`` is outside [0, 1], ``max_path_length`` is not
            positive, or there is no ``return_baseline`` that ``bootstrap_truncated`` can fit.
        TypeError: If a baseline has no ``fit`` and ``predict``, or another argument has the wrong
            type.

    >>> import numpy as np
    >>> import mtwrappers as mt
    >>> def policy(observations):
    ...     return np.full((len(observations), 2), 0.1)
    >>> # 2 paths of each of 3 tasks
    >>> sampler = mt.MetaSampler(mt.PointGoalEnv(), policy, 2, 3, 20, seed=0)
    >>> tasks = sampler.update_tasks()
    >>> processor = mt.DiceMetaSampleProcessor(mt.LinearTimeBaseline(), max_path_length=20)
    >>> batches = processor.process_samples(sampler.obtain_samples())
    >>> len(batches), batches[0]["adjusted_rewards"].shape
    (3, (2, 20))
    """

    # Takes the paths of all tasks, as ProMP's does.
    def process_samples(  # type: ignore[override]
        self, paths_meta_batch: PathsOfTasks, log: Log = False, log_prefix: str = ""
    ) -> list[DiceMetaSamplesData]:
        """Makes the padded batches, in the order of the tasks, and logs over the paths of all.

        Args:
            paths_meta_batch: The paths of each task, of at most ``max_path_length`` steps: a dict
                by the task's index, as `MetaSampler` returns it, or a list over the tasks.
            log: Whether to log returns: all figures, or only their mean with ``"reward"``.
            log_prefix: A prefix of every logged key.

        Raises:
            ValueError: If there are no tasks, paths are malformed or too long, or an observation, a
                reward or a prediction is not finite; the message names task, path and step.
        """
        return self._batches(join_task_steps(paths_meta_batch), log, log_prefix)
