"""What the adapters say of what they cannot use."""

import typing

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers.vector import ClipReward

from mtwrappers import MetaIterativeEnvExecutor, MetaVectorWrapper, as_sb3_vec_env, as_torchrl_env
from tests.fakes import CountingEnv, counting_makers

ADAPTERS = {"sb3": as_sb3_vec_env, "torchrl": as_torchrl_env}


def make(mode="SameStep"):
    return MetaIterativeEnvExecutor(counting_makers(3), 3, autoreset_mode=mode)


def closed():
    envs = make()
    envs.close()
    return envs


def gymnasiums_own():
    return SyncVectorEnv(counting_makers(2), autoreset_mode="SameStep")


NOT_OURS = "expected a MetaVectorEnv, such as gymnasium.make_vec returns for our ids.*got"
GIVEN = {
    "None": (lambda: None, TypeError, f"{NOT_OURS} NoneType"),
    "an id": (lambda: "mtwrappers/MT10-v0", TypeError, f"{NOT_OURS} str"),
    "a class": (lambda: MetaIterativeEnvExecutor, TypeError, f"{NOT_OURS} type"),
    "constructors": (lambda: counting_makers(2), TypeError, f"{NOT_OURS} list"),
    "one environment": (CountingEnv, TypeError, f"{NOT_OURS} CountingEnv"),
    "Gymnasium's own": (gymnasiums_own, TypeError, f"{NOT_OURS} SyncVectorEnv"),
    "Gymnasium's wrapper": (lambda: ClipReward(make(), 0, 1), TypeError, f"{NOT_OURS} ClipReward"),
    "closed": (closed, ClosedEnvironmentError, "an open vector env.*was closed"),
    "closed, wrapped": (lambda: MetaVectorWrapper(closed()), ClosedEnvironmentError, "was closed"),
    "next step": (lambda: make("NextStep"), ValueError, "autoreset_mode='SameStep', got 'NextS"),
    "next step, wrapped": (
        lambda: MetaVectorWrapper(make("NextStep")),
        ValueError,
        "autoreset_mode='SameStep', got 'NextStep'",
    ),
}


@pytest.mark.parametrize("adapt", ADAPTERS.values(), ids=ADAPTERS)
@pytest.mark.parametrize("given", GIVEN)
def test_what_is_no_vector_environment_of_ours_is_refused(adapt, given):
    make_it, error, message = GIVEN[given]
    with pytest.raises(error, match=message):
        adapt(make_it())


def test_a_vector_environment_without_resets_is_refused_by_the_library_that_needs_them():
    with pytest.raises(ValueError, match=r"Stable-Baselines3 needs.*'SameStep', got 'Disabled'"):
        as_sb3_vec_env(make("Disabled"))


@pytest.mark.parametrize("adapt", ADAPTERS.values(), ids=ADAPTERS)
def test_type_checkers_take_what_make_vec_returns(adapt):
    accepted = typing.get_type_hints(adapt)["vec_env"]
    assert typing.get_origin(accepted) is typing.get_type_hints(gymnasium.make_vec)["return"]


def step(actions):
    def use(venv):
        venv.reset()
        venv.step(actions)

    return use


def use_closed(venv):
    venv.close()
    venv.reset()


USES = {
    "index too large": (lambda v: v.get_attr("first", 3), IndexError, r"in \[-3, 2\], got 3"),
    "index too small": (lambda v: v.get_attr("first", [0, -4]), IndexError, r"\[-3, 2\], got -4"),
    "a float": (lambda v: v.get_attr("first", 1.0), TypeError, "must be integers, got 1.0"),
    "a mask": (lambda v: v.env_method("render", indices=[True]), TypeError, "integers, got True"),
    "a NumPy mask": (lambda v: v.set_attr("first", 1, np.ones(3, bool)), TypeError, "got .*True"),
    "a name": (lambda v: v.env_is_wrapped(gymnasium.Wrapper, "a"), TypeError, "integers, got 'a'"),
    "no such attribute": (lambda v: v.get_attr("nothing"), AttributeError, "nothing"),
    "no such method": (lambda v: v.env_method("nothing"), AttributeError, "nothing"),
    "a negative seed": (lambda v: v.seed(-1), ValueError, "got -1"),
    "a seed that is none": (lambda v: v.seed("x"), TypeError, "got 'x'"),
    "options of two kinds": (
        lambda v: v.set_options([{"a": 1}, {"a": 2}, {"a": 1}]),
        ValueError,
        "environment 1 are {'a': 2}, those of environment 0 {'a': 1}",
    ),
    "too few options": (lambda v: v.set_options([{}]), ValueError, "expected 3 options.*got 1"),
    "no options": (
        lambda v: v.set_options("x"),
        TypeError,
        "environment 0 must be a dict, got 'x'",
    ),
    "a list of no options": (lambda v: v.set_options([None] * 3), TypeError, "dict, got None"),
    "a mask in options": (
        lambda v: v.set_options({"reset_mask": np.ones(3, bool)}),
        ValueError,
        "resets all environments at once",
    ),
    "too few actions": (step(np.zeros(2, np.int64)), ValueError, r"none for environments \[2\]"),
    "actions of another shape": (step(np.zeros((3, 1))), ValueError, "expected actions of shape"),
    "no reset": (lambda v: v.step(np.zeros(3, np.int64)), ResetNeeded, "call reset"),
    "no step begun": (lambda v: v.step_wait(), RuntimeError, "needs a step_async"),
    "closed": (use_closed, ClosedEnvironmentError, "was closed"),
}


@pytest.mark.parametrize("case", USES)
def test_odd_uses_of_a_vec_env_are_refused_and_leave_it_usable(case):
    pytest.importorskip("stable_baselines3")
    use, error, message = USES[case]
    venv = as_sb3_vec_env(make())
    with pytest.raises(error, match=message):
        use(venv)
    if case != "closed":
        venv.reset()
        assert venv.step(np.zeros(3, np.int64))[1].tolist() == [1, 1, 1]
        assert venv.get_attr("first") == [0, 100, 200]
        venv.close()
