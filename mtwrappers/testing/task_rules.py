"""Checks of environments with tasks: of the contracts, and between instances given tasks in turn.

An environment has tasks if it has the methods of `mtwrappers.MTEnv` or of the set-task contract.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Dict, Discrete

from mtwrappers.common.errors import SeedNotSetError
from mtwrappers.core.mtenv import MTEnv
from mtwrappers.state.plain_data import copied
from mtwrappers.testing.recording import (
    RAISED,
    Call,
    Failed,
    Skipped,
    Subject,
    compare,
    describe_error,
    drop_repeats,
    format_value,
    must_raise,
    require,
    require_same,
    same,
    select_steps,
)
from mtwrappers.testing.rules import (
    LARGE_SEEDS,
    OTHER_SEEDS,
    compare_task_ids,
    get_generators,
    make_copies,
    require_same_copy,
    require_untouched_random,
    scramble,
)

# The methods that read, set and draw tasks.
_MT_METHODS = ("get_task_state", "set_task_state", "sample_task_state")
_SET_TASK_METHODS = ("get_task", "set_task", "sample_tasks")
MAX_TASK_BYTES = 4096
# How many tasks are checked one by one, and how many are drawn to find different ones.
_TASKS, _DRAWS = 3, 20
# How many steps are compared on each task.
_STEPS = 100
# The calls that are not to draw from global generators, besides those that are checked alone.
_METHODS = "a method of seeds or tasks, or reset with options,"


# Any environment with tasks: the same task, given to another instance in another way.


def tasks(subject: Subject) -> str:
    """Each task determines what is returned, whatever instance is given it, and in what way."""
    subject.require_repeatable()
    with subject.open() as env, require_untouched_random(_METHODS):
        runs = _TaskRuns(subject, env)
        _, info = env.reset(seed=subject.seed)
        if subject.given_env is None and "phase" in info:
            raise Skipped("the phases of a stream draw its tasks")
        runs.drawn = runs.sample(env)
        runs.require_several()
        expected = [runs.record(env, task) for task in runs.drawn]
        few = list(zip(runs.drawn, expected, strict=True))[:_TASKS]
        for name, instance in _instances(subject, env):
            for way in runs.ways:
                for task, calls in reversed(few):
                    if difference := compare(calls, runs.record(instance, task, way)):
                        message = f"on the same task, {name} returns something else after {way}"
                        raise Failed(f"{message}: {difference}")
            runs.require_same_sample(instance, name)
        _require_effect(env.observation_space, expected, runs.ways[0])
        for task, calls in few:
            runs.require_copied_task(task, calls)
        runs.require_own_streams()
        runs.require_copies_on_task()
        with suppress(Skipped):
            compare_task_ids(env.observation_space, [("", calls) for calls in expected])
        return runs.note


class _TaskRuns:
    """Runs of an environment, and of others like it, on tasks that it draws.

    Attributes:
        drawn: The different tasks that the first environment has drawn after the seed.
        ways: The ways to set a task.
    """

    def __init__(self, subject: Subject, env: Any) -> None:
        self.subject, self.env = subject, env
        self.drawn: list[Any] = []
        self._is_mt = all(env.has_wrapper_attr(name) for name in _MT_METHODS)
        names = _MT_METHODS if self._is_mt else _SET_TASK_METHODS
        self._getter, self._setter, self._sampler = names
        needed = [name for name in names[1:] if env.has_wrapper_attr(name)]
        if not needed:
            raise Skipped("it has no tasks")
        if len(needed) == 1:
            (missing,) = {*names[1:]} - {*needed}
            raise Skipped(f"it has {needed[0]}() but no {missing}()")
        self._can_get = env.has_wrapper_attr(self._getter)
        self.ways = [f"{self._setter}()"]
        if self._is_mt:
            self.ways.append("reset(options={'task_state': ...})")

    @property
    def note(self) -> str:
        """A sentence about what could not be checked, or ``""``."""
        if self._can_get:
            return ""
        return f"it has no {self._getter}(), so the tasks that it is on could not be compared"

    def sample(self, env: Any) -> list[Any]:
        """Copies of the different tasks that an environment draws; the caller changes its own."""
        task, draw = copied(self._get(env)), env.get_wrapper_attr(self._sampler)
        with require_untouched_random(f"{self._sampler}()"):
            tasks = [draw() for _ in range(_DRAWS)] if self._is_mt else draw(_DRAWS)
        is_list = isinstance(tasks, (list, tuple, np.ndarray))
        message = f"{self._sampler}({_DRAWS}) must return a list of {_DRAWS} tasks, got"
        require(is_list and len(tasks) == _DRAWS, f"{message} {format_value(tasks)}")
        drawn = drop_repeats(copied(tasks))
        message = f"a task that is drawn is not set: {self._getter}()"
        require_same(task, self._get(env), message)
        scramble(tasks)
        return drawn

    def require_several(self) -> None:
        """Raises `Failed` if ``sample_tasks`` returns one task only, unless there is only one."""
        if self._is_mt:  # a choice of task states may be constant, as at the start of a curriculum
            return
        num_tasks = self.env.has_wrapper_attr("num_tasks") and self.env.get_wrapper_attr(
            "num_tasks"
        )
        require(
            len(self.drawn) > 1 or num_tasks == 1,
            f"{self._sampler}({_DRAWS}) returns the same task {_DRAWS} times, "
            f"{format_value(self.drawn[0])}: draw each from self.np_random, or set num_tasks = 1",
        )

    def record(
        self, env: Any, task: Any, way: str = "", *, changes_task: bool = False
    ) -> list[Call]:
        """Records an environment on a task.

        Args:
            env: The environment.
            task: The task.
            way: How it is set, by default the first of ``ways``.
            changes_task: Whether the caller changes the task afterwards.
        """
        way, seed = way or self.ways[0], self.subject.seed
        if self._is_mt:  # seeded on a task, before it is given another
            self._set(env, copied(self.drawn[-1]))
            env.reset()
            env.reset(seed=seed)

        def check_and_change(task_copy: Any) -> None:
            """What the caller does with its task once the environment has it."""
            require_same(task, task_copy, f"{way} must not change the task that it is given")
            if changes_task:
                scramble(task_copy)

        def begin() -> Any:
            task_copy = copied(task)
            if way == self.ways[0]:
                self._set(env, task_copy)
                check_and_change(task_copy)
                if env is not self.env:  # each has a task of its own
                    self._set(self.env, copied(self.drawn[-1]))
                returned = env.reset(**({} if self._is_mt else {"seed": seed}))
            else:
                with require_untouched_random(way):
                    returned = env.reset(options={"task_state": task_copy})
                check_and_change(task_copy)
            if self._can_get:
                require_same(task, self._get(env), f"after {way}, {self._getter}()")
            return returned

        return self.subject.record(env, self.subject.actions(env, _STEPS), reset=begin)

    def require_same_sample(self, env: Any, name: str) -> None:
        """Raises `Failed` unless the seed determines the tasks that are drawn, on any task."""
        for task in (self.drawn[0], self.drawn[-1]):
            self._set(env, copied(task))
            env.reset()
            env.reset(seed=self.subject.seed)
            message = (
                f"reset(seed={self.subject.seed}) must determine the tasks that {name} draws next, "
                "whatever its task is and whatever the caller has done to tasks that were drawn: "
                f"{self._sampler}()"
            )
            require_same(self.drawn, self.sample(env), message)

    def require_copied_task(self, task: Any, expected: list[Call]) -> None:
        """Raises `Failed` if the caller can change the environment's task in place."""
        rule = "tasks are kept and returned as copies, such as dict(task)"
        for way in self.ways:
            try:
                calls = self.record(self.env, task, way, changes_task=True)
                difference = compare(expected, calls)
            except RAISED as exc:
                difference = f"the next episode raises {describe_error(exc)}"
            if difference:
                message = f"if the caller changes the task after {way}, the environment's changes"
                raise Failed(f"{rule}: {message}: {difference}")
        if self._can_get:
            present = copied(self._get(self.env))
            scramble(self._get(self.env))
            message = f"{rule}: after the caller has changed what it returned, {self._getter}()"
            require_same(present, self._get(self.env), message)

    def require_own_streams(self) -> None:
        """Raises `Failed` if an `MTEnv` draws tasks from the stream of its episodes."""
        if not isinstance(self.env.unwrapped, MTEnv):
            return
        states = pickle.dumps(get_generators(self.env))
        self.sample(self.env)
        if states != pickle.dumps(get_generators(self.env)):
            raise Failed(
                f"{self._sampler}() draws from np_random, the stream of the environment, and not "
                "from np_random_task, so that drawing a task changes the next episode"
            )

    def require_copies_on_task(self) -> None:
        """Raises `Failed` unless copies are on the task that the environment is set to."""
        # One of two is not the task that a new environment is on.
        for task in drop_repeats([self.drawn[0], self.drawn[-1]]):
            self._begin_on(task)
            for name, env_copy in make_copies(self.env, failures=[]):
                message = f"{name} of an environment that was set to a task must be on it"
                require_same(
                    self._get(self.env), self._get(env_copy), f"{message}: {self._getter}()"
                )
                require_same_copy(self.subject, self.env, env_copy, f"on another task, {name}")
                self._begin_on(task)  # a reset may have drawn another

    def _begin_on(self, task: Any) -> None:
        self._set(self.env, copied(task))
        self.env.reset()

    def _get(self, env: Any) -> Any:
        """The current task of an environment; None if it does not tell."""
        return env.get_wrapper_attr(self._getter)() if self._can_get else None

    def _set(self, env: Any, task: Any) -> None:
        with require_untouched_random(f"{self._setter}()"):
            env.get_wrapper_attr(self._setter)(task)


