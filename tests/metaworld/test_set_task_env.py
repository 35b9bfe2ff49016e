"""`MetaWorldSetTaskEnv`: a benchmark whose task is set from outside."""

import copy
import pickle
import re
import zlib

import gymnasium
import metaworld
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.wrappers import NormalizeReward, TimeLimit, TransformObservation
from metaworld.envs.sawyer_reach_v3 import SawyerReachEnvV3

from mtwrappers import (
    MetaWorldSetTaskEnv,
    MTEnv,
    NormalizeObservationPerTask,
    RL2Observation,
    TaskNameWrapper,
    TaskOnehotWrapper,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.common.seeding import child_seed
from mtwrappers.metaworld import MetaWorldMTEnv, make_benchmark
from mtwrappers.metaworld import tasks as mw_tasks
from mtwrappers.metaworld.class_env import observation_box
from mtwrappers.metaworld.state import guard
from tests.fakes import equal
from tests.metaworld.fakes import (
    HIDDEN,
    ML,
    ONEHOT,
    PAIR,
    PAIR_ENV,
    draw_task_per_class,
    make_bare,
    random_actions,
    run_episode,
)
from tests.testing.families import assert_strict_set_task_contract

CLASSES = metaworld.ALL_V3_ENVIRONMENTS


def test_it_keeps_the_set_task_contract():
    assert_strict_set_task_contract(MetaWorldSetTaskEnv(**ONEHOT), steps=3)


# Which tasks there are, and in which order they are drawn.


@pytest.mark.parametrize(
    ("benchmark", "kind", "num_classes"),
    [("ML10", "test", 5), ("ML10", None, 15), ("ML1", None, 1)],
)
def test_the_kind_says_which_tasks_there_are(benchmark, kind, num_classes):
    env = MetaWorldSetTaskEnv(benchmark, kind, num_goals=2)
    expected_benchmark = make_benchmark(benchmark, num_goals=2)
    expected = (
        expected_benchmark.train_tasks if kind is None else []
    ) + expected_benchmark.test_tasks
    assert (env.num_tasks, len(env.task_names)) == (len(expected), num_classes)
    drawn = env.sample_tasks(env.num_tasks)
    assert sorted(task["inner"] for task in drawn) == sorted(expected)
    assert all(
        (task["inner"] in expected_benchmark.test_tasks) == (task["kind"] == "test")
        for task in drawn
    )


def test_tasks_are_drawn_in_rounds_without_replacement_and_a_seed_begins_anew():
    env, benchmark = MetaWorldSetTaskEnv("MT10", num_goals=6), make_benchmark("MT10", num_goals=6)
    env.reset(seed=1)
    drawn = [task for n in (1, 0, 7, 112) for task in env.sample_tasks(n)]
    names = [task["inner"].env_name for task in drawn]
    assert repr(drawn[0]).startswith(f"<train task of MT10: {names[0]}, rand_vec [")
    rounds = {tuple(names[i : i + 10]) for i in range(0, 120, 10)}
    assert len(rounds) == 12  # each in an order of its own
    assert all(
        sorted(names_of_round) == sorted(benchmark.train_classes) for names_of_round in rounds
    )
    orders = {name: [] for name in benchmark.train_classes}
    for task in drawn:
        orders[task["inner"].env_name].append(benchmark.train_tasks.index(task["inner"]) % 6)
    for half in (slice(6), slice(6, 12)):
        assert all(sorted(order[half]) == list(range(6)) for order in orders.values())
        assert len({tuple(order[half]) for order in orders.values()}) > 5
    assert all(order[:6] != order[6:] for order in orders.values())
    env.reset(seed=1)
    assert equal(env.sample_tasks(120), drawn)


def test_the_order_of_tasks_comes_from_entropy_until_it_is_seeded_and_the_goals_do_not():
    unseeded = [MetaWorldSetTaskEnv(**PAIR_ENV) for _ in range(6)]
    assert len({pickle.dumps(env.sample_tasks(6)) for env in unseeded}) > 1
    seed_0_tasks = make_benchmark("CustomMT", train_classes=PAIR, num_goals=3).train_tasks
    assert all(env.tasks == seed_0_tasks for env in unseeded)
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
        stock = make_bare(name, task["inner"])
        ours, theirs = run_episode(env), run_episode(stock)
        for (obs, *reward_and_flags, info), (expected, *expected_reward_and_flags, _) in zip(
            ours, theirs, strict=True
        ):
            assert obs.tolist() == [*expected, *tail]
            assert obs in env.observation_space
            assert bool(np.any(obs[36:39] != 0)) is visible
            assert reward_and_flags[:-1] == expected_reward_and_flags[:-1]
            assert (info["task_name"], info.get("task_id")) == (name, place if visible else None)
        assert equal(run_episode(env, seed=9), ours)
        assert env.goal.tolist() == stock._target_pos.tolist()
        assert equal(env.get_task(), task)
        assert (env.envs_built, env.observation_space) == (min(i + 1, 2), space)


def test_the_first_task_of_an_environment_without_arguments_fixes_its_space():
    sources = [MetaWorldSetTaskEnv(**kwargs) for kwargs in (ONEHOT, HIDDEN)]
    for source, other_source in (sources, sources[::-1]):
        env = MetaWorldSetTaskEnv()
        first, second = source.sample_tasks(2)
        env.set_task(first)
        outer = TransformObservation(env, lambda obs: obs, None)
        env.set_task(second)
        [foreign] = other_source.sample_tasks(1)
        message = r"tasks like its first, .*, got '.*-v3' of CustomM., .* another observation space"
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
    options = {"task": draw_task_per_class(env)[1]}
    for name in ("task", "task_state"):  # the latter is MTEnv's
        assert env.reset(options={name: options["task"]})[1]["task_name"] == "push-v3"
        env.set_task(draw_task_per_class(env)[0])
    with pytest.raises(ValueError, match=r"reset options .*got \['task_id'\]"):
        env.reset(options={"task_id": 3})


def test_the_state_before_a_task_was_set_is_one_without_a_task():
    env, restored = (MetaWorldSetTaskEnv(**PAIR_ENV) for _ in range(2))
    state = env.get_state()
    restored.set_task(restored.sample_tasks(2)[1])
    restored.reset()
    restored.set_state(state)
    assert restored.get_task() is None
    with pytest.raises(ResetNeeded, match="no task was set"):
        _ = restored.rand_vec
    with pytest.raises(ResetNeeded, match="task None has no episode since"):
        restored.step(np.zeros(4, np.float32))
    assert equal(restored.reset(), env.reset())
    assert restored.get_task()["inner"] == restored.tasks[0]


def test_it_has_the_members_of_its_interface_and_none_of_an_mtenv_that_it_is_not():
    env = MetaWorldSetTaskEnv("MT1", num_goals=2, seed=0)
    assert not isinstance(env, MTEnv)
    mtenv_members = {name for name in dir(MetaWorldMTEnv) if not name.startswith("_")}
    env_members = {name for name in dir(env) if not name.startswith("_")}
    assert sorted(mtenv_members - env_members) == [
        *("assert_env_seed_is_set", "assert_task_seed_is_set", "description_space"),
        "draws_after_seeding",
        *("exact_task_state", "get_task_obs", "get_task_state", "has_set_task"),
        *("np_random_task", "observe"),
        *("reset_task_state", "sample_task_state", "sample_tasks_on_reset", "seed", "seed_task"),
        *("set_task_state", "settable_task_ids", "task", "task_description"),
        *("task_ids", "task_states"),
    ]


def test_a_reset_draws_a_task_only_when_it_is_asked_to():
    env, other_env = (MetaWorldSetTaskEnv(**PAIR_ENV, seed=3) for _ in range(2))
    first, second = other_env.sample_tasks(2)
    env.reset(options={"resample_task": True})
    assert equal(env.get_task(), first)
    env.reset(options={"resample_task": False})
    assert equal(env.get_task(), first)
    env.reset(options={"resample_task": True})
    assert equal(env.get_task(), second)
    with pytest.raises(ValueError, match=r"task_state or resample_task, not both; got task_state="):
        env.reset(options={"task": first, "resample_task": True})
    with pytest.raises(TypeError, match=r"options\['resample_task'\] must be True or False, got 1"):
        env.reset(options={"resample_task": 1})


def test_a_seed_may_be_an_integer_of_numpy():
    env, other_env = (MetaWorldSetTaskEnv(**PAIR_ENV) for _ in range(2))
    assert equal(env.reset(seed=np.int64(3)), other_env.reset(seed=3))
    assert equal(env.sample_tasks(3), other_env.sample_tasks(3))


def test_a_state_that_earlier_versions_saved_is_restored():
    env, restored = (MetaWorldSetTaskEnv(**PAIR_ENV, seed=3) for _ in range(2))
    env.set_task(env.sample_tasks(3)[2])
    mtenv_state = {"was_seeded": True, "sample_tasks_on_reset": False, "seeded": [], "envs": {}}
    restored.set_state({**env.get_state(), **mtenv_state})
    assert equal(restored.get_task(), env.get_task())
    assert equal(restored.sample_tasks(5), env.sample_tasks(5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"round": [2]}, r"entry 0 of the round of classes must be an integer in \[0, 1\], got 2"),
        ({"round": 3}, "the round of classes must be a list of what is left to draw, got 3"),
        ({"sweeps": {}}, r"expected \['push-v3', 'reach-v3'\] of TaskDicts, got \[\]"),
        (
            {"sweeps": {"push-v3": [0, "1"], "reach-v3": []}},
            r"entry 1 of the sweep of push-v3 must be an integer in \[0, 2\], got '1'",
        ),
        ({"rounds": []}, r"expected \['round', 'sweeps'\] of TaskDicts, got \['round', 'rounds'"),
    ],
)
def test_draws_that_the_benchmark_cannot_continue_from_are_refused(change, message):
    env = MetaWorldSetTaskEnv(**PAIR_ENV, seed=3)
    env.sample_tasks(3)
    state = env.get_state()
    with pytest.raises(ValueError, match=message):
        env.set_state({**state, "selection": {**state["selection"], **change}})


