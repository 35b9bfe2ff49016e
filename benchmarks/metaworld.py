"""Fast Meta-World: against stock Meta-World, EnvPool and the physics alone, in one run.

    python -m benchmarks.metaworld [--quick]

EnvPool is compared where it is installed. Prints a table, writes ``results/metaworld.json`` and
``metaworld.png``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean, median
from typing import Any

import gymnasium
import metaworld
import mujoco
import numpy as np

import mtwrappers  # noqa: F401 (registers the ids)
from benchmarks.common import (
    HERE,
    bar_plot,
    cpu_name,
    machine,
    rates,
    ratio,
    save,
    table,
    target_row,
)
from mtwrappers.metaworld import fast_class, make_benchmark

ALL = metaworld.ALL_V3_ENVIRONMENTS
MT10 = list(metaworld.env_dict.MT10_V3)
EPISODE = 500
BEST_CASE_ENVS = 20
ENVPOOL_SAME_JOB = "EnvPool, ten pools"
ENVPOOL_BEST_CASE = "EnvPool, one class at a time"


def single(cls: Any, task: Any, steps: int) -> Callable[[], int]:
    """Plays one environment with random actions, a whole number of steps after a reset."""
    env = cls()
    env.set_task(task)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (steps, 4)).astype(np.float32)

    def play() -> int:
        env.reset()
        env.curr_path_length = 0
        for action in actions:
            env.step(action)
        return steps

    return play


def step_times(names: Sequence[str], steps: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Microseconds a step of the stock and of the fast class, medians, the reset not counted."""
    found = {}
    for name in names:
        task = make_benchmark("MT1", env_name=name, num_goals=1).train_tasks[0]
        envs = [ALL[name](), fast_class(name)()]
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1, 1, (steps, 4)).astype(np.float32)
        times: list[list[float]] = [[], []]
        for env in envs:
            env.set_task(task)
        for _ in range(rounds):
            for k, env in enumerate(envs):
                env.reset()
                start = time.perf_counter()
                for action in actions:
                    env.step(action)
                times[k].append((time.perf_counter() - start) / steps * 1e6)
        found[name] = (median(times[0]), median(times[1]))
    return found


def reset_ratio(names: Sequence[str], rounds: int) -> tuple[float, float, float]:
    """How many times faster a reset to a known task is; and both in microseconds."""
    stock_times, fast_times = [], []
    for name in names:
        tasks = make_benchmark("MT1", env_name=name, num_goals=5).train_tasks
        stock, fast = ALL[name](), fast_class(name)()
        for task in tasks:
            fast.set_task(task)
            fast.reset()
        for env, times, turns in ((stock, stock_times, 1), (fast, fast_times, 20)):
            for _ in range(rounds * turns):
                for task in tasks:
                    env.set_task(task)
                    start = time.perf_counter()
                    env.reset()
                    times.append((time.perf_counter() - start) * 1e6)
    stock_us, fast_us = median(stock_times), median(fast_times)
    return stock_us / fast_us, stock_us, fast_us


def vector_player(envs: Any) -> Callable[[], int]:
    """A whole 500-step episode of every environment, with the reset at its end."""
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (50, envs.num_envs, 4)).astype(np.float32)

    def play() -> int:
        for t in range(EPISODE):
            envs.step(actions[t % 50])
        return EPISODE * envs.num_envs

    return play


def make_pools(num_envs: int, num_threads: int) -> list[Any]:
    """A pool of EnvPool for each class of MT10, because a pool has one class; none without it."""
    try:
        import envpool
    except ImportError:
        return []
    known = {n.split("/")[1].lower(): n for n in envpool.list_all_envs() if "MetaWorld/" in n}
    pools = [
        envpool.make(
            known[_envpool_name(name, known)],
            env_type="gymnasium",
            num_envs=num_envs,
            num_threads=num_threads,
            seed=0,
        )
        for name in MT10
    ]
    for pool in pools:
        pool.reset()
    return pools


