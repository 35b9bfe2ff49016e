"""`evaluate` and `few_shot_evaluate`: a policy runs the episodes of a plan."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_flag, check_name, positive
from mtwrappers.evaluation.description import Description
from mtwrappers.evaluation.episodes import (
    Design,
    Episode,
    Observer,
    PlannedEpisode,
    Stage,
    Tally,
    plan_of,
    stream_seed,
)
from mtwrappers.evaluation.evidence import EvidenceWriter, read_journal
from mtwrappers.evaluation.origin import versions
from mtwrappers.evaluation.protocol import Protocol, check_envs
from mtwrappers.evaluation.remake import name_environments
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.typed import to_plain
from mtwrappers.metaworld.make import select_determining_arguments
from mtwrappers.samplers.action_chunks import ActionChunks
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import PolicyCaller, PolicyIn, pickled
from mtwrappers.samplers.recorder import Recorder, with_common_infos
from mtwrappers.samplers.rollout import Flags, check_array_spaces, rollout
from mtwrappers.samplers.task_texts import has_everywhere
from mtwrappers.state.env_state import get_state, normalizers, set_state, set_statistics_updates
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.wrappers.normalize_reward import (
    NormalizeRewardPerTask,
    VectorNormalizeRewardPerTask,
)

_ENDS = "adaptation_terminate_on_success"
_TOGGLE = "toggle_terminate_on_success"
_Path: TypeAlias = str | os.PathLike[str]


def evaluate(
    policy: Any,
    envs: Any,
    episodes_per_task: int = 50,
    *,
    tasks: Sequence[str] | None = None,
    seed: int = 0,
    policy_in: PolicyIn = "parent",
    observers: Sequence[Observer] = (),
    evidence: _Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> EvaluationResult:
    """Evaluates a policy on a fixed number of complete episodes of every task.

    The number of episodes per environment is fixed before the first one, so that quickly solved
    tasks are not over-represented. A task's name is ``task_name`` in infos (else ``task_id``, else
    the group of ``envs_per_task`` environments). The environments of a group, and environments with
    the same constructor and name, share the episodes of their task; other tasks need names that
    differ.

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

    **Training** can continue afterwards with a `reset`. The environments and the wrappers around
    them get back the state that they had before (`get_state`, `set_state`): random streams, the
    choice of tasks, statistics. A wrapper that does not declare its state keeps what it has at the
    end of the last episodes, and so do all environments if one cannot return its state.

    **Rewards** are the environments' own. Normalization of rewards (by any wrapper with
    ``update_running_mean``, ours and Gymnasium's, around the vector environment or around each of
    its environments) is undone: exactly for ours, up to rounding for Gymnasium's
    ``NormalizeReward`` if no other wrapper around it changes rewards. Environments that are in two
    of ours are refused. Other wrappers that change rewards are part of the environment.

    **Interruptions.** The evidence is written as episodes end. After Ctrl-C or a kill, the same
    call with ``resume=True`` runs the episodes that are left, and returns the same result. A
    warning has the number of episodes that were taken from the file. So that they are not those of
    another policy, give policies an attribute ``policy_id``, a name that is kept in the evidence,
    such as ``"ppo, seed 1, 2e6 steps"``: the evidence of another name is refused.

    Args:
        policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
            ``get_actions``; see `mtwrappers.samplers.policies.PolicyCaller`. For one that returns
            chunks of actions, see `mtwrappers.ActionChunks`.
        envs: One of our vector environments, or a wrapper of one.
        episodes_per_task: The number of episodes per task.
        tasks: The names of the tasks to evaluate; by default all. This does not change their
            episodes.
        seed: The seed, zero or greater.
        policy_in: ``"parent"`` calls the policy in this process, at every step, for all
            environments. ``"workers"`` sends it to the workers once, and each calls it for its own
            environments; see `MetaSampler`. The vector environment must then not be wrapped, and
            there are no observers.
        observers: Objects that follow the evaluation, see `Observer`.
        evidence: An ``.npz`` file to write with the actions of every episode, with which `verify`
            checks the result.
        resume: Whether to continue from the episodes in ``evidence``, if it exists. It must be of
            an evaluation with the same arguments, environments, ``policy_id`` and versions.
        progress: Whether to display a progress bar of the episodes. With ``policy_in="workers"`` it
            moves only at the end, because all episodes come at once.

    Returns:
        Success, return and length of each task and overall; see `EvaluationResult`.

    Raises:
        DependencyNotInstalled: If ``progress`` is set and rich is not installed.
        OSError: If the evidence cannot be written.
        TypeError: If the policy is not callable, the environments are not ours, observations or
            actions are not arrays, or an argument has the wrong type.
        EvidenceError: If the evidence to continue from is of another evaluation.
        ValueError: If a number is out of range, a task is unknown, actions have another shape or
            are NaN, ``success`` in infos is neither a bool nor 0 or 1, or is missing after a step
            of the episode that has it, a return is not finite, an environment changes its task by
            itself, recorded actions change their dtype, the name of a task is not printable, or
            that of the evidence does not end in ``.npz``.
        RuntimeError: If an episode has not ended after 100,000 steps.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> from mtwrappers import evaluate
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> result = evaluate(lambda obs: np.full((2, 2), 0.1), envs, episodes_per_task=3)
    >>> result.per_task["task 0"]["length"].value
    100.0
    """
    design = Design(seed, episodes_per_task, cast(Any, tasks))
    return run_evaluation(
        policy, envs, design, None, policy_in, observers, evidence, resume, progress
    )


def few_shot_evaluate(
    policy: Any,
    envs: Any,
    trials: int | Sequence[Sequence[Any]] = 10,
    adaptation_episodes: int = 10,
    evaluation_episodes: int = 3,
    *,
    adaptation_steps: int = 1,
    adaptation_terminate_on_success: bool | None = None,
    seed: int = 0,
    evidence: _Path | None = None,
    resume: bool = False,
) -> EvaluationResult:
    """Adapts a policy to new tasks and evaluates it on them, in several trials.

    In a trial, each of the ``M`` task groups of ``envs`` stays on one task (class and goal). This
    is the evaluation of Meta-World's meta-learning benchmarks (Yu et al. 2019, arXiv:1910.10897).
    As in `evaluate`, episodes are complete and planned in advance, rewards are the environments'
    own, the seed determines the result, and the environments get back the state that they had
    before.

    Tasks are given, or drawn from those of each group (held-out ones, in the ``-test`` ids):
    without replacement on Meta-World, with ``sample_tasks`` elsewhere.

    Args:
        policy: A callable (or ``get_actions``) with ``reset(mask)`` as for `evaluate`, of one of
            two kinds. The first has ``adapt(paths)``, like MAML. A trial begins with its
            ``begin_trial()``, if it has one, which restores the meta-learned parameters. Then
            ``adaptation_episodes`` of each task are run, and their trajectories are passed to
            ``adapt``: a list of ``M`` lists (see `mtwrappers.samplers.path`), which
            `MetaSampleProcessor` accepts. This is repeated ``adaptation_steps`` times before the
            ``evaluation_episodes``. The ``K`` environments of a task share its episodes. The second
            kind has only ``begin_trial()``, like RL2 (Duan et al. 2016, arXiv:1611.02779): it
            clears the memory, which ``reset(mask)`` between episodes keeps. Every environment runs
            its own trial of ``adaptation_episodes`` and then ``evaluation_episodes``. The
            generators of a policy that takes ``rng`` begin anew with each trial.
        envs: One of our vector environments, whose resets keep the task, or a wrapper of one.
        trials: The number of trials, each on one task of each group; or the ``M`` tasks of each
            trial for ``set_tasks``, which are numbers, such as task states.
        adaptation_episodes: The number of episodes per adaptation step.
        evaluation_episodes: The number of episodes after adaptation.
        adaptation_steps: The number of calls of ``adapt``, each on new episodes.
        adaptation_terminate_on_success: Whether a success ends an episode of adaptation, which
            needs environments with ``toggle_terminate_on_success``; later episodes use the
            environments' own setting. ``None`` uses it for all episodes.
        seed: The seed, zero or greater.
        evidence: An ``.npz`` file to write with the actions of every episode, including adaptation,
            with which `verify` checks the result.
        resume: Whether to continue from the whole trials in ``evidence``, if it exists. It must be
            of an evaluation with the same arguments, environments, ``policy_id`` and versions.

    Returns:
        Success, return and length after adaptation; earlier episodes are in
        `EvaluationResult.adaptation`, `EvaluationResult.unadapted` and
        `EvaluationResult.by_episode`.

    Raises:
        TypeError, ValueError, RuntimeError: As in `evaluate`; or if the policy is of neither kind,
            tasks have another shape, or the environments draw tasks at every reset or have no
            ``toggle_terminate_on_success`` where it is needed.
        EvidenceError: If the evidence to continue from is of another evaluation.
        OSError: If the evidence cannot be written.

    >>> import gymnasium, numpy as np
    >>> from mtwrappers import few_shot_evaluate
    >>> class Seeker:
    ...     "Goes where the reward rose, once it has adapted."
    ...     def begin_trial(self): self.move = np.zeros((4, 2))
    ...     def adapt(self, paths): self.move += 0.02
    ...     def __call__(self, obs): return self.move
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4)
    >>> result = few_shot_evaluate(Seeker(), envs, trials=2, adaptation_episodes=1)
    >>> len(result.adaptation.episodes), len(result.scored)
    (8, 24)
    """
    given: Any = trials if isinstance(trials, (list, tuple)) else ()
    tasks: Any = tuple(tuple(row) if isinstance(row, list) else row for row in given)
    ends = adaptation_terminate_on_success
    design = Design(
        seed,
        positive(evaluation_episodes, "evaluation_episodes"),
        trials=positive(len(tasks) if tasks else trials, "trials"),
        adaptation_episodes=adaptation_episodes,
        adaptation_steps=adaptation_steps,
        adapts=callable(getattr(policy, "adapt", None)),
        adaptation_terminate_on_success=None if ends is None else check_flag(ends, _ENDS),
        trial_tasks=tasks or None,
    )
    return run_evaluation(policy, envs, design, evidence=evidence, resume=resume)


def run_evaluation(
    policy: Any,
    envs: Any,
    design: Design,
    protocol: Protocol | None = None,
    policy_in: PolicyIn = "parent",
    observers: Sequence[Observer] = (),
    evidence: _Path | None = None,
    resume: bool = False,
    progress: bool = False,
    command: Mapping[str, Any] | None = None,
) -> EvaluationResult:
    """Runs an evaluation by a design, and by a protocol if there is one.

    With ``command``, the options of a command, what is resumed must have had the same.
    """
    inner = _check_envs(envs, design, protocol)
    sizes = inner.meta_batch_size, inner.envs_per_task
    act = PolicyCaller(policy, *sizes, action_space=envs.single_action_space)
    _check_adapting(policy, design)
    remote = check_choice(policy_in, get_args(PolicyIn), "policy_in") == "workers"
    _check_observers(observers, envs, remote)
    bar = ProgressBar(progress)
    if check_flag(resume, "resume") and evidence is None:
        raise ValueError("resume=True continues from the episodes in evidence, got evidence=None")
    if evidence is not None and os.path.splitext(evidence)[1] != ".npz":  # not the result's name
        raise ValueError(f"evidence must be a file name that ends in .npz, got {str(evidence)!r}")
    if design.adaptation_terminate_on_success is not None:
        observers = [_Ending(inner, design), *observers]
    with contextlib.ExitStack() as stack:
        for observer in observers:  # closed after the end of an interrupted step
            stack.callback(observer.close)
        scale, raw = stack.enter_context(undisturbed(envs))
        stages, planned = plan_of(envs, design)
        if design.tasks is not None:
            chosen = tuple(dict.fromkeys(one.task for one in planned))
            design = dataclasses.replace(design, tasks=chosen)
        settings: dict[str, Any] = {
            "design": design,
            "protocol": protocol,
            "environments": name_environments(envs),
            "versions": versions(),
            "description": Description(
                action_chunk=policy.action_chunk if isinstance(policy, ActionChunks) else None
            ),
        }
        kept, writer = [], None
        if evidence is not None:
            header = _header(to_plain(settings), design.trials > 0, command)
            header["policy_id"] = getattr(policy, "policy_id", None)
            check_name(header["policy_id"], "policy_id")
            if resume:
                kept = _whole_stages(read_journal(evidence, header, planned), stages, design)
                _warn_of_kept(len(kept), len(planned), evidence)
            writer = stack.enter_context(EvidenceWriter(evidence, header, planned, kept))
        episodes = {one.place: one for one, _ in kept}
        for observer in observers:
            observer.plan([one for one in planned if one.place not in episodes])
        advance = stack.enter_context(bar.of("episodes", len(planned) - len(episodes)))

        def keep(i: int, episode: Episode, actions: NDArray[Any] | None) -> None:
            episodes[episode.place] = episode
            if writer is not None and actions is not None:
                writer.add(episode, actions)
            advance(1)

        left = [one for one in (s.without(episodes) for s in stages) if any(one.episodes)]
        tally = functools.partial(Tally, scale=scale, raw=raw, records=writer is not None)
        if not remote:
            _run(policy, envs, act, left, design, tally(keep, observers=observers))
        elif left:
            run = functools.partial(_run_in_worker, pickled(policy), sizes, left, design, tally)
            for one in itertools.chain(*inner.map_blocks(run)):
                keep(*one)
        if writer is not None:
            settings["evidence"] = writer.digest
    return EvaluationResult(tuple(episodes[one.place] for one in planned), **settings)


def _header(
    settings: dict[str, Any], in_trials: bool, command: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The settings that a resumed evaluation must share, as JSON values."""
    if (made := settings["environments"]) is not None:
        env_id, kwargs = select_determining_arguments(made, in_trials)
        settings["environments"] = {"id": env_id, "kwargs": kwargs, "goals": made["goals"]}
    settings["versions"].pop("python")
    settings["action_chunk"] = settings.pop("description")["action_chunk"]
    return settings if command is None else {**settings, "command": to_plain(command)}


