"""Whether a result is true: its actions must give the same numbers again.

What a file says is data. It names the environments, the goals and the actions, and nothing in it is
run: only environments of this package are made from it.
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

from mtwrappers.common.checks import check_fraction
from mtwrappers.common.errors import full_message, printable
from mtwrappers.evaluation import headline
from mtwrappers.evaluation.claim import (
    VerificationError,
    check_actions,
    check_plan,
    check_trials,
    difference,
    other_versions,
    read_claim,
    rounding,
)
from mtwrappers.evaluation.episodes import Episode, Observer
from mtwrappers.evaluation.evaluate import evaluate
from mtwrappers.evaluation.evidence import MAX_BYTES, Actions, digest, name_of, read_evidence
from mtwrappers.evaluation.few_shot import FewShotResult, few_shot_evaluate
from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.provenance import Provenance, goals_of
from mtwrappers.evaluation.remake import determining, remake
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.rules import Rules
from mtwrappers.samplers.bar import Advance, ProgressBar
from mtwrappers.samplers.rollout import Step

# How many steps of the simulation are replayed; more take a smaller sample.
_MAX_STEPS = 20_000_000


@dataclass(frozen=True)
class Verification:
    """What a replay has found; as text, all that was verified, with the score.

    Args:
        result: The result with the numbers that the replay gave. Only what was not replayed, in a
            sample, is as it stands in the file.
        same: How many episodes of each task gave the same: success, length, steps to success and
            goal exactly, and the return to the last bit or but for ``rounding``.
        replayed: How many were replayed of each.
        difference: The first episode that differs, and how; ``None`` if all are the same.
        rounding: How far apart, relative to the larger, the two returns of an episode are at most,
            among those that count as the same: 0.0 if all are equal to the last bit.
        versions: Of packages (and Python) that the result was played with in another version than
            is installed here: both, by the name.
    """

    result: EvaluationResult | FewShotResult
    same: Mapping[str, int]
    replayed: Mapping[str, int]
    difference: str | None
    rounding: float
    versions: Mapping[str, tuple[str | None, str | None]]

    @property
    def ok(self) -> bool:
        """Whether the result is true, as far as it was replayed."""
        return self.difference is None

    @property
    def score(self) -> EvaluationResult:
        """The episodes that the score is made of: those after adaptation, where there is one."""
        found = self.result
        return found.evaluation if isinstance(found, FewShotResult) else found

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
    """Replays the actions of a saved result, and compares every episode with what it says.

    Before that, the file itself is checked: it has nothing but what a result has, its numbers
    follow from its episodes, and these are the ones that its environments, goals, seed and protocol
    determine, each once and in order.

    The replay decides, with whatever versions are installed here. Success, length, steps to success
    and goals must be equal; returns too, or else to 1e-9 relative, which is then said: their last
    bits depend on versions, and on the processor.

    Args:
        result: What `EvaluationResult.save` or `FewShotResult.save` wrote.
        evidence: What ``evaluate(..., evidence=...)`` or `few_shot_evaluate` wrote; by default the
            ``.npz`` file of the same name beside the result.
        sample: Which share of each task's episodes to replay, in [0, 1]; at least one each. (Of
            few-shot results, which share of the trials of each task group.) They are drawn anew
            each time, so nobody can know beforehand which it will be.
        envs: Vector environments to replay on; made from what the result says by default. Results
            of environments that are not this package's need them.
        workers: How many worker processes play; ``None`` plays in this process.
        fast: What the environments are made with: ``False`` for Meta-World's stock classes.
        progress: Whether to show a progress bar.

    Returns:
        What was verified, how many episodes gave the same numbers, and the first that did not; see
        `Verification`.

    Raises:
        DependencyNotInstalled: If there is to be a progress bar and rich is not installed.
        EvidenceError: If the evidence is no such file.
        OSError: If a file cannot be read.
        VerificationError: If the result says what cannot be, or cannot be replayed here.
        ValueError: If ``sample`` is no number in [0, 1].
    """
    sample = check_fraction(sample, "sample")
    claim = read_claim(result)
    in_trials = isinstance(claim, FewShotResult)
    provenance = (claim.evaluation if isinstance(claim, FewShotResult) else claim).provenance
    if provenance is None or provenance.evidence is None:
        raise VerificationError("it was played without evidence, so there is nothing to replay")
    others = other_versions(provenance.versions)
    path = Path(result).with_suffix(".npz") if evidence is None else evidence
    actions = read_evidence(path)
    check_actions(claim.episodes, actions)
    with _refusals(), contextlib.ExitStack() as stack:
        fields = provenance.protocol
        protocol = None if fields is None else Protocol.from_dict(fields)
        if envs is None:
            made_by = None if protocol is None else protocol.make_vec
            workers = 1 if workers is None else workers
            envs = remake(provenance, workers, fast, len(claim.episodes), made_by, in_trials)
            stack.enter_context(contextlib.closing(envs))
            protocol = protocol and protocol.with_states()
        if goals_of(envs) != provenance.goals:
            raise VerificationError("its goals are not those of its environments")
        settings = actions, envs, protocol, sample, progress
        replayed: EvaluationResult | FewShotResult
        if isinstance(claim, FewShotResult):
            chosen, trials = _replay_trials(claim, provenance, *settings)
            replayed = replace(
                claim,
                adaptation=replace(claim.adaptation, episodes=trials.adaptation.episodes),
                evaluation=replace(claim.evaluation, episodes=trials.evaluation.episodes),
            )
        else:
            chosen, again = _replay_tasks(claim, provenance, *settings)
            replayed = replace(claim, episodes=again.episodes)
    pairs = zip(claim.episodes, replayed.episodes, strict=True)
    apart = [(pair, rounding(*pair)) for pair in pairs if pair[0] in chosen]
    found = next((difference(*pair) for pair, by in apart if by is None), None)
    if found is None and digest(actions) != provenance.evidence:
        found = printable(f"the actions in {path} are not those that the result was saved with")
    same = Counter(one.task for (one, _), by in apart if by is not None)
    of_task = Counter(one.task for (one, _), _ in apart)
    return Verification(
        replayed,
        {task: same[task] for task in of_task},
        of_task,
        found,
        max((by for _, by in apart if by is not None), default=0.0),
        others,
    )


def _replay_tasks(
    claim: EvaluationResult,
    provenance: Provenance,
    actions: Actions,
    envs: Any,
    protocol: Protocol | None,
    sample: float,
    progress: bool,
) -> tuple[set[Episode], EvaluationResult]:
    """Which episodes of a result were replayed, and the result that the replay gave."""
    due = provenance.episodes_per_task * len(provenance.tasks or claim.tasks)
    if due > 2 * len(claim.episodes) + 1000:
        raise VerificationError(f"it has {len(claim.episodes)} of {due:,} episodes")
    chosen = _chosen(claim.episodes, sample)
    _check_steps(chosen, provenance, envs)
    replay = _Replay(claim.episodes, actions, envs.num_envs)
    measure: Any = evaluate if protocol is None else protocol.evaluate
    again: EvaluationResult = measure(
        replay,
        envs,
        episodes_per_task=provenance.episodes_per_task,
        tasks=provenance.tasks,
        seed=claim.seed,
        max_episode_steps=provenance.max_episode_steps,
        observers=[replay],
        finished=[one for one in claim.episodes if one not in chosen],
        progress=progress,
    )
    return chosen, again


def _replay_trials(
    claim: FewShotResult,
    provenance: Provenance,
    actions: Actions,
    envs: Any,
    protocol: Protocol | None,
    sample: float,
    progress: bool,
) -> tuple[set[Episode], FewShotResult]:
    """As `_replay_tasks`, of whole trials."""
    inner = envs.unwrapped
    sizes = inner.meta_batch_size, inner.envs_per_task
    check_trials(claim, *sizes)
    design = claim.trials
    assert design is not None  # as was checked
    rng = Generator(PCG64(SeedSequence()))
    trials = rng.permutation(design.trials)[: max(1, math.ceil(sample * design.trials))].tolist()
    at = {(one.trial, one.number): one for one in claim.episodes}
    chosen = {at[place] for trial in trials for place in design.of_trial(trial, *sizes)}
    _check_steps(chosen, provenance, envs)
    queues: list[list[Episode]] = [[] for _ in range(envs.num_envs)]
    steps = 0
    for trial, phase in itertools.product(sorted(trials), range(len(design.phases))):
        rows = [[at[place] for place in row] for row in design.rows(trial, phase, *sizes)]
        steps += max(sum(one.length for one in row) for row in rows)
        for queue, row in zip(queues, rows, strict=True):
            queue += row
    measure: Any = few_shot_evaluate if protocol is None else protocol.evaluate
    with ProgressBar(progress).of("episodes", len(chosen)) as advance:
        again: FewShotResult = measure(
            _TrialReplay(claim.episodes, actions, queues, steps, design.adapts, advance),
            envs,
            seed=claim.evaluation.seed,
            finished=[one for one in claim.episodes if one not in chosen],
            **design.arguments,
        )
    return chosen, again


def _check_steps(chosen: Collection[Episode], provenance: Provenance, envs: Any) -> None:
    """Raises `VerificationError` if the replay would take very long."""
    kwargs = (provenance.spec or {}).get("kwargs", {})
    rules = provenance.protocol or {}
    repeat, idle = (
        max([value for of in (kwargs, rules) if type(value := of.get(name)) is int], default=least)
        for name, least in (("action_repeat", 1), ("idle_steps", 0))
    )
    steps = sum(one.length for one in chosen) * repeat + (len(chosen) + envs.num_envs) * idle
    if steps > _MAX_STEPS:
        raise VerificationError(
            f"{len(chosen):,} of its episodes are {steps:,} steps of the simulation, and at most "
            f"{_MAX_STEPS:,} are replayed: take a smaller sample"
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
        row = next(iter(actions.values()))
        if num_envs * (self.longest + 1) * max(row[0].nbytes, 1) > MAX_BYTES:
            raise VerificationError(f"an episode of {self.longest:,} actions is not replayed")
        # One step more than there are actions, for an episode that goes on after them.
        self._rows = np.zeros((num_envs, self.longest + 1, *row.shape[1:]), row.dtype)
        self._times = np.zeros(num_envs, dtype=np.int64)
        self._ends = np.full(num_envs, self.longest)
        self._all = np.arange(num_envs)

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Checks that the result has the episodes that are to be played."""
        check_plan(self._episodes, episodes)

    def begin(self, i: int, episode: PlannedEpisode | Episode) -> None:
        """Takes out the actions of an episode."""
        actions = self._actions[name_of(episode)]
        self._rows[i, : len(actions)] = actions
        self._rows[i, len(actions) :] = 0
        self._times[i], self._ends[i] = 0, len(actions)

    def __call__(self, observations: Any) -> NDArray[Any]:
        """The next actions, ``(N, A)``."""
        actions: NDArray[Any] = self._rows[self._all, np.minimum(self._times, self.longest)]
        self._times += 1
        return actions

    def step(self, step: Step) -> None:
        """Ends an episode that goes on after its actions: it is another one already."""
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
            raise VerificationError("its trials go on in the replay after all of their actions")
        self._left -= 1
        return super().__call__(observations)

    def begin_trial(self) -> None:
        """Makes it a policy for few-shot evaluation."""

    def reset(self, mask: NDArray[np.bool_]) -> None:
        """Takes out the actions of the episodes that begin."""
        for i in np.flatnonzero(mask).tolist():
            self.begin(i, next(self._queues[i]))
            if self._advance:
                self._advance(1)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Says of an error that it was what is verified that led to it."""
    try:
        yield
    except VerificationError:
        raise
    except (TypeError, ValueError, RuntimeError) as exc:
        raise VerificationError(f"it cannot be replayed: {full_message(exc)}") from exc


# What a verification says.


def _about(found: Verification) -> list[str]:
    """What was verified: the environments, the protocol, and all that was chosen."""
    result, score = found.result, found.score
    provenance = score.provenance
    assert provenance is not None  # or nothing could be replayed
    rows = []
    if provenance.spec is not None:
        env_id, kwargs = determining(provenance.spec, isinstance(result, FewShotResult))
        rows.append(("environments", {"id": env_id, **kwargs}))
    rows.append(("chosen", _chosen_of(result, provenance)))
    if found.versions:
        changed = {name: f"{there}, here {here}" for name, (there, here) in found.versions.items()}
        rows.append(("versions", changed))
    lines = [f"policy        {provenance.policy or '(without a name)'}"]
    fields = score.protocol
    lines.append(f"protocol      {'none' if fields is None else Rules.from_dict(fields).label}")
    for head, values in rows:
        text = ", ".join(
            f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in values.items()
        )
        lines += textwrap.wrap(f"{head:<14}{text}", 80, subsequent_indent=" " * 14)
    n, replayed = len(result.episodes), sum(found.replayed.values())
    lines.append(f"replayed      {replayed:,} of {n:,} episodes")
    return lines


def _chosen_of(result: EvaluationResult | FewShotResult, provenance: Provenance) -> dict[str, Any]:
    """What whoever evaluated had to choose."""
    if isinstance(result, FewShotResult):
        design = result.trials.to_dict() if result.trials else {}
        return {"seed": result.evaluation.seed, **design}
    names = ("episodes_per_task", "tasks", "max_episode_steps")
    return {"seed": result.seed, **{name: getattr(provenance, name) for name in names}}


def _found(found: Verification) -> list[str]:
    """What the replay gave, and the score if it gave the same."""
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
    """The recomputed score with its interval, or what there is without a protocol."""
    if result.headline is not None:
        return headline.rows(result.headline, result.confidence)
    if result.protocol is not None:
        return [f"no score: {len(result.episodes):,} episodes are not all of the protocol's"]
    mean = result.overall["mean"]["success_once" if result.has_success else "return"]
    assert mean is not None  # every episode has a return
    name = "success at any step" if result.has_success else "return"
    return [f"{name}, {one}" for one in headline.rows({"tasks": mean}, result.confidence)]
