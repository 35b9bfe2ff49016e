"""The contract of `mtwrappers.MetaVectorEnv`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from mtwrappers.common.checks import check_callable, positive
from mtwrappers.testing.checks import raises, require, same, shares_memory, untouched_random
from mtwrappers.vector.settings import Maker

MakeVector = Callable[..., VectorEnv[Any, Any, Any]]


def check_meta_vector_env(
    make_vector: MakeVector, makers: Sequence[Maker], *, seed: int = 3, steps: int = 60
) -> None:
    """Checks that a vector environment keeps the contract of `MetaVectorEnv`.

    In each autoreset mode it is played side by side with `gymnasium.vector.SyncVectorEnv` over the
    same constructors: observations, rewards, flags and infos must be equal bit for bit. Give
    constructors whose episodes end at different times within ``steps``.

    Args:
        make_vector: Called as ``make_vector(makers, autoreset_mode=mode)``.
        makers: A constructor an environment.
        seed: The seed to check with.
        steps: How many steps to take.

    Raises:
        AssertionError: At the first breach; the message says what was expected and what came.
        TypeError: If ``make_vector`` is not callable.
        ValueError: If ``steps`` is not positive.
    """
    positive(steps, "steps")
    check_callable(make_vector, "make_vector")
    for mode in AutoresetMode:
        ours = make_vector(makers, autoreset_mode=mode)
        require(
            isinstance(ours, VectorEnv) and hasattr(ours, "meta_batch_size"),
            f"make_vector must make a MetaVectorEnv, got {ours!r}",
        )
        oracle = SyncVectorEnv(makers, autoreset_mode=mode)
        try:
            _check_attributes(ours, oracle, mode)
            with raises(ResetNeeded, "step() before reset()"):
                ours.step(ours.action_space.sample())
            with untouched_random():
                _check_equal_play(ours, oracle, mode, seed, steps)
            _check_calls(ours, oracle)
            _check_refusals(ours, oracle, mode)
        finally:
            ours.close()
            oracle.close()
        ours.close()
        with raises(ClosedEnvironmentError, "reset() after close()"):
            ours.reset()


def _check_attributes(ours: Any, oracle: Any, mode: AutoresetMode) -> None:
    require(
        ours.autoreset_mode is mode and ours.metadata.get("autoreset_mode") is mode,
        f"autoreset_mode must be {mode}, as an attribute and in metadata; got "
        f"{ours.autoreset_mode} and {ours.metadata.get('autoreset_mode')}",
    )
    spaces = ("observation_space", "action_space")
    for name in ("num_envs", *spaces, *(f"single_{space}" for space in spaces)):
        expected, actual = getattr(oracle, name), getattr(ours, name)
        require(actual == expected, f"{name} must be {expected}, got {actual}")
    m, k = ours.meta_batch_size, ours.envs_per_task
    require(m * k == ours.num_envs, f"{m} tasks times {k} environments must be {ours.num_envs}")


def _check_equal_play(ours: Any, oracle: Any, mode: AutoresetMode, seed: int, steps: int) -> None:
    def reset(what: str, seed: Any = None, **options: Any) -> None:
        given = dict(options)
        result = ours.reset(seed=seed, options=given), oracle.reset(seed=seed, options=options)
        _require_same(*result, what, mode)
        # Gymnasium's own takes the mask out of the options.
        expected = {"reset_mask"} if "mask" in what else set()
        require(set(given) == expected, f"reset changed the caller's options to {sorted(given)}")

    oracle.action_space.seed(seed)
    previous: Any = None
    for how in ([seed * 7 + 3 * i for i in range(oracle.num_envs)], seed):
        reset("reset", how)
        for t in range(steps):
            actions = oracle.action_space.sample()
            given = copy.deepcopy(actions)
            result, expected = ours.step(actions), oracle.step(actions)
            _require_same(result, expected, f"step {t}", mode)
            require(same(actions, given), f"step {t} changed the caller's actions")
            require(
                not shares_memory(previous, result),
                f"step {t} returned arrays that an earlier step did",
            )
            previous = result
            over = expected[2] | expected[3]
            if mode is AutoresetMode.DISABLED and over.any():
                with raises(ResetNeeded, "step() of an episode that is over"):
                    ours.step(actions)
                reset(f"reset with reset_mask after step {t}", reset_mask=over)


def _check_calls(ours: Any, oracle: Any) -> None:
    for name in ("has_wrapper_attr", "get_wrapper_attr"):
        expected, actual = oracle.call(name, "render_mode"), ours.call(name, "render_mode")
        require(same(actual, expected), f"call({name!r}) must return {expected}, got {actual}")
    values = [float(i) for i in range(ours.num_envs)]
    for given in (values, 5.0):
        ours.set_attr("_checked_attribute", given)
        oracle.set_attr("_checked_attribute", given)
        expected = oracle.get_attr("_checked_attribute")
        actual = ours.get_attr("_checked_attribute")
        require(actual == expected, f"get_attr after set_attr must be {expected}, got {actual}")
    with raises(ValueError, "set_attr with too many values"):
        ours.set_attr("_checked_attribute", [*values, 0.0])


def _check_refusals(ours: Any, oracle: Any, mode: AutoresetMode) -> None:
    ours.reset(seed=1)
    oracle.reset(seed=1)
    actions = oracle.action_space.sample()
    if isinstance(actions, np.ndarray):
        with raises(ValueError, "step() with actions for too few environments"):
            ours.step(actions[:-1])
    if isinstance(ours.single_action_space, Box):
        bad = np.array(actions)
        bad[-1] = np.nan
        with raises(ValueError, "step() with a NaN action"):
            ours.step(bad)
    _require_same(ours.step(actions), oracle.step(actions), "a step after refused actions", mode)
    n = ours.num_envs
    with raises(ValueError, "reset() with too few seeds"):
        ours.reset(seed=[0] * (n + 1))
    for error, what, mask in (
        (ValueError, "an empty reset_mask", np.zeros(n, dtype=np.bool_)),
        (ValueError, "a reset_mask of another shape", np.ones(n + 1, dtype=np.bool_)),
        (TypeError, "a reset_mask that is no bool array", [True] * n),
    ):
        with raises(error, f"reset() with {what}"):
            ours.reset(options={"reset_mask": mask})


def _require_same(actual: Any, expected: Any, what: str, mode: AutoresetMode) -> None:
    flags = ("rewards", "terminated", "truncated") if len(expected) == 5 else ()
    for name, a, e in zip(("observations", *flags, "infos"), actual, expected, strict=True):
        require(
            same(_timeless(a), _timeless(e)),
            f"{name} of {what} in mode {mode.value} must be those of SyncVectorEnv:\n"
            f"expected {e}\ngot      {a}",
        )


def _timeless(value: Any, parent: str = "") -> Any:
    """Without the wall-clock time that episode statistics hold."""
    if not isinstance(value, dict):
        return value
    times = ("t", "_t") if parent == "episode" else ()
    return {key: _timeless(v, key) for key, v in value.items() if key not in times}
