"""What changes a score: the fields of a protocol, as data with a digest."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from mtwrappers.checks import check_choice
from mtwrappers.metaworld.pixels import ObservationName

Means: TypeAlias = Literal["tasks", "groups"]
Groups: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
OfRules = TypeVar("OfRules", bound="Rules")

# How long Meta-World's lists of goals are.
LIST_OF_GOALS = 50
_BENCHMARKS = ("MT1", "MT10", "MT25", "MT50", "ML1", "ML10", "ML25", "ML45")
# The benchmark is chosen by `Protocol.on`; every other field is what the name stands for.
_OPEN = ("benchmark", "env_name")
_AT_LEAST_1 = {"num_goals", "max_episode_steps", "action_repeat", "episodes_per_task"}
# The published ones by name, so that no other can have the name of one of them.
_published: dict[str, Rules] = {}


@dataclass(frozen=True)
class Rules:
    """The fields of a `Protocol`, which says what they are for.

    Args:
        name: With a version, such as ``"metaworld-3.1"``.
        version: Of the source.
        source: Where each field is from: repository, commit and files.
        benchmark: ``"MT1"``, ``"MT10"``, ``"ML10"`` and so on.
        benchmarks: Those that the protocol is for; see `on`.
        kind: ``"train"`` or ``"test"`` tasks.
        env_name: The class of MT1 and ML1.
        reward_function_version: ``"v1"`` or ``"v2"``.
        goals: ``"list"``: those of Meta-World's list for ``goals_seed``, in a random order, each
            once before any is repeated. ``"continuous"``: a new one in every episode, from the
            class's own distribution; the seed of the evaluation determines them.
        goals_seed: The seed of the list.
        num_goals: How many goals of each class, the first of the list's 50; ``None`` where they
            are continuous.
        max_episode_steps: The horizon, in actions of the policy.
        action_repeat: How often each action is taken; the rewards are summed, and success is that
            of the last time.
        idle_steps: How many steps of zeros follow each reset, before the policy is asked.
        idle_steps_count: Whether these count towards the horizon.
        terminate_on_success: Whether a success ends the episode.
        success: When an episode is a success: at ``"any"`` step, at the ``"last"``, or when
            success was ``"held"`` for ``held_for`` steps in a row.
        held_for: How many steps, 0 unless success is ``"held"``.
        episodes_per_task: How many episodes count of each task, or of each goal in few-shot
            evaluation.
        meta_batch_size: In few-shot evaluation, how many tasks adapt at a time; else 0.
        trials: In few-shot evaluation, how many goals each of them plays; else 0.
        adaptation_episodes: In few-shot evaluation, how many episodes there are to adapt on.
        means: What successes are averaged over, the headline first: ``"tasks"`` (each task counts
            the same) and ``"groups"`` (each named group of tasks counts the same).
        groups: The named groups and their tasks.
        observation: What the agent sees: ``"state"``, 39 numbers, or frames, as in
            `mtwrappers.metaworld.pixels`.
        goal_visible: Whether the goal is among the numbers.
        task_encoding: How it is shown the task: ``"onehot"`` or ``"none"``.
        camera_name: The camera of the frames; ``None`` without frames.
        image_size: Their height and width in pixels, likewise.

    Raises:
        TypeError, ValueError: If a field is none of those, or they do not go together, or a
            published protocol's name comes with other fields.
    """

    name: str
    version: str
    source: tuple[str, ...]
    benchmark: str
    benchmarks: tuple[str, ...]
    kind: Literal["train", "test"] = "train"
    env_name: str | None = None
    reward_function_version: Literal["v1", "v2"] = "v2"
    goals: Literal["list", "continuous"] = "list"
    goals_seed: int = 0
    num_goals: int | None = LIST_OF_GOALS
    max_episode_steps: int = 500
    action_repeat: int = 1
    idle_steps: int = 0
    idle_steps_count: bool = False
    terminate_on_success: bool = False
    success: Literal["any", "last", "held"] = "any"
    held_for: int = 0
    episodes_per_task: int = 50
    meta_batch_size: int = 0
    trials: int = 0
    adaptation_episodes: int = 0
    means: tuple[Means, ...] = ("tasks",)
    groups: Groups = ()
    observation: ObservationName = "state"
    goal_visible: bool = True
    task_encoding: Literal["onehot", "none"] = "none"
    camera_name: str | None = None
    image_size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check_types()
        self._check_together()
        known = _published.get(self.name)
        if known is None:
            return
        for field in dataclasses.fields(self):
            expected, got = getattr(known, field.name), getattr(self, field.name)
            if field.name not in _OPEN and got != expected:
                raise ValueError(
                    f"{self.name} has {field.name}={expected!r}, got {got!r}: give a variant "
                    "another name"
                )

    def _check_types(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value, hint = getattr(self, field.name), hints[field.name]
            if not _fits(value, hint):
                choices = get_args(hint) if get_origin(hint) is Literal else ()
                expected = f"one of {choices}" if choices else f"of the type {field.type}"
                raise (ValueError if choices else TypeError)(
                    f"{field.name} of a protocol must be {expected}, got {reprlib.repr(value)}"
                )
            least = 1 if field.name in _AT_LEAST_1 else 0
            if type(value) is int and not least <= value < 2**32:
                raise ValueError(f"{field.name} must be in [{least}, 2**32 - 1], got {value}")
        for one in self.benchmarks:
            check_choice(one, _BENCHMARKS, "each of benchmarks")
        check_choice(self.benchmark, self.benchmarks, f"the benchmark of {self.name}")

    def _check_together(self) -> None:
        def refuse(what: str) -> None:
            raise ValueError(f"protocol {self.name}: {what}")

        listed = self.goals == "list"
        if listed != (self.num_goals is not None):
            refuse(f"goals={self.goals!r} and num_goals={self.num_goals!r} do not go together")
        if (self.num_goals or 0) > LIST_OF_GOALS:
            refuse(f"num_goals must be at most {LIST_OF_GOALS}, got {self.num_goals}")
        if (self.success == "held") != (self.held_for > 0):
            refuse(f"success={self.success!r} and held_for={self.held_for} do not go together")
        few_shot = (self.meta_batch_size, self.trials, self.adaptation_episodes)
        if any(few_shot) and not all(few_shot):
            refuse(
                "few-shot evaluation needs all of meta_batch_size, trials and adaptation_episodes, "
                f"got {few_shot}"
            )
        if not self.means:
            refuse("means must be 'tasks', 'groups' or both, got none")
        if "groups" in self.means and not self.groups:
            refuse("a mean over groups needs groups")
        if (self.env_name is not None) and self.benchmark not in ("MT1", "ML1"):
            refuse(f"{self.benchmark} takes no env_name, got {self.env_name!r}")
        if self.goal_visible is self.benchmark.startswith("ML"):
            refuse(f"{self.benchmark} {'hides' * self.goal_visible or 'shows'} its goals")
        if self.kind == "test" and self.benchmark.startswith("MT"):
            refuse(f"{self.benchmark} has no test tasks")
        unseen = {"camera_name": self.camera_name, "image_size": self.image_size}
        for name, value in unseen.items():
            if (self.observation == "state") != (value is None):
                refuse(f"observation={self.observation!r} and {name}={value!r} do not go together")
        if self.image_size is not None and min(self.image_size) < 1:
            refuse(f"image_size must be at least (1, 1), got {self.image_size}")
        if self.env_steps < 1:
            refuse(f"{self.idle_steps} idle steps leave nothing of {self.max_episode_steps}")

    @property
    def few_shot(self) -> bool:
        """Whether the policy adapts to each goal before it is evaluated on it."""
        return self.trials > 0

    @property
    def env_steps(self) -> int:
        """After how many actions of the policy an episode is cut."""
        idle = -(-self.idle_steps // self.action_repeat) if self.idle_steps_count else 0
        return self.max_episode_steps - idle

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of all fields, in hexadecimal: what tells two protocols apart."""
        text = json.dumps(_listed(dataclasses.asdict(self)), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """All fields and the digest, ready for JSON."""
        return {**_listed(dataclasses.asdict(self)), "digest": self.digest}

    @classmethod
    def from_dict(cls: type[OfRules], data: Any) -> OfRules:
        """The protocol that `to_dict` described.

        Raises:
            ValueError: If it is none, or its digest is that of other fields.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"expected a protocol, got {reprlib.repr(data)}")
        given = {key: _tuples(value) for key, value in data.items() if key != "digest"}
        try:
            protocol = cls(**given)
        except TypeError as exc:
            raise ValueError(f"expected a protocol: {exc}") from None
        if data.get("digest", protocol.digest) != protocol.digest:
            raise ValueError(
                f"the digest of {protocol.name} is {protocol.digest}, got {data['digest']!r}"
            )
        return protocol


def publish(*protocols: OfRules) -> dict[str, OfRules]:
    """Keeps the names of these for them; returns them by name."""
    _published.update({one.name: one for one in protocols})
    return {one.name: one for one in protocols}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as fields have them."""
    kind, args = get_origin(hint), get_args(hint)
    if kind is Literal:
        return isinstance(value, str) and value in args
    if kind is UnionType:
        return any(_fits(value, one) for one in args)
    if kind is not tuple:
        return type(value) is hint
    if not isinstance(value, tuple) or (args[-1] is not ... and len(value) != len(args)):
        return False
    hints = [args[0]] * len(value) if args[-1] is ... else args
    return all(_fits(item, one) for item, one in zip(value, hints, strict=True))


def _listed(value: Any) -> Any:
    """With lists in place of tuples, as JSON has them."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def _tuples(value: Any) -> Any:
    """With tuples in place of lists."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
