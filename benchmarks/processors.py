"""Processors and samplers against straightforward code, and GAE against other libraries.

    python -m benchmarks.processors [--quick]

The reference of the processors is what one would write: a path at a time, with SciPy's
``lfilter``, features computed for the fit and again for the prediction, and concatenation at the
end. `benchmarks.gae` compares GAE with Stable-Baselines3, TorchRL and Tianshou where they are
installed, and `benchmarks.sampling` says what the sampler is compared with. Prints a table and
writes ``results/processors.json``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from scipy.signal import lfilter

from benchmarks.common import machine, save, table, target_row
from benchmarks.gae import DISCOUNT, LAMBDA, gae_calls
from benchmarks.sampling import list_calls, metaworld_calls
from mtwrappers import DiceMetaSampleProcessor, LinearFeatureBaseline, MetaSampleProcessor


def make_paths(tasks: int, paths: int, steps: int, size: int = 39) -> dict[int, list[Any]]:
    rng = np.random.default_rng(0)
    return {
        task: [
            {
                "observations": rng.normal(size=(steps, size)),
                "actions": rng.normal(size=(steps, 4)),
                "rewards": rng.normal(size=steps),
                "env_infos": {"success": rng.normal(size=steps)},
                "agent_infos": {"mean": rng.normal(size=(steps, 4))},
            }
            for _ in range(paths)
        ]
        for task in range(tasks)
    }


def sums(values: Any, discount: float) -> Any:
    return lfilter([1], [1, -discount], values[::-1])[::-1]


def features(path: Any) -> Any:
    obs = np.clip(path["observations"], -10, 10)
    t = np.arange(len(obs)).reshape(-1, 1) / 100.0
    return np.concatenate([obs, obs**2, t, t**2, t**3, np.ones((len(obs), 1))], axis=1)


def fit(paths: Any, key: str) -> Any:
    x = np.concatenate([features(path) for path in paths])
    y = np.concatenate([path[key] for path in paths])
    return np.linalg.lstsq(x.T @ x + 1e-5 * np.eye(x.shape[1]), x.T @ y, rcond=None)[0]


def join(paths: Any) -> dict[str, Any]:
    data = {
        k: np.concatenate([p[k] for p in paths]) for k in ("observations", "actions", "rewards")
    }
    for key in ("env_infos", "agent_infos"):
        data[key] = {k: np.concatenate([p[key][k] for p in paths]) for k in paths[0][key]}
    return data


def reference(batch: dict[int, list[Any]]) -> list[Any]:
    """What `MetaSampleProcessor` does, a path at a time."""
    made = []
    for original in batch.values():
        paths = [dict(path) for path in original]
        for path in paths:
            path["returns"] = sums(path["rewards"], DISCOUNT)
        coefficients = fit(paths, "returns")
        for path in paths:
            values = np.append(features(path) @ coefficients, 0)
            deltas = path["rewards"] + DISCOUNT * values[1:] - values[:-1]
            path["advantages"] = sums(deltas, DISCOUNT * LAMBDA)
        data = join(paths)
        data["returns"] = np.concatenate([path["returns"] for path in paths])
        advantages = np.concatenate([path["advantages"] for path in paths])
        data["advantages"] = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        made.append(data)
    rewards = np.concatenate([data["rewards"] for data in made])
    for data in made:
        data["adj_avg_rewards"] = (data["rewards"] - rewards.mean()) / (rewards.std() + 1e-8)
    return made


def pad(array: Any, length: int) -> Any:
    return np.pad(array, [(0, length - len(array)), *[(0, 0)] * (array.ndim - 1)])


def dice_reference(batch: dict[int, list[Any]], length: int) -> list[Any]:
    """What `DiceMetaSampleProcessor` does, a path at a time."""
    made = []
    for original in batch.values():
        paths = [dict(path) for path in original]
        for path in paths:
            path["returns"] = sums(path["rewards"], DISCOUNT)
            path["discounted"] = path["rewards"] * DISCOUNT ** np.arange(len(path["rewards"]))
        coefficients = fit(paths, "discounted")
        for path in paths:
            path["adjusted_rewards"] = path["discounted"] - features(path) @ coefficients
            path["mask"] = np.ones(len(path["rewards"]))
        keys = ("mask", "observations", "actions", "rewards", "returns", "adjusted_rewards")
        data = {k: np.stack([pad(path[k], length) for path in paths]) for k in keys}
        for key in ("env_infos", "agent_infos"):
            data[key] = {
                k: np.stack([pad(path[key][k], length) for path in paths]) for k in paths[0][key]
            }
        made.append(data)
    return made


def side_by_side(
    calls: dict[str, Callable[[], Any]], rounds: int, again: bool = False
) -> dict[str, float]:
    """Median seconds of each call; they take turns.

    With ``again``, each timed call follows an untimed one, so that none pays for the memory that
    another gave back to the system.
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            if again:
                call()
            start = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - start)
    return {name: median(times) for name, times in found.items()}


def timed(make: Callable[[], tuple[Any, Callable[[], None]]], rounds: int) -> dict[str, float]:
    """Median seconds of what ``make`` makes, closed at the end."""
    calls, close = make()
    try:
        return side_by_side(calls, rounds)
    finally:
        close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 9
    warnings.simplefilter("ignore")
    rows, results = [], {}
    for name, (tasks, paths, steps), flat_least, dice_least in (
        ("20 x 10 x 500", (20, 10, 500), 1.0, 1.0),
        ("20 x 2000 x 5", (20, 2000, 5), 4.0, 4.0),
    ):
        batch = make_paths(tasks, paths, steps)
        flat = MetaSampleProcessor(LinearFeatureBaseline(), DISCOUNT, LAMBDA, normalize_adv=True)
        dice = DiceMetaSampleProcessor(LinearFeatureBaseline(), steps, DISCOUNT)
        seconds = side_by_side(
            {
                "reference": partial(reference, batch),
                "flat": partial(flat.process_samples, batch),
                "dice reference": partial(dice_reference, batch, steps),
                "dice": partial(dice.process_samples, batch),
            },
            rounds,
        )
        results[name] = seconds
        rows.append(
            target_row(
                f"MetaSampleProcessor, {name}", seconds["reference"] / seconds["flat"], flat_least
            )
        )
        rows.append(
            target_row(
                f"DiceMetaSampleProcessor, {name}",
                seconds["dice reference"] / seconds["dice"],
                dice_least,
            )
        )
    results["GAE of 1M steps"] = side_by_side(gae_calls(), rounds, again=True)
    results["MT10"] = seconds = timed(metaworld_calls, rounds)
    share = seconds["bare executor"] / seconds["MetaSampler"]
    rows.append(target_row("MetaSampler / bare executor, MT10", share, 0.95))
    results["null environment"] = seconds = timed(list_calls, rounds)
    for loop in ("ProMP's loop", "least loop"):
        gain = seconds[loop] / seconds["MetaSampler"]
        rows.append(target_row(f"MetaSampler / {loop} of lists, null environment", gain, 5.0))
    save("processors", {"seconds": results, "targets": rows})
    print(machine()["cpu"], machine()["cores"], "cores")
    for name, own in results.items():
        print(name, {k: f"{s * 1e3:.1f} ms" for k, s in own.items()})
    print(table(rows))


if __name__ == "__main__":
    main()
