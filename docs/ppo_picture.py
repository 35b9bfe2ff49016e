"""Writes the curve of PPO beside that of multi-task SAC, small enough for a phone.

    python docs/ppo_picture.py docs/assets/ppo-mt10.png

Needs matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

# Steps of all environments, the success rate, and its 95 % interval over 500 episodes.
PPO = (
    (100_000, 0.114, 0.101, 0.128),
    (200_000, 0.124, 0.111, 0.138),
    (400_000, 0.256, 0.237, 0.276),
    (500_000, 0.220, 0.196, 0.246),
    (1_000_000, 0.196, 0.173, 0.221),
)
SAC = (
    (200_000, 0.158, 0.135, 0.184),
    (400_000, 0.210, 0.191, 0.231),
    (700_000, 0.352, 0.329, 0.376),
    (1_000_000, 0.376, 0.349, 0.404),
)


def main(path: Path) -> None:
    """Draws both."""
    figure = Figure(figsize=(4.2, 3), layout="constrained", dpi=200)
    axes = figure.subplots()
    for label, color, marker, points in (
        ("PPO", "#0072B2", "o", PPO),
        ("multi-task SAC", "#D55E00", "s", SAC),
    ):
        steps = [point[0] / 1e6 for point in points]
        axes.plot(steps, [point[1] for point in points], f"{marker}-", color=color, label=label)
        low, high = [point[2] for point in points], [point[3] for point in points]
        axes.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
    axes.set(xlim=(0, 1.03), ylim=(0, 1))
    axes.set_xlabel("million environment steps")
    axes.set_ylabel("success, mean over MT10")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/assets/ppo-mt10.png"))
