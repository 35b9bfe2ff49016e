"""Compares the fast classes with stock Meta-World, EnvPool and the physics alone, in one run.

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
    measure_rates,
    median_ratio,
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


def measure_step_times(
    names: Sequence[str], steps: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """Median microseconds of a step of the stock class and of the fast class, without resets."""
    medians = {}
    for name in names:
        task = make_benchmark("MT1", env_name=name, num_goals=1).train_tasks[0]
        envs = [ALL[name](), fast_class(name)()]
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1, 1, (steps, 4)).astype(np.float32)
        stock_times: list[float] = []
        fast_times: list[float] = []
        for env in envs:
            env.set_task(task)
        for _ in range(rounds):
            for env, times in zip(envs, (stock_times, fast_times), strict=True):
                env.reset()
                start = time.perf_counter()
                for action in actions:
                    env.step(action)
                times.append((time.perf_counter() - start) / steps * 1e6)
        medians[name] = (median(stock_times), median(fast_times))
    return medians


def measure_reset_times(names: Sequence[str], rounds: int) -> tuple[float, float]:
    """Median microseconds of a reset to a task that was reset to before: stock and fast classes."""
    stock_times, fast_times = [], []
    for name in names:
        tasks = make_benchmark("MT1", env_name=name, num_goals=5).train_tasks
        stock, fast = ALL[name](), fast_class(name)()
        for task in tasks:
            fast.set_task(task)
            fast.reset()
        for env, times, repeats in ((stock, stock_times, 1), (fast, fast_times, 20)):
            for _ in range(rounds * repeats):
                for task in tasks:
                    env.set_task(task)
                    start = time.perf_counter()
                    env.reset()
                    times.append((time.perf_counter() - start) * 1e6)
    return median(stock_times), median(fast_times)


def make_vector_workload(envs: Any) -> Callable[[], int]:
    """A workload of a whole episode of every environment, with the reset at its end."""
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (50, envs.num_envs, 4)).astype(np.float32)

    def run() -> int:
        for t in range(EPISODE):
            envs.step(actions[t % 50])
        return EPISODE * envs.num_envs

    return run


def make_pools(num_envs: int, num_threads: int) -> list[Any]:
    """Makes a pool of EnvPool for each class of MT10, as a pool has one class.

    The list is empty if EnvPool is not installed.
    """
    try:
        import envpool
    except ImportError:
        return []
    ids = {id.split("/")[1].lower(): id for id in envpool.list_all_envs() if "MetaWorld/" in id}
    pools = [
        envpool.make(
            find_envpool_id(name, ids),
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
    """Draws random actions of 50 steps, ``(50, num_envs, 4)`` float32."""
    return np.random.default_rng(0).uniform(-1, 1, (50, num_envs, 4)).astype(np.float32)


def make_envpool_workloads() -> dict[str, Callable[[], int]]:
    """Workloads of EnvPool with random actions: the same job, and its best case.

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

    def run_same_job() -> int:
        for t in range(EPISODE):
            for k, pool in enumerate(single_pools):
                pool.send(single_actions[t % 50, k : k + 1], indices)
            for pool in single_pools:
                pool.recv()
        return EPISODE * len(single_pools)

    def run_best_case() -> int:
        steps = EPISODE // 5
        for pool in class_pools:
            for t in range(steps):
                pool.step(class_actions[t % 50])
        return steps * BEST_CASE_ENVS * len(class_pools)

    return {ENVPOOL_SAME_JOB: run_same_job, ENVPOOL_BEST_CASE: run_best_case}


def find_envpool_id(name: str, ids: dict[str, str]) -> str:
    """The id of a class in EnvPool, of its ids by their names in lower case."""
    key = name.replace("-", "").removesuffix("v3") + "-v3"
    aliases = {"dooropen-v3": "door-v3", "peginsertside-v3": "peginsertionside-v3"}
    return ids[key if key in ids else aliases.get(key, key)]


