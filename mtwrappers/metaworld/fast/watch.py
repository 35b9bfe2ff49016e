"""The arrays and options of a MuJoCo model on which a reset or a frame depends, watched for edits.

Watched arrays are listed by name: except for the hulls of meshes, editing any other array of
Meta-World's models does not change a bit of a reset.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

# Tendons, contact pairs, sensors and flexes are left out: Meta-World's models have none.
_OF_RESETS = (
    *("qpos0", "qpos_spring"),
    *("body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia"),
    *("body_invweight0", "body_gravcomp", "body_margin", "body_contype", "body_conaffinity"),
    *("jnt_pos", "jnt_axis", "jnt_limited", "jnt_range", "jnt_margin", "jnt_stiffness"),
    *("jnt_solref", "jnt_solimp", "jnt_actfrclimited", "jnt_actfrcrange", "jnt_actgravcomp"),
    *("dof_armature", "dof_damping", "dof_frictionloss", "dof_invweight0", "dof_M0"),
    *("dof_solref", "dof_solimp"),
    *("geom_type", "geom_pos", "geom_quat", "geom_size", "geom_aabb", "geom_rbound"),
    *("geom_contype", "geom_conaffinity", "geom_condim", "geom_priority", "geom_friction"),
    *("geom_margin", "geom_gap", "geom_solmix", "geom_solref", "geom_solimp", "geom_fluid"),
    *("site_pos", "site_quat"),
    *("eq_type", "eq_active0", "eq_data", "eq_solref", "eq_solimp"),
    *("actuator_ctrllimited", "actuator_ctrlrange", "actuator_forcelimited"),
    *("actuator_forcerange", "actuator_gear", "actuator_gaintype", "actuator_gainprm"),
    *("actuator_biastype", "actuator_biasprm", "actuator_dyntype", "actuator_dynprm"),
)
# Prefixes of the arrays on which a frame depends besides the simulation's state. OpenGL does not
# update meshes and textures.
_OF_FRAMES = ("qpos0", "body_", "jnt_", "geom_", "site_", "cam_", "light_", "mat_")


class Watch:
    """Detects changes of MuJoCo's arrays, and of structs of numbers and arrays.

    Attributes:
        arrays: The arrays, flat; each is a view of MuJoCo's memory, and stays current.
    """

    def __init__(self, arrays: Iterable[NDArray[Any]], structs: Iterable[Any]) -> None:
        self.arrays = [array.reshape(-1) for array in arrays]
        self._readers: list[tuple[Any, Callable[[Any], Any]]] = []
        for struct in structs:
            inside = {name: getattr(struct, name) for name in names(struct)}
            self.arrays += [value for value in inside.values() if isinstance(value, np.ndarray)]
            numbers = [name for name, value in inside.items() if isinstance(value, (int, float))]
            if numbers:
                self._readers.append((struct, operator.attrgetter(*numbers)))
        self.remember()

    def remember(self) -> None:
        """Remembers everything as it is now."""
        self._bits = list(map(bytearray, self.arrays))
        self._numbers = self._read()

    def write(self, k: int, values: NDArray[Any]) -> None:
        """Writes array ``k``, and remembers the new values."""
        self.arrays[k][...] = values
        self._bits[k] = bytearray(self.arrays[k])

    def unchanged(self) -> bool:
        """Whether everything is bit for bit as remembered."""
        # A bytearray compares itself with any buffer without copying.
        same = all(map(operator.eq, self._bits, self.arrays))
        return same and self._read() == self._numbers

    def _read(self) -> list[Any]:
        return [read(struct) for struct, read in self._readers]


def names(struct: Any) -> list[str]:
    """The names of the fields of a MuJoCo struct."""
    return [name for name in dir(struct) if not name.startswith("_")]


def watch_reset(model: Any) -> Watch:
    """Watches what a reset depends on."""
    arrays = [getattr(model, name) for name in _OF_RESETS]
    # The bounding volumes of bodies, which precede the meshes'.
    arrays.append(model.bvh_aabb[: model.body_bvhnum.sum()])
    # The vertices of meshes that can currently touch something.
    touching = (model.geom_contype | model.geom_conaffinity) != 0
    meshes = model.geom_dataid[touching & (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)]
    first, count = model.mesh_vertadr[meshes], model.mesh_vertnum[meshes]
    arrays += [model.mesh_vert[i : i + n] for i, n in zip(first, count, strict=True)]
    return Watch(arrays, [model.opt, model.stat])


def watch_frame(model: Any) -> Watch:
    """Watches what a frame depends on besides the simulation's state."""
    arrays = [getattr(model, name) for name in names(model) if name.startswith(_OF_FRAMES)]
    visual = [getattr(model.vis, name) for name in names(model.vis)]
    return Watch(arrays, [model.opt, model.stat, *visual])
