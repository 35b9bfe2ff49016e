"""Steps and resets: which actions are taken, what is refused, and when."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from tests.fakes import counting_makers, equal
from tests.vector.fakes import BoxCountingEnv, WordEnv, all_modes, both_executors, exact
from tests.vector.faults import USES, break_a_leg, fragile_makers

NO_ACTIONS = np.zeros(4, dtype=np.int64)


@both_executors
def test_a_step_may_be_begun_and_ended_apart_and_nothing_else_be_done_meanwhile(executor):
    makers = fragile_makers()
    with closing(executor(makers, 2, 2)) as envs, closing(executor(makers, 2, 2)) as together:
        envs.reset(seed=0)
        together.reset(seed=0)
        for _ in range(4):
            with pytest.raises(RuntimeError, match=r"step_wait\(\) needs a step_async\(\) before"):
                envs.step_wait()
            assert envs.step_async(NO_ACTIONS) is None
            for use, *given in USES:
                message = rf"^{use}(_async)?\(\) while a step is under way: call step_wait"
                with pytest.raises(RuntimeError, match=message):
                    getattr(envs, use)(*given)
            assert equal(envs.step_wait(), together.step(NO_ACTIONS))


SHAPE = "expected actions of shape (4, 2), a row of (2,) for each of environments 0 to 3; "
NUMBERS = "actions must be numbers of at most 8 bytes, got "


@both_executors
@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((3, 2)), SHAPE + "got (3, 2), of which rows [3] do not fit"),
        (np.zeros((5, 2)), SHAPE + "got (5, 2), of which rows [4] do not fit"),
        (
            [[0, 0], [0, 0, 0], [0, 0], [0]],
            SHAPE + "got [(2,), (3,), (2,), (1,)], of which rows [1, 3] do",
        ),
        (np.array(0.5), SHAPE + "got (), of which rows [0, 1, 2, 3] do not fit"),
        (None, SHAPE + "got NoneType"),
        (dict.fromkeys("abcd"), SHAPE + "got dict"),
        (np.zeros((4, 2), object), NUMBERS + "object"),
        ([["a", "b"]] * 4, NUMBERS + "<U1"),
        (np.zeros((4, 2), complex), NUMBERS + "complex128"),
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
        envs.reset(seed=0)
        with pytest.raises(ValueError, match="^expected actions .*" + message):
            envs.step(actions)
        assert envs.get_attr("steps") == (0, 0)


@both_executors
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16])
def test_actions_reach_the_environments_with_their_dtype_and_never_change(executor, dtype):
    with closing(executor(BoxCountingEnv, 2, 2)) as envs:
        envs.reset(seed=0)
        actions = np.arange(8).reshape(4, 2).astype(dtype)
        expected = actions.tolist()
        envs.step(actions)
        envs.step(actions.astype(np.float64) + 0.5)
        actions[...] = 99
        envs.step(actions)
        for row, kept in zip(expected, envs.get_attr("actions"), strict=True):
            assert [action.dtype for action in kept] == [dtype, np.float64, dtype]
            assert [action.tolist() for action in kept] == [
                row,
                [x + 0.5 for x in row],
                [99, 99],
            ]


# When a reset is due.


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
def test_a_step_before_the_first_reset_that_did_not_fail_is_refused(executor, mode):
    with closing(executor(fragile_makers(fault=break_a_leg), 4, autoreset_mode=mode)) as envs:
        for _ in range(2):
            with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
                envs.step(NO_ACTIONS)
            with pytest.raises(ResetNeeded, match="reset every environment before some of them"):
                envs.reset(options={"reset_mask": np.array([True, False, False, False])})
            with pytest.raises(ZeroDivisionError, match=r"environment [0-3]: a leg"):
                envs.reset(options={"fault": True})
        envs.reset(options={"reset_mask": np.ones(4, dtype=np.bool_)})
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4
