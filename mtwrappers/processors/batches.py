"""The form of training batches: arrays of ``P`` paths with ``S`` steps in all.

Rows of a padded batch have ``T`` steps; ``O`` / ``A`` are the observation / action size.
"""

from __future__ import annotations

from typing import Any, TypedDict

from mtwrappers.common.types import AnyArray
from mtwrappers.processors.returns import Floats


class SamplesData(TypedDict):
    """A flat batch of a task: the steps of its paths, concatenated."""

    observations: AnyArray  # (S, O), dtype of the paths
    actions: AnyArray  # (S, A), dtype of the paths
    rewards: Floats  # (S,) float64
    returns: Floats  # (S,) float64: discounted sums of rewards
    advantages: Floats  # (S,) float64
    env_infos: dict[str, Any]  # of arrays (S, ...), nested as in the paths; empty without any
    agent_infos: dict[str, Any]  # likewise


class MetaSamplesData(SamplesData):
    """A flat batch of one task of several."""

    adj_avg_rewards: Floats  # (S,) float64: (rewards - mean) / std over the steps of all tasks


class _Padded(TypedDict):
    mask: Floats  # (P, T) float64: 1 where a step is real, else 0
    observations: AnyArray  # (P, T, O), dtype of the paths
    actions: AnyArray  # (P, T, A), dtype of the paths
    rewards: Floats  # (P, T) float64
    returns: Floats  # (P, T) float64: discounted sums of rewards
    adjusted_rewards: Floats  # (P, T) float64: discounted rewards minus the baseline
    env_infos: dict[str, Any]  # of arrays (P, T, ...), nested as in the paths; empty without any
    agent_infos: dict[str, Any]  # likewise


class DiceSamplesData(_Padded, total=False):
    """A padded batch of a task: a row per path, with zeros after the path's end."""

    advantages: Floats  # (P, T) float64: only with a return_baseline


class DiceMetaSamplesData(DiceSamplesData):
    """A padded batch of one task of several."""

    adj_avg_rewards: Floats  # (P, T) float64: (rewards - mean) / std over the steps of all tasks
