"""Task samplers: batches of updates, drawn from a distribution of tasks."""

import pickle
import random
from collections import Counter
from functools import partial

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from mtwrappers import (
    ConstructEnvsSampler,
    EnvPoolSampler,
    MetaWorldTaskSampler,
    PointGoalEnv,
    SetTaskSampler,
    TaskSampler,
)
from mtwrappers.metaworld import make_benchmark
from tests.fakes import CountingEnv, CountingSetTaskEnv, counting_makers


def pool(n):
    return [CountingEnv(first=100 * i) for i in range(n)]


def firsts(updates):
    return [update().first for update in updates]


def tasks_of(updates):
    return [update.task for update in updates]


def test_a_task_sampler_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        TaskSampler()


# What holds for all of them.

SAMPLERS = {
    "constructors": lambda seed: ConstructEnvsSampler(counting_makers(9), seed=seed),
    "pool": lambda seed: EnvPoolSampler(pool(9), seed=seed),
    "set-task": lambda seed: SetTaskSampler(CountingSetTaskEnv, seed=seed),
    "set-task-unbounded": lambda seed: SetTaskSampler(PointGoalEnv, seed=seed),
    "metaworld": lambda seed: MetaWorldTaskSampler(
        make_benchmark("MT10", num_goals=3), "train", seed=seed
    ),
}


def describe(updates):
    return [
        pickle.dumps(update.task) if hasattr(update, "task") else update().first
        for update in updates
    ]


@pytest.fixture(params=list(SAMPLERS))
def make(request):
    return SAMPLERS[request.param]


def test_the_seed_determines_the_tasks_and_without_one_samplers_differ(make):
    one, two = make(5), make(5)
    for _ in range(2):
        assert describe(one.sample(5)) == describe(two.sample(5))
    assert len({tuple(describe(make(seed).sample(5))) for seed in range(6)}) > 1
    assert len({tuple(describe(make(None).sample(5))) for _ in range(8)}) > 1


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "pool"])
def test_the_same_seed_gives_the_same_tasks_with_replacement(name):
    one, two = SAMPLERS[name](5), SAMPLERS[name](5)
    drawn = [describe(one.sample(12, with_replacement=True)) for _ in range(2)]
    assert drawn == [describe(two.sample(12, with_replacement=True)) for _ in range(2)]


def test_the_global_random_state_is_neither_changed_nor_read(make):
    kept = np.random.get_state(), random.getstate()
    try:
        np.random.seed(1)
        random.seed(1)
        before = np.random.get_state()[1].tolist(), random.getstate()
        first = describe(make(5).sample(4))
        assert (np.random.get_state()[1].tolist(), random.getstate()) == before
        np.random.seed(2)
        random.seed(2)
        assert describe(make(5).sample(4)) == first
    finally:
        np.random.set_state(kept[0])
        random.setstate(kept[1])


@pytest.mark.parametrize("n_tasks", [0, -1, 1.5, "2", None, True])
def test_n_tasks_must_be_a_positive_integer(make, n_tasks):
    with pytest.raises(ValueError, match=r"n_tasks must be a positive integer, got"):
        make(0).sample(n_tasks)
    assert len(make(0).sample(np.int64(3))) == 3


def test_a_seed_must_be_a_non_negative_integer(make):
    with pytest.raises(ValueError, match="a seed must be zero or greater, got -1"):
        make(-1)
    with pytest.raises(TypeError, match=r"a seed must be an integer, got 1\.5"):
        make(1.5)


# ConstructEnvsSampler.


@pytest.mark.parametrize("seed", range(5))
def test_no_constructor_repeats_before_all_have_come(seed):
    sampler = ConstructEnvsSampler(counting_makers(3), seed=seed)
    assert sampler.n_tasks == 3
    drawn = firsts(sampler.sample(8))
    assert len(drawn) == 8
    assert sorted(drawn[:3]) == sorted(drawn[3:6]) == [0, 100, 200]
    assert len(set(drawn[6:])) == 2


def test_with_replacement_constructors_may_repeat_at_once():
    sampler = ConstructEnvsSampler(counting_makers(3), seed=0)
    draws = [firsts(sampler.sample(3, with_replacement=True)) for _ in range(20)]
    assert any(len(set(draw)) < 3 for draw in draws)
    assert {first for draw in draws for first in draw} == {0, 100, 200}


# EnvPoolSampler.


