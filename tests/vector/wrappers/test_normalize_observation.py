from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import (
    MetaIterativeEnvExecutor,
    NormalizeObservationPerTask,
    TaskOnehotWrapper,
    VectorNormalizeObservationPerTask,
)
from tests.fakes import CountingEnv, counting_makers
from tests.vector.fakes import all_modes, both_executors
from tests.vector.wrappers.fakes import TaskedEnv, assert_same, makers, play_many, play_one

ACTIONS = [0] * 12


@both_executors
@all_modes
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_single_form_where_each_task_has_one_environment(executor, mode, dtype):
    made = makers(dtype=dtype)
    envs = VectorNormalizeObservationPerTask(executor(made, 3, autoreset_mode=mode), 3)
    many = play_many(envs, ACTIONS)
    for i, make in enumerate(made):
        one = NormalizeObservationPerTask(make(), 3)
        tolerance = 1e-4 if dtype == np.float32 else 1e-9
        assert_same(many[i], play_one(one, ACTIONS, mode), rtol=tolerance, atol=tolerance)
        for key in ("count", "mean", "m2"):
            ours, theirs = envs.get_state()[key][i], one.get_state()[key][i]
            assert ours == pytest.approx(theirs)
    envs.close()


@all_modes
def test_an_observation_belongs_to_the_task_of_its_episode(mode):
    maker = partial(TaskedEnv, 0, True, length=2)
    executor = MetaIterativeEnvExecutor([maker], 1, autoreset_mode=mode)
    envs = VectorNormalizeObservationPerTask(executor, 3)
    one = NormalizeObservationPerTask(maker(), 3)
    assert_same(play_many(envs, ACTIONS)[0], play_one(one, ACTIONS, mode))


def test_the_environments_of_a_task_share_statistics():
    executor = MetaIterativeEnvExecutor(makers(each=2, length=99), 3, 2)
    envs = VectorNormalizeObservationPerTask(executor, 3)
    play_many(envs, [0] * 4)
    state = envs.get_state()
    assert state["count"] == pytest.approx([10.0001] * 3)
    assert [row[0] for row in state["mean"]] == pytest.approx([2, 12, 22], rel=1e-3)
    assert state["m2"][2][0] / 10 == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    ("tasks", "mean", "variance"),
    [
        ([2, 0, 1], [10, 20, 0], [0, 0, 0]),
        ([2, 0, 2, 1], [10, 30, 10], [0, 0, 100]),
        ([1, 0, 1], [10, 10, 0], [0, 100, 1]),
    ],
)
def test_the_statistics_of_a_step_are_those_of_each_tasks_samples(tasks, mean, variance):
    made = [partial(TaskedEnv, task, first=10 * i) for i, task in enumerate(tasks)]
    envs = VectorNormalizeObservationPerTask(MetaIterativeEnvExecutor(made, len(tasks)), 3)
    obs, _ = envs.reset(seed=0)
    state = envs.get_state()
    for task in range(3):
        count = 1e-4 + tasks.count(task)
        assert state["count"][task] == pytest.approx(count)
        assert state["mean"][task][0] == pytest.approx(mean[task], rel=1e-3)
        if tasks.count(task) > 1:
            assert state["m2"][task][0] / count == pytest.approx(variance[task], rel=1e-3)
    for i, task in enumerate(tasks):
        deviation = np.sqrt(state["m2"][task][0] / state["count"][task] + 1e-8)
        assert obs[i, 0] == pytest.approx((10 * i - state["mean"][task][0]) / deviation)


def test_more_tasks_than_environments_change_nothing():
    few, many = (
        VectorNormalizeObservationPerTask(MetaIterativeEnvExecutor(makers(), 3), n) for n in (3, 9)
    )
    a, b = play_many(few, ACTIONS), play_many(many, ACTIONS)
    for i in range(3):
        assert_same(a[i], b[i], rtol=0, atol=0)


@both_executors
def test_a_onehot_stays_as_it_is(executor):
    made = TaskOnehotWrapper.wrap_env_cons_list(counting_makers(3, length=2, dtype=np.float32))
    envs = VectorNormalizeObservationPerTask(executor(made, 3))
    shown = play_many(envs, ACTIONS)
    for i in range(3):
        assert {tuple(r["obs"][2:].tolist()) for r in shown[i]} == {tuple(np.eye(3)[i].tolist())}
        assert shown[i][2]["final"][2:].tolist() == np.eye(3)[i].tolist()
        assert all(r["obs"] in envs.single_observation_space for r in shown[i])
    assert envs.observation_space.shape == (3, 5)
    assert envs.single_observation_space.high.tolist() == [np.inf, np.inf, 1, 1, 1]
    assert envs.get_state()["num_tasks"] == 3
    envs.close()


def test_a_reset_of_some_counts_those_alone():
    executor = MetaIterativeEnvExecutor(makers(), 3, autoreset_mode=AutoresetMode.DISABLED)
    envs = VectorNormalizeObservationPerTask(executor, 3)
    envs.reset(seed=0)
    envs.reset(options={"reset_mask": np.array([False, True, True])})
    assert envs.get_state()["count"] == pytest.approx([1.0001, 2.0001, 2.0001])


def test_a_frozen_wrapper_learns_nothing():
    envs = VectorNormalizeObservationPerTask(MetaIterativeEnvExecutor(makers(), 3), 3)
    envs.update_running_mean = False
    play_many(envs, ACTIONS)
    assert envs.get_state()["count"] == [1e-4] * 3


def test_other_observations_are_refused():
    with pytest.raises(TypeError, match="dtype int64 cannot be normalized"):
        VectorNormalizeObservationPerTask(
            MetaIterativeEnvExecutor(partial(CountingEnv, dtype=np.int64), 2)
        )
