"""`evaluate`: measures a policy on each of many tasks."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_flag, positive
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.seeding import check_seed
from mtwrappers.evaluation.episodes import Episode, Observer, Tally
from mtwrappers.evaluation.evidence import ActionRecorder, EvidenceWriter, read_journal
from mtwrappers.evaluation.plan import (
    Design,
    PlannedEpisode,
    make_plan,
    stream_seed,
    task_choices,
)
from mtwrappers.evaluation.protocol import Protocol, check_envs
from mtwrappers.evaluation.result import (
    Description,
    EvaluationResult,
    environments_of,
    versions,
)
from mtwrappers.evaluation.typed import to_plain
from mtwrappers.metaworld.make import determining
from mtwrappers.samplers.policies import ActionChunks, PolicyCaller, PolicyIn, pickled
from mtwrappers.samplers.rollout import Flags, check_array_spaces, rollout
from mtwrappers.samplers.task_texts import has_everywhere
from mtwrappers.state.env_state import get_state, normalizers, set_state, set_statistics_updates
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.journal import read_only
from mtwrappers.wrappers.normalize_reward import (
    NormalizeRewardPerTask,
    VectorNormalizeRewardPerTask,
)

# Keeps the seed of the first reset, before any episode, different from the episodes' seeds.
_FIRST_RESET = 1_000_033
_Path: TypeAlias = str | os.PathLike[str]
_Kept: TypeAlias = list[tuple[Episode, NDArray[Any]]]


def evaluate(
    policy: Any,
    envs: Any,
    episodes_per_task: int = 50,
    *,
    tasks: Sequence[str] | None = None,
    seed: int = 0,
    max_episode_steps: int | None = None,
    policy_in: PolicyIn = "parent",
    observers: Sequence[Observer] = (),
    evidence: _Path | None = None,
    resume: bool = False,
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

    **Training** can continue afterwards with a `reset`. The environments and the wrappers around
    them get back the state that they had before (`get_state`, `set_state`): random streams, the
    choice of tasks, statistics. Only if the state of one is unknown, because a wrapper keeps
    something that is not plain data, do all stay where the last episodes ended.

    **Rewards** are the environments' own. Normalization of rewards (by any wrapper with
    ``update_running_mean``, ours and Gymnasium's, around the vector environment or around each of
    its environments) is undone: exactly for ours, up to rounding for Gymnasium's
    ``NormalizeReward`` if no other wrapper around it changes rewards. Other wrappers that change
    rewards are part of the environment.

    **Interruptions.** The evidence is written as episodes end. After Ctrl-C or a kill, the same
    call with ``resume=True`` runs the episodes that are left, and returns the same result.

    Args:
        policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
            ``get_actions``; see `mtwrappers.samplers.policies.PolicyCaller`. For one that returns
            chunks of actions, see `mtwrappers.ActionChunks`.
        envs: One of our vector environments, or a wrapper of one.
        episodes_per_task: The number of episodes per task.
        tasks: The names of the tasks to evaluate; by default all. This does not change their
            episodes.
        seed: The seed, zero or greater.
        max_episode_steps: The number of steps after which episodes are cut, for environments that
            never end.
        policy_in: ``"parent"`` calls the policy in this process, at every step, for all
            environments. ``"workers"`` sends it to the workers once, and each calls it for its own
            environments; see `MetaSampler`. The vector environment must then not be wrapped, and
            observers are only called with whole episodes, after all have ended.
        observers: Objects that follow the evaluation, see `Observer`; such as `Progress`.
        evidence: An ``.npz`` file to write with the actions of every episode, with which `verify`
            checks the result.
        resume: Whether to continue from the episodes in ``evidence``, if it exists. It must be of
            an evaluation with the same arguments, environments and versions.

    Returns:
        Success, return and length of each task and overall; see `EvaluationResult`.

    Raises:
        OSError: If the evidence cannot be written.
        TypeError: If the policy is not callable, the environments are not ours, observations or
            actions are not arrays, or an argument has the wrong type.
        EvidenceError: If the evidence to continue from is of another evaluation.
        ValueError: If a number is out of range, a task is unknown, actions have another shape or
            are NaN, ``success`` in infos is neither a bool nor 0 or 1, or is missing after a step
            of the episode that has it, a return is not finite, an environment changes its task by
            itself, recorded actions change their dtype, or the name of a task is not printable.
        RuntimeError: If an episode has not ended after 100,000 steps and there is no
            ``max_episode_steps``.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> from mtwrappers import evaluate
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> result = evaluate(lambda obs: np.full((2, 2), 0.1), envs, episodes_per_task=3)
    >>> result.per_task["task 0"]["length"].value
    100.0
    """
    design = Design(
        check_seed(seed),
        positive(episodes_per_task, "episodes_per_task"),
        None if tasks is None else tuple(_check_tasks(tasks)),
        None if max_episode_steps is None else positive(max_episode_steps, "max_episode_steps"),
    )
    return run_evaluation(policy, envs, design, None, policy_in, observers, evidence, resume)


