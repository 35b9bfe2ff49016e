"""`MetaWorldSetTaskEnv`: a benchmark whose task is set from outside."""

import copy
import pickle
import re
import subprocess
import sys
from functools import partial

import gymnasium
import metaworld
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.wrappers import TransformObservation

from mtwrappers import MetaWorldSetTaskEnv, TaskOnehotWrapper
from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld.class_env import observation_box
from mtwrappers.testing import check_set_task_env

ONEHOT = {"benchmark": "MT10", "add_env_onehot": True, "num_goals": 3}


def same(a, b):
    return data_equivalence(a, b, exact=True)


def actions(n):
    return np.random.default_rng(0).uniform(-1, 1, (n, 4)).astype(np.float32)


def play(env, n=4, **reset):
    return [env.reset(**reset), *(env.step(action) for action in actions(n))]


def names(tasks):
    return [task["inner"].env_name for task in tasks]


def pickled(env):
    return pickle.loads(pickle.dumps(env))


@pytest.mark.parametrize(
    "kwargs",
    [
        ONEHOT,
        {"benchmark": "ML10", "kind": "train", "num_goals": 3},
        {"benchmark": "ML10", "kind": "test", "num_goals": 3},
        {"benchmark": "ML1", "env_name": "push-v3", "num_goals": 3},
    ],
    ids=["MT10-onehot", "ML10-train", "ML10-test", "ML1"],
)
def test_it_keeps_the_set_task_contract(kwargs):
    check_set_task_env(MetaWorldSetTaskEnv(**kwargs))


# Which tasks there are, and in which order they are drawn.


@pytest.mark.parametrize(
    ("benchmark", "kind", "num_tasks", "num_classes", "kinds"),
    [
        ("MT10", None, 20, 10, {"train"}),
        ("MT10", "train", 20, 10, {"train"}),
        ("ML10", "train", 20, 10, {"train"}),
        ("ML10", "test", 10, 5, {"test"}),
        ("ML10", None, 30, 15, {"train", "test"}),
        ("ML1", None, 4, 1, {"train", "test"}),
    ],
)
def test_the_kind_says_which_tasks_there_are(benchmark, kind, num_tasks, num_classes, kinds):
    env = MetaWorldSetTaskEnv(benchmark, kind, num_goals=2)
    assert (env.num_tasks, len(env.task_names)) == (num_tasks, num_classes)
    made = make_benchmark(benchmark, num_goals=2)
    expected = (made.train_tasks if kind != "test" else []) + (
        made.test_tasks if kind != "train" else []
    )
    drawn = env.sample_tasks(num_tasks)
    assert sorted(task["inner"] for task in drawn) == sorted(expected)
    assert {task["kind"] for task in drawn} == kinds


def test_tasks_are_drawn_class_by_class_each_without_replacement():
    env = MetaWorldSetTaskEnv("MT10", num_goals=3)
    drawn = env.sample_tasks(60)
    assert names(drawn) == list(make_benchmark("MT10", num_goals=1).train_classes) * 6
    goals = [task["inner"].data for task in drawn]
    for sweep in (goals[:30], goals[30:]):
        assert len(set(sweep)) == 30
    assert goals[:30] != goals[30:]


def test_goals_come_in_a_random_order_that_each_class_has_of_its_own():
    env = MetaWorldSetTaskEnv("MT10", num_goals=6)
    made = make_benchmark("MT10", num_goals=6).train_tasks
    orders = [made.index(task["inner"]) % 6 for task in env.sample_tasks(60)]
    by_class = {tuple(orders[i::10]) for i in range(10)}
    assert all(sorted(order) == list(range(6)) for order in by_class)
    assert len(by_class) > 5


def test_a_sweep_goes_on_from_call_to_call():
    at_once, in_parts = (MetaWorldSetTaskEnv("MT10", num_goals=3) for _ in range(2))
    expected = at_once.sample_tasks(25)
    parts = [in_parts.sample_tasks(n) for n in (1, 0, 7, 17)]
    assert parts[1] == []
    assert same([task for part in parts for task in part], expected)


