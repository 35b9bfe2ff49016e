"""Checks of randomness: the effects of seeds, and the generators in use."""

from __future__ import annotations

import contextlib
import copy
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import VectorEnv

from mtwrappers.testing.difference import Difference, find, same
from mtwrappers.testing.recording import compare, record, without
from mtwrappers.testing.report import Failed
from mtwrappers.testing.subject import Subject

# How many steps of an episode are compared, and how many episodes until one differs.
_STEPS = 10
_EPISODES = 20


def seed_repeats(subject: Subject) -> str:
    """``reset(seed)`` determines what follows, on a new environment and on a used one."""
    seed = subject.seed
    if found := subject.differ(subject.first, subject.again):
        says = f"two runs from reset(seed={seed}) with the same actions differ"
        raise Failed(says + _hint(subject, found), found)
    for what, recording in subject.reused.items():
        if found := subject.differ(subject.first, recording):
            raise Failed(
                f"after {what}, reset(seed={seed}) leads to other results: some of "
                f"{'their' if what.endswith('s') else 'its'} state is left{_hint(subject, found)}",
                found,
            )
    used = " and on a used one" if subject.reused else ""
    if len(subject.reused) == 1:
        used += f" in mid-episode (none ended within {subject.length} steps)"
    says = f"reset(seed={seed}) leads to the same results on a new environment{used}"
    return "; ".join([says, *_ignored(subject)])


def _hint(subject: Subject, found: Difference) -> str:
    """Returns a hint how to ignore an info, if only infos differ."""
    keys = [key for key in re.findall(r"\['([^']*)'\]", found.key) if key != "final_info"]
    if subject.given is not None or not found.key.startswith("info[") or not keys:
        return ""
    name = f"info.{keys[0].removeprefix('_')}"
    return f" (to compare all but this info: --ignore {name}, in Python ignore=['{name}'])"


def _ignored(subject: Subject) -> list[str]:
    """Describes the behaviour of each ignored info."""
    says = []
    for name in sorted(subject.ignore):
        others = [subject.again, *subject.reused.values()]
        compared = subject.ignore - {name}
        found = [compare(subject.first, each, subject.is_vector, compared) for each in others]
        differs = next((str(each) for each in found if each), None)
        returned = any(
            find(call.values, without(call.values, {name})) for call in subject.first.calls
        )
        seen = f"does not repeat ({differs})" if differs else "repeats"
        says.append(f"{name} is ignored: it {seen if returned else 'was never returned'}")
    return says


def other_seeds(subject: Subject) -> str:
    """Different seeds lead to different results, and resets without a seed do not repeat."""
    subject.require_repeatable(reused=True)
    seed = subject.seed
    with subject.open() as env:
        actions = subject.actions(env, min(subject.length, _STEPS))
        expected = record(env, actions, seed)
        for i in range(1, _EPISODES):
            if subject.differ(expected, record(env, actions, seed + i)):
                break
        else:
            return _nothing_drawn(subject)
        record(env, actions, seed)
        once = record(env, actions, None)
        if any(subject.differ(once, record(env, actions, None)) for _ in range(1, _EPISODES)):
            return "another seed leads to other results, and resets without a seed do not repeat"
    last = subject.differ(expected, once) is None
    raise Failed(
        f"{_EPISODES} resets without a seed lead to the same results: "
        + (f"each repeats reset(seed={seed})" if last else "the seed is then a constant")
        + "; without a seed, reset() must not seed its generator again"
    )


def _nothing_drawn(subject: Subject) -> str:
    """Whether seeds change nothing because nothing is drawn, and not because they are ignored."""
    with subject.open() as env:
        actions = subject.actions(env, min(subject.length, _STEPS))
        env.reset(seed=subject.seed)
        before, own = generator_states(env), _own_generators(env)
        env.reset(seed=subject.seed + 1)
        if not same(before, generator_states(env)):
            return f"seeds reach np_random and change nothing within {len(actions)} steps"
        # Of its own generators it is not known where they began, but that they are new ones.
        draws = _drawn(env) or any(
            a is not b for a, b in zip(own, _own_generators(env), strict=True)
        )
        record(env, actions, subject.seed)
        draws = draws or not same(before, generator_states(env))
    fresh = []
    for _ in range(2):
        with subject.open() as env:
            fresh.append(record(env, actions, None))
    if draws or subject.differ(fresh[0], fresh[1]):
        raise Failed(
            f"reset(seed=s) leads to the same results for {_EPISODES} seeds, although the "
            "environment "
            "draws random numbers: it ignores the seed in favour of a constant"
        )
    return "seeds change nothing: it draws no random numbers"


