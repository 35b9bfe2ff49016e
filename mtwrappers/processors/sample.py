"""Flat processors: the steps of all paths of a task, one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.checks import check_fraction
from mtwrappers.log import LogSink, resolve_sink
from mtwrappers.processors.baselines import Baseline, LinearBaseline, ZeroBaseline
from mtwrappers.processors.batch import PathBatch, task_batches
from mtwrappers.processors.returns import discounted_sums, gae, normalized, shifted_to_positive
from mtwrappers.samplers.trajectory import Path

Floats = NDArray[np.float64]
SamplesData = dict[str, Any]


def check_baseline(baseline: Any) -> Baseline:
    """Returns a baseline.

    Raises:
        TypeError: If it has no ``fit`` and ``predict``.
    """
    if not all(callable(getattr(baseline, name, None)) for name in ("fit", "predict")):
        raise TypeError(f"a baseline must have fit and predict, got {baseline!r}")
    made: Baseline = baseline
    return made


def fit_predict(baseline: Baseline, batch: PathBatch, targets: Floats, key: str) -> Floats:
    """Fits a baseline to targets ``(S,)`` and predicts them, path by path if it must be."""
    if isinstance(baseline, (LinearBaseline, ZeroBaseline)) and _is_ours(baseline):
        return baseline.fit_predict(batch, targets)
    split = np.split(targets, batch.ends[:-1] + 1)
    paths = [{**path, key: own} for path, own in zip(batch.paths, split, strict=True)]
    baseline.fit(paths, target_key=key)
    return np.concatenate([baseline.predict(path) for path in paths])


def _is_ours(baseline: Baseline) -> bool:
    """Whether fit and predict are this package's own, which can be done for a batch at once."""
    own = (LinearBaseline, ZeroBaseline)
    cls = type(baseline)
    return any(cls.fit is base.fit and cls.predict is base.predict for base in own)


def last_values(baseline: Baseline, batch: PathBatch) -> Floats:
    """The baseline's value after the last step of each truncated path, zero for the others.

    Raises:
        ValueError: If a truncated path has no ``next_observation``.
    """
    values = np.zeros(len(batch.lengths))
    cut = np.flatnonzero(batch.bootstrapped())
    for i in cut.tolist():
        if batch.paths[i].get("next_observation") is None:
            raise ValueError(
                f"path {i} is truncated and has no next_observation to bootstrap from "
                f"({batch.what})"
            )
    if not len(cut):
        return values
    following = np.stack([batch.paths[i]["next_observation"] for i in cut.tolist()])
    if isinstance(baseline, LinearBaseline) and _is_ours(baseline):
        values[cut] = baseline.predict_steps(following, batch.lengths[cut].astype(np.float64))
        return values
    for i, observation in zip(cut.tolist(), following, strict=True):
        path = batch.paths[i]
        longer = np.concatenate([path["observations"], observation[None]])
        values[i] = baseline.predict({**path, "observations": longer})[-1]
    return values


