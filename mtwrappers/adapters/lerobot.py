"""Meta-World in LeRobot, as ``--env.type=mtwrappers``. Importing this module registers it.

LeRobot imports it where the distribution ``lerobot_env_mtwrappers`` is installed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers.adapters.lerobot_envs import classes_of, make_class_env
from mtwrappers.common.checks import check_choice
from mtwrappers.common.extras import import_extra
from mtwrappers.metaworld.class_env import METADATA, OBS_SIZE
from mtwrappers.metaworld.observations import CAMERA
from mtwrappers.metaworld.text import check_descriptions

_types: Any = import_extra("lerobot.configs", "lerobot")
_configs: Any = import_extra("lerobot.envs.configs", "lerobot")
_utils: Any = import_extra("lerobot.envs.utils", "lerobot")
_names: Any = import_extra("lerobot.utils.constants", "lerobot")


class _NumbersFeature(NamedTuple):
    """Numbers that are observed beside the frame; ``kind`` is LeRobot's."""

    key: str
    kind: str
    size: int


# For each kind of observation.
_BESIDE: dict[str, list[_NumbersFeature]] = {
    "pixels": [],
    "pixels_agent_pos": [_NumbersFeature("agent_pos", kind="STATE", size=4)],
    "pixels_state": [_NumbersFeature("environment_state", kind="ENV", size=OBS_SIZE)],
}


@_configs.EnvConfig.register_subclass("mtwrappers")
@dataclass
class MTWrappersEnv(_configs.EnvConfig):  # type: ignore[misc] # a class of LeRobot's
    """LeRobot's configuration of Meta-World's environments.

    The seed of an episode determines its goal: the one that LeRobot's ``metaworld`` draws from it.
    A success ends the episode.

    Args:
        task: Classes such as ``"reach-v3"``, LeRobot's groups ``"easy"``, ``"medium"``, ``"hard"``
            and ``"very_hard"``, or ``"MT10"``, ``"MT25"`` and ``"MT50"``, with commas between.
        fps: Steps per second of simulated time, which is fixed.
        episode_length: The number of steps after which an episode is truncated.
        obs_type: ``"pixels"``; ``"pixels_agent_pos"``, with the position of the hand (metres) and
            the opening of the gripper; or ``"pixels_state"``, with Meta-World's 39 numbers.
        observation_height: The height of frames in pixels.
        observation_width: The width of frames in pixels.
        camera_name: The camera that draws the frames, or several with commas between: policies then
            observe ``observation.images.NAME`` of each instead of ``observation.image``.
        shadows: Whether frames have shadows and reflections.
        idle_steps: The number of zero actions after each reset, which do not count as steps.
        descriptions: The sentences that policies read, ``"lerobot-0.6.1"`` or ``"metaworld"``; see
            `mtwrappers.metaworld.text`.

    Raises:
        DependencyNotInstalled: On import, if LeRobot is not installed.
        ValueError: If ``obs_type`` is none of those; other values are checked by `create_envs`.
    """

    task: str = "reach-v3"
    fps: int = METADATA["render_fps"]
    episode_length: int = 500
    obs_type: str = "pixels_agent_pos"
    observation_height: int = 480
    observation_width: int = 480
    camera_name: str = CAMERA
    shadows: bool = True
    idle_steps: int = 0
    descriptions: str = "lerobot-0.6.1"

    def __post_init__(self) -> None:
        check_choice(self.obs_type, tuple(_BESIDE), "obs_type")
        cameras = self.camera_names
        frame_shape = self.observation_height, self.observation_width, 3
        images = {"pixels": _names.OBS_IMAGE}
        if len(cameras) > 1:
            images = {f"pixels/{name}": f"{_names.OBS_IMAGES}.{name}" for name in cameras}
        self.features = {"action": _make_feature("ACTION", (4,))}
        self.features |= {key: _make_feature("VISUAL", frame_shape) for key in images}
        for numbers in _BESIDE[self.obs_type]:
            self.features[numbers.key] = _make_feature(numbers.kind, (numbers.size,))
        self.features_map = {
            "action": _names.ACTION,
            **images,
            "agent_pos": _names.OBS_STATE,
            "environment_state": _names.OBS_ENV_STATE,
        }

    @property
    def camera_names(self) -> list[str]:
        """The names of the cameras."""
        return [name.strip() for name in self.camera_name.split(",")]

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make` for ``mtwrappers/MT1-v0``.

        A file of descriptions is read.
        """
        cameras = self.camera_names
        return {
            "observation": self.obs_type,
            "height": self.observation_height,
            "width": self.observation_width,
            "camera_name": cameras[0] if len(cameras) == 1 else cameras,
            "shadows": self.shadows,
            "idle_steps": self.idle_steps,
            "descriptions": check_descriptions(self.descriptions),
            "max_episode_steps": self.episode_length,
            "disable_env_checker": self.disable_env_checker,
        }

    def create_envs(self, n_envs: int, use_async_envs: bool = False) -> dict[str, dict[int, Any]]:
        """Makes ``n_envs`` environments of each class: a dict by part of ``task`` and class index.

        They are in a `gymnasium.vector.SyncVectorEnv` or, with ``use_async_envs`` and ``n_envs``
        above 1, in LeRobot's vector environment over worker processes. In both, an environment
        stays as its episode ended until LeRobot begins the next rollout. Models are compiled at the
        first reset.

        Raises:
            ValueError: If a field has none of the allowed values.
        """
        classes, kwargs = classes_of(self.task), self.gym_kwargs
        make_class_env(next(iter(classes.values()))[0], **kwargs).close()  # or it raises
        use_async = use_async_envs and n_envs > 1

        def make_vector(name: str) -> Any:
            make = functools.partial(make_class_env, name, **kwargs)
            return _make_vector([make] * n_envs, use_async)

        return {
            group: {i: make_vector(name) for i, name in enumerate(names)}
            for group, names in classes.items()
        }


def _make_feature(kind: str, shape: tuple[int, ...]) -> Any:
    return _types.PolicyFeature(type=_types.FeatureType[kind], shape=shape)


def _make_vector(makers: list[Any], use_async: bool) -> Any:
    if use_async:
        return _utils._LazyAsyncVectorEnv(makers)
    return OneProcess([_utils.freeze_after_episode_end(make) for make in makers])


class OneProcess(SyncVectorEnv):
    """Gymnasium's vector environment in one process, built at first use and after `close`.

    LeRobot makes the vectors of all classes at once and keeps them to the end, and at 480 x 480 the
    spaces and buffers of a vector take 5 MB per environment.
    """

    def __init__(self, makers: list[Any]) -> None:
        self._makers = makers

    def __getattr__(self, name: str) -> Any:
        # The attributes that Gymnasium's constructor sets.
        if "envs" in vars(self) or name.startswith("_"):
            raise AttributeError(name)
        super().__init__(self._makers, autoreset_mode=AutoresetMode.NEXT_STEP)
        return getattr(self, name)

    def close(self, **kwargs: Any) -> None:
        """Closes the environments, and forgets them and their observations."""
        if "envs" in vars(self):
            self.close_extras(**kwargs)
            self.__dict__ = {"_makers": self._makers}
