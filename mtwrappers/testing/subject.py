"""The subject of checks: an environment or a vector environment, and its constructor."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.testing.recording import (
    Recording,
    compare,
    mode_of,
    record,
)
from mtwrappers.testing.report import RAISED, Difference, Failed, Skipped, said

# The modules that register ids without a module prefix.
_MODULES = {"Meta-World": "metaworld", "mtwrappers": "mtwrappers"}
# The seconds after which the first recording stops, whatever its number of steps.
_SECONDS = 2.0
# The arguments that the checks may pass to constructors.
_OF_ENVS = frozenset({"render_mode"})
_OF_VECTORS = frozenset({"render_mode", "num_envs", "autoreset_mode"})


@dataclass
class Subject:
    """An environment or a vector environment under test.

    Attributes:
        make: Makes a new one, with any of ``takes`` as arguments.
        name: What reports call it.
        is_vector: Whether it is a vector environment.
        takes: Which arguments of those that the checks may pass its constructor knows.
        seed: The seed of resets.
        steps: How many steps a recording has at most.
        num_envs: How many sub-environments are made of an environment.
        ignore: The names of infos that are not compared, such as ``"info.action"``.
        given: The one environment to check, if no other is to be made; it stays open.
        makers: The constructors of the sub-environments of ``given``.
        mode: The autoreset mode that ``given`` was asked for.
        kept: Recordings and other values that several checks use.
        settings: The settings of the process before anything was made.
    """

    make: Callable[..., Any]
    name: str
    is_vector: bool
    takes: frozenset[str] = frozenset()
    seed: int = 0
    steps: int = 1200
    num_envs: int = 3
    ignore: frozenset[str] = frozenset()
    given: Any = None
    makers: tuple[Callable[[], Any], ...] = ()
    mode: AutoresetMode = AutoresetMode.NEXT_STEP
    kept: dict[Any, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def open(self, **kwargs: Any) -> Iterator[Any]:
        """A new environment, closed at the end; or the given one."""
        if self.given is not None:
            yield self.given
            return
        with closing(self.make(**kwargs)) as env:
            yield env

    @functools.cached_property
    def first(self) -> Recording:
        """The first recording, to which others are compared."""
        seconds = _SECONDS if self.given is None else math.inf
        with self.open() as env:
            return record(env, self.actions(env), self.seed, seconds=seconds)

    @functools.cached_property
    def spaces(self) -> dict[str, Any]:
        """Copies of the spaces of a new environment, by the names of its attributes."""
        names = ["observation_space", "action_space"]
        names += [f"single_{name}" for name in names] if self.is_vector else []
        with self.open() as env:
            return {name: copy.deepcopy(getattr(env, name)) for name in names}

    @functools.cached_property
    def again(self) -> Recording:
        """The same recording of a new environment."""
        with self.open() as env:
            return record(env, self.actions(env, self.length), self.seed)

    @functools.cached_property
    def reused(self) -> dict[str, Recording]:
        """The same recording of a used environment, by how its reset found it."""
        found: dict[str, Recording] = {}
        with self.open() as env:
            if learns(env):
                return found
            actions, seed = self.actions(env, self.length), self.seed + 1000
            record(env, actions[:20], seed)
            found["other episodes"] = record(env, actions, self.seed)
            env.reset(seed=seed)
            for action in actions:
                _, _, terminated, truncated, _ = env.step(copy.deepcopy(action))
                if np.any(np.logical_or(terminated, truncated)):
                    found["an episode has ended"] = record(env, actions, self.seed)
                    break
        return found

    @functools.cached_property
    def modes(self) -> list[tuple[Any, Recording]]:
        """A recording in each autoreset mode that the vector environment has."""
        with self.open() as envs:
            found = [(mode_of(envs), self.first)]
        for other in AutoresetMode if "autoreset_mode" in self.takes else ():
            if other is found[0][0]:
                continue
            try:
                envs = self.make(autoreset_mode=other)
            except Exception:  # it need not have every mode
                continue
            with closing(envs):
                found.append((other, record(envs, self.actions(envs, self.length), self.seed)))
        return found

    @property
    def length(self) -> int:
        """The number of steps of the first recording."""
        return len(self.first.steps)

    def actions(self, env: Any, steps: int | None = None) -> list[Any]:
        """Random actions for an environment, always the same."""
        space = copy.deepcopy(getattr(env, "action_space", None))
        if not isinstance(space, gymnasium.Space):
            raise Failed(f"its action_space must be a gymnasium.Space, got {space!r}")
        space.seed(self.seed)
        return [space.sample() for _ in range(self.steps if steps is None else steps)]

    def differ(
        self, expected: Recording, actual: Recording, vector: bool | None = None
    ) -> Difference | None:
        """Returns the first difference between two recordings, except in ignored infos.

        Args:
            expected: A recording.
            actual: Another one.
            vector: Whether they are of a vector environment, by default as the subject is.
        """
        return compare(expected, actual, self.is_vector if vector is None else vector, self.ignore)

    def require_types(self) -> None:
        """Raises `Skipped` if a step's reward is several numbers, or infos are no dict."""
        for call in self.first.calls:
            several = np.ndim(call.values.get("reward", 0.0)) > self.is_vector
            if several or not isinstance(call.values["info"], dict):
                raise Skipped("see 'types'")

    def require_repeatable(self, reused: bool = False) -> None:
        """Raises `Skipped` if two recordings with one seed differ, so that no others can agree.

        Args:
            reused: Whether those of used environments must be equal, too.
        """
        self.require_types()
        if not self.repeats or (reused and not self._repeats_reused):
            raise Skipped("see 'seed repeats'")

    @functools.cached_property
    def repeats(self) -> bool:
        """Whether two recordings with one seed are equal."""
        return self._all_equal(lambda: [self.again])

    @functools.cached_property
    def _repeats_reused(self) -> bool:
        return self._all_equal(lambda: list(self.reused.values()))

    def _all_equal(self, others: Callable[[], list[Recording]]) -> bool:
        try:
            return not any(self.differ(self.first, each) for each in others())
        except RAISED:
            return False


