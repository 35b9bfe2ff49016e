"""Runs the episodes of a plan again, with recorded actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.counts import format_count
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.evidence import Actions, name_actions
from mtwrappers.evaluation.loop import Observer, make_observers, run
from mtwrappers.evaluation.plan import Plan, PlannedEpisode
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.rollout import Flags

# The largest relative difference of two returns that counts as rounding.
ROUNDING = 1e-9


class RecordedActions(Observer):
    """Acts with the recorded actions of each episode; an `mtwrappers.evaluation.loop.Actor`.

    An episode that goes on after its last action gets this action again until it ends, and is then
    longer than it was.

    Args:
        actions: The actions ``(T, A)`` of each episode by its name in evidence.
        num_envs: The number of environments.
    """

    texts: tuple[str, ...] = ()
    first = 0
    envs_per_task = 1
    adapts = False

    def __init__(self, actions: Actions, num_envs: int) -> None:
        self._actions = actions
        first = next(iter(actions.values()))
        self._next = np.repeat(first[:1], num_envs, axis=0)  # of paused environments, any action
        self._rows = [iter(first)] * num_envs  # what is left of each environment's episode

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Takes the actions of the episode that environment ``i`` begins."""
        self._rows[i] = iter(self._actions[name_actions(episode)])

    def __call__(
        self, observations: Any, live: Flags | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Returns the next action of each environment."""
        rows = range(len(self._rows)) if live is None else np.flatnonzero(live).tolist()
        for i in rows:
            self._next[i] = next(self._rows[i], self._next[i])
        return self._next.copy(), {}

    def reset(self, mask: Flags) -> None:
        """Nothing: `begin` knows the episodes."""

    def seed(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Nothing: nothing is drawn."""

    def describe(self, rows: Sequence[int], texts: Mapping[str, Sequence[str]]) -> None:
        """Nothing: no texts are read."""

    def begin_trial(self) -> None:
        """Nothing: actions are recorded."""

    def adapt(self, paths: list[list[Path]]) -> None:
        """Nothing: actions are recorded."""


def replay(
    envs: Any,
    plan: Plan,
    actions: Actions,
    on_episode: Callable[[Episode], object] = lambda episode: None,
) -> list[Episode]:
    """Runs the episodes of a plan with their recorded actions.

    Args:
        envs: The environments.
        plan: The plan.
        actions: The actions ``(T, A)`` of each episode by its name in evidence; others are ignored.
        on_episode: Called with each episode that ends.

    Returns:
        The episodes, in the order in which they ended.

    Raises:
        ValueError, RuntimeError: As in `mtwrappers.evaluation.loop.run`.
    """
    recorded = RecordedActions(actions, envs.num_envs)
    episodes: list[Episode] = []

    def add(episode: Episode, _: object) -> None:
        episodes.append(episode)
        on_episode(episode)

    with ExitStack() as stack:
        followers = [recorded, *make_observers(envs, plan.design)]
        for observer in followers:
            stack.callback(observer.close)
        run(envs, plan, recorded, add, observers=followers)
    return episodes


def compare_episodes(
    claimed: Episode, replayed: Episode, rounding: float = ROUNDING
) -> float | str:
    """How an episode differs from what was claimed.

    Returns:
        The relative difference of the returns if nothing else differs, and it is at most
        ``rounding``; else a sentence.
    """
    if replayed.length > claimed.length:
        steps = f"its {format_count(claimed.length, 'step')}"
        return f"{describe_episode(claimed)} does not end in the replay after {steps}"
    difference = _relative_difference(claimed.episode_return, replayed.episode_return)
    names = [name for name in vars(claimed) if name != "episode_return"]
    if difference > rounding:
        names.append("episode_return")
    for name in names:
        expected, actual = getattr(claimed, name), getattr(replayed, name)
        if actual != expected:
            return (
                f"{describe_episode(claimed)}: {name} is {actual!r} in the replay, {expected!r} in "
                "the result"
            )
    return difference


def _relative_difference(a: float, b: float) -> float:
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b))


def describe_episode(episode: Episode | PlannedEpisode) -> str:
    """The name of an episode in messages."""
    trial = "" if episode.trial is None else f"trial {episode.trial}, "
    return f"{episode.task}, {trial}episode {episode.number}"
