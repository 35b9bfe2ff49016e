"""`MetaWorldSetTaskEnv` on benchmarks of one's own, and the arguments and tasks that it refuses."""

import pickle
import re

import metaworld
import numpy as np
import pytest

from mtwrappers import MetaWorldSetTaskEnv
from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld import tasks as mw_tasks
from tests.fakes import equal
from tests.metaworld.fakes import HIDDEN, ML, ONEHOT, PAIR_ENV, episode, task_of_each

CLASSES = metaworld.ALL_V3_ENVIRONMENTS


class OwnReach(CLASSES["reach-v3"]):
    """A class that Meta-World does not know."""


class OwnBenchmark(metaworld.Benchmark):
    """Two classes that no benchmark of Meta-World has side by side, and one for tests."""

    def __init__(self):
        door, push = "door-open-v3", "push-v3"
        self._train_classes = {"own-reach": OwnReach, door: CLASSES[door]}
        self._test_classes = {push: CLASSES[push]}
        goals = make_benchmark("CustomMT", train_classes=["reach-v3", door, push], num_goals=2)
        reach, doors, self._test_tasks = (goals.train_tasks[i : i + 2] for i in (0, 2, 4))
        vectors = [mw_tasks.decode(task)["rand_vec"] for task in reach]
        own = [mw_tasks.encode("own-reach", OwnReach, vector, False) for vector in vectors]
        self._train_tasks = own + doors


def test_a_benchmark_of_ones_own_with_a_class_of_ones_own_works():
    env, other = MetaWorldSetTaskEnv(OwnBenchmark(), "train"), MetaWorldSetTaskEnv()
    tasks = env.sample_tasks(4)
    for two in (tasks[:2], tasks[2:]):
        assert {task["inner"].env_name for task in two} == {"own-reach", "door-open-v3"}
    assert {task["benchmark"] for task in tasks} == {"OwnBenchmark"}
    assert max(len(pickle.dumps(task)) for task in tasks) < 4096
    for task in tasks[:2]:
        env.set_task(task)
        other.set_task(pickle.loads(pickle.dumps(task)))
        first = episode(env)
        assert first[0][0] in env.observation_space
        assert equal(episode(other), first)
    both = MetaWorldSetTaskEnv(OwnBenchmark())
    assert both.task_names == ("own-reach", "door-open-v3", "push-v3")
    assert sorted(task["kind"] for task in both.sample_tasks(3)) == ["test", "train", "train"]
    for kind in ("test", None):
        message = f"is for the train tasks of multi-task benchmarks, got OwnBenchmark with {kind=}"
        with pytest.raises(ValueError, match=message):
            MetaWorldSetTaskEnv(OwnBenchmark(), kind, add_env_onehot=True)


# What is refused.

PUSH_DATA = make_benchmark("MT1", env_name="push-v3", num_goals=1).train_tasks[0].data
# What a task is replaced by, in part or as a whole.
MALFORMED = [
    (None, "got None: TypeError"),
    (metaworld.Task("reach-v3", b""), r"got Task\(env_name='reach-v3'"),
    ({"inner": None}, "got {.*'inner': None}: TypeError"),
    ({"kind": "validation"}, r"task\['kind'\] must be 'train' or 'test', got 'validation'"),
    ({"classes": ("reach-v2",)}, "got {.*unknown class 'reach-v2'"),
    ({"classes": ("push-v3",)}, r"got {.*KeyError\('reach"),
    ({"classes": 5}, "got {.*'classes': 5"),
    ({"inner": metaworld.Task("reach-v3", b"cut off")}, "got {.*UnpicklingError"),
    ({"inner": metaworld.Task("reach-v3", PUSH_DATA)}, "'reach-v3' is not the name of .*Push"),
    (
        {"inner": make_benchmark("ML1", num_goals=1).train_tasks[0]},  # whose goal is hidden
        "goals_visible=False: it needs another observation space",
    ),
]


def test_a_task_by_hand_may_have_any_goal_but_one_that_meta_world_would_look_for_for_ever():
    env = MetaWorldSetTaskEnv("MT1", env_name="push-v3", num_goals=1)
    [task] = env.sample_tasks(1)
    vector = np.array([0.0, 0.6, 0.02, 0.3, 1.0, 0.02])  # farther than any of Meta-World's goals
    env.set_task({**task, "inner": mw_tasks.with_vector(task["inner"], vector)})
    env.reset(seed=0)
    assert env.unwrapped.get_task()["inner"] == mw_tasks.with_vector(task["inner"], vector)
    vector[3:5] = vector[:2]
    with pytest.raises(ValueError, match="puts an object and the goal too close together"):
        env.set_task({**task, "inner": mw_tasks.with_vector(task["inner"], vector)})
    with pytest.raises(ValueError, match="the random vector of push-v3 must be 6 numbers"):
        env.set_task({**task, "inner": mw_tasks.with_vector(task["inner"], vector[:3])})


@pytest.mark.parametrize("benchmark", ["MT1", None])
def test_a_malformed_task_is_refused_and_the_present_one_stays(benchmark):
    env = MetaWorldSetTaskEnv(benchmark, num_goals=2)
    [task] = MetaWorldSetTaskEnv("MT1", num_goals=2).sample_tasks(1)
    env.set_task(task)
    expected = episode(env)
    for change, message in MALFORMED:
        with pytest.raises(ValueError, match=message):
            env.set_task({**task, **change} if isinstance(change, dict) else change)
    for key in task:
        message = f"expected a task as sample_tasks.* returns it, a dict of .*KeyError.*{key}"
        with pytest.raises(ValueError, match=message):
            env.set_task({name: value for name, value in task.items() if name != key})
    assert equal(env.get_task(), task)
    assert equal(episode(env), expected)


MT1 = {"benchmark": "MT1"}


@pytest.mark.parametrize(
    ("env", "source", "message"),
    [
        ({**MT1, "env_name": "push-v3"}, MT1, "got 'reach-v3' of MT1"),
        (ONEHOT, MT1, "goals_visible=True, got 'reach-v3' of MT1 with add_env_onehot=False"),
        (PAIR_ENV, HIDDEN, "goals_visible=True, got 'reach-v3' of CustomML with add_env_onehot=F"),
        ({**ML, "kind": "test"}, {**ML, "kind": "train"}, "for test tasks, got a train task"),
        (ONEHOT, PAIR_ENV, "of CustomMT with add_env_onehot=False"),
    ],
)
def test_a_task_of_the_other_kind_or_of_another_benchmark_is_refused(env, source, message):
    task = task_of_each(MetaWorldSetTaskEnv(**source))[0]
    with pytest.raises(ValueError, match=re.escape(message)):
        MetaWorldSetTaskEnv(**env).set_task(task)
