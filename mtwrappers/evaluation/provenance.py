"""Where a result comes from: all that it takes to play its episodes again."""

from __future__ import annotations

import functools
import json
import platform
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gymnasium.vector import VectorObservationWrapper, VectorWrapper

from mtwrappers.common.checks import check_mapping, check_name
from mtwrappers.evaluation.rules import Rules
from mtwrappers.vector.calls import read_only
from mtwrappers.wrappers.normalize_observation import VectorNormalizeObservationPerTask
from mtwrappers.wrappers.normalize_reward import VectorNormalizeRewardPerTask
from mtwrappers.wrappers.rl2 import VectorRL2Observation

# Whatever takes part in an episode's numbers.
PACKAGES = ("gymnasium", "metaworld", "mtwrappers", "mujoco", "numpy", "scipy")
# These wrappers change neither actions nor the rewards that a result reports.
_HARMLESS = (
    VectorObservationWrapper,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    VectorRL2Observation,
)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_spec(value: Any) -> bool:
    is_of_two = isinstance(value, dict) and value.keys() == {"id", "kwargs"}
    return is_of_two and isinstance(value["id"], str) and isinstance(value["kwargs"], dict)


# Whether a value from a file may stand in a field.
_IS: dict[str, Callable[[Any], bool]] = {
    "episodes_per_task": lambda value: type(value) is int and 0 < value < 10**7,
    "tasks": lambda value: value is None or _is_names(value),
    "max_episode_steps": lambda value: value is None or (type(value) is int and 0 < value < 2**63),
    "spec": lambda value: value is None or _is_spec(value),
    "goals": lambda value: value is None or isinstance(value, str),
    "versions": _is_table,
    "protocol": lambda value: value is None or isinstance(value, dict),
    "policy": lambda value: value is None or isinstance(value, str),
    "evidence": lambda value: value is None or isinstance(value, str),
}


@dataclass(frozen=True)
class Provenance:
    """What an evaluation was played with. With the actions, it is all that a replay needs.

    Args:
        episodes_per_task: As `evaluate` was given it, like ``tasks`` and ``max_episode_steps``.
        versions: Of Python and of all packages that take part, by name.
        tasks: Names of tasks, or ``None`` for all.
        max_episode_steps: When episodes were cut, or ``None``.
        spec: The ``id`` and the ``kwargs`` of the environments'
            `gymnasium.envs.registration.EnvSpec`, as JSON has them; ``None`` where they have none,
            or a wrapper around them changes actions or rewards. Such a result can be verified only
            with environments that are made by hand.
        goals: A digest of the goals that the environments can be given, if there is a list.
        protocol: The fields of the protocol, with its ``name`` and ``digest``.
        policy: The policy's name.
        evidence: The SHA-256 of all actions, if they were kept.
    """

    episodes_per_task: int
    versions: Mapping[str, str]
    tasks: Sequence[str] | None = None
    max_episode_steps: int | None = None
    spec: Mapping[str, Any] | None = None
    goals: str | None = None
    protocol: Mapping[str, Any] | None = None
    policy: str | None = None
    evidence: str | None = None

    def __post_init__(self) -> None:
        if self.protocol is not None:
            rules = Rules.from_dict(self.protocol)  # which checks it
            if missing := sorted(rules.to_dict().keys() - self.protocol.keys()):
                raise ValueError(f"the protocol {rules.name} is without its {missing[0]}")

    @classmethod
    def of(
        cls,
        envs: Any,
        episodes_per_task: int,
        *,
        policy: Any = None,
        protocol: Any = None,
        **rest: Any,
    ) -> Provenance:
        """What there is to say of an evaluation on these environments.

        Raises:
            TypeError: If the policy's name is no string, or the protocol no dict.
            ValueError: If these are not the fields of a protocol.
        """
        return cls(
            episodes_per_task,
            versions(),
            spec=_spec(envs),
            goals=goals_of(envs),
            policy=check_name(policy, "policy_name"),
            protocol=None if protocol is None else dict(check_mapping(protocol, "protocol")),
            **rest,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Provenance:
        """What `to_dict` described, as it is read from a file.

        Raises:
            ValueError: If it is anything else.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or set(data) != names:
            raise ValueError(f"expected provenance with {sorted(names)}, got {reprlib.repr(data)}")
        for name, value in data.items():
            if not _IS[name](value):
                raise ValueError(f"{name} of the provenance cannot be {reprlib.repr(value)}")
        return cls(**data)


def versions() -> dict[str, str]:
    """The versions of Python and of `PACKAGES`, of those that are installed."""
    found = {name: _version(name) for name in PACKAGES}
    known = {name: text for name, text in found.items() if text is not None}
    return {"python": platform.python_version(), **known}


@functools.cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # Meta-World, where others' environments are played
        return None


def goals_of(envs: Any) -> str | None:
    """A digest of the goals that environments can be given, if there is a list."""
    digest: str | None = envs.unwrapped.call_some([0], _goals)[0]
    return digest


def _spec(envs: Any) -> dict[str, Any] | None:
    layer = envs
    while isinstance(layer, VectorWrapper):
        if not isinstance(layer, _HARMLESS):
            return None
        layer = layer.env
    try:
        described = json.loads(layer.spec.to_json())
    except Exception:  # there is none, or arguments that no JSON holds
        return None
    return {name: described[name] for name in ("id", "kwargs")}


@read_only
def _goals(env: Any) -> str | None:
    """A digest of the goals of an environment; runs where the environment is."""
    digest: str | None = getattr(env.unwrapped, "goals_digest", None)
    return digest
