"""Task samplers: batches of environment updates, drawn from a distribution of tasks.

The classes are garage's (https://github.com/rlworkgroup/garage). Each has its own random stream, so
the same ``seed`` always gives the same tasks.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    check_callable,
    check_choice,
    check_env,
    check_flag,
    check_list,
    check_makers,
    positive,
)
from mtwrappers.common.types import State
from mtwrappers.metaworld.set_task_env import MetaWorldSetTaskEnv
from mtwrappers.state.env_state import get_state, set_state
from mtwrappers.state.plain_data import make_generator
from mtwrappers.state.registry import require_names
from mtwrappers.tasks.draws import TaskDraws, digest_tasks
from mtwrappers.tasks.updates import (
    Env,
    EnvUpdate,
    ExistingEnvUpdate,
    NewEnvUpdate,
    SetTaskUpdate,
    copy_env,
)


def _draw(n: int, available: int, with_replacement: bool, rng: Generator) -> list[int]:
    """Draws ``n`` of ``available`` indices; without replacement, in sweeps over all of them."""
    if check_flag(with_replacement, "with_replacement"):
        drawn = rng.integers(available, size=n)
    else:
        sweeps = math.ceil(n / available)
        drawn = np.concatenate([rng.permutation(available) for _ in range(sweeps)])[:n]
    return [int(index) for index in drawn]


class TaskSampler(abc.ABC):
    """Draws batches of tasks, as environment updates.

    Attributes:
        n_tasks: The number of tasks, or ``None`` if it is unknown or unbounded.
    """

    n_tasks: int | None = None
    _state_names: tuple[str, ...] = ("rng",)

    def __init__(self, seed: int | None = None) -> None:
        self._rng = seeding.task_generator(seeding.chosen_seed(seed))

    def get_state(self) -> State:
        """The state that determines the next `sample`, for `save_checkpoint`."""
        return {"rng": dict(self._rng.bit_generator.state)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        Raises:
            ValueError: If ``state`` is malformed.
        """
        rng = require_names(state, self._state_names, self)["rng"]
        self._rng = make_generator(rng, "rng of the state")

    @abc.abstractmethod
    def sample(self, n_tasks: int, with_replacement: bool = False) -> list[EnvUpdate]:
        """Draws ``n_tasks`` updates.

        Args:
            n_tasks: The number of updates.
            with_replacement: Whether a task may repeat before all others were drawn.

        Raises:
            TypeError: If ``with_replacement`` is not a bool.
            ValueError: If ``n_tasks`` is not a positive integer.
        """


class ConstructEnvsSampler(TaskSampler):
    """Draws from environments with one constructor per task.

    Args:
        env_constructors: One constructor per task.
        seed: Determines the tasks.

    Raises:
        TypeError: If a constructor is not callable.
        ValueError: If there are no constructors.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import ConstructEnvsSampler
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 8.0, 10.0)]
    >>> sampler = ConstructEnvsSampler(makers, seed=0)
    >>> updates = sampler.sample(2)
    >>> env = updates[0]()
    >>> env = updates[1](env)  # closes the environment that there was
    >>> sampler.n_tasks, env.unwrapped.g
    (3, 10.0)
    """

    def __init__(
        self, env_constructors: Sequence[Callable[[], Env]], *, seed: int | None = None
    ) -> None:
        makers = check_makers(env_constructors, "env_constructors")
        super().__init__(seed)
        self._updates = [NewEnvUpdate(make) for make in makers]
        self.n_tasks = len(makers)

    def sample(self, n_tasks: int, with_replacement: bool = False) -> list[EnvUpdate]:
        n = positive(n_tasks, "n_tasks")
        indices = _draw(n, len(self._updates), with_replacement, self._rng)
        return [self._updates[i] for i in indices]


