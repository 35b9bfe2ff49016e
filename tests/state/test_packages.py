"""Objects of other packages in a state: each package of the table has a module that knows them."""

import importlib
import inspect

import metaworld
import pytest

from mtwrappers.state import packages
from mtwrappers.state.packages import KNOWN_BY, KnowsObjects
from tests.fakes import run_python


@pytest.mark.parametrize("package", KNOWN_BY)
def test_the_module_has_the_functions_of_the_protocol(package):
    module = importlib.import_module(KNOWN_BY[package])
    expected = inspect.getmembers(KnowsObjects, inspect.isfunction)
    for name, function in expected:
        if not name.startswith("_"):
            _, *parameters = inspect.signature(function).parameters
            assert len(inspect.signature(getattr(module, name)).parameters) == len(parameters)


def test_a_task_is_plain_data_and_other_objects_are_not():
    [task, *_] = metaworld.ML1("reach-v3", seed=0).train_tasks
    assert packages.is_plain(task)
    package, plain = packages.to_plain(task)
    assert packages.known_by(package).from_plain(plain) == task
    for other in (metaworld.ALL_V3_ENVIRONMENTS["reach-v3"], len, 3):
        assert not packages.is_plain(other)
        assert packages.to_plain(other) is None


def test_the_module_is_not_imported_before_its_package_is():
    code = """
import sys, gymnasium, mtwrappers
from mtwrappers.state.env_state import get_state, guard, set_state
env = gymnasium.make("CartPole-v1")
guard(env)
set_state(env, get_state(env))
print([name for name in sys.modules if "metaworld" in name])
"""
    assert run_python(code) == "[]"
