"""Writes the gallery of Meta-World's 50 classes, ``gallery.md``.

    python docs/gallery.py            # from the figures in gallery.json
    python docs/gallery.py --measure  # measures these figures first, in some minutes

`pictures.py` draws its pictures. Needs the extra ``metaworld``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import mtwrappers
from mtwrappers.cli.scripted import ScriptedPolicy
from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld.experts import expert

DOCS = Path(__file__).parent
FIGURES, PAGE = DOCS / "gallery.json", DOCS / "gallery.md"
EPISODES = 10
# The entries of an observation with the position and the rotation of its two objects.
OBJECTS = {"1": (slice(4, 7), slice(7, 11)), "2": (slice(11, 14), slice(14, 18))}

# What is to be done, in our words.
WHAT_TO_DO = {
    "assembly-v3": "Pick up the ring by its handle and put it over the peg.",
    "basketball-v3": "Pick up the ball and drop it through the basket's ring.",
    "bin-picking-v3": "Carry the cube from one bin to the other.",
    "box-close-v3": "Pick up the lid and put it onto the box.",
    "button-press-topdown-v3": "Press the button on top of the machine down.",
    "button-press-topdown-wall-v3": "Press the button on top, with a wall in between.",
    "button-press-v3": "Push the button on the front of the machine in.",
    "button-press-wall-v3": "Push the button on the front in, reaching around a wall.",
    "coffee-button-v3": "Press the button of the coffee machine.",
    "coffee-pull-v3": "Pull the mug away from the coffee machine to the goal.",
    "coffee-push-v3": "Push the mug below the coffee machine's spout.",
    "dial-turn-v3": "Turn the dial to the goal.",
    "disassemble-v3": "Lift the ring off the peg by its handle.",
    "door-close-v3": "Close the open safe door.",
    "door-lock-v3": "Lock the door by turning its knob.",
    "door-open-v3": "Open the safe door by its handle.",
    "door-unlock-v3": "Unlock the door by turning its knob back.",
    "drawer-close-v3": "Push the open drawer shut.",
    "drawer-open-v3": "Pull the drawer open by its handle.",
    "faucet-close-v3": "Turn the faucet's handle until it is closed.",
    "faucet-open-v3": "Turn the faucet's handle until it is open.",
    "hammer-v3": "Pick up the hammer and drive the nail into the wall.",
    "hand-insert-v3": "Bring the gripper down into the hole in the table.",
    "handle-press-side-v3": "Press the handle down; the box stands sideways.",
    "handle-press-v3": "Press the handle down; the box faces the robot.",
    "handle-pull-side-v3": "Pull the handle up; the box stands sideways.",
    "handle-pull-v3": "Pull the handle up; the box faces the robot.",
    "lever-pull-v3": "Pull the lever up to the goal.",
    "peg-insert-side-v3": "Pick up the peg and push it into the hole in the side of the box.",
    "peg-unplug-side-v3": "Pull the peg out of the hole in the side of the box.",
    "pick-out-of-hole-v3": "Lift the puck out of the hole and bring it to the goal.",
    "pick-place-v3": "Pick up the puck and hold it at the goal in the air.",
    "pick-place-wall-v3": "Pick up the puck and bring it over the wall to the goal.",
    "plate-slide-back-side-v3": "Pull the plate sideways out of the net.",
    "plate-slide-back-v3": "Pull the plate back out of the net.",
    "plate-slide-side-v3": "Slide the plate sideways into the net.",
    "plate-slide-v3": "Slide the plate forward into the net.",
    "push-back-v3": "Drag the block back towards the robot, to the goal.",
    "push-v3": "Push the puck over the table to the goal.",
    "push-wall-v3": "Push the puck around the wall to the goal.",
    "reach-v3": "Move the gripper to the goal.",
    "reach-wall-v3": "Move the gripper past the wall to the goal.",
    "shelf-place-v3": "Pick up the block and put it onto the shelf.",
    "soccer-v3": "Push the ball into the net.",
    "stick-pull-v3": "Pick up the stick and pull the flask with it.",
    "stick-push-v3": "Pick up the stick and push the flask with it.",
    "sweep-into-v3": "Sweep the block into the hole in the table.",
    "sweep-v3": "Sweep the block over the table to the goal.",
    "window-close-v3": "Slide the window shut by its handle.",
    "window-open-v3": "Slide the window open by its handle.",
}


def measure(names: list[str]) -> dict[str, dict[str, Any]]:
    """The success of each class's expert, and the numbers of its observation."""
    envs = gymnasium.make_vec("mtwrappers/MT50-v0", workers=2, seed=0)
    policy = ScriptedPolicy(True, envs, 0)
    result = mtwrappers.evaluate(policy, envs, EPISODES, observers=[policy])
    envs.close()
    return {
        name: {
            "success_once": result.per_task[name]["success_once"].value,
            "success_final": result.per_task[name]["success_final"].value,
            "observation": list_observed_numbers(name),
        }
        for name in names
    }


