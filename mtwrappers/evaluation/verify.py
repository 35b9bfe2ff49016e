"""Verifies a result: the file is checked, and replaying its actions must give the same numbers.

A file is only data. It names the environments, the goals and the actions, and nothing in it is run:
only environments of this package are made from it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import reprlib
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.checks import check_fraction
from mtwrappers.common.errors import full_message, printable
from mtwrappers.evaluation.episodes import Episode, Observer, PlannedEpisode
from mtwrappers.evaluation.evaluate import evaluate
from mtwrappers.evaluation.evidence import MAX_BYTES, Actions, digest, name_of, read_evidence
from mtwrappers.evaluation.few_shot import few_shot_evaluate
from mtwrappers.evaluation.protocol import Protocol, check_made
from mtwrappers.evaluation.remake import VerificationError, goals_of, remake
from mtwrappers.evaluation.result import (
    MAX_SIZE,
    AnyResult,
    EvaluationResult,
    FewShotResult,
    Provenance,
    headline_lines,
    versions,
)
from mtwrappers.metaworld.agent_view import without_frames
from mtwrappers.metaworld.make import TASK_IN_OBSERVATION, determining
from mtwrappers.samplers.bar import Advance, ProgressBar
from mtwrappers.samplers.rollout import Step
from mtwrappers.state.files import load_json

# The largest number of simulation steps to replay; with more, a smaller sample is required.
_MAX_STEPS = 20_000_000
# The largest relative difference of two returns that counts as rounding.
ROUNDING = 1e-9
# Limits of quantities that cost time before the replay: resamples, their product with episodes, and
# rows of tables.
_MAX_RESAMPLES, _MAX_DRAWS, _MAX_ROWS = 100_000, 10**8, 5000
# The values that Gymnasium writes into each spec of environments that are made by `make_vec`.
_UNSAID = {"vectorization_mode": "vector_entry_point"}
# The fields that `mtwrappers rollout` adds to its result. None of them is verified.
_NOTED = {"benchmark", "policy", "episodes", "seed", "protocol", "name", "privileged_goal"}
_NOTED |= {"interrupted", "seconds", "steps", "steps_per_second"}


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
        noted: The settings and the duration that `mtwrappers rollout` wrote beside the result, if
            it did. None of them is verified.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, episodes_per_task=3, evidence="result.npz")
    >>> result.save("result.json")
    >>> found = mtwrappers.verify("result.json")
    >>> found.ok, found.same, found.difference
    (True, {'task 0': 3, 'task 1': 3}, None)
    """

    result: AnyResult
    same: Mapping[str, int]
    replayed: Mapping[str, int]
    difference: str | None
    rounding: float
    versions: Mapping[str, tuple[str | None, str | None]]
    noted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the result is correct, as far as it was replayed."""
        return self.difference is None

    @property
    def score(self) -> EvaluationResult:
        """The episodes that the score is computed from, after any adaptation."""
        return _scored(self.result)

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

    First, the file itself is checked: it contains nothing but a result, its numbers follow from its
    episodes, and these are the episodes that its environments, goals, seed and protocol determine,
    each once and in order.

    The replay uses the versions that are installed here. Success, length, steps to success and
    goals must be equal. Returns must be equal too, or within a relative difference of 1e-9, which
    is then reported, because their last bits depend on versions and on the processor.

    Args:
        result: A file from `EvaluationResult.save` or `FewShotResult.save`.
        evidence: A file from ``evaluate(..., evidence=...)`` or `few_shot_evaluate`; by default the
            ``.npz`` file of the same name next to the result.
        sample: The share of each task's episodes to replay, in [0, 1]; at least one each. (For
            few-shot results, the share of the trials of each task group.) They are drawn from
            entropy, so nobody can know them in advance.
        envs: Vector environments to replay on; by default made from the result. They are required
            for environments that are not this package's.
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
    claim, noted = _read(result)
    provenance = _scored(claim).provenance
    if provenance is None or provenance.evidence is None:
        raise VerificationError("it was saved without evidence, so there is nothing to replay")
    path = Path(result).with_suffix(".npz") if evidence is None else evidence
    actions = read_evidence(path)
    check_actions(claim.episodes, actions)
    with _refusals(), contextlib.ExitStack() as stack:
        protocol = provenance.protocol
        if envs is None:
            envs = remake(
                provenance.spec,
                protocol,
                len(claim.episodes),
                in_trials=isinstance(claim, FewShotResult),
                workers=1 if workers is None else workers,
                fast=fast,
            )
            stack.enter_context(contextlib.closing(envs))
            protocol = protocol and protocol.with_states()
        if goals_of(envs) != provenance.goals:
            raise VerificationError("its goals are not those of its environments")
        replayed: AnyResult
        source = _Source(provenance, protocol, actions, envs, sample, progress)
        if isinstance(claim, FewShotResult):
            chosen, replayed = _replay_trials(claim, source)
        else:
            chosen, replayed = _replay_tasks(claim, source)
    found = _compared(claim, replayed, chosen, other_versions(provenance.versions))
    found = replace(found, noted=noted)
    if found.ok and digest(actions) != provenance.evidence:
        said = printable(f"the actions in {path} are not those that the result was saved with")
        return replace(found, difference=said)
    return found


def _compared(
    claim: AnyResult,
    replayed: AnyResult,
    chosen: Collection[Episode],
    versions: Mapping[str, tuple[str | None, str | None]],
) -> Verification:
    """The outcome of a replay of the ``chosen`` episodes."""
    same, of_task = Counter[str](), Counter[str]()
    first, largest = None, 0.0
    for one, again in zip(claim.episodes, replayed.episodes, strict=True):
        if one not in chosen:
            continue
        of_task[one.task] += 1
        if (apart := rounding(one, again)) is not None:
            same[one.task] += 1
            largest = max(largest, apart)
        elif first is None:
            first = mismatch(one, again)
    counts = {task: same[task] for task in of_task}
    return Verification(replayed, counts, of_task, first, largest, versions)


@dataclass(frozen=True)
class _Source:
    """The source of a replay.

    Args:
        provenance: The provenance of the result.
        protocol: The protocol that was followed, or ``None``.
        actions: The actions of the episodes.
        envs: The environments.
        sample: The share of the episodes to replay.
        progress: Whether to display a progress bar.
    """

    provenance: Provenance
    protocol: Protocol | None
    actions: Actions
    envs: Any
    sample: float
    progress: bool

    def measure(self, function: Any, **given: Any) -> Any:
        """The evaluating function with arguments: the protocol's own, or ``function``."""
        measure = function if self.protocol is None else self.protocol.evaluate
        return functools.partial(measure, **given)

    def check_steps(self, chosen: Collection[Episode]) -> None:
        """Raises `VerificationError` if the replay would take very long."""
        kwargs = (self.provenance.spec or {}).get("kwargs", {})
        fields = self.provenance.protocol.to_dict() if self.provenance.protocol else {}

        def largest(name: str, least: int) -> int:
            values = (of.get(name) for of in (kwargs, fields))
            return max([value for value in values if type(value) is int], default=least)

        steps = sum(one.length for one in chosen) * largest("action_repeat", 1)
        steps += (len(chosen) + self.envs.num_envs) * largest("idle_steps", 0)
        if steps > _MAX_STEPS:
            raise VerificationError(
                f"{len(chosen):,} of its episodes are {steps:,} steps of the simulation, and at "
                f"most {_MAX_STEPS:,} are replayed: take a smaller sample"
            )


