"""Subclasses of Meta-World's: a Sawyer class without its simulation, and a benchmark.

A Sawyer class without its simulation has spaces and draws goals, but compiles no model.

Meta-World draws a benchmark's goals by resetting a simulated environment a hundred times per class,
although a goal depends only on random numbers and a few distances between them. Here the class's
own ``__init__`` and ``reset_model`` run on a simulation in which every position is zero. In the
method resolution order, `_NoSimulation` stands between the class and `SawyerXYZEnv`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Protocol

import metaworld
import mujoco
import numpy as np
from gymnasium.spaces import Box
from metaworld.sawyer_xyz_env import SawyerXYZEnv
from numpy.typing import ArrayLike, NDArray

from mtwrappers.common.types import AnyArray
from mtwrappers.metaworld.interfaces import SawyerClass
from mtwrappers.metaworld.upstream import collect_members, is_upstream, with_globals


class Uniform(Protocol):
    """The method of NumPy's generators that draws random vectors."""

    def uniform(
        self, low: NDArray[np.float64], high: NDArray[np.float64], size: int
    ) -> NDArray[np.float64]:
        """Draws a vector between bounds."""


class CustomMT(metaworld.Benchmark):  # type: ignore[misc] # metaworld has no usable types
    """A multi-task benchmark on chosen classes, which Meta-World has only for meta-learning."""

    def __init__(self) -> None:
        raise TypeError("use mtwrappers.metaworld.make_benchmark('CustomMT', train_classes=[...])")


_MANY = 64  # at least as many positions, bodies and sites as any model has


class _Element:
    """Any body, site or geom; all its numbers are zero, and assignments are ignored."""

    id = 0

    def __getattr__(self, name: str) -> NDArray[np.float64]:
        return np.zeros(9 if name == "xmat" else 3)

    def __setattr__(self, name: str, value: object) -> None: ...


class _Joint(_Element):
    """Any joint, with one number at address zero."""

    def __getattr__(self, name: str) -> AnyArray:
        return np.zeros(1, int)


class _Blank(_Element):
    """A `mujoco.MjModel` or `mujoco.MjData` of zeros."""

    def __getattr__(self, name: str) -> NDArray[np.float64]:
        return np.zeros((_MANY, 3) if name.endswith("pos") and name != "qpos" else _MANY)

    def body(self, name: str) -> _Element:
        return _Element()

    site = geom = body

    def joint(self, name: str) -> _Joint:
        return _Joint()


# The functions of ``mujoco`` that the classes' ``reset_model`` calls.
_NO_MUJOCO = SimpleNamespace(
    mjtObj=mujoco.mjtObj, **dict.fromkeys(("mj_forward", "mj_step", "mj_name2id"), lambda *_: 0)
)


class _NoSimulation(SawyerXYZEnv):  # type: ignore[misc] # metaworld has no usable types
    """`SawyerXYZEnv` reduced to its random numbers."""

    rng: Uniform

    def __init__(
        self,
        hand_low: ArrayLike | None = None,
        hand_high: ArrayLike | None = None,
        **unused: object,
    ) -> None:
        self.model = self.data = _Blank()
        self.frame_skip = 5
        self.hand_low, self.hand_high = np.array(hand_low), np.array(hand_high)
        self.init_qpos = self.init_qvel = np.zeros(_MANY)
        self.init_tcp = np.zeros(3)

    def _reset_hand(self, steps: int = 50) -> None:
        self.init_tcp = np.zeros(3)

    def _get_obs(self) -> NDArray[np.float64]:
        return np.zeros(39)

    def _get_curr_obs_combined_no_goal(self) -> NDArray[np.float64]:
        return np.zeros(18)

    def set_state(self, qpos: AnyArray, qvel: AnyArray) -> None: ...

    def get_body_com(self, body_name: str) -> NDArray[np.float64]:
        return np.zeros(3)

    def _get_state_rand_vec(self) -> NDArray[np.float64]:
        space = self._random_reset_space
        vector = self.rng.uniform(space.low, space.high, size=space.low.size)
        self._last_rand_vec = vector
        return vector


@functools.cache
def _blueprint_class(cls: SawyerClass) -> Callable[[], _NoSimulation]:
    """The class without its simulation."""
    if not is_upstream(cls):
        raise ValueError(
            f"{cls} is not one of Meta-World's own classes, whose goals can be drawn here: pass a "
            "metaworld.Benchmark with the tasks of yours"
        )
    reset_model = collect_members(cls, SawyerXYZEnv)["reset_model"]
    members: dict[str, object] = {
        "_reset_hand": _NoSimulation._reset_hand,
        "reset_model": with_globals(reset_model, {"mujoco": _NO_MUJOCO}),
    }
    return type(cls.__name__, (cls, _NoSimulation), members)


@functools.cache
def goal_space(cls: SawyerClass) -> Box:
    """The Box, shape ``(3,)``, of the goals in a Sawyer class's observations (metres)."""
    if is_upstream(cls):
        space: Box = _blueprint_class(cls)().goal_space
        return space
    env = cls()
    env.close()
    return env.goal_space


def draw_vectors(cls: SawyerClass, n: int, rng: Uniform) -> list[NDArray[np.float64]]:
    """Draws the next ``n`` random vectors, ``(3,)`` or ``(6,)``, as ``n`` resets of ``cls`` would.

    ``rng`` takes the place of ``np.random`` in Meta-World, or of the environment's ``np_random``,
    which Meta-World uses if ``seeded_rand_vec`` is set.
    """
    env = _blueprint_class(cls)()
    env.rng = rng
    vectors = []
    for _ in range(n):
        # Meta-World's reset runs reset_model twice, and the second draw counts.
        env.reset_model()
        env.reset_model()
        vectors.append(env._last_rand_vec)
    return vectors


def check_vector(
    cls: SawyerClass, vector: NDArray[np.float64], name: str, *, bounded: bool = True
) -> None:
    """Raises `ValueError` unless Meta-World might draw this random vector for ``cls``.

    ``name`` is the vector's, for messages. Without ``bounded``, the vector may be out of the bounds
    of its draws, but Meta-World's reset must not redraw it forever. Classes other than Meta-World's
    own are not checked.
    """
    if not is_upstream(cls):
        return
    env = _blueprint_class(cls)()
    env.rng = _FixedVector(vector, name, bounded)
    env.reset_model()


class _FixedVector:
    """A substitute for a generator that returns one vector, once."""

    def __init__(self, vector: NDArray[np.float64], name: str, bounded: bool) -> None:
        self._vector, self._name, self._bounded = vector, name, bounded
        self._was_drawn = False

    def uniform(
        self, low: NDArray[np.float64], high: NDArray[np.float64], size: int
    ) -> NDArray[np.float64]:
        vector = self._vector
        fits = vector.shape == (size,) and np.isfinite(vector).all()
        if not fits or (self._bounded and not ((low <= vector) & (vector <= high)).all()):
            raise ValueError(
                f"{self._name} must be {size} numbers between {low.tolist()} and {high.tolist()}, "
                f"got {vector.tolist()}"
            )
        if self._was_drawn:
            raise ValueError(
                f"{self._name} must be one that Meta-World accepts, but it would redraw "
                f"{vector.tolist()}, which puts an object and the goal too close together"
            )
        self._was_drawn = True
        return vector
