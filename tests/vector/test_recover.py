"""Workers that die or hang, where nobody is to notice."""

import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from mtwrappers import WorkerDiedError
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import all_modes
from tests.vector.faults import (
    BulkyEnv,
    FragileEnv,
    beside,
    both,
    break_a_leg,
    faulty_uses,
    fragile_makers,
    hang,
    kill,
    kill_itself,
    once,
    parallel,
)
from tests.vector.processes import PATIENCE, needs_proc

pytestmark = [
    needs_proc,
    pytest.mark.usefixtures("leaves_nothing_behind"),
    pytest.mark.filterwarnings("ignore:.*starting a replacement"),
]

NO_ACTIONS = np.zeros(4, dtype=np.int64)
# Environment 2 is the first of worker 1 and of task 1.
FAULT = np.array([0, 0, 1, 0])
recovering = partial(parallel, on_worker_failure="recover", context=None)


def build_once(path, fault):
    """A `FragileEnv` the first time, a fault afterwards."""
    if path.exists():
        fault()
    path.touch()
    return FragileEnv(first=900)


@all_modes
@faulty_uses
def test_a_death_in_any_use_changes_nothing(mode, use, given, tmp_path):
    makers, others = fragile_makers(), fragile_makers()
    makers[2] = partial(makers[2], fault=partial(once, tmp_path / "done", kill_itself))
    others[2] = partial(others[2], fault=partial(str, "not again"))
    with beside(recovering, makers, others, autoreset_mode=mode) as (envs, oracle):
        both(envs, oracle, "reset", seed=3)
        both(envs, oracle, "step", NO_ACTIONS)
        with pytest.warns(UserWarning, match="worker 1 was .*; starting a replacement"):
            both(envs, oracle, use, **given)
        for _ in range(2):
            both(envs, oracle, "step", NO_ACTIONS)


@pytest.mark.parametrize("mask", [[True, False, True, False], [True, False, False, False]])
def test_a_death_in_a_reset_of_some_changes_nothing(mask, tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", kill_itself), length=9)
    with beside(recovering, makers, fragile_makers(length=9)) as (envs, oracle):
        both(envs, oracle, "reset", seed=1)
        both(envs, oracle, "step", NO_ACTIONS)
        both(envs, oracle, "reset", options={"reset_mask": np.array(mask), "fault": True})
        for _ in range(3):
            both(envs, oracle, "step", NO_ACTIONS)


def test_a_worker_that_hangs_is_replaced_after_the_timeout(tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", hang))
    # Forked, so that they begin in time on a busy machine too.
    with closing(recovering(makers, timeout=1, context="fork")) as envs:
        envs.reset(seed=0)
        begin = time.monotonic()
        assert envs.step(FAULT)[1].tolist() == [1.0] * 4
        assert 1 <= time.monotonic() - begin < PATIENCE
        assert envs.recoveries == 1


def test_a_worker_killed_in_the_middle_of_a_large_message_changes_nothing():
    makers = [partial(BulkyEnv, length=n) for n in (2, 3, 4, 5)]
    with beside(recovering, makers, recoveries=4) as (envs, oracle):
        both(envs, oracle, "reset", seed=0)
        for _ in range(4):
            envs.step_async(NO_ACTIONS)
            time.sleep(0.2)  # by now its answer fills the pipe, and waits for somebody to read it
            kill(envs, 1)
            assert equal(envs.step_wait(), oracle.step(NO_ACTIONS))


def rename(env):
    env.name = "v" + env.name


CALLS = [
    ("set_tasks", [500, 600]),
    ("call", "toggle_double", True),
    ("reset",),
    ("set_attr", "first", [30, 40, 50, 60]),
    ("call_some", [3], "set_task", 900),
    ("step", NO_ACTIONS),
    ("set_attr", "name", ["w", "x", "y", "z"]),
    ("call", rename),
    ("call", rename),
    ("step", NO_ACTIONS),
    ("reset",),
    ("step", NO_ACTIONS),
]


@all_modes
def test_what_was_called_and_set_is_there_again(mode):
    makers = fragile_makers(length=3)
    with beside(recovering, makers, recoveries=len(CALLS), autoreset_mode=mode) as (envs, oracle):
        both(envs, oracle, "reset", seed=0)
        for call in CALLS:
            kill(envs, 1)
            both(envs, oracle, *call)


def test_environments_that_nobody_seeded_are_recovered_too():
    with closing(recovering(fragile_makers())) as envs:
        draws = envs.reset()[1]["draw"].tolist()
        kill(envs, 0)
        assert envs.step(NO_ACTIONS)[4]["draw"].tolist() == draws


# Faults again and again.


def test_a_worker_killed_while_another_is_replaced_changes_nothing(tmp_path):
    slowly = partial(
        build_once, tmp_path / "built", partial(once, tmp_path / "killed", kill_itself)
    )
    with closing(recovering([FragileEnv, slowly], 2, 1)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        kill(envs, 1)
        assert envs.step([0, 0])[0][:, 0].tolist() == [2, 902]
        assert envs.recoveries == 2


# Where recovery is given up.


def check_given_up(envs, message, actions):
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
        r"with environments 2 to 3 of tasks \[1\] \(b\); workers were lost 4 times in the same "
        r"call, by environment 3, task 'b', stepped with action 1; all workers were closed$"
    )
    check_given_up(envs, message, [0, 0, 0, 1])
    assert envs.recoveries == 3


def test_a_constructor_that_raises_the_second_time_is_an_error(tmp_path):
    makers = [FragileEnv, partial(build_once, tmp_path / "built", break_a_leg)]
    envs = recovering(makers, 2, 1)
    envs.reset(seed=0)
    kill(envs, 1)
    check_given_up(envs, "the constructor of environment 1 failed: a leg", [0, 0])


class Unsteady(CountingEnv):
    """Counts from its number of episodes, which no state holds."""

    def reset(self, **kwargs):
        self.first += 1
        return super().reset(**kwargs)


class Steady(Unsteady):
    def get_state(self):
        return {"first": self.first}

    def set_state(self, state):
        self.first = state["first"]


@pytest.mark.parametrize("make", [Unsteady, Steady])
def test_an_environment_that_is_not_deterministic_is_named(make):
    with closing(recovering([CountingEnv, make], 2, 1)) as envs:
        for _ in range(2):
            envs.reset(seed=0)
            envs.step([0, 0])
        kill(envs, 1)
        if make is Steady:
            assert envs.step([0, 0])[0][:, 0].tolist() == [2, 4]
        else:
            message = (
                r"environment 1: this environment is not deterministic: .* \(1 steps\), it does not"
            )
            check_given_up(envs, message, [0, 0])


# After a call that raised.


@faulty_uses
def test_after_an_exception_nothing_is_lost_either(use, given):
    makers = fragile_makers()
    makers[2] = partial(makers[2], fault=break_a_leg)
    with beside(recovering, makers, recoveries=2) as (envs, oracle):
        for one in (envs, oracle):
            one.reset(seed=1)
            one.step(NO_ACTIONS)
            with pytest.raises(ZeroDivisionError, match="a leg\nenvironment 2, task 'b'"):
                getattr(one, use)(**given)
        kill(envs, 1)
        both(envs, oracle, *(("step", NO_ACTIONS) if use == "call" else ("get_attr", "first")))
        kill(envs, 1)
        both(envs, oracle, "reset")
        both(envs, oracle, "step", NO_ACTIONS)
