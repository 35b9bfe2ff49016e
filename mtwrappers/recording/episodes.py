"""Records episodes, and runs them again to verify them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

Act: TypeAlias = Callable[[Any], NDArray[Any]]
_NO_COLUMNS = ("seed", "about")


class RecordingError(ValueError):
    """A recording that cannot begin, continue, or be trusted."""


class Episode(NamedTuple):
    """An episode of ``T`` steps."""

    seed: int
    about: dict[str, Any]  # task_state, task_name, task_description and rand_vec
    observations: Any  # (T + 1, O) float64, or a dict with (T + 1, H, W, 3) uint8 under "pixels"
    actions: NDArray[np.float32]  # (T, 4), in [-1, 1]
    rewards: NDArray[np.float64]  # (T,)
    terminations: NDArray[np.bool_]  # (T,)
    truncations: NDArray[np.bool_]  # (T,)


class Stored(NamedTuple):
    """An episode as stored in a dataset."""

    seed: int
    about: dict[str, Any]
    actions: NDArray[np.float32]  # (T, 4)
    columns: dict[str, Any]  # arrays by the dataset's names; None where stored lossily


def run(
    env: gymnasium.Env[Any, Any],
    seed: int,
    task_state: int,
    begin: Callable[[gymnasium.Env[Any, Any], str], Act],
) -> Episode:
    """Runs an episode that observes each state once.

    Args:
        env: The environment.
        seed: Of its reset.
        task_state: The task, in the order of the benchmark.
        begin: Called after the reset with the environment and the name of the class; returns the
            policy, from an observation to an action.
    """
    obs, info = env.reset(seed=seed, options={"task_state": task_state})
    act = begin(env, info["task_name"])
    about = {
        "task_state": task_state,
        "task_name": info["task_name"],
        "task_description": env.get_wrapper_attr("task_description"),
        "rand_vec": env.get_wrapper_attr("rand_vec"),
    }
    observations: list[Any] = [obs]
    steps: list[tuple[Any, ...]] = []
    while not steps or not any(steps[-1][2:]):
        action = act(obs)
        obs, *step, _ = env.step(action)
        observations.append(obs)
        steps.append((action, *step))
    columns = map(np.array, zip(*steps, strict=True))
    return Episode(seed, about, _stacked(observations), *columns)


def replay(env: gymnasium.Env[Any, Any], episode: Episode | Stored) -> Episode:
    """Runs the actions of an episode again."""
    actions = iter(episode.actions)
    last = episode.actions[-1]
    return run(
        env,
        episode.seed,
        int(episode.about["task_state"]),
        lambda env, task_name: lambda obs: next(actions, last),
    )


def columns_of(episode: Episode) -> dict[str, NDArray[Any]]:
    """Returns the arrays of an episode by name: ``rewards``, ``observations['pixels']``."""
    named = {name: value for name, value in episode._asdict().items() if name not in _NO_COLUMNS}
    while nested := [name for name, value in named.items() if isinstance(value, dict)]:
        for name in nested:
            within = named.pop(name)
            named |= {f"{name}[{key!r}]": value for key, value in within.items()}
    return named


def difference(then: Stored, now: Stored, rounding: float = 0.0) -> str | None:
    """Returns the name of the first part with different bits in two episodes, or None.

    Args:
        then: An episode.
        now: Its replay, or its copy.
        rounding: Rewards may differ by this, relative, or by their precision.
    """
    for name in ("task_name", "task_description"):
        if then.about[name] != now.about[name]:
            return name
    pairs = {"rand_vec": (then.about["rand_vec"], now.about["rand_vec"])}
    pairs |= {name: (then.columns[name], now.columns[name]) for name in now.columns}
    for name, (one, other) in pairs.items():
        if one is None or other is None:
            continue
        one, other = np.asarray(one), np.asarray(other)
        if rounding and "reward" in name and one.shape == other.shape:
            rounding = max(rounding, np.finfo(one.dtype).eps)
            other = np.where(np.isclose(one, other, rtol=rounding, atol=0.0), one, other)
        if (one.dtype, one.shape, one.tobytes()) != (other.dtype, other.shape, other.tobytes()):
            return name
    return None


def _stacked(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        keys = observations[0]
        return {key: _stacked([obs[key] for obs in observations]) for key in keys}
    return np.stack(observations)