def _warn_of_kept(kept: int, planned: int, evidence: _Path) -> None:
    """Warns that the policy is not called for the episodes that are taken from a file."""
    if kept:
        warnings.warn(
            f"{kept} of {planned} episodes are taken from {os.fspath(evidence)}, and the policy is "
            "not called for them",
            stacklevel=4,  # the caller of `evaluate`
        )


def _whole_stages(
    kept: Sequence[tuple[Episode, bytes]], stages: Sequence[Stage], design: Design
) -> list[tuple[Episode, bytes]]:
    """The episodes to continue from: all environments run a trial together, whole or again."""
    done = {one.place for one, _ in kept}
    begun = {one.trial for one in stages if design.trials and not one.places <= done}
    again = {place for one in stages if one.trial in begun for place in one.places}
    return [(one, data) for one, data in kept if one.place not in again]


# The episodes.


def _run(
    policy: Any,
    envs: Any,
    act: PolicyCaller,
    stages: Sequence[Stage],
    design: Design,
    tally: Tally,
) -> None:
    """Runs the episodes of ``envs``: ``act`` calls the policy for them, ``tally`` follows them.

    Every episode begins with a reset from here, so that all autoreset modes run the same episodes.
    """
    with _without_autoreset(envs):
        for stage in stages:
            quotas = tally.plan(stage.episodes)
            if stage.tasks is None:
                _run_with_resets(envs, act, quotas, tally)
            else:
                _run_trial(policy, envs, act, quotas, tally, stage, design)


