"""Writes the picture of how episodes vary: 16 first frames of one task, with their words.

    python docs/variation_picture.py docs/assets/variation.png

Needs the extra ``cli``, and EGL or OSMesa (Debian: libegl1 or libosmesa6). Half a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
from PIL import Image, ImageDraw, ImageFont

import mtwrappers  # noqa: F401 (registers the ids)

ROWS = ("light", "camera", "table,objects", "light,camera,table,objects")
COLUMNS, CLASS = 4, "button-press-v3"
# Frames are drawn larger than a tile, which smooths their edges, and cut to where the hand moves.
TILE, DRAWN, CUT = 144, 540, (90, 54, 522, 486)
LABEL, FONT = 24, 15
INK, PAPER = (38, 50, 56), (250, 250, 250)


def frames(variation: str) -> list[Image.Image]:
    """The first frames of the episodes of seeds 0 to 3, all on the same task."""
    env = gymnasium.make(
        "mtwrappers/MT1-v0",
        env_name=CLASS,
        num_goals=1,
        render_mode="rgb_array",
        camera_name="corner4",
        width=DRAWN,
        height=DRAWN,
        variation=variation,
    )
    found = []
    for seed in range(COLUMNS):
        env.reset(seed=seed)
        image = Image.fromarray(env.render()).crop(CUT)
        found.append(image.resize((TILE, TILE), Image.Resampling.LANCZOS))
    env.close()
    return found


def main(path: Path) -> None:
    """Draws every row below its label."""
    picture = Image.new("RGB", (COLUMNS * TILE, len(ROWS) * (TILE + LABEL)), PAPER)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(FONT)
    for row, variation in enumerate(ROWS):
        top = row * (TILE + LABEL)
        draw.text((6, top + LABEL / 2), f'variation="{variation}"', INK, font, anchor="lm")
        for column, frame in enumerate(frames(variation)):
            picture.paste(frame, (column * TILE, top + LABEL))
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, optimize=True)
    print(f"wrote {path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/assets/variation.png"))
