"""Checks of environments with tasks: of the contracts, and between instances given tasks in turn.

An environment has tasks if it has the methods of `mtwrappers.MTEnv` or of the set-task contract.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from gymnasium.error import ResetNeeded
from gymnasium.spaces import Dict, Discrete

from mtwrappers.common.errors import SeedNotSetError
from mtwrappers.core.mtenv import MTEnv
from mtwrappers.state.plain_data import copied
from mtwrappers.testing.recording import (
    Call,
    Failed,
    Skipped,
    Subject,
    compare,
    must_raise,
    require,
    require_same,
    same,
    steps_of,
    text_of,
)
from mtwrappers.testing.rules import (
    OTHER_SEEDS,
    compare_task_ids,
    copies_of,
    require_same_copy,
    scramble,
    untouched_random,
)

# The methods that read, set and draw tasks.
_MT_METHODS = ("get_task_state", "set_task_state", "sample_task_state")
_SET_TASK_METHODS = ("get_task", "set_task", "sample_tasks")
MAX_TASK_BYTES = 4096
# How many tasks are checked one by one, and how many are drawn to find different ones.
_TASKS, _DRAWS = 3, 20
# How many steps are compared on each task.
_STEPS = 100
# The calls that are not to draw from global generators, besides those of an episode.
_METHODS = "a method of seeds or tasks, or reset with options,"


# Any environment with tasks: the same task, given to another instance in another way.


def tasks(subject: Subject) -> None:
    """Each task determines what is returned, whatever instance is given it, and in what way."""
    subject.require_repeatable()
    with subject.open() as env, untouched_random(_METHODS):
        is_mt = all(env.has_wrapper_attr(name) for name in _MT_METHODS)
        if not is_mt and not all(env.has_wrapper_attr(name) for name in _SET_TASK_METHODS):
            raise Skipped("it has no tasks")
        getter, setter, sampler = _MT_METHODS if is_mt else _SET_TASK_METHODS
        ways = [f"{setter}()", *(["reset(options={'task_state': ...})"] if is_mt else [])]
        _, info = env.reset(seed=subject.seed)
        if subject.given is None and "phase" in info:
            raise Skipped("the phases of a stream draw its tasks")
        present = copied(env.get_wrapper_attr(getter)())
        draw = env.get_wrapper_attr(sampler)
        every = []
        for _ in range(_DRAWS if is_mt else 1):
            every += copied([draw()] if is_mt else draw(_DRAWS))
            actual = env.get_wrapper_attr(getter)()
            require_same(present, actual, f"a task that is drawn is not set: {getter}()")
        drawn = _different(every)

        def on(other: Any, way: str, task: Any) -> list[Call]:
            set_task, get = other.get_wrapper_attr(setter), other.get_wrapper_attr(getter)
            if is_mt:  # seeded on a task, before it is given another
                set_task(copied(drawn[-1]))
                other.reset()
                other.reset(seed=subject.seed)

            def begin() -> Any:
                theirs = copied(task)
                if way == ways[0]:
                    set_task(theirs)
                    if other is not env:  # each has a task of its own
                        env.get_wrapper_attr(setter)(copied(drawn[-1]))
                    returned = other.reset(**({} if is_mt else {"seed": subject.seed}))
                else:
                    returned = other.reset(options={"task_state": theirs})
                require_same(task, theirs, f"{way} must not change the task that it is given")
                for kept in (theirs, get()):  # the caller's, and what it was returned
                    scramble(kept)
                    says = f"tasks are kept and returned as copies: after {way}, {getter}()"
                    require_same(task, get(), says)
                return returned

            return subject.record(other, subject.actions(other, _STEPS), reset=begin)

        expected = [on(env, ways[0], task) for task in drawn]
        for what, other in _instances(subject, env):
            for way in ways:
                for task, before in list(zip(drawn, expected, strict=True))[_TASKS - 1 :: -1]:
                    if found := compare(before, on(other, way, task)):
                        says = f"on the same task, {what} returns something else after {way}"
                        raise Failed(f"{says}: {found}")
        _require_effect(env.observation_space, expected, ways[0])
        with suppress(Skipped):
            compare_task_ids(env.observation_space, [("", calls) for calls in expected])


def _different(tasks: list[Any]) -> list[Any]:
    found: list[Any] = []
    for task in tasks:
        if not any(same(task, other) for other in found):
            found.append(task)
    return found


def _instances(subject: Subject, env: Any) -> Iterator[tuple[str, Any]]:
    """The environment itself, and others: a new one, or copies of a given one."""
    yield "it", env
    if subject.given is not None:
        yield from copies_of(env)
        return
    with subject.open() as other:
        yield "a new environment", other


def _require_effect(space: Any, found: list[list[Call]], way: str) -> None:
    """Raises `Failed` if all tasks lead to the same observations and rewards."""
    if len(found) == 1:
        return
    inner = [[_unnamed(call) for call in calls] for calls in found]
    varies = len({str(call.values["reward"]) for call in steps_of(found[0])}) > 1
    # Rewards that are all the same may still come later.
    if varies and not any(compare(inner[0], each) for each in inner[1:]):
        says = f"{len(found)} different tasks lead to the same observations and rewards"
        raise Failed(f"{says}: {way} has no effect")
    task_obs = space.spaces.get("task_obs") if isinstance(space, Dict) else None
    if task_obs is None or (isinstance(task_obs, Discrete) and task_obs.n == 1):
        return
    seen = [calls[0].values["observation"]["task_obs"] for calls in found]
    if all(same(seen[0], other) for other in seen):
        says = f"{len(found)} different tasks are observed as the same task_obs"
        raise Failed(f"{says}, {text_of(seen[0])}, although its space has several values")


def _unnamed(call: Call) -> Call:
    """The call without what names a task: infos and ``task_obs``."""
    obs = call.values["observation"]
    obs = obs["env_obs"] if isinstance(obs, dict) and "env_obs" in obs else obs
    return call._replace(values={**call.values, "observation": obs, "info": {}})


# The contract of `mtwrappers.MTEnv`.


def protocol(subject: Subject) -> None:
    """It is an `MTEnv`, and its observations are dicts of two."""
    env = subject.given
    require(isinstance(env, MTEnv), f"expected an MTEnv, got {type(env).__name__}")
    space = env.observation_space
    keys = {*space} - {"task_embedding"} if isinstance(space, Dict) else None
    says = f"observation_space must be a Dict of env_obs and task_obs, got {space}"
    require(keys == {"env_obs", "task_obs"}, says)


def unseeded(subject: Subject) -> None:
    """Without a task seed no task state is sampled."""
    if subject.given._task_seed is not None:
        raise Skipped("it has a task seed")
    with must_raise(SeedNotSetError, "sample_task_state() before a task seed was set"):
        subject.given.sample_task_state()


def seed_methods(subject: Subject) -> None:
    """``seed`` and ``seed_task`` return and keep their seed, and it determines the tasks."""
    env, seed = subject.given, subject.seed
    for name in ("seed", "seed_task"):
        require_same([seed], getattr(env, name)(seed), f"{name}({seed}) must return its seed")
    env.assert_env_seed_is_set()
    env.assert_task_seed_is_set()

    def draws() -> list[Any]:
        env.seed_task(seed)
        return [copied(env.sample_task_state()) for _ in range(_DRAWS)]

    drawn = draws()
    require_same(drawn, draws(), f"seed_task({seed}) must determine the tasks")
    streams: dict[bytes, int] = {}
    for given in (seed, *(seed + k for k in OTHER_SEEDS)) if len(_different(drawn)) > 1 else ():
        env.seed_task(given)
        before = streams.setdefault(pickle.dumps(env.np_random_task), given)
        says = "lead to the same task stream: the seed is ignored, or a part of it"
        require(before == given, f"seed_task({before}) and seed_task({given}) {says}")


def task_options(subject: Subject) -> None:
    """``reset`` reads ``task_state`` or ``resample_task``, and steps observe the task."""
    env, seed = subject.given, subject.seed
    env.reset(seed=seed)
    state = copied(env.sample_task_state())
    for t, action in enumerate([None, *subject.actions(env, subject.steps)]):
        ends = False
        if action is None:
            obs, _ = env.reset(options={"task_state": copied(state)})
        else:
            obs, _, *flags, _ = env.step(action)
            ends = any(flags)
        what = f"step {t - 1}, task_obs" if t else "task_obs"
        require_same(env.get_task_obs(), obs["task_obs"], f"{what} must be get_task_obs()")
        if ends:
            break

    def resampled(**kwargs: Any) -> Any:
        env.reset(options={"resample_task": True}, **kwargs)
        return copied(env.get_task_state())

    says = f"reset(seed={seed}, options={{'resample_task': True}}) must determine the task"
    require_same(resampled(seed=seed), resampled(seed=seed), says)
    several = len(_different([copied(env.sample_task_state()) for _ in range(_DRAWS)])) > 1
    drawn = _different([resampled() for _ in range(_DRAWS)])
    says = f"{_DRAWS} resets with options={{'resample_task': True}} must draw tasks, got only"
    require(len(drawn) > 1 or not several, f"{says} {drawn}")
    with must_raise(ValueError, "reset with both task_state and resample_task"):
        env.reset(options={"task_state": state, "resample_task": True})


# The set-task contract.


def methods(subject: Subject) -> None:
    """It has the methods of the contract."""
    for name in _SET_TASK_METHODS:
        require(callable(getattr(subject.given, name, None)), f"{subject.name} must have {name}()")


def sample_tasks(subject: Subject) -> None:
    """``sample_tasks(n)`` draws ``n`` small tasks, which the seed determines."""
    env, seed = subject.given, subject.seed

    def draw(n: int) -> Any:
        env.reset(seed=seed)
        return env.sample_tasks(n)

    tasks: list[Any] = copied(draw(_TASKS))
    says = f"sample_tasks({_TASKS}) must return a list of {_TASKS} tasks, got {tasks!r}"
    require(isinstance(tasks, list) and len(tasks) == _TASKS, says)
    require_same(tasks, draw(_TASKS), f"reset(seed={seed}) must determine the tasks drawn next")
    if num_tasks := getattr(env, "num_tasks", None):
        different = len({pickle.dumps(task) for task in draw(num_tasks)})
        says = f"a sweep of {num_tasks} tasks must not repeat any, got {different} different"
        require(different == num_tasks, says)
    size = max(len(pickle.dumps(task)) for task in tasks)
    says = f"a task must pickle to under {MAX_TASK_BYTES} bytes, got {size}"
    require(size < MAX_TASK_BYTES, says)
    env.set_task(copied(tasks[0]))
    with must_raise(ResetNeeded, "step() after set_task() without reset()"):
        env.step(subject.actions(env, 1)[0])


def copies(subject: Subject) -> None:
    """Copies and pickles are on the same task and run the same, and share no state."""
    env = subject.given
    task = copied(env.get_task())
    for what, other in copies_of(env, required=True):
        require_same(task, other.get_task(), f"{what} must keep the task")
        require_same_copy(subject, env, other, what)


def no_task(subject: Subject) -> None:
    """An object that is not a task is refused, and the current task stays."""
    env = subject.given
    present = copied(env.get_task())
    with must_raise(ValueError, "set_task of something that is not a task"):
        env.set_task(object())
    require_same(present, env.get_task(), "a task that is refused must leave the current one")
