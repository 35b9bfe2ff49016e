"""Multi-task and meta-RL environments on Gymnasium and Meta-World.

Importing it registers its ids with Gymnasium, and nothing more: every name is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mtwrappers.registration import register_all

if TYPE_CHECKING:
    from mtwrappers.adapters.sb3 import as_sb3_vec_env
    from mtwrappers.adapters.torchrl import as_torchrl_env
    from mtwrappers.core import MTEnv
    from mtwrappers.errors import SeedNotSetError, WorkerDiedError
    from mtwrappers.evaluation import evaluate, few_shot_evaluate
    from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv
    from mtwrappers.point_env import PointGoalEnv
    from mtwrappers.processors.baselines import (
        LinearFeatureBaseline,
        LinearTimeBaseline,
        ZeroBaseline,
    )
    from mtwrappers.processors.dice import DiceMetaSampleProcessor, DiceSampleProcessor
    from mtwrappers.processors.processors import MetaSampleProcessor, SampleProcessor
    from mtwrappers.samplers.meta_sampler import MetaSampler
    from mtwrappers.samplers.sampler import Sampler
    from mtwrappers.tasks.samplers import (
        ConstructEnvsSampler,
        EnvPoolSampler,
        MetaWorldTaskSampler,
        SetTaskSampler,
        TaskSampler,
    )
    from mtwrappers.tasks.updates import EnvUpdate, ExistingEnvUpdate, NewEnvUpdate, SetTaskUpdate
    from mtwrappers.vector.base import MetaVectorEnv
    from mtwrappers.vector.iterative import MetaIterativeEnvExecutor
    from mtwrappers.vector.parallel import MetaParallelEnvExecutor
    from mtwrappers.wrappers.env_to_mtenv import EnvToMTEnv
    from mtwrappers.wrappers.flatten_mtenv import FlattenMTEnv
    from mtwrappers.wrappers.multi_env import MultiEnvWrapper
    from mtwrappers.wrappers.normalize_observation import (
        NormalizeObservationPerTask,
        VectorNormalizeObservationPerTask,
    )
    from mtwrappers.wrappers.normalize_reward import (
        NormalizeRewardPerTask,
        VectorNormalizeRewardPerTask,
    )
    from mtwrappers.wrappers.rl2 import RL2Observation, VectorRL2Observation
    from mtwrappers.wrappers.task_name import TaskNameWrapper
    from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper
    from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
    from mtwrappers.wrappers.vector import MetaVectorWrapper

__version__ = "0.1.0"

_HOME = {
    "ConstructEnvsSampler": "tasks.samplers",
    "DiceMetaSampleProcessor": "processors.dice",
    "DiceSampleProcessor": "processors.dice",
    "EnvPoolSampler": "tasks.samplers",
    "EnvToMTEnv": "wrappers.env_to_mtenv",
    "EnvUpdate": "tasks.updates",
    "ExistingEnvUpdate": "tasks.updates",
    "FlattenMTEnv": "wrappers.flatten_mtenv",
    "LinearFeatureBaseline": "processors.baselines",
    "LinearTimeBaseline": "processors.baselines",
    "MTEnv": "core",
    "MetaIterativeEnvExecutor": "vector.iterative",
    "MetaParallelEnvExecutor": "vector.parallel",
    "MetaSampleProcessor": "processors.processors",
    "MetaSampler": "samplers.meta_sampler",
    "MetaVectorEnv": "vector.base",
    "MetaVectorWrapper": "wrappers.vector",
    "MetaWorldSetTaskEnv": "metaworld.set_task_env",
    "MetaWorldTaskSampler": "tasks.samplers",
    "MultiEnvWrapper": "wrappers.multi_env",
    "NewEnvUpdate": "tasks.updates",
    "NormalizeObservationPerTask": "wrappers.normalize_observation",
    "NormalizeRewardPerTask": "wrappers.normalize_reward",
    "PointGoalEnv": "point_env",
    "RL2Observation": "wrappers.rl2",
    "SampleProcessor": "processors.processors",
    "Sampler": "samplers.sampler",
    "SeedNotSetError": "errors",
    "SetTaskSampler": "tasks.samplers",
    "SetTaskUpdate": "tasks.updates",
    "TaskNameWrapper": "wrappers.task_name",
    "TaskOnehotWrapper": "wrappers.task_onehot",
    "TaskSampler": "tasks.samplers",
    "TerminateOnSuccess": "wrappers.terminate_on_success",
    "VectorNormalizeObservationPerTask": "wrappers.normalize_observation",
    "VectorNormalizeRewardPerTask": "wrappers.normalize_reward",
    "VectorRL2Observation": "wrappers.rl2",
    "WorkerDiedError": "errors",
    "ZeroBaseline": "processors.baselines",
    "as_sb3_vec_env": "adapters.sb3",
    "as_torchrl_env": "adapters.torchrl",
    "evaluate": "evaluation",
    "few_shot_evaluate": "evaluation",
}

__all__ = [
    "ConstructEnvsSampler",
    "DiceMetaSampleProcessor",
    "DiceSampleProcessor",
    "EnvPoolSampler",
    "EnvToMTEnv",
    "EnvUpdate",
    "ExistingEnvUpdate",
    "FlattenMTEnv",
    "LinearFeatureBaseline",
    "LinearTimeBaseline",
    "MTEnv",
    "MetaIterativeEnvExecutor",
    "MetaParallelEnvExecutor",
    "MetaSampleProcessor",
    "MetaSampler",
    "MetaVectorEnv",
    "MetaVectorWrapper",
    "MetaWorldSetTaskEnv",
    "MetaWorldTaskSampler",
    "MultiEnvWrapper",
    "NewEnvUpdate",
    "NormalizeObservationPerTask",
    "NormalizeRewardPerTask",
    "PointGoalEnv",
    "RL2Observation",
    "SampleProcessor",
    "Sampler",
    "SeedNotSetError",
    "SetTaskSampler",
    "SetTaskUpdate",
    "TaskNameWrapper",
    "TaskOnehotWrapper",
    "TaskSampler",
    "TerminateOnSuccess",
    "VectorNormalizeObservationPerTask",
    "VectorNormalizeRewardPerTask",
    "VectorRL2Observation",
    "WorkerDiedError",
    "ZeroBaseline",
    "as_sb3_vec_env",
    "as_torchrl_env",
    "evaluate",
    "few_shot_evaluate",
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
