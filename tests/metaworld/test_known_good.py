"""The fast classes serve where they are verified, and the stock ones elsewhere."""

import gymnasium
import pytest

from mtwrappers import MetaWorldSetTaskEnv
from mtwrappers.metaworld import fast_class, known_good, make_benchmark
from mtwrappers.metaworld.fast.sawyer import FastSawyer
from mtwrappers.metaworld.known_good import class_to_build, why_not_verified
from mtwrappers.metaworld.upstream import all_classes
from tests.fakes import equal
from tests.metaworld.fakes import play

REACH = all_classes()["reach-v3"]


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
    expected = [play(make_env(True), seed=1) for make_env in MAKERS]
    assert set(built) == {fast_class(REACH)}
    for versions in ({"metaworld": "3.1.2"}, {"mujoco": "3.4.0"}):
        built.clear()
        known_good._is_verified.cache_clear()
        other_versions(**versions)
        with pytest.warns(UserWarning, match="stock Meta-World classes serve") as caught:
            results = [play(make_env("auto"), seed=1) for make_env in MAKERS]
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
        results = [play(make_env(fast), seed=1) for make_env in MAKERS]
        assert set(built) == {cls}
        assert equal(results, expected)


def test_by_default_the_fast_classes_serve_here(built):
    for make_env in MAKERS:
        play(make_env("auto"), seed=1)
    assert set(built) == {fast_class(REACH)}


def test_helpers_that_differ_on_this_machine_give_the_stock_classes(monkeypatch):
    monkeypatch.setattr("mtwrappers.metaworld.fast.helpers.exact", lambda: ["norm", "hstack"])
    with pytest.warns(UserWarning, match="norm, hstack differ from NumPy's and SciPy's own here"):
        assert class_to_build(REACH, "auto") is REACH
    assert class_to_build(REACH, True) is fast_class(REACH)