def test_a_seed_determines_the_order_and_begins_it_anew():
    env = MetaWorldSetTaskEnv("MT1", num_goals=20, seed=0)
    first = env.sample_tasks(20)
    assert same(MetaWorldSetTaskEnv("MT1", num_goals=20, seed=0).sample_tasks(20), first)
    env.reset(seed=1)
    other = env.sample_tasks(20)
    assert not same(other, first)
    env.sample_tasks(7)
    env.reset(seed=1)
    assert same(env.sample_tasks(20), other)


# A task.


@pytest.mark.parametrize(
    "kwargs",
    [
        {"benchmark": "MT50", "add_env_onehot": True},
        {"benchmark": "ML45"},
        {"benchmark": "ML1", "env_name": "push-v3"},
    ],
    ids=["MT50", "ML45", "ML1"],
)
def test_a_task_pickles_to_less_than_4_kilobytes(kwargs):
    env = MetaWorldSetTaskEnv(**kwargs, num_goals=2)
    assert max(len(pickle.dumps(task)) for task in env.sample_tasks(env.num_tasks)) < 4096


def test_get_task_is_the_task_that_was_set_in_a_dict_of_its_own():
    env = MetaWorldSetTaskEnv("MT10", num_goals=2)
    assert env.get_task() is None
    for task in env.sample_tasks(3):
        env.set_task(task)
        assert same(env.get_task(), task)
        env.get_task().clear()
        env.reset()
        assert same(env.get_task(), task)


def test_a_task_is_played_as_a_bare_sawyer_environment_plays_it():
    env = MetaWorldSetTaskEnv("ML10", num_goals=2)
    classes = metaworld.ALL_V3_ENVIRONMENTS
    for task in env.sample_tasks(5):
        bare = classes[task["inner"].env_name]()
        bare.set_task(task["inner"])
        env.set_task(task)
        ours, theirs = play(env), play(bare)
        assert [r[0].tolist() for r in ours] == [r[0].tolist() for r in theirs]
        assert [r[1] for r in ours[1:]] == [r[1] for r in theirs[1:]]
        assert {r[-1]["task_name"] for r in ours} == {task["inner"].env_name}


def test_only_the_classes_of_the_tasks_set_are_built():
    env = MetaWorldSetTaskEnv("MT10", num_goals=2)
    assert env.envs_built == 0
    tasks = env.sample_tasks(12)
    for i, built in ((0, 1), (10, 1), (1, 2)):
        env.set_task(tasks[i])
        env.reset()
        assert env.envs_built == built


