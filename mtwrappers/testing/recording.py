"""Recordings of everything that a checked environment returns, and where two of them differ."""

from __future__ import annotations

import copy
import functools
import math
import re
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate

from mtwrappers.common.checks import OLD_GYM_HINT
from mtwrappers.common.errors import full_message
from mtwrappers.state.plain_data import copied, copied_if_possible
from mtwrappers.testing.processes import NewProcess

STEP = ("observation", "reward", "terminated", "truncated", "info")
RESET = ("observation", "info")
FLAGS = ("terminated", "truncated")
# The errors that an environment may raise; `sys.exit` must not end a check.
RAISED = (Exception, SystemExit)

_ARRAYS = (np.ndarray, np.generic)
# The wall-clock time of episode statistics.
_TIME = "info.episode.t"
# The seconds after which the first recording stops, whatever its number of steps.
_SECONDS = 2.0
# How many steps are taken before a run that must not depend on them, how many different last
# actions are tried, and how many steps are compared after each of them.
STEPS_BEFORE, NUM_LAST_ACTIONS, STEPS_AFTER = 20, 4, 10


# The outcome of a check.


class Failed(Exception):  # noqa: N818 (an outcome)
    """Raised by a check that finds a fault."""


class Skipped(Exception):  # noqa: N818 (an outcome)
    """Raised by a check that cannot run here."""


def require(condition: Any, message: str) -> None:
    """Raises `Failed` unless a condition holds."""
    if not condition:
        raise Failed(message)


@contextmanager
def must_raise(expected: type[BaseException], action: str) -> Iterator[None]:
    """Raises `Failed` unless the block raises ``expected``."""
    try:
        yield
    except expected:
        return
    except RAISED as exc:
        raise Failed(
            f"{action} must raise {expected.__name__}, raised {describe_error(exc)}"
        ) from exc
    raise Failed(f"{action} must raise {expected.__name__}, raised nothing")


def describe_error(exc: BaseException) -> str:
    """Describes an exception and the line that raised it."""
    text = full_message(exc)
    if isinstance(exc, Failed):
        return text
    kind = type(exc).__name__
    text = f"{kind} without a message" if text == kind else f"{kind}: {text}"
    frames = traceback.extract_tb(exc.__traceback__)
    if len(frames) < 2:  # the call itself, which is ours
        return text
    file, line, function, _ = frames[-1]
    return f"{text} ({Path(file).name}, line {line}, in {function})"


# Differences.


class _NoKey:
    def __repr__(self) -> str:
        return "no such key"


# Stands for a value that is not there.
NO_KEY: Any = _NoKey()


