"""What a step of each Sawyer class costs, by which workers get blocks of equal cost."""

from __future__ import annotations

from mtwrappers.metaworld.known_good import Fast, fast_serves

# Microseconds a step with random actions, of the stock and of the fast class, on one core of an
# AMD EPYC (`python -m benchmarks.metaworld`). Only how they compare matters.
_MICROSECONDS = {
    "assembly-v3": (188, 116),
    "basketball-v3": (236, 86),
    "bin-picking-v3": (157, 90),
    "box-close-v3": (183, 132),
    "button-press-topdown-v3": (112, 67),
    "button-press-topdown-wall-v3": (121, 75),
    "button-press-v3": (114, 72),
    "button-press-wall-v3": (113, 75),
    "coffee-button-v3": (127, 84),
    "coffee-pull-v3": (438, 101),
    "coffee-push-v3": (436, 103),
    "dial-turn-v3": (130, 79),
    "disassemble-v3": (191, 116),
    "door-close-v3": (184, 77),
    "door-lock-v3": (129, 85),
    "door-open-v3": (183, 83),
    "door-unlock-v3": (129, 86),
    "hand-insert-v3": (333, 88),
    "drawer-close-v3": (126, 78),
    "drawer-open-v3": (118, 78),
    "faucet-open-v3": (125, 74),
    "faucet-close-v3": (119, 70),
    "hammer-v3": (193, 113),
    "handle-press-side-v3": (138, 68),
    "handle-press-v3": (155, 99),
    "handle-pull-side-v3": (144, 76),
    "handle-pull-v3": (139, 71),
    "lever-pull-v3": (183, 76),
    "pick-place-wall-v3": (422, 97),
    "pick-out-of-hole-v3": (157, 85),
    "pick-place-v3": (402, 93),
    "plate-slide-v3": (177, 76),
    "plate-slide-side-v3": (175, 73),
    "plate-slide-back-v3": (175, 76),
    "plate-slide-back-side-v3": (178, 76),
    "peg-insert-side-v3": (237, 97),
    "peg-unplug-side-v3": (182, 109),
    "soccer-v3": (413, 100),
    "stick-push-v3": (447, 123),
    "stick-pull-v3": (458, 122),
    "push-v3": (413, 89),
    "push-wall-v3": (439, 104),
    "push-back-v3": (424, 100),
    "reach-v3": (177, 77),
    "reach-wall-v3": (176, 78),
    "shelf-place-v3": (424, 96),
    "sweep-into-v3": (413, 94),
    "sweep-v3": (324, 93),
    "window-open-v3": (118, 70),
    "window-close-v3": (123, 76),
}


def step_costs(names: list[str], fast: Fast) -> list[float] | None:
    """The relative cost of a step of each class, or ``None`` where one is not known.

    Args:
        names: Classes by name.
        fast: Whether the fast classes serve; see `mtwrappers.metaworld.known_good`.
    """
    if not all(name in _MICROSECONDS for name in names):
        return None
    which = int(fast_serves(fast))
    return [float(_MICROSECONDS[name][which]) for name in names]
