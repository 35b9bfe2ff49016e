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
    difference,
    fits,
    most_exact,
    pad_boxes,
    padded,
)

# What `unify=` takes: ``"pad"``, or the arguments of `PadSpaces` in a dict.
Unify: TypeAlias = Literal["pad"] | Mapping[str, Any] | None


class PadSpaces(gymnasium.Wrapper[NDArray[Any], Any, NDArray[Any], Any], RecordConstructorArgs):
    """Appends zeros to observations, and cuts actions to those that the environment has.

    So environments of different lengths look the same to an agent. What is in the padded entries of
    an action makes no difference. Actions of spaces other than Box are left as they are.

    ``observation_mask``, ``(O,)`` bool, and ``action_mask``, ``(A,)`` bool, are true where an entry
    is the environment's; both are attributes, and in every ``info``. Where actions are not of a
    Box, ``action_mask`` is ``None`` and not in ``info``.

    Args:
        env: An environment with observations of a 1-D Box.
        observation_size: ``O``, the length of observations; by default that of the environment's.
        action_size: ``A``, the length of actions; by default that of the environment's.
        rescale: Whether actions are in [-1, 1] and mapped to the environment's bounds, to the same
            bits as `gymnasium.wrappers.RescaleAction` does; those that rounding puts beyond the
            bounds are clipped to them. If not, the environment's actions keep their bounds, and the
            padded ones are in [-1, 1].

    Raises:
        TypeError: If a space is of another kind; the message names a wrapper that helps.
        ValueError: If the environment has more entries than a size, or actions without bounds are
            to be rescaled; on a step, if an action or observation is not one of the space.

    >>> import gymnasium
    >>> env = PadSpaces(gymnasium.make("Pendulum-v1"), observation_size=5, action_size=2)
    >>> obs, info = env.reset(seed=0)
    >>> obs[3:], info["observation_mask"].tolist(), env.action_mask
    (array([0., 0.], dtype=float32), [True, True, True, False, False], array([ True, False]))
    """

    action_mask: NDArray[np.bool_] | None = None
    # The largest integer that padded observations may have, where a dtype does not hold all.
    _most: int | None = None

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
        """Computes what becomes of actions of a length."""
        self._num_actions = n = box.shape[0]
        self.action_mask = np.arange(size) < n
        ones = np.ones(size - n)
        self.action_space = append_box(box, -ones, ones)
        self._action_shape, self._action_dtype = (size,), box.dtype
        self._casts = False
        self._low, self._high = box.low, box.high
        # None where they would change nothing.
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
        """Steps the environment with the entries of an action that it has."""
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
        # Nearly all observations are arrays of the space, which this finds fastest.
        known = type(obs) is np.ndarray and obs.shape == self._shape and obs.dtype is self._dtype
        row = obs if known else as_row(obs, self._box)
        if self._most is not None and ((row > self._most) | (row < -self._most)).any():
            raise ValueError(
                f"expected an observation of integers in [-{self._most}, {self._most}], which "
                f"{out.dtype} holds, got {obs!r}"
            )
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
        """Takes the spaces of all, which hold those that this environment alone would have."""
        self.observation_space, self.action_space = padding[:2]
        dtype: Any = padding.observation_space.dtype
        self._zeros = np.zeros(self.observation_mask.shape, dtype)
        if self._dtype.kind in "iu" and dtype.kind == "f":
            self._most = most_exact(dtype)
        self._casts = self._changes_actions and padding.action_space.dtype != self._action_dtype
        return self


