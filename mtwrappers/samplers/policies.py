"""Calls policies, either their method ``get_actions`` or a plain callable.

Besides observations, a policy may take the arguments in `ARGUMENTS`.
"""

from __future__ import annotations

import inspect
import io
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from numpy.random import PCG64, Generator, RandomState, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.errors import is_ours, short, with_place
from mtwrappers.common.types import AnyArray, AnySpace
from mtwrappers.samplers.nested import join, map_arrays

PolicyIn: TypeAlias = Literal["parent", "workers"]
Flags: TypeAlias = NDArray[np.bool_]
# The arguments that a policy may take by name besides its observations, each an array with an entry
# for each row. The entry is that of a row which has not begun an episode.
ARGUMENTS: Mapping[str, Any] = {"rng": None, "task_names": "", "descriptions": "", "due": True}
# Those whose entries are texts, which `PolicyCaller.describe` sets.
TEXTS = tuple(name for name, entry in ARGUMENTS.items() if entry == "")

# What to pass for the model of a library whose ``predict`` returns a pair (actions, state).
PREDICT_EXAMPLE = (
    "lambda obs: model.predict(obs, deterministic=True)[0] (a recurrent model needs an object with "
    "reset(mask), see the guide to Stable-Baselines3)"
)

# Keeps the generators of policies independent of the environments' with the same seed.
_STREAM = 1_000_081


