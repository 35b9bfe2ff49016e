"""The arguments of constructors, which determine the episodes of an environment.

A checkpoint holds the identity of each layer (a wrapper, or the environment at the bottom), and
loads only into layers with the same. The identity of

- our own environments and wrappers is the arguments of their constructors, see `keep_arguments`;
- Gymnasium's and Meta-World's wrappers, and those of others that derive from
  `gymnasium.utils.RecordConstructorArgs`, is the arguments of their constructors;
- any other environment with a spec is its id and its arguments;
- any other environment without a spec is its spaces, and its arguments if it keeps them as
  `gymnasium.utils.EzPickle` does;
- any other wrapper is its arguments if it keeps them so.

Arguments become JSON values: numbers and strings as they are, arrays and containers too (long ones
as a digest), dataclasses and named tuples by their class and fields, and functions by their names.
The name of a lambda, or of a function in another, says nothing: these are compared by their code,
their default arguments and the variables that they refer to in outer functions. An object that has
not recorded its arguments is compared by the name of its class alone, and `unknown_arguments` finds
it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import reprlib
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from contextvars import ContextVar
from enum import Enum
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.wrappers import vector as vector_wrappers

# Wrappers that change no episode: their arguments may differ, and those without a state may be
# missing.
WATCHERS = (
    *(wrappers.OrderEnforcing, wrappers.PassiveEnvChecker),
    *(wrappers.HumanRendering, wrappers.RenderCollection, wrappers.RecordVideo),
    getattr(vector_wrappers, "RecordVideo", wrappers.RecordVideo),  # later than Gymnasium 1.2
)
_SCALARS = (bool, int, float, str)
_LONG = 32  # the number of items from which a digest stands for them
# The attributes in which an object has its arguments: described by `keep_arguments`, or as they
# are, by Gymnasium's RecordConstructorArgs and EzPickle.
_ARGUMENTS = "_arguments"
_RECORDED = "_saved_kwargs"
_PICKLED = "_ezpickle_kwargs"
# Marks the description of an object of which nothing but the class is known.
_UNKNOWN = "not compared"
# Parts of the description of a function that are compared if both have them: its module, which is
# unknown in the main script, and its code, which differs between versions of Python.
_MODULE, _CODE = "of module", f"code in {sys.implementation.cache_tag}"
_IF_BOTH = (_MODULE, "code in ")
# The functions that are being described, which may refer to each other.
_OUTER: ContextVar[frozenset[int]] = ContextVar("outer", default=frozenset())
_NOTHING = object()  # where there is no such argument
# How the parameters of wrappers for what they wrap end, such as base_env and venv.
_ENV_ENDINGS = ("env", "envs", "environment")
_SHORT = reprlib.Repr()
_SHORT.maxstring = 100


def keep_arguments(obj: Any, arguments: Mapping[str, Any]) -> None:
    """Makes arguments part of the identity of an object.

    Call it with ``locals()`` at the beginning of a constructor; a second call replaces arguments
    that the constructor has completed.
    """
    arguments = {name: v for name, v in arguments.items() if name not in ("self", "__class__")}
    vars(obj).setdefault(_ARGUMENTS, {}).update(_describe_arguments(arguments))


def unknown_arguments(state: Any) -> Iterator[str]:
    """The names of the classes of which the identities in a state hold nothing but the name."""
    if isinstance(state, dict):
        if state.get(_UNKNOWN) is True:
            yield str(state.get("type"))
        for value in state.values():
            yield from unknown_arguments(value)
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from unknown_arguments(value)


def describe_identity(
    layer: Any,
    *,
    bottom: bool,
    has_attributes: bool,
    get_state: Callable[[Any], Collection[str]] | None = None,
) -> dict[str, Any]:
    """The identity of a layer, as JSON values.

    Args:
        layer: An environment or a wrapper.
        bottom: Whether it is the environment inside all wrappers.
        has_attributes: Whether it belongs to a package whose wrappers have their arguments as
            attributes, which do not change unless they are in its state.
        get_state: Returns its state by the names of attributes, which are no part of its identity.
    """
    if _ARGUMENTS not in vars(layer):
        if isinstance(layer, WATCHERS):
            identity = {}  # it changes no result, whatever its arguments are
        elif _RECORDED in vars(layer):
            identity = _describe_recorded(layer)
        elif bottom:
            identity = _describe_env(layer)
        elif has_attributes:
            identity = _describe_attributes(layer, () if get_state is None else get_state(layer))
        else:
            identity = _describe_recorded(layer)
        vars(layer)[_ARGUMENTS] = identity
    described: dict[str, Any] = vars(layer)[_ARGUMENTS]
    return described


def require_same(expected: Any, identity: Any, owner: str) -> None:
    """Raises `ValueError` unless two identities are equal; the message names what differs.

    Args:
        expected: The identity of a layer that is to take a state.
        identity: The identity in that state, which may come from a file.
        owner: The name of the layer, for the message.
    """
    if differences := list(_differences(expected, identity, "")):
        raise ValueError(f"the state belongs to another {owner}: {'; '.join(differences)}")


def _describe_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, without those that may differ.

    An environment inside has an identity of its own, and rendering does not change an episode.
    Executors and Meta-World's fast classes leave out more.
    """
    return {
        str(name): describe(value)
        for name, value in arguments.items()
        if name != "render_mode"
        and not (name == "env" and isinstance(value, (gymnasium.Env, VectorEnv)))
    }


