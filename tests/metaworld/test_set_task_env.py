"""`MetaWorldSetTaskEnv`: a benchmark whose task is set from outside."""

import copy
import pickle

import gymnasium
import metaworld
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.wrappers import TransformObservation

from mtwrappers import MetaWorldSetTaskEnv, TaskOnehotWrapper
from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld.class_env import observation_box
from mtwrappers.testing import check_set_task_env
from tests.fakes import equal, run_python
from tests.metaworld.fakes import (
    HIDDEN,
    ONEHOT,
    PAIR,
    PAIR_ENV,
    actions,
    bare,
    episode,
    task_of_each,
)

CLASSES = metaworld.ALL_V3_ENVIRONMENTS


def test_it_keeps_the_set_task_contract():
    check_set_task_env(MetaWorldSetTaskEnv(**ONEHOT), steps=3)


# Which tasks there are, and in which order they are drawn.


@pytest.mark.parametrize(
    ("benchmark", "kind", "num_classes"),
    [("ML10", "test", 5), ("ML10", None, 15), ("ML1", None, 1)],
)
def test_the_kind_says_which_tasks_there_are(benchmark, kind, num_classes):
    env = MetaWorldSetTaskEnv(benchmark, kind, num_goals=2)
    made = make_benchmark(benchmark, num_goals=2)
    expected = (made.train_tasks if kind is None else []) + made.test_tasks
    assert (env.num_tasks, len(env.task_names)) == (len(expected), num_classes)
    drawn = env.sample_tasks(env.num_tasks)
    assert sorted(task["inner"] for task in drawn) == sorted(expected)
    assert all((task["inner"] in made.test_tasks) == (task["kind"] == "test") for task in drawn)


def test_tasks_are_drawn_in_rounds_without_replacement_and_a_seed_begins_anew():
    env, made = MetaWorldSetTaskEnv("MT10", num_goals=6), make_benchmark("MT10", num_goals=6)
    env.reset(seed=1)
    drawn = [task for n in (1, 0, 7, 112) for task in env.sample_tasks(n)]
    names = [task["inner"].env_name for task in drawn]
    assert repr(drawn[0]).startswith(f"<train task of MT10: {names[0]}, rand_vec [")
    rounds = {tuple(names[i : i + 10]) for i in range(0, 120, 10)}
    assert len(rounds) == 12  # each in an order of its own
    assert all(sorted(one) == sorted(made.train_classes) for one in rounds)
    orders = {name: [] for name in made.train_classes}
    for task in drawn:
        orders[task["inner"].env_name].append(made.train_tasks.index(task["inner"]) % 6)
    for half in (slice(6), slice(6, 12)):
        assert all(sorted(order[half]) == list(range(6)) for order in orders.values())
        assert len({tuple(order[half]) for order in orders.values()}) > 5
    assert all(order[:6] != order[6:] for order in orders.values())
    env.reset(seed=1)
    assert equal(env.sample_tasks(120), drawn)


def test_the_order_of_tasks_comes_from_entropy_until_it_is_seeded_and_the_goals_do_not():
    unseeded = [MetaWorldSetTaskEnv(**PAIR_ENV) for _ in range(6)]
    assert len({pickle.dumps(env.sample_tasks(6)) for env in unseeded}) > 1
    of_seed_0 = make_benchmark("CustomMT", train_classes=PAIR, num_goals=3).train_tasks
    assert all(env.tasks == of_seed_0 for env in unseeded)
    seeded = [MetaWorldSetTaskEnv(**PAIR_ENV, seed=3) for _ in range(2)]
    assert equal(*(env.sample_tasks(6) for env in seeded))
    assert not equal(seeded[0].tasks, unseeded[0].tasks)


# A task.


@pytest.mark.parametrize(("kwargs", "visible"), [(ONEHOT, True), (HIDDEN, False)])
def test_an_episode_of_a_task_is_that_of_a_bare_sawyer_environment_in_one_space(kwargs, visible):
    env = MetaWorldSetTaskEnv(**kwargs)
    space = copy.deepcopy(env.observation_space)
    union = observation_box({name: CLASSES[name] for name in PAIR}, goals_visible=visible)
    assert (env.envs_built, env.get_task(), space.shape) == (0, None, (39 + 2 * visible,))
    assert np.array_equal([space.low[:39], space.high[:39]], [union.low, union.high])
    for i, task in enumerate(env.sample_tasks(4)):
        env.set_task(task)
        env.get_task().clear()
        name = task["inner"].env_name
        place = PAIR.index(name)
        tail = np.eye(2)[place].tolist() if visible else []
        ours, theirs = episode(env), episode(bare(name, task["inner"]))
        for (obs, *rest, info), (expected, *expected_rest, _) in zip(ours, theirs, strict=True):
            assert obs.tolist() == [*expected, *tail]
            assert obs in env.observation_space
            assert bool(np.any(obs[36:39] != 0)) is visible
            assert rest[:-1] == expected_rest[:-1]
            assert (info["task_name"], info.get("task_id")) == (name, place if visible else None)
        assert equal(episode(env, seed=9), ours)
        assert equal(env.get_task(), task)
        assert (env.envs_built, env.observation_space) == (min(i + 1, 2), space)


IN_ANOTHER_PROCESS = """
import pickle
from mtwrappers import MetaWorldSetTaskEnv
tasks, actions = pickle.loads({!r})
env, found = MetaWorldSetTaskEnv(), []
for task in tasks:
    env.set_task(task)
    found.append([env.reset(), *map(env.step, actions)])
print(pickle.dumps([found, env.observation_space]).hex())
"""