class EnvPoolSampler(TaskSampler):
    """Draws from a pool of existing environments.

    Args:
        envs: The pool.
        seed: Determines the tasks.

    Raises:
        TypeError: If a member is not an environment.
        ValueError: If the pool is empty, or an environment is in it twice.

    >>> import gymnasium
    >>> from mtwrappers import EnvPoolSampler
    >>> pool = [gymnasium.make("Pendulum-v1", g=g) for g in (2.0, 8.0, 10.0)]
    >>> updates = EnvPoolSampler(pool, seed=0).sample(2)
    >>> all(update() in pool for update in updates)
    True
    """

    def __init__(self, envs: Sequence[Env], *, seed: int | None = None) -> None:
        self._envs = check_list(envs, "envs", "environment")
        places: dict[int, int] = {}
        for i, env in enumerate(self._envs):
            check_env(env, f"environment {i} of envs")
            if (first := places.setdefault(id(env.unwrapped), i)) != i:
                raise ValueError(
                    f"environments {first} and {i} of envs are the same environment, which cannot "
                    "be in two places: make another one"
                )
        super().__init__(seed)
        self.n_tasks = len(self._envs)

    def sample(self, n_tasks: int, with_replacement: bool = False) -> list[EnvUpdate]:
        """Draws updates that return members of the pool.

        Raises:
            ValueError: If ``n_tasks`` is larger than the pool, or ``with_replacement`` is set,
                because one environment cannot be in two places.
        """
        n = positive(n_tasks, "n_tasks")
        if check_flag(with_replacement, "with_replacement"):
            raise ValueError("a pool of environments cannot be sampled with replacement")
        if n > len(self._envs):
            raise ValueError(
                f"the pool holds {len(self._envs)} environments, got n_tasks={n}; grow_pool({n}) "
                "copies random members"
            )
        drawn = _draw(n, len(self._envs), False, self._rng)
        return [ExistingEnvUpdate(self._envs[i]) for i in drawn]

    def grow_pool(self, new_size: int) -> None:
        """Copies random members until the pool holds ``new_size``; a smaller size does nothing.

        A bare Sawyer environment, which `copy.deepcopy` cannot copy, is rebuilt on its task.

        Raises:
            TypeError: If a member cannot be copied.
            ValueError: If ``new_size`` is not a positive integer.
        """
        missing = positive(new_size, "new_size") - len(self._envs)
        if missing > 0:
            drawn = _draw(missing, len(self._envs), False, self._rng)
            self._envs += [copy_env(self._envs[i]) for i in drawn]
            self.n_tasks = len(self._envs)


