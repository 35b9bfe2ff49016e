"""The classic families of tasks on MuJoCo, as their sources define them.

Physics and resets are those of Gymnasium's environments (v5). A source chooses the arguments of the
environment, the distribution of tasks, the reward, the observation and the length. Where an
observation has more numbers than Gymnasium's, they are read from the same simulator. The guide to
families cites the file of each source.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mtwrappers.common.errors import short
from mtwrappers.common.extras import import_extra
from mtwrappers.common.types import Info
from mtwrappers.envs.distributions import (
    Choice,
    Circle,
    Disc,
    Distribution,
    Power,
    Uniform,
    as_numbers,
)
from mtwrappers.envs.family import Family, Source, Task

Terms: TypeAlias = dict[str, float]
# The terms of the reward of a step, from the task, the infos and the environment.
ComputeTerms: TypeAlias = Callable[[Task, Info, Any], Terms]
# An observation from Gymnasium's own and MuJoCo's data.
Observe: TypeAlias = Callable[[NDArray[np.float64], Any], NDArray[Any]]


class MujocoTaskEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of Gymnasium on MuJoCo with a reward that depends on a task.

    Args:
        env: The environment.
        distributions: The distribution of each entry of a task.
        compute_terms: Computes the terms of the reward, which is their sum.
        observe: Computes observations; by default they are those of ``env``.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        distributions: Mapping[str, Distribution],
        compute_terms: ComputeTerms,
        observe: Observe | None = None,
    ) -> None:
        super().__init__(env)
        self.distributions = dict(distributions)
        self._compute_terms, self._observe = compute_terms, observe
        self._task: Task = {}
        self._action_shape = env.action_space.shape or ()
        if observe is not None:
            example = self._observation(np.zeros(env.observation_space.shape or ()))
            dtype: Any = example.dtype
            self.observation_space = Box(-np.inf, np.inf, example.shape, dtype)

    def set_task(self, task: Task) -> None:
        """Sets the task of the next episode."""
        self._task = task

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], Info]:
        """Resets the environment; ``info`` has the entries of a step, with zeros for what moves.

        Velocities and terms of the reward are zero, since no step was made.
        """
        obs, info = self.env.reset(seed=seed, options=options)
        velocities = {
            name.replace("_position", "_velocity"): 0.0
            for name in info
            if name.endswith("_position")
        }
        costs = {"reward_ctrl": 0.0}
        if hasattr(self.unwrapped, "contact_cost"):
            costs["reward_contact"] = 0.0
        info = {**info, **velocities}
        terms = self._compute_terms(self._task, {**info, **costs}, self.unwrapped)
        return self._observation(obs), {**info, **dict.fromkeys(terms, 0.0)}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, Info]:
        """Steps the environment; ``info`` has the terms of the reward, and not Gymnasium's.

        Raises:
            ValueError: If the action has another shape or is not finite; MuJoCo would then silently
                reset the simulation.
        """
        if as_numbers(action, self._action_shape) is None:
            raise ValueError(
                f"expected a finite action of shape {self._action_shape}, got {short(action)}"
            )
        obs, _, terminated, truncated, info = self.env.step(action)
        terms = self._compute_terms(self._task, info, self.unwrapped)
        terms = {name: float(term) for name, term in terms.items()}
        info = {name: value for name, value in info.items() if not name.startswith("reward_")}
        return (
            self._observation(obs),
            sum(terms.values()),
            terminated,
            truncated,
            {**info, **terms},
        )

    def _observation(self, obs: NDArray[np.float64]) -> NDArray[Any]:
        env: Any = self.unwrapped
        return obs if self._observe is None else self._observe(obs, env.data)


class RandomParametersEnv(MujocoTaskEnv):
    """An environment whose tasks are multipliers of parameters of its model, one for each entry.

    The parameters are always products with those of the model file. What MuJoCo derives from masses
    and inertias when it compiles a model (``mj_setConst``) is not derived again, as in the source.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        robot: Any = env.unwrapped
        model = robot.model
        self._nominal = {name: getattr(model, name).copy() for name in _BASES}
        distributions = {
            name: Power(base, 3.0, self._nominal[name].shape) for name, base in _BASES.items()
        }
        super().__init__(env, distributions, _run_forward)

    def set_task(self, task: Task) -> None:
        """Sets the parameters of the model."""
        super().set_task(task)
        env: Any = self.unwrapped
        for name, nominal in self._nominal.items():
            getattr(env.model, name)[:] = nominal * np.asarray(task[name])


