"""Checks of the contract of `mtwrappers.MTEnv`: seeds, task states and the options of ``reset``."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Dict

from mtwrappers.common.errors import SeedNotSetError
from mtwrappers.core.mtenv import MTEnv
from mtwrappers.state.plain_data import copied
from mtwrappers.testing.difference import same
from mtwrappers.testing.report import must_raise, require
from mtwrappers.testing.seeds import untouched_random
from mtwrappers.testing.subject import Subject

# In this many draws, one of two tasks is missing once in a million.
_DRAWS = 20
# The calls that are not to draw from global generators, besides those of an episode.
_METHODS = "a method of seeds or tasks, or reset with options,"


def protocol(subject: Subject) -> str:
    """It is an `MTEnv`, and its observations are dicts of two."""
    env = subject.given
    require(isinstance(env, MTEnv), f"expected an MTEnv, got {type(env).__name__}")
    space = env.observation_space
    require(
        isinstance(space, Dict)
        and set(space.keys()) - {"task_embedding"} == {"env_obs", "task_obs"},
        f"observation_space must be a Dict of env_obs and task_obs, got {space}",
    )
    return "an MTEnv, of env_obs and task_obs"


def unseeded(subject: Subject) -> str:
    """Without a task seed no task state is sampled."""
    if subject.given._task_seed is not None:
        return "it has a task seed"
    with must_raise(SeedNotSetError, "sample_task_state() before a task seed was set"):
        subject.given.sample_task_state()
    return "without a task seed no task state is sampled"


def seed_methods(subject: Subject) -> str:
    """``seed`` and ``seed_task`` return and keep their seed, and it determines the tasks."""
    env, seed = subject.given, subject.seed
    with untouched_random(_METHODS):
        for name in ("seed", "seed_task"):
            returned = getattr(env, name)(seed)
            require(returned == [seed], f"{name}({seed}) must return [{seed}], got {returned!r}")
        env.assert_env_seed_is_set()
        env.assert_task_seed_is_set()
        draws = []
        for _ in range(2):
            env.seed_task(seed)
            draws.append([copied(env.sample_task_state()) for _ in range(5)])
    require(same(*draws), f"seed_task({seed}) must determine the tasks, got {draws}")
    return f"seed({seed}) and seed_task({seed}) are kept and determine the tasks"


def task_state(subject: Subject) -> str:
    """The task state that is set is returned on and after a reset."""
    env = subject.given
    env.reset(seed=subject.seed)
    with untouched_random(_METHODS):
        states = [copied(env.get_task_state()), *_draw(env)]
        for state in states:
            env.set_task_state(copied(state))
            _require_state(env, state, "set_task_state")
            obs, _ = env.reset()
            _require_state(env, state, "set_task_state and reset")
            expected, actual = env.get_task_obs(), obs["task_obs"]
            require(
                same(expected, actual),
                f"task_obs must be get_task_obs() = {expected!r}, got {actual!r}",
            )
        env.reset_task_state()
    env.reset()
    return f"{len(states)} task states are set and observed"


def task_options(subject: Subject) -> str:
    """``reset`` reads ``task_state`` or ``resample_task`` from unchanged options."""
    env, seed = subject.given, subject.seed
    with untouched_random(_METHODS):
        env.reset(seed=seed)
        state = _draw(env)[0]
        options: dict[str, Any] = {"task_state": copied(state)}
        env.reset(options=options)
        require(
            set(options) == {"task_state"},
            f"reset changed the caller's options from ['task_state'] to {sorted(options)}",
        )
        _require_state(env, state, "reset(options={'task_state': ...})")
        resampled = []
        for _ in range(2):
            env.reset(seed=seed, options={"resample_task": True})
            resampled.append(copied(env.get_task_state()))
        require(
            same(*resampled),
            f"reset(seed={seed}, options={{'resample_task': True}}) must determine the task, "
            f"got {resampled}",
        )
    with must_raise(ValueError, "reset with both task_state and resample_task"):
        env.reset(options={"task_state": state, "resample_task": True})
    return "task_state and resample_task choose the task of a reset"


def _draw(env: MTEnv) -> list[Any]:
    """Returns some task states, the first different from the current one if possible."""
    present, drawn = copied(env.get_task_state()), []
    for _ in range(_DRAWS):
        drawn.append(copied(env.sample_task_state()))
        _require_state(env, present, "sample_task_state")
    return [next((state for state in drawn if not same(state, present)), drawn[0]), *drawn[:3]]


def _require_state(env: MTEnv, state: Any, after: str) -> None:
    actual = env.get_task_state()
    require(
        same(state, actual), f"get_task_state() after {after} must be {state!r}, got {actual!r}"
    )
