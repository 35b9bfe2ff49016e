"""Evaluation along a stream: scores of all phases while a policy is trained on each."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeAlias, Unpack

import gymnasium
from gymnasium.vector import VectorWrapper

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.checks import (
    check_callable,
    check_flag,
    check_index,
    check_list,
    not_negative,
    positive,
)
from mtwrappers.common.errors import short
from mtwrappers.common.seeding import check_seed
from mtwrappers.continual.stream import PhasedStream, TaskStream, VectorTaskStream
from mtwrappers.evaluation.evaluating import evaluate
from mtwrappers.evaluation.evidence import numbered_evidence
from mtwrappers.evaluation.remake import make_held, phase_label
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import EXECUTOR_OPTIONS, Execution, ExecutorOptions, make_executor

# ``learn(steps)`` trains for a number of further agent steps, and returns the policy.
Learn: TypeAlias = Callable[[int], Any]
MakeEnv: TypeAlias = Callable[[], Any]
# The arguments of a `PhaseEvaluator` that functions here pass on.
_SETTINGS = (
    *("episodes_per_phase", "phases", "seed", "evidence", "resume", "progress"),
    *sorted(EXECUTOR_OPTIONS),
)
# The way out if a learner is something else, such as a policy.
_LEARNER = (
    "make_learner(env) must return a function learn(steps), which trains in env for that many "
    "steps and returns the policy"
)


class PhaseEvaluator:
    """Evaluates policies in every phase of a stream, in environments that are made for it.

    Whoever trains in a stream calls it as often as the curves are to have points. The environments
    that are trained in are not touched. Every call runs the same episodes, so that only the policy
    affects the scores. A phase is a task of the results, with its number in its name.

    Args:
        make: Makes an environment with a `TaskStream`, such as
            ``functools.partial(gymnasium.make, "mtwrappers/CW10-v0")``, like the one that is
            trained in: the policy receives its observations in each phase.
        episodes_per_phase: The number of episodes per score.
        phases: The numbers of the phases to evaluate; by default all.
        seed: Determines the episodes.
        evidence: An ``.npz`` file of actions for each call, with the number of the call in its
            name: ``"cw10.npz"`` stands for ``cw10-0.npz`` and so on. `verify` reads them beside
            ``cw10.json`` from `save_results`; if ``make`` does not make an environment of this
            package by its id, pass it ``envs=evaluator.envs``.
        resume: Whether each call continues from the episodes in its file of ``evidence``, if there
            is one, as `evaluate` does. Training is run again by whoever trains; give policies a
            ``policy_id``, so that the episodes are not those of another policy.
        progress: Whether each call displays a progress bar of its episodes.
        execution: See `mtwrappers.vector.make.make_executor`.
        **options: The other arguments of `mtwrappers.vector.make.make_executor`, such as
            ``workers``.

    Attributes:
        phases: The name and the steps of each phase of the stream.
        results: The results of all calls.

    Raises:
        TypeError: If ``make`` makes no environment with a `TaskStream`, or there is no such
            argument.
        ValueError: If an argument is none of those.

    >>> import gymnasium, numpy as np
    >>> import mtwrappers as mt
    >>> from mtwrappers.continual.evaluate import PhaseEvaluator
    >>> from functools import partial
    >>> pendulum = partial(gymnasium.make, "Pendulum-v1", max_episode_steps=20)
    >>> makers = [partial(pendulum, g=g) for g in (2.0, 10.0)]
    >>> def make():
    ...     return mt.TaskStream(mt.MultiEnvWrapper(makers), [(0, 40), (1, 40)])
    >>> def policy(observations):
    ...     return np.zeros((len(observations["task_obs"]), 1))
    >>> evaluator = PhaseEvaluator(make, 1)
    >>> result = evaluator(policy, step=0)
    >>> [result.per_task[phase]["length"].value for phase in result.tasks]
    [20.0, 20.0]
    >>> evaluator.close()
    """

    def __init__(
        self,
        make: MakeEnv,
        episodes_per_phase: int = 10,
        *,
        phases: Sequence[int] | None = None,
        seed: int = 0,
        evidence: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool = False,
        execution: Execution | None = None,
        **options: Unpack[ExecutorOptions],
    ) -> None:
        with closing(check_callable(make, "make")()) as env:
            self._phases, spec = _list_phases(_find_stream(env, TaskStream)), env.spec
        self.phases = tuple((name, phase.steps) for name, phase in self._phases)
        self._episodes = positive(episodes_per_phase, "episodes_per_phase")
        self._seed = check_seed(seed)
        self._evidence = None if evidence is None else Path(evidence)
        self._resume = check_flag(resume, "resume")
        self._progress = check_flag(progress, "progress")
        if self._resume and self._evidence is None:
            raise ValueError("resume=True continues from the episodes in evidence, got None")
        self._first_number = 0  # of the files of evidence
        makers = [
            functools.partial(make_held, make, i, phase_label(i, self.phases[i][0]))
            for i in _check_phases(phases, len(self.phases))
        ]
        self._envs = make_executor(makers, len(makers), execution=execution, **options)
        if spec is not None:  # results name the environment by it
            kwargs = dict(spec.kwargs)
            if spec.max_episode_steps is not None:
                kwargs["max_episode_steps"] = spec.max_episode_steps
            self._envs.spec = replace(spec, kwargs=kwargs)
        self.results: list[EvaluationResult] = []

    def __call__(self, policy: Any, step: int) -> EvaluationResult:
        """Evaluates a policy that was trained for ``step`` agent steps.

        Args:
            policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, a row for each
                phase, or an object with ``get_actions``; see `evaluate`.
            step: Greater than in the previous call.

        Returns:
            The result, which is kept too.

        Raises:
            ValueError: If ``step`` is not greater.
        """
        step = not_negative(step, "step")
        last = self.results[-1].description.training_steps if self.results else None
        if last is not None and step <= last:
            raise ValueError(
                f"expected a step after {last}, got {step}: between two evaluations, a learner "
                "must step the environment that it was given, and must not reset it with a seed, "
                "which restarts the stream; if it collects whole rollouts, let it collect one more "
                "than fits"
            )
        path = self._evidence
        if path is not None:
            path = numbered_evidence(path, self._first_number + len(self.results))
        result = evaluate(
            policy,
            self._envs,
            self._episodes,
            seed=self._seed,
            evidence=path,
            resume=self._resume,
            progress=self._progress,
        )
        assert result.design is not None  # only results that were made by hand have none
        design = replace(result.design, phases=self.phases, tasks=result.tasks)
        self.results.append(replace(result, design=design).described(training_steps=step))
        return self.results[-1]

    @property
    def envs(self) -> MetaVectorEnv:
        """The environments, one for each evaluated phase, for ``verify(..., envs=...)``."""
        return self._envs

    def close(self) -> None:
        """Closes the environments."""
        self._envs.close()


@explains_arguments(_SETTINGS)
def continual_evaluate(
    make_learner: Callable[[Any], Learn],
    make: MakeEnv,
    evaluations_per_phase: int = 10,
    *,
    train_in: MakeEnv | None = None,
    **settings: Any,
) -> list[EvaluationResult]:
    """Trains along a stream and evaluates all of its phases, before and during training.

    Every result is recorded at the learner's actual step, which is later than the requested one if
    its rollouts do not divide the phases; a phase is then scored at the last of these steps inside
    it. If ``at_end`` is ``"stay"``, steps that a learner takes after the end of the stream are part
    of its last score.

    Args:
        make_learner: ``make_learner(env)`` returns a function ``learn(steps)``, which trains in
            ``env`` for this many more agent steps and returns the policy, as `evaluate` takes it.
            After a call that takes more steps than requested, the next call requests fewer.
        make: Makes an environment with the `TaskStream`, like the one that is trained in; it is
            called for the environments to evaluate in.
        evaluations_per_phase: The number of evenly spaced points of each phase, the last at its
            end; fewer if a learner steps past one of them.
        train_in: Makes the environment to train in, such as a `VectorTaskStream`, of the same
            phases; by default it is ``make``.
        **settings: How phases are evaluated, as `PhaseEvaluator` describes it:
            ``episodes_per_phase``, ``seed``, ``evidence``, ``resume``, ``progress``, and those of
            the executor, such as ``workers``.

    Returns:
        A result for each point, with the learner's step as ``training_steps``. `ContinualResult`
        computes forgetting and transfer from those of one run or of several.

    Raises:
        TypeError: As `PhaseEvaluator`, or if ``make_learner`` or what it returns is not callable.
        ValueError: As `PhaseEvaluator`; if ``train_in`` makes a stream of other phases, tasks or
            budgets than ``make``; or if the learner takes no step, or comes to the end of a phase
            before that phase was scored.

    >>> import gymnasium, numpy as np
    >>> import mtwrappers as mt
    >>> from functools import partial
    >>> pendulum = partial(gymnasium.make, "Pendulum-v1", max_episode_steps=20)
    >>> makers = [partial(pendulum, g=g) for g in (2.0, 10.0)]
    >>> def make():
    ...     return mt.TaskStream(mt.MultiEnvWrapper(makers), [(0, 40), (1, 40)])
    >>> def policy(observations):
    ...     return np.zeros((len(observations["task_obs"]), 1))
    >>> def make_learner(env):
    ...     def learn(steps):  # takes this many steps in env, here without learning
    ...         for _ in range(steps):
    ...             _, _, terminated, truncated, _ = env.step([0.0])
    ...             if terminated or truncated:
    ...                 env.reset()
    ...         return policy
    ...     env.reset(seed=0)
    ...     return learn
    >>> sizes = {"evaluations_per_phase": 1, "episodes_per_phase": 1}
    >>> results = mt.continual_evaluate(make_learner, make, **sizes)
    >>> [result.description.training_steps for result in results]
    [0, 40, 80]
    """
    with closing(PhaseEvaluator(make, **settings)) as evaluator:
        return _train(make_learner, train_in or make, evaluations_per_phase, evaluator)


@explains_arguments(_SETTINGS)
def single_task_baselines(
    make_learner: Callable[[Any], Learn],
    make: MakeEnv,
    evaluations_per_phase: int = 10,
    *,
    train_in: MakeEnv | None = None,
    **settings: Any,
) -> list[EvaluationResult]:
    """Trains on each task of a stream alone, the baseline of forward transfer.

    For every task a new learner is made, and trained for the budget of the phase in which the task
    comes first. Scores are recorded at the same steps as by `continual_evaluate`.

    Args:
        make_learner: ``make_learner(env)`` returns a function ``learn(steps)``, which trains in
            ``env`` for this many more agent steps and returns the policy. It is called for every
            task.
        make: Makes an environment with the `TaskStream`.
        evaluations_per_phase: How many points each phase has, evenly spaced, the last at its end.
        train_in: Makes the environment to train in, of the same phases; by default it is ``make``.
        **settings: How a phase is evaluated, as for `continual_evaluate`.

    Returns:
        For each task and each point a result of one phase, for `ContinualResult`.

    Raises:
        TypeError, ValueError: As `continual_evaluate`.

    >>> import gymnasium, numpy as np
    >>> import mtwrappers as mt
    >>> from mtwrappers.continual.evaluate import single_task_baselines
    >>> from functools import partial
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 10.0)]
    >>> def make():
    ...     return mt.TaskStream(mt.MultiEnvWrapper(makers), [(0, 40), (1, 40)])
    >>> def policy(observations):
    ...     return np.zeros((len(observations["task_obs"]), 1))
    >>> def make_learner(env):
    ...     def learn(steps):  # takes so many steps in env, here without learning
    ...         for _ in range(steps):
    ...             env.step([0.0])
    ...         return policy
    ...     env.reset(seed=0)
    ...     return learn
    >>> sizes = {"evaluations_per_phase": 1, "episodes_per_phase": 1}
    >>> baselines = single_task_baselines(make_learner, make, **sizes)
    >>> [(result.tasks, result.description.training_steps) for result in baselines]
    [(('0 task 0',), 0), (('0 task 0',), 40), (('1 task 1',), 0), (('1 task 1',), 40)]
    """
    with closing(check_callable(make, "make")()) as env:
        names = _find_stream(env, TaskStream).phase_names
    results: list[EvaluationResult] = []
    for phase in sorted(map(names.index, {*names})):
        with closing(PhaseEvaluator(make, phases=[phase], **settings)) as evaluator:
            evaluator._first_number = len(results)  # all results are saved in one file
            train_env = train_in or make
            results += _train(
                make_learner, train_env, evaluations_per_phase, evaluator, only_phase=phase
            )
    return results


def _train(
    make_learner: Callable[[Any], Learn],
    make: MakeEnv,
    evaluations_per_phase: int,
    evaluator: PhaseEvaluator,
    only_phase: int | None = None,
) -> list[EvaluationResult]:
    """Trains along the stream, or only in one phase."""
    per_phase = positive(evaluations_per_phase, "evaluations_per_phase")
    with closing(make()) as env:
        stream: Any = _find_stream(env, PhasedStream)
        _require_phases(stream, evaluator)
        budgets = [steps for _, steps in evaluator.phases]
        if only_phase is not None:
            budgets = [budgets[only_phase]]
            if isinstance(stream, TaskStream):
                stream.held_phase = only_phase
                env = stream = _StepCounter(env)
            else:
                env.unwrapped.set_attr("held_phase", only_phase)
        learn = check_callable(make_learner, "make_learner")(env)
        check_callable(learn, "the learn(steps) that make_learner returns")
        ends = list(itertools.accumulate(budgets))
        _train_through_phases(learn, stream, ends, per_phase, evaluator)
        return evaluator.results


class _StepCounter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts the steps of an environment whose stream is held in a phase, and counts none."""

    stream_steps = 0

    def step(self, action: Any) -> Any:
        self.stream_steps += 1
        return self.env.step(action)


