"""What a journal keeps: all that matters, in order, and nothing that others can still change."""

import itertools
from contextlib import closing, nullcontext
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict

from mtwrappers import MetaIterativeEnvExecutor, PointGoalEnv, WorkerDiedError
from mtwrappers.common.errors import NotDeterministicError
from mtwrappers.vector import journal
from mtwrappers.vector.journal import fingerprint
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import BoxCountingEnv, both_executors
from tests.vector.faults import (
    NO_ACTIONS,
    FragileEnv,
    break_a_leg,
    fragile_makers,
    kill,
    loses_workers,
    once,
    recovering,
    unless_first,
)
from tests.vector.processes import needs_proc

pytestmark = [needs_proc, loses_workers]
iterative = partial(MetaIterativeEnvExecutor, meta_batch_size=2, envs_per_task=2, journal=True)
STILL = np.zeros((4, 2))


# Calls.


def set_tasks_and_fail(envs, rows):
    envs.call("set_task", 500)
    raise KeyError("of the function")


def test_what_a_function_of_blocks_has_called_before_it_raised_is_called_again():
    with closing(recovering()) as envs:
        envs.reset(seed=0)
        with pytest.raises(KeyError, match="of the function"):
            envs.map_blocks(set_tasks_and_fail)
        with pytest.raises(ResetNeeded):
            envs.step(NO_ACTIONS)
        assert envs.reset()[0][:, 0].tolist() == [500] * 4
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [501] * 4


def test_a_call_that_could_not_be_made_again_is_refused_before_it_is_made():
    with closing(iterative(FragileEnv)) as envs:
        envs.reset(seed=0)
        with pytest.raises(TypeError, match=r"<lambda>.*pass the name of a method"):
            envs.call(lambda env: env.set_task(3))
        script = {"__name__": "not_a_module"}
        exec("def set_three(env): env.set_task(3)", script)
        with pytest.raises(TypeError, match=r"set_three.*cannot be imported by its name"):
            envs.call(script["set_three"])
        with pytest.raises(TypeError, match=r"arguments of 'set_task' cannot be copied: .*gener"):
            envs.call("set_task", (i for i in range(3)))
        assert envs.get_attr("first") == (0,) * 4
    with closing(MetaIterativeEnvExecutor(FragileEnv, 2)) as envs:
        envs.call(lambda env: env.set_task(3))  # without a journal, anything goes
        assert envs.get_attr("first") == (3, 3)


@pytest.mark.parametrize(
    ("wrap_fault", "message"),
    [
        (unless_first, "succeeded, and raises when it is replayed in a new environment: ZeroDiv"),
        (once, "raised, and does not when it is replayed in a new environment"),
    ],
)
def test_a_call_that_ends_otherwise_when_it_is_made_again_is_named(wrap_fault, message, tmp_path):
    makers = fragile_makers(fault=partial(wrap_fault, tmp_path / "called", break_a_leg))
    with closing(recovering(makers)) as envs:
        envs.reset(seed=0)
        with pytest.raises(ZeroDivisionError) if wrap_fault is once else nullcontext():
            envs.call_some([2], "run_fault")
        kill(envs, 1)
        with pytest.raises(WorkerDiedError, match=rf"environment 2.*: .*run_fault\(\) {message}"):
            envs.reset()


# Arrays that the caller or an environment changes after they were passed.


