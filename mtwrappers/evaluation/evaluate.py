"""`evaluate`: how good a policy is at each of many tasks."""

from __future__ import annotations

import contextlib
import math
import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_name, positive
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.seeding import check_seed
from mtwrappers.core.task_list import TaskSetMTEnv
from mtwrappers.evaluation.episodes import (
    Episode,
    ForeignEpisodeError,
    Observer,
    PlannedEpisode,
    Tally,
    make_plan,
    stream_seed,
    task_choices,
)
from mtwrappers.evaluation.evidence import ActionRecorder, EvidenceWriter
from mtwrappers.evaluation.normalization import Normalization
from mtwrappers.evaluation.protocol import Protocol, check_evaluation
from mtwrappers.evaluation.result import (
    EvaluationResult,
    Provenance,
    check_confidence,
    check_training,
)
from mtwrappers.samplers.bar import Advance, ProgressBar
from mtwrappers.samplers.policies import PolicyCaller, PolicyIn, pickled
from mtwrappers.samplers.rollout import Flags, check_array_spaces, rollout
from mtwrappers.samplers.task_texts import has_everywhere
from mtwrappers.state.env_state import normalizers, set_statistics_updates
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.wrappers.normalize_reward import (
    NormalizeRewardPerTask,
    VectorNormalizeRewardPerTask,
)

# Keeps the first reset, which no episode begins with, apart from those of the episodes.
_FIRST_RESET = 1_000_033
_Kept: TypeAlias = list[tuple[Episode, NDArray[Any]]]


