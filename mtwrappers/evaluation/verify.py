"""Verifies a result: its plan is run again with the recorded actions, one environment at a time.

A file is only data. It names the environments, the goals and the actions, and nothing in it is run:
only environments of this package are made from it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.checks import check_flag, check_fraction
from mtwrappers.common.errors import full_message, printable
from mtwrappers.evaluation.episodes import Episode, Tally, single_step
from mtwrappers.evaluation.evaluate import plan_of, undisturbed
from mtwrappers.evaluation.evidence import Actions, digest, name_of, read_evidence
from mtwrappers.evaluation.few_shot import names_on, own_endings
from mtwrappers.evaluation.plan import Design, PlannedEpisode, stream_seed, trial_tasks
from mtwrappers.evaluation.protocol import check_made
from mtwrappers.evaluation.remake import VerificationError, goals_of, remake
from mtwrappers.evaluation.result import (
    EvaluationResult,
    headline_lines,
    load_data,
    versions,
)
from mtwrappers.metaworld.agent_view import without_frames
from mtwrappers.metaworld.make import TASK_IN_OBSERVATION, determining
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.vector.contract import MetaVectorEnv

# The largest number of simulation steps to replay; with more, a smaller sample is required.
_MAX_STEPS = 20_000_000
# The largest relative difference of two returns that counts as rounding.
ROUNDING = 1e-9
# Rows of tables, a limit of what costs time before the replay.
_MAX_ROWS = 5000
# Episodes that an environment plays in one call, between two moves of the progress bar.
_AT_ONCE = 5
# The fields of a design without trials.
_PLAIN = ("seed", "episodes_per_task", "tasks", "max_episode_steps", "phases")


@dataclass(frozen=True)
class Verification:
    """The outcome of a replay; ``str`` lists everything that was verified, with the score.

    Args:
        result: The result with the numbers of the replay. With a sample, other episodes are taken
            from the file.
        same: The number of episodes of each task with the same result: success, length, steps to
            success and goal exactly, and the return exactly or up to ``rounding``.
        replayed: The number of replayed episodes of each task.
        difference: The first episode that differs, and how; ``None`` if all are the same.
        rounding: The largest relative difference between the two returns of an episode, among
            episodes that count as the same: 0.0 if all are equal to the last bit.
        versions: The packages (and Python) whose version differs from the result's: both versions,
            by name.
        parts: The outcome for each result of a file that has several. ``result`` is the last one
            that was replayed, and all counts are of all.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, episodes_per_task=3, evidence="result.npz")
    >>> result.save("result.json")
    >>> found = mtwrappers.verify("result.json")
    >>> found.ok, found.same, found.difference
    (True, {'task 0': 3, 'task 1': 3}, None)
    """

    result: EvaluationResult
    same: Mapping[str, int]
    replayed: Mapping[str, int]
    difference: str | None
    rounding: float
    versions: Mapping[str, tuple[str | None, str | None]]
    parts: tuple[Verification, ...] = ()

    @property
    def episodes(self) -> list[tuple[Episode, ...]]:
        """The episodes of each result."""
        return [one.result.episodes for one in self.parts or (self,)]

    @property
    def ok(self) -> bool:
        """Whether the result is correct, as far as it was replayed."""
        return self.difference is None

    def __str__(self) -> str:
        return "\n".join([*_about(self), "", *_found(self)])


def verify(
    result: str | os.PathLike[str],
    evidence: str | os.PathLike[str] | None = None,
    *,
    sample: float = 1.0,
    envs: Any = None,
    workers: int | None = None,
    fast: bool | str = "auto",
    progress: bool = False,
) -> Verification:
    """Replays the actions of a saved result, and compares every episode with the file.

    The episodes must be those that environments, goals, design and protocol determine, each once
    and in order. The replay computes their numbers; the score follows from them. What no replay can
    verify is listed as said by the file.

    The replay uses the versions that are installed here. Success, length, steps to success and
    goals must be equal. Returns must be equal too, or within a relative difference of 1e-9, which
    is then reported, because their last bits depend on versions and on the processor.

    Args:
        result: A file from `EvaluationResult.save`.
        evidence: A file from ``evaluate(..., evidence=...)`` or `few_shot_evaluate`; by default the
            ``.npz`` file of the same name next to the result.
        sample: The share of each task's episodes to replay, in [0, 1]; at least one each. (For
            few-shot results, the share of the trials of each task group.) They are drawn from
            entropy, so nobody can know them in advance.
        envs: The vector environment to replay on; by default made from the result. It is required
            for environments that are not this package's. Wrappers around it are not replayed: those
            that change actions or rewards belong around each of its environments.
        workers: The number of worker processes for the replay; ``None`` replays in this process.
        fast: The argument ``fast`` of the environments: ``False`` for Meta-World's stock classes.
        progress: Whether to display a progress bar.

    Returns:
        The verified settings, the number of episodes with the same results, and the first
        difference; see `Verification`.

    Raises:
        DependencyNotInstalled: If ``progress`` is set and rich is not installed.
        EvidenceError: If the evidence is not such a file.
        OSError: If a file cannot be read.
        TypeError: If ``progress`` is not a bool.
        VerificationError: If the result contradicts itself, or cannot be replayed here.
        ValueError: If ``sample`` is not a number in [0, 1].

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, episodes_per_task=3, evidence="result.npz")
    >>> result.save("result.json")
    >>> mtwrappers.verify("result.json").ok
    True
    """
    sample = check_fraction(sample, "sample")
    bar = ProgressBar(check_flag(progress, "progress"))
    claims = read_claims(result)
    path = Path(result).with_suffix(".npz") if evidence is None else Path(evidence)
    found = []
    for i, claim in enumerate(claims):
        of = path if len(claims) == 1 else path.with_name(f"{path.stem}-{i}{path.suffix}")
        found.append(_verified(claim, of, sample, envs, workers or 1, fast, bar))
        if not found[-1].ok:
            break
    return found[0] if len(claims) == 1 else _together(found)


def _together(found: Sequence[Verification]) -> Verification:
    """The last of several verifications, with the counts of all."""
    return replace(
        found[-1],
        same=sum((Counter(one.same) for one in found), Counter()),
        replayed=sum((Counter(one.replayed) for one in found), Counter()),
        rounding=max(one.rounding for one in found),
        parts=tuple(found),
    )


def _verified(
    claim: EvaluationResult,
    path: Path,
    sample: float,
    envs: Any,
    workers: int,
    fast: bool | str,
    bar: ProgressBar,
) -> Verification:
    """Verifies one result with the evidence at ``path``."""
    if claim.evidence is None or claim.design is None:
        raise VerificationError("it was saved without evidence, so there is nothing to replay")
    actions = read_evidence(path)
    check_actions(claim.episodes, actions)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_refusals())
        if envs is None:
            of = claim.environments, claim.design, claim.protocol, len(claim.episodes)
            envs = stack.enter_context(contextlib.closing(remake(*of, workers, fast)))
        inner: MetaVectorEnv = envs.unwrapped
        if claim.environments is not None and goals_of(inner) != claim.environments.goals:
            raise VerificationError("its goals are not those of its environments")
        scale, raw = stack.enter_context(undisturbed(inner))
        _check_size(claim, claim.design, inner)
        rounds, planned = _rounds(inner, claim.design)
        check_plan(claim.episodes, planned)
        chosen = _chosen(claim, sample)
        _check_steps(claim, chosen, inner)
        stage = _Stage(inner, claim.design, actions, chosen, scale, raw)
        again: dict[Any, Episode] = {}
        with bar.of("episodes", len(chosen)) as advance:
            for tasks, chains in rounds:
                for played in stage.play(tasks, chains):
                    again.update({one.place: one for one in played})
                    if advance is not None:
                        advance(len(played))
    found = _compared(claim, again)
    if found.ok and digest(actions) != claim.evidence:
        said = printable(f"the actions in {path} are not those that the result was saved with")
        return replace(found, difference=said)
    return found


# The replay.

# Episodes of one environment: the first begins with a seeded reset, the others go on from it.
_Chain = Sequence[PlannedEpisode]
# The task of each group to set, if any, and then the chains of each environment.
_Round = tuple[Sequence[Any] | None, Sequence[Sequence[_Chain]]]
# An episode, its actions, and whether a success is to end it, if that is set.
_Played = tuple[PlannedEpisode, NDArray[Any], bool | None]


def _rounds(inner: MetaVectorEnv, design: Design) -> tuple[list[_Round], list[PlannedEpisode]]:
    """The episodes to run, round by round; and all episodes in the order of the result."""
    if not design.trials:
        plan, planned = plan_of(inner, design)
        return [(None, [[[one] for one in own] for own in plan])], planned
    rounds: list[_Round] = []
    for trial, tasks in enumerate(trial_tasks(inner, design)):
        names = names_on(inner, tasks, stream_seed(design.seed, trial, 0, 0))
        for stage in range(len(design.stages)):
            plan = design.of_stage(trial, stage, names, tasks)
            rounds.append((tasks, [[own] for own in plan]))
    every = [one for _, plan in rounds for chains in plan for own in chains for one in own]
    return rounds, sorted(every, key=lambda one: (one.trial or 0, one.number))


@dataclass
class _Stage:
    """Where chains are run: environments, recorded actions, and which episodes to run."""

    inner: MetaVectorEnv
    design: Design
    actions: Actions
    chosen: Collection[tuple[Any, ...]]
    scale: NDArray[np.float64]
    raw: NDArray[np.bool_]

    def __post_init__(self) -> None:
        ends = self.design.adaptation_terminate_on_success
        self._own = [None] * self.inner.num_envs if ends is None else own_endings(self.inner)
        settings = self.inner._settings
        limits = self.design.max_episode_steps, settings.max_path_length
        self._limit = min([one for one in limits if one is not None], default=None)

    def play(
        self, tasks: Sequence[Any] | None, chains: Sequence[Sequence[_Chain]]
    ) -> Iterator[list[Episode]]:
        """Runs the chosen chains, each environment by itself; yields episodes as they end."""
        queues = [
            [self._with_actions(chain, own) for chain in of if chain[0].place in self.chosen]
            for of, own in zip(([c for c in of if c] for of in chains), self._own, strict=True)
        ]
        if any(queues) and tasks is not None:
            self.inner.set_tasks(tasks)
        for start in range(0, max(map(len, queues)), _AT_ONCE):
            each: list[Any] = []
            for i, queue in enumerate(queues):
                part = queue[start : start + _AT_ONCE]
                each.append(((part, self.scale[i], self.raw[i], self._limit), {}))
            found = self.inner._call_each(play, [one if one[0][0] else None for one in each])
            yield [episode for episodes in found if episodes for episode in episodes]

    def _with_actions(self, chain: _Chain, own: bool | None) -> list[_Played]:
        length, ends = self.design.adaptation_length, self.design.adaptation_terminate_on_success
        return [
            (one, self.actions[name_of(one)], ends if one.number < length else own) for one in chain
        ]


def play(
    env: Any,
    chains: Sequence[Sequence[_Played]],
    scale: float,
    raw: bool,
    limit: int | None,
) -> list[Episode]:
    """Runs chains of episodes on one environment; runs in the environment's process."""
    found = []
    for planned, actions, ends in itertools.chain(*chains):
        if ends is not None:
            env.get_wrapper_attr("toggle_terminate_on_success")(ends)
        by_state = planned.trial is None and planned.task_state is not None
        options = {"task_state": planned.task_state} if by_state else None
        _, info = env.reset(seed=planned.seed, options=options)
        if (name := info.get("task_name", planned.task)) != planned.task:
            raise VerificationError(f"{said(planned)} is on the task {name} in the replay")
        tally = Tally([[planned]], np.array([scale]), np.array([raw]))
        last, over = len(actions) - 1, False
        for t, action in enumerate(actions):
            result = env.step(action)
            over = bool(result[2] or result[3]) or t + 1 == limit
            tally(single_step(action, result, began=t == 0, cut=over or t == last))
            if over:
                break
        episode = tally.ended[0][1]
        # One that goes on after its last action is longer than it was.
        found.append(episode if over else replace(episode, length=episode.length + 1))
    return found


