"""The fast classes serve where they are verified, and the stock ones elsewhere."""

import warnings

import gymnasium
import numpy as np
import pytest

from mtwrappers import MetaWorldSetTaskEnv
from mtwrappers.metaworld import fast_class, known_good, make_benchmark
from mtwrappers.metaworld.fast.sawyer import FastSawyer
from mtwrappers.metaworld.known_good import class_to_build, why_not_verified
from mtwrappers.metaworld.upstream import all_classes
from tests.fakes import equal, run_python

REACH = all_classes()["reach-v3"]
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (5, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def _asks_again():
    known_good._is_verified.cache_clear()
    yield
    known_good._is_verified.cache_clear()


@pytest.fixture
def other_versions(monkeypatch):
    def install(**versions):
        installed = {"metaworld": "3.1.1", "mujoco": "3.3.0", **versions}
        monkeypatch.setattr(known_good, "version", installed.__getitem__)

    return install


def make(fast):
    return gymnasium.make("mtwrappers/MT1-v0", num_goals=1, fast=fast)


def make_vec(fast):
    return gymnasium.make_vec(
        "mtwrappers/MT1-v0", num_envs=2, num_goals=2, fast=fast, vectorization_mode="sync"
    )


def make_registered_vec(fast):
    return gymnasium.make_vec("mtwrappers/ML1-train-v0", num_goals=1, fast=fast)


def make_set_task_env(fast):
    benchmark = make_benchmark("MT1", num_goals=1)
    return MetaWorldSetTaskEnv(benchmark, "train", fast=fast)


MAKERS = [make, make_vec, make_registered_vec, make_set_task_env]


def played(env):
    """What a reset and the steps after it return."""
    num_envs = getattr(env, "num_envs", None)
    actions = [action if num_envs is None else np.tile(action, (num_envs, 1)) for action in ACTIONS]
    return [env.reset(seed=1), *map(env.step, actions)]


@pytest.fixture
def built(monkeypatch):
    """The classes that were built."""
    classes = []
    original = class_to_build

    def remember(cls, fast):
        classes.append(original(cls, fast))
        return classes[-1]

    monkeypatch.setattr("mtwrappers.metaworld.class_env.class_to_build", remember)
    return classes


def test_the_versions_here_are_verified():
    assert why_not_verified() is None
    assert issubclass(class_to_build(REACH, "auto"), FastSawyer)


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"metaworld": "3.1.2"}, "metaworld 3.1.2 with mujoco 3.3.0 was not verified"),
        ({"mujoco": "3.4.0"}, "metaworld 3.1.1 with mujoco 3.4.0 was not verified"),
    ],
)
def test_other_versions_give_the_stock_classes_and_one_warning(
    other_versions, built, versions, found
):
    expected = [played(make_env(False)) for make_env in MAKERS]
    built.clear()
    other_versions(**versions)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actual = [played(make_env("auto")) for make_env in (*MAKERS, *MAKERS)]
    assert len(caught) == 1
    assert f"stock Meta-World classes serve instead of the fast ones: {found}, only " in str(
        caught[0].message
    )
    assert "only metaworld 3.1.1 with mujoco 3.3.0" in str(caught[0].message)
    assert built
    assert set(built) == {REACH}
    assert equal(actual, expected * 2)


@pytest.mark.parametrize("make_env", MAKERS)
def test_on_other_versions_true_gives_the_fast_classes_and_neither_it_nor_false_warns(
    other_versions, built, make_env
):
    other_versions(mujoco="3.4.0")  # a warning would be an error
    results = [played(make_env(fast)) for fast in (True, False)]
    half = len(built) // 2
    assert half
    assert set(built[:half]) == {fast_class(REACH)}
    assert set(built[half:]) == {REACH}
    assert equal(results[0], results[1])


@pytest.mark.parametrize("make_env", MAKERS)
def test_by_default_the_fast_classes_serve_here(built, make_env):
    played(make_env("auto"))
    assert set(built) == {fast_class(REACH)}


def test_helpers_that_differ_on_this_machine_give_the_stock_classes(monkeypatch):
    monkeypatch.setattr("mtwrappers.metaworld.fast.helpers.exact", lambda: ["norm", "hstack"])
    with pytest.warns(UserWarning, match="norm, hstack differ from NumPy's and SciPy's own here"):
        assert class_to_build(REACH, "auto") is REACH
    assert class_to_build(REACH, True) is fast_class(REACH)


def test_a_new_process_warns_anew_and_once():
    code = """
import importlib.metadata, warnings
from mtwrappers.metaworld import known_good
known_good.version = lambda name: "9.9"
from mtwrappers.metaworld.class_env import class_to_build
from mtwrappers.metaworld.upstream import all_classes
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for cls in all_classes().values():
        assert class_to_build(cls, "auto") is cls
print(len(caught))
"""
    assert run_python(code) == "1"


@pytest.mark.parametrize("fast", ["yes", None, 2])
def test_fast_is_one_of_three(fast):
    with pytest.raises(ValueError, match=f"fast must be 'auto', True or False, got {fast!r}"):
        class_to_build(REACH, fast)
