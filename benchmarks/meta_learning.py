"""Trains first-order MAML on point goals in NumPy, which shows that the samples are right.

    python -m benchmarks.meta_learning [--iterations 60] [--seeds 3] [--resume]

A linear-Gaussian policy learns an initialisation from which one policy-gradient step on the paths
of a task finds its hidden goal (Finn et al. 2017, arXiv:1703.03400, first order). Paths are from
`MetaSampler`; returns, baselines and advantages from `MetaSampleProcessor`. Prints mean returns
before and after the step, and writes ``results/meta_learning.json`` and ``meta_learning.png``. A
checkpoint is written after every iteration. With ``--resume``, a run that was killed continues from
it, and writes the same files as a run without interruption, bit for bit.
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

from mtwrappers import (
    LinearTimeBaseline,
    MetaSampleProcessor,
    MetaSampler,
    PointGoalEnv,
    load_checkpoint,
    save_checkpoint,
)

HERE = Path(__file__).parent
TASKS, PATHS, STEPS = 20, 20, 30
STD = 0.05
INNER, OUTER = 0.02, 0.02

Floats = NDArray[np.float64]


class LinearGaussian:
    """``a = w [x, y, 1] + noise``, with weights ``(M, 2, 3)``, those of each task."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights = np.zeros((TASKS, 2, 3))

    def get_actions(self, observations: Floats) -> tuple[Floats, dict[str, Floats]]:
        mean = np.einsum("mij,mkj->mki", self.weights, append_one(observations))
        return mean + STD * self.rng.normal(size=mean.shape), {"mean": mean}


def append_one(observations: Floats) -> Floats:
    """Appends the constant 1 to observations, ``(..., 3)``."""
    return np.concatenate([observations, np.ones((*observations.shape[:-1], 1))], axis=-1)


def compute_policy_gradient(data: dict[str, Any]) -> Floats:
    """The gradient of a task's expected return by the policy's weights, ``(2, 3)``."""
    score = (data["actions"] - data["agent_infos"]["mean"]) / STD**2
    weighted = score * data["advantages"][:, None]
    gradient: Floats = weighted.T @ append_one(data["observations"]) / len(weighted)
    return gradient


class Learner:
    """First-order MAML on `TASKS` goals at a time.

    Args:
        seed: Of the tasks, the environments and the policy's noise.
    """

    def __init__(self, seed: int) -> None:
        self.policy = LinearGaussian(seed)
        self.sampler = MetaSampler(PointGoalEnv(), self.policy, PATHS, TASKS, STEPS, seed=seed)
        self.baseline = LinearTimeBaseline()
        self.processor = MetaSampleProcessor(self.baseline, discount=0.99, normalize_adv=True)
        zeros = np.zeros((2, 3))
        self.weights: dict[str, Floats] = {"meta": zeros, "moment": zeros, "square": zeros}

    def checkpoint_objects(self) -> dict[str, Any]:
        """The objects of a checkpoint, on which the next iteration depends."""
        return {
            "weights": self.weights,
            "noise": self.policy.rng,
            "sampler": self.sampler,
            "baseline": self.baseline,
        }

    def iterate(self, iteration: int) -> tuple[float, float]:
        """Trains for an iteration; returns the mean returns before and after adaptation.

        Args:
            iteration: The number of the iteration, from 1.
        """
        meta, moment, square = (self.weights[name] for name in ("meta", "moment", "square"))
        self.sampler.update_tasks()
        self.policy.weights[:] = meta
        first = self.sampler.obtain_samples()
        data = self.processor.process_samples(first)
        self.policy.weights[:] = [
            meta + INNER * compute_policy_gradient(samples) for samples in data
        ]
        second = self.sampler.obtain_samples()
        data = self.processor.process_samples(second)
        gradients = [compute_policy_gradient(samples) for samples in data]
        # Adam (Kingma & Ba 2015, arXiv:1412.6980) on the mean of the adapted gradients.
        gradient = np.mean(gradients, axis=0)
        moment = 0.9 * moment + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        step = moment / (1 - 0.9**iteration)
        meta = meta + OUTER * step / (np.sqrt(square / (1 - 0.999**iteration)) + 1e-8)
        self.weights.update(meta=meta, moment=moment, square=square)
        return compute_mean_return(first), compute_mean_return(second)


def learn(path: Path, iterations: int, seeds: int, resume: bool) -> list[list[list[float]]]:
    """Trains a learner for each seed.

    Args:
        path: The checkpoint, written after every iteration.
        iterations: How many per seed.
        seeds: How many learners, one after another.
        resume: Whether to continue from the checkpoint.

    Returns:
        For each seed the mean returns before adaptation and those after it, one per iteration.

    Raises:
        SystemExit: If the checkpoint is of other numbers of iterations or seeds.
    """
    run: dict[str, Any] = {"iterations": iterations, "seeds": seeds, "curves": [[[], []]]}
    learner = Learner(0)
    if resume:
        load_checkpoint(path, run=run, **learner.checkpoint_objects())
        if (run["iterations"], run["seeds"]) != (iterations, seeds):
            raise SystemExit(
                f"{path} is of --iterations {run['iterations']} --seeds {run['seeds']}, got "
                f"--iterations {iterations} --seeds {seeds}"
            )
    curves = run["curves"]
    while True:
        unadapted, adapted = curves[-1]
        while len(unadapted) < iterations:
            returns = learner.iterate(len(unadapted) + 1)
            unadapted.append(returns[0])
            adapted.append(returns[1])
            save_checkpoint(path, run=run, **learner.checkpoint_objects())
        learner.sampler.close()
        if len(curves) == seeds:
            return curves
        learner = Learner(len(curves))
        curves.append([[], []])


def compute_mean_return(samples: dict[int, list[dict[str, Any]]]) -> float:
    """The mean return of the paths of all tasks."""
    return float(np.mean([path["rewards"].sum() for paths in samples.values() for path in paths]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE, help="directory (that of the script)")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was killed")
    args = parser.parse_args()
    results = args.out / "results"
    results.mkdir(parents=True, exist_ok=True)
    checkpoint = results / "meta_learning.checkpoint"
    if args.resume and not checkpoint.exists():
        parser.error(f"no run to resume: there is no {checkpoint}")
    start = time.perf_counter()
    curves = learn(checkpoint, args.iterations, args.seeds, args.resume)
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
    figure.savefig(args.out / "meta_learning.png")
    (results / "meta_learning.json").write_text(json.dumps({"curves": curves}, indent=2) + "\n")
    checkpoint.unlink()
    for seed, (unadapted, adapted) in enumerate(curves):
        first, last = np.mean(adapted[:5]), np.mean(adapted[-5:])
        print(
            f"seed {seed}: after the step {first:.1f} at the start, {last:.1f} at the end; "
            f"before it {np.mean(unadapted[-5:]):.1f} at the end"
        )
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    main()
