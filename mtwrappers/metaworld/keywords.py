"""The keyword arguments of Meta-World's ids, with their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from mtwrappers.core.selection import SelectName, Strategy
from mtwrappers.metaworld.class_env import ClassKeywords
from mtwrappers.metaworld.observations import ObservationName
from mtwrappers.metaworld.tasks import Goals, Kind
from mtwrappers.metaworld.text import Descriptions
from mtwrappers.metaworld.wrapper_settings import TaskEncoding
from mtwrappers.vector.make import VectorOptions


class ObservationKeywords(TypedDict, total=False):
    """How observations and rewards reach the learner; see `WrapperSettings`."""

    task_encoding: TaskEncoding | None
    recurrent_info_in_obs: bool
    normalize_reward_in_recurrent_info: bool
    reward_normalization_method: Literal["gymnasium", "exponential"] | None
    reward_alpha: float
    normalize_observations: bool
    observation: ObservationName
    depth: bool
    instruction: bool


class UpstreamKeywords(TypedDict, total=False):
    """Meta-World's own names of arguments; ``None`` is its default."""

    vector_strategy: Literal["sync", "async"] | None
    use_one_hot: bool | None
    task_select: Literal["random", "pseudorandom"] | None
    envs_list: Sequence[str] | None
    train_envs: Sequence[str] | None
    test_envs: Sequence[str] | None
    total_tasks_per_cls: int | None
    camera_id: int | None


class CommonKeywords(ClassKeywords, ObservationKeywords, total=False):
    """Keywords of all ids on Meta-World, those of Continual World's streams among them."""

    num_goals: int
    terminate_on_success: bool
    action_repeat: int
    descriptions: Descriptions | None


class BenchmarkKeywords(CommonKeywords, UpstreamKeywords, total=False):
    """Keywords of `gymnasium.make` and `gymnasium.make_vec` for an id of a benchmark."""

    kind: Kind
    goals: Goals
    seed: int | None
    env_name: str | None
    train_classes: Sequence[str] | None
    test_classes: Sequence[str] | None
    select: SelectName | Strategy | None
    max_episode_steps: int | None


class EnvKeywords(BenchmarkKeywords, total=False):
    """Keywords of `mtwrappers.metaworld.make.make_env`."""

    task_states: Sequence[int] | None
    sample_tasks_on_reset: bool


class VectorKeywords(BenchmarkKeywords, VectorOptions, total=False):
    """Keywords of `mtwrappers.metaworld.make.make_vec_env`."""

    envs_per_task: int | None
    meta_batch_size: int | None
    sample_tasks_on_reset: bool | None
