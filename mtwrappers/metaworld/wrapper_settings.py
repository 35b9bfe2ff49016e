"""The wrappers of Meta-World's ids: one-hots, normalization, and observations of frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from mtwrappers.common.checks import check_choice, check_flag, check_fraction
from mtwrappers.common.extras import import_extra
from mtwrappers.common.types import AnyEnv
from mtwrappers.metaworld.observations import (
    CAMERA,
    OBSERVATIONS,
    AgentObservation,
    ObservationName,
)
from mtwrappers.metaworld.tasks import META_LEARNING
from mtwrappers.metaworld.text import check_descriptions
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.metaworld.upstream_names import rename_arguments
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.normalize_observation import NormalizeObservationPerTask
from mtwrappers.wrappers.normalize_reward import NormalizeRewardPerTask
from mtwrappers.wrappers.rl2 import RL2Observation

TaskEncoding: TypeAlias = Literal["onehot", "none", "dict"]
# The settings that a setting cannot be combined with.
_CONFLICTS: dict[str, tuple[str, ...]] = {
    "observation": ("task_encoding", "recurrent_info_in_obs", "normalize_observations"),
    "instruction": ("task_encoding", "recurrent_info_in_obs"),
    "recurrent_info_in_obs": ("task_encoding",),
    "normalize_observations": ("task_encoding",),
}


@dataclasses.dataclass(frozen=True)
class WrapperSettings:
    """The wrappers between an `MTEnv` and the learner: how it gets observations and rewards.

    Args:
        task_encoding: ``"onehot"`` or ``"none"``, or ``"dict"`` for the observations of `MTEnv`.
        recurrent_info_in_obs: Whether to append the previous action, reward and done flag to each
            observation, zeros at an episode's start; see `RL2Observation`.
        normalize_reward_in_recurrent_info: Whether to divide the appended reward by 10.
        reward_normalization_method: ``"gymnasium"`` is `NormalizeRewardPerTask`; ``"exponential"``
            is Meta-World's own ``NormalizeRewardsExponential``; ``None`` does not change rewards.
        reward_alpha: The rate of ``"exponential"``, in [0, 1].
        normalize_observations: Whether to apply `NormalizeObservationPerTask`, which does not
            change the one-hot.
        observation: ``"state"``, or an observation of `AgentObservation`: ``"pixels"``,
            ``"pixels_agent_pos"`` or ``"pixels_state"``. The render mode is then ``"rgb_array"``,
            and the camera by default ``"corner4"``.
        depth: Whether to observe depth images in addition to frames, see `AgentObservation`.
        instruction: Whether to observe the sentence that describes the task, see
            `AgentObservation`.

    Raises:
        TypeError: If a flag is not a bool.
        ValueError: If an argument is none of the above, or they cannot be combined.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/MT10-v0", num_goals=1, recurrent_info_in_obs=True)
    >>> env.observation_space.shape  # state 39, one-hot 10, action 4, reward 1, end 1
    (55,)
    """

    task_encoding: TaskEncoding
    recurrent_info_in_obs: bool = False
    normalize_reward_in_recurrent_info: bool = True
    reward_normalization_method: Literal["gymnasium", "exponential"] | None = None
    reward_alpha: float = 0.001
    normalize_observations: bool = False
    observation: ObservationName = "state"
    depth: bool = False
    instruction: bool = False

    def __post_init__(self) -> None:
        check_choice(self.task_encoding, ("onehot", "none", "dict"), "task_encoding")
        check_choice(self.observation, OBSERVATIONS, "observation")
        methods = ("gymnasium", "exponential", None)
        check_choice(self.reward_normalization_method, methods, "reward_normalization_method")
        check_fraction(self.reward_alpha, "reward_alpha")
        values = dataclasses.asdict(self)
        for field in dataclasses.fields(self):
            if isinstance(field.default, bool):
                check_flag(values[field.name], field.name)
        if self.observation == "state" and self.depth:
            raise ValueError(
                "depth needs frames, got observation='state': expected one of "
                f"{list(OBSERVATIONS[1:])}"
            )
        # With these values, an observation is one array of numbers.
        flat = ("state", "onehot", "none", False)
        changed = {name: value for name, value in values.items() if value not in flat}
        for name, conflicting_names in _CONFLICTS.items():
            conflicts = [
                f"{conflict}={changed[conflict]!r}"
                for conflict in conflicting_names
                if conflict in changed
            ]
            if name in changed and conflicts:
                raise ValueError(
                    f"{name}={changed[name]!r} cannot be combined with {' and '.join(conflicts)}"
                )

    def wrap(self, mt_env: AnyEnv) -> AnyEnv:
        """Wraps an `MTEnv`, in Meta-World's order, with frames and sentences last."""
        env = mt_env
        if self.task_encoding != "dict":
            env = FlattenMTEnv(mt_env, self.task_encoding)
        if self.recurrent_info_in_obs:
            divisor = 10.0 if self.normalize_reward_in_recurrent_info else 1.0
            env = RL2Observation(env, reward_divisor=divisor, across_episodes=False)
        if self.reward_normalization_method == "gymnasium":
            env = NormalizeRewardPerTask(env)
        elif self.reward_normalization_method == "exponential":
            wrappers = import_extra("metaworld.wrappers", "metaworld")
            env = wrappers.NormalizeRewardsExponential(self.reward_alpha, env)
        if self.normalize_observations:
            env = NormalizeObservationPerTask(env)
        if self.observation != "state" or self.instruction:
            env = AgentObservation(env, self.observation, self.depth, self.instruction)
        return env


# By default: there is only one class, or the agent has to infer the task.
WITHOUT_ONEHOT = ("MT1", *META_LEARNING)
WRAPPER_SETTINGS = [field.name for field in dataclasses.fields(WrapperSettings)]


def split_wrapper_settings(
    benchmark: str, kwargs: Mapping[str, Any]
) -> tuple[WrapperSettings, dict[str, Any]]:
    """Splits an id's keyword arguments into `WrapperSettings` and the others.

    Args:
        benchmark: The benchmark's name.
        kwargs: The keyword arguments, also by Meta-World's names.

    Returns:
        The settings, and the remaining arguments by our names, with the render mode and camera that
        frames need.

    Raises:
        TypeError, ValueError: If `WrapperSettings` or `check_descriptions` does not accept an
            argument, or sentences are to be observed for an id that has none.
    """
    remaining = rename_arguments(kwargs)
    settings_kwargs = {name: remaining.pop(name) for name in WRAPPER_SETTINGS if name in remaining}
    if settings_kwargs.get("task_encoding") is None:
        settings_kwargs["task_encoding"] = "none" if benchmark in WITHOUT_ONEHOT else "onehot"
    settings = WrapperSettings(**settings_kwargs)
    if remaining.get("descriptions") is not None:
        check_descriptions(remaining["descriptions"], all_classes())
    elif settings.instruction and benchmark in META_LEARNING:
        raise ValueError(
            f"instruction=True needs descriptions on {benchmark}: its classes are hidden, and a "
            "sentence reveals them (in Python, make_vec takes descriptions='metaworld')"
        )
    if settings.observation != "state":
        mode = remaining.get("render_mode")
        if mode not in ("rgb_array", None):
            raise ValueError(
                f"observation={settings.observation!r} needs render_mode='rgb_array', got {mode!r}"
            )
        remaining["render_mode"] = "rgb_array"
        if remaining.get("camera_name") is None:
            remaining["camera_name"] = CAMERA
    return settings, remaining
