"""Seeds, options, tasks, actions, attributes: what both executors do with what they are told."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.wrappers import TimeLimit

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import (
    Constructors,
    CountingEnv,
    CountingMTEnv,
    CountingSetTaskEnv,
    counting_makers,
)
from tests.vector.fakes import both_executors, exact
from tests.vector.faults import fragile_makers

NO_ACTIONS = np.zeros(4, dtype=np.int64)


def counting(n=4, **kwargs):
    return counting_makers(n, **{"obs_size": 1, **kwargs})


def firsts(envs):
    """What each environment of one number observes first."""
    return envs.reset(seed=0)[0][:, 0].tolist()


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
@pytest.mark.parametrize(
    ("tasks", "got"),
    [([], "0"), ([{}] * 3, "3"), ("ab", "'ab'"), (5, "5"), ({0: {}, 1: {}}, "{0: {}, 1: {}}")],
)
def test_another_number_of_tasks_is_refused_with_the_sizes(executor, tasks, got):
    with closing(executor(CountingSetTaskEnv, 2, 2)) as envs:
        envs.set_tasks([{"first": 10}, {"first": 20}])
        message = f"expected 2 tasks, one for each group of 2 environments, got {got}"
        with pytest.raises(ValueError, match=exact(message)):
            envs.set_tasks(tasks)
        assert firsts(envs) == [10, 10, 20, 20]


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


def masked(mask):
    return {"options": {"reset_mask": mask}}


@both_executors
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"seed": [1, 2]}, ValueError, "expected 3 seeds, one per environment, got 2"),
        ({"seed": -1}, ValueError, "a seed must be zero or greater, got -1"),
        ({"seed": [1, 2, -3]}, ValueError, "a seed must be zero or greater, got -3"),
        ({"seed": 1.0}, TypeError, "a seed must be an integer, got 1.0"),
        ({"seed": True}, TypeError, "a seed must be an integer, got True"),
        ({"seed": "1"}, TypeError, "a seed must be an integer, got '1'"),
        ({"seed": [1, 2.5, 3]}, TypeError, "a seed must be an integer, got 2.5"),
        ({"options": "x"}, TypeError, "options must be a dict or None, got 'x'"),
        (masked([True] * 3), TypeError, "reset_mask must be a bool array, got list"),
        (masked(np.ones(3, int)), TypeError, "reset_mask must be a bool array, got int64 array"),
        (masked(None), TypeError, "reset_mask must be a bool array, got NoneType"),
        (masked(np.array([True])), ValueError, "must have shape (3,), got (1,)"),
        (masked(np.zeros(3, bool)), ValueError, "must name at least one environment to reset"),
    ],
)
def test_bad_arguments_of_a_reset_are_refused_and_nothing_is_reset(
    executor, arguments, error, message
):
    with closing(executor(counting(3), 3)) as envs:
        with pytest.raises(error, match=exact(message)):
            envs.reset(**arguments)
        assert envs.get_attr("seeds") == ([], [], [])


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
def test_set_attr_takes_a_value_for_all_or_a_list_of_one_per_environment(executor):
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
