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
from mtwrappers.common.registration import TABLE
from mtwrappers.evaluation.episodes import (
    OF_TRIALS,
    Design,
    Episode,
    PlannedEpisode,
    Record,
    Stage,
    plan_of,
)
from mtwrappers.evaluation.evaluate import undisturbed
from mtwrappers.evaluation.evidence import (
    Actions,
    digest,
    evidence_beside,
    evidence_files,
    name_of,
    read_evidence,
)
from mtwrappers.evaluation.origin import versions
from mtwrappers.evaluation.protocol import check_envs, check_made
from mtwrappers.evaluation.remake import (
    VerificationError,
    check_number,
    goals_of,
    name_environments,
    remake,
)
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.result_files import read_results
from mtwrappers.evaluation.typed import to_plain
from mtwrappers.metaworld.tasks import NUM_CLASSES, NUM_GOALS
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.vector.contract import MetaVectorEnv

# The largest relative difference of two returns that counts as rounding.
ROUNDING = 1e-9
# Rows of tables, a limit of what costs time before the replay.
_MAX_ROWS = 5000
_SAID = "said by the file"


@dataclass(frozen=True)
class Verification:
    """The outcome of a replay; ``str`` lists everything that was verified, with the score.

    What would be the same in this replay if it had another value is listed as said by the file.

    Args:
        results: The results of the file with the numbers of the replay, up to the first that
            differs. With a sample, other episodes are taken from the file.
        same: The number of episodes of each task with the same result: success, length, steps to
            success and goal exactly, and the return exactly or up to ``rounding``.
        replayed: The number of replayed episodes of each task.
        difference: The first episode that differs, and how; ``None`` if all are the same.
        rounding: The largest relative difference between the two returns of an episode, among
            episodes that count as the same: 0.0 if all are equal to the last bit.
        versions: The packages (and Python) whose version differs from that of a result: the version
            of the first such result, and the one here, by name.
        episodes: The replayed episodes of each result, with the numbers of the replay.
        named: Whether it is known that the environments were those that the file names. It is not
            for given environments without a spec.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, episodes_per_task=3, evidence="result.npz")
    >>> result.save("result.json")
    >>> found = mtwrappers.verify("result.json")
    >>> found.ok, found.same, found.difference
    (True, {'task 0': 3, 'task 1': 3}, None)
    """

    results: tuple[EvaluationResult, ...]
    same: Mapping[str, int]
    replayed: Mapping[str, int]
    difference: str | None
    rounding: float
    versions: Mapping[str, tuple[str | None, str | None]]
    episodes: tuple[tuple[Episode, ...], ...] = ()
    named: bool = True

    @property
    def result(self) -> EvaluationResult:
        """The last one of the results."""
        return self.results[-1]

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
            ``.npz`` file of the same name next to the result: ``a.npz`` for ``a.json``, and
            ``lr-0.5.npz`` for ``lr-0.5``. Those of the points of a stream have numbers, as
            `PhaseEvaluator` writes them: ``a-0.npz`` and so on.
        sample: The share of each task's episodes to replay, in [0, 1]; at least one each. (For
            few-shot results, the share of the trials of each task group.) They are drawn from
            entropy, so nobody can know them in advance.
        envs: The vector environment to replay on; by default made from the result. It is required
            for environments that are not this package's, and must be those of the result and of its
            protocol. Wrappers around it are not replayed: those that change actions or rewards
            belong around each of its environments.
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
    evidence = evidence_beside(result) if evidence is None else evidence
    paths = evidence_files(evidence, len(claims))
    results, replays, found, difference = [], [], [], None
    with _ReplayEnvs(envs, workers or 1) as replay_envs:
        for claim, path in zip(claims, paths, strict=True):
            actions = _actions_of(claim, path)
            try:
                again = _replayed(claim, actions, sample, replay_envs.make(claim), bar)
            except VerificationError:
                raise
            except Exception as exc:  # untrusted data may raise anything
                raise VerificationError(f"it cannot be replayed: {full_message(exc)}") from exc
            episodes = tuple(again.get(one.place, one) for one in claim.episodes)
            results.append(replace(claim, episodes=episodes))
            replays.append(tuple(one for one in episodes if one.place in again))
            pairs = [(one, again[one.place]) for one in claim.episodes if one.place in again]
            found += [(one.task, differs(one, other)) for one, other in pairs]
            difference = next((how for _, how in found if isinstance(how, str)), None)
            if difference is None and digest(actions) != claim.evidence:
                difference = printable(
                    f"the actions in {path} are not those that the result was saved with"
                )
            if difference is not None:
                break
    replayed = Counter(task for task, _ in found)
    same = Counter(task for task, how in found if isinstance(how, float))
    return Verification(
        tuple(results),
        {task: same[task] for task in replayed},
        replayed,
        difference,
        max((how for _, how in found if isinstance(how, float)), default=0.0),
        _other_versions(results),
        tuple(replays),
        envs is None or name_environments(envs.unwrapped) is not None,
    )


