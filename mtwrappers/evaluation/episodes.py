"""Episodes: the record of each, what makes it from steps, and who follows an evaluation."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.samplers.bar import Advance, ProgressBar
from mtwrappers.samplers.rollout import Flags, Step

METRICS = ("success_once", "success_final", "return", "length")
# The second key is used by Stable-Baselines3 and robotics environments.
SUCCESS_KEYS = ("success", "is_success")


@dataclass(frozen=True)
class Episode:
    """The record of one complete episode.

    Args:
        task: The name of the task.
        number: The index of the episode within its task (or trial), from 0.
        episode_return: The undiscounted sum of rewards.
        length: The number of steps.
        success_once: Whether any step was a success; ``None`` if infos do not report success.
        success_final: Whether the last step was a success; ``None`` likewise.
        task_state: The task state of the episode, if the evaluation chose it.
        trial: The trial of the episode in few-shot evaluation, else ``None``.
        steps_to_success: The number of steps to the first success; ``None`` without a success.
        longest_success: The largest number of consecutive steps of success; ``None`` if infos do
            not report success.

    >>> from mtwrappers.evaluation import Episode
    >>> episode = Episode("reach-v3", 0, 812.5, 500, success_once=True, success_final=False)
    >>> episode.metric("success_once"), episode.metric("return"), episode.length
    (1.0, 812.5, 500)
    """

    task: str
    number: int
    episode_return: float
    length: int
    success_once: bool | None = None
    success_final: bool | None = None
    task_state: int | None = None
    trial: int | None = None
    steps_to_success: int | None = None
    longest_success: int | None = None

    @property
    def place(self) -> tuple[str, int | None, int]:
        """The task, the trial and the number, which no two episodes of an evaluation share."""
        return self.task, self.trial, self.number

    def metric(self, name: str) -> float | None:
        """Returns one of `METRICS` as a number, or ``None``."""
        value = getattr(self, "episode_return" if name == "return" else name)
        return None if value is None else float(value)


class Observer:
    """Follows an evaluation, such as a progress bar, a recorder of frames, or a list of episodes.

    A subclass overrides the methods that it needs. The environments are idle during these calls, so
    an observer may use them (``envs.call_some([i], "render")``).

    >>> import gymnasium, numpy as np
    >>> import mtwrappers as mt
    >>> from mtwrappers.evaluation import Observer
    >>> class Printer(Observer):
    ...     def end(self, i, episode):
    ...         print(i, episode.task, episode.number, episode.length)
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mt.evaluate(policy, envs, episodes_per_task=1, observers=[Printer()])
    0 task 0 0 100
    1 task 1 0 100
    """

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Called once before the first episode, with the episodes that are to be run."""

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Called when environment ``i`` was reset for an episode, before the policy is called."""

    def step(self, step: Step) -> None:
        """Called after each step of all environments.

        An environment whose episode ended is still in its last state, unless the vector environment
        is in SAME_STEP mode and wrapped: then it was already reset.
        """

    def end(self, i: int, episode: Episode) -> None:
        """Called when environment ``i`` has finished an episode."""

    def close(self) -> None:
        """Called once at the end of the evaluation, also after an error or an interruption."""


class Progress(Observer):
    """A progress bar on stderr, with the number of episodes.

    With ``policy_in="workers"`` it moves only at the end, because all episodes come at once.

    Raises:
        DependencyNotInstalled: If rich is not installed.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> from mtwrappers.evaluation import Progress
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, 3, observers=[Progress()])
    """

    def __init__(self) -> None:
        self._bar, self._stack = ProgressBar(True), contextlib.ExitStack()
        self._advance: Advance | None = None

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Displays the bar."""
        self._advance = self._stack.enter_context(self._bar.of("episodes", len(episodes)))

    def end(self, i: int, episode: Episode) -> None:
        """Counts an episode."""
        if self._advance is not None:
            self._advance(1)

    def close(self) -> None:
        """Removes the bar."""
        self._stack.close()


