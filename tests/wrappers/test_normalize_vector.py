"""The wrappers that normalize vector environments: as the single forms, and together."""

from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import (
    MetaIterativeEnvExecutor,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    TaskOnehotWrapper,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
)
from tests.fakes import counting_makers
from tests.vector.fakes import all_modes, both_executors
from tests.wrappers.fakes import LENGTHS, TaskedEnv, assert_same, makers, play_many, play_one

ACTIONS = [0] * 12


@both_executors
@all_modes
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("many", "one"),
    [
        (
            partial(VectorNormalizeRewardPerTask, gamma=0.5),
            partial(NormalizeRewardPerTask, gamma=0.5),
        ),
        (VectorNormalizeObservationPerTask, NormalizeObservationPerTask),
    ],
    ids=["reward", "observation"],
)
def test_it_is_the_single_form_where_each_task_has_one_environment(
    executor, mode, dtype, many, one
):
    made = makers(dtype=dtype)
    envs = many(executor(made, 3, autoreset_mode=mode), 3)
    shown = play_many(envs, ACTIONS)
    for i, make in enumerate(made):
        env = one(make(), 3)
        assert_same(shown[i], play_one(env, ACTIONS, mode))
        for key in ("count", "mean", "m2"):
            assert envs.get_state()[key][i] == env.get_state()[key][i]
    envs.close()


@all_modes
@pytest.mark.parametrize(
    ("many", "one"),
    [
        (VectorNormalizeRewardPerTask, NormalizeRewardPerTask),
        (VectorNormalizeObservationPerTask, NormalizeObservationPerTask),
    ],
)
def test_a_step_belongs_to_the_task_of_its_episode(mode, many, one):
    maker = partial(TaskedEnv, 0, True, length=2)
    envs = many(MetaIterativeEnvExecutor([maker], 1, autoreset_mode=mode), 3)
    env = one(maker(), 3)
    assert_same(play_many(envs, ACTIONS)[0], play_one(env, ACTIONS, mode))
    assert envs.get_state() == env.get_state()


@pytest.mark.parametrize("each", [1, 3])
@all_modes
def test_the_environments_of_a_task_share_statistics_of_all_their_returns(mode, each):
    executor = MetaIterativeEnvExecutor(makers(each=each), 3, each, autoreset_mode=mode)
    envs = VectorNormalizeRewardPerTask(executor, 3, gamma=0.5)
    play_many(envs, ACTIONS)
    state = envs.get_state()
    for task, length in enumerate(LENGTHS):
        returns, value, t = [], 0.0, 0
        for _ in ACTIONS:
            if t == length:
                value = t = 0
                if mode is AutoresetMode.NEXT_STEP:
                    continue  # the step that resets is not counted
            t += 1
            value = 0.5 * value + t
            returns += [value] * each
        assert state["count"][task] == pytest.approx(len(returns), abs=1e-3)
        assert state["mean"][task] == pytest.approx(np.mean(returns), rel=1e-3)
        assert state["m2"][task] / len(returns) == pytest.approx(np.var(returns), rel=1e-2)


@pytest.mark.parametrize(
    ("tasks", "mean", "variance"),
    [
        ([2, 0, 1], [10, 20, 0], [0, 0, 0]),
        ([2, 0, 2, 1], [10, 30, 10], [0, 0, 100]),
        ([1, 0, 1], [10, 10, 0], [0, 100, 1]),
        ([0, 0, 1, 1, 2, 2], [5, 25, 45], [25, 25, 25]),
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
            assert state["m2"][task][0] / count == pytest.approx(variance[task], rel=5e-3)
    for i, task in enumerate(tasks):
        deviation = np.sqrt(state["m2"][task][0] / state["count"][task] + 1e-8)
        assert obs[i, 0] == pytest.approx((10 * i - state["mean"][task][0]) / deviation)


@pytest.mark.parametrize("each", [1, 2])
def test_more_tasks_than_environments_change_nothing(each):
    few, many = (
        VectorNormalizeObservationPerTask(MetaIterativeEnvExecutor(makers(each=each), 3, each), n)
        for n in (3, 9)
    )
    for a, b in zip(play_many(few, ACTIONS), play_many(many, ACTIONS), strict=True):
        assert_same(a, b)


@both_executors
def test_raw_rewards_are_in_the_infos_of_resets_steps_and_ends(executor):
    envs = VectorNormalizeRewardPerTask(executor(makers(), 3), 3)
    infos = envs.reset(seed=0)[1]
    assert infos["raw_reward"].tolist() == [0, 0, 0]
    assert infos["_raw_reward"].tolist() == [True] * 3
    envs.step([0] * 3)
    _, scaled, *_, infos = envs.step([0] * 3)
    assert infos["raw_reward"].tolist() == [2, 2, 2] != scaled.tolist()
    assert infos["final_info"]["raw_reward"].tolist() == [2, 0, 0]
    assert infos["final_info"]["_raw_reward"].tolist() == [True, False, False]
    assert infos["final_info"]["steps"].tolist()[0] == 2
    envs.close()


def test_a_reset_of_some_begins_and_counts_those_alone():
    executor = MetaIterativeEnvExecutor(makers(), 3, autoreset_mode=AutoresetMode.DISABLED)
    inner = VectorNormalizeRewardPerTask(executor, 3, gamma=1.0)
    envs = VectorNormalizeObservationPerTask(inner, 3)
    envs.reset(seed=0)
    envs.step([0] * 3)
    mask = np.array([False, True, False])
    infos = envs.reset(options={"reset_mask": mask})[1]
    assert infos["_raw_reward"].tolist() == mask.tolist()
    assert envs.get_state()["count"] == pytest.approx([2.0001, 3.0001, 2.0001])
    envs.step([0] * 3)  # whose returns are 1 + 2, 1 and 1 + 2
    assert inner.get_state()["mean"] == pytest.approx([2, 1, 2], rel=1e-3)


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


@pytest.mark.parametrize("wrap", [VectorNormalizeRewardPerTask, VectorNormalizeObservationPerTask])
def test_without_a_task_id_the_task_group_is_the_task(wrap):
    envs = wrap(MetaIterativeEnvExecutor(counting_makers(6, length=99), 3, 2))
    envs.reset(seed=0)
    before = np.array(envs.get_state()["count"])
    envs.step([0] * 6)
    assert envs.get_state()["count"] - before == pytest.approx([2, 2, 2])


def test_calls_and_tasks_reach_the_environments():
    envs = VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(makers(), 3), 3)
    envs.reset(seed=0)
    envs.set_tasks([{"task": 2}] * 3)
    assert envs.call("get_task") == ({"task": 2},) * 3
    envs.reset()
    envs.step([0] * 3)
    assert envs.get_state()["count"] == pytest.approx([1e-4, 1e-4, 3.0001])
