"""The public names for type checkers; `__init__.py` loads them on first use."""

from mtwrappers import testing as testing
from mtwrappers.adapters.pufferlib import as_pufferlib_env as as_pufferlib_env
from mtwrappers.adapters.sb3 import as_sb3_vec_env as as_sb3_vec_env
from mtwrappers.adapters.skrl import as_skrl_env as as_skrl_env
from mtwrappers.adapters.tianshou import as_tianshou_env as as_tianshou_env
from mtwrappers.adapters.torchrl import as_torchrl_env as as_torchrl_env
from mtwrappers.common.errors import SeedNotSetError as SeedNotSetError
from mtwrappers.common.errors import WorkerDiedError as WorkerDiedError
from mtwrappers.continual.evaluate import continual_evaluate as continual_evaluate
from mtwrappers.continual.stream import TaskStream as TaskStream
from mtwrappers.continual.stream import VectorTaskStream as VectorTaskStream
from mtwrappers.core.mtenv import MTEnv as MTEnv
from mtwrappers.core.pad_spaces import PadSpaces as PadSpaces
from mtwrappers.envs.point_goal import PointGoalEnv as PointGoalEnv
from mtwrappers.evaluation import EvaluationResult as EvaluationResult
from mtwrappers.evaluation import Protocol as Protocol
from mtwrappers.evaluation import compare as compare
from mtwrappers.evaluation import evaluate as evaluate
from mtwrappers.evaluation import few_shot_evaluate as few_shot_evaluate
from mtwrappers.evaluation import protocols as protocols
from mtwrappers.evaluation import verify as verify
from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv as MetaWorldSetTaskEnv
from mtwrappers.processors.baselines import LinearFeatureBaseline as LinearFeatureBaseline
from mtwrappers.processors.baselines import LinearTimeBaseline as LinearTimeBaseline
from mtwrappers.processors.baselines import ZeroBaseline as ZeroBaseline
from mtwrappers.processors.dice import DiceMetaSampleProcessor as DiceMetaSampleProcessor
from mtwrappers.processors.dice import DiceSampleProcessor as DiceSampleProcessor
from mtwrappers.processors.processors import MetaSampleProcessor as MetaSampleProcessor
from mtwrappers.processors.processors import SampleProcessor as SampleProcessor
from mtwrappers.samplers.action_chunks import ActionChunks as ActionChunks
from mtwrappers.samplers.meta_sampler import MetaSampler as MetaSampler
from mtwrappers.samplers.sampler import Sampler as Sampler
from mtwrappers.state.checkpoint import CheckpointError as CheckpointError
from mtwrappers.state.checkpoint import load_checkpoint as load_checkpoint
from mtwrappers.state.checkpoint import save_checkpoint as save_checkpoint
from mtwrappers.tasks.samplers import ConstructEnvsSampler as ConstructEnvsSampler
from mtwrappers.tasks.samplers import EnvPoolSampler as EnvPoolSampler
from mtwrappers.tasks.samplers import MetaWorldTaskSampler as MetaWorldTaskSampler
from mtwrappers.tasks.samplers import SetTaskSampler as SetTaskSampler
from mtwrappers.tasks.samplers import TaskSampler as TaskSampler
from mtwrappers.tasks.updates import EnvUpdate as EnvUpdate
from mtwrappers.tasks.updates import ExistingEnvUpdate as ExistingEnvUpdate
from mtwrappers.tasks.updates import NewEnvUpdate as NewEnvUpdate
from mtwrappers.tasks.updates import SetTaskUpdate as SetTaskUpdate
from mtwrappers.vector.contract import MetaVectorEnv as MetaVectorEnv
from mtwrappers.vector.make import MetaIterativeEnvExecutor as MetaIterativeEnvExecutor
from mtwrappers.vector.make import MetaParallelEnvExecutor as MetaParallelEnvExecutor
from mtwrappers.vector.make import as_vector as as_vector
from mtwrappers.wrappers.env_to_mtenv import EnvToMTEnv as EnvToMTEnv
from mtwrappers.wrappers.flatten import FlattenMTEnv as FlattenMTEnv
from mtwrappers.wrappers.multi_env import MultiEnvWrapper as MultiEnvWrapper
from mtwrappers.wrappers.normalize_observation import (
    NormalizeObservationPerTask as NormalizeObservationPerTask,
)
from mtwrappers.wrappers.normalize_observation import (
    VectorNormalizeObservationPerTask as VectorNormalizeObservationPerTask,
)
from mtwrappers.wrappers.normalize_reward import NormalizeRewardPerTask as NormalizeRewardPerTask
from mtwrappers.wrappers.normalize_reward import (
    VectorNormalizeRewardPerTask as VectorNormalizeRewardPerTask,
)
from mtwrappers.wrappers.old_gym import OldGym as OldGym
from mtwrappers.wrappers.rl2 import RL2Observation as RL2Observation
from mtwrappers.wrappers.rl2 import VectorRL2Observation as VectorRL2Observation
from mtwrappers.wrappers.task_name import TaskNameWrapper as TaskNameWrapper
from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper as TaskOnehotWrapper

__version__: str
