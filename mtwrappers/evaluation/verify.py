"""Whether a result is true: its actions must give the same numbers again, to the last bit.

What a file says is data. It names the environments, the goals and the actions, and nothing in it is
run: only environments of this package are made from it.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.checks import check_fraction
from mtwrappers.errors import full_message
from mtwrappers.evaluation.claim import (
    VerificationError,
    check_actions,
    check_plan,
    check_trials,
    check_versions,
    difference,
    read_claim,
)
from mtwrappers.evaluation.episodes import Episode, Observer
from mtwrappers.evaluation.evaluate import evaluate
from mtwrappers.evaluation.evidence import MAX_BYTES, Actions, digest, name_of, read_evidence
from mtwrappers.evaluation.few_shot import FewShotResult, few_shot_evaluate
from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.provenance import Provenance, goals_of
from mtwrappers.evaluation.remake import remake
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.metaworld.arithmetic import SUMS, arithmetic
from mtwrappers.metaworld.known_good import take_arithmetic
from mtwrappers.samplers.bar import Advance, ProgressBar


@dataclass(frozen=True)
class Verification:
    """What a replay has found.

    Args:
        same: How many episodes of each task gave the same return, length and successes.
        replayed: How many were replayed of each.
        difference: The first episode that differs, and how; ``None`` if all are the same.
    """

    same: Mapping[str, int]
    replayed: Mapping[str, int]
    difference: str | None

    @property
    def ok(self) -> bool:
        """Whether the result is true, as far as it was replayed."""
        return self.difference is None


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

    Before that, the file itself is checked: its numbers must follow from its episodes, and these
    must be the ones that its environments, goals, seed and protocol determine, each once and in
    order, made with the versions that are installed here.

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
        How many episodes gave the same numbers, and the first that did not; see `Verification`.

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
    check_versions(provenance.versions)
    path = Path(result).with_suffix(".npz") if evidence is None else evidence
    actions = read_evidence(path)
    check_actions(claim.episodes, actions)
    with _refusals(), contextlib.ExitStack() as stack:
        fields = provenance.protocol
        protocol = None if fields is None else Protocol.from_dict(fields)
        if envs is None:
            made_by = None if protocol is None else protocol.make_vec
            workers = 1 if workers is None else workers
            envs = remake(provenance, workers, fast, made_by, in_trials)
            stack.enter_context(contextlib.closing(envs))
            protocol = protocol and protocol.with_states()
        if goals_of(envs) != provenance.goals:
            raise VerificationError("its goals are not those of its environments")
        stack.enter_context(_as_elsewhere(envs, provenance.arithmetic))
        settings = actions, envs, protocol, sample, progress
        if isinstance(claim, FewShotResult):
            chosen, again = _replay_trials(claim, *settings)
        else:
            chosen, again = _replay_tasks(claim, provenance, *settings)
    pairs = [pair for pair in zip(claim.episodes, again, strict=True) if pair[0] in chosen]
    same = Counter(one.task for one, other in pairs if one == other)
    found = next((difference(*pair) for pair in pairs if pair[0] != pair[1]), None)
    if found is None and digest(actions) != provenance.evidence:
        found = f"the actions in {path} are not those that the result was saved with"
    replayed = Counter(one.task for one, _ in pairs)
    return Verification({task: same[task] for task in replayed}, replayed, found)


def _replay_tasks(
    claim: EvaluationResult,
    provenance: Provenance,
    actions: Actions,
    envs: Any,
    protocol: Protocol | None,
    sample: float,
    progress: bool,
) -> tuple[set[Episode], Sequence[Episode]]:
    """Which episodes of a result were replayed, and all of them as the replay gave them."""
    replay = _Replay(claim.episodes, actions, envs.num_envs)
    chosen = _chosen(claim.episodes, sample)
    limit = provenance.max_episode_steps
    if limit is None and protocol is None:  # other actions than these may come to no end
        limit = replay.longest + 1
    measure: Any = evaluate if protocol is None else protocol.evaluate
    again: EvaluationResult = measure(
        replay,
        envs,
        episodes_per_task=provenance.episodes_per_task,
        tasks=provenance.tasks,
        seed=claim.seed,
        max_episode_steps=limit,
        observers=[replay],
        finished=[one for one in claim.episodes if one not in chosen],
        progress=progress,
    )
    return chosen, again.episodes


def _replay_trials(
    claim: FewShotResult,
    actions: Actions,
    envs: Any,
    protocol: Protocol | None,
    sample: float,
    progress: bool,
) -> tuple[set[Episode], Sequence[Episode]]:
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
    queues: list[list[Episode]] = [[] for _ in range(envs.num_envs)]
    for trial, phase in itertools.product(sorted(trials), range(len(design.phases))):
        for queue, row in zip(queues, design.rows(trial, phase, *sizes), strict=True):
            queue += [at[place] for place in row]
    measure: Any = few_shot_evaluate if protocol is None else protocol.evaluate
    with ProgressBar(progress).of("episodes", len(chosen)) as advance:
        again: FewShotResult = measure(
            _TrialReplay(claim.episodes, actions, queues, design.adapts, advance),
            envs,
            seed=claim.evaluation.seed,
            finished=[one for one in claim.episodes if one not in chosen],
            **design.arguments,
        )
    return chosen, again.episodes


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
        self._all = np.arange(num_envs)

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Checks that the result has the episodes that are to be played."""
        check_plan(self._episodes, episodes)

    def begin(self, i: int, episode: PlannedEpisode | Episode) -> None:
        """Takes out the actions of an episode."""
        actions = self._actions[name_of(episode)]
        self._rows[i, : len(actions)] = actions
        self._rows[i, len(actions) :] = 0
        self._times[i] = 0

    def __call__(self, observations: Any) -> NDArray[Any]:
        """The next actions, ``(N, A)``."""
        actions: NDArray[Any] = self._rows[self._all, self._times]
        np.minimum(self._times + 1, self.longest, out=self._times)
        return actions


