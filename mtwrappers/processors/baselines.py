"""Baselines: what a path's target (its returns, say) is predicted to be at each step."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.processors.batch import PathBatch
from mtwrappers.samplers.trajectory import Path

Floats = NDArray[np.float64]


class Baseline(abc.ABC):
    """Fitted to paths, it predicts a number for each step of a path."""

    @abc.abstractmethod
    def fit(self, paths: Sequence[Path], target_key: str = "returns") -> None:
        """Fits the baseline to ``path[target_key]``, ``(T,)``, of each path."""

    @abc.abstractmethod
    def predict(self, path: Path) -> Floats:
        """The prediction for each step of ``path["observations"]``, ``(T,)``."""

    def get_param_values(self) -> Any:
        """The parameters, or ``None`` if there are none."""
        return None

    def set_params(self, value: Any) -> None:  # noqa: B027 (a baseline may have none)
        """Takes parameters that `get_param_values` returned."""


class ZeroBaseline(Baseline):
    """Predicts zero."""

    def fit(self, paths: Sequence[Path], target_key: str = "returns") -> None:
        """Does nothing."""

    def predict(self, path: Path) -> Floats:
        """Zeros."""
        return np.zeros(len(path["observations"]))

    def fit_predict(self, batch: PathBatch, targets: Floats) -> Floats:
        """Zeros for all steps of a batch."""
        return np.zeros(len(targets))


class LinearBaseline(Baseline):
    """Ridge-regularised least squares on features of a step.

    The coefficients minimise the squared error plus ``reg_coeff`` times their squares. Should the
    solution not be finite, the regularisation grows tenfold, up to five times, as in rllab (Duan et
    al. 2016, arXiv:1604.06778); constant features then still give finite predictions.

    Args:
        reg_coeff: The regularisation.

    Raises:
        ValueError: If it is negative.
    """

    def __init__(self, reg_coeff: float = 1e-5) -> None:
        if not reg_coeff >= 0:
            raise ValueError(f"reg_coeff must be zero or greater, got {reg_coeff!r}")
        self._reg_coeff = reg_coeff
        self._coeffs: Floats | None = None
        self._room = np.empty(0)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles do not carry the room for features."""
        return {**self.__dict__, "_room": np.empty(0)}

    @abc.abstractmethod
    def _features(self, observations: NDArray[Any], times: Floats) -> Floats:
        """The features of steps, ``(S, F)``, from ``(S, O)`` and their times within paths.

        They are in `_empty` memory: good until the next call.
        """

    def _empty(self, steps: int, features: int) -> Floats:
        """Room for ``(S, F)`` features, kept for the next task.

        Fresh pages cost as much as what is written to them.
        """
        if self._room.size < steps * features:
            self._room = np.empty(steps * features)
        return self._room[: steps * features].reshape(steps, features)

    def get_param_values(self) -> Floats | None:
        """The coefficients, ``(F,)``, or ``None`` before the first fit."""
        return None if self._coeffs is None else self._coeffs.copy()

    def set_params(self, value: Any) -> None:
        """Takes coefficients that `get_param_values` returned."""
        self._coeffs = None if value is None else np.array(value, dtype=np.float64)

    def fit(self, paths: Sequence[Path], target_key: str = "returns") -> None:
        """Fits the coefficients.

        Raises:
            ValueError: If the paths are malformed or have no such target.
        """
        batch = PathBatch(paths)
        missing = [i for i, path in enumerate(paths) if target_key not in path]
        if missing:
            raise ValueError(f"paths {missing} lack the target {target_key!r}")
        targets = np.concatenate([path[target_key] for path in paths], dtype=np.float64)
        self._solve(self._features(batch.observations, batch.times()), targets)

    def predict(self, path: Path) -> Floats:
        """The prediction for each step, ``(T,)``; zeros before the first fit."""
        observations = np.asarray(path["observations"])
        return self.predict_steps(observations, np.arange(len(observations), dtype=np.float64))

    def predict_steps(self, observations: NDArray[Any], times: Floats) -> Floats:
        """The prediction for any steps, ``(S,)``, by their observations and times."""
        if self._coeffs is None:
            return np.zeros(len(observations))
        predicted: Floats = self._features(observations, times) @ self._coeffs
        return predicted

    def fit_predict(self, batch: PathBatch, targets: Floats) -> Floats:
        """Fits to targets ``(S,)`` of a batch and predicts them, computing features once."""
        features = self._features(batch.observations, batch.times())
        self._solve(features, targets)
        assert self._coeffs is not None
        predicted: Floats = features @ self._coeffs
        return predicted

    def _solve(self, features: Floats, targets: Floats) -> None:
        gram = features.T @ features
        right = features.T @ targets
        reg = self._reg_coeff
        for _ in range(5):
            regularized = gram.copy()
            regularized.flat[:: len(gram) + 1] += reg
            solution = _solve_symmetric(regularized, right)
            self._coeffs = solution
            if np.isfinite(solution).all():
                return
            reg = reg * 10 if reg else 1e-5


def _solve_symmetric(matrix: Floats, right: Floats) -> Floats:
    """Solves ``matrix @ x = right``; in the sense of least squares where it is singular."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


class LinearFeatureBaseline(LinearBaseline):
    """Linear in the observation, its square, and powers of time.

    Features: the observation clipped to [-10, 10], its square, ``t/100``, ``(t/100)^2``,
    ``(t/100)^3`` and 1 (Duan et al. 2016, arXiv:1604.06778, supplement).
    """

    def _features(self, observations: NDArray[Any], times: Floats) -> Floats:
        flat = observations.reshape(len(observations), -1)
        o = flat.shape[1]
        features = self._empty(len(flat), 2 * o + 4)
        np.clip(flat, -10, 10, out=features[:, :o])
        np.square(features[:, :o], out=features[:, o : 2 * o])
        _write_time(features[:, 2 * o :], times)
        return features


class LinearTimeBaseline(LinearBaseline):
    """Linear in ``t/100``, ``(t/100)^2``, ``(t/100)^3`` and 1."""

    def _features(self, observations: NDArray[Any], times: Floats) -> Floats:
        features = self._empty(len(times), 4)
        _write_time(features, times)
        return features


def _write_time(columns: Floats, times: Floats) -> None:
    scaled = times / 100.0
    columns[:, 0] = scaled
    columns[:, 1] = scaled**2
    columns[:, 2] = scaled**3
    columns[:, 3] = 1.0
