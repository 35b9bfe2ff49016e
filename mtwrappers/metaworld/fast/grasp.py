"""What a fast class looks at: a simulation's arrays, the pads' contacts, the grasp."""

from __future__ import annotations

from typing import Any

import numpy as np
from metaworld.sawyer_xyz_env import SawyerXYZEnv
from metaworld.utils import reward_utils
from numpy.typing import NDArray

from mtwrappers.metaworld.fast.helpers import norm, tolerance

_XZ = np.array([0, 2])
_hamacher = reward_utils.hamacher_product


class Views:
    """Every array of a simulation that a step reads or writes, looked up once.

    They are views, which stay current while it runs.
    """

    body: dict[str, NDArray[np.float64]]  # positions by name, each (3,), metres
    site: dict[str, NDArray[np.float64]]
    pads: tuple[int, int]  # the geoms of the left and of the right pad

    def __init__(self, model: Any, data: Any) -> None:
        self.data = data
        self.body = {model.body(k).name: data.xpos[k] for k in range(model.nbody)}
        self.site = {model.site(k).name: data.site_xpos[k] for k in range(model.nsite)}
        self.hand = self.body["hand"]
        self.right_claw, self.left_claw = self.body["rightclaw"], self.body["leftclaw"]
        self.right_tip = self.site["rightEndEffector"]
        self.left_tip = self.site["leftEndEffector"]
        self.mocap_pos, self.mocap_quat = data.mocap_pos, data.mocap_quat
        self.ctrl = data.ctrl
        self.pads = model.geom("leftpad_geom").id, model.geom("rightpad_geom").id


class Grasp(SawyerXYZEnv):  # type: ignore[misc] # metaworld has no usable types
    """`SawyerXYZEnv` with faster forms of two methods."""

    _views: Views

    def touching_object(self, object_geom_id: int) -> Any:
        """Upstream looks at every contact in Python; here at the pairs of geoms at once."""
        data = self.data
        if not data.ncon:
            return False
        left, right = self._views.pads
        left_contacts: list[int] = []
        right_contacts: list[int] = []
        for k, (one, two) in enumerate(data.contact.geom.tolist()):
            if one == object_geom_id or two == object_geom_id:
                if left in (one, two):
                    left_contacts.append(k)
                if right in (one, two):
                    right_contacts.append(k)
        if not left_contacts or not right_contacts:
            return False  # upstream compares a sum of nothing with zero
        force, address = data.efc_force, data.contact.efc_address.tolist()
        left_force = sum(force[address[k]] for k in left_contacts)
        right_force = sum(force[address[k]] for k in right_contacts)
        return left_force > 0 and right_force > 0

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
        """Upstream's, with numbers where it has arrays of two."""
        init_pos = self.obj_init_pos
        assert init_pos is not None
        if high_density and medium_density:
            raise ValueError("Can only be either high_density or medium_density")
        # Along y: a pad between the object's radius and the threshold from it is best.
        obj_y, init_y = float(obj_pos[1]), float(init_pos[1])
        bounds = (obj_radius, pad_success_thresh)
        left_y = float(self.get_body_com("leftpad")[1])
        right_y = float(self.get_body_com("rightpad")[1])
        left = tolerance(
            abs(left_y - obj_y),
            bounds,
            abs(abs(left_y - init_y) - pad_success_thresh),
            "long_tail",
        )
        right = tolerance(
            abs(right_y - obj_y),
            bounds,
            abs(abs(right_y - init_y) - pad_success_thresh),
            "long_tail",
        )
        # In the x-z plane: the closer the better.
        tcp = self.tcp_center
        apart = norm(tcp.take(_XZ) - obj_pos.take(_XZ))
        margin = norm(init_pos.take(_XZ) - self.init_tcp.take(_XZ)) - xz_thresh
        caging_xz = tolerance(apart, (0, xz_thresh), margin, "long_tail")
        caging = _hamacher(_hamacher(left, right), float(caging_xz))
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
