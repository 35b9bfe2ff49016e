"""Benchmarks are Meta-World's own, byte for byte, without its side effects."""

import random

import metaworld
import mujoco
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import data_equivalence
from metaworld.envs.sawyer_reach_v3 import SawyerReachEnvV3

from mtwrappers.metaworld import BENCHMARKS, benchmarks, make_benchmark
from mtwrappers.metaworld.benchmarks import is_meta_learning
from mtwrappers.metaworld.blueprint import goal_space

PAIR = ["reach-v3", "push-v3"]
BY_CLASS = ("MT1", "ML1")
CUSTOM = {"CustomMT": {"train_classes": PAIR}}
CUSTOM["CustomML"] = {"train_classes": PAIR, "test_classes": ["door-open-v3"]}


@pytest.fixture
def two_goals(monkeypatch):
    monkeypatch.setattr(metaworld, "_N_GOALS", 2)


def splits(benchmark):
    return (
        list(benchmark.train_classes.items()),
        list(benchmark.test_classes.items()) if benchmark.test_classes else [],
        list(benchmark.train_tasks),
        list(benchmark.test_tasks),
    )


@pytest.mark.usefixtures("two_goals")
def test_mt50_has_the_tasks_of_meta_world_for_all_fifty_classes():
    ours, theirs = make_benchmark("MT50", seed=7, num_goals=2), metaworld.MT50(seed=7)
    assert len(ours.train_tasks) == 100
    assert len({task.env_name for task in ours.train_tasks}) == 50
    assert splits(ours) == splits(theirs)


@pytest.mark.usefixtures("two_goals")
@pytest.mark.parametrize("name", ["MT10", "ML10"])
def test_ten_class_benchmarks_have_the_tasks_of_meta_world(name):
    ours = make_benchmark(name, seed=0, num_goals=2)
    assert splits(ours) == splits(getattr(metaworld, name)(seed=0))
    assert len(ours.train_tasks) == 20
    assert len(ours.test_tasks) == (10 if name == "ML10" else 0)


@pytest.mark.usefixtures("two_goals")
def test_mt1_has_the_tasks_of_meta_world():
    ours = make_benchmark("MT1", env_name="push-v3", seed=5, num_goals=2)
    theirs = metaworld.MT1("push-v3", seed=5)
    assert ours.train_tasks == theirs.train_tasks
    assert ours.train_classes == theirs.train_classes
    assert ours.test_tasks == theirs.test_tasks == []


@pytest.mark.usefixtures("two_goals")
def test_ml1_has_the_tasks_of_meta_world_in_both_splits():
    ours = make_benchmark("ML1", env_name="push-v3", seed=5, num_goals=2)
    assert splits(ours) == splits(metaworld.ML1("push-v3", seed=5))


@pytest.mark.usefixtures("two_goals")
def test_custom_ml_has_the_tasks_of_meta_world():
    ours = make_benchmark("CustomML", **CUSTOM["CustomML"], seed=5, num_goals=2)
    theirs = metaworld.CustomML(PAIR, ["door-open-v3"], seed=5)
    assert splits(ours) == splits(theirs)


@pytest.mark.usefixtures("two_goals")
@pytest.mark.parametrize("seed", [0, 5])
def test_custom_mt_has_the_tasks_that_meta_world_makes_for_its_classes(seed):
    ours = make_benchmark("CustomMT", train_classes=PAIR, seed=seed, num_goals=2)
    classes = metaworld._env_dict._get_env_dict(PAIR)
    kwargs = metaworld._env_dict._get_args_kwargs(metaworld.ALL_V3_ENVIRONMENTS, classes)
    theirs = metaworld._make_tasks(classes, kwargs, metaworld._MT_OVERRIDE, seed=seed)
    assert ours.train_tasks == theirs


