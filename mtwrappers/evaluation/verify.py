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
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.checks import check_flag, check_fraction
from mtwrappers.common.errors import full_message, printable
from mtwrappers.evaluation.episodes import (
    Design,
    Episode,
    PlannedEpisode,
    Stage,
    Tally,
    plan_of,
    single_step,
)
from mtwrappers.evaluation.evaluate import undisturbed
from mtwrappers.evaluation.evidence import Actions, digest, name_of, read_evidence
from mtwrappers.evaluation.protocol import check_made
from mtwrappers.evaluation.remake import VerificationError, goals_of, remake
from mtwrappers.evaluation.result import (
    EvaluationResult,
    headline_lines,
    load_data,
    versions,
)
from mtwrappers.evaluation.typed import to_plain
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.vector.contract import MetaVectorEnv

# The largest number of simulation steps to replay; with more, a smaller sample is required.
_MAX_STEPS = 20_000_000
# The largest relative difference of two returns that counts as rounding.
ROUNDING = 1e-9
# Rows of tables, a limit of what costs time before the replay.
_MAX_ROWS = 5000
# Episodes that an environment runs in one call, between two moves of the progress bar.
_AT_ONCE = 5
_SAID = "said by the file"
# The fields of a design without trials.
_PLAIN = ("seed", "episodes_per_task", "tasks", "phases")
# The fields that a replay computes or depends on, so that it would differ with others; see `_seen`.
_OF_DESIGN = {"episodes_per_task", "tasks", "trials", "trial_tasks", "phases"}
_OF_ENVIRONMENTS = {"benchmark", "kind", "env_name", "train_classes", "test_classes", "goals"}
_OF_ENVIRONMENTS |= {"reward_function_version", "action_repeat", "idle_steps", "seed", "num_goals"}
_OF_ENVIRONMENTS |= {"sequence", "steps_per_task"}
_OF_TRIALS = {"num_envs", "meta_batch_size", "envs_per_task"}


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
        return "\n".join([*_about(self), "", *_outcome(self)])


def verify(
    result: str | os.PathLike[str],
    evidence: str | os.PathLike[str] | None = None,
    *,
    sample: float = 1.0,
    envs: Any = None,
    workers: int | None = None,
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
        found.append(_verified(claim, of, sample, envs, workers or 1, bar))
        if not found[-1].ok:
            break
    if len(claims) == 1:
        return found[0]
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
    bar: ProgressBar,
) -> Verification:
    """Verifies one result with the evidence at ``path``."""
    if claim.evidence is None or claim.design is None:
        raise VerificationError(
            "it was saved without evidence, so there is nothing to replay: evaluate again with "
            "evidence=..."
        )
    try:
        actions = read_evidence(path)
    except FileNotFoundError:
        raise VerificationError(
            f"there is no file {os.fspath(path)} with its evidence, the actions to replay"
        ) from None
    _check_actions(claim.episodes, actions)
    again: dict[Any, Episode] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(_refusals())
        if envs is None:
            of = claim.environments, claim.design, len(claim.episodes)
            envs = stack.enter_context(contextlib.closing(remake(*of, workers)))
        inner: MetaVectorEnv = envs.unwrapped
        if claim.environments is not None and goals_of(inner) != claim.environments.goals:
            raise VerificationError(f"its goals are not those of {inner}")
        scale, raw = stack.enter_context(undisturbed(inner))
        _check_size(claim, claim.design, inner)
        stages, planned = plan_of(inner, claim.design)
        _check_plan(claim.episodes, planned)
        chosen = _chosen(claim, sample)
        _check_steps(claim, len(chosen), sum(x.length for x in claim.episodes if x.place in chosen))
        advance = stack.enter_context(bar.of("episodes", len(chosen)))
        for episodes in _replay(inner, stages, claim.design, actions, chosen, (scale, raw)):
            again.update({one.place: one for one in episodes})
            advance(len(episodes))
    found = _compared(claim, again)
    if found.ok and digest(actions) != claim.evidence:
        said = printable(f"the actions in {path} are not those that the result was saved with")
        return replace(found, difference=said)
    return found


