"""Writes the picture of MAML on a half cheetah, from the returns of its training runs.

    python docs/maml_picture.py docs/assets/maml-half-cheetah.png

Reads ``benchmarks/families/maml-half-cheetah-seed*/returns.csv``, which
``examples/maml_half_cheetah.py`` wrote. Needs matplotlib.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from mtwrappers.evaluation.plot import Line, draw_lines
from mtwrappers.evaluation.statistics import student

FOLDER = Path(__file__).parents[1] / "benchmarks" / "families"
WINDOW = 10  # iterations, over which a point is the mean
CAPTION = (
    "Mean return of 20 episodes of 100 steps in each of the two directions, over 10 iterations of "
    "training, with 8,000 environment steps each.",
    "3 training seeds; bands: 95% intervals over these, each for its point alone.",
)


def load_returns(column: str) -> np.ndarray:
    """The returns of each run and iteration, ``(runs, iterations)``."""
    runs = []
    for path in sorted(FOLDER.glob("maml-half-cheetah-seed*/returns.csv")):
        with path.open(newline="") as file:
            runs.append([float(row[column]) for row in csv.DictReader(file)])
    return np.array(runs)


def main(path: Path) -> None:
    """Draws the returns before and after the inner step."""
    lines = []
    for column, kind in (("before", "unadapted"), ("after", "curve")):
        returns = load_returns(column)
        means = returns.reshape(len(returns), -1, WINDOW).mean(axis=2)
        points = {WINDOW * (i + 1): student([means[:, i]]) for i in range(means.shape[1])}
        lines.append(Line("MAML", points, kind))
    draw_lines(path, {"HalfCheetahDir": lines}, "", CAPTION, "iterations of training", "return")
    print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/assets/maml-half-cheetah.png"))
