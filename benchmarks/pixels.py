"""What frames cost: against a bare `mujoco.Renderer`, in steps, without shadows, on two workers.

    python -m benchmarks.pixels
    python -m benchmarks.pixels --before ../older-checkout

Writes ``benchmarks/results/pixels.json`` and prints two tables. All take turns in one run. With
``--before``, steps of states alone are compared with those of another checkout of this package.
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
from benchmarks.common import HERE, rates, ratio, save, table, target_row

ROUNDS, FRAMES, STEPS = 9, 8, 2000
SIZES = (84, 480)
ONE = {"env_name": "door-open-v3", "num_goals": 1, "max_episode_steps": -1}
ACTION = np.zeros(4, np.float32)
# Plays states alone in another checkout: a rate for each line that it reads.
SERVER = f"""
import sys, time, gymnasium, numpy, mtwrappers
one = {{"env_name": "door-open-v3", "num_goals": 1, "max_episode_steps": -1}}
env = gymnasium.make("mtwrappers/MT1-v0", disable_env_checker=True, **one)
env.reset(seed=0)
action = numpy.zeros(4, numpy.float32)
for _ in sys.stdin:
    start = time.perf_counter()
    for _ in range({STEPS}):
        env.step(action)
    print({STEPS} / (time.perf_counter() - start), flush=True)
"""


def make(**look: Any) -> Any:
    """One environment, after its reset."""
    env = gymnasium.make("mtwrappers/MT1-v0", disable_env_checker=True, **ONE, **look)
    env.reset(seed=0)
    return env


def draws(env: Any) -> Callable[[], int]:
    """Draws states that differ, without stepping."""
    data = env.unwrapped._env.sawyer.data

    def play() -> int:
        for _ in range(FRAMES):
            data.qpos[0] += 1e-4
            env.render()
        return FRAMES

    return play


def bare(env: Any, size: int) -> Callable[[], int]:
    """A `mujoco.Renderer` on the same simulation and camera."""
    sawyer = env.unwrapped._env.sawyer
    renderer = mujoco.Renderer(sawyer.model, size, size)

    def play() -> int:
        for _ in range(FRAMES):
            sawyer.data.qpos[0] += 1e-4
            mujoco.mj_forward(sawyer.model, sawyer.data)
            renderer.update_scene(sawyer.data, "corner4")
            renderer.render()
        return FRAMES

    return play


def steps(env: Any, count: int) -> Callable[[], int]:
    """Steps one environment, or all of a vector."""
    actions = np.tile(ACTION, (env.num_envs, 1)) if hasattr(env, "num_envs") else ACTION
    each = len(actions) if actions.ndim == 2 else 1

    def play() -> int:
        for _ in range(count):
            env.step(actions)
        return count * each

    return play


def vector(workers: int | None) -> Any:
    """Two environments that show frames."""
    look = {"observation": "pixels", "width": 84, "height": 84}
    envs: Any = gymnasium.make_vec("mtwrappers/MT1-v0", 2, workers=workers, **ONE, **look)
    envs.reset(seed=0)
    return envs


def against(path: str) -> float:
    """The rate of steps of states alone, over that of another checkout."""
    here, there = (
        subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=where,
            env={"PYTHONPATH": str(where)},
        )
        for where in (HERE.parent, path)
    )

    def rate(server: Any) -> float:
        server.stdin.write("\n")
        server.stdin.flush()
        return float(server.stdout.readline())

    pairs = [(rate(here), rate(there)) for _ in range(3 * ROUNDS)][1:]
    for server in (here, there):
        server.communicate()
    return median(one / other for one, other in pairs)


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", metavar="CHECKOUT")
    before = parser.parse_args().before
    players = {"step": steps(make(), STEPS)}
    for size in SIZES:
        look = {"render_mode": "rgb_array", "camera_name": "corner4"}
        look.update(width=size, height=size)
        seen = make(**look)
        players[f"bare {size}"] = bare(seen, size)
        players[f"frame {size}"] = draws(seen)
        players[f"plain {size}"] = draws(make(shadows=False, **look))
    vectors = {"one process": vector(None), "two workers": vector(2)}
    players.update({name: steps(envs, FRAMES) for name, envs in vectors.items()})
    found = rates(players, ROUNDS)
    costs = [
        {
            "pixels": f"{size} x {size}",
            "shadows": "yes" if kind == "frame" else "no",
            "frames per second": f"{median(found[f'{kind} {size}']):.0f}",
            "steps per frame": f"{ratio(found, 'step', f'{kind} {size}'):.0f}",
        }
        for size in SIZES
        for kind in ("frame", "plain")
    ]
    targets = [
        target_row(
            f"frames of {size} x {size}, against a bare mujoco.Renderer",
            ratio(found, f"frame {size}", f"bare {size}"),
            0.95,
        )
        for size in SIZES
    ]
    if before is not None:
        targets.append(target_row("steps of states alone, against before", against(before), 0.98))
    workers = ratio(found, "two workers", "one process")
    print(f"{table(costs)}\n\n{table(targets)}\n\nframes on two workers: {workers:.2f}x of one")
    save("pixels", {"costs": costs, "targets": targets, "workers": workers})
    for envs in vectors.values():
        envs.close()


if __name__ == "__main__":
    main()
