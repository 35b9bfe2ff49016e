"""`few_shot_evaluate`: measures how well a policy adapts to tasks that it was not trained on."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.common.checks import check_flag, positive
from mtwrappers.common.seeding import check_seed
from mtwrappers.evaluation.episodes import Episode, Observer, Tally
from mtwrappers.evaluation.evaluate import Journal, check_arguments, run_evaluation, undisturbed
from mtwrappers.evaluation.evidence import ActionRecorder
from mtwrappers.evaluation.plan import Design, PlannedEpisode, stream_seed, trial_tasks, with_goals
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import PolicyCaller, PolicyIn
from mtwrappers.samplers.recorder import Recorder, with_common_infos
from mtwrappers.samplers.rollout import Flags, rollout
from mtwrappers.samplers.task_texts import has_everywhere, task_names
from mtwrappers.vector.contract import MetaVectorEnv

_ENDS = "adaptation_terminate_on_success"
_TOGGLE = "toggle_terminate_on_success"


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
    evidence: str | os.PathLike[str] | None = None,
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
        envs: One of our vector environments in SAME_STEP mode (the default), whose resets keep the
            task, or a wrapper of one.
        trials: The number of trials, each on one task of each group; or the ``M`` tasks of each
            trial, for ``set_tasks``.
        adaptation_episodes: The number of episodes per adaptation step.
        evaluation_episodes: The number of episodes after adaptation.
        adaptation_steps: The number of calls of ``adapt``, each on new episodes.
        adaptation_terminate_on_success: Whether a success ends an episode of adaptation, which
            needs environments with ``toggle_terminate_on_success``; later episodes use the
            environments' own setting. ``None`` uses it for all episodes.
        seed: The seed, zero or greater.
        evidence: An ``.npz`` file to write with the actions of every episode, including adaptation,
            with which `verify` checks the result. Given tasks must then be numbers, such as task
            states.
        resume: Whether to continue from the whole trials in ``evidence``, if it exists. It must be
            of an evaluation with the same arguments, environments and versions.

    Returns:
        Success, return and length after adaptation; earlier episodes are in
        `EvaluationResult.adaptation`, `EvaluationResult.unadapted` and
        `EvaluationResult.by_episode`.

    Raises:
        TypeError, ValueError, RuntimeError: As in `evaluate`; or if the policy is of neither kind,
            tasks have another shape, or the environments are in another autoreset mode, draw tasks
            at every reset or have no ``toggle_terminate_on_success`` where it is needed.
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
    tasks = trials if isinstance(trials, (list, tuple)) else None
    ends = adaptation_terminate_on_success
    design = Design(
        check_seed(seed),
        positive(evaluation_episodes, "evaluation_episodes"),
        trials=positive(trials if tasks is None else len(tasks), "trials"),
        adaptation_episodes=positive(adaptation_episodes, "adaptation_episodes"),
        adaptation_steps=positive(adaptation_steps, "adaptation_steps"),
        adapts=callable(getattr(policy, "adapt", None)),
        adaptation_terminate_on_success=None if ends is None else check_flag(ends, _ENDS),
        trial_tasks=None if tasks is None else _numbers(tasks),
    )
    return run_trials(policy, envs, design, None, tasks, evidence, resume)


def run_protocol(
    policy: Any,
    envs: Any,
    design: Design,
    protocol: Protocol,
    policy_in: PolicyIn,
    observers: Sequence[Observer],
    evidence: str | os.PathLike[str] | None,
    resume: bool,
) -> EvaluationResult:
    """Runs the evaluation of a protocol by its design."""
    if protocol.few_shot:
        return run_trials(policy, envs, design, protocol, None, evidence, resume)
    return run_evaluation(policy, envs, design, protocol, policy_in, observers, evidence, resume)


def run_trials(
    policy: Any,
    envs: Any,
    design: Design,
    protocol: Protocol | None,
    tasks: Sequence[Sequence[Any]] | None,
    evidence: str | os.PathLike[str] | None,
    resume: bool,
) -> EvaluationResult:
    """Runs `few_shot_evaluate` by a design, and by a protocol if there is one."""
    inner = check_arguments(policy, envs, protocol, evidence, resume)
    _check_policy(policy, design)
    _check_envs(envs, inner)
    if tasks is not None:
        _check_tasks(tasks, inner.meta_batch_size, design, evidence)
    with contextlib.ExitStack() as stack:
        # Entered first, so that it exits last, after the end of an interrupted step.
        ending = stack.enter_context(_Ending.of(inner, design))
        scale, raw = stack.enter_context(undisturbed(envs))
        if tasks is not None and design.trial_tasks is None:
            rows = with_goals(inner, tasks, design.seed)
        else:
            rows = trial_tasks(envs, design)
        each = [list(row) for row in rows]
        planned = plan_of_trials(envs, design, each)
        journal = Journal.open(stack, envs, design, protocol, policy, evidence, resume, planned)
        shape = envs.single_action_space.shape
        act = PolicyCaller(policy, inner.meta_batch_size, inner.envs_per_task, action_shape=shape)
        observers: list[Observer] = [ending, ActionRecorder(journal.add)]
        run = _Run(policy, act, envs, design, scale, raw, ending, observers)
        done = {one.trial for one in journal.episodes}
        for trial, of_trial in enumerate(each):
            if run.share * trial not in done:
                run.trial(trial, of_trial)
        return journal.result(planned)


def plan_of_trials(
    envs: Any, design: Design, each: Sequence[Sequence[Any]]
) -> list[PlannedEpisode]:
    """All episodes, in the order of the result: by trial."""
    found: list[PlannedEpisode] = []
    for trial, tasks in enumerate(each):
        names = names_on(envs, tasks, stream_seed(design.seed, trial, 0, 0))
        for stage in range(len(design.stages)):
            found += itertools.chain(*design.of_stage(trial, stage, names, tasks))
    return sorted(found, key=lambda one: (one.trial or 0, one.number))


def names_on(envs: Any, tasks: Sequence[Any], seed: int) -> list[str]:
    """The names of the environments' tasks, once these are set."""
    inner = envs.unwrapped
    getattr(envs, "set_tasks", inner.set_tasks)(tasks)
    _, infos = envs.reset(seed=seed)
    return task_names(inner, infos)