def evaluate(
    policy: Any,
    envs: Any,
    episodes_per_task: int = 50,
    *,
    tasks: Sequence[str] | None = None,
    policy_in: PolicyIn = "parent",
    action_chunk: int | None = None,
    seed: int = 0,
    max_episode_steps: int | None = None,
    observers: Sequence[Observer] = (),
    finished: Sequence[Episode] = (),
    confidence: float = 0.95,
    resamples: int = 2000,
    progress: bool = False,
    evidence: str | os.PathLike[str] | None = None,
    policy_name: str | None = None,
    training_seed: int | None = None,
    training_steps: int | None = None,
    normalize: Mapping[str, tuple[float, float]] | None = None,
    protocol: Protocol | None = None,
) -> EvaluationResult:
    """Evaluates a policy on a fixed number of whole episodes of every task.

    How many episodes each environment runs is decided before the first one, so tasks that are
    solved quickly are not over-represented. A task's name is ``task_name`` in infos (else
    ``task_id``, else the group of ``envs_per_task`` environments), and environments with the same
    name share its episodes.

    **Goals.** Where resets take a task state (as in the environments of `gymnasium.make_vec` on
    Meta-World), each episode is given one. The goals of a task come in a random order, each of them
    once before any is repeated. So 50 episodes of a Meta-World class are one of each of its 50
    goals, whatever ``select`` is. Other environments stay on their task.

    **Seeds.** Every episode begins with a reset to its own seed. Take a policy that is
    deterministic or draws from the ``rng`` that it is given, and whose actions depend only on their
    own observations, not on the other rows of the batch. Its result is the same, bit for bit, with
    the policy here or in workers, on every executor, for any number of workers, in all three
    autoreset modes and for any number of environments per task that share their goals. (The
    wall-clock time in ``info["episode"]["t"]``, which observers may read, is not.)

    **Training goes on afterwards** with a `reset`. The choice of its tasks is as it was: the
    strategy, the history that a curriculum looks at, and the task stream. So are the statistics of
    wrappers that normalize, and, in the environments of Meta-World's ids, the goals, sentences and
    looks that training draws next. The environments' other random streams are left where the last
    episodes ended; ``reset(seed=...)`` begins them anew, and the choice of tasks with them.

    **Rewards** are the environments' own. Normalization of rewards (by whatever has
    ``update_running_mean``: our wrappers and Gymnasium's, around the vector environment or around
    each of its environments) is undone: exactly with ours, to rounding with Gymnasium's
    ``NormalizeReward`` where no other wrapper around it changes rewards. Other wrappers that change
    rewards are part of the environment.

    Args:
        policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
            ``get_actions``; see `mtwrappers.samplers.policies.PolicyCaller`.
        envs: One of our vector environments, or a wrapper of one.
        episodes_per_task: How many episodes per task.
        tasks: Names of the tasks to evaluate on; all by default. A choice does not change their
            episodes.
        policy_in: ``"parent"`` asks the policy here, in every step, for all environments.
            ``"workers"`` sends it to the workers once, and each asks it for the environments that
            it has; see `MetaSampler`. There may then be no wrapper around the vector environment,
            and observers hear of whole episodes only, when all have ended.
        action_chunk: For a policy that returns chunks of actions ``(N, H, A)``: how many of each
            are executed before the policy is asked again. The result names it.
        seed: Zero or greater.
        max_episode_steps: Cut episodes after this many steps, for environments that never end.
        observers: Follow the evaluation, see `Observer`. After an interruption
            (``KeyboardInterrupt``), the episodes that an observer has seen end can be given as
            ``finished``, or to `EvaluationResult`.
        finished: Episodes that an evaluation with the same arguments has finished before it was
            interrupted. They count and are not run again, and the result is that of an evaluation
            without an interruption.
        confidence: How likely the intervals cover the truth, in (0, 1).
        resamples: How many bootstrap resamples.
        progress: Whether to draw a progress bar. With ``policy_in="workers"`` it counts no
            episodes, since they come back all at once.
        evidence: Where to write the actions of every episode, an ``.npz`` file, with which `verify`
            checks the result. It is written as episodes end: after an interruption or a kill it
            holds those that were finished. Those that are given as ``finished`` must be in it.
        policy_name: What the result calls the policy; `compare` groups results by it.
        training_seed: The seed of the training run that made the policy, for the result to name,
            like ``training_steps``: its agent steps, over all environments, until then.
        training_steps: See there.
        normalize: The returns of each task that count as 0 and as 1, ``{task: (low, high)}``; see
            `EvaluationResult.normalized`.
        protocol: The protocol that this evaluation follows, for the result to name; what
            contradicts it is refused. See `Protocol.evaluate`.

    Returns:
        Success, return and length of each task and over all; see `EvaluationResult`.

    Raises:
        DependencyNotInstalled: If there is to be a progress bar and rich is not installed.
        OSError: If the evidence cannot be written.
        TypeError: If the policy is not callable, the environments are not ours, observations or
            actions are not arrays, or an argument is of another kind.
        ValueError: If a number is out of range, there is no such task, actions have another shape
            or are NaN, a finished episode is not one of this evaluation, ``success`` in infos is
            neither a bool nor 0 or 1, a return is not finite, an environment that is not given
            its task moves to another, actions that are kept change their dtype, the name of a task
            or of the policy cannot be printed as it is, or something contradicts the protocol.
        RuntimeError: If an episode has not ended after 100,000 steps and there is no
            ``max_episode_steps``.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> from mtwrappers import evaluate
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> result = evaluate(lambda obs: np.full((2, 2), 0.1), envs, episodes_per_task=3)
    >>> result.per_task["task 0"]["length"].value
    100.0
    """
    inner, seed = check_arguments(policy, envs, seed, confidence, resamples, action_chunk)
    if action_chunk is not None:
        action_chunk = positive(action_chunk, "action_chunk")
    check_name(policy_name, "policy_name")
    training = check_training(training_seed, training_steps)
    normalization = None if normalize is None else Normalization(normalize)
    episodes_per_task = positive(episodes_per_task, "episodes_per_task")
    if max_episode_steps is not None:
        max_episode_steps = positive(max_episode_steps, "max_episode_steps")
    if protocol is not None:
        given = {"episodes_per_task": episodes_per_task, "max_episode_steps": max_episode_steps}
        check_evaluation(protocol, "evaluate", envs, given)
    _check_observers(observers)
    remote = check_choice(policy_in, get_args(PolicyIn), "policy_in") == "workers"
    if remote:
        _check_remote(envs, observers)
    bar, writer = ProgressBar(progress), None
    with contextlib.ExitStack() as stack:
        scale, raw = stack.enter_context(frozen(envs))
        _, infos = envs.reset(seed=stream_seed(seed, _FIRST_RESET))
        plan = make_plan(task_choices(inner, infos), episodes_per_task, seed)
        agenda = _Agenda.of(plan, tasks, finished)
        if normalization is not None:
            normalization = normalization.of_tasks(list(agenda.order))
        for observer in observers:
            observer.plan(agenda.planned)
        if evidence is not None:
            writer = stack.enter_context(EvidenceWriter(evidence, agenda.finished))
        sizes = inner.meta_batch_size, inner.envs_per_task
        run = _Run(policy, sizes, action_chunk, agenda.left, max_episode_steps, scale, raw)
        with bar.of("episodes", len(agenda.planned), counts=not remote) as advance:
            if remote:
                ended = _run_in_workers(run, inner, observers, writer)
            else:
                recorders = [] if writer is None else [ActionRecorder(writer.add)]
                counters = [_Counter(advance, len(agenda.finished))] if advance else []
                everyone = slice(0, inner.num_envs)
                ended = run(envs, everyone, [*recorders, *observers, *counters])
    provenance = Provenance.of(
        envs,
        episodes_per_task,
        tasks=None if tasks is None else list(agenda.order),
        max_episode_steps=max_episode_steps,
        protocol=protocol,
        policy=policy_name,
        action_chunk=action_chunk,
        evidence=None if writer is None else writer.digest,
        **training,
    )
    return EvaluationResult(
        agenda.complete(ended),
        seed,
        confidence,
        resamples,
        provenance,
        normalization=normalization,
    )