class Padding(NamedTuple):
    """The spaces that a set of environments is padded to.

    Attributes:
        observation_space: Holds the padded observations of all.
        action_space: The actions of all.
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
        """The padding of environments with these spaces (observation, action).

        Args:
            spaces: Of each environment.
            names: What messages call them.
            unify: What `check_unify` returns.
            action_dtype: That of actions of a Box, by default the one that NumPy promotes those of
                these spaces to.
        """
        given = unify if isinstance(unify, Mapping) else {}
        observations, actions = zip(*spaces, strict=True)
        return cls(
            _union_of_observations(observations, names, given.get("observation_size")),
            _union_of_actions(
                actions,
                names,
                given.get("action_size"),
                given.get("rescale", False),
                action_dtype,
            ),
            given.get("rescale", False),
        )

    def wrap(self, env: gymnasium.Env[Any, Any], name: str = "the environment") -> PadSpaces:
        """Pads an environment, or raises an error that names it."""
        expected, box = self.observation_space, env.observation_space
        _require_exact(
            _box_of_observations(box, f"the observation space of {name}"), name, expected.dtype
        )
        if not fits(compared := padded(box, expected), expected):
            raise ValueError(
                f"{name} has observation space {box}, expected one within {expected} when padded "
                f"with zeros{difference(compared, expected, within=True)}"
            )
        actions, inner = self.action_space, env.action_space
        size = len(_box_of_observations(expected, "env_observation_space").low)
        if not isinstance(actions, Box):
            if inner != actions:
                raise _differ(inner, name, actions)
            return PadSpaces(env, size)._take(self)
        inner = _box_of_actions(inner, f"the action space of {name}")
        _require_actions(inner, name, actions, self.rescale)
        return PadSpaces(env, size, actions.shape[0], self.rescale)._take(self)


def check_unify(unify: Unify) -> Unify:
    """Returns what `unify=` was given, its sizes as ``int``, or raises `ValueError`."""
    if unify is None or (isinstance(unify, str) and unify == "pad"):
        return unify
    if not isinstance(unify, Mapping):
        raise ValueError(
            "unify must be 'pad', a dict of observation_size, action_size and rescale, or None, "
            f"got {unify!r}"
        )
    check_keywords(map(str, unify), ("observation_size", "action_size", "rescale"), "unify")
    sizes = {
        name: positive(unify[name], f"unify[{name!r}]")
        for name in ("observation_size", "action_size")
        if unify.get(name) is not None
    }
    return {**sizes, "rescale": check_flag(unify.get("rescale", False), "unify['rescale']")}


def _box_of_observations(space: Space[Any], what: str) -> Box:
    if isinstance(space, Box) and len(space.shape) == 1:
        return space
    raise TypeError(
        f"{what} must be a 1-D Box to be padded, got {space}; wrap the environment in "
        "gymnasium.wrappers.FlattenObservation first"
    )


def _box_of_actions(space: Space[Any], what: str) -> Box:
    if isinstance(space, Box) and len(space.shape) == 1 and space.dtype.kind == "f":
        return space
    raise _no_box(space, what)


def _no_box(space: Space[Any], what: str) -> TypeError:
    """The error for actions that cannot be padded, with a wrapper that helps."""
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
        f"{what} must be a 1-D Box of floating-point numbers to be padded, got {space}; wrap the "
        f"environment first, as in gymnasium.wrappers.{wrapper}"
    )


def _differ(space: Space[Any], name: str, expected: Space[Any]) -> ValueError:
    return ValueError(
        f"{name} has action space {space}, expected {expected} as the others have"
        f"{difference(space, expected)}; only Boxes are padded: wrap environments first, as in "
        f"gymnasium.wrappers.TransformAction(env, function, {expected})"
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
        raise ValueError(f"only actions with bounds can be rescaled, {name} has {box}")
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
        _require_exact(box, name, padded_to.dtype)
    return padded_to


def _require_exact(box: Box, name: str, dtype: Any) -> None:
    """Requires that a floating-point dtype holds all integers of a Box."""
    if box.dtype.kind not in "iu" or dtype.kind != "f" or not box.shape[0]:
        return
    most = most_exact(dtype)
    if int(box.low.min()) < -most or int(box.high.max()) > most:
        raise ValueError(
            f"{name} has observation space {box}, and not all integers beyond {most} are numbers "
            f"of {dtype}, to which observations are padded: give it narrower bounds, or convert "
            "its observations with gymnasium.wrappers.DtypeObservation"
        )


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
        for box in reversed(boxes):  # the bounds of the first that has an entry
            n = min(box.shape[0], longest)
            low[:n], high[:n] = box.low[:n], box.high[:n]
    union = Box(low, high, dtype=dtype.type)
    for box, name in zip(boxes, names, strict=True):
        _require_actions(box, name, union, rescale)
    return union


def _require_actions(box: Box, name: str, expected: Box, rescale: bool) -> None:
    """Requires that the actions of an environment are among those of all."""
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
            "unify={'rescale': True} maps [-1, 1] to the bounds of each"
        )
