"""Copies of bare Sawyer environments, which upstream's ``copy.deepcopy`` breaks."""

from __future__ import annotations

import copy
from typing import Any


def copy_sawyer(env: Any) -> Any:
    """A new environment of the same class, on the same task, to be reset.

    Args:
        env: A Sawyer environment of Meta-World, or a fast one.
    """
    other = type(env)(
        reward_function_version=env.reward_function_version,
        render_mode=env.render_mode,
        camera_name=env.camera_name,
        camera_id=env.camera_id,
        width=env.width,
        height=env.height,
    )
    other._set_task_called = env._set_task_called
    other._freeze_rand_vec = env._freeze_rand_vec
    other._last_rand_vec = copy.copy(env._last_rand_vec)
    other.seeded_rand_vec = env.seeded_rand_vec
    if env._partially_observable != other._partially_observable:
        # Upstream computes it once; see `SawyerXYZEnv.set_task`.
        del other.sawyer_observation_space
        other._partially_observable = env._partially_observable
    return other