class SetTaskSampler(TaskSampler):
    """Draws tasks from an environment that has ``sample_tasks`` and ``set_task``.

    Args:
        env_constructor: Makes such an environment; it is part of every update.
        env: The environment to draw from; one is constructed by default.
        wrapper: ``wrapper(env, task) -> env`` is applied to new environments.
        seed: Determines the tasks. There is a warning if ``sample_tasks`` draws other tasks after
            the same seed.

    Raises:
        TypeError: If an argument has the wrong type, or the environment has no ``sample_tasks``.

    >>> from mtwrappers import PointGoalEnv, SetTaskSampler
    >>> sampler = SetTaskSampler(PointGoalEnv, seed=0)
    >>> first, second = sampler.sample(2)
    >>> env = first()
    >>> second(env) is env  # the same environment, on another goal
    True
    """

    _state_names = ("rng", "env")

    def __init__(
        self,
        env_constructor: Callable[[], Env],
        *,
        env: Env | None = None,
        wrapper: Callable[[Env, Any], Env] | None = None,
        seed: int | None = None,
    ) -> None:
        self._env_constructor = check_callable(env_constructor, "env_constructor")
        self._wrapper = None if wrapper is None else check_callable(wrapper, "wrapper")
        source = env_constructor() if env is None else env
        self._env: Env = check_env(source, "env", "sample_tasks(n)")
        super().__init__(seed)
        if self._env.has_wrapper_attr("num_tasks"):
            self.n_tasks = int(self._env.get_wrapper_attr("num_tasks"))
        make_env = env_constructor if env is None else functools.partial(copy_env, env)
        self._draws = TaskDraws(
            self._env,
            make_env,
            None if seed is None else seeding.check_seed(seed),
            "or make SetTaskUpdates with tasks of your own",
        )

    def get_state(self) -> State:
        return {**super().get_state(), "env": get_state(self._env)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        set_state(self._env, state["env"])

    def sample(self, n_tasks: int, with_replacement: bool = False) -> list[EnvUpdate]:
        n = positive(n_tasks, "n_tasks")
        if check_flag(with_replacement, "with_replacement") and self.n_tasks:
            all_tasks = self._draw_all_tasks(self.n_tasks)
            tasks = [all_tasks[i] for i in _draw(n, len(all_tasks), True, self._rng)]
        else:
            tasks = self._draws(n)
        return self._updates_to(tasks)

    def _draw_all_tasks(self, num_tasks: int) -> list[Any]:
        """Draws each task of an environment that draws ``num_tasks`` of them in sweeps."""
        tasks = {digest_tasks([task]): task for task in self._draws(num_tasks)}
        if len(tasks) < num_tasks:
            # The draws began in the middle of a sweep; these include the rest of the next one.
            tasks |= {digest_tasks([task]): task for task in self._draws(num_tasks)}
        return list(tasks.values())

    def _updates_to(self, tasks: Sequence[Any]) -> list[EnvUpdate]:
        return [SetTaskUpdate(self._env_constructor, task, self._wrapper) for task in tasks]


class MetaWorldTaskSampler(SetTaskSampler):
    """Draws the tasks of a Meta-World benchmark.

    It draws as `MetaWorldSetTaskEnv.sample_tasks` does: in rounds, each with a task of every class
    in a random order. The tasks of a class are drawn without replacement, unless
    ``with_replacement`` is set. The updates set tasks on `MetaWorldSetTaskEnv`.

    Args:
        benchmark: A `metaworld.Benchmark`, or the name of one.
        kind: ``"train"`` or ``"test"``.
        wrapper: ``wrapper(env, task) -> env`` is applied to new environments, and again whenever
            the class changes; ``env`` is a `MetaWorldSetTaskEnv` on the dict ``task``, and
            ``task["inner"]`` is the `metaworld.Task`.
        add_env_onehot: Whether to append a one-hot of the class, in `MetaWorldSetTaskEnv`'s order.
        seed: Determines the tasks.

    Raises:
        TypeError: If there is no benchmark, or the wrapper is not callable.
        ValueError: If ``kind`` is something else, or `MetaWorldSetTaskEnv` raises it.

    >>> from mtwrappers import MetaWorldTaskSampler
    >>> sampler = MetaWorldTaskSampler("ML10", "train", seed=0)
    >>> updates = sampler.sample(10)  # a task of each class
    >>> len({update.task["inner"].env_name for update in updates})
    10
    """

    def __init__(
        self,
        benchmark: Any,
        kind: str,
        wrapper: Callable[[Env, Any], Env] | None = None,
        add_env_onehot: bool = False,
        *,
        seed: int | None = None,
    ) -> None:
        check_choice(kind, ("train", "test"), "kind")
        if benchmark is None:
            raise TypeError("benchmark must be a metaworld.Benchmark or its name, got None")
        # It is never stepped, so it builds no simulation.
        env = MetaWorldSetTaskEnv(benchmark, kind, None, add_env_onehot)  # type: ignore[arg-type]
        env.seed_tasks(seed)
        super().__init__(MetaWorldSetTaskEnv, env=env, wrapper=wrapper)

    def sample(self, n_tasks: int, with_replacement: bool = False) -> list[EnvUpdate]:
        sample: Any = self._env.get_wrapper_attr("sample_tasks")
        return self._updates_to(sample(positive(n_tasks, "n_tasks"), with_replacement))