def _replay_tasks(
    claim: EvaluationResult, source: _Source
) -> tuple[set[Episode], EvaluationResult]:
    """The replayed episodes of a result, and the result with the numbers of the replay."""
    provenance = source.provenance
    due = provenance.episodes_per_task * len(provenance.tasks or claim.tasks)
    if due > 2 * len(claim.episodes) + 1000:
        raise VerificationError(f"it has {len(claim.episodes)} of {due:,} episodes")
    chosen = _chosen(claim.episodes, source.sample)
    source.check_steps(chosen)
    replay = _Replay(claim.episodes, source.actions, source.envs.num_envs)
    given = {
        "episodes_per_task": provenance.episodes_per_task,
        "tasks": provenance.tasks,
        "max_episode_steps": provenance.max_episode_steps,
    }
    again: EvaluationResult = source.measure(evaluate, **given)(
        replay,
        source.envs,
        seed=claim.seed,
        observers=[replay],
        finished=[one for one in claim.episodes if one not in chosen],
        progress=source.progress,
    )
    return chosen, replace(claim, episodes=again.episodes)


def _replay_trials(claim: FewShotResult, source: _Source) -> tuple[set[Episode], FewShotResult]:
    """Like `_replay_tasks`, for whole trials."""
    inner = source.envs.unwrapped
    sizes = inner.meta_batch_size, inner.envs_per_task
    check_trials(claim, *sizes)
    design = claim.trials
    assert design is not None  # checked by `check_trials`
    rng, count = Generator(PCG64(SeedSequence())), math.ceil(source.sample * design.trials)
    trials = rng.permutation(design.trials)[: max(1, count)].tolist()
    at = {(one.trial, one.number): one for one in claim.episodes}
    chosen = {at[place] for trial in trials for place in design.of_trial(trial, *sizes)}
    source.check_steps(chosen)
    queues: list[list[Episode]] = [[] for _ in range(inner.num_envs)]
    steps = 0
    for trial, stage in itertools.product(sorted(trials), range(len(design.stages))):
        places = design.by_env(trial, stage, *sizes)
        episodes = [[at[place] for place in of_env] for of_env in places]
        steps += max(sum(one.length for one in of_env) for of_env in episodes)
        for queue, of_env in zip(queues, episodes, strict=True):
            queue += of_env
    with ProgressBar(source.progress).of("episodes", len(chosen)) as advance:
        again: FewShotResult = source.measure(few_shot_evaluate, **design.arguments)(
            _TrialReplay(claim.episodes, source.actions, queues, steps, design.adapts, advance),
            source.envs,
            seed=claim.evaluation.seed,
            finished=[one for one in claim.episodes if one not in chosen],
        )
    return chosen, replace(
        claim,
        adaptation=replace(claim.adaptation, episodes=again.adaptation.episodes),
        evaluation=replace(claim.evaluation, episodes=again.evaluation.episodes),
    )