def find_difference(
    expected: Any, actual: Any, place: str = "", *, loose: bool = False
) -> str | None:
    """Describes where two values first differ; None if their types and bits are equal.

    All NaNs are equal, and objects without a notion of equality.

    Args:
        expected: A value.
        actual: Another one.
        place: Where in a larger value they are.
        loose: Whether numbers may have other types, and arrays another dtype, as in a batch.

    >>> import numpy as np
    >>> from mtwrappers.testing.recording import find_difference
    >>> find_difference({"reward": 1.0, "info": {}}, {"reward": 1.0, "info": {"a": [2]}})
    "info['a']: expected no such key, got list [2]"
    >>> find_difference(np.zeros(2), np.array([0.0, -0.0]), "observation")
    'observation[1]: expected 0.0, got -0.0'
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _find_in_dicts(expected, actual, place, loose)
    same_type = type(expected) is type(actual)
    sequences = isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple))
    if sequences and (same_type or loose):
        return _find_in_sequences(expected, actual, place, loose)
    numbers = (*_ARRAYS, int, float)
    if not same_type and not (
        loose and isinstance(expected, numbers) and isinstance(actual, numbers)
    ):
        return describe_difference(place, _with_type(expected), _with_type(actual))
    if isinstance(expected, _ARRAYS) or isinstance(actual, _ARRAYS):
        return _find_in_arrays(np.asarray(expected), np.asarray(actual), place, loose)
    if _are_equal(expected, actual):
        return None
    return describe_difference(place, format_value(expected), format_value(actual))


def _find_in_dicts(
    expected: dict[Any, Any], actual: dict[Any, Any], place: str, loose: bool
) -> str | None:
    for key in [*expected, *(key for key in actual if key not in expected)]:
        difference = find_difference(
            expected.get(key, NO_KEY),
            actual.get(key, NO_KEY),
            f"{place}[{key!r}]" if place else str(key),
            loose=loose,
        )
        if difference:
            return difference
    return None


def _find_in_sequences(
    expected: Sequence[Any], actual: Sequence[Any], place: str, loose: bool
) -> str | None:
    if len(expected) != len(actual):
        return describe_difference(place, f"{len(expected)} items", f"{len(actual)} items")
    for i, (expected_item, actual_item) in enumerate(zip(expected, actual, strict=True)):
        item_place = f"{place}[{i}]"
        if difference := find_difference(expected_item, actual_item, item_place, loose=loose):
            return difference
    return None


def _find_in_arrays(
    expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any], place: str, loose: bool
) -> str | None:
    if expected.shape != actual.shape:
        return describe_difference(place, f"shape {expected.shape}", f"shape {actual.shape}")
    if loose and not expected.dtype.hasobject:
        expected = expected.astype(actual.dtype, casting="unsafe")
    if expected.dtype != actual.dtype:
        return describe_difference(place, f"dtype {expected.dtype}", f"dtype {actual.dtype}")
    if expected.dtype.hasobject:
        for i in np.ndindex(actual.shape):
            item_place = f"{place}{[*i]}"
            if difference := find_difference(expected[i], actual[i], item_place, loose=loose):
                return difference
        return None
    unequal = (expected != actual) & ((expected == expected) | (actual == actual))
    if expected.dtype.kind == "f":  # 0.0 and -0.0 are equal and have other bits
        unequal |= (expected == actual) & (np.signbit(expected) != np.signbit(actual))
    if not np.any(unequal):
        return None
    i = tuple(np.argwhere(unequal)[0].tolist())
    return describe_difference(
        f"{place}{[*i] if i else ''}", format_value(expected[i]), format_value(actual[i])
    )


def _are_equal(a: Any, b: Any) -> bool:
    if getattr(type(a), "__eq__", None) is object.__eq__:
        return True
    try:
        if isinstance(a, float):  # 0.0 and -0.0 are equal
            return repr(a) == repr(b)
        return bool(a == b) or bool(a != a and b != b)
    except Exception:  # any class may compare in any way
        return False


def same(expected: Any, actual: Any) -> bool:
    """Whether two values are equal, including types and bits."""
    return find_difference(expected, actual) is None


def drop_repeats(values: Iterable[Any]) -> list[Any]:
    """The values without those that are equal to an earlier one."""
    distinct: list[Any] = []
    for value in values:
        if not any(same(value, earlier) for earlier in distinct):
            distinct.append(value)
    return distinct


def require_same(expected: Any, actual: Any, message: str) -> None:
    """Raises `Failed` unless two values are equal, including types and bits."""
    if difference := find_difference(expected, actual, message):
        raise Failed(difference)


def describe_difference(place: str, expected: Any, actual: Any) -> str:
    """Says what was expected at a place and what came."""
    return f"{place}: expected {expected}, got {actual}"


def _with_type(value: Any) -> str:
    return f"{'' if value is NO_KEY else type(value).__name__} {format_value(value)}".lstrip()


def format_value(value: Any) -> str:
    """Formats a value as one short line."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# Recordings.


