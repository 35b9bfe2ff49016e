"""One Sawyer class under Gymnasium's contract, and how it is built."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, not_negative, positive
from mtwrappers.common.extras import import_extra
from mtwrappers.metaworld.fast.known_good import Fast, class_to_build
from mtwrappers.metaworld.own_cameras import CameraNames, camera_names, check_cameras
from mtwrappers.metaworld.variation import VariationStream, check_variation

OBS_SIZE = 39
# MuJoCo gives up a simulation in which a position exceeds this (mjMAXVAL), so no object goes
# further: a bound that is true, and finite as checkers ask for.
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
RENDER_MODES = ("rgb_array", "depth_array", "rgbd_tuple")
# "human" is left to Gymnasium's HumanRendering, which make() applies: the window of the upstream
# classes needs a display at construction.
METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 80}
# The values of those settings that have but a few.
_KNOWN: dict[str, tuple[Any, ...]] = {
    "reward_function_version": ("v1", "v2"),
    "render_mode": (*RENDER_MODES, None),
    "upright": (True, False),
    "shadows": (True, False),
    "fast": ("auto", True, False),
}


@dataclass(frozen=True)
class SawyerSettings:
    """How the Sawyer classes are built.

    Args:
        reward_function_version: Meta-World's ``"v1"`` or ``"v2"``.
        render_mode: What `render` returns: ``"rgb_array"``, ``"depth_array"`` (metres),
            ``"rgbd_tuple"`` (both), or ``None`` for nothing.
        camera_name: A camera of the model, such as ``"corner2"``, or one of ``cameras``, or a list
            of several, of which `render` draws the first; the free camera by default.
        camera_id: A camera of the model by its index, -1 for the free camera.
        cameras: Cameras of one's own by name, each a dict of ``pos`` (three numbers, metres, in the
            frame of the world), ``quat`` (four numbers, w, x, y, z) and ``fovy`` (the vertical
            field of view, degrees), as MuJoCo has them: a camera looks along its -z axis, with +x
            to the right and +y up. The model is not changed.
        width: Width of a frame in pixels.
        height: Height of a frame in pixels.
        upright: Whether to turn the frames of Meta-World's corner cameras, which hang upside down.
        shadows: Whether frames have shadows and reflections, which take most of the time in which
            they are drawn without a graphics card.
        fast: ``"auto"`` takes the fast classes where they are verified; ``True`` and ``False``
            decide.
        idle_steps: How many zero actions follow each reset, so that objects stop moving. The
            reset returns what is observed after them. They count neither as steps of the episode
            nor in its return.
        variation: How the scene varies between episodes: some of ``light``, ``camera``, ``table``
            and ``objects`` with commas between; see `mtwrappers.metaworld.variation`. Where no
            frames are drawn, it is refused.

    Raises:
        TypeError: If names, cameras or ``variation`` are of no such form.
        ValueError: If a value is not one of those.

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
    camera_id: int | None = None
    cameras: Mapping[str, Any] | None = None
    width: int = 480
    height: int = 480
    upright: bool = True
    shadows: bool = True
    fast: Fast = "auto"
    idle_steps: int = 0
    variation: str | None = None

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            check_choice(getattr(self, name), known, name)
        if self.camera_name is not None and self.camera_id is not None:
            raise ValueError(
                "give camera_name or camera_id, not both; got "
                f"{self.camera_name!r} and {self.camera_id!r}"
            )
        camera_names(self.camera_name)
        if self.cameras is not None:
            check_cameras(self.cameras, self.camera_name)
        positive(self.width, "width")
        positive(self.height, "height")
        not_negative(self.idle_steps, "idle_steps")
        object.__setattr__(self, "variation", check_variation(self.variation))
        if self.variation is not None and self.render_mode is None:
            raise ValueError(
                f"variation={self.variation!r} needs frames, which alone it changes: give a "
                "render_mode, or frames as observations; got render_mode=None"
            )


def action_box() -> Box:
    """Moves of the hand along x, y, z (hundredths of a metre) and the gripper's effort."""
    return Box(-1.0, 1.0, (4,), np.float32)


def observation_box(classes: Mapping[str, type[Any]], *, goals_visible: bool) -> Box:
    """The union of the classes' observation bounds, shape ``(39,)``, float64, in metres.

    The frame is hand (3), gripper opening (1), objects (14), the same one step before (18), and
    the goal (3). A hidden goal is zero, so its bounds include zero. Bounds of no width,
    which checkers refuse, are widened by Meta-World's success radius.
    """
    sawyer: Any = import_extra("metaworld.sawyer_xyz_env", "metaworld").SawyerXYZEnv
    from mtwrappers.metaworld.blueprint import goal_space

    hand, radius = sawyer._HAND_SPACE, sawyer.TARGET_RADIUS
    every: list[Any] = list(classes.values())
    spaces = [goal_space(cls) for cls in every]
    hidden = [] if goals_visible else [np.zeros(3)]
    goal_low = np.min([*hidden, *(space.low for space in spaces)], axis=0)
    goal_high = np.max([*hidden, *(space.high for space in spaces)], axis=0)
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


