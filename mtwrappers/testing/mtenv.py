"""The contract of `mtwrappers.MTEnv`."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Dict

from mtwrappers.common.checks import positive
from mtwrappers.common.errors import SeedNotSetError
from mtwrappers.core.mtenv import MTEnv
from mtwrappers.state.plain_data import copied
from mtwrappers.testing.checks import (
    check_episode,
    play,
    raises,
    require,
    same,
    untouched_random,
)

# Of two tasks, one does not come in this many draws once in a million.
_DRAWS = 20


def check_mtenv(env: MTEnv, *, seed: int = 3, steps: int = 10) -> None:
    """Checks that an environment keeps the contract of `MTEnv`.

    Spaces and observations, both random streams, reading, setting and sampling the task state, the
    task options of ``reset``, and that nothing global or of the caller's is changed. A part that
    needs an unseeded environment runs only on one.

    Args:
        env: The environment; it is reset and stepped.
        seed: The seed to check with.
        steps: How many steps to take in an episode.

    Raises:
        AssertionError: At the first breach; the message says what was expected and what came.
        ValueError: If ``steps`` is not positive.
    """
    positive(steps, "steps")
    require(isinstance(env, MTEnv), f"expected an MTEnv, got {type(env).__name__}")
    space = env.observation_space
    require(
        isinstance(space, Dict)
        and set(space.keys()) - {"task_embedding"} == {"env_obs", "task_obs"},
        f"observation_space must be a Dict of env_obs and task_obs, got {space}",
    )
    if env._task_seed is None:
        with raises(SeedNotSetError, "sample_task_state() before a task seed was set"):
            env.sample_task_state()
    with untouched_random():
        _check_seeds(env, seed)
        first, second = play(env, seed, steps), play(env, seed, steps)
        require(same(first, second), f"two reset(seed={seed}) and the steps after them must agree")
        check_episode(env, steps)
        _check_task_state(env, seed)
        _check_options(env, seed)


def _check_seeds(env: MTEnv, seed: int) -> None:
    for name in ("seed", "seed_task"):
        returned = getattr(env, name)(seed)
        require(returned == [seed], f"{name}({seed}) must return [{seed}], got {returned!r}")
    env.assert_env_seed_is_set()
    env.assert_task_seed_is_set()
    draws = []
    for _ in range(2):
        env.seed_task(seed)
        draws.append([copied(env.sample_task_state()) for _ in range(5)])
    require(same(draws[0], draws[1]), f"seed_task({seed}) must determine the tasks, got {draws}")


def _draw(env: MTEnv) -> list[Any]:
    """Another task state than the present one, if one is drawn, and some more."""
    present, drawn = copied(env.get_task_state()), []
    for _ in range(_DRAWS):
        drawn.append(copied(env.sample_task_state()))
        _require_state(env, present, "sample_task_state")
    return [next((s for s in drawn if not same(s, present)), drawn[0]), *drawn[:3]]


def _check_task_state(env: MTEnv, seed: int) -> None:
    env.reset(seed=seed)
    for state in [copied(env.get_task_state()), *_draw(env)]:
        env.set_task_state(copied(state))
        _require_state(env, state, "set_task_state")
        obs, _ = env.reset()
        _require_state(env, state, "set_task_state and reset")
        require(
            same(obs["task_obs"], env.get_task_obs()),
            f"task_obs must be get_task_obs() = {env.get_task_obs()!r}, got {obs['task_obs']!r}",
        )
    env.reset_task_state()
    env.reset()


def _check_options(env: MTEnv, seed: int) -> None:
    env.reset(seed=seed)
    state = _draw(env)[0]
    options: dict[str, Any] = {"task_state": copied(state)}
    env.reset(options=options)
    require(
        set(options) == {"task_state"}, f"reset changed the caller's options to {sorted(options)}"
    )
    _require_state(env, state, "reset(options={'task_state': ...})")
    resampled = []
    for _ in range(2):
        env.reset(seed=seed, options={"resample_task": True})
        resampled.append(copied(env.get_task_state()))
    require(
        same(resampled[0], resampled[1]),
        f"reset(seed={seed}, options={{'resample_task': True}}) must determine the task, "
        f"got {resampled}",
    )
    with raises(ValueError, "reset with both task_state and resample_task"):
        env.reset(options={"task_state": state, "resample_task": True})
    env.reset()


def _require_state(env: MTEnv, state: Any, after: str) -> None:
    actual = env.get_task_state()
    require(
        same(actual, state), f"get_task_state() after {after} must be {state!r}, got {actual!r}"
    )
