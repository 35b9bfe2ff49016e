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
from mtwrappers.evaluation.scores import scores

REFERENCE, PICTURE = HERE / "reference", HERE.parent / "docs/assets/imitation.png"
SEEDS = (1, 2, 3)
STEPS = 97_684  # of demonstrations, and of six rounds of DAgger
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
    result: EvaluationResult = UNSEEN[goals].evaluate(
        load(), workers=1, evidence=folder / "results.npz"
    )
    result = result.described(policy="imitation", training_seed=seed, training_steps=STEPS)
    result.save(folder / "results.json")
    return result


def draw(path: Path) -> None:
    """Success in each class, with 95 % intervals over runs (of the experts: over episodes)."""
    folders = {
        "cloning": [f"cloning/metaworld-3.1-MT10-seed{seed}" for seed in SEEDS],
        "cloning, then DAgger": [f"imitation/metaworld-3.1-MT10-seed{seed}" for seed in SEEDS],
        "the experts": ["experts/metaworld-3.1-MT10"],
    }
    results = {
        name: {one: EvaluationResult.load(REFERENCE / one / "results.json") for one in own}
        for name, own in folders.items()
    }
    figure = Figure(figsize=(6.5, 8), layout="constrained", dpi=130)
    axes = figure.subplots()
    colors = ["#b8c4d0", "#2a6fb0", "#333333"]
    for k, ((name, score), color) in enumerate(
        zip(scores(results).methods.items(), colors, strict=True)
    ):
        found = {**score.tasks, "mean of the ten": score.overall["mean over tasks"]}
        values = np.array([one.value for one in found.values()])
        ends = [(one.value, one.value) if one.low is None else (one.low, one.high)
                for one in found.values()]  # fmt: skip
        reach = np.abs(np.array(ends).T - values)
        places = np.arange(len(found)) + 0.27 * (k - 1)
        axes.barh(places, values, 0.25, xerr=reach, color=color, label=name, ecolor="#e8890c")
        axes.set_yticks(range(len(found)), [row.removesuffix("-v3") for row in found], fontsize=13)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.01)
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
