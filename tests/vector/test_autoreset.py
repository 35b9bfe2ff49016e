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
FIRST = np.array([True, False])


def ends_at_2_and_3(executor, mode):
    """Two environments: one terminates at its second step, one truncates at its third."""
    makers = [
        partial(CountingEnv, 2, obs_size=1),
        partial(CountingEnv, 3, obs_size=1, truncate=True, first=100),
    ]
    return executor(makers, 2, autoreset_mode=mode)


def check(result, obs, rewards, terminated, truncated, steps):
    """A step's result against literal numbers."""
    assert np.array_equal(result[0], np.array(obs, dtype=np.float64)[:, None])
    assert result[0].dtype == np.float64
    assert np.array_equal(result[1], np.array(rewards, dtype=np.float64))
    assert result[1].dtype == np.float64
    assert np.array_equal(result[2], np.array(terminated, dtype=bool))
    assert np.array_equal(result[3], np.array(truncated, dtype=bool))
    assert result[2].dtype == result[3].dtype == np.bool_
    assert np.array_equal(result[4]["steps"], np.array(steps))
    assert np.array_equal(result[4]["_steps"], [True, True])


def check_reset(result, obs, reported):
    assert np.array_equal(result[0], np.array(obs, dtype=np.float64)[:, None])
    assert np.array_equal(result[1]["steps"], [0, 0])
    assert np.array_equal(result[1]["_steps"], reported)


@both_executors
def test_in_same_step_mode_an_episode_begins_in_the_step_that_ends_another(executor):
    envs = ends_at_2_and_3(executor, "SameStep")
    check_reset(envs.reset(seed=0), [0, 100], [True, True])

    result = envs.step([0, 0])
    check(result, [1, 101], [1, 1], [0, 0], [0, 0], steps=[1, 1])
    assert "final_obs" not in result[4]

    result = envs.step([0, 0])
    check(result, [0, 102], [2, 2], [1, 0], [0, 0], steps=[0, 2])
    assert result[4]["_final_obs"].tolist() == [True, False]
    assert result[4]["final_obs"][0].tolist() == [2]
    assert result[4]["final_obs"][1] is None
    assert result[4]["_final_info"].tolist() == [True, False]
    assert result[4]["final_info"]["steps"].tolist() == [2, 0]
    assert result[4]["final_info"]["_steps"].tolist() == [True, False]

    result = envs.step([0, 0])
    check(result, [1, 100], [1, 3], [0, 0], [0, 1], steps=[1, 0])
    assert result[4]["_final_obs"].tolist() == [False, True]
    assert result[4]["final_obs"][1].tolist() == [103]
    assert result[4]["final_info"]["steps"].tolist() == [0, 3]

    check(envs.step([0, 0]), [0, 101], [2, 1], [1, 0], [0, 0], steps=[0, 1])
    check(envs.step([0, 0]), [1, 102], [1, 2], [0, 0], [0, 0], steps=[1, 2])
    result = envs.step([0, 0])
    check(result, [0, 100], [2, 3], [1, 0], [0, 1], steps=[0, 0])
    assert [obs.tolist() for obs in result[4]["final_obs"]] == [[2], [103]]
    assert result[4]["final_info"]["steps"].tolist() == [2, 3]
    envs.close()


@both_executors
def test_in_next_step_mode_an_episode_begins_in_the_step_after(executor):
    envs = ends_at_2_and_3(executor, "NextStep")
    check_reset(envs.reset(seed=0), [0, 100], [True, True])
    results = [envs.step([0, 0]) for _ in range(6)]
    check(results[0], [1, 101], [1, 1], [0, 0], [0, 0], steps=[1, 1])
    check(results[1], [2, 102], [2, 2], [1, 0], [0, 0], steps=[2, 2])
    check(results[2], [0, 103], [0, 3], [0, 0], [0, 1], steps=[0, 3])
    check(results[3], [1, 100], [1, 0], [0, 0], [0, 0], steps=[1, 0])
    check(results[4], [2, 101], [2, 1], [1, 0], [0, 0], steps=[2, 1])
    check(results[5], [0, 102], [0, 2], [0, 0], [0, 0], steps=[0, 2])
    assert not any("final_obs" in result[4] for result in results)
    envs.close()


@both_executors
def test_in_next_step_mode_the_action_of_the_resetting_step_is_not_taken(executor):
    envs = ends_at_2_and_3(executor, "NextStep")
    envs.reset(seed=0)
    for actions in ([0, 0], [0, 0], [1, 0]):
        envs.step(actions)
    assert envs.get_attr("actions") == ([0, 0], [0, 0, 0])
    envs.close()


@both_executors
def test_in_next_step_mode_a_masked_reset_makes_the_next_step_an_ordinary_one(executor):
    envs = ends_at_2_and_3(executor, "NextStep")
    envs.reset(seed=0)
    for _ in range(2):
        envs.step([0, 0])
    check_reset(envs.reset(options={"reset_mask": FIRST}), [0, 102], [True, False])
    check(envs.step([0, 0]), [1, 103], [1, 3], [0, 0], [0, 1], steps=[1, 3])
    envs.close()


@both_executors
def test_in_disabled_mode_the_caller_resets(executor):
    envs = ends_at_2_and_3(executor, "Disabled")
    check_reset(envs.reset(seed=0), [0, 100], [True, True])
    check(envs.step([0, 0]), [1, 101], [1, 1], [0, 0], [0, 0], steps=[1, 1])
    check(envs.step([0, 0]), [2, 102], [2, 2], [1, 0], [0, 0], steps=[2, 2])
    for _ in range(2):
        with pytest.raises(ResetNeeded, match=r"episodes of environments \[0\] are over: reset "):
            envs.step([0, 0])
    check_reset(envs.reset(options={"reset_mask": FIRST}), [0, 102], [True, False])
    check(envs.step([0, 0]), [1, 103], [1, 3], [0, 0], [0, 1], steps=[1, 3])
    with pytest.raises(ResetNeeded, match=r"episodes of environments \[1\] are over: reset "):
        envs.step([0, 0])
    check_reset(envs.reset(seed=0), [0, 100], [True, True])
    check(envs.step([0, 0]), [1, 101], [1, 1], [0, 0], [0, 0], steps=[1, 1])
    envs.close()


@both_executors
def test_in_disabled_mode_every_episode_that_is_over_is_named(executor):
    with closing(executor(counting_makers(4, length=1), 4, autoreset_mode="Disabled")) as envs:
        envs.reset()
        envs.step(NO_ACTIONS)
        envs.reset(options={"reset_mask": np.array([False, True, False, False])})
        with pytest.raises(ResetNeeded, match=r"environments \[0, 2, 3\] are over"):
            envs.step(NO_ACTIONS)


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
        assert envs.get_attr("actions") == ([0],) * 4


@both_executors
def test_a_first_reset_that_fails_is_no_reset(executor):
    makers = fragile_makers(fault=partial(fail, "cold start"))
    with closing(executor(makers, 2, 2)) as envs:
        with pytest.raises(OSError, match=r"environment [0-3]: cold start"):
            envs.reset(options={"fault": True})
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
            envs.step(NO_ACTIONS)


def fail(text):
    raise OSError(text)
