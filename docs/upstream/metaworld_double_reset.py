"""metaworld 3.1.1: every reset runs reset_model twice, and the first run leaves something behind.

Two environments of a class get the same final random vector and a different first one. A reset
also takes twice as long, because the hand settles twice, in 50 control steps each.

Cause: ``SawyerXYZEnv.reset`` (metaworld/sawyer_xyz_env.py, line 677) calls ``self.reset_model()``
and then ``super().reset()``, which calls it again (gymnasium/envs/mujoco/mujoco_env.py, line 182).
The first run has edited the model: in sawyer_drawer_open_v3.py, ``reset_model`` sets
``self.model.body("drawer").pos`` (line 106) and returns ``self._get_obs()``, which reads data where
the drawer is still at its previous position.

Suggested change: remove line 677, and call ``mujoco.mj_forward(self.model, self.data)`` after
``reset_model`` has edited the model and before it observes. Both alter first observations, so they
need a new version of the environments.
"""

from importlib.metadata import version

import numpy as np
from metaworld import ALL_V3_ENVIRONMENTS

CLASSES = ["drawer-open-v3", "lever-pull-v3", "reach-v3", "window-close-v3"]


def first_observation(name, first_vector):
    """The first observation, and how many random vectors the reset drew."""
    env = ALL_V3_ENVIRONMENTS[name]()
    env._freeze_rand_vec, env._set_task_called, env._partially_observable = False, True, False
    space = env._random_reset_space
    vectors = iter([getattr(space, first_vector), (space.low + space.high) / 2])
    runs = []

    def draw():
        env._last_rand_vec = next(vectors)
        runs.append(1)
        return env._last_rand_vec

    env._get_state_rand_vec = draw
    observation, _ = env.reset()
    return observation, len(runs)


print("metaworld", version("metaworld"))
differ = []
for name in CLASSES:
    (low, runs), (high, _) = first_observation(name, "low"), first_observation(name, "high")
    difference = np.abs(low - high).max()
    print(
        f"{name:15s}  random vectors drawn: {runs}, first observations differ by {difference:.3f}"
    )
    if difference > 1e-3:
        differ.append(name)
print("fault:", "yes" if runs == 2 and differ else "no")
