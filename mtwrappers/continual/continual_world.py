"""Continual World's streams: the functions that `gymnasium.make` and `gymnasium.make_vec` call.

The tasks, their order, the budgets and the horizon are those of Continual World (Wolczyk et al.
2021, arXiv:2105.10919, and its repository awarelab/continual_world), with the third version of
Meta-World's classes instead of the first.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

from gymnasium.spaces import Text
from gymnasium.wrappers import RecordEpisodeStatistics
from numpy.typing import ArrayLike

from mtwrappers.common.checks import check_flag, check_keywords, positive
from mtwrappers.common.seeding import check_seed
from mtwrappers.continual.phases import AtEnd
from mtwrappers.continual.stream import Boundary, TaskObs, TaskStream
from mtwrappers.continual.vector_stream import VectorTaskStream
from mtwrappers.metaworld.agent_view import INPUTS, AgentView, take_inputs
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.metaworld.continuous import Goals
from mtwrappers.metaworld.registered import SETTINGS, Env, make_mt_env, parameters_of, settle
from mtwrappers.vector.make import EXECUTOR_OPTIONS, make_executor

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
# What both take beside the arguments in the signature of `make_stream`.
_PASSED = {"action_repeat", "descriptions", "num_goals", "terminate_on_success", *SETTINGS, *INPUTS}


def make_env(sequence: Literal["CW10", "CW20"], **kwargs: Any) -> Env:
    """One environment on a sequence of tasks, each for a budget of steps.

    Args:
        sequence: The sequence's name.
        **kwargs: The stream: ``steps_per_task``, the budget of each phase (1,000,000 by default);
            ``boundary``, ``task_obs`` (``"phase"`` by default), ``task_embedding`` and ``at_end``,
            see `TaskStream`. The episode, see `MetaWorldMTEnv`: ``seed``, ``goals``
            (``"continuous"`` by default, as in Continual World), ``num_goals``,
            ``max_episode_steps`` (200 by default), ``terminate_on_success``, ``descriptions``; and
            ``action_repeat``, how often each action is taken. What is observed, see `AgentView`,
            and how classes are built and drawn, see `SawyerSettings`.

    Raises:
        TypeError: If there is no such argument; the message names what comes close.
        ValueError: If an argument is none of those.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/CW10-v0", steps_per_task=1000)
    >>> obs, info = env.reset(seed=0)
    >>> obs.shape, info["task_name"], info["phase"], env.unwrapped.total_steps
    ((49,), 'hammer-v3', 0, 10000)
    """
    known = {"seed", *parameters_of(make_stream), *_PASSED}
    only_vector = {*parameters_of(make_vec_env), *EXECUTOR_OPTIONS} - known
    hint = "it is for make_vec, without vectorization_mode"
    check_keywords(kwargs, known, f"make of {sequence}", dict.fromkeys(only_vector, hint))
    inputs, kwargs = take_inputs("CustomMT", kwargs)
    env = make_stream(sequence, inputs, **kwargs)
    settle(env, kwargs)
    if kwargs.get("seed") is not None:
        env.action_space.seed(check_seed(kwargs["seed"]))
    return env


# What `gymnasium.make` looks for on what it calls.
make_env.metadata = METADATA  # type: ignore[attr-defined]


def make_vec_env(
    sequence: Literal["CW10", "CW20"],
    num_envs: int = 1,
    *,
    seed: int | None = None,
    max_episode_steps: int | None = 200,
    record_episode_statistics: bool = True,
    **settings: Any,
) -> VectorTaskStream:
    """Environments on one sequence together: a budget counts the steps of all of them.

    Args:
        sequence: The sequence's name.
        num_envs: How many environments; all of them are on the same task.
        seed: Determines the goals, the action space's samples, and the first reset that is given no
            seed; ``None`` takes entropy.
        max_episode_steps: When to truncate, ``None`` for never.
        record_episode_statistics: Whether infos carry ``episode`` at an episode's end.
        **settings: Each sub-environment's, as `make_env` describes them, such as
            ``steps_per_task``; and what `mtwrappers.vector.executors.Executor` describes, such as
            ``workers``.

    Raises:
        TypeError: If there is no such argument; the message names what comes close.
        ValueError: If an argument is none of those, or a budget has no step for each environment.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/CW10-v0", num_envs=2, steps_per_task=1000)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape, infos["task_name"][1], envs.total_steps
    ((2, 49), 'hammer-v3', 10000)
    >>> envs.close()
    """
    known = {*parameters_of(make_vec_env), *parameters_of(make_stream), *_PASSED, *EXECUTOR_OPTIONS}
    check_keywords(settings, known, f"make_vec of {sequence}")
    seed = None if seed is None else check_seed(seed)
    num_envs = positive(num_envs, "num_envs")
    inputs, settings = take_inputs("CustomMT", settings)
    check_flag(record_episode_statistics, "record_episode_statistics")
    executor = {name: settings.pop(name) for name in EXECUTOR_OPTIONS if name in settings}
    makers = [
        functools.partial(
            _make_slot,
            sequence,
            inputs,
            record_episode_statistics,
            seed=None if seed is None else seed + i,
            max_episode_steps=max_episode_steps,
            **settings,
        )
        for i in range(num_envs)
    ]
    renders = settings.get("render_mode") is not None
    envs = VectorTaskStream(make_executor(makers, 1, num_envs, renders=renders, **executor))
    settle(envs, settings)
    if seed is not None:
        envs.action_space.seed(seed)
    return envs


def make_stream(
    sequence: Literal["CW10", "CW20"],
    inputs: AgentView,
    *,
    steps_per_task: int = 1_000_000,
    boundary: Boundary = "truncate",
    task_obs: TaskObs = "phase",
    task_embedding: ArrayLike | None = None,
    at_end: AtEnd = "stay",
    goals: Goals = "continuous",
    **settings: Any,
) -> Env:
    """The stream of a sequence, as the agent sees it.

    Args:
        sequence: The sequence's name.
        inputs: How observations and rewards reach the learner.
        steps_per_task: The budget of each phase.
        boundary: What happens to the episode at a phase's end, see `TaskStream`.
        task_obs: What the one-hot (or ``task_obs``) stands for: the ``"phase"``, as in Continual
            World, or the ``"task"``; it is the same for CW10.
        task_embedding: Numbers to observe in each phase, ``(num_phases, E)``, before a one-hot.
        at_end: What follows after the last step, see `TaskStream`.
        goals: ``"continuous"``, as in Continual World, or ``"list"``: one of the class's 50.
        **settings: The arguments of `MetaWorldMTEnv`; and ``action_repeat``, how often each action
            is taken.
    """
    env = make_mt_env("CustomMT", train_classes=CW10, goals=goals, **settings)
    phases = [(name, steps_per_task) for name in SEQUENCES[sequence]]
    stream = MetaWorldStream(
        env,
        phases,
        boundary=boundary,
        task_obs=task_obs,
        task_embedding=task_embedding,
        at_end=at_end,
    )
    return inputs.apply(stream)


class MetaWorldStream(TaskStream):
    """A `TaskStream` that says in words what is to be done, as `MetaWorldMTEnv` does."""

    @property
    def task(self) -> str:
        """The name of the current class, such as ``"hammer-v3"``."""
        name: str = self.env.get_wrapper_attr("task")
        return name

    @property
    def task_description(self) -> str:
        """The aim of the current class, as a sentence."""
        sentence: str = self.env.get_wrapper_attr("task_description")
        return sentence

    @property
    def description_space(self) -> Text:
        """The space of `task_description`."""
        space: Text = self.env.get_wrapper_attr("description_space")
        return space

    @property
    def variation_parameters(self) -> dict[str, Any] | None:
        """How the current episode varies; see `MetaWorldMTEnv.variation_parameters`."""
        found: dict[str, Any] | None = self.env.get_wrapper_attr("variation_parameters")
        return found


def _make_slot(sequence: Any, inputs: AgentView, record: bool, **settings: Any) -> Env:
    env = make_stream(sequence, inputs, **settings)
    return RecordEpisodeStatistics(env) if record else env
