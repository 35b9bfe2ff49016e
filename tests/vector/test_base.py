"""What both executors share: constructors, tasks, seeds, autoreset, checks, wrappers."""

import copy
import multiprocessing
import re
import sys
import threading
import types
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers import vector as vector_wrappers

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor, MetaVectorWrapper
from mtwrappers.testing.checks import shares_memory
from tests.fakes import (
    Constructors,
    CountingEnv,
    CountingMTEnv,
    CountingSetTaskEnv,
    counting_makers,
    equal,
)
from tests.vector.fakes import (
    BagEnv,
    BoxCountingEnv,
    NestedEnv,
    WordEnv,
    all_modes,
    both_executors,
    fragile_makers,
)

NO_ACTIONS = np.zeros(4, dtype=np.int64)
FIRST = np.array([True, False])


def counting(n=4, **kwargs):
    return counting_makers(n, **{"obs_size": 1, **kwargs})


def firsts(envs):
    """What each environment of one number observes first."""
    return envs.reset(seed=0)[0][:, 0].tolist()


# What an executor may be given.


@both_executors
def test_one_constructor_serves_all_environments(executor):
    with closing(executor(partial(CountingEnv, first=7), 2, 3)) as envs:
        assert isinstance(envs, VectorEnv)
        assert (envs.num_envs, envs.meta_batch_size, envs.envs_per_task) == (6, 2, 3)
        assert firsts(envs) == [7] * 6


@both_executors
def test_a_list_may_hold_a_constructor_a_task(executor):
    with closing(executor(counting(2), 2, 3)) as envs:
        assert firsts(envs) == [0, 0, 0, 100, 100, 100]


@both_executors
@pytest.mark.parametrize("sequence", [list, tuple])
def test_a_list_may_hold_a_constructor_an_environment(executor, sequence):
    with closing(executor(sequence(counting(6)), 2, 3)) as envs:
        assert firsts(envs) == [0, 100, 200, 300, 400, 500]


@both_executors
def test_there_is_one_environment_a_task_by_default(executor):
    with closing(executor(counting(3), 3)) as envs:
        assert envs.envs_per_task == 1
        assert firsts(envs) == [0, 100, 200]


@both_executors
def test_an_environment_is_copied_and_left_alone(executor):
    env = CountingEnv(first=30)
    with closing(executor(env, 2, 2)) as envs:
        obs, infos = envs.reset(seed=[1, 2, 3, 4])
        assert obs[:, 0].tolist() == [30] * 4
        assert len(set(infos["draw"].tolist())) == 4
        envs.step(NO_ACTIONS)
    assert (env.seeds, env.actions, env.closed) == ([], [], False)


@both_executors
def test_an_environment_that_does_not_pickle_is_refused(executor):
    env = CountingEnv()
    env.lock = threading.Lock()
    with pytest.raises(TypeError, match=r"must pickle .*CountingEnv.* does not .*_thread\.lock"):
        executor(env, 2)


@both_executors
def test_constructors_need_not_pickle_by_name(executor):
    class Local(CountingEnv):
        pass

    with closing(executor([lambda: Local(first=5), lambda: Local(first=6)], 2)) as envs:
        assert firsts(envs) == [5, 6]


@both_executors
@pytest.mark.parametrize(("number", "sizes"), [(3, (2, 2)), (0, (2, 2)), (5, (2, 3)), (2, (1, 4))])
def test_a_list_of_another_length_is_refused_with_the_lengths_that_fit(executor, number, sizes):
    m, n = sizes[0], sizes[0] * sizes[1]
    message = f"expected {m} constructors (one per task) or {n} (one per environment), got {number}"
    with pytest.raises(ValueError, match=re.escape(message)):
        executor(counting(number), *sizes)


@both_executors
@pytest.mark.parametrize("given", [None, 3, {"env": CountingEnv}])
def test_anything_else_is_refused(executor, given):
    message = r"expected a constructor, a list of constructors or a gymnasium\.Env, got "
    with pytest.raises(TypeError, match=message + re.escape(repr(given))):
        executor(given, 2)


@both_executors
def test_an_environment_in_a_list_is_no_constructor(executor):
    with pytest.raises(
        TypeError, match="constructor of environment 2 must be callable, got <tests"
    ):
        executor([CountingEnv, CountingEnv, CountingEnv(), CountingEnv], 2, 2)


@both_executors
def test_a_constructor_must_return_an_environment(executor):
    message = r"constructor of environment 3 must return a gymnasium\.Env, got 'a house'"
    with pytest.raises(TypeError, match=message):
        executor([*counting(3), lambda: "a house"], 4)


