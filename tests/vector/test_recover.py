"""Workers that die or hang, where the executor recovers them and results do not change."""

import itertools
import os
import signal
import threading
import time
import warnings
from contextlib import closing, suppress
from functools import partial

import numpy as np
import pytest
from gymnasium.spaces import Box

from mtwrappers import MetaIterativeEnvExecutor, WorkerDiedError
from mtwrappers.common.errors import NotDeterministicError
from tests.fakes import CountingEnv, equal
from tests.vector import faults
from tests.vector.faults import (
    FAULT,
    NO_ACTIONS,
    BulkyEnv,
    assert_same_episode,
    assert_same_result,
    break_a_leg,
    faulty_calls,
    fragile_makers,
    hang,
    kill,
    kill_itself,
    loses_workers,
    once,
    open_beside_oracle,
    unless_first,
)
from tests.vector.processes import PATIENCE, needs_proc, wait_until, workers

pytestmark = [needs_proc, pytest.mark.usefixtures("leaves_nothing_behind"), loses_workers]
recovering = partial(faults.recovering, context=None)
# With a short timeout; forked, so that workers begin within it on a busy machine too.
recovering_soon = partial(faults.recovering, timeout=1)


@pytest.fixture
def make_envs():
    """Makes executors that recover; ``test_ray.py`` makes others."""
    return recovering


# Lost while they are used.


@faulty_calls
def test_a_death_in_any_use_changes_nothing(make_envs, method, kwargs, tmp_path):
    modes = {"step": "NextStep", "reset": "SameStep", "call": "Disabled"}
    settings = {"autoreset_mode": modes[method]}
    makers, oracle_makers = fragile_makers(), fragile_makers()
    makers[2] = partial(makers[2], fault=partial(once, tmp_path / "done", kill_itself))
    oracle_makers[2] = partial(oracle_makers[2], fault=partial(str, "not again"))
    with open_beside_oracle(make_envs, makers, oracle_makers, **settings) as (envs, oracle):
        assert_same_result(envs, oracle, "reset", seed=3)
        assert_same_result(envs, oracle, "step", NO_ACTIONS)
        with pytest.warns(UserWarning, match="worker 1 .*; starting a replacement"):
            assert_same_result(envs, oracle, method, **kwargs)
        for _ in range(2):
            assert_same_result(envs, oracle, "step", NO_ACTIONS)


