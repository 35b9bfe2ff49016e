"""Checks of one environment: each is a function of a `Subject` and returns what it has seen."""

from __future__ import annotations

import contextlib
import pickle
import random
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import cloudpickle
import numpy as np
from gymnasium.vector import VectorEnv

from mtwrappers.testing.check import generators
from mtwrappers.testing.check.recording import Call, compare, find, over, record, show, without
from mtwrappers.testing.check.report import Difference, Failed, Skipped
from mtwrappers.testing.check.subject import Subject
from mtwrappers.testing.checks import same

# Keys that a batch of infos uses for itself.
_RESERVED = ("final_obs", "final_info")


def plays(subject: Subject) -> str:
    """It can be reset and stepped."""
    first = subject.first
    ends = sum(int(np.sum(over(call))) for call in first.calls if "reward" in call.values)
    return f"{subject.length} steps with random actions, {ends} episodes ended"


def types(subject: Subject) -> str:
    """Rewards are finite numbers, flags Python's bools, infos dicts, generators NumPy's."""
    for call in subject.first.calls:
        values = call.values
        if not isinstance(values["info"], dict):
            raise _wrong(call, "info", "a dict", values["info"])
        if "reward" not in values:
            continue
        reward = values["reward"]
        if isinstance(reward, bool) or not isinstance(
            reward, (int, float, np.integer, np.floating)
        ):
            raise _wrong(call, "reward", "a number", reward)
        if not np.isfinite(reward):
            raise _wrong(call, "reward", "a finite number", reward)
        for flag in ("terminated", "truncated"):
            if type(values[flag]) is not bool:
                raise _wrong(call, flag, "a bool of Python", values[flag])
    require_generators(subject)
    return "rewards are finite numbers, flags are bools, infos are dicts"


def _wrong(call: Call, key: str, expected: str, value: Any) -> Failed:
    actual = f"{type(value).__module__}.{type(value).__name__} {show(value)}"
    return Failed("a value has the wrong type", Difference(None, call.what, key, expected, actual))


def require_generators(subject: Subject) -> None:
    """Raises `Failed` unless each ``np_random`` is a `numpy.random.Generator`."""
    with closing(subject.make()) as env:
        env.reset(seed=subject.seed)
        for i, found in enumerate(generators.of(env)):
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


def seed_repeats(subject: Subject) -> str:
    """``reset(seed)`` determines what follows, on a new environment and on a used one."""
    seed = subject.seed
    if found := subject.differ(subject.first, subject.again):
        raise Failed(
            f"two plays from reset(seed={seed}) with the same actions differ{_hint(found)}", found
        )
    for what, played in subject.reused.items():
        if found := subject.differ(subject.first, played):
            raise Failed(
                f"after {what}, reset(seed={seed}) leads elsewhere: something of "
                f"{'them' if what.endswith('s') else 'it'} is left{_hint(found)}",
                found,
            )
    used = " and on a used one" if subject.reused else ""
    if len(subject.reused) == 1:
        used += f" in mid-episode (none ended within {subject.length} steps)"
    says = f"reset(seed={seed}) leads to the same on a new environment{used}"
    return "; ".join([says, *_ignored(subject)])


def _hint(found: Difference) -> str:
    """How to compare everything else, where an info is what differs."""
    keys = [key for key in re.findall(r"\['([^']*)'\]", found.key) if key != "final_info"]
    if not found.key.startswith("info[") or not keys:
        return ""
    name = f"info.{keys[0].removeprefix('_')}"
    return f" (to compare all but this info: --ignore {name}, in Python ignore=['{name}'])"


def _ignored(subject: Subject) -> list[str]:
    """How each of the infos that are not compared behaves."""
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