class ReusingEnv(gymnasium.Env):
    """Scales its actions and options in place, and hands out and takes its state itself."""

    action_space = Dict({"a": Box(-9, 9, (2,), np.float64)})
    observation_space = Box(-99, 99, (2,), np.float64)

    def __init__(self, plain=False):
        self.total, self.began = np.zeros(2), np.zeros(2)
        if plain:
            self.action_space = self.action_space["a"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.began += 1
        if options:
            self.began += options["by"]
            options["by"] *= 0
        self.total = self.began.copy()
        return self.total.copy(), {}

    def step(self, action):
        action = action["a"] if isinstance(action, dict) else action
        action *= 2
        self.total += action
        return self.total.copy(), 0.0, False, False, {}

    def get_state(self):
        return {"rng": self.np_random.bit_generator.state, "began": self.began}

    def set_state(self, state):
        self.np_random.bit_generator.state = state["rng"]
        self.began = state["began"]


def play_with_reused_arguments(envs, plain):
    """Resets and steps with objects that change as soon as they were used."""
    buffer, options = np.ones((2, 2)), {"by": np.array([3.0, 4.0])}
    envs.reset(seed=0)
    envs.reset(options={"by": np.ones(2)})
    envs.reset(options=options)
    options["by"] = np.full(2, 50.0)
    for i in range(3):
        buffer[...] = i + 1
        envs.step(buffer if plain else {"a": buffer})
    buffer[...] = 9


@pytest.mark.parametrize("plain", [False, True], ids=["dict", "array"])
@both_executors
def test_a_journal_and_a_state_of_it_are_copies(executor, plain):
    make = partial(ReusingEnv, plain)
    still_actions = np.zeros((2, 2)) if plain else {"a": np.zeros((2, 2))}
    with (
        closing(executor(make, 2, journal=True)) as envs,
        closing(executor(make, 2, journal=True)) as restored,
    ):
        play_with_reused_arguments(envs, plain)
        state = envs.get_state()
        envs.get_state()["logs"][0]["state"][0][2]["began"] += 1
        assert equal(envs.get_state(), state)
        between_state = envs.get_state(between_episodes=True)
        expected = envs.step(still_actions)[0], envs.reset(seed=4)[0]
        for _ in range(2):
            restored.set_state(state)
            assert equal((restored.step(still_actions)[0], restored.reset(seed=4)[0]), expected)
            restored.set_state(between_state)
            assert equal(restored.reset(seed=4)[0], expected[1])


def test_actions_keep_the_dtypes_in_which_they_came():
    with closing(iterative(partial(BoxCountingEnv, 9))) as envs:
        envs.reset(seed=0)
        dtypes = [np.dtype(dtype) for dtype in ("i8", "i1", "i1", "i8", ">f4", ">f4")]
        for dtype in dtypes:
            envs.step(STILL.astype(dtype))
        envs.set_state(envs.get_state())
        assert [action.dtype for action in envs.get_attr("actions")[0]] == dtypes


def test_a_long_episode_is_replayed_and_takes_one_array(monkeypatch):
    monkeypatch.setattr(journal, "_PACK_AFTER", 5)
    with closing(iterative(partial(BoxCountingEnv, 99))) as envs:
        envs.reset(seed=0)
        for t in range(23):
            envs.step(np.full((4, 2), t / 100))
        state = envs.get_state()
        assert [array.shape for array in state["logs"][0]["actions"]] == [(23, 2)]
        envs.set_state(state)
        assert [action[0] for action in envs.get_attr("actions")[3]] == [t / 100 for t in range(23)]
        assert len(envs._pool.logs[0].entries) < 12


# A replay compares all that environments have returned.


class ChangingEnv(CountingEnv):
    """Lets a function change its second step, by the number of environments made before it."""

    numbers = itertools.count()

    def __init__(self, change):
        super().__init__(length=9)
        self.change, self.number = change, next(self.numbers)

    def step(self, action):
        result = super().step(action)
        return self.change(self.number, *result) if self.steps == 2 else result


def change_observation(n, obs, reward, terminated, truncated, info):
    return np.array([2.0, -0.0 if n % 2 else 0.0]), reward, terminated, truncated, info


def change_reward(n, obs, reward, terminated, truncated, info):
    return obs, reward + n * 1e-15, terminated, truncated, info


def change_truncated(n, obs, reward, terminated, truncated, info):
    return obs, reward, terminated, n % 2 == 1, info


def change_info(make_info):
    """Makes a change that replaces the info by one that depends on the number."""

    def change(n, obs, reward, terminated, truncated, info):
        return obs, reward, terminated, truncated, make_info(n)

    return change


@pytest.mark.parametrize(
    ("change", "is_compared"),
    [
        (change_observation, True),
        (change_reward, True),
        (change_truncated, True),
        (change_info(lambda n: {"a": {"b": [1, n]}}), True),
        (change_info(lambda n: {"a": np.array([[np.nan, n], [0, n]])[:, 0] + n % 2}), True),
        (change_info(lambda n: {"a": (np.int64(3),), "s": "\ud800\ud801"[n % 2]}), True),
        (change_info(lambda n: {"episode": {"r": float(n), "t": 0.1}}), True),
        # The wall clock and objects, which never are equal.
        (change_info(lambda n: {"episode": {"r": 1.0, "t": n / 10}}), False),
        (change_info(lambda n: {"a": object()}), False),
    ],
)
def test_an_environment_that_shows_a_different_bit_the_next_time_is_named(change, is_compared):
    with closing(MetaIterativeEnvExecutor(partial(ChangingEnv, change), 1, journal=True)) as envs:
        envs.reset(seed=0)
        for _ in range(4):
            envs.step([0])
        state = envs.get_state()
        message = r"environment 0: this .* not deterministic: .* \(4 steps\)"
        with pytest.raises(NotDeterministicError, match=message) if is_compared else nullcontext():
            envs.set_state(state)


def test_episodes_that_the_executor_has_cut_can_be_replayed():
    make = partial(iterative, partial(CountingEnv, 9), max_path_length=2, autoreset_mode="NextStep")
    with closing(make()) as envs, closing(make()) as restored:
        envs.reset(seed=0)
        truncated = [envs.step(NO_ACTIONS)[3].tolist() for _ in range(5)]  # the third is a reset
        assert truncated == [[end] * 4 for end in (False, True, False, False, True)]
        restored.set_state(envs.get_state())
        assert equal(restored.step(NO_ACTIONS), envs.step(NO_ACTIONS))


# States of a journal.


def make_goals(*angles):
    return [{"goal": (np.cos(angle), np.sin(angle))} for angle in angles]


def test_a_state_holds_no_calls():
    with closing(iterative(PointGoalEnv)) as envs, closing(iterative(PointGoalEnv)) as restored:
        envs.set_tasks(make_goals(0, 1))
        envs.reset(seed=0)
        restored.set_state(envs.get_state())  # where the state has what the call has changed
        assert equal(restored.step(STILL), envs.step(STILL))
        envs.call_some([1], "set_task", task={"goal": (0.0, 1.0)})
        message = (
            r"environment 1 was called since its last reset, with set_task\(task=\{'goal': .*\}\), "
            "and a checkpoint holds no calls: reset first, then save"
        )
        with pytest.raises(RuntimeError, match=message):
            envs.get_state()
        between_state = envs.get_state(between_episodes=True)
        envs.reset(seed=1)
        assert set(envs.get_state()["logs"][0]) == {"state", "reset", "actions", "digest"}
        restored.set_state(between_state)
        assert equal(restored.reset(seed=1), envs.reset(seed=1))
        assert equal(restored.step(STILL), envs.step(STILL))


def test_before_a_reset_that_is_due_what_was_set_is_saved():
    with closing(iterative(PointGoalEnv)) as envs, closing(iterative(PointGoalEnv)) as restored:
        envs.reset(seed=0)
        envs.set_tasks(make_goals(2, 3))
        restored.set_state(envs.get_state())
        with pytest.raises(ResetNeeded):
            restored.step(STILL)
        assert equal(restored.reset(), envs.reset())
        assert restored.call("get_task") == envs.call("get_task")


def set_first(env):
    env.unwrapped.first = 5


@pytest.mark.parametrize(
    ("call", "call_text"),
    [
        (("set_task", 5), r"set_task\(5\)"),
        (("set_wrapper_attr", "first", 5), r"set_wrapper_attr\('first', 5\)"),
        ((set_first,), r"set_first\(\)"),
    ],
)
def test_what_no_state_has_is_refused_before_it_would_be_lost(call, call_text):
    make = partial(gymnasium.wrappers.NormalizeReward, FragileEnv())
    with closing(MetaIterativeEnvExecutor(make, 1, journal=True)) as envs:
        envs.call("set_statistics_updates", False)  # which the wrapper's state has
        envs.reset(seed=0)
        envs.get_state()
        envs.call(*call)
        envs.reset()
        message = (
            f"environment 0, task 'a' was called with {call_text}, and a checkpoint cannot hold "
            "what this has changed: give FragileEnv the methods get_state"
        )
        with pytest.raises(TypeError, match=message):
            envs.get_state()


class RememberingWrapper(gymnasium.Wrapper):
    """Keeps a number, and declares no state."""

    def remember(self, number):
        self.number = number


def test_the_wrapper_that_has_declared_no_state_is_named():
    def make():
        return gymnasium.wrappers.OrderEnforcing(RememberingWrapper(FragileEnv()))

    with closing(MetaIterativeEnvExecutor(make, 1, journal=True)) as envs:
        envs.reset(seed=0)
        envs.call("remember", 3)
        envs.reset()
        with pytest.raises(TypeError, match="give RememberingWrapper the methods get_state"):
            envs.get_state()


LOG_ERROR = "expected the log of environment 1, got something else: "


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reset": ["s", None]}, f"{LOG_ERROR}expected a seed, got 's'"),
        ({"reset": [3, 5]}, f"{LOG_ERROR}expected options of a reset, got 5"),
        ({"reset": None}, f"{LOG_ERROR}expected a reset before actions"),
        ({"actions": [np.array(3)]}, f"{LOG_ERROR}expected an array of actions, got array"),
        (
            {"actions": [np.zeros((10**12, 0))]},
            f"{LOG_ERROR}expected an array of actions, got array",
        ),
        (
            {"actions": [np.array([np.nan])]},
            f"{LOG_ERROR}expected actions that are numbers, got NaN",
        ),
        ({"digest": None}, LOG_ERROR),
        ({"first_seeds": ["x", "y"]}, "a seed must be an integer, got 'x'"),
    ],
)
@both_executors
def test_a_state_from_elsewhere_is_refused_and_changes_nothing(executor, change, message):
    with closing(executor(partial(CountingEnv, 9), 2, journal=True)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        state = envs.get_state()
        changed_dict = state if change.keys() <= state.keys() else state["logs"][1]
        changed_dict.update(change)
        with pytest.raises((ValueError, TypeError), match=message):
            envs.set_state(state)
        assert envs.step([0, 0])[1].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("value", "other_value"), [("a", "b"), (b"a", b"b"), (["a"], ["b"]), (1.0, 2.0)]
)
@pytest.mark.parametrize("more_infos", [{}, {"object": object()}])
def test_what_an_environment_returned_is_compared_down_to_texts_and_bytes(
    value, other_value, more_infos
):
    def hash_step(info_value):
        info = {"value": info_value, **more_infos}
        return fingerprint(0, np.zeros(2), 0.0, False, False, info)

    assert hash_step(value) == hash_step(value)
    assert hash_step(value) != hash_step(other_value)