def _without_autoreset(envs: Any) -> contextlib.AbstractContextManager[None]:
    """A context manager in which environments do not reset themselves.

    Those in wrappers of others still do, because these may rely on it: Gymnasium's
    ``RecordEpisodeStatistics`` refuses an info with the statistics of an episode, which the infos
    of a last step have if no autoreset follows.
    """
    if not hasattr(envs, "without_autoreset"):
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[None] = envs.without_autoreset()
    return context


def _run_in_worker(
    policy: Any,
    sizes: tuple[int, int],
    stages: Sequence[Stage],
    design: Design,
    tally: functools.partial[Tally],
    envs: Any,
    rows: slice,
) -> list[Any]:
    """Runs the episodes of a worker's environments; returns what a `Tally` keeps."""
    found: list[Any] = []
    act = PolicyCaller(policy, *sizes, rows, action_space=envs.single_action_space)
    keep = lambda i, *ended: found.append((rows.start + i, *ended))  # noqa: E731
    _run(policy, envs, act, stages, design, tally(keep, rows=rows))
    return found


def _run_with_resets(envs: Any, act: PolicyCaller, quotas: NDArray[np.int64], tally: Tally) -> None:
    """Runs episodes that all begin with a reset to their own seed and task state."""

    def begin(mask: Flags) -> tuple[Any, dict[str, Any]]:
        episodes = {i: tally.present(i) for i in np.flatnonzero(mask).tolist()}
        obs = _reset(envs, episodes, tally.first)
        for i in episodes:
            tally.begin(i)
        return obs, {}  # the tally has the names of the tasks

    rollout(
        envs,
        act,
        quotas,
        names=tally.names,
        seeds=lambda rows: [tally.present(i).seed or 0 for i in rows],
        begin=begin,
        observe=[tally],
    )