def test_a_worker_that_hangs_is_replaced_after_the_timeout(tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", hang))
    with closing(recovering_soon(makers)) as envs:
        envs.reset(seed=0)
        start_time = time.monotonic()
        assert envs.step(FAULT)[1].tolist() == [1.0] * 4
        assert 1 <= time.monotonic() - start_time < PATIENCE
        assert envs.recoveries == 1


def test_a_worker_killed_in_the_middle_of_a_large_message_changes_nothing():
    makers = [partial(BulkyEnv, length=n) for n in (2, 3, 4, 5)]
    with open_beside_oracle(recovering, makers, recoveries=4) as (envs, oracle):
        assert_same_result(envs, oracle, "reset", seed=0)
        for _ in range(4):
            envs.step_async(NO_ACTIONS)
            time.sleep(0.2)  # by now its answer fills the pipe, and waits for somebody to read it
            kill(envs, 1)
            assert equal(envs.step_wait(), oracle.step(NO_ACTIONS))


def test_a_replacement_that_was_interrupted_is_made_by_the_next_call(monkeypatch):
    """The pipe of the hung worker, which has read only a part of the message, is closed then."""

    def raise_interrupt():
        raise KeyboardInterrupt

    with closing(recovering_soon([BulkyEnv] * 4)) as envs:
        expected = envs.reset(seed=0)
        os.kill(envs.worker_pids[0], signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(envs._pool.workers[0], "start", raise_interrupt)
            with pytest.raises(KeyboardInterrupt):
                envs.call("set_wrapper_attr", "unread", np.zeros(1_000_000))
        assert equal(envs.reset(seed=0), expected)


def test_environments_that_nobody_seeded_are_recovered_too():
    with closing(recovering()) as envs:
        draws = envs.reset()[1]["draw"].tolist()
        kill(envs, 0)
        assert envs.step(NO_ACTIONS)[4]["draw"].tolist() == draws


@faulty_calls
def test_after_an_exception_nothing_is_lost_either(method, kwargs):
    makers = fragile_makers()
    makers[2] = partial(makers[2], fault=break_a_leg)
    with open_beside_oracle(recovering, makers, recoveries=2) as (envs, oracle):
        for vector_env in (envs, oracle):
            vector_env.reset(seed=1)
            vector_env.step(NO_ACTIONS)
            with pytest.raises(ZeroDivisionError, match="a leg\nenvironment 2, task 'b'"):
                getattr(vector_env, method)(**kwargs)
        kill(envs, 1)
        if method == "call":
            assert_same_result(envs, oracle, "step", NO_ACTIONS)
        else:
            assert_same_result(envs, oracle, "get_attr", "first")
        kill(envs, 1)
        assert_same_result(envs, oracle, "reset")
        assert_same_result(envs, oracle, "step", NO_ACTIONS)


# Lost while they build.


def build_after(fault, maker):
    fault()
    return maker()


def makers_with_fault(index, fault):
    """Makes four constructors, of which that with this index runs a fault first."""
    makers = fragile_makers()
    makers[index] = partial(build_after, fault, makers[index])
    return makers


# Python 3.12 warns of every fork beside other threads.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    ("fault", "cause", "settings"),
    [
        (kill_itself, "was killed by SIGKILL", {"context": "spawn"}),
        (hang, "hung: it did not answer within 1 s", {"context": "fork", "timeout": 1}),
    ],
)
def test_a_worker_lost_while_it_builds_is_replaced_with_a_warning(fault, cause, settings, tmp_path):
    makers = makers_with_fault(2, partial(once, tmp_path / "done", fault))
    message = rf"worker 1 {cause}, with environments 2 to 3 of .*; starting a"
    make_envs = partial(recovering, **settings)
    with (
        pytest.warns(UserWarning, match=message),
        open_beside_oracle(make_envs, makers, fragile_makers()) as (envs, oracle),
    ):
        assert_same_episode(envs, oracle)


@pytest.mark.parametrize("delay", np.linspace(0, 0.2, 8).tolist())
@pytest.mark.slow_but("0.0", "0.2")
def test_a_kill_at_any_moment_from_the_start_on_changes_nothing(delay):
    """Before a worker says anything, in constructors, and in what follows the first reset."""
    workers_before = workers()

    def kill_newest_worker():
        if wait_until(lambda: workers() - workers_before):
            time.sleep(delay)
            with suppress(ProcessLookupError):
                os.kill(max(workers() - workers_before), signal.SIGKILL)

    makers = [
        partial(build_after, partial(time.sleep, 0.04), maker) for maker in fragile_makers(length=9)
    ]
    thread = threading.Thread(target=kill_newest_worker)
    thread.start()
    with open_beside_oracle(recovering, makers, fragile_makers(length=9)) as (envs, oracle):
        assert_same_result(envs, oracle, "reset", seed=0)
        thread.join()
        assert_same_result(envs, oracle, "step", NO_ACTIONS)


def test_a_worker_killed_while_another_is_replaced_changes_nothing(tmp_path):
    kill_once = partial(once, tmp_path / "killed", kill_itself)
    makers = makers_with_fault(2, partial(unless_first, tmp_path / "built", kill_once))
    with open_beside_oracle(recovering, makers, fragile_makers(), 2) as (envs, oracle):
        assert_same_result(envs, oracle, "reset", seed=0)
        assert_same_result(envs, oracle, "step", NO_ACTIONS)
        kill(envs, 1)
        assert_same_result(envs, oracle, "step", NO_ACTIONS)


# Where recovery is given up.


def assert_given_up(envs, message, actions):
    """Requires that a step raises this and closes everything."""
    with pytest.raises(WorkerDiedError, match=f"^worker 1 was killed by SIGKILL, .*{message}"):
        envs.step(actions)
    assert envs.closed is True


def test_a_step_that_kills_every_worker_names_environment_task_and_action():
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=kill_itself)
    envs = recovering(makers)
    envs.reset(seed=0)
    envs.step(NO_ACTIONS)
    message = (
        r"with environments 2 to 3 of task 1 \(b\); workers were lost 4 times in the same "
        r"call, by environment 3, task 'b', stepped with action 1; all workers were closed$"
    )
    assert_given_up(envs, message, [0, 0, 0, 1])
    assert envs.recoveries == 3