@both_executors
@pytest.mark.parametrize(
    ("odd", "what"), [({"obs_size": 3}, "observation"), ({"num_actions": 5}, "action")]
)
def test_environments_with_other_spaces_are_refused(executor, odd, what):
    odd_one = partial(CountingEnv, **{"obs_size": 1, **odd})
    expected = {"observation": "Box(0.0, 1000.0, (1,), float64)", "action": "Discrete(2)"}[what]
    space = {"observation": "Box(0.0, 1000.0, (3,), float64)", "action": "Discrete(5)"}[what]
    message = f"environment 2 has {what} space {space}, expected {expected} as in environment 0"
    with pytest.raises(ValueError, match=re.escape(message)):
        executor([*counting(2), odd_one, *counting(1)], 2, 2)


def test_the_environments_are_closed_when_one_cannot_be_built():
    made = Constructors(3, {2: RuntimeError("no bricks")})
    with pytest.raises(RuntimeError, match="the constructor of environment 2 failed: no bricks"):
        MetaIterativeEnvExecutor(made.makers, 3)
    assert [env.closed for env in made.envs.values()] == [True, True]


@both_executors
@pytest.mark.parametrize("size", [0, -1, 1.5, "2", True, None])
@pytest.mark.parametrize("name", ["meta_batch_size", "envs_per_task"])
def test_sizes_are_positive_integers(executor, name, size):
    sizes = {"meta_batch_size": 1, "envs_per_task": 1, name: size}
    message = re.escape(f"{name} must be a positive integer, got {size!r}")
    with pytest.raises(ValueError, match=message):
        executor(CountingEnv, **sizes)


@both_executors
@pytest.mark.parametrize("length", [0, -3, 2.0, True])
def test_the_path_length_is_a_positive_integer(executor, length):
    with pytest.raises(
        ValueError, match=f"max_path_length must be a positive integer, got {length}"
    ):
        executor(CountingEnv, 2, 2, length)


@both_executors
def test_the_path_length_truncates_episodes(executor):
    with closing(executor(partial(CountingEnv, 9), 2, 1, 2)) as envs:
        envs.reset(seed=0)
        flags = [envs.step([0, 0])[2:4] for _ in range(4)]
        assert [terminated.tolist() for terminated, _ in flags] == [[False] * 2] * 4
        assert [truncated.any() for _, truncated in flags] == [False, True, False, True]
        assert [truncated.all() for _, truncated in flags] == [False, True, False, True]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"workers": 0}, "workers must be a positive integer, got 0"),
        ({"workers": 1.0}, r"workers must be a positive integer, got 1\.0"),
        ({"on_worker_failure": "ignore"}, "must be 'raise' or 'restart', got 'ignore'"),
        ({"timeout": 0}, "timeout must be positive or None, got 0"),
        ({"timeout": -1.0}, r"timeout must be positive or None, got -1\.0"),
        ({"context": "thread"}, "cannot find context for 'thread'"),
    ],
)
def test_bad_arguments_of_the_parallel_executor_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        MetaParallelEnvExecutor(CountingEnv, 2, **kwargs)


def test_a_daemonic_process_is_told_what_to_use_instead():
    here, there = multiprocessing.Pipe()

    def make():
        try:
            MetaParallelEnvExecutor(CountingEnv, 2)
        except RuntimeError as exc:
            there.send(str(exc))

    process = multiprocessing.get_context("fork").Process(target=make, daemon=True)
    process.start()
    assert here.poll(10)
    assert here.recv() == (
        "a daemonic process may not have children, so there can be no workers here; use "
        "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
    )
    process.join()


# Autoreset.


@both_executors
@all_modes
def test_the_autoreset_mode_may_be_a_member_its_name_or_its_value(executor, mode):
    for given in (mode, mode.name, mode.value):
        with closing(executor(CountingEnv, 2, autoreset_mode=given)) as envs:
            assert envs.autoreset_mode is mode
            assert envs.metadata["autoreset_mode"] is mode
            assert envs.metadata["render_fps"] == 10
    assert "autoreset_mode" not in CountingEnv.metadata


@both_executors
def test_the_same_step_is_the_default_mode(executor):
    with closing(executor(CountingEnv, 2)) as envs:
        assert envs.autoreset_mode is AutoresetMode.SAME_STEP


@both_executors
@pytest.mark.parametrize("mode", ["same_step", "", None, True])
def test_another_mode_is_refused(executor, mode):
    message = r"must be one of \['NextStep', 'SameStep', 'Disabled'\], got " + re.escape(repr(mode))
    with pytest.raises(ValueError, match=message):
        executor(CountingEnv, 2, autoreset_mode=mode)


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
    with closing(executor(counting(length=1), 4, autoreset_mode="Disabled")) as envs:
        envs.reset()
        envs.step(NO_ACTIONS)
        envs.reset(options={"reset_mask": np.array([False, True, False, False])})
        with pytest.raises(ResetNeeded, match=r"environments \[0, 2, 3\] are over"):
            envs.step(NO_ACTIONS)