@dataclass(frozen=True)
class _Agenda:
    """The episodes of an evaluation, those of the chosen tasks.

    Args:
        order: The place of each task.
        planned: All episodes, in the order of the result.
        finished: Those of them that are there already.
        left: The others, a list for each environment.
    """

    order: Mapping[str, int]
    planned: Sequence[PlannedEpisode]
    finished: Sequence[Episode]
    left: Sequence[Sequence[PlannedEpisode]]

    @classmethod
    def of(
        cls,
        plan: Sequence[Sequence[PlannedEpisode]],
        tasks: Sequence[str] | None,
        finished: Sequence[Episode],
    ) -> _Agenda:
        """The part of a plan that is of these tasks, without what is finished."""
        order = {task: i for i, task in enumerate(_chosen(tasks, plan))}
        plan = [[one for one in own if one.task in order] for own in plan]
        planned = [one for own in plan for one in own]
        planned.sort(key=lambda one: (order[one.task], one.number))
        known = _by_place(finished, planned)
        left = [[one for one in own if _place(one) not in known] for own in plan]
        return cls(order, planned, [*known.values()], left)

    def complete(self, ended: Sequence[tuple[int, Episode]]) -> list[Episode]:
        """All episodes, in the order of the result."""
        episodes = [*self.finished, *(episode for _, episode in ended)]
        return sorted(episodes, key=lambda one: (self.order[one.task], one.number))


@dataclass(frozen=True)
class _Run:
    """Runs episodes, here or in a worker: ``run(envs, rows)``.

    Args:
        policy: The policy, pickled where it is sent.
        sizes: ``M`` and ``K`` of all environments.
        action_chunk: How many actions of a chunk are executed, or ``None``.
        plan: The episodes of each environment, ``N`` lists.
        max_episode_steps: When episodes are cut, or ``None``.
        scale: What `frozen` yields of all environments, like ``raw``.
        raw: See there.
    """

    policy: Any
    sizes: tuple[int, int]
    action_chunk: int | None
    plan: Sequence[Sequence[PlannedEpisode]]
    max_episode_steps: int | None
    scale: NDArray[np.float64]
    raw: Flags

    def __call__(
        self, envs: Any, rows: slice, observers: Sequence[Observer] = ()
    ) -> list[tuple[int, Episode]]:
        """Runs the episodes of the environments ``rows`` of all, which are those of ``envs``.

        Returns:
            The episodes in the order in which they ended, each with its environment's index.
        """
        act = PolicyCaller(
            self.policy,
            *self.sizes,
            rows,
            action_chunk=self.action_chunk,
            action_shape=envs.single_action_space.shape,
        )
        plan = self.plan[rows]
        tally = Tally(plan, self.scale[rows], self.raw[rows], observers, rows.start)

        def begin(which: Flags) -> Any:
            present = {i: tally.present(i) for i in np.flatnonzero(which).tolist()}
            obs = _reset(envs, present, rows.start)
            for i, one in present.items():
                for observer in observers:
                    observer.begin(i, one)
            return obs

        def seeds(which: Sequence[int]) -> list[int]:
            planned = (tally.present(i).seed for i in which)
            return [seed for seed in planned if seed is not None]  # which none is here

        quotas, limit = np.array([len(own) for own in plan], dtype=np.int64), self.max_episode_steps
        # Wrappers of vector environments count on the autoreset.
        alone = envs is envs.unwrapped
        with envs.without_autoreset() if alone else contextlib.nullcontext():
            rollout(
                envs,
                act,
                quotas,
                None,
                names=tally.names,
                seeds=seeds,
                begin=begin,
                observe=[tally],
                max_episode_steps=limit,
            )
        return tally.ended

    def with_actions(self, envs: Any, rows: slice) -> tuple[list[tuple[int, Episode]], _Kept]:
        """The same with the actions of each episode, as they are sent from workers."""
        kept: _Kept = []
        recorder = ActionRecorder(lambda episode, actions: kept.append((episode, actions)))
        return self(envs, rows, [recorder]), kept


