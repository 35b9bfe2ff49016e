"""Faster versions of Meta-World's classes with bit-identical results.

They are used with the versions of Meta-World and MuJoCo for which this was verified.
"""

from __future__ import annotations

import functools
import warnings
from importlib.metadata import version
from typing import Literal, TypeAlias

from mtwrappers.metaworld.interfaces import SawyerClass
from mtwrappers.metaworld.upstream import classes_by_name, is_upstream, metaworld

Fast: TypeAlias = Literal["auto"] | bool

# (metaworld, mujoco) for which `mtwrappers verify-fast --full` succeeded.
VERIFIED = frozenset({("3.1.1", "3.3.0")})


def fast_class(cls: str | SawyerClass) -> SawyerClass:
    """Returns the fast subclass of one of Meta-World's classes, bit-identical and twice as fast.

    It keeps Meta-World's reward and reset code, and replaces the code around it. Observations,
    rewards, flags, infos and the simulation's integration state equal those of ``cls``. No module
    of Meta-World, Gymnasium, NumPy or SciPy is changed.

    The result of a reset to a task is kept as a snapshot (10 kB per task, 30 kB for a few classes;
    at most 1024 per environment). After an edit of anything that resets depend on, in the model or
    the environment's attributes, the next reset is run in full. In the model, these are its
    options, the fields of bodies, joints, geoms, sites, constraints and actuators, and the vertices
    of meshes that touch something; not colours, textures, cameras and lights. Do not edit other
    tables of a mesh (its hull, faces, polygons): edit its vertices, or compile another model.

    Args:
        cls: A Sawyer class, or the name of one, such as ``"reach-v3"``. A custom class is returned
            unchanged, and so is a fast one: only Meta-World's own code is verified.

    Raises:
        ValueError: If there is no class of that name.
        TypeError: If ``cls`` is not a Sawyer class.
        DependencyNotInstalled: If Meta-World is not installed.

    >>> from mtwrappers.metaworld import fast_class
    >>> from mtwrappers.metaworld.upstream import classes_by_name
    >>> env = fast_class("reach-v3")()
    >>> type(env).__name__, isinstance(env, classes_by_name(["reach-v3"])["reach-v3"])
    ('SawyerReachEnvV3', True)
    """
    metaworld()
    from metaworld.sawyer_xyz_env import SawyerXYZEnv

    from mtwrappers.metaworld.fast.classes import FastSawyer, make_fast_class

    if isinstance(cls, str):
        cls = classes_by_name([cls], "cls")[cls]
    if not isinstance(cls, type) or not issubclass(cls, SawyerXYZEnv):
        raise TypeError(f"expected a Sawyer class of Meta-World or the name of one, got {cls!r}")
    if issubclass(cls, FastSawyer) or not is_upstream(cls):
        return cls
    return make_fast_class(cls)


def class_to_build(cls: SawyerClass, fast: Fast) -> SawyerClass:
    """``cls`` or its fast subclass, which ``"auto"`` uses if it is verified."""
    if fast == "auto" and is_upstream(cls):
        reason = why_not_verified()
        fast = reason is None
        if reason is not None:
            warnings.warn(
                f"Meta-World's own classes are used instead of the fast ones: {reason}. If "
                "`mtwrappers verify-fast --full` prints yes, pass fast=True.",
                stacklevel=2,
            )
    return fast_class(cls) if fast is True else cls


@functools.cache
def why_not_verified() -> str | None:
    """The reason why the fast classes are not verified here, or ``None`` if they are."""
    installed = version("metaworld"), version("mujoco")
    if installed not in VERIFIED:
        verified = ", ".join(f"metaworld {a} with mujoco {b}" for a, b in sorted(VERIFIED))
        versions = f"metaworld {installed[0]} with mujoco {installed[1]}"
        return f"{versions} was not verified, only {verified}"
    metaworld()
    from mtwrappers.metaworld.fast.classes import find_inexact_twins

    differ = find_inexact_twins()
    return f"{', '.join(differ)} differ from NumPy's and SciPy's own here" if differ else None