def run_evaluation(
    policy: Any,
    envs: Any,
    design: Design,
    protocol: Protocol | None,
    policy_in: PolicyIn,
    observers: Sequence[Observer],
    evidence: _Path | None,
    resume: bool,
    command: Mapping[str, Any] | None = None,
) -> EvaluationResult:
    """Runs `evaluate` by a design, and by a protocol if there is one.

    With ``command``, the options of a command, what is resumed must have had the same.
    """
    inner = check_arguments(policy, envs, protocol, evidence, resume)
    _check_observers(observers)
    remote = check_choice(policy_in, get_args(PolicyIn), "policy_in") == "workers"
    if remote:
        _check_remote(envs, observers)
    with contextlib.ExitStack() as stack:
        for observer in observers:
            stack.callback(observer.close)
        scale, raw = stack.enter_context(undisturbed(envs))
        plan, planned = plan_of(envs, design)
        if design.tasks is not None:
            chosen = tuple(dict.fromkeys(one.task for one in planned))
            design = dataclasses.replace(design, tasks=chosen)
        journal = Journal.open(
            stack, envs, design, protocol, policy, evidence, resume, planned, command
        )
        done = {one.place for one in journal.episodes}
        left = [one for one in planned if one.place not in done]
        for observer in observers:
            observer.plan(left)
        run = _Run(
            policy,
            (inner.meta_batch_size, inner.envs_per_task),
            [[one for one in own if one.place not in done] for own in plan],
            design.max_episode_steps,
            scale,
            raw,
        )
        if remote and left:
            _run_in_workers(run, inner, observers, journal)
        elif left:
            everyone = slice(0, inner.num_envs)
            run(envs, everyone, [ActionRecorder(journal.add), *observers])
        return journal.result(planned)


def plan_of(envs: Any, design: Design) -> tuple[list[list[PlannedEpisode]], list[PlannedEpisode]]:
    """The episodes of each environment, and all in the order of the result.

    Raises:
        ValueError: If a chosen task is unknown.
    """
    _, infos = envs.reset(seed=stream_seed(design.seed, _FIRST_RESET))
    choices = task_choices(envs.unwrapped, infos)
    plan = make_plan(choices, design.episodes_per_task, design.seed)
    order = {task: i for i, task in enumerate(_chosen(design.tasks, plan))}
    plan = [[one for one in own if one.task in order] for own in plan]
    planned = [one for own in plan for one in own]
    return plan, sorted(planned, key=lambda one: (order[one.task], one.number))