@pytest.mark.parametrize(
    "kwargs", [ONEHOT, {"benchmark": "ML10", "kind": "test", "num_goals": 2}], ids=["MT10", "ML10"]
)
def test_an_environment_without_arguments_plays_the_task_in_another_process(kwargs):
    env = MetaWorldSetTaskEnv(**kwargs)
    tasks = env.sample_tasks(3)
    code = (
        "import pickle, sys\n"
        "from mtwrappers import MetaWorldSetTaskEnv\n"
        "tasks, actions = pickle.load(sys.stdin.buffer)\n"
        "env, returned = MetaWorldSetTaskEnv(), []\n"
        "for task in tasks:\n"
        "    env.set_task(task)\n"
        "    returned.append([env.reset(), *(env.step(action) for action in actions)])\n"
        "sys.stdout.buffer.write(pickle.dumps((returned, env.get_task(), env.observation_space)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        input=pickle.dumps((tasks, actions(4))),
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    returned, task, space = pickle.loads(done.stdout)
    assert same(task, tasks[-1])
    assert space == env.observation_space
    for one, expected in zip(returned, tasks, strict=True):
        env.set_task(expected)
        assert same(one, play(env))


# Spaces and observations.


@pytest.mark.parametrize(
    ("kwargs", "visible", "size"),
    [
        (ONEHOT, True, 49),
        ({"benchmark": "ML10", "kind": "train"}, False, 39),
        ({"benchmark": "ML10", "kind": "test"}, False, 39),
    ],
    ids=["MT10-onehot", "ML10-train", "ML10-test"],
)
def test_one_observation_space_serves_the_whole_benchmark(kwargs, visible, size):
    env = MetaWorldSetTaskEnv(**{"num_goals": 2, **kwargs})
    space = copy.deepcopy(env.observation_space)
    classes = {name: metaworld.ALL_V3_ENVIRONMENTS[name] for name in env.task_names}
    union = observation_box(classes, goals_visible=visible)
    assert space.shape == (size,)
    assert np.array_equal(space.low[:39], union.low)
    assert np.array_equal(space.high[:39], union.high)
    for task in env.sample_tasks(len(classes)):
        env.set_task(task)
        for obs, *_ in play(env):
            assert obs in env.observation_space
            assert bool(np.any(obs[36:39] != 0)) is visible
        assert env.observation_space == space


def test_the_one_hot_agrees_with_the_task_id_and_with_the_order_of_the_classes():
    env = MetaWorldSetTaskEnv(**ONEHOT)
    for index, task in enumerate(env.sample_tasks(10)):
        env.set_task(task)
        for returned in play(env, 2):
            obs, info = returned[0], returned[-1]
            assert obs[39:].tolist() == np.eye(10)[index].tolist()
            assert info["task_id"] == index
            assert info["task_name"] == env.task_names[index] == task["inner"].env_name


def test_the_first_task_of_an_environment_without_arguments_fixes_its_space():
    sources = [
        MetaWorldSetTaskEnv(**kwargs) for kwargs in (ONEHOT, {"benchmark": "ML10", "num_goals": 2})
    ]
    for source, other in (sources, sources[::-1]):
        env = MetaWorldSetTaskEnv()
        first, second = source.sample_tasks(2)
        env.set_task(first)
        outer = TransformObservation(env, lambda obs: obs, None)
        assert outer.observation_space == source.observation_space
        env.set_task(second)
        [foreign] = other.sample_tasks(1)
        message = r"tasks of its first .*, got '.*-v3' of M.10 .* another observation space"
        with pytest.raises(ValueError, match=message):
            env.set_task(foreign)
        assert same(env.get_task(), second)
        assert env.reset()[0] in env.observation_space
        assert env.observation_space == outer.observation_space == source.observation_space


# Episodes.


def test_a_reset_without_a_task_begins_the_first_of_the_benchmark():
    env = MetaWorldSetTaskEnv("MT10", num_goals=2)
    env.reset()
    assert env.get_task()["inner"] == make_benchmark("MT10", num_goals=2).train_tasks[0]


def test_the_task_stays_from_reset_to_reset():
    env = MetaWorldSetTaskEnv("MT10", num_goals=2)
    task = env.sample_tasks(5)[4]
    env.set_task(task)
    first = play(env)
    assert same(play(env), first)
    assert same(play(env, seed=9), first)
    assert same(env.get_task(), task)


def test_options_can_name_a_task_and_are_not_changed():
    env = MetaWorldSetTaskEnv("MT10", num_goals=2)
    options = {"task": env.sample_tasks(4)[3]}
    given = copy.deepcopy(options)
    _, info = env.reset(options=options)
    assert info["task_name"] == env.task_names[3]
    assert same(options, given)


def test_stepping_and_rendering_need_a_reset():
    env = MetaWorldSetTaskEnv("MT1", num_goals=2, max_episode_steps=2)
    action = np.zeros(4, np.float32)
    for prepare in (lambda: None, lambda: env.set_task(env.sample_tasks(1)[0])):
        prepare()
        with pytest.raises(ResetNeeded, match=r"call reset\(\) after set_task\(\) and before step"):
            env.step(action)
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before render\(\)"):
            env.render()
        env.reset()
        env.step(action)
    env.step(action)
    with pytest.raises(ResetNeeded, match=r"reach-v3: call reset\(\) before step\(\)"):
        env.step(action)


def test_an_environment_without_arguments_cannot_be_reset_before_a_task_is_set():
    with pytest.raises(ResetNeeded, match=r"no task was set: call set_task\(task\) before reset"):
        MetaWorldSetTaskEnv().reset()


# Copies.


@pytest.mark.parametrize("copy_of", [copy.deepcopy, pickled], ids=["deepcopy", "pickle"])
class TestACopy:
    def test_plays_the_task_of_the_original(self, copy_of):
        env = MetaWorldSetTaskEnv(**ONEHOT)
        env.set_task(env.sample_tasks(7)[6])
        expected = play(env)
        other = copy_of(env)
        assert same(other.get_task(), env.get_task())
        assert other.observation_space == env.observation_space
        assert other.action_space == env.action_space
        with pytest.raises(ResetNeeded, match=r"call reset\(\) after set_task\(\)"):
            other.step(actions(1)[0])
        assert same(play(other), expected)

    def test_draws_the_tasks_that_the_original_draws(self, copy_of):
        env = MetaWorldSetTaskEnv("MT10", num_goals=3)
        env.sample_tasks(17)
        other = copy_of(env)
        assert same(other.sample_tasks(40), env.sample_tasks(40))

    def test_leaves_the_original_in_its_episode(self, copy_of):
        env, undisturbed = (MetaWorldSetTaskEnv("MT1", num_goals=2) for _ in range(2))
        for one in (env, undisturbed):
            one.reset()
        other = copy_of(env)
        other.set_task(other.sample_tasks(1)[0])
        other.reset()
        for action in actions(3):
            assert same(env.step(action), undisturbed.step(action))

    def test_of_an_environment_without_a_task_begins_the_first(self, copy_of):
        env = copy_of(MetaWorldSetTaskEnv("MT1", num_goals=2))
        assert env.get_task() is None
        env.reset()
        assert env.get_task()["inner"] == make_benchmark("MT1", num_goals=2).train_tasks[0]

    def test_of_an_environment_without_arguments_is_on_its_task(self, copy_of):
        env = MetaWorldSetTaskEnv()
        env.set_task(MetaWorldSetTaskEnv(**ONEHOT).sample_tasks(2)[1])
        expected = play(env)
        assert same(play(copy_of(env)), expected)

    def test_keeps_the_wrapper(self, copy_of):
        env = MetaWorldSetTaskEnv("MT10", num_goals=2, wrapper=double)
        expected = play(env)
        assert same(play(copy_of(env)), expected)


# Wrappers.


def double(env, task):
    box = env.observation_space
    twice = Box(2 * box.low, 2 * box.high, dtype=box.dtype)
    return TransformObservation(env, lambda obs: 2 * obs, twice)


def append_one(env, task):
    return TaskOnehotWrapper(env, 0, 1)


def test_the_wrapper_is_given_each_environment_that_is_built_and_its_task():
    calls = []

    def wrapper(env, task):
        calls.append((env, task))
        return double(env, task)

    env = MetaWorldSetTaskEnv("MT10", num_goals=2, wrapper=wrapper)
    plain = MetaWorldSetTaskEnv("MT10", num_goals=2)
    assert np.array_equal(env.observation_space.high, 2 * plain.observation_space.high)
    tasks = env.sample_tasks(12)
    for task in (tasks[0], tasks[1], tasks[11]):
        env.set_task(task)
        plain.set_task(task)
        for (obs, *rest), (expected, *expected_rest) in zip(play(env), play(plain), strict=True):
            assert np.array_equal(obs, 2 * expected)
            assert same(rest, expected_rest)
    assert [task.env_name for _, task in calls] == ["reach-v3", "push-v3"]
    assert all(isinstance(given, gymnasium.Env) for given, _ in calls)
    assert all(isinstance(task, metaworld.Task) for _, task in calls)


def test_a_wrapper_whose_spaces_differ_from_class_to_class_is_refused():
    def wrapper(env, task):
        return TaskOnehotWrapper(env, 0, 1 if task.env_name == "reach-v3" else 2)

    env = MetaWorldSetTaskEnv("MT10", num_goals=2, wrapper=wrapper)
    env.reset()
    _, push = env.sample_tasks(2)
    with pytest.raises(ValueError, match=r"wrapper gives 'push-v3' the observation space Box\("):
        env.set_task(push)
    assert env.get_task()["inner"].env_name == "reach-v3"
    env.step(actions(1)[0])


def test_a_wrapper_that_returns_no_environment_is_refused():
    with pytest.raises(TypeError, match=r"must return a gymnasium.Env for 'reach-v3', got None"):
        MetaWorldSetTaskEnv("MT10", num_goals=2, wrapper=lambda env, task: None)


def test_the_wrapper_of_an_environment_without_arguments_decides_its_space():
    env = MetaWorldSetTaskEnv(wrapper=append_one)
    env.set_task(MetaWorldSetTaskEnv("MT1", num_goals=2).sample_tasks(1)[0])
    obs, _ = env.reset()
    assert obs.shape == (40,)
    assert obs in env.observation_space


# Benchmarks of one's own.


class OwnReach(metaworld.ALL_V3_ENVIRONMENTS["reach-v3"]):
    """A class that Meta-World does not know."""


class OwnBenchmark(metaworld.Benchmark):
    """Two classes that no benchmark of Meta-World has side by side, and one for tests."""

    def __init__(self):
        known = metaworld.ALL_V3_ENVIRONMENTS
        self._train_classes = {"own-reach": OwnReach, "door-open-v3": known["door-open-v3"]}
        self._test_classes = {"push-v3": known["push-v3"]}
        self._train_tasks = [
            *encode("own-reach", OwnReach, goals_of="reach-v3"),
            *encode("door-open-v3", known["door-open-v3"], goals_of="door-open-v3"),
        ]
        self._test_tasks = encode("push-v3", known["push-v3"], goals_of="push-v3")


def encode(name, cls, *, goals_of):
    """Two tasks of a class, with the goals of one of Meta-World's."""
    tasks = make_benchmark("MT1", env_name=goals_of, num_goals=2).train_tasks
    return [metaworld._encode_task(name, {**pickle.loads(t.data), "env_cls": cls}) for t in tasks]


def test_a_benchmark_object_of_meta_world_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr(metaworld, "_N_GOALS", 2)
    benchmark = metaworld.MT1("push-v3", seed=4)
    env = MetaWorldSetTaskEnv(benchmark)
    named = MetaWorldSetTaskEnv("MT1", env_name="push-v3", num_goals=2, seed=4)
    assert env.num_tasks == 2
    assert {t["inner"] for t in env.sample_tasks(2)} == set(benchmark.train_tasks)
    task = env.sample_tasks(1)[0]
    named.set_task(task)
    env.set_task(task)
    assert same(play(env), play(named))


def test_a_benchmark_of_ones_own_with_a_class_of_ones_own_works():
    env = MetaWorldSetTaskEnv(OwnBenchmark(), "train")
    assert env.task_names == ("own-reach", "door-open-v3")
    assert env.num_tasks == 4
    tasks = env.sample_tasks(4)
    assert names(tasks) == ["own-reach", "door-open-v3"] * 2
    assert {task["benchmark"] for task in tasks} == {"OwnBenchmark"}
    assert max(len(pickle.dumps(task)) for task in tasks) < 4096
    other = MetaWorldSetTaskEnv()
    for task in tasks:
        env.set_task(task)
        other.set_task(pickle.loads(pickle.dumps(task)))
        first = play(env)
        assert first[0][0] in env.observation_space
        assert same(play(other), first)


def test_both_kinds_of_a_benchmark_of_ones_own_are_taken_by_default():
    env = MetaWorldSetTaskEnv(OwnBenchmark())
    assert env.task_names == ("own-reach", "door-open-v3", "push-v3")
    assert [task["kind"] for task in env.sample_tasks(3)] == ["train", "train", "test"]


# What is refused.


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kind": "validation"}, "kind must be 'train', 'test' or None, got 'validation'"),
        ({"benchmark": "MT11"}, "unknown benchmark 'MT11'; expected one of"),
        (
            {"benchmark": 5},
            "benchmark must be a metaworld.Benchmark or the name of one, got 5",
        ),
        ({"benchmark": "MT10", "kind": "test"}, "MT10 has no test tasks"),
        (
            {"benchmark": "ML10", "add_env_onehot": True},
            "add_env_onehot is for the train tasks of multi-task benchmarks, got ML10 with "
            "kind=None",
        ),
        (
            {"benchmark": "ML10", "kind": "test", "add_env_onehot": True},
            "add_env_onehot is for the train tasks of multi-task benchmarks, got ML10 with "
            "kind='test'",
        ),
        ({"add_env_onehot": True}, "add_env_onehot needs a benchmark to know its classes"),
        ({"benchmark": "MT10", "env_name": "push-v3"}, "MT10 takes no env_name, got 'push-v3'"),
        ({"benchmark": "MT10", "num_goals": 0}, "num_goals must be a positive integer, got 0"),
        ({"benchmark": "MT10", "seed": -1}, "a seed must be zero or greater, got -1"),
        ({"reward_function_version": "v3"}, "reward_function_version must be 'v1' or 'v2'"),
    ],
)
def test_bad_arguments_are_refused_with_what_was_expected(kwargs, message):
    with pytest.raises(ValueError, match=message):
        MetaWorldSetTaskEnv(**{"num_goals": 1, **kwargs})


