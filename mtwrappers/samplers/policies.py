"""How a policy is called: by ``get_actions``, or as a plain callable.

Beside observations a policy may take more, by the names of its arguments: ``rng``, ``task_names``,
``descriptions`` and ``due``. It may return one action per row, or a chunk of them.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import cloudpickle
import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.checks import positive
from mtwrappers.samplers.nested import join, map_arrays

PolicyIn: TypeAlias = Literal["parent", "workers"]
Flags: TypeAlias = NDArray[np.bool_]
# Arguments of a policy that are texts, one for each row.
TEXTS = ("task_names", "descriptions")

# Keeps the generators of policies apart from those of the environments with the same seed.
_STREAM = 1_000_081


class PolicyCaller:
    """Calls a policy for the actions of environments among ``M`` tasks times ``K``.

    Args:
        policy: Has ``get_actions(observations) -> actions, agent_infos``, or is a callable from
            observations ``(M * K, O)`` to actions. ``get_actions`` is given observations
            ``(M, K, O)`` (a dict or tuple of such arrays where the environments observe one) and
            returns actions ``(M, K, A)``, as nested lists or arrays. Its ``agent_infos`` are kept
            beside each action: a dict of arrays ``(M, K, ...)``, a list with a
            dict of arrays ``(K, ...)`` per task, a list per task with a dict per environment, or
            ``None``; dicts may be nested. The policy may have ``reset(mask)``, which is called
            with the environments whose episodes begin, ``(M * K,)`` bool, before their first
            action. A ``reset()`` that takes nothing cannot distinguish environments, and is
            called only where all begin together. Where ``get_actions``, or the callable, takes an
            argument of one of these names, it is given it by name, with an entry for each row of
            the observations, in the shape ``(M, K)``, or ``(M * K,)``:

            - ``rng``: a `numpy.random.Generator` of each environment, an array of objects. Actions
              that draw from it are the same wherever the policy is called.
            - ``task_names``: the name of each row's task in its present episode, an array of
              objects that are `str`; ``""`` where an environment runs no episode.
            - ``descriptions``: likewise the sentence that says what the task is, which the
              attribute ``task_description`` of each environment has when an episode begins.
            - ``due``: the rows whose actions are needed, bool. With ``action_chunk`` that is not
              all of them.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        rows: The environments to act for, if not all: those of one worker. A callable then sees
            ``(n, O)``, and ``get_actions`` ``(m, K, O)``, or ``(n, 1, O)`` where these are not
            whole tasks. ``for_tasks(indices)``, if the policy has it, returns the policy for the
            tasks on the first axis.
        seed: Seeds the generators; a tuple of integers.
        action_chunk: How many actions of a chunk are executed before the policy is asked again. It
            then returns chunks ``(M * K, H, A)`` (``get_actions``: ``(M, K, H, A)``) with ``H`` of
            at least as many. A row whose episode begins is due at once, whatever is left of its
            chunk, so that rows may be due at different times. Nothing is asked in steps where no
            row is due. A callable is given the rows that are due, and no others: ``(n, O)`` for
            ``n`` of them, and as many entries of what it takes by name, but for ``due``, which is
            the mask ``(M * K,)`` of these rows. ``get_actions`` is given all rows, and what it
            returns for those that are not due is dropped; their ``rng`` are copies. Its
            ``agent_infos`` stand beside every action of their chunk: those of step ``t`` of an
            episode were computed in step ``t - t % action_chunk``. ``None`` asks in every step,
            for a single action of each row.
        action_shape: The shape of an action of one environment, for errors that say what to do.

    Attributes:
        texts: Which of `TEXTS` the policy takes; `describe` has to say them of each episode.

    Raises:
        TypeError: If the policy has no ``get_actions`` and is not callable.
        ValueError: If ``action_chunk`` is not a positive integer.

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
        action_chunk: int | None = None,
        action_shape: tuple[int, ...] | None = None,
    ) -> None:
        if action_chunk is not None:
            action_chunk = positive(action_chunk, "action_chunk")
        if isinstance(policy, PickledPolicy):
            policy = cloudpickle.loads(policy)
        m, k = meta_batch_size, envs_per_task
        rows = slice(0, m * k) if rows is None else rows
        places = range(rows.start, rows.stop)
        # If one task's environments are split across workers, each is given alone.
        together = 1 if rows.start % k or rows.stop % k else k
        tasks = [i // k for i in places[::together]]
        if len(places) < m * k and hasattr(policy, "for_tasks"):
            policy = policy.for_tasks(tasks)
        get_actions = getattr(policy, "get_actions", None)
        if isinstance(policy, type) or not (callable(get_actions) or callable(policy)):
            raise TypeError(
                f"a policy must have get_actions(observations) or be callable, got {policy!r}"
            )
        self._act: Callable[..., Any] = policy
        self._shape: tuple[int, ...] = (len(places),)
        if callable(get_actions):
            self._act, self._shape = get_actions, (len(tasks), together)
        n, names = len(places), _parameters(self._act)
        self.texts = tuple(name for name in TEXTS if name in names)
        self.first, self.envs_per_task = rows.start, k
        # What is given by name, (n,) each.
        self._given: dict[str, NDArray[Any]] = {name: np.full(n, "", object) for name in self.texts}
        if "rng" in names:
            rngs = np.empty(n, dtype=object)
            rngs[:] = [Generator(PCG64(SeedSequence(seed, spawn_key=(i,)))) for i in places]
            self._given["rng"] = rngs
        self._takes_due = "due" in names
        self._chunk, self._action_shape = action_chunk, action_shape
        self._everyone, self._all = np.ones(n, dtype=np.bool_), np.arange(n)
        # The last chunks, which action of it is the next in each row, and what came beside them.
        self._kept: dict[str, Any] | None = None
        self._next = np.full(n, action_chunk or 0)
        reset = getattr(policy, "reset", None)
        self._reset: Callable[..., Any] | None = reset if callable(reset) else None
        self._takes_mask = self._reset is not None and _takes_argument(self._reset)

    def reset(self, mask: Flags) -> None:
        """Calls the policy's ``reset`` for the environments that begin an episode, ``(n,)``."""
        if self._chunk is not None:
            self._next[mask] = self._chunk
        if self._reset is None:
            return
        if self._takes_mask:
            self._reset(mask.copy())
        elif mask.all():
            self._reset()

    def seed(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begins the generators of some rows anew, if the policy takes ``rng``."""
        if (rngs := self._given.get("rng")) is not None:
            for i, seed in zip(rows, seeds, strict=True):
                rngs[i] = Generator(PCG64(SeedSequence(seed, spawn_key=(_STREAM,))))

    def describe(self, rows: Sequence[int], texts: Mapping[str, Sequence[str]]) -> None:
        """Says of the episodes that begin in some rows what ``texts`` the policy is given."""
        for name in self.texts:
            self._given[name][rows] = texts[name]

    def __call__(
        self, observations: Any, live: Flags | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Actions ``(n, A)`` and agent infos ``(n, ...)`` for observations ``(n, O)``.

        All are new arrays: a policy may use its arrays again.

        Args:
            observations: Of all rows.
            live: The rows whose actions count, ``(n,)`` bool; all by default. With
                ``action_chunk`` the others are never due.

        Raises:
            TypeError: If ``get_actions`` returns no pair, a callable a tuple (actions, state), or
                agent infos are of another form.
            ValueError: If the policy returns another number of actions or agent infos, chunks that
                are too short, a chunk where an action is expected, or the other way round.
        """
        if self._chunk is None:
            actions, infos = self._ask(observations, self._everyone)
            return self._single(actions), infos
        due = self._next >= self._chunk
        if live is not None:
            due &= live
        if due.any() or self._kept is None:
            actions, infos = self._ask(observations, due)
            new = {"actions": self._first_of(actions), "agent_infos": infos}
            if len(self._shape) > 1:
                new = map_arrays(lambda a: a[due], new)
            self._kept = _with_rows(self._kept, new, due, "what the policy returns:")
            self._next[due] = 0
        kept = self._kept
        actions = kept["actions"][self._all, np.minimum(self._next, self._chunk - 1)]
        self._next += 1
        return actions, kept["agent_infos"]

    def _ask(self, observations: Any, due: Flags) -> tuple[NDArray[Any], dict[str, Any]]:
        """The policy's answer for the rows that are due; that of ``get_actions`` for all."""
        every = due is self._everyone or bool(due.all())
        shape, given = self._shape, self._given
        if len(shape) == 1 and not every:
            observations = map_arrays(lambda a: a[due], observations)
            shape, given = (int(due.sum()),), {name: a[due] for name, a in given.items()}
        # Copies: what a policy changes in place is not what is recorded.
        obs = map_arrays(lambda a: a.copy().reshape(*shape, *a.shape[1:]), observations)
        by_name = {name: a.copy().reshape(shape) for name, a in given.items()}
        if len(shape) > 1 and not every and "rng" in by_name:
            for place in zip(*np.nonzero(~due.reshape(shape)), strict=True):
                by_name["rng"][place] = copy.deepcopy(by_name["rng"][place])
        if self._takes_due:
            by_name["due"] = due.copy().reshape(self._shape)
        answer = self._act(obs, **by_name)
        if len(shape) == 1:
            try:
                return _joined(answer, "actions", shape), {}
            except ValueError:
                if not _is_with_state(answer, shape):
                    raise
            raise TypeError(
                "the policy returned a tuple (actions, state): give lambda obs: "
                "model.predict(obs)[0], or an object whose get_actions(observations) returns "
                "(actions, agent_infos)"
            )
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise TypeError(
                f"get_actions must return a pair (actions, agent_infos), got {_short(answer)}"
            )
        actions, infos = answer
        if isinstance(infos, (list, tuple)):
            infos = [
                join(info, "agent_infos", "environment {}".format)
                if isinstance(info, (list, tuple))
                else info
                for info in infos
            ]
            infos = join(infos, "agent_infos", "task {}".format) if infos else {}
        if not isinstance(infos, (dict, type(None))):
            raise TypeError(f"agent_infos must be dicts, in lists or not, got {_short(answer[1])}")
        return _joined(actions, "actions", shape), _joined(infos or {}, "agent_infos", shape)

    def _single(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Actions ``(n, A)``, which are not chunks of them."""
        expected, shape = self._action_shape, actions.shape[1:]
        if expected is not None and len(shape) == 1 + len(expected) and shape[1:] == expected:
            raise ValueError(
                f"expected actions of shape {self._said(expected)} from the policy, got "
                f"{self._said(shape)}: if these are chunks of {shape[0]} actions, pass "
                f"action_chunk=K (at the command line --action-chunk K; 1 to {shape[0]}): how many "
                "of each are executed before the policy is asked again"
            )
        return actions

    def _first_of(self, chunks: NDArray[Any]) -> NDArray[Any]:
        """The actions of chunks ``(n, H, A)`` that are executed, ``(n, action_chunk, A)``."""
        k, expected, shape = self._chunk, self._action_shape, chunks.shape[1:]
        assert k is not None  # or there are no chunks
        wrong = not shape if expected is None else shape[1:] != expected
        if wrong or (expected is not None and len(shape) != 1 + len(expected)):
            inside = "A" if expected is None else ", ".join(map(str, expected))
            rows = ", ".join(["M", "K"] if len(self._shape) > 1 else ["n"])
            hint = "return a chunk for each row"
            if shape == expected or not shape:
                hint = "it returns one action for each row, so leave action_chunk out"
            raise ValueError(
                f"action_chunk={k} expects chunks of shape ({rows}, H{', ' * bool(inside)}{inside})"
                f" with H >= {k} from the policy, got {self._said(shape, len(chunks))}: {hint}"
            )
        if shape[0] < k:
            raise ValueError(
                f"action_chunk={k} executes {k} actions of each chunk, and the policy returned "
                f"chunks of {shape[0]}, shape {self._said(shape, len(chunks))}: pass "
                f"action_chunk={shape[0]} or less, or let the policy return more"
            )
        return chunks[:, :k]

    def _said(self, shape: tuple[int, ...], n: int | None = None) -> tuple[int, ...]:
        """The shape of what the policy returns, of so many rows of this shape each."""
        return (*(self._shape if n is None or len(self._shape) > 1 else (n,)), *shape)


def _is_with_state(answer: Any, shape: tuple[int, ...]) -> bool:
    """Whether these are the actions of all environments, and something else."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        return False
    found = getattr(answer[0], "shape", ())
    return bool(found[:1] == shape)


def _joined(values: Any, name: str, shape: tuple[int, ...]) -> Any:
    """The values that the policy returned, in dicts or not, as arrays ``(n, ...)``."""
    if isinstance(values, dict):
        return {k: _joined(value, f"{name}[{k!r}]", shape) for k, value in values.items()}
    try:
        array = np.array(values)
    except ValueError:
        raise ValueError(
            f"{name} must be an array with rows of one shape, got {_short(values)}"
        ) from None
    axes = len(shape)
    if array.shape[:axes] != shape:
        raise ValueError(
            f"expected {name} of shape {shape} and more from the policy, got {array.shape}"
        )
    return array.reshape(-1, *array.shape[axes:])


def _with_rows(old: Any, new: Any, rows: Flags, name: str) -> Any:
    """Arrays ``(n, ...)``, in dicts or not, with new values in the rows of the mask ``(n,)``."""
    if isinstance(new, dict):
        if old is not None and (not isinstance(old, dict) or old.keys() != new.keys()):
            before = sorted(old) if isinstance(old, dict) else "an array"
            raise ValueError(
                f"{name} must have the same keys in every call, {before}, got {sorted(new)}"
            )
        return {
            key: _with_rows(None if old is None else old[key], value, rows, f"{name} {key}")
            for key, value in new.items()
        }
    if old is None:
        old = np.zeros((len(rows), *new.shape[1:]), new.dtype)
    if isinstance(old, dict) or old.shape[1:] != new.shape[1:]:
        before = sorted(old) if isinstance(old, dict) else old.shape[1:]
        raise ValueError(
            f"{name} must keep the shape {before} of each row in every call, got {new.shape[1:]}"
        )
    values = old.astype(np.result_type(old, new))  # a copy, as earlier steps have the old ones
    values[rows] = new
    return values


class PickledPolicy(bytes):
    """A policy on its way to workers, where `PolicyCaller` takes it."""


def pickled(policy: Any) -> PickledPolicy:
    """A policy that goes to workers.

    Raises:
        TypeError: If it does not pickle.
    """
    try:
        return PickledPolicy(cloudpickle.dumps(policy))
    except Exception as exc:  # any class may refuse to be pickled in any way
        raise TypeError(
            f"a policy must pickle to go to workers, {_short(policy)} does not ({exc}); "
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
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:60] + '...'}"