def _chosen(episodes: Sequence[Episode], sample: float) -> set[Episode]:
    """A share of each task's episodes, drawn from entropy."""
    rng = Generator(PCG64(SeedSequence()))
    of_task: dict[str, list[Episode]] = {}
    for one in episodes:
        of_task.setdefault(one.task, []).append(one)
    return {
        own[i]
        for own in of_task.values()
        for i in rng.permutation(len(own))[: max(1, math.ceil(sample * len(own)))]
    }


class _Replay(Observer):
    """A policy that takes the actions of a result, episode by episode."""

    def __init__(self, episodes: Sequence[Episode], actions: Actions, num_envs: int) -> None:
        self._episodes, self._actions = episodes, actions
        self.longest = max(map(len, actions.values()))
        first = next(iter(actions.values()))
        if num_envs * (self.longest + 1) * max(first[0].nbytes, 1) > MAX_BYTES:
            raise VerificationError(f"an episode of {self.longest:,} actions is too long to replay")
        # One step more than there are actions, for an episode that does not end with them.
        self._queued = np.zeros((num_envs, self.longest + 1, *first.shape[1:]), first.dtype)
        self._times = np.zeros(num_envs, dtype=np.int64)
        self._ends = np.full(num_envs, self.longest)
        self._all = np.arange(num_envs)

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Checks that the result has the episodes that are planned."""
        check_plan(self._episodes, episodes)

    def begin(self, i: int, episode: PlannedEpisode | Episode) -> None:
        """Loads the actions of an episode."""
        actions = self._actions[name_of(episode)]
        self._queued[i, : len(actions)] = actions
        self._queued[i, len(actions) :] = 0
        self._times[i], self._ends[i] = 0, len(actions)

    def __call__(self, observations: Any) -> NDArray[Any]:
        """The next actions, ``(N, A)``."""
        actions: NDArray[Any] = self._queued[self._all, np.minimum(self._times, self.longest)]
        self._times += 1
        return actions

    def step(self, step: Step) -> None:
        """Ends an episode that continues after its actions, which differs from the original."""
        step.finished[self._times > self._ends] = True


class _TrialReplay(_Replay):
    """A policy that takes the actions of few-shot trials, each environment from its queue."""

    def __init__(
        self,
        episodes: Sequence[Episode],
        actions: Actions,
        queues: Sequence[Sequence[Episode]],
        steps: int,
        adapts: bool,
        advance: Advance | None,
    ) -> None:
        super().__init__(episodes, actions, len(queues))
        self._queues = [iter(queue) for queue in queues]
        self._left, self._advance = steps, advance
        if adapts:
            self.adapt = lambda paths: None

    def __call__(self, observations: Any) -> NDArray[Any]:
        """The next actions, as long as the trials have steps."""
        if not self._left:
            raise VerificationError(
                "its trials do not end in the replay after all of their actions"
            )
        self._left -= 1
        return super().__call__(observations)

    def begin_trial(self) -> None:
        """Makes it a policy for few-shot evaluation."""

    def reset(self, mask: NDArray[np.bool_]) -> None:
        """Loads the actions of the episodes that begin."""
        for i in np.flatnonzero(mask).tolist():
            self.begin(i, next(self._queues[i]))
            if self._advance:
                self._advance(1)


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
    """Lines on the verified environments, protocol and settings."""
    result, score = found.result, found.score
    provenance = score.provenance
    assert provenance is not None  # or nothing could be replayed
    rows = []
    claimed: dict[str, Any] = {}
    if provenance.spec is not None:
        env_id, kwargs = determining(provenance.spec, isinstance(result, FewShotResult))
        replayed_too = without_frames(kwargs)
        for name in TASK_IN_OBSERVATION:
            replayed_too.pop(name, None)
        rows.append(("environments", {"id": env_id, **replayed_too}))
        given = provenance.spec["kwargs"].items()
        left = {name: value for name, value in given if name not in replayed_too}
        claimed = {k: v for k, v in left.items() if v is not None and v != _UNSAID.get(k)}
    rows.append(("not replayed", {**claimed, **_claims(found)}))
    rows.append(("chosen", _chosen_of(result, provenance)))
    if found.versions:
        changed = {name: f"{there}, here {here}" for name, (there, here) in found.versions.items()}
        rows.append(("versions", changed))
    lines = [f"policy        {provenance.policy or '(without a name)'}"]
    lines.append(f"protocol      {score.protocol.label if score.protocol else 'none'}")
    for head, values in rows:
        text = ", ".join(
            f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in values.items()
        )
        lines += textwrap.wrap(f"{head:<14}{text}", 80, subsequent_indent=" " * 14)
    n, replayed = len(result.episodes), sum(found.replayed.values())
    lines.append(f"replayed      {replayed:,} of {n:,} episodes")
    return lines


def _chosen_of(result: AnyResult, provenance: Provenance) -> dict[str, Any]:
    """The settings that the evaluating person chose."""
    if isinstance(result, FewShotResult):
        design = result.trials.to_dict() if result.trials else {}
        return {"seed": result.evaluation.seed, **design}
    names = ("episodes_per_task", "tasks", "max_episode_steps")
    return {"seed": result.seed, **{name: getattr(provenance, name) for name in names}}


def _claims(found: Verification) -> dict[str, Any]:
    """Claims that no action depends on: the training, chunks, notes, and what `rollout` noted."""
    score = found.score
    provenance = score.provenance
    assert provenance is not None  # or nothing could be replayed
    names = ("training_seed", "training_steps", "action_chunk")
    claims: dict[str, Any] = {name: getattr(provenance, name) for name in names}
    others = {
        "note": score.note,
        "authors": list(score.authors),
        "normalization": score.normalization and score.normalization.to_dict(),
        "rollout": dict(found.noted),
    }
    return claims | {name: value for name, value in others.items() if value}


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
    part = "" if replayed == len(found.result.episodes) else ", as far as it was replayed"
    return [*lines, f"verified{part}:", *_score(found.score)]


def _score(result: EvaluationResult) -> list[str]:
    """The recomputed score with its interval, or the mean success or return without a protocol."""
    if result.headline is not None:
        return headline_lines(result.headline, result.confidence)
    if result.protocol is not None:
        return [f"no score: {len(result.episodes):,} episodes are not all of the protocol's"]
    mean = result.overall["mean"]["success_once" if result.has_success else "return"]
    assert mean is not None  # every episode has a return
    name = "success at any step" if result.has_success else "return"
    return [f"{name}, {one}" for one in headline_lines({"tasks": mean}, result.confidence)]


# Checking the file.


def read_claim(path: str | os.PathLike[str]) -> AnyResult:
    """Reads an untrusted result, and checks that its numbers follow from its episodes.

    Raises:
        OSError: If the file cannot be read.
        VerificationError: If it is not a result, or contradicts itself.
    """
    return _read(path)[0]


def _read(path: str | os.PathLike[str]) -> tuple[AnyResult, Mapping[str, Any]]:
    """A result, and what `mtwrappers rollout` noted beside it."""
    try:
        data = load_json(path, MAX_SIZE)
        few_shot = isinstance(data, dict) and data.get("format") == FewShotResult.FORMAT
        kind: Any = FewShotResult if few_shot else EvaluationResult
        claim: AnyResult = kind.from_dict(data)
        noted = data.pop("rollout", {})
        _check_noted(noted)
        _check_cost(claim)
        found = next(_contradictions(claim.to_dict(), data, ""), None)
    except VerificationError:
        raise
    except (ValueError, OverflowError, RecursionError) as exc:
        raise VerificationError(f"{os.fspath(path)} is not a result: {full_message(exc)}") from exc
    if found:
        raise VerificationError(f"its numbers do not follow from its episodes: {found}")
    _check_made(_scored(claim).provenance)
    return claim, noted


def _scored(result: AnyResult) -> EvaluationResult:
    """The episodes that the score is computed from, after any adaptation."""
    return result.evaluation if isinstance(result, FewShotResult) else result


def _check_noted(note: Any) -> None:
    if not isinstance(note, dict) or not note.keys() <= _NOTED:
        raise VerificationError(f"a rollout does not record {reprlib.repr(note)}")
    for name, value in note.items():
        if isinstance(value, (list, dict)):
            raise VerificationError(f"a rollout does not record {name} {reprlib.repr(value)}")


def _check_cost(claim: AnyResult) -> None:
    """Raises `VerificationError` if computing its numbers would take very long."""
    parts = [claim] if isinstance(claim, EvaluationResult) else [claim.adaptation, claim.evaluation]
    needed = max(part.resamples for part in parts)
    if needed > _MAX_RESAMPLES:
        raise VerificationError(
            f"at most {_MAX_RESAMPLES:,} resamples are drawn, its intervals need {needed:,}"
        )
    if needed * len(claim.episodes) > _MAX_DRAWS:
        raise VerificationError(
            f"it has {len(claim.episodes):,} episodes, of which {needed:,} resamples take too long"
        )
    rows = sum(len(part.tasks) for part in parts)
    if isinstance(claim, FewShotResult):
        rows += len({(one.number, one.task) for one in claim.episodes})
    if rows > _MAX_ROWS:
        raise VerificationError(f"its tables have {rows:,} rows, more than {_MAX_ROWS:,}")


def _check_made(provenance: Provenance | None) -> None:
    """Raises `VerificationError` if the environments contradict the protocol."""
    if provenance is None or provenance.protocol is None or provenance.spec is None:
        return
    protocol, spec = provenance.protocol, provenance.spec
    kwargs = spec.get("kwargs")
    try:
        check_made(protocol, spec.get("id"), kwargs if isinstance(kwargs, dict) else {})
    except (TypeError, ValueError) as exc:
        raise VerificationError(str(exc)) from None


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
        if len(actions[name]) != one.length:
            raise VerificationError(
                f"{said(one)} has {one.length} steps, and the evidence {len(actions[name])} actions"
            )
    if others := [name for name in actions if name not in names]:
        raise VerificationError(f"the evidence has actions of {others[0]!r}, not an episode of it")
    kinds = {(array.dtype, array.shape[1:]) for array in actions.values()}
    if len(kinds) > 1:
        raise VerificationError(f"the evidence has actions of several kinds: {kinds}")


def check_trials(claim: FewShotResult, m: int, k: int) -> None:
    """Raises `VerificationError` unless few-shot episodes are complete trials, in order.

    ``m`` and ``k`` are the numbers of task groups and of environments per group.
    """
    design, episodes = claim.trials, claim.episodes
    if design is None:
        raise VerificationError("it does not say how its trials were run")
    before, after = claim.adaptation, claim.evaluation
    for name in ("seed", "confidence", "resamples"):
        if getattr(before, name) != getattr(after, name):
            raise VerificationError(f"its adaptation and its evaluation have another {name}")
    made = after.provenance
    given = made and (made.episodes_per_task, made.tasks, made.max_episode_steps)
    if given != (design.evaluation_episodes, None, None) or before.provenance is not None:
        raise VerificationError("its provenance and its trials do not go together")
    if before.note or before.authors or before.normalization:
        raise VerificationError("its adaptation has a note, authors or a normalization of its own")
    if (due := design.length(m, k)) > 2 * len(episodes) + 1000:
        raise VerificationError(f"it has {len(episodes)} of {due:,} episodes")
    of_trial = {one.trial: one for one in episodes}
    plan = []
    for trial in range(design.trials):
        for number, n in sorted(design.of_trial(trial, m, k)):
            like = of_trial.get(number)
            task, state = (like.task, like.task_state) if like else ("a task", None)
            plan.append(PlannedEpisode(task, n, None, state, number))
    plan.sort(key=lambda one: one.number >= design.adaptation_length)
    check_plan(episodes, plan)


def check_plan(episodes: Sequence[Episode], plan: Sequence[PlannedEpisode]) -> None:
    """Raises `VerificationError` unless episodes match a plan, each once and in order."""
    places = {_place(one): one for one in plan}
    for place, times in Counter(map(_place, episodes)).items():
        if place not in places or times > 1:
            what = f"is there {times} times" if place in places else "is not planned"
            raise VerificationError(f"{place[0]}, episode {place[1]} {what}")
    found = set(map(_place, episodes))
    if missing := [one for place, one in places.items() if place not in found]:
        raise VerificationError(
            f"it has {len(episodes)} of {len(plan)} episodes: {said(missing[0])} is missing"
        )
    for one, planned in zip(episodes, plan, strict=True):
        if _place(one) != _place(planned):
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
    names = [name for name in vars(claimed) if name != "episode_return"]
    for name in (*names, "episode_return"):
        value, got = getattr(claimed, name), getattr(replayed, name)
        if got == value:
            continue
        if name == "length" and got > value:
            return f"{said(claimed)} does not end in the replay after its {value} steps"
        return f"{said(claimed)}: {name} is {got!r} in the replay, {value!r} in the result"
    raise AssertionError("they are equal")


def said(one: Episode | PlannedEpisode) -> str:
    """The name of an episode in messages."""
    trial = "" if one.trial is None else f"trial {one.trial}, "
    return f"{one.task}, {trial}episode {one.number}"


def _place(one: Episode | PlannedEpisode) -> tuple[Any, ...]:
    return one.task, one.number, one.trial


def _contradictions(expected: Any, got: Any, where: str) -> Iterator[str]:
    """Yields the differences between data read from JSON and the expected data."""
    if isinstance(expected, dict) and isinstance(got, dict):
        yield from _of_keys(expected, got, where)
        for name in [name for name in expected if name in got]:
            yield from _contradictions(expected[name], got[name], _within(where, name))
    elif _are_lists(expected, got):
        for i, (one, other) in enumerate(zip(expected, got, strict=True)):
            label = one.get("task", i) if isinstance(one, dict) else i
            yield from _contradictions(one, other, _within(where, label))
    elif not _is_same(expected, got):
        yield f"{where} is {reprlib.repr(expected)}, got {reprlib.repr(got)}"


def _of_keys(expected: Mapping[str, Any], got: Mapping[str, Any], where: str) -> Iterator[str]:
    for name in (*expected, *got):
        if name not in got:
            yield f"{_within(where, name)} is missing"
        if name not in expected:
            yield f"{_within(where, name)} does not belong there"


def _are_lists(expected: Any, got: Any) -> bool:
    """Whether these are lists with as many entries."""
    lists = isinstance(expected, (list, tuple)) and isinstance(got, list)
    return lists and len(expected) == len(got)


def _is_same(expected: Any, got: Any) -> bool:
    if type(expected) is float and type(got) in (int, float):
        # Means and intervals may be rounded differently on another machine.
        return math.isclose(expected, got, rel_tol=1e-9, abs_tol=1e-12)
    return type(expected) is type(got) and bool(expected == got)


def _within(where: str, label: Any) -> str:
    return f"{where}, {label}" if where else f"{label}"
