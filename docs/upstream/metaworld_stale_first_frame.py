"""metaworld 3.1.1: the first frame after reset is not of the simulation's state.

MuJoCo draws geoms and sites where `data.geom_xpos` and `data.site_xpos` have them. After reset
these are compared with what `mj_forward` computes from the same state. No graphics are needed.
"""

from importlib.metadata import version

import metaworld
import mujoco
import numpy as np

CLASSES = ["assembly-v3", "coffee-push-v3", "lever-pull-v3", "reach-v3", "window-close-v3"]


def off(env):
    """How far geoms and sites are from where they belong after a reset, in metres."""
    env.reset()
    geoms, sites = env.data.geom_xpos.copy(), env.data.site_xpos.copy()
    mujoco.mj_forward(env.model, env.data)
    return (
        np.abs(env.data.geom_xpos - geoms).max(),
        np.abs(env.data.site_xpos - sites).max(),
    )


print("metaworld", version("metaworld"))
largest = 0.0
for name in CLASSES:
    env = metaworld.ALL_V3_ENVIRONMENTS[name]()
    env.set_task(metaworld.MT1(name, seed=0).train_tasks[0])
    fixed = off(env)
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    env.seed(0)
    off(env)
    drawn = off(env)
    largest = max(largest, *fixed, *drawn)
    print(
        f"{name:15s}  task of set_task: geoms {fixed[0]:.3f} m, sites {fixed[1]:.3f} m;"
        f"  goal drawn at reset: geoms {drawn[0]:.3f} m, sites {drawn[1]:.3f} m"
    )
print("fault:", "yes" if largest > 1e-3 else "no")