def generators(env: Any) -> list[Any]:
    """Returns ``np_random`` of an environment, or of all in a batch; None if not created yet."""
    base = env.unwrapped
    if isinstance(base, VectorEnv) and hasattr(base, "get_attr"):
        try:
            return list(base.get_attr("_np_random"))
        except Exception:  # its environments need have no such attribute
            return []
    return [getattr(base, "_np_random", None)]


def generator_states(env: Any) -> list[tuple[Any, Any]]:
    """The generators among an environment's attributes, with copies of their states."""
    own = {**getattr(env.unwrapped, "__dict__", {}), "_np_random": None}
    states: list[tuple[Any, Any]] = []
    for each in (*generators(env), *own.values()):
        if isinstance(each, random.Random):
            states.append((each, each.getstate()))
        elif isinstance(each, np.random.RandomState):
            states.append((each, copy.deepcopy(each.get_state(legacy=False))))
        elif isinstance(each, np.random.Generator):
            states.append((each, copy.deepcopy(each.bit_generator.state)))
    return states


def learns(env: Any) -> bool:
    """Whether wrappers keep running statistics, which steps change and resets keep."""
    return any(hasattr(each, name) for each in chain(env) for name in ("return_rms", "obs_rms"))


def chain(env: Any) -> Iterator[Any]:
    """The wrappers of an environment and itself, from the outside."""
    while env is not None:
        yield env
        env = getattr(env, "__dict__", {}).get("env")


