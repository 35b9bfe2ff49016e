"""How good is a policy at each of many tasks?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from mtwrappers.checks import positive
from mtwrappers.evaluation.actions import CheckedPolicy
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.plan import (
    Slot,
    executor_of,
    make_plan,
    stream_seed,
    task_choices,
    task_names,
)
from mtwrappers.evaluation.result import EvaluationResult, check_confidence
from mtwrappers.evaluation.tally import Flags, Tally
from mtwrappers.seeding import check_seed

# Keeps the first reset, which no episode begins with, apart from those of the episodes.
_FIRST_RESET = 1_000_033


def evaluate(
    policy: Any,
    envs: Any,
    episodes_per_task: int = 50,
    *,
    seed: int = 0,
    max_episode_steps: int | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> EvaluationResult:
    """Plays a fixed number of whole episodes of every task.

    Which environment plays how many episodes is decided before the first, so quick successes are
    not preferred; an environment that has played its own goes on, uncounted, until the others
    have. Tasks are told apart by ``task_name`` in infos (else ``task_id``, else the group of
    ``envs_per_task`` environments), and environments with the same name share its episodes.

    **Goals.** Environments whose resets draw a task, as those of `gymnasium.make_vec` on Meta-World
    do, are told which to play: each task's goals come in a random order, and none comes again
    before all have come. So 50 episodes play each of the 50 goals of a Meta-World class once,
    whatever ``select`` they were made with. (There a task determines its start, so a deterministic
    policy gains nothing from more episodes than goals.) Other environments stay on their task.

    **Seeds.** Every episode begins with a reset to a seed of its own. For a policy that is
    deterministic, or random in a way that does not depend on who shares the batch, the result is
    the same, bit for bit, on every executor, for any number of workers, in all three autoreset
    modes and for any number of environments a task that share their goals. The environments'
    random streams are left where the last episodes ended: ``reset(seed=...)`` before going on to
    train on them.

    Args:
        policy: A callable from observations ``(N, ...)`` to actions ``(N, ...)``, or an object with
            ``get_actions``; see `mtwrappers.samplers.policies.PolicyCaller`. Its ``reset(mask)``,
            where it has one, is called with the environments whose episodes begin, ``(N,)`` bool,
            before their first action.
        envs: One of our vector environments, or a wrapper of one.
        episodes_per_task: How many episodes a task.
        seed: Zero or greater.
        max_episode_steps: Cut episodes after this many steps, for environments that never end.
        confidence: How likely the intervals cover the truth, in (0, 1).
        resamples: How many bootstrap resamples.

    Returns:
        Success, return and length of each task and of all; see `EvaluationResult`.

    Raises:
        TypeError: If the policy is not callable, the environments are not ours, or their actions
            are no arrays.
        ValueError: If a number is out of range, the policy's actions have another shape or are
            NaN, or an environment that is not told its task moves to another.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> result = evaluate(lambda obs: np.full((2, 2), 0.1), envs, episodes_per_task=3)
    >>> result.per_task["task 0"]["length"].value
    100.0
    """
    inner = executor_of(envs)
    episodes_per_task = positive(episodes_per_task, "episodes_per_task")
    if max_episode_steps is not None:
        max_episode_steps = positive(max_episode_steps, "max_episode_steps")
    seed = check_seed(seed)
    check_confidence(confidence)
    positive(resamples, "resamples")
    act = CheckedPolicy(policy, envs)
    _, infos = envs.reset(seed=stream_seed(seed, _FIRST_RESET))
    names, choices = task_names(inner, infos), task_choices(inner)
    plan = make_plan(names, choices, episodes_per_task, seed)
    episodes = _play(act, envs, plan, max_episode_steps)
    order = {task: i for i, task in enumerate(dict.fromkeys(s.task for own in plan for s in own))}
    episodes.sort(key=lambda episode: (order[episode.task], episode.number))
    return EvaluationResult(episodes, seed, confidence, resamples)


def _play(
    act: CheckedPolicy, envs: Any, plan: Sequence[Sequence[Slot]], max_episode_steps: int | None
) -> list[Episode]:
    """Plays every slot of the plan; returns the episodes in the order in which they ended."""
    n = len(plan)
    same_step = envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    limit = np.iinfo(np.int64).max if max_episode_steps is None else max_episode_steps
    # Reversed, so that the next is the last.
    waiting = [list(reversed(slots)) for slots in plan]
    present: list[Slot | None] = [None] * n
    tasks = [slots[0].task if slots else "none left" for slots in plan]
    tally, episodes = Tally(n), []
    total = sum(len(slots) for slots in plan)
    over = np.ones(n, dtype=np.bool_)
    obs: Any = None
    while True:
        if over.any():
            for i in np.flatnonzero(over).tolist():
                slot = present[i] = waiting[i].pop() if waiting[i] else None
                if slot is not None:
                    tasks[i] = slot.task
            obs = _begin(envs, over, present)
            tally.begin(over)
            act.reset(over)
        actions, _ = act(obs, tasks)
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        ended: Flags = terminated | truncated
        tally.add(rewards, infos, ended if same_step else np.zeros_like(ended))
        over = ended | (tally.lengths >= limit)
        for i in np.flatnonzero(over).tolist():
            done = present[i]
            if done is not None:
                episodes.append(_episode(done, tally, i))
        if len(episodes) == total:
            return episodes


def _episode(slot: Slot, tally: Tally, i: int) -> Episode:
    once, final = tally.success(i)
    return Episode(
        task=slot.task,
        number=slot.number,
        episode_return=float(tally.returns[i]),
        length=int(tally.lengths[i]),
        success_once=once,
        success_final=final,
        task_state=slot.task_state,
    )


def _begin(envs: Any, which: Flags, present: Sequence[Slot | None]) -> Any:
    """Resets environments to the slots that they are to play; returns all observations.

    The reset is explicit in every autoreset mode, so that all modes play the same episodes. Options
    are the same for all environments of a reset, so there is one reset a task state.
    """
    n = len(present)
    groups: dict[int | None, list[int]] = {}
    for i in np.flatnonzero(which).tolist():
        slot = present[i]
        groups.setdefault(None if slot is None else slot.task_state, []).append(i)
    obs: Any = None
    for state, members in groups.items():
        mask = np.zeros(n, dtype=np.bool_)
        mask[members] = True
        seeds: list[int | None] = [None] * n
        for i in members:
            slot = present[i]
            seeds[i] = None if slot is None else slot.seed
        options: dict[str, Any] = {"reset_mask": mask}
        if state is not None:
            options["task_state"] = state
        obs, infos = envs.reset(seed=seeds, options=options)
        _check_names(infos, members, present)
    return obs


def _check_names(
    infos: dict[str, Any], members: Sequence[int], present: Sequence[Slot | None]
) -> None:
    names, told = infos.get("task_name"), infos.get("_task_name")
    if names is None or told is None:
        return
    for i in members:
        slot = present[i]
        if slot is not None and told[i] and names[i] != slot.task:
            raise ValueError(
                f"environment {i} was on task {slot.task!r} and its reset went to {names[i]!r}: "
                "evaluate needs environments that stay with their task, or that draw it from "
                "task_states"
            )