@pytest.mark.parametrize("env_type", [MetaWorldSetTaskEnv, MetaWorldMTEnv])
@pytest.mark.parametrize(
    "change",
    [
        {"env_stream": {"seed": 0}},
        {"task_stream": {"seed": 0, "state": {}}},
        {"was_set": 1},
        {"selection": None},
        {"task_state": 9},
        {"terminate_on_success": "no"},
        {"goal_stream": {"seed": -1, "state": {}}},
        {"goal_stream": {"seed": 0, "state": {}}},
    ],
)
def test_a_state_that_is_refused_changes_nothing(env_type, change):
    settings = {"train_classes": PAIR, "goals": "continuous", "seed": 3}
    env, other_env = (env_type("CustomMT", **settings) for _ in range(2))
    env.reset(options={"resample_task": True})
    for _ in range(2):
        other_env.reset(options={"resample_task": True})
    other_env.terminate_on_success = True
    state_before = repr(env.get_state())
    with pytest.raises((TypeError, ValueError), match=r"expected|must"):
        env.set_state({**other_env.get_state(), **change})
    assert repr(env.get_state()) == state_before
    [name] = change
    with pytest.raises(ValueError, match=f"(?s){name}"):
        env.set_state({key: value for key, value in other_env.get_state().items() if key != name})
    assert repr(env.get_state()) == state_before