@both_executors
@all_modes
def test_a_step_before_the_first_reset_is_refused(executor, mode):
    with closing(executor(counting(), 4, autoreset_mode=mode)) as envs:
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


# Tasks.


@both_executors
def test_each_task_goes_to_its_own_environments(executor):
    makers = partial(CountingSetTaskEnv, 2, obs_size=1)
    with closing(executor(makers, 3, 2)) as envs:
        envs.set_tasks([{"first": 10}, {"first": 20}, {"first": 30}])
        assert firsts(envs) == [10, 10, 20, 20, 30, 30]
        assert envs.step(np.zeros(6, int))[0][:, 0].tolist() == [11, 11, 21, 21, 31, 31]
        # An autoreset stays with the task.
        assert envs.step(np.zeros(6, int))[0][:, 0].tolist() == [10, 10, 20, 20, 30, 30]
        envs.set_tasks(({"first": 1}, {"first": 2}, {"first": 3}))
        assert firsts(envs) == [1, 1, 2, 2, 3, 3]
        assert envs.call("get_task")[2:4] == ({"first": 2}, {"first": 2})


@both_executors
def test_task_states_are_set_where_there_is_no_set_task(executor):
    with closing(executor(CountingMTEnv, 3)) as envs:
        envs.set_tasks([0, 1, 2])
        assert envs.reset(seed=0)[0]["task_obs"].tolist() == [0, 1, 2]
        assert envs.step([0, 0, 0])[2].tolist() == [True, False, False]


@both_executors
def test_tasks_are_set_through_wrappers(executor):
    with closing(executor(partial(CountingSetTaskEnv, obs_size=1), 2, 1, 5)) as envs:
        envs.set_tasks([{"first": 10}, {"first": 20}])
        assert firsts(envs) == [10, 20]


@both_executors
@pytest.mark.parametrize("number", [0, 1, 3, 4])
def test_another_number_of_tasks_is_refused_with_the_sizes(executor, number):
    with closing(executor(CountingSetTaskEnv, 2, 2)) as envs:
        envs.set_tasks([{"first": 10}, {"first": 20}])
        message = f"expected 2 tasks, one for each group of 2 environments, got {number}"
        with pytest.raises(ValueError, match=message):
            envs.set_tasks([{"first": 1}] * number)
        assert firsts(envs) == [10, 10, 20, 20]


@both_executors
def test_a_string_is_no_list_of_tasks(executor):
    with closing(executor(CountingSetTaskEnv, 2)) as envs:  # noqa: SIM117
        with pytest.raises(ValueError, match="expected 2 tasks"):
            envs.set_tasks("ab")


@both_executors
def test_a_task_that_an_environment_refuses_is_refused_with_its_name(executor):
    with closing(executor(CountingSetTaskEnv, 2, 2)) as envs:
        message = "environment 2: a task must be a dict with the key 'first', got 'b'"
        with pytest.raises(ValueError, match=message):
            envs.set_tasks([{"first": 10}, "b"])


@both_executors
def test_environments_without_tasks_say_so(executor):
    with closing(executor(CountingEnv, 2)) as envs:  # noqa: SIM117
        with pytest.raises(AttributeError, match=r"environment [01]: .*set_task_state"):
            envs.set_tasks([0, 1])


@both_executors
def test_a_reset_is_due_after_tasks_were_set(executor):
    with closing(executor(CountingSetTaskEnv, 2)) as envs:
        envs.reset(seed=0)
        envs.set_tasks([{"first": 10}, {"first": 20}])
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
            envs.step([0, 0])
        with pytest.raises(ResetNeeded, match="reset every environment before some of them"):
            envs.reset(options={"reset_mask": np.array([True, False])})


# Seeds and options.


@both_executors
def test_an_integer_seeds_each_environment_with_the_next_one(executor):
    with closing(executor(counting(3), 3)) as envs:
        envs.reset(seed=5)
        envs.reset(seed=np.int64(0))
        envs.reset()
        assert envs.get_attr("seeds") == ([5, 0, None], [6, 1, None], [7, 2, None])
        assert envs.np_random_seed == (0, 1, 2)


