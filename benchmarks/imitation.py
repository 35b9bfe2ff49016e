"""The results of `examples/imitate_mt10.py` on goals that it has not seen.

    python -m benchmarks.imitation --unseen list --seed 1        # and 2, 3
    python -m benchmarks.imitation --unseen continuous --seed 1

The protocol is metaworld-3.1 on MT10 with other goals: those of Meta-World's list for another seed,
or new ones in every episode. Results go below ``benchmarks/reference/imitation``.
"""

from __future__ import annotations

import argparse
import os

from benchmarks.common import HERE
from examples.imitate_mt10 import load
from mtwrappers import protocols
from mtwrappers.evaluation import EvaluationResult

REFERENCE = HERE / "reference"
SEEDS = (1, 2, 3)
STEPS = 97_684  # of demonstrations, and of six rounds of DAgger
LISTED = protocols["metaworld-3.1"]
UNSEEN = {
    "list": LISTED.variant("metaworld-3.1, other list", seed=1),
    "continuous": LISTED.variant("metaworld-3.1, new goals", goals="continuous"),
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--unseen", choices=list(UNSEEN), required=True, help="which goals")
    parser.add_argument("--seed", type=int, choices=SEEDS, default=1, help="of the training")
    args = parser.parse_args()
    print(evaluate(args.unseen, args.seed))


if __name__ == "__main__":
    main()