def test_a_pool_gives_each_member_once():
    envs = pool(5)
    updates = EnvPoolSampler(envs, seed=0).sample(5)
    assert {id(update()) for update in updates} == {id(env) for env in envs}


def test_updates_of_a_pool_leave_its_other_members_open():
    envs = pool(3)
    env = None
    for update in EnvPoolSampler(envs, seed=0).sample(3):
        env = update(env)
    assert [member.closed for member in envs] == [False] * 3


def test_a_grown_pool_holds_copies_of_random_members():
    envs = pool(3)
    sampler = EnvPoolSampler(envs, seed=0)
    sampler.grow_pool(7)
    assert sampler.n_tasks == 7
    drawn = [update() for update in sampler.sample(7)]
    assert len({id(env) for env in drawn}) == 7
    assert {id(env) for env in envs} <= {id(env) for env in drawn}
    # Four copies of three members: none is copied again before all have been copied.
    assert sorted(Counter(env.first for env in drawn).values()) == [2, 2, 3]


def test_which_members_are_copied_is_random_and_determined_by_the_seed():
    def copied(seed):
        sampler = EnvPoolSampler(pool(5), seed=seed)
        sampler.grow_pool(6)
        [(first, _)] = Counter(firsts(sampler.sample(6))).most_common(1)
        return first

    assert copied(3) == copied(3)
    assert len({copied(seed) for seed in range(10)}) > 1


def test_a_pool_does_not_shrink_and_the_list_that_was_given_does_not_grow():
    envs = pool(3)
    sampler = EnvPoolSampler(envs)
    for size in (1, 3, 5):
        sampler.grow_pool(size)
        assert sampler.n_tasks == max(3, size)
    assert len(envs) == 3


# SetTaskSampler.


def test_set_task_updates_make_environments_on_the_tasks():
    sampler = SetTaskSampler(partial(CountingSetTaskEnv, 4), seed=0)
    assert sampler.n_tasks == 5
    updates = sampler.sample(5)
    envs = [update() for update in updates]
    assert sorted(env.first for env in envs) == [0, 10, 20, 30, 40]
    assert [env.length for env in envs] == [4] * 5


def test_the_updates_of_one_sampler_share_an_environment():
    env = None
    for update in SetTaskSampler(PointGoalEnv, seed=0).sample(3):
        new = update(env)
        assert env is None or new is env
        assert new.get_task() == update.task
        env = new


def test_tasks_are_drawn_from_the_environment_that_is_given():
    class Special(CountingSetTaskEnv):
        def sample_tasks(self, n):
            return [{"first": 1000 + i} for i in range(n)]

    sampler = SetTaskSampler(CountingSetTaskEnv, env=TimeLimit(Special(), 2))
    assert sampler.n_tasks == 5
    assert tasks_of(sampler.sample(2)) == [{"first": 1000}, {"first": 1001}]


def test_set_task_updates_apply_the_wrapper_to_new_environments():
    sampler = SetTaskSampler(
        CountingSetTaskEnv, wrapper=lambda env, task: TimeLimit(env, 1 + task["first"]), seed=0
    )
    for update in sampler.sample(3):
        assert update()._max_episode_steps == 1 + update.task["first"]


def test_the_seed_of_a_set_task_sampler_equals_a_reset_of_its_environment():
    env = PointGoalEnv()
    env.reset(seed=8)
    sampler = SetTaskSampler(PointGoalEnv, seed=8)
    assert tasks_of(sampler.sample(3)) == env.sample_tasks(3)


def test_an_unbounded_distribution_has_no_number_of_tasks():
    sampler = SetTaskSampler(PointGoalEnv, seed=0)
    assert sampler.n_tasks is None
    assert len({task["goal"] for task in tasks_of(sampler.sample(20))}) == 20
    assert len(sampler.sample(20, with_replacement=True)) == 20


def test_set_tasks_repeat_at_once_with_replacement_only():
    sampler = SetTaskSampler(CountingSetTaskEnv, seed=0)
    drawn = [task["first"] for task in tasks_of(sampler.sample(10))]
    assert sorted(drawn[:5]) == sorted(drawn[5:]) == [0, 10, 20, 30, 40]
    draws = [tasks_of(sampler.sample(5, with_replacement=True)) for _ in range(20)]
    assert any(len({task["first"] for task in draw}) < 5 for draw in draws)