def _run_in_workers(
    run: _Run, inner: MetaVectorEnv, observers: Sequence[Observer], writer: EvidenceWriter | None
) -> list[tuple[int, Episode]]:
    """Runs the episodes where the environments are; then the observers hear of them."""
    run = replace(run, policy=pickled(run.policy))
    if writer is None:
        blocks = inner.map_blocks(run)
    else:
        blocks = []
        for found, kept in inner.map_blocks(run.with_actions):
            blocks.append(found)
            for episode, actions in kept:
                writer.add(episode, actions)
    ended: list[tuple[int, Episode]] = [one for found in blocks for one in found]
    for observer in observers:
        for i, episode in ended:
            observer.end(i, episode)
    return ended


class _Counter(Observer):
    """Advances a progress bar, past the episodes that are ``finished`` at once."""

    def __init__(self, advance: Advance, finished: int) -> None:
        self._advance = advance
        advance(finished)

    def end(self, i: int, episode: Episode) -> None:
        """Counts an episode."""
        self._advance(1)


def check_arguments(
    policy: Any, envs: Any, seed: Any, confidence: Any, resamples: Any, action_chunk: Any
) -> tuple[MetaVectorEnv, int]:
    """Checks what all evaluations take; returns the executor below wrappers, and the seed."""
    inner = envs.unwrapped if isinstance(envs, VectorEnv) else envs
    if not isinstance(inner, MetaVectorEnv):
        raise TypeError(
            "envs must be a vector environment of this package (from gymnasium.make_vec or "
            f"MetaIterativeEnvExecutor) or a wrapper of one, got {inner!r}"
        )
    if has_everywhere(inner, "held_phase") and None in inner.get_attr("held_phase"):
        raise ValueError(
            "an evaluation in a stream would become part of the stream: evaluate in separate "
            "environments, as continual_evaluate does"
        )
    check_confidence(confidence)
    positive(resamples, "resamples")
    m, k = inner.meta_batch_size, inner.envs_per_task
    PolicyCaller(policy, m, k, action_chunk=action_chunk)  # which checks both
    check_array_spaces(envs)
    return inner, check_seed(seed)


def _check_observers(observers: Any) -> None:
    listed = isinstance(observers, (list, tuple))
    if not listed or not all(isinstance(observer, Observer) for observer in observers):
        raise TypeError(f"observers must be a list of Observer, got {observers!r}")


def _check_remote(envs: Any, observers: Sequence[Observer]) -> None:
    """Checks what a policy in workers cannot go together with."""
    if envs is not envs.unwrapped:
        raise ValueError(
            f"policy_in='workers' calls the policy in the workers, and {envs} wraps the vector "
            "environment in this process: wrap each environment instead, or use policy_in='parent'"
        )
    for observer in observers:
        for name in ("begin", "step"):
            if getattr(type(observer), name) is not getattr(Observer, name):
                raise ValueError(
                    "policy_in='workers' calls observers only after whole episodes, and "
                    f"{observer} "
                    f"has {name}(): use policy_in='parent'"
                )


def _place(of: PlannedEpisode | Episode) -> tuple[Any, ...]:
    """The fields that an episode has in common with the one that was planned."""
    return of.task, of.number, of.task_state, of.trial


def _by_place(finished: Sequence[Episode], planned: Sequence[PlannedEpisode]) -> dict[Any, Episode]:
    """Finished episodes by their place; each must be one of those that are planned."""
    free = {_place(one) for one in planned}
    known = {}
    for episode in finished:
        if not isinstance(episode, Episode):
            raise TypeError(f"finished must be a list of Episode, got {episode!r}")
        if _place(episode) not in free:
            raise ForeignEpisodeError(
                "finished must be episodes of this evaluation, with its seed and tasks, each once; "
                f"got {episode}"
            )
        free.remove(_place(episode))
        known[_place(episode)] = episode
    return known


def _chosen(tasks: Sequence[str] | None, plan: Sequence[Sequence[PlannedEpisode]]) -> list[str]:
    """The tasks to evaluate on, in the order in which environments have them."""
    known = list(dict.fromkeys(one.task for row in plan for one in row))
    if tasks is None:
        return known
    if isinstance(tasks, str) or not isinstance(tasks, Sequence) or not tasks:
        hint = f": pass tasks=[{tasks!r}]" if tasks and isinstance(tasks, str) else ""
        raise TypeError(f"tasks must be a list of at least one task name, got {tasks!r}{hint}")
    if not all(isinstance(task, str) for task in tasks):
        raise TypeError(
            f"tasks must be names such as {known[0]!r}, got {reprlib.repr(tasks)}; it is "
            "few_shot_evaluate that takes task states"
        )
    if unknown := [task for task in tasks if task not in known]:
        hint = did_you_mean(unknown[0], known)
        raise ValueError(f"tasks must be among {known}, got {unknown}{hint and f'; {hint}'}")
    return [task for task in known if task in tasks]