def _instances(subject: Subject, env: Any) -> Iterator[tuple[str, Any]]:
    """The environment itself, and others: a new one, or copies of a given one."""
    yield "it", env
    if subject.given_env is not None:
        yield from make_copies(env, failures=[])
        return
    with subject.open() as new_env:
        yield "a new environment", new_env


def _require_effect(space: Any, recordings: list[list[Call]], way: str) -> None:
    """Raises `Failed` if all tasks lead to the same observations and rewards."""
    if len(recordings) == 1:
        return
    inner = [[_drop_task_names(call) for call in calls] for calls in recordings]
    varies = len({str(call.values["reward"]) for call in select_steps(recordings[0])}) > 1
    # Rewards that are all the same may still come later.
    if varies and not any(compare(inner[0], calls) for calls in inner[1:]):
        message = f"{len(recordings)} different tasks lead to the same observations and rewards"
        raise Failed(f"{message}: {way} has no effect")
    task_obs = space.spaces.get("task_obs") if isinstance(space, Dict) else None
    if task_obs is None or (isinstance(task_obs, Discrete) and task_obs.n == 1):
        return
    seen = [calls[0].values["observation"]["task_obs"] for calls in recordings]
    if all(same(seen[0], task_obs_b) for task_obs_b in seen):
        message = f"{len(recordings)} different tasks are observed as the same task_obs"
        raise Failed(f"{message}, {format_value(seen[0])}, although its space has several values")