def _run_trial(
    policy: Any,
    envs: Any,
    act: PolicyCaller,
    quotas: NDArray[np.int64],
    tally: Tally,
    stage: Stage,
    design: Design,
) -> None:
    """Runs episodes that continue from one another, and lets the policy adapt after them."""
    inner, key = envs.unwrapped, (design.seed, stage.trial)
    every, last = range(len(quotas)), stage.part + 1 == len(design.stages)
    if stage.part == 0:
        act.seed(every, [stream_seed(*key, i) for i in every])
        getattr(policy, "begin_trial", lambda: None)()
    getattr(envs, "set_tasks", inner.set_tasks)(stage.tasks)
    obs, _ = envs.reset(seed=[stream_seed(*key, stage.part, i) for i in every])
    for i in np.flatnonzero(quotas).tolist():
        tally.begin(i)

    def begin(mask: Flags) -> tuple[Any, dict[str, Any]]:
        obs, infos = envs.reset(options={"reset_mask": mask})
        for i in np.flatnonzero(mask).tolist():
            tally.begin(i)
        return obs, infos

    recorder = Recorder()
    observe: list[Any] = [tally] if last else [tally, recorder]
    rollout(envs, act, quotas, obs, names=tally.names, begin=begin, observe=observe)
    if not last:
        policy.adapt(_by_task(recorder.paths(), inner.envs_per_task))