def global_random(subject: Subject) -> str:
    """The global states of ``random`` and ``np.random`` are neither read nor written."""
    recordings = []
    for seed in (1, 2):
        with _global_seed(seed), subject.open() as env, untouched_random():
            recordings.append(record(env, subject.actions(env, subject.length), subject.seed))
    if subject.is_repeatable() and (found := subject.differ(recordings[0], recordings[1])):
        raise Failed("what it returns depends on the global random state", found)
    return "random and np.random are neither read nor written"


@contextlib.contextmanager
def untouched_random(what: str = "reset or step") -> Iterator[None]:
    """Raises `Failed` if the block changes the state of ``random`` or of ``np.random``.

    Args:
        what: What is called in the block.
    """
    before = global_states()
    yield
    for name, old, now in zip(("random", "np.random"), before, global_states(), strict=True):
        if not same(old, now):
            raise Failed(
                f"{what} draws from the global {name}, or seeds it: what it "
                "returns depends on what else runs in the process; use self.np_random"
            )


@contextlib.contextmanager
def kept_random() -> Iterator[None]:
    """Restores the global random states at the end."""
    before = global_states()
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


@contextlib.contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    with kept_random():
        random.seed(seed)
        np.random.seed(seed)
        yield


def global_states() -> tuple[Any, Any]:
    """The states of ``random`` and of ``np.random``."""
    return random.getstate(), np.random.get_state(legacy=False)


def require_generators(subject: Subject) -> None:
    """Raises `Failed` unless each ``np_random`` is a `numpy.random.Generator`."""
    with subject.open() as env:
        env.reset(seed=subject.seed)
        for i, found in enumerate(_generators(env)):
            if not isinstance(found, (np.random.Generator, type(None))):
                where = Difference(
                    i if subject.is_vector else None,
                    f"reset(seed={subject.seed})",
                    "np_random",
                    "a numpy.random.Generator",
                    type(found).__name__,
                )
                says = "of np_random, Gymnasium promises a numpy.random.Generator"
                raise Failed(says, where)


def _generators(env: Any, name: str = "_np_random") -> list[Any]:
    """Returns ``np_random`` of an environment, or of all in a batch; None if not created yet."""
    base = env.unwrapped
    if isinstance(base, VectorEnv) and hasattr(base, "get_attr"):
        try:
            return list(base.get_attr(name))
        except Exception:  # its environments need have no such attribute
            return []
    return [getattr(base, name, None)]


def _own_generators(env: Any) -> list[Any]:
    """Returns the generators among an environment's attributes, except ``np_random``."""
    attributes = getattr(env.unwrapped, "__dict__", {}).items()
    return [each for name, each in attributes if name != "_np_random" and _is_generator(each)]


def generator_states(env: Any) -> list[Any]:
    """A copy of the state of each generator of an environment, or of all in a batch."""
    every = (*_generators(env), *_own_generators(env))
    return [_state(each) for each in every if _is_generator(each)]


def _drawn(env: Any) -> bool:
    """Whether a generator in ``np_random`` has drawn since it was seeded."""
    pairs = zip(_generators(env), _generators(env, "_np_random_seed"), strict=False)
    return any(
        isinstance(generator, np.random.Generator)
        and isinstance(seed, int)
        and seed >= 0
        and not same(_state(generator), _state(seeding.np_random(seed)[0]))
        for generator, seed in pairs
    )


def _is_generator(value: Any) -> bool:
    return isinstance(value, (np.random.Generator, np.random.RandomState, random.Random))


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return copy.deepcopy(generator.get_state(legacy=False))
    return copy.deepcopy(generator.bit_generator.state)
