"""Meta-World: benchmarks, tasks and environments. The only folder that imports metaworld.

``metaworld`` is an extra, so most modules here import it inside functions. `blueprint`, `frames`,
`state` and the modules of `fast` import it or mujoco at module level, and are themselves imported
inside functions.
"""

from mtwrappers.metaworld.env import MetaWorldMTEnv
from mtwrappers.metaworld.fast import fast_class
from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv
from mtwrappers.metaworld.tasks import BENCHMARKS, make_benchmark

__all__ = [
    "BENCHMARKS",
    "MetaWorldMTEnv",
    "MetaWorldSetTaskEnv",
    "fast_class",
    "make_benchmark",
]
