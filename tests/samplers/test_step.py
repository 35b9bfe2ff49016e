"""The infos of a step, of which those of an episode that ended are final infos."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor
from mtwrappers.samplers.rollout import Step
from tests.fakes import CountingEnv


class ReportsInSteps(CountingEnv):
    """Reports the number of steps in its steps, and not in its resets."""

    def _info(self):
        return {"n": self.steps} if self.steps else {}


class ReportsInResets(CountingEnv):
    """Reports the number of steps in its resets, and not in its steps."""

    def _info(self):
        return {} if self.steps else {"n": 7}


def last_step(cls):
    """The step with which the first of two episodes ends."""
    with closing(MetaIterativeEnvExecutor([partial(cls, 2), partial(cls, 9)], 2)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        *_, terminated, truncated, infos = envs.step([0, 0])
    values = dict.fromkeys(Step._fields, np.zeros(2))
    return Step(**{**values, "finished": terminated | truncated, "infos": infos})


@pytest.mark.parametrize(
    ("cls", "expected"), [(ReportsInSteps, [True, True]), (ReportsInResets, [False, False])]
)
def test_an_ended_episode_has_reported_what_its_final_info_has(cls, expected):
    values, reported = last_step(cls).info("n")
    assert reported.tolist() == expected
    if all(expected):
        assert values.tolist() == [2, 2]
