"""An environment whose transitions identify their origin, and a check of what libraries store."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete, Space
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_index, check_options, positive
from mtwrappers.common.registration import PlainSpec
from mtwrappers.common.seeding import check_seed
from mtwrappers.state.identity import keep_arguments
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import make_executor

Observation: TypeAlias = Literal["vector", "image", "dict"]
Actions: TypeAlias = Literal["continuous", "discrete"]

Entry: TypeAlias = tuple[int, ...]
Mask: TypeAlias = NDArray[np.bool_]
# What is wrong, where, and what is said of the transition at an index.
Fault: TypeAlias = tuple[str, Mask, Callable[[int], str]]

# How many transitions a report names for each fault.
_NAMED = 3
# The largest value of a pixel, and so of an entry.
SIZE = 256
# A size that the libraries' convolutions support.
IMAGE_SHAPE = (42, 42, 3)
LENGTHS = np.array([5, 2, 3, 1, 4])


def episode_length(environment: Any, episode: Any) -> Any:
    """Returns the length of episodes, 1 to 5, for numbers or integer arrays."""
    return LENGTHS[(environment + episode) % len(LENGTHS)]


def is_truncated(environment: Any, episode: Any) -> Any:
    """Whether episodes end by truncation (every second one) or by termination."""
    return (environment + episode) % 2 == 1


def entry_reward(environment: Any, episode: Any, step: Any) -> Any:
    """Returns the absolute reward for reaching entries, in (0, 1), exact in float32."""
    return (environment * SIZE**2 + episode * SIZE + step) / SIZE**3


class Ledger(gymnasium.Env[Any, Any]):
    """Reveals which transitions a library stores: each observation is an entry of a ledger.

    An entry is ``(environment, episode, step)``. Episodes count from 0, up by one with each reset
    (from 255 on to 0), and from 0 again with a reset that is given a seed; steps count from 0.

    - The reward of a step is a number in (0, 1) that only its next observation has
      (`entry_reward`), and negative unless the action is above zero: so it says which action was
      taken, and a policy has something to learn.
    - Episodes have 1 to 5 steps (`episode_length`). Every second one ends by truncation, the others
      by termination (`is_truncated`).

    So each transition can be checked without knowing what was done; `check_transitions` does.
    ``gymnasium.make_vec("mtwrappers/Ledger-v0", n)`` makes ``n`` of them.

    Args:
        environment: The number of this environment, 0 to 255.
        observation: ``"vector"``, the entry, ``(3,)`` float32; ``"image"``, ``(42, 42, 3)`` uint8,
            in which every pixel is the entry; ``"dict"``, both, as ``image`` and ``vector``.
        actions: ``"continuous"``, ``Box(-1, 1, (1,))``, or ``"discrete"``, ``Discrete(2)``.

    Raises:
        ValueError: If an argument is none of those.

    >>> from mtwrappers.testing import Ledger
    >>> from mtwrappers.testing.ledger import entry_reward
    >>> env = Ledger(environment=7)
    >>> env.reset(seed=0)[0]
    array([7., 0., 0.], dtype=float32)
    >>> obs, reward, terminated, truncated, info = env.step([0.5])
    >>> obs, reward == entry_reward(7, 0, 1)
    (array([7., 0., 1.], dtype=float32), True)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)
    spec: Any = PlainSpec()

    def __init__(
        self,
        environment: int = 0,
        *,
        observation: Observation = "vector",
        actions: Actions = "continuous",
    ) -> None:
        keep_arguments(self, locals())
        self.environment = check_index(environment, SIZE, "environment")
        spaces: dict[str, Space[Any]] = {
            "vector": Box(0, SIZE - 1, (3,), np.float32),
            "image": Box(0, SIZE - 1, IMAGE_SHAPE, np.uint8),
        }
        spaces["dict"] = Dict(spaces)
        kinds: dict[str, Space[Any]] = {
            "continuous": Box(-1.0, 1.0, (1,), np.float32),
            "discrete": Discrete(2),
        }
        self.observation_space = spaces[check_choice(observation, tuple(spaces), "observation")]
        self.action_space = kinds[check_choice(actions, tuple(kinds), "actions")]
        self._observation = observation
        self._episode = -1
        self._step: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the next episode; with any seed, episode 0."""
        check_options(options, (), "Ledger")
        super().reset(seed=None if seed is None else check_seed(seed))
        self._episode = 0 if seed is not None else (self._episode + 1) % SIZE
        self._step = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one step, whose result does not depend on ``action``.

        Raises:
            ResetNeeded: If no episode is under way.
            ValueError: If the action is none.
        """
        if self._step is None:
            raise ResetNeeded("call reset() before step()")
        given = np.asarray(action, np.float64)
        if given.shape != self.action_space.shape or not np.isfinite(given).all():
            raise ValueError(f"expected an action of {self.action_space}, got {action!r}")
        self._step += 1
        entry = self.environment, self._episode, self._step
        obs = self._observe()
        reward = entry_reward(*entry) * (1 if given.item() > 0 else -1)
        ends = self._step == episode_length(*entry[:2])
        truncated = ends and is_truncated(*entry[:2])
        if ends:
            self._step = None
        return obs, reward, bool(ends and not truncated), bool(truncated), {}

    def get_state(self) -> dict[str, int]:
        """Returns the state between two episodes: the number of the last one."""
        return {"episode": self._episode}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Restores the state that `get_state` returned, with the next `reset`."""
        self._episode = check_index(state["episode"] + 1, SIZE + 1, "episode + 1") - 1
        self._step = None

    def _observe(self) -> NDArray[Any] | dict[str, NDArray[Any]]:
        entry = np.array([self.environment, self._episode, self._step], np.float32)
        if self._observation == "vector":
            return entry
        image = np.tile(entry.astype(np.uint8), (*IMAGE_SHAPE[:2], 1))
        return image if self._observation == "image" else {"image": image, "vector": entry}


# The function that `gymnasium.make` calls for ``mtwrappers/Ledger-v0``.
make_env = Ledger


def make_vec_env(
    num_envs: int = 1,
    *,
    observation: Observation = "vector",
    actions: Actions = "continuous",
    **executor: Any,
) -> MetaVectorEnv:
    """Makes the vector environment of ``mtwrappers/Ledger-v0``.

    Args:
        num_envs: How many environments, numbered from 0; each is a task.
        observation: As of `Ledger`.
        actions: As of `Ledger`.
        **executor: The arguments of `mtwrappers.vector.make.make_executor`.
    """
    n = positive(num_envs, "num_envs")
    make = functools.partial(Ledger, observation=observation, actions=actions)
    makers = [functools.partial(make, i) for i in range(n)]
    return make_executor(makers, n, **executor)


# What a library has stored.


@dataclass(frozen=True)
class TransitionReport:
    """The result of `check_transitions`; ``str(report)`` says it in words.

    Attributes:
        real: Which transitions were made as they are stored, of the shape of the rewards, bool.
        phantom: Which were never made, of that shape: they begin at the last observation of an
            episode, where no action is taken.
        wrong: Which were made, but are stored with something false, of that shape.
        truncations: Which are the last of an episode that was truncated, of that shape.
        bootstraps: Which of those bootstrap from their true last observation, of that shape; None
            if there is no ``next_obs``.
        faults: What is wrong, a sentence for each kind of fault.
        missing: Transitions that are not there, between the first and the last of each environment,
            as ``(environment, episode, step)``. In a part of a buffer that is no fault.
        repeated: Transitions that are there more than once. In a sampled batch that is no fault.

    >>> import numpy as np
    >>> from mtwrappers.testing import check_transitions
    >>> from mtwrappers.testing.ledger import entry_reward
    >>> first, last = np.array([[0, 1, 0], [0, 1, 1]]), np.array([[0, 1, 1], [0, 2, 0]])
    >>> rewards, ends = entry_reward(0, 1, np.array([1, 2])), np.array([False, True])
    >>> report = check_transitions(first, None, rewards, last, ~ends & ends, ends, strict=False)
    >>> report.ok, report.real, report.wrong
    (False, array([ True, False]), array([False,  True]))
    """

    real: Mask
    phantom: Mask
    wrong: Mask
    truncations: Mask
    bootstraps: Mask | None
    faults: tuple[str, ...]
    missing: tuple[Entry, ...]
    repeated: tuple[Entry, ...]

    @property
    def ok(self) -> bool:
        """Whether every transition is real."""
        return not self.faults

    def __str__(self) -> str:
        masks = {"real": self.real, "phantom": self.phantom, "wrong": self.wrong}
        counts = ", ".join(f"{np.count_nonzero(mask)} {name}" for name, mask in masks.items())
        lines = [f"{self.real.size} transitions: {counts}", *self.faults]
        if self.bootstraps is not None:
            lines.append(
                f"{np.count_nonzero(self.bootstraps)} of {np.count_nonzero(self.truncations)} "
                "truncations bootstrap from their true last observation"
            )
        for name, entries in (("missing", self.missing), ("repeated", self.repeated)):
            if entries:
                lines += [f"{len(entries)} {name}, such as {_some(map(str, entries))}"]
        return "\n- ".join(lines)


def check_transitions(
    obs: Any,
    actions: Any,
    rewards: Any,
    next_obs: Any,
    terminated: Any,
    truncated: Any,
    *,
    strict: bool = True,
) -> TransitionReport:
    """Checks what a library has stored of `Ledger`s, its buffer or a batch of it.

    The transitions may come in any order, and in any number of leading dimensions: those of the
    rewards, of which a last dimension of 1 does not count. Arrays may be tensors that NumPy reads.
    ``None`` stands for what the library does not store, which is then not checked.

    Args:
        obs: Observations as `Ledger` returns them, or flattened, or images with channels first; a
            mapping for those that are dicts.
        actions: Actions, or anything above zero where the action is.
        rewards: Rewards as the environment gave them.
        next_obs: The observations that the library takes for those after the actions.
        terminated: Where the library takes the next value for 0.
        truncated: Where the library takes the episode for cut.
        strict: Whether to raise if a transition is not real.

    Returns:
        What was found.

    Raises:
        AssertionError: If a transition is not real, with the report in words.
        ValueError: If shapes do not fit, or there is no transition.

    >>> import numpy as np
    >>> from mtwrappers.testing import check_transitions
    >>> from mtwrappers.testing.ledger import entry_reward
    >>> first, last = np.array([[0, 1, 0], [0, 1, 1]]), np.array([[0, 1, 1], [0, 2, 0]])
    >>> rewards = entry_reward(0, 1, np.array([1, 2]))
    >>> ends = np.array([False, True])
    >>> print(check_transitions(first, None, rewards, last, ~ends & ends, ends, strict=False))
    2 transitions: 1 real, 0 phantom, 1 wrong
    - next_obs is not the observation after the action: [1] (0, 1, 1) -> (0, 2, 0), the first \
