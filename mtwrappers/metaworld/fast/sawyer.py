"""Fast classes: copies of a Sawyer class's own functions on a fast base class.

The base is between the class and `SawyerXYZEnv` in the method resolution order. It does the same on
the same data, with all lookups done once. Unless a method's docstring says otherwise, it computes
the same operations in the same order as upstream's. Methods whose replacement would save less than
two per cent of a step are upstream's own.
"""

from __future__ import annotations

import copy
import functools
import weakref
from types import FunctionType
from typing import Any, NoReturn

import mujoco
import numpy as np
from metaworld.sawyer_xyz_env import SawyerXYZEnv
from metaworld.utils import reward_utils
from numpy.typing import NDArray

from mtwrappers.metaworld.fast.helpers import clip, fast_globals, norm, tolerance
from mtwrappers.metaworld.fast.snapshots import MAX_SNAPSHOTS, Snapshots
from mtwrappers.metaworld.upstream import names_of, with_globals

_QUAT = np.array([1.0, 0.0, 1.0, 0.0])
_XZ = np.array([0, 2])
_hamacher = reward_utils.hamacher_product
_mj_step, _mj_forward, _mj_rne = mujoco.mj_step, mujoco.mj_forward, mujoco.mj_rnePostConstraint
_mj_kinematics = mujoco.mj_kinematics


class Views:
    """The arrays of a simulation that a step reads or writes; views stay current while it runs."""

    body: dict[str, NDArray[np.float64]]  # positions by name, each (3,), metres
    site: dict[str, NDArray[np.float64]]

    def __init__(self, model: Any, data: Any) -> None:
        self.data = data
        self.body = {model.body(k).name: data.xpos[k] for k in range(model.nbody)}
        self.site = {model.site(k).name: data.site_xpos[k] for k in range(model.nsite)}
        self.right_tip = self.site["rightEndEffector"]
        self.left_tip = self.site["leftEndEffector"]
        self.mocap_pos, self.mocap_quat = data.mocap_pos, data.mocap_quat
        self.ctrl = data.ctrl
        self.pads = model.geom("leftpad_geom").id, model.geom("rightpad_geom").id


# Compiled models by path, kept as long as an environment has a copy.
_shared: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_compiled: set[str] = set()


def compiled_model(path: str) -> tuple[Any, Any]:
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

    def _initialize_simulation(self) -> tuple[Any, Any]:
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
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Settles the hand once, where upstream does so twice, or restores a snapshot."""
        model, data, snapshots = self.model, self.data, self._snapshots
        if data is not self._views.data:
            self._views = Views(model, data)
        if not self._freeze_rand_vec:
            # Random goals: each run of reset_model draws one, so both have to be run.
            result: tuple[NDArray[np.float64], dict[str, Any]] = super().reset(seed, options)
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

    def touching_object(self, object_geom_id: int) -> Any:
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
        obj_pos: NDArray[Any],
        obj_radius: float,
        pad_success_thresh: float,
        object_reach_radius: float,
        xz_thresh: float,
        desired_gripper_effort: float = 1.0,
        high_density: bool = False,
        medium_density: bool = False,
    ) -> Any:
        """Computes with scalars where upstream has arrays of two."""
        init_pos: Any = self.obj_init_pos
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
        reward = _hamacher(caging, effort if caging > 0.97 else 0.0)
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

    def set_xyz_action(self, action: NDArray[Any]) -> None:
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

    def step(self, action: NDArray[np.float32]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
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
def make_fast_class(cls: Any) -> Any:
    """The fast subclass of one of Meta-World's classes; see `mtwrappers.metaworld.fast_class`."""
    names = fast_globals()
    copies: list[FunctionType] = []

    def copied(function: Any) -> FunctionType:
        copies.append(with_globals(function, names))
        return copies[-1]

    own: dict[str, Any] = {}
    for name, value in names_of(cls, SawyerXYZEnv).items():
        if isinstance(value, FunctionType) and name != "__init__":
            own[name] = copied(value)
        elif isinstance(value, property):
            own[name] = property(copied(value.fget), value.fset, value.fdel)
        elif isinstance(value, staticmethod):
            own[name] = staticmethod(copied(value.__func__))
    own["__module__"] = cls.__module__
    # The name is kept, because it is Meta-World's own task_name.
    made = type(cls.__name__, (cls, FastSawyer), own)
    for function in copies:
        # Classes call their static methods through their own name.
        if cls.__name__ in function.__globals__:
            function.__globals__[cls.__name__] = made
    return made
