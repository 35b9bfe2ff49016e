"""Fast classes: copies of a Sawyer class's own functions on a fast base class.

The base is between the class and `SawyerXYZEnv` in the method resolution order. It does the same on
the same data, with all lookups done once. Unless a method's docstring says otherwise, it computes
the same operations in the same order as upstream's. Methods whose replacement would save less than
two per cent of a step are upstream's own.

The copied reward code calls faster twins of NumPy's, SciPy's and Meta-World's helper functions.
Each twin is bit-identical to its original for the inputs that it handles, and passes all others to
the original. `find_inexact_twins` compares them; if one differs on a machine, the originals are
used there.
"""

from __future__ import annotations

import copy
import functools
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, NoReturn

import mujoco
import numpy as np
from metaworld.sawyer_xyz_env import SawyerXYZEnv
from metaworld.utils import reward_utils
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from mtwrappers.common.types import AnyArray, Info, Options
from mtwrappers.metaworld.fast.snapshots import MAX_SNAPSHOTS, Snapshots
from mtwrappers.metaworld.interfaces import SawyerClass
from mtwrappers.metaworld.upstream import collect_members, with_globals

_sqrt = math.sqrt
_minimum, _maximum = np.minimum, np.maximum
_exp, _float64, _ndarray = np.exp, np.float64, np.ndarray
_FLOAT64 = np.dtype(np.float64)
_norm: Callable[..., Any] = np.linalg.norm
_tolerance = reward_utils.tolerance
_from_matrix = Rotation.from_matrix


