"""A warning names the user's line, whatever is between it and the function that warns."""

import linecache

import gymnasium
import pytest

import mtwrappers as mt
from mtwrappers.common.callers import find_stacklevel
from mtwrappers.metaworld import MetaWorldMTEnv

V1 = {"env_name": "hand-insert-v3", "num_goals": 1, "reward_function_version": "v1"}


def make_env():
    return MetaWorldMTEnv("MT1", **V1)  # here


def make():
    return gymnasium.make("mtwrappers/MT1-v0", **V1)  # here


def make_vec():
    return gymnasium.make_vec("mtwrappers/MT1-v0", **V1)  # here


def make_from_loop():
    makers = [lambda: gymnasium.make("Pendulum-v1", g=g) for g in (9, 10)]  # noqa: B023
    return mt.MultiEnvWrapper(makers)  # here


@pytest.mark.parametrize("construct", [make_env, make, make_vec, make_from_loop])
def test_a_warning_names_the_users_line(construct):
    with pytest.warns(UserWarning, match="can never report success|constructors") as warned:
        construct().close()
    [warning] = warned
    assert linecache.getline(warning.filename, warning.lineno).endswith("# here\n")


def test_code_without_a_module_is_the_users():
    scope = {"find_stacklevel": find_stacklevel}
    exec("level = find_stacklevel()", scope)
    assert scope["level"] == 1
