"""On which versions the fast classes are known to give upstream's bits."""

from __future__ import annotations

import functools
import warnings
from importlib.metadata import version
from typing import Any, Literal, TypeAlias

from mtwrappers.metaworld.upstream import all_classes, classes_by_name, metaworld

Fast: TypeAlias = Literal["auto"] | bool

# (metaworld, mujoco) on which `mtwrappers verify-fast --full` said yes.
VERIFIED = frozenset({("3.1.1", "3.3.0")})


def fast_class(cls: Any) -> type[Any]:
    """The fast subclass of a Sawyer class: the same bits, several times sooner.

    It keeps Meta-World's reward and reset code, and replaces what surrounds it. Observations,
    rewards, flags, infos and the full simulation state equal those of ``cls``. No module of
    Meta-World, Gymnasium, NumPy or SciPy is changed by it.

    Resets to a task are kept as snapshots (about 10 kB each, 30 kB for a few classes; the 1024
    latest an environment), until the model is edited from outside. A class of your own, derived
    from a Sawyer class, keeps its code as it is; what it inherits is fast, but for resets, which
    may depend on anything there and are run in full. One that overrides how the simulation is
    stepped or built stays as it is.

    Args:
        cls: A Sawyer class, or the name of one, such as ``"reach-v3"``. A fast one stays itself.

    Raises:
        ValueError: If there is no class of that name.
        TypeError: If it is no Sawyer class.
        DependencyNotInstalled: If Meta-World is not installed.

    >>> env = fast_class("reach-v3")()
    >>> type(env).__name__, isinstance(env, all_classes()["reach-v3"])
    ('SawyerReachEnvV3', True)
    """
    metaworld()
    from metaworld.sawyer_xyz_env import SawyerXYZEnv

    from mtwrappers.metaworld.fast.classes import make_fast_class
    from mtwrappers.metaworld.fast.own_class import make_fast_own_class
    from mtwrappers.metaworld.fast.sawyer import FastSawyer

    if isinstance(cls, str):
        cls = classes_by_name([cls])[cls]
    if not isinstance(cls, type) or not issubclass(cls, SawyerXYZEnv):
        raise TypeError(f"expected a Sawyer class of Meta-World or the name of one, got {cls!r}")
    if issubclass(cls, FastSawyer):
        return cls  # it is fast already
    make: Any = make_fast_class if cls in all_classes().values() else make_fast_own_class
    made: type[Any] = make(cls)
    return made


def class_to_build(cls: type[Any], fast: Fast) -> type[Any]:
    """``cls`` or its fast subclass.

    Args:
        cls: A Sawyer class.
        fast: ``True`` and ``False`` decide; ``"auto"`` takes the fast one for Meta-World's own
            classes on verified versions.

    Raises:
        ValueError: If ``fast`` is none of those.
    """
    if fast not in ("auto", True, False):
        raise ValueError(f"fast must be 'auto', True or False, got {fast!r}")
    if fast is True:
        return fast_class(cls)
    if fast == "auto" and cls in all_classes().values() and _is_verified():
        return fast_class(cls)
    return cls


def fast_serves(fast: Fast) -> bool:
    """Whether Meta-World's own classes are built as fast ones."""
    return fast is True or (fast == "auto" and _is_verified())


@functools.cache
def _is_verified() -> bool:
    """Whether the fast classes can be trusted here; warns once when they cannot."""
    reason = why_not_verified()
    if reason is not None:
        warnings.warn(
            f"the stock Meta-World classes serve instead of the fast ones: {reason}. If "
            "`mtwrappers verify-fast --full` says yes, pass fast=True.",
            stacklevel=2,
        )
    return reason is None


def why_not_verified() -> str | None:
    """Why the fast classes are not to be trusted here, or ``None`` if they are."""
    installed = version("metaworld"), version("mujoco")
    if installed not in VERIFIED:
        known = ", ".join(f"metaworld {a} with mujoco {b}" for a, b in sorted(VERIFIED))
        return f"metaworld {installed[0]} with mujoco {installed[1]} was not verified, only {known}"
    metaworld()
    from mtwrappers.metaworld.fast.helpers import exact

    differ = exact()
    return f"{', '.join(differ)} differ from NumPy's and SciPy's own here" if differ else None
