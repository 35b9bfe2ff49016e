"""The arguments of executors: constructors, tasks, seeds, options, attributes."""

import os
from contextlib import closing
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.wrappers import TimeLimit

from mtwrappers import MetaIterativeEnvExecutor, as_vector
from mtwrappers.common.errors import full_message
from tests.fakes import (
    Constructors,
    CountingEnv,
    CountingMTEnv,
    CountingSetTaskEnv,
    counting_makers,
)
from tests.vector.fakes import HalfReward, both_executors
from tests.vector.faults import METHOD_CALLS, NO_ACTIONS, fragile_makers


def reset_and_count_from(envs):
    """Resets environments, and returns the number from which each of them counts."""
    return envs.reset(seed=0)[0][:, 0].tolist()


# Constructors.


@both_executors
@pytest.mark.parametrize(
    ("env_fns", "sizes", "expected"),
    [
        (partial(CountingEnv, first=7), (2, 3), [7] * 6),
        (counting_makers(2), (2, 3), [0, 0, 0, 100, 100, 100]),
        (counting_makers(6), (2, 3), [0, 100, 200, 300, 400, 500]),
        (tuple(counting_makers(3)), (3,), [0, 100, 200]),
        ([lambda: CountingEnv(first=5), lambda: CountingEnv(first=6)], (2,), [5, 6]),
    ],
    ids=["a constructor", "one per task", "one per environment", "a tuple", "lambdas"],
)
def test_constructors_become_environments_task_by_task(executor, env_fns, sizes, expected):
    with closing(executor(env_fns, *sizes)) as envs:
        assert (envs.meta_batch_size, envs.envs_per_task) == (*sizes, 1)[:2]
        assert envs.num_envs == len(expected)
        assert reset_and_count_from(envs) == expected


@both_executors
@pytest.mark.parametrize("seed", [None, 5])
def test_copies_of_an_environment_have_streams_of_their_own_and_leave_it_alone(executor, seed):
    draws = []
    for _ in range(2):
        env = CountingEnv(first=30)
        if seed is not None:
            env.reset(seed=seed)
        state = env.np_random.bit_generator.state if seed is not None else None
        with closing(executor(env, 4, 3)) as envs:
            obs, infos = envs.reset()
            draws.append([infos["draw"].tolist(), envs.reset()[1]["draw"].tolist()])
            assert obs[:, 0].tolist() == [30] * 12
            envs.step([0] * 12)
        assert seed is None or env.np_random.bit_generator.state == state
        assert (len(env.seeds), env.actions, env.closed) == (int(seed is not None), [], False)
    assert all(len(set(row)) == 12 for run in draws for row in run)
    # They repeat where the environment was seeded.
    assert (draws[0] == draws[1]) is (seed is not None)


def test_the_environments_are_closed_when_one_cannot_be_built():
    constructors = Constructors(3, {2: RuntimeError("no bricks")})
    with pytest.raises(RuntimeError, match="no bricks\nthe constructor of environment 2 failed"):
        MetaIterativeEnvExecutor(constructors.makers, 3)
    assert [env.closed for env in constructors.envs.values()] == [True, True]


@pytest.mark.parametrize(
    "env_fns",
    [
        "CartPole-v1",
        "gymnasium:CartPole-v1",
        gymnasium.spec("CartPole-v1"),
        ("CartPole-v1",),
        partial(gymnasium.make, "CartPole-v1"),
    ],
    ids=["id", "module and id", "spec", "list", "function"],
)
def test_an_environment_may_be_said_in_several_ways(env_fns):
    with closing(as_vector(env_fns, 2)) as envs:
        assert envs.get_attr("spec")[1].id == "CartPole-v1"
        assert envs.reset(seed=0)[0].shape == (2, 4)


# Tasks.


@both_executors
def test_each_task_goes_to_its_own_environments(executor):
    with closing(executor(partial(CountingSetTaskEnv, 2), 3, 2)) as envs:
        envs.reset(seed=0)
        envs.set_tasks([{"first": 10}, {"first": 20}, {"first": 30}])
        with pytest.raises(ResetNeeded, match=r"before step\(\): .* due .* after set_tasks"):
            envs.step([0] * 6)
        with pytest.raises(ResetNeeded, match="reset every environment before some of them"):
            envs.reset(options={"reset_mask": np.array([True, False] * 3)})
        assert reset_and_count_from(envs) == [10, 10, 20, 20, 30, 30]
        assert envs.step([0] * 6)[0][:, 0].tolist() == [11, 11, 21, 21, 31, 31]
        # An autoreset stays with the task.
        assert envs.step([0] * 6)[0][:, 0].tolist() == [10, 10, 20, 20, 30, 30]


