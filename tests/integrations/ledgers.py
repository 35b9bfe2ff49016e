"""What the tests of libraries share that read a `Ledger` from their buffers."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np

from mtwrappers.testing import TransitionReport, check_transitions
from mtwrappers.testing.ledger import SIZE, entry_reward, episode_length

ENVS, STEPS = 3, 24
make_ledgers = partial(gymnasium.make_vec, "mtwrappers/Ledger-v0", ENVS)


def known_value(entries: Any) -> Any:
    """A value that tells observations ``(..., 3)`` apart: the size of the reward for reaching them.

    Rewards and values are exact in single precision, and so is the sum of two.
    """
    return entry_reward(entries[..., 0], entries[..., 1], entries[..., 2])


def check_on_policy(
    obs: Any, actions: Any, rewards: Any, next_obs: Any, dones: Any, **kwargs: Any
) -> TransitionReport:
    """Checks a buffer whose rewards have the `known_value` of the last observation added at a cut.

    So ``next_obs`` matters where no episode ends, and the discount must be 1.
    """
    rewards, dones = np.asarray(rewards).astype(np.float64), np.asarray(dones).astype(np.bool_)
    obs, next_obs = (np.asarray(entries).astype(np.int64) for entries in (obs, next_obs))
    sign = np.where(np.asarray(actions).reshape(rewards.shape) > 0, 1, -1)
    added = rewards - sign * entry_reward(obs[..., 0], obs[..., 1], obs[..., 2] + 1)
    cut = dones & (added != 0)
    rewards[cut] -= added[cut]
    numbers = np.round(added[cut] * SIZE**3).astype(np.int64)
    next_obs[cut] = np.stack([numbers // SIZE**2, numbers // SIZE % SIZE, numbers % SIZE], axis=-1)
    ended = dones & ~cut  # whose last observation nothing depends on
    next_obs[ended] = obs[ended] + [0, 0, 1]
    return check_transitions(obs, actions, rewards, next_obs, ended, cut, **kwargs)


def check_whole(report: TransitionReport, least: int = 1) -> None:
    """Requires a report of an unbroken record, with some episodes that were cut."""
    assert report.ok, str(report)
    assert (report.missing, report.repeated) == ((), ()), str(report)
    assert report.truncations.sum() == report.bootstraps.sum() >= least


def steps_of(environment: int, episode: int, episodes: int) -> int:
    """How many steps an environment makes in some episodes, from one on."""
    return int(episode_length(environment, episode + np.arange(episodes)).sum())