observation of another episode
    - 0 of 1 truncations bootstrap from their true last observation
    """
    stored = _Stored(obs, actions, rewards, next_obs, terminated, truncated)
    report = stored.report()
    if strict and not report.ok:
        raise AssertionError(str(report))
    return report


class _Stored:
    """Transitions as a library has them, beside those that the environments make."""

    def __init__(
        self, obs: Any, actions: Any, rewards: Any, next_obs: Any, terminated: Any, truncated: Any
    ) -> None:
        given = np.asarray(rewards, np.float64)
        if given.size == 0:
            raise ValueError(f"expected transitions, got rewards of shape {given.shape}")
        self.shape = given.shape
        if given.ndim > 1 and given.shape[-1] == 1:
            self.shape = given.shape[:-1]
        self.rewards = given.ravel()
        self.obs = self._entries(obs, "obs")
        self.next_obs = None if next_obs is None else self._entries(next_obs, "next_obs")
        self.positive = None if actions is None else self._flat(actions, "actions") > 0
        self.terminated = self._flags(terminated, "terminated")
        self.truncated = self._flags(truncated, "truncated")

        environment, episode, step = self.obs.T
        length = episode_length(environment, episode)
        self.known = (self.obs >= 0).all(1) & (step <= length)
        self.phantom = self.known & (step == length)
        self.made = self.known & ~self.phantom
        self.after = self.obs + np.array([0, 0, 1])
        self.ends = self.made & (step + 1 == length)
        self.cut = self.ends & is_truncated(environment, episode)

    def report(self) -> TransitionReport:
        wrong = np.zeros(self.rewards.size, np.bool_)
        faults = []
        for what, mask, detail in self._faults():
            if mask.any():
                wrong |= mask
                texts = (
                    f"{self._place(i)} {detail(i)}".rstrip() for i in np.flatnonzero(mask).tolist()
                )
                faults.append(f"{what}: {_some(texts)}")
        wrong &= ~self.phantom
        bootstraps = None if self.next_obs is None else self.cut & self._goes_on(self.next_obs)
        counts = Counter(map(tuple, self.obs[self.made].tolist()))
        return TransitionReport(
            real=(~wrong & ~self.phantom).reshape(self.shape),
            phantom=self.phantom.reshape(self.shape),
            wrong=wrong.reshape(self.shape),
            truncations=self.cut.reshape(self.shape),
            bootstraps=None if bootstraps is None else bootstraps.reshape(self.shape),
            faults=tuple(faults),
            missing=tuple(_missing(counts)),
            repeated=tuple(sorted(entry for entry, n in counts.items() if n > 1)),
        )

    def _faults(self) -> Iterator[Fault]:
        """Returns each kind of fault, its mask, and the report's text for a transition."""
        obs, made, after = self.obs, self.made, self.after
        rewarded = np.abs(self.rewards) == entry_reward(*after.T)
        yield (
            "obs is not an observation of a Ledger, or of several at once",
            ~self.known,
            lambda i: "",
        )
        yield (
            "phantom, no action is taken at the last observation of an episode (this is how the "
            "step that resets in autoreset mode NEXT_STEP looks to a library that ignores it)",
            self.phantom,
            lambda i: _entry(obs[i]),
        )
        yield (
            "the reward is not that of the step",
            made & ~rewarded,
            lambda i: f"{_entry(obs[i])} -> {_entry(after[i])} has {_reward(self.rewards[i])}",
        )
        if self.positive is not None:
            yield (
                "the action is not the one that was rewarded",
                made & rewarded & (self.positive != (self.rewards > 0)),
                lambda i: f"at {_entry(obs[i])}",
            )
        if (following := self.next_obs) is not None:
            yield (
                "next_obs is not the observation after the action",
                made & (following != after).any(1),
                lambda i: f"{_entry(obs[i])} -> {_next(following[i], obs[i])}",
            )
        yield self._flag_fault("terminated", self.terminated, self.ends & ~self.cut)
        yield self._flag_fault("truncated", self.truncated, self.cut)

    def _flag_fault(self, name: str, flags: Mask | None, true: Mask) -> Fault:
        false = np.zeros_like(true) if flags is None else self.made & (flags != true)
        return (
            f"{name} is not as it was",
            false,
            lambda i: f"{_entry(self.obs[i])} -> {_entry(self.after[i])} was {bool(true[i])}",
        )

    def _goes_on(self, following: NDArray[np.int64]) -> Mask:
        """Where targets bootstrap from the value of the true next observation."""
        true: Mask = (following == self.after).all(1)
        return true if self.terminated is None else true & ~self.terminated

    def _entries(self, value: Any, name: str) -> NDArray[np.int64]:
        """Returns the entry of each observation, ``(B, 3)``; negative if it is no entry."""
        if isinstance(value, Mapping):
            if not value:
                raise ValueError(f"expected observations in {name}, got an empty mapping")
            parts = [self._numbers(part, f"{name}[{key!r}]") for key, part in value.items()]
        else:
            parts = [self._numbers(value, name)]
        numbers = np.concatenate(parts, axis=1)
        entry = numbers[:, 0]
        whole = (entry == np.floor(entry)) & (entry >= 0) & (entry < SIZE)
        same = (numbers == entry[:, None]).all((1, 2)) & whole.all(1)
        return np.where(same[:, None], np.nan_to_num(entry), -1).astype(np.int64)

    def _numbers(self, value: Any, name: str) -> NDArray[np.float64]:
        """Observations as ``(B, numbers / 3, 3)``: each three of an observation are the entry."""
        each = self._each(value, name)
        if each.ndim >= 4 and each.shape[-3] == 3 and each.shape[-1] != 3:
            each = np.moveaxis(each, -3, -1)
        if each[0].size == 0 or each[0].size % 3:
            raise ValueError(
                f"expected observations of a Ledger, numbers that come by threes, got {name} of "
                f"shape {each.shape[1:]} each"
            )
        return each.reshape(len(each), -1, 3)

    def _flags(self, value: Any, name: str) -> Mask | None:
        return None if value is None else self._flat(value, name) != 0

    def _flat(self, value: Any, name: str) -> NDArray[np.float64]:
        """Returns one number per transition, ``(B,)``."""
        each = self._each(value, name)
        if each.size != self.rewards.size:
            raise ValueError(
                f"expected a number a transition in {name}, got shape {each.shape[1:]} each"
            )
        return each.ravel()

    def _each(self, value: Any, name: str) -> NDArray[np.float64]:
        """Flattens all leading dimensions of an array."""
        array = np.asarray(value, np.float64)
        if array.shape[: len(self.shape)] != self.shape:
            raise ValueError(
                f"expected {name} with the leading dimensions {self.shape} of the rewards, got "
                f"shape {array.shape}"
            )
        return array.reshape(self.rewards.size, *array.shape[len(self.shape) :])

    def _place(self, i: int) -> str:
        return str([int(k) for k in np.unravel_index(i, self.shape)])


