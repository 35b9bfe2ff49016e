"""Writes the pictures of results in the guides: a stream of tasks, and meta-RL.

    python docs/result_pictures.py docs/assets

Needs the extra ``metaworld`` and matplotlib. Some seconds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mtwrappers.evaluation.plot import Kind, Line, draw_lines, draw_stream
from mtwrappers.evaluation.statistics import Estimate, rate_of_runs, student, within

# ML1-reach: how many of the 20 goals of ML1-test each of the three training runs reached after so
# many environment steps of training, in the episode after ten episodes of adaptation; episodes of
# 150 steps.
AFTER = {
    "MAML": {7_500: (6, 6, 7), 127_500: (15, 12, 15)},
    "RL²": {
        40_000: (0, 0, 0),
        1_240_000: (18, 17, 17),
        2_440_000: (19, 20, 16),
        3_640_000: (20, 20, 20),
        4_840_000: (20, 19, 19),
    },
}
# And before: of MAML in its ten episodes, 200 in all, of RL² in the first one.
BEFORE = {
    "MAML": {7_500: (0, 0, 0), 127_500: (24, 1, 6)},
    "RL²": {
        40_000: (0, 0, 0),
        1_240_000: (12, 12, 12),
        2_440_000: (13, 16, 14),
        3_640_000: (15, 16, 15),
        4_840_000: (16, 15, 15),
    },
}
EPISODES = {"MAML": 200, "RL²": 20}  # of `BEFORE`, per run


def stream(path: Path) -> None:
    """The stream of CW10, as ``examples/continual_world.py`` draws it."""
    data = json.loads(Path(__file__).with_name("continual_world.json").read_text())
    scores = np.array(data["scores"])  # (runs, points, phases)

    def curve(values: Any) -> list[Estimate]:
        return [within(student([values[:, k]]), 0.0) for k in range(values.shape[1])]

    draw_stream(
        path,
        data["points"],
        data["ends"],
        curve(scores.mean(axis=2)),
        {f"{i} {name}": curve(scores[:, :, i]) for i, name in enumerate(data["phases"])},
        "CW10 with reduced budgets: fine-tuning by imitation of scripted experts",
        "4,000 steps per task instead of 1,000,000; 3 seeds; 5 episodes per point\n"
        "success_once of 3 runs; bands: 95% intervals over runs",
    )


def meta_rl(path: Path) -> None:
    """MAML and RL² on ML1-reach."""

    def line(label: str, counts: dict[int, tuple[int, ...]], episodes: int, kind: Kind) -> Line:
        points = {steps: rate_of_runs(np.array(runs) / episodes) for steps, runs in counts.items()}
        return Line(label, points, kind)

    lines = [line(name, counts, 20, "curve") for name, counts in AFTER.items()]
    lines += [line(name, own, EPISODES[name], "unadapted") for name, own in BEFORE.items()]
    caption = (
        "Success at any of 150 steps, on 20 goals of ML1-test; solid: after 10 episodes of "
        "adaptation, dashed: before.",
        "3 training seeds. Bands: 95% intervals over these, each for its point alone; none where "
        "they do not differ.",
    )
    draw_lines(path, {"mean over goals": lines}, "MAML and RL² on ML1-reach", caption)


def main(folder: Path) -> None:
    """Draws all of them."""
    for draw, name in ((stream, "continual-world"), (meta_rl, "meta-rl")):
        path = folder / f"{name}.png"
        draw(path)
        print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/assets"))