@dataclass(frozen=True)
class _Run:
    """Runs trials.

    Args:
        policy: The policy.
        act: Calls the policy for actions.
        envs: The environments.
        design: The numbers that determine the episodes.
        scale: The scales of rewards from `undisturbed`.
        raw: The mask from `undisturbed`.
        ending: One of the observers.
        observers: The observers of every step.
    """

    policy: Any
    act: PolicyCaller
    envs: Any
    design: Design
    scale: NDArray[np.float64]
    raw: Flags
    ending: _Ending
    observers: Sequence[Observer]

    @property
    def share(self) -> int:
        """The number of trials that all environments run together."""
        inner = self.envs.unwrapped
        return int(inner.meta_batch_size if self.design.adapts else inner.num_envs)

    def trial(self, trial: int, tasks: Sequence[Any]) -> None:
        """Runs a trial on one task of each group."""
        n = self.envs.unwrapped.num_envs
        self.act.seed(range(n), [stream_seed(self.design.seed, trial, i) for i in range(n)])
        if callable(begin := getattr(self.policy, "begin_trial", None)):
            begin()
        last = len(self.design.stages) - 1
        for stage in range(last + 1):
            self.ending.begin_stage(stage < last or not self.design.adapts)
            recorder = Recorder() if stage < last else None
            self._stage(trial, stage, tasks, recorder)
            if recorder is not None:
                share = self.envs.unwrapped.envs_per_task
                self.policy.adapt(_by_task(recorder.paths(), share))

    def _stage(
        self, trial: int, stage: int, tasks: Sequence[Any], recorder: Recorder | None
    ) -> None:
        """Runs the episodes of a stage, which begins with a seeded reset."""
        inner = self.envs.unwrapped
        getattr(self.envs, "set_tasks", inner.set_tasks)(tasks)
        seeds = [stream_seed(self.design.seed, trial, stage, i) for i in range(inner.num_envs)]
        obs, infos = self.envs.reset(seed=seeds)
        plan = self.design.of_stage(trial, stage, task_names(inner, infos), tasks)
        quotas = np.array([len(own) for own in plan], dtype=np.int64)
        tally = Tally(plan, self.scale, self.raw, self.observers)
        observe = (tally,) if recorder is None else (tally, recorder)
        rollout(self.envs, self.act, quotas, obs, names=tally.names, observe=observe)


