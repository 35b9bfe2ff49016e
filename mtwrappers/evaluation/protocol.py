"""A protocol: everything that affects a score, as data with a digest.

It defines the environments, goals and episodes that a score is measured on, what counts as a
success, and what means are taken over. Each argument of `gymnasium.make_vec` with Meta-World's ids
is fixed by a field of the protocol (`fixed_by`), not allowed under any protocol (`REFUSED`), or
free.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_type_hints

import gymnasium
import numpy as np

from mtwrappers.common.checks import check_choice, check_keywords, check_string
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.evaluation.episodes import (
    Design,
    Episode,
    Observer,
    PlannedEpisode,
    Stage,
    draw_states,
    in_order,
    is_success,
    make_plan,
)
from mtwrappers.evaluation.statistics import Values
from mtwrappers.evaluation.typed import from_plain, to_plain
from mtwrappers.metaworld.class_env import CAMERAS, camera_names
from mtwrappers.metaworld.make import defaults, with_defaults
from mtwrappers.metaworld.observations import ObservationName
from mtwrappers.metaworld.tasks import (
    DEFAULT_CLASS,
    META_LEARNING,
    NUM_CLASSES,
    NUM_GOALS,
    ONE_CLASS,
    class_names,
    share_out,
)
from mtwrappers.metaworld.text import DESCRIPTIONS, check_descriptions
from mtwrappers.metaworld.upstream_names import rename_arguments
from mtwrappers.samplers.policies import PolicyIn
from mtwrappers.vector.contract import MetaVectorEnv

Means: TypeAlias = Literal["tasks", "groups"]
Groups: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
# The sentence of each class, in the order of the classes' names.
FrozenTable: TypeAlias = tuple[tuple[str, str], ...]

_AT_LEAST_1 = {"num_goals", "max_episode_steps", "action_repeat", "episodes_per_task", "success"}
_AT_LEAST_1 |= {"image_size"}
_NAME = re.compile(r"[!-~](?:[ -~]{0,78}[!-~])?")
# Meta-World's classes, which need no import of Meta-World.
_CLASSES = tuple(DESCRIPTIONS["metaworld"])
# The fields of a protocol with states instead of frames.
_STATES = {"observation": "state", "camera_name": None, "image_size": None, "descriptions": None}
# The published protocols by name, each with the benchmarks that its source has. No other protocol
# can have one of these names, or one that is derived from it; see `_Origin`.
_published: dict[str, tuple[Protocol, tuple[str, ...]]] = {}
# The arguments of `gymnasium.make_vec` that `gymnasium.make` does not take.
_OF_VECTORS = ("meta_batch_size", "envs_per_task")
# The arguments of `gymnasium.make_vec` that no protocol allows.
REFUSED = (
    *("train_classes", "test_classes", "reward_normalization_method", "reward_alpha"),
    *("vectorization_mode", "vector_kwargs", "wrappers"),
)


@dataclass(frozen=True)
class Protocol:
    """A way to measure success on Meta-World: scores with equal protocols are comparable.

    The protocols of the literature are in `mtwrappers.protocols`. Make a variant under another
    name, as in ``dataclasses.replace(protocol, name="mine", episodes_per_task=5)``.

    Args:
        name: The name with a version, such as ``"metaworld-3.1"``; printable ASCII.
        source: The version, repository, commit and files that the fields come from.
        benchmark: ``"MT1"``, ``"MT10"``, ``"ML10"`` and so on.
        kind: ``"train"`` or ``"test"`` tasks.
        env_name: The class of MT1 and ML1.
        reward_function_version: ``"v1"`` or ``"v2"``.
        goals_seed: The seed of Meta-World's list of goals.
        num_goals: The number of goals per class, the first of the list's 50, which are drawn
            without replacement until all were drawn. ``None`` draws a new goal in every episode,
            from the class's own distribution; the seed of the evaluation determines them.
        max_episode_steps: The horizon, in actions of the policy.
        action_repeat: The number of times that each action is repeated; rewards are summed, and the
            success of the last repeat counts.
        idle_steps: The number of zero actions after each reset, before the policy is called.
        terminate_on_success: Whether a success ends the episode. In few-shot evaluation, it never
            ends an episode of adaptation.
        success: When an episode is a success: at ``"any"`` step, at the ``"last"``, or when success
            was held for this number of consecutive steps.
        episodes_per_task: The number of episodes per task, or per goal in few-shot evaluation.
        meta_batch_size: In few-shot evaluation, the number of tasks that adapt at a time; else 0.
        trials: In few-shot evaluation, the number of goals of each of them; else 0.
        adaptation_episodes: In few-shot evaluation, the number of episodes per adaptation step.
        adaptation_steps: In few-shot evaluation, the number of adaptation steps.
        means: What successes are averaged over, the headline first: ``"tasks"`` (tasks have equal
            weight) and ``"groups"`` (named groups of tasks have equal weight).
        groups: The named groups and their tasks.
        observation: The agent's observation: ``"state"``, 39 numbers, or frames, as in
            `mtwrappers.metaworld.observations`.
        descriptions: The sentences that describe tasks, if frames are observed: the name of a table
            in `mtwrappers.metaworld.text`, or a table by class, which may be given as a
            dict and is stored as tuples.
        camera_name: The camera of the frames, or several, in order; ``None`` without frames.
        image_size: The height and width of frames in pixels; ``None`` without frames.

    Raises:
        TypeError, ValueError: If a field is not valid, fields contradict each other, or the name is
            that of a published protocol with other fields.

    >>> import dataclasses, numpy as np
    >>> from mtwrappers import protocols
    >>> one = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    >>> quick = dataclasses.replace(one, name="mine", episodes_per_task=2, max_episode_steps=9)
    >>> result = quick.evaluate(lambda obs: np.zeros((len(obs), 4)))
    >>> result.headline["mean over tasks"].value, result.protocol.name
    (0.0, 'mine')
    """

    name: str
    source: tuple[str, ...]
    benchmark: str
    kind: Literal["train", "test"] = "train"
    env_name: str | None = None
    reward_function_version: Literal["v1", "v2"] = "v2"
    goals_seed: int = 0
    num_goals: int | None = NUM_GOALS
    max_episode_steps: int = 500
    action_repeat: int = 1
    idle_steps: int = 0
    terminate_on_success: bool = False
    success: Literal["any", "last"] | int = "any"
    episodes_per_task: int = 50
    meta_batch_size: int = 0
    trials: int = 0
    adaptation_episodes: int = 0
    adaptation_steps: int = 0
    means: tuple[Means, ...] = ("tasks",)
    groups: Groups = ()
    observation: ObservationName = "state"
    descriptions: str | FrozenTable | None = None
    camera_name: str | tuple[str, ...] | None = None
    image_size: tuple[int, int] | None = None

    def __new__(cls, *_: Any, **fields: Any) -> Protocol:
        """Raises `TypeError` for an unknown field, with a hint at similar names."""
        check_keywords(fields, cls.__dataclass_fields__, "Protocol")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ValueError(
                "the name of a protocol must be printable ASCII without spaces around it, at most "
                f"80 characters, got {ascii(self.name)[:200]}"
            )
        self._keep("descriptions", _described(self.descriptions))
        hints = get_type_hints(type(self))
        for name, given in list(vars(self).items()):
            value = from_plain(hints[name], to_plain(given), f"{name} of a protocol")
            self._keep(name, value)
            least = 1 if name in _AT_LEAST_1 else 0
            for number in value if isinstance(value, tuple) else (value,):
                if type(number) is int and not least <= number < 2**32:
                    raise ValueError(f"{name} must be in [{least}, 2**32 - 1], got {number}")
        check_choice(self.benchmark, tuple(NUM_CLASSES), f"the benchmark of {self.name}")
        for found in self._contradictions():
            raise ValueError(f"protocol {self.name}: {found}")
        if (origin := _find_origin(self.name)) is not None:
            for name, expected in origin.fields(self.benchmark, self.env_name).items():
                if (got := getattr(self, name)) != expected:
                    raise ValueError(
                        f"{self.name} has {name}={expected!r}, got {got!r}: give a variant another "
                        "name"
                    )

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _contradictions(self) -> Iterator[str]:
        if (self.num_goals or 0) > NUM_GOALS:
            yield f"num_goals must be at most {NUM_GOALS}, got {self.num_goals}"
        names = ("meta_batch_size", "trials", "adaptation_episodes", "adaptation_steps")
        given = [getattr(self, name) for name in names]
        if any(given) and not all(given):
            yield f"few-shot evaluation needs all of {', '.join(names)}, got {given}"
        if not self.means:
            yield "means must be 'tasks', 'groups' or both, got none"
        if len({*self.means}) < len(self.means):
            yield f"means must differ, got {self.means}"
        if "groups" in self.means and not self.groups:
            yield "a mean over groups needs groups"
        yield from self._contradictions_of_groups()
        if (self.env_name is not None) != (self.benchmark in ONE_CLASS):
            needs = "takes no" if self.env_name else "needs an"
            yield f"{self.benchmark} {needs} env_name, got {self.env_name!r}"
        if self.kind not in NUM_CLASSES[self.benchmark]:
            yield f"{self.benchmark} has no {self.kind} tasks"
        states = self.observation == "state"
        for name in ("camera_name", "image_size"):
            if states != ((value := getattr(self, name)) is None):
                yield f"observation={self.observation!r} and {name}={value!r} do not go together"
        if self.descriptions is None and not states and not self.hides_goals:
            yield f"observation={self.observation!r} needs descriptions, got None"
        if self.descriptions is not None and states:
            got = reprlib.repr(self.descriptions)
            yield f"descriptions are for frames, got {got} with states"
        for name in camera_names(self.camera_name) or ():
            check_choice(name, CAMERAS, "camera_name")

    def _contradictions_of_groups(self) -> Iterator[str]:
        names = [name for name, _ in self.groups]
        if len({*names, "tasks", "groups"}) < len(names) + 2:
            yield f"groups need names that differ, other than 'tasks' and 'groups', got {names}"
        for group, tasks in self.groups:
            if not tasks or len({*tasks}) < len(tasks):
                yield f"group {group!r} must have tasks that differ, got {list(tasks)}"
            for task in tasks:
                if task not in _CLASSES and task != self.env_name:
                    hint = did_you_mean(task, _CLASSES) or "such as 'reach-v3'"
                    yield f"group {group!r} must have classes of Meta-World, got {task!r}; {hint}"

    @property
    def hides_goals(self) -> bool:
        """Whether states do not contain the goal, as in meta-learning."""
        return self.benchmark in META_LEARNING

    @property
    def env_id(self) -> str:
        """The id of the environments."""
        split = f"-{self.kind}" if self.benchmark in META_LEARNING else ""
        return f"mtwrappers/{self.benchmark}{split}-v0"

    @property
    def few_shot(self) -> bool:
        """Whether the policy adapts to each goal before it is evaluated on it."""
        return self.trials > 0

    @property
    def label(self) -> str:
        """The name with the beginning of the digest, for display."""
        note = "" if self.name in _published else ", not a published protocol"
        return f"{self.name} ({self.digest[:10]}{note})"

    @property
    def digest(self) -> str:
        """SHA-256 of all fields, in hexadecimal: equal protocols have the same."""
        text = json.dumps(to_plain(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def on(self, benchmark: str, env_name: str | None = None) -> Protocol:
        """The same protocol on another benchmark.

        On a benchmark that its source does not have, it gets another name:
        ``"lerobot-0.6 on MT10"``. Groups without a task there are left out, and so is the mean over
        groups if fewer than two remain. In few-shot evaluation, the number of trials is scaled so
        that each goal has as many as before.

        Args:
            benchmark: ``"MT1"``, ``"MT10"``, ``"MT25"`` or ``"MT50"``; for meta-learning ``"ML1"``,
                ``"ML10"``, ``"ML25"`` or ``"ML45"``, also as ``"ML10-test"``.
            env_name: The class of MT1 and ML1, ``"reach-v3"`` by default.

        Raises:
            TypeError: If ``benchmark`` is not a string.
            ValueError: If there is no such benchmark of this kind.

        >>> from mtwrappers import protocols
        >>> lerobot = protocols["lerobot-0.6"].on("MT10")
        >>> lerobot.name, lerobot.env_id, lerobot.means
        ('lerobot-0.6 on MT10', 'mtwrappers/MT10-v0', ('tasks', 'groups'))
        """
        name, _, kind = check_string(benchmark, "benchmark").partition("-")
        if env_name is None and name in ONE_CLASS:
            env_name = DEFAULT_CLASS
        origin = _find_origin(self.name)
        known: Sequence[str] = [*NUM_CLASSES]
        if origin is not None and origin.benchmark is not None:
            known = [origin.benchmark]
        known = [one for one in known if (one in META_LEARNING) is self.hides_goals]
        if kind not in ("", self.kind) or name not in known:
            split = "-test" if self.kind == "test" else ""
            raise ValueError(
                f"{self.name} is for {', '.join(one + split for one in known)}, got {benchmark!r}"
            )
        moved: dict[str, Any] = {"benchmark": name, "env_name": env_name}
        own = (self.benchmark,) if origin is None else origin.benchmarks
        if name not in own:
            moved |= _moved_fields(self, name, env_name)
            if origin is not None:
                moved["name"] = f"{self.name} on {name}"
        return dataclasses.replace(self, **moved)

    def with_states(self) -> Protocol:
        """The same protocol with states instead of frames, and ``"-states"`` in its name.

        It is for policies that read states. Their scores are not comparable with scores of policies
        that observe frames. A protocol without frames is returned unchanged.
        """
        if self.observation == "state":
            return self
        name, origin = f"{self.name}-states", _find_origin(self.name)
        if origin is not None and origin.benchmark is not None:
            name = f"{origin.published.name}-states on {origin.benchmark}"
        fields: Any = _STATES
        return dataclasses.replace(self, name=name, **fields)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `gymnasium.make_vec` that the protocol fixes."""
        fixed = fixed_by(self)
        by_default = ("benchmark", "kind", "instruction")
        return {k: v for k, v in fixed.items() if v is not None and k not in by_default}

    def make_vec(self, *, workers: int | None = None, **options: Any) -> MetaVectorEnv:
        """Makes the vector environment to measure on.

        Args:
            workers: The number of worker processes; ``None`` steps in this process.
            **options: More arguments of `gymnasium.make_vec` for `env_id`, such as
                ``envs_per_task``, ``fast``, ``recurrent_info_in_obs`` or, if states with goals are
                observed, ``task_encoding``. Arguments that the protocol fixes may be repeated, but
                not changed.

        Raises:
            TypeError, ValueError: If an argument contradicts the protocol, or is not valid.
        """
        settings, others = self._settle(options)
        envs: Any = gymnasium.make_vec(self.env_id, workers=workers, **settings, **others)
        return envs  # type: ignore[no-any-return]

    def make(self, task: str | None = None, **options: Any) -> gymnasium.Env[Any, Any]:
        """Makes the single environment of a task, for a custom loop.

        It runs an episode of `plan` after
        ``reset(seed=one.seed, options={"task_state": one.task_state})``. In few-shot evaluation,
        resets without these arguments keep the task, as for the later episodes of a trial.

        Args:
            task: The name of the class; by default the first one.
            **options: More arguments of `gymnasium.make` for `env_id`, such as ``fast``,
                ``recurrent_info_in_obs`` or, if states with goals are observed, ``task_encoding``.
                Arguments that the protocol fixes may be repeated, but not changed.

        Raises:
            TypeError, ValueError: If there is no such task, or an argument contradicts the protocol
                or is not valid.

        >>> import numpy as np
        >>> from mtwrappers import protocols
        >>> protocol = protocols["metaworld-3.1"].on("MT1", "reach-v3")
        >>> env, one = protocol.make("reach-v3"), protocol.plan(seed=0)[0]
        >>> obs, info = env.reset(seed=one.seed, options={"task_state": one.task_state})
        >>> obs, reward, terminated, truncated, info = env.step(np.zeros(4))
        >>> info["task_name"], env.unwrapped.get_task_state() == one.task_state
        ('reach-v3', True)
        """
        names = class_names(self.benchmark, self.kind, self.env_name)
        i = 0 if task is None else names.index(check_choice(task, names, "task"))
        settings, others = self._settle(options)
        settings = {name: value for name, value in settings.items() if name not in _OF_VECTORS}
        of_each = self.num_goals or 1
        settings["task_states"] = list(range(of_each * i, of_each * (i + 1)))
        if self.few_shot:
            settings["sample_tasks_on_reset"] = False
        return gymnasium.make(self.env_id, **settings, **others)

    def plan(self, seed: int = 0, *, adapts: bool = True) -> list[PlannedEpisode]:
        """The episodes that `evaluate` runs with this seed, without building environments.

        Args:
            seed: The seed of the evaluation, zero or greater. It determines the order of the goals,
                or the goals themselves if they are continuous.
            adapts: In few-shot evaluation, whether the policy has ``adapt``. If so, evaluation
                begins with a seeded reset; otherwise a trial is one sequence of episodes.

        Returns:
            Each episode with its task, its task state and the seed of its reset, ordered by task as
            in the benchmark. In few-shot evaluation they are ordered by trial
            (``trial % meta_batch_size`` is the task group), and the seed of an episode that
            continues from the previous one is ``None``.
        """
        design = self.design(seed, adapts=adapts)
        names = class_names(self.benchmark, self.kind, self.env_name)
        groups = self.meta_batch_size or len(names)
        shares = share_out(len(names), groups, self.num_goals or 1, self.num_goals is None)
        tasks, states = [names[c] for c, _ in shares], [list(own) for _, own in shares]
        if self.few_shot:
            rows: list[list[Any]] = [[None] * groups] * self.trials  # goals that no number names
            if self.num_goals is not None:
                rows = [*draw_states(states, self.trials, design.seed)]
            drawn = enumerate(rows)
            return in_order(one for i, row in drawn for one in design.of_trial(i, tasks, row))
        choices = [{task: own} for task, own in zip(tasks, states, strict=True)]
        return in_order([Stage(make_plan(choices, self.episodes_per_task, design.seed))])

    def design(
        self, seed: int = 0, *, tasks: Sequence[str] | None = None, adapts: bool = False
    ) -> Design:
        """The numbers that determine the episodes of an evaluation.

        Args:
            seed: The seed of the evaluation.
            tasks: The names of the tasks that are evaluated; ``None`` for all.
            adapts: In few-shot evaluation, whether the policy has ``adapt``.

        Raises:
            ValueError: If the seed is not valid, or there are tasks in few-shot evaluation.
        """
        return Design(
            seed,
            self.episodes_per_task,
            cast(Any, tasks),  # of which it makes a tuple
            self.trials,
            self.adaptation_episodes,
            self.adaptation_steps,
            adapts=self.few_shot and adapts,
            adaptation_terminate_on_success=False if self.few_shot else None,
        )

    def evaluate(
        self,
        policy: Any,
        envs: Any = None,
        *,
        workers: int | None = None,
        tasks: Sequence[str] | None = None,
        seed: int = 0,
        policy_in: PolicyIn = "parent",
        observers: Sequence[Observer] = (),
        evidence: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool = False,
    ) -> Any:
        """Measures a policy.

        Args:
            policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
                ``get_actions``; see `mtwrappers.evaluate`. If the protocol is few-shot, it also
                has ``adapt(paths)`` or ``begin_trial()``; see `mtwrappers.few_shot_evaluate`.
            envs: The result of `make_vec`, or a wrapper of it, or environments of
                `gymnasium.make_vec` with the same id and settings; by default made (and closed) by
                this call.
            workers: The number of worker processes, for environments made by this call.
            tasks: The names of the tasks to evaluate; by default all. A score needs all of them.
            seed: Determines the order of the goals, or the goals themselves if they are continuous.
            policy_in: Where the policy is called; see `mtwrappers.evaluate`.
            observers: Objects that follow the evaluation, see `Observer`.
            evidence: An ``.npz`` file to write with the actions of every episode.
            resume: Whether to continue from the episodes in ``evidence``.
            progress: Whether to display a progress bar of the episodes.

        Returns:
            The `EvaluationResult`, with the protocol in it.

        Raises:
            TypeError, ValueError: As in these functions; or if the environments contradict the
                protocol, or ``tasks``, ``policy_in`` or ``observers`` are given and it is few-shot.
        """
        import mtwrappers  # imported here, because the evaluating functions import this module

        if self.few_shot and (tasks is not None or policy_in != "parent" or observers):
            raise ValueError(f"{self.name} is few-shot: it takes no tasks, policy_in or observers")
        with contextlib.ExitStack() as stack:
            if envs is None:
                envs = stack.enter_context(contextlib.closing(self.make_vec(workers=workers)))
            elif workers is not None:
                raise TypeError("workers are for environments made by this call, got envs")
            adapts = callable(getattr(policy, "adapt", None))
            design = self.design(seed, tasks=tasks, adapts=adapts)
            return mtwrappers.evaluation.run_evaluation(
                policy, envs, design, self, policy_in, observers, evidence, resume, progress
            )

    def _settle(self, options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of `make_vec` that the protocol fixes, and the others that were given."""
        # None stands for an argument's default; as the limit of steps, for no limit.
        limit = "max_episode_steps"
        given = {k: v for k, v in rename_arguments(options).items() if v is not None or k == limit}
        fixed = fixed_by(self)
        check_made(self, self.env_id, {k: v for k, v in fixed.items() if v is not None} | given)
        return self.settings, {name: value for name, value in given.items() if name not in fixed}


@dataclass(frozen=True)
class _Origin:
    """What the name of a protocol says that it is: a published one, or derived from it.

    Args:
        published: The published protocol.
        benchmarks: The benchmarks that the name is for.
        benchmark: The one benchmark of a name such as ``"rlinf on MT10"``, else ``None``.
        states: Whether states replace frames, as in ``"rlinf-states"``.
    """

    published: Protocol
    benchmarks: tuple[str, ...]
    benchmark: str | None = None
    states: bool = False

    def fields(self, benchmark: str, env_name: str | None) -> dict[str, Any]:
        """The fields that the name stands for on a benchmark."""
        fields = {name: value for name, value in vars(self.published).items() if name != "name"}
        if self.states:
            fields |= _STATES
        if benchmark in self.benchmarks:
            fields |= {"benchmark": benchmark, "env_name": env_name}
        if self.benchmark is not None:
            fields |= _moved_fields(self.published, self.benchmark, env_name)
        return fields


def _find_origin(name: str) -> _Origin | None:
    """What a name says that its protocol is; ``None`` for a name of one's own.

    Only names that `Protocol.on` and `Protocol.with_states` give are derived from a published one.
    """
    base, _, benchmark = name.partition(" on ")
    root = base.removesuffix("-states")
    if root not in _published:
        return None
    published, benchmarks = _published[root]
    if (states := root != base) and published.observation == "state":
        return None
    if base == name:
        return _Origin(published, benchmarks, None, states)
    if benchmark not in NUM_CLASSES or benchmark in benchmarks:
        return None
    return _Origin(published, (benchmark,), benchmark, states)


def _moved_fields(protocol: Protocol, benchmark: str, env_name: str | None) -> dict[str, Any]:
    """The groups, means and trials of a protocol on a benchmark that it is not for."""
    fields: dict[str, Any] = {}
    if protocol.groups:
        present = class_names(benchmark, protocol.kind, env_name)
        groups = [
            (name, tuple(task for task in tasks if task in present))
            for name, tasks in protocol.groups
        ]
        fields["groups"] = tuple(group for group in groups if group[1])
        if len(fields["groups"]) < 2:
            fields |= {"groups": (), "means": ("tasks",)}
    after = NUM_CLASSES[benchmark].get(protocol.kind, 0)
    before = NUM_CLASSES[protocol.benchmark][protocol.kind]
    fields["trials"] = protocol.trials and max(1, protocol.trials * after // before)
    return fields


def _described(given: Any) -> Any:
    """Converts descriptions for the field of a protocol: a name or a table of tuples.

    Raises:
        ValueError: If they are not valid.
    """
    if isinstance(given, (tuple, list)):
        given = dict(from_plain(FrozenTable, to_plain(given), "descriptions of a protocol"))
    checked = check_descriptions(given)
    return tuple(sorted(checked.items())) if isinstance(checked, dict) else checked


def _thawed(descriptions: str | FrozenTable | None) -> str | dict[str, str] | None:
    """Reverses `_described`."""
    return dict(descriptions) if isinstance(descriptions, tuple) else descriptions


def publish(*protocols: tuple[Protocol, tuple[str, ...]]) -> dict[str, Protocol]:
    """Reserves the names of protocols with their benchmarks; returns the protocols by name."""
    _published.update({one.name: (one, benchmarks) for one, benchmarks in protocols})
    return {one.name: one for one, _ in protocols}


def fixed_by(protocol: Protocol) -> dict[str, Any]:
    """The arguments of `gymnasium.make_vec` that a protocol fixes, with their values.

    ``None`` stands for an argument that is not passed.
    """
    frames = protocol.observation != "state"
    found: dict[str, Any] = {
        "benchmark": protocol.benchmark,
        "kind": protocol.kind,
        "env_name": protocol.env_name,
        "goals": "continuous" if protocol.num_goals is None else "list",
        "seed": protocol.goals_seed,
        "num_goals": protocol.num_goals or NUM_GOALS,
        "meta_batch_size": protocol.meta_batch_size or None,
        "max_episode_steps": protocol.max_episode_steps,
        "action_repeat": protocol.action_repeat,
        "idle_steps": protocol.idle_steps,
        "terminate_on_success": protocol.terminate_on_success,
        "reward_function_version": protocol.reward_function_version,
        "observation": protocol.observation,
    }
    if protocol.few_shot:
        found["envs_per_task"] = 1
    if frames:
        height, width = protocol.image_size or (None, None)
        found |= {"camera_name": protocol.camera_name, "height": height, "width": width}
        found |= {"shadows": True, "depth": False}
    if frames or protocol.hides_goals:
        found |= {"task_encoding": "none", "descriptions": _thawed(protocol.descriptions)}
    if not frames or protocol.descriptions is None:
        found["instruction"] = False
    return found


def check_envs(protocol: Protocol, envs: Any) -> None:
    """Checks that environments follow a protocol, and were not changed since they were made.

    Whoever runs episodes under a protocol's name calls this first. Wrappers around a vector
    environment are not looked at: if they may change what is scored, there is no score.

    Raises:
        TypeError, ValueError: If they contradict it.
    """
    inner = getattr(envs, "unwrapped", envs)
    spec = getattr(inner, "spec", None)
    where = f" in {envs}: measure on environments of its make_vec"
    check_made(protocol, spec and spec.id, {} if spec is None else spec.kwargs, where)
    ends = inner.get_attr("terminate_on_success")
    if any(end is not protocol.terminate_on_success for end in ends):
        raise ValueError(
            f"{protocol.name} fixes terminate_on_success={protocol.terminate_on_success}, which "
            f"was changed since the environments were made: got {ends}"
        )


def check_made(protocol: Protocol, env_id: Any, kwargs: Mapping[str, Any], where: str = "") -> None:
    """Checks that environments with this id and these arguments follow a protocol.

    Raises:
        TypeError, ValueError: If they do not; the message ends with ``where``. Or if the groups of
            the protocol are not of tasks that these environments have.
    """
    _check_groups(protocol)
    given = rename_arguments(kwargs)
    made = {**with_defaults(given), "id": env_id}
    for name, expected in {"id": protocol.env_id, **fixed_by(protocol)}.items():
        if (got := made.get(name)) != expected:
            of = reprlib.repr(expected) if isinstance(expected, dict) else repr(expected)
            raise ValueError(f"{protocol.name} fixes {name}={of}, got {reprlib.repr(got)}{where}")
    for name, value in given.items():
        if name in REFUSED and value is not None and value != defaults().get(name):
            raise ValueError(
                f"{protocol.name} takes no {name} in make_vec, got {reprlib.repr(value)}{where}"
            )


def _check_groups(protocol: Protocol) -> None:
    """Raises `ValueError` if a group has no task of the benchmark, or a mean leaves a task out."""
    if not protocol.groups:
        return
    known = class_names(protocol.benchmark, protocol.kind, protocol.env_name)
    for group, tasks in protocol.groups:
        if others := [task for task in tasks if task not in known]:
            raise ValueError(
                f"protocol {protocol.name}: group {group!r} must have tasks of {protocol.env_id}, "
                f"got {others[0]!r}; expected some of {list(known)}"
            )
    for mean in protocol.means:
        weights(known, mean, protocol.groups)


def succeeded(episode: Episode, protocol: Protocol | None) -> bool:
    """Whether an episode is a success: without a protocol, if any step was one."""
    return is_success(episode, "any" if protocol is None else protocol.success)


def episodes_needed(protocol: Protocol) -> int:
    """The total number of episodes."""
    goals = protocol.meta_batch_size * protocol.trials
    goals = goals or NUM_CLASSES[protocol.benchmark][protocol.kind]
    return goals * protocol.episodes_per_task


def weights(tasks: Sequence[str], over: str, groups: Groups) -> Values:
    """The weight of each task ``(M,)`` in a mean over ``"tasks"``, ``"groups"``, or of one group.

    Raises:
        ValueError: If a task is in no group, or a group has no task.
    """
    if over == "tasks":
        return np.full(len(tasks), 1 / len(tasks))
    found = np.zeros(len(tasks))
    chosen = groups if over == "groups" else [group for group in groups if group[0] == over]
    for name, members in chosen:
        present = [task for task in members if task in tasks]
        if not present:
            raise ValueError(f"a mean over groups needs tasks of {name!r}, got {list(tasks)}")
        for task in present:
            found[tasks.index(task)] += 1 / len(present) / len(chosen)
    if over == "groups" and not found.all():
        missing = [task for task, w in zip(tasks, found, strict=True) if not w]
        raise ValueError(f"no group has the tasks {missing}")
    return found
