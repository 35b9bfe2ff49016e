"""The fast classes serve where they are verified, and the stock ones elsewhere."""

import pytest

from mtwrappers.metaworld import fast, fast_class
from mtwrappers.metaworld.fast import class_to_build, why_not_verified
from mtwrappers.metaworld.upstream import all_classes
from tests.fakes import equal
from tests.metaworld.fakes import episode, make

REACH = all_classes()["reach-v3"]
HERE = {"metaworld": "3.1.1", "mujoco": "3.3.0"}


@pytest.fixture(autouse=True)
def _asks_again():
    why_not_verified.cache_clear()
    yield
    why_not_verified.cache_clear()


def test_here_the_fast_classes_serve_unless_told_otherwise():
    returned = []
    for kwargs, cls in (
        ({}, fast_class(REACH)),
        ({"fast": True}, fast_class(REACH)),
        ({"fast": False}, REACH),
    ):
        env = make("MT1", num_goals=1, **kwargs)
        returned.append(episode(env, 2, seed=1))
        assert type(env.unwrapped._env.sawyer) is cls
    assert equal(returned[0], returned[1])
    assert equal(returned[0], returned[2])


@pytest.mark.parametrize("versions", [{"metaworld": "3.1.2"}, {"mujoco": "3.4.0"}, {}])
def test_other_versions_and_helpers_that_differ_give_the_stock_classes_and_a_warning_unless_told(
    monkeypatch, versions
):
    installed = {**HERE, **versions}
    found = "metaworld {metaworld} with mujoco {mujoco}"
    reason = f"{found.format(**installed)} was not verified, only {found.format(**HERE)}"
    if not versions:
        differ = "mtwrappers.metaworld.fast.classes.exact"
        monkeypatch.setattr(differ, lambda: ["norm", "tolerance"])
        reason = "norm, tolerance differ from NumPy's and SciPy's own here"
    monkeypatch.setattr(fast, "version", installed.__getitem__)
    message = f"Meta-World's own classes are used instead of the fast ones: {reason}"
    with pytest.warns(UserWarning, match=message):
        assert class_to_build(REACH, "auto") is REACH
    # Neither True nor False warns, which would be an error.
    assert class_to_build(REACH, True) is fast_class(REACH)
    assert class_to_build(REACH, False) is REACH
