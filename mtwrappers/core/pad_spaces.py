"""Environments whose observations and actions differ in length, padded to one length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import DTypeLike, NDArray

from mtwrappers.common.checks import check_env, check_keywords, positive
from mtwrappers.common.spaces import (
    as_row,
    difference,
    fits,
    pad_boxes,
    padded,
    summary,
)
from mtwrappers.common.types import AnyArray, AnyEnv, AnySpace, AnyWrapper, Info, Options

# What `unify=` takes: ``"pad"``, or the arguments of `PadSpaces` in a dict.
Unify: TypeAlias = Literal["pad"] | Mapping[str, int] | None

_UNIFY = ("observation_size", "action_size")
_GUIDE = "see the guide 'Your own environments' (docs/guides/own-environments.md)"


class PadSpaces(AnyWrapper, RecordConstructorArgs):
    """Pads observations with zeros, and drops the padded entries of actions.

    So environments with spaces of different lengths look the same to an agent. The values in padded
    entries of an action have no effect. Actions of spaces other than Box are not changed.

    ``observation_mask``, ``(O,)`` bool, and ``action_mask``, ``(A,)`` bool, are true for entries of
    the environment and false for padding; both are attributes, and in every ``info``. If the action
    space is not a Box, ``action_mask`` is ``None`` and not in ``info``.

    Args:
        env: An environment whose observation space is a 1-D Box. Its action space, if it is a Box,
            is 1-D and of floating-point numbers, even if it is not padded.
        observation_size: ``O``, the padded length of observations; by default, nothing is padded.
        action_size: ``A``, the padded length of actions; by default, nothing is padded.

    Raises:
        TypeError: If a space has another type; the message names a wrapper that converts it.
        ValueError: If the environment has more entries than a size, or entries that are to be
            padded end in a one-hot or others that a wrapper has appended; on a step, if an action
            or observation does not fit its space.

    >>> import gymnasium
    >>> from mtwrappers import PadSpaces
    >>> env = PadSpaces(gymnasium.make("Pendulum-v1"), observation_size=5, action_size=2)
    >>> obs, info = env.reset(seed=0)
    >>> obs[3:], info["observation_mask"].tolist(), env.action_mask
    (array([0., 0.], dtype=float32), [True, True, True, False, False], array([ True, False]))
    """

    action_mask: NDArray[np.bool_] | None = None

    def __init__(
        self,
        env: AnyEnv,
        observation_size: int | None = None,
        action_size: int | None = None,
    ) -> None:
        check_env(env, "env")
        sizes = {"observation_size": observation_size, "action_size": action_size}
        # Plain values, so that specs go through JSON.
        checked = {name: positive(n, name) for name, n in sizes.items() if n is not None}
        RecordConstructorArgs.__init__(
            self,
            observation_size=checked.get("observation_size"),
            action_size=checked.get("action_size"),
        )
        super().__init__(env)
        spaces = env.observation_space, env.action_space
        padding = Padding.from_spaces([spaces], ["the environment"], checked)
        _require_nothing_appended(env, "the environment", padding.observation_space)
        self._pad_to(padding)

    def _pad_to(self, padding: Padding) -> PadSpaces:
        """Precomputes how to pad to common spaces, which may be those of several environments."""
        self.observation_space, self.action_space = padding
        box = _require_box(self.env.observation_space, "the observation space")
        padded_box = _require_box(padding.observation_space, "the common observation space")
        self._box, self._size = box, len(box.low)
        self._zeros = np.zeros(padded_box.shape, padded_box.dtype)
        self.observation_mask = np.arange(len(self._zeros)) < self._size
        actions, padded_actions = self.env.action_space, padding.action_space
        self._changes_actions = isinstance(actions, Box)
        if isinstance(actions, Box) and isinstance(padded_actions, Box):
            self._num_actions, self._action_dtype = len(actions.low), actions.dtype
            self._action_shape = padded_actions.shape
            self._casts = padded_actions.dtype != actions.dtype
            self.action_mask = np.arange(len(padded_actions.low)) < self._num_actions
        return self

    def reset(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[AnyArray, Info]:
        """Resets the environment."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._pad(obs), self._with_masks(info)

    def step(self, action: Any) -> tuple[AnyArray, SupportsFloat, bool, bool, Info]:
        """Steps the environment with an action without its padding."""
        if self._changes_actions:
            action = self._cut(action)
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._pad(obs), reward, terminated, truncated, self._with_masks(info)

    def _with_masks(self, info: Info) -> Info:
        info = {**info, "observation_mask": self.observation_mask.copy()}
        if self.action_mask is not None:
            info["action_mask"] = self.action_mask.copy()
        return info

    def _pad(self, obs: object) -> AnyArray:
        row: AnyArray = self._zeros.copy()
        row[: self._size] = as_row(obs, self._box)
        return row

    def _cut(self, action: object) -> AnyArray:
        row = np.asarray(action)
        if row.shape != self._action_shape:
            raise ValueError(f"expected an action of shape {self._action_shape}, got {action!r}")
        cut = row[: self._num_actions]
        return cut.astype(self._action_dtype) if self._casts else cut


