"""Episodes of scripted or random policies on a benchmark: the work behind ``mtwrappers rollout``.

Every episode has its task and its random numbers from the seed and its own place in the plan, so
the results do not depend on the number of workers.
"""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

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

    def episodes_to_play(self) -> list[Episode]:
        """Every episode: each class's goals in a random order, none again before all have come."""
        env = MetaWorldMTEnv(**self.env_kwargs)
        names = env.task_names
        episodes = []
        for index, name in enumerate(env.class_names):
            goals = [i for i, task_name in enumerate(names) if task_name == name]
            rng = Generator(PCG64(SeedSequence(self.seed, spawn_key=(index,))))
            order: list[int] = []
            while len(order) < self.episodes:
                order += rng.permutation(goals).tolist()
            if not self.tasks or name in self.tasks:
                episodes += [Episode(name, i, order[i]) for i in range(self.episodes)]
        return episodes


@dataclass(frozen=True)
class Episode:
    """One episode to play: its class, its number within the class, and its task state."""

    task: str
    number: int
    task_state: int


@dataclass(frozen=True)
class Outcome:
    """What came of an episode.

    ``frames`` holds uint8 images ``(height, width, 3)`` when a video was asked for.
    """

    episode: Episode
    success_once: bool
    success_final: bool
    episode_return: float
    steps: int
    frames: list[NDArray[np.uint8]]


@functools.lru_cache(maxsize=2)
def _env(plan: Plan, render: bool) -> MetaWorldMTEnv:
    """The environment of this process; it keeps every class that it has built."""
    look: dict[str, Any] = {"render_mode": "rgb_array", "camera_name": "corner3"} if render else {}
    return MetaWorldMTEnv(**plan.env_kwargs, max_episode_steps=MAX_STEPS, **look)


def play(plan: Plan, episode: Episode, video: bool = False) -> Outcome:
    """Plays an episode to its end, whether or not it succeeds before."""
    env = _env(plan, video)
    obs, _ = env.reset(seed=plan.seed, options={"task_state": episode.task_state})
    act = _policy(plan, episode, env)
    successes: list[bool] = []
    frames: list[NDArray[np.uint8]] = []
    total, truncated = 0.0, False
    while not truncated:
        if video and len(successes) % FRAME_EVERY == 0:
            # Meta-World hangs its corner cameras upside down.
            frames.append(env.render()[::-1, ::-1])
        obs, reward, _, truncated, info = env.step(act(obs["env_obs"]))
        successes.append(info["success"] == 1.0)
        total += reward
    return Outcome(episode, any(successes), successes[-1], total, len(successes), frames)


def _policy(plan: Plan, episode: Episode, env: MetaWorldMTEnv) -> Callable[[Any], Any]:
    if plan.policy == "random":
        key = (env.class_names.index(episode.task), episode.number)
        rng = Generator(PCG64(SeedSequence(plan.seed, spawn_key=key)))
        return lambda obs: rng.uniform(-1.0, 1.0, 4).astype(np.float32)
    act, goal = expert(episode.task), env.goal
    return lambda obs: act(obs, goal)


def run(plan: Plan, workers: int, video: bool = False) -> Iterator[Outcome]:
    """Plays every episode of the plan and yields outcomes as they come.

    Args:
        plan: What to play.
        workers: How many processes; 1 plays in this one.
        video: Whether the first episode of each class brings its frames.
    """
    episodes = plan.episodes_to_play()
    if workers == 1:
        for episode in episodes:
            yield play(plan, episode, video and episode.number == 0)
        return
    pool = ProcessPoolExecutor(min(workers, len(episodes)), mp_context=get_context("spawn"))
    # Workers inherit that they leave Ctrl-C to their parent, which decides what is kept.
    in_main_thread = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        try:
            futures = [pool.submit(play, plan, e, video and e.number == 0) for e in episodes]
        finally:
            if in_main_thread:
                signal.signal(signal.SIGINT, previous)
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def summarize(outcomes: Sequence[Outcome], order: Sequence[str]) -> list[dict[str, Any]]:
    """One row a class, in the order given, of the episodes that were finished."""
    rows = []
    for task in order:
        own = sorted(
            (o for o in outcomes if o.episode.task == task), key=lambda o: o.episode.number
        )
        if own:
            rows.append(
                {
                    "task": task,
                    "episodes": len(own),
                    "success_once": float(np.mean([o.success_once for o in own])),
                    "success_final": float(np.mean([o.success_final for o in own])),
                    "mean_return": float(np.mean([o.episode_return for o in own])),
                    "returns": [o.episode_return for o in own],
                    "successes_once": [o.success_once for o in own],
                    "successes_final": [o.success_final for o in own],
                    "task_states": [o.episode.task_state for o in own],
                }
            )
    return rows