def test_a_task_that_was_changed_is_printed_as_a_dict():
    env = MetaWorldSetTaskEnv(**PAIR_ENV)
    [task] = env.sample_tasks(1)
    del task["kind"]
    assert repr(task).startswith("{'benchmark': 'CustomMT', 'add_env_onehot': ")


def test_stepping_and_rendering_need_a_reset():
    env = MetaWorldSetTaskEnv("MT1", num_goals=2, max_episode_steps=1)
    with pytest.raises(ResetNeeded, match=r"no episode since .*made.*: call reset\(\) before step"):
        env.step(random_actions(1)[0])
    env.reset()
    env.step(random_actions(1)[0])
    with pytest.warns(UserWarning, match="nothing to render"):  # though the episode is over
        env.render()
    with pytest.raises(ResetNeeded, match=r"reach-v3: call reset\(\) before step\(\)"):
        env.step(random_actions(1)[0])
    env.set_task(env.sample_tasks(1)[0])
    with pytest.raises(
        ResetNeeded, match=r"reach-v3, .* was set but not reset: call reset\(\) before step"
    ):
        env.render()


# Wrappers.


class Doubled(gymnasium.ObservationWrapper):
    """Doubles observations, and notes the seeds of its resets."""

    def __init__(self, env):
        super().__init__(env)
        box = env.observation_space
        self.observation_space = Box(2 * box.low, 2 * box.high, dtype=box.dtype)
        self.seeds = []

    def observation(self, obs):
        return 2 * obs

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