class Tally:
    """Accumulates the steps of ``N`` environments into an `Episode` for each that ends.

    ``ended`` lists the episodes in the order in which they ended, each with the index of its
    environment among all; ``first`` is the index of the first environment here. ``scale`` and
    ``raw`` are from `undisturbed`.
    """

    def __init__(
        self,
        plan: Sequence[Sequence[PlannedEpisode]],
        scale: NDArray[np.float64],
        raw: Flags,
        observers: Sequence[Observer] = (),
        first: int = 0,
    ) -> None:
        n = len(plan)
        self.ended: list[tuple[int, Episode]] = []
        self._first = first
        self._plan, self._ended = plan, [0] * n
        self._scale, self._raw, self._observers = scale, raw, observers
        self._returns = np.zeros(n, dtype=np.float64)
        self._lengths = np.zeros(n, dtype=np.int64)
        self._reports = np.zeros(n, dtype=np.bool_)
        # The step of the first success, 0 for none so far.
        self._success_at = np.zeros(n, dtype=np.int64)
        # The current and the largest number of consecutive steps of success.
        self._run, self._longest = np.zeros((2, n), dtype=np.int64)

    def present(self, i: int) -> PlannedEpisode:
        """The current episode of environment ``i``."""
        return self._plan[i][self._ended[i]]

    def names(self, rows: Sequence[int], infos: Mapping[str, Any]) -> list[str]:
        """The names of the current tasks of these environments."""
        return [self.present(i).task for i in rows]

    def __call__(self, step: Step) -> None:
        """Adds a step."""
        for array in (self._returns, self._lengths, self._reports):
            array[step.began] = 0
        for array in (self._success_at, self._run, self._longest):
            array[step.began] = 0
        rewards = step.rewards
        if self._raw.any():
            raw, reported = step.info("raw_reward")
            rewards = np.where(self._raw & reported, raw, rewards)
        self._returns += rewards * self._scale
        self._lengths += 1
        success, reported = self._success(step)
        first = success & (self._success_at == 0)
        if first.any():
            self._success_at[first] = self._lengths[first]
        self._run = np.where(success, self._run + 1, 0)
        np.maximum(self._longest, self._run, out=self._longest)
        self._require_success(reported, step.counted)
        for observer in self._observers:
            observer.step(step)
        ends = np.flatnonzero(step.finished & step.counted).tolist()
        for i in ends:
            planned = self.present(i)
            if not np.isfinite(self._returns[i]):
                raise ValueError(
                    f"rewards must be finite, got a return of {self._returns[i]} from environment "
                    f"{self._first + i}, task {planned.task!r}"
                )
            self._ended[i] += 1
            at, reports = int(self._success_at[i]), self._reports[i]
            episode = Episode(
                task=planned.task,
                number=planned.number,
                episode_return=float(self._returns[i]),
                length=int(self._lengths[i]),
                success_once=at > 0 if reports else None,
                success_final=bool(success[i]) if reports else None,
                task_state=planned.task_state,
                trial=planned.trial,
                steps_to_success=at or None,
                longest_success=int(self._longest[i]) if reports else None,
            )
            self.ended.append((self._first + i, episode))
            for observer in self._observers:
                observer.end(i, episode)

    def _require_success(self, reported: Flags, counted: Flags) -> None:
        """Raises an error where a step does not report success, as earlier ones of the episode."""
        for i in np.flatnonzero(self._reports & ~reported & counted).tolist():
            planned = self.present(i)
            raise ValueError(
                "an episode whose infos report success must report it in every later step: "
                f"expected {' or '.join(SUCCESS_KEYS)}, got neither in step {self._lengths[i]} of "
                f"episode {planned.number} from environment {self._first + i}, task "
                f"{planned.task!r}"
            )
        self._reports |= reported

    def _success(self, step: Step) -> tuple[Flags, Flags]:
        """Masks of the environments whose step was a success, and of those that report it."""
        success, reported = np.zeros_like(step.finished), np.zeros_like(step.finished)
        for key in SUCCESS_KEYS:
            values, present = step.info(key)
            # Values other than arrays of numbers or objects raise an error below.
            rows = values.tolist() if isinstance(values, np.ndarray) else [values] * len(reported)
            for i in np.flatnonzero(present & step.counted & ~reported).tolist():
                value = rows[i].item() if isinstance(rows[i], np.generic) else rows[i]
                if value is None:
                    continue
                if not isinstance(value, (bool, int, float)) or value not in (0, 1):
                    raise ValueError(
                        f"info[{key!r}] must be a bool, 0 or 1, got {value!r} from environment "
                        f"{self._first + i}, task {self.present(i).task!r}"
                    )
                reported[i], success[i] = True, bool(value)
        return success, reported


def single_step(action: Any, result: Any, began: bool, cut: bool = False) -> Step:
    """The `Step` of one environment, for a `Tally` of one.

    Args:
        action: The action.
        result: What the environment's ``step`` returned.
        began: Whether the step began an episode.
        cut: Whether the episode ends here, even if the environment goes on.
    """
    _, reward, terminated, truncated, info = result
    known = {key: info[key] for key in (*SUCCESS_KEYS, "raw_reward") if key in info}
    infos = {key: np.array([value]) for key, value in known.items()}
    flags = [np.array([bool(flag)]) for flag in (terminated, truncated)]
    return Step(
        began=np.array([began]),
        counted=np.ones(1, np.bool_),
        finished=flags[0] | flags[1] | cut,
        observations=None,
        actions=np.asarray(action)[None],
        agent_infos={},
        next_observations=None,
        rewards=np.array([reward], np.float64),
        terminated=flags[0],
        truncated=flags[1],
        infos=infos | {f"_{key}": np.ones(1, np.bool_) for key in known},
    )