class _Ending(Observer):
    """Sets whether a success ends an episode of adaptation; later ones have the own setting."""

    def __init__(self, inner: MetaVectorEnv, design: Design) -> None:
        self._on, self._length = design.adaptation_terminate_on_success, design.adaptation_length
        if not has_everywhere(inner, _TOGGLE):
            raise ValueError(
                f"{_ENDS}={self._on} needs environments with {_TOGGLE}, such as those of "
                "Meta-World's ids"
            )
        self._inner, self._own = inner, inner.get_attr("terminate_on_success")

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Applies the setting of an episode."""
        if episode.number in (0, self._length) or episode.seed is not None:
            on = self._on if episode.number < self._length else bool(self._own[i])
            self._inner.call_some([i], _TOGGLE, on)

    def close(self) -> None:
        """Restores the environments' own settings."""
        with contextlib.suppress(Exception):  # interrupted environments may not answer
            for i, own in enumerate(self._own):
                self._inner.call_some([i], _TOGGLE, bool(own))


def _by_task(each: Sequence[Sequence[Path]], share: int) -> list[list[Path]]:
    """The paths of each task: the first of every environment, then the second, and so on."""
    rounds = (itertools.zip_longest(*each[i : i + share]) for i in range(0, len(each), share))
    return [
        with_common_infos([path for row in of_task for path in row if path is not None])
        for of_task in rounds
    ]


# Arguments.


def _check_envs(envs: Any, design: Design, protocol: Protocol | None) -> MetaVectorEnv:
    """Checks the environments of an evaluation; returns the unwrapped executor."""
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
    check_array_spaces(envs)
    if protocol is not None:
        check_envs(protocol, envs)
    draws = "sample_tasks_on_reset"
    # A task of `set_task` stays, one of `set_task_state` is that of a single episode.
    keeps = not design.trials or has_everywhere(inner, "set_task")
    if not keeps and has_everywhere(inner, draws) and any(inner.get_attr(draws)):
        raise ValueError(
            "the environments draw a task at every reset, but a trial stays on one: make them "
            f"with {draws}=False"
        )
    m = inner.meta_batch_size
    for row in design.trial_tasks or ():
        if not isinstance(row, tuple) or len(row) != m or {*map(type, row)} - {int, float}:
            raise ValueError(
                f"trials must be a number, or lists of {m} tasks, one list per trial; tasks must "
                f"be numbers, such as task states; got {design.trial_tasks!r}"
            )
    return inner


