"""Environments whose episodes, infos and observations are of many kinds."""

from functools import partial

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import RecordEpisodeStatistics

from tests.fakes import CountingEnv
from tests.vector.fakes import BoxCountingEnv

LENGTHS = (1, 2, 3, 5)


class ReportingEnv(BoxCountingEnv):
    """Reports other things at every step, and success in some."""

    def _info(self):
        n = self.steps
        info = {"steps": n, "half": n / 2, "name": f"step {n}", "none": None, "success": n % 2}
        if n % 2:
            info["odd"] = {"steps": n, "below": {"deep": -n}}
        return info | ({"draw": self.draw} if n == 0 else {})


class DictEnv(CountingEnv):
    """Observes a dict."""

    def __init__(self, length):
        super().__init__(length)
        self.observation_space = Dict({"at": Box(0, 9, (2, 2), np.float32), "n": Discrete(9)})

    def _obs(self):
        return {"at": np.full((2, 2), self.steps, np.float32), "n": self.steps}


class OptionEnv(CountingEnv):
    """Starts to count from what the options say."""

    def reset(self, *, seed=None, options=None):
        self.first = (options or {}).get("first", 0)
        return super().reset(seed=seed, options=options)


def with_statistics(make, **kwargs):
    return RecordEpisodeStatistics(make(**kwargs))


def both_ends(kind=CountingEnv):
    """Constructors of episodes of other lengths; every second one is truncated."""
    return [
        partial(kind, length=length, truncate=i % 2 == 1, first=100 * i)
        for i, length in enumerate(LENGTHS)
    ]


FAMILIES = {
    "numbers": both_ends(),
    "boxes and any infos": both_ends(ReportingEnv),
    "dicts": [partial(DictEnv, length) for length in LENGTHS],
    "statistics": [partial(with_statistics, make) for make in both_ends()],
}
