"""One tree of random streams: seed -> environment stream, task stream, a stream for each task.

The root is the goal stream, from which continuous goals are drawn in each episode.

Streams are addressed, not consumed: the stream of task 3 is the same whether or not tasks 0 to 2
were ever used. So results do not depend on the order in which lazy environments are built, nor on
the process that builds them.
"""

from __future__ import annotations

import operator
from typing import Any

from numpy.random import PCG64, Generator, SeedSequence

_ENV, _TASK, _CHILDREN, _PHASES = 0, 1, 2, 3


def check_seed(seed: Any) -> int:
    """Returns ``seed`` as an ``int`` of 0 or more, or raises `TypeError` or `ValueError`."""
    try:
        value = operator.index(seed)
    except TypeError:
        value = None
    if value is None or isinstance(seed, bool):
        raise TypeError(f"a seed must be an integer, got {seed!r}")
    if value < 0:
        raise ValueError(f"a seed must be zero or greater, got {value}")
    return value


def fresh_seed() -> int:
    """A seed of 32 bits from the operating system's entropy."""
    return int(SeedSequence().generate_state(1)[0])


def chosen_seed(seed: Any) -> int:
    """Returns ``seed`` after `check_seed`, or a fresh seed for ``None``."""
    return fresh_seed() if seed is None else check_seed(seed)


def env_generator(seed: int) -> Generator:
    """The environment stream of ``seed``."""
    return Generator(PCG64(SeedSequence(seed, spawn_key=(_ENV,))))


def task_generator(seed: int) -> Generator:
    """The task stream of ``seed``: which task comes next."""
    return Generator(PCG64(SeedSequence(seed, spawn_key=(_TASK,))))


def phase_generator(seed: int) -> Generator:
    """The stream of ``seed`` that draws among the tasks of a phase of a `TaskStream`."""
    return Generator(PCG64(SeedSequence(seed, spawn_key=(_PHASES,))))


def goal_generator(seed: int) -> Generator:
    """The goal stream of ``seed``: the ``np_random`` of a Gymnasium environment with this seed.

    Programs that seed Meta-World's classes themselves therefore get the same goals.
    """
    return Generator(PCG64(SeedSequence(seed)))


def child_seed(seed: int, index: int) -> int:
    """The seed (32 bits) of the environment of task ``index``."""
    return int(SeedSequence(seed, spawn_key=(_CHILDREN, index)).generate_state(1)[0])


def stream_state(seed: int | None, rng: Generator | None) -> dict[str, Any] | None:
    """The seed and the state of a stream, ready for JSON; ``None`` if the stream is not seeded."""
    if seed is None or rng is None:
        return None
    return {"seed": seed, "state": dict(rng.bit_generator.state)}