def test_the_wrapper_is_given_each_environment_that_is_built_and_its_task_and_seeds():
    wrapped_envs = {}

    def wrapper(env, task):
        assert task.env_name not in wrapped_envs
        wrapped_envs[task.env_name] = Doubled(env)
        return wrapped_envs[task.env_name]

    env, plain = MetaWorldSetTaskEnv(**PAIR_ENV, wrapper=wrapper), MetaWorldSetTaskEnv(**PAIR_ENV)
    assert np.array_equal(env.observation_space.high, 2 * plain.observation_space.high)
    for task in env.sample_tasks(3):
        env.set_task(task)
        plain.set_task(task)
        expected = [
            (2 * obs, *reward_flags_and_info)
            for obs, *reward_flags_and_info in run_episode(plain, seed=5)
        ]
        assert equal(run_episode(env, seed=5), expected)
    assert sorted(wrapped_envs) == sorted(PAIR)
    for i, name in enumerate(PAIR):
        assert set(wrapped_envs[name].seeds) == {child_seed(5, i)}


class Noisy(gymnasium.ObservationWrapper):
    """Adds noise from the environment's own stream."""

    def observation(self, obs):
        return obs + self.np_random.normal(size=obs.shape)


def test_a_seed_determines_the_wrappers_of_all_classes():
    """Also of classes that are set after the reset with the seed, and of copies."""

    first_task, _ = draw_task_per_class(MetaWorldSetTaskEnv(**PAIR_ENV))

    def run(env, seed):
        observations = [env.reset(seed=seed, options={"task": first_task})[0]]
        for task in env.sample_tasks(4):
            env.set_task(task)
            observations.append(env.reset()[0])
        return observations

    env, other = (
        MetaWorldSetTaskEnv(**PAIR_ENV, wrapper=lambda env, task: Noisy(env)) for _ in range(2)
    )
    expected = run(env, 0)
    assert equal(run(other, 0), expected)
    assert equal(run(env, 0), expected)
    assert not equal(run(env, 1), expected)
    noise_of_classes = [env.reset(options={"task": task})[0][3] for task in env.sample_tasks(2)]
    assert noise_of_classes[0] != noise_of_classes[1]
    copies = [copy.deepcopy(env) for _ in range(2)]
    assert equal(*(env_copy.reset()[0] for env_copy in copies))


@pytest.mark.parametrize("benchmark", [{}, PAIR_ENV])
def test_a_checkpoint_has_the_state_of_wrappers(benchmark, tmp_path):
    """Statistics and streams; classes that were not built when it was saved begin anew."""

    def make():
        return MetaWorldSetTaskEnv(
            **benchmark, wrapper=lambda env, task: NormalizeReward(Noisy(env))
        )

    def run(env, tasks):
        steps = []
        for task in tasks:
            env.set_task(task)
            steps += [env.reset(), *(env.step(action) for action in random_actions(3))]
        return steps

    reach, push = draw_task_per_class(MetaWorldSetTaskEnv(**PAIR_ENV))
    env, other = make(), make()
    env.reset(seed=0, options={"task": reach})
    run(env, [reach, reach])
    run(other, [push, reach])
    save_checkpoint(tmp_path / "run.ckpt", env=env)
    load_checkpoint(tmp_path / "run.ckpt", env=other)
    expected = run(env, [reach, push, reach])
    assert equal(run(other, [reach, push, reach]), expected)
    state = env.get_state()
    foreign = {"push-v3": state["envs"]["reach-v3"]}
    with pytest.raises(ValueError, match="expected a task of 'push-v3' in the state"):
        other.set_state({**state, "envs": foreign})


class OfTask(gymnasium.ObservationWrapper):
    """Adds a number of the task with which it was made."""

    def __init__(self, env, task):
        super().__init__(env)
        self.shift = zlib.crc32(task.data)

    def observation(self, obs):
        return obs + self.shift