class Padding(NamedTuple):
    """The spaces that a set of environments is padded to.

    Attributes:
        observation_space: Contains the padded observations of all environments.
        action_space: The padded action space of all environments.
    """

    observation_space: AnySpace
    action_space: AnySpace

    @classmethod
    def from_spaces(
        cls,
        spaces: Sequence[tuple[AnySpace, AnySpace]],
        names: Sequence[str],
        unify: Unify,
        action_dtype: DTypeLike | None = None,
    ) -> Padding:
        """Computes the padding for environments with these spaces.

        Args:
            spaces: The observation and action space of each environment.
            names: The names of the environments in messages.
            unify: The result of `check_unify`.
            action_dtype: The dtype of actions of a Box; by default, the one that NumPy promotes the
                dtypes of these spaces to.
        """
        sizes = unify if isinstance(unify, Mapping) else {}
        observations, actions = zip(*spaces, strict=True)
        return cls(
            _unite_observations(observations, names, sizes.get("observation_size")),
            _unite_actions(actions, names, sizes.get("action_size"), action_dtype),
        )

    def wrap(self, env: AnyEnv, name: str = "the environment") -> PadSpaces:
        """Pads an environment, or raises an error that names it."""
        expected = _require_box(self.observation_space, "env_observation_space")
        box = _require_box(env.observation_space, f"the observation space of {name}")
        compared: AnySpace = padded(box, expected)
        if not fits(compared, expected):
            raise ValueError(
                f"{name} has an observation space that is not within the common one when padded "
                f"with zeros: {difference(compared, expected, contained=True)}"
            )
        _require_nothing_appended(env, name, expected)
        actions, inner = self.action_space, env.action_space
        size = expected.shape[0]
        if not isinstance(actions, Box):
            if inner != actions:
                raise _differ(inner, name, actions)
            return PadSpaces(env, size)._pad_to(self)
        inner = _require_action_box(inner, f"the action space of {name}")
        _require_actions(inner, name, actions)
        return PadSpaces(env, size, actions.shape[0])._pad_to(self)


def _require_nothing_appended(env: AnyEnv, name: str, space: AnySpace) -> None:
    """Raises `ValueError` if padding would move entries that a wrapper of ours has appended.

    Their places would then depend on the environment: an agent would read the one-hot of one task
    where that of another is.
    """
    if env.observation_space.shape == space.shape:
        return
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if getattr(layer, "appends_entries", False):
            wrapper = type(layer).__name__
            raise ValueError(
                f"{name} would be padded after the entries that {wrapper} appends to its "
                "observations, so that these have other places than in longer observations: pad "
                f"first, and then apply {wrapper}, such as {wrapper}(PadSpaces(env, "
                f"observation_size=...), ...); make_vec('mtwrappers/MultiEnv-v0', unify='pad') and "
                "FlattenMTEnv(MultiEnvWrapper(..., unify='pad')) append a one-hot after padding"
            )
        layer = layer.env


def check_unify(unify: Unify) -> Unify:
    """Returns ``unify`` with sizes as ``int``, or raises `TypeError` or `ValueError`."""
    if unify is None or (isinstance(unify, str) and unify == "pad"):
        return unify
    if not isinstance(unify, Mapping):
        names = " and ".join(_UNIFY)
        raise ValueError(f"unify must be 'pad', a dict of {names}, or None, got {unify!r}")
    check_keywords(map(str, unify), _UNIFY, "unify")
    return {
        name: positive(unify[name], f"unify[{name!r}]")
        for name in _UNIFY
        if unify.get(name) is not None
    }