def _actions_of(claim: EvaluationResult, path: Path) -> Actions:
    """The actions of a result's episodes, with which all others agree."""
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
    for one in claim.episodes:
        steps = len(actions.get(name_of(one), ()))
        if steps != one.length or not steps:
            raise VerificationError(
                f"{said(one)} has {one.length} steps, and the evidence {steps} actions"
            )
    if others := [*actions.keys() - set(map(name_of, claim.episodes))]:
        raise VerificationError(f"the evidence has actions of {others[0]!r}, not an episode of it")
    kinds = {(array.dtype, array.shape[1:]) for array in actions.values()}
    if len(kinds) > 1:
        raise VerificationError(f"the evidence has actions of several kinds: {kinds}")
    return actions


# The replay.


class _ReplayEnvs:
    """A context manager for the environments that results are replayed on.

    Results in one file are often points of one stream: these have the same environments, which are
    made once.

    Args:
        envs: The environments that the user gave for all results, or ``None``.
        workers: The number of worker processes of environments that are made.
    """

    def __init__(self, envs: Any, workers: int) -> None:
        self._given, self._workers = envs, workers
        self._made: Any = None
        self._made_for: Any = None

    def make(self, claim: EvaluationResult) -> Any:
        """Returns the environments of a result, which may be those of the previous one."""
        if self._given is not None:
            _check_given(claim, self._given)
            return self._given
        assert claim.design is not None  # it has actions
        made_for = claim.environments, claim.design, claim.tasks, len(claim.episodes)
        if self._made is None or made_for != self._made_for:
            self._close()
            self._made = remake(claim.environments, claim.design, claim.episodes, self._workers)
            self._made_for = made_for
            check_number(self._made.num_envs, len(claim.episodes))
        return self._made

    def _close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None

    def __enter__(self) -> _ReplayEnvs:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()


def _replayed(
    claim: EvaluationResult, actions: Actions, sample: float, envs: Any, bar: ProgressBar
) -> dict[Any, Episode]:
    """Runs a sample of the episodes of a result; returns them by their places."""
    design, again = claim.design, dict[Any, Episode]()
    assert design is not None  # it has actions
    with contextlib.ExitStack() as stack:
        inner: MetaVectorEnv = envs.unwrapped
        if claim.environments is not None and goals_of(inner) != claim.environments.goals:
            raise VerificationError(f"its goals are not those of {inner}")
        scale, raw = stack.enter_context(undisturbed(inner))
        if design.phases is not None and inner.num_envs != len(claim.tasks):
            raise VerificationError(
                f"expected an environment for each of its phases {list(claim.tasks)}, as "
                f"PhaseEvaluator(..., phases=...).envs has, got {inner.num_envs} environments"
            )
        _check_size(claim, design, inner)
        stages, planned = plan_of(inner, design)
        _check_plan(claim.episodes, planned)
        chosen = _chosen(claim, sample)
        advance = stack.enter_context(bar.of("episodes", len(chosen)))
        for episodes in _replay(inner, stages, design, actions, chosen, scale, raw):
            again.update({one.place: one for one in episodes})
            advance(len(episodes))
    return again


def _check_given(claim: EvaluationResult, envs: Any) -> None:
    """Checks that environments are those of a result and of its protocol, as far as it is known.

    Raises:
        TypeError, ValueError: If they are not.
    """
    if claim.protocol is not None:
        check_envs(claim.protocol, envs)
    named, claimed = name_environments(envs.unwrapped), claim.environments
    if named is None or claimed is None:
        return
    kwargs = {name: value for name, value in claimed.kwargs.items() if name != "wrappers"}
    here = replace(claim, environments=named).origin.settings or {}
    there = replace(claim, environments=replace(claimed, kwargs=kwargs)).origin.settings or {}
    for name in dict.fromkeys((*there, *here)):
        if there.get(name) != here.get(name):
            raise VerificationError(
                f"the environments in envs are not those of the result: expected {name}="
                f"{there.get(name)!r}, got {here.get(name)!r}"
            )


