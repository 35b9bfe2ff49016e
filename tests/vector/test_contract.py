"""Both executors keep the contract of `MetaVectorEnv` on environments of every kind."""

import random
import sys
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers.metaworld.make import make_slot
from mtwrappers.metaworld.tasks import make_benchmark
from mtwrappers.metaworld.wrapper_settings import WrapperSettings
from mtwrappers.testing import check_meta_vector_env
from mtwrappers.vector.make import make_executor
from tests.fakes import CountingEnv
from tests.vector.fakes import EXECUTORS, KINDS, both_executors


def make_pairs(executor, makers, **kwargs):
    """Makes an executor of two environments per task."""
    return executor(makers, len(makers) // 2, 2, **kwargs)


@both_executors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow_but("counting", "nested", "sequence-iterative", "cartpole-parallel")
def test_executors_are_equal_to_gymnasiums_sync_vector_env(executor, kind):
    # Episodes of these take up to 33 steps, of the others at most 7.
    steps = 40 if kind in ("cartpole", "pendulum") else 16
    check_meta_vector_env(partial(make_pairs, executor), KINDS[kind], steps=steps)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("counting", {"workers": 1}),
        ("nested", {"workers": 3}),
        ("text", {"workers": 9}),
        ("counting", {"context": "spawn"}),
        ("counting", {"context": "forkserver"}),
        ("counting", {"context": None}),
        ("counting", {"context": None, "workers": None}),
    ],
)
@pytest.mark.slow_but("counting-settings0", "text-settings2", "counting-settings6")
def test_how_many_workers_there_are_and_how_they_start_makes_no_difference(kind, settings):
    executor = partial(make_pairs, partial(EXECUTORS["parallel"], **settings))
    check_meta_vector_env(executor, KINDS[kind], steps=12)


def test_zero_workers_or_one_are_this_process_and_never_are_more_than_environments():
    """Arguments about workers are no error where there are none."""
    worker_settings = {"timeout": None, "context": "spawn", "on_worker_failure": "recover"}
    for workers in (0, 1, None):
        envs = make_executor(KINDS["counting"], 4, workers=workers, **worker_settings)
        with closing(envs):
            assert type(envs) is MetaIterativeEnvExecutor
            envs.reset()
            envs.get_state()  # of its journal
    with closing(EXECUTORS["parallel"](KINDS["counting"], 4, workers=9)) as envs:
        assert envs.num_workers == len(envs.worker_pids) == 4


@both_executors
def test_meta_world_on_executors_is_equal_to_gymnasiums_sync_vector_env(executor):
    """Each class moves between two goals."""
    benchmark = make_benchmark("MT10", num_goals=2)
    makers = [
        partial(
            make_slot,
            benchmark,
            WrapperSettings("onehot"),
            task_states=[2 * i, 2 * i + 1],
            checkpoint_id=name,
            max_episode_steps=3 + i,
        )
        for i, name in enumerate(list(benchmark.train_classes)[:2])
    ]
    check_meta_vector_env(partial(make_pairs, executor), makers, steps=6)


class TorchEnv(CountingEnv):
    """Draws from torch's global random state."""

    def _info(self):
        return {"torch": float(sys.modules["torch"].rand(()))}


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_forks_do_not_share_the_random_state_of_torch():
    torch = pytest.importorskip("torch")
    state = torch.get_rng_state()
    with closing(MetaParallelEnvExecutor(TorchEnv, 2, 2, workers=4, context="fork")) as envs:
        numbers = envs.reset(seed=0)[1]["torch"]
    assert len({*numbers.tolist()}) == 4
    assert torch.equal(torch.get_rng_state(), state)


class GlobalEnv(CountingEnv):
    """Draws from the global random states."""

    def _info(self):
        return {"numpy": np.random.random(), "python": random.random()}


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_have_global_random_states_of_their_own(context):
    states_before = random.getstate(), np.random.get_state()[1].tolist()
    with closing(MetaParallelEnvExecutor(GlobalEnv, 2, 2, workers=2, context=context)) as envs:
        infos = envs.reset(seed=0)[1]
    assert len(set(infos["numpy"].tolist())) == len(set(infos["python"].tolist())) == 4
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states_before
