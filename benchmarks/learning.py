"""What is learnt in the same time: PPO on this package and on Meta-World's own ``make_vec``.

    python -m benchmarks.learning [--minutes 4.5] [--seeds 1 2 3] [--redraw] [--note TEXT]

Trains the single-file PPO (``examples/cleanrl_ppo.py``) with the same hyperparameters, on the same
classes with one environment per class, for the same time: on ``mtwrappers/CustomMT-v0`` with two
workers, and on ``Meta-World/custom-mt-envs`` as it comes (``vector_strategy="sync"``, which is also
the faster of its two on two cores). They take turns. Every class has 50 goals, which the agent
sees; an episode is a success if it is one at any of its steps. With the defaults it runs for 27
minutes. Nothing else should run.

Writes a row per episode into ``results/learning.csv``, and draws the success rate against time and
against steps into ``results/learning.png``, as the mean over classes of each one's last ten
episodes. With ``--redraw`` it trains nothing
and draws the episodes of that file; ``--note`` puts a sentence below the chart.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import Any

import gymnasium
import metaworld  # noqa: F401 (registers its ids)
import numpy as np
from matplotlib.figure import Figure

import mtwrappers  # noqa: F401 (registers its ids)
from benchmarks.common import HERE, RESULTS, table

OURS, THEIRS = "mtwrappers", "Meta-World"
SIDES = {OURS: "#2a6fb0", THEIRS: "#8a97a5"}
CLASSES = ["reach-v3", "drawer-close-v3", "coffee-button-v3", "handle-press-v3"]
WINDOW = 10  # episodes of a class that make a rate

Episodes = list[dict[str, Any]]
Runs = dict[tuple[str, int], Episodes]


def make(side: str, seed: int) -> gymnasium.vector.VectorEnv:
    """An environment per class, with its one-hot."""
    if side == OURS:
        return gymnasium.make_vec(
            "mtwrappers/CustomMT-v0", train_classes=CLASSES, seed=seed, workers=2
        )
    return gymnasium.make_vec(
        "Meta-World/custom-mt-envs",
        vector_strategy="sync",
        envs_list=CLASSES,
        seed=seed,
        use_one_hot=True,
    )


def load_example() -> ModuleType:
    """The single-file PPO."""
    path = HERE.parent / "examples" / "cleanrl_ppo.py"
    spec = importlib.util.spec_from_file_location("cleanrl_ppo", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def curve(episodes: Episodes, axis: str, at: np.ndarray) -> np.ndarray:
    """The success rate at each point of an axis, as the mean over classes."""
    rates = []
    for name in CLASSES:
        own = [episode for episode in episodes if episode["task"] == name]
        points = np.array([episode[axis] for episode in own])
        solved = np.concatenate([[0], np.cumsum([episode["success"] for episode in own])])
        last = np.searchsorted(points, at, side="right")
        first = np.maximum(last - WINDOW, 0)
        rates.append((solved[last] - solved[first]) / np.maximum(last - first, 1))
    return np.mean(rates, axis=0)


def plot(path: Path, runs: Runs, note: str = "") -> None:
    """Success against time and against steps: the mean over seeds, and their range."""
    figure = Figure(figsize=(4.8, 5.6), layout="constrained", dpi=200)
    for axes, (axis, unit, label) in zip(
        figure.subplots(2, 1, sharey=True),
        [("seconds", 60, "minutes of training"), ("steps", 1000, "thousand environment steps")],
        strict=True,
    ):
        for side, color in SIDES.items():
            own = [episodes for (name, _), episodes in runs.items() if name == side]
            at = np.linspace(0, min(episodes[-1][axis] for episodes in own), 200)
            curves = np.array([curve(episodes, axis, at) for episodes in own])
            axes.plot(at / unit, curves.mean(0), color=color, lw=2, label=side)
            axes.fill_between(at / unit, curves.min(0), curves.max(0), color=color, alpha=0.2, lw=0)
        axes.set_xlabel(label)
        axes.set_xlim(0)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(lambda rate, _: f"{rate:.0%}")
        axes.grid(color="#e3e7eb")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel("episodes with success")
    figure.axes[0].legend(frameon=False, loc="upper left")
    figure.suptitle(
        f"PPO on {len(CLASSES)} Meta-World classes, two cores:\nmean and range of {len(own)} seeds",
        fontsize=11,
        x=0.01,
        ha="left",
    )
    if note:
        figure.supxlabel(fill(note, 72), fontsize=9, x=0.01, ha="left")
    figure.savefig(path)


def write(path: Path, runs: Runs) -> None:
    """Writes a row per episode."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["side", "seed", "task", "seconds", "steps", "return", "success"])
        for (side, seed), episodes in runs.items():
            for e in episodes:
                row = [f"{e['seconds']:.1f}", e["steps"], f"{e['return']:.1f}", int(e["success"])]
                writer.writerow([side, seed, e["task"], *row])


def read(path: Path) -> Runs:
    """The episodes that `write` wrote."""
    runs: Runs = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            episode = {
                "task": row["task"],
                "seconds": float(row["seconds"]),
                "steps": int(row["steps"]),
                "return": float(row["return"]),
                "success": bool(int(row["success"])),
            }
            runs.setdefault((row["side"], int(row["seed"])), []).append(episode)
    return runs


def train(seeds: Sequence[int], minutes: float) -> Runs:
    """Trains on both sides in turns, once per seed."""
    ppo, runs = load_example(), {}
    for seed in seeds:
        for side in SIDES:
            print(f"{side}, seed {seed}", file=sys.stderr)
            hyperparameters = ppo.parser().parse_args(
                ["--iterations", "100000", "--seed", str(seed)]
            )
            envs = make(side, seed)
            runs[side, seed] = ppo.train(envs, CLASSES, hyperparameters, 60 * minutes)
            envs.close()
    return runs


def summary(runs: Runs) -> list[dict[str, str]]:
    """The steps of both sides, and the success rate in each class's last ten episodes."""
    rows: list[dict[str, str]] = [{"": name} for name in ("steps", *CLASSES)]
    for side in SIDES:
        own = [episodes for (name, _), episodes in runs.items() if name == side]
        rows[0][side] = f"{np.mean([episodes[-1]['steps'] for episodes in own]):,.0f}"
        for row, task in zip(rows[1:], CLASSES, strict=True):
            last = [[e["success"] for e in run if e["task"] == task][-WINDOW:] for run in own]
            row[side] = f"{np.mean(np.concatenate(last)):.0%}"
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=4.5, help="per run (%(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--csv", type=Path, default=RESULTS / "learning.csv")
    parser.add_argument("--plot", type=Path, default=RESULTS / "learning.png")
    parser.add_argument("--redraw", action="store_true", help="draw the file, without training")
    parser.add_argument("--note", default="", help="a sentence below the chart")
    args = parser.parse_args(argv)
    if args.redraw:
        runs = read(args.csv)
    else:
        runs = train(args.seeds, args.minutes)
        args.csv.parent.mkdir(exist_ok=True)
        write(args.csv, runs)
    args.plot.parent.mkdir(exist_ok=True)
    plot(args.plot, runs, args.note)
    print(table(summary(runs)))


if __name__ == "__main__":
    main()
