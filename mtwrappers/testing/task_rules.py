"""Checks of environments with tasks: of the contracts, and between instances given tasks in turn.

An environment has tasks if it has the methods of `mtwrappers.MTEnv` or of the set-task contract.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np
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
    iterate_wrappers,
    must_raise,
    require,
    require_no_running_statistics,
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
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.multi_env import MultiEnvWrapper

# The methods that read, set and draw tasks.
_MT_METHODS = ("get_task_state", "set_task_state", "sample_task_state")
_SET_TASK_METHODS = ("get_task", "set_task", "sample_tasks")
# How many tasks are checked one by one, how many are drawn to find different ones, and how many at
# most to find repeated ones.
_TASKS, _DRAWS, _MAX_SWEEP = 3, 20, 1000
# How many steps are compared on each task.
_STEPS = 100
# The keys of dict observations that name the task.
_TASK_KEYS = ("task_obs", "task_onehot", "task_embedding")
# The calls that are not to draw from global generators, besides those that are checked alone.
_METHODS = "a method of seeds or tasks, or reset with options,"


# Any environment with tasks: the same task, given to another instance in another way.


def tasks(subject: Subject) -> str:
    """Each task determines what is returned, whatever instance is given it, and in what way."""
    subject.require_repeatable()
    with subject.open() as env, require_untouched_random(_METHODS):
        runs = _TaskRuns(subject, env)
        require_no_running_statistics(env)
        _, info = env.reset(seed=subject.seed)
        if subject.given_env is None and "phase" in info:
            raise Skipped("the phases of a stream draw its tasks")
        runs.drawn = runs.sample(env)
        runs.require_several()
        runs.require_sweeps()
        expected = [runs.record(env, task) for task in runs.drawn]
        few = list(zip(runs.drawn, expected, strict=True))[:_TASKS]
        for name, instance in _instances(subject, env):
            for way in runs.ways:
                for task, calls in reversed(few):
                    if difference := compare(calls, runs.record(instance, task, way)):
                        message = f"on the same task, {name} returns something else after {way}"
                        raise Failed(f"{message}: {difference}")
            runs.require_same_sample(instance, name)
        runs.require_calls_to_differ()
        notes = [runs.note, runs.require_effect()]
        _require_task_obs(env.observation_space, expected)
        for task, calls in few:
            runs.require_copied_task(task, calls)
        runs.require_own_streams()
        runs.require_copies_on_task()
        with suppress(Skipped):
            compare_task_ids(env.observation_space, [("", calls) for calls in expected])
        return "; ".join(note for note in notes if note)


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
        require(
            len(self.drawn) > 1 or self._num_tasks == 1,
            f"{self._sampler}({_DRAWS}) returns the same task {_DRAWS} times, "
            f"{format_value(self.drawn[0])}: draw each from self.np_random, or set num_tasks = 1",
        )

    def require_calls_to_differ(self) -> None:
        """Raises `Failed` if each call of ``sample_tasks`` begins with one of several tasks."""
        if self._is_mt or len(self.drawn) == 1:
            return
        draw = self.env.get_wrapper_attr(self._sampler)
        drawn_alone = drop_repeats(copied(draw(1)[0]) for _ in range(_DRAWS))
        require(
            len(drawn_alone) > 1,
            f"{self._sampler}({_DRAWS}) returns different tasks, but {_DRAWS} calls of "
            f"{self._sampler}(1) the same task, {format_value(drawn_alone[0])}: each call must go "
            "on with a stream that only a seed begins anew, such as self.np_random",
        )

    def require_sweeps(self) -> None:
        """Raises `Failed` if a draw of ``num_tasks`` tasks after a seed repeats any.

        `SetTaskSampler` draws all tasks in this way, to draw with replacement from them.
        """
        num_tasks = self._num_tasks
        if self._is_mt or not isinstance(num_tasks, (int, np.integer)) or num_tasks < 1:
            return
        n = min(int(num_tasks), _MAX_SWEEP)
        self.env.reset(seed=self.subject.seed)
        drawn = self.env.get_wrapper_attr(self._sampler)(n)
        different = len({pickle.dumps(task) for task in drawn})
        require(
            different == n,
            f"num_tasks is {num_tasks}, so that {self._sampler}({n}) after a seed must repeat no "
            f"task, got {different} different ones: draw without replacement, or leave out "
            "num_tasks",
        )

    def require_effect(self) -> str:
        """Raises `Failed` if no task has an effect; returns a note if that cannot be decided."""
        first_task, *other_tasks = self.drawn
        if not other_tasks:
            return ""
        # Most tasks differ soon. Of others, as many steps are compared as the caller asks for.
        for steps in sorted({_STEPS, max(_STEPS, self.subject.length)}):
            actions = self.subject.actions(self.env, steps)
            first = self._record_effect(first_task, actions)
            for task in other_tasks:
                if compare(*self._drop_task_names(first, self._record_effect(task, actions))):
                    return ""
        message = (
            f"{len(self.drawn)} different tasks lead to the same observations and rewards in "
            f"{steps} steps"
        )
        # A reward that depends on the action alone, such as its cost, says nothing of the tasks:
        # what depends on them may come later, as at a goal.
        calls = self._record_effect(first_task, actions[:1] * steps)
        if len({str(call.values["reward"]) for call in select_steps(calls)}) == 1:
            return f"{message}, where only the action changes the reward: see that they differ"
        if isinstance(self.env.unwrapped, MultiEnvWrapper):
            raise Failed(f"{message}: their constructors make the same environment")
        raise Failed(
            f"{message}: {self.ways[0]} may have no effect; if it shows only later, pass more steps"
        )

    def _record_effect(self, task: Any, actions: list[Any]) -> list[Call]:
        """Records episodes on a task, each begun with a seed that does not depend on the task."""

        def begin(seed: int) -> Any:
            if not self._is_mt:
                self._set(self.env, copied(task))
                return self.env.reset(seed=seed)
            self._begin_on(self.drawn[-1])
            self.env.reset(seed=seed)
            if isinstance(self.env.unwrapped, MultiEnvWrapper):
                # Each of its environments has a stream of its own: they differ by their seeds.
                self._begin_on(task)
                self.env.unwrapped.active_env.reset(seed=seed)
            self._set(self.env, copied(task))
            return self.env.reset()

        return self.subject.record(_SeededEpisodes(self.env, begin, self.subject.seed), actions)

    def _drop_task_names(self, *recordings: list[Call]) -> list[list[Call]]:
        """Recordings without what names a task: infos, and the task in observations."""
        env_recordings = [[self._drop_appended(call) for call in calls] for calls in recordings]
        size = _find_onehot_size([call for calls in env_recordings for call in calls])
        return [[_drop_infos_and_end(call, size) for call in calls] for calls in env_recordings]

    def _drop_appended(self, call: Call) -> Call:
        """The call without the task in a dict, or after the entries of a flat observation."""
        obs = call.values["observation"]
        if isinstance(obs, dict):
            obs = {key: value for key, value in obs.items() if key not in _TASK_KEYS}
            obs = obs["env_obs"] if [*obs] == ["env_obs"] else obs
        elif self._env_obs_size is not None:
            obs = obs[: self._env_obs_size]
        return dataclasses.replace(call, values={**call.values, "observation": obs})

    @functools.cached_property
    def _env_obs_size(self) -> int | None:
        """The number of entries of ``env_obs`` in flat observations; None in others."""
        for wrapper in iterate_wrappers(self.env):
            if isinstance(wrapper, FlattenMTEnv) and wrapper.appends_entries:
                if self.env.observation_space.shape != wrapper.observation_space.shape:
                    return None  # another wrapper changes them
                spaces: Any = wrapper.env.observation_space
                return int(spaces["env_obs"].shape[0])
        return None

    @property
    def _num_tasks(self) -> Any:
        """``num_tasks`` of the environment, or None."""
        has = self.env.has_wrapper_attr("num_tasks")
        return self.env.get_wrapper_attr("num_tasks") if has else None

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


class _SeededEpisodes:
    """An environment each of whose episodes begins with the next seed.

    Args:
        env: The environment.
        begin: Begins an episode with a seed.
        seed: The first seed.
    """

    def __init__(self, env: Any, begin: Callable[[int], Any], seed: int) -> None:
        self.step = env.step
        self._begin, self._seeds = begin, itertools.count(seed)

    def reset(self, *, seed: int | None = None) -> Any:
        return self._begin(next(self._seeds))


def _find_onehot_size(calls: list[Call]) -> int:
    """The length of the one-hot of ``info["task_id"]`` at the end of observations, or 0."""
    pairs = [(call.values["observation"], call.values["info"].get("task_id")) for call in calls]
    if not all(isinstance(obs, np.ndarray) and obs.ndim == 1 for obs, _ in pairs):
        return 0
    if not all(isinstance(task_id, (int, np.integer)) for _, task_id in pairs):
        return 0
    for size in range(max(task_id for _, task_id in pairs) + 1, len(pairs[0][0]) + 1):
        if all(np.array_equal(obs[-size:], np.arange(size) == task_id) for obs, task_id in pairs):
            return size
    return 0


def _drop_infos_and_end(call: Call, size: int) -> Call:
    """The call without infos, and without as many entries at the end of its observation."""
    obs = call.values["observation"]
    obs = obs[: len(obs) - size] if size else obs
    return dataclasses.replace(call, values={**call.values, "observation": obs, "info": {}})


def _require_task_obs(space: Any, recordings: list[list[Call]]) -> None:
    """Raises `Failed` if all tasks are observed as the same ``task_obs``."""
    task_obs = space.spaces.get("task_obs") if isinstance(space, Dict) else None
    is_single = isinstance(task_obs, Discrete) and task_obs.n == 1
    if len(recordings) == 1 or task_obs is None or is_single:
        return
    seen = [calls[0].values["observation"]["task_obs"] for calls in recordings]
    if all(same(seen[0], task_obs_b) for task_obs_b in seen):
        message = f"{len(recordings)} different tasks are observed as the same task_obs"
        raise Failed(f"{message}, {format_value(seen[0])}, although its space has several values")


# The contract of `mtwrappers.MTEnv`.


def protocol(subject: Subject) -> None:
    """It is an `MTEnv`, and its observations are dicts of two."""
    env = subject.given_env
    if not isinstance(env, MTEnv):
        hint = _explain_call(env)
        if isinstance(env, gymnasium.Env) and isinstance(env.unwrapped, MTEnv):
            hint = ": pass env.unwrapped, or check a function that makes it with check_vector_env"
        raise Failed(f"expected an MTEnv, got {type(env).__name__}{hint}")
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
    """It is an environment, which has the methods of the contract itself or in its wrappers."""
    env = subject.given_env
    if not isinstance(env, gymnasium.Env):
        name = type(env).__name__
        raise Failed(f"expected a gymnasium.Env, got {name}{_explain_call(env)}")
    for name in _SET_TASK_METHODS[1:]:  # what does not say its task can be set to it
        require(env.has_wrapper_attr(name), f"{subject.name} must have {name}()")


def _explain_call(env: Any) -> str:
    """The way out if a constructor was passed instead of an environment."""
    return ": call it, and pass the environment that it makes" if callable(env) else ""
