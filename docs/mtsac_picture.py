"""Writes the curve of multi-task SAC beside the published one.

    python docs/mtsac_picture.py docs/assets/mtsac.png

Needs the extra ``metaworld`` and matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mtwrappers.evaluation import curves, reference

# Steps of all environments and the success rate of MTSAC, read from the line of the vector graphic
# figures/fig6.svg in rainx0r/mtrl@f5c121f, drawn by its plots/fig6.py: the mean over those runs
# that lie between the quartiles, of success in 50 episodes per task by Meta-World's evaluation.
PUBLISHED = (
    *((200_380, 0.147), (400_798, 0.257), (601_147, 0.275), (801_529, 0.323), (1_001_911, 0.399)),
    *((1_202_358, 0.431), (1_402_707, 0.505), (1_603_089, 0.573), (1_803_471, 0.652)),
    *((2_003_919, 0.661), (2_204_268, 0.679), (2_404_650, 0.664), (2_605_031, 0.687)),
    *((2_805_479, 0.712), (3_005_828, 0.719)),
)


def main(path: Path) -> None:
    """Draws the points of our run and those of the figure."""
    curves({"mtsac": reference("mtsac")}).plot(
        path,
        "Multi-task SAC on MT10",
        beside={"MTSAC of rainx0r/mtrl, its figure 6, its own evaluation": PUBLISHED},
    )
    print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/assets/mtsac.png"))
