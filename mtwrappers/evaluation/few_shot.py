"""`few_shot_evaluate`: measures how well a policy adapts to tasks that it was not trained on."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.common.checks import check_flag, check_name, positive
from mtwrappers.evaluation.episodes import (
    Episode,
    ForeignEpisodeError,
    Observer,
    Tally,
    Trials,
    draw_states,
    numbers,
    stream_seed,
)
from mtwrappers.evaluation.evaluate import check_arguments, frozen
from mtwrappers.evaluation.evidence import ActionRecorder, EvidenceWriter
from mtwrappers.evaluation.protocol import Protocol, check_evaluation
from mtwrappers.evaluation.result import (
    EvaluationResult,
    FewShotResult,
    Provenance,
    check_training,
)
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import PolicyCaller
from mtwrappers.samplers.recorder import Recorder, with_common_infos
from mtwrappers.samplers.rollout import Flags, rollout
from mtwrappers.samplers.task_texts import has_everywhere, task_names
from mtwrappers.vector.contract import MetaVectorEnv

_ENDS = "adaptation_terminate_on_success"


def few_shot_evaluate(
    policy: Any,
    envs: Any,
    trials: int = 10,
    adaptation_episodes: int = 10,
    evaluation_episodes: int = 3,
    *,
    adaptation_steps: int = 1,
    adaptation_terminate_on_success: bool | None = None,
    tasks: Sequence[Sequence[Any]] | None = None,
    action_chunk: int | None = None,
    seed: int = 0,
    finished: Sequence[Episode] = (),
    confidence: float = 0.95,
    resamples: int = 2000,
    evidence: str | os.PathLike[str] | None = None,
    policy_name: str | None = None,
    training_seed: int | None = None,
    training_steps: int | None = None,
    protocol: Protocol | None = None,
) -> FewShotResult:
    """Adapts a policy to new tasks and evaluates it on them, in several trials.

    In a trial, each of the ``M`` task groups of ``envs`` stays on one task (class and goal). This
    is the evaluation of Meta-World's meta-learning benchmarks (Yu et al. 2019, arXiv:1910.10897).
    As in `evaluate`, episodes are complete and planned in advance, rewards are the environments'
    own, the seed determines the result, and neither the choice of tasks in training nor the
    statistics of normalizing wrappers change.

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
            its own trial of ``adaptation_episodes`` and then ``evaluation_episodes``.
        envs: One of our vector environments in SAME_STEP mode (the default), whose resets keep the
            task, or a wrapper of one.
        trials: The number of trials, each on one task of each group.
        adaptation_episodes: The number of episodes per adaptation step.
        evaluation_episodes: The number of episodes after adaptation.
        adaptation_steps: The number of calls of ``adapt``, each on new episodes.
        adaptation_terminate_on_success: Whether a success ends an episode of adaptation, which
            needs environments with ``toggle_terminate_on_success``; later episodes use the
            environments' own setting. ``None`` uses it for all episodes.
        tasks: The ``M`` tasks of each trial, for ``set_tasks``.
        action_chunk: For a policy that returns chunks of actions ``(N, H, A)``: how many of each
            are executed before the policy is asked again, in all episodes. The result names it.
        seed: The seed, zero or greater.
        finished: Finished episodes of the same evaluation. A trial whose episodes are all among
            them is not run again. A policy that draws from ``rng`` has one stream per environment
            over all trials, so its later trials then draw other numbers.
        confidence: The confidence level of the intervals, in (0, 1).
        resamples: The number of bootstrap resamples.
        evidence: An ``.npz`` file to write with the actions of every episode, including adaptation,
            with which `verify` checks the result. Given tasks must then be numbers, such as task
            states.
        policy_name: The name of the policy in the result.
        training_seed: The seed of the training run that made the policy, for the result.
        training_steps: The agent steps of that run until then, over all environments, for the
            result.
        protocol: The protocol that this evaluation follows; it is recorded in the result, and
            arguments or environments that contradict it raise an error. See `Protocol.evaluate`.

    Returns:
        Success, return and length during and after adaptation; see `FewShotResult`.

    Raises:
        TypeError, ValueError, RuntimeError: As in `evaluate`; or if the policy is of neither kind,
            ``tasks`` have another shape, the environments are in another autoreset mode, draw tasks
            at every reset or have no ``toggle_terminate_on_success`` where it is needed, something
            contradicts the protocol, or a finished episode does not belong to this evaluation.
        EvidenceError: If the evidence does not contain the trials in ``finished``.
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
    >>> len(result.adaptation.episodes), len(result.evaluation.episodes)
    (8, 24)
    """
    inner, seed = check_arguments(policy, envs, seed, confidence, resamples, action_chunk)
    if action_chunk is not None:
        action_chunk = positive(action_chunk, "action_chunk")
    check_name(policy_name, "policy_name")
    training = check_training(training_seed, training_steps)
    ends = adaptation_terminate_on_success
    design = Trials(
        trials=positive(trials, "trials"),
        adaptation_episodes=positive(adaptation_episodes, "adaptation_episodes"),
        evaluation_episodes=positive(evaluation_episodes, "evaluation_episodes"),
        adaptation_steps=positive(adaptation_steps, "adaptation_steps"),
        adapts=callable(getattr(policy, "adapt", None)),
        adaptation_terminate_on_success=None if ends is None else check_flag(ends, _ENDS),
    )
    _check_policy(policy, design)
    _check_envs(envs, inner)
    if tasks is not None:
        _check_tasks(tasks, design.trials, inner.meta_batch_size, evidence)
        design = replace(design, tasks=numbers(tasks))
    if protocol is not None:
        given = {**design.arguments, "tasks": tasks}
        check_evaluation(protocol, "few_shot_evaluate", envs, given)
    known = _whole_trials(finished, design, inner.meta_batch_size, inner.envs_per_task)
    episodes = [episode for own in known.values() for episode in own]
    writer = None
    with contextlib.ExitStack() as stack:
        # Entered first, so that it exits last, after the end of an interrupted step.
        ending = stack.enter_context(_Ending.of(inner, design))
        scale, raw = stack.enter_context(frozen(envs))
        observers: list[Observer] = [ending]
        if evidence is not None:
            writer = stack.enter_context(EvidenceWriter(evidence, episodes))
            observers.append(ActionRecorder(writer.add))
        act = PolicyCaller(
            policy,
            inner.meta_batch_size,
            inner.envs_per_task,
            seed=(seed,),
            action_chunk=action_chunk,
            action_shape=envs.single_action_space.shape,
        )
        run = _Run(policy, act, envs, design, seed, scale, raw, ending, observers)
        each = tasks or _draw_tasks(envs, inner, design.trials, seed)
        for trial, of_trial in enumerate(_with_goals(inner, each, seed)):
            if trial not in known:
                episodes += run.trial(trial, of_trial)
    whence = {"protocol": protocol, "policy": policy_name, "evidence": writer and writer.digest}
    provenance = Provenance.of(
        envs, design.evaluation_episodes, action_chunk=action_chunk, **whence, **training
    )
    episodes.sort(key=lambda one: (one.trial or 0, one.number))
    settings, first = (seed, confidence, resamples), design.adaptation_length
    return FewShotResult(
        EvaluationResult([one for one in episodes if one.number < first], *settings),
        EvaluationResult([one for one in episodes if one.number >= first], *settings, provenance),
        design,
    )


@dataclass(frozen=True)
class _Run:
    """Runs trials.

    Args:
        policy: The policy.
        act: Calls the policy for actions.
        envs: The environments.
        design: The plan of episodes.
        seed: The seed of the evaluation.
        scale: The scales of rewards from `frozen`.
        raw: The mask from `frozen`.
        ending: One of the observers.
        observers: The observers of every step.
    """

    policy: Any
    act: PolicyCaller
    envs: Any
    design: Trials
    seed: int
    scale: NDArray[np.float64]
    raw: Flags
    ending: _Ending
    observers: Sequence[Observer]

    def trial(self, trial: int, tasks: Sequence[Any]) -> list[Episode]:
        """Runs a trial on one task of each group; returns its episodes in the order they ended."""
        if callable(begin := getattr(self.policy, "begin_trial", None)):
            begin()
        episodes, last = [], len(self.design.stages) - 1
        for stage in range(last + 1):
            self.ending.begin_stage(stage < last or not self.design.adapts)
            recorder = Recorder() if stage < last else None
            episodes += self._stage(trial, stage, tasks, recorder)
            if recorder is not None:
                share = self.envs.unwrapped.envs_per_task
                self.policy.adapt(_by_task(recorder.paths(), share))
        return episodes

    def _stage(
        self, trial: int, stage: int, tasks: Sequence[Any], recorder: Recorder | None
    ) -> list[Episode]:
        """Runs the episodes of a stage, which begins with a seeded reset."""
        inner = self.envs.unwrapped
        getattr(self.envs, "set_tasks", inner.set_tasks)(tasks)
        seeds = [stream_seed(self.seed, trial, stage, i) for i in range(inner.num_envs)]
        obs, infos = self.envs.reset(seed=seeds)
        plan = self.design.plan(trial, stage, task_names(inner, infos), tasks, self.seed)
        quotas = np.array([len(own) for own in plan], dtype=np.int64)
        tally = Tally(plan, self.scale, self.raw, self.observers)
        observe = (tally,) if recorder is None else (tally, recorder)
        rollout(self.envs, self.act, quotas, obs, names=tally.names, observe=observe)
        return [episode for _, episode in tally.ended]


class _Ending(Observer):
    """Sets whether a success ends an episode, during adaptation and afterwards."""

    _TOGGLE = "toggle_terminate_on_success"

    def __init__(self, inner: MetaVectorEnv, on: bool | None, last: int) -> None:
        self._inner, self._on, self._last = inner, on, last
        self._own = (
            [] if on is None else [bool(own) for own in inner.get_attr("terminate_on_success")]
        )

    @classmethod
    @contextlib.contextmanager
    def of(cls, inner: MetaVectorEnv, design: Trials) -> Iterator[_Ending]:
        """A context manager that restores the environments' own setting at its end.

        Raises:
            ValueError: If environments do not have the method.
        """
        on = design.adaptation_terminate_on_success
        if on is not None and not has_everywhere(inner, cls._TOGGLE):
            raise ValueError(
                f"{_ENDS}={on} needs environments with {cls._TOGGLE}, such "
                "as those of Meta-World's ids"
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
        self._inner.call_some([i], self._TOGGLE, on)


def _whole_trials(
    finished: Sequence[Episode], design: Trials, m: int, k: int
) -> dict[int, list[Episode]]:
    """The finished episodes of each complete trial."""
    left = {(one.trial, one.number): one for one in finished}
    if len(left) < len(finished):
        raise ForeignEpisodeError("finished must be episodes of this evaluation, each once")
    found = {}
    for trial in range(design.trials) if left else ():
        places = list(design.of_trial(trial, m, k))
        of_trial = [left.pop(place) for place in places if place in left]
        if len(of_trial) == len(places):
            found[trial] = of_trial
    if left:
        one = next(iter(left.values()))
        raise ForeignEpisodeError(f"finished must be episodes of this evaluation, got {one}")
    return found


def _by_task(each: Sequence[Sequence[Path]], share: int) -> list[list[Path]]:
    """The paths of each task: the first of every environment, then the second, and so on."""
    rounds = (itertools.zip_longest(*each[i : i + share]) for i in range(0, len(each), share))
    return [
        with_common_infos([path for row in of_task for path in row if path is not None])
        for of_task in rounds
    ]


def _check_policy(policy: Any, design: Trials) -> None:
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


def _check_tasks(tasks: Any, trials: int, m: int, evidence: Any) -> None:
    listed = isinstance(tasks, (list, tuple))
    listed = listed and all(isinstance(of_trial, (list, tuple)) for of_trial in tasks)
    if not listed or [len(of_trial) for of_trial in tasks] != [m] * trials:
        raise ValueError(
            f"tasks must be {trials} lists, one per trial, of {m} tasks, got {tasks!r}"
        )
    if evidence is not None and numbers(tasks) is None:
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


def _draw_tasks(envs: Any, inner: MetaVectorEnv, trials: int, seed: int) -> list[list[Any]]:
    m, k = inner.meta_batch_size, inner.envs_per_task
    if has_everywhere(inner, "task_states"):
        return draw_states(inner.get_attr("task_states")[::k], trials, seed)
    if not has_everywhere(inner, "sample_tasks"):
        raise ValueError(
            "the environments have neither task_states nor sample_tasks: pass tasks, "
            f"{m} for each of {trials} trials"
        )
    envs.reset(seed=stream_seed(seed, 0))
    drawn = list(inner.call_some([0], "sample_tasks", m * trials)[0])
    return [drawn[t * m : (t + 1) * m] for t in range(trials)]


def _with_goals(inner: MetaVectorEnv, tasks: Sequence[Sequence[Any]], seed: int) -> list[list[Any]]:
    """The tasks of each trial, with a goal that follows from the seed where it is to be drawn.

    All environments of a group then have one goal, whatever their seeds and streams.
    """
    rows, k = [list(of_trial) for of_trial in tasks], inner.envs_per_task
    if has_everywhere(inner, "exact_task_state"):
        for trial, group in itertools.product(range(len(rows)), range(inner.meta_batch_size)):
            if isinstance(state := rows[trial][group], (int, np.integer)):
                args = state, stream_seed(seed, group, trial)
                [rows[trial][group]] = inner.call_some([group * k], "exact_task_state", *args)
    return rows
