"""Baselines: predictions of a target, such as the return, for each step of a path."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_fraction, zero_or_above
from mtwrappers.common.types import AnyArray, State
from mtwrappers.processors.returns import Floats, steps_before
from mtwrappers.processors.steps import (
    Steps,
    check_finite,
    check_keys,
    cut_observations,
    join_steps,
)
from mtwrappers.samplers.path import Path
from mtwrappers.state.registry import require_names


class Baseline(abc.ABC):
    """Predicts a number for each step of a path, after a fit to paths.

    For processors with ``bootstrap_truncated=True`` it also needs
    ``fit_bootstrapped(paths, discount, target_key="returns")``, as `LinearFeatureBaseline` has.

    >>> import numpy as np
    >>> import mtwrappers as mt
    >>> from mtwrappers.processors.baselines import Baseline
    >>> class MeanBaseline(Baseline):
    ...     def fit(self, paths, target_key="returns"):
    ...         self.mean = np.concatenate([path[target_key] for path in paths]).mean()
    ...     def predict(self, path):
    ...         return np.full(len(path["observations"]), self.mean)
    >>> policy = lambda observations: np.full((len(observations), 2), 0.1)
    >>> paths = mt.Sampler(mt.PointGoalEnv(), policy, 2, 20, seed=0).obtain_samples()
    >>> batch = mt.SampleProcessor(MeanBaseline()).process_samples(paths)
    >>> batch["advantages"].shape
    (40,)
    """

    @abc.abstractmethod
    def fit(self, paths: Sequence[Path], target_key: str = "returns") -> None:
        """Fits the baseline to ``path[target_key]``, ``(T,)``, of each path."""

    @abc.abstractmethod
    def predict(self, path: Path) -> Floats:
        """Returns a prediction for each row of ``path["observations"]``, ``(T,)``."""

    def get_param_values(self) -> Any:
        """Returns the parameters, or ``None`` if there are none."""
        return None

    def set_params(self, value: Any) -> None:  # noqa: B027 (a baseline may have none)
        """Sets the parameters that `get_param_values` returned."""

    def get_state(self) -> State:
        """The parameters, for `set_state` and `save_checkpoint`."""
        return {"params": self.get_param_values()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        Raises:
            ValueError: If ``state`` is not a dict of ``params``.
        """
        self.set_params(require_names(state, ("params",), self)["params"])

    def log_diagnostics(self, paths: Sequence[Path], prefix: str = "") -> None:  # noqa: B027
        """Logs nothing; ProMP's trainers call it with the paths of all tasks."""


class ZeroBaseline(Baseline):
    """Predicts zero.

    >>> import numpy as np
    >>> from mtwrappers import ZeroBaseline
    >>> ZeroBaseline().predict({"observations": np.ones((3, 2))})
    array([0., 0., 0.])
    """

    def fit(self, paths: Sequence[Path], target_key: str = "returns") -> None:
        """Does nothing."""

    def predict(self, path: Path) -> Floats:
        """Returns zeros, ``(T,)``."""
        return np.zeros(len(_observations(path)))


class LinearBaseline(Baseline):
    """Ridge regression on features of a step.

    The coefficients minimise the squared error plus ``reg_coeff`` times their squared norm.

    Args:
        reg_coeff: The regularization coefficient, zero or greater.

    Raises:
        ValueError: If ``reg_coeff`` is negative or not finite.
    """

    def __init__(self, reg_coeff: float = 1e-5) -> None:
        self._reg_coeff = zero_or_above(reg_coeff, "reg_coeff")
        self._coeffs: Floats | None = None

    @abc.abstractmethod
    def _features(self, observations: Any, times: NDArray[np.intp]) -> Floats:
        """The features ``(S, F)`` of steps, from ``(S, O)`` and their times within paths."""

    def get_param_values(self) -> Floats | None:
        """Returns the coefficients, ``(F,)``, or ``None`` before the first fit."""
        return None if self._coeffs is None else self._coeffs.copy()

    def set_params(self, value: Any) -> None:
        """Sets the coefficients."""
        self._coeffs = None if value is None else np.array(value, dtype=np.float64)

    def fit(self, paths: Sequence[Path], target_key: str = "returns") -> None:
        """Fits the coefficients to ``path[target_key]``, ``(T,)``, of each path.

        Raises:
            ValueError: If a path lacks the target or ``observations``, ``(T, O)``, or their
                shapes differ, or they are not finite.
        """
        lengths, (targets, observations) = join_steps(paths, target_key, "observations")
        self.fit_steps(observations, targets, lengths)

    def fit_steps(self, observations: AnyArray, targets: Floats, lengths: Sequence[int]) -> Floats:
        """Fits the coefficients to all steps at once and returns their predictions, ``(S,)``.

        Observations are ``(S, O)`` and targets ``(S,)``: paths of ``lengths``, concatenated.
        """
        features = self._features(observations, steps_before(lengths))
        self._coeffs = self._solve(features.T @ features, features.T @ targets)
        return np.asarray(features @ self._coeffs)

    def predict(self, path: Path) -> Floats:
        """Returns a prediction for each step, ``(T,)``; zeros before the first fit."""
        observations = _observations(path)
        if self._coeffs is None:
            return np.zeros(len(observations))
        features = self._features(observations, np.arange(len(observations)))
        return np.asarray(features @ self._coeffs)

    def _solve(self, matrix: Floats, vector: Floats) -> Floats:
        """Solves ``(matrix + reg_coeff * I) @ w = vector`` for the ``w`` of minimum norm."""
        regularized = matrix + self._reg_coeff * np.eye(len(matrix))
        return np.asarray(np.linalg.lstsq(regularized, vector, rcond=None)[0])


