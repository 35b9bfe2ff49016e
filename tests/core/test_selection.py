"""Strategies that select the next task, in an environment that draws one at each reset."""

import copy
import json
import os
import signal

import gymnasium
import numpy as np
import pytest

from mtwrappers import (
    EnvToMTEnv,
    MultiEnvWrapper,
    as_vector,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.core.history import TaskHistory
from mtwrappers.core.selection import TaskSelector, least_success
from tests.fakes import counting_makers


def make(select, num_tasks=7):
    return MultiEnvWrapper(counting_makers(num_tasks), select=select, sample_tasks_on_reset=True)


def drawn(env, n, seed=None):
    return [env.reset(seed=seed if i == 0 else None)[1]["task_id"] for i in range(n)]


class Countdown:
    """A strategy with a memory: every task from the last to the first."""

    left = 0

    def __call__(self, num_tasks, last_task, rng):
        self.left = (self.left or num_tasks) - 1
        return self.left

    def reset(self):
        self.left = 0

    def get_state(self):
        return {"left": self.left}

    def set_state(self, state):
        self.left = state["left"]


@pytest.mark.parametrize(
    "select", ["uniform", "round_robin", "without_replacement", "least_success", Countdown()]
)
def test_the_seed_determines_the_tasks_and_a_state_in_json_those_that_follow(select):
    env, other = make(select), make(select)
    first = drawn(env, 10, seed=3)
    assert drawn(other, 10, seed=3) == drawn(env, 10, seed=3) == first
    fixed = select == "round_robin" or isinstance(select, Countdown)
    assert (drawn(other, 10, seed=4) == first) == fixed
    other.set_state(json.loads(json.dumps(env.get_state())))
    assert drawn(other, 8) == drawn(env, 8)
    assert not isinstance(select, Countdown) or (first[:3], select.left) == ([6, 5, 4], 0)


@pytest.mark.parametrize("floor", [3, -0.1, float("nan")])
def test_a_floor_that_is_no_share_is_refused(floor):
    with pytest.raises(ValueError, match=rf"floor .* a share in \[0, 1\], got {floor}"):
        least_success(2, None, np.random.default_rng(0), TaskHistory(2), floor)


@pytest.mark.parametrize(
    "change",
    [{"last": 7}, {"last": True}, {"strategy": [0, 7]}, {"strategy": [-1]}, {"strategy": "abc"}],
)
def test_a_selection_refuses_tasks_of_a_state_that_do_not_exist(change):
    selector = TaskSelector("without_replacement", 7)
    selector(np.random.default_rng(0))
    state = selector.get_state()
    with pytest.raises(ValueError, match=r"an integer in \[0, 6\]|must be a list"):
        selector.set_state({**state, **change})
    assert selector.get_state() == state


def test_a_strategy_whose_parameters_cannot_be_read_is_an_error_that_says_so():
    with pytest.raises(ValueError, match=r"parameters of select=<built-in function max>.*wrap it"):
        make(max)


class Alternating:
    """A strategy with a memory that cannot be saved."""

    draws = 0

    def reset(self):
        self.draws = 0

    def __call__(self, num_tasks, last_task, rng):
        self.draws += 1
        return self.draws // 2 % num_tasks


def test_a_strategy_whose_memory_cannot_be_saved_is_refused_by_a_checkpoint():
    env = make(Alternating())
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"memory of select=.*Alternating.* cannot be saved: give"):
        env.get_state()


@pytest.mark.parametrize("state", [{}, {"last": None}, None])
def test_a_selection_refuses_a_state_without_its_names(state):
    with pytest.raises(ValueError, match=r"expected \['history', .* of TaskSelector, got"):
        TaskSelector("uniform", 2).set_state(state)


class OpensTasks(EnvToMTEnv):
    """Draws the last open task; its strategy is a method of itself."""

    def __init__(self):
        self.num_open = 1
        env = gymnasium.make("Pendulum-v1", max_episode_steps=2)
        super().__init__(
            env, [8.0, 9.0, 10.0], set_gravity, select=self.choose, sample_tasks_on_reset=True
        )

    def choose(self, num_tasks, last_task, rng):
        return self.num_open - 1

    def open_tasks(self, num_open):
        self.num_open = num_open

    def get_state(self):
        return {**super().get_state(), "num_open": self.num_open}

    def set_state(self, state):
        super().set_state({key: state[key] for key in state if key != "num_open"})
        self.num_open = state["num_open"]


def set_gravity(env, gravity):
    env.unwrapped.g = gravity


def test_a_method_of_the_environment_reads_its_attributes_and_a_copy_those_of_the_copy():
    env = OpensTasks()
    env.open_tasks(2)
    other = copy.deepcopy(env)
    env.open_tasks(3)
    assert (drawn(env, 2, seed=0), drawn(other, 2, seed=0)) == ([2, 2], [1, 1])


def test_a_method_of_the_environment_selects_in_workers_and_after_a_kill_and_a_checkpoint(tmp_path):
    def make_vector():
        return as_vector(OpensTasks, 2, workers=2, on_worker_failure="recover")

    envs, other = make_vector(), make_vector()
    try:
        envs.reset(seed=0)
        envs.call("open_tasks", 2)
        assert envs.reset()[1]["task_id"].tolist() == [1, 1]
        save_checkpoint(tmp_path / "run.ckpt", envs=envs)
        load_checkpoint(tmp_path / "run.ckpt", envs=other)
        assert other.reset()[1]["task_id"].tolist() == [1, 1]
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        with pytest.warns(UserWarning, match="worker 0 was killed by SIGKILL"):
            assert envs.reset()[1]["task_id"].tolist() == [1, 1]
    finally:
        envs.close()
        other.close()
