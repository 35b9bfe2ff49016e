"""metaworld-algorithms 30c9991: a resumed run of RL2 or MAML trains nothing and reports no error.

The training loop is called with the metadata of a checkpoint, as `Run.start` calls it. The
environments count the iterations that begin.

Cause: the checkpoint stores environment steps (rl/algorithms/base.py, lines 196 and 409), but the
loop counts iterations, ``range(start_step, config.total_steps // steps_per_iter)`` (lines 194 and
407), which is empty. MTSAC and MTPPO store the loop's own index.

Suggested change: start the range at ``start_step // steps_per_iter + 1``.
"""

from importlib.metadata import version

from metaworld_algorithms.config.rl import (
    GradientBasedMetaLearningTrainingConfig,
    RNNBasedMetaLearningTrainingConfig,
)
from metaworld_algorithms.envs import MetaworldMetaLearningConfig
from metaworld_algorithms.rl.algorithms import MAMLTRPOConfig, RL2Config

TASKS = 2


class BegunError(Exception):
    """An iteration has begun."""


class Environments:
    """Stands for the vector environment, up to the first call of an iteration."""

    def call(self, name):
        raise BegunError

    def close(self):
        pass


class Config(MetaworldMetaLearningConfig):
    def spawn_test(self, seed=1):
        return Environments()


print("metaworld-algorithms", version("metaworld-algorithms"))
env = Config("ML1", env_name="reach-v3", meta_batch_size=TASKS)
nothing = 0
for algorithm, training, inner in (
    (RL2Config, RNNBasedMetaLearningTrainingConfig, 1),
    (MAMLTRPOConfig, GradientBasedMetaLearningTrainingConfig, 2),
):
    agent = algorithm(num_tasks=TASKS, meta_batch_size=TASKS).spawn(env, seed=0)
    per_iteration = TASKS * 10 * env.max_episode_steps * inner
    config = training(total_steps=100 * per_iteration, meta_batch_size=TASKS)
    # What base.py (lines 296 and 507) stores after the iteration 50 of 100.
    metadata = {"step": 50 * per_iteration, "episodes_ended": 0, "timestamp": None}
    try:
        agent.train(config, Environments(), env, track=False, checkpoint_metadata=metadata)
        nothing, seen = nothing + 1, "ends without an iteration"
    except BegunError:
        seen = "begins its next iteration"
    print(f"{type(agent).__name__}, resumed after 50 of 100 iterations: {seen}")
print("fault:", "yes" if nothing else "no")
