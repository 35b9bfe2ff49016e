"""What the wrappers and the import cost, side by side in one run.

    python -m benchmarks.overhead

Writes ``benchmarks/results/overhead.json`` and prints a table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from metaworld.wrappers import OneHotWrapper

from mtwrappers import MultiEnvWrapper, TaskOnehotWrapper

STEPS, ROUNDS = 20_000, 11


class NullEnv(gymnasium.Env[Any, Any]):
    """Does nothing, as fast as Python can."""

    observation_space = Box(-1.0, 1.0, (39,), np.float64)
    action_space = Box(-1.0, 1.0, (4,), np.float32)

    def __init__(self) -> None:
        self.obs = np.zeros(39)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.obs, {}

    def step(self, action: Any) -> Any:
        return self.obs, 0.0, False, False, {}


def step_time(env: gymnasium.Env[Any, Any]) -> float:
    """Microseconds a step."""
    env.reset()
    action, step = np.zeros(4, np.float32), env.step
    start = time.perf_counter()
    for _ in range(STEPS):
        step(action)
    return (time.perf_counter() - start) / STEPS * 1e6


def import_time(code: str) -> float:
    """Milliseconds that a fresh interpreter spends on ``code``."""
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
    return float(done.stdout) * 1e3


def main() -> None:
    envs = {
        "bare": NullEnv(),
        "Meta-World OneHotWrapper": OneHotWrapper(NullEnv(), 1, 10),
        "TaskOnehotWrapper": TaskOnehotWrapper(NullEnv(), 1, 10),
        "MultiEnvWrapper": MultiEnvWrapper([NullEnv, partial(NullEnv)]),
    }
    times: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(ROUNDS):
        for name, env in envs.items():
            times[name].append(step_time(env))
    added = {
        name: median(t - b for t, b in zip(times[name], times["bare"], strict=True))
        for name in list(envs)[1:]
    }
    imports = {
        code: median(import_time(code) for _ in range(ROUNDS))
        for code in ("import gymnasium", "import gymnasium, mtwrappers")
    }
    first = (
        "import gymnasium, mtwrappers; e = gymnasium.make('mtwrappers/MT10-v0'); e.reset(seed=0)"
    )
    check = f"{first}; print(e.unwrapped.envs_built)"
    built = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    results = {
        "added_us_per_step": added,
        "import_ms": imports,
        "models_for_first_observation_of_MT10": int(built.stdout),
    }
    for name, value in added.items():
        print(f"{name:32} +{value:.2f} us a step")
    for name, value in imports.items():
        print(f"{name:32} {value:.0f} ms")
    print(f"models for MT10's first observation: {results['models_for_first_observation_of_MT10']}")
    out = Path(__file__).parent / "results"
    out.mkdir(exist_ok=True)
    (out / "overhead.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