# The replay.

# An episode, its actions, and whether a success is to end it, if that is set.
_Recorded = tuple[PlannedEpisode, NDArray[Any], bool | None]


def _replay(
    inner: MetaVectorEnv,
    stages: Sequence[Stage],
    design: Design,
    actions: Actions,
    chosen: Collection[tuple[Any, ...]],
    rewards: tuple[NDArray[np.float64], NDArray[np.bool_]],
) -> Iterator[list[Episode]]:
    """Runs the chosen episodes of a plan, each environment by itself; yields them as they end."""
    ends, length = design.adaptation_terminate_on_success, design.adaptation_length
    n = inner.num_envs
    after = [None] * n if ends is None else inner.get_attr("terminate_on_success")
    limit = inner._settings.max_path_length
    for stage in stages:
        queues: list[list[_Recorded]] = [
            [
                (one, actions[name_of(one)], ends if one.number < length else own)
                for one in of_env
                if one.place in chosen
            ]
            for of_env, own in zip(stage.episodes, after, strict=True)
        ]
        if stage.tasks is not None and any(queues):
            inner.set_tasks(stage.tasks)
        for start in range(0, max(map(len, queues)), _AT_ONCE):
            parts = [queue[start : start + _AT_ONCE] for queue in queues]
            each: list[Any] = [
                ((part, scale, raw, limit), {}) if part else None
                for part, scale, raw in zip(parts, *rewards, strict=True)
            ]
            found = inner._call_each(play, each)
            yield [episode for episodes in found for episode in episodes or ()]


