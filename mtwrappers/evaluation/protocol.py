"""A protocol: everything that affects a score, as data with a digest.

`EnvSettings` define the environments, `Scoring` the episodes, what counts as a success, and what
means are taken over. `check_envs` and `check_made` are the only checks that environments follow a
protocol.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Never, cast

import gymnasium

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.checks import check_choice, check_keywords, check_string
from mtwrappers.evaluation.episodes import Episode, is_success
from mtwrappers.evaluation.loop import Observer
from mtwrappers.evaluation.plan import (
    Design,
    Plan,
    PlannedEpisode,
    Stage,
    draw_states,
    queue_episodes,
)
from mtwrappers.evaluation.protocol_text import format_protocol
from mtwrappers.evaluation.scoring import Scoring, weigh_tasks
from mtwrappers.evaluation.typed import from_plain, to_plain
from mtwrappers.metaworld.env_settings import EnvSettings
from mtwrappers.metaworld.tasks import (
    DEFAULT_CLASS,
    META_LEARNING,
    NUM_CLASSES,
    ONE_CLASS,
    class_names,
    share_out,
)
from mtwrappers.vector.contract import MetaVectorEnv

if TYPE_CHECKING:
    from mtwrappers.evaluation.result import EvaluationResult

_NAME = re.compile(r"[!-~](?:[ -~]{0,78}[!-~])?")
_SETTINGS = tuple(field.name for field in dataclasses.fields(EnvSettings))
_SCORING = tuple(field.name for field in dataclasses.fields(Scoring))

# What other libraries call a number of episodes, and too unlike for `did_you_mean`.
NAMES_OF_EPISODES = (
    *("n_eval_episodes", "num_eval_episodes", "eval_episodes"),
    *("n_episodes", "num_episodes", "episodes"),
)
# What they call a setting.
_OTHER_NAMES = {
    **dict.fromkeys(("horizon", "episode_length"), "did you mean 'max_episode_steps'?"),
    **dict.fromkeys(NAMES_OF_EPISODES, "did you mean 'episodes_per_task'?"),
}
_EVALUATE_ARGUMENTS = (
    *("policy", "envs", "workers", "tasks", "seed"),
    *("observers", "evidence", "resume", "progress"),
)
_DEFAULT_SCORING = Scoring()


@dataclass(frozen=True)
class Protocol:
    """A way to measure success on Meta-World: scores with equal protocols are comparable.

    The protocols of the literature are in `mtwrappers.protocols`; `variant` changes one. ``print``
    shows all fields with their source, as ``mtwrappers protocols NAME`` does.

    Args:
        name: The name with a version, such as ``"metaworld-3.1"``; printable ASCII.
        source: The version, repository, commit and files that the fields come from.
        settings: The environments. In few-shot evaluation, ``terminate_on_success`` never ends an
            episode of adaptation.
        scoring: The episodes and the means.
        base: The published protocol of which this is the form on another benchmark, or with states
            instead of frames; see `on` and `with_states`. ``None`` for all others.

    Raises:
        TypeError, ValueError: If a field is not valid, fields contradict each other, or the name is
            that of another protocol, which is published or derived from one.

    >>> import numpy as np
    >>> from mtwrappers import protocols
    >>> reach = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    >>> quick = reach.variant("mine", episodes_per_task=2, max_episode_steps=9)
    >>> result = quick.evaluate(lambda obs: np.zeros((len(obs), 4)))
    >>> result.headline["mean over tasks"].value, result.protocol.name
    (0.0, 'mine')
    """

    name: str
    source: tuple[str, ...]
    settings: EnvSettings
    scoring: Scoring = _DEFAULT_SCORING
    base: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ValueError(
                "the name of a protocol must be printable ASCII without spaces around it, at most "
                f"80 characters, got {ascii(self.name)[:200]}"
            )
        source = from_plain(tuple[str, ...], to_plain(self.source), f"the source of {self.name}")
        object.__setattr__(self, "source", source)
        for name, cls in (("settings", EnvSettings), ("scoring", Scoring)):
            if not isinstance(value := getattr(self, name), cls):
                raise TypeError(f"{name} of {self.name} must be {cls.__name__}, got {value!r}")
        if self.few_shot != (self.settings.meta_batch_size is not None):
            raise ValueError(
                f"protocol {self.name}: few-shot evaluation needs meta_batch_size and trials, got "
                f"{self.settings.meta_batch_size} and {self.scoring.trials}"
            )
        _check_name(self)

    def __str__(self) -> str:
        return format_protocol(self)

    @property
    def few_shot(self) -> bool:
        """Whether the policy adapts to each goal before it is evaluated on it."""
        return self.scoring.few_shot

    @property
    def env_id(self) -> str:
        """The id of the environments."""
        return self.settings.env_id

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks that the source has; of an own protocol, its benchmark."""
        published = _published.get(self.name)
        return (self.settings.benchmark,) if published is None else published.benchmarks

    @property
    def label(self) -> str:
        """The name with the beginning of the digest, for display."""
        if self.base is not None:
            note = f", derived from {self.base}"
        elif self.name in _published:
            note = ""
        else:
            note = ", not a published protocol"
        return f"{self.name} ({self.digest[:10]}{note})"

    @property
    def digest(self) -> str:
        """SHA-256 of all fields, in hexadecimal: equal protocols have the same."""
        text = json.dumps(to_plain(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    # Protocols that follow from this one.

    @explains_arguments(
        example="episodes_per_task=10",
        hints={"name": "pass a name of your own first, such as variant('mine', ...)"},
    )
    def variant(self, name: str, **changes: Any) -> Protocol:
        """A protocol of your own: this one with other settings or another scoring.

        Args:
            name: Its name.
            **changes: Fields of `EnvSettings` and of `Scoring`, or ``source``.

        Raises:
            TypeError: If there is no such field, with a hint at similar names.
            ValueError: If a field is not valid, or the name is taken.

        >>> from mtwrappers import protocols
        >>> protocols["rlinf"].variant("mine", idle_steps=3, success="last").settings.idle_steps
        3
        """
        names = ("source", *_SETTINGS, *_SCORING)
        check_keywords(changes, names, "Protocol.variant", _OTHER_NAMES)
        benchmark = changes.get("benchmark")
        if benchmark in ONE_CLASS and not changes.get("env_name", self.settings.env_name):
            raise ValueError(
                f"{benchmark} has one class: name it by env_name=..., such as {DEFAULT_CLASS!r}"
            )
        settings_changes = {name: value for name, value in changes.items() if name in _SETTINGS}
        scoring_changes = {name: value for name, value in changes.items() if name in _SCORING}
        return Protocol(
            name,
            changes.get("source", self.source),
            dataclasses.replace(self.settings, **settings_changes),
            dataclasses.replace(self.scoring, **scoring_changes),
        )

    def on(self, benchmark: str, env_name: str | None = None) -> Protocol:
        """The same protocol on another benchmark.

        A published protocol gets another name on a benchmark that its source does not have:
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
        >>> lerobot.name, lerobot.env_id, lerobot.scoring.means
        ('lerobot-0.6 on MT10', 'mtwrappers/MT10-v0', ('tasks', 'groups'))
        """
        settings = self.settings
        name, _, kind = check_string(benchmark, "benchmark").partition("-")
        names = _list_benchmarks(settings)
        if kind not in ("", settings.kind) or name not in names:
            split = "-test" if settings.kind == "test" else ""
            listed = ", ".join(f"{name}{split}" for name in names)
            fitting_names = [
                entry.protocol.name
                for entry in _published.values()
                if name in _list_benchmarks(entry.protocol.settings)
                and kind in ("", entry.protocol.settings.kind)
            ]
            hint = f"; protocols for that: {', '.join(fitting_names)}" if fitting_names else ""
            raise ValueError(f"{self.name} is for {listed}, got {benchmark!r}{hint}")
        if env_name is None and name in ONE_CLASS:
            env_name = DEFAULT_CLASS
        published = _published.get(self.base or self.name)
        if published is not None:
            return published.derive(name, env_name, with_states=not settings.observes_frames)
        moved = dataclasses.replace(settings, benchmark=name, env_name=env_name)
        scoring = self.scoring
        if name != settings.benchmark:
            scoring = scoring.on(settings, moved)
        return dataclasses.replace(self, settings=moved, scoring=scoring)

    def with_states(self) -> Protocol:
        """The same protocol with states instead of frames, and ``"-states"`` in its name.

        It is for policies that read states. Their scores are not comparable with scores of policies
        that observe frames. A protocol without frames is returned unchanged.
        """
        settings = self.settings
        if not settings.observes_frames:
            return self
        published = _published.get(self.base or self.name)
        if published is not None:
            return published.derive(settings.benchmark, settings.env_name, with_states=True)
        return dataclasses.replace(
            self, name=f"{self.name}-states", settings=settings.with_states()
        )

    # Environments and episodes.

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
        free = self._check_options(options)
        arguments = self.settings.arguments
        envs: Any = gymnasium.make_vec(self.env_id, workers=workers, **arguments, **free)
        return envs  # type: ignore[no-any-return]

    def make(self, task: str | None = None, **options: Any) -> gymnasium.Env[Any, Any]:
        """Makes the single environment of a task, for a custom loop.

        It runs an episode of `plan` after
        ``reset(seed=episode.seed, options={"task_state": episode.task_state})``. In few-shot
        evaluation, resets without these arguments keep the task, as for the later episodes of a
        trial.

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
        >>> env, episode = protocol.make("reach-v3"), protocol.plan(seed=0)[0]
        >>> obs, info = env.reset(seed=episode.seed, options={"task_state": episode.task_state})
        >>> obs, reward, terminated, truncated, info = env.step(np.zeros(4))
        >>> info["task_name"], env.unwrapped.get_task_state() == episode.task_state
        ('reach-v3', True)
        """
        names = _class_names(self.settings)
        index = 0 if task is None else names.index(check_choice(task, names, "task"))
        free, arguments = self._check_options(options), self.settings.single_arguments
        states_per_class = 1 if self.settings.goals == "continuous" else self.settings.num_goals
        first = states_per_class * index
        arguments["task_states"] = list(range(first, first + states_per_class))
        if self.few_shot:
            arguments["sample_tasks_on_reset"] = False
        return gymnasium.make(self.env_id, **arguments, **free)

    def _check_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of `make_vec` that are free; raises an error for one that is not."""
        # None stands for an argument's default; as the limit of steps, for no limit.
        given_options = {
            name: value
            for name, value in options.items()
            if value is not None or name == "max_episode_steps"
        }
        repeated = {"benchmark": self.settings.benchmark, "kind": self.settings.kind}
        arguments = {**repeated, **self.settings.arguments, **given_options}
        free = check_made(self, self.env_id, arguments)
        return {name: value for name, value in free.items() if name not in repeated}

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
        continuous = self.settings.goals == "continuous"
        classes, shares = _class_names(self.settings), _share_out_goals(self.settings)
        tasks = [classes[index] for index, _ in shares]
        states = [list(task_states) for _, task_states in shares]
        if not self.few_shot:
            choices = [{task: group} for task, group in zip(tasks, states, strict=True)]
            queues = queue_episodes(choices, design.episodes_per_task, design.seed)
            return Plan(design, (Stage(queues),)).episodes
        if continuous:  # no number names these goals
            rows: list[list[Any]] = [[None] * len(shares) for _ in range(design.trials)]
        else:
            rows = draw_states(states, design.trials, design.seed)
        stages: list[Stage] = []
        for trial, row in enumerate(rows):
            stages += design.plan_trial(trial, tasks, row)
        return Plan(design, tuple(stages)).episodes

    def design(
        self, seed: int = 0, *, tasks: Sequence[str] | None = None, adapts: bool = True
    ) -> Design:
        """The numbers that determine the episodes of an evaluation.

        Args:
            seed: The seed of the evaluation.
            tasks: The names of the tasks that are evaluated; ``None`` for all.
            adapts: In few-shot evaluation, whether the policy has ``adapt``.

        Raises:
            ValueError: If the seed is not valid, or there are tasks in few-shot evaluation.
        """
        scoring = self.scoring
        return Design(
            seed,
            scoring.episodes_per_task,
            cast(Any, tasks),  # of which it makes a tuple
            scoring.trials,
            scoring.adaptation_episodes,
            scoring.adaptation_steps,
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
        observers: Sequence[Observer] = (),
        evidence: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool = False,
        **changes: Never,
    ) -> EvaluationResult:
        """Measures a policy.

        Args:
            policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
                ``get_actions``; see `mtwrappers.evaluate`. If the protocol is few-shot, it also
                has ``begin_trial()`` and may have ``adapt(paths)``; see
                `mtwrappers.few_shot_evaluate`.
            envs: The result of `make_vec`, or a wrapper of it, or environments of
                `gymnasium.make_vec` with the same id and settings; by default made (and closed) by
                this call.
            workers: The number of worker processes, for environments made by this call.
            tasks: The names of the tasks to evaluate; by default all. A score needs all of them.
            seed: Determines the order of the goals, or the goals themselves if they are continuous.
            observers: Objects that follow the evaluation, see `Observer`.
            evidence: An ``.npz`` file to write with the actions of every episode. `verify` takes
                ``a.npz`` for a result that is saved as ``a.json``.
            resume: Whether to continue from the episodes in ``evidence``.
            progress: Whether to display a progress bar of the episodes.
            **changes: Nothing: the protocol fixes all other settings, and `variant` changes them.

        Returns:
            The `EvaluationResult`, with the protocol in it.

        Raises:
            TypeError, ValueError: As in these functions; or if the environments contradict the
                protocol, or ``tasks`` are given and it is few-shot.
        """
        hint = f"{self.name} fixes it: call evaluate of its variant('mine', {{}}=...)"
        hints = {field: hint.format(field) for field in (*_SETTINGS, *_SCORING)}
        hints |= dict.fromkeys(NAMES_OF_EPISODES, hint.format("episodes_per_task"))
        check_keywords(changes, _EVALUATE_ARGUMENTS, "Protocol.evaluate", hints)
        # Imported here, because that module imports this one: a result has a protocol.
        from mtwrappers.evaluation.evaluating import run_evaluation, warn_of_no_adaptation

        if self.few_shot and tasks is not None:
            raise ValueError(f"{self.name} is few-shot: it takes no tasks, got {tasks!r}")
        with contextlib.ExitStack() as stack:
            if envs is None:
                envs = stack.enter_context(contextlib.closing(self.make_vec(workers=workers)))
            elif workers is not None:
                raise TypeError("workers are for environments made by this call, got envs")
            adapts = callable(getattr(policy, "adapt", None))
            design = self.design(seed, tasks=tasks, adapts=adapts)
            if not self.few_shot:
                warn_of_no_adaptation(policy)
            return run_evaluation(
                policy,
                envs,
                design,
                self,
                observers=observers,
                evidence=evidence,
                resume=resume,
                progress=progress,
            )


def _class_names(settings: EnvSettings) -> tuple[str, ...]:
    return class_names(settings.benchmark, settings.kind, settings.env_name)


def _share_out_goals(settings: EnvSettings) -> list[tuple[int, range]]:
    """The index of the class, and the task states, of each task group."""
    num_classes, continuous = settings.num_classes, settings.goals == "continuous"
    num_groups = settings.meta_batch_size or num_classes
    num_goals = 1 if continuous else settings.num_goals
    return share_out(num_classes, num_groups, num_goals, continuous)


def _list_benchmarks(settings: EnvSettings) -> list[str]:
    """The benchmarks with tasks of the same kind, which hide goals or not, as those settings'."""
    return [
        name
        for name, kinds in NUM_CLASSES.items()
        if (name in META_LEARNING) is settings.hides_goals and settings.kind in kinds
    ]


# Published protocols and their names.


@dataclass(frozen=True)
class Published:
    """A protocol of the literature.

    Args:
        protocol: The protocol, on one of its benchmarks.
        benchmarks: The benchmarks that its source has.
    """

    protocol: Protocol
    benchmarks: tuple[str, ...]

    def derived_names(self) -> set[str]:
        """The names of all protocols that are derived from this one."""
        settings, name = self.protocol.settings, self.protocol.name
        bases = [name, f"{name}-states"] if settings.observes_frames else [name]
        names = {
            f"{base} on {benchmark}"
            for base in bases
            for benchmark in _list_benchmarks(settings)
            if benchmark not in self.benchmarks
        }
        return names | {*bases[1:]}

    def reserves(self, name: str) -> bool:
        """Whether a name reads as this protocol's, or as that of a form of it, in any case."""
        reserved = self.protocol.name.casefold()
        base, _, benchmark = name.casefold().partition(" on ")
        benchmarks = {"", *map(str.casefold, NUM_CLASSES)}
        return base in (reserved, f"{reserved}-states") and benchmark in benchmarks

    def derive(self, benchmark: str, env_name: str | None, with_states: bool) -> Protocol:
        """The protocol on a benchmark, also with states instead of frames."""
        return Protocol(**self.derive_fields(benchmark, env_name, with_states))

    def derive_fields(
        self, benchmark: str, env_name: str | None, with_states: bool
    ) -> dict[str, Any]:
        """The fields of what `derive` returns."""
        name, scoring = self.protocol.name, self.protocol.scoring
        settings = dataclasses.replace(
            self.protocol.settings, benchmark=benchmark, env_name=env_name
        )
        if with_states and settings.observes_frames:
            name, settings = f"{name}-states", settings.with_states()
        if benchmark not in self.benchmarks:
            name, scoring = f"{name} on {benchmark}", scoring.on(self.protocol.settings, settings)
        return {
            "name": name,
            "source": self.protocol.source,
            "settings": settings,
            "scoring": scoring,
            "base": None if name == self.protocol.name else self.protocol.name,
        }


# By name. No other protocol can have one of these names, or one that is derived from it.
_published: dict[str, Published] = {}


def publish(*publications: Published) -> dict[str, Protocol]:
    """Reserves the names of protocols; returns the protocols by name."""
    _published.update({entry.protocol.name: entry for entry in publications})
    return {entry.protocol.name: entry.protocol for entry in publications}


def _check_name(protocol: Protocol) -> None:
    """Raises `ValueError` if a name is that of another protocol, or ``base`` is not its base."""
    published = _published.get(protocol.base or protocol.name)
    if published is None:
        if protocol.base is not None:
            raise ValueError(
                f"base must be the name of a published protocol or None, got {protocol.base!r}"
            )
        for base, entry in _published.items():
            if protocol.name in entry.derived_names():
                raise ValueError(
                    f"{protocol.name} is derived from {base}, and base is None: give a variant "
                    "another name"
                )
            if entry.reserves(protocol.name):
                raise ValueError(
                    f"{protocol.name} reads as a form of the published protocol {base}: give a "
                    "variant another name"
                )
        return
    settings = protocol.settings
    with_states = protocol.base is not None and not settings.observes_frames
    benchmark, env_name = settings.benchmark, settings.env_name
    if benchmark not in _list_benchmarks(published.protocol.settings):
        benchmark, env_name = published.protocol.settings.benchmark, None
    if protocol.base is None and benchmark not in published.benchmarks:
        raise ValueError(
            f"{protocol.name} is for {', '.join(published.benchmarks)}, got {benchmark}: call "
            "Protocol.on, or give a variant another name"
        )
    expected = published.derive_fields(benchmark, env_name, with_states)
    difference = next(_compare_fields(vars(protocol), expected), None)
    if difference is not None:
        name, value, expected_value = difference
        raise ValueError(
            f"{protocol.name} has {name}={expected_value!r}, got {value!r}: give a variant another "
            "name"
        )


def _compare_fields(
    fields: Mapping[str, Any], expected: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """The fields that differ, also of settings and scoring: the name and both values."""
    for name, value in expected.items():
        if isinstance(value, (EnvSettings, Scoring)):
            yield from _compare_fields(vars(fields[name]), vars(value))
        elif fields[name] != value:
            yield name, fields[name], value


# Checks of environments.


def check_envs(protocol: Protocol, envs: Any) -> None:
    """Checks that environments were made as a protocol says, and end episodes as it does.

    Of what may have changed since, it looks at ``terminate_on_success`` alone. Whoever runs
    episodes under a protocol's name calls this first. Wrappers around a vector environment are not
    looked at: if they may change what is scored, there is no score.

    Raises:
        TypeError, ValueError: If they contradict it.
    """
    inner = getattr(envs, "unwrapped", envs)
    spec = getattr(inner, "spec", None)
    where = f" in {envs}: measure on environments of its make_vec"
    check_made(protocol, spec and spec.id, {} if spec is None else spec.kwargs, where)
    expected = protocol.settings.terminate_on_success
    flags = inner.get_attr("terminate_on_success")
    if any(flag is not expected for flag in flags):
        raise ValueError(
            f"{protocol.name} fixes terminate_on_success={expected}, which was changed since the "
            f"environments were made: got {flags}"
        )


def check_made(
    protocol: Protocol, env_id: Any, arguments: Mapping[str, Any], where: str = ""
) -> dict[str, Any]:
    """Checks that environments with this id and these arguments follow a protocol.

    Returns:
        The arguments that the protocol leaves free, by our names.

    Raises:
        TypeError, ValueError: If they do not; the message ends with ``where``. Or if the groups of
            the protocol are not of tasks that these environments have.
    """
    _check_groups(protocol)
    if env_id != protocol.env_id:
        raise ValueError(f"{protocol.name} fixes id={protocol.env_id!r}, got {env_id!r}{where}")
    return protocol.settings.check_arguments(arguments, protocol.name, where)


def _check_groups(protocol: Protocol) -> None:
    """Raises `ValueError` if a group has no task of the benchmark, or a mean leaves a task out."""
    scoring = protocol.scoring
    if not scoring.groups:
        return
    classes = _class_names(protocol.settings)
    for group, tasks in scoring.groups:
        if unknown := [task for task in tasks if task not in classes]:
            raise ValueError(
                f"protocol {protocol.name}: group {group!r} must have tasks of {protocol.env_id}, "
                f"got {unknown[0]!r}; expected some of {list(classes)}"
            )
    for mean in scoring.means:
        weigh_tasks(classes, mean, scoring.groups)


def succeeded(episode: Episode, protocol: Protocol | None) -> bool:
    """Whether an episode is a success: without a protocol, if any step was one."""
    return is_success(episode, "any" if protocol is None else protocol.scoring.success)


def count_needed_episodes(protocol: Protocol) -> Counter[str]:
    """The number of episodes that a score needs of each task, by its name."""
    scoring, classes = protocol.scoring, _class_names(protocol.settings)
    per_group = scoring.episodes_per_task * (scoring.trials if protocol.few_shot else 1)
    needed = Counter[str]()
    for index, _ in _share_out_goals(protocol.settings):
        needed[classes[index]] += per_group
    return needed