def describe(value: Any) -> Any:
    """An argument as JSON values."""
    if value is None or type(value) in _SCALARS:
        return value if value == value else "nan"  # so that it equals itself
    if isinstance(value, (complex, slice, np.dtype)):
        return repr(value)
    if isinstance(value, Enum):
        return describe(value.value)
    if isinstance(value, bytes):
        return _digest(value)
    if isinstance(value, (np.generic, np.ndarray)):
        if value.size > _LONG and not value.dtype.hasobject:
            return f"{value.dtype}{list(value.shape)} {_digest(value.tobytes())}"
        return describe(value.tolist())
    if isinstance(value, spaces.Box):
        return describe({"low": value.low, "high": value.high, "dtype": str(value.dtype)})
    if isinstance(value, (spaces.Dict, spaces.Tuple)):
        return describe(value.spaces)
    if isinstance(value, spaces.Space):
        return repr(value)
    if isinstance(value, functools.partial):
        called = {"partial of": describe(value.func), "with": describe(value.args)}
        return {**called, **_describe_arguments(value.keywords)}
    if isinstance(value, EnvSpec):
        return _describe_spec(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _with_class(value, describe(value._asdict()))
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range, deque, Set)):
        items = [describe(item) for item in value]
        if isinstance(value, Set):
            items.sort(key=repr)
        short = len(items) <= _LONG or not all(isinstance(item, _SCALARS) for item in items)
        return items if short else f"{len(items)} items {_digest(json.dumps(items).encode())}"
    if isinstance(value, (FunctionType, MethodType)):
        return _describe_function(value)
    if isinstance(value, (type, np.ufunc, ModuleType)) or inspect.isroutine(value):
        return value.__name__
    if dataclasses.is_dataclass(value):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return _with_class(value, fields)
    return _with_class(value, _describe_recorded(value))