@contextlib.contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seeds the global random states, and gives them back."""
    before = random.getstate(), np.random.get_state(legacy=False)
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def global_random(subject: Subject) -> str:
    """The global states of ``random`` and ``np.random`` are neither read nor written."""
    recordings = []
    for seed in (1, 2):
        with global_seed(seed), closing(subject.make()) as env:
            before = random.getstate(), np.random.get_state(legacy=False)
            recordings.append(record(env, subject.actions(env, subject.length), subject.seed))
            for name, old, now in zip(
                ("random", "np.random"),
                before,
                (random.getstate(), np.random.get_state(legacy=False)),
                strict=True,
            ):
                if not same(old, now):
                    raise Failed(
                        f"reset or step draws from the global {name}, or seeds it: what it "
                        "returns depends on what else runs in the process; use self.np_random"
                    )
    if subject.differ(subject.first, subject.again) is None and (
        found := subject.differ(recordings[0], recordings[1])
    ):
        raise Failed("what it returns depends on the global random state", found)
    return "random and np.random are neither read nor written"


def new_arrays(subject: Subject) -> str:
    """What was returned once does not change any more."""
    if found := subject.first.changed:
        raise Failed(
            "what an earlier call returned has changed: an array or dict is reused, so a buffer "
            "that keeps it holds the next one",
            found,
        )
    return "nothing that was returned changes later"


def resets_itself(subject: Subject) -> str:
    """``step`` does not reset: that is the caller's, or the vector environment's."""
    calls: list[int] = []
    with closing(subject.make()) as env:
        base, inside = env.unwrapped, [False]
        reset = base.reset

        def counted(*args: Any, **kwargs: Any) -> Any:
            if inside[0]:
                calls.append(len(calls))
            return reset(*args, **kwargs)

        with contextlib.suppress(AttributeError):  # an environment with slots
            base.reset = counted
        env.reset(seed=subject.seed)
        for t, action in enumerate(subject.actions(env, subject.length)):
            inside[0] = True
            _, _, terminated, truncated, _ = env.step(action)
            inside[0] = False
            if calls:
                flags = f"terminated={terminated}, truncated={truncated}"
                raise Failed(
                    f"step {t} calls reset() itself and returns {flags}: the last observation of "
                    "the episode is lost, and a vector environment resets once more"
                )
            if terminated or truncated:
                env.reset()
    return _ends_where_it_begins(subject)


def _ends_where_it_begins(subject: Subject) -> str:
    """Whether what the last step of every episode shows is what a reset there would have shown."""
    calls = subject.first.calls
    ends = [i for i, call in enumerate(calls) if "reward" in call.values and over(call)][:3]
    if not ends:
        raise Skipped(f"no episode ended within {subject.length} steps")
    shown = [call.values["observation"] for call in calls]
    if all(find(shown[0], obs) is None for obs in shown):
        raise Skipped("every observation is the same")
    for end in ends:
        with closing(subject.make()) as env:
            steps = sum("reward" in call.values for call in calls[: end + 1])
            record(env, subject.actions(env, steps)[:-1], subject.seed)
            begins = env.reset()[0]
        if find(begins, shown[end]):
            return f"{len(ends)} episodes end elsewhere than a reset leads to"
    if all(find(shown[0], shown[end]) is None for end in ends):
        raise Skipped("episodes end with the observation that all of them begin with")
    found = find(calls[ends[0] - 1].values["observation"], shown[ends[0]], ("observation",))
    assert_found = found or ((), "", "")
    raise Failed(
        f"{calls[ends[0]].what} ends an episode and shows the first observation of the next one "
        f"({show(assert_found[2])}...): step() resets the environment, and its last observation "
        "is lost"
    )


def infos(subject: Subject) -> str:
    """Infos can be batched: their keys are strings that a batch does not use itself."""
    reset_keys: set[str] = set()
    step_keys: set[str] = set()
    for call in subject.first.calls:
        for key in call.values["info"]:
            if not isinstance(key, str):
                says = "keys of infos must be strings to be batched"
                raise Failed(says, Difference(None, call.what, "info", "a string", show(key)))
            if key in _RESERVED or key.startswith("_"):
                says = "a batch of infos has keys of this name itself, which replace these values"
                raise Failed(says, Difference(None, call.what, "info", "another key", repr(key)))
            (step_keys if "reward" in call.values else reset_keys).add(key)
    if not reset_keys | step_keys:
        return "all are empty"
    only = ", ".join(sorted(reset_keys ^ step_keys))
    note = f"; not on both reset and step: {show_list(only)}" if only else ""
    return f"{len(reset_keys | step_keys)} keys{note}"


def show_list(text: str) -> str:
    """A list in one short line."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def pickling(subject: Subject) -> str:
    """The constructor can be sent to a worker; a pickled environment plays the same."""
    try:
        make = cloudpickle.loads(cloudpickle.dumps(subject.make))
    except Exception as exc:
        raise Failed(
            f"its constructor does not pickle ({type(exc).__name__}: {exc}), so it cannot be sent "
            "to a worker"
        ) from exc
    with closing(make()) as env:
        if isinstance(env, VectorEnv):
            return "the constructor pickles"
        try:
            copied = pickle.loads(pickle.dumps(env))
        except Exception as exc:
            return f"the constructor pickles; the environment does not ({type(exc).__name__})"
    subject.require_repeatable()
    with closing(copied) as env:
        try:
            played = record(env, subject.actions(env, subject.length), subject.seed)
        except Exception as exc:
            raise Failed(
                f"a pickled environment does not play: {type(exc).__name__}: {exc}"
            ) from exc
    if found := subject.differ(subject.first, played):
        raise Failed("a pickled environment plays differently", found)
    return "a pickled environment plays the same"
