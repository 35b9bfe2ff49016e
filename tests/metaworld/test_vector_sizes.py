"""Meta-World's ids through `gymnasium.make_vec`: how many environments, and where they run."""

import pytest

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.metaworld.fakes import ITERATIVE, PARALLEL, make_vec

# Where the environments run.


@pytest.mark.parametrize(
    ("kwargs", "executor", "workers"),
    [
        ({"workers": 1}, MetaIterativeEnvExecutor, None),
        ({"workers": 9}, MetaParallelEnvExecutor, 4),
        (PARALLEL | {"workers": 1}, MetaParallelEnvExecutor, 1),
    ],
)
def test_execution_and_workers_choose_the_executor(kwargs, executor, workers):
    with make_vec("CustomMT", envs_per_task=2, num_goals=2, **kwargs) as envs:
        assert (type(envs), envs.num_envs) == (executor, 4)
        assert getattr(envs, "num_workers", None) == workers


def test_arguments_that_do_not_go_with_the_execution_are_refused():
    with pytest.raises(ValueError, match=r"iterative execution has no workers; got {'workers': 2"):
        make_vec("CustomMT", num_goals=2, **ITERATIVE, workers=2, timeout=3.0)


# Sizes.


@pytest.mark.parametrize(
    ("name", "num_envs", "kwargs", "sizes"),
    [
        ("CustomMT", 6, {}, (2, 3)),
        ("CustomMT", 1, {"envs_per_task": 3}, (2, 3)),
        ("CustomMT", 4, {"envs_per_task": 2}, (2, 2)),
        ("ML10-test", 1, {}, (5, 1)),
        ("CustomML-train", 5, {}, (5, 1)),
        ("CustomML-train", 3, {"meta_batch_size": 3}, (3, 1)),
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
        each = [classes.count(name) for name in dict.fromkeys(classes)]
        assert max(each) - min(each) <= sizes[1]
        assert each == sorted(each, reverse=True)


@pytest.mark.parametrize(
    ("name", "num_envs", "kwargs", "message"),
    [
        ("MT10", 15, {}, r"num_envs must be a multiple of 10 \(10, 20, 30, "),
        ("MT10", 15, {"envs_per_task": 2}, "with envs_per_task=2, num_envs must be 20 .*got 15"),
        ("MT10", 1, {"envs_per_task": 0}, "envs_per_task must be a positive integer, got 0"),
        ("MT10", 1, {"meta_batch_size": 10}, "is for meta-learning .* MT10: pass envs_per_task"),
        ("MT10", 1, {"total_tasks_per_cls": 51}, r"must be in \[1, 50\], got 51"),
        ("ML10-test", 1, {"total_tasks_per_cls": "5"}, "must be a positive integer, got '5'"),
        ("ML10-test", 1, {"meta_batch_size": [5]}, r"must be a positive integer, got \[5\]"),
        ("ML10-test", 1, {"meta_batch_size": 4}, r"must be in \[5, 250\], got 4"),
        ("ML10-test", 0, {}, r"must be in \[5, 250\], got 0"),
        ("ML10-test", 1, {"meta_batch_size": 16, "num_goals": 3}, r"of 3 tasks.* \[5, 15\], got 1"),
        ("ML10-test", 11, {"meta_batch_size": 5, "envs_per_task": 2}, "must be .* = 10 .*11"),
        # The number that is named fits: see above.
        ("CustomML-train", 7, {"envs_per_task": 4}, "a multiple of envs_per_task=4 from 8 to "),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_those_that_do(name, num_envs, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_vec(name, num_envs, **kwargs)
