"""metaworld 3.1.1: the id Meta-World/ML1-train makes the test tasks.

Cause: the loop over splits (metaworld/__init__.py, lines 669 to 686) registers lambdas that read
the loop's variable ``split`` when they are called. By then it is "test".

Suggested change: bind it, as the lambdas of ML10, ML25 and ML45 do with ``_split=split`` (line
727).
"""

from importlib.metadata import version

import gymnasium as gym
import metaworld

benchmark = metaworld.ML1("reach-v3", seed=0)


def tasks(split):
    """The tasks of the environments that the id makes."""
    envs = gym.make_vec(f"Meta-World/ML1-{split}", env_name="reach-v3", seed=0, meta_batch_size=2)
    return {task.data for tasks in envs.get_attr("tasks") for task in tasks}


train, test = tasks("train"), tasks("test")
expected = {task.data for task in benchmark.train_tasks}
print("metaworld", version("metaworld"))
print("ML1-train has the training tasks:", train == expected)
print("ML1-train has the tasks of ML1-test:", train == test)
print("fault:", "yes" if train == test != expected else "no")
