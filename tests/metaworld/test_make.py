"""The registered ids, with their defaults and with their arguments."""

import pickle

import gymnasium
import metaworld
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from mtwrappers import (
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    NormalizeObservationPerTask,
)
from mtwrappers.common.registration import FAMILIES, TABLE
from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld.make import select_determining_arguments
from tests.fakes import check_env_warnings, equal
from tests.fakes import play as episode_of
from tests.metaworld.fakes import PAIR, make, make_vec, run_episode

IDS = [env_id.removeprefix("mtwrappers/").removesuffix("-v0") for env_id in TABLE]
IDS = [name for name in IDS if name not in FAMILIES]
NUM_CLASSES = dict.fromkeys(("CustomMT", "CustomML-train", "MultiEnv"), 2)
NUM_CLASSES |= dict.fromkeys(("ML10-test", "ML25-test", "ML45-test"), 5)
NUM_CLASSES |= {"CustomML-test": 1, "PointGoal": 1}
WITHOUT_TASKS = ("PointGoal",)
NUM_CLASSES |= dict.fromkeys(("CW10", "CW20"), 1)  # environments, with one class at a time
NUM_CLASSES |= {name: int(name[2:].partition("-")[0]) for name in IDS if name not in NUM_CLASSES}
FAST = ["MT1", "MT10", "CustomMT", "ML1-test", "ML10-train", "CustomML-train", "CW20", "MultiEnv"]
FAST += WITHOUT_TASKS
SEEN_BY_OTHER_LIBRARIES = ("compute_reward", "num_envs", "__len__")


def sample_episode(env, **reset):
    """The results of the environment for a reset and for actions of its own space."""
    env.action_space.seed(0)
    return episode_of(env, [env.action_space.sample() for _ in range(4)], **reset)


# With defaults.


@pytest.mark.parametrize("name", IDS)
@pytest.mark.slow_but(*FAST)
def test_one_environment_of_each_id(name):
    env = make(name)
    if name not in ("MultiEnv", *WITHOUT_TASKS):
        onehot = NUM_CLASSES[name] if name.startswith(("MT", "CustomMT")) and name != "MT1" else 0
        onehot = {"CW10": 10, "CW20": 20}.get(name, onehot)
        assert env.observation_space.shape == (39 + onehot,)
    for checked in (env, env.unwrapped):
        assert check_env_warnings(checked, skip_render_check=True) == []
    assert [n for n in SEEN_BY_OTHER_LIBRARIES if hasattr(env.unwrapped, n)] == []
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == pickle.loads(pickle.dumps(env.spec)) == env.spec
    first = sample_episode(env, seed=3)
    assert equal(sample_episode(env, seed=3), first)
    assert equal(sample_episode(gymnasium.make(spec), seed=3), first)
    if name not in WITHOUT_TASKS:  # all others draw a task
        assert not equal(sample_episode(env, seed=4), first)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.slow_but("MT1", "MT10", "CustomMT", "ML10-test", "CW10")
def test_a_vector_environment_of_each_id_has_an_environment_per_class(name):
    with make_vec(name) as envs:
        assert envs.num_envs == NUM_CLASSES[name]
        if envs.num_envs > 10:  # whose models take long to compile
            assert len(set(envs.get_attr("task_name"))) == envs.num_envs
            return
        first = obs, infos = envs.reset(seed=3)
        assert obs in envs.observation_space
        assert equal(envs.reset(seed=3), first)
        if name not in WITHOUT_TASKS:
            assert infos["task_id"].tolist() == list(range(envs.num_envs))
            assert not equal(envs.reset(seed=4), first)


# What a task looks like.