def _check_adapting(policy: Any, design: Design) -> None:
    if not design.trials or design.adapts:
        return
    if not callable(getattr(policy, "begin_trial", None)):
        raise TypeError(
            "a policy that adapts must have adapt(paths) or begin_trial(); for one that does not, "
            f"use evaluate. Got {policy!r}"
        )
    if design.adaptation_steps != 1:
        raise ValueError(
            f"adaptation_steps={design.adaptation_steps} needs a policy with adapt(paths); one "
            "that remembers adapts in one go"
        )


def _check_observers(observers: Any, envs: Any, remote: bool) -> None:
    listed = isinstance(observers, (list, tuple))
    if not listed or not all(isinstance(observer, Observer) for observer in observers):
        raise TypeError(f"observers must be a list of Observer, got {observers!r}")
    if remote and envs is not envs.unwrapped:
        raise ValueError(
            f"policy_in='workers' calls the policy in the workers, and {envs} wraps the vector "
            "environment in this process: wrap each environment instead, or use policy_in='parent'"
        )
    if remote and observers:
        raise ValueError(
            "policy_in='workers' calls no observers, which follow an evaluation in this process; "
            f"got {observers}: use policy_in='parent'"
        )


# The environments.


def _reset(envs: Any, present: Mapping[int, PlannedEpisode], first: int) -> Any:
    """Resets environments for their planned episodes; returns all observations.

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
    """The normalizing wrappers of an environment, and the normalization of its rewards."""

    updates: list[bool]  # whether each updates its statistics
    scale: float  # the factor that undoes the normalization
    raw: int  # the number of wrappers that report the unscaled reward in infos


@contextlib.contextmanager
def undisturbed(envs: Any) -> Iterator[tuple[NDArray[np.float64], Flags]]:
    """A context manager that gives the environments back the state that they had before.

    Meanwhile, normalizing wrappers (any with ``update_running_mean``) do not update their
    statistics. A `reset` is due afterwards.

    Raises:
        ValueError: If the rewards of an environment are normalized twice.

    Yields:
        The factors ``(N,)`` float64 of each environment's rewards that undo Gymnasium's
        ``NormalizeReward``; and a mask ``(N,)`` bool of the environments whose unscaled rewards are
        in ``info["raw_reward"]``.
    """
    inner = envs.unwrapped
    outside: _Found = _look(envs)
    within: tuple[_Found, ...] = inner.call(_look)
    for i, own in enumerate(within):
        if own.raw + outside.raw > 1:
            raise ValueError(
                "an evaluation reports rewards as they were before normalization, and those of "
                f"environment {i} are normalized {own.raw + outside.raw} times, by wrappers such "
                "as NormalizeRewardPerTask: pass environments that are in one of them, or in none"
            )
    # A raw reward that an inner wrapper reports has passed no outer wrapper.
    scales = [own.scale * (1.0 if own.raw and not outside.raw else outside.scale) for own in within]
    before = None
    with contextlib.suppress(TypeError):  # the state of a wrapper is unknown
        before = get_state(envs, between_episodes=True)

    def set_updates(on: bool) -> None:
        set_statistics_updates(envs, outside.updates if on else False)
        for i, own in enumerate(within):
            if own.updates:
                inner.call_some([i], "set_statistics_updates", own.updates if on else False)

    def restore() -> None:
        set_updates(True)
        if before is not None:
            set_state(envs, before)

    try:
        set_updates(False)
        yield np.array(scales), np.array([outside.raw + own.raw > 0 for own in within])
    except BaseException:
        # Interrupted or failed environments may not answer.
        with contextlib.suppress(Exception):
            inner.step_wait()  # in case of an interrupt before it
        with contextlib.suppress(Exception):
            restore()
        raise
    restore()


@read_only
def _look(env: Any) -> _Found:
    """Reads one environment; runs in the environment's process."""
    updates, scale, raw = [], 1.0, 0
    for wrapper in normalizers(env):
        updates.append(bool(wrapper.update_running_mean))
        if isinstance(wrapper, (NormalizeRewardPerTask, VectorNormalizeRewardPerTask)):
            scale, raw = 1.0, raw + 1  # the raw reward has passed no outer wrapper
        elif hasattr(wrapper, "return_rms"):
            scale *= math.sqrt(float(wrapper.return_rms.var) + wrapper.epsilon)
    return _Found(updates, scale, raw)
