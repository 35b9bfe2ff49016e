"""Environments whose observations and actions differ in length, padded to one length."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from mtwrappers.common.checks import check_env, check_flag, check_keywords, positive
from mtwrappers.common.spaces import (
    append_box,
    as_row,
    check_exact,
    difference,
    fits,
    pad_boxes,
    padded,
    require_exact,
)

# What `unify=` takes: ``"pad"``, or the arguments of `PadSpaces` in a dict.
Unify: TypeAlias = Literal["pad"] | Mapping[str, Any] | None

_UNIFY = ("observation_size", "action_size", "rescale")


class PadSpaces(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Pads observations with zeros, and drops the padded entries of actions.

    So environments with spaces of different lengths look the same to an agent. The values in padded
    entries of an action have no effect. Actions of spaces other than Box are not changed.

    ``observation_mask``, ``(O,)`` bool, and ``action_mask``, ``(A,)`` bool, are true for entries of
    the environment and false for padding; both are attributes, and in every ``info``. If the action
    space is not a Box, ``action_mask`` is ``None`` and not in ``info``.

    Args:
        env: An environment whose observation space is a 1-D Box.
        observation_size: ``O``, the padded length of observations; by default, nothing is padded.
        action_size: ``A``, the padded length of actions; by default, nothing is padded.
        rescale: Whether actions are in [-1, 1] and mapped to the environment's bounds, bit for bit
            as by `gymnasium.wrappers.RescaleAction`; actions that rounding puts beyond the bounds
            are clipped. If false, the environment's entries keep their bounds, and padded entries
            are in [-1, 1].

    Raises:
        TypeError: If a space has another type; the message names a wrapper that converts it.
        ValueError: If the environment has more entries than a size, or actions without bounds are
            to be rescaled; on a step, if an action or observation does not fit its space.

    >>> import gymnasium
    >>> from mtwrappers import PadSpaces
    >>> env = PadSpaces(gymnasium.make("Pendulum-v1"), observation_size=5, action_size=2)
    >>> obs, info = env.reset(seed=0)
    >>> obs[3:], info["observation_mask"].tolist(), env.action_mask
    (array([0., 0.], dtype=float32), [True, True, True, False, False], array([ True, False]))
    """

    action_mask: NDArray[np.bool_] | None = None
    # Whether observations are integers that are padded to a floating-point dtype.
    _checks = False

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        observation_size: int | None = None,
        action_size: int | None = None,
        rescale: bool = False,
    ) -> None:
        check_env(env, "env")
        box = _box_of_observations(env.observation_space, "the observation space")
        space = env.action_space
        size = _size(observation_size, box, "observation")
        rescale = check_flag(rescale, "rescale")
        if not isinstance(space, Box) and (action_size is not None or rescale):
            raise _no_box(space, "the action space")
        # Plain values, so that specs go through JSON.
        num_actions = None if action_size is None else positive(action_size, "action_size")
        RecordConstructorArgs.__init__(
            self, observation_size=size, action_size=num_actions, rescale=rescale
        )
        super().__init__(env)
        self._box, self._size = box, box.shape[0]
        self._shape, self._dtype = box.shape, box.dtype
        self.observation_mask = np.arange(size) < self._size
        self.observation_space = pad_boxes([box], size)
        self._zeros = np.zeros_like(self.observation_space.low)
        self._changes_actions = isinstance(space, Box)
        if isinstance(space, Box):
            space = _box_of_actions(space, "the action space")
            self._begin_actions(space, _size(num_actions, space, "action"), rescale)

    def _begin_actions(self, box: Box, size: int, rescale: bool) -> None:
        """Precomputes how actions are cut and rescaled."""
        self._num_actions = n = box.shape[0]
        self.action_mask = np.arange(size) < n
        ones = np.ones(size - n)
        self.action_space = append_box(box, -ones, ones)
        self._action_shape, self._action_dtype = (size,), box.dtype
        self._casts = False
        self._low, self._high = box.low, box.high
        # None if rescaling would change nothing.
        self._gradient: NDArray[Any] | None = None
        self._intercept: NDArray[Any] | None = None
        if rescale:
            self.action_space = Box(-1.0, 1.0, (size,), box.dtype.type)
            gradient, intercept = _scale(box)
            self._intercept = intercept if (intercept != 0).any() else None
            if self._intercept is not None or (gradient != 1).any():
                self._gradient = gradient

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Resets the environment."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._pad(obs), self._with_masks(info)

    def step(self, action: Any) -> tuple[NDArray[Any], Any, bool, bool, dict[str, Any]]:
        """Steps the environment with an action without its padding."""
        if self._changes_actions:
            action = self._cut(action)
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._pad(obs), reward, terminated, truncated, self._with_masks(info)

    def _with_masks(self, info: dict[str, Any]) -> dict[str, Any]:
        info = {**info, "observation_mask": self.observation_mask.copy()}
        if self.action_mask is not None:
            info["action_mask"] = self.action_mask.copy()
        return info

    def _pad(self, obs: Any) -> NDArray[Any]:
        out: NDArray[Any] = self._zeros.copy()
        # The fast path for nearly all observations.
        known = type(obs) is np.ndarray and obs.shape == self._shape and obs.dtype is self._dtype
        row = obs if known else as_row(obs, self._box)
        if self._checks:
            check_exact(row, out.dtype)
        out[: self._size] = row
        return out

    def _cut(self, action: Any) -> Any:
        if type(action) is not np.ndarray or action.shape != self._action_shape:
            given, action = action, np.asarray(action)
            if action.shape != self._action_shape:
                raise ValueError(f"expected an action of shape {self._action_shape}, got {given!r}")
        cut = action[: self._num_actions]
        if self._gradient is not None:
            cut = (cut if self._intercept is None else cut - self._intercept) / self._gradient
        if self._casts:
            cut = cut.astype(self._action_dtype, copy=False)
        if self._gradient is not None:
            cut = np.minimum(np.maximum(cut, self._low), self._high)
        return cut

    def _take(self, padding: Padding) -> PadSpaces:
        """Takes the common spaces, which contain the spaces of this environment alone."""
        self.observation_space, self.action_space = padding[:2]
        dtype: Any = padding.observation_space.dtype
        self._zeros = np.zeros(self.observation_mask.shape, dtype)
        self._checks = self._dtype.kind in "iu" and dtype.kind == "f"
        self._casts = self._changes_actions and padding.action_space.dtype != self._action_dtype
        return self