def test_an_environment_without_arguments_plays_the_tasks_in_another_process():
    env, expected = MetaWorldSetTaskEnv(**ONEHOT), []
    tasks = env.sample_tasks(2)
    for task in tasks:
        env.set_task(task)
        expected.append(episode(env))
    found = run_python(IN_ANOTHER_PROCESS.format(pickle.dumps((tasks, actions(4)))))
    assert equal(pickle.loads(bytes.fromhex(found)), [expected, env.observation_space])


def test_the_first_task_of_an_environment_without_arguments_fixes_its_space():
    sources = [MetaWorldSetTaskEnv(**kwargs) for kwargs in (ONEHOT, HIDDEN)]
    for source, other in (sources, sources[::-1]):
        env = MetaWorldSetTaskEnv()
        first, second = source.sample_tasks(2)
        env.set_task(first)
        outer = TransformObservation(env, lambda obs: obs, None)
        env.set_task(second)
        [foreign] = other.sample_tasks(1)
        message = r"tasks of its first .*, got '.*-v3' of CustomM. .* another observation space"
        with pytest.raises(ValueError, match=message):
            env.set_task(foreign)
        assert equal(env.get_task(), second)
        assert env.reset()[0] in env.observation_space
        assert env.observation_space == outer.observation_space == source.observation_space


def test_a_task_of_another_benchmark_leaves_the_space_and_the_classes():
    env = MetaWorldSetTaskEnv(**PAIR_ENV)
    space, names = env.observation_space, env.task_names
    env.set_task(MetaWorldSetTaskEnv("MT1", env_name="push-v3", num_goals=1).sample_tasks(1)[0])
    assert env.reset()[1]["task_name"] == "push-v3"
    assert (env.observation_space, env.task_names) == (space, names)


# Episodes.


def test_a_reset_without_a_task_begins_the_first_and_options_can_name_another():
    env = MetaWorldSetTaskEnv(**PAIR_ENV)
    env.reset()
    assert env.get_task()["inner"] == env.tasks[0]
    options = {"task": task_of_each(env)[1]}
    for name in ("task", "task_state"):  # the latter is MTEnv's
        assert env.reset(options={name: options["task"]})[1]["task_name"] == "push-v3"
        env.set_task(task_of_each(env)[0])
    with pytest.raises(ValueError, match=r"reset options .*got \['task_id'\]"):
        env.reset(options={"task_id": 3})


def test_stepping_and_rendering_need_a_reset():
    env = MetaWorldSetTaskEnv("MT1", num_goals=2, max_episode_steps=1)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) after set_task\(\) and before step"):
        env.step(actions(1)[0])
    env.reset()
    env.step(actions(1)[0])
    with pytest.warns(UserWarning, match="nothing to render"):  # though the episode is over
        env.render()
    with pytest.raises(ResetNeeded, match=r"reach-v3: call reset\(\) before step\(\)"):
        env.step(actions(1)[0])
    env.set_task(env.sample_tasks(1)[0])
    with pytest.raises(ResetNeeded, match=r"and before step\(\) and render\(\)"):
        env.render()


# Wrappers.


def double(env, task):
    box = env.observation_space
    twice = Box(2 * box.low, 2 * box.high, dtype=box.dtype)
    return TransformObservation(env, lambda obs: 2 * obs, twice)


def test_the_wrapper_is_given_each_environment_that_is_built_and_its_task():
    calls = []

    def wrapper(env, task):
        calls.append((env, task))
        return double(env, task)

    env, plain = MetaWorldSetTaskEnv(**PAIR_ENV, wrapper=wrapper), MetaWorldSetTaskEnv(**PAIR_ENV)
    assert np.array_equal(env.observation_space.high, 2 * plain.observation_space.high)
    for task in env.sample_tasks(3):
        env.set_task(task)
        plain.set_task(task)
        assert equal(episode(env), [(2 * obs, *rest) for obs, *rest in episode(plain)])
    assert all(isinstance(env, gymnasium.Env) for env, _ in calls)
    assert sorted(task.env_name for _, task in calls) == sorted(PAIR)


class Seeded(gymnasium.Wrapper):
    """Observes the seed of its reset."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0] * 0 + (seed or 0), {}


def test_a_wrapper_is_reset_with_the_seed_of_each_reset():
    env = MetaWorldSetTaskEnv("MT1", wrapper=lambda env, task: Seeded(env))
    assert [env.reset(seed=seed)[0][0] for seed in (5, 7, None)] == [5, 7, 0]


def fail(env):
    raise OSError("no")


OTHER_SPACE = r"(?s)wrapper gives 'push-v3' the observation space .*, expected .* as for"


@pytest.mark.parametrize("benchmark", [{}, PAIR_ENV])
@pytest.mark.parametrize(
    ("wrap_push", "error", "message"),
    [
        (fail, OSError, "no"),
        (lambda env: None, TypeError, "must return a gymnasium.Env for 'push-v3', got None"),
        (lambda env: TaskOnehotWrapper(env, 0, 2), ValueError, OTHER_SPACE),
    ],
)
def test_a_wrapper_that_fails_leaves_the_task_and_the_space(benchmark, wrap_push, error, message):
    def wrapper(env, task):
        return wrap_push(env) if task.env_name == "push-v3" else TaskOnehotWrapper(env, 0, 1)

    env = MetaWorldSetTaskEnv(**benchmark, wrapper=wrapper)
    reach, push = task_of_each(MetaWorldSetTaskEnv(**PAIR_ENV))
    env.set_task(reach)
    space = env.observation_space
    obs, info = env.reset()
    with pytest.raises(error, match=message):
        env.set_task(push)
    assert equal(env.get_task(), reach)
    # The wrapper decides the space.
    assert (env.observation_space, obs.shape, info["task_name"]) == (space, (40,), "reach-v3")
    assert env.step(actions(1)[0])[0] in space
