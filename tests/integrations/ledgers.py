"""What the tests of libraries share that read a `Ledger` from their buffers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from mtwrappers.testing import TransitionReport, check_transitions
from mtwrappers.testing.ledger import IMAGE_SHAPE, SIZE, entry_reward, episode_length

ENVS, STEPS = 3, 24
make = partial(gymnasium.make_vec, "mtwrappers/Ledger-v0", ENVS)


def vector_of(obs: Any) -> Any:
    """The entries in observations of any kind; of images, channels may come first or last."""
    if isinstance(obs, Mapping):
        image, vector = (vector_of(obs[key]) for key in ("image", "vector"))
        assert (image == vector).all()
        return vector
    if obs.shape[-3:] not in (IMAGE_SHAPE, IMAGE_SHAPE[::-1]):
        return obs
    first = obs.shape[-3] == 3
    corner = obs[..., :1, :1] if first else obs[..., :1, :1, :]
    assert (obs == corner).all()
    return corner[..., 0, 0] if first else corner[..., 0, 0, :]


def known_value(entries: Any) -> Any:
    """A value for each of the observations ``(..., 3)``: the size of the reward for reaching them.

    Rewards and values are exact in single precision, and so is the sum of two.
    """
    entries = 1.0 * entries  # bytes would overflow
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


def transitions(episodes: Any) -> Any:
    """The columns of episodes, or pieces of them, which have an observation more than actions.

    Each is ``(obs, actions, rewards, terminated, truncated)``.
    """

    def joined(parts, rows=slice(None)):
        if isinstance(parts[0], Mapping):
            return {key: joined([part[key] for part in parts], rows) for key in parts[0]}
        return np.concatenate([part[rows] for part in parts])

    obs, *columns = zip(*episodes, strict=True)
    actions, rewards, *flags = map(joined, columns)
    return joined(obs, slice(-1)), actions, rewards, joined(obs, slice(1, None)), *flags


def check_whole(report: TransitionReport, least: int = 1) -> None:
    """Requires a report of an unbroken record, with some episodes that were cut."""
    assert report.ok, str(report)
    assert (report.missing, report.repeated) == ((), ()), str(report)
    assert report.truncations.sum() == report.bootstraps.sum() >= least


def check_misread(report: TransitionReport, mode: str) -> None:
    """Requires that a report names what is false in what is made of a mode that is misread."""
    if mode == "NextStep":
        assert report.phantom.sum() >= 12
        assert "phantom, no action is taken at the last observation" in str(report)
    else:
        assert report.phantom.sum() == 0
        assert report.bootstraps.sum() == 0 < report.truncations.sum()
        assert "next_obs is not as it was" in str(report)


def steps_of(environment: int, episode: int, episodes: int) -> int:
    """How many steps an environment makes in some episodes, from one on."""
    return int(episode_length(environment, episode + np.arange(episodes)).sum())
