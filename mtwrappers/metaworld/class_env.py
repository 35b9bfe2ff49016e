"""One Sawyer class as a Gymnasium environment, and the settings that it is built and drawn with."""

from __future__ import annotations

import math
import reprlib
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.checks import check_choice, check_success, not_negative, positive
from mtwrappers.common.extras import import_extra
from mtwrappers.common.types import AnyArray, Info, Options
from mtwrappers.metaworld.fast import Fast, class_to_build
from mtwrappers.metaworld.interfaces import Classes, Sawyer, SawyerClass
from mtwrappers.state.identity import keep_arguments

if TYPE_CHECKING:
    from mtwrappers.metaworld.frames import Cameras, ImageKind, Images

CameraNames: TypeAlias = str | Sequence[str] | None
# The cameras of Meta-World's own models, in their order.
CAMERAS = ("topview", "corner", "corner2", "corner3", "corner4", "behindGripper", "gripperPOV")
FREE = -1  # the index of MuJoCo's free camera, which is named "free" here
RENDER_MODES = ("rgb_array", "depth_array", "rgbd_tuple")
# The settings with a fixed set of values.
_CHOICES: dict[str, tuple[object, ...]] = {
    "reward_function_version": ("v1", "v2"),
    "render_mode": (*RENDER_MODES, None),
    "shadows": (True, False),
    "fast": ("auto", True, False),
}


class ClassKeywords(TypedDict, total=False):
    """The fields of `SawyerSettings` as keyword arguments."""

    reward_function_version: Literal["v1", "v2"]
    render_mode: Literal["rgb_array", "depth_array", "rgbd_tuple"] | None
    camera_name: CameraNames
    width: int
    height: int
    shadows: bool
    fast: Fast
    idle_steps: int


@dataclass(frozen=True)
class SawyerSettings:
    """The settings that Sawyer classes are built with.

    Args:
        reward_function_version: Meta-World's ``"v1"`` or ``"v2"``. With ``"v1"``, hand-insert-v3,
            peg-insert-side-v3 and stick-push-v3 can never report a success, and a warning says so.
        render_mode: What `render` returns: ``"rgb_array"``, ``"depth_array"`` (metres),
            ``"rgbd_tuple"`` (both), or ``None`` for nothing.
        camera_name: A camera of the model, such as ``"corner2"``, or a list of several, of which
            `render` draws the first; by default ``"free"``, MuJoCo's free camera. Frames of
            Meta-World's corner cameras, which are mounted upside down, are rotated by 180 degrees.
        width: Width of a frame in pixels.
        height: Height of a frame in pixels.
        shadows: Whether frames have shadows and reflections. Without a graphics card they take most
            of the drawing time.
        fast: Whether to use the fast classes; ``"auto"`` uses them if they are verified.
        idle_steps: The number of zero actions after each reset, for objects to settle. The reset
            returns the observation after them. They do not count towards the episode's length or
            return.

    Raises:
        TypeError: If ``camera_name`` is neither a name nor a list of names.
        ValueError: If a value is not allowed.

    >>> import gymnasium, mtwrappers
    >>> for version in ("v1", "v2"):
    ...     settings = {"reward_function_version": version, "idle_steps": 5}
    ...     env = gymnasium.make("mtwrappers/MT1-v0", env_name="push-v3", num_goals=1, **settings)
    ...     obs, info = env.reset(seed=0)
    ...     print(version, round(env.step([0.5, 0.0, 0.0, 0.0])[1], 3))
    v1 -0.158
    v2 0.053
    """

    reward_function_version: Literal["v1", "v2"] = "v2"
    render_mode: str | None = None
    camera_name: CameraNames = None
    width: int = 480
    height: int = 480
    shadows: bool = True
    fast: Fast = "auto"
    idle_steps: int = 0

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            check_choice(getattr(self, name), choices, name)
        camera_names(self.camera_name)
        positive(self.width, "width")
        positive(self.height, "height")
        not_negative(self.idle_steps, "idle_steps")


# With Meta-World's rewards v1, these compute their success from values that cannot meet its
# condition: the distance of the object at the start, of the peg's middle, and an open gripper of 0.
WITHOUT_SUCCESS_IN_V1 = ("hand-insert-v3", "peg-insert-side-v3", "stick-push-v3")


