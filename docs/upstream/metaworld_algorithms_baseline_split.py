"""metaworld-algorithms 30c9991: MAML's and RL2's baselines fail on the rollouts of training.

The buffer is filled as the training loops fill it: two tasks, three episodes of four steps each.
So maml_trpo_ml1.py and rl2_ml1.py stop with a ValueError at the first update.

Cause: the loops store ``episode_started`` as ``dones`` (rl/algorithms/base.py, lines 222 and 429),
and ``RL2.compute_advantages`` sets ``new_dones[0] = 1.0`` (rl/algorithms/rl2.py, line 294).
``compute_gae`` reads them as starts, but ``LinearFeatureBaseline.get_baseline_values_and_returns``
(rl/algorithms/utils.py, lines 294 to 299) splits after an index with ``done``.

Suggested change: pass the ends to the baseline, ``rollouts._replace(dones=ends)`` with
``ends = np.concatenate((rollouts.dones[1:], np.ones_like(rollouts.dones[:1])))``, in
``compute_advantages`` of ``MAMLTRPO`` and ``RL2``.
"""

from importlib.metadata import version

import numpy as np
from metaworld_algorithms.envs import MetaworldMetaLearningConfig
from metaworld_algorithms.rl.algorithms import MAMLTRPOConfig, RL2Config
from metaworld_algorithms.rl.buffers import MultiTaskRolloutBuffer

TASKS, EPISODES, STEPS = 2, 3, 4
rng = np.random.default_rng(0)
env = MetaworldMetaLearningConfig("ML1", env_name="reach-v3", meta_batch_size=TASKS)
buffer = MultiTaskRolloutBuffer(EPISODES * STEPS, TASKS, env.observation_space, env.action_space)
episode_started = np.ones(TASKS)  # as in base.py, lines 196 and 414
while not buffer.ready:
    obs, actions = rng.normal(size=(TASKS, 39)), rng.normal(size=(TASKS, 4))
    buffer.add(obs, actions, rng.random(TASKS), episode_started)
    episode_started = np.full(TASKS, buffer.pos % STEPS == 0)

print("metaworld-algorithms", version("metaworld-algorithms"), "jax", version("jax"))
print("dones of a task:", buffer.get().dones[:, 0, 0].astype(int))
failed = 0
for config in (
    MAMLTRPOConfig(num_tasks=TASKS, meta_batch_size=TASKS),
    RL2Config(num_tasks=TASKS, meta_batch_size=TASKS),
):
    agent = config.spawn(env, seed=0)
    try:
        agent.compute_advantages(buffer.get())
    except ValueError as error:
        failed += 1
        print(f"{type(agent).__name__}: ValueError: {error}")
print("fault:", "yes" if failed else "no")
