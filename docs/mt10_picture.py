"""Writes the looping picture of MT10: each of its ten classes, solved by Meta-World's expert.

    python docs/mt10_picture.py docs/assets/mt10.gif

Needs the extra ``cli``, and EGL or OSMesa (Debian: libegl1 or libosmesa6). Half a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
from PIL import Image, ImageDraw, ImageFont

import mtwrappers  # noqa: F401 (registers the ids)
from mtwrappers.metaworld.experts import expert

# Frames are drawn larger than a tile, which smooths their edges, and cut to where the hand moves.
TILE, DRAWN, LABEL, FONT = 200, 500, 64, 26
CUT = (100, 50, 500, 450)
EVERY, LAST_STEP, PAUSE = 4, 240, 14  # steps per frame, steps at most, frames at the end
MILLISECONDS = 60
# Names that do not fit into a line at a size that a phone shows.
LABELS = {
    "button-press-topdown-v3": "button-press-\ntopdown",
    "peg-insert-side-v3": "peg-insert-\nside",
    "window-close-v3": "window-\nclose",
    "window-open-v3": "window-\nopen",
    "drawer-close-v3": "drawer-\nclose",
    "drawer-open-v3": "drawer-\nopen",
}
# Colours of the table and the robot, and those of small things such as a goal.
COMMON, RARE = 192, 63
INK, PAPER, DONE = (38, 50, 56), (250, 250, 250), (46, 125, 50)


def run(env: gymnasium.Env, task_state: int) -> Iterator[bool]:
    """Runs an episode with the expert of its class; yields at every frame whether it is solved."""
    obs, info = env.reset(options={"task_state": task_state})
    act, goal = expert(info["task_name"]), env.unwrapped.goal
    for step in range(LAST_STEP):
        if step % EVERY == 0:
            yield info["success"] == 1.0
        obs, *_, info = env.step(act(obs, goal))


def film(env: gymnasium.Env, class_index: int) -> tuple[list[Image.Image], int]:
    """Frames of the first goal of a class that its expert solves in time, and which one does."""
    goals = env.unwrapped.num_tasks // len(env.unwrapped.task_names)
    for state in range(class_index * goals, (class_index + 1) * goals):
        successes = list(run(env, state))
        if any(successes):
            first = successes.index(True)
            break
    else:
        raise RuntimeError(f"no goal of class {class_index} is solved within {LAST_STEP} steps")
    frames = []
    for _ in run(env, state):
        image = Image.fromarray(env.render()).crop(CUT)
        frames.append(image.resize((TILE, TILE), Image.Resampling.LANCZOS))
        if len(frames) == first + 4:
            break
    return frames, first


def tile(frame: Image.Image, name: str, solved: bool) -> Image.Image:
    """A frame with its label below."""
    image = Image.new("RGB", (TILE, TILE + LABEL), PAPER)
    image.paste(frame)
    draw = ImageDraw.Draw(image)
    text, font = LABELS.get(name, name.removesuffix("-v3")), ImageFont.load_default(FONT)
    middle = (TILE / 2, TILE + LABEL / 2)
    draw.multiline_text(middle, text, INK, font, anchor="mm", align="center")
    if solved:
        draw.rectangle((0, 0, TILE - 1, TILE - 1), outline=DONE, width=5)
    return image


def main(path: Path) -> None:
    """Films all classes and writes them side by side."""
    env = gymnasium.make(
        "mtwrappers/MT10-v0",
        render_mode="rgb_array",
        camera_name="corner4",
        width=DRAWN,
        height=DRAWN,
    )
    env.reset(seed=0)
    names = env.unwrapped.task_names
    films = [film(env, i) for i in range(len(names))]
    env.close()
    pictures = []
    for t in range(max(len(frames) for frames, _ in films) + PAUSE):
        tiles = [
            np.asarray(tile(frames[min(t, len(frames) - 1)], name, t >= solved))
            for name, (frames, solved) in zip(names, films, strict=True)
        ]
        rows = [np.hstack(tiles[:5]), np.hstack(tiles[5:])]
        pictures.append(Image.fromarray(np.vstack(rows)))
    # One palette for all frames, without dithering: what stands still costs nothing.
    sample = Image.fromarray(np.vstack([np.asarray(p) for p in pictures[:: len(pictures) // 5]]))
    common = sample.quantize(COMMON, Image.Quantize.MEDIANCUT).getpalette()[: 3 * COMMON]
    rare = sample.quantize(RARE, Image.Quantize.MAXCOVERAGE).getpalette()[: 3 * RARE]
    palette = Image.new("P", (1, 1))
    palette.putpalette(common + rare)
    pictures = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=MILLISECONDS, loop=0)
    print(f"wrote {path}: {len(pictures)} frames, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/assets/mt10.gif"))
