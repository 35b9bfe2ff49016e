"""The fast subclass of a user's own Sawyer class: what it inherits is fast, what it adds stays.

None of its functions is copied, so they see their module's names as they change, their decorators
stay, and ``super()`` leads to the fast methods. Its resets run twice, as upstream's do, and no
snapshots are kept: they may count, draw or read what no snapshot knows of.
"""

from __future__ import annotations

import functools
from typing import Any

from metaworld.sawyer_xyz_env import SawyerXYZEnv

from mtwrappers.metaworld.fast.classes import make_fast_class
from mtwrappers.metaworld.fast.sawyer import FastSawyer
from mtwrappers.metaworld.upstream import all_classes

# What the fast step and the fast observation do not call. A class that overrides one gets neither.
_NOT_CALLED = frozenset(
    {
        "_initialize_simulation",
        "_set_pos_site",
        "_step_mujoco_simulation",
        "_target_site_config",
        "do_simulation",
        "get_endeff_pos",
    }
)


@functools.cache
def make_fast_own_class(cls: Any) -> Any:
    """The fast subclass of a class that is not Meta-World's; see `fast_class`.

    Raises:
        TypeError: If it has no rewards: `SawyerXYZEnv` itself, or another incomplete class.
    """
    if cls.evaluate_state is SawyerXYZEnv.evaluate_state:
        raise TypeError(f"expected a Sawyer class with an evaluate_state of its own, got {cls!r}")
    stock = set(all_classes().values())
    adds = [owner for owner in cls.__mro__ if owner not in stock | set(SawyerXYZEnv.__mro__)]
    if any(_NOT_CALLED & vars(owner).keys() for owner in adds):
        return cls
    bases = [make_fast_class(base) for base in cls.__mro__ if base in stock]
    # Between the user's class and what it inherits, so that its own reset is found first.
    inherited = type(cls.__name__, (_FullResets, *(bases or [FastSawyer])), {})
    own = {
        "__doc__": f"{cls.__name__}, with the same bits sooner.",
        "__module__": cls.__module__,
        "_upstream_class": cls,
    }
    return type(cls.__name__, (cls, inherited), own)


class _FullResets(FastSawyer):
    """What a fast class does only for code that it knows, done as upstream does it."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        result: tuple[Any, dict[str, Any]] = SawyerXYZEnv.reset(self, seed, options)
        return result

    def _evaluate(self, obs: Any, action: Any) -> tuple[Any, dict[str, Any]]:
        result: tuple[Any, dict[str, Any]] = self.evaluate_state(obs, action)
        return result
