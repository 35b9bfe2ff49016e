"""Counts the functions, files and calls of this package that a call of its API goes through.

    python -m benchmarks.distances [--functions]

The calls of this process are counted with `sys.setprofile`. Each call of the API is made once
before it is counted, so that what is done only once is left out. A comprehension or a lambda counts
as the function around it. ``--functions`` lists the functions, each with its number of calls. Where
the parent waits for workers, this number varies from run to run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium

import mtwrappers

PACKAGE = os.path.dirname(mtwrappers.__file__) + os.sep


def count_functions(call: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """Counts the calls of each function of the package, by file and name, in the second call."""
    counts: Counter[tuple[str, str]] = Counter()

    def profile(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            name = code.co_qualname.partition(".<locals>.<")[0]
            if not name.startswith("<"):  # the code of a module
                counts[code.co_filename[len(PACKAGE) :], name] += 1

    call()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts


def count_all() -> dict[str, Counter[tuple[str, str]]]:
    """Counts the functions of each of the usual calls of the API."""
    counts = {}
    executors: list[gymnasium.vector.VectorEnv[Any, Any, Any]] = []

    def make() -> None:
        executors.append(gymnasium.make_vec("mtwrappers/MT10-v0", workers=2))

    counts["make_vec, 2 workers"] = count_functions(make)
    for envs in executors:
        envs.close()
    with closing(gymnasium.make_vec("mtwrappers/MT10-v0", workers=2)) as envs:
        reset = partial(envs.reset, seed=3)
        reset()
        action = envs.action_space.sample()
        envs.step(action)
        counts["step, 2 workers"] = count_functions(partial(envs.step, action))
        counts["reset, 2 workers"] = count_functions(reset)
    env = gymnasium.make("mtwrappers/MT10-v0")
    env.reset(seed=3)
    counts["make(...), step"] = count_functions(partial(env.step, env.action_space.sample()))
    counts["make(...), reset(seed=3)"] = count_functions(partial(env.reset, seed=3))
    env.close()
    sampler = mtwrappers.MetaSampler(mtwrappers.PointGoalEnv(), lambda obs: -obs, 2, 3, 20)
    sampler.update_tasks()
    paths = sampler.obtain_samples()
    counts["MetaSampler.obtain_samples"] = count_functions(sampler.obtain_samples)
    processor = mtwrappers.MetaSampleProcessor(mtwrappers.LinearFeatureBaseline())
    counts["MetaSampleProcessor.process_samples"] = count_functions(
        partial(processor.process_samples, paths)
    )
    sampler.close()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--functions", action="store_true", help="list them")
    list_functions = parser.parse_args().functions
    rows = []
    for call, counts in count_all().items():
        files = {file for file, _ in counts}
        rows.append([call, len(counts), len(files), counts.total()])
        if list_functions:
            print(f"\n{call}")
            for (file, name), num_calls in counts.items():
                print(f"  {file}: {name} ({num_calls})")
    for row in rows:
        print("{:<40} {:>4} functions {:>4} files {:>6} calls".format(*row))


if __name__ == "__main__":
    main()