def make_physics_workload() -> Callable[[], int]:
    """A workload of MT10's physics alone on 2 threads: 5 `mj_step` and 1 `mj_forward` a step."""
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    simulations = []
    for name in MT10:
        env = ALL[name]()
        env.set_task(make_benchmark("MT1", env_name=name, num_goals=1).train_tasks[0])
        env.reset()
        state = np.empty(mujoco.mj_stateSize(env.model, kind))
        mujoco.mj_getState(env.model, env.data, state, kind)
        simulations.append((env, state))
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (50, 10, 4)).astype(np.float32)

    def run_episodes(indices: range) -> None:
        for k in indices:
            env, state = simulations[k]
            model, data = env.model, env.data
            mujoco.mj_setState(model, data, state, kind)
            pos, low, high = data.mocap_pos, env.mocap_low, env.mocap_high
            for t in range(EPISODE):
                action = actions[t % 50][k]
                pos[0] = np.minimum(np.maximum(pos[0] + action[:3] * 0.01, low), high)
                data.ctrl[:] = (action[3], -action[3])
                mujoco.mj_step(model, data, nstep=5)
                mujoco.mj_forward(model, data)

    def run() -> int:
        threads = [threading.Thread(target=run_episodes, args=(range(k, 10, 2),)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return EPISODE * 10

    return run


def measure_first_observation(code: str, rounds: int) -> float:
    """Median seconds to the first observation of ``code``, in a new interpreter after imports."""
    program = (
        "import time, warnings; warnings.simplefilter('ignore')\n"
        "import gymnasium, metaworld, mtwrappers\n"
        f"start = time.perf_counter()\nenvs = {code}\nenvs.reset(seed=0)\n"
        "print('seconds', time.perf_counter() - start)\nenvs.close()"
    )
    seconds = []
    for _ in range(rounds):
        process = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        [line] = [line for line in process.stdout.splitlines() if line.startswith("seconds ")]
        seconds.append(float(line.split()[1]))
    return median(seconds)


def measure_starts(name: str, rounds: int) -> dict[str, float]:
    """Median seconds to the first observation of a benchmark, Meta-World's and ours."""
    theirs = f"gymnasium.make_vec('Meta-World/{name}', vector_strategy='sync', seed=0)"
    ours = f"gymnasium.make_vec('mtwrappers/{name}-v0', workers=2)"
    return {
        "Meta-World sync": measure_first_observation(theirs, max(1, rounds // 2)),
        "mtwrappers": measure_first_observation(ours, rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no MT50")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    rounds = 3 if quick else 5
    rows = []

    times = measure_step_times(MT10 if quick else list(ALL), 200 if quick else 400, rounds)
    mt10 = {name: times[name] for name in MT10}
    rows.append(target_row("one environment, mean over MT10's classes / stock", speedup(mt10), 2.2))
    if not quick:
        rows.append(target_row("one environment, mean over all 50 / stock", speedup(times), 2.0))

    theirs = partial(gymnasium.make_vec, "Meta-World/MT10", seed=0, use_one_hot=True)
    ours = gymnasium.make_vec("mtwrappers/MT10-v0", workers=2)
    # Each task is reset to once: the first reset is slower, and training is made of later ones.
    for task in range(50):
        ours.set_tasks([50 * c + task for c in range(10)])
        ours.reset()
    envs = {
        "Meta-World sync": theirs(vector_strategy="sync"),
        "Meta-World async": theirs(vector_strategy="async"),
        "mtwrappers, 2 workers": ours,
    }
    workloads = {name: make_vector_workload(env) for name, env in envs.items()}
    workloads |= make_envpool_workloads()
    workloads["physics alone, 2 threads"] = make_physics_workload()
    rates = measure_rates(workloads, rounds)
    for env in envs.values():
        env.close()
    fast = "mtwrappers, 2 workers"
    rows.append(
        target_row(
            "MT10, 2 workers / Meta-World sync", median_ratio(rates, fast, "Meta-World sync"), 5.5
        )
    )
    rows.append(
        target_row(
            "MT10, 2 workers / Meta-World async", median_ratio(rates, fast, "Meta-World async"), 5.5
        )
    )
    for program, target in ((ENVPOOL_SAME_JOB, 1.0), (ENVPOOL_BEST_CASE, 0.6)):
        if program in rates:
            speedup_over_pools = median_ratio(rates, fast, program)
            rows.append(target_row(f"MT10, 2 workers / {program}", speedup_over_pools, target))
    rows.append(
        target_row(
            "MT10, 2 workers / physics alone",
            median_ratio(rates, fast, "physics alone, 2 threads"),
            0.55,
        )
    )

    stock_us, fast_us = measure_reset_times(MT10, rounds)
    rows.append(target_row("reset to a known task / stock", stock_us / fast_us, 40))
    start_times = {}
    for name, target in (("MT10", 3),) if quick else (("MT10", 3), ("MT50", 5)):
        seconds = start_times[name] = measure_starts(name, rounds)
        speedup_of_start = seconds["Meta-World sync"] / seconds["mtwrappers"]
        rows.append(
            target_row(f"{name} to first observation / Meta-World", speedup_of_start, target)
        )
    medians = {name: median(values) for name, values in rates.items()}
    save(
        "metaworld",
        {
            "step_us": times,
            "rates": rates,
            "reset_us": [stock_us, fast_us],
            "starts": start_times,
            "targets": rows,
        },
    )
    bar_plot(
        HERE / "metaworld.png",
        f"Environment steps per second on {cpu_name()}, 2 cores",
        {"MT10, whole episodes with resets": medians},
        "steps/s",
    )
    print(machine()["cpu"], machine()["cores"], "cores")
    for name, (stock, ours_us) in sorted(mt10.items(), key=lambda item: item[1][0] / item[1][1]):
        print(f"{name:28} {stock:6.0f} -> {ours_us:4.0f} us  {stock / ours_us:.2f}x")
    print(
        {name: f"{rate:,.0f}" for name, rate in medians.items()},
        f"reset {stock_us:.0f} -> {fast_us:.0f} us",
    )
    print(start_times)
    print(table(rows))


def speedup(times: dict[str, tuple[float, float]]) -> float:
    """The ratio of the mean step times: stock classes over fast classes."""
    return mean(stock for stock, _ in times.values()) / mean(fast for _, fast in times.values())


if __name__ == "__main__":
    main()
