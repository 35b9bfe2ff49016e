"""What the wrappers for multi-task training cost, single and vectorised, side by side in one run.

    python -m benchmarks.wrappers

Writes ``benchmarks/results/wrappers.json`` and prints a table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import NormalizeObservation, NormalizeReward

from benchmarks.common import limit_row, save, table
from mtwrappers import (
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    PadSpaces,
    RL2Observation,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    VectorRL2Observation,
)
from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess

STEPS, ROUNDS = 10_000, 11
SIZES = ((10, 1), (10, 5))  # tasks, environments a task
SINGLE_LIMIT, VECTOR_LIMIT = 3.0, 1.0
OBSERVATION = Box(-1.0, 1.0, (39,), np.float64)
ACTION = Box(-1.0, 1.0, (4,), np.float32)


class NullEnv(gymnasium.Env[Any, Any]):
    """Does nothing, as fast as Python can; its one task succeeds never."""

    observation_space, action_space = OBSERVATION, ACTION
    obs = np.full(39, 0.5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.obs, {"task_id": 0, "success": 0.0}

    def step(self, action: Any) -> Any:
        return self.obs, 0.5, False, False, {"task_id": 0, "success": 0.0}


class NullVectorEnv(VectorEnv[Any, Any, Any]):
    """Many environments that do nothing; their task ids are those of their groups."""

    single_observation_space, single_action_space = OBSERVATION, ACTION

    def __init__(self, num_tasks: int, envs_per_task: int) -> None:
        self.meta_batch_size = num_tasks
        self.envs_per_task = envs_per_task
        self.num_envs = n = num_tasks * envs_per_task
        self.observation_space = batch_space(OBSERVATION, n)
        self.action_space = batch_space(ACTION, n)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self._tasks = np.arange(n) // envs_per_task
        self._obs, self._rewards = np.full((n, 39), 0.5), np.full(n, 0.5)
        self._flags, self._mask = np.zeros(n, np.bool_), np.ones(n, np.bool_)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._obs, {"task_id": self._tasks, "_task_id": self._mask}

    def step_async(self, actions: Any) -> None:
        pass

    def step_wait(self) -> Any:
        infos = {"task_id": self._tasks, "_task_id": self._mask}
        return self._obs, self._rewards, self._flags, self._flags, infos

    def step(self, actions: Any) -> Any:
        self.step_async(actions)
        return self.step_wait()

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return (False,) * self.num_envs

    def set_tasks(self, tasks: Any) -> None:
        pass


def step_time(env: Any, action: Any) -> float:
    """Microseconds a step."""
    env.reset()
    step = env.step
    start = time.perf_counter()
    for _ in range(STEPS):
        step(action)
    return (time.perf_counter() - start) / STEPS * 1e6


def added(
    wraps: Sequence[Callable[[Any], Any]], bare: Callable[[], Any], action: Any
) -> dict[str, float]:
    """Microseconds that each wrapper adds to a step, the median over rounds taken in turns."""
    envs = {"bare": bare(), **{wrap.__name__: wrap(bare()) for wrap in wraps}}
    times: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(ROUNDS):
        for name, env in envs.items():
            times[name].append(step_time(env, action))
    return {
        name: median(t - b for t, b in zip(times[name], times["bare"], strict=True))
        for name in list(envs)[1:]
    }


class PadToMMBench(PadSpaces):
    """`PadSpaces` to MMBench's sizes."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, 128, 16)


def main() -> None:
    single = added(
        [NormalizeRewardPerTask, NormalizeObservationPerTask, RL2Observation, TerminateOnSuccess],
        NullEnv,
        np.zeros(4, np.float32),
    )
    single |= added([PadToMMBench], NullEnv, np.zeros(16, np.float32))
    rows = [limit_row(name, us, SINGLE_LIMIT, " us a step") for name, us in single.items()]
    results: dict[str, Any] = {"single_us_a_step": single}
    for tasks, each in SIZES:
        n = tasks * each
        many = added(
            [VectorNormalizeRewardPerTask, VectorNormalizeObservationPerTask, VectorRL2Observation],
            lambda tasks=tasks, each=each: NullVectorEnv(tasks, each),
            np.zeros((n, 4), np.float32),
        )
        per_env = {name: us / n for name, us in many.items()}
        unit = " us a step and environment"
        rows += [limit_row(f"{k}, {n}", us, VECTOR_LIMIT, unit) for k, us in per_env.items()]
        results[f"vector_us_a_step_and_environment_{tasks}x{each}"] = per_env
    results["gymnasium_single_us_a_step"] = added(
        [NormalizeReward, NormalizeObservation], NullEnv, np.zeros(4, np.float32)
    )
    # What feeding a history costs.
    action = np.zeros(4, np.float32)
    multi = {name: MultiEnvWrapper([NullEnv], select=name) for name in ("uniform", "least_success")}
    results["multi_env_us_a_step"] = {
        name: median(step_time(env, action) for _ in range(ROUNDS)) for name, env in multi.items()
    }
    print(table(rows))
    for name, us in results["gymnasium_single_us_a_step"].items():
        print(f"Gymnasium's {name}, single: {us:.1f} us a step")
    for name, us in results["multi_env_us_a_step"].items():
        print(f"a step of MultiEnvWrapper, select={name!r}: {us:.2f} us")
    save("wrappers", results)


if __name__ == "__main__":
    main()
