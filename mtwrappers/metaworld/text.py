"""Sentences that describe the task of each class, for policies that read.

A table has a sentence for each class. Two tables have names:

- ``"metaworld"``: Meta-World's documentation, ``docs/benchmark/task_descriptions.md`` in
  https://github.com/Farama-Foundation/Metaworld (MIT licence), the first sentence of each task,
  word for word, with its errors; the second sentence there says what is random.
- ``"lerobot-0.6.1"``: LeRobot 0.6.1, ``src/lerobot/envs/metaworld_config.json`` in
  https://github.com/huggingface/lerobot (Apache-2.0 licence), commit 7e241bd6. ``push-v3`` and
  ``push-back-v3`` have the same sentence there.

A custom table is a mapping such as ``{"reach-v3": "Reach the red ball"}``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping
from typing import NoReturn, TypeAlias

from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory

from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import is_printable, printable

# The name of a table, or a sentence for each class.
Descriptions: TypeAlias = str | Mapping[str, str]

MAX_LENGTH = 500  # characters of a sentence

_METAWORLD = {
    "assembly-v3": "Pick up a nut and place it onto a peg",
    "basketball-v3": "Dunk the basketball into the basket",
    "bin-picking-v3": "Grasp the puck from one bin and place it into another bin",
    "box-close-v3": "Grasp the cover and close the box with it",
    "button-press-topdown-v3": "Press a button from the top",
    "button-press-topdown-wall-v3": "Bypass a wall and press a button from the top",
    "button-press-v3": "Press a button",
    "button-press-wall-v3": "Bypass a wall and press a button",
    "coffee-button-v3": "Push a button on the coffee machine",
    "coffee-pull-v3": "Pull a mug from a coffee machine",
    "coffee-push-v3": "Push a mug under a coffee machine",
    "dial-turn-v3": "Rotate a dial 180 degrees",
    "disassemble-v3": "Pick a nut out of the a peg",
    "door-close-v3": "Close a door with a revolving joint",
    "door-lock-v3": "Lock the door by rotating the lock clockwise",
    "door-open-v3": "Open a door with a revolving joint",
    "door-unlock-v3": "Unlock the door by rotating the lock counter-clockwise",
    "drawer-close-v3": "Push and close a drawer",
    "drawer-open-v3": "Open a drawer",
    "faucet-close-v3": "Rotate the faucet clockwise",
    "faucet-open-v3": "Rotate the faucet counter-clockwise",
    "hammer-v3": "Hammer a screw on the wall",
    "hand-insert-v3": "Insert the gripper into a hole",
    "handle-press-side-v3": "Press a handle down sideways",
    "handle-press-v3": "Press a handle down",
    "handle-pull-side-v3": "Pull a handle up sideways",
    "handle-pull-v3": "Pull a handle up",
    "lever-pull-v3": "Pull a lever down 90 degrees",
    "peg-insert-side-v3": "Insert a peg sideways",
    "peg-unplug-side-v3": "Unplug a peg sideways",
    "pick-out-of-hole-v3": "Pick up a puck from a hole",
    "pick-place-v3": "Pick and place a puck to a goal",
    "pick-place-wall-v3": "Pick a puck, bypass a wall and place the puck",
    "plate-slide-back-side-v3": "Get a plate from the cabinet sideways",
    "plate-slide-back-v3": "Get a plate from the cabinet",
    "plate-slide-side-v3": "Slide a plate into a cabinet sideways",
    "plate-slide-v3": "Slide a plate into a cabinet",
    "push-back-v3": "Pull a puck to a goal",
    "push-v3": "Push the puck to a goal",
    "push-wall-v3": "Bypass a wall and push a puck to a goal",
    "reach-v3": "Reach a goal position",
    "reach-wall-v3": "Bypass a wall and reach a goal",
    "shelf-place-v3": "Pick and place a puck onto a shelf",
    "soccer-v3": "Kick a soccer into the goal",
    "stick-pull-v3": "Grasp a stick and pull a box with the stick",
    "stick-push-v3": "Grasp a stick and push a box using the stick",
    "sweep-into-v3": "Sweep a puck into a hole",
    "sweep-v3": "Sweep a puck off the table",
    "window-close-v3": "Push and close a window",
    "window-open-v3": "Push and open a window",
}
_LEROBOT = {
    **_METAWORLD,
    "disassemble-v3": "Pick a nut out of a peg",
    "push-back-v3": "Push the puck to a goal",
}
DESCRIPTIONS: dict[str, dict[str, str]] = {
    "metaworld": _METAWORLD,
    "lerobot-0.6.1": _LEROBOT,
}


def check_descriptions(
    descriptions: object, classes: Collection[str] = _METAWORLD
) -> Descriptions | None:
    """Returns descriptions as they are, a table as a new dict.

    Args:
        descriptions: The name of a table, a table, or ``None``.
        classes: The classes that a table may have.

    Raises:
        ValueError: If ``descriptions`` is none of those, a class is unknown, or its sentence is not
            text of 1 to 500 printable characters.
    """
    if descriptions is None:
        return None
    if isinstance(descriptions, str) and descriptions in DESCRIPTIONS:
        return descriptions
    if not isinstance(descriptions, Mapping) or not descriptions:
        names = ", ".join(map(repr, DESCRIPTIONS))
        raise ValueError(
            f"descriptions must be {names}, or a table with a sentence for each class, got "
            f"{reprlib.repr(descriptions)}"
        )
    for name, sentence in descriptions.items():
        if not isinstance(name, str) or name not in classes:
            shown = printable(name, 100) if isinstance(name, str) else reprlib.repr(name)
            hint = did_you_mean(shown, classes)
            raise ValueError(
                f"descriptions must be of classes such as 'reach-v3', got one of {shown!r}"
                f"{f' ({hint})' if hint else ''}"
            )
        text = sentence if isinstance(sentence, str) else ""
        if not (is_printable(text) and text.strip() and len(text) <= MAX_LENGTH):
            got = f"'{printable(text, 100)}' ({len(text)} characters)"
            raise ValueError(
                f"the description of {name!r} must be a sentence of 1 to {MAX_LENGTH} printable "
                f"characters, got {got if text else reprlib.repr(sentence)}"
            )
    return dict(descriptions)


def find_sentences(descriptions: Descriptions) -> Mapping[str, str]:
    """The sentence of each class, from the result of `check_descriptions`."""
    if isinstance(descriptions, str):
        return DESCRIPTIONS[descriptions]
    return descriptions


class SentenceSpace(Text):
    """A Text that Gymnasium's ``AsyncVectorEnv`` does not accept in shared memory.

    It would return blanks, because it reads texts from shared memory only once, before the first
    reset. Gymnasium's error names the remedy: ``vector_kwargs={"shared_memory": False}``.
    """


@create_shared_memory.register(SentenceSpace)
def _refuse_shared_memory(space: SentenceSpace, n: int = 1, ctx: object = None) -> NoReturn:
    raise CustomSpaceError(f"Gymnasium's shared memory does not update texts, got {space}")


def text_space(sentences: Mapping[str, str]) -> SentenceSpace:
    """The space of all sentences of a table, with their lengths and characters."""
    characters = "".join(sorted({*"".join(sentences.values())}))
    return SentenceSpace(max(map(len, sentences.values())), min_length=1, charset=characters)