def _missing(stored: Mapping[Entry, Any]) -> Iterator[Entry]:
    """Returns the missing transitions between the first and the last of each environment."""
    for environment, group in itertools.groupby(sorted(stored), lambda entry: entry[0]):
        there = list(group)
        for episode in range(there[0][1], there[-1][1] + 1):
            for step in range(int(episode_length(environment, episode))):
                entry = environment, episode, step
                if there[0] < entry < there[-1] and entry not in stored:
                    yield entry


def _entry(entry: NDArray[np.int64]) -> str:
    return str(tuple(entry.tolist()))


def _next(entry: NDArray[np.int64], before: NDArray[np.int64]) -> str:
    if (entry < 0).any():
        return "no observation of a Ledger"
    first = entry[2] == 0 and entry[0] == before[0]
    return _entry(entry) + (", the first observation of another episode" if first else "")


def _reward(reward: np.float64) -> str:
    number = abs(float(reward)) * SIZE**3
    if number < 1 or number != int(number) or number >= SIZE**3:
        return f"reward {reward:g}"
    first, step = divmod(int(number), SIZE)
    return f"that of {(*divmod(first, SIZE), step)}"


def _some(texts: Iterator[str]) -> str:
    """The first of some texts."""
    first = list(itertools.islice(texts, _NAMED + 1))
    return "; ".join(first[:_NAMED]) + ("; ..." if len(first) > _NAMED else "")
