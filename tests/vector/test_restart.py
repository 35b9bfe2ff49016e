"""Workers that die or hang, where they are restarted."""

import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import WorkerDiedError
from tests.fakes import equal
from tests.vector.fakes import WordEnv, all_modes, rows_of
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
    play_along,
)
from tests.vector.faults import parallel as raising
from tests.vector.processes import is_alive, needs_proc, nothing_left_behind

pytestmark = needs_proc

NO_ACTIONS = np.zeros(4, dtype=np.int64)
# Environment 2 is the first of worker 1 and of task 1.
FAULT = np.array([0, 0, 1, 0])
WORKER_0, WORKER_1 = [0, 1], [2, 3]
parallel = partial(raising, on_worker_failure="restart")


def play(envs, mode, actions_at, steps=9, between=None):
    """Every result of some steps; episodes that are over are reset where nobody else does it."""
    results = [envs.reset(seed=3)]
    for t in range(steps):
        if between is not None:
            between(t)
        results.append(envs.step(actions_at(t)))
        over = results[-1][2] | results[-1][3]
        if mode is AutoresetMode.DISABLED and over.any():
            results.append(envs.reset(options={"reset_mask": over}))
    return results


def of_others(results):
    """What the results of steps say of the environments of worker 0."""
    return [rows_of(result, WORKER_0) for result in results if len(result) == 5]


def never(t):
    return NO_ACTIONS


def restarted_steps(results):
    return [t for t, result in enumerate(results) if "worker_restarted" in result[-1]]


@all_modes
@pytest.mark.parametrize("lengths", [(4, 4, 4, 4), (2, 3, 3, 5)])
@pytest.mark.parametrize("when", [0, 3])
def test_the_results_of_other_workers_are_those_of_an_undisturbed_run(mode, when, lengths):
    makers = [partial(maker, length=n) for maker, n in zip(fragile_makers(), lengths, strict=True)]
    with closing(raising(makers, autoreset_mode=mode)) as envs:
        expected = of_others(play(envs, mode, never))
    with closing(parallel(makers, autoreset_mode=mode)) as envs:
        undisturbed = play(envs, mode, never)
        assert restarted_steps(undisturbed) == []
        results = play(envs, mode, never, between=lambda t: t == when and kill(envs, 1))
    assert len(restarted_steps(results)) == 1
    assert equal(of_others(undisturbed), expected)
    assert equal(of_others(results), expected)


@all_modes
@pytest.mark.parametrize(("fault", "how"), DEATHS)
def test_a_death_in_the_middle_of_a_step_leaves_the_other_workers_alone(mode, fault, how):
    makers = fragile_makers(fault=fault)
    with closing(parallel(makers, autoreset_mode=mode)) as envs:
        expected = of_others(play(envs, mode, never))
        results = play(envs, mode, lambda t: FAULT if t in (1, 2, 5) else NO_ACTIONS)
    assert len(restarted_steps(results)) == 3
    assert equal(of_others(results), expected)


@all_modes
def test_restarted_environments_begin_an_episode_with_a_truncation(mode):
    with closing(parallel(autoreset_mode=mode)) as envs:
        envs.reset(seed=3)
        envs.step(NO_ACTIONS)
        before = envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        kill(envs, 1)
        obs, rewards, terminated, truncated, infos = envs.step(NO_ACTIONS)
        assert obs.tolist() == [[3, 3], [103, 3], [200, 0], [300, 0]]
        assert rewards.tolist() == [3, 3, 0, 0]
        assert terminated.tolist() == [False] * 4
        assert truncated.tolist() == [False, False, True, True]
        assert infos["worker_restarted"].tolist() == [False, False, True, True]
        assert infos["worker_restarted"].dtype == np.bool_
        assert infos["_worker_restarted"].tolist() == [False, False, True, True]
        assert infos["steps"].tolist() == [3, 3, 0, 0]
        assert infos["_steps"].tolist() == [True] * 4
        assert infos["task_name"].tolist() == ["a", "a", "b", "b"]
        if mode is AutoresetMode.SAME_STEP:
            assert infos["_final_obs"].tolist() == [False, False, True, True]
            for i in WORKER_1:
                assert infos["final_obs"][i].tolist() == before[0][i].tolist()
            final = infos["final_info"]
            assert final.keys() == {"worker_restarted", "_worker_restarted"}
            assert final["worker_restarted"].tolist() == [False, False, True, True]
        else:
            assert "final_obs" not in infos
        assert envs.worker_pids[0] == pids[0]
        assert envs.worker_pids[1] != pids[1]
        assert not is_alive(pids[1])

        if mode is AutoresetMode.DISABLED:
            with pytest.raises(ResetNeeded, match=r"episodes of environments \[2, 3\] are over"):
                envs.step(NO_ACTIONS)
            envs.reset(options={"reset_mask": truncated})
        obs, rewards, terminated, truncated, infos = envs.step(NO_ACTIONS)
        assert rewards.tolist() == [4, 4, 1, 1]
        assert "worker_restarted" not in infos
        assert terminated.tolist() == [True, True, False, False]
        assert truncated.tolist() == [False] * 4


