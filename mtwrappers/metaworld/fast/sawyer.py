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

from mtwrappers.metaworld.fast.grasp import Grasp
from mtwrappers.metaworld.fast.helpers import norm
from mtwrappers.metaworld.fast.models import shared_compile
from mtwrappers.metaworld.fast.snapshots import Snapshots

_QUAT = np.array([1.0, 0.0, 1.0, 0.0])
# The ufunc inside np.clip, without the checks around it.
_clip: Any = np._core.umath.clip  # type: ignore[attr-defined]
# Arrays, of the dtype that actions have, spare NumPy the conversion of numbers.
_MINUS_ONE, _ONE = np.full(3, -1, np.float32), np.full(3, 1, np.float32)
_mj_step, _mj_forward, _mj_rne = mujoco.mj_step, mujoco.mj_forward, mujoco.mj_rnePostConstraint


class FastSawyer(Grasp):
    """See the module."""

    # Set by `fast_class`: the class's own evaluate_state, with fast helpers and no decorator.
    _evaluate: Callable[[NDArray[Any], NDArray[Any]], tuple[Any, dict[str, Any]]]

    _snapshots: Snapshots | None = None
    _snapshots_on = True
    _settles_hand = True

    def _initialize_simulation(self) -> tuple[Any, Any]:
        """Replaces `MujocoEnv`'s, which compiles the model for every environment."""
        model = shared_compile(
            self, self.fullpath, lambda: mujoco.MjModel.from_xml_path(self.fullpath)
        )
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, self.width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, self.height)
        data = mujoco.MjData(model)
        self._look_up(model, data)
        return model, data

    def _look_up(self, model: Any, data: Any) -> None:
        """Finds every array that a step reads or writes. They are views: they stay current."""
        self._views_of = data
        self._body_xpos = {
            model.body(i).name: data.xpos[i] for i in range(model.nbody) if model.body(i).name
        }
        self._site_xpos = {
            model.site(i).name: data.site_xpos[i] for i in range(model.nsite) if model.site(i).name
        }
        body, site = self._body_xpos, self._site_xpos
        self._hand = body["hand"]
        self._right_claw, self._left_claw = body["rightclaw"], body["leftclaw"]
        self._right_tip, self._left_tip = site["rightEndEffector"], site["leftEndEffector"]
        self._mocap_pos, self._mocap_quat = data.mocap_pos, data.mocap_quat
        self._ctrl = data.ctrl
        self._pads = model.geom("leftpad_geom").id, model.geom("rightpad_geom").id
        self._geom_ids: dict[str, int] = {}
        self._bounds_of: Any = None

    # Where things are.

    def get_body_com(self, body_name: str) -> NDArray[np.float64]:
        """A body's position, ``(3,)``, metres: a live view, as upstream's."""
        position: NDArray[np.float64] = self._body_xpos[body_name]
        return position

    def get_endeff_pos(self) -> NDArray[np.float64]:
        """The hand's position, ``(3,)``, metres: a live view, as upstream's."""
        position: NDArray[np.float64] = self._hand
        return position

    def _get_site_pos(self, site_name: str) -> NDArray[np.float64]:
        position: NDArray[np.float64] = self._site_xpos[site_name].copy()
        return position

    def _set_pos_site(self, name: str, pos: NDArray[Any]) -> None:
        assert isinstance(pos, np.ndarray)
        assert pos.ndim == 1
        self._site_xpos[name][:] = pos[:3]

    @property
    def tcp_center(self) -> NDArray[np.float64]:
        """The middle between the finger tips, ``(3,)``, metres."""
        center: NDArray[np.float64] = (self._right_tip + self._left_tip) / 2.0
        return center

    # Resets.

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Upstream's reset, which settles the hand twice: once, or from a snapshot."""
        if not self._freeze_rand_vec:
            # Random goals: each run of reset_model draws one, so both have to be run.
            result: tuple[NDArray[np.float64], dict[str, Any]] = super().reset(seed, options)
            return result
        if self._snapshots is None and self._snapshots_on:
            self._snapshots = Snapshots(self)
        snapshots = self._snapshots
        if snapshots is not None and not snapshots.trustworthy(self):
            self._snapshots, self._snapshots_on = None, False
            snapshots = None
        if snapshots is None:
            return self._reset_once(), {}
        key = self._reset_key()
        obs = snapshots.restore(self, key)
        if obs is None:
            obs = snapshots.record(self, key, self._reset_once)
        elif self.render_mode == "human":
            self.render()
        return obs, {}

    def _reset_key(self) -> tuple[Any, ...]:
        """All that a reset depends on, beside the model."""
        return (
            self._last_rand_vec.tobytes(),
            self._partially_observable,
            self.reward_function_version,
            self.hand_init_pos.tobytes(),
            np.asarray(getattr(self, "goal", 0.0)).tobytes(),
            self.frame_skip,
        )

    def _reset_hand(self, steps: int = 50) -> None:
        if self._settles_hand:
            super()._reset_hand(steps)
        else:
            self.init_tcp = self.tcp_center

    def _reset_once(self) -> NDArray[np.float64]:
        self.curr_path_length = 0
        # The first run moves the model, and the second starts from that; where the first leaves
        # the hand does not matter, because the simulation is then reset.
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
        obs = np.zeros(18)
        obs[:3] = self._hand
        apart = norm(self._right_claw - self._left_claw) / 0.1
        # np.clip keeps the bits of whatever lies between.
        obs[3] = apart if 0.0 <= apart <= 1.0 else np.clip(apart, 0.0, 1.0)
        pos, quat = self._get_pos_objects(), self._get_quat_objects()
        n, m = len(pos), len(quat)
        if n == 3 and m == 4:
            obs[4:7] = pos
            obs[7:11] = quat
            return obs
        assert n % 3 == 0
        assert m % 4 == 0
        at = 4
        for k in range(min(n // 3, m // 4)):
            obs[at : at + 3] = pos[3 * k : 3 * k + 3]
            obs[at + 3 : at + 7] = quat[4 * k : 4 * k + 4]
            at += 7
        assert at == 4 + n + m
        return obs

    def _get_obs(self) -> NDArray[np.float64]:
        obs = np.empty(39)
        obs[:18] = current = self._get_curr_obs_combined_no_goal()
        obs[18:36] = self._prev_obs
        # Upstream shows zeros of the goal's own shape.
        obs[36:] = 0.0 if self._partially_observable else self._get_pos_goal()
        self._prev_obs = current
        return obs

    def _bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The bounds to clip to, of the space that holds now."""
        space = self.sawyer_observation_space
        if space is not self._bounds_of:
            self._bounds_of = space
            self._low, self._high = space.low, space.high
        return self._low, self._high

    # The step.

    def set_xyz_action(self, action: NDArray[Any]) -> None:
        """Moves the mocap body by ``action``, ``(3,)``, within its bounds."""
        delta = _clip(action, _MINUS_ONE, _ONE) * self.action_scale
        pos = self._mocap_pos
        _clip(pos + delta, self.mocap_low, self.mocap_high, pos)
        self._mocap_quat[:] = _QUAT

    def step(self, action: NDArray[np.float32]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Upstream's step.

        Upstream also writes the target sites' positions before ``mj_forward``, which computes
        them anew from the model; that is left out.
        """
        if not self._set_task_called:
            raise RuntimeError("You must call env.set_task before using env.step")
        assert len(action) == 4, f"Actions should be size 4, got {len(action)}"
        model, data = self.model, self.data
        if data is not self._views_of:
            self._look_up(model, data)
        self.set_xyz_action(action[:3])
        if self.curr_path_length >= self.max_path_length:
            raise ValueError("You must reset the env manually once truncate==True")
        effort = action[-1]
        self._ctrl[0] = effort
        self._ctrl[1] = -effort
        _mj_step(model, data, nstep=self.frame_skip)
        _mj_rne(model, data)
        self.curr_path_length += 1
        _mj_forward(model, data)
        low, high = self._bounds()
        self._last_stable_obs = obs = _clip(self._get_obs(), low, high)
        reward, info = self._evaluate(obs, action)
        truncated = self.curr_path_length == self.max_path_length
        return obs.copy(), reward, False, truncated, info
