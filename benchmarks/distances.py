"""How far a reader goes: the functions, files and calls of this package behind one steady call.

    python -m benchmarks.distances [--functions]

Counted in this process with `sys.setprofile`, in the second of two equal calls after a first one.
A comprehension or an unnamed function belongs to the function that it stands in.
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
    """The functions of the package that a call goes through, in order, and how often."""
    counts: Counter[tuple[str, str]] = Counter()

    def profile(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            named = code.co_qualname.partition(".<locals>.<")[0]
            if not named.startswith("<"):  # a module
                counts[code.co_filename[len(PACKAGE) :], named] += 1

    call()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts


def measured() -> dict[str, Counter[tuple[str, str]]]:
    """What each of the usual calls goes through."""
    counts = {}

    def make() -> None:
        made.append(gymnasium.make_vec("mtwrappers/MT10-v0", workers=2))

    made: list[gymnasium.vector.VectorEnv[Any, Any, Any]] = []
    counts["make_vec, 2 workers"] = count_functions(make)
    for envs in made:
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
    listed = parser.parse_args().functions
    rows = []
    for what, functions in measured().items():
        files = {file for file, _ in functions}
        rows.append([what, len(functions), len(files), functions.total()])
        if listed:
            print(f"\n{what}")
            for (file, name), calls in functions.items():
                print(f"  {file}: {name} ({calls})")
    for row in rows:
        print("{:<40} {:>4} functions {:>4} files {:>6} calls".format(*row))


if __name__ == "__main__":
    main()
