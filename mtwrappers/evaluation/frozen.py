"""Evaluation reports rewards as environments gave them, and leaves running statistics alone."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.rollout import Flags
from mtwrappers.state import normalizers, set_statistics_updates
from mtwrappers.vector.replay import read_only
from mtwrappers.wrappers.normalize_reward import (
    NormalizeRewardPerTask,
    VectorNormalizeRewardPerTask,
)


@contextlib.contextmanager
def frozen_statistics(envs: Any) -> Iterator[tuple[NDArray[np.float64], Flags]]:
    """Stops normalizing wrappers from updating their statistics, and lets them go on afterwards.

    They are found around the vector environment and around each of its environments, ours and
    Gymnasium's: whatever has ``update_running_mean``.

    Yields:
        What each environment's rewards are to be multiplied with, ``(N,)`` float64, to undo
        Gymnasium's ``NormalizeReward``; and whose rewards before that are in
        ``info["raw_reward"]``, ``(N,)`` bool.
    """
    inner = envs.unwrapped
    switches, scale, raw = _look(envs)
    within = inner.call(_look)
    set_statistics_updates(envs, False)
    inner.call("set_statistics_updates", False)
    # What a wrapper within reports as raw has passed no wrapper outside.
    scales = np.array(
        [own if told and not raw else own * scale for _, own, told in within], dtype=np.float64
    )

    def unfreeze() -> None:
        set_statistics_updates(envs, switches)
        for i, (own, _, _) in enumerate(within):
            if own:
                inner.call_some([i], "set_statistics_updates", own)

    try:
        yield scales, np.array([raw or own for _, _, own in within], dtype=np.bool_)
    except BaseException:
        with contextlib.suppress(Exception):  # interrupted or failed environments may not answer
            unfreeze()
        raise
    unfreeze()


@read_only
def _look(env: Any) -> tuple[list[bool], float, bool]:
    """What normalizing wrappers of one environment do; runs where the environment is.

    Returns:
        Whether each updates its statistics; the scale of rewards; whether there is a raw reward.
    """
    switches, scale, raw = [], 1.0, False
    for wrapper in normalizers(env):
        switches.append(bool(wrapper.update_running_mean))
        if isinstance(wrapper, (NormalizeRewardPerTask, VectorNormalizeRewardPerTask)):
            # The outermost is the one whose raw reward is in the infos.
            scale, raw = (scale, True) if raw else (1.0, True)
        elif hasattr(wrapper, "return_rms"):
            scale *= math.sqrt(float(wrapper.return_rms.var) + wrapper.epsilon)
    return switches, scale, raw
