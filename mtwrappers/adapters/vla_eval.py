"""Meta-World in vla-evaluation-harness: a benchmark for ``vla-eval run`` and `vla_eval.evaluate`.

Its configurations name it ``"mtwrappers.adapters.vla_eval:MetaWorldBenchmark"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_list
from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation import protocols
from mtwrappers.evaluation.episodes import EpisodeRecord
from mtwrappers.evaluation.protocol import succeeded
from mtwrappers.evaluation.typed import to_plain
from mtwrappers.metaworld.class_env import OBS_SIZE, camera_names

_base: Any = import_extra("vla_eval.benchmarks.base", "vla-eval")
_render: Any = import_extra("vla_eval.render", "vla-eval")
_specs: Any = import_extra("vla_eval.specs", "vla-eval")

# The number of leading values of the 39 that a policy may observe: the hand's position and the
# gripper's opening, or all.
_STATE = {"pixels": 0, "pixels_agent_pos": 4, "pixels_state": OBS_SIZE, "state": OBS_SIZE}
_FORMATS = {4: "eef_pos3_gripper1", OBS_SIZE: "metaworld_state39"}
_GRIPPER = _specs.DimSpec(
    "gripper",
    1,
    "continuous_close_positive",
    (-1, 1),
    accepts=frozenset({"continuous_close_positive", "binary_close_positive"}),
)


class MetaWorldBenchmark(_base.StepBenchmark):  # type: ignore[misc] # a class of the harness
    """The episodes that `Protocol.evaluate` runs for a protocol, one at a time.

    The same actions have the same success, length and return in each episode as there.
    A task is a class, and its suite the group that the protocol has it in, or the benchmark. Of an
    episode, ``metrics`` has ``success``, by the rule of the protocol, and the fields of `Episode`.

    An observation has ``images``, frames ``(height, width, 3)`` uint8 by camera;
    ``task_description``, the sentence; and ``state``, float32: the hand's position (metres) and the
    gripper's opening, ``(4,)``, or Meta-World's ``(39,)``, as the protocol has it. An action is
    ``actions``, ``(4,)``: the move of the hand and the effort of the gripper.

    Args:
        protocol: The name of a protocol without adaptation in `mtwrappers.protocols`.
        benchmark: The benchmark for `Protocol.on`, such as ``"MT10"``.
        env_name: The class, for MT1.
        tasks: Classes such as ``"reach-v3"``, and groups of the protocol such as ``"easy"``; all by
            default. A choice does not change their episodes.
        seed: The seed of the evaluation, as in `Protocol.evaluate`.
        changes: The arguments of `Protocol.variant`, such as
            ``{"name": "mine", "height": 256, "width": 256}``.
        send_state: Whether observations have ``state``, where the protocol has one.
        send_environment_state: Whether observations have ``environment_state`` too: Meta-World's
            39 numbers, float32, which the protocol may not let a policy see.

    Raises:
        DependencyNotInstalled: On import, if vla-eval is not installed.
        KeyError, TypeError, ValueError: If an argument is none of those.
    """

    _ALL_RECORD_FIELDS = frozenset({"action", "reward", "success"})
    render_backends = frozenset({"gpu", "cpu"})

    @classmethod
    def configure_render(cls, mode: str) -> dict[str, str]:
        """OSMesa for ``"cpu"``; otherwise the value of ``MUJOCO_GL``, by default EGL."""
        applied: dict[str, str] = _render.configure_mujoco_render(mode)
        return applied

    def __init__(
        self,
        protocol: str = "lerobot-0.6",
        benchmark: str | None = None,
        env_name: str | None = None,
        tasks: Sequence[str] | None = None,
        seed: int = 0,
        changes: Mapping[str, Any] | None = None,
        send_state: bool = True,
        send_environment_state: bool = False,
    ) -> None:
        super().__init__()
        self.protocol = protocols[protocol]
        if benchmark is not None or env_name is not None:
            benchmark = benchmark or self.protocol.settings.benchmark
            self.protocol = self.protocol.on(benchmark, env_name)
        if changes is not None:
            self.protocol = self.protocol.variant(**{"name": self.protocol.name, **changes})
        if self.protocol.few_shot:
            raise ValueError(f"{self.protocol.name} lets policies adapt, which vla-eval's cannot")
        episodes = self.protocol.plan(seed)
        self._plan = {(episode.task, episode.number): episode for episode in episodes}
        self._suites = {name: self.protocol.settings.benchmark for name, _ in self._plan}
        self._suites |= {
            name: group for group, names in self.protocol.scoring.groups for name in names
        }
        self._tasks = self._select_tasks(tasks)
        self._state = slice(_STATE[self.protocol.settings.observation] if send_state else 0)
        self._all_state = send_environment_state
        # The protocol of the environments: where there are frames, their observations contain all
        # numbers, and `make_obs` chooses among them.
        self._env_protocol = self.protocol
        if self.protocol.settings.observes_frames:
            self._env_protocol = self.protocol.variant("all", observation="pixels_state")
        self._env: Any = None
        self._built: str | None = None

    def _select_tasks(self, tasks: Sequence[str] | None) -> list[str]:
        names = list(dict.fromkeys(name for name, _ in self._plan))
        if tasks is None:
            return names
        selection = set(check_list(tasks, "tasks", "task"))
        if unknown := selection - {*names, *self._suites.values()}:
            raise ValueError(f"{self.protocol.name} has no tasks {sorted(unknown)}, only {names}")
        return [name for name in names if selection & {name, self._suites[name]}]

    def get_tasks(self) -> list[dict[str, Any]]:
        digest = self.protocol.digest  # part of each episode's record
        return [
            {"name": name, "suite": self._suites[name], "protocol": digest} for name in self._tasks
        ]

    def get_metadata(self) -> dict[str, Any]:
        steps = self.protocol.settings.max_episode_steps
        episodes = self.protocol.scoring.episodes_per_task
        return {"max_steps": steps, "max_episodes_per_task": episodes}

    def get_metric_keys(self) -> dict[str, str]:
        return {"success": "mean", "episode_return": "mean"}

    def get_action_spec(self) -> dict[str, Any]:
        return {"position": _specs.POSITION_DELTA, "gripper": _GRIPPER}

    def get_observation_spec(self) -> dict[str, Any]:
        specs = {"language": _specs.LANGUAGE}
        specs |= dict.fromkeys(
            camera_names(self.protocol.settings.camera_name) or (), _specs.IMAGE_RGB
        )
        for key, size in (("state", self._state.stop), ("environment_state", OBS_SIZE)):
            if size and (key == "state" or self._all_state):
                specs[key] = _specs.DimSpec(key, size, _FORMATS[size])
        return specs

    def reset(self, task: Mapping[str, Any]) -> Any:
        name, number = task["name"], task["episode_idx"]
        if (name, number) not in self._plan:
            episodes = self.protocol.scoring.episodes_per_task
            raise ValueError(
                f"{self.protocol.name} has {episodes} episodes of each task, got number {number} "
                "(from 0): set episodes_per_task"
            )
        if name != self._built:
            self.cleanup()
            self._env = self._env_protocol.make(name, disable_env_checker=True)
            self._built = name
        episode = self._plan[name, number]
        options = {"task_state": episode.task_state}
        obs, _ = self._env.reset(seed=episode.seed, options=options)
        self._record, self._has_ended = EpisodeRecord(episode), False
        self._record_frame(obs)
        return obs

    def step(self, action: Mapping[str, Any]) -> Any:
        values = np.asarray(action.get("actions", action.get("action")))
        obs, reward, terminated, truncated, info = self._env.step(values)
        self._record.add(reward, info)
        self._has_ended = terminated or truncated
        self._record_frame(obs)
        self._recorder.record_step(action=values, reward=reward, success=bool(info["success"]))
        return _base.StepResult(obs, reward, self._has_ended, info)

    def make_obs(self, raw_obs: Any, task: Mapping[str, Any]) -> dict[str, Any]:
        numbers = raw_obs["environment_state"] if isinstance(raw_obs, dict) else raw_obs
        numbers = numbers[:OBS_SIZE].astype(np.float32)  # without a one-hot
        obs = {
            "images": self._frames(raw_obs),
            "task_description": self._env.get_wrapper_attr("task_description"),
        }
        if self._state.stop:
            obs["state"] = numbers[self._state]
        if self._all_state:
            obs["environment_state"] = numbers
        return obs

    def _frames(self, raw_obs: Any) -> dict[str, NDArray[np.uint8]]:
        """Returns the frames by camera, if the protocol has any."""
        if not isinstance(raw_obs, dict):
            return {}
        frames = raw_obs["pixels"]
        return (
            frames
            if isinstance(frames, dict)
            else {str(self.protocol.settings.camera_name): frames}
        )

    def _record_frame(self, raw_obs: Any) -> None:
        """Records the frame of the first camera."""
        self._recorder.record_video(next(iter(self._frames(raw_obs).values()), None))

    def get_step_result(self, step_result: Any) -> dict[str, Any]:
        if not self._has_ended:
            raise ValueError(
                "the episode was cut before its end: episodes have at most "
                f"{self.protocol.settings.max_episode_steps} steps in {self.protocol.name}: leave "
                "max_steps out, or change max_episode_steps of the protocol"
            )
        episode = self._record.episode()
        return {"success": succeeded(episode, self.protocol), **to_plain(episode)}

    def cleanup(self) -> None:
        if self._env is not None:
            self._env.close()
        self._env = self._built = None
