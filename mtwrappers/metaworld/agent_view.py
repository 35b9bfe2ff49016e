"""The keywords of Meta-World's ids: how observations and rewards reach the learner.

Meta-World's own names are accepted, so that only the id in `gymnasium.make_vec` has to change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import gymnasium

from mtwrappers.common.checks import check_choice, check_flag, check_fraction, positive
from mtwrappers.common.extras import import_extra
from mtwrappers.metaworld.benchmarks import META_LEARNING
from mtwrappers.metaworld.pixels import (
    OBSERVATIONS,
    ObservationName,
    PixelObservation,
    ask_for_frames,
)
from mtwrappers.metaworld.text import InstructionObservation, check_descriptions
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.normalize_observation import NormalizeObservationPerTask
from mtwrappers.wrappers.normalize_reward import NormalizeRewardPerTask
from mtwrappers.wrappers.rl2 import RL2Observation

Env: TypeAlias = gymnasium.Env[Any, Any]
TaskEncoding: TypeAlias = Literal["onehot", "none", "dict"]
_NOT_WITH_PIXELS = (
    ("task_encoding", "dict"),
    ("recurrent_info_in_obs", True),
    ("normalize_observations", True),
)


@dataclasses.dataclass(frozen=True)
class AgentView:
    """How observations and rewards reach the learner.

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
        observation: ``"state"``, or an observation of `PixelObservation`: ``"pixels"``,
            ``"pixels_agent_pos"`` or ``"pixels_state"``. The render mode is then ``"rgb_array"``,
            and the camera by default ``"corner4"``.
        depth: Whether to observe depth images in addition to frames, see `PixelObservation`.
        instruction: Whether to observe the sentence that describes the task, see
            `InstructionObservation`.

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
        methods = ("gymnasium", "exponential", None)
        check_choice(self.reward_normalization_method, methods, "reward_normalization_method")
        for name in (
            "recurrent_info_in_obs",
            "normalize_reward_in_recurrent_info",
            "normalize_observations",
            "depth",
            "instruction",
        ):
            check_flag(getattr(self, name), name)
        check_fraction(self.reward_alpha, "reward_alpha")
        changes = self.recurrent_info_in_obs or self.normalize_observations
        if changes and self.task_encoding == "dict":
            raise ValueError(
                "recurrent_info_in_obs and normalize_observations need flat observations, got "
                "task_encoding='dict'"
            )
        check_choice(self.observation, OBSERVATIONS, "observation")
        if self.observation == "state" and self.depth:
            raise ValueError(
                "depth needs frames, got observation='state': expected one of "
                f"{list(OBSERVATIONS[1:])}"
            )
        if self.observation != "state" and (changes or self.task_encoding == "dict"):
            refused = (
                f"{name}={value!r}"
                for name, value in dataclasses.asdict(self).items()
                if (name, value) in _NOT_WITH_PIXELS
            )
            raise ValueError(
                f"observation={self.observation!r} cannot be combined with {' and '.join(refused)}"
            )
        if self.instruction and (self.recurrent_info_in_obs or self.task_encoding == "dict"):
            flag = "recurrent_info_in_obs=True"
            other = "task_encoding='dict'" if self.task_encoding == "dict" else flag
            raise ValueError(f"instruction=True cannot be combined with {other}")

    def apply(self, mt_env: Env) -> Env:
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
        if self.observation != "state":
            env = PixelObservation(env, self.observation, self.depth)
        if self.instruction:
            env = InstructionObservation(env)
        return env


INPUTS = [field.name for field in dataclasses.fields(AgentView)]
# Meta-World's keyword -> ours, and the mapping of its values to ours (``None``: the same).
UPSTREAM: dict[str, tuple[str, dict[Any, Any] | None]] = {
    "vector_strategy": ("execution", {"sync": "iterative", "async": "parallel"}),
    "use_one_hot": ("task_encoding", {True: "onehot", False: "none"}),
    "task_select": ("select", {"random": "uniform", "pseudorandom": "without_replacement"}),
    "envs_list": ("train_classes", None),
    "train_envs": ("train_classes", None),
    "test_envs": ("test_classes", None),
    "total_tasks_per_cls": ("num_goals", None),
}


def default_task_encoding(benchmark: str) -> TaskEncoding:
    """One-hot if there are several classes; in meta-learning, the agent has to infer the task."""
    return "none" if benchmark in META_LEARNING or benchmark == "MT1" else "onehot"


def by_our_names(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces Meta-World's names of keyword arguments by ours.

    Raises:
        TypeError: If both names of an argument are given.
        ValueError: If Meta-World does not accept a value.
    """
    found = dict(kwargs)
    for name, (ours, values) in UPSTREAM.items():
        if name not in kwargs:
            continue
        value = found.pop(name)
        if name == "total_tasks_per_cls":
            if value is None:
                continue
            # Meta-World takes this many tasks from a list of num_goals.
            most = kwargs.get("num_goals", value)
            if positive(value, name) > positive(most, "num_goals"):
                raise ValueError(f"{name} must be at most num_goals={most}, got {value}")
        elif values is not None:
            value = values[check_choice(value, list(values), name)]
        # It overrides the default classes of an id, and the length of the list.
        if ours in kwargs and ours != "num_goals" and not ours.endswith("_classes"):
            raise TypeError(f"{name} is Meta-World's name for {ours}, got both")
        found[ours] = value
    return found


def take_inputs(benchmark: str, kwargs: dict[str, Any]) -> tuple[AgentView, dict[str, Any]]:
    """Splits an id's keyword arguments into an `AgentView` and the others, by our names.

    The others include the render mode and camera that the view needs for frames.

    Raises:
        TypeError, ValueError: If `AgentView` or `check_descriptions` does not accept an argument,
            or sentences are to be observed for an id that has none.
    """
    others = by_our_names(kwargs)
    own = {name: others.pop(name) for name in INPUTS if name in others}
    if own.get("task_encoding") is None:
        own["task_encoding"] = default_task_encoding(benchmark)
    view = AgentView(**own)
    if others.get("descriptions") is not None:
        check_descriptions(others["descriptions"], all_classes())
    elif view.instruction and benchmark in META_LEARNING:
        raise ValueError(
            f"instruction=True needs descriptions on {benchmark}: its classes are hidden, and a "
            "sentence reveals them"
        )
    return view, ask_for_frames(view.observation, others)
