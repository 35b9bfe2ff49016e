"""`Ledger`, whose transitions say where they come from, and what libraries have stored of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from mtwrappers.vector.make import make_executor

ENVS, STEPS = 3, 24
SIZE = 256  # of an entry, which may be a pixel
IMAGE_SHAPE = (42, 42, 3)  # a size that the libraries' convolutions support
LENGTHS = np.array([5, 2, 3, 1, 4])
ID = "tests.integrations.ledgers:mtwrappers/Ledger-v0"


def episode_length(environment: Any, episode: Any) -> Any:
    return LENGTHS[(environment + episode) % len(LENGTHS)]


def is_truncated(environment: Any, episode: Any) -> Any:
    """Whether episodes end by truncation, as every second one does, or by termination."""
    return (environment + episode) % 2 == 1


def entry_reward(environment: Any, episode: Any, step: Any) -> Any:
    """The size of the reward for reaching entries, in (0, 1), exact in float32."""
    return (environment * SIZE**2 + episode * SIZE + step) / SIZE**3


def entry_of(rewards: Any) -> Any:
    """The entries that have these sizes, ``(..., 3)``."""
    number = np.nan_to_num(np.abs(rewards) * SIZE**3)
    return np.stack([number // SIZE**2, number // SIZE % SIZE, number % SIZE], axis=-1)


class Ledger(gymnasium.Env):
    """Observes ``(environment, episode, step)``, as numbers, as the pixels of an image, or both.

    Episodes count from 0, and from 0 again with a reset that is given a seed. The reward is the
    `entry_reward` of the next observation, and negative unless the action is above zero.
    """

    def __init__(self, environment=0, *, observation="vector", actions="continuous"):
        spaces = {
            "vector": Box(0, SIZE - 1, (3,), np.float32),
            "image": Box(0, SIZE - 1, IMAGE_SHAPE, np.uint8),
        }
        spaces["dict"] = Dict(spaces)
        kinds = {"continuous": Box(-1.0, 1.0, (1,), np.float32), "discrete": Discrete(2)}
        self.observation_space, self.action_space = spaces[observation], kinds[actions]
        self.environment, self.observation, self.episode, self.step_in = (
            environment,
            observation,
            -1,
            0,
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.step_in = 0 if seed is not None else self.episode + 1, 0
        return self.observe(), {}

    def step(self, action):
        self.step_in += 1
        entry = self.environment, self.episode, self.step_in
        reward = float(entry_reward(*entry)) * (1 if np.asarray(action).item() > 0 else -1)
        ends, cut = self.step_in == episode_length(*entry[:2]), is_truncated(*entry[:2])
        return self.observe(), reward, bool(ends and not cut), bool(ends and cut), {}

    def observe(self):
        entry = np.array([self.environment, self.episode, self.step_in], np.float32)
        image = np.tile(entry.astype(np.uint8), (*IMAGE_SHAPE[:2], 1))
        return {"vector": entry, "image": image, "dict": {"image": image, "vector": entry}}[
            self.observation
        ]


def make_vec_env(num_envs=1, *, observation="vector", actions="continuous", **executor):
    kwargs = {"observation": observation, "actions": actions}
    return make_executor(
        [partial(Ledger, i, **kwargs) for i in range(num_envs)], num_envs, **executor
    )


gymnasium.register(
    ID.partition(":")[2], f"{__name__}:Ledger", vector_entry_point=f"{__name__}:make_vec_env"
)
make = partial(make_vec_env, ENVS)


@dataclass(frozen=True)
class Report:
    """What was found in stored transitions.

    Attributes:
        size: How many they are.
        faults: What is not as it was, and where: the transition, expected and actual.
        phantoms: How many begin where an episode has ended, and no action is taken.
        cut: How many are the last of a truncated episode.
        bootstraps: How many of those bootstrap from their true last observation.
        missing: Those between the first and the last of each environment that are not there.
        repeated: Those that are there more than once.
    """

    size: int
    faults: dict[str, list[str]]
    phantoms: int
    cut: int
    bootstraps: int
    missing: list[tuple[int, ...]]
    repeated: list[tuple[int, ...]]


def check_transitions(
    obs: Any, actions: Any, rewards: Any, next_obs: Any, terminated: Any, truncated: Any
) -> Report:
    """Checks what a library has stored of `Ledger`s, in any order and form.

    Each transition is compared with the one that the environments make from its observation.
    ``None`` stands for what a library does not store.
    """
    shape = np.shape(rewards)[:-1] if np.shape(rewards)[-1:] == (1,) else np.shape(rewards)
    earned = np.asarray(rewards, np.float64).ravel()
    before, n = _entries(obs, shape), len(earned)
    environment, episode, step = before.T
    length = episode_length(environment, episode)
    known = (before >= 0).all(1) & (step <= length)
    phantom = known & (step == length)
    made = known & ~phantom
    reached = before + np.array([0, 0, 1])
    ends = made & (step + 1 == length)
    cut = ends & is_truncated(environment, episode)
    numbers = {"action": actions, "terminated": terminated, "truncated": truncated}
    stored = {k: np.asarray(v).reshape(n) > 0 for k, v in numbers.items() if v is not None}
    stored["reward"] = entry_of(earned)
    if next_obs is not None:
        stored["next_obs"] = _entries(next_obs, shape)
    right = (stored["reward"] == reached).all(1)
    true = {"terminated": ends & ~cut, "truncated": cut, "reward": reached, "next_obs": reached}
    true["action"] = np.where(right, earned > 0, stored.get("action"))
    faults = {"obs": ~known, "phantom": phantom}
    for name, value in stored.items():
        faults[name] = made & (value != true[name]).reshape(n, -1).any(1)

    def said(name: str, i: int) -> str:
        place = f"{tuple(before[i].tolist())}"
        return f"{place}: {true[name][i]}, {stored[name][i]}" if name in stored else place

    bootstraps = cut & (stored.get("next_obs", reached) == reached).all(1)
    counts = Counter(map(tuple, before[made].tolist()))
    return Report(
        size=n,
        faults={k: [said(k, i) for i in np.flatnonzero(v)] for k, v in faults.items() if v.any()},
        phantoms=int(phantom.sum()),
        cut=int(cut.sum()),
        bootstraps=int((bootstraps & ~stored.get("terminated", ~made & made)).sum()),
        missing=_missing(counts),
        repeated=sorted(entry for entry, count in counts.items() if count > 1),
    )


def _entries(value: Any, shape: tuple[int, ...]) -> Any:
    """The entry of each observation, ``(B, 3)``: every three of its numbers, or negative."""
    parts = []
    for part in value.values() if isinstance(value, Mapping) else [value]:
        each = np.asarray(part, np.float64).reshape(-1, *np.shape(part)[len(shape) :])
        if each.shape[-3:] == IMAGE_SHAPE[::-1]:
            each = np.moveaxis(each, -3, -1)
        parts.append(each.reshape(len(each), -1, 3))
    numbers = np.concatenate(parts, axis=1)
    entry = numbers[:, 0]
    whole = (entry == np.floor(entry)) & (entry >= 0) & (entry < SIZE)
    same = (numbers == entry[:, None]).all((1, 2)) & whole.all(1)
    return np.where(same[:, None], np.nan_to_num(entry), -1).astype(np.int64)


def _missing(stored: Any) -> list[tuple[int, ...]]:
    missing = []
    for environment, group in itertools.groupby(sorted(stored), lambda entry: entry[0]):
        there = list(group)
        first, last = there[0], there[-1]
        for episode in range(first[1], last[1] + 1):
            for step in range(episode_length(environment, episode)):
                entry = environment, episode, step
                if first < entry < last and entry not in stored:
                    missing.append(entry)
    return missing


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


def check_on_policy(obs: Any, actions: Any, rewards: Any, next_obs: Any, dones: Any) -> Report:
    """Checks a buffer whose rewards have the `known_value` of the last observation added at a cut.

    So ``next_obs`` matters where no episode ends, and the discount must be 1.
    """
    rewards, dones = np.asarray(rewards).astype(np.float64), np.asarray(dones).astype(np.bool_)
    obs, next_obs = (np.asarray(entries).astype(np.int64) for entries in (obs, next_obs))
    sign = np.where(np.asarray(actions).reshape(rewards.shape) > 0, 1, -1)
    added = rewards - sign * entry_reward(obs[..., 0], obs[..., 1], obs[..., 2] + 1)
    cut = dones & (added != 0)
    rewards[cut] -= added[cut]
    next_obs[cut] = entry_of(np.round(added[cut] * SIZE**3) / SIZE**3)
    ended = dones & ~cut  # whose last observation nothing depends on
    next_obs[ended] = obs[ended] + [0, 0, 1]
    return check_transitions(obs, actions, rewards, next_obs, ended, cut)


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


def check_whole(report: Report, least: int = 1) -> None:
    """Requires a report of an unbroken record, with some episodes that were cut."""
    assert (report.faults, report.missing, report.repeated) == ({}, [], [])
    assert report.cut == report.bootstraps >= least


def steps_of(environment: int, episode: int, episodes: int) -> int:
    """How many steps an environment makes in some episodes, from one on."""
    return int(episode_length(environment, episode + np.arange(episodes)).sum())