def warn_of_v1(reward_function_version: str, classes: Iterable[str]) -> None:
    """Warns of classes that can never report a success with rewards v1."""
    listed = [name for name in classes if name in WITHOUT_SUCCESS_IN_V1]
    if reward_function_version == "v1" and listed:
        warnings.warn(
            f"with reward_function_version='v1', {', '.join(listed)} can never report success: "
            "their infos always have success=0.0; see the page 'Traps of Meta-World'",
            stacklevel=find_stacklevel(),
        )


def camera_names(camera_name: CameraNames) -> tuple[str, ...] | None:
    """The names of the cameras in ``camera_name``; ``None`` if it is ``None``.

    Raises:
        TypeError: If it is neither a name nor a list of names.
        ValueError: If the list is empty, or contains a name twice.
    """
    if camera_name is None:
        return None
    if isinstance(camera_name, str):
        return (camera_name,)
    listed = isinstance(camera_name, (list, tuple))
    if not listed or not all(isinstance(name, str) for name in camera_name):
        got = reprlib.repr(camera_name)
        raise TypeError(f"camera_name must be a name, a list of names or None, got {got}")
    if not camera_name or len(set(camera_name)) < len(camera_name):
        raise ValueError(
            f"camera_name must hold at least one name, and none twice, got {list(camera_name)}"
        )
    return tuple(camera_name)


def find_cameras(camera_name: CameraNames, cameras: Sequence[str] = CAMERAS) -> dict[str, int]:
    """The index of each camera in ``camera_name``, by name; by default the free camera's.

    Args:
        camera_name: One of `SawyerSettings`.
        cameras: The names of the model's cameras.

    Raises:
        ValueError: If there is no such camera.
    """
    indices = {"free": FREE, **{name: i for i, name in enumerate(cameras)}}
    names = camera_names(camera_name) or ("free",)
    argument = "camera_name" if isinstance(camera_name, str) else "each of camera_name"
    for name in names:
        check_choice(name, tuple(indices), argument)
    return {name: indices[name] for name in names}


OBS_SIZE = 39
# MuJoCo resets a simulation in which a position exceeds this (mjMAXVAL), so it is a valid bound,
# and finite, as checkers require.
FAR = 1e10
INFO_KEYS = (
    "success",
    "near_object",
    "grasp_success",
    "grasp_reward",
    "in_place_reward",
    "obj_to_target",
    "unscaled_reward",
)
# "human" is left to Gymnasium's HumanRendering, which make() applies, because the window of the
# upstream classes needs a display at construction.
METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 80}


def action_box() -> Box:
    """The action space: moves of the hand along x, y, z (in cm) and the gripper's effort."""
    return Box(-1.0, 1.0, (4,), np.float32)


def observation_box(classes: Classes, *, goals_visible: bool) -> Box:
    """The union of the classes' observation bounds, shape ``(39,)``, float64, in metres.

    An observation is the hand (3), gripper opening (1) and objects (14), the same from the previous
    step (18), and the goal (3). A hidden goal is zero, so its bounds include zero. Bounds of zero
    width, which checkers do not accept, are widened by Meta-World's success radius.
    """
    sawyer: SawyerClass = import_extra("metaworld.sawyer_xyz_env", "metaworld").SawyerXYZEnv
    from mtwrappers.metaworld.blueprint import goal_space

    hand, radius = sawyer._HAND_SPACE, sawyer.TARGET_RADIUS
    spaces = [goal_space(cls) for cls in classes.values()]
    hidden_goals = [] if goals_visible else [np.zeros(3)]
    goal_low = np.min([*hidden_goals, *(space.low for space in spaces)], axis=0)
    goal_high = np.max([*hidden_goals, *(space.high for space in spaces)], axis=0)
    flat = goal_low == goal_high
    goal_low, goal_high = goal_low - radius * flat, goal_high + radius * flat
    far = np.full(14, FAR)
    low = np.concatenate([hand.low, [-1.0], -far])
    high = np.concatenate([hand.high, [1.0], far])
    return Box(
        np.concatenate([low, low, goal_low]),
        np.concatenate([high, high, goal_high]),
        dtype=np.float64,
    )


