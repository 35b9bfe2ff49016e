"""Records successful episodes; each is replayed bit for bit before it counts."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.errors import full_message
from mtwrappers.common.registration import EPISODE_STEPS, TABLE
from mtwrappers.metaworld.agent_view import CAMERA
from mtwrappers.metaworld.experts import expert_actions
from mtwrappers.recording.episodes import (
    Act,
    Episode,
    RecordingError,
    Stored,
    difference,
    replay,
    run,
)
from mtwrappers.recording.unfinished import Unfinished
from mtwrappers.samplers.policies import PolicyCaller

Env: TypeAlias = gymnasium.Env[Any, Any]
# Settings whose type may differ from that of their default.
_OTHER_KINDS = {"size": int, "action_chunk": int}
# Upper limits of settings that determine memory or time.
_MAX = {"num_goals": 100_000, "width": 4096, "height": 4096, "action_repeat": 1, "idle_steps": 0}


@dataclass(frozen=True)
class Settings:
    """The settings of a recording, named like the options of the command."""

    benchmark: str  # as in ids: "MT10", "ML10-train"
    task: list[str] = field(default_factory=list)  # the classes; if empty, all
    policy: str = "expert"
    episodes: int = 5  # per class
    goals: int = 50  # per class
    seed: int = 0
    size: int | None = None  # of frames, in pixels
    camera: list[str] = field(default_factory=lambda: [CAMERA])
    no_shadows: bool = False
    descriptions: str = "metaworld"
    action_chunk: int | None = None
    video: bool = False

    @classmethod
    def from_dict(cls, data: Any) -> Settings:
        """Returns the settings from their `dataclasses.asdict`, as read from a file.

        Raises:
            RecordingError: If they are anything else.
        """
        kinds = {name: type(value) for name, value in asdict(cls("")).items()}
        if not isinstance(data, dict) or data.keys() != kinds.keys():
            raise RecordingError(f"expected settings {[*kinds]}, got {reprlib.repr(data)}")
        for name, value in data.items():
            if type(value) not in (kinds[name], _OTHER_KINDS.get(name)):
                raise RecordingError(f"{name} cannot be {reprlib.repr(value)}")
        return cls(**data)

    @property
    def algorithm(self) -> str:
        """The name of the policy, without the folder of a file."""
        if self.policy == "expert":
            return "Meta-World's scripted experts"
        source, colon, name = self.policy.rpartition(":")
        return f"{Path(source).name}{colon}{name}"

    @property
    def marker(self) -> dict[str, Any]:
        """All settings as a dataset has them, which names no folder of this machine."""
        policy = self.policy if self.policy == "expert" else self.algorithm
        return {**asdict(self), "policy": policy}

    def make(self) -> Env:
        """Makes the environment to record. An episode ends at its first success."""
        kwargs: dict[str, Any] = {}
        if self.task and self.benchmark.partition("-")[0] in ("MT1", "ML1"):
            kwargs["env_name"] = self.task[0]
        if self.size is not None:
            kwargs |= {"observation": "pixels_state", "width": self.size, "height": self.size}
            one_or_more = self.camera[0] if len(self.camera) == 1 else self.camera
            kwargs |= {"camera_name": one_or_more, "shadows": not self.no_shadows}
        return gymnasium.make(
            f"mtwrappers:mtwrappers/{self.benchmark}-v0",
            seed=self.seed,
            num_goals=self.goals,
            max_episode_steps=EPISODE_STEPS,
            terminate_on_success=True,
            descriptions=self.descriptions,
            **kwargs,
        )


def requirements(packages: Sequence[str]) -> list[str]:
    """Returns packages with their versions, such as ``"numpy==2.3.1"``."""
    return [f"{package}=={version(package)}" for package in packages]


class Store(Protocol):
    """A dataset of a library, by its name."""

    packages: Sequence[str]  # that write the dataset
    address: str  # at the command line
    path: Path  # of the dataset

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The settings with other defaults than in `Settings`."""

    def write(self, place: Path, env: Env, settings: Settings, episodes: Iterator[Episode]) -> Path:
        """Writes the dataset into a subfolder of a folder; returns the subfolder."""

    def stored(self, episode: Episode) -> Stored:
        """Returns an episode in its stored form, without the parts stored lossily."""

    def read(self, path: Path) -> Iterator[Stored]:
        """Yields the episodes of the dataset at a path."""

    def spec(self) -> Mapping[str, Any]:
        """Returns the spec of the dataset's environment."""

    def requirements(self) -> list[str]:
        """Returns the packages that recorded the dataset, such as ``"numpy==2.3.1"``."""

    def marker(self) -> Any:
        """The `Settings.marker` that it was recorded with, or ``None``."""