def test_a_one_hot_on_test_tasks_is_refused_whatever_they_show():
    benchmark = OwnBenchmark()
    assert MetaWorldSetTaskEnv(benchmark, "train", add_env_onehot=True).reset()[0].shape == (41,)
    message = "add_env_onehot is for the train tasks of multi-task benchmarks, got OwnBenchmark"
    for kind in ("test", None):
        with pytest.raises(ValueError, match=message):
            MetaWorldSetTaskEnv(benchmark, kind, add_env_onehot=True)


@pytest.mark.parametrize("n", [-1, 1.5, "3", True, None])
def test_a_number_of_tasks_that_is_none_is_refused(n):
    env = MetaWorldSetTaskEnv("MT1", num_goals=2)
    with pytest.raises(ValueError, match=f"n_tasks must be zero or a positive integer, got {n!r}"):
        env.sample_tasks(n)


def test_sampling_without_a_benchmark_is_refused():
    with pytest.raises(ValueError, match="sample_tasks needs a benchmark"):
        MetaWorldSetTaskEnv().sample_tasks(1)


@pytest.fixture(scope="module")
def task():
    return MetaWorldSetTaskEnv("MT1", num_goals=2).sample_tasks(1)[0]


def without(task, key):
    return {k: v for k, v in task.items() if k != key}