def _chosen(claim: EvaluationResult, sample: float) -> set[tuple[Any, ...]]:
    """The places of a share of each task's episodes, or of all trials, drawn from entropy."""
    rng = Generator(PCG64(SeedSequence()))
    groups: dict[Any, dict[Any, list[Episode]]] = {}
    for one in claim.episodes:
        # In few-shot evaluation, the unit is a trial; trials of all groups are drawn together.
        group, unit = (one.task, one.number) if one.trial is None else (None, one.trial)
        groups.setdefault(group, {}).setdefault(unit, []).append(one)
    return {
        one.place
        for units in groups.values()
        for i in rng.permutation(len(units))[: max(1, math.ceil(sample * len(units)))].tolist()
        for one in list(units.values())[i]
    }


def _check_size(claim: EvaluationResult, design: Design, inner: MetaVectorEnv) -> None:
    """Raises `VerificationError` if the plan would be much larger than the result."""
    if design.trials:
        share = inner.meta_batch_size if design.adapts else inner.num_envs
        due = design.trials * design.trial_length * share
    else:
        due = design.episodes_per_task * len(design.tasks or claim.tasks)
    if due > 2 * len(claim.episodes) + 1000:
        raise VerificationError(f"it has {len(claim.episodes)} of {due:,} episodes")