def _replay(
    inner: MetaVectorEnv,
    stages: Sequence[Stage],
    design: Design,
    actions: Actions,
    chosen: Collection[tuple[Any, ...]],
    scale: NDArray[np.float64],
    raw: NDArray[np.bool_],
) -> Iterator[list[Episode]]:
    """Runs the chosen episodes of a plan, each environment by itself; yields them as they end."""
    ends, length = design.adaptation_terminate_on_success, design.adaptation_length
    after = [None] * inner.num_envs if ends is None else inner.get_attr("terminate_on_success")
    limit = inner._settings.max_path_length
    for stage in stages:
        queues = [[one for one in own if one.place in chosen] for own in stage.episodes]
        if stage.tasks is not None and any(queues):
            inner.set_tasks(stage.tasks)
        for row in itertools.zip_longest(*queues):
            each: list[Any] = [None] * inner.num_envs
            for i, one in enumerate(row):
                if one is not None:
                    on = ends if one.number < length else after[i]
                    given = one, actions[name_of(one)], on, float(scale[i]), bool(raw[i]), limit
                    each[i] = given, {}
            yield [episode for episode in inner._call_each(play, each) if episode is not None]


def play(
    env: Any,
    planned: PlannedEpisode,
    actions: NDArray[Any],
    ends: bool | None = None,
    scale: float = 1.0,
    raw: bool = False,
    limit: int | None = None,
) -> Episode:
    """Runs an episode with its actions on one environment; runs in the environment's process.

    Args:
        env: The environment.
        planned: The episode.
        actions: Its actions ``(T, A)``.
        ends: Whether a success ends it; ``None`` leaves this to the environment.
        scale: The factor of rewards from `undisturbed`.
        raw: Whether unscaled rewards are in infos.
        limit: The number of steps after which it ends in any case.
    """
    if ends is not None:
        env.get_wrapper_attr("toggle_terminate_on_success")(ends)
    by_state = planned.trial is None and planned.task_state is not None
    options = {"task_state": planned.task_state} if by_state else None
    _, info = env.reset(seed=planned.seed, options=options)
    if (name := info.get("task_name", planned.task)) != planned.task:
        raise VerificationError(f"{said(planned)} is on the task {name} in the replay")
    record, over = Record(planned), False
    for t, action in enumerate(actions, 1):
        _, reward, terminated, truncated, info = env.step(action)
        record.add(float(info.get("raw_reward", reward) if raw else reward) * scale, info)
        if over := bool(terminated or truncated) or t == limit:
            break
    episode = record.episode()
    # One that goes on after its last action is longer than it was.
    return episode if over else replace(episode, length=episode.length + 1)


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


# What a verification says.


def _about(found: Verification) -> list[str]:
    """Lines on the values that the replay computed, and those that only the file has."""
    rows = [
        _rows(result, episodes, found.named)
        for result, episodes in zip(found.results, found.episodes, strict=True)
    ]
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
        if lacking := [name for head in old for name in old[head] if name not in new[head]]:
            lines += _wrapped(f"not in result {i}: {', '.join(lacking)}")
    replayed, n = sum(found.replayed.values()), _count(found)
    return [*lines, f"replayed      {replayed:,} of {n:,} episodes"]


def _count(found: Verification) -> int:
    """The number of episodes in the file."""
    return sum(len(one.episodes) for one in found.results)


