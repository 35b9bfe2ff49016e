"""What is said of Meta-World without it is what it says itself."""

import pytest

from mtwrappers.metaworld.make import determining, shares_goals
from mtwrappers.metaworld.tasks import NUM_CLASSES, NUM_GOALS, class_names, make_benchmark


@pytest.mark.parametrize(
    ("benchmark", "kind"), [(name, kind) for name, kinds in NUM_CLASSES.items() for kind in kinds]
)
def test_benchmarks_have_the_classes_that_are_counted(benchmark, kind):
    assert len(class_names(benchmark, kind)) == NUM_CLASSES[benchmark][kind]


def test_a_class_has_the_goals_that_are_counted():
    assert len(make_benchmark("MT1").train_tasks) == NUM_GOALS


@pytest.mark.parametrize(
    ("kwargs", "kept"),
    [
        (
            {"benchmark": "MT10", "num_envs": 20, "envs_per_task": 2, "workers": 2, "seed": 1},
            "seed",
        ),
        ({"benchmark": "MT10", "use_one_hot": False, "fast": True, "workers": 2}, ""),
        ({"benchmark": "MT10", "observation": "pixels", "task_encoding": "none"}, "task_encoding"),
        ({"benchmark": "ML10", "task_encoding": "onehot"}, "task_encoding"),
        ({"benchmark": "ML10", "num_envs": 20, "envs_per_task": 2}, "num_envs envs_per_task"),
        ({"benchmark": "ML10", "envs_per_task": 2}, ""),
        ({"env_ids": ["CartPole-v1"], "num_envs": 2}, "env_ids num_envs"),
    ],
)
def test_only_what_determines_episodes_is_kept_of_a_spec(kwargs, kept):
    env_id, found = determining({"id": "one", "kwargs": kwargs})
    assert env_id == "one"
    assert found.keys() == {"benchmark", "observation", *kept.split()} & kwargs.keys()
    in_trials = determining({"id": "one", "kwargs": kwargs}, in_trials=True)[1]
    assert {"num_envs", "envs_per_task"} & kwargs.keys() <= in_trials.keys()


def test_groups_share_the_goals_of_a_class_in_meta_learning():
    assert shares_goals({"benchmark": "ML10", "meta_batch_size": 20})
    assert not shares_goals({"benchmark": "ML10"})
    assert not shares_goals({"benchmark": "MT10", "num_envs": 20})
