"""`EnvSettings`: what determines the episodes of a Meta-World id, under one name each.

`gymnasium.make_vec` takes the same setting in several ways: under our name or Meta-World's, or by
leaving it out. Here each has one name and one value, so that two sets of arguments can be compared.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mtwrappers.common.checks import check_choice, check_flag, not_negative, positive
from mtwrappers.common.registration import EPISODE_STEPS
from mtwrappers.metaworld.class_env import CAMERAS, camera_names
from mtwrappers.metaworld.make import defaults, with_defaults
from mtwrappers.metaworld.observations import OBSERVATIONS, ObservationName
from mtwrappers.metaworld.tasks import META_LEARNING, NUM_CLASSES, NUM_GOALS, ONE_CLASS, Goals, Kind
from mtwrappers.metaworld.text import check_descriptions
from mtwrappers.metaworld.upstream_names import rename_arguments

# The sentence of each class, in the order of the classes' names.
FrozenTable: TypeAlias = tuple[tuple[str, str], ...]

_POSITIVE = ("num_goals", "max_episode_steps", "action_repeat")
_NOT_NEGATIVE = ("seed", "idle_steps")
_POSITIVE_OR_NONE = ("meta_batch_size", "height", "width")
_MAX_NUMBER = 2**32 - 1
# The settings of frames, which are None without frames.
_FRAME_SETTINGS = ("camera_name", "height", "width")
# The arguments that need not be passed: the id has them, or they have these values by default.
_IMPLIED_BY_ID = ("benchmark", "kind", "instruction")
# The arguments of `gymnasium.make_vec` that `gymnasium.make` does not take.
_VECTOR_ONLY = ("meta_batch_size", "envs_per_task")
# Other arguments that change what is scored, and so must have their defaults.
MUST_BE_DEFAULT = (
    "train_classes",
    "test_classes",
    "reward_normalization_method",
    "reward_alpha",
    "vectorization_mode",
    "vector_kwargs",
    "wrappers",
)


@dataclass(frozen=True, kw_only=True)
class EnvSettings:
    """The arguments of `gymnasium.make_vec` that determine episodes on Meta-World.

    All other arguments are free (where environments run, what else a policy observes), or keep
    their defaults.

    Args:
        benchmark: ``"MT1"``, ``"MT10"``, ``"ML10"`` and so on.
        kind: ``"train"`` or ``"test"`` tasks.
        env_name: The class of MT1 and ML1.
        goals: ``"list"`` takes the goals of Meta-World's list. ``"continuous"`` draws a new goal in
            every episode, from the class's own distribution.
        seed: The seed of Meta-World's list of goals.
        num_goals: The number of goals per class, the first of the list's 50.
        meta_batch_size: In few-shot evaluation, the number of tasks that adapt at a time.
        max_episode_steps: The horizon, in actions of the policy.
        action_repeat: The number of times that each action is repeated; rewards are summed, and the
            success of the last repeat counts.
        idle_steps: The number of zero actions after each reset, before the policy is called.
        terminate_on_success: Whether a success ends the episode.
        reward_function_version: ``"v1"`` or ``"v2"``.
        observation: The agent's observation: ``"state"``, 39 numbers, or frames, as in
            `mtwrappers.metaworld.observations`.
        descriptions: The sentences that describe tasks, if frames are observed: the name of a table
            in `mtwrappers.metaworld.text`, or a table by class, which may be given as a dict and is
            stored as tuples.
        camera_name: The camera of the frames, or several, in order; ``None`` without frames.
        height: The height of frames in pixels; ``None`` without frames.
        width: The width of frames in pixels; ``None`` without frames.

    Raises:
        TypeError, ValueError: If a setting is not valid, or settings contradict each other.

    >>> from mtwrappers.metaworld.env_settings import EnvSettings
    >>> settings = EnvSettings(benchmark="MT10", max_episode_steps=100)
    >>> settings.env_id, settings.arguments["max_episode_steps"]
    ('mtwrappers/MT10-v0', 100)
    >>> settings.check_arguments({"benchmark": "MT10", "max_episode_steps": 500}, "mine")
    Traceback (most recent call last):
    ValueError: mine fixes max_episode_steps=100, got 500
    """

    benchmark: str
    kind: Kind = "train"
    env_name: str | None = None
    goals: Goals = "list"
    seed: int = 0
    num_goals: int = NUM_GOALS
    meta_batch_size: int | None = None
    max_episode_steps: int = EPISODE_STEPS
    action_repeat: int = 1
    idle_steps: int = 0
    terminate_on_success: bool = False
    reward_function_version: Literal["v1", "v2"] = "v2"
    observation: ObservationName = "state"
    descriptions: str | FrozenTable | None = None
    camera_name: str | tuple[str, ...] | None = None
    height: int | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        # Canonical values, so that equal settings compare equal, also those from JSON.
        self._set("descriptions", _freeze_descriptions(self.descriptions))
        if isinstance(self.camera_name, list):
            self._set("camera_name", tuple(self.camera_name))
        check_choice(self.benchmark, tuple(NUM_CLASSES), "benchmark")
        check_choice(self.kind, ("train", "test"), "kind")
        check_choice(self.goals, ("list", "continuous"), "goals")
        check_choice(self.observation, OBSERVATIONS, "observation")
        check_choice(self.reward_function_version, ("v1", "v2"), "reward_function_version")
        terminate = check_flag(self.terminate_on_success, "terminate_on_success")
        self._set("terminate_on_success", terminate)
        for name in _POSITIVE:
            self._set_number(name, positive(getattr(self, name), name))
        for name in _NOT_NEGATIVE:
            self._set_number(name, not_negative(getattr(self, name), name))
        for name in _POSITIVE_OR_NONE:
            if (value := getattr(self, name)) is not None:
                self._set_number(name, positive(value, name))
        contradiction = next(self._contradictions(), None)
        if contradiction is not None:
            raise ValueError(contradiction)

    def _set(self, name: str, value: Any) -> None:
        """Sets a field, although the settings are frozen."""
        object.__setattr__(self, name, value)

    def _set_number(self, name: str, number: int) -> None:
        if number > _MAX_NUMBER:
            raise ValueError(f"{name} must be at most {_MAX_NUMBER}, got {number}")
        self._set(name, number)

    def _contradictions(self) -> Iterator[str]:
        """The messages of settings that do not go together."""
        if self.num_goals > NUM_GOALS:
            yield f"num_goals must be at most {NUM_GOALS}, got {self.num_goals}"
        if self.goals == "continuous" and self.num_goals != NUM_GOALS:
            yield f"num_goals is for goals='list', got {self.num_goals} with 'continuous'"
        if (self.env_name is not None) != (self.benchmark in ONE_CLASS):
            needs = "needs an" if self.env_name is None else "takes no"
            yield f"{self.benchmark} {needs} env_name, got {self.env_name!r}"
        if self.env_name is not None and not isinstance(self.env_name, str):
            yield f"env_name must be the name of a class, got {self.env_name!r}"
        if self.kind not in NUM_CLASSES[self.benchmark]:
            yield f"{self.benchmark} has no {self.kind} tasks"
        if self.meta_batch_size is not None and not self.hides_goals:
            yield (
                "meta_batch_size is for meta-learning benchmarks, got "
                f"{self.meta_batch_size} for {self.benchmark}"
            )
        for name in _FRAME_SETTINGS:
            if self.observes_frames != ((value := getattr(self, name)) is not None):
                yield f"observation={self.observation!r} and {name}={value!r} do not go together"
        if self.descriptions is None and self.observes_frames and not self.hides_goals:
            yield f"observation={self.observation!r} needs descriptions, got None"
        if self.descriptions is not None and not self.observes_frames:
            got = reprlib.repr(self.descriptions)
            yield f"descriptions are for frames, got {got} with states"
        for name in camera_names(self.camera_name) or ():
            check_choice(name, CAMERAS, "camera_name")

    @property
    def hides_goals(self) -> bool:
        """Whether states do not contain the goal, as in meta-learning."""
        return self.benchmark in META_LEARNING

    @property
    def observes_frames(self) -> bool:
        """Whether the agent observes frames."""
        return self.observation != "state"

    @property
    def env_id(self) -> str:
        """The id of the environments."""
        split = f"-{self.kind}" if self.benchmark in META_LEARNING else ""
        return f"mtwrappers/{self.benchmark}{split}-v0"

    @property
    def num_classes(self) -> int:
        """The number of classes that are evaluated."""
        return NUM_CLASSES[self.benchmark][self.kind]

    def with_states(self) -> EnvSettings:
        """The same settings with states instead of frames."""
        no_frames: Any = dict.fromkeys(("descriptions", *_FRAME_SETTINGS))
        return dataclasses.replace(self, observation="state", **no_frames)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `gymnasium.make_vec` for `env_id`."""
        return {
            name: value
            for name, value in self.fixed_arguments.items()
            if value is not None and name not in _IMPLIED_BY_ID
        }

    @property
    def single_arguments(self) -> dict[str, Any]:
        """The arguments of `gymnasium.make` for `env_id`."""
        return {name: value for name, value in self.arguments.items() if name not in _VECTOR_ONLY}

    @property
    def fixed_arguments(self) -> dict[str, Any]:
        """All arguments that these settings fix; ``None`` for one that must not be given."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        frame_settings = {name: fields.pop(name) for name in _FRAME_SETTINGS}
        descriptions = fields.pop("descriptions")
        if isinstance(descriptions, tuple):
            descriptions = dict(descriptions)
        if self.meta_batch_size is not None:  # each environment of few-shot evaluation is a task's
            fields["envs_per_task"] = 1
        if self.observes_frames:
            fields |= {**frame_settings, "shadows": True, "depth": False}
        if self.observes_frames or self.hides_goals:  # else they only repeat what is observed
            fields |= {"task_encoding": "none", "descriptions": descriptions}
        if descriptions is None:
            fields["instruction"] = False
        return fields

    def check_arguments(
        self, arguments: Mapping[str, Any], owner: str, where: str = ""
    ) -> dict[str, Any]:
        """Checks that arguments of `gymnasium.make_vec` make environments with these settings.

        Args:
            arguments: The arguments, under our names or Meta-World's. Those that are left out have
                their defaults.
            owner: The name of whoever fixes these settings, for errors.
            where: The end of an error's message.

        Returns:
            The arguments that these settings leave free, under our names.

        Raises:
            TypeError, ValueError: If one has another value, or is not valid.
        """
        renamed = rename_arguments(arguments)
        completed, fixed = with_defaults(renamed), self.fixed_arguments
        for name, expected in fixed.items():
            if (value := completed.get(name)) != expected:
                shown = reprlib.repr(expected) if isinstance(expected, dict) else repr(expected)
                raise ValueError(f"{owner} fixes {name}={shown}, got {reprlib.repr(value)}{where}")
        for name, value in renamed.items():
            if name in MUST_BE_DEFAULT and value is not None and value != defaults().get(name):
                raise ValueError(
                    f"{owner} takes no {name} in make_vec, got {reprlib.repr(value)}{where}"
                )
        return {name: value for name, value in renamed.items() if name not in fixed}


def _freeze_descriptions(descriptions: Any) -> Any:
    """Converts descriptions for a setting: a name, or a table as tuples.

    Raises:
        ValueError: If they are not valid.
    """
    if isinstance(descriptions, (tuple, list)):
        rows = [tuple(row) if isinstance(row, list) else row for row in descriptions]
        if not all(isinstance(row, tuple) and len(row) == 2 for row in rows):
            raise ValueError(
                "descriptions must be pairs of a class and its sentence, got "
                f"{reprlib.repr(descriptions)}"
            )
        if len({name for name, _ in rows}) < len(rows):
            raise ValueError(
                "descriptions must have each class once, got "
                f"{reprlib.repr([name for name, _ in rows])}"
            )
        descriptions = dict(rows)
    checked = check_descriptions(descriptions)
    return tuple(sorted(checked.items())) if isinstance(checked, dict) else checked
