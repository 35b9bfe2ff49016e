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
    MetaWorldSetTaskEnv,
    MetaWorldTaskSampler,
    PointGoalEnv,
    SetTaskSampler,
    TaskSampler,
)
from mtwrappers.metaworld import make_benchmark
from tests.fakes import CountingEnv, CountingSetTaskEnv, counting_makers


@pytest.fixture(scope="module")
def mt10():
    return make_benchmark("MT10", num_goals=3)


@pytest.fixture(scope="module")
def ml10():
    return make_benchmark("ML10", num_goals=2)


def pool(n):
    return [CountingEnv(first=100 * i) for i in range(n)]


def firsts(updates):
    return [update().first for update in updates]


def tasks_of(updates):
    return [update.task for update in updates]


def keys(updates):
    """What tells Meta-World tasks apart."""
    return [(update.task["inner"].env_name, update.task["inner"].data) for update in updates]


def class_names(updates):
    return [update.task["inner"].env_name for update in updates]


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


def test_the_same_seed_gives_the_same_tasks(make):
    one, two = make(5), make(5)
    for _ in range(2):
        assert describe(one.sample(5)) == describe(two.sample(5))


def test_another_seed_gives_other_tasks(make):
    orders = {tuple(describe(make(seed).sample(5))) for seed in range(6)}
    assert len(orders) > 1


def test_without_a_seed_two_samplers_differ(make):
    orders = {tuple(describe(make(None).sample(5))) for _ in range(8)}
    assert len(orders) > 1


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


def test_numpy_integers_are_numbers_of_tasks(make):
    assert len(make(0).sample(np.int64(3))) == 3


def test_a_seed_must_be_a_non_negative_integer(make):
    with pytest.raises(ValueError, match="a seed must be zero or greater, got -1"):
        make(-1)
    with pytest.raises(TypeError, match=r"a seed must be an integer, got 1\.5"):
        make(1.5)


# ConstructEnvsSampler.


def test_constructors_come_once_each():
    sampler = ConstructEnvsSampler(counting_makers(4), seed=0)
    assert sampler.n_tasks == 4
    assert sorted(firsts(sampler.sample(4))) == [0, 100, 200, 300]


@pytest.mark.parametrize("seed", range(5))
def test_more_constructors_may_be_asked_for_and_none_repeats_before_all_have_come(seed):
    drawn = firsts(ConstructEnvsSampler(counting_makers(3), seed=seed).sample(8))
    assert len(drawn) == 8
    assert sorted(drawn[:3]) == [0, 100, 200]
    assert sorted(drawn[3:6]) == [0, 100, 200]
    assert len(set(drawn[6:])) == 2


def test_with_replacement_constructors_may_repeat_at_once():
    sampler = ConstructEnvsSampler(counting_makers(3), seed=0)
    draws = [firsts(sampler.sample(3, with_replacement=True)) for _ in range(20)]
    assert any(len(set(draw)) < 3 for draw in draws)
    assert {first for draw in draws for first in draw} == {0, 100, 200}


def test_there_must_be_a_constructor():
    with pytest.raises(ValueError, match="at least one constructor, got none"):
        ConstructEnvsSampler([])


def test_a_constructor_must_be_callable():
    with pytest.raises(TypeError, match="env_constructor must be callable, got 3"):
        ConstructEnvsSampler([CountingEnv, 3])


# EnvPoolSampler.


def test_a_pool_gives_each_member_once():
    envs = pool(5)
    updates = EnvPoolSampler(envs, seed=0).sample(5)
    assert {id(update()) for update in updates} == {id(env) for env in envs}


def test_more_than_the_pool_holds_is_refused():
    sampler = EnvPoolSampler(pool(2))
    with pytest.raises(ValueError, match=r"holds 2 environments, got n_tasks=3; grow_pool\(3\)"):
        sampler.sample(3)


def test_a_pool_is_not_sampled_with_replacement():
    with pytest.raises(ValueError, match="cannot be sampled with replacement"):
        EnvPoolSampler(pool(2)).sample(1, with_replacement=True)


def test_a_pool_must_hold_an_environment():
    with pytest.raises(ValueError, match="at least one environment, got none"):
        EnvPoolSampler([])


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


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_pool_does_not_shrink(size):
    sampler = EnvPoolSampler(pool(3))
    sampler.grow_pool(size)
    assert sampler.n_tasks == 3


def test_growing_does_not_change_the_list_that_was_given():
    envs = pool(2)
    EnvPoolSampler(envs).grow_pool(4)
    assert len(envs) == 2


def test_a_member_that_cannot_be_copied_is_named():
    class Uncopyable(CountingEnv):
        def __deepcopy__(self, memo):
            raise RuntimeError("it holds a socket")

    sampler = EnvPoolSampler([Uncopyable()])
    with pytest.raises(TypeError, match=r"cannot copy .*Uncopyable.*: it holds a socket"):
        sampler.grow_pool(2)


