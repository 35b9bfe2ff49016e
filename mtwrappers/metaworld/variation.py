"""Visual domain randomization, drawn from each episode's seed.

A variation is a text such as ``"light,camera"``. This module has its words, the ranges of all
parameters, and the stream of draws; `mtwrappers.metaworld.varied_scene` applies the parameters to
rendered scenes. The simulation is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common import seeding
from mtwrappers.common.checks import check_mapping, check_string
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.state.plain_data import set_generator

# In their order in a canonical text.
WORDS = ("light", "camera", "table", "objects")
# The light at the camera, which does not turn around the table.
HEADLIGHT = "headlight"
_TURNS = ("azimuth", "elevation")
# A surface has its own texture in some episodes, and a grey pattern in the others.
TEXTURES = ("own", "checker", "gradient", "noise")
# The number of fields, waves or spots along a pattern.
REPEATS = (2, 4, 8)


@dataclass(frozen=True)
class Range:
    """Numbers with three decimals from ``low`` to ``high``, all equally likely.

    Args:
        low: The smallest number.
        high: The largest number.
        size: The number of draws.
        unit: The unit.
    """

    low: float
    high: float
    size: int = 1
    unit: str = "times"

    def draw(self, rng: Generator) -> float | list[float]:
        """Draws one number, or a list if ``size`` is above 1."""
        # Quotients of integers are the same on every machine.
        first, last = round(self.low * 1000), round(self.high * 1000)
        drawn: list[int] = rng.integers(first, last + 1, size=self.size).tolist()
        numbers = [number / 1000 for number in drawn]
        return numbers[0] if self.size == 1 else numbers


@dataclass(frozen=True)
class Choice:
    """One of some values, all equally likely."""

    values: tuple[Any, ...]

    def draw(self, rng: Generator) -> Any:
        """Draws one of the values."""
        return self.values[int(rng.integers(len(self.values)))]


# The parameters of each word, in the order of draws: for each light, camera and material.
RANGES: dict[str, dict[str, Range | Choice]] = {
    "light": {
        "azimuth": Range(-40, 40, unit="degrees"),
        "elevation": Range(-15, 15, unit="degrees"),
        "ambient": Range(0.7, 1.3),
        "diffuse": Range(0.6, 1.4),
        "specular": Range(0.5, 1.5),
        "colour": Range(0.85, 1.15, 3),
    },
    "camera": {
        "offset": Range(-0.03, 0.03, 3, unit="metres"),
        "rotation": Range(-3, 3, 3, unit="degrees"),
        "field_of_view": Range(0.95, 1.05),
    },
    "table": {
        "hue": Range(-15, 15, unit="degrees"),
        "saturation": Range(0.6, 1),
        "brightness": Range(0.7, 1.2),
        "tint": Range(0.75, 1, 3),
        "texture": Choice(TEXTURES),
        "repeats": Choice(REPEATS),
    },
    "objects": {
        "hue": Range(-12, 12, unit="degrees"),
        "saturation": Range(0.7, 1),
        "brightness": Range(0.75, 1.25),
        "tint": Range(0.85, 1, 3),
        "texture": Choice(TEXTURES),
        "repeats": Choice(REPEATS),
    },
}


def check_variation(variation: Any) -> str | None:
    """Returns a variation in its canonical form: each word once, in the order of `WORDS`.

    Raises:
        TypeError: If it is neither a string nor ``None``.
        ValueError: If a word is not in `WORDS`, or there is no word; the message names them.
    """
    if variation is None:
        return None
    given = [word.strip() for word in check_string(variation, "variation").split(",")]
    for word in given:
        if word not in WORDS:
            hint = did_you_mean(word, WORDS)
            where = "" if len(given) == 1 else f" in {variation[:200]!r}"
            raise ValueError(
                f"variation must be some of {', '.join(WORDS)}, separated by commas, got "
                f"{word[:80]!r}{where}{f'; {hint}' if hint else ''}"
            )
    return ",".join(word for word in WORDS if word in given)


def draw_parameters(
    variation: str, episode: int, names: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Draws the variation of an episode, as plain data: by word, name and parameter.

    Each name has its own stream. So a light does not depend on whether the camera varies, and a
    camera does not depend on other cameras.

    Args:
        variation: The variation in canonical form.
        episode: The result of `VariationStream.draw`.
        names: The names of the lights, of the cameras, and of the materials of the table and the
            objects, by word.
    """
    drawn: dict[str, dict[str, dict[str, Any]]] = {}
    for word in variation.split(","):
        drawn[word] = {}
        for name in names[word]:
            key = (WORDS.index(word), *name.encode())
            rng = Generator(PCG64(SeedSequence(episode, spawn_key=key)))
            ranges = RANGES[word].items()
            drawn[word][name] = {parameter: of.draw(rng) for parameter, of in ranges}
    for parameter in _TURNS:
        drawn.get("light", {}).get(HEADLIGHT, {}).pop(parameter, None)
    return drawn


class VariationStream:
    """A stream of one number per episode, from which its variation is drawn.

    Args:
        seed: The seed of the stream unless `seed` is called first; ``None`` for entropy.
    """

    def __init__(self, seed: int | None) -> None:
        self._first_seed = seed
        self._seed: int | None = None
        self._rng: Any = None

    def seed(self, seed: int | None) -> None:
        """Begins the stream of ``seed``, ``None`` for entropy."""
        self._seed = seeding.chosen_seed(seed)
        self._rng = seeding.variation_generator(self._seed)

    def draw(self) -> int:
        """Draws the number of the next episode, 63 bits."""
        self._begin()
        return int(self._rng.integers(2**63))

    def get_state(self) -> dict[str, Any]:
        """The state that `draw` continues from, ready for JSON."""
        self._begin()
        return {"seed": self._seed, "state": dict(self._rng.bit_generator.state)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned."""
        self.seed(check_mapping(state, "the state of a variation")["seed"])
        set_generator(self._rng, state["state"])

    def _begin(self) -> None:
        if self._rng is None:
            self.seed(self._first_seed)
