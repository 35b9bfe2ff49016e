"""The arguments of constructors, which determine the episodes of an environment.

A checkpoint holds the identity of each layer (a wrapper, or the environment at the bottom), and
loads only into layers with the same. The identity of

- our own environments and wrappers is the arguments of their constructors, see `keep_arguments`;
- Gymnasium's and Meta-World's wrappers, and those of others that derive from
  `gymnasium.utils.RecordConstructorArgs`, is the arguments of their constructors;
- any other wrapper is empty: its attributes are in its state, see `mtwrappers.state.env_state`;
- any other environment is the id and the arguments of its spec or, without a spec, its spaces.

Arguments become JSON values: numbers, strings, arrays and containers as they are (long ones as a
digest), a function by its name, and any other object by the name of its class.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import reprlib
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Set
from enum import Enum
from typing import Any

import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import vector as vector_wrappers

# Arguments that may differ: the environment inside has an identity of its own, and rendering does
# not change an episode. Executors and Meta-World's fast classes add theirs.
_MAY_DIFFER = {"self", "__class__", "env", "render_mode"}
# Wrappers that change no episode: their arguments may differ, and those without a state may be
# missing.
WATCHERS = (
    *(wrappers.OrderEnforcing, wrappers.PassiveEnvChecker),
    *(wrappers.HumanRendering, wrappers.RenderCollection, wrappers.RecordVideo),
    getattr(vector_wrappers, "RecordVideo", wrappers.RecordVideo),  # later than Gymnasium 1.2
)
_SCALARS = (bool, int, float, str)
_LONG = 32  # the number of items from which a digest stands for them
_ARGUMENTS = "_arguments"
_NOTHING = object()  # where there is no such argument
_SHORT = reprlib.Repr()
_SHORT.maxstring = 100


def keep_arguments(obj: Any, arguments: Mapping[str, Any]) -> None:
    """Makes arguments part of the identity of an object.

    Call it with ``locals()`` at the beginning of a constructor; a second call replaces arguments
    that the constructor has completed.
    """
    vars(obj).setdefault(_ARGUMENTS, {}).update(describe(arguments))


def identity_of(
    layer: Any, *, bottom: bool, known: bool, state: Collection[str] = ()
) -> dict[str, Any]:
    """The identity of a layer, as JSON values.

    Args:
        layer: An environment or a wrapper.
        bottom: Whether it is the environment inside all wrappers.
        known: Whether it belongs to a package whose wrappers have a known state.
        state: The attributes that are its state, which are no part of its identity.
    """
    if _ARGUMENTS not in vars(layer):
        found: Mapping[str, Any] = {}
        if isinstance(layer, WATCHERS):
            pass
        elif "_saved_kwargs" in vars(layer):
            found = vars(layer)["_saved_kwargs"]
        elif bottom:
            found = _of_spec(layer)
        elif known:
            found = {name: value for name, value in _kept(layer) if name not in state}
        keep_arguments(layer, found)
    identity: dict[str, Any] = vars(layer)[_ARGUMENTS]
    return identity


def require_same(expected: Any, found: Any, of: str) -> None:
    """Raises `ValueError` unless two identities are equal; the message names what differs.

    Args:
        expected: The identity of a layer that is to take a state.
        found: The identity in that state, which may come from a file.
        of: The name of the layer, for the message.
    """
    if different := list(_differences(expected, found, "")):
        raise ValueError(f"the state belongs to another {of}: {'; '.join(different)}")


def describe(value: Any) -> Any:
    """An argument as JSON values."""
    if value is None or type(value) in _SCALARS:
        return value if value == value else "nan"  # so that it equals itself
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
        return describe({"partial of": value.func, "with": value.args, **value.keywords})
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return describe(value._asdict())
    if isinstance(value, Mapping):
        return {str(k): describe(v) for k, v in value.items() if k not in _MAY_DIFFER}
    if isinstance(value, (list, tuple, range, deque, Set)):
        items = [describe(item) for item in value]
        if isinstance(value, Set):
            items.sort(key=repr)
        short = len(items) <= _LONG or not all(isinstance(item, _SCALARS) for item in items)
        return items if short else f"{len(items)} items {_digest(json.dumps(items).encode())}"
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__name__
    if dataclasses.is_dataclass(value):
        return describe({one.name: getattr(value, one.name) for one in dataclasses.fields(value)})
    has = getattr(value, "__dict__", {})
    kept = has.get(_ARGUMENTS) or has.get("_saved_kwargs") or {}
    return {"type": type(value).__name__, **describe(kept)}


def _of_spec(env: Any) -> dict[str, Any]:
    """The id and the arguments of an environment's spec or, without a spec, its spaces."""
    spec = getattr(env, "spec", None)
    if isinstance(spec, EnvSpec):
        return {"id": spec.id, **spec.kwargs}
    return {name: getattr(env, name) for name in ("observation_space", "action_space")}


def _kept(wrapper: Any) -> Iterator[tuple[str, Any]]:
    """The arguments of a constructor that its wrapper has as attributes.

    Gymnasium's vector wrappers do not record them, but those around a wrapper of single
    environments have it in ``wrapper``.
    """
    has = vars(wrapper)
    for name in ("wrapper", *inspect.signature(type(wrapper).__init__).parameters):
        for attribute in (name, f"_{name}"):
            if attribute in has:
                yield name, has[attribute]


def _differences(expected: Any, found: Any, where: str) -> Iterator[str]:
    """The places at which two descriptions differ, with both values."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in {**expected, **found}:
            one, other = expected.get(name, _NOTHING), found.get(name, _NOTHING)
            yield from _differences(one, other, f"{where}.{name}" if where else str(name))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for i, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(one, other, f"{where}[{i}]")
    elif expected != found:
        one, other = ("nothing" if v is _NOTHING else _SHORT.repr(v) for v in (expected, found))
        yield f"expected {where} {one}, got {other}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
