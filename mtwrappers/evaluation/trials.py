"""The trials of a few-shot evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.evaluation.actions import CheckedPolicy
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.plan import executor_of, quotas, stream_seed, task_names
from mtwrappers.evaluation.tally import SUCCESS_KEYS
from mtwrappers.samplers.recorder import Recorder
from mtwrappers.samplers.trajectory import Path

_STEPS = 512  # room for at first; it grows


class Trials:
    """Plays trials and keeps their episodes.

    Args:
        policy: Has ``adapt`` or ``begin_trial``.
        act: The same policy, asked for actions.
        envs: The vector environment, in SAME_STEP mode.
        adaptation_episodes: How many a task and step (an environment, where it remembers).
        evaluation_episodes: How many a task (an environment, where it remembers).
        adaptation_steps: How often ``adapt`` is called.
        seed: Determines every reset.
    """

    def __init__(
        self,
        policy: Any,
        act: CheckedPolicy,
        envs: Any,
        adaptation_episodes: int,
        evaluation_episodes: int,
        adaptation_steps: int,
        seed: int,
    ) -> None:
        self._policy, self._act, self._envs = policy, act, envs
        inner = executor_of(envs)
        self._m, self._k, self._inner = inner.meta_batch_size, inner.envs_per_task, inner
        self._set_tasks = getattr(envs, "set_tasks", inner.set_tasks)
        self._before, self._after = adaptation_episodes, evaluation_episodes
        self._steps, self._seed = adaptation_steps, seed
        self.adaptation: list[Episode] = []
        self.evaluation: list[Episode] = []

    def gradient_trial(self, trial: int, tasks: Sequence[Any]) -> None:
        """A trial of a policy with ``adapt``: phases that begin together."""
        self._begin_trial()
        m, k = self._m, self._k
        for phase in range(self._steps + 1):
            last = phase == self._steps
            own = quotas(self._after if last else self._before, k, m)
            names, each = self._collect(own, tasks, (trial, phase))
            by_task = [_in_turn(each[g * k : (g + 1) * k]) for g in range(m)]
            kept = self.evaluation if last else self.adaptation
            for g, paths in enumerate(by_task):
                first = phase * self._before
                kept += _episodes(paths, names[g * k], first, trial * m + g)
            if not last:
                self._policy.adapt(by_task)

    def memory_trial(self, trial: int, tasks: Sequence[Any]) -> None:
        """A trial of a policy that remembers: every environment goes its own way."""
        self._begin_trial()
        n, before = self._m * self._k, self._before
        own = np.full(n, before + self._after, dtype=np.int64)
        names, each = self._collect(own, tasks, (trial, 0))
        for i, paths in enumerate(each):
            episodes = _episodes(paths, names[i], 0, trial * n + i)
            self.adaptation += episodes[:before]
            self.evaluation += episodes[before:]

    def _begin_trial(self) -> None:
        begin = getattr(self._policy, "begin_trial", None)
        if begin is not None:
            begin()

    def _collect(
        self, own: NDArray[np.int64], tasks: Sequence[Any], key: tuple[int, int]
    ) -> tuple[list[str], list[list[Path]]]:
        """The tasks' names, and as many paths of each environment as ``own`` says, ``(N,)``."""
        self._set_tasks(tasks)
        seeds = [stream_seed(self._seed, *key, i) for i in range(len(own))]
        obs, infos = self._envs.reset(seed=seeds)
        names = task_names(self._inner, infos)
        recorder = Recorder(own, _STEPS)
        over = np.ones(len(own), dtype=np.bool_)
        while not recorder.complete:
            if over.any():
                self._act.reset(over)
            actions, agent_infos = self._act(obs, names)
            step = self._envs.step(actions)
            over = recorder.add(obs, actions, agent_infos, step)
            obs = step[0]
        return names, recorder.paths()


def _in_turn(each: Sequence[Sequence[Path]]) -> list[Path]:
    """The first path of every environment, then the second, and so on."""
    rounds = max(len(paths) for paths in each)
    return [paths[r] for r in range(rounds) for paths in each if r < len(paths)]


def _episodes(paths: Sequence[Path], task: str, first: int, trial: int) -> list[Episode]:
    found = []
    for place, path in enumerate(paths):
        infos = path["env_infos"]
        success = next((infos[key] for key in SUCCESS_KEYS if key in infos), None)
        found.append(
            Episode(
                task=task,
                number=first + place,
                episode_return=float(path["rewards"].sum()),
                length=len(path["rewards"]),
                success_once=None if success is None else bool(success.astype(np.bool_).any()),
                success_final=None if success is None else bool(success[-1]),
                trial=trial,
            )
        )
    return found
