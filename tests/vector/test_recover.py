"""Workers that die or hang, where nobody is to notice."""

import random
import time
from contextlib import closing, contextmanager
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import MetaIterativeEnvExecutor, WorkerDiedError
from tests.fakes import equal
from tests.vector.fakes import NestedEnv, WordEnv, all_modes
from tests.vector.faults import (
    DEATHS,
    FragileEnv,
    break_a_leg,
    build_once,
    fragile_makers,
    hang,
    kill,
    kill_itself,
    once,
    parallel,
    play_along,
)
from tests.vector.processes import needs_proc, nothing_left_behind

pytestmark = [needs_proc, pytest.mark.filterwarnings("ignore:.*another one takes its place")]

NO_ACTIONS = np.zeros(4, dtype=np.int64)
# Environment 2 is the first of worker 1 and of task 1.
FAULT = np.array([0, 0, 1, 0])
recovering = partial(parallel, on_worker_failure="recover")


def play(envs, steps, before_step=lambda t: None, seed=3):
    """Every result of some steps; episodes that are over are reset where nobody else does it."""
    envs.action_space.seed(seed)
    results = [envs.reset(seed=seed)]
    for t in range(steps):
        before_step(t)
        results.append(envs.step(envs.action_space.sample()))
        over = results[-1][2] | results[-1][3]
        if envs.autoreset_mode is AutoresetMode.DISABLED and over.any():
            results.append(envs.reset(options={"reset_mask": over}))
    return results


CARTPOLE = [partial(gymnasium.make, "CartPole-v1", max_episode_steps=n) for n in (9, 30, 12, 500)]
PENDULUM = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 9.0, 10.0, 11.0)]
KINDS = {
    "cartpole": CARTPOLE,
    "pendulum": PENDULUM,
    "nested": [partial(NestedEnv, n) for n in (2, 3, 7, 4)],
    "text": [partial(WordEnv, n) for n in (2, 3, 5, 4)],
}


@all_modes
@pytest.mark.parametrize("kind", KINDS)
def test_kills_between_steps_change_nothing(kind, mode):
    with closing(MetaIterativeEnvExecutor(KINDS[kind], 2, 2, autoreset_mode=mode)) as envs:
        expected = play(envs, 60)
    rng = random.Random(7)
    times = {t: rng.randrange(2) for t in rng.sample(range(60), 10)}
    with closing(recovering(KINDS[kind], autoreset_mode=mode)) as envs:
        results = play(envs, 60, lambda t: t in times and kill(envs, times[t]))
        assert envs.recoveries == 10
    assert equal(results, expected)


@all_modes
@pytest.mark.parametrize(("fault", "how"), DEATHS)
def test_a_death_in_the_middle_of_a_step_changes_nothing(mode, fault, how, tmp_path):
    makers = fragile_makers()
    makers[2] = partial(makers[2], fault=partial(once, tmp_path / "done", fault))
    with (
        closing(recovering(makers, autoreset_mode=mode)) as envs,
        closing(MetaIterativeEnvExecutor(fragile_makers(), 2, 2, autoreset_mode=mode)) as oracle,
    ):
        assert equal(envs.reset(seed=3), oracle.reset(seed=3))
        assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))
        with pytest.warns(UserWarning, match=rf"worker 1 {how}, .*; another one takes its"):
            assert equal(envs.step(FAULT), oracle.step(FAULT))
        for _ in range(2):
            assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))
        assert envs.recoveries == 1


