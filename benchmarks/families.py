"""Measures HalfCheetahDir in two workers, beside `gymnasium.vector.AsyncVectorEnv`.

    python -m benchmarks.families

Both step the same 40 environments with the same actions. Gymnasium starts a process for each; the
executor here has two, and one without workers is beside them. The figures are steps of environments
per second, the best of three alternating runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, VectorEnv

import mtwrappers  # noqa: F401 (registers the ids)

ID, NUM_ENVS, STEPS, ROUNDS = "mtwrappers/HalfCheetahDir-v0", 40, 150, 3


def make_single() -> gymnasium.Env:
    return gymnasium.make(ID, source="promp", disable_env_checker=True)


CASES: dict[str, Callable[[], VectorEnv]] = {
    "here, two workers": lambda: gymnasium.make_vec(
        ID, NUM_ENVS, source="promp", meta_batch_size=20, workers=2
    ),
    "here, in this process": lambda: gymnasium.make_vec(
        ID, NUM_ENVS, source="promp", meta_batch_size=20
    ),
    "gymnasium.vector.AsyncVectorEnv": lambda: AsyncVectorEnv([make_single] * NUM_ENVS),
}


def measure_steps_per_second(envs: VectorEnv) -> float:
    envs.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (STEPS, NUM_ENVS, 6)).astype(np.float32)
    for action in actions[:10]:
        envs.step(action)
    start = time.perf_counter()
    for action in actions:
        envs.step(action)
    return STEPS * NUM_ENVS / (time.perf_counter() - start)


def main() -> None:
    best: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, make in CASES.items():
            start = time.perf_counter()
            with closing(make()) as envs:
                seconds[name] = min(seconds.get(name, np.inf), time.perf_counter() - start)
                best[name] = max(best.get(name, 0.0), measure_steps_per_second(envs))
    print(f"{ID}, {NUM_ENVS} environments")
    for name, speed in best.items():
        print(f"{name:32} {speed:8,.0f} steps/s, made in {seconds[name]:.1f} s")


if __name__ == "__main__":
    main()
