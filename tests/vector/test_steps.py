"""Steps and their actions: what is taken, what is refused, and when."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError

from tests.fakes import counting_makers, equal
from tests.vector.fakes import BoxCountingEnv, WordEnv, both_executors, exact

NO_ACTIONS = np.zeros(4, dtype=np.int64)


def counting(n=4, **kwargs):
    return counting_makers(n, **{"obs_size": 1, **kwargs})


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
            "set_tasks": lambda: envs.set_tasks([1, 2]),
        }.items():
            message = rf"^{what}\(\) while a step is under way: call step_wait\(\) first"
            with pytest.raises(RuntimeError, match=message):
                forbidden()
        assert envs.step_wait()[1].tolist() == [1.0] * 4
        with pytest.raises(RuntimeError, match=r"step_wait\(\) needs a step_async\(\) before it"):
            envs.step_wait()
        assert envs.step(NO_ACTIONS)[1].tolist() == [2.0] * 4


@both_executors
def test_a_step_that_is_under_way_does_not_keep_the_executor_from_closing(executor):
    envs = executor(counting(), 2, 2)
    envs.reset(seed=0)
    envs.step_async(NO_ACTIONS)
    envs.close()
    with pytest.raises(ClosedEnvironmentError, match="was closed"):
        envs.step_wait()


SHAPE = "expected actions of shape (4, 2), a row of (2,) for each of environments 0 to 3; "


@both_executors
@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((3, 2)), SHAPE + "got (3, 2), none for environments [3]"),
        (np.zeros((5, 2)), SHAPE + "got (5, 2)"),
        (np.zeros(4), SHAPE + "environments [0, 1, 2, 3] got ()"),
        ([[0, 0], [0, 0, 0], [0, 0], [0]], SHAPE + "environments [1, 3] got (1,), (3,)"),
        (0.5, SHAPE + "got ()"),
        (None, SHAPE + "got NoneType"),
        (dict.fromkeys("abcd"), SHAPE + "got dict"),
        (np.zeros((4, 2), object), "actions must be numbers of at most 8 bytes, got object"),
        ([["a", "b"]] * 4, "actions must be numbers of at most 8 bytes, got <U1"),
        (np.zeros((4, 2), complex), "actions must be numbers of at most 8 bytes, got complex128"),
        (
            np.array([[0, 0], [np.nan, 0], [0, 0], [0, np.nan]]),
            "actions of environments [1, 3] are NaN; nothing was stepped",
        ),
    ],
)
def test_actions_that_do_not_fit_are_refused_and_nothing_is_stepped(executor, actions, message):
    with closing(executor(BoxCountingEnv, 2, 2)) as envs:
        envs.reset(seed=0)
        with pytest.raises(ValueError, match=exact(message)):
            envs.step(actions)
        assert envs.get_attr("actions") == ([], [], [], [])
        assert envs.step(np.zeros((4, 2), np.float32))[1].tolist() == [1.0] * 4


@both_executors
@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ((np.array([0]), np.zeros((1, 2), np.float32)), "for environments 0 to 1, got 1"),
        (None, "got None"),
        (5, "got 5"),
    ],
)
def test_tuple_actions_that_do_not_fit_are_refused_too(executor, actions, message):
    with closing(executor(partial(WordEnv, 5), 2)) as envs:
        obs, _ = envs.reset(seed=0)
        with pytest.raises(ValueError, match="^expected actions .*" + message):
            envs.step(actions)
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