@dataclass(frozen=True)
class Call:
    """A call of an environment.

    Args:
        name: Such as ``"step 3"``.
        values: A copy of what it returned, by the names of `STEP` or `RESET`.
        is_batch: Whether it is a call of a vector environment.
    """

    name: str
    values: dict[str, Any]
    is_batch: bool = False

    @property
    def is_step(self) -> bool:
        """Whether the call is a step, not a reset."""
        return "reward" in self.values

    @property
    def ends(self) -> Any:
        """Whether the call ended an episode; for a vector environment, per sub-environment."""
        if not self.is_step:
            return np.False_
        return np.logical_or(self.values["terminated"], self.values["truncated"])

    def describe(self, difference: str) -> str:
        """The call and a difference in its values; of a batch, with the environment."""
        index = re.match(r"[^:]*?\[(\d+)", difference) if self.is_batch else None
        env = f"environment {index[1]}, " if index else ""
        return f"{env}{self.name}, {difference}"

    def make_failure(self, message: str, place: str, expected: Any, actual: Any) -> Failed:
        """The failure for a value that the call returned."""
        difference = describe_difference(place, expected, actual)
        return Failed(f"{message}: {self.describe(difference)}")


def record_calls(
    env: Any,
    actions: Sequence[Any],
    seed: Any = None,
    *,
    seconds: float = math.inf,
    ignore: Collection[str] = (),
    reset: Callable[[], Any] | None = None,
    step: Callable[[Any], Any] | None = None,
    on_values: Callable[[dict[str, Any]], Any] = lambda values: None,
) -> list[Call]:
    """Records an environment or a vector environment from ``reset(seed=seed)`` on.

    A single environment is reset when its episode has ended; so are the sub-environments whose
    episodes have ended of a vector environment whose autoreset mode is ``DISABLED``.

    Args:
        env: The environment.
        actions: An action for each step.
        seed: The seed of the first reset, a list of seeds, or None.
        seconds: How long after the reset to stop.
        ignore: The infos that are left out, such as ``"info.time"``.
        reset: Called instead of the first reset.
        step: Called with a copy of each action, by default the environment's own ``step``.
        on_values: Called with the values that each call returned, after they are copied.
    """
    calls: list[Call] = []
    vector = isinstance(env, VectorEnv)
    _keep_mode(env)
    masked = vector and get_mode(env) is AutoresetMode.DISABLED

    def add_call(name: str, names: tuple[str, ...], returned: Any) -> None:
        if not isinstance(returned, tuple) or len(returned) != len(names):
            expected = ", ".join(names)
            hint = "" if vector else OLD_GYM_HINT
            raise Failed(f"{name} must return ({expected}), got {format_value(returned)}{hint}")
        values = dict(zip(names, returned, strict=True))
        calls.append(Call(name, copy_values(values, ignore), vector))
        on_values(values)

    returned = env.reset(seed=seed) if reset is None else reset()
    add_call(f"reset(seed={seed})", RESET, returned)
    start = time.perf_counter()
    for t, action in enumerate(actions):
        add_call(f"step {t}", STEP, (step or env.step)(copy.deepcopy(action)))
        ends = calls[-1].ends
        if not vector and ends:
            add_call(f"the reset after step {t}", RESET, env.reset())
        elif masked and ends.any():
            options = {"reset_mask": ends.copy()}
            add_call(f"the reset after step {t}", RESET, env.reset(options=options))
        if time.perf_counter() - start > seconds:
            break
    return calls


def _keep_mode(env: Any) -> None:
    """Gives a vector environment its own metadata, which in Gymnasium 1.2 the next one changes."""
    base = getattr(env, "unwrapped", None)
    if isinstance(base, VectorEnv) and isinstance(base.metadata, dict):
        base.metadata = dict(base.metadata)


def copy_values(returned: dict[str, Any], ignore: Collection[str]) -> dict[str, Any]:
    """A copy of what a call returned, without the infos that need not repeat."""
    values: dict[str, Any] = copied(returned, copied_if_possible)
    _drop_infos(values["info"], {*ignore, _TIME}, "info")
    return values


def _drop_infos(info: Any, names: Collection[str], place: str) -> None:
    """Drops some infos; in a batch, with their masks and their last values in an episode."""
    if isinstance(info, np.ndarray) and info.dtype.hasobject:
        for env_info in info.flat:
            _drop_infos(env_info, names, place)
    if not isinstance(info, dict):
        return
    for key, value in list(info.items()):
        name = f"{place}.{str(key).removeprefix('_')}"
        if name in names:
            del info[key]
        else:
            _drop_infos(value, names, place if key == "final_info" else name)