def test_a_constructor_that_always_ends_its_worker_is_an_error():
    with pytest.raises(WorkerDiedError, match=r"^worker 1 was killed by SIGKILL, .* lost 4 times"):
        recovering(makers_with_fault(2, kill_itself))


def test_a_constructor_that_raises_the_second_time_is_an_error(tmp_path):
    envs = recovering(makers_with_fault(2, partial(unless_first, tmp_path / "built", break_a_leg)))
    envs.reset(seed=0)
    kill(envs, 1)
    assert_given_up(envs, "the constructor of environment 2 failed: a leg", NO_ACTIONS)


class UnsteadyEnv(CountingEnv):
    """Counts from its number of episodes, which no state holds."""

    def reset(self, **kwargs):
        self.first += 1
        return super().reset(**kwargs)


class SteadyEnv(UnsteadyEnv):
    def get_state(self):
        return {"first": self.first}

    def set_state(self, state):
        self.first = state["first"]


@pytest.mark.parametrize("env", [UnsteadyEnv, SteadyEnv])
def test_an_environment_that_is_not_deterministic_is_named(env):
    with closing(recovering([CountingEnv, env], 2, 1)) as envs:
        for _ in range(2):
            envs.reset(seed=0)
            envs.step([0, 0])
        kill(envs, 1)
        if env is SteadyEnv:
            assert envs.step([0, 0])[0][:, 0].tolist() == [2, 4]
        else:
            message = (
                r"environment 1: this environment is not deterministic: .* \(1 steps\), it does not"
            )
            assert_given_up(envs, message, [0, 0])


# Calls of earlier episodes.


