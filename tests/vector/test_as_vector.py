"""Any Gymnasium environments on executors, in one line."""

import functools
from contextlib import closing

import gymnasium
import pytest

from mtwrappers import as_vector
from mtwrappers.vector.make import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import CountingEnv, counting_makers
from tests.vector.processes import needs_proc


def test_a_list_has_an_environment_of_each_entry_or_as_many_of_each_as_num_envs_has_room_for():
    with closing(as_vector(counting_makers(2))) as envs:
        assert isinstance(envs, MetaIterativeEnvExecutor)
        assert [env.first for env in envs.envs] == [0, 100]
    with closing(as_vector(counting_makers(2), 4, workers=1)) as envs:
        assert (envs.meta_batch_size, envs.envs_per_task) == (2, 2)
        assert [env.first for env in envs.envs] == [0, 0, 100, 100]


@pytest.mark.parametrize(
    "env_fns",
    [
        "CartPole-v1",
        "gymnasium:CartPole-v1",
        gymnasium.spec("CartPole-v1"),
        ("CartPole-v1",),
        functools.partial(gymnasium.make, "CartPole-v1"),
    ],
    ids=["id", "module and id", "spec", "list", "function"],
)
def test_an_environment_may_be_said_in_several_ways(env_fns):
    with closing(as_vector(env_fns, 2)) as envs:
        assert envs.get_attr("spec")[1].id == "CartPole-v1"
        assert envs.reset(seed=0)[0].shape == (2, 4)


@needs_proc
def test_an_id_need_not_be_registered_in_workers():
    gymnasium.register("tests/Counting-v0", CountingEnv)
    try:
        envs = as_vector("tests/Counting-v0", 2, workers=2, context="forkserver")
    finally:
        del gymnasium.registry["tests/Counting-v0"]
    with closing(envs):
        assert isinstance(envs, MetaParallelEnvExecutor)
        assert envs.reset(seed=0)[0].tolist() == [[0.0, 0.0]] * 2