class _Ending(Observer):
    """Sets whether a success ends an episode, during adaptation and afterwards."""

    def __init__(self, inner: MetaVectorEnv, on: bool | None, last: int) -> None:
        self._inner, self._on, self._last = inner, on, last
        self._own = [] if on is None else own_endings(inner)

    @classmethod
    @contextlib.contextmanager
    def of(cls, inner: MetaVectorEnv, design: Design) -> Iterator[_Ending]:
        """A context manager that restores the environments' own setting at its end.

        Raises:
            ValueError: If environments do not have the method.
        """
        on = design.adaptation_terminate_on_success
        if on is not None and not has_everywhere(inner, _TOGGLE):
            raise ValueError(
                f"{_ENDS}={on} needs environments with {_TOGGLE}, such as those of Meta-World's ids"
            )
        ending = cls(inner, on, design.adaptation_length - 1)
        try:
            yield ending
        except BaseException:
            with contextlib.suppress(Exception):  # interrupted environments may not answer
                ending.begin_stage(False)
            raise
        ending.begin_stage(False)

    def begin_stage(self, adapting: bool) -> None:
        """Applies the setting of a stage to all environments."""
        for i, own in enumerate(self._own):
            self._set(i, self._on if adapting else own)

    def end(self, i: int, episode: Episode) -> None:
        """Restores the setting of an environment whose adaptation has ended within a stage."""
        if self._own and episode.number == self._last:
            self._set(i, self._own[i])

    def _set(self, i: int, on: bool | None) -> None:
        self._inner.call_some([i], _TOGGLE, on)


def own_endings(inner: MetaVectorEnv) -> list[bool]:
    """Whether a success ends an episode of each environment."""
    return [bool(own) for own in inner.get_attr("terminate_on_success")]


def _by_task(each: Sequence[Sequence[Path]], share: int) -> list[list[Path]]:
    """The paths of each task: the first of every environment, then the second, and so on."""
    rounds = (itertools.zip_longest(*each[i : i + share]) for i in range(0, len(each), share))
    return [
        with_common_infos([path for row in of_task for path in row if path is not None])
        for of_task in rounds
    ]


def _numbers(tasks: Sequence[Any]) -> tuple[tuple[int | float, ...], ...] | None:
    """The given tasks of each trial as tuples, if all are finite numbers, else ``None``."""
    if not all(isinstance(row, (list, tuple)) for row in tasks):
        return None
    if any(type(task) not in (int, float) for row in tasks for task in row):
        return None
    if not all(math.isfinite(task) for row in tasks for task in row):
        return None
    return tuple(tuple(row) for row in tasks)


def _check_policy(policy: Any, design: Design) -> None:
    if not design.adapts and not callable(getattr(policy, "begin_trial", None)):
        raise TypeError(
            "a policy that adapts must have adapt(paths) or begin_trial(); for one that does not, "
            f"use evaluate. Got {policy!r}"
        )
    if not design.adapts and design.adaptation_steps != 1:
        raise ValueError(
            f"adaptation_steps={design.adaptation_steps} needs a policy with adapt(paths); one "
            "that remembers adapts in one go"
        )


def _check_tasks(tasks: Sequence[Any], m: int, design: Design, evidence: Any) -> None:
    listed = all(isinstance(of_trial, (list, tuple)) for of_trial in tasks)
    if not listed or {len(of_trial) for of_trial in tasks} != {m}:
        raise ValueError(
            f"trials must be a number, or lists of {m} tasks, one list per trial; got {tasks!r}"
        )
    if evidence is not None and design.trial_tasks is None:
        raise TypeError(
            "evidence is for tasks that a file can name, so tasks must be numbers (task states) or "
            f"follow from the seed; got {tasks!r}"
        )


def _check_envs(envs: Any, inner: MetaVectorEnv) -> None:
    mode = envs.metadata["autoreset_mode"]
    if mode is not AutoresetMode.SAME_STEP:
        raise ValueError(
            "few_shot_evaluate needs autoreset_mode='SameStep', so that a trial's episodes follow "
            f"each other; got {mode.value!r}"
        )
    name = "sample_tasks_on_reset"
    if has_everywhere(inner, name) and any(inner.get_attr(name)):
        raise ValueError(
            f"the environments draw a task at every reset, but a trial stays on one: make them "
            f"with {name}=False"
        )
