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
from mtwrappers.metaworld.class_env import CAMERAS, FAR, FREE, OBS_SIZE, camera_names
from mtwrappers.metaworld.env import MetaWorldMTEnv
from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv
from mtwrappers.metaworld.tasks import META_LEARNING
from mtwrappers.metaworld.text import check_descriptions
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.normalize_observation import NormalizeObservationPerTask
from mtwrappers.wrappers.normalize_reward import NormalizeRewardPerTask
from mtwrappers.wrappers.rl2 import RL2Observation

ObservationName: TypeAlias = Literal["state", "pixels", "pixels_agent_pos", "pixels_state"]
# The parts of a state in an observation that is a dict: the key, and the number of leading entries.
_STATE_SIZES: dict[ObservationName, dict[str, int]] = {
    "state": {"environment_state": OBS_SIZE},
    "pixels": {},
    "pixels_agent_pos": {"agent_pos": 4},
    "pixels_state": {"environment_state": OBS_SIZE},
}
OBSERVATIONS = tuple(_STATE_SIZES)
# Vision-language-action projects move corner2 to the place of this camera.
CAMERA = "corner4"
# No far clipping plane of Meta-World's own models is beyond this, in metres.
FAR_PLANE = 120.0


def without_frames(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an id without those that only change frames and sentences."""
    names = {"observation", "camera_name", "camera_id", "depth", "width", "height", "shadows"}
    names.add("instruction")
    return {name: value for name, value in kwargs.items() if name not in names}


class AgentObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Observes a Meta-World environment by frames, parts of the state, and a sentence, in a dict.

    ``pixels`` is a frame, ``(height, width, 3)`` uint8, upright;
    ``depth`` is the distance of each pixel's object from the camera's plane, ``(height, width)``
    float32, in metres. With several cameras, each of these is a dict by camera name.
    ``agent_pos`` is the hand's position in metres and the gripper's opening,
    ``(4,)``; ``environment_state`` is the whole state, ``(39,)``; ``task_onehot``, ``(number of
    classes,)``, and ``task_embedding`` are present if the observations of ``env`` have them after
    the state. Numbers keep their dtype, float64. ``instruction`` is the sentence that describes the
    task, in a `gymnasium.spaces.Text` that contains every sentence of the table. If there is
    nothing but ``pixels``, the observation is the frame itself.

    Args:
        env: A `MetaWorldMTEnv`, or a stream of its tasks, in wrappers whose observations are
            states, with or without a one-hot at the end; for frames, with
            ``render_mode="rgb_array"``.
        observation: ``"pixels"`` for frames; ``"pixels_agent_pos"`` adds ``agent_pos``, and
            ``"pixels_state"`` adds ``environment_state``, which ``"state"`` has without frames.
        depth: Whether to add ``depth``.
        instruction: Whether to add ``instruction``.

    Raises:
        AttributeError: If sentences are to be observed, tasks are hidden, and there are no
            descriptions.
        TypeError: If ``env`` is not an environment of this package on Meta-World.
        ValueError: If there is no such observation, or a class has no sentence.

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
        instruction: bool = False,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, observation=observation, depth=depth, instruction=instruction
        )
        super().__init__(env)
        sizes = _STATE_SIZES[check_choice(observation, OBSERVATIONS, "observation")]
        state_slices = {key: slice(size) for key, size in sizes.items()}
        self._slices = {**state_slices, **_slice_task_parts(env)}
        self._mt_env = _find_mt_env(env)
        settings, is_upstream = self._mt_env.pool.settings, self._mt_env.pool.layout.is_upstream
        size = settings.height, settings.width
        spaces: dict[str, Any] = {}
        self._kinds: dict[str, str] = {}  # the kind of image for each key
        if observation != "state":
            self._kinds["pixels"] = "colours"
            spaces["pixels"] = Box(0, 255, (*size, 3), np.uint8)
        if depth:
            self._kinds["depth"] = "depth"
            spaces["depth"] = Box(0.0, FAR_PLANE if is_upstream else FAR, size, np.float32)
        self._has_several_cameras = not isinstance(settings.camera_name, (str, type(None)))
        if self._has_several_cameras:
            names = camera_names(settings.camera_name) or ()
            spaces = {key: Dict(dict.fromkeys(names, box)) for key, box in spaces.items()}
        state: Any = env.observation_space
        for key, entries in self._slices.items():
            spaces[key] = Box(state.low[entries], state.high[entries], dtype=state.dtype)
        # The environment that has the sentence, if it is observed.
        self._described_env: MetaWorldMTEnv | None = None
        if instruction:
            if not isinstance(self._mt_env, MetaWorldMTEnv):
                raise AttributeError(
                    "instruction=True needs the descriptions of an MTEnv, such as "
                    f"mtwrappers/MT10-v0; {type(self._mt_env).__name__} has none"
                )
            self._described_env = self._mt_env
            spaces["instruction"] = self._described_env.description_space
        self._is_frame_alone = list(spaces) == ["pixels"]
        self.observation_space = spaces["pixels"] if self._is_frame_alone else Dict(spaces)

    def observation(self, obs: Any) -> Any:
        """Returns the current frames, the parts of the state ``obs``, and the sentence."""
        observation: dict[str, Any] = {}
        if self._kinds:
            images = self._mt_env.images(self._kinds.values())
            for key, kind in self._kinds.items():
                by_camera = images[kind]
                observation[key] = (
                    by_camera if self._has_several_cameras else next(iter(by_camera.values()))
                )
        if self._is_frame_alone:
            return observation["pixels"]
        observation |= {key: obs[entries] for key, entries in self._slices.items()}
        if self._described_env is not None:
            observation["instruction"] = self._described_env.task_description
        return observation


def _find_mt_env(env: gymnasium.Env[Any, Any]) -> MetaWorldMTEnv | MetaWorldSetTaskEnv:
    bottom: Any = env.unwrapped
    while hasattr(bottom, "env"):  # a TaskStream, whose `unwrapped` is itself
        bottom = bottom.env.unwrapped
    if not isinstance(bottom, (MetaWorldMTEnv, MetaWorldSetTaskEnv)):
        raise TypeError(
            "AgentObservation expects an environment of mtwrappers on Meta-World, such as "
            f"mtwrappers/MT10-v0, got {env}; gymnasium.wrappers.AddRenderObservation observes "
            "the frames of any other"
        )
    return bottom


def _slice_task_parts(env: gymnasium.Env[Any, Any]) -> dict[str, slice]:
    """The slices of ``task_embedding`` and ``task_onehot`` in a flat observation."""
    space: Any = env.observation_space
    slices, end, mt_space = {}, OBS_SIZE, env.unwrapped.observation_space
    if isinstance(mt_space, Dict) and "task_embedding" in mt_space.spaces:
        embedding: Any = mt_space["task_embedding"]
        end += embedding.shape[0]
        slices["task_embedding"] = slice(OBS_SIZE, end)
    if space.shape[0] > end:
        slices["task_onehot"] = slice(end, None)
    return slices


Env: TypeAlias = gymnasium.Env[Any, Any]
TaskEncoding: TypeAlias = Literal["onehot", "none", "dict"]
# Settings of `AgentView` that others cannot be combined with.
_NOT_WITH: dict[str, tuple[str, ...]] = {
    "observation": ("task_encoding", "recurrent_info_in_obs", "normalize_observations"),
    "instruction": ("task_encoding", "recurrent_info_in_obs"),
    "recurrent_info_in_obs": ("task_encoding",),
    "normalize_observations": ("task_encoding",),
}


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
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for field in dataclasses.fields(self):
            if isinstance(field.default, bool):
                check_flag(values[field.name], field.name)
        if self.observation == "state" and self.depth:
            raise ValueError(
                "depth needs frames, got observation='state': expected one of "
                f"{list(OBSERVATIONS[1:])}"
            )
        flat = ("state", "onehot", "none", False)
        for name, others in _NOT_WITH.items():
            refused = [
                f"{other}={values[other]!r}" for other in others if values[other] not in flat
            ]
            if refused and values[name] not in flat:
                raise ValueError(
                    f"{name}={values[name]!r} cannot be combined with {' and '.join(refused)}"
                )

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
        if self.observation != "state" or self.instruction:
            env = AgentObservation(env, self.observation, self.depth, self.instruction)
        return env


# By default: there is only one class, or the agent has to infer the task.
WITHOUT_ONEHOT = ("MT1", *META_LEARNING)
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
    "camera_id": ("camera_name", {FREE: "free", **dict(enumerate(CAMERAS))}),
}


def by_our_names(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces Meta-World's names of keyword arguments by ours.

    Raises:
        TypeError: If both names of an argument are given.
        ValueError: If Meta-World does not accept a value.
    """
    renamed = dict(kwargs)
    for name, (ours, values) in UPSTREAM.items():
        if (value := renamed.pop(name, None)) is None:  # Meta-World's default
            continue
        if values is not None:
            value = values[check_choice(value, list(values), name)]
        if name == "total_tasks_per_cls":
            # Meta-World takes this many tasks from a list of num_goals.
            most = kwargs.get("num_goals", value)
            if positive(value, name) > positive(most, "num_goals"):
                raise ValueError(f"{name} must be at most num_goals={most}, got {value}")
        # It overrides the default classes of an id, and the length of the list.
        elif ours in kwargs and not ours.endswith("_classes"):
            raise TypeError(f"{name} is Meta-World's name for {ours}, got both")
        renamed[ours] = value
    return renamed


def take_inputs(benchmark: str, kwargs: dict[str, Any]) -> tuple[AgentView, dict[str, Any]]:
    """Splits an id's keyword arguments into an `AgentView` and the others, by our names.

    The others include the render mode and camera that the view needs for frames.

    Raises:
        TypeError, ValueError: If `AgentView` or `check_descriptions` does not accept an argument,
            or sentences are to be observed for an id that has none.
    """
    others = by_our_names(kwargs)
    view_kwargs = {name: others.pop(name) for name in INPUTS if name in others}
    if view_kwargs.get("task_encoding") is None:
        view_kwargs["task_encoding"] = "none" if benchmark in WITHOUT_ONEHOT else "onehot"
    view = AgentView(**view_kwargs)
    if others.get("descriptions") is not None:
        check_descriptions(others["descriptions"], all_classes())
    elif view.instruction and benchmark in META_LEARNING:
        raise ValueError(
            f"instruction=True needs descriptions on {benchmark}: its classes are hidden, and a "
            "sentence reveals them"
        )
    if view.observation != "state":
        mode = others.get("render_mode")
        if mode not in ("rgb_array", None):
            raise ValueError(
                f"observation={view.observation!r} needs render_mode='rgb_array', got {mode!r}"
            )
        others["render_mode"] = "rgb_array"
        if others.get("camera_name") is None:
            others["camera_name"] = CAMERA
    return view, others