@both_executors
@pytest.mark.parametrize("sequence", [list, tuple])
def test_a_list_holds_a_seed_for_each_environment(executor, sequence):
    with closing(executor(counting(3), 3)) as envs:
        _, infos = envs.reset(seed=sequence([8, None, 8]))
        assert envs.get_attr("seeds") == ([8], [None], [8])
        assert infos["draw"][0] == infos["draw"][2] != infos["draw"][1]
        _, infos = envs.reset(seed=np.array([8, 9, 8]))
        assert envs.get_attr("seeds")[1] == [None, 9]


@both_executors
def test_a_masked_reset_seeds_only_its_own(executor):
    with closing(executor(counting(3), 3)) as envs:
        envs.reset(seed=1)
        envs.reset(seed=40, options={"reset_mask": np.array([False, True, True])})
        assert envs.get_attr("seeds") == ([1], [2, 41], [3, 42])


@both_executors
@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        ([1, 2], ValueError, "expected 3 seeds, one per environment, got 2"),
        ([1, 2, 3, 4], ValueError, "expected 3 seeds, one per environment, got 4"),
        (-1, ValueError, "a seed must be zero or greater, got -1"),
        ([1, 2, -3], ValueError, "a seed must be zero or greater, got -3"),
        (1.0, TypeError, r"a seed must be an integer, got 1\.0"),
        (True, TypeError, "a seed must be an integer, got True"),
        ("1", TypeError, "a seed must be an integer, got '1'"),
        ([1, 2.5, 3], TypeError, r"a seed must be an integer, got 2\.5"),
    ],
)
def test_bad_seeds_are_refused_and_nothing_is_reset(executor, seed, error, message):
    with closing(executor(counting(3), 3)) as envs:
        with pytest.raises(error, match=message):
            envs.reset(seed=seed)
        assert envs.get_attr("seeds") == ([], [], [])


@both_executors
def test_options_reach_every_environment_and_stay_as_they_were(executor):
    with closing(executor(counting(3), 3)) as envs:
        options = {"goal": 3}
        envs.reset(options=options)
        mask = np.array([True, False, True])
        masked = {"reset_mask": mask, "goal": 4}
        envs.reset(options=masked)
        assert options == {"goal": 3}
        assert masked.keys() == {"reset_mask", "goal"}
        assert masked["reset_mask"] is mask
        assert mask.tolist() == [True, False, True]
        assert envs.get_attr("options") == (
            [{"goal": 3}, {"goal": 4}],
            [{"goal": 3}],
            [{"goal": 3}, {"goal": 4}],
        )


@both_executors
@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True, False], TypeError, "reset_mask must be a bool array, got list"),
        (np.array([1, 0]), TypeError, "reset_mask must be a bool array, got int64 array"),
        (None, TypeError, "reset_mask must be a bool array, got NoneType"),
        (np.array([True]), ValueError, r"must have shape \(2,\), got \(1,\)"),
        (np.ones((2, 1), bool), ValueError, r"must have shape \(2,\), got \(2, 1\)"),
        (np.zeros(2, bool), ValueError, "must name at least one environment to reset"),
    ],
)
def test_bad_masks_are_refused_and_nothing_is_reset(executor, mask, error, message):
    with closing(executor(counting(2), 2)) as envs:
        envs.reset(seed=0)
        with pytest.raises(error, match=message):
            envs.reset(options={"reset_mask": mask})
        assert envs.get_attr("seeds") == ([0], [1])


# Steps.


@both_executors
def test_a_step_may_be_begun_and_ended_apart(executor):
    apart, together = (executor(counting(), 2, 2) for _ in range(2))
    apart.reset(seed=0)
    together.reset(seed=0)
    for _ in range(5):
        assert apart.step_async(NO_ACTIONS) is None
        assert equal(apart.step_wait(), together.step(NO_ACTIONS))
    apart.close()
    together.close()


@both_executors
def test_nothing_else_may_be_done_while_a_step_is_under_way(executor):
    with closing(executor(counting(), 2, 2)) as envs:
        with pytest.raises(RuntimeError, match=r"step_wait\(\) needs a step_async\(\) before it"):
            envs.step_wait()
        envs.reset(seed=0)
        envs.step_async(NO_ACTIONS)
        for what, forbidden in {
            "step_async": lambda: envs.step_async(NO_ACTIONS),
            "reset": envs.reset,
            "call": lambda: envs.call("draw"),
            "set_attr": lambda: envs.set_attr("first", 3),
            "render": envs.render,
        }.items():
            message = rf"^{what}\(\) while a step is under way: call step_wait\(\) first"
            with pytest.raises(RuntimeError, match=message):
                forbidden()
        assert envs.step_wait()[1].tolist() == [1.0] * 4
        with pytest.raises(RuntimeError, match=r"step_wait\(\) needs a step_async\(\) before it"):
            envs.step_wait()
        assert envs.step(NO_ACTIONS)[1].tolist() == [2.0] * 4


