"""How good does a policy become at tasks that it has never seen?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.checks import positive
from mtwrappers.evaluation.actions import CheckedPolicy
from mtwrappers.evaluation.few_shot_result import FewShotResult
from mtwrappers.evaluation.plan import executor_of, has_everywhere, stream_seed
from mtwrappers.evaluation.result import EvaluationResult, check_confidence
from mtwrappers.evaluation.trials import Trials
from mtwrappers.seeding import check_seed
from mtwrappers.vector.base import MetaVectorEnv


def few_shot_evaluate(
    policy: Any,
    envs: Any,
    trials: int = 10,
    adaptation_episodes: int = 10,
    evaluation_episodes: int = 3,
    *,
    adaptation_steps: int = 1,
    tasks: Sequence[Sequence[Any]] | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> FewShotResult:
    """Lets a policy adapt to new tasks, then evaluates it on them, trial after trial.

    In a trial each of the ``M`` task groups of ``envs`` stays on one task (class and goal). The
    protocol is that of Meta-World's meta-learning benchmarks (Yu et al. 2019, arXiv:1910.10897;
    `metaworld.evaluation`), with episodes counted as in `evaluate`: whole, and decided before.

    The policy is one of two kinds, and a callable (or ``get_actions``) with ``reset(mask)`` as for
    `evaluate` in any case:

    * It has ``adapt(paths)``, like MAML: ``begin_trial()``, where it has one, restores what it
      meta-learnt; ``adapt`` is given the ``adaptation_episodes`` paths of each task (a list of
      ``M`` lists, see `mtwrappers.samplers.trajectory`), ``adaptation_steps`` times; then
      ``evaluation_episodes`` are played of each task. ``K`` environments a task share its episodes.
    * It has only ``begin_trial()``, like RL2 (Duan et al. 2016, arXiv:1611.02779): that empties its
      memory, and ``reset(mask)`` between episodes does not. Every environment plays
      ``adaptation_episodes`` and goes straight on to ``evaluation_episodes``; with ``K``
      environments a task, each is a trial of its own.

    Tasks are drawn from each group's own (held-out ones, in the ``-test`` ids), in a random order
    and none again before all have come, by index on Meta-World and with ``sample_tasks`` elsewhere;
    or they are given. The same seed gives the same result, on every executor and for any number of
    workers, if the policy is deterministic.

    Args:
        policy: See above.
        envs: One of our vector environments in SAME_STEP mode (the default), whose resets stay on
            the task, or a wrapper of one.
        trials: How many tasks each group plays.
        adaptation_episodes: How many episodes there are to adapt on (for each step).
        evaluation_episodes: How many after that.
        adaptation_steps: How often ``adapt`` is called, each time on new episodes.
        tasks: For each trial ``M`` tasks, for ``set_tasks``.
        seed: Zero or greater.
        confidence: How likely the intervals cover the truth, in (0, 1).
        resamples: How many bootstrap resamples.

    Returns:
        Success, return and length while adapting and after; see `FewShotResult`.

    Raises:
        TypeError: If the policy is of neither kind, or the environments are not ours.
        ValueError: If a number is out of range, ``tasks`` have another shape, the environments are
            in another autoreset mode or draw tasks in every reset, or the policy's actions have
            another shape or are NaN.

    >>> import gymnasium, numpy as np
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
    inner = executor_of(envs)
    trials = positive(trials, "trials")
    adaptation_episodes = positive(adaptation_episodes, "adaptation_episodes")
    evaluation_episodes = positive(evaluation_episodes, "evaluation_episodes")
    adaptation_steps = positive(adaptation_steps, "adaptation_steps")
    seed = check_seed(seed)
    check_confidence(confidence)
    positive(resamples, "resamples")
    kind = _check_policy(policy, adaptation_steps)
    act = CheckedPolicy(policy, envs)
    _check_envs(envs, inner)
    drawn = (
        _draw_tasks(envs, inner, trials, seed) if tasks is None else _check(tasks, inner, trials)
    )
    played = Trials(
        policy, act, envs, adaptation_episodes, evaluation_episodes, adaptation_steps, seed
    )
    for trial, own in enumerate(drawn):
        (played.gradient_trial if kind == "adapt" else played.memory_trial)(trial, own)
    return FewShotResult(
        EvaluationResult(played.adaptation, seed, confidence, resamples),
        EvaluationResult(played.evaluation, seed, confidence, resamples),
    )


def _check_policy(policy: Any, adaptation_steps: int) -> str:
    if callable(getattr(policy, "adapt", None)):
        return "adapt"
    if not callable(getattr(policy, "begin_trial", None)):
        raise TypeError(
            "a policy that adapts must have adapt(paths) or begin_trial(); for one that does not, "
            f"there is evaluate. Got {policy!r}"
        )
    if adaptation_steps != 1:
        raise ValueError(
            f"adaptation_steps={adaptation_steps} needs a policy with adapt(paths); one that "
            "remembers adapts in one go"
        )
    return "remember"


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
            f"the environments draw a task in every reset, and trials stay on one: make them with "
            f"{name}=False"
        )


def _draw_tasks(envs: Any, inner: MetaVectorEnv, trials: int, seed: int) -> list[list[Any]]:
    m, k = inner.meta_batch_size, inner.envs_per_task
    if has_everywhere(inner, "task_states"):
        columns = []
        for group, own in enumerate(inner.get_attr("task_states")[::k]):
            rng = Generator(PCG64(SeedSequence(seed, spawn_key=(group,))))
            sweeps = [rng.permutation(own) for _ in range(-(-trials // len(own)))]
            columns.append(np.concatenate(sweeps)[:trials].tolist())
        return [list(row) for row in zip(*columns, strict=True)]
    if not has_everywhere(inner, "sample_tasks"):
        raise ValueError(
            "the environments have neither task_states nor sample_tasks: pass tasks, "
            f"{m} for each of {trials} trials"
        )
    envs.reset(seed=stream_seed(seed, 0))
    drawn = list(inner.call("sample_tasks", m * trials)[0])
    return [drawn[t * m : (t + 1) * m] for t in range(trials)]


def _check(tasks: Sequence[Sequence[Any]], inner: MetaVectorEnv, trials: int) -> list[list[Any]]:
    m = inner.meta_batch_size
    sizes = [len(own) for own in tasks]
    if sizes != [m] * trials:
        raise ValueError(f"tasks must hold {m} tasks for each of {trials} trials, got {sizes}")
    return [list(own) for own in tasks]