MALFORMED = [
    (lambda task: None, "a task must be a dict with the keys .*; got None"),
    (lambda task: task["inner"], r"a task must be a dict with the keys .*; got Task\("),
    (partial(without, key="inner"), r"a task must be a dict with the keys .*; got \['add_env"),
    (
        lambda task: {**task, "inner": "reach-v3"},
        r"task\['inner'\] must be a metaworld.Task, got 'reach-v3'",
    ),
    (
        lambda task: {**task, "kind": "validation"},
        r"task\['kind'\] must be 'train' or 'test', got 'validation'",
    ),
    (
        lambda task: {**task, "classes": ("reach-v2",)},
        r"task\['classes'\] names unknown classes \['reach-v2'\]",
    ),
    (
        lambda task: {**task, "classes": ("push-v3",)},
        r"task\['inner'\] is of class 'reach-v3', expected one of \['push-v3'\]",
    ),
    (lambda task: {**task, "classes": 5}, r"task\['classes'\].* 5"),
    (
        lambda task: {**task, "inner": metaworld.Task("reach-v3", b"cut off")},
        r"task\['inner'\]",
    ),
    (
        lambda task: {**task, "inner": metaworld.Task("reach-v3", push_data())},
        r"task\['inner'\].*reach-v3",
    ),
    (
        lambda task: {**task, "inner": make_benchmark("ML1", num_goals=1).train_tasks[0]},
        r"goal",
    ),
]