class Padding(NamedTuple):
    """The spaces that a set of environments is padded to.

    Attributes:
        observation_space: Contains the padded observations of all environments.
        action_space: The padded action space of all environments.
        rescale: Whether actions in [-1, 1] are mapped to the bounds of each.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    rescale: bool

    @classmethod
    def of(
        cls,
        spaces: Sequence[tuple[Space[Any], Space[Any]]],
        names: Sequence[str],
        unify: Unify,
        action_dtype: Any = None,
    ) -> Padding:
        """Computes the padding for environments with these spaces.

        Args:
            spaces: The observation and action space of each environment.
            names: The names of the environments in messages.
            unify: The result of `check_unify`.
            action_dtype: The dtype of actions of a Box; by default, the one that NumPy promotes the
                dtypes of these spaces to.
        """
        given = unify if isinstance(unify, Mapping) else {}
        observations, actions = zip(*spaces, strict=True)
        size, rescale = given.get("action_size"), given.get("rescale", False)
        return cls(
            _union_of_observations(observations, names, given.get("observation_size")),
            _union_of_actions(actions, names, size, rescale, action_dtype),
            rescale,
        )

    def wrap(self, env: gymnasium.Env[Any, Any], name: str = "the environment") -> PadSpaces:
        """Pads an environment, or raises an error that names it."""
        expected = _box_of_observations(self.observation_space, "env_observation_space")
        own = _box_of_observations(env.observation_space, f"the observation space of {name}")
        require_exact(own, name, expected.dtype)
        compared: Space[Any] = padded(own, expected)
        if not fits(compared, expected):
            raise ValueError(
                f"{name} has observation space {own}, expected one within {expected} when padded "
                f"with zeros{difference(compared, expected, within=True)}"
            )
        actions, inner = self.action_space, env.action_space
        size = expected.shape[0]
        if not isinstance(actions, Box):
            if inner != actions:
                raise _differ(inner, name, actions)
            return PadSpaces(env, size)._take(self)
        inner = _box_of_actions(inner, f"the action space of {name}")
        _require_actions(inner, name, actions, self.rescale)
        return PadSpaces(env, size, actions.shape[0], self.rescale)._take(self)


def check_unify(unify: Unify) -> Unify:
    """Returns ``unify`` with sizes as ``int``, or raises `TypeError` or `ValueError`."""
    if unify is None or (isinstance(unify, str) and unify == "pad"):
        return unify
    if not isinstance(unify, Mapping):
        *names, last = _UNIFY
        raise ValueError(
            f"unify must be 'pad', a dict of {', '.join(names)} and {last}, or None, got {unify!r}"
        )
    check_keywords(map(str, unify), _UNIFY, "unify")
    checked: dict[str, Any] = {
        name: positive(unify[name], f"unify[{name!r}]")
        for name in ("observation_size", "action_size")
        if unify.get(name) is not None
    }
    checked["rescale"] = check_flag(unify.get("rescale", False), "unify['rescale']")
    return checked


def _box_of_observations(space: Space[Any], what: str) -> Box:
    if isinstance(space, Box) and len(space.shape) == 1:
        return space
    raise TypeError(
        f"{what} must be a 1-D Box to be padded, got {space}; {_WRAP}FlattenObservation(env)"
    )


def _box_of_actions(space: Space[Any], what: str) -> Box:
    if isinstance(space, Box) and len(space.shape) == 1 and space.dtype.kind == "f":
        return space
    raise _no_box(space, what)


# An id makes its environment as it was registered, so a wrapped one needs an id of its own.
_WRAP = (
    "wrap the environment first (in its constructor for MultiEnvWrapper, or register a function "
    "that does so under an id of your own, for env_ids), as in gymnasium.wrappers."
)


def _no_box(space: Space[Any], what: str) -> TypeError:
    """The error for actions that cannot be padded, with a wrapper that converts them."""
    function, size = "function", "number_of_actions"
    if isinstance(space, Discrete):
        start, size = int(space.start), str(space.n)
        function = f"lambda a: {start} + np.argmax(a)" if start else "np.argmax"
    elif isinstance(space, MultiBinary):
        size = str(math.prod(space.shape))
        function = f"lambda a: np.int8(a > 0).reshape({space.shape})"
    elif isinstance(space, MultiDiscrete):
        sizes = space.nvec.ravel().tolist()
        parts, size = list(itertools.accumulate(sizes))[:-1], str(sum(sizes))
        function = (
            f"lambda a: np.array([np.argmax(part) for part in np.split(a, {parts})])"
            f".reshape({space.shape}) + {space.start.tolist()}"
        )
    wrapper = f"TransformAction(env, {function}, Box(-1, 1, ({size},)))"
    return TypeError(
        f"{what} must be a 1-D Box of floating-point numbers to be padded, got {space}; {_WRAP}"
        f"{wrapper}"
    )


def _differ(space: Space[Any], name: str, expected: Space[Any]) -> ValueError:
    return ValueError(
        f"{name} has action space {space}, expected {expected} as the others have"
        f"{difference(space, expected)}; only Boxes are padded: {_WRAP}TransformAction(env, "
        f"function, {expected})"
    )


def _size(size: int | None, box: Box, what: str) -> int:
    n = int(box.shape[0])
    if size is None:
        return n
    if positive(size, f"{what}_size") < n:
        raise ValueError(f"{what}_size must be at least the environment's {n}, got {size}")
    return positive(size, f"{what}_size")


def _scale(box: Box, name: str = "the environment") -> tuple[NDArray[Any], NDArray[Any]]:
    """The ``gradient`` and ``intercept`` of ``(action - intercept) / gradient``."""
    if not box.is_bounded() or (box.low >= box.high).any():
        raise ValueError(f"only actions with bounds can be rescaled, but {name} has {box}")
    span = box.high.astype(np.longdouble) - box.low.astype(np.longdouble)
    gradient = (2.0 / span).astype(box.dtype)
    return gradient, (gradient * -box.low + np.float64(-1.0)).astype(box.dtype)


def _union_of_observations(
    spaces: Sequence[Space[Any]], names: Sequence[str], size: int | None
) -> Box:
    boxes = [
        _box_of_observations(space, f"the observation space of {name}")
        for space, name in zip(spaces, names, strict=True)
    ]
    if size is not None:
        for box, name in zip(boxes, names, strict=True):
            if box.shape[0] > size:
                raise ValueError(
                    f"{name} has observation space {box}, expected at most {size} entries"
                )
    if size is None and not any(box.shape[0] for box in boxes):
        raise _no_entries("observation", spaces[0])
    padded_to = pad_boxes(boxes, size)
    for box, name in zip(boxes, names, strict=True):
        require_exact(box, name, padded_to.dtype)
    return padded_to


def _no_entries(kind: str, space: Space[Any]) -> ValueError:
    return ValueError(
        f"all environments have an {kind} space without entries, {space}, so there is no length to "
        f"pad to: unify={{'{kind}_size': 1}} pads them to one"
    )


def _union_of_actions(
    spaces: Sequence[Space[Any]],
    names: Sequence[str],
    size: int | None,
    rescale: bool,
    dtype: Any,
) -> Space[Any]:
    if size is None and not rescale and not any(isinstance(space, Box) for space in spaces):
        for space, name in zip(spaces, names, strict=True):
            if space != spaces[0]:
                raise _differ(space, name, spaces[0])
        return spaces[0]
    boxes = [
        _box_of_actions(space, f"the action space of {name}")
        for space, name in zip(spaces, names, strict=True)
    ]
    longest = max(box.shape[0] for box in boxes) if size is None else size
    if not longest:
        raise _no_entries("action", spaces[0])
    dtype = np.dtype(dtype or np.result_type(*(box.dtype for box in boxes)))
    low, high = -np.ones(longest, dtype), np.ones(longest, dtype)
    if not rescale:
        for box in reversed(boxes):  # each entry gets the bounds of the first Box that has it
            n = min(box.shape[0], longest)
            low[:n], high[:n] = box.low[:n], box.high[:n]
    union = Box(low, high, dtype=dtype.type)
    for box, name in zip(boxes, names, strict=True):
        _require_actions(box, name, union, rescale)
    return union


def _require_actions(box: Box, name: str, expected: Box, rescale: bool) -> None:
    """Raises `ValueError` unless an environment's actions fit the common action space."""
    n = box.shape[0]
    if n > expected.shape[0]:
        raise ValueError(
            f"{name} has action space {box}, expected at most {expected.shape[0]} entries"
        )
    if rescale:
        _scale(box, name)
    elif (box.low != expected.low[:n]).any() or (box.high != expected.high[:n]).any():
        raise ValueError(
            f"{name} has action space {box}, which has other bounds than {expected}: "
            "unify={'rescale': True} maps [-1, 1] to the bounds of each environment"
        )