def select_steps(calls: list[Call]) -> list[Call]:
    """The calls that are steps."""
    return [call for call in calls if call.is_step]


def compare(expected: list[Call], actual: list[Call]) -> str | None:
    """Describes the first difference between two recordings, whose first seeds may differ."""
    for i, (expected_call, call) in enumerate(zip(expected, actual, strict=False)):
        if i and expected_call.name != call.name:
            return f"expected {expected_call.name}, got {call.name}"
        difference = find_difference(expected_call.values, call.values)
        if difference := difference or find_other_order(expected_call, call):
            return expected_call.describe(difference)
    return None


def find_other_order(expected: Call, actual: Call) -> str | None:
    """Describes where the keys of two observations first have another order."""
    return _find_other_order(
        expected.values["observation"], actual.values["observation"], "observation"
    )


def _find_other_order(expected: Any, actual: Any, place: str) -> str | None:
    items: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(expected, dict) and isinstance(actual, dict):
        if [*expected] != [*actual]:
            return describe_difference(f"the keys of {place}", [*expected], [*actual])
        items = [(expected[key], actual[key], repr(key)) for key in expected]
    elif isinstance(expected, tuple) and isinstance(actual, tuple):
        pairs = zip(expected, actual, strict=False)
        items = [(*pair, i) for i, pair in enumerate(pairs)]
    for expected_item, actual_item, key in items:
        if difference := _find_other_order(expected_item, actual_item, f"{place}[{key}]"):
            return difference
    return None


def get_mode(env: Any) -> Any:
    """Returns the autoreset mode that a vector environment declares, or None."""
    mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if not isinstance(mode, str):
        return mode
    return next((member for member in AutoresetMode if mode in (member.value, member.name)), None)


def select_info(infos: dict[Any, Any], i: int, num_envs: int) -> dict[Any, Any]:
    """Returns the infos of environment ``i`` of ``num_envs``."""
    info: dict[Any, Any] = {}
    for key, value in infos.items():
        mask: Any = infos.get(f"_{key}")
        if str(key).startswith("_") or (np.shape(mask) == (num_envs,) and not mask[i]):
            continue
        if isinstance(value, dict):
            info[key] = select_info(value, i, num_envs)
        elif np.ndim(value) and len(value) == num_envs:
            info[key] = value[i]
    return info


def split_calls(envs: Any, recording: list[Call], i: int) -> list[Call]:
    """The calls of environment ``i`` of a vector environment, as it would record them by itself.

    A reset within a step of the batch is a call of its own. The infos of an episode's last step
    that are not in ``final_info`` are those of the next episode.
    """
    calls: list[Call] = []
    mode = get_mode(envs)
    ended = True  # no episode has begun
    for call in recording:
        info = select_info(call.values["info"], i, envs.num_envs)
        obs = [*iterate(envs.observation_space, call.values["observation"])][i]
        first_values = {"observation": obs, "info": info}
        if not call.is_step or (ended and mode is AutoresetMode.NEXT_STEP):
            if ended:
                name = f"the reset at {call.name}" if calls else call.name
                calls.append(Call(name, first_values))
            ended = False
            continue
        flags = {name: bool(call.values[name][i]) for name in FLAGS}
        ended = any(flags.values())
        last_values = first_values
        resets = ended and mode is AutoresetMode.SAME_STEP
        if resets:
            final_info = info.pop("final_info", {})
            if "episode" in info:  # statistics of the episode that has ended
                final_info = {"episode": info.pop("episode"), **final_info}
            last_values = {"observation": info.pop("final_obs", None), "info": final_info}
        reward = call.values["reward"][i]
        calls.append(Call(call.name, {**last_values, "reward": reward, **flags}))
        if resets:
            calls.append(Call(f"the reset at {call.name}", first_values))
            ended = False
    return calls


# The subject of a check.