def _reset(envs: Any, present: Mapping[int, PlannedEpisode], first: int) -> Any:
    """Resets environments to the episodes that they are to run; returns all observations.

    The reset is explicit in every autoreset mode, so that all modes run the same episodes.
    ``first`` is the index of the first environment among all.
    """
    mask = np.zeros(envs.num_envs, dtype=np.bool_)
    seeds: list[int | None] = [None] * envs.num_envs
    each: list[dict[str, Any] | None] = [None] * envs.num_envs
    for i, one in present.items():
        mask[i], seeds[i] = True, one.seed
        if one.task_state is not None:
            each[i] = {"task_state": one.task_state}
    obs, infos = envs.reset(seed=seeds, options={"reset_mask": mask, "env_options": each})
    for i, one in present.items() if "task_name" in infos else ():
        name = infos["task_name"][i]
        if infos["_task_name"][i] and name != one.task:
            raise ValueError(
                f"environment {first + i} was on task {one.task!r} and its reset switched to "
                f"{name!r}: evaluate needs environments that keep their task, or draw it from "
                "task_states"
            )
    return obs


class _Found(NamedTuple):
    """The parts of an environment that are to be frozen, and how its rewards are normalized."""

    updates: list[bool]  # whether each normalizing wrapper updates its statistics
    chooses: bool  # whether it chooses from a list of tasks
    scale: float  # what undoes the normalization
    raw: bool  # whether infos carry the reward before it


@contextlib.contextmanager
def frozen(envs: Any) -> Iterator[tuple[NDArray[np.float64], Flags]]:
    """Stops all that learns from episodes, and lets it go on afterwards.

    These are the normalizing wrappers around the vector environment and around each of its
    environments, ours and Gymnasium's (whatever has ``update_running_mean``), and what chooses
    from a list of tasks: the strategy, its history and the task stream.

    Yields:
        The factors ``(N,)`` float64 of each environment's rewards that undo Gymnasium's
        ``NormalizeReward``; and whose rewards before that are in
        ``info["raw_reward"]``, ``(N,)`` bool.
    """
    inner = envs.unwrapped
    outside: _Found = _look(envs)
    within: tuple[_Found, ...] = inner.call(_look)
    # What a wrapper within reports as raw has passed no wrapper outside.
    scales = np.array(
        [env.scale * (1.0 if env.raw and not outside.raw else outside.scale) for env in within],
        dtype=np.float64,
    )
    choosing = [i for i, env in enumerate(within) if env.chooses]

    def set_updates(on: bool) -> None:
        set_statistics_updates(envs, outside.updates if on else False)
        for i, env in enumerate(within):
            if env.updates:
                inner.call_some([i], "set_statistics_updates", env.updates if on else False)

    def set_choice(on: bool) -> None:
        if choosing:
            inner.call_some(choosing, "set_wrapper_attr", "keeps_selection", not on)

    try:
        set_updates(False)
        set_choice(False)
        yield scales, np.array([outside.raw or env.raw for env in within], dtype=np.bool_)
    except BaseException:
        # Interrupted or failed environments may not answer.
        with contextlib.suppress(Exception):
            inner.step_wait()  # should an interrupt have come before it
        for unfreeze in set_updates, set_choice:
            with contextlib.suppress(Exception):
                unfreeze(True)
        raise
    set_updates(True)
    set_choice(True)


@read_only
def _look(env: Any) -> _Found:
    """Looks at one environment; runs where the environment is."""
    updates, scale, raw = [], 1.0, False
    for wrapper in normalizers(env):
        updates.append(bool(wrapper.update_running_mean))
        if isinstance(wrapper, (NormalizeRewardPerTask, VectorNormalizeRewardPerTask)):
            # The outermost is the one whose raw reward is in the infos.
            scale, raw = (scale, True) if raw else (1.0, True)
        elif hasattr(wrapper, "return_rms"):
            scale *= math.sqrt(float(wrapper.return_rms.var) + wrapper.epsilon)
    bottom = env.unwrapped
    # Where tasks are drawn from a space, the seeds of an evaluation say which it is.
    listed = isinstance(bottom, TaskSetMTEnv) and hasattr(bottom, "task_states")
    return _Found(updates, listed and not bottom.keeps_selection, scale, raw)
