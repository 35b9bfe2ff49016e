"""Benchmarks are Meta-World's own, byte for byte, without its side effects."""

import random
from types import SimpleNamespace

import metaworld
import mujoco
import numpy as np
import pytest
from metaworld.envs.sawyer_reach_v3 import SawyerReachEnvV3

from mtwrappers.metaworld import (
    BENCHMARKS,
    MetaWorldMTEnv,
    MetaWorldSetTaskEnv,
    make_benchmark,
    tasks,
)
from mtwrappers.metaworld.tasks import META_LEARNING, NUM_CLASSES, class_names
from tests.fakes import equal
from tests.metaworld.fakes import PAIR

CUSTOM = {"CustomMT": {"train_classes": PAIR}}
CUSTOM["CustomML"] = {"train_classes": PAIR, "test_classes": ["door-open-v3"]}


@pytest.fixture
def two_goals(monkeypatch):
    """Lists of two goals of each class, here and in Meta-World."""
    monkeypatch.setattr(tasks, "NUM_GOALS", 2)
    monkeypatch.setattr(metaworld, "_N_GOALS", 2)


def list_splits(benchmark):
    return (
        list(benchmark.train_classes.items()),
        list(benchmark.test_classes.items()) if benchmark.test_classes else [],
        list(benchmark.train_tasks),
        list(benchmark.test_tasks),
    )


@pytest.mark.usefixtures("two_goals")
@pytest.mark.parametrize(
    ("name", "kwargs", "upstream", "seed"),
    [
        ("MT10", {}, (), 7),  # each class alone is in ``test_class_env.py``
        ("ML1", {"env_name": "push-v3"}, ("push-v3",), 5),
        ("CustomML", CUSTOM["CustomML"], (PAIR, ["door-open-v3"]), 5),
    ],
)
def test_tasks_are_those_of_meta_world(name, kwargs, upstream, seed):
    ours = make_benchmark(name, **kwargs, seed=seed, num_goals=2)
    theirs = getattr(metaworld, name)(*upstream, seed=seed)
    assert list_splits(ours) == list_splits(theirs)
    assert len(ours.train_tasks) == 2 * len(ours.train_classes)
    assert len(ours.test_tasks) == (2 * len(ours.test_classes) if name in META_LEARNING else 0)


@pytest.mark.parametrize("goals", ["list", "continuous"])
def test_goals_of_a_class_of_a_user_are_not_drawn(goals, monkeypatch):
    user_class = type("Own", (SawyerReachEnvV3,), {})
    monkeypatch.setitem(metaworld.ALL_V3_ENVIRONMENTS, "own-v3", user_class)
    with pytest.raises(ValueError, match=r"Own.* is not one of.*pass a metaworld.Benchmark with"):
        MetaWorldMTEnv("MT1", env_name="own-v3", goals=goals)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_has_the_type_and_the_classes_of_meta_world_and_seed_zero_is_one(name):
    zero, zero_again, seed_one = (
        make_benchmark(name, **CUSTOM.get(name, {}), seed=seed, num_goals=1) for seed in (0, 0, 1)
    )
    assert zero.train_tasks == zero_again.train_tasks != seed_one.train_tasks
    assert isinstance(zero, getattr(metaworld, name, metaworld.Benchmark))
    assert type(zero).__name__ == name
    if name not in CUSTOM:
        for kind, n in NUM_CLASSES[name].items():
            names = class_names(name, kind)
            assert (len(names), names) == (n, tuple(getattr(zero, f"{kind}_classes")))
    if name not in ("MT1", "ML1", *CUSTOM):
        table = getattr(metaworld._env_dict, f"{name}_V3")
        classes_by_kind = table if name in META_LEARNING else {"train": table, "test": {}}
        for kind, classes in classes_by_kind.items():
            assert list(getattr(zero, f"{kind}_classes").items()) == list(classes.items())
            assert [task.env_name for task in getattr(zero, f"{kind}_tasks")] == list(classes)


def test_ml1_tests_on_other_goals_than_it_trains_on_up_to_the_largest_seed():
    for seed in (5, 2**32 - 2):
        benchmark = make_benchmark("ML1", seed=seed, num_goals=3)
        train = {task.data for task in benchmark.train_tasks}
        test = {task.data for task in benchmark.test_tasks}
        assert len(train) == len(test) == 3
        assert not train & test
        assert {task.env_name for task in benchmark.test_tasks} == {"reach-v3"}


def test_num_goals_does_not_leak_and_fewer_goals_of_each_class_are_the_first_of_its_50():
    every, few = (
        make_benchmark("CustomMT", train_classes=PAIR, seed=2, num_goals=n).train_tasks
        for n in (50, 2)
    )
    assert few == [*every[:2], *every[50:52]]
    assert len(make_benchmark("MT1").train_tasks) == metaworld._N_GOALS == 50


@pytest.mark.parametrize("make", [MetaWorldMTEnv, MetaWorldSetTaskEnv])
def test_what_is_no_task_of_meta_world_is_refused_when_the_benchmark_is_taken(make):
    benchmark = make_benchmark("MT1", num_goals=3)
    first, *_, last = benchmark.train_tasks
    benchmark.train_tasks[1] = SimpleNamespace(env_name=first.env_name, data=first.data)
    with pytest.raises(TypeError, match=r"expected a metaworld\.Task, got namespace\(env_name="):
        make(benchmark)
    benchmark.train_tasks[1] = last
    assert make(benchmark).tasks == [first, last, last]


def test_no_model_is_compiled_and_the_global_random_state_is_neither_read_nor_changed(monkeypatch):
    monkeypatch.setattr(mujoco, "MjModel", None)
    assert len(make_benchmark("MT50", seed=2001, num_goals=1).train_tasks) == 50
    seeded, unseeded = [], []
    for global_seed in (1, 2, 1):
        tasks._list_tasks.cache_clear()
        random.seed(global_seed)
        np.random.seed(global_seed)
        random_states = random.getstate(), np.random.get_state(legacy=False)
        seeded.append(make_benchmark("MT10", seed=1, num_goals=2).train_tasks)
        unseeded.append(make_benchmark("MT10", seed=None, num_goals=2).train_tasks)
        assert equal((random.getstate(), np.random.get_state(legacy=False)), random_states)
    assert seeded[0] == seeded[1] == seeded[2]
    assert unseeded[0] != unseeded[2]


def test_the_digest_of_tasks_has_their_names_vectors_and_order_and_whether_goals_are_hidden():
    reach, drawer = SawyerReachEnvV3, metaworld.ALL_V3_ENVIRONMENTS["drawer-open-v3"]
    near, far = np.array([0.0, 0.8, 0.2]), np.array([0.0, 0.9, 0.2])
    lists = [
        [tasks.encode("reach-v3", reach, near, False)],
        [tasks.encode("drawer-open-v3", drawer, near, False)],
        [tasks.encode("reach-v3", reach, near, True)],
        [tasks.encode("reach-v3", reach, far, False)],
    ]
    lists += [lists[0] + lists[1], lists[1] + lists[0]]
    digests = [tasks.digest(listed) for listed in lists]
    assert digests[0] == "0b0470c396fd7617"
    assert len(set(digests)) == len(lists)


def test_a_task_of_a_module_whose_name_only_begins_like_meta_world_is_none():
    task_class = type("Task", (), {"__module__": "metaworld_extras.tasks"})
    assert not tasks.is_task(task_class())