def record(
    store: Store,
    unfinished: Unfinished,
    settings: Settings,
    policy: Any,
    report: Callable[[str], None],
) -> tuple[int, int]:
    """Records the requested successful episodes per class; returns the episodes and steps.

    Args:
        store: Where to.
        unfinished: A recording that was begun with these settings.
        settings: What to record.
        policy: Meta-World's experts if None, or what `PolicyCaller` takes.
        report: Called with a line per class.

    Raises:
        RecordingError: If no episode succeeds, or one differs when it is replayed.
    """
    env = settings.make()
    assert env.spec is not None
    again = remake(json.loads(env.spec.to_json()))  # as a reader will
    names = list(env.get_wrapper_attr("task_names"))
    good: list[int] = []
    for i, name in enumerate(names):
        if settings.task and name not in settings.task:
            continue
        before, failed = len(good), 0
        for task_state in range(settings.goals * i, settings.goals * (i + 1)):
            if len(good) - before == settings.episodes:
                break
            if not unfinished.has(task_state):
                _record_one(store, unfinished, env, again, settings, policy, task_state)
            if unfinished.succeeded(task_state):
                good.append(task_state)
            else:
                failed += 1
        report(f"{name}: {len(good) - before} recorded and replayed, {failed} failed")
    if not good:
        unfinished.remove()
        raise RecordingError("no episode was a success, so there is nothing to record")
    whole = store.write(unfinished.place(), env, settings, map(unfinished.read, good))
    steps = 0
    for task_state, found in zip(good, store.read(whole), strict=True):
        steps += len(found.actions)
        if part := difference(store.stored(unfinished.read(task_state)), found):
            raise RecordingError(f"task state {task_state}: {part} differs in the dataset")
    store.path.parent.mkdir(parents=True, exist_ok=True)
    whole.rename(store.path)
    unfinished.remove()
    env.close()
    again.close()
    return len(good), steps


def remake(spec: Mapping[str, Any]) -> Env:
    """Makes an environment of this package from the spec in a dataset.

    A file does not decide what code runs: what an id calls is what is registered here.

    Raises:
        RecordingError: If it is none of them, or cannot be made with these arguments.
    """
    try:
        env_id, given = spec["id"], dict(spec["kwargs"])
        _, own, _ = TABLE[env_id]
        kwargs = {name: value for name, value in given.items() if name not in own}
        if {name: given[name] for name in own} != own or "benchmark" not in own:
            raise ValueError(f"its arguments are {reprlib.repr(given)}")
        for name, most in _MAX.items():
            if kwargs.get(name, 0) > most:
                raise ValueError(f"{name} must be at most {most:,}, got {kwargs[name]!r}")
        if (steps := spec["max_episode_steps"]) != EPISODE_STEPS:
            raise ValueError(f"max_episode_steps must be {EPISODE_STEPS}, got {steps!r}")
        return gymnasium.make(f"mtwrappers:{env_id}", max_episode_steps=steps, **kwargs)
    except Exception as exc:  # an untrusted file can cause any error
        raise RecordingError(
            f"its environment cannot be rebuilt: {type(exc).__name__}: {full_message(exc)}"
        ) from exc


def _record_one(
    store: Store,
    unfinished: Unfinished,
    env: Env,
    again: Env,
    settings: Settings,
    policy: Any,
    task_state: int,
) -> None:
    """Runs a task, and keeps the episode if it succeeds and replays identically."""
    begin: Callable[[Env, str], Act] = _expert
    if policy is not None:
        seed, chunk = (settings.seed, task_state), settings.action_chunk
        begin = _asking(PolicyCaller(policy, 1, 1, seed=seed, action_chunk=chunk))
    episode = run(env, settings.seed + task_state, task_state, begin)
    unfinished.write(episode if episode.terminations[-1] else None)
    if unfinished.succeeded():
        kept = unfinished.read()
        if part := difference(store.stored(kept), store.stored(replay(again, kept))):
            raise RecordingError(f"{kept.about['task_name']}: {part} differs when replayed")
    unfinished.keep(task_state)


def verify(store: Store) -> tuple[int, int]:
    """Replays all episodes; returns their number and the number with rounded rewards.

    Rewards may differ in their last bits between processors.

    Raises:
        RecordingError: If an episode differs in anything else.
    """
    env, count, rounded = remake(store.spec()), 0, 0
    for number, then in enumerate(store.read(store.path)):
        place = f"episode {number}, {then.about.get('task_name')}"
        try:
            now = store.stored(replay(env, then))
        except (KeyError, TypeError, ValueError) as exc:
            raise RecordingError(f"{place} cannot be replayed: {exc!r}") from exc
        part = difference(then, now)
        if part is not None and "reward" in part:
            rounded += 1
            part = difference(then, now, rounding=1e-9)
        if part:
            raise RecordingError(f"{place}: {part} differs")
        count += 1
    env.close()
    return count, rounded


def _expert(env: Env, task_name: str) -> Act:
    """Returns Meta-World's expert for the current task, with its goal."""
    goal = env.get_wrapper_attr("goal")

    def act(obs: Any) -> NDArray[np.float32]:
        state = obs["environment_state"] if isinstance(obs, dict) else obs
        action: NDArray[np.float32] = expert_actions([task_name], state[None], goal[None])[0]
        return action

    return act


def _asking(caller: PolicyCaller) -> Callable[[Env, str], Act]:
    """Returns a policy for one environment at the begin of an episode."""

    def begin(env: Env, task_name: str) -> Act:
        space: Any = env.action_space
        sentence = env.get_wrapper_attr("task_description")
        caller.describe([0], {"task_names": [task_name], "descriptions": [sentence]})
        caller.reset(np.array([True]))

        def act(obs: Any) -> NDArray[np.float32]:
            actions, _ = caller(_batched(obs))
            action = actions[0].astype(np.float32)
            if action.shape != space.shape:
                raise ValueError(f"an action must be {space.shape}, got {action.shape}")
            clipped: NDArray[np.float32] = action.clip(space.low, space.high)
            return clipped

        return act

    return begin


def _batched(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _batched(value) for key, value in obs.items()}
    return obs[None]