@both_executors
def test_tasks_may_not_be_set_while_a_step_is_under_way(executor):
    with closing(executor(fragile_makers(), 2, 2)) as envs:
        envs.reset(seed=0)
        envs.step_async(NO_ACTIONS)
        with pytest.raises(RuntimeError, match=r"while a step is under way: call step_wait\(\)"):
            envs.set_tasks([5, 6])
        assert envs.step_wait()[0][:, 0].tolist() == [1, 101, 201, 301]


@both_executors
def test_a_step_that_is_under_way_does_not_keep_the_executor_from_closing(executor):
    envs = executor(counting(), 2, 2)
    envs.reset(seed=0)
    envs.step_async(NO_ACTIONS)
    envs.close()
    with pytest.raises(ClosedEnvironmentError, match="was closed"):
        envs.step_wait()


@both_executors
@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((3, 2)), r"got \(3, 2\), none for environments \[3\]"),
        (np.zeros((1, 2)), r"got \(1, 2\), none for environments \[1, 2, 3\]"),
        (np.zeros((5, 2)), r"got \(5, 2\)$"),
        (np.zeros((4, 3)), r"environments \[0, 1, 2, 3\] got \(3,\)"),
        (np.zeros(4), r"environments \[0, 1, 2, 3\] got \(\)"),
        (np.zeros((4, 2, 1)), r"environments \[0, 1, 2, 3\] got \(2, 1\)"),
        ([[0, 0], [0, 0, 0], [0, 0], [0]], r"environments \[1, 3\] got \(1,\), \(3,\)"),
        ([[0, 0]] * 3, r"got \(3, 2\), none for environments \[3\]"),
        (0.5, r"got \(\)$"),
        (None, "got NoneType$"),
    ],
    ids=["few", "one", "many", "wide", "flat", "deep", "ragged", "lists", "number", "none"],
)
def test_actions_of_another_shape_are_refused_and_nothing_is_stepped(executor, actions, message):
    with closing(executor(BoxCountingEnv, 2, 2)) as envs:
        envs.reset(seed=0)
        expected = (
            r"expected actions of shape \(4, 2\), a row of \(2,\) for each of environments 0 "
        )
        with pytest.raises(ValueError, match=expected + "to 3; " + message):
            envs.step(actions)
        assert envs.get_attr("actions") == ([], [], [], [])
        assert envs.step(np.zeros((4, 2), np.float32))[1].tolist() == [1.0] * 4


@both_executors
def test_discrete_actions_of_another_number_are_refused_and_nothing_is_stepped(executor):
    with closing(executor(counting(), 2, 2)) as envs:
        envs.reset(seed=0)
        message = r"shape \(4,\), a row of \(\) for .*; got \(2,\), none for environments \[2, 3\]"
        with pytest.raises(ValueError, match=message):
            envs.step([0, 1])
        assert envs.get_attr("actions") == ([], [], [], [])


@both_executors
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_actions_name_their_environments_and_nothing_is_stepped(executor, dtype):
    with closing(executor(BoxCountingEnv, 2, 2)) as envs:
        envs.reset(seed=0)
        actions = np.zeros((4, 2), dtype)
        actions[1, 0] = actions[3, 1] = np.nan
        message = r"actions of environments \[1, 3\] are NaN; nothing was stepped"
        with pytest.raises(ValueError, match=message):
            envs.step(actions)
        assert envs.get_attr("actions") == ([], [], [], [])
        assert envs.step(np.zeros((4, 2), np.float32))[1].tolist() == [1.0] * 4


@both_executors
def test_tuple_actions_for_too_few_environments_are_refused_and_nothing_is_stepped(executor):
    with closing(executor(partial(WordEnv, 5), 2)) as envs:
        obs, _ = envs.reset(seed=0)
        message = "expected actions for environments 0 to 1, got 1"
        with pytest.raises(ValueError, match=message):
            envs.step((np.array([0]), np.zeros((1, 2), np.float32)))
        assert envs.get_attr("word") == obs


@both_executors
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.float16])
def test_actions_reach_the_environments_with_their_dtype(executor, dtype):
    with closing(executor(BoxCountingEnv, 2, 2)) as envs:
        envs.reset(seed=0)
        actions = np.arange(8).reshape(4, 2).astype(dtype) / dtype(8)
        actions = actions.astype(dtype)
        envs.step(actions)
        envs.step(actions.astype(np.float64))
        for row, (first, second) in zip(actions, envs.get_attr("actions"), strict=True):
            assert first.dtype == dtype
            assert second.dtype == np.float64
            assert np.array_equal(first, row)
            assert np.array_equal(second, row)


