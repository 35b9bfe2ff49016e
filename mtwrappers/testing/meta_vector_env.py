"""Checks of the contract of `mtwrappers.MetaVectorEnv`, which extends `SyncVectorEnv`'s."""

from __future__ import annotations

import copy
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers.testing.difference import same
from mtwrappers.testing.executors import makers, record_sync, require_equal
from mtwrappers.testing.recording import record
from mtwrappers.testing.report import must_raise, require
from mtwrappers.testing.subject import Subject

# The number of steps after invalid actions.
_REFUSED = 3


def _sync(subject: Subject) -> Any:
    return SyncVectorEnv(makers(subject), autoreset_mode=subject.mode)


def attributes(subject: Subject) -> str:
    """Its mode, spaces and sizes equal `SyncVectorEnv`'s, with tasks of equal size."""
    ours, mode = subject.given, subject.mode
    declared = ours.autoreset_mode, ours.metadata.get("autoreset_mode")
    require(
        declared[0] is mode and declared[1] is mode,
        f"autoreset_mode must be {mode}, as an attribute and in metadata; got {declared[0]} and "
        f"{declared[1]}",
    )
    spaces = ("observation_space", "action_space")
    with closing(_sync(subject)) as sync:
        for name in ("num_envs", *spaces, *(f"single_{space}" for space in spaces)):
            expected, actual = getattr(sync, name), getattr(ours, name)
            require(actual == expected, f"{name} must be {expected}, got {actual}")
    m, k = ours.meta_batch_size, ours.envs_per_task
    require(m * k == ours.num_envs, f"{m} tasks times {k} environments must be {ours.num_envs}")
    return f"{m} tasks of {k} environments"


def before_a_reset(subject: Subject) -> str:
    """A step needs a reset first."""
    ours = subject.given
    with must_raise(ResetNeeded, "step() before reset()"):
        ours.step(subject.actions(ours, 1)[0])
    return "step() before reset() is refused"


def as_sync(subject: Subject) -> str:
    """It returns exactly what Gymnasium's `SyncVectorEnv` returns, with a seed and with a list."""
    ours, mode, seed = subject.given, subject.mode, subject.seed
    each = [seed * 7 + 3 * i for i in range(subject.num_envs)]
    listed = record(ours, subject.actions(ours), each)
    for given, got in ((each, listed), (seed, subject.first)):
        expected = record_sync(subject, mode, subject.steps, given)
        require_equal(subject, expected, got, type(ours).__name__, mode)
    return f"{subject.steps} steps: all values and infos, bit for bit"


def calls(subject: Subject) -> str:
    """``call``, ``get_attr`` and ``set_attr`` behave as in `SyncVectorEnv`."""
    ours = subject.given
    values = [float(i) for i in range(ours.num_envs)]
    with closing(_sync(subject)) as sync:
        for name in ("has_wrapper_attr", "get_wrapper_attr"):
            expected, actual = sync.call(name, "render_mode"), ours.call(name, "render_mode")
            require(
                same(expected, actual),
                f"call({name!r}) must return {expected}, got {actual}",
            )
        for given in (values, 5.0):
            ours.set_attr("_checked_attribute", given)
            sync.set_attr("_checked_attribute", given)
            expected = sync.get_attr("_checked_attribute")
            actual = ours.get_attr("_checked_attribute")
            require(actual == expected, f"get_attr after set_attr must be {expected}, got {actual}")
    with must_raise(ValueError, "set_attr with too many values"):
        ours.set_attr("_checked_attribute", [*values, 0.0])
    return "call, get_attr and set_attr"


def refusals(subject: Subject) -> str:
    """Invalid actions, seeds and masks raise errors and change nothing."""
    _refuses_actions(subject)
    ours, n = subject.given, subject.num_envs
    with must_raise(ValueError, "reset() with too many seeds"):
        ours.reset(seed=[0] * (n + 1))
    for error, what, mask in (
        (ValueError, "an empty reset_mask", np.zeros(n, dtype=np.bool_)),
        (ValueError, "a reset_mask of another shape", np.ones(n + 1, dtype=np.bool_)),
        (TypeError, "a reset_mask that is not a bool array", [True] * n),
    ):
        with must_raise(error, f"reset() with {what}"):
            ours.reset(options={"reset_mask": mask})
    return "wrong actions, seeds and masks are refused"


def _refuses_actions(subject: Subject) -> None:
    ours, mode = subject.given, subject.mode

    def step(actions: Any) -> Any:
        if isinstance(actions, np.ndarray):
            with must_raise(ValueError, "step() with actions for too few environments"):
                ours.step(actions[:-1])
        if isinstance(ours.single_action_space, Box):
            bad = np.array(actions)
            bad[-1] = np.nan
            with must_raise(ValueError, "step() with a NaN action"):
                ours.step(bad)
        returned = ours.step(actions)
        if mode is AutoresetMode.DISABLED and np.any(returned[2] | returned[3]):
            with must_raise(ResetNeeded, "step() of an episode that has ended"):
                ours.step(copy.deepcopy(actions))
        return returned

    # In mode DISABLED episodes have to end.
    steps = subject.steps if mode is AutoresetMode.DISABLED else min(subject.steps, _REFUSED)
    got = record(ours, subject.actions(ours, steps), subject.seed, step=step)
    what = f"after refused actions {type(ours).__name__}"
    require_equal(subject, record_sync(subject, mode, steps, subject.seed), got, what, mode)


def closes(subject: Subject) -> str:
    """It can be closed twice, and cannot be reset afterwards."""
    ours = subject.given
    ours.close()
    ours.close()
    with must_raise(ClosedEnvironmentError, "reset() after close()"):
        ours.reset()
    return "closed twice"