def copy_of(env):
    """The second member that a pool of one grows."""
    sampler = EnvPoolSampler([env], seed=0)
    sampler.grow_pool(2)
    [copied] = [member for member in (u() for u in sampler.sample(2)) if member is not env]
    return copied


def play(env, steps=3):
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, 4)).astype(np.float32)
    return [env.reset()[0], *(env.step(action)[0] for action in actions)]


def test_a_copied_metaworld_member_plays_the_same_task():
    env = MetaWorldSetTaskEnv("ML1", "train", env_name="push-v3", num_goals=3)
    env.set_task(env.sample_tasks(2)[1])
    env.reset()
    env.step(np.ones(4, np.float32))
    copied = copy_of(env)
    assert copied.get_task() == env.get_task()
    assert copied.action_space == env.action_space
    assert np.array_equal(play(copied), play(env))


@pytest.mark.parametrize("benchmark", ["MT1", "ML1"])
def test_a_copied_bare_sawyer_member_plays_the_same_task(benchmark):
    made = make_benchmark(benchmark, env_name="push-v3", num_goals=2)
    env = made.train_classes["push-v3"](camera_name="corner2")
    env.set_task(made.train_tasks[1])
    env.reset()
    env.step(np.ones(4, np.float32))
    copied = copy_of(env)
    assert type(copied) is type(env)
    assert copied.action_space.shape == (4,)
    assert copied.action_space == env.action_space
    assert copied.observation_space == env.observation_space
    assert copied.camera_name == "corner2"
    assert np.array_equal(play(copied), play(env))
    # The goals are hidden in ML1 and visible in MT1.
    assert copied.reset()[0][-3:].any() == (benchmark == "MT1")


def test_a_copied_bare_sawyer_member_has_a_simulation_of_its_own():
    made = make_benchmark("MT1", env_name="reach-v3", num_goals=2)
    env = made.train_classes["reach-v3"]()
    env.set_task(made.train_tasks[0])
    copied = copy_of(env)
    start = env.reset()[0]
    goal = start[-3:].copy()
    copied.set_task(made.train_tasks[1])
    other = copied.reset()[0]
    copied.step(np.ones(4, np.float32))
    assert not np.array_equal(other[-3:], goal)
    assert np.array_equal(env.reset()[0], start)


def test_a_wrapped_bare_sawyer_member_is_refused_rather_than_copied_wrong():
    made = make_benchmark("MT1", env_name="reach-v3", num_goals=1)
    sampler = EnvPoolSampler([TimeLimit(made.train_classes["reach-v3"](), 10)])
    with pytest.raises(TypeError, match="wrap a MetaWorldSetTaskEnv"):
        sampler.grow_pool(2)


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

    sampler = SetTaskSampler(CountingSetTaskEnv, env=Special())
    assert tasks_of(sampler.sample(2)) == [{"first": 1000}, {"first": 1001}]


def test_tasks_are_drawn_through_wrappers():
    sampler = SetTaskSampler(lambda: TimeLimit(CountingSetTaskEnv(), 2), seed=0)
    assert sampler.n_tasks == 5
    assert len(sampler.sample(3)) == 3


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


def test_without_replacement_set_tasks_do_not_repeat_before_all_have_come():
    sampler = SetTaskSampler(CountingSetTaskEnv, seed=0)
    drawn = [task["first"] for task in tasks_of(sampler.sample(10))]
    assert sorted(drawn[:5]) == sorted(drawn[5:]) == [0, 10, 20, 30, 40]


def test_with_replacement_set_tasks_may_repeat():
    sampler = SetTaskSampler(CountingSetTaskEnv, seed=0)
    draws = [tasks_of(sampler.sample(5, with_replacement=True)) for _ in range(20)]
    assert any(len({task["first"] for task in draw}) < 5 for draw in draws)


def test_an_environment_without_sample_tasks_is_refused():
    with pytest.raises(TypeError, match=r"CountingEnv.* has no sample_tasks\(n\)"):
        SetTaskSampler(CountingEnv)


# MetaWorldTaskSampler.


def test_there_are_as_many_tasks_as_the_benchmark_has_of_the_kind(mt10, ml10):
    assert MetaWorldTaskSampler(mt10, "train").n_tasks == 30
    assert MetaWorldTaskSampler(ml10, "train").n_tasks == 20
    assert MetaWorldTaskSampler(ml10, "test").n_tasks == 10


def test_a_benchmark_may_be_named():
    assert MetaWorldTaskSampler("MT1", "train").n_tasks == 50