class KeyEnv(CountingSetTaskEnv):
    """Reads a task without looking at it first."""

    def set_task(self, task):
        super().set_task({"first": task["first"]})


class UnprintableArgument:
    def __repr__(self):
        raise RuntimeError("it cannot be printed")


class PickyEnv(CountingSetTaskEnv):
    def configure(self, argument):
        raise KeyError("the reason")


@both_executors
def test_an_error_is_raised_even_if_an_argument_of_the_call_cannot_be_printed(executor):
    with closing(executor(PickyEnv, 2)) as envs, pytest.raises(KeyError, match="the reason"):
        envs.call("configure", UnprintableArgument())


@both_executors
@pytest.mark.parametrize("journal", [False, True])
def test_a_task_that_an_environment_does_not_understand_is_named(executor, journal):
    with closing(executor(KeyEnv, 2, journal=journal)) as envs:
        envs.reset(seed=0)
        with pytest.raises(KeyError) as caught:
            envs.set_tasks([{"first": 10}, {"frist": 20}])
        assert full_message(caught.value) == "environment 1: set_task({'frist': 20}): 'first'"
        assert caught.value.args == ("first",)
        with pytest.raises(KeyError) as caught:
            envs.call("set_task", task={"frist": 20})
        assert full_message(caught.value) == "environment 0: set_task({'frist': 20}): 'first'"
    envs = executor(CountingSetTaskEnv, 2)
    with closing(envs), pytest.raises(ValueError, match="a task must be") as caught:
        envs.set_tasks([{"first": 10}, {"frist": 20}])  # whose message has it
    assert full_message(caught.value) == (
        "environment 1: a task must be a dict with the key 'first', got {'frist': 20}"
    )


@both_executors
def test_task_states_are_set_where_there_is_no_set_task(executor):
    with closing(executor(CountingMTEnv, 3)) as envs:
        envs.set_tasks([0, 1, 2])
        assert envs.reset(seed=0)[0]["task_obs"].tolist() == [0, 1, 2]
        assert envs.step([0, 0, 0])[2].tolist() == [True, False, False]


# Seeds and options.


@both_executors
def test_seeds_reach_their_environments_and_no_others(executor):
    with closing(executor(counting_makers(3), 3)) as envs:
        for seed in np.array(5), np.int64(0), None, [8, None, 8], (7, 6, 5), np.array([4, 9, 4]):
            envs.reset(seed=seed)
        envs.reset(seed=40, options={"reset_mask": np.array([False, True, True])})
        first, second, third = envs.get_attr("seeds")
        assert first == [5, 0, None, 8, 7, 4]
        assert second == [6, 1, None, None, 6, 9, 41]
        assert third == [7, 2, None, 8, 5, 4, 42]
        assert envs.np_random_seed == (4, 41, 42)
        for seed, rng in zip((4, 41, 42), envs.np_random, strict=True):
            expected = np.random.default_rng(seed)
            expected.integers(2**31)
            assert rng.bit_generator.state == expected.bit_generator.state


@both_executors
def test_options_reach_every_environment_and_stay_as_they_were(executor):
    with closing(executor(counting_makers(3), 3)) as envs:
        env_options = [{"goal": 1}, None, {"goal": 2, "start": 5}]
        mask = np.array([False, True, True])
        options = {"reset_mask": mask, "goal": 0, "env_options": tuple(env_options)}
        envs.reset(options={"goal": 3})
        envs.reset(seed=0, options={"env_options": env_options})
        envs.reset(options=options)
        assert envs.get_attr("options") == (
            [{"goal": 3}, {"goal": 1}],
            [{"goal": 3}, {}, {"goal": 0}],
            [{"goal": 3}, *[{"goal": 2, "start": 5}] * 2],
        )
        assert options == {"reset_mask": mask, "goal": 0, "env_options": tuple(env_options)}
        assert mask.tolist() == [False, True, True]


# Attributes and methods, through the environments' wrappers.


def make_limited(**kwargs):
    """Makes an environment with a wrapper around it."""
    return TimeLimit(CountingEnv(**kwargs), 9)


def read_actions(env, limit):
    """Is passed to `call`, and gets the outermost wrapper of an environment."""
    return type(env).__name__, env.get_wrapper_attr("actions")[:limit]