class SawyerClassEnv(gymnasium.Env[Any, Any]):
    """One Sawyer class: plain Python scalars, checked actions, the same info keys everywhere.

    Whoever sets a task, on ``sawyer``, sees to it that a `reset` follows before the next step.

    Attributes:
        sawyer: The class itself.
        terminate_on_success: Whether a success ends the episode. Can be set at any time.
    """

    metadata = METADATA

    def __init__(
        self,
        name: str,
        cls: type[Any],
        observation_space: Box,
        settings: SawyerSettings,
        max_episode_steps: int | None,
        variation: VariationStream | None = None,
    ) -> None:
        self.name = name
        self.render_mode = settings.render_mode
        self.observation_space = observation_space
        self.action_space = action_box()
        self.sawyer = class_to_build(cls, settings.fast)(
            reward_function_version=settings.reward_function_version
        )
        self._camera: Any = None
        if settings.render_mode is not None:
            from mtwrappers.metaworld.camera import Camera  # which imports mujoco

            self._camera = Camera(self.sawyer.model, settings)
        self.sawyer.max_path_length = max_episode_steps or sys.maxsize
        self._variation = variation
        self._idle_steps = settings.idle_steps
        self.terminate_on_success = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Begins an episode. The task alone determines its start."""
        super().reset(seed=seed)
        obs, _ = self.sawyer.reset()
        if self._idle_steps:
            obs = self._idle()
        if self._camera is not None:
            self._camera.begin(self.sawyer.data)
        if self._variation is not None:
            self._camera.vary(self._variation.draw())
        return obs, {**dict.fromkeys(INFO_KEYS, 0.0), "task_name": self.name}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Simulates one control step (12.5 ms).

        Raises:
            ResetNeeded: If the episode was truncated.
            ValueError: If the action has another shape than ``(4,)``, or is not finite, upon which
                MuJoCo would silently reset the simulation.
        """
        sawyer = self.sawyer
        if sawyer.curr_path_length >= sawyer.max_path_length:
            raise ResetNeeded(f"{self.name}: call reset() before step()")
        action = np.asarray(action)
        if action.shape != (4,):
            raise ValueError(f"{self.name}: expected an action of shape (4,), got {action.shape}")
        x, y, z, effort = action.tolist()
        # The sum is quick; only where it is not finite are the four looked at.
        if not math.isfinite(x + y + z + effort) and not np.isfinite(action).all():
            raise ValueError(f"{self.name}: expected a finite action, got {action}")
        obs, reward, _, truncated, info = sawyer.step(action)
        for key, value in info.items():
            if type(value) is not float and isinstance(value, (int, np.number, np.bool_)):
                info[key] = float(value)
        info["task_name"] = self.name
        terminated = self.terminate_on_success and info["success"] == 1.0
        return obs, float(reward), terminated, bool(truncated), info

    def _idle(self) -> NDArray[np.float64]:
        """Waits, and observes what has come of it; the episode begins afterwards."""
        sawyer = self.sawyer
        for _ in range(self._idle_steps):
            sawyer.curr_path_length = 0  # there may be more of them than steps in an episode
            obs = sawyer.step(np.zeros(4, np.float32))[0]
        sawyer.curr_path_length = 0
        waited: NDArray[np.float64] = obs
        return waited

    def render(self) -> Any:
        """Draws the current state, as the render mode says; see `mtwrappers.metaworld.camera`."""
        if self._camera is None:
            gymnasium.logger.warn(
                f"{self.name}: there is nothing to render without a render_mode; make the "
                f"environment with one of {list(RENDER_MODES)}"
            )
            return None
        return self._camera.frame(self.sawyer.data, self.render_mode)

    @property
    def camera(self) -> Any:
        """The `mtwrappers.metaworld.camera.Camera`; for environments with a render mode.

        Raises:
            ValueError: If there is none.
        """
        if self._camera is None:
            raise ValueError(
                f"{self.name} has no camera: expected a render_mode or frames as observations, got "
                "render_mode=None"
            )
        return self._camera

    def images(self, kinds: Iterable[str]) -> dict[str, dict[str, NDArray[Any]]]:
        """Draws the current state; see `mtwrappers.metaworld.camera.Camera.images`."""
        drawn: dict[str, dict[str, NDArray[Any]]] = self.camera.images(self.sawyer.data, kinds)
        return drawn

    @property
    def variation_parameters(self) -> dict[str, Any] | None:
        """How the current episode varies, as plain data; ``None`` where nothing does."""
        found: dict[str, Any] | None = self._camera and self._camera.variation_parameters
        return found

    def close(self) -> None:
        """Frees what the camera holds."""
        if self._camera is not None:
            self._camera.close()
        self.sawyer.close()


def class_env_of(env: gymnasium.Env[Any, Any]) -> SawyerClassEnv:
    """The `SawyerClassEnv` that runs the current task of an environment, in whatever wrappers.

    Raises:
        TypeError: If there is none inside.
        ResetNeeded: If no task was set yet.
    """
    inner: Any = env
    while not isinstance(inner, SawyerClassEnv):
        outer, inner = inner, getattr(inner, "_env", getattr(inner, "env", None))
        if inner is None and hasattr(outer, "_env"):
            raise ResetNeeded(f"{env}: call reset() first, which builds the class of a task")
        if not isinstance(inner, gymnasium.Env):
            raise TypeError(
                "expected one environment of mtwrappers on Meta-World (those of a vector are "
                f"reached by its call), got {env}"
            )
    return inner
