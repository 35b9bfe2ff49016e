"""The tasks of a Meta-World benchmark as updates."""

import pickle

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


def inner_tasks(updates):
    return [update.task["inner"] for update in updates]


def check_rounds(updates, classes):
    """Checks that each round has every class once, in more than one order."""
    names, n = [task.env_name for task in inner_tasks(updates)], len(classes)
    rounds = [names[i : i + n] for i in range(0, len(names), n)]
    assert all(sorted(classes_of_round) == sorted(classes) for classes_of_round in rounds)
    assert len({*map(tuple, rounds)}) > 1


def test_tasks_of_its_kind_come_round_by_class_and_none_repeats_within_a_sweep(mt10, ml10):
    assert MetaWorldTaskSampler("MT1", "train").n_tasks == 50
    assert MetaWorldTaskSampler(ml10, "train").n_tasks == 20
    for benchmark, kind in ((mt10, "train"), (ml10, "test")):
        classes = getattr(benchmark, f"{kind}_classes")
        tasks = getattr(benchmark, f"{kind}_tasks")
        sampler = MetaWorldTaskSampler(benchmark, kind, seed=0)
        n, updates = sampler.n_tasks, []
        while len(updates) < 2 * n:
            updates += sampler.sample(7)
        drawn = inner_tasks(updates)
        check_rounds(updates[: 2 * n], classes)
        assert sorted(drawn[:n]) == sorted(drawn[n : 2 * n]) == sorted(tasks)
        assert drawn[:n] != drawn[n : 2 * n]  # another order of each class's goals
        assert {update.task["kind"] for update in updates} == {kind}


def test_a_small_pickled_update_turns_an_environment_that_observes_what_the_set_task_one_does(mt10):
    direct = MetaWorldSetTaskEnv(mt10, "train", add_env_onehot=True)
    env = first_env = MetaWorldSetTaskEnv()
    updates = MetaWorldTaskSampler(mt10, "train", add_env_onehot=True, seed=0).sample(2)
    for update in updates:
        index = direct.task_names.index(update.task["inner"].env_name)
        data = pickle.dumps(update)
        assert len(data) < 4096
        env = pickle.loads(data)(env)
        assert env is first_env
        obs, info = env.reset(seed=0)
        assert obs[39:].tolist() == [float(i == index) for i in range(10)]
        assert (info["task_id"], info["task_name"]) == (index, update.task["inner"].env_name)
        direct.set_task(update.task)
        assert np.array_equal(obs, direct.reset(seed=0)[0])
        assert env.observation_space == direct.observation_space


def test_the_wrapper_is_given_the_environment_and_the_task_dict_once_per_class(ml10):
    calls = []

    def wrapper(env, task):
        calls.append((type(env), env.get_task(), task))
        return TimeLimit(env, 2)

    updates = MetaWorldTaskSampler(ml10, "train", wrapper, seed=0).sample(3)
    env = None
    for update in updates:
        env = update(env)
        assert type(env) is TimeLimit
        assert env.env is env.unwrapped
    assert calls == [(MetaWorldSetTaskEnv, update.task, update.task) for update in updates]
