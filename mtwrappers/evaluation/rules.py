"""What changes a score: the fields of a protocol, as data with a digest."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from mtwrappers.common.checks import check_choice
from mtwrappers.metaworld.benchmarks import DEFAULT_CLASS, class_names
from mtwrappers.metaworld.descriptions import Descriptions
from mtwrappers.metaworld.pixels import ObservationName

Means: TypeAlias = Literal["tasks", "groups"]
Groups: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
OfRules = TypeVar("OfRules", bound="Rules")

# How long Meta-World's lists of goals are.
LIST_OF_GOALS = 50
# How many tasks the benchmarks have; the test split for meta-learning.
TASKS = {"MT1": 1, "MT10": 10, "MT25": 25, "MT50": 50, "ML1": 1, "ML10": 5, "ML25": 5, "ML45": 5}
_OF_ONE_CLASS = ("MT1", "ML1")
# The benchmark is chosen by `on`; every other field is what the name stands for.
_OPEN = ("benchmark", "env_name")
_AT_LEAST_1 = {"num_goals", "max_episode_steps", "action_repeat", "episodes_per_task"}
_NAME = re.compile(r"[!-~](?:[ -~]{0,78}[!-~])?")
# What follows a published protocol's name in the names of what is derived from it.
_DERIVED = re.compile(r"(-states)?(?: on (.+))?")
# The published ones by name, so that no other can have the name of one of them.
_published: dict[str, Rules] = {}


@dataclass(frozen=True)
class Rules:
    """The fields of a `Protocol`, which says what they are for.

    Args:
        name: With a version, such as ``"metaworld-3.1"``; printable ASCII.
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
        adaptation_steps: In few-shot evaluation, how often the policy adapts, each time on as many
            new episodes.
        adaptation_terminate_on_success: In few-shot evaluation, whether a success ends an episode
            of adaptation.
        means: What successes are averaged over, the headline first: ``"tasks"`` (each task counts
            the same) and ``"groups"`` (each named group of tasks counts the same).
        groups: The named groups and their tasks.
        observation: What the agent sees: ``"state"``, 39 numbers, or frames, as in
            `mtwrappers.metaworld.pixels`.
        goal_visible: Whether the goal is among the numbers.
        descriptions: Whose sentences say what the task is, where frames are observed.
        camera_name: The camera of the frames; ``None`` without frames.
        image_size: Their height and width in pixels, likewise.

    Raises:
        TypeError, ValueError: If a field is none of those, or they do not go together, or a
            name that is a published protocol's, or that of what is derived from one, comes with
            other fields.
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
    adaptation_steps: int = 0
    adaptation_terminate_on_success: bool = False
    means: tuple[Means, ...] = ("tasks",)
    groups: Groups = ()
    observation: ObservationName = "state"
    goal_visible: bool = True
    descriptions: Descriptions | None = None
    camera_name: str | None = None
    image_size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check_types()
        self._check_together()
        known = _kept_for(self.name)
        if known is None:
            return
        for name, expected in known.items():
            got = getattr(self, name)
            if name not in _OPEN and got != expected:
                raise ValueError(
                    f"{self.name} has {name}={expected!r}, got {got!r}: give a variant another name"
                )

    def _check_types(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ValueError(
                "the name of a protocol must be printable ASCII without spaces around it, at most "
                f"80 characters, got {ascii(self.name)[:200]}"
            )
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value, hint = getattr(self, field.name), hints[field.name]
            if not _fits(value, hint):
                choices = get_args(hint) if get_origin(hint) is Literal else ()
                expected = f"one of {choices}" if choices else f"of the type {field.type}"
                raise (ValueError if choices else TypeError)(
                    f"{field.name} of a protocol must be {expected}, got {reprlib.repr(value)}"
                )
            if not _is_printable(value):
                raise ValueError(
                    f"{field.name} of a protocol must be printable ASCII, got {ascii(value)[:200]}"
                )
            least = 1 if field.name in _AT_LEAST_1 else 0
            if type(value) is int and not least <= value < 2**32:
                raise ValueError(f"{field.name} must be in [{least}, 2**32 - 1], got {value}")
        for one in self.benchmarks:
            check_choice(one, tuple(TASKS), "each of benchmarks")
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
        names = ("meta_batch_size", "trials", "adaptation_episodes", "adaptation_steps")
        few_shot = [getattr(self, name) for name in names]
        if any(few_shot) and not all(few_shot):
            refuse(f"few-shot evaluation needs all of {', '.join(names)}, got {few_shot}")
        if self.adaptation_terminate_on_success and not self.few_shot:
            refuse("adaptation_terminate_on_success is for few-shot evaluation, got True")
        if not self.means:
            refuse("means must be 'tasks', 'groups' or both, got none")
        if "groups" in self.means and not self.groups:
            refuse("a mean over groups needs groups")
        if (self.env_name is not None) != (self.benchmark in _OF_ONE_CLASS):
            needs = "takes no" if self.env_name else "needs an"
            refuse(f"{self.benchmark} {needs} env_name, got {self.env_name!r}")
        if self.goal_visible is self.benchmark.startswith("ML"):
            refuse(f"{self.benchmark} {'hides' * self.goal_visible or 'shows'} its goals")
        if self.kind == "test" and self.benchmark.startswith("MT"):
            refuse(f"{self.benchmark} has no test tasks")
        unseen = {"camera_name": self.camera_name, "image_size": self.image_size}
        for name, value in unseen.items():
            if (self.observation == "state") != (value is None):
                refuse(f"observation={self.observation!r} and {name}={value!r} do not go together")
        sees = self.observation != "state"
        if self.descriptions is None and sees and self.goal_visible:
            refuse(f"observation={self.observation!r} needs descriptions: whose sentences it is")
        if self.descriptions is not None and not sees:
            refuse(f"descriptions are for frames, got {self.descriptions!r} with states")
        if self.image_size is not None and min(self.image_size) < 1:
            refuse(f"image_size must be at least (1, 1), got {self.image_size}")
        if self.env_steps < 1:
            refuse(f"{self.idle_steps} idle steps leave nothing of {self.max_episode_steps}")

    @property
    def env_id(self) -> str:
        """The id of the environments."""
        split = f"-{self.kind}" if self.benchmark.startswith("ML") else ""
        return f"mtwrappers/{self.benchmark}{split}-v0"

    @property
    def few_shot(self) -> bool:
        """Whether the policy adapts to each goal before it is evaluated on it."""
        return self.trials > 0

    @property
    def env_steps(self) -> int:
        """After how many actions of the policy an episode is cut."""
        idle = -(-self.idle_steps // self.action_repeat) if self.idle_steps_count else 0
        return self.max_episode_steps - idle

    @property
    def label(self) -> str:
        """The name with what tells it from others of that name, for people."""
        note = "" if self.name in _published else ", not a published protocol"
        return f"{self.name} ({self.digest[:10]}{note})"

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


def with_states(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a protocol with states in the place of frames, under a derived name."""
    if fields["observation"] == "state":
        return dict(fields)
    base, on, benchmark = fields["name"].partition(" on ")
    unseen = dict.fromkeys(("camera_name", "image_size", "descriptions"))
    name = f"{base}-states{on}{benchmark}"
    return {**fields, **unseen, "name": name, "observation": "state"}


def on(fields: Mapping[str, Any], benchmark: str, env_name: str | None = None) -> dict[str, Any]:
    """The fields of a protocol on another benchmark, under a derived name if it is not for that.

    A group that has no task there goes, and with less than two of them the mean over groups. Of
    few-shot protocols each goal is given as many trials as before.

    Raises:
        ValueError: If there is no such benchmark, or it is for the other kind of learning.
    """
    if env_name is None and benchmark in _OF_ONE_CLASS:
        env_name = DEFAULT_CLASS
    moved = {**fields, "benchmark": benchmark, "env_name": env_name}
    if benchmark in fields["benchmarks"]:
        return moved
    name, before = fields["name"], fields["benchmark"]
    known = [one for one in TASKS if one[:2] == before[:2]]
    if " on " in name or benchmark not in known:
        split = "-test" if fields["kind"] == "test" else ""
        ends = fields["benchmarks"] if " on " in name else known
        raise ValueError(
            f"{name} is for {', '.join(one + split for one in ends)}, got {benchmark!r}"
        )
    present = class_names(benchmark, fields["kind"], env_name)
    groups = [(of, tuple(one for one in tasks if one in present)) for of, tasks in fields["groups"]]
    groups = [group for group in groups if group[1]]
    if len(groups) < 2:
        groups = []
        moved["means"] = ("tasks",)
    if fields["trials"]:
        moved["trials"] = max(1, fields["trials"] * TASKS[benchmark] // TASKS[before])
    name = f"{name} on {benchmark}"
    return {**moved, "name": name, "benchmarks": (benchmark,), "groups": tuple(groups)}


def fields_of(rules: Rules) -> dict[str, Any]:
    """All fields of a protocol by name."""
    return {field.name: getattr(rules, field.name) for field in dataclasses.fields(rules)}


def _kept_for(name: str) -> dict[str, Any] | None:
    """The fields that a name is kept for, if it is a published protocol's or derived from one's.

    Raises:
        ValueError: If nothing that is derived has the name, though it is formed like one.
    """
    for base, published in _published.items():
        if not name.startswith(base) or not (parts := _DERIVED.fullmatch(name, len(base))):
            continue
        states, benchmark = parts.groups()
        fields = fields_of(published)
        if states:
            fields = with_states(fields)
        if benchmark:
            fields = on(fields, benchmark)
        if fields["name"] != name:
            raise ValueError(
                f"{name!r} is kept for what is derived from {base}, and is none of it: give a "
                "variant another name"
            )
        return fields
    return None


def publish(*protocols: OfRules) -> dict[str, OfRules]:
    """Keeps the names of these for them; returns them by name."""
    _published.update({one.name: one for one in protocols})
    return {one.name: one for one in protocols}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as fields have them."""
    kind, args = get_origin(hint), get_args(hint)
    if kind is Literal:
        return isinstance(value, str) and value in args
    if kind in (UnionType, Union):
        return any(_fits(value, one) for one in args)
    if kind is not tuple:
        return type(value) is hint
    if not isinstance(value, tuple) or (args[-1] is not ... and len(value) != len(args)):
        return False
    hints = [args[0]] * len(value) if args[-1] is ... else args
    return all(_fits(item, one) for item, one in zip(value, hints, strict=True))


def _is_printable(value: Any) -> bool:
    """Whether all text in a field is printable ASCII."""
    if isinstance(value, tuple):
        return all(map(_is_printable, value))
    return not isinstance(value, str) or (value.isascii() and value.isprintable())


def _listed(value: Any) -> Any:
    """With lists in place of tuples, as JSON has them."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def _tuples(value: Any) -> Any:
    """With tuples in place of lists."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