def test_a_worker_that_hangs_is_replaced_after_the_timeout(tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", hang))
    with closing(recovering(makers, timeout=1)) as envs:
        envs.reset(seed=0)
        begin = time.monotonic()
        assert envs.step(FAULT)[1].tolist() == [1.0] * 4
        assert 1 <= time.monotonic() - begin < 5
        assert envs.recoveries == 1


class BulkyEnv(FragileEnv):
    """Reports much."""

    def _info(self):
        return {"bulk": np.zeros(500_000), "draw": self.draw}


def test_a_worker_killed_in_the_middle_of_a_large_message_changes_nothing():
    makers = [partial(BulkyEnv, length=n) for n in (2, 3, 4, 5)]
    with (
        closing(recovering(makers)) as envs,
        closing(MetaIterativeEnvExecutor(makers, 2, 2)) as oracle,
    ):
        assert equal(envs.reset(seed=0), oracle.reset(seed=0))
        for _ in range(4):
            envs.step_async(NO_ACTIONS)
            time.sleep(0.2)  # by now its answer fills the pipe, and waits for somebody to read it
            kill(envs, 1)
            assert equal(envs.step_wait(), oracle.step(NO_ACTIONS))
        assert envs.recoveries == 4


@pytest.mark.parametrize("when", ["before", "in it"])
@pytest.mark.parametrize("mask", [None, [True, False, True, False], [True, False, False, False]])
def test_a_worker_lost_in_a_reset_changes_nothing(when, mask, tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", kill_itself), length=9)
    options = {} if mask is None else {"reset_mask": np.array(mask)}
    with (
        closing(recovering(makers, autoreset_mode="Disabled")) as envs,
        closing(SyncVectorEnv(fragile_makers(length=9), autoreset_mode="Disabled")) as oracle,
    ):
        for one in (envs, oracle):
            one.reset(seed=1)
            one.step(NO_ACTIONS)
        if when == "before":
            kill(envs, 1)
        fault = {} if when == "before" else {"fault": True}
        assert equal(envs.reset(options={**options, **fault}), oracle.reset(options=options))
        assert envs.recoveries == 1
        for _ in range(3):
            assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))


@pytest.mark.parametrize("when", ["before", "in it"])
def test_a_worker_lost_in_a_call_is_called_again(when, tmp_path):
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=partial(once, tmp_path / "done", kill_itself))
    with closing(recovering(makers)) as envs:
        envs.set_tasks([1000, 2000])
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        if when == "before":
            (tmp_path / "done").touch()
            kill(envs, 1)
        assert envs.call("run_fault") == ("no fault",) * 3 + ("not again",)
        assert envs.get_attr("first") == (1000, 1000, 2000, 2000)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [1002, 1002, 2002, 2002]
        assert envs.recoveries == 1


@all_modes
def test_what_was_called_and_set_is_there_again(mode):
    makers = fragile_makers(length=3)
    with (
        closing(recovering(makers, autoreset_mode=mode)) as envs,
        closing(MetaIterativeEnvExecutor(makers, 2, 2, autoreset_mode=mode)) as oracle,
    ):
        tell = [
            lambda one: one.set_tasks([500, 600]),
            lambda one: one.call("toggle_double", True),
            lambda one: one.reset(seed=0),
            lambda one: one.set_attr("first", [30, 40, 50, 60]),
            lambda one: one.call_some([3], "set_task", 900),
            lambda one: one.step(NO_ACTIONS),
            lambda one: one.set_attr("name", ["w", "x", "y", "z"]),
            lambda one: one.call(_rename, "v"),
            lambda one: one.step(NO_ACTIONS),
            lambda one: one.reset(),
            lambda one: one.step(NO_ACTIONS),
        ]
        for told in tell:
            kill(envs, 1)
            assert equal(told(envs), told(oracle))
        assert envs.recoveries == len(tell)


def _rename(env, prefix):
    env.unwrapped.name = prefix + env.unwrapped.name


def test_environments_that_nobody_seeded_are_recovered_too():
    with closing(recovering(CARTPOLE)) as envs:
        envs.reset()
        for _ in range(3):
            obs = envs.step(NO_ACTIONS)[0]
        kill(envs, 0)
        assert list(envs.call(_seen)) == obs.tolist()


def _seen(env):
    return [float(np.float32(x)) for x in env.unwrapped.state]


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


def test_workers_lost_together_are_replaced_together():
    with closing(recovering(fragile_makers(6), 3, workers=3)) as envs:
        envs.reset(seed=0)
        for worker in range(3):
            kill(envs, worker)
        assert envs.step(np.zeros(6, int))[1].tolist() == [1.0] * 6
        assert envs.recoveries == 3


def test_a_step_that_kills_every_worker_names_environment_task_and_action():
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=kill_itself)
    with nothing_left_behind():
        envs = recovering(makers, max_recoveries=2)
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        message = (
            r"worker 1 was killed by SIGKILL, with environments 2 to 3 of tasks \[1\] \(b\); "
            r"workers were lost 3 times in the same call, by environment 3, task 'b', stepped with "
            r"action 1; all workers were closed"
        )
        with pytest.raises(WorkerDiedError, match=f"^{message}$") as info:
            envs.step([0, 0, 0, 1])
        assert (envs.recoveries, envs.closed) == (2, True)
        del envs, info


