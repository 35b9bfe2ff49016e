"""Calls written for Meta-World's ids run on ours with nothing but the id changed."""

import metaworld
import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers.metaworld import make_benchmark
from tests.metaworld.fakes import PAIR, make_vec

CLASS_OF_NAME = {cls.__name__: name for name, cls in metaworld.ALL_V3_ENVIRONMENTS.items()}


def classes_of(envs):
    return [CLASS_OF_NAME[name] for name in envs.get_attr("task_name")]


# The calls of Meta-World's own tests of `gymnasium.make`.


@pytest.mark.slow
def test_the_calls_of_multi_task_benchmarks():
    kwargs = {"seed": 42, "use_one_hot": True, "max_episode_steps": 3}
    with make_vec("MT10", vector_strategy="async", **kwargs) as envs:
        assert type(envs) is MetaParallelEnvExecutor
        assert classes_of(envs) == list(metaworld._env_dict.MT10_V3)
        assert [len(tasks) for tasks in envs.get_attr("tasks")] == [50] * 10
        envs.reset()
        before = envs.call("get_task_state")
        for step in range(4):
            obs, _, _, truncated, _ = envs.step(envs.action_space.sample())
            assert np.argmax(obs[:, -10:], axis=1).tolist() == list(range(10))
            assert truncated.tolist() == [step == 2] * 10
        assert envs.call("get_task_state") != before


def test_the_calls_of_meta_learning_benchmarks():
    kwargs = {"meta_batch_size": 20, "total_tasks_per_cls": 40, "max_episode_steps": 10}
    with make_vec("ML10-train", vector_strategy="sync", **kwargs) as envs:
        assert type(envs) is MetaIterativeEnvExecutor
        tasks = dict.fromkeys(metaworld._env_dict.ML10_V3["train"], 0)
        for name, own in zip(classes_of(envs), envs.get_attr("tasks"), strict=True):
            tasks[name] += len(own)
        assert set(tasks.values()) == {40}
        goals = dict.fromkeys(task for own in envs.get_attr("tasks") for task in own)
        every = make_benchmark("ML10").train_tasks
        assert goals.keys() == {task for c in range(10) for task in every[50 * c : 50 * c + 40]}


def test_the_calls_of_custom_benchmarks():
    names = ["push-v3", "door-open-v3", "reach-v3"]
    with make_vec("CustomMT", vector_strategy="sync", envs_list=names, use_one_hot=True) as envs:
        assert classes_of(envs) == names
        assert envs.single_observation_space.shape == (42,)
    kwargs = {"train_envs": names[:2], "test_envs": names[2:], "meta_batch_size": 2, "seed": 3}
    for kind, expected in (("train", names[:2]), ("test", names[2:])):
        with make_vec(f"CustomML-{kind}", vector_strategy="sync", **kwargs) as envs:
            assert sorted(set(classes_of(envs))) == sorted(expected)


# The environment configurations of metaworld-algorithms.


CONFIGURATION = {
    "seed": 1,
    "terminate_on_success": False,
    "max_episode_steps": 500,
    "vector_strategy": "async",
    "reward_function_version": "v2",
    "num_goals": 2,
}


@pytest.mark.parametrize(("split", "terminate"), [("train", False), ("test", True)])
@pytest.mark.slow
def test_the_configuration_of_recurrent_meta_learning(split, terminate):
    changed = {"num_goals": 4, "max_episode_steps": 2, "terminate_on_success": terminate}
    with make_vec(
        f"CustomML-{split}",
        **{**CONFIGURATION, **changed},
        train_envs=PAIR,
        test_envs=["drawer-open-v3"],
        task_select="pseudorandom",
        meta_batch_size=4,
        total_tasks_per_cls=2 if split == "train" else 4,
        recurrent_info_in_obs=True,
    ) as envs:
        assert envs.get_attr("terminate_on_success") == (terminate,) * 4
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
