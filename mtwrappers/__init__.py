"""Multi-task and meta-RL environments on Gymnasium and Meta-World.

Gymnasium imports this package while it is itself being imported, to find the registered ids, so
every name is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mtwrappers.registration import register_all

if TYPE_CHECKING:
    from mtwrappers.core import MTEnv
    from mtwrappers.errors import SeedNotSetError
    from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv
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
    "MetaWorldSetTaskEnv": "metaworld.set_task_env",
    "MultiEnvWrapper": "wrappers.multi_env",
    "SeedNotSetError": "errors",
    "TaskNameWrapper": "wrappers.task_name",
    "TaskOnehotWrapper": "wrappers.task_onehot",
}

__all__ = [
    "EnvToMTEnv",
    "FlattenMTEnv",
    "MTEnv",
    "MetaWorldSetTaskEnv",
    "MultiEnvWrapper",
    "SeedNotSetError",
    "TaskNameWrapper",
    "TaskOnehotWrapper",
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