@both_executors
def test_actions_that_environments_keep_never_change(executor):
    with closing(executor(BoxCountingEnv, 2)) as envs:
        envs.reset(seed=0)
        actions = np.zeros((2, 2), np.float32)
        for i in range(3):
            actions[...] = i / 4
            envs.step(actions)
        kept = [[action.tolist() for action in row] for row in envs.get_attr("actions")]
        assert kept == [[[0, 0], [0.25, 0.25], [0.5, 0.5]]] * 2


# Everything returned is new.


KINDS = {
    "box": partial(CountingEnv, 3),
    "nested": partial(NestedEnv, 3),
    "text": partial(WordEnv, 3),
    "sequence": partial(BagEnv, 3),
}


def parts(value):
    """Every array in a result, however deep."""
    if isinstance(value, np.ndarray):
        yield value
        if value.dtype == object:
            for item in value:
                yield from parts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from parts(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from parts(item)


@both_executors
@all_modes
@pytest.mark.parametrize("kind", KINDS)
def test_no_array_is_handed_out_twice(executor, mode, kind):
    envs = executor(KINDS[kind], 2, autoreset_mode=mode)
    envs.action_space.seed(0)
    seen = [envs.reset(seed=0)]
    for _ in range(8):
        seen.append(envs.step(envs.action_space.sample()))
        over = seen[-1][2] | seen[-1][3]
        if mode is AutoresetMode.DISABLED and over.any():
            seen.append(envs.reset(options={"reset_mask": over}))
        seen.append(envs.reset(options={"reset_mask": FIRST}))
    envs.close()
    for i, result in enumerate(seen):
        for other in seen[:i]:
            assert not shares_memory(result, other)
            for array in parts(result):
                assert not any(np.shares_memory(array, one) for one in parts(other))


@both_executors
@all_modes
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_caller_does_to_results_changes_nothing(executor, mode, kind):
    envs = executor(KINDS[kind], 2, autoreset_mode=mode)
    oracle = SyncVectorEnv([KINDS[kind]] * 2, autoreset_mode=mode)
    envs.action_space.seed(0)

    def check_and_scribble(method, **kwargs):
        result, expected = (getattr(one, method)(**copy.deepcopy(kwargs)) for one in (envs, oracle))
        assert equal(result, expected)
        for array in list(parts(result)):
            array[...] = None if array.dtype == object else 1
        return expected

    check_and_scribble("reset", seed=0)
    for _ in range(5):
        # The other environment's observation is the one that was handed out before.
        check_and_scribble("reset", options={"reset_mask": FIRST})
        expected = check_and_scribble("step", actions=envs.action_space.sample())
        over = expected[2] | expected[3]
        if mode is AutoresetMode.DISABLED and over.any():
            check_and_scribble("reset", options={"reset_mask": over})
    envs.close()
    oracle.close()


# Attributes and methods.


@both_executors
def test_call_hands_arguments_to_every_environment(executor):
    with closing(executor(fragile_makers(), 2, 2)) as envs:
        assert envs.call("set_task", 6) == (None,) * 4
        assert envs.call("set_wrapper_attr", "length", value=2) == (True,) * 4
        envs.reset(seed=0)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [7, 7, 7, 7]
        assert envs.step(NO_ACTIONS)[2].tolist() == [True] * 4


def actions_of_wrapped(env, limit):
    """A function for `call`, which sees the wrapper that is outermost."""
    return type(env).__name__, env.get_wrapper_attr("actions")[:limit]


@both_executors
def test_call_runs_functions_where_the_environments_are(executor):
    with closing(executor(lambda: TimeLimit(CountingEnv(), 9), 2)) as envs:
        envs.reset(seed=0)
        envs.step([1, 0])
        assert envs.call(actions_of_wrapped, 1) == (("TimeLimit", [1]), ("TimeLimit", [0]))


@both_executors
def test_call_and_get_attr_read_attributes_and_call_methods(executor):
    with closing(executor(counting(length=5), 2, 2)) as envs:
        assert envs.call("length") == envs.get_attr("length") == (5, 5, 5, 5)
        assert envs.get_attr("first") == (0, 100, 200, 300)
        assert envs.get_attr("close") == (None,) * 4
        assert envs.get_attr("closed") == (True,) * 4


@both_executors
def test_an_attribute_that_does_not_exist_names_the_environment(executor):
    with closing(executor(counting(3), 3)) as envs:
        with pytest.raises(AttributeError, match=r"environment [0-2]: .*no attribute 'altitude'"):
            envs.call("altitude")
        assert envs.get_attr("first") == (0, 100, 200)


@both_executors
def test_set_attr_takes_a_value_for_all_or_a_list_of_one_an_environment(executor):
    with closing(executor(counting(3), 3)) as envs:
        envs.set_attr("first", 7)
        assert firsts(envs) == [7, 7, 7]
        envs.set_attr("first", [1, 2, 3])
        assert firsts(envs) == [1, 2, 3]
        envs.set_attr("first", (4, 5, 6))
        assert firsts(envs) == [4, 5, 6]
        envs.set_attr("first", np.array([1, 2, 3]))
        assert [value.tolist() for value in envs.get_attr("first")] == [[1, 2, 3]] * 3


@both_executors
@pytest.mark.parametrize("values", [[], [1, 2], (1, 2, 3, 4)])
def test_another_number_of_values_is_refused_and_nothing_is_set(executor, values):
    with closing(executor(counting(3), 3)) as envs:
        message = f"expected 3 values, one per environment, got {len(values)}"
        with pytest.raises(ValueError, match=message):
            envs.set_attr("first", values)
        assert envs.get_attr("first") == (0, 100, 200)


@both_executors
def test_set_attr_reaches_the_environment_through_its_wrappers(executor):
    makers = [partial(limited, first=100 * i) for i in range(2)]
    with closing(executor(makers, 2)) as envs:
        envs.set_attr("first", [1, 2])
        assert firsts(envs) == [1, 2]


def limited(**kwargs):
    return TimeLimit(CountingEnv(**kwargs), 5)


@both_executors
def test_the_random_generators_are_those_of_the_environments(executor):
    with closing(executor(counting(2), 2)) as envs:
        _, infos = envs.reset(seed=11)
        for i, rng in enumerate(envs.np_random):
            expected = np.random.default_rng(11 + i)
            assert infos["draw"][i] == expected.integers(2**31)
            assert rng.bit_generator.state == expected.bit_generator.state


@both_executors
def test_render_returns_a_frame_of_each_environment(executor):
    makers = [partial(CountingEnv, first=10 * i, render_mode="rgb_array") for i in range(3)]
    with closing(executor(makers, 3)) as envs:
        assert envs.render_mode == "rgb_array"
        envs.reset(seed=0)
        envs.step([0, 0, 0])
        frames = envs.render()
        assert isinstance(frames, tuple)
        assert [frame.tolist() for frame in frames] == [
            np.full((2, 2, 3), 10 * i + 1).tolist() for i in range(3)
        ]
    with closing(executor(CountingEnv, 2)) as envs:
        assert envs.render_mode is None


@both_executors
def test_nothing_works_after_close(executor):
    envs = executor(fragile_makers(), 2, 2)
    assert envs.closed is False
    envs.reset(seed=0)
    envs.close()
    envs.close()
    assert envs.closed is True
    for use in (
        envs.reset,
        lambda: envs.step(NO_ACTIONS),
        lambda: envs.step_async(NO_ACTIONS),
        envs.step_wait,
        lambda: envs.call("draw"),
        lambda: envs.get_attr("draw"),
        lambda: envs.set_attr("first", 1),
        lambda: envs.set_tasks([1, 2]),
        envs.render,
    ):
        with pytest.raises(ClosedEnvironmentError, match=f"{type(envs).__name__} was closed"):
            use()


def test_closing_closes_the_environments():
    made = Constructors(2)
    MetaIterativeEnvExecutor(made.makers, 2).close()
    assert [env.closed for env in made.envs.values()] == [True, True]


def test_closing_closes_the_environments_of_workers(tmp_path):
    makers = [partial(LeavesANote, tmp_path / str(i)) for i in range(4)]
    MetaParallelEnvExecutor(makers, 4, workers=2).close()
    assert sorted(note.name for note in tmp_path.iterdir()) == ["0", "1", "2", "3"]


class LeavesANote(CountingEnv):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def close(self):
        self.path.touch()


# Wrappers.


class HalfReward(MetaVectorWrapper):
    def step_wait(self):
        obs, rewards, terminated, truncated, infos = self.env.step_wait()
        return obs, rewards / 2, terminated, truncated, infos


@both_executors
def test_a_meta_vector_wrapper_forwards_everything(executor):
    envs = executor(fragile_makers(length=2), 2, 2, autoreset_mode="NextStep")
    wrapped = HalfReward(HalfReward(envs))
    assert wrapped.unwrapped is envs
    assert wrapped.autoreset_mode is AutoresetMode.NEXT_STEP
    assert (wrapped.meta_batch_size, wrapped.envs_per_task) == (2, 2)
    assert wrapped.num_envs == 4
    assert wrapped.observation_space == envs.observation_space
    wrapped.set_tasks([10, 20])
    assert wrapped.reset(seed=0)[0][:, 0].tolist() == [10, 10, 20, 20]
    assert wrapped.step(NO_ACTIONS)[1].tolist() == [0.25] * 4
    wrapped.step_async(NO_ACTIONS)
    assert wrapped.step_wait()[1].tolist() == [0.5] * 4
    assert wrapped.call("run_fault") == ("no fault",) * 4
    assert wrapped.get_attr("first") == (10, 10, 20, 20)
    wrapped.set_attr("first", [1, 2, 3, 4])
    assert wrapped.get_attr("first") == (1, 2, 3, 4)
    assert wrapped.np_random_seed == (0, 1, 2, 3)
    wrapped.close()
    assert envs.closed is True
    with pytest.raises(ClosedEnvironmentError, match="was closed"):
        wrapped.step(NO_ACTIONS)


@both_executors
@all_modes
def test_gymnasiums_statistics_are_those_of_the_episodes(executor, mode):
    makers = [partial(CountingEnv, 2), partial(CountingEnv, 3, truncate=True)]
    envs = vector_wrappers.RecordEpisodeStatistics(executor(makers, 2, autoreset_mode=mode))
    envs.reset(seed=0)
    found = []
    for _ in range(6):
        *_, terminated, truncated, infos = envs.step(np.array([0, 0]))
        if "episode" in infos:
            episode = infos["episode"]
            found.append((episode["r"].tolist(), episode["l"].tolist()))
        over = terminated | truncated
        if mode is AutoresetMode.DISABLED and over.any():
            envs.reset(options={"reset_mask": over})
    first, second = ([3.0, 0.0], [2, 0]), ([0.0, 6.0], [0, 3])
    # In the sixth step both end, but for the steps that NEXT_STEP spends on resets.
    third = {"NextStep": first}.get(mode.value, first)
    expected = [first, second, third]
    if mode is not AutoresetMode.NEXT_STEP:
        expected.append(([3.0, 6.0], [2, 3]))
    assert found == expected
    envs.close()


@both_executors
def test_gymnasiums_normalization_is_that_over_its_own_vector_environment(executor):
    makers = counting(3)
    normalized = [
        vector_wrappers.NormalizeObservation(envs)
        for envs in (
            executor(makers, 3, autoreset_mode="NextStep"),
            SyncVectorEnv(makers, autoreset_mode="NextStep"),
        )
    ]
    ours, oracle = ([envs.reset(seed=0)] for envs in normalized)
    for _ in range(6):
        for results, envs in zip((ours, oracle), normalized, strict=True):
            results.append(envs.step(np.zeros(3, int)))
    assert equal(ours, oracle)
    assert len({result[0].tobytes() for result in ours}) == 7
    for envs in normalized:
        envs.close()


@both_executors
def test_gymnasiums_recorder_films_the_episodes(executor, tmp_path, monkeypatch):
    films = {}

    class Clip:
        def __init__(self, frames, fps):
            self.frames, self.fps = list(frames), fps

        def write_videofile(self, path, logger):
            films[path.rpartition("/")[2]] = (
                [frame[0, :, 0].tolist() for frame in self.frames],
                self.fps,
            )

    module = types.ModuleType("moviepy.video.io.ImageSequenceClip")
    module.ImageSequenceClip = Clip
    for name in ("moviepy", "moviepy.video", "moviepy.video.io"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    makers = [partial(CountingEnv, 2, first=10 * i, render_mode="rgb_array") for i in range(2)]
    envs = vector_wrappers.RecordVideo(
        executor(makers, 2, autoreset_mode="NextStep"),
        str(tmp_path / "films"),
        episode_trigger=lambda episode: True,
        video_aspect_ratio=(2, 1),
    )
    envs.reset(seed=0)
    for _ in range(5):
        envs.step(np.array([0, 0]))
    envs.close()
    assert films == {
        "rl-video-episode-0.mp4": ([[0, 0, 10, 10], [1, 1, 11, 11], [2, 2, 12, 12]], 10),
        "rl-video-episode-1.mp4": ([[0, 0, 10, 10], [1, 1, 11, 11], [2, 2, 12, 12]], 10),
    }


@both_executors
def test_registered_environments_work(executor):
    maker = partial(gymnasium.make, "CartPole-v1", max_episode_steps=5)
    oracle = SyncVectorEnv([maker] * 4, autoreset_mode="SameStep")
    with closing(executor(maker, 2, 2)) as envs, closing(oracle):
        assert equal(envs.reset(seed=0), oracle.reset(seed=0))
        for _ in range(12):
            actions = np.array([0, 1, 1, 0])
            given = copy.deepcopy(actions)
            assert equal(envs.step(actions), oracle.step(actions))
            assert equal(actions, given)