def _with_class(value: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The description of an object by its class and arguments, one of which may be a ``type``."""
    if "type" in arguments and not arguments.get(_UNKNOWN):
        arguments = {"arguments": arguments}
    return {"type": type(value).__name__, **arguments}


def _describe_recorded(value: Any) -> dict[str, Any]:
    """The arguments that an object has recorded, or the mark that nothing is known of them."""
    attributes = getattr(value, "__dict__", {})
    if _ARGUMENTS in attributes:
        return dict(attributes[_ARGUMENTS])
    if _RECORDED in attributes:
        return _describe_arguments(attributes[_RECORDED])
    if _PICKLED in attributes:
        args, kwargs = attributes["_ezpickle_args"], attributes[_PICKLED]
        try:  # EzPickle makes a copy by calling the class with these
            kwargs = inspect.signature(type(value)).bind(*args, **kwargs).arguments
        except TypeError:  # they are those of a base class
            kwargs = {"with": args, **kwargs}
        return _describe_arguments(kwargs)
    cls = type(value)
    return {"type": cls.__name__, _UNKNOWN: True} if _takes_arguments(cls) else {}


def _takes_arguments(cls: type[Any]) -> bool:
    """Whether objects of a class may differ by what its constructor was given."""
    try:
        names = list(inspect.signature(cls).parameters)
    except (TypeError, ValueError):  # a class that is not written in Python
        return True
    if issubclass(cls, (gymnasium.Wrapper, VectorWrapper)):
        # The environment inside; some wrappers make it themselves, from their arguments.
        names = [name for name in names if not name.endswith(_ENV_ENDINGS)]
    return any(name != "render_mode" for name in names)


def _describe_function(function: FunctionType | MethodType) -> dict[str, Any]:
    """A function by its name or, if that says nothing, by its code."""
    if isinstance(function, MethodType):
        return {"function": function.__name__, "of": describe(function.__self__)}
    described: dict[str, Any] = {"function": function.__qualname__}
    if function.__module__ not in ("__main__", "__mp_main__", None):
        described[_MODULE] = function.__module__
    outer = _OUTER.get()
    if "<" not in function.__qualname__ or id(function) in outer:
        return described
    token = _OUTER.set(outer | {id(function)})
    try:
        described[_CODE] = _digest(repr(_stable(function.__code__)).encode())
        described["defaults"] = describe([function.__defaults__, function.__kwdefaults__])
        variables = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        described["variables"] = {name: _describe_variable(cell) for name, cell in variables}
    finally:
        _OUTER.reset(token)
    return described


def _describe_variable(cell: CellType) -> Any:
    """A variable of an outer function."""
    try:
        return describe(cell.cell_contents)
    except ValueError:  # it has no value yet
        return None


def _stable(constant: Any) -> Any:
    """A constant of a function's code in a form that is the same in each process."""
    if isinstance(constant, CodeType):
        code = constant
        return (code.co_code, code.co_names, code.co_varnames, *map(_stable, code.co_consts))
    if isinstance(constant, tuple):
        return tuple(map(_stable, constant))
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)


def _describe_env(env: Any) -> dict[str, Any]:
    """An environment by its spec or, without a spec, by its spaces and what it keeps."""
    if isinstance(spec := getattr(env, "spec", None), EnvSpec):
        return _describe_spec(spec)
    names = ("observation_space", "action_space")
    described = {name: describe(getattr(env, name)) for name in names}
    return {**described, "type": type(env).__name__, **_describe_recorded(env)}


def _describe_spec(spec: EnvSpec) -> dict[str, Any]:
    """A spec by its id, its arguments, and its constructor if that is not a string."""
    described = {"id": spec.id, **_describe_arguments(spec.kwargs)}
    if callable(spec.entry_point):
        described["entry_point"] = describe(spec.entry_point)
    return described


def _describe_attributes(wrapper: Any, state: Collection[str]) -> dict[str, Any]:
    """A wrapper by the arguments that it has as attributes, except for those in its state.

    Gymnasium's vector wrappers do not record them, but those around a wrapper of single
    environments have it in ``wrapper``.
    """
    attributes = vars(wrapper)
    names = set(inspect.signature(type(wrapper).__init__).parameters) - {"self", "env"}
    arguments = {}
    for name in ("wrapper", *sorted(names - set(state))):
        for attribute in (name, f"_{name}"):
            if attribute in attributes:
                arguments[name] = attributes[attribute]
    return _describe_arguments(arguments)


def _differences(expected: Any, actual: Any, where: str) -> Iterator[str]:
    """The places at which two descriptions differ, with both values."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in {**expected, **actual}:
            if str(name).startswith(_IF_BOTH) and not (name in expected and name in actual):
                continue
            place = f"{where}.{name}" if where else str(name)
            values = expected.get(name, _NOTHING), actual.get(name, _NOTHING)
            yield from _differences(*values, place)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for i, values in enumerate(zip(expected, actual, strict=True)):
            yield from _differences(*values, f"{where}[{i}]")
    elif expected != actual:
        yield f"expected {where} {_summary(expected)}, got {_summary(actual)}"


def _summary(value: Any) -> str:
    """A description in a message."""
    return "nothing" if value is _NOTHING else _SHORT.repr(value)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