class SampleProcessor:
    """Turns the paths of one task into a training batch of flat arrays.

    Returns are discounted sums of rewards, the baseline is fitted to them, and advantages are
    generalized advantage estimates; see `mtwrappers.processors.returns`. The name, the arguments
    and the keys are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784). Paths are not changed.

    Args:
        baseline: Predicts returns; see `mtwrappers.processors.baselines`.
        discount: In [0, 1].
        gae_lambda: In [0, 1].
        normalize_adv: Whether advantages get mean 0 and standard deviation 1.
        positive_adv: Whether advantages are then shifted to be positive.
        bootstrap_truncated: Whether a path that a time limit cut (and no terminal state ended) is
            worth the baseline's value of its ``next_observation`` after its last step. ProMP's
            is 0.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`.

    Raises:
        ValueError: If ``discount`` or ``gae_lambda`` is outside [0, 1].
        TypeError: If the baseline is none.
    """

    def __init__(
        self,
        baseline: Baseline,
        discount: float = 0.99,
        gae_lambda: float = 1.0,
        normalize_adv: bool = False,
        positive_adv: bool = False,
        *,
        bootstrap_truncated: bool = False,
        log_sink: LogSink | None = None,
    ) -> None:
        self.baseline = check_baseline(baseline)
        self.discount = check_fraction(discount, "discount")
        self.gae_lambda = check_fraction(gae_lambda, "gae_lambda")
        self.normalize_adv = normalize_adv
        self.positive_adv = positive_adv
        self.bootstrap_truncated = bootstrap_truncated
        self._sink = resolve_sink(log_sink)

    def process_samples(self, paths: Any, log: bool = False, log_prefix: str = "") -> Any:
        """Makes the batch of one task's paths.

        Args:
            paths: A list of paths; see `mtwrappers.samplers.trajectory`.
            log: Whether to log returns.
            log_prefix: Put before every key.

        Returns:
            ``observations`` ``(S, O)``, ``actions`` ``(S, A)``, ``rewards``, ``returns`` and
            ``advantages`` ``(S,)``, ``env_infos`` and ``agent_infos``.

        Raises:
            ValueError: If the paths are malformed or a reward is NaN.
        """
        batch = PathBatch(paths)
        data, returns = self._process(batch)
        if log:
            self._log([batch], [returns], log_prefix)
        return data

    def _process(self, batch: PathBatch) -> tuple[SamplesData, Floats]:
        returns = discounted_sums(batch.rewards, self.discount, batch.ends)
        data = {
            "observations": batch.observations,
            "actions": batch.gather("actions"),
            "rewards": batch.rewards,
            "returns": returns,
            "advantages": self._advantages(self.baseline, batch, returns),
            "env_infos": batch.gather("env_infos"),
            "agent_infos": batch.gather("agent_infos"),
        }
        return data, returns

    def _advantages(self, baseline: Baseline, batch: PathBatch, returns: Floats) -> Floats:
        """Advantages of all steps, ``(S,)``, over a baseline that is fitted to the returns."""
        values = fit_predict(baseline, batch, returns, "returns")
        if self.bootstrap_truncated:
            after = last_values(baseline, batch)
        else:
            after = np.zeros(len(batch.lengths))
        return self._rescaled(
            gae(batch.rewards, values, after, self.discount, self.gae_lambda, batch.ends)
        )

    def _rescaled(self, values: Floats) -> Floats:
        """Normalises and shifts what is known of real steps, ``(S,)``."""
        if self.normalize_adv:
            values = normalized(values)
        if self.positive_adv:
            values = shifted_to_positive(values)
        return values

    def _log(self, batches: Sequence[PathBatch], returns: Sequence[Floats], prefix: str) -> None:
        """Logs over all paths: first returns are discounted, sums of rewards are not."""
        sums = np.concatenate([np.add.reduceat(b.rewards, b.ends - b.lengths + 1) for b in batches])
        first = np.concatenate(
            [r[b.ends - b.lengths + 1] for b, r in zip(batches, returns, strict=True)]
        )
        figures = {
            "AverageDiscountedReturn": np.mean(first),
            "AverageReturn": np.mean(sums),
            "NumTrajs": len(sums),
            "StdReturn": np.std(sums),
            "MaxReturn": np.max(sums),
            "MinReturn": np.min(sums),
        }
        for key, value in figures.items():
            self._sink(f"{prefix}{key}", float(value))


class MetaSampleProcessor(SampleProcessor):
    """Turns the paths of a batch of tasks into a batch for each task.

    The baseline is fitted to each task on its own. Each batch also has ``adj_avg_rewards``: the
    rewards less their mean over all tasks, over their standard deviation (E-MAML, Stadie et al.
    2018, as in ProMP).
    """

    def process_samples(
        self, paths: Mapping[Any, Sequence[Path]], log: bool = False, log_prefix: str = ""
    ) -> list[SamplesData]:
        """Makes the batches, in the order of the tasks.

        Args:
            paths: The paths of each task, by its index.
            log: Whether to log returns.
            log_prefix: Put before every key.

        Raises:
            ValueError: If there are no tasks, the paths are malformed, or a reward is NaN; the
                message names the task.
        """
        batches = task_batches(paths)
        processed = [self._process(batch) for batch in batches]
        rewards = np.concatenate([batch.rewards for batch in batches])
        mean, std = np.mean(rewards), np.std(rewards)
        for data, _ in processed:
            data["adj_avg_rewards"] = (data["rewards"] - mean) / (std + 1e-8)
        if log:
            self._log(batches, [returns for _, returns in processed], log_prefix)
        return [data for data, _ in processed]