def list_observed_numbers(name: str) -> list[str]:
    """Which of the numbers 4 to 17 of an observation are used, seen over one episode."""
    env = gymnasium.make("mtwrappers/MT1-v0", env_name=name)
    obs, _ = env.reset(seed=0)
    act, goal = expert(name), env.unwrapped.goal
    seen = np.abs(obs)
    for _ in range(200):
        obs, *_ = env.step(act(obs, goal))
        seen = np.maximum(seen, np.abs(obs))
    env.close()
    numbers = []
    for index, (position, rotation) in OBJECTS.items():
        for entries, quantity in ((position, "position"), (rotation, "rotation")):
            if seen[entries].any():
                last = entries.stop - 1
                numbers.append(f"{entries.start}-{last}: {quantity} of object {index}")
    return numbers


def render_page(figures: dict[str, dict[str, Any]]) -> str:
    """The gallery in Markdown."""
    blocks = [HEAD.format(episodes=EPISODES)]
    benchmarks = {name: make_benchmark(name) for name in ("MT10", "ML10")}
    for name, figure in figures.items():
        numbers = ", ".join(line.partition(":")[0] for line in figure["observation"])
        facts = []
        if numbers != "4-6, 7-10":
            facts.append(f"numbers {numbers}")
        facts.append(f"expert {figure['success_once']:.0%}/{figure['success_final']:.0%}")
        if name in benchmarks["MT10"].train_classes:
            facts.append("MT10")
        if name in benchmarks["ML10"].train_classes:
            facts.append("ML10 train")
        if name in benchmarks["ML10"].test_classes:
            facts.append("ML10 test")
        blocks.append(
            f"-   ### {name}\n\n"
            f"    ![{name}](assets/gallery/{name}.webp){{loading=lazy}}\n\n"
            f"    {WHAT_TO_DO[name]}\n\n"
            f"    *{'; '.join(facts)}*\n"
        )
    return "\n".join([*blocks, "</div>\n"])


HEAD = """# The 50 classes

<!-- Written by docs/gallery.py; edit that file, not this one. -->

The 50 classes of Meta-World, with a picture of the scripted expert halfway through an episode. All
are in MT50. To make an environment of a class:

```python
import gymnasium

import mtwrappers

env = gymnasium.make("mtwrappers/MT1-v0", env_name="hammer-v3")
obs, info = env.reset(seed=0)
assert info["task_name"] == "hammer-v3"
```

## How to read the cards

**Numbers.** Every class has the same 39 numbers; positions are in metres. Of the numbers 4 to 17, a
class uses 4 to 10 unless its card names others; the rest are zero.

| numbers | meaning |
|---|---|
| 0-2 | position of the gripper |
| 3 | how far the gripper is open, from 0 to 1 |
| 4-6, 7-10 | position and rotation (a quaternion) of the first object |
| 11-13, 14-17 | position and rotation of the second object |
| 18-35 | the numbers 0 to 17, one step earlier |
| 36-38 | position of the goal; zeros if the benchmark hides it (ML1, ML10, ML25, ML45) |

```python
gripper, goal = obs[0:3], obs[36:39]
assert (obs[0:18] == obs[18:36]).all()  # at a reset there is no earlier step
```

**Actions.** Every class has the same four, in [-1, 1]: the movement of the gripper along x, y and z
(1 is one centimetre per step), and how strongly to close it.

**Expert.** The share of {episodes} episodes, of 500 steps and with different goals, that
Meta-World's scripted expert solves: at any step/at the last step. Experts keep moving after a
success, and some of them undo it.

## Gallery

<div class="grid cards gallery" markdown>
"""


def main() -> None:
    """Writes the page, and the figures if they are to be measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="measure the figures first")
    if parser.parse_args().measure:
        FIGURES.write_text(json.dumps(measure(sorted(WHAT_TO_DO)), indent=1) + "\n")
    PAGE.write_text(render_page(json.loads(FIGURES.read_text())))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
