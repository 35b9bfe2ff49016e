"""Task samplers: batches of updates, drawn from a distribution of tasks."""

import pickle
import random
from collections import Counter
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import mtwrappers as mt
from mtwrappers.metaworld import make_benchmark
from tests.fakes import CountingEnv, CountingSetTaskEnv, counting_makers, equal
from tests.metaworld.fakes import run_episode
from tests.samplers.fakes import lazy


def make_pool(n):
    return [CountingEnv(first=100 * i) for i in range(n)]


# What holds for all of them.

SAMPLERS = {
    "constructors": lambda seed: mt.ConstructEnvsSampler(counting_makers(9), seed=seed),
    "pool": lambda seed: mt.EnvPoolSampler(make_pool(9), seed=seed),
    "set-task": lambda seed: mt.SetTaskSampler(CountingSetTaskEnv, seed=seed),
    "set-task-unbounded": lambda seed: mt.SetTaskSampler(mt.PointGoalEnv, seed=seed),
    "metaworld": lambda seed: mt.MetaWorldTaskSampler(
        make_benchmark("MT10", num_goals=3), "train", seed=seed
    ),
}


def describe_tasks(updates):
    return [
        pickle.dumps(update.task) if hasattr(update, "task") else update().first
        for update in updates
    ]


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
def test_the_seed_alone_determines_the_tasks_and_without_one_samplers_differ(make):
    drawn = []
    for seed in (1, 2):
        np.random.seed(seed)
        random.seed(seed)
        random_states = np.random.get_state()[1].tolist(), random.getstate()
        sampler = make(5)
        drawn.append([describe_tasks(sampler.sample(5)) for _ in range(2)])
        if not isinstance(sampler, mt.EnvPoolSampler):
            drawn[-1].append(describe_tasks(sampler.sample(12, with_replacement=True)))
        assert (np.random.get_state()[1].tolist(), random.getstate()) == random_states
    assert drawn[0] == drawn[1]
    assert len({tuple(describe_tasks(make(seed).sample(5))) for seed in range(6)}) > 1
    assert len({tuple(describe_tasks(make(None).sample(5))) for _ in range(8)}) > 1


@pytest.mark.parametrize("kind", ["constructors", "set-task"])
def test_no_task_repeats_before_all_have_come_but_with_replacement(kind):
    sampler = SAMPLERS[kind](0)
    n = sampler.n_tasks
    drawn = describe_tasks(sampler.sample(2 * n + 1))
    assert (len(drawn), len(set(drawn))) == (2 * n + 1, n)
    assert set(drawn[:n]) == set(drawn[n : 2 * n])
    draws = [describe_tasks(sampler.sample(n, with_replacement=True)) for _ in range(20)]
    assert any(len(set(draw)) < n for draw in draws)
    assert {task for draw in draws for task in draw} == set(drawn)


# EnvPoolSampler.


def test_a_pool_gives_each_member_once_and_leaves_the_others_open():
    envs = make_pool(5)
    env, env_ids = None, set()
    for update in mt.EnvPoolSampler(envs, seed=0).sample(5):
        env = update(env)
        env_ids.add(id(env))
    assert env_ids == {id(env) for env in envs}
    assert not any(env.closed for env in envs)


def test_a_pool_holds_no_environment_twice():
    env = CountingEnv()
    with pytest.raises(ValueError, match="environments 0 and 2 of envs are the same environment"):
        mt.EnvPoolSampler([env, CountingEnv(), env])


@pytest.mark.parametrize("seed", range(8))
def test_a_grown_pool_holds_copies_of_random_members(seed):
    envs = make_pool(3)
    sampler = mt.EnvPoolSampler(envs, seed=seed)
    for size in (1, 7):  # a pool does not shrink
        sampler.grow_pool(size)
        assert sampler.n_tasks == max(3, size)
    assert len(envs) == 3
    drawn = [update() for update in sampler.sample(7)]
    assert len({id(env) for env in drawn}) == 7
    assert {id(env) for env in envs} <= {id(env) for env in drawn}
    # Four copies of three members: none is copied again before all have been copied.
    assert sorted(Counter(env.first for env in drawn).values()) == [2, 2, 3]


@pytest.mark.parametrize("benchmark_name", ["MT1", "ML1"])
def test_a_copied_bare_sawyer_member_runs_the_same_task_by_itself(benchmark_name):
    benchmark = make_benchmark(benchmark_name, env_name="push-v3", num_goals=2)
    env = benchmark.train_classes["push-v3"](camera_name="corner2")
    env.set_task(benchmark.train_tasks[1])
    env.max_path_length = 50
    sampler = mt.EnvPoolSampler([env], seed=0)
    sampler.grow_pool(2)
    [copied] = [member for update in sampler.sample(2) if (member := update()) is not env]
    for name in ("action_space", "observation_space", "camera_name", "max_path_length"):
        assert getattr(copied, name) == getattr(env, name)
    first = run_episode(copied)
    assert first[0][0][-3:].any() == (benchmark_name == "MT1")  # goals are hidden in ML1
    copied.set_task(benchmark.train_tasks[0])
    copied.reset()
    assert equal(run_episode(env), first)
    with pytest.raises(TypeError, match="wrap a MetaWorldSetTaskEnv, which copies"):
        mt.EnvPoolSampler([TimeLimit(env, 10)]).grow_pool(2)


# SetTaskSampler.


def test_set_task_updates_make_environments_on_the_tasks_and_wrap_them():
    sampler = mt.SetTaskSampler(
        partial(CountingSetTaskEnv, 4),
        wrapper=lambda env, task: TimeLimit(env, 1 + task["first"]),
        seed=0,
    )
    assert sampler.n_tasks == 5
    envs = [update() for update in sampler.sample(5)]
    assert sorted(env.unwrapped.first for env in envs) == [0, 10, 20, 30, 40]
    assert [env.unwrapped.length for env in envs] == [4] * 5
    assert all(env._max_episode_steps == 1 + env.unwrapped.first for env in envs)