# The parameters of a model that vary, and the bases of their multipliers' powers.
_BASES = {
    "body_mass": 1.5,
    "body_inertia": 1.5,
    "dof_damping": 1.3,
    "geom_friction": 1.5,
}


# Rewards.


def _reach_velocity(task: Task, info: Info, env: Any, *, sign: float, alive: float) -> Terms:
    """The distance to a velocity, times ``sign``."""
    error = abs(info["x_velocity"] - task["velocity"])
    terms = {"reward_run": sign * error, "reward_ctrl": info["reward_ctrl"]}
    return terms | ({"reward_survive": alive} if alive else {})


def _run_in_direction(
    task: Task, info: Info, env: Any, *, scale: float, alive: float, in_radians: bool = False
) -> Terms:
    """The velocity in a direction: a sign of x, a vector, or an angle."""
    direction: Any = task["direction"]
    if in_radians:
        direction = math.cos(direction), math.sin(direction)
    if isinstance(direction, tuple):
        speed = direction[0] * info["x_velocity"] + direction[1] * info["y_velocity"]
    else:
        speed = direction * info["x_velocity"]
    terms = {"reward_forward": scale * speed, "reward_ctrl": info["reward_ctrl"]}
    if "reward_contact" in info:
        terms["reward_contact"] = info["reward_contact"]
    return terms | ({"reward_survive": alive} if alive else {})


def _reach_goal(task: Task, info: Info, env: Any, *, bonus: float, alive: float) -> Terms:
    """The distance to a goal in the 1-norm."""
    goal: Any = task["goal"]
    # Positions in infos are those of the joints, one physics step ahead of the bodies.
    x, y, _ = env.data.body("torso").xpos
    terms = {"reward_goal": bonus - abs(x - goal[0]) - abs(y - goal[1])}
    terms |= {"reward_ctrl": info["reward_ctrl"], "reward_contact": info["reward_contact"]}
    return terms | ({"reward_survive": alive} if alive else {})


def _run_forward(task: Task, info: Info, env: Any) -> Terms:
    return {
        "reward_forward": info["x_velocity"],
        "reward_ctrl": info["reward_ctrl"],
        "reward_survive": 1.0,
    }


# Observations.


def _add_torso(obs: NDArray[np.float64], data: Any) -> NDArray[Any]:
    """Appends the position of the torso, as float32."""
    return np.concatenate([obs, data.body("torso").xpos]).astype(np.float32)


def _add_world_forces(obs: NDArray[np.float64], data: Any) -> NDArray[Any]:
    """Puts the contact forces of the world, which Gymnasium leaves out, before those of bodies."""
    start = obs.size - data.cfrc_ext[1:].size
    return np.insert(obs, start, np.clip(data.cfrc_ext[0], -1, 1))


def _add_torso_frame(obs: NDArray[np.float64], data: Any) -> NDArray[Any]:
    """Adds the contact forces of the world, and the torso's rotation and position, as float32."""
    torso = data.body("torso")
    numbers = [_add_world_forces(obs, data), torso.xmat, torso.xpos]
    return np.concatenate(numbers).astype(np.float32)


def _observe_humanoid(obs: NDArray[np.float64], data: Any) -> NDArray[Any]:
    """Adds the zeros of the world and of the root's actuators, which Gymnasium leaves out."""
    joints = [data.qpos[2:], data.qvel]
    bodies = [data.cinert, data.cvel, data.qfrc_actuator, data.cfrc_ext]
    return np.concatenate([np.ravel(array) for array in (*joints, *bodies)])


