"""Every array of a simulation that a step reads or writes, looked up once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Views:
    """Views of a simulation's arrays, which stay current while it runs.

    Args:
        model: The model, an `mujoco.MjModel`.
        data: The simulation, an `mujoco.MjData`.
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
