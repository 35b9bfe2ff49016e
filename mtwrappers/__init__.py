"""Multi-task and meta-RL environments on Gymnasium and Meta-World.

Importing it registers its ids with Gymnasium, and nothing more: every name is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

from mtwrappers.common.command import imported_by_command

with imported_by_command():  # it imports Gymnasium, which takes a while
    from mtwrappers.common.registration import register_all

__version__ = "0.1.0"

# The public names, by the module that defines them. Type checkers read them in `__init__.pyi`.
_NAMES = {
    "mtwrappers.adapters.pufferlib": ("as_pufferlib_env",),
    "mtwrappers.adapters.sb3": ("as_sb3_vec_env",),
    "mtwrappers.adapters.skrl": ("as_skrl_env",),
    "mtwrappers.adapters.tianshou": ("as_tianshou_env",),
    "mtwrappers.adapters.torchrl": ("as_torchrl_env",),
    "mtwrappers.common.errors": ("SeedNotSetError", "WorkerDiedError"),
    "mtwrappers.continual.evaluate": ("continual_evaluate",),
    "mtwrappers.continual.stream": ("TaskStream", "VectorTaskStream"),
    "mtwrappers.core.mtenv": ("MTEnv",),
    "mtwrappers.core.pad_spaces": ("PadSpaces",),
    "mtwrappers.envs.point_goal": ("PointGoalEnv",),
    "mtwrappers.evaluation": (
        "EvaluationResult",
        "Protocol",
        "compare",
        "evaluate",
        "few_shot_evaluate",
        "protocols",
        "verify",
    ),
    "mtwrappers.metaworld.set_task_env": ("MetaWorldSetTaskEnv",),
    "mtwrappers.processors.baselines": (
        "LinearFeatureBaseline",
        "LinearTimeBaseline",
        "ZeroBaseline",
    ),
    "mtwrappers.processors.dice": ("DiceMetaSampleProcessor", "DiceSampleProcessor"),
    "mtwrappers.processors.processors": ("MetaSampleProcessor", "SampleProcessor"),
    "mtwrappers.samplers.meta_sampler": ("MetaSampler",),
    "mtwrappers.samplers.action_chunks": ("ActionChunks",),
    "mtwrappers.samplers.sampler": ("Sampler",),
    "mtwrappers.state.checkpoint": ("CheckpointError", "load_checkpoint", "save_checkpoint"),
    "mtwrappers.tasks.samplers": (
        "ConstructEnvsSampler",
        "EnvPoolSampler",
        "MetaWorldTaskSampler",
        "SetTaskSampler",
        "TaskSampler",
    ),
    "mtwrappers.tasks.updates": ("EnvUpdate", "ExistingEnvUpdate", "NewEnvUpdate", "SetTaskUpdate"),
    "mtwrappers.vector.contract": ("MetaVectorEnv",),
    "mtwrappers.vector.make": (
        *("MetaIterativeEnvExecutor", "MetaParallelEnvExecutor"),
        "as_vector",
    ),
    "mtwrappers.wrappers.env_to_mtenv": ("EnvToMTEnv",),
    "mtwrappers.wrappers.flatten": ("FlattenMTEnv",),
    "mtwrappers.wrappers.multi_env": ("MultiEnvWrapper",),
    "mtwrappers.wrappers.normalize_observation": (
        "NormalizeObservationPerTask",
        "VectorNormalizeObservationPerTask",
    ),
    "mtwrappers.wrappers.normalize_reward": (
        "NormalizeRewardPerTask",
        "VectorNormalizeRewardPerTask",
    ),
    "mtwrappers.wrappers.old_gym": ("OldGym",),
    "mtwrappers.wrappers.rl2": ("RL2Observation", "VectorRL2Observation"),
    "mtwrappers.wrappers.task_name": ("TaskNameWrapper",),
    "mtwrappers.wrappers.task_onehot": ("TaskOnehotWrapper",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("mtwrappers.testing")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "testing"})


with imported_by_command():
    register_all()