@all_modes
@pytest.mark.parametrize("how", ["between steps", "in a step"])
def test_tasks_toggles_and_attributes_are_back_after_a_restart(mode, how):
    makers = fragile_makers(fault=kill_itself, length=100)
    with closing(parallel(makers, autoreset_mode=mode)) as envs:
        envs.set_tasks([500, 600])
        envs.set_tasks([1000, 2000])
        envs.call("toggle_double", False)
        envs.call("toggle_double", True)
        envs.set_attr("name", ["w", "x", "y", "z"])
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        if how == "between steps":
            kill(envs, 1)
        obs, *_, truncated, infos = envs.step(NO_ACTIONS if how == "between steps" else FAULT)
        assert obs[:, 0].tolist() == [1002, 1002, 2000, 2000]
        assert infos["task_name"].tolist() == ["w", "x", "y", "z"]
        if mode is AutoresetMode.DISABLED:
            envs.reset(options={"reset_mask": truncated})
        obs, rewards, *_ = envs.step(NO_ACTIONS)
        assert obs[:, 0].tolist() == [1003, 1003, 2001, 2001]
        assert rewards.tolist() == [6, 6, 2, 2]
        envs.set_tasks([1, 2])
        assert envs.reset(seed=0)[0][:, 0].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("order", "first"), [(["task", "attribute"], 30), (["attribute", "task"], 500)]
)
def test_what_was_set_is_set_again_in_the_same_order(order, first):
    with closing(parallel()) as envs:
        for what in order:
            if what == "task":
                envs.call("set_task", 500)
            else:
                envs.set_attr("first", [30] * 4)
        assert envs.reset(seed=0)[0][:, 0].tolist() == [first] * 4
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [first + 1] * 2 + [first] * 2


def test_what_was_set_of_some_environments_is_set_again_beside_the_rest():
    with closing(parallel()) as envs:
        envs.set_tasks([500, 600])
        envs.call_some([3], "set_task", 900)
        assert envs.reset(seed=0)[0][:, 0].tolist() == [500, 500, 600, 900]
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [501, 501, 600, 900]


def test_a_restart_draws_from_a_branch_of_the_seed():
    draws = []
    for seed in (3, 3, 30):
        with closing(parallel()) as envs:
            draws.append([envs.reset(seed=seed)[1]["draw"].tolist()])
            envs.step(NO_ACTIONS)
            for _ in range(2):
                kill(envs, 1)
                draws[-1].append(envs.step(NO_ACTIONS)[4]["draw"].tolist())
    assert draws[0] == draws[1]
    first, second, third = draws[0]
    assert first[:2] == second[:2] == third[:2]
    assert len({*first[2:], *second[2:], *third[2:]}) == 6
    assert set(draws[2][1][2:]).isdisjoint(second)


def test_a_worker_that_hangs_is_restarted_after_the_timeout():
    makers = fragile_makers(fault=hang)
    with closing(parallel(makers, timeout=1)) as envs:
        envs.reset(seed=0)
        begin = time.monotonic()
        *_, truncated, infos = envs.step(FAULT)
        assert 1 <= time.monotonic() - begin < 3
        assert truncated.tolist() == infos["worker_restarted"].tolist() == [False] * 2 + [True] * 2
        assert envs.step(NO_ACTIONS)[1].tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize("how", ["before", "in it"])
def test_a_worker_lost_in_reset_is_restarted_and_reset_with_the_same_seed(how, tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", kill_itself))
    makers[:3] = fragile_makers(3)
    with closing(parallel(makers)) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        if how == "before":
            kill(envs, 1)
        options = None if how == "before" else {"fault": True}
        obs, infos = envs.reset(seed=8, options=options)
        assert envs.worker_pids[1] != pids[1]
        with closing(SyncVectorEnv(makers, autoreset_mode="SameStep")) as oracle:
            assert equal((obs, infos), oracle.reset(seed=8))
            assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))