class TransposedEnv(CountingEnv):
    """Observes an array that is not contiguous."""

    def __init__(self):
        super().__init__(9)
        self.observation_space = Box(0, 99, (3, 2), np.float64)

    def _obs(self):
        return np.full((2, 3), self.steps, np.float64).T


def test_observations_need_not_be_contiguous():
    with closing(MetaIterativeEnvExecutor(TransposedEnv, 2, journal=True)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        envs.set_state(envs.get_state())
        assert envs.step([0, 0])[0].shape == (2, 3, 2)


class ShiftedActionEnv(CountingEnv):
    """Observes its action plus one, in the memory order of the action."""

    def __init__(self):
        super().__init__(9)
        self.observation_space = self.action_space = Box(-99, 99, (2, 3), np.float64)

    def step(self, action):
        return action + 1, *super().step(action)[1:]


def test_actions_need_not_be_contiguous():
    actions = np.arange(24.0).reshape(3, 2, 4).T
    with closing(MetaIterativeEnvExecutor(ShiftedActionEnv, 4, journal=True)) as envs:
        envs.reset(seed=0)
        envs.step(actions)
        envs.set_state(envs.get_state())
        assert equal(envs.step(actions)[0], actions + 1)


def test_a_state_between_episodes_leaves_tasks_that_no_state_has():
    with closing(recovering()) as envs:
        state = envs.get_state()
        envs.set_tasks([10, 20])
        envs.set_state(state)
        with pytest.raises(TypeError, match=r"environment 0 was called with set_task\(10\)"):
            envs.get_state()
        kill(envs, 1)
        assert envs.reset(seed=0)[0][:, 0].tolist() == [10, 10, 20, 20]


def test_a_task_that_was_refused_does_not_matter_once_another_one_is_set():
    makers = fragile_makers()
    makers[3] = partial(RefusingEnv, first=300, name="b")
    with closing(recovering(makers)) as envs:
        with pytest.raises(ValueError, match="no task -1"):
            envs.set_tasks([1, -1])
        envs.set_tasks([10, 20])
        envs.reset(seed=0)
        envs.reset()
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [11, 11, 21, 21]


class RefusingEnv(FragileEnv):
    def set_task(self, task):
        if task < 0:
            raise ValueError(f"no task {task}")
        super().set_task(task)


def test_a_replay_that_fails_keeps_the_environments_and_their_pauses():
    with closing(recovering()) as envs:
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        envs.pause(np.ones(4, bool))
        state = envs.get_state()
        state["logs"][1]["digest"] = np.uint64(1)
        envs.pause(np.zeros(4, bool))
        envs.step(NO_ACTIONS)
        with pytest.raises(NotDeterministicError, match="environment 1"):
            envs.set_state(state)
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[1].tolist() == [3.0] * 4
        assert envs.stepped.all()


class UnclosableEnv(CountingEnv):
    """Raises when it is closed."""

    def close(self):
        raise OSError("the door is stuck")


@pytest.mark.filterwarnings("ignore:.*could not be closed")
def test_environments_that_cannot_be_closed_do_not_stop_a_state():
    with closing(iterative(partial(UnclosableEnv, 9))) as envs:
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        state = envs.get_state()
        envs.step(NO_ACTIONS)
        with pytest.warns(UserWarning, match="environment 3: the door is stuck"):
            envs.set_state(state)
        assert envs.step(NO_ACTIONS)[1].tolist() == [2.0] * 4
        state["logs"][0]["digest"] = np.uint64(1)
        with pytest.raises(NotDeterministicError):
            envs.set_state(state)
        assert envs.step(NO_ACTIONS)[1].tolist() == [3.0] * 4
