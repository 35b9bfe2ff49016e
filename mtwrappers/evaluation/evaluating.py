"""`evaluate` and `few_shot_evaluate`: a policy runs the episodes of a plan."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Never, TypeAlias, cast

import gymnasium
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.checks import check_flag, check_keywords, check_name, positive
from mtwrappers.common.counts import format_count
from mtwrappers.common.errors import short
from mtwrappers.evaluation.description import Description
from mtwrappers.evaluation.episodes import Episode, describe_copies
from mtwrappers.evaluation.evidence import EvidenceWriter, read_journal
from mtwrappers.evaluation.loop import (
    Observer,
    check_rewards,
    make_observers,
    run,
    set_tasks_kept,
    undisturbed,
    warn_of_drawn_tasks,
    warn_of_empty_statistics,
)
from mtwrappers.evaluation.origin import versions
from mtwrappers.evaluation.plan import (
    Design,
    Plan,
    is_plain_task,
    plan_episodes,
    read_kept_tasks,
)
from mtwrappers.evaluation.protocol import NAMES_OF_EPISODES, Protocol, check_envs
from mtwrappers.evaluation.remake import check_replayable, name_environments
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.typed import to_plain
from mtwrappers.metaworld.make import select_determining_arguments
from mtwrappers.samplers.action_chunks import ActionChunks
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import PREDICT_EXAMPLE, PolicyCaller
from mtwrappers.samplers.rollout import Flags, check_array_spaces
from mtwrappers.samplers.task_texts import has_everywhere
from mtwrappers.vector.contract import MetaVectorEnv

_Path: TypeAlias = str | os.PathLike[str]

# What other libraries pass to functions that evaluate, and where it belongs here.
_OTHER_NAMES = {
    "deterministic": f"the policy decides, such as {PREDICT_EXAMPLE}",
    "max_episode_steps": "the environments have it: pass it to gymnasium.make_vec",
    "name": "name the policy in the result: result.described(policy=...)",
    "protocol": "call its own evaluate, such as protocols['metaworld-3.1'].evaluate(policy)",
    "workers": "the environments have them: pass workers to gymnasium.make_vec",
    **dict.fromkeys(NAMES_OF_EPISODES, "did you mean 'episodes_per_task'?"),
}
# Likewise for `few_shot_evaluate`.
_OTHER_FEW_SHOT_NAMES = {
    **_OTHER_NAMES,
    **dict.fromkeys(
        (*NAMES_OF_EPISODES, "episodes_per_task"), "did you mean 'evaluation_episodes'?"
    ),
    **dict.fromkeys(
        ("n_adapt", "num_adapt", "n_adaptation_episodes", "adapt_episodes", "shots"),
        "did you mean 'adaptation_episodes'?",
    ),
    "tasks": "did you mean 'trials'? It takes a list for each trial, such as trials=[tasks]",
    "policy_in": "the policy is always called in this process, because adapt() changes it here",
}
# The methods of policies that adapt in trials.
_ADAPTING = ("adapt", "begin_trial")
_OPTIONS = ("seed", "observers", "evidence", "resume", "progress")
_ARGUMENTS = ("policy", "envs", "episodes_per_task", "tasks", *_OPTIONS)
_FEW_SHOT_ARGUMENTS = (
    *("policy", "envs", "trials", "adaptation_episodes", "evaluation_episodes"),
    *("adaptation_steps", "adaptation_terminate_on_success", *_OPTIONS),
)


def evaluate(
    policy: Any,
    envs: Any,
    episodes_per_task: int = 50,
    *,
    tasks: Sequence[str] | None = None,
    seed: int = 0,
    observers: Sequence[Observer] = (),
    evidence: _Path | None = None,
    resume: bool = False,
    progress: bool = False,
    **unknown: Never,
) -> EvaluationResult:
    """Evaluates a policy on a fixed number of complete episodes of every task.

    The number of episodes per environment is fixed before the first one, so that quickly solved
    tasks are not over-represented. A task's name is ``task_name`` in infos, else ``task_id``. If
    there is neither, each group of ``envs_per_task`` environments is a task, such as each of the
    ten environments of ``as_vector([make] * 10)``. Environments with one name share the episodes of
    one task: they are of one group, or have the same constructor. Other tasks need names that
    differ.

    **Goals.** If resets take a task state (as in our Meta-World environments from
    `gymnasium.make_vec`), each episode gets one of those that resets draw, whichever was set. The
    goals of a task are drawn without replacement until all were drawn. So 50 episodes of a
    Meta-World class cover each of its 50 goals once, for any ``select``. All other environments
    keep their task, also where resets draw others (``sample_tasks_on_reset``): only if none was set
    there, each episode draws one, by its seed. The result records the tasks that are kept, what
    ``get_task()`` returns, if they are numbers or dicts of numbers. A warning says if tasks that
    were set are not kept, if all are equal because none were set, or if some are in no episode.

    **Seeds.** Every episode begins with a reset to its own seed. If a policy is deterministic or
    draws from its argument ``rng``, and each action depends only on its own observation, not on the
    rest of the batch, the result is bit-identical on every executor, for any number of workers, in
    all three autoreset modes and for any number of environments per task that share their goals.
    (The wall-clock time in ``info["episode"]["t"]``, which observers may read, is not.)

    **Training** can continue afterwards with a `reset`. The environments and the wrappers around
    them get back the state that they had before (`get_state`, `set_state`): random streams, the
    choice of tasks, statistics. A wrapper that does not declare its state keeps what it has at the
    end of the last episodes, and so do all environments if one cannot return its state.

    **Success** is ``success`` (or ``is_success``) in infos. In an episode that reports it, a step
    without it is no success.

    **Rewards** are the environments' own: environments in a wrapper that normalizes rewards are
    refused, ours, Gymnasium's and Meta-World's. Other wrappers that change rewards are part of the
    environment.

    **Observations** are normalized by the statistics that the environments have, and these do not
    change. A warning names a wrapper that has none yet, as in new environments.

    **Interruptions.** The evidence is written as episodes end. After Ctrl-C or a kill, the same
    call with ``resume=True`` runs the episodes that are left, and returns the same result. A
    warning has the number of episodes that were taken from the file. So that they are not those of
    another policy, give policies an attribute ``policy_id``, a name that is kept in the evidence,
    such as ``"ppo, seed 1, 2e6 steps"``: the evidence of another name is refused.

    Args:
        policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
            ``get_actions``; see `mtwrappers.samplers.policies.PolicyCaller`. For one that returns
            chunks of actions, see `mtwrappers.ActionChunks`. Its ``adapt`` and ``begin_trial`` are
            not called, and a warning names `few_shot_evaluate`, which calls them.
        envs: One of our vector environments, or a wrapper of one.
        episodes_per_task: The number of episodes per task.
        tasks: The names of the tasks to evaluate; by default all. This does not change their
            episodes.
        seed: The seed, zero or greater.
        observers: Objects that follow the evaluation, see `Observer`.
        evidence: An ``.npz`` file to write with the actions of every episode, with which `verify`
            checks the result: by default it takes ``a.npz`` for a result that is saved as
            ``a.json``. An existing file is replaced, and a result that was saved with it can no
            longer be verified.
        resume: Whether to continue from the episodes in ``evidence``, if it exists. It must be of
            an evaluation with the same arguments, environments, ``policy_id`` and versions.
        progress: Whether to display a progress bar of the episodes.
        **unknown: Must be empty.

    Returns:
        Success, return and length of each task and overall; see `EvaluationResult`.

    Raises:
        DependencyNotInstalled: If ``progress`` is set and rich is not installed.
        OSError: If the evidence cannot be written.
        TypeError: If the policy is not callable, the environments are not ours, observations or
            actions are not arrays, or an argument is unknown, with a hint, or has the wrong type.
        EvidenceError: If the evidence to continue from is of another evaluation.
        ValueError: If a number is out of range, a task is unknown, actions have another shape or
            are NaN, ``success`` in infos is neither a bool nor 0 or 1, a return is not finite, an
            environment changes its task by itself, rewards are normalized, recorded actions change
            their dtype, the name of a task is not printable, that of the evidence does not end in
            ``.npz``, evidence would be of so many environments that `verify` refuses it, or the
            policy has a ``reset()`` that takes no mask and environments begin episodes at different
            times.
        RuntimeError: If an episode has not ended after 100,000 steps.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> from mtwrappers import evaluate
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> result = evaluate(lambda obs: np.full((2, 2), 0.1), envs, episodes_per_task=3)
    >>> result.per_task["task 0"]["length"].value
    100.0
    """
    check_keywords(unknown, _ARGUMENTS, "evaluate", _OTHER_NAMES)
    design = Design(seed, episodes_per_task, cast(Any, tasks))
    warn_of_no_adaptation(policy)
    return run_evaluation(
        policy,
        envs,
        design,
        observers=observers,
        evidence=evidence,
        resume=resume,
        progress=progress,
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
    observers: Sequence[Observer] = (),
    evidence: _Path | None = None,
    resume: bool = False,
    progress: bool = False,
    **unknown: Never,
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
            ``begin_trial()``, which restores the meta-learned parameters, and does nothing if
            ``adapt`` itself begins with them. Then ``adaptation_episodes`` of each task are run,
            and their trajectories are passed to ``adapt``: a list of ``M`` lists (see
            `mtwrappers.samplers.path`), which `MetaSampleProcessor` accepts. This is repeated
            ``adaptation_steps`` times before the ``evaluation_episodes``. The ``K`` environments of
            a task share its episodes. The second kind has only ``begin_trial()``, like RL2 (Duan et
            al. 2016, arXiv:1611.02779): it clears the memory, which ``reset(mask)`` between
            episodes keeps. Every environment runs its own trial of ``adaptation_episodes`` and then
            ``evaluation_episodes``. The generators of a policy that takes ``rng`` begin anew with
            each trial.
        envs: One of our vector environments, whose resets keep the task, or a wrapper of one.
        trials: The number of trials, each on one task of each group; or a list for each trial, of
            the ``M`` tasks for ``set_tasks``: numbers, such as task states, or dicts of numbers,
            such as ``[[{"velocity": 0.5}, {"velocity": 2.0}]]``. Tasks of other kinds are only
            drawn, from an environment whose ``sample_tasks`` returns them. With a number, a warning
            says so if tasks were set in the environments: trials draw others.
        adaptation_episodes: The number of episodes per adaptation step.
        evaluation_episodes: The number of episodes after adaptation.
        adaptation_steps: The number of calls of ``adapt``, each on new episodes.
        adaptation_terminate_on_success: Whether a success ends an episode of adaptation, which
            needs environments with ``toggle_terminate_on_success``; later episodes use the
            environments' own setting. ``None`` uses it for all episodes.
        seed: The seed, zero or greater.
        observers: Objects that follow the evaluation, see `Observer`.
        evidence: An ``.npz`` file to write with the actions of every episode, including adaptation,
            with which `verify` checks the result: by default it takes ``a.npz`` for a result that
            is saved as ``a.json``. An existing file is replaced.
        resume: Whether to continue from the whole trials in ``evidence``, if it exists. It must be
            of an evaluation with the same arguments, environments, ``policy_id`` and versions.
        progress: Whether to display a progress bar of the episodes.
        **unknown: Must be empty.

    Returns:
        Success, return and length after adaptation; earlier episodes are in
        `EvaluationResult.adaptation`, `EvaluationResult.unadapted` and
        `EvaluationResult.by_episode`.

    Raises:
        TypeError, ValueError, RuntimeError: As in `evaluate`; or if the policy has no
            ``begin_trial``, tasks have another shape, or the environments draw tasks at every reset
            or have no ``toggle_terminate_on_success`` where it is needed.
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
    check_keywords(unknown, _FEW_SHOT_ARGUMENTS, "few_shot_evaluate", _OTHER_FEW_SHOT_NAMES)
    num_trials, trial_tasks = trials, None
    if isinstance(trials, (list, tuple)) and trials:
        num_trials = len(trials)
        trial_tasks = tuple(tuple(row) if isinstance(row, list) else row for row in trials)
    design = Design(
        seed,
        positive(evaluation_episodes, "evaluation_episodes"),
        trials=positive(num_trials, "trials"),
        adaptation_episodes=_check_adaptation(adaptation_episodes),
        adaptation_steps=adaptation_steps,
        adapts=callable(getattr(policy, "adapt", None)),
        adaptation_terminate_on_success=adaptation_terminate_on_success,
        trial_tasks=trial_tasks,
    )
    return run_evaluation(
        policy,
        envs,
        design,
        observers=observers,
        evidence=evidence,
        resume=resume,
        progress=progress,
    )


def run_evaluation(
    policy: Any,
    envs: Any,
    design: Design,
    protocol: Protocol | None = None,
    *,
    observers: Sequence[Observer] = (),
    evidence: _Path | None = None,
    resume: bool = False,
    progress: bool = False,
    command: Mapping[str, Any] | None = None,
) -> EvaluationResult:
    """Runs an evaluation by a design, and by a protocol if there is one.

    With ``command``, the options of a command, what is resumed must have had the same.
    """
    if isinstance(policy, VectorEnv) and not isinstance(envs, VectorEnv):
        raise TypeError(f"policy and envs are swapped: the policy is first, got {policy!r}")
    inner = _check_envs(envs, design, protocol)
    actor = PolicyActor(policy, envs)
    actor.check_adapting(design)
    _check_observers(observers)
    _check_evidence(evidence, resume)
    bar = ProgressBar(progress)
    observers = [*make_observers(inner, design), *observers]
    with contextlib.ExitStack() as stack:
        for observer in observers:  # closed after the end of an interrupted step
            stack.callback(observer.close)
        stack.enter_context(undisturbed(envs))
        if design.trials:  # which set their own tasks
            if protocol is None and design.trial_tasks is None:
                warn_of_drawn_tasks(inner, design.trials)
        else:
            warns = protocol is None and design.tasks is None and design.phases is None
            stack.enter_context(set_tasks_kept(envs, warns=warns))
        plan = plan_episodes(envs, design)
        if not design.trials and design.tasks is None:
            _warn_of_other_tasks(inner, plan)
        warn_of_empty_statistics(envs)
        fields = _describe_evaluation(actor.action_chunk, envs, plan, protocol)
        _warn_of_equal_tasks(envs, fields["design"])
        episodes: dict[Any, Episode] = {}
        writer = None
        if evidence is not None:
            header = _make_header(actor.policy_id, fields, command)
            check_replayable(fields["environments"], plan)
            finished = _read_finished(evidence, header, plan) if resume else []
            writer = EvidenceWriter(evidence, header, plan.episodes, finished)
            stack.enter_context(writer)
            episodes = {episode.place: episode for episode, _ in finished}
        remaining = [planned for planned in plan.episodes if planned.place not in episodes]
        for observer in observers:
            observer.plan(remaining)
        advance = stack.enter_context(bar.track("episodes", len(remaining)))

        def on_episode(episode: Episode, actions: NDArray[Any] | None) -> None:
            episodes[episode.place] = episode
            if writer is not None and actions is not None:
                writer.add(episode, actions)
            advance(1)

        run(
            envs,
            plan.select({planned.place for planned in remaining}),
            actor,
            on_episode,
            keep_actions=writer is not None,
            observers=observers,
        )
        if writer is not None:
            fields["evidence"] = writer.digest
    result = EvaluationResult(tuple(episodes[planned.place] for planned in plan.episodes), **fields)
    if copies := describe_copies(result.episodes):
        warnings.warn(copies, stacklevel=find_stacklevel())
    return result


def warn_of_no_adaptation(policy: Any) -> None:
    """Warns that a policy which adapts in trials does not adapt in an evaluation without them."""
    if method := find_adapting_method(policy):
        warnings.warn(
            f"evaluate does not call {method}() of the policy, which does not adapt here: use "
            "few_shot_evaluate, whose result.unadapted has the episodes before it adapts; to "
            "evaluate it as it is, ignore this warning (warnings.filterwarnings('ignore', "
            "message='evaluate does not call'))",
            stacklevel=find_stacklevel(),
        )


def find_adapting_method(policy: Any) -> str | None:
    """The name of the first method of a policy for trials, ``None`` if it does not adapt."""
    return next((name for name in _ADAPTING if callable(getattr(policy, name, None))), None)


def require_begin_trial(policy: Any) -> None:
    """Raises `TypeError` if a policy has no ``begin_trial``, which trials need."""
    if not callable(getattr(policy, "begin_trial", None)):
        raise TypeError(
            "in trials, a policy must have begin_trial(), which returns it to what it was "
            "before any adaptation; give one that does not adapt, or whose adapt() itself "
            f"begins afresh, a begin_trial() that does nothing. Got {policy!r}"
        )


def _describe_evaluation(
    action_chunk: int | None, envs: Any, plan: Plan, protocol: Protocol | None
) -> dict[str, Any]:
    """The fields of a result that are known before its first episode."""
    design = plan.design
    if design.tasks is not None:  # in the order of the plan
        design = dataclasses.replace(design, tasks=plan.tasks)
    if not design.trials:
        design = dataclasses.replace(design, kept_tasks=read_kept_tasks(envs, plan))
    return {
        "design": design,
        "protocol": protocol,
        "environments": name_environments(envs),
        "versions": versions(),
        "description": Description(action_chunk=action_chunk),
    }


class PolicyActor(PolicyCaller):
    """A policy that acts in an evaluation.

    Args:
        policy: The policy.
        envs: The environments.

    Attributes:
        policy_id: The name that the policy has in evidence, or ``None``.
        action_chunk: The number of actions that it chooses at a time, if it is `ActionChunks`.
    """

    def __init__(self, policy: Any, envs: Any) -> None:
        inner = envs.unwrapped
        space = envs.single_action_space
        super().__init__(policy, inner.meta_batch_size, inner.envs_per_task, action_space=space)
        self._policy = policy
        self.policy_id = check_name(getattr(policy, "policy_id", None), "policy_id")
        self.action_chunk = policy.action_chunk if isinstance(policy, ActionChunks) else None

    def reset(self, mask: Flags) -> None:
        """Calls the policy's ``reset`` for the environments that begin an episode, ``(N,)``.

        Raises:
            ValueError: If it takes no mask, and not all environments begin one.
        """
        if self.resets_all_together and mask.any() and not mask.all():
            raise ValueError(
                "reset() of the policy takes no mask, so it cannot begin an episode in "
                f"{int(mask.sum())} of {len(mask)} environments alone: give the policy "
                "reset(mask), or pass one environment"
            )
        super().reset(mask)

    def check_adapting(self, design: Design) -> None:
        """Raises an error unless the policy can adapt as a design says, if it has trials."""
        if not design.trials:
            return
        require_begin_trial(self._policy)
        if not design.adapts and design.adaptation_steps != 1:
            raise ValueError(
                f"adaptation_steps={design.adaptation_steps} needs a policy with adapt(paths); one "
                "that remembers adapts in one go"
            )

    @property
    def adapts(self) -> bool:
        """Whether the policy has ``adapt``."""
        return callable(getattr(self._policy, "adapt", None))

    def begin_trial(self) -> None:
        """Calls the policy's ``begin_trial``."""
        self._policy.begin_trial()

    def adapt(self, paths: list[list[Path]]) -> None:
        """Calls the policy's ``adapt`` with the trajectories of each task."""
        self._policy.adapt(paths)


