"""The functions that `gymnasium.make` and `gymnasium.make_vec` call for Meta-World's ids.

Comparing and replaying results needs to know which arguments of these functions determine an
episode; see `with_defaults` and `select_determining_arguments`. Specs of other ids are returned
unchanged.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, Unpack

from gymnasium.wrappers import RecordEpisodeStatistics

from mtwrappers.common.checks import (
    check_choice,
    check_episode_steps,
    check_keywords,
    positive,
)
from mtwrappers.common.registration import EPISODE_STEPS, STREAM_DEFAULTS
from mtwrappers.common.seeding import check_seed
from mtwrappers.common.types import AnyEnv, Info, Options
from mtwrappers.metaworld.class_env import METADATA, SawyerSettings, warn_of_v1
from mtwrappers.metaworld.env import MetaWorldMTEnv
from mtwrappers.metaworld.keywords import EnvKeywords, VectorKeywords
from mtwrappers.metaworld.observations import CAMERA
from mtwrappers.metaworld.tasks import (
    BENCHMARK_OPTIONS,
    DEFAULT_CLASS,
    META_LEARNING,
    NUM_GOALS,
    ONE_CLASS,
    Goals,
    Kind,
    check_goals,
    make_benchmark,
    share_out,
)
from mtwrappers.metaworld.wrapper_settings import (
    WITHOUT_ONEHOT,
    WrapperSettings,
    split_wrapper_settings,
)
from mtwrappers.state.env_state import Layers, get_state, set_state
from mtwrappers.state.identity import keep_arguments
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import EXECUTOR_OPTIONS, VECTOR_HINT, fit_sizes, make_executor
from mtwrappers.wrappers.action_repeat import ActionRepeat

Checkpoint: TypeAlias = tuple[str, Layers]
SETTINGS = [field.name for field in dataclasses.fields(SawyerSettings)]
# The arguments of `make` and `make_vec`.
_ENV_ARGUMENTS = {"benchmark", *EnvKeywords.__optional_keys__}
_VECTOR_ARGUMENTS = {"benchmark", "num_envs", *VectorKeywords.__optional_keys__}
# What other libraries call some of these, and too unlike for `did_you_mean`.
_OTHER_NAMES = {
    "task_embedding": "pass it to mtwrappers/MultiEnv-v0, with env_ids=['mtwrappers/MT1-v0'] * 10, "
    "unify='pad', the env_name of each class in env_kwargs, and task_names",
    **dict.fromkeys(("image_size", "img_size", "size"), "frames have a width and a height"),
    **dict.fromkeys(("normalize_rewards", "normalize_reward"), "pass reward_normalization_method"),
    **dict.fromkeys(
        ("tasks", "env_names", "classes"),
        "for some classes, make mtwrappers/CustomMT-v0 or CustomML-train-v0 with train_classes",
    ),
}


def make_env(benchmark: str, **kwargs: Unpack[EnvKeywords]) -> AnyEnv:
    """Makes one environment that switches between the tasks of a benchmark.

    Args:
        benchmark: The benchmark's name.
        **kwargs: Which tasks, see `MetaWorldMTEnv`: ``goals``, ``seed`` (which seeds the action
            space too), ``select``, ``task_states``, ``sample_tasks_on_reset``, ``descriptions``,
            ``env_name``, ``train_classes``, ``test_classes``, ``num_goals``. The episode:
            ``max_episode_steps``, ``terminate_on_success``, and ``action_repeat``, how often each
            action is taken. What is observed, see `WrapperSettings`: ``task_encoding``,
            ``observation``, ``depth``, ``instruction``, ``recurrent_info_in_obs``,
            ``normalize_reward_in_recurrent_info``, ``normalize_observations``,
            ``reward_normalization_method``, ``reward_alpha``. How classes are built and drawn, see
            `SawyerSettings`: ``reward_function_version``, ``idle_steps``, ``fast``,
            ``render_mode``, ``camera_name``, ``width``, ``height``, ``shadows``. Meta-World's own
            names are understood too.

    Raises:
        TypeError: If an argument is unknown, with a hint, or has the wrong type.
        ValueError: If an argument has none of the allowed values.
        DependencyNotInstalled: If Meta-World is not installed.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/MT10-v0", num_goals=1, terminate_on_success=True)
    >>> obs, info = env.reset(seed=0)
    >>> obs.shape, len(env.unwrapped.tasks)
    ((49,), 10)
    """
    only_vector = _VECTOR_ARGUMENTS - _ENV_ARGUMENTS
    hints = {**dict.fromkeys(only_vector, VECTOR_HINT), **_OTHER_NAMES}
    check_keywords(kwargs, _ENV_ARGUMENTS, f"make of {benchmark}", hints)
    wrappers, options = split_wrapper_settings(benchmark, {**kwargs})
    options.pop("execution", None)  # Meta-World's vector_strategy, which gymnasium.make ignores
    env = make_mt_env(benchmark, **options)
    if options.get("seed") is not None:
        env.action_space.seed(check_seed(options["seed"]))
    return wrappers.wrap(env)


# `gymnasium.make` reads this attribute of the function that it calls.
make_env.metadata = METADATA  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class VectorSettings:
    """The distribution of a benchmark's tasks over the environments of a vector environment.

    Args:
        kind: ``"train"`` or ``"test"`` tasks.
        num_goals: The number of tasks per class, the first of the benchmark's list.
        goals: ``"list"`` takes these; ``"continuous"`` draws a new goal from the class's
            distribution whenever a task is drawn; see `MetaWorldMTEnv`.
        seed: Determines the goals, the action space's samples, and the first reset if that has no
            seed; ``None`` takes the goals of seed 0, and entropy for everything else.
        envs_per_task: The number of environments per task group, by default 1.
        meta_batch_size: The number of task groups for meta-learning; by default one per class.
        sample_tasks_on_reset: Whether each reset draws a task; by default true for multi-task, and
            false for meta-learning, where ``call("sample_tasks")`` draws them.
        terminate_on_success: Whether a success ends the episode.
        max_episode_steps: The number of steps until truncation; as in `gymnasium.make`, ``None``
            is the id's own limit of 500, and -1 is no limit.

    >>> import gymnasium, mtwrappers
    >>> settings = {"num_goals": 4, "meta_batch_size": 20, "envs_per_task": 2}
    >>> envs = gymnasium.make_vec("mtwrappers/ML10-train-v0", **settings)
    >>> envs.num_envs
    40
    >>> envs.close()
    """

    kind: Kind = "train"
    num_goals: int = NUM_GOALS
    goals: Goals = "list"
    seed: int | None = None
    envs_per_task: int | None = None
    meta_batch_size: int | None = None
    sample_tasks_on_reset: bool | None = None
    terminate_on_success: bool = False
    max_episode_steps: int | None = EPISODE_STEPS

    def sizes(self, benchmark: str, num_envs: int, num_classes: int) -> tuple[int, int]:
        """The number of task groups, and of environments per group.

        Raises:
            ValueError: If the sizes are inconsistent; the message names valid ones.
        """
        if benchmark not in META_LEARNING:
            if self.meta_batch_size is not None:
                raise ValueError(
                    "meta_batch_size is for meta-learning benchmarks, got "
                    f"{self.meta_batch_size} for {benchmark}: pass envs_per_task"
                )
            return num_classes, fit_sizes(num_envs, self.envs_per_task, num_classes, benchmark)
        per_group = 1 if self.envs_per_task is None else self.envs_per_task
        per_group = positive(per_group, "envs_per_task")
        num_envs = positive(num_envs, "num_envs")
        groups = num_classes if num_envs == 1 else num_envs // per_group
        if self.meta_batch_size is not None:
            groups = positive(self.meta_batch_size, "meta_batch_size")
        classes = f"{num_classes} classes"
        group_range, env_range = f"from {num_classes} on", f"from {num_classes * per_group} on"
        max_groups = sys.maxsize
        if self.goals == "list":
            max_groups = num_classes * self.num_goals
            classes += f" of {self.num_goals} tasks"
            group_range = f"from {num_classes} to {max_groups}"
            env_range = f"from {num_classes * per_group} to {max_groups * per_group}"
        if not num_classes <= groups <= max_groups or num_envs not in (1, groups * per_group):
            raise ValueError(
                f"{benchmark}-{self.kind} has {classes}: meta_batch_size must be {group_range}, "
                f"and num_envs meta_batch_size * envs_per_task, a multiple of {per_group} "
                f"{env_range} (or 1 for the default size); got "
                f"meta_batch_size={self.meta_batch_size}, {num_envs=}"
            )
        return groups, per_group


VECTOR_SETTINGS = [field.name for field in dataclasses.fields(VectorSettings)]


def make_vec_env(
    benchmark: str, num_envs: int = 1, **kwargs: Unpack[VectorKeywords]
) -> MetaVectorEnv:
    """Makes a vector environment in which each sub-environment runs one class.

    Multi-task: one task group per class, of ``envs_per_task`` environments. Meta-learning:
    ``meta_batch_size`` groups, distributed over the classes as evenly as possible; the groups of a
    class share its tasks.

    Args:
        benchmark: The benchmark's name.
        num_envs: The total number of environments; 1 (Gymnasium's default) means the default size.
        **kwargs: Which tasks, and how they are shared out, see `VectorSettings`: ``num_goals``,
            ``goals``, ``seed``, ``envs_per_task``, ``meta_batch_size``, ``sample_tasks_on_reset``,
            ``terminate_on_success``, ``max_episode_steps``; see `make_benchmark`: ``env_name``,
            ``train_classes``, ``test_classes``; see `MetaWorldMTEnv`: ``select``,
            ``descriptions``. Where the environments run, see `mtwrappers.vector.settings.Settings`:
            ``execution``, ``workers``, ``autoreset_mode``, ``on_worker_failure``, ``journal``,
            ``timeout``, ``context``, ``ray_options``. And, as in `make_env`, what is observed, how
            classes are built and drawn, and ``action_repeat``. Meta-World's own names are
            understood too.

    Raises:
        TypeError: If an argument is unknown, with a hint, or has the wrong type.
        ValueError: If sizes are inconsistent (the message names valid ones), or an argument has
            none of the allowed values.
        DependencyNotInstalled: If Meta-World is not installed.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/MT1-v0", num_envs=3, env_name="push-v3", num_goals=3)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape, infos["task_name"][0]
    ((3, 39), 'push-v3')
    >>> envs.close()
    """
    check_keywords(kwargs, _VECTOR_ARGUMENTS, f"make_vec of {benchmark}", _OTHER_NAMES)
    wrappers, options = split_wrapper_settings(benchmark, {**kwargs})
    settings = VectorSettings(**_take(options, VECTOR_SETTINGS))
    tasks_options = {**_take(options, BENCHMARK_OPTIONS), "num_goals": settings.num_goals}
    continuous = check_goals(settings.goals, benchmark, settings.num_goals)
    if continuous:
        tasks_options["num_goals"] = 1
    seed = None if settings.seed is None else check_seed(settings.seed)
    tasks = make_benchmark(benchmark, seed=0 if seed is None else seed, **tasks_options)
    kind = check_choice(settings.kind, ("train", "test"), "kind")
    classes = list(getattr(tasks, f"{kind}_classes"))
    if not classes:
        raise ValueError(f"{benchmark} has no {kind} tasks")
    sample_tasks_on_reset = settings.sample_tasks_on_reset
    if sample_tasks_on_reset is None:
        sample_tasks_on_reset = benchmark not in META_LEARNING
    num_groups, per_group = settings.sizes(benchmark, num_envs, len(classes))
    env_options = _take(options, (*SETTINGS, "select", "descriptions", "action_repeat"))
    limit = check_episode_steps(settings.max_episode_steps, EPISODE_STEPS)
    warn_of_v1(env_options.get("reward_function_version", "v2"), classes)
    makers: list[functools.partial[UpstreamMethods]] = []
    groups = share_out(len(classes), num_groups, settings.num_goals, continuous)
    for group, (class_index, task_states) in enumerate(groups):
        for i in range(group * per_group, (group + 1) * per_group):
            make = functools.partial(
                make_slot,
                tasks,
                wrappers,
                checkpoint_id=f"{benchmark}-{settings.kind}/{classes[class_index]}/{i}",
                kind=settings.kind,
                goals=settings.goals,
                task_states=task_states,
                seed=None if seed is None else seed + i,
                sample_tasks_on_reset=sample_tasks_on_reset,
                terminate_on_success=settings.terminate_on_success,
                max_episode_steps=limit,
                **env_options,
            )
            makers.append(make)
    renders = env_options.get("render_mode") is not None
    envs = make_executor(makers, num_groups, per_group, renders=renders, **options)
    if seed is not None:
        envs.action_space.seed(seed)
    return envs


def _take(kwargs: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Removes the arguments with these names from ``kwargs``, and returns them."""
    return {name: kwargs.pop(name) for name in names if name in kwargs}


def make_slot(
    benchmark: Any, wrappers: WrapperSettings, *, checkpoint_id: str, **kwargs: Any
) -> UpstreamMethods:
    """Makes one sub-environment: an environment of one class with Meta-World's own methods."""
    return UpstreamMethods(wrappers.wrap(make_mt_env(benchmark, **kwargs)), checkpoint_id)


def make_mt_env(
    benchmark: Any, *, action_repeat: int = 1, max_episode_steps: int | None = None, **kwargs: Any
) -> AnyEnv:
    """Makes a `MetaWorldMTEnv`; ``max_episode_steps`` counts the agent's steps, before repeats."""
    repeat = positive(action_repeat, "action_repeat")
    if max_episode_steps is not None:
        max_episode_steps = repeat * positive(max_episode_steps, "max_episode_steps")
    env = MetaWorldMTEnv(benchmark, max_episode_steps=max_episode_steps, **kwargs)
    return env if repeat == 1 else ActionRepeat(env, repeat)


class UpstreamMethods(RecordEpisodeStatistics):
    """Adds the methods of Meta-World's own wrappers, under their names, and statistics of episodes.

    It is the outermost wrapper, so that a new task also begins a new episode in inner wrappers.
    ``checkpoint_id`` identifies this environment's checkpoint among all.
    """

    def __init__(self, env: AnyEnv, checkpoint_id: str) -> None:
        super().__init__(env)
        keep_arguments(self, {})  # the id is only a name
        self.checkpoint_id = checkpoint_id
        self._mt_env: MetaWorldMTEnv = env.unwrapped  # type: ignore[assignment]

    @property
    def task_name(self) -> str:
        """The upstream name of the current class, such as ``"SawyerReachEnvV3"``."""
        classes = list(self._mt_env.pool.layout.classes.values())
        name: str = classes[self._mt_env.get_task_obs()].__name__
        return name

    def sample_tasks(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[Any, Info]:
        """Draws the next task and begins its first episode."""
        return self.reset(seed=seed, options={**(options or {}), "resample_task": True})

    def toggle_sample_tasks_on_reset(self, on: bool) -> None:
        """Sets whether every reset draws a task."""
        self._mt_env.sample_tasks_on_reset = on

    def toggle_terminate_on_success(self, on: bool) -> None:
        """Sets whether a success ends the episode."""
        self._mt_env.terminate_on_success = on

    def get_checkpoint(self) -> Checkpoint:
        """This environment's id, and the state of its `MetaWorldMTEnv`."""
        return self.checkpoint_id, get_state(self._mt_env)

    def load_checkpoint(self, checkpoints: list[Checkpoint]) -> None:
        """Restores this environment's checkpoint from a list; `reset` then continues from it.

        Raises:
            ValueError: If its checkpoint is missing, or belongs to other tasks.
        """
        states = dict(checkpoints)
        if self.checkpoint_id not in states:
            raise ValueError(f"no checkpoint of {self.checkpoint_id!r} among {list(states)}")
        set_state(self._mt_env, states[self.checkpoint_id])


# The packages whose versions change the results of episodes.
SIMULATION = ("metaworld", "mujoco")
# Arguments for how observations identify the task. They do not change an episode with given
# actions, except with frames and sentences, or if goals are hidden and the agent has to infer the
# task.
TASK_IN_OBSERVATION = ("task_encoding", "descriptions", "instruction")
# Arguments for the number of task groups, which share a class's goals in meta-learning.
GROUPS = ("num_envs", "meta_batch_size")
# These do not change an episode, and can be chosen freely for a replay.
_CHOSEN_BY_USER = {*EXECUTOR_OPTIONS, "execution", "vector_strategy", "vectorization_mode"}
_CHOSEN_BY_USER |= {"fast", "render_mode"}
# The number of environments per class does not change an episode.
_PER_CLASS = ("num_envs", "envs_per_task")


@functools.cache
def defaults() -> Mapping[str, object]:
    """The default arguments of `gymnasium.make_vec` with Meta-World's ids."""
    values: dict[str, object] = {"action_repeat": 1}
    for settings in (VectorSettings, SawyerSettings, WrapperSettings):
        values |= {field.name: field.default for field in dataclasses.fields(settings)}
    # The value that Gymnasium writes into the spec if it has called our entry point.
    return {**values, "vectorization_mode": "vector_entry_point", "task_encoding": None}


def with_defaults(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Completes arguments of `gymnasium.make_vec` with their defaults, in canonical form.

    ``arguments`` has our names, see `mtwrappers.metaworld.upstream_names.rename_arguments`.
    """
    stream_defaults = STREAM_DEFAULTS if "sequence" in arguments else {}
    completed = {**defaults(), **stream_defaults, **arguments}
    benchmark = str(completed.get("benchmark"))
    hides_tasks = benchmark in META_LEARNING
    observes_frames = completed["observation"] != "state"
    envs_per_task = completed["envs_per_task"] or 1
    num_envs = completed.get("num_envs", 1)
    meta_batch_size = None
    if hides_tasks and type(num_envs) is int and num_envs > 1:
        meta_batch_size = num_envs // envs_per_task
    meanings_of_none = {
        "seed": 0,
        "env_name": DEFAULT_CLASS if benchmark in ONE_CLASS else None,
        "max_episode_steps": EPISODE_STEPS,
        "meta_batch_size": meta_batch_size,
        "envs_per_task": 1,
        "camera_name": CAMERA if observes_frames else None,
        "task_encoding": "none" if benchmark in WITHOUT_ONEHOT else "onehot",
        "descriptions": None if hides_tasks else "metaworld",
    }
    for name, meaning in meanings_of_none.items():
        if completed.get(name) is None:
            completed[name] = meaning
    if isinstance(completed["camera_name"], list):
        completed["camera_name"] = tuple(completed["camera_name"])  # a list in JSON
    return completed


def select_determining_arguments(
    spec: Mapping[str, Any], in_trials: bool = False
) -> tuple[str, dict[str, Any]]:
    """The id of a spec, and its arguments that determine episodes.

    Args:
        spec: A dict with ``id`` and ``kwargs``.
        in_trials: Whether the episodes belong to few-shot trials, which environments share.
    """
    kwargs = spec["kwargs"]
    left_out = {*_CHOSEN_BY_USER}
    frames = kwargs.get("observation", "state") != "state"
    if not frames and kwargs.get("benchmark") not in META_LEARNING:
        left_out |= {*TASK_IN_OBSERVATION, "use_one_hot"}
    if "benchmark" in kwargs and not (in_trials or shares_goals(kwargs)):
        left_out |= {*_PER_CLASS}
    return spec["id"], {name: value for name, value in kwargs.items() if name not in left_out}


def shares_goals(kwargs: Mapping[str, object]) -> bool:
    """Whether task groups may have shared a class's goals."""
    return kwargs.get("benchmark") in META_LEARNING and any(name in kwargs for name in GROUPS)


def draws_goals(spec: Mapping[str, Any] | None) -> bool:
    """Whether each episode has its own goal, determined by its number and the seed."""
    return spec is not None and spec["kwargs"].get("goals") == "continuous"