def draw_actions(num_envs: int) -> Any:
    """Random actions of 50 steps, ``(50, num_envs, 4)`` float32."""
    return np.random.default_rng(0).uniform(-1, 1, (50, num_envs, 4)).astype(np.float32)


def envpool_players() -> dict[str, Callable[[], int]]:
    """EnvPool on the same job, and in its best case, each with random actions.

    The same job is one environment of each class, all of them stepped in every step: ten pools with
    a thread each, which are all given their actions before the first result is awaited. The best
    case is many environments of one class on two threads, class by class.
    """
    single_pools = make_pools(num_envs=1, num_threads=1)
    class_pools = make_pools(num_envs=BEST_CASE_ENVS, num_threads=2)
    if not single_pools:
        return {}
    single_actions, class_actions = draw_actions(len(single_pools)), draw_actions(BEST_CASE_ENVS)
    indices = np.zeros(1, np.int32)

    def play_same_job() -> int:
        for t in range(EPISODE):
            for k, pool in enumerate(single_pools):
                pool.send(single_actions[t % 50, k : k + 1], indices)
            for pool in single_pools:
                pool.recv()
        return EPISODE * len(single_pools)

    def play_best_case() -> int:
        steps = EPISODE // 5
        for pool in class_pools:
            for t in range(steps):
                pool.step(class_actions[t % 50])
        return steps * BEST_CASE_ENVS * len(class_pools)

    return {ENVPOOL_SAME_JOB: play_same_job, ENVPOOL_BEST_CASE: play_best_case}


def _envpool_name(name: str, known: dict[str, str]) -> str:
    plain = name.replace("-", "").removesuffix("v3") + "-v3"
    aliases = {"dooropen-v3": "door-v3", "peginsertside-v3": "peginsertionside-v3"}
    return plain if plain in known else aliases.get(plain, plain)


