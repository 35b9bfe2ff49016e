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

# How many transitions a report names for each fault.
_NAMED = 3
_UNKNOWN = "obs is not an observation of a Ledger, or of several at once"
_PHANTOM = (
    "phantom, no action is taken at the last observation of an episode (this is how the step that "
    "resets in autoreset mode NEXT_STEP looks to a library that ignores it)"
)
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
    - next_obs is not as it was: [1] at (0, 1, 1): expected (0, 1, 2), got (0, 2, 0)
    - 0 of 1 truncations bootstrap from their true last observation
    """
    given = np.asarray(rewards, np.float64)
    if given.size == 0:
        raise ValueError(f"expected transitions, got rewards of shape {given.shape}")
    shape = given.shape[:-1] if given.ndim > 1 and given.shape[-1] == 1 else given.shape
    earned = given.ravel()
    before = _entries(obs, shape, "obs")
    after = None if next_obs is None else _entries(next_obs, shape, "next_obs")
    acted = earned > 0 if actions is None else _positive(actions, shape, "actions")
    dead = None if terminated is None else _positive(terminated, shape, "terminated")
    cut = None if truncated is None else _positive(truncated, shape, "truncated")

    # The transitions that the environments make from there.
    environment, episode, step = before.T
    length = episode_length(environment, episode)
    known = (before >= 0).all(1) & (step <= length)
    phantom = known & (step == length)
    made = known & ~phantom
    reached = before + np.array([0, 0, 1])
    ends = made & (step + 1 == length)
    truncations = ends & is_truncated(environment, episode)
    rewarded = _rewarded(earned)
    right = (rewarded == reached).all(1)

    wrong = ~known
    faults = []

    def note(what: str, mask: Mask, text: Callable[[int], str]) -> None:
        if mask.any():
            places = np.argwhere(mask.reshape(shape)).tolist()
            each = zip(places, map(text, np.flatnonzero(mask).tolist()), strict=True)
            faults.append(f"{what}: {_some(f'{place}{says}' for place, says in each)}")

    note(_UNKNOWN, ~known, lambda i: "")
    note(_PHANTOM, phantom, lambda i: f" {_text(before[i])}")
    stored: dict[str, tuple[NDArray[Any], NDArray[Any] | None]] = {
        "reward": (reached, rewarded),
        "action": (np.where(right, earned > 0, acted), acted),
        "next_obs": (reached, after),
        "terminated": (ends & ~truncations, dead),
        "truncated": (truncations, cut),
    }
    for name, (true, false) in stored.items():
        if false is not None:
            differs = made & (true != false).reshape(len(made), -1).any(1)
            wrong |= differs

            def text(i: int, true: Any = true, false: Any = false) -> str:
                return f" at {_text(before[i])}: expected {_text(true[i])}, got {_text(false[i])}"

            note(f"{name} is not as it was", differs, text)
    bootstraps = None
    if after is not None:
        bootstraps = truncations & (after == reached).all(1)
        bootstraps = (bootstraps if dead is None else bootstraps & ~dead).reshape(shape)
    counts = Counter(map(tuple, before[made].tolist()))
    report = TransitionReport(
        real=(made & ~wrong).reshape(shape),
        phantom=phantom.reshape(shape),
        wrong=wrong.reshape(shape),
        truncations=truncations.reshape(shape),
        bootstraps=bootstraps,
        faults=tuple(faults),
        missing=tuple(_missing(counts)),
        repeated=tuple(sorted(entry for entry, n in counts.items() if n > 1)),
    )
    if strict and not report.ok:
        raise AssertionError(str(report))
    return report


def _rewarded(rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """The entries that have these rewards, ``(B, 3)``, not whole if none has."""
    number = np.nan_to_num(np.abs(rewards) * SIZE**3)
    return np.stack([number // SIZE**2, number // SIZE % SIZE, number % SIZE], axis=1)


def _entries(value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.int64]:
    """Returns the entry of each observation, ``(B, 3)``; negative if it is no entry."""
    if isinstance(value, Mapping):
        if not value:
            raise ValueError(f"expected observations in {name}, got an empty mapping")
        parts = [_numbers(part, shape, f"{name}[{key!r}]") for key, part in value.items()]
    else:
        parts = [_numbers(value, shape, name)]
    numbers = np.concatenate(parts, axis=1)
    entry = numbers[:, 0]
    whole = (entry == np.floor(entry)) & (entry >= 0) & (entry < SIZE)
    same = (numbers == entry[:, None]).all((1, 2)) & whole.all(1)
    return np.where(same[:, None], np.nan_to_num(entry), -1).astype(np.int64)


def _numbers(value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Observations as ``(B, numbers / 3, 3)``: each three of an observation are the entry."""
    each = _each(value, shape, name)
    if each.ndim >= 4 and each.shape[-3] == 3 and each.shape[-1] != 3:
        each = np.moveaxis(each, -3, -1)
    if each[0].size == 0 or each[0].size % 3:
        raise ValueError(
            f"expected observations of a Ledger, numbers that come by threes, got {name} of "
            f"shape {each.shape[1:]} each"
        )
    return each.reshape(len(each), -1, 3)


def _positive(value: Any, shape: tuple[int, ...], name: str) -> Mask:
    """Returns which of some numbers, one for each transition, are positive, ``(B,)``."""
    each = _each(value, shape, name)
    if each.size != len(each):
        raise ValueError(
            f"expected a number a transition in {name}, got shape {each.shape[1:]} each"
        )
    return each.ravel() > 0


def _each(value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Flattens the leading dimensions of an array, which have to be ``shape``."""
    array = np.asarray(value, np.float64)
    if array.shape[: len(shape)] != shape:
        raise ValueError(
            f"expected {name} with the leading dimensions {shape} of the rewards, got shape "
            f"{array.shape}"
        )
    return array.reshape(-1, *array.shape[len(shape) :])


def _missing(stored: Mapping[Entry, Any]) -> Iterator[Entry]:
    """Returns the missing transitions between the first and the last of each environment."""
    for environment, group in itertools.groupby(sorted(stored), lambda entry: entry[0]):
        there = list(group)
        for episode in range(there[0][1], there[-1][1] + 1):
            for step in range(int(episode_length(environment, episode))):
                entry = environment, episode, step
                if there[0] < entry < there[-1] and entry not in stored:
                    yield entry


def _text(value: Any) -> str:
    return f"({', '.join(f'{x:g}' for x in value)})" if np.ndim(value) else str(value > 0)


def _some(texts: Iterator[str]) -> str:
    """The first of some texts."""
    first = list(itertools.islice(texts, _NAMED + 1))
    return "; ".join(first[:_NAMED]) + ("; ..." if len(first) > _NAMED else "")