def test_a_constructor_that_raises_the_second_time_is_an_error(tmp_path):
    makers = [FragileEnv, partial(build_once, tmp_path / "built", break_a_leg)]
    with nothing_left_behind():
        envs = recovering(makers, 2, 1)
        envs.reset(seed=0)
        kill(envs, 1)
        message = (
            "worker 1 was killed by SIGKILL, .* the constructor of environment 1 failed: a leg"
        )
        with pytest.raises(WorkerDiedError, match=message) as info:
            envs.step([0, 0])
        assert envs.closed is True
        del envs, info


class Unsteady(gymnasium.Env):
    """Draws from Python's own generator, or keeps what no state holds."""

    observation_space, action_space = Box(-1, 99, (1,), np.float64), Discrete(2)

    def __init__(self, how):
        self.how, self.episodes = how, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes += 1
        return np.array([float(self.episodes if self.how == "counts" else 0)]), {}

    def step(self, action):
        value = random.random() if self.how == "draws" else float(self.episodes)
        return np.array([value]), 0.0, False, False, {}


@pytest.mark.parametrize("how", ["draws", "counts"])
def test_an_environment_that_is_not_deterministic_is_named(how):
    with nothing_left_behind():
        envs = recovering([partial(Unsteady, "steady"), partial(Unsteady, how)], 2, 1)
        for _ in range(2):
            envs.reset(seed=0)
            envs.step([0, 0])
        kill(envs, 1)
        message = "environment 1: this environment is not deterministic: .* it shows .* and showed"
        with pytest.raises(WorkerDiedError, match=message) as info:
            envs.step([0, 0])
        assert envs.closed is True
        del envs, info


class Counted(Unsteady):
    def get_state(self):
        return {"episodes": self.episodes}

    def set_state(self, state):
        self.episodes = state["episodes"]


def test_a_state_of_its_own_makes_it_deterministic():
    with closing(recovering([partial(Counted, "counts")] * 2, 2, 1)) as envs:
        for _ in range(2):
            envs.reset(seed=0)
            envs.step([0, 0])
        kill(envs, 1)
        assert envs.step([0, 0])[0].tolist() == [[2.0], [2.0]]


# After a call that raised or was interrupted.


@pytest.mark.parametrize("what", ["step", "reset", "call"])
def test_after_an_exception_nothing_is_lost_either(what):
    makers = fragile_makers()
    makers[2] = partial(makers[2], fault=break_a_leg)
    use = {
        "step": lambda one: one.step(FAULT),
        "reset": lambda one: one.reset(options={"fault": True}),
        "call": lambda one: one.call("run_fault"),
    }[what]
    with (
        closing(recovering(makers)) as envs,
        closing(MetaIterativeEnvExecutor(makers, 2, 2)) as oracle,
    ):
        for one in (envs, oracle):
            one.reset(seed=1)
            one.step(NO_ACTIONS)
            with pytest.raises(ZeroDivisionError, match="environment 2, task 'b': a leg"):
                use(one)
        kill(envs, 1)
        if what == "call":
            assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))
        kill(envs, 1)
        assert equal(envs.reset(), oracle.reset())
        assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))


def test_a_death_and_an_exception_in_one_step_raise_the_exception(tmp_path):
    makers = fragile_makers(fault=break_a_leg)
    makers[2] = partial(makers[2], fault=partial(once, tmp_path / "done", kill_itself))
    oracle = SyncVectorEnv(fragile_makers(), autoreset_mode="SameStep")
    with closing(recovering(makers)) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        with pytest.raises(ZeroDivisionError, match="environment 0, task 'a': a leg"):
            envs.step([1, 0, 1, 0])
        assert envs.recoveries == 1
        play_along(envs, oracle)
    oracle.close()


@contextmanager
def undisturbed():
    """No worker may be replaced."""
    with closing(recovering()) as envs:
        yield envs
        assert envs.recoveries == 0


def test_recovering_executors_are_equal_to_others_while_nothing_happens():
    with undisturbed() as envs, closing(MetaIterativeEnvExecutor(fragile_makers(), 2, 2)) as oracle:
        play_along(envs, oracle, steps=20)