# Seeds that do not determine the tasks.


class OldEnv(CountingEnv):
    """Draws tasks from the global generator, as environments did before Gymnasium."""

    def sample_tasks(self, n):
        return [{"velocity": velocity} for velocity in np.random.uniform(0, 2, n)]

    def set_task(self, task):
        self.task = task


class DirectionEnv(OldEnv):
    """Draws one of two tasks, from a generator of its own."""

    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng()

    def sample_tasks(self, n):
        return self.rng.choice([-1, 1], n).tolist()


class Velocity:
    def __init__(self, velocity):
        self.velocity = velocity


class ObjectEnv(OldEnv):
    def sample_tasks(self, n):
        return [Velocity(random.random()) for _ in range(n)]


class SeededEnv(OldEnv):
    def sample_tasks(self, n):
        return [Velocity(velocity) for velocity in self.np_random.random(n)]


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize("env_type", [OldEnv, DirectionEnv, ObjectEnv])
def test_a_seed_that_does_not_determine_the_tasks_is_reported_once(env_type):
    message = r"sample_tasks of <\w+Env instance> draws other tasks .* seed=3 .* self.np_random, .*"
    sampler = mt.SetTaskSampler(env_type, seed=3)
    with pytest.warns(UserWarning, match=message + "make SetTaskUpdates"):
        sampler.sample(1)
    assert len(sampler.sample(2)) == 2
    with closing(mt.MetaSampler(env_type, lazy, 1, 2, 5, seed=3)) as meta:
        with pytest.warns(UserWarning, match=message + "give update_tasks the tasks"):
            meta.update_tasks()
        assert len(meta.update_tasks()) == 2


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize("with_replacement", [False, True])
def test_the_report_of_a_seed_names_the_line_of_the_program(with_replacement):
    class FiveTasksEnv(OldEnv):
        num_tasks = 5

    sampler = mt.SetTaskSampler(FiveTasksEnv, seed=3)
    with pytest.warns(UserWarning, match="draws other tasks") as warned:
        sampler.sample(1, with_replacement)
    assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.usefixtures("same_random_state")
def test_the_check_of_a_seed_changes_no_global_random_state_and_no_draw():
    np.random.seed(5)
    expected = np.random.uniform(0, 2, 2).tolist()
    np.random.seed(5)
    random_state = random.getstate()
    with pytest.warns(UserWarning, match="draws other tasks after the same seed"):
        updates = mt.SetTaskSampler(OldEnv, seed=3).sample(2)
    assert [update.task["velocity"] for update in updates] == expected
    assert random.getstate() == random_state


@pytest.mark.parametrize("kwargs", [{"seed": 3}, {"seed": 3, "env": SeededEnv()}])
def test_a_seed_that_determines_the_tasks_is_not_reported(kwargs):
    first, second = (mt.SetTaskSampler(SeededEnv, **kwargs).sample(4) for _ in range(2))
    assert [a.task.velocity for a in first] == [b.task.velocity for b in second]


def test_an_environment_that_its_constructor_returns_again_is_neither_closed_nor_drawn_from():
    class Shared(CountingSetTaskEnv):
        def __deepcopy__(self, memo):
            return self

    env, expected = Shared(), SeededEnv()
    env.sample_tasks = lambda n: env.np_random.random(n).tolist()
    expected.reset(seed=3)
    for kwargs in ({}, {"env": env}):
        sampler = mt.SetTaskSampler(lambda: TimeLimit(env, 9), **kwargs, seed=3)
        tasks = [update.task for update in sampler.sample(2)]
        expected.reset(seed=3)
        assert tasks == [task.velocity for task in expected.sample_tasks(2)]
    assert not env.closed


@pytest.mark.usefixtures("same_random_state")
def test_tasks_that_are_drawn_without_a_seed_or_given_are_not_reported():
    mt.SetTaskSampler(OldEnv).sample(2)
    with closing(mt.MetaSampler(OldEnv, lazy, 1, 2, 5, seed=3)) as meta:
        meta.update_tasks([{"velocity": 1.0}] * 2)
        assert len(meta.obtain_samples()) == 2


@pytest.mark.parametrize("seed", [0, None])
def test_a_sweep_over_a_published_list_loses_no_task_to_seeding(seed):
    make = partial(gymnasium.make, "mtwrappers/PointRobot-v0", tasks="train")
    sampler = mt.SetTaskSampler(make, seed=seed)
    goals = {update.task["goal"] for update in sampler.sample(sampler.n_tasks)}
    assert len(goals) == sampler.n_tasks == 80


def test_sampling_with_replacement_draws_from_all_tasks_in_the_middle_of_a_sweep():
    make = partial(gymnasium.make, "mtwrappers/PointRobot-v0", tasks="train")
    sampler = mt.SetTaskSampler(make, seed=0)
    sampler.sample(30)
    goals = {update.task["goal"] for update in sampler.sample(5000, with_replacement=True)}
    assert len(goals) == 80


def test_seeding_an_environment_that_only_resets_keeps_its_switch():
    switches = []

    class Drawing(CountingSetTaskEnv):
        sample_tasks_on_reset = True

        def reset(self, **kwargs):
            switches.append(self.sample_tasks_on_reset)
            return super().reset(**kwargs)

    env = Drawing()
    mt.SetTaskSampler(Drawing, env=env, seed=0)
    assert (switches, env.sample_tasks_on_reset) == ([False], True)