@pytest.mark.filterwarnings("ignore:load_checkpoint cannot compare the arguments of OfTask")
@pytest.mark.parametrize("benchmark", [{}, PAIR_ENV])
def test_a_checkpoint_restores_wrappers_with_the_tasks_that_they_were_made_with(
    benchmark, tmp_path
):
    env, new, used = (MetaWorldSetTaskEnv(**benchmark, wrapper=OfTask) for _ in range(3))
    tasks = MetaWorldSetTaskEnv(**PAIR_ENV).sample_tasks(6)
    push = [task for task in tasks if task["inner"].env_name == "push-v3"]
    for task in push[:2]:
        env.reset(options={"task": task})
    used.reset(options={"task": push[2]})
    save_checkpoint(tmp_path / "run.ckpt", env=env)
    expected = env.reset()[0]
    for other in (new, used):
        load_checkpoint(tmp_path / "run.ckpt", env=other)
        assert equal(other.reset()[0], expected)


def test_another_task_of_a_class_begins_a_trial_of_its_wrapper():
    env = MetaWorldSetTaskEnv(**PAIR_ENV, wrapper=lambda env, task: RL2Observation(env))
    tasks = [task for task in env.sample_tasks(4) if task["inner"].env_name == "reach-v3"]
    for task in tasks:
        env.set_task(task)
        assert env.reset()[0][39:].tolist() == [0] * 6
        env.step(np.ones(4))
        assert env.reset()[0][39:43].tolist() == [1] * 4


def fail(env):
    raise OSError("no")


OTHER_SPACE = r"wrapper gives 'push-v3' another .* shape \(41,\) .* expected .* \(40,\)"


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
    reach, push = draw_task_per_class(MetaWorldSetTaskEnv(**PAIR_ENV))
    env.set_task(reach)
    space = env.observation_space
    obs, info = env.reset()
    with pytest.raises(error, match=message):
        env.set_task(push)
    assert equal(env.get_task(), reach)
    # The wrapper decides the space.
    assert (env.observation_space, obs.shape, info["task_name"]) == (space, (40,), "reach-v3")
    assert env.step(random_actions(1)[0])[0] in space


# A benchmark of one's own.


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
        own_tasks = [mw_tasks.encode("own-reach", OwnReach, vector, False) for vector in vectors]
        self._train_tasks = own_tasks + doors


def test_a_benchmark_of_ones_own_with_a_class_of_ones_own_works():
    env, other_env = MetaWorldSetTaskEnv(OwnBenchmark(), "train"), MetaWorldSetTaskEnv()
    tasks = env.sample_tasks(4)
    for pair_of_tasks in (tasks[:2], tasks[2:]):
        assert {task["inner"].env_name for task in pair_of_tasks} == {"own-reach", "door-open-v3"}
    assert {task["benchmark"] for task in tasks} == {"OwnBenchmark"}
    assert max(len(pickle.dumps(task)) for task in tasks) < 4096
    for task in tasks[:2]:
        env.set_task(task)
        other_env.set_task(pickle.loads(pickle.dumps(task)))
        first = run_episode(env)
        assert first[0][0] in env.observation_space
        assert equal(run_episode(other_env), first)
    both = MetaWorldSetTaskEnv(OwnBenchmark())
    assert both.task_names == ("own-reach", "door-open-v3", "push-v3")
    assert sorted(task["kind"] for task in both.sample_tasks(3)) == ["test", "train", "train"]
    with pytest.raises(ValueError, match="benchmarks, got OwnBenchmark with kind='test'"):
        MetaWorldSetTaskEnv(OwnBenchmark(), "test", add_env_onehot=True)


# What is refused.

