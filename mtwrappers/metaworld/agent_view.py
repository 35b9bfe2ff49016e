"""Observations of a learner: states or frames, with or without task and sentence.

Meta-World's own names are accepted, so that only the id in `gymnasium.make_vec` has to change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_choice, check_flag, check_fraction, positive
from mtwrappers.common.extras import import_extra
from mtwrappers.metaworld.class_env import FAR, OBS_SIZE, camera_names, class_env_of, parts_of_task
from mtwrappers.metaworld.tasks import META_LEARNING
from mtwrappers.metaworld.text import InstructionObservation, check_descriptions
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.normalize_observation import NormalizeObservationPerTask
from mtwrappers.wrappers.normalize_reward import NormalizeRewardPerTask
from mtwrappers.wrappers.rl2 import RL2Observation

ObservationName: TypeAlias = Literal["state", "pixels", "pixels_agent_pos", "pixels_state"]
OBSERVATIONS = ("state", "pixels", "pixels_agent_pos", "pixels_state")
# Vision-language-action projects move corner2 to the place of this camera.
CAMERA = "corner4"

# No far clipping plane of Meta-World's own models is beyond this, in metres.
FAR_PLANE = 120.0

_OF_FRAMES = (
    *("observation", "camera_name", "camera_id", "depth"),
    *("width", "height", "upright", "shadows"),
)

# The parts of a state to observe with the frame: the key, and the number of leading entries.
_BESIDE: dict[str, dict[str, int]] = {
    "pixels": {},
    "pixels_agent_pos": {"agent_pos": 4},
    "pixels_state": {"environment_state": OBS_SIZE},
}
# The kind of image for each key.
_KINDS = {"pixels": "colours", "depth": "depth"}


def ask_for_frames(observation: ObservationName, settings: dict[str, Any]) -> dict[str, Any]:
    """Completes arguments of `SawyerSettings` for frames as observations, by default of `CAMERA`.

    Raises:
        ValueError: If ``settings`` has another render mode.
    """
    if observation == "state":
        return settings
    mode = settings.get("render_mode")
    if mode not in ("rgb_array", None):
        raise ValueError(f"{observation=} needs render_mode='rgb_array', got {mode!r}")
    settings = {**settings, "render_mode": "rgb_array"}
    if settings.get("camera_name") is None and settings.get("camera_id") is None:
        settings["camera_name"] = CAMERA
    return settings


def without_frames(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an id without those that only change frames and sentences."""
    seen = (*_OF_FRAMES, "instruction")
    return {name: value for name, value in kwargs.items() if name not in seen}


class PixelObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Observes frames of a Meta-World environment's cameras, with or without parts of the state.

    An observation is a dict. ``pixels`` is a frame, ``(height, width, 3)`` uint8, upright;
    ``depth`` is the distance of each pixel's object from the camera's plane, ``(height, width)``
    float32, in metres. With several cameras, each of these is a dict by camera name.
    ``agent_pos`` is the hand's position in metres and the gripper's opening,
    ``(4,)``; ``environment_state`` is the whole state, ``(39,)``; ``task_onehot``, ``(number of
    classes,)``, and ``task_embedding`` are present if the observations of ``env`` have them after
    the state. Numbers keep their dtype, float64. If there is nothing but ``pixels``, the
    observation is the frame itself.

    Args:
        env: A `MetaWorldMTEnv` with ``render_mode="rgb_array"``, in wrappers whose observations are
            states, with or without a one-hot at the end.
        observation: ``"pixels"`` for frames; ``"pixels_agent_pos"`` adds ``agent_pos``, and
            ``"pixels_state"`` adds ``environment_state``.
        depth: Whether to add ``depth``.

    Raises:
        ValueError: If there is no such observation.

    >>> import gymnasium, mtwrappers
    >>> look = {"observation": "pixels_agent_pos", "width": 64, "height": 48}
    >>> env = gymnasium.make("mtwrappers/MT10-v0", num_goals=1, **look)
    >>> {name: space.shape for name, space in env.observation_space.items()}
    {'agent_pos': (4,), 'pixels': (48, 64, 3), 'task_onehot': (10,)}
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        observation: ObservationName,
        depth: bool = False,
    ) -> None:
        RecordConstructorArgs.__init__(self, observation=observation, depth=depth)
        super().__init__(env)
        beside = _BESIDE[check_choice(observation, list(_BESIDE), "observation")]
        state: Any = env.observation_space
        self._parts = {**{key: slice(size) for key, size in beside.items()}, **parts_of_task(env)}
        bottom: Any = env.unwrapped
        while hasattr(bottom, "env"):  # a TaskStream, whose `unwrapped` is itself
            bottom = bottom.env.unwrapped
        if not hasattr(bottom, "pool"):
            raise TypeError(
                "PixelObservation expects an environment of mtwrappers on Meta-World, such as "
                f"mtwrappers/MT10-v0, got {env}; gymnasium.wrappers.AddRenderObservation observes "
                "the frames of any other"
            )
        look, upstream = bottom.pool.settings, bottom.pool.layout.is_upstream
        size = look.height, look.width
        images: dict[str, Any] = {"pixels": Box(0, 255, (*size, 3), np.uint8)}
        if depth:
            images["depth"] = Box(0.0, FAR_PLANE if upstream else FAR, size, np.float32)
        self._kinds = {key: _KINDS[key] for key in images}
        names = camera_names(look.camera_name)
        self._several = names is not None and not isinstance(look.camera_name, str)
        if names is not None and self._several:
            images = {key: Dict(dict.fromkeys(names, box)) for key, box in images.items()}
        low_high = {key: (state.low[part], state.high[part]) for key, part in self._parts.items()}
        boxes = {key: Box(*bounds, dtype=state.dtype) for key, bounds in low_high.items()}
        self._alone = len(images) == 1 and not boxes
        self.observation_space = images["pixels"] if self._alone else Dict({**images, **boxes})

    def observation(self, obs: Any) -> Any:
        """Returns the current frames and parts of the state ``obs``."""
        drawn = class_env_of(self.env).images(self._kinds.values())
        images: dict[str, Any] = {}
        for key, kind in self._kinds.items():
            images[key] = drawn[kind] if self._several else next(iter(drawn[kind].values()))
        if self._alone:
            return images["pixels"]
        return {**images, **{key: obs[part] for key, part in self._parts.items()}}


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