def _row(head: str, values: Mapping[str, Any]) -> list[str]:
    text = ", ".join(
        f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in values.items()
    )
    head = f"{head:<14}" if len(head) < 14 else f"{head}: "
    return _wrapped(f"{head}{text}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 80, subsequent_indent=" " * 14, break_on_hyphens=False)


def _rows(
    result: EvaluationResult, replayed: Sequence[Episode], named: bool
) -> dict[str, dict[str, Any]]:
    """Every field of a result: those that the replay depends on, and those that only the file has.

    Left out are fields without a value; episodes and evidence, which the replay compares; and the
    protocol, which has a line of its own, and which environments and design agree with.
    """
    data, shown = to_plain(result), _fields_of_replay(result, replayed)
    made = data["environments"] or {"id": None, "kwargs": {}, "goals": None}
    if not result.few_shot:
        data["design"] = {k: v for k, v in data["design"].items() if k not in OF_TRIALS}
    if not named:
        shown["environments"] = set()
    given = {name: data[name] for name in ("design", "environments", "versions", "normalization")}
    given["environments"] = {"id": made["id"], **made["kwargs"], "goals_digest": made["goals"]}
    rows: dict[str, dict[str, Any]] = {"environments": {}, "design": {}, _SAID: data["description"]}
    for head, values in given.items():
        for name, value in (values or {}).items():
            if name in shown.get(head, ()):
                rows[head][name] = value
            else:
                rows[_SAID][name if head == "environments" else f"{head}_{name}"] = value
    return {
        head: {name: one for name, one in values.items() if one not in (None, "")}
        for head, values in rows.items()
    }


def _fields_of_replay(result: EvaluationResult, replayed: Sequence[Episode]) -> dict[str, set[str]]:
    """The fields of the design and of the environments that the replay of a result depends on.

    It is a list: a field that is not in it is said by the file. Each has the condition under which
    these episodes, or the plan that they follow, would differ if it had another value.
    """
    design, environments = result.design, result.environments
    assert design is not None  # or nothing could be replayed
    kwargs: Mapping[str, Any] = {} if environments is None else environments.kwargs
    is_metaworld, few_shot = "benchmark" in kwargs, result.few_shot
    listed = _has_list(result)
    whole = len({episode.task for episode in replayed}) == _count_tasks(result)
    design_fields = {
        "seed": environments is not None and _draws_goals(result),
        "episodes_per_task": not few_shot,  # nothing marks the end of adaptation
        "tasks": True,
        "trials": few_shot,
        "trial_tasks": few_shot,
        "adaptation_terminate_on_success": _ends_by_success(result, replayed, adaptation=True),
    }
    env_fields = {
        # Of tasks that were not evaluated, nothing was replayed.
        **dict.fromkeys(("id", "benchmark", "sequence", "goals_digest"), whole),
        "train_classes": whole and kwargs.get("kind") != "test",
        "test_classes": whole and kwargs.get("kind") == "test",
        **dict.fromkeys(("kind", "env_name", "goals"), True),
        **dict.fromkeys(("reward_function_version", "action_repeat", "idle_steps"), True),
        "num_goals": listed and _numbers_goals(result),
        "seed": listed and design.phases is None,
        "terminate_on_success": _ends_by_success(result, replayed, adaptation=False),
        "max_episode_steps": _reaches_limit(result, replayed),
        # In Meta-World they change the plan of trials alone. Where the environments of a task share
        # its episodes, their number does not.
        "meta_batch_size": few_shot if is_metaworld else design.tasks is None,
    }
    env_fields |= dict.fromkeys(
        ("num_envs", "envs_per_task"),
        env_fields["meta_batch_size"]
        and not (is_metaworld and design.adapts and kwargs.get("meta_batch_size") is not None),
    )
    return {
        "design": {name for name, depends in design_fields.items() if depends},
        "environments": {name for name, depends in env_fields.items() if depends},
    }


def _count_tasks(result: EvaluationResult) -> int:
    """The number of tasks that the environments of a result have."""
    assert result.design is not None
    if result.design.phases is not None:
        return len(result.design.phases)
    kwargs = {} if result.environments is None else result.environments.kwargs
    kind: Any = kwargs.get("kind", "train")
    classes = kwargs.get(f"{kind}_classes")
    if isinstance(classes, (list, tuple)):
        return len(classes)
    number = NUM_CLASSES.get(str(kwargs.get("benchmark")), {}).get(kind)
    return len(result.tasks) if number is None else number


def _num_goals(result: EvaluationResult) -> int:
    """The number of goals per class in a list."""
    assert result.environments is not None
    number = result.environments.kwargs.get("num_goals", NUM_GOALS)
    return number if isinstance(number, int) else NUM_GOALS


def _has_list(result: EvaluationResult) -> bool:
    """Whether goals come from a list, unless each is new, as in streams by default."""
    assert result.design is not None
    kwargs = {} if result.environments is None else result.environments.kwargs
    default = "list" if result.design.phases is None else "continuous"
    return bool(kwargs.get("goals", default) == "list")


def _draws_goals(result: EvaluationResult) -> bool:
    """Whether the seed of an evaluation decides between goals."""
    design, environments = result.design, result.environments
    assert design is not None
    assert environments is not None
    if not _has_list(result):
        return True
    if environments.goals is None or design.trial_tasks is not None:
        return False
    tasks = _count_tasks(result)
    groups = environments.kwargs.get("meta_batch_size")
    return _num_goals(result) * tasks > (groups if isinstance(groups, int) else tasks)


def _numbers_goals(result: EvaluationResult) -> bool:
    """Whether goals were drawn from a list, or given by numbers beyond those of its first class."""
    assert result.design is not None
    states = [state for row in result.design.trial_tasks or () for state in row]
    return not states or result.environments is None or max(states) >= _num_goals(result)


def _limit(result: EvaluationResult) -> float:
    """The number of steps after which episodes are truncated."""
    if (environments := result.environments) is None:
        return math.inf
    default = TABLE[environments.id][2] if environments.id in TABLE else None
    limit = environments.kwargs.get("max_episode_steps", default)
    return limit if isinstance(limit, int) else math.inf


def _ends_by_success(
    result: EvaluationResult, replayed: Sequence[Episode], adaptation: bool
) -> bool:
    """Whether an episode (of adaptation or not) had a success that could end it.

    A success in the last step that an episode may have ends nothing.
    """
    design, limit = result.design, _limit(result)
    assert design is not None
    # Where adaptation has no setting of its own, the environments' setting is for all episodes.
    differs = design.adaptation_terminate_on_success is not None
    return any(
        episode.steps_to_success is not None and episode.steps_to_success < limit
        for episode in replayed
        if (differs and episode.number < design.adaptation_length) is adaptation
    )


def _reaches_limit(result: EvaluationResult, replayed: Sequence[Episode]) -> bool:
    """Whether an episode ended because it was as long as it may be, and for nothing else."""
    design, environments = result.design, result.environments
    assert design is not None
    kwargs: Mapping[str, Any] = {} if environments is None else environments.kwargs
    always = kwargs.get("terminate_on_success") is True
    of_adaptation = design.adaptation_terminate_on_success
    for episode in replayed:
        ends = always
        if of_adaptation is not None and episode.number < design.adaptation_length:
            ends = of_adaptation
        succeeds = episode.steps_to_success == episode.length
        if episode.length == _limit(result) and not (ends and succeeds):
            return True
    return False


def _outcome(found: Verification) -> list[str]:
    """Lines on the outcome of the replay, with the score if the result is verified."""
    same, replayed = sum(found.same.values()), sum(found.replayed.values())
    if not found.ok:
        rows = [(task, found.same[task], n) for task, n in found.replayed.items()]
        lines = [f"{task}: {count} of {n} the same" for task, count, n in rows if count < n]
        cause = ""
        if found.versions:
            cause = f" (perhaps because of other versions of {', '.join(found.versions)})"
        made = found.result.environments
        if made is not None and made.wrappers:
            cause += f" (it was measured in {', '.join(made.wrappers)}, which no replay is)"
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
    part = "" if replayed == _count(found) else ", as far as it was replayed"
    score, result = [found.result.score], found.result
    if result.headline is not None:
        score = result.headline_lines()
    elif result.protocol is not None:
        score = textwrap.wrap(f"no score: {result.no_score}", 80)
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
        claims = [_claim(data) for data in read_results(path)]
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
    said = design or Design()
    expected = protocol.design(said.seed, tasks=said.tasks, adapts=said.adapts)
    if design != expected:
        raise ValueError(f"{protocol.name} has {expected}, got {design}")
    if (made := claim.environments) is not None:
        # A result that was measured in wrappers has no score.
        kwargs = {name: value for name, value in made.kwargs.items() if name != "wrappers"}
        check_made(protocol, made.id, kwargs)
    return claim


def _other_versions(
    results: Sequence[EvaluationResult],
) -> dict[str, tuple[str | None, str | None]]:
    """The packages whose version differs from that of a result: both versions, by name."""
    here, differing = versions(), dict[str, tuple[str | None, str | None]]()
    for there in (result.versions for result in results):
        for name in sorted({*here, *there}):
            if there.get(name) != here.get(name):
                differing.setdefault(name, (there.get(name), here.get(name)))
    return differing


def _check_size(claim: EvaluationResult, design: Design, inner: MetaVectorEnv) -> None:
    """Raises `VerificationError` if the plan would be much larger than the result."""
    share = inner.meta_batch_size if design.adapts else inner.num_envs
    units = design.trials * share if design.trials else len(design.tasks or claim.tasks)
    due = units * (design.adaptation_length + design.episodes_per_task)
    if due > 2 * len(claim.episodes) + 1000:
        raise VerificationError(f"it has {len(claim.episodes)} of {due:,} episodes")


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
