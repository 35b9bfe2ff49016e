"""Checks of other seeds, and of resets without one."""

from __future__ import annotations

from contextlib import closing

from mtwrappers.testing.check import generators
from mtwrappers.testing.check.recording import record
from mtwrappers.testing.check.report import Failed
from mtwrappers.testing.check.subject import Subject
from mtwrappers.testing.checks import same

# How many steps of an episode are compared, and how many episodes until one differs.
_STEPS = 10
_EPISODES = 20


def other_seeds(subject: Subject) -> str:
    """Another seed leads elsewhere, and a reset without a seed goes on and repeats nothing."""
    subject.require_repeatable(reused=True)
    seed = subject.seed
    with closing(subject.make()) as env:
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
            return "another seed leads elsewhere, and resets without one go on"
    last = subject.differ(expected, once) is None
    raise Failed(
        f"{_EPISODES} resets without a seed lead to the same: "
        + (f"each repeats reset(seed={seed})" if last else "the seed is a constant then")
        + "; without a seed, reset() must leave its generator as it is and go on with it"
    )


def _nothing_drawn(subject: Subject) -> str:
    """Whether seeds change nothing because there is nothing to draw; else they are ignored."""
    with closing(subject.make()) as env:
        actions = subject.actions(env, min(subject.length, _STEPS))
        env.reset(seed=subject.seed)
        before, own = generators.states(env), generators.own(env)
        env.reset(seed=subject.seed + 1)
        if not same(before, generators.states(env)):
            return f"seeds reach np_random and change nothing within {len(actions)} steps"
        # Of its own generators it is not known where they began, but that they are new ones.
        draws = generators.drawn(env) or any(
            a is not b for a, b in zip(own, generators.own(env), strict=True)
        )
        record(env, actions, subject.seed)
        draws = draws or not same(before, generators.states(env))
    fresh = []
    for _ in range(2):
        with closing(subject.make()) as env:
            fresh.append(record(env, actions, None))
    if draws or subject.differ(fresh[0], fresh[1]):
        raise Failed(
            f"reset(seed=s) leads to the same for {_EPISODES} seeds, although the environment "
            "draws random numbers: it ignores the seed in favour of a constant"
        )
    return "seeds change nothing: it draws no random numbers"
