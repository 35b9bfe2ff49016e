"""metaworld-algorithms 30c9991: MAML's adaptation in an evaluation ends with an AxisError.

Two tasks, one episode of four steps each. The baseline fails before that (see the report on the
baseline's split), so here it returns zeros.

Cause: ``Rollout.from_list`` (types.py, line 53) stacks every field of the timesteps. Fields that
are None in all of them become arrays of dtype object, which ``swap_rollout_axes``
(rl/algorithms/utils.py, line 411) no longer leaves out.

Suggested change: keep None in ``from_list``,
``cls(*(None if xs[0] is None else np.stack(xs) for xs in zip(*items)))``. In addition,
``MAMLTRPOWrapped.adapt`` (mamltrpo.py, line 249) computes advantages that ``adapt`` (line 215)
computes again.
"""

from importlib.metadata import version

import numpy as np
from metaworld.evaluation import Timestep
from metaworld_algorithms.envs import MetaworldMetaLearningConfig
from metaworld_algorithms.rl.algorithms import MAMLTRPOConfig
from metaworld_algorithms.rl.algorithms.utils import LinearFeatureBaseline

TASKS, STEPS = 2, 4
LinearFeatureBaseline.get_baseline_values_and_returns = classmethod(
    lambda cls, rollouts, discount: (np.zeros_like(rollouts.rewards),) * 2
)
rng = np.random.default_rng(0)
env = MetaworldMetaLearningConfig("ML1", env_name="reach-v3", meta_batch_size=TASKS)
agent = MAMLTRPOConfig(num_tasks=TASKS, meta_batch_size=TASKS).spawn(env, seed=0).wrap()

# As metaworld.evaluation.metalearning_evaluation calls it.
agent.init()
for step in range(STEPS):
    obs, ended = rng.normal(size=(TASKS, 39)), np.full(TASKS, step == STEPS - 1)
    actions, aux = agent.adapt_action(obs)
    agent.step(Timestep(obs, actions, rng.random(TASKS), np.zeros(TASKS, bool), ended, aux))
fault = "none"
try:
    agent.adapt()
except np.exceptions.AxisError as error:
    fault = f"AxisError: {error}"
print("metaworld-algorithms", version("metaworld-algorithms"), "metaworld", version("metaworld"))
print("error of adapt():", fault)
print("fault:", "yes" if fault != "none" else "no")