def _train_through_phases(
    learn: Learn, stream: Any, ends: Sequence[int], per_phase: int, evaluator: PhaseEvaluator
) -> None:
    """Trains through phases, from one of ``ends`` to the next, and evaluates on the way."""
    steps_at_once = getattr(stream, "num_envs", 1)

    def score(policy: Any) -> None:
        # The number of environments need not divide the budget that their common step uses up:
        # then no step of the next phase was taken.
        steps = stream.stream_steps
        reached = [end for end in ends if 0 <= steps - end < steps_at_once]
        evaluator(policy, reached[0] if reached else steps)

    score(_begin_learning(learn))
    for phase, (begin, end) in enumerate(itertools.pairwise((0, *ends))):
        for k in range(1, per_phase + 1):
            remaining = begin + round((end - begin) * k / per_phase) - stream.stream_steps
            if remaining > 0:
                score(learn(remaining))
        points = [result.description.training_steps or 0 for result in evaluator.results]
        if not any(begin < step <= end for step in points):
            raise ValueError(
                f"phase {phase}, from step {begin} to {end}, has no score: "
                f"{_describe_missed_phase(points, begin, end)}"
            )


def _begin_learning(learn: Learn) -> Any:
    """The policy before training; an error of something else than a learner gets a note.

    Raises:
        TypeError: If it is no policy.
    """
    try:
        policy = learn(0)
    except Exception as exc:
        exc.add_note(f"in learn(0): {_LEARNER}")
        raise
    if not callable(policy) and not callable(getattr(policy, "get_actions", None)):
        raise TypeError(f"learn(0) must return a policy, got {short(policy)}: {_LEARNER}")
    return policy