@pytest.mark.parametrize("mask", [[True, False, True, False], [True, False, False, False]])
def test_a_worker_lost_in_a_masked_reset_leaves_no_environment_without_an_episode(mask):
    makers = fragile_makers(length=9)
    with closing(parallel(makers, autoreset_mode="Disabled")) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        kill(envs, 1)
        obs, _ = envs.reset(options={"reset_mask": np.array(mask)})
        assert obs[:, 0].tolist() == [0, 101, 200, 300]
        obs, *_ = envs.step(NO_ACTIONS)
        assert obs[:2].tolist() == [[1, 1], [102, 2]]
        assert obs in envs.observation_space


@pytest.mark.parametrize("how", ["before", "in it"])
def test_a_worker_lost_in_a_call_is_restarted_and_called_again(how, tmp_path):
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=partial(once, tmp_path / "done", kill_itself))
    with closing(parallel(makers)) as envs:
        envs.set_tasks([1000, 2000])
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        if how == "before":
            (tmp_path / "done").touch()
            kill(envs, 1)
        expected = ("no fault",) * 3 + ("not again",)
        assert envs.call("run_fault") == expected
        assert envs.worker_pids[0] == pids[0]
        assert envs.worker_pids[1] != pids[1]
        assert envs.get_attr("first") == (1000, 1000, 2000, 2000)
        obs, *_ = envs.step(NO_ACTIONS)
        assert obs[:2].tolist() == [[1002, 2], [1002, 2]]
        assert obs in envs.observation_space


def test_an_episode_lost_outside_of_a_step_is_reported_by_the_next_step():
    with closing(parallel()) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        kill(envs, 1)
        envs.get_attr("first")
        *_, truncated, infos = envs.step(NO_ACTIONS)
        assert infos["worker_restarted"].tolist() == [False, False, True, True]
        assert truncated.tolist() == [False, False, True, True]


@pytest.mark.parametrize(("fault", "how"), DEATHS[:2])
def test_a_worker_that_dies_again_while_it_is_restarted_is_an_error(fault, how, tmp_path):
    makers = [FragileEnv, partial(build_once, tmp_path / "built", fault)]
    with nothing_left_behind():
        envs = parallel(makers, 2, 1)
        envs.reset(seed=0)
        kill(envs, 1)
        message = rf"worker 1 {how}, with environments 1 to 1 of tasks \[1\]"
        with pytest.raises(WorkerDiedError, match=message) as info:
            envs.step([0, 0])
        assert envs.closed is True
        del info
        del envs


def test_a_constructor_that_raises_in_a_restart_is_named(tmp_path):
    makers = [FragileEnv, partial(build_once, tmp_path / "built", break_a_leg)]
    with nothing_left_behind():
        envs = parallel(makers, 2, 1)
        envs.reset(seed=0)
        kill(envs, 1)
        message = "the constructor of environment 1 failed: a leg"
        with pytest.raises(ZeroDivisionError, match=message) as info:
            envs.step([0, 0])
        envs.close()
        del envs, info


def test_a_death_and_an_exception_in_one_step_raise_the_exception():
    makers = fragile_makers(fault=break_a_leg)
    makers[2] = partial(makers[2], fault=kill_itself)
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(parallel(makers)) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        with pytest.raises(ZeroDivisionError, match="environment 0, task 'a': a leg"):
            envs.step([1, 0, 1, 0])
        play_along(envs, oracle)
    oracle.close()


def test_texts_and_tuples_survive_a_restart():
    with closing(parallel(partial(WordEnv, 7))) as envs:
        envs.reset(seed=0)
        envs.action_space.seed(0)
        before = envs.step(envs.action_space.sample())[0]
        kill(envs, 1)
        obs, *_, truncated, infos = envs.step(envs.action_space.sample())
        assert [len(word) for word in obs] == [3, 3, 1, 1]
        assert infos["word"].tolist() == list(obs)
        assert truncated.tolist() == [False, False, True, True]
        assert infos["final_obs"].tolist() == [None, None, *before[2:]]
        assert [len(w) for w in envs.step(envs.action_space.sample())[0]] == [4, 4, 2, 2]