def _check_steps(
    claim: EvaluationResult, chosen: Collection[tuple[Any, ...]], inner: MetaVectorEnv
) -> None:
    """Raises `VerificationError` if the replay would take very long."""
    kwargs = {} if claim.environments is None else claim.environments.kwargs
    fields = {} if claim.protocol is None else claim.protocol.to_dict()

    def largest(name: str, least: int) -> int:
        values = (of.get(name) for of in (kwargs, fields))
        return max([value for value in values if type(value) is int], default=least)

    lengths = [one.length for one in claim.episodes if one.place in chosen]
    steps = sum(lengths) * largest("action_repeat", 1)
    steps += (len(lengths) + inner.num_envs) * largest("idle_steps", 0)
    if steps > _MAX_STEPS:
        raise VerificationError(
            f"{len(lengths):,} of its episodes are {steps:,} steps of the simulation, and at most "
            f"{_MAX_STEPS:,} are replayed: take a smaller sample"
        )


def _compared(claim: EvaluationResult, again: Mapping[Any, Episode]) -> Verification:
    """The outcome of a replay."""
    same, of_task = Counter[str](), Counter[str]()
    first, largest = None, 0.0
    for one in claim.episodes:
        if (other := again.get(one.place)) is None:
            continue
        of_task[one.task] += 1
        if (apart := rounding(one, other)) is not None:
            same[one.task] += 1
            largest = max(largest, apart)
        elif first is None:
            first = mismatch(one, other)
    counts = {task: same[task] for task in of_task}
    result = replace(claim, episodes=tuple(again.get(one.place, one) for one in claim.episodes))
    return Verification(result, counts, of_task, first, largest, other_versions(claim.versions))


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turns errors of the replay into `VerificationError`."""
    try:
        yield
    except VerificationError:
        raise
    except (TypeError, ValueError, RuntimeError) as exc:
        raise VerificationError(f"it cannot be replayed: {full_message(exc)}") from exc


# What a verification says.


def _about(found: Verification) -> list[str]:
    """Lines on the values that the replay computed, and those that only the file has."""
    rows = _rows(found.result if not found.parts else found.parts[0].result)
    if found.versions:
        changed = {name: f"{there}, here {here}" for name, (there, here) in found.versions.items()}
        rows["versions"] = changed
    protocol = found.result.protocol
    lines = [f"protocol      {protocol.label if protocol else 'none'}"]
    for head, values in rows.items():
        lines += _row(head, values)
    for i, (before, part) in enumerate(itertools.pairwise(found.parts), 1):
        old, new = _rows(before.result), _rows(part.result)
        for head in new:
            other = {k: v for k, v in new[head].items() if (k, v) not in old[head].items()}
            if other:
                lines += _row(f"{head} of result {i}", other)
    n, replayed = sum(map(len, found.episodes)), sum(found.replayed.values())
    lines.append(f"replayed      {replayed:,} of {n:,} episodes")
    return lines


def _row(head: str, values: Mapping[str, Any]) -> list[str]:
    text = ", ".join(
        f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in values.items()
    )
    head = f"{head:<14}" if len(head) < 14 else f"{head}: "
    return textwrap.wrap(f"{head}{text}", 80, subsequent_indent=" " * 14)


def _rows(result: EvaluationResult) -> dict[str, dict[str, Any]]:
    """The values that the replay computed, and those that only the file has, by name."""
    design = result.design
    assert design is not None  # or nothing could be replayed
    shown: dict[str, Any] = {}
    told = {name: one for name, one in asdict(result.description).items() if one not in (None, "")}
    if result.normalization is not None:
        ends = {"low": result.normalization.low, "high": result.normalization.high}
        told |= {
            f"normalization_{name}": one and [one.policy, one.evidence]
            for name, one in ends.items()
        }
        told["normalization_ranges"] = dict(result.normalization.ranges)
    of_design, of_kwargs = _unseen(result)
    if result.environments is not None:
        env_id, kwargs = determining(result.environments.spec, result.few_shot)
        for name in of_kwargs:
            kwargs.pop(name, None)
        shown = {"id": env_id, **without_frames(kwargs)}
        told |= {k: v for k, v in result.environments.kwargs.items() if k not in shown}
    chosen = {name: one for name, one in asdict(design).items() if one is not None}
    if not design.trials:
        chosen = {name: one for name, one in chosen.items() if name in _PLAIN}
    told |= {f"evaluation_{name}": chosen.pop(name) for name in of_design if name in chosen}
    told |= {f"version_{name}": one for name, one in result.versions.items()}
    return {"environments": shown, "design": chosen, "said by the file": told}


def _unseen(result: EvaluationResult) -> tuple[set[str], set[str]]:
    """Fields of the design and arguments of the environments that change no episode of these.

    Any other value would give the same episodes.
    """
    design, made = result.design, result.environments
    assert design is not None  # or nothing could be replayed
    kwargs = {} if made is None else made.kwargs
    of_design = {"adapts", "adaptation_episodes", "adaptation_steps"}
    of_kwargs = {*TASK_IN_OBSERVATION}
    if not any(one.success_once for one in result.episodes):
        of_design.add("adaptation_terminate_on_success")
        of_kwargs.add("terminate_on_success")
    if made is None or made.goals is None:
        of_design.add("seed")  # of which resets perhaps draw nothing
    if kwargs.get("goals") == "continuous":
        of_kwargs |= {"seed", "num_goals"}
    # A limit is only seen if an episode comes to it, and no other limit is as low.
    longest = max(one.length for one in result.episodes)
    limits = design.max_episode_steps, kwargs.get("max_episode_steps")
    if limits[0] != longest or limits[1] == longest:
        of_design.add("max_episode_steps")
    if limits[1] != longest or limits[0] == longest:
        of_kwargs.add("max_episode_steps")
    if kwargs.get("kind") is not None:  # whose classes are not those of the other kind
        of_kwargs.add("train_classes" if kwargs["kind"] == "test" else "test_classes")
    if design.phases is not None:
        of_kwargs |= {"seed", "boundary", "task_obs", "task_embedding", "at_end"}
    return of_design, of_kwargs


def _found(found: Verification) -> list[str]:
    """Lines on the outcome of the replay, with the score if the result is verified."""
    same, replayed = sum(found.same.values()), sum(found.replayed.values())
    if not found.ok:
        rows = [(task, found.same[task], n) for task, n in found.replayed.items()]
        lines = [f"{task}: {count} of {n} the same" for task, count, n in rows if count < n]
        cause = ""
        if found.versions:
            cause = f" (perhaps because of other versions of {', '.join(found.versions)})"
        lines.append(f"false: {found.difference}{cause}")
        return [*lines, f"not verified: {same:,} of {replayed:,} episodes gave the same numbers"]
    lines = ["success, length, steps to success and goals are equal;"]
    if found.rounding:
        most = Context(prec=1, rounding=ROUND_CEILING).create_decimal(found.rounding)
        lines.append(f"returns are equal but for rounding, at most {most:.0e}: other versions or")
        lines.append("another processor")
    else:
        lines.append("returns are equal to the last bit")
    part = "" if replayed == sum(map(len, found.episodes)) else ", as far as it was replayed"
    return [*lines, f"verified{part}:", *_score(found.result)]


def _score(result: EvaluationResult) -> list[str]:
    """The recomputed score with its interval, or the mean success or return without a protocol."""
    if result.headline is not None:
        return headline_lines(result.headline)
    if result.protocol is not None:
        return [f"no score: {len(result.episodes):,} episodes are not all of the protocol's"]
    return [result.score]


# Checking the file.


def read_claim(path: str | os.PathLike[str]) -> EvaluationResult:
    """Reads an untrusted file with one result; see `read_claims`."""
    claims = read_claims(path)
    if len(claims) != 1:
        raise VerificationError(f"{os.fspath(path)} has {len(claims)} results, not one")
    return claims[0]


def read_claims(path: str | os.PathLike[str]) -> list[EvaluationResult]:
    """Reads untrusted results, and checks that they do not contradict themselves.

    Raises:
        OSError: If the file cannot be read.
        VerificationError: If it is not a result, or contradicts itself.
    """
    try:
        claims = [_claim(data) for data in load_data(path)]
        if not claims:
            raise ValueError("it has no result")
    except (ValueError, TypeError, OverflowError, RecursionError) as exc:
        raise VerificationError(f"{os.fspath(path)} is not a result: {full_message(exc)}") from exc
    return claims


def _claim(data: Any) -> EvaluationResult:
    """A result from untrusted JSON values."""
    claim = EvaluationResult.from_dict(data)
    if len(claim.tasks) * (len(claim.by_episode) if claim.few_shot else 1) > _MAX_ROWS:
        raise ValueError(f"its tables have more than {_MAX_ROWS:,} rows")
    if data.get("score") != claim.score:
        got = str(data.get("score"))
        raise ValueError(f"its score is {claim.score!r} by its episodes, got {got!r}")
    if claim.protocol is not None:
        _check_protocol(claim)
    return claim


def _check_protocol(claim: EvaluationResult) -> None:
    """Raises `ValueError` if the design or the environments contradict the protocol."""
    protocol, design = claim.protocol, claim.design
    assert protocol is not None
    if design is None:
        raise ValueError(f"a result of {protocol.name} has a design")
    expected = protocol.design(
        design.seed, tasks=design.tasks, adapts=design.adapts and protocol.few_shot
    )
    if design != expected:
        raise ValueError(f"{protocol.name} has {expected}, got {design}")
    if claim.environments is not None:
        check_made(protocol, claim.environments.id, claim.environments.kwargs)


def other_versions(there: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The packages whose version differs from the result's: both versions, by name."""
    here = versions()
    return {
        name: (there.get(name), here.get(name))
        for name in sorted({*here, *there})
        if here.get(name) != there.get(name)
    }


