"""Continual World's streams: the functions that `gymnasium.make` and `gymnasium.make_vec` call.

The tasks, their order, the budgets and the horizon are those of Continual World (Wolczyk et al.
2021, arXiv:2105.10919, and its repository awarelab/continual_world), with the third version of
Meta-World's classes instead of the first.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, Unpack

from gymnasium.wrappers import RecordEpisodeStatistics
from numpy.typing import ArrayLike

from mtwrappers.common.checks import check_episode_steps, check_keywords, positive
from mtwrappers.common.seeding import check_seed
from mtwrappers.common.types import AnyEnv
from mtwrappers.continual.stream import AtEnd, Boundary, TaskObs, TaskStream, VectorTaskStream
from mtwrappers.core.pad_spaces import Unify
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.metaworld.keywords import CommonKeywords
from mtwrappers.metaworld.make import make_mt_env
from mtwrappers.metaworld.tasks import Goals
from mtwrappers.metaworld.wrapper_settings import split_wrapper_settings
from mtwrappers.vector.make import EXECUTOR_OPTIONS, VECTOR_HINT, VectorOptions, make_executor

CW10 = (
    "hammer-v3",
    "push-wall-v3",
    "faucet-close-v3",
    "push-back-v3",
    "stick-pull-v3",
    "handle-press-side-v3",
    "push-v3",
    "shelf-place-v3",
    "window-close-v3",
    "peg-unplug-side-v3",
)
SEQUENCES = {"CW10": CW10, "CW20": CW10 * 2}
_EPISODE_STEPS = 200  # the limit that the ids are registered with


class EnvKeywords(CommonKeywords, total=False):
    """Keywords of `make_env`."""

    max_episode_steps: int | None


class VectorKeywords(CommonKeywords, VectorOptions, total=False):
    """Keywords of `make_vec_env`: those of `make_env`, and the options of executors."""

    steps_per_task: int
    boundary: Boundary
    task_obs: TaskObs
    task_embedding: ArrayLike | None
    at_end: AtEnd
    goals: Goals
    unify: Unify


# The arguments of both functions.
_VECTOR_ARGUMENTS = {"sequence", "num_envs", "seed", "max_episode_steps"}
_VECTOR_ARGUMENTS |= VectorKeywords.__optional_keys__
_ONLY_VECTOR = {"num_envs", *EXECUTOR_OPTIONS}
_ENV_ARGUMENTS = _VECTOR_ARGUMENTS - _ONLY_VECTOR


def make_env(
    sequence: Literal["CW10", "CW20"],
    *,
    steps_per_task: int = 1_000_000,
    boundary: Boundary = "truncate",
    task_obs: TaskObs = "phase",
    task_embedding: ArrayLike | None = None,
    at_end: AtEnd = "stay",
    goals: Goals = "continuous",
    seed: int | None = None,
    **settings: Unpack[EnvKeywords],
) -> AnyEnv:
    """One environment on a sequence of tasks, each for a budget of steps.

    Args:
        sequence: The sequence's name.
        steps_per_task: The budget of each phase.
        boundary: What happens to the episode at a phase's end, see `TaskStream`.
        task_obs: What the one-hot (or ``task_obs``) stands for: the ``"phase"``, as in Continual
            World, or the ``"task"``; it is the same for CW10.
        task_embedding: Numbers to observe in each phase, ``(num_phases, E)``, before a one-hot.
        at_end: What follows after the last step, see `TaskStream`.
        goals: ``"continuous"``, as in Continual World, or ``"list"``: one of the class's 50.
        seed: Determines the goals, the action space's samples, and the first reset without a seed;
            ``None`` takes entropy.
        **settings: The settings of classes and observations that the other Meta-World ids have.

    Raises:
        TypeError: If there is no such argument; the message names what comes close.
        ValueError: If an argument is not valid.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/CW10-v0", steps_per_task=1000)
    >>> obs, info = env.reset(seed=0)
    >>> obs.shape, info["task_name"], info["phase"], env.unwrapped.total_steps
    ((49,), 'hammer-v3', 0, 10000)
    """
    hints = dict.fromkeys(_ONLY_VECTOR, VECTOR_HINT)
    check_keywords(settings, _ENV_ARGUMENTS, f"make of {sequence}", hints)
    wrappers, options = split_wrapper_settings("CustomMT", {**settings})
    env = make_mt_env("CustomMT", train_classes=CW10, goals=goals, seed=seed, **options)
    stream = TaskStream(
        env,
        [(name, steps_per_task) for name in SEQUENCES[sequence]],
        boundary=boundary,
        task_obs=task_obs,
        task_embedding=task_embedding,
        at_end=at_end,
    )
    if seed is not None:
        stream.action_space.seed(check_seed(seed))
    return wrappers.wrap(stream)


# `gymnasium.make` reads this attribute of the entry point.
make_env.metadata = METADATA  # type: ignore[attr-defined]


def make_vec_env(
    sequence: Literal["CW10", "CW20"],
    num_envs: int = 1,
    *,
    seed: int | None = None,
    max_episode_steps: int | None = _EPISODE_STEPS,
    **settings: Unpack[VectorKeywords],
) -> VectorTaskStream:
    """Environments that share one sequence: a budget counts the steps of all of them.

    Args:
        sequence: The sequence's name.
        num_envs: The number of environments; all of them are on the same task.
        seed: Determines the goals, the action space's samples, and the first reset without a seed;
            ``None`` takes entropy. Environment ``i`` has the seed ``seed + i``, as after a `reset`.
            So streams share no goals if their seeds are ``num_envs`` or more apart.
        max_episode_steps: The step at which to truncate; as in `gymnasium.make`, ``None`` is the
            id's own limit of 200, and -1 is no limit.
        **settings: Arguments of `make_env` and of `mtwrappers.vector.make.make_executor`.

    Raises:
        TypeError: If there is no such argument; the message names what comes close.
        ValueError: If an argument is not valid, or a budget is below ``num_envs``.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/CW10-v0", num_envs=2, steps_per_task=1000)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape, infos["task_name"][1], envs.total_steps
    ((2, 49), 'hammer-v3', 10000)
    >>> envs.close()
    """
    check_keywords(settings, _VECTOR_ARGUMENTS, f"make_vec of {sequence}")
    seed = None if seed is None else check_seed(seed)
    num_envs = positive(num_envs, "num_envs")
    limit = check_episode_steps(max_episode_steps, _EPISODE_STEPS)
    env_options: dict[str, Any] = {**settings}
    executor_options = {
        name: env_options.pop(name) for name in EXECUTOR_OPTIONS if name in env_options
    }
    makers = [
        functools.partial(
            _make_slot,
            sequence,
            seed=None if seed is None else seed + i,
            max_episode_steps=limit,
            **env_options,
        )
        for i in range(num_envs)
    ]
    _, class_options = split_wrapper_settings("CustomMT", env_options)
    renders = class_options.get("render_mode") is not None
    executor = make_executor(makers, 1, num_envs, renders=renders, **executor_options)
    envs = VectorTaskStream(executor)
    if seed is not None:
        envs.action_space.seed(seed)
    return envs


def _make_slot(sequence: Any, **settings: Any) -> AnyEnv:
    return RecordEpisodeStatistics(make_env(sequence, **settings))