class SawyerClassEnv(gymnasium.Env[AnyArray, AnyArray]):
    """One Sawyer class with Python scalars, checked actions, and the same info keys everywhere.

    After setting a task on ``sawyer``, callers must call `reset` before the next step.

    Attributes:
        sawyer: The class itself.
        terminate_on_success: Whether a success ends the episode. Can be set at any time.
    """

    metadata = METADATA

    def __init__(
        self,
        name: str,
        cls: SawyerClass,
        observation_space: Box,
        settings: SawyerSettings,
        max_episode_steps: int | None,
    ) -> None:
        keep_arguments(self, {"name": name})  # the environment around it has all others
        self.name = name
        self.render_mode = settings.render_mode
        self.observation_space = observation_space
        self.action_space = action_box()
        self.sawyer: Sawyer = class_to_build(cls, settings.fast)(
            reward_function_version=settings.reward_function_version
        )
        self._cameras: Cameras | None = None
        if settings.render_mode is not None:
            from mtwrappers.metaworld.frames import (  # which imports mujoco
                Cameras,
                FrameSettings,
            )

            model = self.sawyer.model
            names = [model.camera(i).name for i in range(model.ncam)]
            cameras = find_cameras(settings.camera_name, names)
            frame_settings = FrameSettings(settings.width, settings.height, settings.shadows)
            self._cameras = Cameras(model, cameras, frame_settings)
        self.sawyer.max_path_length = max_episode_steps or sys.maxsize
        self._idle_steps = settings.idle_steps
        self.terminate_on_success = False

    def reset(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[NDArray[np.float64], Info]:
        """Begins an episode. Only the task determines its start."""
        super().reset(seed=seed)
        obs, _ = self.sawyer.reset()
        if self._idle_steps:
            obs = self._idle()
        if self._cameras is not None:
            self._cameras.begin(self.sawyer.data)
        return obs, {**dict.fromkeys(INFO_KEYS, 0.0), "task_name": self.name}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], float, bool, bool, Info]:
        """Simulates one control step (12.5 ms).

        Raises:
            ResetNeeded: If the episode was truncated.
            ValueError: If the action is not numbers of shape ``(4,)``, or is not finite; MuJoCo
                would then silently reset the simulation.
        """
        sawyer = self.sawyer
        if sawyer.curr_path_length >= sawyer.max_path_length:
            raise ResetNeeded(f"{self.name}: call reset() before step()")
        action = np.asarray(action)
        if action.shape != (4,):
            raise ValueError(f"{self.name}: expected an action of shape (4,), got {action.shape}")
        if action.dtype.kind not in "fiu":
            raise ValueError(f"{self.name}: expected an action of numbers, got {action!r}")
        x, y, z, effort = action.tolist()
        # The sum is a fast check; it may overflow, so the entries are checked too.
        if not math.isfinite(x + y + z + effort) and not np.isfinite(action).all():
            raise ValueError(f"{self.name}: expected a finite action, got {action}")
        obs, reward, _, truncated, info = sawyer.step(action)
        for key, value in info.items():
            if type(value) is not float and isinstance(value, (int, np.number, np.bool_)):
                info[key] = float(value)
        info["task_name"] = self.name
        terminated = self.terminate_on_success and check_success(info["success"], "success")
        return obs, float(reward), terminated, bool(truncated), info

    def _idle(self) -> NDArray[np.float64]:
        """Steps with zero actions and returns the last observation, before the episode begins."""
        sawyer = self.sawyer
        for _ in range(self._idle_steps):
            sawyer.curr_path_length = 0  # idle steps may outnumber the steps of an episode
            obs = sawyer.step(np.zeros(4, np.float32))[0]
        sawyer.curr_path_length = 0
        return obs

    def render(self) -> Any:
        """Draws the current state in the render mode; see `mtwrappers.metaworld.frames`."""
        if self._cameras is None or self.render_mode is None:
            gymnasium.logger.warn(
                f"{self.name}: there is nothing to render without a render_mode; make the "
                f"environment with one of {list(RENDER_MODES)}"
            )
            return None
        return self._cameras.frame(self.sawyer.data, self.render_mode)

    def images(self, kinds: Iterable[ImageKind]) -> Images:
        """Draws the current state; see `mtwrappers.metaworld.frames.Cameras.images`.

        Raises:
            RuntimeError: If there is no render mode.
        """
        if self._cameras is None:
            raise RuntimeError(f"{self.name}: images need a render_mode, such as 'rgb_array'")
        return self._cameras.images(self.sawyer.data, kinds)

    def close(self) -> None:
        """Frees the cameras' resources."""
        if self._cameras is not None:
            self._cameras.close()
        self.sawyer.close()
