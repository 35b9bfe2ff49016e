"""The tasks of a Meta-World benchmark as updates."""

import pickle
from collections import Counter

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from mtwrappers import MetaWorldSetTaskEnv, MetaWorldTaskSampler
from mtwrappers.metaworld import make_benchmark


@pytest.fixture(scope="module")
def mt10():
    return make_benchmark("MT10", num_goals=3)


@pytest.fixture(scope="module")
def ml10():
    return make_benchmark("ML10", num_goals=2)


def keys(updates):
    """What tells Meta-World tasks apart: the class and the goal."""
    return [(update.task["inner"].env_name, update.task["inner"].data) for update in updates]


def class_names(updates):
    return [update.task["inner"].env_name for update in updates]


def test_there_are_as_many_tasks_as_the_benchmark_has_of_the_kind(mt10, ml10):
    assert MetaWorldTaskSampler(mt10, "train").n_tasks == 30
    assert MetaWorldTaskSampler(ml10, "train").n_tasks == 20
    assert MetaWorldTaskSampler(ml10, "test").n_tasks == 10
    assert MetaWorldTaskSampler("MT1", "train").n_tasks == 50


@pytest.mark.parametrize("batch", [7, 30])
def test_tasks_come_round_by_class_and_none_repeats_within_a_sweep(mt10, batch):
    order = list(mt10.train_classes)
    sampler = MetaWorldTaskSampler(mt10, "train", seed=0)
    updates = []
    while len(updates) < 60:
        updates += sampler.sample(batch)
    assert class_names(updates[:60]) == order * 6
    drawn = keys(updates)
    everything = {(task.env_name, task.data) for task in mt10.train_tasks}
    assert len(everything) == 30
    assert set(drawn[:30]) == set(drawn[30:60]) == everything
    assert drawn[:30] != drawn[30:60]  # another order of each class's goals


def test_the_test_kind_draws_test_classes_only(ml10):
    updates = MetaWorldTaskSampler(ml10, "test", seed=0).sample(10)
    assert set(class_names(updates)) == set(ml10.test_classes)
    assert {update.task["kind"] for update in updates} == {"test"}
    assert len(set(keys(updates))) == 10


def test_with_replacement_classes_and_tasks_are_drawn_at_random(mt10):
    sampler = MetaWorldTaskSampler(mt10, "train", seed=0)
    draws = [sampler.sample(5, with_replacement=True) for _ in range(20)]
    assert len({tuple(class_names(updates)) for updates in draws}) == 20
    counts = Counter(key for updates in draws for key in keys(updates))
    assert {name for name, _ in counts} == set(mt10.train_classes)
    assert max(counts.values()) > 1
    # The order without replacement is not disturbed.
    assert len(set(keys(sampler.sample(30)))) == 30


def test_a_pickled_update_is_small_and_turns_an_environment_made_without_arguments(ml10):
    env = old = MetaWorldSetTaskEnv()
    for update in MetaWorldTaskSampler(ml10, "train", seed=0).sample(2):
        data = pickle.dumps(update)
        assert len(data) < 4096
        env = pickle.loads(data)(env)
        assert env is old
        obs, info = env.reset(seed=0)
        assert info["task_name"] == update.task["inner"].env_name
        assert obs[-3:].tolist() == [0, 0, 0]


def test_the_onehots_are_those_of_the_set_task_environment(mt10):
    direct = MetaWorldSetTaskEnv(mt10, "train", add_env_onehot=True)
    env = None
    updates = MetaWorldTaskSampler(mt10, "train", add_env_onehot=True, seed=0).sample(2)
    for index, update in enumerate(updates):
        env = update(env)
        obs, info = env.reset(seed=0)
        assert obs[39:].tolist() == [float(i == index) for i in range(10)]
        assert info["task_id"] == index
        direct.set_task(update.task)
        assert np.array_equal(obs, direct.reset(seed=0)[0])
        assert env.observation_space == direct.observation_space


def test_the_wrapper_is_given_the_environment_and_the_task_dict_once_per_class(ml10):
    seen = []

    def wrapper(env, task):
        seen.append((type(env), env.get_task(), task))
        return TimeLimit(env, 2)

    updates = MetaWorldTaskSampler(ml10, "train", wrapper, seed=0).sample(3)
    env = None
    for update in updates:
        env = update(env)
        assert type(env) is TimeLimit
        assert env.env is env.unwrapped
    assert seen == [(MetaWorldSetTaskEnv, update.task, update.task) for update in updates]