def test_tasks_come_round_by_class(mt10):
    order = list(mt10.train_classes)
    sampler = MetaWorldTaskSampler(mt10, "train", seed=0)
    assert class_names(sampler.sample(20)) == order * 2
    assert class_names(sampler.sample(3)) == order[:3]
    assert class_names(sampler.sample(2)) == order[3:5]


@pytest.mark.parametrize("batch", [1, 7, 10, 30])
def test_no_task_repeats_within_a_sweep_for_three_goals_a_class(mt10, batch):
    sampler = MetaWorldTaskSampler(mt10, "train", seed=0)
    drawn = []
    while len(drawn) < 60:
        drawn += keys(sampler.sample(batch))
    everything = {(task.env_name, task.data) for task in mt10.train_tasks}
    assert len(everything) == 30
    assert set(drawn[:30]) == set(drawn[30:60]) == everything


def test_the_order_within_a_class_changes_from_sweep_to_sweep():
    made = make_benchmark("MT1", env_name="reach-v3", num_goals=7)
    sampler = MetaWorldTaskSampler(made, "train", seed=0)
    one, two = keys(sampler.sample(7)), keys(sampler.sample(7))
    assert one != two
    assert set(one) == set(two)


def test_the_test_kind_draws_test_classes_only(ml10):
    updates = MetaWorldTaskSampler(ml10, "test", seed=0).sample(10)
    assert set(class_names(updates)) == set(ml10.test_classes)
    assert {update.task["kind"] for update in updates} == {"test"}
    assert len(set(keys(updates))) == 10


def test_with_replacement_tasks_repeat_and_stay_class_by_class(mt10):
    updates = MetaWorldTaskSampler(mt10, "train", seed=0).sample(40, with_replacement=True)
    assert class_names(updates) == list(mt10.train_classes) * 4
    assert len(set(keys(updates))) < 40


def test_the_updates_set_their_task_on_one_environment(ml10):
    sampler = MetaWorldTaskSampler(ml10, "train", seed=0)
    env = None
    for update in sampler.sample(2):
        new = update(env)
        assert env is None or new is env
        env = new
        obs, info = env.reset(seed=0)
        assert info["task_name"] == update.task["inner"].env_name
        assert obs[-3:].tolist() == [0, 0, 0]


def test_a_metaworld_update_is_small_and_pickles(mt10):
    [update] = MetaWorldTaskSampler(mt10, "train", add_env_onehot=True, seed=0).sample(1)
    data = pickle.dumps(update)
    assert len(data) < 4096
    obs, _ = pickle.loads(data)().reset()
    assert obs.shape == (49,)


def test_the_onehots_are_those_of_the_set_task_environment(mt10):
    direct = MetaWorldSetTaskEnv(mt10, "train", add_env_onehot=True)
    env = None
    updates = MetaWorldTaskSampler(mt10, "train", add_env_onehot=True, seed=0).sample(3)
    for index, update in enumerate(updates):
        env = update(env)
        obs, info = env.reset(seed=0)
        assert obs[39:].tolist() == [float(i == index) for i in range(10)]
        assert info["task_id"] == index
        direct.set_task(update.task)
        assert np.array_equal(obs, direct.reset(seed=0)[0])
        assert env.observation_space == direct.observation_space


def test_the_wrapper_is_given_the_environment_and_the_task_dict(ml10):
    seen = []

    def wrapper(env, task):
        seen.append((type(env), task))
        return TimeLimit(env, 2)

    [update] = MetaWorldTaskSampler(ml10, "train", wrapper, seed=0).sample(1)
    env = update()
    assert type(env) is TimeLimit
    assert seen == [(MetaWorldSetTaskEnv, update.task)]


@pytest.mark.parametrize("kind", ["all", None, "Train"])
def test_the_kind_must_be_train_or_test(ml10, kind):
    with pytest.raises(ValueError, match="kind must be 'train' or 'test', got"):
        MetaWorldTaskSampler(ml10, kind)


def test_a_multi_task_benchmark_has_no_test_tasks(mt10):
    with pytest.raises(ValueError, match="MT10 has no test tasks"):
        MetaWorldTaskSampler(mt10, "test")


def test_a_onehot_is_refused_for_meta_learning(ml10):
    with pytest.raises(ValueError, match="add_env_onehot is for the train tasks of multi-task"):
        MetaWorldTaskSampler(ml10, "train", add_env_onehot=True)


@pytest.mark.parametrize("benchmark", [3, object()])
def test_what_is_no_benchmark_is_refused(benchmark):
    with pytest.raises(ValueError, match=r"benchmark must be a metaworld\.Benchmark or the name"):
        MetaWorldTaskSampler(benchmark, "train")


def test_an_unknown_benchmark_is_refused():
    with pytest.raises(ValueError, match="unknown benchmark 'MT11'"):
        MetaWorldTaskSampler("MT11", "train")