def check_actions(episodes: Sequence[Episode], actions: Actions) -> None:
    """Raises `VerificationError` unless the actions match the episodes one to one."""
    names = {name_of(one): one for one in episodes}
    if missing := [one for name, one in names.items() if name not in actions]:
        raise VerificationError(
            f"the evidence has no actions of {said(missing[0])}: {len(missing)} of {len(names)} "
            "episodes are missing in it"
        )
    for name, one in names.items():
        if len(actions[name]) != one.length or not one.length:
            raise VerificationError(
                f"{said(one)} has {one.length} steps, and the evidence {len(actions[name])} actions"
            )
    if others := [name for name in actions if name not in names]:
        raise VerificationError(f"the evidence has actions of {others[0]!r}, not an episode of it")
    kinds = {(array.dtype, array.shape[1:]) for array in actions.values()}
    if len(kinds) > 1:
        raise VerificationError(f"the evidence has actions of several kinds: {kinds}")


def check_plan(episodes: Sequence[Episode], plan: Sequence[PlannedEpisode]) -> None:
    """Raises `VerificationError` unless episodes match a plan, each once and in order."""
    places = {one.place: one for one in plan}
    for place, times in Counter(one.place for one in episodes).items():
        if place not in places or times > 1:
            what = f"is there {times} times" if place in places else "is not planned"
            raise VerificationError(f"{place[0]}, episode {place[2]} {what}")
    found = {one.place for one in episodes}
    if missing := [one for place, one in places.items() if place not in found]:
        raise VerificationError(
            f"it has {len(episodes)} of {len(plan)} episodes: {said(missing[0])} is missing"
        )
    for one, planned in zip(episodes, plan, strict=True):
        if one.place != planned.place:
            raise VerificationError(f"expected {said(planned)} in the place of {said(one)}")
        if one.task_state != planned.task_state:
            raise VerificationError(
                f"with its seed {said(one)} has the goal {planned.task_state}, not {one.task_state}"
            )


def rounding(claimed: Episode, replayed: Episode) -> float | None:
    """The relative difference between the returns of two otherwise equal episodes.

    ``None`` if anything else differs, or the difference is larger than rounding.
    """
    one, other = claimed.episode_return, replayed.episode_return
    if replace(replayed, episode_return=one) != claimed:
        return None
    if one == other:
        return 0.0
    apart = abs(one - other) / max(abs(one), abs(other))
    return apart if apart <= ROUNDING else None


def mismatch(claimed: Episode, replayed: Episode) -> str:
    """How an episode differs from what was claimed."""
    if replayed.length > claimed.length:
        return f"{said(claimed)} does not end in the replay after its {claimed.length} steps"
    names = [name for name in vars(claimed) if name != "episode_return"]
    for name in (*names, "episode_return"):
        value, got = getattr(claimed, name), getattr(replayed, name)
        if got != value:
            return f"{said(claimed)}: {name} is {got!r} in the replay, {value!r} in the result"
    raise AssertionError("they are equal")


def said(one: Episode | PlannedEpisode) -> str:
    """The name of an episode in messages."""
    trial = "" if one.trial is None else f"trial {one.trial}, "
    return f"{one.task}, {trial}episode {one.number}"