def _describe_missed_phase(points: Sequence[int], begin: int, end: int) -> str:
    """The reason why a phase has no score, and the way out.

    Args:
        points: The steps at which the learner was evaluated.
        begin: The step at which the phase begins.
        end: The step at which it ends.
    """
    if points[-1] <= begin:
        return (
            f"the learner was only at step {points[-1]} when learn(steps) returned for the last "
            "time, and must take at least `steps` steps in its environment"
        )
    return (
        f"learn(steps) returned at the steps {points[-3:]}, none of which is in the phase. Let the "
        f"learner collect rollouts whose steps, over all environments, divide {end - begin}; or, "
        "if a rollout is shorter than the phase, pass more evaluations_per_phase; or call a "
        "PhaseEvaluator in your own training loop"
    )


def _check_phases(phases: Sequence[int] | None, num_phases: int) -> list[int]:
    """Returns the numbers of the phases to evaluate, each once; raises as `PhaseEvaluator` does."""
    if phases is None:
        return [*range(num_phases)]
    numbers = check_list(phases, "phases", "phase")
    numbers = [check_index(number, num_phases, "each of phases") for number in numbers]
    for number in numbers:
        if numbers.count(number) > 1:
            raise ValueError(f"phases must hold each phase once, got {number} twice in {numbers}")
    return numbers


def _list_phases(stream: Any) -> list[Any]:
    """The name of each phase, and the phase."""
    return [*zip(stream.phase_names, stream.phases, strict=True)]


def _require_phases(stream: Any, evaluator: PhaseEvaluator) -> None:
    """Requires that the training stream has the same phases as the evaluated one."""
    pairs = itertools.zip_longest(evaluator._phases, _list_phases(stream))
    for i, (expected, actual) in enumerate(pairs):
        if repr(actual) != repr(expected):
            raise ValueError(
                f"train_in must make a stream with the phases of make: phase {i} must be "
                f"{shorten(repr(expected), 100)}, got {shorten(repr(actual), 100)}"
            )


def _find_stream(env: Any, kind: type[PhasedStream]) -> Any:
    """Returns the stream inside an environment."""
    while isinstance(env, VectorWrapper) and not isinstance(env, VectorTaskStream):
        env = env.env
    stream = env.unwrapped if isinstance(env, gymnasium.Env) else env
    if not isinstance(stream, kind):
        raise TypeError(f"expected an environment with a TaskStream inside, got {env}")
    return stream
