"""Padded processors for DiCE: paths as rows of one length, with a mask of what is real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.checks import positive
from mtwrappers.log import LogSink
from mtwrappers.processors.baselines import Baseline
from mtwrappers.processors.batch import PathBatch, task_batches
from mtwrappers.processors.returns import discounted_sums
from mtwrappers.processors.sample import (
    Floats,
    SampleProcessor,
    SamplesData,
    check_baseline,
    fit_predict,
)
from mtwrappers.samplers.trajectory import Path


class DiceSampleProcessor(SampleProcessor):
    r"""Turns the paths of one task into arrays of ``P`` paths times ``max_path_length`` steps.

    What lies behind a path's end is zero, and ``mask`` is one where a step is real. For the DiCE
    estimator (Foerster et al. 2018, arXiv:1802.05098) ``adjusted_rewards`` are discounted rewards
    :math:`\gamma^t r_t` less the baseline, which is fitted to those discounted rewards. With a
    ``return_baseline`` there are ``advantages`` too, which agree with `SampleProcessor`'s.

    Args:
        baseline: Predicts discounted rewards.
        max_path_length: The length of the rows.
        discount: See `SampleProcessor`, as for the next four.
        gae_lambda: See `SampleProcessor`.
        normalize_adv: Applies to ``adjusted_rewards`` and ``advantages``; real steps count alone.
        positive_adv: Likewise.
        return_baseline: Predicts returns, for ``advantages``.
        bootstrap_truncated: See `SampleProcessor`; concerns ``advantages``.
        log_sink: See `SampleProcessor`.

    Raises:
        ValueError: If a fraction is outside [0, 1] or ``max_path_length`` is not positive.
        TypeError: If a baseline is none.
    """

    def __init__(
        self,
        baseline: Baseline,
        max_path_length: int,
        discount: float = 0.99,
        gae_lambda: float = 1.0,
        normalize_adv: bool = False,
        positive_adv: bool = False,
        return_baseline: Baseline | None = None,
        *,
        bootstrap_truncated: bool = False,
        log_sink: LogSink | None = None,
    ) -> None:
        super().__init__(
            baseline,
            discount,
            gae_lambda,
            normalize_adv,
            positive_adv,
            bootstrap_truncated=bootstrap_truncated,
            log_sink=log_sink,
        )
        self.max_path_length = positive(max_path_length, "max_path_length")
        self.return_baseline = None if return_baseline is None else check_baseline(return_baseline)

    def process_samples(self, paths: Any, log: bool = False, log_prefix: str = "") -> Any:
        """Makes the padded batch of one task's paths.

        Returns:
            ``mask`` ``(P, T)``, ``observations`` ``(P, T, O)``, ``actions`` ``(P, T, A)``,
            ``rewards``, ``returns`` and ``adjusted_rewards`` ``(P, T)``, ``env_infos`` and
            ``agent_infos``, with a ``return_baseline`` ``advantages`` ``(P, T)``.

        Raises:
            ValueError: If the paths are malformed, a reward is NaN, or a path is longer than
                ``max_path_length``.
        """
        return super().process_samples(paths, log, log_prefix)

    def _process(self, batch: PathBatch) -> tuple[SamplesData, Floats]:
        longest = int(np.argmax(batch.lengths))
        if batch.lengths[longest] > self.max_path_length:
            raise ValueError(
                f"path {longest} of {batch.what} has {batch.lengths[longest]} steps, at most "
                f"max_path_length={self.max_path_length} were expected"
            )
        pad = _Padding(batch.lengths, self.max_path_length)
        returns = discounted_sums(batch.rewards, self.discount, batch.ends)
        discounted = batch.rewards * self.discount ** batch.times()
        predicted = fit_predict(self.baseline, batch, discounted, "discounted_rewards")
        data: SamplesData = {
            "mask": pad.mask.astype(np.float64),
            "observations": pad.rows(batch.observations)
            if pad.full
            else batch.gather("observations", pad.join),
            "actions": batch.gather("actions", pad.join),
            "rewards": pad.rows(batch.rewards),
            "returns": pad.rows(returns),
            "adjusted_rewards": pad.rows(self._rescaled(discounted - predicted)),
            "env_infos": batch.gather("env_infos", pad.join),
            "agent_infos": batch.gather("agent_infos", pad.join),
        }
        if self.return_baseline is not None:
            data["advantages"] = pad.rows(self._advantages(self.return_baseline, batch, returns))
        return data, returns


class DiceMetaSampleProcessor(DiceSampleProcessor):
    """Turns the paths of a batch of tasks into a padded batch for each task."""

    def process_samples(
        self, paths: Mapping[Any, Sequence[Path]], log: bool = False, log_prefix: str = ""
    ) -> list[SamplesData]:
        """Makes the batches, in the order of the tasks.

        Args:
            paths: The paths of each task, by its index.
            log: Whether to log returns.
            log_prefix: Put before every key.

        Raises:
            ValueError: If there are no tasks, the paths are malformed, a reward is NaN, or a path
                is longer than ``max_path_length``; the message names the task.
        """
        batches = task_batches(paths)
        processed = [self._process(batch) for batch in batches]
        if log:
            self._log(batches, [returns for _, returns in processed], log_prefix)
        return [data for data, _ in processed]


class _Padding:
    """Where the steps of some paths stand among rows of one length.

    Where every path is as long as the rows, as without early ends, rows are the steps themselves.

    Args:
        lengths: Steps of each path, ``(P,)``.
        length: The length of the rows, ``T``.

    Attributes:
        full: Whether every path is as long as the rows.
        mask: Which steps are real, ``(P, T)`` bool.
    """

    def __init__(self, lengths: NDArray[np.intp], length: int) -> None:
        self._shape = (len(lengths), length)
        self._missing = (length - lengths).tolist()
        self.full = not any(self._missing)
        self.mask: NDArray[np.bool_] = np.arange(length) < lengths[:, None]

    def rows(self, steps: NDArray[Any]) -> NDArray[Any]:
        """Steps ``(S, ...)`` as rows ``(P, T, ...)``, zero behind the ends."""
        if self.full:
            return steps.reshape(*self._shape, *steps.shape[1:])
        rows = np.zeros((*self._shape, *steps.shape[1:]), steps.dtype)
        rows[self.mask] = steps
        return rows

    def join(self, values: Sequence[Any]) -> NDArray[Any]:
        """Arrays ``(t, ...)``, one a path, as rows ``(P, T, ...)``: each step is copied once."""
        if self.full:
            return self.rows(np.concatenate(values))
        first = np.asarray(values[0])
        zeros = np.zeros((max(self._missing), *first.shape[1:]), first.dtype)
        pieces: list[Any] = [zeros] * (2 * len(values))
        pieces[::2] = values
        pieces[1::2] = [zeros[:missing] for missing in self._missing]
        joined: NDArray[Any] = np.concatenate(pieces)
        return joined.reshape(*self._shape, *first.shape[1:])