def push_data():
    return make_benchmark("MT1", env_name="push-v3", num_goals=1).train_tasks[0].data


@pytest.mark.parametrize(
    ("spoil", "message"),
    MALFORMED,
    ids=[
        "none",
        "inner-alone",
        "no-inner",
        "inner-name",
        "kind",
        "unknown-class",
        "other-class",
        "classes-number",
        "data-cut-off",
        "data-of-other-class",
        "goal-hidden-against-its-word",
    ],
)
@pytest.mark.parametrize("benchmark", ["MT1", None])
def test_a_malformed_task_is_refused_and_the_present_one_stays(task, benchmark, spoil, message):
    env = MetaWorldSetTaskEnv(benchmark, num_goals=2)
    env.set_task(task)
    expected = play(env)
    with pytest.raises(ValueError, match=message):
        env.set_task(spoil(task))
    assert same(env.get_task(), task)
    assert same(play(env), expected)


def test_a_wrapper_that_fails_leaves_the_task_and_the_space(task):
    def wrapper(env, task):
        if task.env_name == "push-v3":
            raise OSError("no")
        return env

    env = MetaWorldSetTaskEnv(wrapper=wrapper)
    space = env.observation_space
    reach, push = MetaWorldSetTaskEnv("MT10", num_goals=1).sample_tasks(2)
    for present in (None, reach):
        with pytest.raises(OSError, match="no"):
            env.set_task(push)
        assert same(env.get_task(), present)
        assert env.observation_space == space
        env.set_task(reach)
        space = env.observation_space
    assert env.reset()[1]["task_name"] == "reach-v3"


