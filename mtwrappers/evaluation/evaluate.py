"""`evaluate`: measures a policy on each of many tasks."""

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
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.journal import read_only
from mtwrappers.wrappers.normalize_reward import (
    NormalizeRewardPerTask,
    VectorNormalizeRewardPerTask,
)

# Keeps the seed of the first reset, before any episode, different from the episodes' seeds.
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
    """Evaluates a policy on a fixed number of complete episodes of every task.

    The number of episodes per environment is fixed before the first one, so that quickly solved
    tasks are not over-represented. A task's name is ``task_name`` in infos (else ``task_id``, else
    the group of ``envs_per_task`` environments); environments with the same task name share its
    episodes.

    **Goals.** If resets take a task state (as in our Meta-World environments from
    `gymnasium.make_vec`), each episode gets one. The goals of a task are drawn without replacement
    until all were drawn. So 50 episodes of a Meta-World class cover each of its 50 goals once, for
    any ``select``. Other environments keep their task.

    **Seeds.** Every episode begins with a reset to its own seed. If a policy is deterministic or
    draws from its argument ``rng``, and each action depends only on its own observation, not on the
    rest of the batch, the result is bit-identical with the policy here or in workers, on every
    executor, for any number of workers, in all three autoreset modes and for any number of
    environments per task that share their goals. (The wall-clock time in ``info["episode"]["t"]``,
    which observers may read, is not.)

    **Training** can continue afterwards with a `reset`. The evaluation does not change the choice
    of its tasks (the strategy, a curriculum's history and the task stream), the statistics of
    normalizing wrappers, or, in the environments of Meta-World's ids, the goals, sentences and
    looks that training draws next. The environments' other random streams are left where the last
    episodes ended; ``reset(seed=...)`` restarts them, and the choice of tasks too.

    **Rewards** are the environments' own. Normalization of rewards (by any wrapper with
    ``update_running_mean``, ours and Gymnasium's, around the vector environment or around each of
    its environments) is undone: exactly for ours, up to rounding for Gymnasium's
    ``NormalizeReward`` if no other wrapper around it changes rewards. Other wrappers that change
    rewards are part of the environment.

    Args:
        policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
            ``get_actions``; see `mtwrappers.samplers.policies.PolicyCaller`.
        envs: One of our vector environments, or a wrapper of one.
        episodes_per_task: The number of episodes per task.
        tasks: The names of the tasks to evaluate; by default all. This does not change their
            episodes.
        policy_in: ``"parent"`` calls the policy in this process, at every step, for all
            environments. ``"workers"`` sends it to the workers once, and each calls it for its own
            environments; see `MetaSampler`. The vector environment must then not be wrapped, and
            observers are only called with whole episodes, after all have ended.
        action_chunk: The number of actions of each chunk that are executed before the next call,
            for a policy that returns chunks ``(N, H, A)``. It is recorded in the result.
        seed: The seed, zero or greater.
        max_episode_steps: The number of steps after which episodes are cut, for environments that
            never end.
        observers: Objects that follow the evaluation, see `Observer`. After an interruption
            (``KeyboardInterrupt``), the episodes that an observer has received can be passed as
            ``finished``, or to `EvaluationResult`.
        finished: Episodes that were finished by an interrupted evaluation with the same arguments.
            They are not run again, and the result equals one without an interruption.
        confidence: The confidence level of the intervals, in (0, 1).
        resamples: The number of bootstrap resamples.
        progress: Whether to display a progress bar. With ``policy_in="workers"`` it only displays
            activity, because all episodes are returned at once.
        evidence: An ``.npz`` file to write with the actions of every episode, with which `verify`
            checks the result. It is written as episodes end: after an interruption or a kill it
            holds the finished ones. It must contain the episodes in ``finished``.
        policy_name: The name of the policy in the result; `compare` groups results by it.
        training_seed: The seed of the training run that made the policy, for the result.
        training_steps: The agent steps of that run until then, over all environments, for the
            result.
        normalize: The returns of each task that count as 0 and as 1, ``{task: (low, high)}``; see
            `EvaluationResult.normalized`.
        protocol: The protocol that this evaluation follows; it is recorded in the result, and
            arguments or environments that contradict it raise an error. See `Protocol.evaluate`.

    Returns:
        Success, return and length of each task and overall; see `EvaluationResult`.

    Raises:
        DependencyNotInstalled: If ``progress`` is set and rich is not installed.
        OSError: If the evidence cannot be written.
        TypeError: If the policy is not callable, the environments are not ours, observations or
            actions are not arrays, or an argument has the wrong type.
        EvidenceError: If the evidence does not contain the episodes in ``finished``.
        ValueError: If a number is out of range, a task is unknown, actions have another shape or
            are NaN, a finished episode does not belong to this evaluation, ``success`` in infos is
            neither a bool nor 0 or 1, or is missing after a step of the episode that has it, a
            return is not finite, an environment changes its task by itself, recorded actions change
            their dtype, the name of a task or of the policy is not printable, or something
            contradicts the protocol.
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
    """The episodes of the chosen tasks.

    Args:
        order: The place of each task.
        planned: All episodes, in the order of the result.
        finished: The finished ones.
        left: The remaining ones, a list for each environment.
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
        """Restricts a plan to these tasks, and splits off finished episodes."""
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
        policy: The policy, pickled if it is sent to workers.
        sizes: ``M`` and ``K`` of all environments.
        action_chunk: The number of actions of a chunk that are executed, or ``None``.
        plan: The episodes of each environment, ``N`` lists.
        max_episode_steps: The number of steps after which episodes are cut, or ``None``.
        scale: The scales of rewards from `frozen`.
        raw: The mask from `frozen`.
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
        """Runs the episodes of ``envs``, which are the environments ``rows`` among all.

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
        # Wrappers of vector environments rely on the autoreset.
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
        """Like a call, but also returns the actions of each episode, to send from workers."""
        kept: _Kept = []
        recorder = ActionRecorder(lambda episode, actions: kept.append((episode, actions)))
        return self(envs, rows, [recorder]), kept


def _run_in_workers(
    run: _Run, inner: MetaVectorEnv, observers: Sequence[Observer], writer: EvidenceWriter | None
) -> list[tuple[int, Episode]]:
    """Runs the episodes in the workers; then calls the observers."""
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
    """Advances a progress bar, at first by the ``finished`` episodes."""

    def __init__(self, advance: Advance, finished: int) -> None:
        self._advance = advance
        advance(finished)

    def end(self, i: int, episode: Episode) -> None:
        """Counts an episode."""
        self._advance(1)


def check_arguments(
    policy: Any, envs: Any, seed: Any, confidence: Any, resamples: Any, action_chunk: Any
) -> tuple[MetaVectorEnv, int]:
    """Checks the common arguments of evaluations; returns the unwrapped executor and the seed."""
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
    """Raises `ValueError` for wrappers and observers that a policy in workers does not allow."""
    if envs is not envs.unwrapped:
        raise ValueError(
            f"policy_in='workers' calls the policy in the workers, and {envs} wraps the vector "
            "environment in this process: wrap each environment instead, or use policy_in='parent'"
        )
    for observer in observers:
        for name in ("begin", "step"):
            if getattr(type(observer), name) is not getattr(Observer, name):
                raise ValueError(
                    "policy_in='workers' calls observers only after whole episodes, but "
                    f"{observer} has {name}(): use policy_in='parent'"
                )


def _place(of: PlannedEpisode | Episode) -> tuple[Any, ...]:
    """The fields that an episode and its plan have in common."""
    return of.task, of.number, of.task_state, of.trial


def _by_place(finished: Sequence[Episode], planned: Sequence[PlannedEpisode]) -> dict[Any, Episode]:
    """Finished episodes by place; raises an error for one that is not planned."""
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
    """The tasks to evaluate, in the order of the environments."""
    known = list(dict.fromkeys(one.task for row in plan for one in row))
    if tasks is None:
        return known
    if isinstance(tasks, str) or not isinstance(tasks, Sequence) or not tasks:
        hint = f": pass tasks=[{tasks!r}]" if isinstance(tasks, str) and tasks else ""
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
    """Resets environments for their planned episodes; returns all observations.

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
                f"environment {first + i} was on task {one.task!r}, but its reset switched to "
                f"{name!r}: evaluate needs environments that keep their task, or draw it from "
                "task_states"
            )
    return obs