def physics_player() -> Callable[[], int]:
    """The physics of MT10's steps alone, on two threads: 5 `mj_step` and 1 `mj_forward` each."""
    sims = []
    for name in MT10:
        env = ALL[name]()
        env.set_task(make_benchmark("MT1", env_name=name, num_goals=1).train_tasks[0])
        env.reset()
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        start = np.empty(mujoco.mj_stateSize(env.model, kind))
        mujoco.mj_getState(env.model, env.data, start, kind)
        sims.append((env, start))
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (50, 10, 4)).astype(np.float32)
    kind = mujoco.mjtState.mjSTATE_INTEGRATION

    def run(part: range) -> None:
        for k in part:
            env, start = sims[k]
            model, data = env.model, env.data
            mujoco.mj_setState(model, data, start, kind)
            pos, low, high = data.mocap_pos, env.mocap_low, env.mocap_high
            for t in range(EPISODE):
                action = actions[t % 50][k]
                pos[0] = np.minimum(np.maximum(pos[0] + action[:3] * 0.01, low), high)
                data.ctrl[:] = (action[3], -action[3])
                mujoco.mj_step(model, data, nstep=5)
                mujoco.mj_forward(model, data)

    def play() -> int:
        threads = [threading.Thread(target=run, args=(range(k, 10, 2),)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return EPISODE * 10

    return play


def first_observation(code: str, rounds: int) -> float:
    """Median seconds from a fresh interpreter's imports to the first observation of ``code``."""
    timed = (
        "import time, warnings; warnings.simplefilter('ignore')\n"
        "import gymnasium, metaworld, mtwrappers\n"
        f"start = time.perf_counter()\nenvs = {code}\nenvs.reset(seed=0)\n"
        "print('seconds', time.perf_counter() - start)\nenvs.close()"
    )
    found = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", timed], capture_output=True, text=True, check=True
        )
        line = next(x for x in done.stdout.splitlines() if x.startswith("seconds"))
        found.append(float(line.split()[1]))
    return median(found)


def starts(name: str, rounds: int) -> dict[str, float]:
    """Seconds to the first observation, Meta-World's and ours."""
    theirs = f"gymnasium.make_vec('Meta-World/{name}', vector_strategy='sync', seed=0)"
    ours = f"gymnasium.make_vec('mtwrappers/{name}-v0', workers=2)"
    return {
        "Meta-World sync": first_observation(theirs, max(1, rounds // 2)),
        "mtwrappers": first_observation(ours, rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no MT50")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    rounds = 3 if quick else 5
    rows = []

    times = step_times(MT10 if quick else list(ALL), 200 if quick else 400, rounds)
    mt10 = {name: times[name] for name in MT10}
    rows.append(target_row("one environment, mean over MT10's classes / stock", speedup(mt10), 2.2))
    if not quick:
        rows.append(target_row("one environment, mean over all 50 / stock", speedup(times), 2.0))

    theirs = partial(gymnasium.make_vec, "Meta-World/MT10", seed=0, use_one_hot=True)
    ours = gymnasium.make_vec("mtwrappers/MT10-v0", workers=2)
    # Each task is reset to once, so that what follows is the rate of training.
    for task in range(50):
        ours.set_tasks([50 * c + task for c in range(10)])
        ours.reset()
    envs = {
        "Meta-World sync": theirs(vector_strategy="sync"),
        "Meta-World async": theirs(vector_strategy="async"),
        "mtwrappers, 2 workers": ours,
    }
    players = {name: vector_player(env) for name, env in envs.items()}
    players |= envpool_players()
    players["physics alone, 2 threads"] = physics_player()
    found = rates(players, rounds)
    for env in envs.values():
        env.close()
    fast = "mtwrappers, 2 workers"
    rows.append(
        target_row("MT10, 2 workers / Meta-World sync", ratio(found, fast, "Meta-World sync"), 5.5)
    )
    rows.append(
        target_row(
            "MT10, 2 workers / Meta-World async", ratio(found, fast, "Meta-World async"), 5.5
        )
    )
    for program, target in ((ENVPOOL_SAME_JOB, 1.0), (ENVPOOL_BEST_CASE, 0.6)):
        if program in found:
            speedup_over_pools = ratio(found, fast, program)
            rows.append(target_row(f"MT10, 2 workers / {program}", speedup_over_pools, target))
    rows.append(
        target_row(
            "MT10, 2 workers / physics alone", ratio(found, fast, "physics alone, 2 threads"), 0.55
        )
    )

    resets, stock_us, fast_us = reset_ratio(MT10, rounds)
    rows.append(target_row("reset to a known task / stock", resets, 40))
    start_times = {}
    for name, target in (("MT10", 3),) if quick else (("MT10", 3), ("MT50", 5)):
        seconds = start_times[name] = starts(name, rounds)
        speedup_of_start = seconds["Meta-World sync"] / seconds["mtwrappers"]
        rows.append(
            target_row(f"{name} to first observation / Meta-World", speedup_of_start, target)
        )
    groups = {"MT10, whole episodes with resets": {k: median(v) for k, v in found.items()}}
    save(
        "metaworld",
        {
            "step_us": times,
            "rates": found,
            "reset_us": [stock_us, fast_us],
            "starts": start_times,
            "targets": rows,
        },
    )
    bar_plot(
        HERE / "metaworld.png",
        f"Environment steps per second on {cpu_name()}, 2 cores",
        groups,
        "steps/s",
    )
    print(machine()["cpu"], machine()["cores"], "cores")
    for name, (stock, ours_us) in sorted(mt10.items(), key=lambda item: item[1][0] / item[1][1]):
        print(f"{name:28} {stock:6.0f} -> {ours_us:4.0f} us  {stock / ours_us:.2f}x")
    print(
        {k: f"{median(v):,.0f}" for k, v in found.items()},
        f"reset {stock_us:.0f} -> {fast_us:.0f} us",
    )
    print(start_times)
    print(table(rows))


def speedup(times: dict[str, tuple[float, float]]) -> float:
    """The ratio of the mean step times."""
    return mean(stock for stock, _ in times.values()) / mean(fast for _, fast in times.values())


if __name__ == "__main__":
    main()
