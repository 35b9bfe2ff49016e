"""The fast classes serve where they are verified, and the stock ones elsewhere."""

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


def test_other_versions_give_the_stock_classes_and_one_warning_unless_told(other_versions, built):
    expected = [played(make_env(True)) for make_env in MAKERS]
    assert set(built) == {fast_class(REACH)}
    for versions in ({"metaworld": "3.1.2"}, {"mujoco": "3.4.0"}):
        built.clear()
        known_good._is_verified.cache_clear()
        other_versions(**versions)
        with pytest.warns(UserWarning, match="stock Meta-World classes serve") as caught:
            results = [played(make_env("auto")) for make_env in MAKERS]
        assert equal(results, expected)
        installed = {"metaworld": "3.1.1", "mujoco": "3.3.0", **versions}
        found = "metaworld {metaworld} with mujoco {mujoco} was not verified".format(**installed)
        assert [str(warning.message) for warning in caught] == [str(caught[0].message)]
        assert f"stock Meta-World classes serve instead of the fast ones: {found}, only " in str(
            caught[0].message
        )
        assert "only metaworld 3.1.1 with mujoco 3.3.0" in str(caught[0].message)
        assert set(built) == {REACH}
    # Neither True nor False warns, which would be an error.
    for fast, cls in ((True, fast_class(REACH)), (False, REACH)):
        built.clear()
        results = [played(make_env(fast)) for make_env in MAKERS]
        assert set(built) == {cls}
        assert equal(results, expected)


def test_by_default_the_fast_classes_serve_here(built):
    for make_env in MAKERS:
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
