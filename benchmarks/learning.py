"""Measures what PPO learns in the same time on this package and on Meta-World's ``make_vec``.

    python -m benchmarks.learning [--minutes 4.5] [--seeds 1 2 3] [--redraw] [--note TEXT]

Trains the single-file PPO (``examples/cleanrl_ppo.py``) with the same hyperparameters, on the same
classes with one environment per class, for the same time: on ``mtwrappers/CustomMT-v0`` with two
workers, and on ``Meta-World/custom-mt-envs`` with its default ``vector_strategy="sync"``, which is
also the faster of its two on two cores. They take turns. Every class has 50 goals, which the agent
sees; an episode is a success if any of its steps is. With the defaults it runs for 27 minutes.
Nothing else should run on the machine.

Writes a row per episode into ``results/learning.csv``, and draws the success rate against time and
against steps into ``results/learning.png``: the mean over classes, each by its last ten episodes.
Prints the number of steps and the last success rates. With ``--redraw`` it trains nothing and draws
the episodes of that file; ``--note`` puts a sentence below the chart.
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
    """Makes an environment of each class, with the one-hot of the class in observations."""
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
    """Imports the single-file PPO."""
    path = HERE.parent / "examples" / "cleanrl_ppo.py"
    spec = importlib.util.spec_from_file_location("cleanrl_ppo", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compute_curve(episodes: Episodes, axis: str, points: np.ndarray) -> np.ndarray:
    """The success rate at each point of an axis, as the mean over classes."""
    rates = []
    for name in CLASSES:
        class_episodes = [episode for episode in episodes if episode["task"] == name]
        ends = np.array([episode[axis] for episode in class_episodes])
        successes = [episode["success"] for episode in class_episodes]
        num_successes = np.concatenate([[0], np.cumsum(successes)])
        last = np.searchsorted(ends, points, side="right")  # episodes that ended by this point
        first = np.maximum(last - WINDOW, 0)
        in_window = num_successes[last] - num_successes[first]
        rates.append(in_window / np.maximum(last - first, 1))
    return np.mean(rates, axis=0)


def select_runs(runs: Runs, side: str) -> list[Episodes]:
    """The episodes of each seed on one side."""
    return [episodes for (name, _), episodes in runs.items() if name == side]


def plot(path: Path, runs: Runs, note: str = "") -> None:
    """Draws success against time and against steps: the mean over seeds, and their range."""
    figure = Figure(figsize=(4.8, 5.6), layout="constrained", dpi=200)
    for axes, (axis, unit, label) in zip(
        figure.subplots(2, 1, sharey=True),
        [("seconds", 60, "minutes of training"), ("steps", 1000, "thousand environment steps")],
        strict=True,
    ):
        for side, color in SIDES.items():
            seeds = select_runs(runs, side)
            points = np.linspace(0, min(episodes[-1][axis] for episodes in seeds), 200)
            curves = np.array([compute_curve(episodes, axis, points) for episodes in seeds])
            low, high = curves.min(0), curves.max(0)
            axes.plot(points / unit, curves.mean(0), color=color, lw=2, label=side)
            axes.fill_between(points / unit, low, high, color=color, alpha=0.2, lw=0)
        axes.set_xlabel(label)
        axes.set_xlim(0)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(lambda rate, _: f"{rate:.0%}")
        axes.grid(color="#e3e7eb")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel("episodes with success")
    figure.axes[0].legend(frameon=False, loc="upper left")
    figure.suptitle(
        f"PPO on {len(CLASSES)} Meta-World classes, two cores:\n"
        f"mean and range of {len(seeds)} seeds",
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
            for episode in episodes:
                row = [
                    side,
                    seed,
                    episode["task"],
                    f"{episode['seconds']:.1f}",
                    episode["steps"],
                    f"{episode['return']:.1f}",
                    int(episode["success"]),
                ]
                writer.writerow(row)


def read(path: Path) -> Runs:
    """Reads the episodes of such a file."""
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


def summarize(runs: Runs) -> list[dict[str, str]]:
    """The rows of a table: mean steps, and the success rate in each class's last episodes."""
    rows: list[dict[str, str]] = [{"": name} for name in ("steps", *CLASSES)]
    for side in SIDES:
        seeds = select_runs(runs, side)
        rows[0][side] = f"{np.mean([episodes[-1]['steps'] for episodes in seeds]):,.0f}"
        for row, task in zip(rows[1:], CLASSES, strict=True):
            successes: list[bool] = []
            for episodes in seeds:
                class_episodes = [episode for episode in episodes if episode["task"] == task]
                successes += [episode["success"] for episode in class_episodes[-WINDOW:]]
            row[side] = f"{np.mean(successes):.0%}"
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
    print(table(summarize(runs)))


if __name__ == "__main__":
    main()
