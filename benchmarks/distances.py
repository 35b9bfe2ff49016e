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


def functions_of(call: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """The functions of the package that a call goes through, in order, and how often."""
    found: Counter[tuple[str, str]] = Counter()

    def profile(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            named = code.co_qualname.partition(".<locals>.<")[0]
            if not named.startswith("<"):  # a module
                found[code.co_filename[len(PACKAGE) :], named] += 1

    call()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def measured() -> dict[str, Counter[tuple[str, str]]]:
    """What each of the usual calls goes through."""
    found = {}

    def make() -> None:
        made.append(gymnasium.make_vec("mtwrappers/MT10-v0", workers=2))

    made: list[gymnasium.vector.VectorEnv[Any, Any, Any]] = []
    found["make_vec, 2 workers"] = functions_of(make)
    for envs in made:
        envs.close()
    with closing(gymnasium.make_vec("mtwrappers/MT10-v0", workers=2)) as envs:
        reset = partial(envs.reset, seed=3)
        reset()
        action = envs.action_space.sample()
        envs.step(action)
        found["step, 2 workers"] = functions_of(partial(envs.step, action))
        found["reset, 2 workers"] = functions_of(reset)
    env = gymnasium.make("mtwrappers/MT10-v0")
    env.reset(seed=3)
    found["make(...), step"] = functions_of(partial(env.step, env.action_space.sample()))
    found["make(...), reset(seed=3)"] = functions_of(partial(env.reset, seed=3))
    env.close()
    sampler = mtwrappers.MetaSampler(mtwrappers.PointGoalEnv(), lambda obs: -obs, 2, 3, 20)
    sampler.update_tasks()
    paths = sampler.obtain_samples()
    found["MetaSampler.obtain_samples"] = functions_of(sampler.obtain_samples)
    processor = mtwrappers.MetaSampleProcessor(mtwrappers.LinearFeatureBaseline())
    found["MetaSampleProcessor.process_samples"] = functions_of(
        partial(processor.process_samples, paths)
    )
    sampler.close()
    return found


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
