"""Episodes of scripted or random policies on a benchmark: the work behind ``mtwrappers rollout``.

Every episode has its task and its random numbers from the seed and its own place in the plan, so
the results do not depend on the number of workers.
"""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.plan import Slot, make_plan
from mtwrappers.metaworld.benchmarks import Kind
from mtwrappers.metaworld.experts import expert
from mtwrappers.metaworld.mt_env import MetaWorldMTEnv

PolicyName: TypeAlias = Literal["expert", "random"]
POLICIES: tuple[PolicyName, ...] = ("expert", "random")
MAX_STEPS = 500
FRAME_EVERY = 4  # steps between two frames of a video: 20 frames a second


@dataclass(frozen=True)
class Plan:
    """What to roll out.

    Args:
        benchmark: The benchmark's name.
        kind: ``"train"`` or ``"test"`` tasks.
        tasks: The classes to play; all of the benchmark's when empty.
        policy: ``"expert"`` or ``"random"``.
        episodes: How many episodes a class.
        seed: Determines goals, their order and random actions.
        fast: Whether to use the fast classes where they are verified.
    """

    benchmark: str
    kind: Kind = "train"
    tasks: tuple[str, ...] = ()
    policy: PolicyName = "expert"
    episodes: int = 5
    seed: int = 0
    fast: bool = True

    @functools.cached_property
    def env_kwargs(self) -> dict[str, Any]:
        """The arguments of `MetaWorldMTEnv`."""
        kwargs: dict[str, Any] = {
            "benchmark": self.benchmark,
            "kind": self.kind,
            "seed": self.seed,
            "fast": "auto" if self.fast else False,
        }
        if self.benchmark in ("MT1", "ML1") and self.tasks:
            kwargs["env_name"] = self.tasks[0]
        return kwargs

    def episodes_to_play(self) -> list[Slot]:
        """Every episode: each class's goals in a random order, none again before all have come."""
        env = MetaWorldMTEnv(**self.env_kwargs)
        goals: dict[str, list[int]] = {name: [] for name in env.task_names}
        for state, task_id in enumerate(env.task_ids):
            goals[env.task_names[task_id]].append(state)
        # Planned for all classes, so that a chosen one is played as it is among all.
        [slots] = make_plan([""], [goals], self.episodes, self.seed)
        return [slot for slot in slots if not self.tasks or slot.task in self.tasks]


@dataclass(frozen=True)
class Outcome:
    """What came of an episode.

    ``frames`` holds uint8 images ``(height, width, 3)`` when a video was asked for.
    """

    episode: Episode
    frames: list[NDArray[np.uint8]]


@functools.lru_cache(maxsize=2)
def _env(plan: Plan, render: bool) -> MetaWorldMTEnv:
    """The environment of this process; it keeps every class that it has built."""
    look: dict[str, Any] = {"render_mode": "rgb_array", "camera_name": "corner3"} if render else {}
    return MetaWorldMTEnv(**plan.env_kwargs, max_episode_steps=MAX_STEPS, **look)


def play(plan: Plan, slot: Slot, video: bool = False) -> Outcome:
    """Plays an episode to its end, whether or not it succeeds before."""
    env = _env(plan, video)
    obs, _ = env.reset(seed=plan.seed, options={"task_state": slot.task_state})
    act = _policy(plan, slot, env)
    successes: list[bool] = []
    frames: list[NDArray[np.uint8]] = []
    total, truncated = 0.0, False
    while not truncated:
        if video and len(successes) % FRAME_EVERY == 0:
            frames.append(env.render())
        obs, reward, _, truncated, info = env.step(act(obs["env_obs"]))
        successes.append(info["success"] == 1.0)
        total += reward
    episode = Episode(
        task=slot.task,
        number=slot.number,
        episode_return=total,
        length=len(successes),
        success_once=any(successes),
        success_final=successes[-1],
        task_state=slot.task_state,
    )
    return Outcome(episode, frames)


def _policy(plan: Plan, slot: Slot, env: MetaWorldMTEnv) -> Callable[[Any], Any]:
    if plan.policy == "random":
        key = (env.task_names.index(slot.task), slot.number)
        rng = Generator(PCG64(SeedSequence(plan.seed, spawn_key=key)))
        return lambda obs: rng.uniform(-1.0, 1.0, 4).astype(np.float32)
    act, goal = expert(slot.task), env.goal
    return lambda obs: act(obs, goal)


def run(plan: Plan, workers: int, video: bool = False) -> Iterator[Outcome]:
    """Plays every episode of the plan and yields outcomes as they come.

    Args:
        plan: What to play.
        workers: How many processes; 1 plays in this one.
        video: Whether the first episode of each class brings its frames.
    """
    slots = plan.episodes_to_play()
    if workers == 1:
        for slot in slots:
            yield play(plan, slot, video and slot.number == 0)
        return
    pool = ProcessPoolExecutor(min(workers, len(slots)), mp_context=get_context("spawn"))
    # Workers inherit that they leave Ctrl-C to their parent, which decides what is kept.
    in_main_thread = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        try:
            futures = [pool.submit(play, plan, s, video and s.number == 0) for s in slots]
        finally:
            if in_main_thread:
                signal.signal(signal.SIGINT, previous)
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