class LinearFeatureBaseline(LinearBaseline):
    """Linear in the observation, its square, and powers of time.

    Features: the observation clipped to [-10, 10], its square, ``t/100``, ``(t/100)^2``,
    ``(t/100)^3`` and 1 (Duan et al. 2016, arXiv:1604.06778, supplement).

    >>> import numpy as np
    >>> from mtwrappers import LinearFeatureBaseline
    >>> path = {"observations": np.arange(6.0).reshape(3, 2), "returns": np.array([3.0, 2.0, 1.0])}
    >>> baseline = LinearFeatureBaseline()
    >>> baseline.fit([path])
    >>> baseline.predict(path).round(2)
    array([3., 2., 1.])
    """

    def _features(self, observations: Any, times: NDArray[np.intp]) -> Floats:
        flat = np.reshape(observations, (len(times), -1))
        size = flat.shape[1]
        features = np.empty((len(flat), 2 * size + 4))
        np.clip(flat, -10, 10, out=features[:, :size])
        np.square(features[:, :size], out=features[:, size : 2 * size])
        features[:, 2 * size :] = _time_features(times)
        return features

    def fit_bootstrapped(
        self, paths: Sequence[Path], discount: float, target_key: str = "returns"
    ) -> None:
        r"""Fits the coefficients to returns that are bootstrapped at a time limit.

        If a time limit cut a path after step ``T``, the return of step ``t`` is its discounted sum
        of rewards :math:`R_t` plus :math:`\gamma^{T-t} V(s_T)`, where :math:`s_T` is
        ``next_observation`` and :math:`V(s) = \phi(s)^\top w` is the fitted function itself.
        With rows :math:`\phi(s_t)` in :math:`\Phi` and :math:`\gamma^{T-t} \phi(s_T)` in
        :math:`G` (zero if the path was not cut), the normal equations of
        :math:`\Phi w \approx R + G w` with their right side held fixed are

        .. math:: \Phi^\top (\Phi - G) w = \Phi^\top R,

        which is least-squares temporal difference learning (Bradtke & Barto 1996) with whole
        returns in place of single rewards (``lambda = 1`` in Boyan 1999). The features of time
        get coefficients of zero: the value of a state does not depend on the time left.

        Args:
            paths: Paths with ``observations``, ``truncated``, the target and, if they are cut,
                ``next_observation``.
            discount: In [0, 1].
            target_key: The key of the discounted sums of rewards, ``(T,)``.

        Raises:
            ValueError: If a path lacks one of these, or they do not fit together or are not finite;
                if the discount is outside [0, 1], or is 1 and every path is cut, so that values are
                unbounded.
        """
        discount = check_fraction(discount, "discount")
        lengths, (returns, observations) = join_steps(paths, target_key, "observations")
        last_observations = cut_observations(paths)
        reached = np.array([end is not None for end in last_observations])
        if discount == 1 and reached.all():
            raise ValueError("with a discount of 1, at least one path must end without being cut")
        times = steps_before(lengths)
        nowhere = np.zeros(observations.shape[1:])
        ends = np.stack([nowhere if end is None else end for end in last_observations])
        weights = np.repeat(reached, lengths) * discount ** (np.repeat(lengths, lengths) - times)
        features = self._features(observations, times)
        following = np.repeat(self._features(ends, np.zeros(len(ends), np.intp)), lengths, axis=0)
        state = np.r_[: features.shape[1] - 4, features.shape[1] - 1]
        phi, g = features[:, state], weights[:, None] * following[:, state]
        self._coeffs = np.zeros(features.shape[1])
        self._coeffs[state] = self._solve(phi.T @ (phi - g), phi.T @ returns)


