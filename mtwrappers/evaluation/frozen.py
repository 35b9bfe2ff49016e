"""Evaluation leaves running statistics and the choice of tasks alone, and reports raw rewards."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtwrappers.core.task_list import TaskSetMTEnv
from mtwrappers.samplers.rollout import Flags
from mtwrappers.state.env_state import normalizers, set_statistics_updates
from mtwrappers.vector.calls import read_only
from mtwrappers.wrappers.normalize_reward import (
    NormalizeRewardPerTask,
    VectorNormalizeRewardPerTask,
)


class _Found(NamedTuple):
    """What there is to freeze in an environment, and how its rewards are normalized."""

    updates: list[bool]  # whether each normalizing wrapper updates its statistics
    chooses: bool  # whether it chooses from a list of tasks
    scale: float  # what undoes the normalization
    raw: bool  # whether infos carry the reward before it


@contextlib.contextmanager
def frozen(envs: Any) -> Iterator[tuple[NDArray[np.float64], Flags]]:
    """Stops all that learns from episodes, and lets it go on afterwards.

    These are the normalizing wrappers around the vector environment and around each of its
    environments, ours and Gymnasium's (whatever has ``update_running_mean``), and what chooses
    from a list of tasks: the strategy, its history and the task stream.

    Yields:
        What each environment's rewards are to be multiplied with, ``(N,)`` float64, to undo
        Gymnasium's ``NormalizeReward``; and whose rewards before that are in
        ``info["raw_reward"]``, ``(N,)`` bool.
    """
    inner = envs.unwrapped
    outside: _Found = _look(envs)
    within: tuple[_Found, ...] = inner.call(_look)
    # What a wrapper within reports as raw has passed no wrapper outside.
    scales = np.array(
        [env.scale * (1.0 if env.raw and not outside.raw else outside.scale) for env in within],
        dtype=np.float64,
    )
    choosing = [i for i, env in enumerate(within) if env.chooses]

    def set_updates(on: bool) -> None:
        set_statistics_updates(envs, outside.updates if on else False)
        for i, env in enumerate(within):
            if env.updates:
                inner.call_some([i], "set_statistics_updates", env.updates if on else False)

    def set_choice(on: bool) -> None:
        if choosing:
            inner.call_some(choosing, "set_wrapper_attr", "keeps_selection", not on)

    try:
        set_updates(False)
        set_choice(False)
        yield scales, np.array([outside.raw or env.raw for env in within], dtype=np.bool_)
    except BaseException:
        # Interrupted or failed environments may not answer.
        with contextlib.suppress(Exception):
            inner.step_wait()  # should an interrupt have come before it
        for unfreeze in set_updates, set_choice:
            with contextlib.suppress(Exception):
                unfreeze(True)
        raise
    set_updates(True)
    set_choice(True)


@read_only
def _look(env: Any) -> _Found:
    """Looks at one environment; runs where the environment is."""
    updates, scale, raw = [], 1.0, False
    for wrapper in normalizers(env):
        updates.append(bool(wrapper.update_running_mean))
        if isinstance(wrapper, (NormalizeRewardPerTask, VectorNormalizeRewardPerTask)):
            # The outermost is the one whose raw reward is in the infos.
            scale, raw = (scale, True) if raw else (1.0, True)
        elif hasattr(wrapper, "return_rms"):
            scale *= math.sqrt(float(wrapper.return_rms.var) + wrapper.epsilon)
    bottom = env.unwrapped
    # Where tasks are drawn from a space, the seeds of an evaluation say which it plays.
    listed = isinstance(bottom, TaskSetMTEnv) and hasattr(bottom, "task_states")
    return _Found(updates, listed and not bottom.keeps_selection, scale, raw)
