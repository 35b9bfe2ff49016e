"""Both executors keep the contract of `MetaVectorEnv` on environments of every kind."""

from functools import partial

import pytest

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers.metaworld.benchmarks import make_benchmark
from mtwrappers.metaworld.inputs import Inputs
from mtwrappers.metaworld.mt_env import part_of
from mtwrappers.metaworld.registered import make_slot
from mtwrappers.testing import check_meta_vector_env
from tests.fakes import CountingEnv
from tests.vector.fakes import BagEnv, BoxCountingEnv, NestedEnv, WordEnv, short_episodes

LENGTHS = (2, 3, 5, 4)
COUNTING = [
    partial(CountingEnv, length, truncate=i % 2 == 1, first=100 * i)
    for i, length in enumerate(LENGTHS)
]
MAKERS = {
    "counting": COUNTING,
    "counting with boxes": [partial(BoxCountingEnv, length) for length in LENGTHS],
    "single precision": [partial(CountingEnv, n, dtype="float32", obs_size=7) for n in LENGTHS],
    "nested": [partial(NestedEnv, length) for length in (2, 3, 7, 4)],
    "text": [partial(WordEnv, length) for length in (2, 3, 5, 4)],
    "sequence": [partial(BagEnv, length) for length in LENGTHS],
    "cartpole": [partial(short_episodes, "CartPole-v1", n) for n in (7, 30, 9, 12)],
    "pendulum": [partial(short_episodes, "Pendulum-v1", n) for n in (7, 30, 9, 12)],
}


def make_metaworld(benchmark, lengths, **kwargs):
    """A constructor a class, each of which moves between the class's two goals."""
    made = make_benchmark(benchmark, num_goals=2, **kwargs)
    return [
        partial(
            make_slot,
            part_of(made, "train", [2 * i, 2 * i + 1]),
            Inputs("none" if benchmark.startswith("ML") else "onehot"),
            checkpoint_id=name,
            record_episode_statistics=True,
            max_episode_steps=lengths[i % len(lengths)],
        )
        for i, name in enumerate(made.train_classes)
    ]


def iterative(makers, **kwargs):
    return MetaIterativeEnvExecutor(makers, len(makers) // 2, 2, **kwargs)


def parallel(makers, workers=2, context="fork", **kwargs):
    return MetaParallelEnvExecutor(
        makers, len(makers) // 2, 2, workers=workers, context=context, **kwargs
    )


@pytest.mark.parametrize("kind", MAKERS)
def test_the_iterative_executor_is_equal_to_gymnasiums_sync_vector_env(kind):
    check_meta_vector_env(iterative, MAKERS[kind], steps=40)


@pytest.mark.parametrize("kind", MAKERS)
def test_the_parallel_executor_is_equal_to_gymnasiums_sync_vector_env(kind):
    check_meta_vector_env(parallel, MAKERS[kind], steps=40)


@pytest.mark.parametrize("kind", ["counting", "nested", "text"])
@pytest.mark.parametrize("workers", [1, 3, 9])
def test_the_number_of_workers_makes_no_difference(workers, kind):
    check_meta_vector_env(partial(parallel, workers=workers), MAKERS[kind], steps=20)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_the_way_that_workers_are_started_makes_no_difference(context):
    check_meta_vector_env(partial(parallel, context=context), COUNTING[:2], steps=12)


@pytest.mark.parametrize("workers", [None, 2])
def test_the_default_context_of_python_will_do(workers):
    check_meta_vector_env(partial(parallel, workers=workers, context=None), COUNTING, steps=8)


def test_there_are_never_more_workers_than_environments():
    envs = parallel(COUNTING, workers=9)
    assert envs.num_workers == len(envs.worker_pids) == 4
    envs.close()


def test_mt10_on_the_parallel_executor_is_equal_to_gymnasiums_sync_vector_env():
    check_meta_vector_env(parallel, make_metaworld("MT10", (3, 4, 5)), steps=6)


def test_meta_world_on_the_iterative_executor_is_equal_to_gymnasiums_sync_vector_env():
    makers = make_metaworld("CustomMT", (3, 5), train_classes=("reach-v3", "push-v3"))
    check_meta_vector_env(iterative, makers, steps=12)