class LinearTimeBaseline(LinearBaseline):
    """Linear in ``t/100``, ``(t/100)^2``, ``(t/100)^3`` and 1.

    >>> import numpy as np
    >>> from mtwrappers import LinearTimeBaseline
    >>> path = {"observations": np.zeros((3, 2)), "returns": np.array([3.0, 2.0, 1.0])}
    >>> baseline = LinearTimeBaseline()
    >>> baseline.fit([path])
    >>> baseline.predict(path).round(2)
    array([2.95, 2.  , 1.05])
    """

    def _features(self, observations: Any, times: NDArray[np.intp]) -> Floats:
        return _time_features(times)


def _observations(path: Any) -> Any:
    """The observations of a path, ``(T, O)``."""
    check_keys([path], ("observations",), "those to predict")
    return path["observations"]


def _time_features(times: NDArray[np.intp]) -> Floats:
    scaled = times / 100.0
    return np.stack([scaled, scaled**2, scaled**3, np.ones(len(times))], axis=1)


def check_baseline(baseline: Any, bootstrapped: bool) -> Any:
    """Returns ``baseline`` if it has the methods that a processor calls, or raises an error."""
    methods = (getattr(baseline, name, None) for name in ("fit", "predict"))
    if isinstance(baseline, type) or not all(map(callable, methods)):
        raise TypeError(
            "a baseline must be an object with fit and predict, such as LinearFeatureBaseline(), "
            f"got {baseline!r}"
        )
    if bootstrapped and not hasattr(baseline, "fit_bootstrapped"):
        raise ValueError(
            "bootstrap_truncated needs a baseline with the method fit_bootstrapped, such as "
            f"LinearFeatureBaseline; got {baseline!r}"
        )
    return baseline


def fit_predict(
    baseline: Any, steps: Steps, targets: Floats, key: str, bootstrap: float | None = None
) -> tuple[Floats, Floats]:
    """Fits a baseline to targets ``(S,)`` and predicts them.

    ``bootstrap`` is the discount for bootstrapping at time limits; ``None`` does not bootstrap.
    Returns the predictions for all steps, ``(S,)``, and for the state after each path, ``(P,)``:
    zero if the path is not cut.
    """
    # All paths at once: four times as fast for thousands of short ones. Subclasses may override
    # predict, and are called path by path like any other baseline.
    if type(baseline) in (LinearFeatureBaseline, LinearTimeBaseline) and bootstrap is None:
        values = baseline.fit_steps(steps.observations, targets, steps.lengths)
        check_finite(values, steps.lengths, "prediction", steps.label)
        return values, np.zeros(len(steps.lengths))
    split_targets = np.split(targets, steps.starts[1:])
    paths = [
        {**path, key: path_targets}
        for path, path_targets in zip(steps.paths, split_targets, strict=True)
    ]
    if bootstrap is None:
        baseline.fit(paths, target_key=key)
        ends: list[Any] = [None] * len(paths)
    else:
        ends = cut_observations(paths, steps.label)
        baseline.fit_bootstrapped(paths, bootstrap, target_key=key)
    predicted = []
    for i, (path, end) in enumerate(zip(paths, ends, strict=True)):
        if end is not None:
            path["observations"] = np.concatenate([path["observations"], end[None]])
        predicted.append(baseline.predict(path))
        expected = (steps.lengths[i] + (end is not None),)
        if np.shape(predicted[i]) != expected:
            raise ValueError(
                f"the baseline must predict shape {expected} for path {i} of {steps.label}, got "
                f"{np.shape(predicted[i])}"
            )
    check_finite(np.concatenate(predicted), list(map(len, predicted)), "prediction", steps.label)
    values = [
        path_values[:length] for path_values, length in zip(predicted, steps.lengths, strict=True)
    ]
    last_values = [
        0.0 if end is None else path_values[-1]
        for path_values, end in zip(predicted, ends, strict=True)
    ]
    return np.concatenate(values), np.array(last_values)