# Evidence.


def _make_header(
    policy_id: str | None, fields: Mapping[str, Any], command: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The settings that a resumed evaluation must share, as JSON values.

    Args:
        policy_id: The name of the policy in evidence.
        fields: The fields of `_describe_evaluation`.
        command: The options of a command, if there was one.
    """
    header: dict[str, Any] = to_plain(fields)
    if (environments := header["environments"]) is not None:
        in_trials = fields["design"].trials > 0
        env_id, kwargs = select_determining_arguments(environments, in_trials)
        goals = environments["goals"]
        header["environments"] = {"id": env_id, "kwargs": kwargs, "goals": goals}
    header["versions"].pop("python")
    header["action_chunk"] = header.pop("description")["action_chunk"]
    if command is not None:
        header["command"] = to_plain(command)
    header["policy_id"] = policy_id
    return header


def _read_finished(
    evidence: _Path, header: Mapping[str, Any], plan: Plan
) -> list[tuple[Episode, bytes]]:
    """The episodes to continue from, and the bytes of their actions.

    All environments run a trial together, so a trial is whole or run again. A warning says that the
    policy is not called for these episodes.
    """
    finished = read_journal(evidence, header, plan.episodes)
    places = {episode.place for episode, _ in finished}
    if plan.design.trials:
        begun = {stage.trial for stage in plan.stages if not stage.places <= places}
        repeated = [stage.places for stage in plan.stages if stage.trial in begun]
        places -= set().union(*repeated)
        finished = [(episode, data) for episode, data in finished if episode.place in places]
    if finished:
        warnings.warn(
            f"{len(finished)} of {format_count(len(plan.episodes), 'episode')} are taken from "
            f"{os.fspath(evidence)}, and the policy is not called for them"
            f"{_describe_other_policies(header)}",
            stacklevel=find_stacklevel(),
        )
    return finished


def _describe_other_policies(header: Mapping[str, Any]) -> str:
    """The end of the warning about finished episodes, unless the policy has a name in evidence."""
    command = header.get("command")
    if header["policy_id"] is not None or (command and command["name"] is not None):
        return ""
    way_out = "give policies an attribute policy_id, such as policy.policy_id = 'ppo, seed 1'"
    if command is not None:
        way_out = "give every model another --name"
    return (
        ": they are of whichever policy ran before, which has no name in this file; so that "
        f"episodes of another policy are refused, {way_out}"
    )


# Checks of arguments.


def _check_envs(envs: Any, design: Design, protocol: Protocol | None) -> MetaVectorEnv:
    """Checks the environments of an evaluation; returns the unwrapped executor."""
    inner = envs.unwrapped if isinstance(envs, VectorEnv) else envs
    if not isinstance(inner, MetaVectorEnv):
        raise TypeError(
            "envs must be a vector environment of this package (from gymnasium.make_vec or "
            f"MetaIterativeEnvExecutor) or a wrapper of one, got {inner!r}: {_suggest_envs(inner)}"
        )
    if has_everywhere(inner, "held_phase") and None in inner.get_attr("held_phase"):
        raise ValueError(
            "an evaluation in a stream would become part of the stream: evaluate in separate "
            "environments, as continual_evaluate does"
        )
    check_array_spaces(envs)
    check_rewards(envs)
    if protocol is not None:
        check_envs(protocol, envs)
    draws = "sample_tasks_on_reset"
    # A task of `set_task` stays, one of `set_task_state` is that of a single episode.
    keeps_task = not design.trials or has_everywhere(inner, "set_task")
    if not keeps_task and has_everywhere(inner, draws) and any(inner.get_attr(draws)):
        raise ValueError(
            "the environments draw a task at every reset, but a trial stays on one: make them "
            f"with {draws}=False"
        )
    for trial, row in enumerate(design.trial_tasks or ()):
        if problem := _find_problem(trial, row, design, inner):
            raise ValueError(
                f"trials must be a number, or lists of "
                f"{format_count(inner.meta_batch_size, 'task')}, one list per trial; {problem}"
            )
    return inner


def _find_problem(trial: int, row: Any, design: Design, envs: MetaVectorEnv) -> str:
    """Why the given tasks of a trial do not fit environments, with the way out; or ``""``."""
    num_groups = envs.meta_batch_size
    if not isinstance(row, tuple):
        way_out = "each trial is a list of tasks, as in trials=[tasks]"
        if len(design.trial_tasks or ()) == num_groups:
            way_out = "if these are the tasks of a single trial, pass [trials]"
        elif num_groups == 1:
            way_out = "for a trial on each task, pass [[task] for task in trials]"
        return f"got {short(row)} as trial {trial}: {way_out}"
    if len(row) != num_groups:
        problem = f"trial {trial} has {format_count(len(row), 'task')}, {short(row)}"
        if len(row) != envs.num_envs:
            return f"{problem}: give one to each task group of the environments"
        return (
            f"{problem}: for {envs.num_envs} task groups of one environment, pass functions that "
            f"make them, as in as_vector([make] * {envs.num_envs})"
        )
    if all(map(is_plain_task, row)):
        return ""
    return (
        "tasks must be numbers, such as task states, or dicts of numbers; got "
        f"{short(row)} as trial {trial}: with a number of trials, tasks of any kind are drawn by "
        "sample_tasks of the environments, which may return those of a list"
    )


def _warn_of_other_tasks(envs: MetaVectorEnv, plan: Plan) -> None:
    """Warns if environments that stay on their task have tasks that are in no episode."""
    columns = ("num_tasks", "task_ids", "task_names", "sample_tasks_on_reset")
    lists_tasks = all(has_everywhere(envs, name) for name in columns)
    if not lists_tasks or has_everywhere(envs, "held_phase"):  # a phase has some of the tasks
        return
    other_tasks: dict[str, None] = {}
    described = (envs.get_attr(name) for name in columns)
    for num_tasks, ids, names, draws in zip(*described, strict=True):
        # Otherwise the tasks are some of the list.
        if num_tasks == len(ids) and not draws:
            tasks = (f"task {i}" if names is None else names[i] for i in ids)
            other_tasks |= dict.fromkeys(task for task in tasks if task not in plan.tasks)
    if other_tasks:
        num_tasks = len(plan.tasks) + len(other_tasks)
        warnings.warn(
            f"evaluates {len(plan.tasks)} of {num_tasks} tasks, {short(list(plan.tasks))} and not "
            f"{short(list(other_tasks))}: the environments stay on their current task; make them "
            "with sample_tasks_on_reset=True to evaluate all, or pass tasks=[...] to choose",
            stacklevel=find_stacklevel(),
        )


def _warn_of_equal_tasks(envs: Any, design: Design) -> None:
    """Warns if environments that were made for several tasks keep equal ones.

    The ids of this package have as many tasks as environments unless ``meta_batch_size`` is given:
    without it, nobody has asked for several.
    """
    if has_everywhere(envs.unwrapped, "held_phase"):  # which has some of the tasks
        return
    kept_tasks = list((design.kept_tasks or {}).values())
    spec = envs.spec
    asked_for_several = spec is None or spec.kwargs.get("meta_batch_size") is not None
    if len(kept_tasks) > 1 and asked_for_several and all(t == kept_tasks[0] for t in kept_tasks):
        warnings.warn(
            f"get_task() returns the same for all {len(kept_tasks)} tasks, {short(kept_tasks[0])}: "
            "call envs.set_tasks before the evaluation, or make copies of one task, as in "
            "as_vector(make, 4)",
            stacklevel=find_stacklevel(),
        )


def _suggest_envs(envs: Any) -> str:
    """The environments to pass instead of others."""
    if isinstance(envs, str):
        if envs.startswith("mtwrappers/"):
            return f"pass gymnasium.make_vec({envs!r})"
        return f"pass mtwrappers.as_vector({envs!r})"
    if isinstance(envs, gymnasium.Env):
        return "for one environment, pass mtwrappers.as_vector(lambda: env)"
    if isinstance(envs, VectorEnv):
        return "pass mtwrappers.as_vector(env_fns) with the functions that make its environments"
    if isinstance(envs, (list, tuple)) or callable(envs):
        return "pass mtwrappers.as_vector of these functions"
    if not isinstance(getattr(envs, "vec_env", None), VectorEnv):
        return "pass those inside an adapter of another library"
    inside = "pass the vector environment inside this adapter, its vec_env"
    if not hasattr(envs, "normalize_obs"):  # which SB3's VecNormalize has
        return inside
    return (
        f"{inside}, and normalize in the policy: lambda obs: "
        "model.predict(venv.normalize_obs(obs), deterministic=True)[0], where venv is this one, or "
        "what VecNormalize.load(path, venv) makes of the file of its save(path)"
    )


def _check_adaptation(episodes: Any) -> int:
    """Returns ``adaptation_episodes``, or raises `ValueError`, with a way out for 0."""
    if type(episodes) is int and episodes == 0:
        raise ValueError(
            "adaptation_episodes must be a positive integer, got 0: for the baseline without "
            "adaptation, pass 1 or more and read result.unadapted, the episodes before the policy "
            "adapts"
        )
    return positive(episodes, "adaptation_episodes")


def _check_observers(observers: Any) -> None:
    listed = isinstance(observers, (list, tuple))
    if not listed or not all(isinstance(observer, Observer) for observer in observers):
        raise TypeError(f"observers must be a list of Observer, got {observers!r}")


def _check_evidence(evidence: _Path | None, resume: bool) -> None:
    if check_flag(resume, "resume") and evidence is None:
        raise ValueError("resume=True continues from the episodes in evidence, got evidence=None")
    if evidence is not None and not isinstance(evidence, (str, os.PathLike)):
        raise TypeError(
            "evidence must be the name of a file that ends in .npz, such as evidence='e.npz', or "
            f"None, got {short(evidence)}"
        )
    if evidence is not None and os.path.splitext(evidence)[1] != ".npz":  # not the result's name
        raise ValueError(f"evidence must be a file name that ends in .npz, got {str(evidence)!r}")
