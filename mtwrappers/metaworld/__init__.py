"""Meta-World: benchmarks, tasks and environments. The only folder that imports metaworld.

``metaworld`` is an extra, so most modules here import it inside functions. `blueprint`, `camera`,
`fast` and `kept` import it or mujoco at module level, and are themselves imported inside functions.
"""

from mtwrappers.metaworld.benchmarks import BENCHMARKS, make_benchmark
from mtwrappers.metaworld.fast.known_good import fast_class
from mtwrappers.metaworld.mt_env import MetaWorldMTEnv
from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv

__all__ = [
    "BENCHMARKS",
    "MetaWorldMTEnv",
    "MetaWorldSetTaskEnv",
    "fast_class",
    "make_benchmark",
]
