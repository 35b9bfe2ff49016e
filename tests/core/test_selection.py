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


def make_env(select, num_tasks=7):
    return MultiEnvWrapper(counting_makers(num_tasks), select=select, sample_tasks_on_reset=True)


def draw_tasks(env, n, seed=None):
    return [env.reset(seed=seed if i == 0 else None)[1]["task_id"] for i in range(n)]


class Countdown:
    """A strategy with a memory: every task from the last to the first."""

    num_left = 0

    def __call__(self, num_tasks, last_task, rng):
        self.num_left = (self.num_left or num_tasks) - 1
        return self.num_left

    def reset(self):
        self.num_left = 0

    def get_state(self):
        return {"num_left": self.num_left}

    def set_state(self, state):
        self.num_left = state["num_left"]


@pytest.mark.parametrize(
    "select", ["uniform", "round_robin", "without_replacement", "least_success", Countdown()]
)
def test_the_seed_determines_the_tasks_and_a_state_in_json_those_that_follow(select):
    env, other_env = make_env(select), make_env(select)
    first = draw_tasks(env, 10, seed=3)
    assert draw_tasks(other_env, 10, seed=3) == draw_tasks(env, 10, seed=3) == first
    fixed = select == "round_robin" or isinstance(select, Countdown)
    assert (draw_tasks(other_env, 10, seed=4) == first) == fixed
    other_env.set_state(json.loads(json.dumps(env.get_state())))
    assert draw_tasks(other_env, 8) == draw_tasks(env, 8)
    assert not isinstance(select, Countdown) or (first[:3], select.num_left) == ([6, 5, 4], 0)


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
        make_env(max)


class Alternating:
    """A strategy with a memory that cannot be saved."""

    draws = 0

    def reset(self):
        self.draws = 0

    def __call__(self, num_tasks, last_task, rng):
        self.draws += 1
        return self.draws // 2 % num_tasks


def test_a_strategy_whose_memory_cannot_be_saved_is_refused_by_a_checkpoint():
    env = make_env(Alternating())
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
    copied_env = copy.deepcopy(env)
    env.open_tasks(3)
    assert (draw_tasks(env, 2, seed=0), draw_tasks(copied_env, 2, seed=0)) == ([2, 2], [1, 1])


def test_a_method_of_the_environment_selects_in_workers_and_after_a_kill_and_a_checkpoint(tmp_path):
    def make_vector():
        return as_vector(OpensTasks, 2, workers=2, on_worker_failure="recover")

    envs, restored_envs = make_vector(), make_vector()
    try:
        envs.reset(seed=0)
        envs.call("open_tasks", 2)
        assert envs.reset()[1]["task_id"].tolist() == [1, 1]
        save_checkpoint(tmp_path / "run.ckpt", envs=envs)
        load_checkpoint(tmp_path / "run.ckpt", envs=restored_envs)
        assert restored_envs.reset()[1]["task_id"].tolist() == [1, 1]
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        with pytest.warns(UserWarning, match="worker 0 was killed by SIGKILL"):
            assert envs.reset()[1]["task_id"].tolist() == [1, 1]
    finally:
        envs.close()
        restored_envs.close()
