"""The results of `examples/imitate_mt10.py` on goals that it has not seen, and a picture of all.

    python -m benchmarks.imitation --unseen list --seed 1        # and 2, 3
    python -m benchmarks.imitation --unseen continuous --seed 1
    python -m benchmarks.imitation --draw

The protocol is metaworld-3.1 on MT10 with other goals: those of Meta-World's list for another seed,
or new ones in every episode. Results go below ``benchmarks/reference/imitation``.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.common import HERE
from examples.imitate_mt10 import load
from mtwrappers import protocols
from mtwrappers.evaluation import EvaluationResult

REFERENCE, PICTURE = HERE / "reference", HERE.parent / "docs/assets/imitation.png"
SEEDS = (1, 2, 3)
STEPS = 52_684  # of demonstrations, and of three rounds of DAgger
LISTED = protocols["metaworld-3.1"]
UNSEEN = {
    "list": dataclasses.replace(LISTED, name="metaworld-3.1, other list", goals_seed=1),
    "continuous": dataclasses.replace(
        LISTED, name="metaworld-3.1, new goals", goals="continuous", num_goals=None
    ),
}


def evaluate(goals: str, seed: int) -> EvaluationResult:
    """What was trained with a seed, on goals that it has not seen."""
    folder = REFERENCE / f"imitation/metaworld-3.1-MT10-unseen-{goals}-seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["WEIGHTS"] = str(REFERENCE / f"imitation/weights-seed{seed}.npz")
    result = UNSEEN[goals].evaluate(
        load(),
        workers=1,
        policy_name="imitation",
        training_seed=seed,
        training_steps=STEPS,
        evidence=folder / "results.npz",
    )
    result.save(folder / "results.json")
    assert isinstance(result, EvaluationResult)
    return result


def rates(folder: Path) -> dict[str, float]:
    """The success rate of each class in a result."""
    result = EvaluationResult.load(folder / "results.json")
    of_each = ((task, result.of_task(task)) for task in result.tasks)
    return {task: float(np.mean([e.success_once for e in own])) for task, own in of_each}


def draw(path: Path) -> None:
    """Success in each class: cloning, DAgger and experts; a dot is a training run."""
    methods = {
        "cloning": [rates(REFERENCE / f"cloning/metaworld-3.1-MT10-seed{s}") for s in SEEDS],
        "cloning, then DAgger": [
            rates(REFERENCE / f"imitation/metaworld-3.1-MT10-seed{s}") for s in SEEDS
        ],
        "the experts": [rates(REFERENCE / "experts/metaworld-3.1-MT10")],
    }
    colors = ["#b8c4d0", "#2a6fb0", "#333333"]
    tasks = list(methods["the experts"][0])
    figure = Figure(figsize=(6.5, 8), layout="constrained", dpi=130)
    axes = figure.subplots()
    for k, ((name, runs), color) in enumerate(zip(methods.items(), colors, strict=True)):
        rows = [*tasks, "mean of the ten"]
        values = np.array([[run[t] for t in tasks] + [np.mean(list(run.values()))] for run in runs])
        places = np.arange(len(rows)) + 0.27 * (k - 1)
        axes.barh(places, values.mean(0), 0.25, color=color, label=name)
        if len(runs) > 1:
            for run in values:
                axes.plot(run, places, "o", color="white", markeredgecolor="#333333", markersize=4)
    axes.set_yticks(range(len(rows)), [row.removesuffix("-v3") for row in rows], fontsize=13)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.03)
    axes.set_xlabel("success rate, 50 episodes of each class", fontsize=12)
    axes.tick_params(axis="x", labelsize=12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", fontsize=12, ncols=3, frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--unseen", choices=list(UNSEEN), help="evaluate on these goals")
    parser.add_argument("--seed", type=int, choices=SEEDS, default=1, help="of the training")
    parser.add_argument("--draw", action="store_true")
    args = parser.parse_args()
    if args.unseen:
        print(evaluate(args.unseen, args.seed))
    if args.draw:
        draw(PICTURE)


if __name__ == "__main__":
    main()