@pytest.mark.parametrize(("name", "n", "visible"), [("MT10", 10, True), ("ML10-test", 5, False)])
def test_every_encoding_is_of_the_same_task(name, n, visible):
    plain, onehot, as_dict = (
        make(name, num_goals=2, task_encoding=e) for e in ("none", "onehot", "dict")
    )
    assert as_dict.observation_space["env_obs"] == plain.observation_space
    assert as_dict.observation_space["task_obs"].n == n
    for state in (0, 5, 9):
        options = {"task_state": state}
        episodes = [run_episode(env, seed=0, options=options) for env in (plain, onehot, as_dict)]
        for plain_step, onehot_step, dict_step in zip(*episodes, strict=True):
            plain_obs, onehot_obs, dict_obs = plain_step[0], onehot_step[0], dict_step[0]
            assert plain_obs.dtype == onehot_obs.dtype == dict_obs["env_obs"].dtype == np.float64
            assert np.array_equal(plain_obs, dict_obs["env_obs"])
            assert onehot_obs.tolist() == [*plain_obs, *np.eye(n)[state // 2]]
            assert plain_obs[36:].any() == visible
            assert dict_obs["task_obs"] == state // 2
            assert equal(plain_step[1:], onehot_step[1:])
            assert equal(plain_step[1:], dict_step[1:])


def test_normalized_observations_are_those_of_the_wrapper():
    env, plain = (make("CustomMT", num_goals=1, normalize_observations=on) for on in (True, False))
    assert equal(run_episode(env, seed=0), run_episode(NormalizeObservationPerTask(plain), seed=0))


# Vector environments.


def test_sub_environments_stay_with_their_class_task_by_task():
    states = set()
    with make_vec("CustomMT", 4, num_goals=20) as envs:
        for seed in range(4):
            obs, infos = envs.reset(seed=seed)
            assert infos["task_name"].tolist() == ["reach-v3"] * 2 + ["push-v3"] * 2
            assert obs[:, 39:].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
            states.add(envs.call("get_task_state"))
    # They draw on their own: one class's environments are not on one goal.
    assert any(first != second for first, second, _, _ in states)
    assert {tuple(state // 20 for state in reset) for reset in states} == {(0, 0, 1, 1)}


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasiums_own_vectorization_gives_environments_that_move_between_tasks(mode):
    with make_vec("CustomMT", 3, vectorization_mode=mode, num_goals=2) as envs:
        assert type(envs).__name__ == {"sync": "SyncVectorEnv", "async": "AsyncVectorEnv"}[mode]
        first = run_episode(envs, 2, seed=3)
        assert equal(run_episode(envs, 2, seed=3), first)
        single_env = make("CustomMT", num_goals=2)
        for i in range(3):
            assert np.array_equal(single_env.reset(seed=3 + i)[0], first[0][0][i])
        names = {name for seed in range(5) for name in envs.reset(seed=seed)[1]["task_name"]}
        assert names == {"reach-v3", "push-v3"}


@pytest.mark.parametrize(
    ("name", "num_envs", "kwargs", "sizes"),
    [
        ("CustomMT", 6, {}, (2, 3)),
        ("CustomMT", 4, {"envs_per_task": 2}, (2, 2)),
        ("CustomML-train", 5, {}, (5, 1)),
        ("CustomML-train", 6, {"meta_batch_size": 3, "envs_per_task": 2}, (3, 2)),
        ("CustomML-train", 8, {"envs_per_task": 4}, (2, 4)),
        ("ML1-train", 1, {"meta_batch_size": 50}, (50, 1)),
    ],
)
def test_sizes_that_fit_and_classes_as_even_as_it_goes(name, num_envs, kwargs, sizes):
    with make_vec(name, num_envs, **kwargs) as envs:
        assert (envs.meta_batch_size, envs.envs_per_task) == sizes
        assert envs.num_envs == sizes[0] * sizes[1]
        classes = envs.get_attr("task_name")
        counts = [classes.count(name) for name in dict.fromkeys(classes)]
        assert max(counts) - min(counts) <= sizes[1]
        assert counts == sorted(counts, reverse=True)


# Specs in results.


@pytest.mark.parametrize(
    ("kwargs", "selected"),
    [
        (
            {"benchmark": "MT10", "num_envs": 20, "envs_per_task": 2, "workers": 2, "seed": 1},
            "seed",
        ),
        ({"benchmark": "MT10", "observation": "pixels", "task_encoding": "none"}, "task_encoding"),
        ({"benchmark": "ML10", "num_envs": 20, "envs_per_task": 2}, "num_envs envs_per_task"),
        ({"env_ids": ["CartPole-v1"], "num_envs": 2}, "env_ids num_envs"),
    ],
)
def test_only_what_determines_episodes_is_kept_of_a_spec(kwargs, selected):
    env_id, arguments = select_determining_arguments({"id": "one", "kwargs": kwargs})
    assert env_id == "one"
    assert arguments.keys() == {"benchmark", "observation", *selected.split()} & kwargs.keys()
    in_trials = select_determining_arguments({"id": "one", "kwargs": kwargs}, in_trials=True)[1]
    assert {"num_envs", "envs_per_task"} & kwargs.keys() <= in_trials.keys()


# Calls written for Meta-World's ids, which run on ours with nothing but the id changed.


CLASS_OF_NAME = {cls.__name__: name for name, cls in metaworld.ALL_V3_ENVIRONMENTS.items()}


def read_class_names(envs):
    return [CLASS_OF_NAME[name] for name in envs.get_attr("task_name")]


def test_the_calls_of_meta_learning_benchmarks():
    kwargs = {"meta_batch_size": 20, "total_tasks_per_cls": 40, "max_episode_steps": 10}
    with make_vec("ML10-train", vector_strategy="sync", **kwargs) as envs:
        assert type(envs) is MetaIterativeEnvExecutor
        tasks = dict.fromkeys(metaworld._env_dict.ML10_V3["train"], 0)
        for name, env_tasks in zip(read_class_names(envs), envs.get_attr("tasks"), strict=True):
            tasks[name] += len(env_tasks)
        assert set(tasks.values()) == {40}
        goals = dict.fromkeys(task for env_tasks in envs.get_attr("tasks") for task in env_tasks)
        benchmark_tasks = make_benchmark("ML10").train_tasks
        assert goals.keys() == {
            task for c in range(10) for task in benchmark_tasks[50 * c : 50 * c + 40]
        }


def test_the_configuration_of_recurrent_meta_learning_in_metaworld_algorithms():
    with make_vec(
        "CustomML-train",
        seed=1,
        num_goals=4,
        max_episode_steps=2,
        terminate_on_success=False,
        reward_function_version="v2",
        vector_strategy="async",
        train_envs=PAIR,
        test_envs=["drawer-open-v3"],
        task_select="pseudorandom",
        meta_batch_size=4,
        total_tasks_per_cls=2,
        recurrent_info_in_obs=True,
    ) as envs:
        assert type(envs) is MetaParallelEnvExecutor
        obs, _ = envs.reset()
        assert obs.shape == (4, 45)
        assert np.all(obs[:, 39:] == 0)
        actions = np.full((4, 4), 0.5, np.float32)
        obs, rewards, *_ = envs.step(actions)
        assert np.array_equal(obs[:, 39:43], actions)
        assert np.array_equal(obs[:, 43], rewards / 10.0)
        assert envs.step(actions)[3].all()


def test_an_exponentially_normalized_reward_is_that_of_meta_worlds_wrapper():
    kwargs = {"num_goals": 2, "seed": 3}
    with (
        make_vec("MT1", reward_normalization_method="exponential", **kwargs) as envs,
        make_vec("MT1", **kwargs) as plain,
    ):
        envs.reset()
        plain.reset()
        reference = metaworld.wrappers.NormalizeRewardsExponential(0.001, plain.envs[0])
        for _ in range(5):
            action = envs.action_space.sample()
            assert envs.step(action)[1][0] == reference.step(action[0])[1]


def time_limit(env):
    name = "_max_episode_steps"
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


@pytest.mark.parametrize(
    ("name", "default_limit"), [("MT1", 500), ("CW10", 200), ("PointGoal", 100)]
)
def test_make_vec_reads_the_time_limit_as_make_does(name, default_limit):
    kwargs = {"MT1": {"num_goals": 2}, "CW10": {"goals": "list"}}.get(name, {})
    for max_episode_steps, limit in ((None, default_limit), (-1, None), (3, 3)):
        assert time_limit(make(name, max_episode_steps=max_episode_steps, **kwargs)) == limit
        with make_vec(name, max_episode_steps=max_episode_steps, **kwargs) as envs:
            assert envs.call(time_limit) == (limit,)