def explain_spaces(spaces: Sequence[tuple[AnySpace, AnySpace]]) -> str:
    """How environments with different spaces get the same ones, for the end of a message.

    ``unify='pad'`` is named only if it works, or after the wrappers without which it does not.

    Args:
        spaces: The observation and action space of each environment.
    """
    observations, actions = zip(*spaces, strict=True)
    names = ["an environment"] * len(spaces)
    observations_differ = any(space != observations[0] for space in observations)
    actions_differ = any(space != actions[0] for space in actions)
    pads_observations = pads_actions = True
    try:
        _unite_observations(observations, names, None)
    except (TypeError, ValueError):
        pads_observations = False
    try:
        _unite_actions(actions, names, None, None)
    except (TypeError, ValueError):
        pads_actions = False
    are_floats = all(_is_floating(space) for space in actions)
    # Boxes of several lengths still have them when their bounds are the same.
    several_lengths = are_floats and len({space.shape for space in actions}) > 1
    pads = (observations_differ and pads_observations) or (
        actions_differ and (pads_actions or several_lengths)
    )
    wrappers = []
    if not pads_observations and (observations_differ or pads):
        wrappers.append("TransformObservation" if observations_differ else "FlattenObservation")
    if not pads_actions and (actions_differ or pads):
        wrappers.append("RescaleAction(env, -1, 1)" if are_floats else "TransformAction")
    if not wrappers:
        return f"unify='pad' makes one space of them, {_GUIDE}"
    applied = f"{' and '.join(wrappers)} of gymnasium.wrappers"
    if not pads:
        return f"make one space of them with {applied}, {_GUIDE}"
    return f"wrap them in {applied}, and unify='pad' then makes one space of them, {_GUIDE}"


def _is_floating(space: AnySpace) -> bool:
    return isinstance(space, Box) and len(space.shape) == 1 and space.dtype.kind == "f"


def _require_box(space: AnySpace, name: str) -> Box:
    if isinstance(space, Box) and len(space.shape) == 1:
        return space
    raise TypeError(
        f"{name} must be a 1-D Box to be padded, got {summary(space)}; "
        f"{_WRAP}FlattenObservation(env)"
    )


def _require_action_box(space: AnySpace, name: str) -> Box:
    if isinstance(space, Box) and _is_floating(space):
        return space
    raise TypeError(
        f"{name} must be a 1-D Box of floating-point numbers to be padded, got {summary(space)}; "
        f"{_WRAP}"
        "TransformAction(env, function, Box)"
    )


# An id makes its environment as it was registered, so a wrapped one needs an id of its own.
_WRAP = (
    "wrap an environment first (in its constructor for MultiEnvWrapper, or register a function "
    "that does so under an id of your own, for env_ids), as in gymnasium.wrappers."
)


def _differ(space: AnySpace, name: str, expected: AnySpace) -> ValueError:
    return ValueError(
        f"{name} has another action space than the first one; only Boxes are padded, so give all "
        f"of them one space, such as the largest: {_WRAP}TransformAction(env, function, space); "
        f"{_GUIDE}: {difference(space, expected)}"
    )


def _unite_observations(spaces: Sequence[AnySpace], names: Sequence[str], size: int | None) -> Box:
    boxes = [
        _require_box(space, f"the observation space of {name}")
        for space, name in zip(spaces, names, strict=True)
    ]
    if size is not None:
        for box, name in zip(boxes, names, strict=True):
            if box.shape[0] > size:
                raise ValueError(
                    f"{name} has observation space {summary(box)}, expected at most {size} entries"
                )
    return pad_boxes(boxes, size)


def _unite_actions(
    spaces: Sequence[AnySpace],
    names: Sequence[str],
    size: int | None,
    dtype: DTypeLike | None,
) -> AnySpace:
    if size is None and not any(isinstance(space, Box) for space in spaces):
        for space, name in zip(spaces, names, strict=True):
            if space != spaces[0]:
                raise _differ(space, name, spaces[0])
        return spaces[0]
    boxes = [
        _require_action_box(space, f"the action space of {name}")
        for space, name in zip(spaces, names, strict=True)
    ]
    longest = max(box.shape[0] for box in boxes) if size is None else size
    common_dtype = np.dtype(dtype or np.result_type(*(box.dtype for box in boxes)))
    low, high = -np.ones(longest, common_dtype), np.ones(longest, common_dtype)
    for box in reversed(boxes):  # each entry gets the bounds of the first Box that has it
        n = min(box.shape[0], longest)
        low[:n], high[:n] = box.low[:n], box.high[:n]
    union = Box(low, high, dtype=common_dtype.type)
    for box, name in zip(boxes, names, strict=True):
        _require_actions(box, name, union)
    return union


def _require_actions(box: Box, name: str, expected: Box) -> None:
    """Raises `ValueError` unless an environment's actions fit the common action space."""
    n = box.shape[0]
    if n > expected.shape[0]:
        raise ValueError(
            f"{name} has action space {summary(box)}, expected at most {expected.shape[0]} entries"
        )
    dtype: Any = box.dtype.type  # actions are cast to it
    low, high = expected.low[:n].astype(dtype), expected.high[:n].astype(dtype)
    if (box.low != low).any() or (box.high != high).any():
        bounds = Box(low, high, dtype=dtype)
        raise ValueError(
            f"{name} has an action space of other bounds: {_WRAP}RescaleAction(env, -1, 1); "
            f"{difference(box, bounds)}"
        )