class PolicyMethods:
    """The methods of a policy that a rollout calls: the one for its actions, and its ``reset``.

    Args:
        policy: The policy, as `PolicyCaller` describes it.
        action_space: The space of one environment's action, to refuse chunks of actions, and for
            error messages.

    Attributes:
        is_get_actions: Whether actions come from ``get_actions``, for arrays ``(M, K, ...)``. Any
            other callable takes arrays ``(n, ...)`` and returns no agent infos.
        argument_names: The names of `ARGUMENTS` that it takes.
        resets_all_together: Whether the policy, or one inside it, has a ``reset()`` that takes no
            mask.

    Raises:
        TypeError: If the policy has no ``get_actions`` and is not callable, needs another argument
            than `ARGUMENTS`, or takes one of these only by position.
        ValueError: If its attribute ``argument_names`` has other names.
    """

    def __init__(self, policy: Any, action_space: AnySpace | None = None) -> None:
        get_actions = getattr(policy, "get_actions", None)
        if isinstance(policy, type) or not (callable(get_actions) or callable(policy)):
            raise TypeError(
                "a policy must have get_actions(observations) or be callable, such as "
                f"{PREDICT_EXAMPLE}, got {policy!r}"
            )
        self.is_get_actions = callable(get_actions)
        self._choose: Callable[..., Any] = get_actions if callable(get_actions) else policy
        self._action_space = action_space
        names = getattr(policy, "argument_names", None)
        if names is None:
            names = _argument_names(self._choose)
        elif unknown := sorted({*names} - ARGUMENTS.keys()):
            raise ValueError(
                f"argument_names of a policy must be among {sorted(ARGUMENTS)}, got {unknown} in "
                f"{_short(policy)}"
            )
        self.argument_names = tuple(name for name in ARGUMENTS if name in names)
        reset = getattr(policy, "reset", None)
        self._reset: Callable[..., Any] | None = reset if callable(reset) else None
        self._reset_takes_mask = self._reset is None or _takes_argument(self._reset)
        self._warned_of_reset = False
        inner_resets_all = bool(getattr(policy, "resets_all_together", False))
        self.resets_all_together = not self._reset_takes_mask or inner_resets_all

    def reset(self, mask: Flags) -> None:
        """Calls the policy's ``reset`` for the environments that begin an episode, ``(n,)`` bool.

        If it takes no mask, it is called only if all begin together; a warning says once that it
        was not.
        """
        if self._reset is None:
            return
        if self._reset_takes_mask:
            self._reset(mask.copy())
        elif mask.all():
            self._reset()
        elif mask.any() and not self._warned_of_reset:
            self._warned_of_reset = True
            warnings.warn(
                "reset() of the policy takes no mask and is called only if all environments begin "
                f"an episode together, but {int(mask.sum())} of {len(mask)} do: give the policy "
                "reset(mask), if it remembers anything, or pass one environment",
                stacklevel=find_stacklevel(),
            )

    def choose_actions(
        self,
        observations: Any,
        arguments: Mapping[str, AnyArray],
        shape: tuple[int, ...],
        kind: str = "actions",
    ) -> tuple[AnyArray, dict[str, Any]]:
        """Returns new arrays of actions ``(n, ...)`` and agent infos ``(n, ...)``.

        Args:
            observations: The observations of ``n`` rows.
            arguments: The values of ``argument_names``.
            shape: The first axes of observations for the policy, ``(M, K)`` or ``(n,)``.
            kind: The word for actions in error messages.

        Raises:
            TypeError, ValueError: If the policy returns something of another form; see
                `PolicyCaller`.
        """
        # Copies, so that a policy cannot change recorded arrays in place.
        obs = map_arrays(lambda array: array.copy().reshape(*shape, *array.shape[1:]), observations)
        axes = shape if self.is_get_actions else (-1,)  # `due` may have more rows than observations
        by_name = {name: array.copy().reshape(axes) for name, array in arguments.items()}
        try:
            answer, agent_infos = self._choose(obs, **by_name), None
        except (TypeError, ValueError, RuntimeError) as exc:  # such as for shapes that do not fit
            if not is_ours(exc):  # `ActionChunks` raises our own
                with_place(exc, f"the policy, called with {_describe(obs)}")
            raise
        if self.is_get_actions:
            if not isinstance(answer, (tuple, list)) or len(answer) != 2:
                raise TypeError(
                    f"get_actions must return a pair (actions, agent_infos), got {_short(answer)}"
                )
            answer, agent_infos = answer
        try:
            actions = _convert_array(answer, kind, shape, self._action_axes(kind))
        except ValueError as exc:
            self._explain_shape(exc, answer, shape, obs)
            raise
        self._check_actions(actions, kind, shape)
        return actions, {} if agent_infos is None else _join_infos(agent_infos, shape)

    def _action_axes(self, kind: str) -> tuple[Any, ...]:
        """The axes of a single action, as far as they are known."""
        is_known = kind == "actions" and self._action_space is not None
        axes = getattr(self._action_space, "shape", None) if is_known else None
        return (...,) if axes is None else axes

    def _explain_shape(
        self, exc: ValueError, answer: Any, shape: tuple[int, ...], obs: Any
    ) -> None:
        """Raises an error that says why ``answer`` has another number of rows, if that is known.

        Args:
            exc: The error without the reason.
            answer: The policy's actions.
            shape: The first axes that they should have.
            obs: The observations that the policy received.
        """
        if not self.is_get_actions and _is_with_state(answer, shape):
            raise TypeError(
                f"the policy returned a tuple (actions, state): give {PREDICT_EXAMPLE}, or an "
                "object whose get_actions(observations) returns (actions, agent_infos)"
            ) from None
        if isinstance(obs, (dict, tuple)) and _has_length(answer, len(obs)):
            raise ValueError(f"{exc}: {_length_hint(obs)}") from None

    def _check_actions(self, actions: AnyArray, kind: str, shape: tuple[int, ...]) -> None:
        """Raises `TypeError` for a dtype of no action in the space, `ValueError` for chunks."""
        if actions.dtype == object:
            raise TypeError(
                f"{kind} from the policy must be numbers, got an array of objects, such as "
                f"{_short(actions.flat[0])}: convert them, such as with "
                "np.array(actions, dtype=np.float32)"
            )
        space = self._action_space
        if isinstance(space, (Discrete, MultiDiscrete)) and actions.dtype.kind not in "iu":
            raise TypeError(
                f"{kind} from the policy must be integers in {space}, got {actions.dtype}: "
                "convert them with actions.astype(np.int64)"
            )
        if space is None:
            return
        expected, chunk = space.shape or (), actions.shape[1:]
        if len(chunk) == 1 + len(expected) and chunk[1:] == expected:
            raise ValueError(
                f"expected actions of shape {(*shape, *expected)} from the policy, got "
                f"{(*shape, *chunk)}: if these are chunks of {chunk[0]} actions, pass "
                f"mtwrappers.ActionChunks(policy, k), with k from 1 to {chunk[0]}, the number of "
                "actions to execute before the policy is called again"
            )


