"""Multi-task and meta-RL environments on Gymnasium and Meta-World.

Importing it registers its ids with Gymnasium, and nothing more: every name is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mtwrappers.registration import register_all

if TYPE_CHECKING:
    from mtwrappers.core import MTEnv
    from mtwrappers.errors import SeedNotSetError, WorkerDiedError
    from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv
    from mtwrappers.vector.base import MetaVectorEnv
    from mtwrappers.vector.iterative import MetaIterativeEnvExecutor
    from mtwrappers.vector.parallel import MetaParallelEnvExecutor
    from mtwrappers.vector.wrapper import MetaVectorWrapper
    from mtwrappers.wrappers.env_to_mtenv import EnvToMTEnv
    from mtwrappers.wrappers.flatten_mtenv import FlattenMTEnv
    from mtwrappers.wrappers.multi_env import MultiEnvWrapper
    from mtwrappers.wrappers.task_name import TaskNameWrapper
    from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper

__version__ = "0.1.0"

_HOME = {
    "EnvToMTEnv": "wrappers.env_to_mtenv",
    "FlattenMTEnv": "wrappers.flatten_mtenv",
    "MTEnv": "core",
    "MetaIterativeEnvExecutor": "vector.iterative",
    "MetaParallelEnvExecutor": "vector.parallel",
    "MetaVectorEnv": "vector.base",
    "MetaVectorWrapper": "vector.wrapper",
    "MetaWorldSetTaskEnv": "metaworld.set_task_env",
    "MultiEnvWrapper": "wrappers.multi_env",
    "SeedNotSetError": "errors",
    "TaskNameWrapper": "wrappers.task_name",
    "TaskOnehotWrapper": "wrappers.task_onehot",
    "WorkerDiedError": "errors",
}

__all__ = [
    "EnvToMTEnv",
    "FlattenMTEnv",
    "MTEnv",
    "MetaIterativeEnvExecutor",
    "MetaParallelEnvExecutor",
    "MetaVectorEnv",
    "MetaVectorWrapper",
    "MetaWorldSetTaskEnv",
    "MultiEnvWrapper",
    "SeedNotSetError",
    "TaskNameWrapper",
    "TaskOnehotWrapper",
    "WorkerDiedError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_all()
