"""Calls policies, either their method ``get_actions`` or a plain callable.

Besides observations, a policy may take arguments named ``rng``, ``task_names``, ``descriptions``
and ``due``. `ActionChunks` is for a policy that returns chunks of actions.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import cloudpickle
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete, Space
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.checks import positive
from mtwrappers.common.errors import short
from mtwrappers.samplers.nested import join, map_arrays

PolicyIn: TypeAlias = Literal["parent", "workers"]
Flags: TypeAlias = NDArray[np.bool_]
# Arguments of a policy with one text for each row.
TEXTS = ("task_names", "descriptions")

# Keeps the generators of policies independent of the environments' with the same seed.
_STREAM = 1_000_081


class PolicyCaller:
    """Calls a policy for the actions of ``M`` tasks with ``K`` environments each.

    Args:
        policy: Has ``get_actions(observations) -> actions, agent_infos``, or is a callable from
            observations ``(M * K, O)`` to actions. ``get_actions`` receives observations
            ``(M, K, O)``, or a dict or tuple of such arrays, and returns actions ``(M, K, A)`` as
            nested lists or arrays. Its ``agent_infos`` are recorded with each action: a dict of
            arrays ``(M, K, ...)``, a list with a dict of arrays ``(K, ...)`` per task, a list per
            task with a dict per environment, or ``None``; dicts may be nested. The policy may have
            ``reset(mask)``, which is called with a mask of the environments whose episodes begin,
            ``(M * K,)`` bool, before their first action. A ``reset()`` without a parameter cannot
            distinguish environments, and is called only if all begin together; a warning says that
            it was not. If ``get_actions`` or the callable has a parameter with one of the following
            names, it receives an array ``(M, K)`` or ``(M * K,)``, with an entry for each row of
            the observations:

            - ``rng``: a `numpy.random.Generator` of each environment, an array of objects. Actions
              that draw from it do not depend on where the policy is called.
            - ``task_names``: the name of the task in each row's current episode, an array of
              `str` objects; ``""`` for rows that run no episode.
            - ``descriptions``: likewise the sentence that describes the task, read from each
              environment's attribute ``task_description`` when an episode begins.
            - ``due``: a bool mask of the rows whose actions are needed, those that run an episode.
        meta_batch_size: ``M``, the number of tasks.
        envs_per_task: ``K``, the number of environments per task.
        rows: The environments to act for, such as one worker's; by default all. A callable then
            receives ``(n, O)``, and ``get_actions`` ``(m, K, O)``, or ``(n, 1, O)`` if tasks are
            split across workers. ``for_tasks(indices)``, if the policy has it, returns the policy
            for the tasks on the first axis.
        seed: Seeds the generators; a tuple of integers.
        action_space: The space of one environment's action, for error messages.

    Attributes:
        texts: The members of `TEXTS` that the policy takes; `describe` sets them per episode.
        first: The index of the first environment of ``rows``.
        envs_per_task: ``K``.
        action_chunk: The number of executed actions per chunk of `ActionChunks`, else ``None``.

    Raises:
        TypeError: If the policy has no ``get_actions`` and is not callable.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> def policy(observations, rng, task_names):
    ...     return np.stack([own.uniform(-0.1, 0.1, 2) for own in rng])
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> result = mtwrappers.evaluate(policy, envs, episodes_per_task=3)
    >>> result == mtwrappers.evaluate(policy, envs, episodes_per_task=3, policy_in="workers")
    True
    """

    def __init__(
        self,
        policy: Any,
        meta_batch_size: int,
        envs_per_task: int,
        rows: slice | None = None,
        seed: tuple[int, ...] = (0,),
        *,
        action_space: Space[Any] | None = None,
    ) -> None:
        if isinstance(policy, PickledPolicy):
            policy = cloudpickle.loads(policy)
        self.action_chunk: int | None = None
        if isinstance(policy, ActionChunks):
            self.action_chunk, policy = policy.action_chunk, policy.policy
        m, k = meta_batch_size, envs_per_task
        rows = slice(0, m * k) if rows is None else rows
        places = range(rows.start, rows.stop)
        # If one task's environments are split across workers, each row is a task of its own.
        together = 1 if rows.start % k or rows.stop % k else k
        tasks = [i // k for i in places[::together]]
        if len(places) < m * k and hasattr(policy, "for_tasks"):
            policy = policy.for_tasks(tasks)
        self._act, has_method = _function_of(policy)
        self._shape: tuple[int, ...] = (len(tasks), together) if has_method else (len(places),)
        n, names = len(places), _parameters(self._act)
        self.texts = tuple(name for name in TEXTS if name in names)
        self.first, self.envs_per_task = rows.start, k
        # The arguments by name, (n,) each.
        self._given: dict[str, NDArray[Any]] = {name: np.full(n, "", object) for name in self.texts}
        if "rng" in names:
            rngs = np.empty(n, dtype=object)
            rngs[:] = [Generator(PCG64(SeedSequence(seed, spawn_key=(i,)))) for i in places]
            self._given["rng"] = rngs
        self._takes_due = "due" in names
        self._action_space, self._everyone = action_space, np.ones(n, dtype=np.bool_)
        # The last chunks with their agent infos, and the index of the next action in each row.
        self._kept: dict[str, Any] | None = None
        self._next = np.full(n, self.action_chunk or 0)
        reset = getattr(policy, "reset", None)
        self._reset: Callable[..., Any] | None = reset if callable(reset) else None
        self._takes_mask = self._reset is not None and _takes_argument(self._reset)
        self._warned = False  # that it was not called

    def reset(self, mask: Flags) -> None:
        """Calls the policy's ``reset`` for the environments that begin an episode, ``(n,)``."""
        if self.action_chunk is not None:
            self._next[mask] = self.action_chunk
            self._kept = None if mask.all() else self._kept
        if self._reset is None:
            return
        if self._takes_mask:
            self._reset(mask.copy())
        elif mask.all():
            self._reset()
        elif mask.any() and not self._warned:
            self._warned = True
            warnings.warn(
                "reset() of the policy takes no mask and is called only if all environments begin "
                f"an episode together, but {int(mask.sum())} of {len(mask)} do: give the policy "
                "reset(mask), if it remembers anything, or pass one environment",
                stacklevel=2,
            )

    def seed(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Replaces the generators of some rows, if the policy takes ``rng``."""
        if (rngs := self._given.get("rng")) is not None:
            for i, seed in zip(rows, seeds, strict=True):
                rngs[i] = Generator(PCG64(SeedSequence(seed, spawn_key=(_STREAM,))))

    def describe(self, rows: Sequence[int], texts: Mapping[str, Sequence[str]]) -> None:
        """Sets the ``texts`` that the policy receives for episodes that begin in some rows."""
        for name in self.texts:
            self._given[name][rows] = texts[name]

    def __call__(
        self, observations: Any, live: Flags | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Returns actions ``(n, A)`` and agent infos ``(n, ...)`` for observations ``(n, O)``.

        All are new arrays, because a policy may reuse its own.

        Args:
            observations: The observations of all rows.
            live: A mask of the rows whose actions count, ``(n,)`` bool; by default all.

        Raises:
            TypeError: If ``get_actions`` does not return a pair, a callable returns None or a tuple
                (actions, state), actions are objects, discrete actions are bools, or agent infos
                have another form.
            ValueError: If the policy returns another number of actions or agent infos, or chunks of
                actions.
        """
        due = self._everyone if live is None else live
        if self.action_chunk is None:
            return self._ask(observations, due)
        rows = due & (self._next >= self.action_chunk)
        if rows.any():
            self._plan(observations, rows, self.action_chunk)
        assert self._kept is not None  # some row is due at first
        at = np.minimum(self._next, self.action_chunk - 1)
        self._next += 1
        return self._kept["actions"][np.arange(len(at)), at], self._kept["infos"]

    def _ask(self, observations: Any, due: Flags) -> tuple[Any, dict[str, Any]]:
        """The policy's answer as arrays ``(n, ...)``: its actions or chunks, and its agent infos.

        For chunks, it is the answer for the rows ``due``, ``(n,)`` bool.
        """
        shape, given, chunks = self._shape, self._given, self.action_chunk is not None
        if chunks and len(shape) == 1 and not due.all():  # `get_actions` needs whole tasks
            shape = (int(due.sum()),)
            observations = map_arrays(lambda a: a[due], observations)
            given = {name: a[due] for name, a in given.items()}
        # Copies, so that a policy cannot change recorded arrays in place.
        obs = map_arrays(lambda a: a.copy().reshape(*shape, *a.shape[1:]), observations)
        by_name = {name: a.copy().reshape(shape) for name, a in given.items()}
        if self._takes_due:
            by_name["due"] = due.copy().reshape(self._shape)
        if len(shape) == 1:
            return self._joined_actions(self._act(obs, **by_name), shape, obs), {}
        if chunks and "rng" in by_name:  # draws for other rows have no effect
            for place in zip(*np.nonzero(~due.reshape(shape)), strict=True):
                by_name["rng"][place] = copy.deepcopy(by_name["rng"][place])
        answer = self._act(obs, **by_name)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise TypeError(
                f"get_actions must return a pair (actions, agent_infos), got {_short(answer)}"
            )
        actions = self._joined_actions(answer[0], shape, obs)
        infos = _agent_infos(answer[1], shape)
        if not chunks:
            return actions, infos
        return actions[due], map_arrays(lambda a: a[due], infos)

    def _plan(self, observations: Any, rows: Flags, k: int) -> None:
        """Asks the policy for chunks ``(n, H, A)`` for some rows, and keeps ``k`` actions each."""
        chunks, infos = self._ask(observations, rows)
        if chunks.ndim < 3:
            raise ValueError(
                f"ActionChunks expects chunks of shape (n, H, A) with H >= {k} from the policy, "
                f"got {chunks.shape}: a policy that returns one action for each row needs no "
                "ActionChunks"
            )
        if chunks.shape[1] < k:
            raise ValueError(
                f"ActionChunks executes {k} actions of each chunk, but the policy returned chunks "
                f"of {chunks.shape[1]}, shape {chunks.shape}: pass k={chunks.shape[1]} or less"
            )
        new = {"actions": chunks[:, :k], "infos": infos}
        self._kept = _with_rows(self._kept, new, rows, "what the policy returns:")
        self._next[rows] = 0

    def _joined_actions(self, answer: Any, shape: tuple[int, ...], obs: Any) -> NDArray[Any]:
        """Converts a policy's actions, or chunks of them, to an array ``(n, ...)``.

        ``obs`` are the observations that the policy received.
        """
        what = "actions" if self.action_chunk is None else "chunks of actions"
        try:
            actions: NDArray[Any] = _joined(answer, what, shape)
        except ValueError as exc:
            if len(shape) == 1 and _is_with_state(answer, shape):
                raise TypeError(
                    "the policy returned a tuple (actions, state): give lambda obs: "
                    "model.predict(obs)[0], or an object whose get_actions(observations) returns "
                    "(actions, agent_infos)"
                ) from None
            if isinstance(obs, (dict, tuple)) and _has_length(answer, len(obs)):
                raise ValueError(f"{exc}: {_length_hint(obs)}") from None
            raise
        self._check_dtype(actions, what)
        if self.action_chunk is None and self._action_space is not None:
            self._refuse_chunks(actions.shape[1:], self._action_space.shape or (), shape)
        return actions

    def _check_dtype(self, actions: NDArray[Any], what: str) -> None:
        """Raises `TypeError` if actions are objects, or bools in a discrete space."""
        if actions.dtype == object:
            raise TypeError(
                f"{what} from the policy must be numbers, got an array of objects, such as "
                f"{_short(actions.flat[0])}: convert them, such as with "
                "np.array(actions, dtype=np.float32)"
            )
        space = self._action_space
        if actions.dtype == np.bool_ and isinstance(space, (Discrete, MultiDiscrete)):
            raise TypeError(
                f"{what} from the policy must be integers in {space}, got bools: convert them "
                "with actions.astype(np.int64)"
            )

    def _refuse_chunks(
        self, found: tuple[int, ...], expected: tuple[int, ...], shape: tuple[int, ...]
    ) -> None:
        if len(found) == 1 + len(expected) and found[1:] == expected:
            raise ValueError(
                f"expected actions of shape {(*shape, *expected)} from the policy, got "
                f"{(*shape, *found)}: if these are chunks of {found[0]} actions, pass "
                f"mtwrappers.ActionChunks(policy, k), with k from 1 to {found[0]}, the number of "
                "actions to execute before the policy is called again"
            )


class ActionChunks:
    """A policy whose chunks of actions are executed up to their ``k``-th action.

    The policy is a callable that returns chunks ``(n, H, A)``, or has ``get_actions`` that returns
    ``(M, K, H, A)``, with ``H >= k``. Evaluations and samplers call it for a row when ``k`` actions
    of its chunk were executed or its episode begins, so that rows may be due at different times,
    and do not call it in steps in which no row is due. A callable receives only the rows that are
    due, in its observations and in arguments by name, except for ``due``, the mask of all rows.
    ``get_actions`` receives all rows, with copies of ``rng`` for rows that are not due, whose
    results are dropped. Its ``agent_infos`` are repeated for every action of a chunk.

    Args:
        policy: The policy that returns chunks, as `PolicyCaller` describes policies.
        k: The number of actions of each chunk that are executed.

    Attributes:
        policy: The policy.
        action_chunk: ``k``; a result names it.

    Raises:
        TypeError: If the policy has no ``get_actions`` and is not callable.
        ValueError: If ``k`` is not a positive integer.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> def policy(observations):  # chunks of 4 actions
    ...     return np.full((len(observations), 4, 2), 0.1)
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> result = mtwrappers.evaluate(mtwrappers.ActionChunks(policy, 3), envs, 1)
    >>> result.description.action_chunk
    3
    """

    def __init__(self, policy: Any, k: int) -> None:
        _function_of(policy)
        self.policy, self.action_chunk = policy, positive(k, "k")

    def __getattr__(self, name: str) -> Any:
        if name in ("adapt", "begin_trial", "policy_id"):
            return getattr(self.policy, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _function_of(policy: Any) -> tuple[Callable[..., Any], bool]:
    """The function that returns a policy's actions, and whether it is ``get_actions``."""
    get_actions = getattr(policy, "get_actions", None)
    if isinstance(policy, type) or not (callable(get_actions) or callable(policy)):
        raise TypeError(
            "a policy must have get_actions(observations) or be callable, such as "
            f"lambda obs: model.predict(obs)[0], got {policy!r}"
        )
    return (get_actions, True) if callable(get_actions) else (policy, False)


def _is_with_state(answer: Any, shape: tuple[int, ...]) -> bool:
    """Whether the answer is a pair of the actions of all environments and something else."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        return False
    found = getattr(answer[0], "shape", ())
    return bool(found[:1] == shape)


def _has_length(answer: Any, length: int) -> bool:
    try:
        return len(answer) == length
    except TypeError:  # it has none
        return False


def _length_hint(obs: Any) -> str:
    """The expression for the number of rows of nested observations, which is not ``len(obs)``."""
    kind, keys, array = type(obs).__name__, [*_keys(obs)], "observations"
    while isinstance(obs, (dict, tuple)):
        key = next(iter(_keys(obs)))
        obs, array = obs[key], f"{array}[{key!r}]"
    return (
        f"observations are a {kind} of {keys}, whose length is not the number of environments: "
        f"take len({array})"
    )


def _keys(obs: Any) -> Iterable[Any]:
    return obs.keys() if isinstance(obs, dict) else range(len(obs))


def _agent_infos(given: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Converts a policy's agent infos, in lists or not, to dicts of arrays ``(n, ...)``."""
    infos = given
    if isinstance(infos, (list, tuple)):
        infos = [
            join(info, "agent_infos", "environment {}".format)
            if isinstance(info, (list, tuple))
            else info
            for info in infos
        ]
        infos = join(infos, "agent_infos", "task {}".format) if infos else {}
    if not isinstance(infos, (dict, type(None))):
        raise TypeError(f"agent_infos must be dicts, in lists or not, got {_short(given)}")
    found: dict[str, Any] = _joined(infos or {}, "agent_infos", shape)
    return found


def _joined(values: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Converts a policy's values, possibly nested in dicts, to arrays ``(n, ...)``."""
    if isinstance(values, dict):
        return {k: _joined(value, f"{name}[{k!r}]", shape) for k, value in values.items()}
    sizes = ", ".join(map(str, shape))
    if values is None:
        raise TypeError(
            f"expected {name} of shape ({sizes}, ...) from the policy, got None: is a return "
            "missing?"
        )
    try:
        array = np.array(values)
    except ValueError:
        raise ValueError(
            f"{name} must be an array with rows of one shape, got {_short(values)}"
        ) from None
    except RuntimeError as exc:  # such as a tensor of PyTorch that requires a gradient
        raise TypeError(f"{name} from the policy must become an array: {exc}") from None
    axes = len(shape)
    if array.shape[:axes] != shape:
        raise ValueError(
            f"expected {name} of shape ({sizes}, ...) from the policy, got {array.shape}"
        )
    return array.reshape(-1, *array.shape[axes:])


def _with_rows(old: Any, new: Any, rows: Flags, name: str) -> Any:
    """Arrays ``(n, ...)``, possibly in dicts, with new values in the rows of a mask ``(n,)``."""
    if isinstance(new, dict):
        if old is not None and old.keys() != new.keys():
            raise ValueError(
                f"{name} must have the same keys in every call, {sorted(old)}, got {sorted(new)}"
            )
        return {
            key: _with_rows(None if old is None else old[key], value, rows, f"{name} {key}")
            for key, value in new.items()
        }
    if old is None:
        old = np.zeros((len(rows), *new.shape[1:]), new.dtype)
    if old.shape[1:] != new.shape[1:]:
        raise ValueError(
            f"{name} must keep the shape {old.shape[1:]} of each row in every call, got "
            f"{new.shape[1:]}"
        )
    values = old.astype(np.result_type(old, new))  # a copy, because earlier steps hold the old ones
    values[rows] = new
    return values


class PickledPolicy(bytes):
    """A pickled policy, which `PolicyCaller` unpickles in a worker."""


def pickled(policy: Any) -> PickledPolicy:
    """Pickles a policy for workers.

    Raises:
        TypeError: If the policy cannot be pickled.
    """
    try:
        return PickledPolicy(cloudpickle.dumps(policy))
    except Exception as exc:  # any class may refuse to be pickled in any way
        raise TypeError(
            f"a policy must be picklable to run in workers, {_short(policy)} is not ({exc}); "
            "policy_in='parent' calls it in this process"
        ) from exc


def _parameters(function: Callable[..., Any]) -> Collection[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C without a signature
        return ()


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function of C without a signature
        return True
    return True


def _short(value: Any) -> str:
    return f"{type(value).__name__} {short(value, 60)}"