# Rows.


@dataclass(frozen=True)
class _Robot:
    """An environment of Gymnasium, and what is observed of it.

    Attributes:
        module: The module in ``gymnasium.envs.mujoco``.
        class_name: The class.
        arguments: Its arguments.
        observe: Computes observations; by default they are those of the class.
    """

    module: str
    class_name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    observe: Observe | None = None

    def make(self, render_mode: str | None) -> Any:
        """Makes the environment.

        Raises:
            DependencyNotInstalled: If MuJoCo is not installed.
        """
        import_extra("mujoco", "mujoco")
        module = import_extra(f"gymnasium.envs.mujoco.{self.module}", "mujoco")
        return getattr(module, self.class_name)(**self.arguments, render_mode=render_mode)


def _make(
    robot: _Robot,
    distributions: Mapping[str, Distribution],
    compute_terms: ComputeTerms,
    render_mode: str | None,
) -> MujocoTaskEnv:
    return MujocoTaskEnv(robot.make(render_mode), distributions, compute_terms, robot.observe)


def _make_random_parameters(robot: _Robot, render_mode: str | None) -> MujocoTaskEnv:
    return RandomParametersEnv(robot.make(render_mode))


def _mujoco_source(
    robot: _Robot,
    tasks: Mapping[str, Distribution],
    compute_terms: ComputeTerms,
    episode_steps: int,
    published: str | None = None,
) -> Source:
    """A source: what is simulated, drawn, rewarded, and for how long."""
    return Source(partial(_make, robot, tasks, compute_terms), episode_steps, published)


def _random_parameters_source(module: str, class_name: str) -> Source:
    return Source(partial(_make_random_parameters, _Robot(module, class_name)), 200)


_CHEETAH = _Robot("half_cheetah_v5", "HalfCheetahEnv", {"ctrl_cost_weight": 0.05})
_CHEETAH_TORSO = dataclasses.replace(_CHEETAH, observe=_add_torso)
_ANT = _Robot("ant_v5", "AntEnv", {"include_cfrc_ext_in_observation": False})
_ANT_PROMP = _Robot("ant_v5", "AntEnv", {"healthy_z_range": (0.0, 1.0)}, _add_world_forces)
_OBSERVED_POSITION = {"exclude_current_positions_from_observation": False}
_ANT_GOAL = _Robot(
    "ant_v5",
    "AntEnv",
    {**_OBSERVED_POSITION, "ctrl_cost_weight": 0.1, "terminate_when_unhealthy": False},
    _add_world_forces,
)
_ANT_MAML = _Robot(
    "ant_v5", "AntEnv", {**_OBSERVED_POSITION, "ctrl_cost_weight": 0.005}, _add_torso_frame
)
_HUMANOID = _Robot("humanoid_v5", "HumanoidEnv", {}, _observe_humanoid)
_WALKER_PROMP = _Robot("walker2d_v5", "Walker2dEnv", {"frame_skip": 8})
_SWIMMER = _Robot("swimmer_v5", "SwimmerEnv")

_FROM_0_TO_2 = {"velocity": Uniform(0.0, 2.0)}
_FROM_0_TO_3 = {"velocity": Uniform(0.0, 3.0)}
_SIGN = {"direction": Choice((-1.0, 1.0))}
_PLANE = {"direction": Circle()}
_DISC = {"goal": Disc(3.0)}
_SQUARE = {"goal": Uniform(-3.0, 3.0, (2,))}