class Own(SawyerReachEnvV3):
    """Draws until the goal is far from where the hand has come to rest."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.goal_space = Box(np.zeros(3), self.data.body("hand").xpos.copy(), dtype=np.float64)

    def reset_model(self):
        obs = super().reset_model()
        return obs if np.linalg.norm(self._target_pos - self.tcp_center) > 0.3 else self._again()

    def _again(self):
        self._get_state_rand_vec()
        return self._get_obs()


@pytest.mark.usefixtures("two_goals")
def test_goals_of_a_users_class_are_drawn_by_resetting_it_as_meta_world_does(monkeypatch):
    monkeypatch.setitem(metaworld.ALL_V3_ENVIRONMENTS, "own-v3", Own)
    names = ["push-v3", "own-v3", "door-open-v3"]
    before = np.random.get_state()[1].tobytes()
    for seed in (5, 6):
        classes = {name: metaworld.ALL_V3_ENVIRONMENTS[name] for name in names}
        kwargs = metaworld._env_dict._get_args_kwargs(metaworld.ALL_V3_ENVIRONMENTS, classes)
        theirs = metaworld._make_tasks(classes, kwargs, metaworld._MT_OVERRIDE, seed=seed)
        ours = make_benchmark("CustomMT", train_classes=names, seed=seed, num_goals=2)
        assert ours.train_tasks == theirs
    assert np.random.get_state()[1].tobytes() == before
    assert (goal_space(Own).high > 0).all()  # it needs its simulation to be constructed
    monkeypatch.setitem(metaworld.ALL_V3_ENVIRONMENTS, "own-v3", SawyerReachEnvV3)
    again = make_benchmark("CustomMT", train_classes=names, seed=6, num_goals=2)
    assert again.train_tasks != theirs


@pytest.mark.parametrize("name", ["MT25", "ML25", "ML45"])
def test_large_benchmarks_have_the_classes_of_meta_world_in_its_order(name):
    table = getattr(metaworld._env_dict, f"{name}_V3")
    ours = make_benchmark(name, num_goals=1)
    hidden = is_meta_learning(name)
    assert list(ours.train_classes.items()) == list((table["train"] if hidden else table).items())
    assert list(ours.test_classes.items()) == (list(table["test"].items()) if hidden else [])
    assert [task.env_name for task in ours.train_tasks] == list(ours.train_classes)
    assert [task.env_name for task in ours.test_tasks] == list(ours.test_classes)


def test_ml1_tests_on_other_goals_than_it_trains_on():
    benchmark = make_benchmark("ML1", seed=5, num_goals=3)
    train, test = ({task.data for task in t} for t in (benchmark.train_tasks, benchmark.test_tasks))
    assert len(train) == len(test) == 3
    assert not train & test
    assert {task.env_name for task in benchmark.test_tasks} == {"reach-v3"}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_of_the_type_of_meta_world(name):
    benchmark = make_benchmark(name, **CUSTOM.get(name, {}), num_goals=1)
    assert isinstance(benchmark, metaworld.Benchmark)
    assert type(benchmark).__name__ == name
    if name != "CustomMT":
        assert type(benchmark) is getattr(metaworld, name)
    assert all(type(task) is metaworld.Task for task in benchmark.train_tasks)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_seed_zero_is_a_seed_like_any_other(name):
    zero, again, one = (
        make_benchmark(name, **CUSTOM.get(name, {}), seed=seed, num_goals=2) for seed in (0, 0, 1)
    )
    assert zero.train_tasks == again.train_tasks
    assert zero.train_tasks != one.train_tasks


def test_no_seed_means_fresh_goals():
    first, second = (make_benchmark("MT1", seed=None, num_goals=2) for _ in range(2))
    assert first.train_tasks != second.train_tasks


def test_num_goals_does_not_leak_into_later_benchmarks_or_into_meta_world():
    assert len(make_benchmark("MT1", num_goals=3).train_tasks) == 3
    assert len(make_benchmark("MT1").train_tasks) == 50
    assert metaworld._N_GOALS == 50


def test_fewer_goals_of_one_class_are_the_first_of_more():
    few, many = (make_benchmark("MT1", seed=2, num_goals=n) for n in (2, 5))
    assert many.train_tasks[:2] == few.train_tasks


def test_changing_a_benchmark_changes_no_other():
    first = make_benchmark("ML1", seed=11, num_goals=2)
    expected = splits(make_benchmark("ML1", seed=11, num_goals=2))
    first.train_tasks.clear()
    first.test_tasks.pop()
    first.train_classes.clear()
    assert splits(make_benchmark("ML1", seed=11, num_goals=2)) == expected


@pytest.fixture
def global_random_state():
    """Reads the global random state, which is put back after the test."""
    before = random.getstate(), np.random.get_state()
    yield lambda: (random.getstate(), *np.random.get_state(legacy=False)["state"].values())
    random.setstate(before[0])
    np.random.set_state(before[1])


def test_the_global_random_state_is_not_changed(global_random_state):
    before = global_random_state()
    make_benchmark("MT10", seed=1, num_goals=2)
    make_benchmark("MT10", seed=None, num_goals=2)
    assert data_equivalence(global_random_state(), before, exact=True)


@pytest.mark.usefixtures("global_random_state")
def test_the_global_random_state_is_not_read():
    made = []
    for global_seed in (1, 2):
        benchmarks._tasks.cache_clear()
        random.seed(global_seed)
        np.random.seed(global_seed)
        made.append(make_benchmark("MT10", seed=1, num_goals=2).train_tasks)
    random.seed(1)
    np.random.seed(1)
    made.append(make_benchmark("MT10", seed=None, num_goals=2).train_tasks)
    random.seed(1)
    np.random.seed(1)
    made.append(make_benchmark("MT10", seed=None, num_goals=2).train_tasks)
    assert made[0] == made[1]
    assert made[2] != made[3]


def test_no_model_is_compiled(monkeypatch):
    def refuse(*args, **kwargs):
        pytest.fail("a model was compiled")

    class NoModel:
        from_xml_path = from_xml_string = refuse

    monkeypatch.setattr(mujoco, "MjModel", NoModel)
    assert len(make_benchmark("MT50", seed=2001, num_goals=1).train_tasks) == 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "MT11"}, r"unknown benchmark 'MT11'; expected one of \['MT1', 'MT10'"),
        ({"name": "mt10"}, r"unknown benchmark 'mt10'; expected one of"),
        ({"name": "MT1", "num_goals": 0}, "num_goals must be a positive integer, got 0"),
        ({"name": "MT1", "num_goals": -2}, "num_goals must be a positive integer, got -2"),
        ({"name": "MT1", "num_goals": 2.5}, "num_goals must be a positive integer, got 2.5"),
        ({"name": "MT10", "env_name": "reach-v3"}, "MT10 takes no env_name, got 'reach-v3'"),
        ({"name": "ML1", "train_classes": PAIR}, r"ML1 takes no train_classes, got \['reach-v3'"),
        (
            {"name": "CustomMT", "train_classes": PAIR, "test_classes": ["door-open-v3"]},
            r"CustomMT takes no test_classes, got \['door-open-v3'\]",
        ),
        ({"name": "CustomMT"}, "CustomMT needs train_classes, a list of class names"),
        (
            {"name": "CustomML", "train_classes": PAIR},
            "CustomML needs test_classes, a list of class names",
        ),
        (
            {"name": "MT1", "env_name": "reach-v2"},
            r"unknown class 'reach-v2' \(did you mean 'reach-v3'\?\); expected one of \['assembly",
        ),
        (
            {"name": "CustomMT", "train_classes": ["reach-v3", "reach-v3"]},
            r"one or more different class names, got \['reach-v3', 'reach-v3'\]",
        ),
        ({"name": "CustomMT", "train_classes": []}, r"one or more different class names, got \[\]"),
        (
            {"name": "CustomMT", "train_classes": "reach-v3"},
            "expected a list of class names, got the string 'reach-v3'",
        ),
        (
            {"name": "CustomML", "train_classes": PAIR, "test_classes": ["push-v3"]},
            r"test classes must not be train classes, got \['push-v3'\] in both",
        ),
        ({"name": "MT1", "seed": -1}, "a seed must be zero or greater, got -1"),
        ({"name": "MT1", "seed": 2**32 - 1}, r"seed must be below 2\*\*32 - 1, got 4294967295"),
    ],
)
def test_bad_arguments_are_refused_with_what_was_expected(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_benchmark(**arguments)


@pytest.mark.parametrize("seed", [True, 1.5, "1"])
def test_a_seed_that_is_no_integer_is_refused_with_its_value(seed):
    with pytest.raises(TypeError, match=f"a seed must be an integer, got {seed!r}"):
        make_benchmark("MT1", seed=seed)


def test_the_largest_seed_works_in_both_splits_of_ml1():
    benchmark = make_benchmark("ML1", seed=2**32 - 2, num_goals=2)
    assert benchmark.train_tasks[0] != benchmark.test_tasks[0]