def subject_of(
    given: Any, kwargs: Mapping[str, Any], vector: bool | None, num_envs: int | None
) -> Subject:
    """The subject for an id, a constructor or an environment.

    Raises:
        TypeError: If it is none of those.
        Failed: If nothing can be made of it.
    """
    if isinstance(given, str):
        make, name, takes = _of_id(given, kwargs, vector, num_envs)
    elif isinstance(given, (gymnasium.Env, VectorEnv)):
        make, name, takes = _of_instance(given), type(given).__name__, frozenset[str]()
    elif callable(given):
        make = functools.partial(given, **kwargs) if kwargs else given
        name = getattr(given, "__name__", None) or repr(given)
        takes = _parameters(given) - kwargs.keys()
    else:
        raise TypeError(
            "expected an id, an environment, a vector environment or a function without "
            f"arguments that makes one, got {given!r}"
        )
    made: Any = _called(make)
    try:
        if not isinstance(made, (gymnasium.Env, VectorEnv)):
            raise TypeError(f"{name} must make a gymnasium.Env or VectorEnv, got {made!r}")
        is_vector = isinstance(made, VectorEnv)
        if vector is not None and vector != is_vector:
            kind = "a vector environment" if vector else "an environment"
            raise TypeError(f"{name} must make {kind}, got {made!r}")
        n: int = getattr(made, "num_envs", 1) if is_vector else (num_envs or 3)
    finally:
        with suppress(Exception):  # it is a check of its own
            made.close()
    takes &= _OF_VECTORS if is_vector else _OF_ENVS
    return Subject(make, name, is_vector, takes, num_envs=n)


def _called(make: Callable[..., Any]) -> Any:
    try:
        return make()
    except RAISED as exc:
        raise Failed(f"it cannot be made: {said(exc)}") from exc


def _of_id(
    env_id: str, kwargs: Mapping[str, Any], vector: bool | None, num_envs: int | None
) -> tuple[Callable[..., Any], str, frozenset[str]]:
    module, _, name = env_id.rpartition(":")
    module = module or _MODULES.get(name.partition("/")[0], "")
    if module:
        try:
            importlib.import_module(module)
        except ImportError:
            raise
        except RAISED as exc:  # an import runs whatever is written there
            raise Failed(f"{module} cannot be imported: {said(exc)}") from exc
    spec = gymnasium.spec(name)
    if vector is None:
        vector = spec.entry_point is None
    if not vector:
        imported = f"{module}:{name}" if module else name  # in worker processes, too
        make: Callable[..., Any] = functools.partial(
            gymnasium.make, imported, disable_env_checker=True, **kwargs
        )
        return make, name, _OF_ENVS - kwargs.keys()
    make = functools.partial(_make_vec, spec, dict(kwargs), num_envs=num_envs or 3)
    if num_envs is None:
        try:
            make().close()
        except Exception:  # of some there is no other number than their default
            make = functools.partial(_make_vec, spec, dict(kwargs), num_envs=1)
    return make, name, _OF_VECTORS - kwargs.keys()


def _make_vec(
    spec: Any, kwargs: dict[str, Any], *, num_envs: int, autoreset_mode: Any = None, **more: Any
) -> Any:
    kwargs = {**kwargs, **more}
    if autoreset_mode is not None:
        if spec.vector_entry_point is None:
            kwargs = {**kwargs, "vector_kwargs": {"autoreset_mode": autoreset_mode}}
        else:
            kwargs = {**kwargs, "autoreset_mode": autoreset_mode}
    return gymnasium.make_vec(spec.id, num_envs=num_envs, **kwargs)


def _of_instance(env: Any) -> Callable[..., Any]:
    try:
        data = cloudpickle.dumps(env)
        cloudpickle.loads(data).close()
    except Exception as exc:
        raise TypeError(
            f"{env} cannot be copied ({type(exc).__name__}: {exc}): give the function that makes it"
        ) from exc
    return functools.partial(cloudpickle.loads, data)


def _parameters(make: Callable[..., Any]) -> frozenset[str]:
    """Returns the arguments of a constructor that the checks may pass."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):  # it has no signature
        return frozenset()
    return _OF_VECTORS & parameters.keys()
