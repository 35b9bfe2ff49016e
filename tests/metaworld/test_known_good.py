"""The fast classes serve where they are verified, and the stock ones elsewhere."""

import pytest

from mtwrappers import MetaWorldSetTaskEnv
from mtwrappers.metaworld import fast_class, known_good
from mtwrappers.metaworld.known_good import class_to_build, why_not_verified
from mtwrappers.metaworld.upstream import all_classes
from tests.fakes import equal
from tests.metaworld.fakes import make, play

REACH = all_classes()["reach-v3"]
HERE = {"metaworld": "3.1.1", "mujoco": "3.3.0"}


@pytest.fixture(autouse=True)
def _asks_again():
    why_not_verified.cache_clear()
    yield
    why_not_verified.cache_clear()


@pytest.fixture
def played(monkeypatch):
    """Plays what is made with and without an id; the results, and the classes built."""
    built = []

    def remember(cls, fast):
        built.append(class_to_build(cls, fast))
        return built[-1]

    def play_all(**fast):
        built.clear()
        made = make("MT1", num_goals=1, **fast), MetaWorldSetTaskEnv("MT1", num_goals=1, **fast)
        return [play(env, 2, seed=1) for env in made], set(built)

    monkeypatch.setattr("mtwrappers.metaworld.class_env.class_to_build", remember)
    return play_all


def test_here_the_fast_classes_serve_unless_told_otherwise(played):
    assert why_not_verified() is None
    expected, classes = played()
    assert classes == {fast_class(REACH)}
    for fast, cls in ((True, fast_class(REACH)), (False, REACH)):
        results, classes = played(fast=fast)
        assert classes == {cls}
        assert equal(results, expected)


@pytest.mark.parametrize("versions", [{"metaworld": "3.1.2"}, {"mujoco": "3.4.0"}])
def test_other_versions_give_the_stock_classes_and_one_warning_unless_told(
    played, monkeypatch, versions
):
    installed = {**HERE, **versions}
    monkeypatch.setattr(known_good, "version", installed.__getitem__)
    with pytest.warns(UserWarning, match="was not verified") as caught:
        assert played()[1] == {REACH}
    found = "metaworld {metaworld} with mujoco {mujoco}"
    (message,) = {str(warning.message) for warning in caught}
    assert (
        "stock Meta-World classes serve instead of the fast ones: "
        f"{found.format(**installed)} was not verified, only {found.format(**HERE)}"
    ) in message
    # Neither True nor False warns, which would be an error.
    assert [played(fast=fast)[1] for fast in (True, False)] == [{fast_class(REACH)}, {REACH}]


def test_helpers_that_differ_on_this_machine_give_the_stock_classes(monkeypatch):
    monkeypatch.setattr("mtwrappers.metaworld.fast.helpers.exact", lambda: ["norm", "tolerance"])
    with pytest.warns(
        UserWarning, match="norm, tolerance differ from NumPy's and SciPy's own here"
    ):
        assert class_to_build(REACH, "auto") is REACH
    assert class_to_build(REACH, True) is fast_class(REACH)
