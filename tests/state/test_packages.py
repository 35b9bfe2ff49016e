"""Objects of other packages in a state."""

import metaworld

from mtwrappers.state import packages
from tests.fakes import run_python


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