@dataclass
class Journal:
    """The parts of a result: its settings, the finished episodes and their evidence.

    Args:
        settings: The fields of the result besides episodes and evidence.
        writer: Writes the evidence, if any.
        episodes: The finished episodes.
    """

    settings: dict[str, Any]
    writer: EvidenceWriter | None
    episodes: list[Episode]

    @classmethod
    def open(
        cls,
        stack: contextlib.ExitStack,
        envs: Any,
        design: Design,
        protocol: Protocol | None,
        policy: Any,
        evidence: _Path | None,
        resume: bool,
        planned: Sequence[PlannedEpisode],
        command: Mapping[str, Any] | None = None,
    ) -> Journal:
        """Begins a journal, or continues the one in ``evidence``; the stack closes it.

        Raises:
            EvidenceError: If ``evidence`` is of another evaluation.
        """
        settings = {
            "design": design,
            "protocol": protocol,
            "environments": environments_of(envs),
            "versions": versions(),
            "description": Description(
                action_chunk=policy.action_chunk if isinstance(policy, ActionChunks) else None
            ),
        }
        if evidence is None:
            return cls(settings, None, [])
        header = _header(to_plain(settings), in_trials=design.trials > 0)
        if command is not None:
            header["command"] = to_plain(command)
        kept = read_journal(evidence, header, planned) if resume else []
        if design.trials:  # all environments run a trial together, so it is whole or run again
            inner = envs.unwrapped
            share = inner.meta_batch_size if design.adapts else inner.num_envs
            done = {episode.place for episode, _ in kept}
            left = {(one.trial or 0) // share for one in planned if one.place not in done}
            kept = [(one, data) for one, data in kept if (one.trial or 0) // share not in left]
        writer = stack.enter_context(EvidenceWriter(evidence, header, kept))
        return cls(settings, writer, [episode for episode, _ in kept])

    def add(self, episode: Episode, actions: NDArray[Any]) -> None:
        """Notes a finished episode."""
        self.episodes.append(episode)
        if self.writer is not None:
            self.writer.add(episode, actions)

    def result(self, planned: Sequence[PlannedEpisode]) -> EvaluationResult:
        """Completes the evidence; returns the result, with the episodes in the planned order."""
        if self.writer is not None:
            self.writer.finish(planned)
        found = {one.place: one for one in self.episodes}
        return EvaluationResult(
            tuple(found[one.place] for one in planned),
            evidence=None if self.writer is None else self.writer.digest,
            **self.settings,
        )


def _header(settings: dict[str, Any], in_trials: bool) -> dict[str, Any]:
    """The settings that a resumed evaluation must share, as JSON values."""
    made = settings["environments"]
    if made is not None:
        env_id, kwargs = determining(made, in_trials)
        settings["environments"] = {"id": env_id, "kwargs": kwargs, "goals": made["goals"]}
    settings["versions"].pop("python")
    settings["action_chunk"] = settings.pop("description")["action_chunk"]
    return settings


@dataclass(frozen=True)
class _Run:
    """Runs episodes, here or in a worker: ``run(envs, rows)``.

    Args:
        policy: The policy, pickled if it is sent to workers.
        sizes: ``M`` and ``K`` of all environments.
        plan: The episodes of each environment, ``N`` lists.
        max_episode_steps: The number of steps after which episodes are cut, or ``None``.
        scale: The scales of rewards from `undisturbed`.
        raw: The mask from `undisturbed`.
    """

    policy: Any
    sizes: tuple[int, int]
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
        shape = envs.single_action_space.shape
        act = PolicyCaller(self.policy, *self.sizes, rows, action_shape=shape)
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

        # Wrappers of vector environments rely on the autoreset.
        alone = envs is envs.unwrapped
        with envs.without_autoreset() if alone else contextlib.nullcontext():
            rollout(
                envs,
                act,
                np.array([len(own) for own in plan], dtype=np.int64),
                None,
                names=tally.names,
                seeds=seeds,
                begin=begin,
                observe=[tally],
                max_episode_steps=self.max_episode_steps,
            )
        return tally.ended

    def with_actions(self, envs: Any, rows: slice) -> tuple[list[tuple[int, Episode]], _Kept]:
        """Like a call, but also returns the actions of each episode, to send from workers."""
        kept: _Kept = []
        recorder = ActionRecorder(lambda episode, actions: kept.append((episode, actions)))
        return self(envs, rows, [recorder]), kept


def _run_in_workers(
    run: _Run, inner: MetaVectorEnv, observers: Sequence[Observer], journal: Journal
) -> None:
    """Runs the episodes in the workers; then calls the observers."""
    run = dataclasses.replace(run, policy=pickled(run.policy))
    ended: list[tuple[int, Episode]] = []
    if journal.writer is None:
        for found in inner.map_blocks(run):
            ended += found
        journal.episodes += [episode for _, episode in ended]
    else:
        for found, kept in inner.map_blocks(run.with_actions):
            ended += found
            for episode, actions in kept:
                journal.add(episode, actions)
    for observer in observers:
        for i, episode in ended:
            observer.end(i, episode)


def check_arguments(
    policy: Any, envs: Any, protocol: Protocol | None, evidence: Any, resume: Any
) -> MetaVectorEnv:
    """Checks the common arguments of evaluations; returns the unwrapped executor."""
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
    if check_flag(resume, "resume") and evidence is None:
        raise ValueError("resume=True continues from the episodes in evidence, got evidence=None")
    PolicyCaller(policy, inner.meta_batch_size, inner.envs_per_task)  # which checks it
    check_array_spaces(envs)
    if protocol is not None:
        check_envs(protocol, envs)
    return inner


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


def _check_tasks(tasks: Any) -> Sequence[str]:
    """Returns a list of names, or raises `TypeError`."""
    if isinstance(tasks, str) or not isinstance(tasks, Sequence) or not tasks:
        hint = f": pass tasks=[{tasks!r}]" if isinstance(tasks, str) and tasks else ""
        raise TypeError(f"tasks must be a list of at least one task name, got {tasks!r}{hint}")
    if not all(isinstance(task, str) for task in tasks):
        raise TypeError(
            f"tasks must be names such as 'reach-v3', got {reprlib.repr(tasks)}; it is "
            "few_shot_evaluate that takes task states"
        )
    return tasks


def _chosen(tasks: Sequence[str] | None, plan: Sequence[Sequence[PlannedEpisode]]) -> list[str]:
    """The tasks to evaluate, in the order of the environments."""
    known = list(dict.fromkeys(one.task for row in plan for one in row))
    if tasks is None:
        return known
    if unknown := [task for task in _check_tasks(tasks) if task not in known]:
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
    """The normalizing wrappers of an environment, and the normalization of its rewards."""

    updates: list[bool]  # whether each updates its statistics
    scale: float  # the factor that undoes the normalization
    raw: bool  # whether infos have the unscaled reward


@contextlib.contextmanager
def undisturbed(envs: Any) -> Iterator[tuple[NDArray[np.float64], Flags]]:
    """A context manager that gives the environments back the state that they had before.

    Meanwhile, normalizing wrappers (any with ``update_running_mean``) do not update their
    statistics. A `reset` is due afterwards.

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
    before = None
    with contextlib.suppress(TypeError):  # the state of a wrapper is unknown
        before = get_state(envs, between_episodes=True)

    def set_updates(on: bool) -> None:
        set_statistics_updates(envs, outside.updates if on else False)
        for i, env in enumerate(within):
            if env.updates:
                inner.call_some([i], "set_statistics_updates", env.updates if on else False)

    def restore() -> None:
        set_updates(True)
        if before is not None:
            set_state(envs, before)

    try:
        set_updates(False)
        yield scales, np.array([outside.raw or env.raw for env in within], dtype=np.bool_)
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
    updates, scale, raw = [], 1.0, False
    for wrapper in normalizers(env):
        updates.append(bool(wrapper.update_running_mean))
        if isinstance(wrapper, (NormalizeRewardPerTask, VectorNormalizeRewardPerTask)):
            # The raw reward in the infos is the outermost wrapper's.
            scale, raw = (scale, True) if raw else (1.0, True)
        elif hasattr(wrapper, "return_rms"):
            scale *= math.sqrt(float(wrapper.return_rms.var) + wrapper.epsilon)
    return _Found(updates, scale, raw)