class _Found(NamedTuple):
    """The parts of an environment to freeze, and the normalization of its rewards."""

    updates: list[bool]  # whether each normalizing wrapper updates its statistics
    chooses: bool  # whether it chooses from a list of tasks
    scale: float  # the factor that undoes the normalization
    raw: bool  # whether infos have the unscaled reward


@contextlib.contextmanager
def frozen(envs: Any) -> Iterator[tuple[NDArray[np.float64], Flags]]:
    """A context manager that freezes everything that learns from episodes.

    These are the normalizing wrappers around the vector environment and around each of its
    environments, ours and Gymnasium's (any with ``update_running_mean``), and the choice from a
    list of tasks: the strategy, its history and the task stream.

    Yields:
        The factors ``(N,)`` float64 of each environment's rewards that undo Gymnasium's
        ``NormalizeReward``; and a mask ``(N,)`` bool of the environments whose unscaled rewards are
        in ``info["raw_reward"]``.
    """
    inner = envs.unwrapped
    outside: _Found = _look(envs)
    within: tuple[_Found, ...] = inner.call(_look)
    # A raw reward that an inner wrapper reports has passed no outer wrapper.
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
            inner.step_wait()  # in case of an interrupt before it
        for unfreeze in set_updates, set_choice:
            with contextlib.suppress(Exception):
                unfreeze(True)
        raise
    set_updates(True)
    set_choice(True)


@read_only
def _look(env: Any) -> _Found:
    """Reads one environment; runs in the environment's process."""
    updates, scale, raw = [], 1.0, False
    for wrapper in normalizers(env):
        updates.append(bool(wrapper.update_running_mean))
        if isinstance(wrapper, (NormalizeRewardPerTask, VectorNormalizeRewardPerTask)):
            # The raw reward in the infos is the outermost wrapper's.
            scale, raw = (scale, True) if raw else (1.0, True)
        elif hasattr(wrapper, "return_rms"):
            scale *= math.sqrt(float(wrapper.return_rms.var) + wrapper.epsilon)
    bottom = env.unwrapped
    # If tasks are drawn from a space, the seeds of an evaluation determine them.
    listed = isinstance(bottom, TaskSetMTEnv) and hasattr(bottom, "task_states")
    return _Found(updates, listed and not bottom.keeps_selection, scale, raw)
