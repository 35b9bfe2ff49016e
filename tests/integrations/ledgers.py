"""`Ledger`, whose transitions tell their place, and checks of what libraries have stored of it."""

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


def rewards_to_entries(rewards: Any) -> Any:
    """Returns the entries that have rewards of these sizes, ``(..., 3)``."""
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
    """The result of a check of stored transitions.

    Attributes:
        size: The number of transitions.
        faults: For each field that differs, the transitions, with expected and actual values.
        phantoms: How many begin where an episode has ended, and no action is taken.
        cut: How many are the last of a truncated episode.
        bootstraps: How many of those bootstrap from their true last observation.
        missing: Transitions between the first and the last of an environment that were not stored.
        repeated: Transitions that were stored more than once.
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
    flat_rewards = np.asarray(rewards, np.float64).ravel()
    entries, n = _entries(obs, shape), len(flat_rewards)
    environment, episode, step = entries.T
    length = episode_length(environment, episode)
    is_entry = (entries >= 0).all(1) & (step <= length)
    is_phantom = is_entry & (step == length)
    is_transition = is_entry & ~is_phantom
    next_entries = entries + np.array([0, 0, 1])
    is_end = is_transition & (step + 1 == length)
    is_cut = is_end & is_truncated(environment, episode)
    optional_arrays = {"action": actions, "terminated": terminated, "truncated": truncated}
    stored = {
        name: np.asarray(array).reshape(n) > 0
        for name, array in optional_arrays.items()
        if array is not None
    }
    stored["reward"] = rewards_to_entries(flat_rewards)
    if next_obs is not None:
        stored["next_obs"] = _entries(next_obs, shape)
    has_right_reward = (stored["reward"] == next_entries).all(1)
    expected = {
        "terminated": is_end & ~is_cut,
        "truncated": is_cut,
        "reward": next_entries,
        "next_obs": next_entries,
        # The sign of a reward is that of the action; where the size is wrong, nothing is known.
        "action": np.where(has_right_reward, flat_rewards > 0, stored.get("action")),
    }
    is_fault = {"obs": ~is_entry, "phantom": is_phantom}
    for name, column in stored.items():
        is_fault[name] = is_transition & (column != expected[name]).reshape(n, -1).any(1)

    def describe_fault(name: str, i: int) -> str:
        entry = f"{tuple(entries[i].tolist())}"
        return f"{entry}: {expected[name][i]}, {stored[name][i]}" if name in stored else entry

    has_true_next_obs = (stored.get("next_obs", next_entries) == next_entries).all(1)
    is_stored_as_terminated = stored.get("terminated", np.zeros(n, np.bool_))
    counts = Counter(map(tuple, entries[is_transition].tolist()))
    return Report(
        size=n,
        faults={
            name: [describe_fault(name, i) for i in np.flatnonzero(column)]
            for name, column in is_fault.items()
            if column.any()
        },
        phantoms=int(is_phantom.sum()),
        cut=int(is_cut.sum()),
        bootstraps=int((is_cut & has_true_next_obs & ~is_stored_as_terminated).sum()),
        missing=_missing(counts),
        repeated=sorted(entry for entry, count in counts.items() if count > 1),
    )


def _entries(value: Any, shape: tuple[int, ...]) -> Any:
    """Returns the entry of each observation, ``(B, 3)``, or negative numbers if it has none.

    All triples of numbers of an observation must be its entry.
    """
    arrays = value.values() if isinstance(value, Mapping) else [value]
    triples = []
    for array in arrays:
        batch = np.asarray(array, np.float64).reshape(-1, *np.shape(array)[len(shape) :])
        if batch.shape[-3:] == IMAGE_SHAPE[::-1]:
            batch = np.moveaxis(batch, -3, -1)
        triples.append(batch.reshape(len(batch), -1, 3))
    numbers = np.concatenate(triples, axis=1)
    entry = numbers[:, 0]
    is_index = (entry == np.floor(entry)) & (entry >= 0) & (entry < SIZE)
    is_entry = (numbers == entry[:, None]).all((1, 2)) & is_index.all(1)
    return np.where(is_entry[:, None], np.nan_to_num(entry), -1).astype(np.int64)


def _missing(stored: Any) -> list[tuple[int, ...]]:
    missing = []
    for environment, group in itertools.groupby(sorted(stored), lambda entry: entry[0]):
        group_entries = list(group)
        first, last = group_entries[0], group_entries[-1]
        for episode in range(first[1], last[1] + 1):
            for step in range(episode_length(environment, episode)):
                entry = environment, episode, step
                if first < entry < last and entry not in stored:
                    missing.append(entry)
    return missing


def observations_to_entries(obs: Any) -> Any:
    """Returns the entries in observations of any kind; images may have channels first or last."""
    if isinstance(obs, Mapping):
        image, vector = (observations_to_entries(obs[key]) for key in ("image", "vector"))
        assert (image == vector).all()
        return vector
    if obs.shape[-3:] not in (IMAGE_SHAPE, IMAGE_SHAPE[::-1]):
        return obs
    channels_first = obs.shape[-3] == 3
    corner = obs[..., :1, :1] if channels_first else obs[..., :1, :1, :]
    assert (obs == corner).all()
    return corner[..., 0, 0] if channels_first else corner[..., 0, 0, :]


def known_value(entries: Any) -> Any:
    """Returns a value for each entry ``(..., 3)``: the size of the reward for reaching it.

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
    added_values = rewards - sign * entry_reward(obs[..., 0], obs[..., 1], obs[..., 2] + 1)
    is_cut = dones & (added_values != 0)
    rewards[is_cut] -= added_values[is_cut]
    next_obs[is_cut] = rewards_to_entries(np.round(added_values[is_cut] * SIZE**3) / SIZE**3)
    is_terminated = dones & ~is_cut  # whose last observation nothing depends on
    next_obs[is_terminated] = obs[is_terminated] + [0, 0, 1]
    return check_transitions(obs, actions, rewards, next_obs, is_terminated, is_cut)


def stack_transitions(episodes: Any) -> Any:
    """Returns the columns of `check_transitions` for episodes, or pieces of episodes.

    Each is ``(obs, actions, rewards, terminated, truncated)``, with one observation more than
    actions.
    """

    def concatenate(arrays, rows=slice(None)):
        if isinstance(arrays[0], Mapping):
            return {key: concatenate([array[key] for array in arrays], rows) for key in arrays[0]}
        return np.concatenate([array[rows] for array in arrays])

    obs, *columns = zip(*episodes, strict=True)
    actions, rewards, *flags = map(concatenate, columns)
    return concatenate(obs, slice(-1)), actions, rewards, concatenate(obs, slice(1, None)), *flags


def assert_complete(report: Report, least: int = 1) -> None:
    """Requires a report of an unbroken record, with some episodes that were cut."""
    assert (report.faults, report.missing, report.repeated) == ({}, [], [])
    assert report.cut == report.bootstraps >= least


def count_steps(environment: int, episode: int, episodes: int) -> int:
    """Returns how many steps an environment makes in ``episodes`` episodes, from ``episode`` on."""
    return int(episode_length(environment, episode + np.arange(episodes)).sum())
