"""The base that stands between a Sawyer class and `SawyerXYZEnv` in a fast class.

It does what `SawyerXYZEnv` does, on the same data, with everything looked up once. Each method says
which of upstream's it replaces; where nothing is said, the numbers are computed by the same
operations in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from metaworld.sawyer_xyz_env import SawyerXYZEnv
from numpy.typing import NDArray

from mtwrappers.metaworld.fast.grasp import Grasp, Views
from mtwrappers.metaworld.fast.helpers import clip, norm
from mtwrappers.metaworld.fast.memory import compiled_model
from mtwrappers.metaworld.fast.snapshots import Snapshots

_QUAT = np.array([1.0, 0.0, 1.0, 0.0])
_mj_step, _mj_forward, _mj_rne = mujoco.mj_step, mujoco.mj_forward, mujoco.mj_rnePostConstraint


class FastSawyer(Grasp):
    """`SawyerXYZEnv` with the same bits in less time."""

    # Set by `fast_class`: the class's own evaluate_state, with fast helpers and no decorator.
    _evaluate: Callable[[NDArray[Any], NDArray[Any]], tuple[Any, dict[str, Any]]]

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

    # Where things are.

    def get_body_com(self, body_name: str) -> NDArray[np.float64]:
        """A body's position, ``(3,)``, metres: a live view, as upstream's."""
        position: NDArray[np.float64] = self._views.body[body_name]
        return position

    def get_endeff_pos(self) -> NDArray[np.float64]:
        """The hand's position, ``(3,)``, metres: a live view, as upstream's."""
        return self._views.hand

    def _get_site_pos(self, site_name: str) -> NDArray[np.float64]:
        return self._views.site[site_name].copy()

    def _set_pos_site(self, name: str, pos: NDArray[Any]) -> None:
        self._views.site[name][:] = pos[:3]

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
        """Upstream's reset, which settles the hand twice: once, or from a snapshot."""
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
            self.init_tcp = self.tcp_center

    def _reset_once(self) -> NDArray[np.float64]:
        self.curr_path_length = 0
        # The first run moves the model, and the second starts from that; where the first leaves
        # the hand and what it observes does not matter, because the simulation is then reset.
        self._prev_obs = np.zeros(18)
        self._settles_hand = False
        self.reset_model()
        self._settles_hand = True
        # Past SawyerXYZEnv.reset, to the one that resets the simulation and runs reset_model.
        obs: NDArray[np.float64] = super(SawyerXYZEnv, self).reset()[0]
        self._prev_obs = obs[:18].copy()
        obs[18:36] = self._prev_obs
        return obs

    # Observations.

    def _get_curr_obs_combined_no_goal(self) -> NDArray[np.float64]:
        """Upstream's hstacks and splits, as writes into one array."""
        views = self._views
        obs = np.zeros(18)
        obs[:3] = views.hand
        apart = norm(views.right_claw - views.left_claw) / 0.1
        # np.clip keeps the bits of whatever lies between.
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
        # Upstream shows zeros of the goal's own shape.
        obs[36:] = 0.0 if self._partially_observable else self._get_pos_goal()
        self._prev_obs = current
        return obs

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

        Upstream also writes the target sites' positions before ``mj_forward``, which computes
        them anew from the model; that is left out.
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
        reward, info = self._evaluate(obs, action)
        truncated = self.curr_path_length == self.max_path_length
        return obs.copy(), reward, False, truncated, info