@dataclass(frozen=True)
class _FirstRecording:
    """An environment, its spaces before the first reset, and its recording."""

    env: Any
    spaces: dict[str, Any]
    calls: list[Call]


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
        ignore: The infos that are not compared, such as ``"info.time"``.
        given_env: The one environment to check, if no other is to be made; it stays open.
        is_strict: Whether rewards must be Python's floats, and returned values the caller's own, as
            of `MTEnv` and `MetaVectorEnv`.
        makers: The constructors of the sub-environments of ``given_env``.
        mode: The autoreset mode that ``given_env`` was asked for.
        settings: The settings of the process before anything was made.
        sync_recordings: A `SyncVectorEnv` in each mode, closed, and its recording.
        processes: New processes that record the same.
    """

    make: Callable[..., Any]
    name: str
    is_vector: bool
    takes: frozenset[str] = frozenset()
    seed: int = 0
    steps: int = 1200
    num_envs: int = 3
    ignore: frozenset[str] = frozenset()
    given_env: Any = None
    is_strict: bool = False
    makers: tuple[Callable[[], Any], ...] = ()
    mode: AutoresetMode = AutoresetMode.NEXT_STEP
    settings: dict[str, Any] = field(default_factory=dict)
    sync_recordings: dict[AutoresetMode, tuple[Any, list[Call]]] = field(default_factory=dict)
    processes: Sequence[NewProcess] = ()

    @contextmanager
    def open(self, **kwargs: Any) -> Iterator[Any]:
        """A new environment, closed at the end; or the given one."""
        if self.given_env is not None:
            yield self.given_env
            return
        with closing(self.make(**kwargs)) as env:
            _keep_mode(env)
            yield env

    def actions(self, env: Any, steps: int) -> list[Any]:
        """Random actions for an environment, always the same."""
        space = copy.deepcopy(getattr(env, "action_space", None))
        if not isinstance(space, gymnasium.Space):
            raise Failed(f"its action_space must be a gymnasium.Space, got {space!r}")
        space.seed(self.seed)
        return [space.sample() for _ in range(steps)]

    def record(self, env: Any, actions: list[Any] | None = None, **kwargs: Any) -> list[Call]:
        """Records an environment, from the same seed with the same actions unless others are given.

        Args:
            env: The environment.
            actions: The actions, by default as many as in the first recording.
            **kwargs: The other arguments of `record_calls`.
        """
        if actions is None:
            actions = self.actions(env, self.length)
        return record_calls(env, actions, **{"seed": self.seed, "ignore": self.ignore, **kwargs})

    @functools.cached_property
    def _first_recording(self) -> _FirstRecording:
        seconds = _SECONDS if self.given_env is None else math.inf
        names = ["observation_space", "action_space"]
        names += [f"single_{name}" for name in names] if self.is_vector else []
        with self.open() as env:
            actions = self.actions(env, self.steps)
            spaces = {name: copy.deepcopy(getattr(env, name)) for name in names}
            return _FirstRecording(env, spaces, self.record(env, actions, seconds=seconds))

    @property
    def first(self) -> list[Call]:
        """The first recording, to which others are compared."""
        return self._first_recording.calls

    @property
    def used(self) -> Any:
        """The environment of the first recording, closed unless it is the given one."""
        return self._first_recording.env

    @property
    def length(self) -> int:
        """The number of steps of the first recording."""
        return len(select_steps(self.first))

    @functools.cached_property
    def short_length(self) -> int:
        """The number of steps until some steps after an episode of each environment has ended."""
        ended: Any = np.False_
        for t, call in enumerate(select_steps(self.first)):
            ended = ended | call.ends
            if np.all(ended):
                return min(t + 1 + STEPS_BEFORE, self.length)
        return self.length

    @property
    def spaces(self) -> dict[str, Any]:
        """Copies of the spaces of a new environment, by the names of its attributes."""
        return self._first_recording.spaces

    @functools.cached_property
    def modes(self) -> list[tuple[Any, list[Call]]]:
        """A vector environment in each autoreset mode that it has, closed, and its recording."""
        recordings = [(self.used, self.first)]
        if "autoreset_mode" not in self.takes:
            return recordings
        for mode in AutoresetMode:
            if mode is get_mode(self.used):
                continue
            try:
                envs = self.make(autoreset_mode=mode)
            except Exception:  # it need not have every mode
                continue
            with closing(envs):
                recordings.append((envs, self.record(envs)))
        return recordings

    @functools.cached_property
    def seed_difference(self) -> str | None:
        """Describes how runs from one seed differ, of a new environment or on a used one."""
        with self.open() as env:
            if difference := compare(self.first, self.record(env)):
                message = f"two runs from reset(seed={self.seed}) with the same actions differ"
                return f"{message}: {difference}"
        with self.open() as env:
            if keeps_running_statistics(env):
                return None
            for use, difference in self._compare_after_use(env):
                if difference:
                    message = f"after {use}, reset(seed={self.seed}) leads to other results"
                    return f"{message}: some state is left: {difference}"
        return None

    def _compare_after_use(self, env: Any) -> Iterator[tuple[str, str | None]]:
        """After which calls the first run is repeated, and how it differs, if it does."""
        actions, other_seed = self.actions(env, self.short_length), self.seed + 1000
        self.record(env, actions[:STEPS_BEFORE], seed=other_seed)
        yield "other episodes", compare(self.first, self.record(env, actions))
        env.reset(seed=other_seed)
        for action in actions:
            _, _, terminated, truncated, _ = env.step(copy.deepcopy(action))
            if np.any(np.logical_or(terminated, truncated)):
                yield "an episode has ended", compare(self.first, self.record(env, actions))
                break
        # A reset may be left out after another, and an action may wait for the next step.
        env.reset(seed=other_seed)
        yield "another reset", compare(self.first, self.record(env, actions[:STEPS_AFTER]))
        for action in drop_repeats(actions[:STEPS_BEFORE])[:NUM_LAST_ACTIONS]:
            env.reset(seed=other_seed)
            env.step(copy.deepcopy(action))
            difference = compare(self.first, self.record(env, actions[:STEPS_AFTER]))
            yield f"a step with action {format_value(action)}", difference

    def require_types(self) -> None:
        """Raises `Skipped` if a step's reward is several numbers, or infos are no dict."""
        max_dimensions = 1 if self.is_vector else 0
        for call in self.first:
            several_rewards = call.is_step and np.ndim(call.values["reward"]) > max_dimensions
            if several_rewards or not isinstance(call.values["info"], dict):
                raise Skipped("see 'types'")

    def require_repeatable(self) -> None:
        """Raises `Skipped` if runs from one seed differ, so that no others can agree."""
        self.require_types()
        if not self.repeats:
            raise Skipped("see 'seed repeats'")

    @property
    def repeats(self) -> bool:
        """Whether runs from one seed are equal."""
        try:
            return self.seed_difference is None
        except RAISED:
            return False

    def iterate_envs(self) -> Iterator[tuple[str, list[Call]]]:
        """The calls of the environment; or of each in a batch, with its name."""
        self.require_types()
        if not self.is_vector:
            yield "", self.first
            return
        for envs, recording in self.modes:
            for i in range(self.num_envs):
                yield f"environment {i}, ", split_calls(envs, recording, i)


def keeps_running_statistics(env: Any) -> bool:
    """Whether wrappers keep running statistics, which steps change and resets keep."""
    names = ("return_rms", "obs_rms", "_reward_var")  # the last is of Meta-World's wrapper
    return any(
        getattr(wrapper, "update_running_mean", any(hasattr(wrapper, name) for name in names))
        for wrapper in iterate_wrappers(env)
    )


def require_no_running_statistics(env: Any) -> None:
    """Raises `Skipped` if wrappers keep running statistics, so that no episode repeats."""
    if keeps_running_statistics(env):
        raise Skipped("its running statistics are of all episodes")


def iterate_wrappers(env: Any) -> Iterator[Any]:
    """The wrappers of an environment and itself, from the outside."""
    while env is not None:
        yield env
        env = getattr(env, "__dict__", {}).get("env")