def play(
    env: Any, episodes: Sequence[_Recorded], scale: float, raw: bool, limit: int | None
) -> list[Episode]:
    """Runs episodes with their actions on one environment; runs in the environment's process."""
    found = []
    for planned, actions, ends in episodes:
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
    groups: dict[Any, dict[Any, list[Any]]] = {}
    for one in claim.episodes:
        # In few-shot evaluation, the unit is a trial; trials of all groups are drawn together.
        group, unit = (one.task, one.number) if one.trial is None else (None, one.trial)
        groups.setdefault(group, {}).setdefault(unit, []).append(one.place)
    return {
        place
        for units in groups.values()
        for i in rng.permutation(len(units))[: max(1, math.ceil(sample * len(units)))].tolist()
        for place in list(units.values())[i]
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


def _check_steps(claim: EvaluationResult, episodes: int, steps: int) -> None:
    """Raises `VerificationError` if the replay would take very long."""
    kwargs = {} if claim.environments is None else claim.environments.kwargs
    repeat, idle = kwargs.get("action_repeat", 1), kwargs.get("idle_steps", 0)
    if (steps := steps * repeat + episodes * idle) > _MAX_STEPS:
        raise VerificationError(
            f"{episodes:,} of its episodes are {steps:,} steps of the simulation, and at most "
            f"{_MAX_STEPS:,} are replayed: take a smaller sample"
        )


def _compared(claim: EvaluationResult, again: Mapping[Any, Episode]) -> Verification:
    """The outcome of a replay."""
    replayed = dict.fromkeys((one.task for one in claim.episodes if one.place in again), 0)
    same = dict(replayed)
    false, apart = None, 0.0
    for one in claim.episodes:
        if one.place in again:
            found = differs(one, again[one.place])
            replayed[one.task] += 1
            same[one.task] += isinstance(found, float)
            apart = max(apart, found) if isinstance(found, float) else apart
            false = false or (found if isinstance(found, str) else None)
    return Verification(
        replace(claim, episodes=tuple(again.get(one.place, one) for one in claim.episodes)),
        same,
        replayed,
        false,
        apart,
        other_versions(claim.versions),
    )


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
    rows = [_rows(one.result) for one in found.parts or (found,)]
    first, protocol = dict(rows[0]), found.result.protocol
    if found.versions:
        changed = {name: f"{there}, here {here}" for name, (there, here) in found.versions.items()}
        first["versions"] = changed
    lines = [f"protocol      {protocol.label if protocol else 'none'}"]
    for head, values in first.items():
        lines += _row(head, values)
    for i, (old, new) in enumerate(itertools.pairwise(rows), 1):
        for head, values in new.items():
            if other := {k: v for k, v in values.items() if (k, v) not in old[head].items()}:
                lines += _row(f"{head} of result {i}", other)
    n, replayed = sum(map(len, found.episodes)), sum(found.replayed.values())
    return [*lines, f"replayed      {replayed:,} of {n:,} episodes"]


def _row(head: str, values: Mapping[str, Any]) -> list[str]:
    text = ", ".join(
        f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in values.items()
    )
    head = f"{head:<14}" if len(head) < 14 else f"{head}: "
    return textwrap.wrap(f"{head}{text}", 80, subsequent_indent=" " * 14)


def _rows(result: EvaluationResult) -> dict[str, dict[str, Any]]:
    """Every field of a result: those that the replay computed, and those that only the file has.

    Left out are fields without a value; episodes and evidence, which the replay compares; and the
    protocol, which has a line of its own, and which environments and design agree with.
    """
    seen = _seen(result)
    rows: dict[str, dict[str, Any]] = {"environments": {}, "design": {}, _SAID: {}}
    data = to_plain(result)
    for name in ("episodes", "evidence", "protocol"):
        del data[name]
    if not result.few_shot:  # whose design has no others
        data["design"] = {k: v for k, v in data["design"].items() if k in _PLAIN}
    for head in ("description", *data):
        for path, value in _leaves((head,), data.pop(head, None)):
            if value not in (None, ""):
                own = path in seen
                rows[head if own else _SAID][path[-1] if own else _label(path)] = value
    return rows


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values in nested dicts by their paths; arguments of environments are whole."""
    if isinstance(value, dict) and len(path) < (3 if path[0] == "environments" else 2):
        for key, one in value.items():
            yield from _leaves((*path, key), one)
    else:
        yield path, value


def _label(path: Sequence[str]) -> str:
    """The name of what the file says; arguments and descriptions are known by their own."""
    return path[-1] if path[0] in ("description", "environments") else "_".join(path)


def _seen(result: EvaluationResult) -> set[tuple[str, ...]]:
    """The paths of the fields with which these episodes would differ, if they had other values."""
    design, made = result.design, result.environments
    assert design is not None  # or nothing could be replayed
    kwargs = {} if made is None else made.kwargs
    of_design, of_kwargs = set(_OF_DESIGN), set(_OF_ENVIRONMENTS)
    if any(one.success_once for one in result.episodes):
        of_design.add("adaptation_terminate_on_success")
        of_kwargs.add("terminate_on_success")
    if made is not None and made.goals is not None:
        of_design.add("seed")  # of which resets draw something
    if result.few_shot or "benchmark" not in kwargs:
        of_kwargs |= _OF_TRIALS
    if kwargs.get("goals") == "continuous":
        of_kwargs -= {"seed", "num_goals"}
    if "kind" in kwargs:  # whose classes are not those of the other kind
        of_kwargs.remove("train_classes" if kwargs["kind"] == "test" else "test_classes")
    if design.phases is not None:
        of_kwargs.remove("seed")
    if kwargs.get("max_episode_steps") == max(one.length for one in result.episodes):
        of_kwargs.add("max_episode_steps")  # which an episode has come to
    seen = {("design", name) for name in of_design} | {("environments", "id")}
    return seen | {("environments", "kwargs", name) for name in of_kwargs}


def _outcome(found: Verification) -> list[str]:
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
        why = "other versions or another processor" if found.versions else "another processor"
        said = f"returns are equal but for rounding, at most {most:.0e}: {why}"
        lines += textwrap.wrap(said, 80)
    else:
        lines.append("returns are equal to the last bit")
    part = "" if replayed == sum(map(len, found.episodes)) else ", as far as it was replayed"
    score, result = [found.result.score], found.result
    if result.headline is not None:
        score = headline_lines(result.headline)
    elif result.protocol is not None:
        score = [f"no score: {len(result.episodes):,} episodes are not all of the protocol's"]
    return [*lines, f"verified{part}:", *score]


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
        raise VerificationError(full_message(exc)) from exc
    return claims


def _claim(data: Any) -> EvaluationResult:
    """A result from untrusted JSON values, whose score, design and environments fit together."""
    claim = EvaluationResult.from_dict(data)
    protocol, design = claim.protocol, claim.design
    if len(claim.tasks) * (len(claim.by_episode) if claim.few_shot else 1) > _MAX_ROWS:
        raise ValueError(f"its tables have more than {_MAX_ROWS:,} rows")
    if data.get("score") != claim.score:
        got = str(data.get("score"))
        raise ValueError(f"its score is {claim.score!r} by its episodes, got {got!r}")
    if protocol is None:
        return claim
    if design is None:
        raise ValueError(f"a result of {protocol.name} has a design")
    adapts = design.adapts and protocol.few_shot
    expected = protocol.design(design.seed, tasks=design.tasks, adapts=adapts)
    if design != expected:
        raise ValueError(f"{protocol.name} has {expected}, got {design}")
    if claim.environments is not None:
        check_made(protocol, claim.environments.id, claim.environments.kwargs)
    return claim


def other_versions(there: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The packages whose version differs from the result's: both versions, by name."""
    here = versions()
    every = {name: (there.get(name), here.get(name)) for name in sorted({*here, *there})}
    return {name: (before, now) for name, (before, now) in every.items() if before != now}


def _check_actions(episodes: Sequence[Episode], actions: Actions) -> None:
    """Raises `VerificationError` unless the actions match the episodes one to one."""
    for one in episodes:
        steps = len(actions.get(name_of(one), ()))
        if steps != one.length or not steps:
            raise VerificationError(
                f"{said(one)} has {one.length} steps, and the evidence {steps} actions"
            )
    if others := [*actions.keys() - {name_of(one) for one in episodes}]:
        raise VerificationError(f"the evidence has actions of {others[0]!r}, not an episode of it")
    kinds = {(array.dtype, array.shape[1:]) for array in actions.values()}
    if len(kinds) > 1:
        raise VerificationError(f"the evidence has actions of several kinds: {kinds}")


def _check_plan(episodes: Sequence[Episode], plan: Sequence[PlannedEpisode]) -> None:
    """Raises `VerificationError` unless episodes are those of a plan, each once and in order."""
    for one, planned in itertools.zip_longest(episodes, plan):
        if one is None or planned is None or one.place != planned.place:
            expected, got = ("no more" if of is None else said(of) for of in (planned, one))
            raise VerificationError(
                f"it has {len(episodes)} of {len(plan)} episodes: expected {expected}, got {got}"
            )
        if one.task_state != planned.task_state:
            raise VerificationError(
                f"with its seed {said(one)} has the goal {planned.task_state}, not {one.task_state}"
            )


def differs(claimed: Episode, replayed: Episode, rounding: float = ROUNDING) -> float | str:
    """How an episode differs from what was claimed.

    Returns:
        The relative difference of the returns if nothing else differs, and it is at most
        ``rounding``; else a sentence.
    """
    if replayed.length > claimed.length:
        return f"{said(claimed)} does not end in the replay after its {claimed.length} steps"
    one, other = claimed.episode_return, replayed.episode_return
    apart = 0.0 if one == other else abs(one - other) / max(abs(one), abs(other))
    names = [name for name in vars(claimed) if name != "episode_return" or apart > rounding]
    for name in sorted(names, key="episode_return".__eq__):
        value, got = getattr(claimed, name), getattr(replayed, name)
        if got != value:
            return f"{said(claimed)}: {name} is {got!r} in the replay, {value!r} in the result"
    return apart


def said(one: Episode | PlannedEpisode) -> str:
    """The name of an episode in messages."""
    trial = "" if one.trial is None else f"trial {one.trial}, "
    return f"{one.task}, {trial}episode {one.number}"