PUSH_DATA = make_benchmark("MT1", env_name="push-v3", num_goals=1).train_tasks[0].data
# What a task is replaced by, in part or as a whole.
MALFORMED = [
    (3, r"^expected a dict as sample_tasks\(\) returns, got int 3$"),
    (None, "got NoneType None$"),
    (metaworld.Task("reach-v3", b""), r"got Task Task\(env_name='reach-v3'"),
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


@pytest.mark.parametrize("kwargs", [{"benchmark": "MT1", "num_goals": 2}, {}])
def test_a_malformed_task_is_refused_and_the_present_one_stays(kwargs):
    env = MetaWorldSetTaskEnv(**kwargs)
    [task] = MetaWorldSetTaskEnv("MT1", num_goals=2).sample_tasks(1)
    env.set_task(task)
    expected = run_episode(env)
    for change, message in MALFORMED:
        with pytest.raises(ValueError, match=message):
            env.set_task({**task, **change} if isinstance(change, dict) else change)
    for key in task:
        message = f"expected a task as sample_tasks.* returns it, a dict of .*KeyError.*{key}"
        with pytest.raises(ValueError, match=message):
            env.set_task({name: value for name, value in task.items() if name != key})
    assert equal(env.get_task(), task)
    assert equal(run_episode(env), expected)


MT1 = {"benchmark": "MT1"}


@pytest.mark.parametrize(
    ("env", "source", "message"),
    [
        ({**MT1, "env_name": "push-v3"}, MT1, "got 'reach-v3' of MT1"),
        (ONEHOT, MT1, "goals_visible=True, got 'reach-v3' of MT1, with add_env_onehot=False"),
        (PAIR_ENV, HIDDEN, "goals_visible=True, got 'reach-v3' of CustomML, with add_env_onehot=F"),
        ({**ML, "kind": "test"}, {**ML, "kind": "train"}, "for test tasks, got a train task"),
        (ONEHOT, PAIR_ENV, "of CustomMT, with add_env_onehot=False"),
    ],
)
def test_a_task_of_the_other_kind_or_of_another_benchmark_is_refused(env, source, message):
    task = draw_task_per_class(MetaWorldSetTaskEnv(**source))[0]
    with pytest.raises(ValueError, match=re.escape(message)):
        MetaWorldSetTaskEnv(**env).set_task(task)


def test_statistics_of_observations_leave_the_one_hot_of_a_wrapped_environment_as_it_is():
    env = MetaWorldSetTaskEnv(**ONEHOT, wrapper=lambda env, task: TimeLimit(env, 9))
    assert env.env_observation_space.shape == (39,)
    obs, _ = NormalizeObservationPerTask(TaskNameWrapper(env, task_id=0), 1).reset(seed=0)
    assert obs[39:].tolist() == [1.0, 0.0]


class FailingReset(gymnasium.Wrapper):
    """Fails in a reset while ``fails``."""

    fails = False

    def reset(self, **kwargs):
        if self.fails:
            raise RuntimeError("the reset failed")
        return super().reset(**kwargs)


def test_a_reset_that_failed_ends_the_episode():
    wrapped = []
    env = MetaWorldSetTaskEnv(
        **PAIR_ENV, wrapper=lambda env, task: wrapped.append(FailingReset(env)) or wrapped[-1]
    )
    env.reset(seed=0)
    for wrapper in wrapped:
        wrapper.fails = True
    with pytest.raises(RuntimeError, match="the reset failed"):
        env.reset()
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(4))


@pytest.mark.parametrize(
    "make_copy", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))]
)
def test_a_copy_of_a_guarded_environment_sets_its_own_tasks(make_copy):
    first, second = make_benchmark("MT1", env_name="reach-v3", seed=0).train_tasks[:2]
    sawyer = SawyerReachEnvV3()
    sawyer.set_task(first)
    guard(sawyer)
    duplicate = make_copy(sawyer)
    vector = sawyer._last_rand_vec.copy()
    duplicate.set_task(second)
    assert sawyer._last_rand_vec.tolist() == vector.tolist()
    assert duplicate._last_rand_vec.tolist() != vector.tolist()
    for env in (sawyer, duplicate, make_copy(duplicate)):
        with pytest.raises(TypeError, match=r"expected a metaworld\.Task"):
            env.set_task(np.zeros(3))


@pytest.mark.parametrize(
    "wrapper",
    [
        lambda env, task: RL2Observation(env),
        lambda env, task: TransformObservation(env, abs, Box(0, np.inf, (41,), np.float64)),
    ],
)
def test_what_wrappers_append_is_not_the_environments_own(wrapper):
    """Though they change the space of observations."""
    env = MetaWorldSetTaskEnv(**PAIR_ENV, kind="train", wrapper=wrapper, add_env_onehot=True)
    assert env.env_observation_space.shape == (39,)
