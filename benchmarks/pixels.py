"""Measures the cost of frames: beside a bare `mujoco.Renderer`, in steps, and on two workers.

    python -m benchmarks.pixels
    python -m benchmarks.pixels --before ../older-checkout

Prints two tables and writes ``benchmarks/results/pixels.json``. Workloads take turns. With
``--before``, the rate of steps without frames is compared with that of another checkout of this
package. On a machine without a display, ``MUJOCO_GL=egl`` or ``MUJOCO_GL=osmesa`` must be set.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

import gymnasium
import mujoco
import numpy as np

import mtwrappers  # noqa: F401 (registers the ids)
from benchmarks.common import HERE, measure_rates, median_ratio, save, table, target_row

ROUNDS, FRAMES, STEPS = 9, 8, 2000
SIZES = (84, 480)
ENV_OPTIONS = {"env_name": "door-open-v3", "num_goals": 1, "max_episode_steps": -1}
ACTION = np.zeros(4, np.float32)
# Steps an environment without frames in another process: prints a rate for each line that it reads.
SERVER = f"""
import sys, time, gymnasium, numpy, mtwrappers
options = {ENV_OPTIONS}
env = gymnasium.make("mtwrappers/MT1-v0", disable_env_checker=True, **options)
env.reset(seed=0)
action = numpy.zeros(4, numpy.float32)
for _ in sys.stdin:
    start = time.perf_counter()
    for _ in range({STEPS}):
        env.step(action)
    print({STEPS} / (time.perf_counter() - start), flush=True)
"""


def make(**render_options: Any) -> Any:
    """Makes an environment and resets it."""
    env = gymnasium.make(
        "mtwrappers/MT1-v0", disable_env_checker=True, **ENV_OPTIONS, **render_options
    )
    env.reset(seed=0)
    return env


def make_render_workload(env: Any) -> Callable[[], int]:
    """A workload of an environment's ``render``, of states that differ, without steps."""
    data = env.unwrapped._env.sawyer.data

    def run() -> int:
        for _ in range(FRAMES):
            data.qpos[0] += 1e-4
            env.render()
        return FRAMES

    return run


def make_renderer_workload(env: Any, size: int) -> Callable[[], int]:
    """A workload of a bare `mujoco.Renderer` with the environment's simulation and camera."""
    sawyer = env.unwrapped._env.sawyer
    renderer = mujoco.Renderer(sawyer.model, size, size)

    def run() -> int:
        for _ in range(FRAMES):
            sawyer.data.qpos[0] += 1e-4
            mujoco.mj_forward(sawyer.model, sawyer.data)
            renderer.update_scene(sawyer.data, "corner4")
            renderer.render()
        return FRAMES

    return run


def make_step_workload(env: Any, steps: int) -> Callable[[], int]:
    """A workload of steps of an environment, or of a vector environment."""
    num_envs, actions = 1, ACTION
    if isinstance(env, gymnasium.vector.VectorEnv):
        num_envs = env.num_envs
        actions = np.tile(ACTION, (num_envs, 1))

    def run() -> int:
        for _ in range(steps):
            env.step(actions)
        return steps * num_envs

    return run


def make_vector(workers: int | None) -> Any:
    """Makes two environments that observe frames, and resets them."""
    options = {**ENV_OPTIONS, "observation": "pixels", "width": 84, "height": 84}
    envs: Any = gymnasium.make_vec("mtwrappers/MT1-v0", 2, workers=workers, **options)
    envs.reset(seed=0)
    return envs


def compare_checkouts(path: str) -> float:
    """The median ratio of rates of steps without frames: this checkout over another."""
    current, previous = (
        subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=checkout,
            env={"PYTHONPATH": str(checkout)},
        )
        for checkout in (HERE.parent, path)
    )

    def measure_rate(server: Any) -> float:
        server.stdin.write("\n")
        server.stdin.flush()
        return float(server.stdout.readline())

    ratios = [measure_rate(current) / measure_rate(previous) for _ in range(3 * ROUNDS)]
    for server in (current, previous):
        server.communicate()
    return median(ratios[1:])  # the first is of the warm-up


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", metavar="CHECKOUT")
    checkout = parser.parse_args().before
    workloads = {"step": make_step_workload(make(), STEPS)}
    for size in SIZES:
        options = {"render_mode": "rgb_array", "camera_name": "corner4"}
        options.update(width=size, height=size)
        env = make(**options)
        workloads[f"bare {size}"] = make_renderer_workload(env, size)
        workloads[f"frame {size}"] = make_render_workload(env)
        workloads[f"plain {size}"] = make_render_workload(make(shadows=False, **options))
    vectors = {"one process": make_vector(None), "two workers": make_vector(2)}
    for name, envs in vectors.items():
        workloads[name] = make_step_workload(envs, FRAMES)
    rates = measure_rates(workloads, ROUNDS)
    costs = [
        {
            "pixels": f"{size} x {size}",
            "shadows": "yes" if kind == "frame" else "no",
            "frames per second": f"{median(rates[f'{kind} {size}']):.0f}",
            "steps per frame": f"{median_ratio(rates, 'step', f'{kind} {size}'):.0f}",
        }
        for size in SIZES
        for kind in ("frame", "plain")
    ]
    targets = [
        target_row(
            f"frames of {size} x {size}, against a bare mujoco.Renderer",
            median_ratio(rates, f"frame {size}", f"bare {size}"),
            0.95,
        )
        for size in SIZES
    ]
    if checkout is not None:
        ratio = compare_checkouts(checkout)
        targets.append(target_row("steps of states alone, against before", ratio, 0.98))
    workers = median_ratio(rates, "two workers", "one process")
    print(f"{table(costs)}\n\n{table(targets)}\n\nframes on two workers: {workers:.2f}x of one")
    save("pixels", {"costs": costs, "targets": targets, "workers": workers})
    for envs in vectors.values():
        envs.close()


if __name__ == "__main__":
    main()
