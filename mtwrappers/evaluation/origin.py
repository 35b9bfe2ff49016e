"""Where a result was measured: what determines its scores, besides the policy and the protocol."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gymnasium.envs.registration import registry

from mtwrappers.common import registration
from mtwrappers.common.registration import TABLE
from mtwrappers.envs.families import FAMILIES
from mtwrappers.envs.multi_env import DEFAULT_IDS
from mtwrappers.evaluation.remake import Environments
from mtwrappers.metaworld.make import SIMULATION, select_determining_arguments, with_defaults
from mtwrappers.metaworld.upstream_names import rename_arguments

# The packages that can affect an episode's numbers.
PACKAGES = ("gymnasium", "metaworld", "mtwrappers", "mujoco", "numpy", "scipy")
# The modules of environments that need none of the packages of `SIMULATION`, except for
# Gymnasium's own of MuJoCo. Families of tasks name the package that they need.
_WITHOUT_SIMULATION = ("gymnasium.envs.", "mtwrappers.envs.point_goal")
# The arguments of Meta-World's ids that determine what is scored. All others determine what a
# policy observes, which is its own affair unless a protocol fixes it, or how environments run.
SCORED = (
    *("benchmark", "kind", "env_name", "train_classes", "test_classes"),
    *("goals", "seed", "num_goals", "meta_batch_size", "max_episode_steps", "action_repeat"),
    *("idle_steps", "terminate_on_success", "reward_function_version", "wrappers"),
)
# Arguments of other ids for what is observed, for drawing tasks in training, and for sizes.
_NOT_SCORED = {"task_encoding", "task_embedding", "select"}
_NOT_SCORED |= {"num_envs", "envs_per_task"}


@dataclass(frozen=True)
class Origin:
    """Where a result was measured.

    Args:
        environments: The environments, if a file can name them.
        versions: The versions of Python and of all packages involved, by name.
        in_trials: Whether episodes are of trials of few-shot evaluation.
    """

    environments: Environments | None
    versions: Mapping[str, str]
    in_trials: bool

    @property
    def settings(self) -> dict[str, Any] | None:
        """Everything that determines what is scored, by name; ``None`` if it is unknown."""
        if self.environments is None:
            if not self.versions:
                return None
            arguments: dict[str, Any] = {"id": "none"}
            packages: Sequence[str] = SIMULATION
        else:
            arguments = _scored_arguments(self.environments, self.in_trials)
            packages = _simulation_packages(self.environments.id, self.environments.kwargs)
        return {**arguments, **{name: self.versions.get(name) for name in packages}}

    @property
    def is_metaworld(self) -> bool:
        """Whether environments are Meta-World's."""
        return self.environments is not None and self.environments.is_metaworld

    @property
    def state_noun(self) -> str:
        """The noun for a task state, which in Meta-World is the index of a goal."""
        return "goal" if self.is_metaworld else "task state"


def comparable_settings(origins: Sequence[Origin]) -> list[dict[str, Any] | None]:
    """The `Origin.settings` of results that are to be compared with each other.

    A package that was not installed where one of them was measured takes no part in their
    environments, so its versions are left out. Those of Meta-World need all packages.
    """
    absent = {
        package
        for origin in origins
        for package in SIMULATION
        if origin.versions and package not in origin.versions and not origin.is_metaworld
    }
    return [
        settings and {name: value for name, value in settings.items() if name not in absent}
        for settings in (origin.settings for origin in origins)
    ]


def versions() -> dict[str, str]:
    """The versions of Python and of the installed `PACKAGES`."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):  # of Meta-World, for others' environments
            installed[package] = version(package)
    return installed


def _scored_arguments(environments: Environments, in_trials: bool) -> dict[str, Any]:
    """The id of environments, and their arguments that determine what is scored."""
    env_id, kwargs = select_determining_arguments(environments.spec, in_trials)
    trial_sizes = ("envs_per_task",) if in_trials else ()
    if not environments.is_metaworld:
        left_out = _NOT_SCORED - {*trial_sizes}
        scored = {name: value for name, value in kwargs.items() if name not in left_out}
        if environments.is_family:
            scored = _resolve_family_arguments(env_id, scored)
        return {"id": env_id, **scored}
    try:
        arguments = with_defaults(rename_arguments(environments.kwargs))
    except (TypeError, ValueError):  # in a file, they may be anything
        arguments = dict(kwargs)
    of_streams = ("sequence", "steps_per_task") if "sequence" in kwargs else ()
    names = (*SCORED, *trial_sizes, *of_streams)
    return {"id": env_id, **{name: arguments.get(name) for name in names}}


def _resolve_family_arguments(env_id: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a family of tasks, with the defaults of its source; its id has its name."""
    arguments = {name: value for name, value in kwargs.items() if name != "family"}
    family = FAMILIES[TABLE[env_id][1]["family"]]
    try:
        source = family.find_source(arguments.get("source"))
    except (TypeError, ValueError):  # in a file, it may be anything
        return arguments
    arguments["source"] = next(name for name in family.sources if family.sources[name] is source)
    # Two names of one argument, of which this one counts.
    limit = arguments.pop("max_episode_steps", None)
    limit = arguments.get("episode_steps") if limit is None else limit
    arguments["episode_steps"] = source.episode_steps if limit is None else limit
    if arguments.get("tasks") is None:  # then it is the number of tasks, which all have names
        arguments.pop("meta_batch_size", None)
    return arguments


def _simulation_packages(env_id: str, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The packages whose versions may change episodes of an id, as far as it is registered.

    Of ids that are not known to do without them, these are all.
    """
    ids = [env_id]
    if env_id == "mtwrappers/MultiEnv-v0":
        env_ids = kwargs.get("env_ids") or DEFAULT_IDS
        ids = [*env_ids] if isinstance(env_ids, (list, tuple)) else [env_ids]
    packages: set[str] = set()
    for name in ids:
        # Looked up and not imported: in a file, an id may name any module.
        spec = registry.get(name) if isinstance(name, str) else None
        entry_point = spec.entry_point if spec is not None else None
        module = entry_point if isinstance(entry_point, str) else ""
        if module.startswith("gymnasium.envs.mujoco"):
            packages.add("mujoco")
        elif spec is not None and module.startswith("mtwrappers.envs.families"):
            packages.add(registration.FAMILIES[spec.kwargs["family"]] or "")
        elif not module.startswith(_WITHOUT_SIMULATION):
            packages.update(SIMULATION)
    return tuple(name for name in SIMULATION if name in packages)