class _TrialReplay(_Replay):
    """A policy that takes the actions of few-shot trials, each environment from its queue."""

    def __init__(
        self,
        episodes: Sequence[Episode],
        actions: Actions,
        queues: Sequence[Sequence[Episode]],
        adapts: bool,
        advance: Advance | None,
    ) -> None:
        super().__init__(episodes, actions, len(queues))
        self._queues = [iter(queue) for queue in queues]
        self._advance = advance
        if adapts:
            self.adapt = lambda paths: None

    def begin_trial(self) -> None:
        """Makes it a policy for few-shot evaluation."""

    def reset(self, mask: NDArray[np.bool_]) -> None:
        """Takes out the actions of the episodes that begin."""
        for i in np.flatnonzero(mask).tolist():
            self.begin(i, next(self._queues[i]))
            if self._advance:
                self._advance(1)


@contextlib.contextmanager
def _as_elsewhere(envs: Any, there: str) -> Iterator[None]:
    """Lets environments give rewards as on the machine where a result was played."""
    here = arithmetic()
    if there == here:
        yield
        return
    call = envs.unwrapped.call
    try:
        if there not in SUMS or not all(call(take_arithmetic, there)):
            raise VerificationError(
                f"it was played on a processor on which NumPy adds up squares otherwise ({there}, "
                f"here: {here}), which only the fast classes can repeat"
            )
        yield
    finally:
        with contextlib.suppress(Exception):  # environments that were interrupted
            call(take_arithmetic, None)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Says of an error that it was what is verified that led to it."""
    try:
        yield
    except VerificationError:
        raise
    except (TypeError, ValueError, RuntimeError) as exc:
        raise VerificationError(f"it cannot be replayed: {full_message(exc)}") from exc
