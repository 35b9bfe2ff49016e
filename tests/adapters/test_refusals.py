"""What adapters cannot use, before the library is imported: what was expected and what came.

Those of Stable-Baselines3 and TorchRL need it; the others know only some autoreset modes.
"""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, NoAsyncCallError, ResetNeeded
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers.vector import ClipReward

from mtwrappers import (
    VectorNormalizeRewardPerTask,
    as_pufferlib_env,
    as_sb3_vec_env,
    as_skrl_env,
    as_tianshou_env,
    as_torchrl_env,
)
from tests.fakes import counting_makers
from tests.refusals import assert_refused, closed, refusal, refusals, three_envs


@refusals(
    refusal(
        lambda: as_sb3_vec_env(three_envs(), n_envs=2),
        TypeError,
        "as_sb3_vec_env got an unexpected keyword argument 'n_envs': vec_env has its number, num_e",
    ),
    refusal(lambda: as_skrl_env([]), TypeError, "expected a MetaVectorEnv, ...got list"),
    refusal(
        lambda: as_skrl_env(closed(three_envs())),
        ClosedEnvironmentError,
        "expected an open vector environment, ...was closed",
    ),
    refusal(
        lambda: as_skrl_env(three_envs()),
        ValueError,
        "skrl needs autoreset_mode='Disabled', got 'SameStep'",
    ),
    refusal(
        lambda: as_skrl_env(three_envs(autoreset_mode="NextStep")),
        ValueError,
        "skrl needs ...got 'NextStep'",
    ),
    refusal(
        lambda: as_tianshou_env(three_envs()),
        ValueError,
        "Tianshou needs autoreset_mode='Disabled', got 'SameStep'",
    ),
    refusal(
        lambda: as_pufferlib_env(three_envs(autoreset_mode="Disabled")),
        ValueError,
        "PufferLib needs ...got 'Disabled'",
    ),
    refusal(
        lambda: as_torchrl_env(three_envs(autoreset_mode="NextStep")),
        ValueError,
        "TorchRL needs ...got 'NextStep'",
    ),
)
def test_odd_uses_say_what_was_expected_and_what_came(call, error, message):
    assert_refused(call, error, message)


@pytest.mark.parametrize("adapt", [as_sb3_vec_env, as_torchrl_env])
@refusals(
    refusal(
        lambda adapt: adapt(None),
        TypeError,
        "expected a MetaVectorEnv, such as gymnasium.make_vec ...got NoneType",
    ),
    refusal(
        lambda adapt: adapt(SyncVectorEnv(counting_makers(2))),
        TypeError,
        "expected a MetaVectorEnv, ...got SyncVectorEnv: make the same environments with "
        "mtwrappers.as_vector(env_fns)",
    ),
    refusal(
        lambda adapt: adapt(ClipReward(three_envs(), 0, 1)),
        TypeError,
        "expected a MetaVectorEnv, ...got ClipReward",
    ),
    refusal(
        lambda adapt: adapt(SimpleNamespace(vec_env=three_envs())),
        TypeError,
        "expected a MetaVectorEnv, ...got SimpleNamespace, which is an adapter of one: use it as "
        "it is, or pass its vec_env",
    ),
    refusal(
        lambda adapt: adapt(closed(three_envs())),
        ClosedEnvironmentError,
        "...an open vector env...was closed",
    ),
    refusal(
        lambda adapt: adapt(three_envs(autoreset_mode="NextStep")),
        ValueError,
        "...autoreset_mode='SameStep', got 'NextStep'",
    ),
)
def test_what_adapters_cannot_use_is_named(call, error, message, adapt):
    assert_refused(call, error, message, adapt)


@pytest.fixture(scope="module")
def venv():
    pytest.importorskip("stable_baselines3")
    with contextlib.closing(as_sb3_vec_env(three_envs())) as venv:
        yield venv


@refusals(
    refusal(
        lambda venv: as_sb3_vec_env(three_envs(autoreset_mode="Disabled")),
        ValueError,
        "Stable-Base...got 'Disabled'",
    ),
    refusal(
        VectorNormalizeRewardPerTask,
        TypeError,
        "VectorNormalizeRewardPerTask expected a ...: put it inside of the adapter, as in "
        "as_sb3_vec_env(VectorNormalizeRewardPerTask(envs))",
    ),
    refusal(as_sb3_vec_env, TypeError, "...got ExecutorVecEnv, which is an adapter of one: use it"),
    refusal(lambda venv: venv.get_attr("nothing"), AttributeError, "...nothing'"),
    refusal(
        lambda venv: venv.step(np.zeros(2, np.int64)), ValueError, "...got ndarray of shape (2,)"
    ),
    refusal(lambda venv: venv.step(np.zeros((3, 1))), ValueError, "expected actions of shape"),
    refusal(lambda venv: venv.step_wait(), NoAsyncCallError, "...needs a step_async()"),
    refusal(
        lambda venv: as_sb3_vec_env(three_envs()).step(np.zeros(3, np.int64)),
        ResetNeeded,
        "...call reset()",
    ),
    refusal(
        lambda venv: closed(as_sb3_vec_env(three_envs())).reset(),
        ClosedEnvironmentError,
        "...was closed",
    ),
)
def test_odd_uses_of_a_vec_env_are_named_and_leave_it_usable(call, error, message, venv):
    venv.reset()
    assert_refused(call, error, message, venv)
    venv.reset()
    assert venv.step(np.zeros(3, np.int64))[1].tolist() == [1, 1, 1]
    assert venv.get_attr("first") == [0, 100, 200]
