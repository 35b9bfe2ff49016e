"""Normalization of one environment at a time and side by side: the same numbers."""

from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import mtwrappers as mt
from tests.vector.fakes import all_modes, both_executors
from tests.wrappers.fakes import ACTIONS, VECTOR, TaskedEnv, makers, pairs, play_both


@both_executors
@all_modes
@pairs
@pytest.mark.slow_but(
    "iterative",
    "NormalizeRewardPerTask-VectorNormalizeRewardPerTask-NextStep-parallel",
)
def test_the_vector_form_is_the_single_form_where_each_task_has_one_environment(
    executor, mode, one, many
):
    built = makers(dtype=np.float32)
    envs = many(executor(built, 3, autoreset_mode=mode), 3)
    _, singles = play_both(envs, [lambda make=make: one(make(), 3) for make in built], ACTIONS)
    for i, env in enumerate(singles):
        for key in ("count", "mean", "m2"):
            assert envs.get_state()[key][i] == env.get_state()[key][i]
    envs.close()


@all_modes
@pairs
def test_a_step_belongs_to_the_task_of_its_episode(mode, one, many):
    maker = partial(TaskedEnv, 0, True, length=2)
    kwargs = {"gamma": 0.5} if one is mt.NormalizeRewardPerTask else {"epsilon": 0.1}
    envs = many(mt.MetaIterativeEnvExecutor([maker], 1, autoreset_mode=mode), 3, **kwargs)
    _, [env] = play_both(envs, [lambda: one(maker(), 3, **kwargs)], ACTIONS)
    assert {**env.get_state(), "episodes": envs.get_state()["episodes"]} == envs.get_state()


def named(task, name, **kwargs):
    return mt.TaskNameWrapper(TaskedEnv(task, **kwargs), task_name=name)


@pytest.mark.parametrize(
    ("tasks", "mean", "variance"),
    [
        ([2, 0, 1], [10, 20, 0], [0, 0, 0]),
        ([2, 0, 2, 1], [10, 30, 10], [0, 0, 100]),
        ([0, 0, 1, 1, 2, 2], [5, 25, 45], [25, 25, 25]),
    ],
)
def test_the_statistics_of_a_step_are_those_of_each_tasks_samples(tasks, mean, variance):
    built = [partial(named, task, str(task), first=10 * i) for i, task in enumerate(tasks)]
    executor = mt.MetaIterativeEnvExecutor(built, len(tasks))
    envs = mt.VectorNormalizeObservationPerTask(executor, 4)  # of the last of which there is none
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


@pytest.mark.parametrize("wrap", VECTOR)
@pytest.mark.parametrize("names", [[None] * 3, ["reach", "push", "pick"]])
def test_task_groups_that_share_an_id_are_named_once(wrap, names):
    built = [
        partial(named, task, name) if name else partial(TaskedEnv, task)
        for task, name in zip([0, 1, 0], names, strict=True)
    ]
    envs = wrap(mt.MetaIterativeEnvExecutor(built, 3, 2), 2)
    message = rf"task groups \[0, 2\] all report task_id 0 .* in {wrap.__name__}; .*TaskNameWrapper"
    with pytest.warns(UserWarning, match=message):
        envs.reset(seed=0)
    envs.reset(seed=0)


def test_a_reset_of_some_begins_and_counts_those_alone():
    executor = mt.MetaIterativeEnvExecutor(makers(), 3, autoreset_mode=AutoresetMode.DISABLED)
    inner = mt.VectorNormalizeRewardPerTask(executor, 3, gamma=1.0)
    envs = mt.VectorNormalizeObservationPerTask(inner, 3)
    envs.reset(seed=0)
    envs.step([0] * 3)
    mask = np.array([False, True, False])
    infos = envs.reset(options={"reset_mask": mask})[1]
    assert infos["_raw_reward"].tolist() == mask.tolist()
    assert envs.get_state()["count"] == pytest.approx([2.0001, 3.0001, 2.0001])
    envs.step([0] * 3)  # whose returns are 1 + 2, 1 and 1 + 2
    assert inner.get_state()["mean"] == pytest.approx([2, 1, 2], rel=1e-3)


def test_a_reset_of_what_the_next_step_would_reset_leaves_that_step_to_be_played():
    executor = mt.MetaIterativeEnvExecutor(makers(), 3, autoreset_mode=AutoresetMode.NEXT_STEP)
    envs = mt.VectorNormalizeRewardPerTask(executor, 3)
    envs.reset(seed=0)
    for counted in ([1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 3, 4]):
        envs.step([0] * 3)
        assert envs.get_state()["count"] == pytest.approx([n + 1e-4 for n in counted])
        if counted[0] == 2:  # The first's episode has ended; that of the second is a step later.
            envs.reset(options={"reset_mask": np.array([True, False, False])})
