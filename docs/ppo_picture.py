"""Writes the curve of PPO beside that of multi-task SAC, small enough for a phone.

    python docs/ppo_picture.py docs/assets/ppo-mt10.png

Needs the extra ``metaworld`` and matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from mtwrappers.evaluation import curves, reference
from mtwrappers.evaluation.plot import Line, draw_lines
from mtwrappers.evaluation.statistics import rate_of_runs

# How many of the 500 episodes of `metaworld-3.1` on MT10 succeeded after so many environment steps
# of `examples/sb3_ppo.py`, training seeds 1, 2 and 3. The last point is `reference:ppo`.
PPO = {
    200_000: (62, 123, 69),
    400_000: (128, 133, 76),
    600_000: (81, 118, 69),
    800_000: (116, 113, 116),
    1_000_000: (98, 107, 155),
}
CAPTION = (
    "Success at any step, protocol metaworld-3.1 on MT10, 500 episodes at each point of each run.",
    "PPO: 3 training seeds; band: 95% intervals over these.",
    "Multi-task SAC: 1 training seed; band: 95% intervals over its episodes, not over training.",
    "Each interval is for its point alone.",
)


def main(path: Path) -> None:
    """Draws both."""
    ppo = {steps: rate_of_runs(np.array(runs) / 500) for steps, runs in PPO.items()}
    sac = {
        steps: score.overall["mean over tasks"]
        for steps, score in curves({"SAC": reference("mtsac")}).points["SAC"].items()
        if steps <= max(PPO)
    }
    lines = [Line("PPO", ppo, "curve"), Line("multi-task SAC", sac, "curve")]
    draw_lines(path, {"mean over tasks": lines}, "", CAPTION)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/assets/ppo-mt10.png"))