@both_executors
def test_call_runs_methods_and_functions_where_the_environments_are(executor):
    with closing(executor([make_limited, partial(make_limited, first=100)], 2)) as envs:
        assert envs.call("set_wrapper_attr", "length", value=2) == (True, True)
        envs.reset(seed=0)
        assert envs.step([1, 0])[2].tolist() == [False] * 2
        assert envs.step([1, 0])[2].tolist() == [True] * 2
        assert envs.call(read_actions, 1) == (("TimeLimit", [1]), ("TimeLimit", [0]))
        assert envs.call_some([1], read_actions, limit=1) == [("TimeLimit", [0])]
        assert envs.call("first") == envs.get_attr("first") == (0, 100)
        envs.set_attr("first", (4, 5))
        assert envs.get_attr("first") == (4, 5)
        envs.set_attr("first", np.array([1, 2]))  # one value for all
        assert [value.tolist() for value in envs.get_attr("first")] == [[1, 2]] * 2


@both_executors
def test_an_attribute_that_no_environment_has_is_set_with_a_warning(executor):
    with closing(executor([make_limited, partial(make_limited, first=100)], 2)) as envs:
        message = r"a new attribute 'lenght', which no environment had.*: did you mean 'length'\?$"
        with pytest.warns(UserWarning, match=message) as caught:
            envs.set_attr("lenght", 5)
        assert caught[0].filename == __file__
        assert envs.get_attr("lenght") == (5, 5) != envs.get_attr("length")
        with pytest.warns(UserWarning, match="'qqq', which .*: to add it on purpose, define it in"):
            envs.set_attr("qqq", 5)
        envs.set_attr("qqq", 6)  # by now it is known
        assert envs.get_attr("qqq") == (6, 6)


@both_executors
def test_an_attribute_that_some_environments_have_is_set_without_a_warning(executor):
    with closing(executor([CountingEnv, FileOnCloseEnv], 2)) as envs:
        envs.set_attr("path", Path("unused"))
        assert envs.get_attr("path") == (Path("unused"),) * 2
        envs.set_attr("path", [None, Path(os.devnull)])  # which can be touched


# Wrappers of ours, and the end.


@both_executors
def test_a_meta_vector_wrapper_forwards_everything(executor):
    envs = executor(fragile_makers(length=2), 2, 2, autoreset_mode="NextStep")
    wrapped = HalfReward(HalfReward(envs))
    assert wrapped.unwrapped is envs
    for name in "autoreset_mode", "meta_batch_size", "envs_per_task", "observation_space":
        assert getattr(wrapped, name) == getattr(envs, name)
    wrapped.set_tasks([10, 20])
    assert reset_and_count_from(wrapped) == [10, 10, 20, 20]
    assert wrapped.step(NO_ACTIONS)[1].tolist() == [0.25] * 4
    wrapped.step_async(NO_ACTIONS)
    assert wrapped.step_wait()[1].tolist() == [0.5] * 4
    assert wrapped.call("run_fault") == ("no fault",) * 4
    wrapped.set_attr("first", [1, 2, 3, 4])
    assert wrapped.get_attr("first") == (1, 2, 3, 4)
    wrapped.close()
    assert envs.closed is True
    with pytest.raises(ClosedEnvironmentError, match="was closed"):
        wrapped.step(NO_ACTIONS)


class FileOnCloseEnv(CountingEnv):
    path = None

    def close(self):
        self.path.touch()


@both_executors
def test_closing_in_the_middle_of_a_step_closes_the_environments_and_nothing_works_after_it(
    executor, tmp_path
):
    envs = executor(FileOnCloseEnv, 2, 2)
    assert envs.closed is False
    envs.set_attr("path", [tmp_path / str(i) for i in range(4)])
    envs.reset(seed=0)
    envs.step_async(NO_ACTIONS)
    envs.close()
    envs.close()
    assert envs.closed is True
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]
    for method, *args in (*METHOD_CALLS, ("step_wait",)):
        with pytest.raises(ClosedEnvironmentError, match=f"{type(envs).__name__} was closed"):
            getattr(envs, method)(*args)


class OptionPoppingEnv(CountingEnv):
    """Takes the number to count from out of its options, and changes a list in them."""

    def reset(self, *, seed=None, options=None):
        self.first = options.pop("first")
        options["visited"].append(self.first)
        return super().reset(seed=seed)


@pytest.mark.parametrize("settings", [{}, {"journal": True}])
@both_executors
def test_an_environment_that_changes_its_options_changes_nobody_elses(executor, settings):
    options = {"first": 7, "visited": []}
    with closing(executor(OptionPoppingEnv, 4, **settings)) as envs:
        assert envs.reset(options=options)[0][:, 0].tolist() == [7] * 4
    assert options == {"first": 7, "visited": []}
