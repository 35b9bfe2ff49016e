"""A learner that proves the data: first-order MAML on point goals, in NumPy.

    python -m benchmarks.meta_learning [--iterations 60] [--seeds 3]

A linear-Gaussian policy learns an initialisation from which one policy-gradient step on a task's
own paths finds the hidden goal (Finn et al. 2017, arXiv:1703.03400, first order). Everything comes
through `MetaSampler` and `MetaSampleProcessor`: paths, returns, baselines and advantages. Prints
returns before and after the step, writes ``results/meta_learning.json`` and ``meta_learning.png``.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mtwrappers import LinearTimeBaseline, MetaSampleProcessor, MetaSampler, PointGoalEnv

HERE = Path(__file__).parent
TASKS, PATHS, STEPS = 20, 20, 30
STD = 0.05
INNER, OUTER = 0.02, 0.02

Floats = NDArray[np.float64]


class LinearGaussian:
    """``a = w [x, y, 1] + noise``, with weights of its own for each task, ``(M, 2, 3)``."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights = np.zeros((TASKS, 2, 3))

    def get_actions(self, observations: Floats) -> tuple[Floats, dict[str, Floats]]:
        mean = np.einsum("mij,mkj->mki", self.weights, with_one(observations))
        return mean + STD * self.rng.normal(size=mean.shape), {"mean": mean}


def with_one(observations: Floats) -> Floats:
    """Observations with a constant, ``(..., 3)``."""
    return np.concatenate([observations, np.ones((*observations.shape[:-1], 1))], axis=-1)


def policy_gradient(data: dict[str, Any]) -> Floats:
    """The gradient of the expected return by a policy's weights, ``(2, 3)``, from one task."""
    score = (data["actions"] - data["agent_infos"]["mean"]) / STD**2
    weighted = score * data["advantages"][:, None]
    gradient: Floats = weighted.T @ with_one(data["observations"]) / len(weighted)
    return gradient


def learn(seed: int, iterations: int) -> tuple[list[float], list[float]]:
    """Mean returns before and after the adaptation step, an iteration each."""
    policy = LinearGaussian(seed)
    sampler = MetaSampler(PointGoalEnv(), policy, PATHS, TASKS, STEPS, seed=seed)
    processor = MetaSampleProcessor(LinearTimeBaseline(), discount=0.99, normalize_adv=True)
    meta = np.zeros((2, 3))
    moment, square = np.zeros_like(meta), np.zeros_like(meta)
    before, after = [], []
    for iteration in range(1, iterations + 1):
        sampler.update_tasks()
        policy.weights[:] = meta
        first = sampler.obtain_samples()
        adapted = [meta + INNER * policy_gradient(d) for d in processor.process_samples(first)]
        policy.weights[:] = adapted
        second = sampler.obtain_samples()
        gradients = [policy_gradient(d) for d in processor.process_samples(second)]
        # Adam (Kingma & Ba 2015, arXiv:1412.6980) on the mean of the adapted gradients.
        gradient = np.mean(gradients, axis=0)
        moment = 0.9 * moment + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        step = moment / (1 - 0.9**iteration)
        meta = meta + OUTER * step / (np.sqrt(square / (1 - 0.999**iteration)) + 1e-8)
        before.append(mean_return(first))
        after.append(mean_return(second))
    sampler.close()
    return before, after


def mean_return(paths: dict[int, list[dict[str, Any]]]) -> float:
    return float(np.mean([path["rewards"].sum() for own in paths.values() for path in own]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    start = time.perf_counter()
    curves = [learn(seed, args.iterations) for seed in range(args.seeds)]
    seconds = time.perf_counter() - start
    figure = Figure(figsize=(7, 3.6), layout="constrained", dpi=120)
    axes = figure.subplots()
    for k, (label, color) in enumerate(
        (("before adaptation", "#9cc3e6"), ("after one gradient step", "#2a6fb0"))
    ):
        values = np.array([curve[k] for curve in curves])
        x = np.arange(1, values.shape[1] + 1)
        axes.plot(x, values.mean(axis=0), color=color, label=label)
        axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=color, alpha=0.25)
    axes.set_xlabel("meta-iteration")
    axes.set_ylabel("mean return")
    axes.set_title(
        f"First-order MAML on hidden goals on a circle, {args.seeds} seeds (range shaded)",
        fontsize=10,
        loc="left",
    )
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "meta_learning.png")
    (HERE / "results").mkdir(exist_ok=True)
    text = json.dumps({"curves": curves, "seconds": seconds}, indent=2)
    (HERE / "results" / "meta_learning.json").write_text(text + "\n")
    for seed, (before, after) in enumerate(curves):
        first, last = np.mean(after[:5]), np.mean(after[-5:])
        print(
            f"seed {seed}: after the step {first:.1f} at the start, {last:.1f} at the end; "
            f"before it {np.mean(before[-5:]):.1f} at the end"
        )
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    main()