def clip(
    x: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``np.clip(x, low, high, out=x)``."""
    return _minimum(_maximum(x, low, out=x), high, out=x)


def norm(x: object, ord: object = None, *args: object, **kwargs: object) -> Any:
    """``np.linalg.norm`` of a 1-D float64 array, or of one float64."""
    if not args and not kwargs:
        # Not `is`: an array that was unpickled may have a dtype of its own.
        if type(x) is _ndarray and x.ndim == 1 and x.dtype == _FLOAT64:
            if ord is None or ord == 2:  # the same for a vector
                return _float64(_sqrt(x.dot(x)))  # by the same BLAS that the original calls
        elif type(x) is _float64 and ord is None:
            return _float64(_sqrt(x * x))
    return _norm(x, ord, *args, **kwargs)


_DEFAULT: float = reward_utils._DEFAULT_VALUE_AT_MARGIN
_LONG_TAIL = float(np.sqrt(1 / _DEFAULT - 1))
_GAUSSIAN = float(np.sqrt(-2 * np.log(_DEFAULT)))


def tolerance(
    x: Any,
    bounds: tuple[float, float] = (0.0, 0.0),
    margin: Any = 0.0,
    sigmoid: str = "gaussian",
    value_at_margin: float = _DEFAULT,
) -> Any:
    """``reward_utils.tolerance`` of one number, for the two sigmoids in use."""
    kind, margin_kind = type(x), type(margin)
    if (
        (kind is float or kind is _float64)
        and (margin_kind is float or margin_kind is _float64)
        and margin > 0
        and (sigmoid == "long_tail" or sigmoid == "gaussian")
        and value_at_margin == _DEFAULT
    ):
        lower, upper = bounds
        if lower <= x <= upper:
            return 1.0
        if lower <= upper:
            distance = float(lower - x if x < lower else x - upper) / float(margin)
            if sigmoid == "long_tail":
                return 1 / ((distance * _LONG_TAIL) ** 2 + 1)
            # NumPy's own exp: the C library's may differ in the last bit.
            return float(_exp(-0.5 * (distance * _GAUSSIAN) ** 2))
    return _tolerance(
        x, bounds=bounds, margin=margin, sigmoid=sigmoid, value_at_margin=value_at_margin
    )


class _Quaternion:
    """A substitute for the result of `Rotation.from_matrix`."""

    __slots__ = ("_matrix",)

    def __init__(self, matrix: NDArray[np.float64]) -> None:
        self._matrix = matrix

    def as_quat(self) -> NDArray[np.float64]:
        return matrix_to_quaternion(self._matrix)


def matrix_to_quaternion(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """``Rotation.from_matrix(matrix).as_quat()`` of one rotation matrix.

    SciPy's algorithm: the largest of the diagonal and the trace decides which component comes
    first (Markley 2008, "Unit quaternion from rotation matrix"). A matrix that SciPy might
    orthogonalise is passed to SciPy.
    """
    if type(matrix) is not _ndarray or matrix.dtype != _FLOAT64 or matrix.shape != (3, 3):
        return np.asarray(_from_matrix(matrix).as_quat())
    (a, b, c), (d, e, f), (g, h, i) = matrix.tolist()
    ab, ac, bc = a * d + b * e + c * f, a * g + b * h + c * i, d * g + e * h + f * i
    aa, bb, cc = a * a + b * b + c * c, d * d + e * e + f * f, g * g + h * h + i * i
    det = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    # Far inside SciPy's own limits (1e-12 off the diagonal, 1e-5 on it).
    if not (
        -1e-13 < ab < 1e-13
        and -1e-13 < ac < 1e-13
        and -1e-13 < bc < 1e-13
        and -1e-7 < aa - 1 < 1e-7
        and -1e-7 < bb - 1 < 1e-7
        and -1e-7 < cc - 1 < 1e-7
        and det > 0.5
    ):
        return np.asarray(_from_matrix(matrix).as_quat())
    trace = a + e + i
    if trace >= a and trace >= e and trace >= i and not (a == trace or e == trace or i == trace):
        x, y, z, w = h - f, c - g, d - b, 1 + trace
    elif a >= e and a >= i:
        x, y, z, w = 1 - trace + 2 * a, d + b, g + c, h - f
    elif e >= i:
        x, y, z, w = b + d, 1 - trace + 2 * e, h + f, c - g
    else:
        x, y, z, w = c + g, f + h, 1 - trace + 2 * i, d - b
    length = _sqrt(x * x + y * y + z * z + w * w)
    return np.array([x / length, y / length, z / length, w / length])


def copy_module(module: ModuleType, **replaced: object) -> ModuleType:
    """A module with the contents of ``module``, except for some names."""
    module_copy = ModuleType(module.__name__)
    module_copy.__dict__.update({**vars(module), **replaced})
    return module_copy


def fast_globals() -> dict[str, object]:
    """The global names for the copies of Meta-World's functions."""
    return {
        "np": copy_module(np, linalg=copy_module(np.linalg, norm=norm)),
        "reward_utils": copy_module(reward_utils, tolerance=tolerance),
        "Rotation": SimpleNamespace(from_matrix=_Quaternion),  # all that Meta-World calls
    }


@dataclass(frozen=True)
class _Twin:
    """A faster function, the one that it replaces, and arguments to compare them with.

    Attributes:
        function: The faster function.
        original: NumPy's, SciPy's or Meta-World's.
        draw: Draws the arguments of a call.
    """

    function: Callable[..., object]
    original: Callable[..., object]
    draw: Callable[[], list[object]]


def find_inexact_twins(seed: int = 0, n: int = 200) -> list[str]:
    """The names of the twins that differ from their originals on this machine: normally none."""
    rng = np.random.Generator(np.random.PCG64(seed))
    low, high = np.full(39, -0.5), np.full(39, 0.5)
    low[4:18], high[4:18] = -np.inf, np.inf
    twins = [
        _Twin(norm, _norm, lambda: [rng.normal(size=rng.integers(1, 6))]),
        _Twin(norm, _norm, lambda: [rng.normal(size=1)[0]]),
        _Twin(
            tolerance, _tolerance, lambda: [rng.uniform(), (0, 0.05), rng.uniform(), "long_tail"]
        ),
        _Twin(tolerance, _tolerance, lambda: [rng.uniform(), (0, 0.05), rng.uniform(), "gaussian"]),
        _Twin(
            matrix_to_quaternion,
            lambda matrix: _from_matrix(matrix).as_quat(),
            lambda: [Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()],
        ),
        _Twin(clip, np.clip, lambda: [rng.normal(size=39), low, high]),
    ]
    differ = set()
    for twin in twins:
        for _ in range(n):
            arguments = twin.draw()
            expected = np.asarray(twin.original(*arguments)).tobytes()
            if np.asarray(twin.function(*arguments)).tobytes() != expected:
                differ.add(twin.function.__name__)
    return sorted(differ)


_QUAT = np.array([1.0, 0.0, 1.0, 0.0])
_XZ = np.array([0, 2])
_hamacher = reward_utils.hamacher_product
_mj_step, _mj_forward, _mj_rne = mujoco.mj_step, mujoco.mj_forward, mujoco.mj_rnePostConstraint
_mj_kinematics = mujoco.mj_kinematics


class Views:
    """The arrays of a simulation that a step reads or writes; views stay current while it runs."""

    body: dict[str, NDArray[np.float64]]  # positions by name, each (3,), metres
    site: dict[str, NDArray[np.float64]]

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self.data = data
        self.body = {model.body(k).name: data.xpos[k] for k in range(model.nbody)}
        self.site = {model.site(k).name: data.site_xpos[k] for k in range(model.nsite)}
        self.right_tip = self.site["rightEndEffector"]
        self.left_tip = self.site["leftEndEffector"]
        self.mocap_pos, self.mocap_quat = data.mocap_pos, data.mocap_quat
        self.ctrl = data.ctrl
        self.pads = model.geom("leftpad_geom").id, model.geom("rightpad_geom").id


# Compiled models by path, kept as long as an environment has a copy.
_shared: weakref.WeakValueDictionary[str, mujoco.MjModel] = weakref.WeakValueDictionary()
_compiled: set[str] = set()


def compiled_model(path: str) -> tuple[mujoco.MjModel, mujoco.MjModel | None]:
    """A model as compiled, and the shared model that its environment must hold for later copies.

    Compiling takes 120 ms and copying 9 ms, but a model that is kept for copying takes 21 MB. So
    the first environment of a class has its model to itself; from the second on, all have copies of
    a shared model that is never used itself.
    """
    shared = _shared.get(path)
    if shared is None:
        shared = mujoco.MjModel.from_xml_path(path)
        if path not in _compiled:
            _compiled.add(path)
            return shared, None
        _shared[path] = shared
    return copy.copy(shared), shared


class FastSawyer(SawyerXYZEnv):  # type: ignore[misc] # metaworld has no usable types
    """`SawyerXYZEnv` with the same bits in less time."""

    max_snapshots = MAX_SNAPSHOTS
    _snapshots: Snapshots | None = None
    _settles_hand = True

    def _initialize_simulation(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Replaces `MujocoEnv`'s, which compiles the model for every environment."""
        model, self._shared_model = compiled_model(self.fullpath)
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, self.width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, self.height)
        data = mujoco.MjData(model)
        self._views = Views(model, data)
        return model, data

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Sawyer environment cannot be pickled; pickle a MetaWorldSetTaskEnv, or its task"
        )

    # Positions.

    def get_body_com(self, body_name: str) -> NDArray[np.float64]:
        """A body's position, ``(3,)``, metres: a live view, as in upstream."""
        return self._views.body[body_name]

    def _get_site_pos(self, site_name: str) -> NDArray[np.float64]:
        return self._views.site[site_name].copy()

    @property
    def tcp_center(self) -> NDArray[np.float64]:
        """The middle between the finger tips, ``(3,)``, metres."""
        views = self._views
        center: NDArray[np.float64] = (views.right_tip + views.left_tip) / 2.0
        return center

    # Resets.

    def reset(
        self, seed: int | None = None, options: Options | None = None
    ) -> tuple[NDArray[np.float64], Info]:
        """Settles the hand once, where upstream does so twice, or restores a snapshot."""
        model, data, snapshots = self.model, self.data, self._snapshots
        if data is not self._views.data:
            self._views = Views(model, data)
        if not self._freeze_rand_vec:
            # Random goals: each run of reset_model draws one, so both have to be run.
            result: tuple[NDArray[np.float64], Info] = super().reset(seed, options)
            return result
        if snapshots is None or snapshots.model is not model or snapshots.data is not data:
            snapshots = self._snapshots = Snapshots(model, data)
        obs = snapshots.reset(self, self._reset_once)
        if self.render_mode == "human":
            self.render()
        return obs, {}

    def _reset_hand(self, steps: int = 50) -> None:
        if self._settles_hand:
            super()._reset_hand(steps)
        else:
            _mj_kinematics(self.model, self.data)  # the model may have been edited
            self.init_tcp = self.tcp_center

    def _reset_once(self) -> NDArray[np.float64]:
        self.curr_path_length = 0
        # The first run moves the model, and the second starts from that. The first run's hand
        # position and observation do not matter, because the simulation is then reset.
        self._prev_obs = np.zeros(18)
        self._settles_hand = False
        self.reset_model()
        self._settles_hand = True
        # Skips SawyerXYZEnv.reset; its parent's resets the simulation and runs reset_model.
        obs: NDArray[np.float64] = super(SawyerXYZEnv, self).reset()[0]
        self._prev_obs = obs[:18].copy()
        obs[18:36] = self._prev_obs
        return obs

    # Observations.

    def _get_curr_obs_combined_no_goal(self) -> NDArray[np.float64]:
        """Upstream's hstacks and splits, as writes into one array."""
        views = self._views
        obs = np.zeros(18)
        obs[:3] = views.body["hand"]
        apart = norm(views.body["rightclaw"] - views.body["leftclaw"]) / 0.1
        # np.clip does not change values within the bounds.
        obs[3] = apart if 0.0 <= apart <= 1.0 else np.clip(apart, 0.0, 1.0)
        pos, quat = self._get_pos_objects(), self._get_quat_objects()
        at = 4
        for k in range(len(pos) // 3):  # one or two objects
            obs[at : at + 3] = pos[3 * k : 3 * k + 3]
            obs[at + 3 : at + 7] = quat[4 * k : 4 * k + 4]
            at += 7
        return obs

    def _get_obs(self) -> NDArray[np.float64]:
        obs = np.empty(39)
        obs[:18] = current = self._get_curr_obs_combined_no_goal()
        obs[18:36] = self._prev_obs
        # Upstream observes zeros of the goal's own shape.
        obs[36:] = 0.0 if self._partially_observable else self._get_pos_goal()
        self._prev_obs = current
        return obs

    # Rewards.

    def touching_object(self, object_geom_id: int) -> bool:
        """Reads all pairs of geoms at once, where upstream loops over contacts."""
        data, contact = self.data, self.data.contact
        pairs = contact.geom.tolist()
        sides = [
            [k for k, pair in enumerate(pairs) if pad in pair and object_geom_id in pair]
            for pad in self._views.pads
        ]
        return all(sum(data.efc_force[contact.efc_address[k]] for k in side) > 0 for side in sides)

    def _gripper_caging_reward(
        self,
        action: NDArray[np.float32],
        obj_pos: NDArray[np.float64],
        obj_radius: float,
        pad_success_thresh: float,
        object_reach_radius: float,
        xz_thresh: float,
        desired_gripper_effort: float = 1.0,
        high_density: bool = False,
        medium_density: bool = False,
    ) -> float:
        """Computes with scalars where upstream has arrays of two."""
        init_pos: NDArray[np.float64] = self.obj_init_pos
        # Along y: a pad between the object's radius and the threshold from it is best.
        obj_y, init_y = float(obj_pos[1]), float(init_pos[1])
        bounds = (obj_radius, pad_success_thresh)
        sides = []
        for pad in ("leftpad", "rightpad"):
            y = float(self.get_body_com(pad)[1])
            margin = abs(abs(y - init_y) - pad_success_thresh)
            sides.append(tolerance(abs(y - obj_y), bounds, margin, "long_tail"))
        # In the x-z plane: the closer the better.
        tcp = self.tcp_center
        apart = norm(tcp.take(_XZ) - obj_pos.take(_XZ))
        margin = norm(init_pos.take(_XZ) - self.init_tcp.take(_XZ)) - xz_thresh
        caging_xz = tolerance(apart, (0, xz_thresh), margin, "long_tail")
        caging = _hamacher(_hamacher(*sides), float(caging_xz))
        effort = min(max(0, action[-1]), desired_gripper_effort) / desired_gripper_effort
        reward: float = _hamacher(caging, effort if caging > 0.97 else 0.0)
        if high_density:
            reward = (reward + caging) / 2
        if medium_density:
            reach_margin = abs(norm(init_pos - self.init_tcp) - object_reach_radius)
            reach = tolerance(
                norm(obj_pos - tcp), (0, object_reach_radius), reach_margin, "long_tail"
            )
            reward = (reward + float(reach)) / 2
        return reward

    # The step.

    def set_xyz_action(self, action: AnyArray) -> None:
        """Moves the mocap body by ``action``, ``(3,)``, within its bounds."""
        action = np.asarray(action)
        x, y, z = action.tolist()
        if not (-1 <= x <= 1 and -1 <= y <= 1 and -1 <= z <= 1):
            action = np.clip(action, -1, 1)
        views = self._views
        pos = views.mocap_pos
        pos += action * self.action_scale
        clip(pos, self.mocap_low, self.mocap_high)
        views.mocap_quat[:] = _QUAT

    def step(self, action: AnyArray) -> tuple[NDArray[np.float64], float, bool, bool, Info]:
        """Upstream's step.

        It leaves out that upstream writes the target sites' positions before ``mj_forward``, which
        overwrites them.
        """
        if not self._set_task_called:
            raise RuntimeError("You must call env.set_task before using env.step")
        assert len(action) == 4, f"Actions should be size 4, got {len(action)}"
        model, data, views = self.model, self.data, self._views
        if data is not views.data:
            views = self._views = Views(model, data)
        self.set_xyz_action(action[:3])
        if self.curr_path_length >= self.max_path_length:
            raise ValueError("You must reset the env manually once truncate==True")
        effort = action[-1]
        views.ctrl[0] = effort
        views.ctrl[1] = -effort
        _mj_step(model, data, nstep=self.frame_skip)
        _mj_rne(model, data)
        self.curr_path_length += 1
        _mj_forward(model, data)
        self._last_stable_obs = obs = self._get_obs()
        space = self.sawyer_observation_space
        clip(obs, space.low, space.high)
        reward, info = self.evaluate_state(obs, action)
        truncated = self.curr_path_length == self.max_path_length
        return obs.copy(), reward, False, truncated, info


@functools.cache
def make_fast_class(cls: SawyerClass) -> SawyerClass:
    """The fast subclass of one of Meta-World's classes; see `mtwrappers.metaworld.fast_class`."""
    names = fast_globals()
    copies: list[FunctionType] = []

    def copy_function(function: Any) -> FunctionType:
        copies.append(with_globals(function, names))
        return copies[-1]

    members: dict[str, object] = {}
    for name, value in collect_members(cls, SawyerXYZEnv).items():
        if isinstance(value, FunctionType) and name != "__init__":
            members[name] = copy_function(value)
        elif isinstance(value, property):
            members[name] = property(copy_function(value.fget), value.fset, value.fdel)
        elif isinstance(value, staticmethod):
            members[name] = staticmethod(copy_function(value.__func__))
    members["__module__"] = cls.__module__
    # The name is kept, because it is Meta-World's own task_name.
    fast_class = type(cls.__name__, (cls, FastSawyer), members)
    for function in copies:
        # Classes call their static methods through their own name.
        if cls.__name__ in function.__globals__:
            function.__globals__[cls.__name__] = fast_class
    return fast_class