_reach_speed = partial(_reach_velocity, sign=-1.0, alive=0.0)
# The sign of the source's code, which rewards the distance to the velocity.
_flee_speed = partial(_reach_velocity, sign=1.0, alive=0.0)
_walk_at_speed = partial(_reach_velocity, sign=-1.0, alive=15.0)
_run = partial(_run_in_direction, scale=1.0, alive=0.0)
_run_alive = partial(_run_in_direction, scale=1.0, alive=1.0)
_run_radians = partial(_run_in_direction, scale=1.0, alive=1.0, in_radians=True)
_run_maml = partial(_run_in_direction, scale=1.0, alive=0.05)
_walk_upright = partial(_run_in_direction, scale=1.25, alive=5.0)
_reach_point = partial(_reach_goal, bonus=0.0, alive=0.0)
_reach_point_maml = partial(_reach_goal, bonus=4.0, alive=0.05)

_SOURCES = {
    "HalfCheetahVel": {
        "pearl": _mujoco_source(
            _CHEETAH_TORSO, _FROM_0_TO_3, _reach_speed, 200, "PEARL, HalfCheetahVel"
        ),
        "varibad": _mujoco_source(_CHEETAH_TORSO, _FROM_0_TO_3, _reach_speed, 200),
        "promp": _mujoco_source(_CHEETAH, _FROM_0_TO_3, _reach_speed, 100),
        "maml": _mujoco_source(_CHEETAH_TORSO, _FROM_0_TO_2, _reach_speed, 100),
        "garage": _mujoco_source(_CHEETAH_TORSO, _FROM_0_TO_2, _reach_speed, 100),
    },
    "HalfCheetahDir": {
        "pearl": _mujoco_source(_CHEETAH_TORSO, _SIGN, _run, 200, "PEARL, HalfCheetahDir"),
        "varibad": _mujoco_source(_CHEETAH_TORSO, _SIGN, _run, 200),
        "promp": _mujoco_source(_CHEETAH, _SIGN, _run, 100),
        "maml": _mujoco_source(_CHEETAH_TORSO, _SIGN, _run, 100),
        "garage": _mujoco_source(_CHEETAH_TORSO, _SIGN, _run, 100),
    },
    "AntDir": {
        "pearl": _mujoco_source(_ANT, _PLANE, _run_alive, 200),
        "varibad": _mujoco_source(_ANT, _SIGN, _run_radians, 200),
        "promp": _mujoco_source(_ANT_PROMP, _SIGN, _run_alive, 100),
        "promp-2d": _mujoco_source(_ANT_PROMP, _PLANE, _run_alive, 100),
        "maml": _mujoco_source(_ANT_MAML, _SIGN, _run_maml, 100),
    },
    "AntGoal": {
        "pearl": _mujoco_source(_ANT_GOAL, _DISC, _reach_point, 200),
        "varibad": _mujoco_source(_ANT_GOAL, _DISC, _reach_point, 200),
        "promp": _mujoco_source(_ANT_GOAL, _DISC, _reach_point, 100),
        "maml": _mujoco_source(_ANT_MAML, _SQUARE, _reach_point_maml, 100),
    },
    "HumanoidDir": {
        "pearl": _mujoco_source(_HUMANOID, _PLANE, _walk_upright, 200),
        "promp": _mujoco_source(_HUMANOID, _SIGN, _walk_upright, 100),
        "promp-2d": _mujoco_source(_HUMANOID, _PLANE, _walk_upright, 100),
    },
    "Walker2dVel": {
        "promp": _mujoco_source(
            _WALKER_PROMP, {"velocity": Uniform(0.0, 10.0)}, _walk_at_speed, 100
        ),
    },
    "SwimmerVel": {
        "promp": _mujoco_source(_SWIMMER, {"velocity": Uniform(0.1, 0.2)}, _flee_speed, 100),
        "mended": _mujoco_source(_SWIMMER, {"velocity": Uniform(0.1, 0.2)}, _reach_speed, 100),
    },
    "Walker2dRandParams": {"pearl": _random_parameters_source("walker2d_v5", "Walker2dEnv")},
    "HopperRandParams": {"pearl": _random_parameters_source("hopper_v5", "HopperEnv")},
}
MUJOCO_FAMILIES = tuple(Family(name, sources) for name, sources in _SOURCES.items())