def _drop_task_names(call: Call) -> Call:
    """The call without what names a task: infos and ``task_obs``."""
    obs = call.values["observation"]
    obs = obs["env_obs"] if isinstance(obs, dict) and "env_obs" in obs else obs
    return dataclasses.replace(call, values={**call.values, "observation": obs, "info": {}})


# The contract of `mtwrappers.MTEnv`.


def protocol(subject: Subject) -> None:
    """It is an `MTEnv`, and its observations are dicts of two."""
    env = subject.given_env
    require(isinstance(env, MTEnv), f"expected an MTEnv, got {type(env).__name__}")
    space = env.observation_space
    keys = {*space} - {"task_embedding"} if isinstance(space, Dict) else None
    message = f"observation_space must be a Dict of env_obs and task_obs, got {space}"
    require(keys == {"env_obs", "task_obs"}, message)


def unseeded(subject: Subject) -> None:
    """Without a task seed no task state is sampled."""
    if subject.given_env._task_seed is not None:
        raise Skipped("it has a task seed")
    with must_raise(SeedNotSetError, "sample_task_state() before a task seed was set"):
        subject.given_env.sample_task_state()


def seed_methods(subject: Subject) -> None:
    """``seed`` and ``seed_task`` return and keep their seed, and it determines the tasks."""
    env, seed = subject.given_env, subject.seed
    for name in ("seed", "seed_task"):
        require_same([seed], getattr(env, name)(seed), f"{name}({seed}) must return its seed")
    env.assert_env_seed_is_set()
    env.assert_task_seed_is_set()

    def draw_tasks() -> list[Any]:
        env.seed_task(seed)
        return [copied(env.sample_task_state()) for _ in range(_DRAWS)]

    drawn = draw_tasks()
    require_same(drawn, draw_tasks(), f"seed_task({seed}) must determine the tasks")
    if len(drop_repeats(drawn)) == 1:
        return  # it need not draw from the stream
    seeds = [seed, *(seed + k for k in OTHER_SEEDS)]
    seeds += [seed + k + i for k in LARGE_SEEDS for i in (0, 1)]
    seed_of_stream: dict[bytes, int] = {}
    for task_seed in seeds:
        env.seed_task(task_seed)
        first_seed = seed_of_stream.setdefault(pickle.dumps(env.np_random_task), task_seed)
        require(
            first_seed == task_seed,
            f"seed_task({first_seed}) and seed_task({task_seed}) lead to the same task stream: the "
            "seed is ignored, or a part of it",
        )


