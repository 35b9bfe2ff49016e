"""Sentences for each class, for policies that read.

A table of sentences is data: a sentence for each class, or a list of paraphrases, from which each
episode draws one. Two tables have names:

- ``"metaworld"``: Meta-World's documentation, ``docs/benchmark/task_descriptions.md`` in
  https://github.com/Farama-Foundation/Metaworld (MIT licence), the first sentence of each task,
  word for word, with its errors; the second sentence there says what is random.
- ``"lerobot-0.6.1"``: LeRobot 0.6.1, ``src/lerobot/envs/metaworld_config.json`` in
  https://github.com/huggingface/lerobot (Apache-2.0 licence), commit 7e241bd6. ``push-v3`` and
  ``push-back-v3`` have the same sentence there.

A custom table is a mapping such as ``{"reach-v3": ["Reach the red ball", "Go to the ball"]}``, or a
JSON file with such a mapping.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeAlias

from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory

from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import is_printable, printable
from mtwrappers.state.files import load_json

DescriptionsName: TypeAlias = Literal["metaworld", "lerobot-0.6.1"]
# The type of arguments: a name, the path of a JSON file, or a table.
Descriptions: TypeAlias = str | os.PathLike[str] | Mapping[str, str | Sequence[str]]
# The same as data: a name, or JSON values. A class with a single sentence has no list.
DescriptionsData: TypeAlias = str | dict[str, str | list[str]]
# The same as immutable data, in the order of the classes' names.
FrozenTable: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
Sentences: TypeAlias = dict[str, tuple[str, ...]]

MAX_LENGTH = 500  # characters of a sentence
MAX_PARAPHRASES = 200  # of a class
_MAX_FILE = 2**24  # bytes

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
DESCRIPTIONS: dict[DescriptionsName, dict[str, str]] = {
    "metaworld": _METAWORLD,
    "lerobot-0.6.1": _LEROBOT,
}


def as_data(given: Any, classes: Collection[str] = _METAWORLD) -> DescriptionsData | None:
    """Returns descriptions as data: a name or a table, which is read if it is in a file.

    Args:
        given: A name, the path of a JSON file (with the suffix ``.json``), a table, or ``None``.
        classes: The classes that a table may have.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If ``given`` is none of those, a class is unknown, a class has no sentence, or a
            sentence is empty, longer than 500 characters, unprintable or given twice.

    >>> from mtwrappers.metaworld.descriptions import as_data
    >>> as_data({"reach-v3": ["Reach the ball"], "push-v3": ["Push it", "Push the puck"]})
    {'reach-v3': 'Reach the ball', 'push-v3': ['Push it', 'Push the puck']}
    """
    if given is None or (isinstance(given, str) and given in DESCRIPTIONS):
        return given
    what = "descriptions"
    if isinstance(given, os.PathLike) or (isinstance(given, str) and given.endswith(".json")):
        what = f"the descriptions in {os.fspath(given)}"
        try:
            given = load_json(given, _MAX_FILE)
        except ValueError as exc:
            raise ValueError(f"{what} must be a table in JSON: {exc}") from None
        if not isinstance(given, dict):
            raise ValueError(f"{what} must be a table by class, got {reprlib.repr(given)}")
    if not isinstance(given, Mapping) or not given:
        names = ", ".join(map(repr, DESCRIPTIONS))
        raise ValueError(
            f"{what} must be {names}, the path of a JSON file, or a table with sentences for each "
            f"class, got {reprlib.repr(given)}"
        )
    table: dict[str, str | list[str]] = {}
    for name, own in given.items():
        if not isinstance(name, str) or name not in classes:
            shown = printable(name, 100) if isinstance(name, str) else reprlib.repr(name)
            hint = did_you_mean(shown, classes)
            raise ValueError(
                f"{what} must be of classes such as 'reach-v3', got one of {shown!r}"
                f"{f' ({hint})' if hint else ''}"
            )
        found = _sentences(own, f"{what} of {name!r}")
        table[name] = found if len(found) > 1 else found[0]
    return table


def _sentences(own: Any, what: str) -> list[str]:
    listed = [own] if isinstance(own, str) else own
    if not isinstance(listed, (list, tuple)) or not 1 <= len(listed) <= MAX_PARAPHRASES:
        got = f"{len(listed)} of them" if isinstance(listed, (list, tuple)) else reprlib.repr(own)
        raise ValueError(
            f"{what} must be a sentence or a list of 1 to {MAX_PARAPHRASES}, got {got}"
        )
    for one in listed:
        if not isinstance(one, str):
            raise ValueError(f"{what} must be sentences, got {reprlib.repr(one)}")
        if not (is_printable(one) and one.strip() and len(one) <= MAX_LENGTH):
            raise ValueError(
                f"{what} must be sentences of 1 to {MAX_LENGTH} printable characters, got "
                f"'{printable(one, 100)}' ({len(one)} characters)"
            )
    if len(set(listed)) < len(listed):
        twice = next(one for one in listed if listed.count(one) > 1)
        raise ValueError(f"{what} must differ from each other, got {reprlib.repr(twice)} twice")
    return [str(one) for one in listed]


def freeze(data: Any) -> str | FrozenTable | None:
    """Converts the result of `as_data` to immutable data."""
    if not isinstance(data, dict):
        return data  # type: ignore[no-any-return] # a name
    return tuple(sorted(sentences_of(data).items()))


def thaw(frozen: str | FrozenTable | None) -> DescriptionsData | None:
    """Reverses `freeze`."""
    if not isinstance(frozen, tuple):
        return frozen
    return {name: list(own) if len(own) > 1 else own[0] for name, own in frozen}


def sentences_of(data: DescriptionsData) -> Sentences:
    """The sentences of each class."""
    table: Mapping[str, Any] = DESCRIPTIONS[data] if isinstance(data, str) else data  # type: ignore[index] # a name, as was checked
    return {name: (own,) if isinstance(own, str) else tuple(own) for name, own in table.items()}


def has_paraphrases(data: Any) -> bool:
    """Whether a class has several sentences, so that each episode draws one."""
    return isinstance(data, Mapping) and any(not isinstance(own, str) for own in data.values())


class SentenceSpace(Text):
    """A Text that Gymnasium's ``AsyncVectorEnv`` does not accept in shared memory.

    It would return blanks, because it reads texts from shared memory only once, before the first
    reset. Gymnasium's error names the remedy: ``vector_kwargs={"shared_memory": False}``.
    """


@create_shared_memory.register(SentenceSpace)
def _refuse_shared_memory(space: SentenceSpace, n: int = 1, ctx: Any = None) -> NoReturn:
    raise CustomSpaceError(f"Gymnasium's shared memory does not update texts, got {space}")


def text_space(sentences: Sentences) -> SentenceSpace:
    """The space of all sentences of a table, with their lengths and characters."""
    every = [one for own in sentences.values() for one in own]
    characters = "".join(sorted({letter for one in every for letter in one}))
    return SentenceSpace(max(map(len, every)), min_length=1, charset=characters)
