"""How episodes begin and end, in numbers."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from tests.fakes import CountingEnv, counting_makers
from tests.vector.fakes import all_modes, both_executors
from tests.vector.faults import fragile_makers

NO_ACTIONS = np.zeros(4, dtype=np.int64)
# One environment counts from 0 and terminates at its second step, the other one counts from 100 and
# truncates at its third. A row per step: observations, rewards, and which episodes are over.
ENDS = [
    partial(CountingEnv, 2, obs_size=1),
    partial(CountingEnv, 3, obs_size=1, truncate=True, first=100),
]
EXPECTED = {
    "SameStep": [
        ([1, 101], [1, 1], [0, 0]),
        ([0, 102], [2, 2], [1, 0]),
        ([1, 100], [1, 3], [0, 1]),
        ([0, 101], [2, 1], [1, 0]),
        ([1, 102], [1, 2], [0, 0]),
        ([0, 100], [2, 3], [1, 1]),
    ],
    # A step that resets takes no action.
    "NextStep": [
        ([1, 101], [1, 1], [0, 0]),
        ([2, 102], [2, 2], [1, 0]),
        ([0, 103], [0, 3], [0, 1]),
        ([1, 100], [1, 0], [0, 0]),
        ([2, 101], [2, 1], [1, 0]),
        ([0, 102], [0, 2], [0, 0]),
    ],
    # The test resets what is over.
    "Disabled": [
        ([1, 101], [1, 1], [0, 0]),
        ([2, 102], [2, 2], [1, 0]),
        ([1, 103], [1, 3], [0, 1]),
        ([2, 101], [2, 1], [1, 0]),
        ([1, 102], [1, 2], [0, 0]),
        ([2, 103], [2, 3], [1, 1]),
    ],
}


@both_executors
@pytest.mark.parametrize("mode", EXPECTED)
def test_episodes_begin_and_end(executor, mode):
    with closing(executor(ENDS, 2, autoreset_mode=mode)) as envs:
        obs, infos = envs.reset(seed=0)
        assert (obs.tolist(), infos["steps"].tolist()) == ([[0], [100]], [0, 0])
        for expected, rewards, over in EXPECTED[mode]:
            obs, *result, infos = envs.step([0, 0])
            assert obs[:, 0].tolist() == expected
            assert [part.tolist() for part in result] == [rewards, [over[0], 0], [0, over[1]]]
            assert [part.dtype for part in (obs, *result)] == [float, float, bool, bool]
            assert infos["steps"].tolist() == [expected[0], expected[1] - 100]
            assert infos["_steps"].tolist() == [True, True]
            assert ("final_obs" in infos) is (mode == "SameStep" and any(over))
            if "final_obs" in infos:
                last = [one if one is None else one.tolist() for one in infos["final_obs"]]
                assert last == [[2] if over[0] else None, [103] if over[1] else None]
                assert infos["final_info"]["steps"].tolist() == [2 * over[0], 3 * over[1]]
                for mask in ("_final_obs", "_final_info"):
                    assert infos[mask].tolist() == over
            if mode == "Disabled" and any(over):
                envs.reset(options={"reset_mask": np.array(over, bool)})


@both_executors
def test_in_next_step_mode_a_masked_reset_makes_the_next_step_an_ordinary_one(executor):
    with closing(executor(ENDS, 2, autoreset_mode="NextStep")) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step([0, 0])
        obs, infos = envs.reset(options={"reset_mask": np.array([True, False])})
        assert (obs[:, 0].tolist(), infos["_steps"].tolist()) == ([0, 102], [True, False])
        assert envs.step([0, 0])[0][:, 0].tolist() == [1, 103]


@both_executors
def test_in_disabled_mode_every_episode_that_is_over_is_named(executor):
    with closing(executor(counting_makers(4, length=1), 4, autoreset_mode="Disabled")) as envs:
        envs.reset()
        envs.step(NO_ACTIONS)
        envs.reset(options={"reset_mask": np.array([False, True, False, False])})
        for _ in range(2):
            with pytest.raises(ResetNeeded, match=r"episodes of environments \[0, 2, 3\] are over"):
                envs.step(NO_ACTIONS)
        envs.reset()
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4


@both_executors
@all_modes
def test_a_step_before_the_first_reset_is_refused(executor, mode):
    with closing(executor(counting_makers(4), 4, autoreset_mode=mode)) as envs:
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
            envs.step(NO_ACTIONS)
        with pytest.raises(ResetNeeded, match="reset every environment before some of them"):
            envs.reset(options={"reset_mask": np.array([True, False, False, False])})
        envs.reset(options={"reset_mask": np.ones(4, dtype=np.bool_)})
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4


@both_executors
def test_a_first_reset_that_fails_is_no_reset(executor):
    with closing(executor(fragile_makers(fault=cold_start), 2, 2)) as envs:
        with pytest.raises(OSError, match=r"environment [0-3]: cold start"):
            envs.reset(options={"fault": True})
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
            envs.step(NO_ACTIONS)


def cold_start():
    raise OSError("cold start")
