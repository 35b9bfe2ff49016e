"""Padded processors for DiCE: paths as rows of one length, with a mask of what is real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.checks import positive
from mtwrappers.log import LogSink
from mtwrappers.processors.baselines import Baseline
from mtwrappers.processors.batch import PathBatch
from mtwrappers.processors.returns import discounted_sums, gae, normalized, shifted_to_positive
from mtwrappers.processors.sample import (
    Floats,
    SampleProcessor,
    SamplesData,
    check_baseline,
    fit_predict,
    last_values,
    task_batches,
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
        pad = _Padding(batch, self.max_path_length)
        returns = discounted_sums(batch.rewards, self.discount, batch.ends)
        discounted = batch.rewards * self.discount ** batch.times()
        predicted = fit_predict(self.baseline, batch, discounted, "discounted_rewards")
        data: SamplesData = {
            "mask": pad.mask,
            "observations": pad.pad(batch.observations),
            "actions": pad.gather("actions"),
            "rewards": pad.pad(batch.rewards),
            "returns": pad.pad(returns),
            "adjusted_rewards": pad.pad(self._shape(discounted - predicted)),
            "env_infos": pad.gather("env_infos"),
            "agent_infos": pad.gather("agent_infos"),
        }
        if self.return_baseline is not None:
            values = fit_predict(self.return_baseline, batch, returns, "returns")
            if self.bootstrap_truncated:
                after = last_values(self.return_baseline, batch)
            else:
                after = np.zeros(len(batch.lengths))
            advantages = gae(
                batch.rewards, values, after, self.discount, self.gae_lambda, batch.ends
            )
            data["advantages"] = pad.pad(self._shape(advantages))
        return data, returns

    def _shape(self, values: Floats) -> Floats:
        """Normalises and shifts real steps."""
        if self.normalize_adv:
            values = normalized(values)
        if self.positive_adv:
            values = shifted_to_positive(values)
        return values


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
    """Where the steps of a batch stand among rows of one length."""

    def __init__(self, batch: PathBatch, length: int) -> None:
        self._batch, self._length = batch, length
        rows = np.repeat(np.arange(len(batch.lengths)), batch.lengths)
        self._where = rows * length + batch.times().astype(np.intp)
        self.mask: NDArray[np.float64] = self.pad(np.ones(len(batch.rewards)))

    def pad(self, values: NDArray[Any]) -> NDArray[Any]:
        """Steps ``(S, ...)`` as rows ``(P, T, ...)``, zero behind the ends."""
        paths = len(self._batch.lengths)
        rows = np.zeros((paths * self._length, *values.shape[1:]), values.dtype)
        rows[self._where] = values
        return rows.reshape(paths, self._length, *values.shape[1:])

    def gather(self, key: str) -> Any:
        """A key of all paths, padded, in dicts as it comes."""
        return self._pad_each([path.get(key, {}) for path in self._batch.paths])

    def _pad_each(self, values: Sequence[Any]) -> Any:
        first = values[0]
        if isinstance(first, Mapping):
            return {key: self._pad_each([value[key] for value in values]) for key in first}
        shape = (len(values), self._length, *np.shape(first)[1:])
        rows = np.zeros(shape, np.result_type(*{np.asarray(value).dtype for value in values}))
        for row, value in zip(rows, values, strict=True):
            row[: len(value)] = value
        return rows
