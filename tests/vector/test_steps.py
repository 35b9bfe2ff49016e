"""What goes into steps and resets, and what comes out: new for the caller, or refused."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError, ResetNeeded
from gymnasium.spaces import Box, Dict

from tests.fakes import CountingEnv, equal
from tests.vector.fakes import (
    BoxCountingEnv,
    WordEnv,
    all_modes,
    both_executors,
    exact,
)
from tests.vector.faults import METHOD_CALLS, NO_ACTIONS, break_a_leg, fragile_makers


@both_executors
def test_a_step_may_be_begun_and_ended_apart_and_nothing_else_be_done_meanwhile(executor):
    makers = fragile_makers()
    with closing(executor(makers, 2, 2)) as envs, closing(executor(makers, 2, 2)) as oracle:
        envs.reset(seed=0)
        oracle.reset(seed=0)
        for _ in range(4):
            with pytest.raises(NoAsyncCallError, match=r"step_wait\(\) needs a step_async"):
                envs.step_wait()
            assert envs.step_async(NO_ACTIONS) is None
            for method, *args in METHOD_CALLS:
                message = r"\(\) while a step is under way: call step_wait"
                with pytest.raises(AlreadyPendingCallError, match=message):
                    getattr(envs, method)(*args)
            assert equal(envs.step_wait(), oracle.step(NO_ACTIONS))


SHAPE = "expected actions of shape (4, 2) for environments 0 to 3, got "
NUMBERS = "actions must be numbers of at most 8 bytes, got dtype "


@both_executors
@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((3, 2)), SHAPE + "ndarray of shape (3, 2)"),
        ([[0, 0], [0, 0, 0], [0, 0], [0]], SHAPE + "list of different lengths"),
        (None, SHAPE + "NoneType of shape ()"),
        (np.zeros((4, 2), object), NUMBERS + "object"),
        (
            np.array([[0, 0], [np.nan, 0], [0, 0], [0, np.nan]]),
            "actions of environments [1, 3] are NaN; nothing was stepped: check the policy's "
            "observations and its learning rate",
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
def test_the_only_environment_is_named_without_a_range(executor):
    message = "expected actions of shape (1, 2) for environment 0, got list of shape (2,)"
    with closing(executor(BoxCountingEnv, 1)) as envs:
        envs.reset(seed=0)
        with pytest.raises(ValueError, match=exact(message)):
            envs.step([0, 0])


@both_executors
def test_tuple_actions_that_do_not_fit_are_refused_too(executor):
    batch_of_one = (np.array([0]), np.zeros((1, 2), np.float32))
    with closing(executor(partial(WordEnv, 5), 2)) as envs:
        envs.reset(seed=0)
        for actions, message in (
            (batch_of_one, "for environments 0 to 1, got 1"),
            (None, "got None"),
        ):
            with pytest.raises(ValueError, match="^expected actions .*" + message):
                envs.step(actions)
        assert envs.get_attr("steps") == (0, 0)


@both_executors
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16])
def test_actions_reach_the_environments_with_their_dtype_and_never_change(executor, dtype):
    with closing(executor(BoxCountingEnv, 2, 2)) as envs:
        envs.reset(seed=0)
        actions = np.arange(8).reshape(4, 2).astype(dtype)
        rows = actions.tolist()
        envs.step(actions)
        envs.step(actions.astype(np.float64) + 0.5)
        actions[...] = 99
        envs.step(actions)
        for row, env_actions in zip(rows, envs.get_attr("actions"), strict=True):
            assert [action.dtype for action in env_actions] == [dtype, np.float64, dtype]
            expected = [row, [x + 0.5 for x in row], [99, 99]]
            assert [action.tolist() for action in env_actions] == expected


class DictCountingEnv(CountingEnv):
    """A `CountingEnv` whose actions are a dict."""

    def __init__(self):
        super().__init__(9)
        self.action_space = Dict({"push": Box(-1, 1, (2,), np.float64)})


@both_executors
def test_environments_keep_nested_actions_that_the_caller_changes_later(executor):
    with closing(executor(DictCountingEnv, 2)) as envs:
        envs.reset(seed=0)
        actions = {"push": np.zeros((2, 2))}
        for number in (1.0, 2.0):
            actions["push"][...] = number
            envs.step(actions)
        for env_actions in envs.get_attr("actions"):
            assert [action["push"].tolist() for action in env_actions] == [[1.0, 1.0], [2.0, 2.0]]


@both_executors
def test_actions_reach_the_environments_in_c_order(executor):
    with closing(executor(BoxCountingEnv, 4)) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros((2, 4)).T)
        assert all(action.flags.c_contiguous for [action] in envs.get_attr("actions"))


# When a reset is due.


@both_executors
@all_modes
def test_a_step_before_the_first_reset_that_did_not_fail_is_refused(executor, mode):
    with closing(executor(fragile_makers(fault=break_a_leg), 4, autoreset_mode=mode)) as envs:
        for _ in range(2):
            with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
                envs.step(NO_ACTIONS)
            with pytest.raises(ResetNeeded, match="reset every environment before some of them"):
                envs.reset(options={"reset_mask": np.array([True, False, False, False])})
            with pytest.raises(ZeroDivisionError, match=r"^a leg\nenvironment [0-3]$"):
                envs.reset(options={"fault": True})
        envs.reset(options={"reset_mask": np.ones(4, dtype=np.bool_)})
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4


# What environments return.


class ReusingEnv(CountingEnv):
    """Writes every observation and info into the same arrays."""

    def __init__(self, length):
        super().__init__(length)
        self.obs, self.info = np.zeros(2), {"array": np.zeros(1), "parts": [np.zeros(1)]}

    def _obs(self):
        self.obs[:] = self.steps
        return self.obs

    def _info(self):
        self.info["array"][:] = self.info["parts"][0][:] = self.steps
        return self.info


@both_executors
def test_the_last_observation_of_an_environment_that_reuses_its_arrays_is_kept(executor):
    with closing(executor([partial(ReusingEnv, 2), partial(ReusingEnv, 3)], 2)) as envs:
        envs.reset(seed=0)
        first = envs.step([0, 0])
        infos = envs.step([0, 0])[4]
        assert infos["final_obs"][0].tolist() == [2, 2]
        assert infos["final_info"]["array"][0].tolist() == [2]
        assert infos["final_info"]["parts"][0][0].tolist() == [2]
        assert first[0].tolist() == [[1, 1]] * 2


class OddEnv(CountingEnv):
    """Puts ``odd_value`` at ``position`` in the result of its ``method``, or instead of all of it.

    Its "last" step, which ends an episode, is the third.
    """

    method = position = odd_value = None

    def step(self, action):
        return self._changed("last" if self.steps == 2 else "step", super().step(action))

    def reset(self, **kwargs):
        return self._changed("reset", super().reset(**kwargs))

    def _changed(self, name, result):
        if self.method != name:
            return result
        if self.position is None:
            return self.odd_value
        return *result[: self.position], self.odd_value, *result[self.position + 1 :]

    def _info(self):
        return {"task_name": "odd"}


FLOATS = "expected an observation of shape (2,) and dtype float64, got "
STEP = "expected (observation, reward, terminated, truncated, info) from step(), with a number "
FOUR = "as reward, got (1, 0.0, False, {}); an environment of the old Gym needs the class"
RESET = "expected (observation, info dict) from reset(), got "
INFO = "expected an info that is a dict, got "


@both_executors
@pytest.mark.parametrize(
    ("method", "position", "odd_value", "error", "message"),
    [
        ("step", 0, "abc", ValueError, FLOATS + "'abc' (str)"),
        ("step", None, None, TypeError, STEP + "as reward, got None"),
        ("step", None, (1, 0.0, False, {}), TypeError, STEP + FOUR),
        ("step", 1, None, TypeError, "a number, got None"),
        ("step", 2, None, TypeError, "expected terminated to be a bool, got None"),
        ("step", 4, None, TypeError, INFO + "None"),
        ("last", 4, None, TypeError, INFO + "None"),
        ("reset", 1, None, TypeError, RESET + "(array([0., 0.]), None)"),
        ("reset", None, 5, TypeError, RESET + "5; an environment of the old Gym needs the class"),
        ("reset", 0, 5, ValueError, FLOATS + "5 of shape () and dtype int64"),
    ],
)
def test_a_result_that_does_not_fit_names_its_environment(
    executor, method, position, odd_value, error, message
):
    with closing(executor(OddEnv, 3)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0, 0])
        envs.set_attr("position", position)
        envs.set_attr("odd_value", [odd_value] * 3)
        envs.set_attr("method", [None, method, None])
        if method == "last":
            envs.step([0, 0, 0])
        with pytest.raises(error, match="^environment 1, task 'odd': .*" + exact(message)):
            envs.reset() if method == "reset" else envs.step([0, 0, 0])
        with pytest.raises(ResetNeeded, match="call reset"):
            envs.step([0, 0, 0])
        envs.set_attr("method", None)
        envs.reset(seed=0)
        assert envs.step([0, 0, 0])[1].tolist() == [1, 1, 1]