def task_options(subject: Subject) -> None:
    """``reset`` reads ``task_state`` or ``resample_task``, and steps observe the task."""
    env, seed = subject.given_env, subject.seed
    env.reset(seed=seed)
    state = copied(env.sample_task_state())
    obs, _ = env.reset(options={"task_state": copied(state)})
    require_same(env.get_task_obs(), obs["task_obs"], "task_obs must be get_task_obs()")
    for t, action in enumerate(subject.actions(env, subject.steps)):
        obs, _, terminated, truncated, _ = env.step(action)
        message = f"step {t}, task_obs must be get_task_obs()"
        require_same(env.get_task_obs(), obs["task_obs"], message)
        if terminated or truncated:
            break

    def resample(**kwargs: Any) -> Any:
        env.reset(options={"resample_task": True}, **kwargs)
        return copied(env.get_task_state())

    seeded_tasks = []
    for last_task_seed in range(seed, seed + _DRAWS):
        # Of a reset that draws before it seeds, the tasks of two seeds may happen to be the same.
        env.seed_task(last_task_seed)
        seeded_tasks.append(resample(seed=seed))
    distinct = drop_repeats(seeded_tasks)
    message = f"reset(seed={seed}, options={{'resample_task': True}}) must determine the task"
    require(len(distinct) == 1, f"{message}, got {distinct}")
    several = len(drop_repeats(copied(env.sample_task_state()) for _ in range(_DRAWS))) > 1
    drawn = drop_repeats(resample() for _ in range(_DRAWS))
    message = f"{_DRAWS} resets with options={{'resample_task': True}} must draw tasks, got only"
    require(len(drawn) > 1 or not several, f"{message} {drawn}")
    with must_raise(ValueError, "reset with both task_state and resample_task"):
        env.reset(options={"task_state": state, "resample_task": True})


# The set-task contract.


def methods(subject: Subject) -> None:
    """It has the methods of the contract."""
    for name in _SET_TASK_METHODS:
        require(
            callable(getattr(subject.given_env, name, None)),
            f"{subject.name} must have {name}(): pass an environment, not a constructor, and of "
            "wrappers without the method env.unwrapped",
        )


def sample_tasks(subject: Subject) -> None:
    """``sample_tasks(n)`` draws ``n`` small tasks, which the seed determines."""
    env, seed = subject.given_env, subject.seed

    def draw(n: int) -> Any:
        env.reset(seed=seed)
        return env.sample_tasks(n)

    tasks: list[Any] = copied(draw(_TASKS))
    message = f"sample_tasks({_TASKS}) must return a list of {_TASKS} tasks, got {tasks!r}"
    require(isinstance(tasks, list) and len(tasks) == _TASKS, message)
    require_same(tasks, draw(_TASKS), f"reset(seed={seed}) must determine the tasks drawn next")
    if num_tasks := getattr(env, "num_tasks", None):
        different = len({pickle.dumps(task) for task in draw(num_tasks)})
        message = f"a sweep of {num_tasks} tasks must not repeat any, got {different} different"
        require(different == num_tasks, message)
    size = max(len(pickle.dumps(task)) for task in tasks)
    message = f"a task must pickle to under {MAX_TASK_BYTES} bytes, got {size}"
    require(size < MAX_TASK_BYTES, message)
    env.set_task(copied(tasks[0]))
    with must_raise(ResetNeeded, "step() after set_task() without reset()"):
        env.step(subject.actions(env, 1)[0])


def copies(subject: Subject) -> None:
    """Copies and pickles are on the same task and run the same, and share no state."""
    env = subject.given_env
    task = copied(env.get_task())
    failures: list[str] = []
    for name, env_copy in make_copies(env, failures):
        require_same(task, env_copy.get_task(), f"{name} must keep the task")
        require_same_copy(subject, env, env_copy, name)
    require(not failures, f"it must be possible to copy it, got {'; '.join(failures)}")


def no_task(subject: Subject) -> None:
    """An object that is not a task is refused, and the current task stays."""
    env = subject.given_env
    present = copied(env.get_task())
    with must_raise(ValueError, "set_task of something that is not a task"):
        env.set_task(object())
    require_same(present, env.get_task(), "a task that is refused must leave the current one")