class PolicyCaller(PolicyMethods):
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

            A policy around another one may name them in an attribute ``argument_names`` instead.
        meta_batch_size: ``M``, the number of tasks.
        envs_per_task: ``K``, the number of environments per task.
        rows: The environments to act for, such as one worker's; by default all. A callable then
            receives ``(n, O)``, and ``get_actions`` ``(m, K, O)``, or ``(n, 1, O)`` if tasks are
            split across workers. The policy's method ``for_tasks(indices)`` returns the policy for
            the tasks on the first axis; ``get_actions`` needs it if these are not all tasks.
        seed: Seeds the generators; a tuple of integers.
        action_space: The space of one environment's action, to refuse chunks of actions, and for
            error messages.

    Attributes:
        is_get_actions: Whether actions come from ``get_actions``.
        argument_names: The names of `ARGUMENTS` that the policy takes.
        resets_all_together: Whether the policy, or one inside it, has a ``reset()`` that takes no
            mask.
        texts: The members of `TEXTS` that the policy takes; `describe` sets them per episode.
        first: The index of the first environment of ``rows``.
        envs_per_task: ``K``.

    Raises:
        TypeError: If the policy has no ``get_actions`` and is not callable, needs another argument
            than these, takes one of them only by position, or has no ``for_tasks`` where
            ``get_actions`` needs it.
        ValueError: If its attribute ``argument_names`` has other names.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> def policy(observations, rng, task_names):
    ...     return np.stack([row_rng.uniform(-0.1, 0.1, 2) for row_rng in rng])
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> result = mtwrappers.evaluate(policy, envs, episodes_per_task=3)
    >>> result == mtwrappers.evaluate(policy, envs, episodes_per_task=3)
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
        action_space: AnySpace | None = None,
    ) -> None:
        if isinstance(policy, PickledPolicy):
            policy = cloudpickle.loads(policy)
        m, k = meta_batch_size, envs_per_task
        rows = slice(0, m * k) if rows is None else rows
        indices = range(rows.start, rows.stop)
        # If one task's environments are split across workers, each row is a task of its own.
        group_size = 1 if rows.start % k or rows.stop % k else k
        tasks = [i // k for i in indices[::group_size]]
        self._hint_in_worker = ""  # the place of errors from a callable that may need for_tasks
        if len(indices) < m * k:
            if not hasattr(policy, "for_tasks"):
                self._hint_in_worker = (
                    f"the policy, called for tasks {short(tasks)} of {m} (give it "
                    "for_tasks(indices) if it keeps something for each task, or use "
                    "policy_in='parent')"
                )
            policy = select_tasks(policy, tasks)
        super().__init__(policy, action_space)
        n, names = len(indices), self.argument_names
        self._shape: tuple[int, ...] = (len(tasks), group_size) if self.is_get_actions else (n,)
        self.texts = tuple(name for name in TEXTS if name in names)
        self.first, self.envs_per_task = rows.start, k
        # The arguments by name, (n,) each.
        self._arguments: dict[str, AnyArray] = {
            name: np.full(n, ARGUMENTS[name], dtype=object) for name in names
        }
        if "rng" in names:
            self._arguments["rng"][:] = [
                Generator(PCG64(SeedSequence(seed, spawn_key=(i,)))) for i in indices
            ]
        self._all_rows = np.ones(n, dtype=np.bool_)

    def seed(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Replaces the generators of some rows, if the policy takes ``rng``."""
        if (rngs := self._arguments.get("rng")) is not None:
            for i, seed in zip(rows, seeds, strict=True):
                rngs[i] = Generator(PCG64(SeedSequence(seed, spawn_key=(_STREAM,))))

    def describe(self, rows: Sequence[int], texts: Mapping[str, Sequence[str]]) -> None:
        """Sets the ``texts`` that the policy receives for episodes that begin in some rows."""
        for name in self.texts:
            self._arguments[name][rows] = texts[name]

    def __call__(
        self, observations: Any, live: Flags | None = None
    ) -> tuple[AnyArray, dict[str, Any]]:
        """Returns actions ``(n, A)`` and agent infos ``(n, ...)`` for observations ``(n, O)``.

        All are new arrays, because a policy may reuse its own.

        Args:
            observations: The observations of all rows.
            live: A mask of the rows whose actions count, ``(n,)`` bool; by default all.

        Raises:
            TypeError: If ``get_actions`` does not return a pair, a callable returns None or a tuple
                (actions, state), actions are objects, discrete actions are no integers, or agent
                infos have another form.
            ValueError: If the policy returns another number of actions or agent infos, or chunks of
                actions.
        """
        if "due" in self._arguments:
            self._arguments["due"] = self._all_rows if live is None else live
        try:
            return self.choose_actions(observations, self._arguments, self._shape)
        except Exception as exc:
            if self._hint_in_worker:
                with_place(exc, self._hint_in_worker)
            raise


def select_tasks(policy: Any, tasks: Sequence[int]) -> Any:
    """Returns a policy for some of its tasks.

    A plain callable without ``for_tasks`` is returned as it is, because its rows name no tasks.

    Raises:
        TypeError: If the policy has ``get_actions``, whose first axis is the tasks, and has no
            ``for_tasks``: it may use the parameters of other tasks.
    """
    if hasattr(policy, "for_tasks"):
        return policy.for_tasks(tasks)
    if callable(getattr(policy, "get_actions", None)):
        raise TypeError(
            f"a policy with get_actions that is called for only some tasks, here {short(tasks)}, "
            f"must have for_tasks(indices), {_short(policy)} has none: return the policy for these "
            "tasks from it, or self if it is the same for all tasks, or use policy_in='parent'"
        )
    return policy


def _is_with_state(answer: Any, shape: tuple[int, ...]) -> bool:
    """Whether the answer is a pair of the actions of all environments and something else."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        return False
    actions_shape = getattr(answer[0], "shape", ())
    return bool(actions_shape[:1] == shape)


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


def _join_infos(agent_infos: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Converts a policy's agent infos, in lists or not, to dicts of arrays ``(n, ...)``."""
    infos = agent_infos
    if isinstance(infos, (list, tuple)):
        infos = [
            join(info, "agent_infos", "environment {}".format)
            if isinstance(info, (list, tuple))
            else info
            for info in infos
        ]
        infos = join(infos, "agent_infos", "task {}".format) if infos else {}
    if not isinstance(infos, (dict, type(None))):
        axes = ", ".join(map(str, shape))
        raise TypeError(
            f"agent_infos must be a dict of arrays ({axes}, ...), such as {{'mean': means}}, or "
            f"such dicts in lists, and {{}} or None if there are none, got {_short(agent_infos)}"
        )
    return _convert_infos(infos or {}, "agent_infos", shape)


def _convert_infos(infos: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Converts the values of dicts of agent infos, nested or not, to arrays ``(n, ...)``."""
    return {
        key: _convert_infos(values, f"{name}[{key!r}]", shape)
        if isinstance(values, dict)
        else _convert_array(values, f"{name}[{key!r}]", shape)
        for key, values in infos.items()
    }


def _convert_array(
    values: Any, name: str, shape: tuple[int, ...], inner: tuple[Any, ...] = (...,)
) -> AnyArray:
    """Converts values from the policy to a new array ``(n, ...)``.

    Args:
        values: An array, or what NumPy can make one of.
        name: The name of the values, for messages.
        shape: The first axes that they should have, ``(M, K)`` or ``(n,)``.
        inner: The other axes, for messages, with an ellipsis for those that are not known.

    Raises:
        TypeError: If they are ``None``, or become no array.
        ValueError: If they have another shape.
    """
    axes_text = str((*shape, *inner)).replace("Ellipsis", "...")
    expected = f"expected {name} of shape {axes_text} from the policy"
    if values is None:
        raise TypeError(f"{expected}, got None: is a return missing?")
    try:
        # Of a tensor, `np.array` would warn: its `__array__` has no argument `copy`.
        array = np.array(np.asarray(values))
    except ValueError:
        raise ValueError(
            f"{name} must be an array with rows of one shape, got {_short(values)}"
        ) from None
    except RuntimeError as exc:  # such as a tensor of PyTorch that requires a gradient
        raise TypeError(f"{name} from the policy must become an array: {exc}") from None
    axes = len(shape)
    if array.shape[:axes] != shape:
        raise ValueError(f"{expected}, got {array.shape if array.ndim else _short(values)}")
    return array.reshape(-1, *array.shape[axes:])


class PickledPolicy(bytes):
    """A pickled policy, which `PolicyCaller` unpickles in a worker."""


# The classes of Gymnasium whose attribute ``_np_random`` is a generator.
_WITH_GENERATOR = (gymnasium.Env, gymnasium.vector.VectorEnv, gymnasium.Space)


class _PolicyPickler(cloudpickle.CloudPickler):  # type: ignore[misc] # it has no types
    """Writes the pickle of cloudpickle, and notes the random generators in it.

    Those of environments and spaces that the policy holds are left out: a trained model has such
    ones, and does not draw its actions from them.

    Args:
        file: The file to write to.
        policy: The policy, which may itself be an environment, and then draws from its generator.

    Attributes:
        generators: The names of the classes of the generators.
    """

    def __init__(self, file: io.BytesIO, policy: Any) -> None:
        super().__init__(file)
        self._policy = policy
        # The generators to leave out, by their ids, which are theirs as long as they are kept here.
        self._left_out: dict[int, Any] = {}
        self.generators: set[str] = set()
        self._classes: dict[str, type[Any]] = {
            "numpy.random.Generator": Generator,
            "numpy.random.RandomState": RandomState,
            "random.Random": random.Random,
        }
        if torch := sys.modules.get("torch"):
            self._classes["torch.Generator"] = torch.Generator

    def reducer_override(self, obj: Any) -> Any:
        """Pickles an object as cloudpickle does."""
        # An object comes before what it holds.
        if isinstance(obj, _WITH_GENERATOR) and obj is not self._policy:
            generator = vars(obj).get("_np_random")
            self._left_out[id(generator)] = generator
        if id(obj) not in self._left_out:
            self.generators |= {name for name, cls in self._classes.items() if isinstance(obj, cls)}
        return super().reducer_override(obj)


def pickle_policy(policy: Any) -> tuple[PickledPolicy, list[str]]:
    """Pickles a policy for workers.

    Returns:
        The pickle, and the names of the classes of random generators in it, of which each worker
        unpickles the same copy. Those of environments and spaces are not among them.

    Raises:
        TypeError: If the policy cannot be pickled.
    """
    file = io.BytesIO()
    try:
        pickler = _PolicyPickler(file, policy)
        pickler.dump(policy)
        return PickledPolicy(file.getvalue()), sorted(pickler.generators)
    except Exception as exc:  # any class may refuse to be pickled in any way
        raise TypeError(
            f"a policy must be picklable to run in workers, {_short(policy)} is not ({exc}); "
            "policy_in='parent' calls it in this process"
        ) from exc


def require_env_first(env: Any, policy: Any, sampler: str) -> None:
    """Raises `TypeError` if the first two arguments of a sampler are a policy and an environment.

    Args:
        env: The argument that should be an environment or what makes it.
        policy: The argument that should be a policy.
        sampler: The name of the sampler's class, for the message.
    """
    env_types = gymnasium.Env, gymnasium.vector.VectorEnv
    if isinstance(env, env_types):
        return
    is_policy = callable(getattr(env, "get_actions", None)) or (
        # A class may be an environment that needs arguments, which its own error names.
        callable(env) and not isinstance(env, type) and _needs_argument(env)
    )
    # An environment that acts, such as a scripted expert in a wrapper, is a policy.
    is_acting = callable(policy) or callable(getattr(policy, "get_actions", None))
    is_env = (isinstance(policy, env_types) and not is_acting) or (
        isinstance(policy, type) and issubclass(policy, env_types)
    )
    if is_policy or is_env:
        raise TypeError(
            f"{sampler} takes the environment, or what makes it without arguments, before the "
            f"policy: {sampler}(env, policy, ...); got {_short(env)} as env and {_short(policy)} "
            "as policy"
        )


def _argument_names(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters of a policy after its first, the observations.

    Raises:
        TypeError: If it needs any other argument, or takes one of `ARGUMENTS` only by position.
    """
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # a function of C without a signature
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    unknown = [
        parameter.name
        for parameter in parameters[1:]
        if parameter.name not in ARGUMENTS
        and parameter.default is parameter.empty
        and parameter.kind not in variadic
    ]
    if unknown or not parameters:
        problem = f"that also needs {unknown}" if unknown else "that takes nothing"
        raise TypeError(
            f"a policy takes the observations and, by name, any of {[*ARGUMENTS]}, got "
            f"{_short(function)} {problem}; functools.partial sets other arguments"
        )
    for parameter in parameters[1:]:
        if parameter.name in ARGUMENTS and parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(
                f"a policy must take {parameter.name} by name, got {_short(function)} that takes "
                'it only by position: remove the "/" after it, or put it before'
            )
    return [parameter.name for parameter in parameters[1:]]


def _needs_argument(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return True
    except ValueError:  # a function of C without a signature
        return False
    return False


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function of C without a signature
        return True
    return True


def _describe(obs: Any) -> str:
    """The shape and dtype of observations, which are often what a policy's error is about."""
    if isinstance(obs, np.ndarray):
        return f"observations of shape {obs.shape}, an array of NumPy of {obs.dtype}"
    return f"a {type(obs).__name__} of observations, {[*_keys(obs)]}"


def _short(value: Any) -> str:
    return f"{type(value).__name__} {short(value, 60)}"