class EpisodeGetterEnv(CountingEnv):
    """Has a getter that raises before the first reset, and keeps a bonus in its state."""

    bonus = 0

    def reset(self, **kwargs):
        self.left = self.length
        return super().reset(**kwargs)

    def distance(self):
        return self.left - self.steps

    def set_bonus(self, bonus):
        self.bonus = bonus

    def step(self, action):
        obs, reward, *ends_and_info = super().step(action)
        return obs, reward + self.bonus, *ends_and_info

    def get_state(self):
        return {"bonus": self.bonus, "rng": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.bonus = state["bonus"]
        self.np_random.bit_generator.state = state["rng"]


def test_a_call_of_an_earlier_episode_is_not_made_again():
    """It is in the state; a getter would raise in an environment that was never reset."""
    with closing(recovering([partial(EpisodeGetterEnv, 9)] * 2, 2, 1)) as envs:
        envs.reset(seed=0)
        assert envs.call("distance") == (9, 9)
        envs.call("set_bonus", 10)
        envs.reset()
        envs.step([0, 0])
        envs.call("set_bonus", 20)  # of this episode, in its place
        kill(envs, 1)
        assert envs.step([0, 0])[1].tolist() == [22.0, 22.0]
        envs.reset()
        kill(envs, 0)
        assert envs.step([0, 0])[1].tolist() == [21.0, 21.0]


def step_pause_and_die(path, envs, rows):
    """Steps, pauses all and, the first time, dies."""
    rewards = envs.step(np.zeros(envs.num_envs, int))[1].tolist()
    envs.pause(np.ones(envs.num_envs, bool))
    if rows.start == 2:
        once(path, kill_itself)
    return rewards


def test_what_a_function_paused_before_its_worker_died_is_not_paused_when_it_is_called_again(
    tmp_path,
):
    with closing(recovering()) as envs:
        envs.reset(seed=0)
        rewards = envs.map_blocks(partial(step_pause_and_die, tmp_path / "died"))
        assert rewards == [[1.0, 1.0], [1.0, 1.0]]
        assert envs.recoveries == 1
        assert envs.step(NO_ACTIONS)[1].tolist() == [0.0] * 4  # all are paused now
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[1].tolist() == [0.0] * 4


def test_an_environment_without_a_state_keeps_its_task_and_names_any_other_call():
    with closing(recovering()) as envs:
        envs.set_tasks([10, 20])
        envs.reset(seed=0)
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [11, 11, 21, 21]
        envs.call_some([3], "toggle_double", True)
        kill(envs, 1)  # in the episode of the call, it is made again
        assert envs.step(NO_ACTIONS)[1].tolist() == [2.0, 2.0, 2.0, 4.0]
        envs.reset()
        kill(envs, 1)
        message = (
            r"cannot be recovered: environment 3: it was called before its last reset, with "
            r"toggle_double\(True\), and what this has changed is in no state: give FragileEnv the "
            r"methods get_state\(\) and set_state\(state\), or mark"
        )
        assert_given_up(envs, message, NO_ACTIONS)


# What a replay compares.


class ReportingEnv(CountingEnv):
    """Reports what a function makes of the number of steps, with objects that are new each time."""

    def __init__(self, info):
        self.info = info
        super().__init__(9)

    def _info(self):
        return self.info(self.steps)


@pytest.mark.parametrize(
    "info",
    [
        lambda n: {"objects": np.array([{"n": n}, None, [n, "text"]], object)},
        lambda n: {"mine": {"r": float(n), "l": n, "t": time.perf_counter()}},
        lambda n: {"long": np.longdouble(n) / 3, "many": np.full(3, n, np.longdouble) / 3},
    ],
    ids=["objects", "statistics of another key", "long doubles"],
)
def test_equal_values_are_equal_whatever_memory_they_are_in(info):
    with closing(recovering([partial(ReportingEnv, info)] * 2, 2, 1)) as envs:
        envs.reset(seed=0)
        for _ in range(3):
            envs.step([0, 0])
        kill(envs, 1)
        assert envs.step([0, 0])[1].tolist() == [4.0, 4.0]


def test_objects_in_an_array_that_differ_are_found():
    numbers = itertools.count()
    info = partial(lambda numbers, n: {"objects": np.array([next(numbers), None])}, numbers)
    with closing(MetaIterativeEnvExecutor(partial(ReportingEnv, info), 1, journal=True)) as envs:
        envs.reset(seed=0)
        envs.step([0])
        with pytest.raises(NotDeterministicError, match=r"environment 0: .*not deterministic"):
            envs.set_state(envs.get_state())


def test_recovery_works_where_warnings_are_errors():
    with closing(recovering()) as envs:
        envs.reset(seed=0)
        kill(envs, 1)
        with warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("error")
            assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4
        assert "worker 1 was killed by SIGKILL" in str(caught_warnings[0].message)


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_actions_of_no_numbers_are_counted(shape):
    class NoNumbersEnv(CountingEnv):
        def __init__(self):
            super().__init__(9)
            self.action_space = Box(-1, 1, shape)

    with closing(MetaIterativeEnvExecutor(NoNumbersEnv, 2, journal=True)) as envs:
        envs.reset(seed=0)
        for _ in range(3):
            envs.step(np.zeros((2, *shape)))
        for _ in range(2):  # the second state has the actions of the first
            envs.set_state(envs.get_state())
        assert envs.step(np.zeros((2, *shape)))[1].tolist() == [4.0, 4.0]
