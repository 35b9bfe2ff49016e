import json
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import (
    MetaIterativeEnvExecutor,
    NormalizeRewardPerTask,
    VectorNormalizeRewardPerTask,
)
from tests.fakes import counting_makers
from tests.vector.fakes import all_modes, both_executors
from tests.vector.wrappers.fakes import (
    TaskedEnv,
    assert_same,
    fixed,
    makers,
    play_many,
    play_one,
)

ACTIONS = [0] * 12


@both_executors
@all_modes
def test_it_is_the_single_form_where_each_task_has_one_environment(executor, mode):
    envs = VectorNormalizeRewardPerTask(executor(makers(), 3, autoreset_mode=mode), 3, gamma=0.5)
    many = play_many(envs, ACTIONS)
    ones = [NormalizeRewardPerTask(make(), 3, gamma=0.5) for make in makers()]
    for i, env in enumerate(ones):
        assert_same(many[i], play_one(env, ACTIONS, mode), rtol=1e-13, atol=0)
        for key in ("count", "mean", "m2"):
            assert envs.get_state()[key][i] == pytest.approx(env.get_state()[key][i], rel=1e-13)
    envs.close()


@all_modes
def test_a_reward_belongs_to_the_task_of_its_episode(mode):
    maker = partial(TaskedEnv, 0, True, length=2)
    envs = VectorNormalizeRewardPerTask(
        MetaIterativeEnvExecutor([maker], 1, autoreset_mode=mode), 3, gamma=0.5
    )
    one = NormalizeRewardPerTask(maker(), 3, gamma=0.5)
    assert_same(play_many(envs, ACTIONS)[0], play_one(one, ACTIONS, mode), rtol=1e-13)
    assert envs.get_state()["count"] == pytest.approx(one.get_state()["count"])


@pytest.mark.parametrize("each", [1, 3])
@all_modes
def test_the_environments_of_a_task_share_statistics_of_all_their_returns(mode, each):
    executor = MetaIterativeEnvExecutor(makers(each=each), 3, each, autoreset_mode=mode)
    envs = VectorNormalizeRewardPerTask(executor, 3, gamma=0.5)
    play_many(envs, ACTIONS)
    state = envs.get_state()
    for task, length in enumerate((2, 3, 4)):
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


def test_tasks_in_any_order_are_told_apart():
    mixed = [partial(TaskedEnv, i, length=99, first=0) for i in (2, 0, 2, 1)]
    envs = VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(mixed, 4), 3)
    envs.reset(seed=0)
    envs.step([0] * 4)
    assert envs.get_state()["count"] == pytest.approx([1.0001, 1.0001, 2.0001])


@both_executors
def test_raw_rewards_are_in_the_infos_of_resets_steps_and_ends(executor):
    envs = VectorNormalizeRewardPerTask(executor(makers(), 3), 3)
    infos = envs.reset(seed=0)[1]
    assert infos["raw_reward"].tolist() == [0, 0, 0]
    assert infos["_raw_reward"].tolist() == [True] * 3
    envs.step([0] * 3)
    _, rewards, *_, infos = envs.step([0] * 3)
    assert infos["raw_reward"].tolist() == [2, 2, 2]
    assert rewards.tolist() != [2, 2, 2]
    assert infos["final_info"]["raw_reward"].tolist() == [2, 0, 0]
    assert infos["final_info"]["_raw_reward"].tolist() == [True, False, False]
    assert infos["final_info"]["steps"].tolist()[0] == 2
    envs.close()


def test_without_a_task_id_the_task_group_is_the_task():
    executor = MetaIterativeEnvExecutor(counting_makers(6, length=99), 3, 2)
    envs = VectorNormalizeRewardPerTask(executor)
    envs.reset(seed=0)
    envs.step([0] * 6)
    assert envs.get_state()["count"] == pytest.approx([2.0001] * 3)


def test_resetting_some_environments_begins_their_returns_alone():
    executor = MetaIterativeEnvExecutor(makers(), 3, autoreset_mode=AutoresetMode.DISABLED)
    envs = VectorNormalizeRewardPerTask(executor, 3, gamma=1.0)
    envs.reset(seed=0)
    envs.step([0] * 3)
    mask = np.array([False, True, False])
    infos = envs.reset(options={"reset_mask": mask})[1]
    assert infos["_raw_reward"].tolist() == mask.tolist()
    assert envs._returns.tolist() == [1.0, 0.0, 1.0]


def test_a_frozen_wrapper_learns_nothing():
    envs = VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(makers(), 3), 3)
    envs.update_running_mean = False
    envs.reset(seed=0)
    assert envs.step([0] * 3)[1] == pytest.approx([1.0] * 3)  # the prior variance is one
    assert envs.get_state()["count"] == [1e-4] * 3


def test_statistics_move_between_the_forms():
    envs = VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(makers(), 3), 3)
    play_many(envs, ACTIONS)
    state = json.loads(json.dumps(envs.get_state()))
    one = NormalizeRewardPerTask(makers()[1](), 3)
    one.set_state(state)
    one.update_running_mean = envs.update_running_mean = False
    one.reset()
    envs.reset()
    assert one.step(0)[1] == pytest.approx(envs.step([0] * 3)[1][1])
    with pytest.raises(ValueError, match="with num_tasks 6, got 3"):
        VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(makers(), 3), 6).set_state(state)


def test_a_task_id_that_is_no_task_is_refused():
    envs = VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(fixed(3), 3), 2)
    with pytest.raises(ValueError, match=r"in \[0, 1\], got 2 from environment 2; pass num_tasks="):
        envs.reset()


def test_calls_and_tasks_reach_the_environments():
    envs = VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(makers(), 3), 3)
    envs.reset(seed=0)
    envs.set_tasks([{"task": 2}] * 3)
    assert envs.call("get_task") == ({"task": 2},) * 3
    envs.reset()
    envs.step([0] * 3)
    assert envs.get_state()["count"] == pytest.approx([1e-4, 1e-4, 3.0001])