@pytest.mark.parametrize(("kind", "other"), [("train", "test"), ("test", "train")])
def test_a_task_of_the_other_kind_is_refused(kind, other):
    env = MetaWorldSetTaskEnv("ML1", kind, num_goals=2)
    task = MetaWorldSetTaskEnv("ML1", other, num_goals=2).sample_tasks(1)[0]
    message = f"this environment is for {kind} tasks, got a {other} task"
    with pytest.raises(ValueError, match=message):
        env.set_task(task)
    with pytest.raises(ValueError, match=message):
        MetaWorldSetTaskEnv(kind=kind).set_task(task)


@pytest.mark.parametrize(
    ("source", "got"),
    [
        ({"benchmark": "ML10"}, "'reach-v3' of ML10 with add_env_onehot=False"),
        ({"benchmark": "MT10"}, "'reach-v3' of MT10 with add_env_onehot=False"),
        ({"benchmark": "MT1"}, "'reach-v3' of MT1 with add_env_onehot=False"),
    ],
)
def test_a_task_of_another_benchmark_is_refused(source, got):
    env = MetaWorldSetTaskEnv(**ONEHOT)
    message = f"for tasks of MT10 with add_env_onehot=True and goals_visible=True, got {got}"
    with pytest.raises(ValueError, match=re.escape(message)):
        env.set_task(MetaWorldSetTaskEnv(**source, num_goals=1).sample_tasks(1)[0])
