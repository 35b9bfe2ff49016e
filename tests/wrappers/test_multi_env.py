import copy
import json
import pickle
import random
import weakref
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete

from mtwrappers import MTEnv, MultiEnvWrapper, SeedNotSetError, TaskNameWrapper, seeding
from mtwrappers.testing import check_mtenv
from tests.fakes import (
    Constructors,
    CountingEnv,
    check_env_warnings,
    counting_makers,
    equal,
    play,
)


@pytest.fixture
def made():
    return Constructors(3)


@pytest.fixture
def env(made):
    return MultiEnvWrapper(made.makers)


def env_obs(env):
    """The first number that the environment observes when it is reset."""
    return env.reset()[0]["env_obs"][0]


# The protocol.


def test_it_is_an_mtenv_and_its_own_unwrapped_environment(env):
    assert isinstance(env, MTEnv)
    assert env.unwrapped is env


@pytest.mark.parametrize("select", ["uniform", "round_robin", "without_replacement"])
@pytest.mark.parametrize("sample_tasks_on_reset", [False, True])
def test_it_keeps_the_contract(select, sample_tasks_on_reset):
    check_mtenv(
        MultiEnvWrapper(
            counting_makers(4),
            task_names=["a", "b", "c", "d"],
            select=select,
            sample_tasks_on_reset=sample_tasks_on_reset,
        )
    )


@pytest.mark.parametrize("sample_tasks_on_reset", [False, True])
def test_gymnasium_has_nothing_to_say_about_it(sample_tasks_on_reset):
    env = MultiEnvWrapper(counting_makers(2), sample_tasks_on_reset=sample_tasks_on_reset)
    assert check_env_warnings(env, skip_render_check=True) == []


def test_its_spaces_are_those_of_the_environments_and_an_index(env):
    box = Box(0, 1000, (2,), np.float64)
    assert env.observation_space == Dict({"env_obs": box, "task_obs": Discrete(3)})
    assert env.action_space == Discrete(2)
    assert env.num_tasks == 3


def test_an_episode_is_that_of_the_active_environment(env):
    reset, *steps = play(env, [0, 1, 0], seed=0, options={"task_state": 2})
    draw = reset[1]["draw"]
    observed = [reset[0], *(step[0] for step in steps)]
    for count, obs in enumerate(observed):
        expected = {"env_obs": np.full(2, 200.0 + count), "task_obs": np.int64(2)}
        assert equal(obs, expected)
        assert obs in env.observation_space
    assert reset[1] == {"steps": 0, "draw": draw, "task_id": 2}
    assert [step[1:] for step in steps] == [
        (1.0, False, False, {"steps": 1, "draw": draw, "task_id": 2}),
        (2.0, False, False, {"steps": 2, "draw": draw, "task_id": 2}),
        (3.0, True, False, {"steps": 3, "draw": draw, "task_id": 2}),
    ]


class NumpyScalarsEnv(CountingEnv):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, np.float32(reward), np.bool_(terminated), np.bool_(truncated), info


def test_rewards_and_flags_become_plain_python():
    env = MultiEnvWrapper([partial(NumpyScalarsEnv, 1)])
    env.reset()
    _, reward, terminated, truncated, _ = env.step(0)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert [type(x) for x in (reward, terminated, truncated)] == [float, bool, bool]


def test_the_task_id_is_an_int_and_the_name_is_there_when_names_were_given():
    named = MultiEnvWrapper(counting_makers(2), task_names=["a", "b"])
    for state, name in ((1, "b"), (0, "a")):
        _, info = named.reset(options={"task_state": np.int64(state)})
        assert (info["task_id"], info["task_name"]) == (state, name)
        assert type(info["task_id"]) is int
    assert named.task_names == ("a", "b")


def test_without_names_there_is_no_task_name(env):
    assert "task_name" not in env.reset()[1]
    assert env.task_names is None


def test_the_wrappers_info_wins_over_the_environments_own():
    makers = [partial(name_it, maker) for maker in counting_makers(2)]
    env = MultiEnvWrapper(makers, task_names=["a", "b"])
    _, info = env.reset(options={"task_state": 1})
    assert (info["task_id"], info["task_name"]) == (1, "b")


def name_it(maker):
    return TaskNameWrapper(maker(), task_name="inner", task_id=77)


def test_nothing_is_handed_out_twice(env):
    returned = play(env, [0, 1], seed=0)
    observed = [obs["env_obs"] for obs, *_ in returned]
    dicts = [obs for obs, *_ in returned] + [step[-1] for step in returned]
    assert not any(np.shares_memory(a, b) for a, b in pairwise(observed))
    assert len({id(x) for x in dicts}) == 6


# Lazy building.


def test_only_the_initial_environment_is_built_at_once(env, made):
    assert made.built == [0]
    assert env.envs_built == 1


def test_another_initial_environment_is_the_one_that_is_built():
    made = Constructors(3)
    env = MultiEnvWrapper(made.makers, 2)
    assert made.built == [2]
    assert env.get_task_state() == 2
    assert env_obs(env) == 200


def test_every_other_environment_is_built_once_on_first_use(env, made):
    env.reset(seed=0)
    assert made.built == [0]
    for state, built in ((2, [0, 2]), (0, [0, 2]), (1, [0, 2, 1]), (2, [0, 2, 1])):
        env.set_task_state(state)
        assert made.built == built
        assert env.envs_built == len(built)
        assert env_obs(env) == 100 * state


def test_seeding_builds_nothing(env, made):
    env.reset(seed=5)
    env.seed(6)
    env.seed_task(7)
    assert made.built == [0]


class LenEnv(CountingEnv):
    """An environment that is false in a condition."""

    def __len__(self):
        return 0


@pytest.mark.parametrize("unify", [None, "pad"])
def test_an_environment_of_length_zero_is_built_once_too(unify):
    built = []

    def make():
        built.append(LenEnv())
        return built[-1]

    env = MultiEnvWrapper([make, make], unify=unify)
    env.set_task_state(1)
    env.set_task_state(0)
    assert len(built) == env.envs_built == 2


# Switching.


def test_a_task_state_is_read_as_it_was_set(env):
    for state in (1, np.int64(2), np.uint8(0)):
        env.set_task_state(state)
        assert env.get_task_state() == state
        assert type(env.get_task_state()) is int
        assert equal(env.get_task_obs(), np.int64(state))


@pytest.mark.parametrize("state", [3, -1, 1.0, "1", None, True, np.True_, [0]])
def test_a_task_state_out_of_range_names_the_range_and_the_task_stays(env, state):
    env.reset(seed=0, options={"task_state": 1})
    message = r"task state must be an integer in \[0, 2\], got "
    with pytest.raises(ValueError, match=message):
        env.set_task_state(state)
    with pytest.raises(ValueError, match=message):
        env.reset(options={"task_state": state})
    assert env.get_task_state() == 1
    assert env.step(0)[0]["env_obs"][0] == 101


@pytest.mark.parametrize("state", [0, 1])
def test_a_step_after_a_switch_needs_a_reset(env, state):
    env.reset()
    env.set_task_state(state)
    for act in (lambda: env.step(0), env.render):
        with pytest.raises(ResetNeeded, match=rf"task {state} was set but not reset: call reset"):
            act()
    assert env_obs(env) == 100 * state
    assert env.step(0)[0]["env_obs"][0] == 100 * state + 1


def test_other_options_reach_the_active_environment(env, made):
    options = {"task_state": 1, "start": 5}
    env.reset(options=options)
    assert options == {"task_state": 1, "start": 5}
    env.reset(options={"resample_task": False})
    env.reset()
    assert made.envs[1].options == [{"start": 5}, None, None]


class GreedyEnv(CountingEnv):
    def reset(self, *, seed=None, options=None):
        if options:
            options.clear()
        return super().reset(seed=seed, options=options)


def test_an_environment_that_empties_its_options_does_not_empty_the_callers():
    options = {"x": 1}
    MultiEnvWrapper([GreedyEnv]).reset(options=options)
    assert options == {"x": 1}


# What does not work out.


@pytest.mark.parametrize("names", [None, ["a", "b", "c"]])
def test_a_constructor_that_fails_names_the_task_and_leaves_the_previous_one(names):
    original = FileNotFoundError("no model")
    made = Constructors(3, {1: original})
    env = MultiEnvWrapper(made.makers, task_names=names)
    env.reset(seed=0)
    env.step(0)
    task = r"task 1 \('b'\)" if names else "task 1"
    message = rf"the constructor of {task} failed: no model"
    for switch in (
        lambda: env.set_task_state(1),
        lambda: env.reset(options={"task_state": 1}),
    ):
        with pytest.raises(FileNotFoundError, match=message) as caught:
            switch()
        assert caught.value.__cause__ is original
    assert (env.get_task_state(), env.get_task_obs(), env.envs_built) == (0, 0, 1)
    obs, *_, info = env.step(0)
    assert (obs["env_obs"][0], obs["task_obs"], info["task_id"]) == (2, 0, 0)
    assert env.reset(options={"task_state": 2})[0]["env_obs"][0] == 200


def test_a_constructor_that_failed_is_tried_again(env):
    made = Constructors(2, {1: OSError("busy")})
    env = MultiEnvWrapper(made.makers)
    with pytest.raises(OSError, match="the constructor of task 1 failed: busy"):
        env.set_task_state(1)
    made.changes.clear()
    env.set_task_state(1)
    assert env_obs(env) == 100


BOX = r"Box\(0.0, 1000.0, \(2,\), float64\)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_actions": 3}, r"has action space Discrete\(3\), expected Discrete\(2\)"),
        ({"obs_size": 3}, rf"has observation space .*\(3,\).* within {BOX}; pass unify='pad'"),
        ({"high": 1001}, rf"1001.0, .* within {BOX}; pass env_observation_space="),
        ({"low": -1}, rf"Box\(-1.0, .* within {BOX}; pass env_observation_space="),
        ({"dtype": "float32"}, rf"float32\), expected one within {BOX}"),
    ],
)
@pytest.mark.parametrize("names", [None, ["a", "b", "c"]])
def test_spaces_that_do_not_fit_name_the_task_and_leave_the_previous_one(change, message, names):
    made = Constructors(3, {2: change})
    env = MultiEnvWrapper(made.makers, 1, task_names=names)
    env.reset(seed=0)
    env.step(0)
    task = r"task 2 \('c'\) " if names else "task 2 "
    for switch in (
        lambda: env.set_task_state(2),
        lambda: env.reset(options={"task_state": 2}),
    ):
        with pytest.raises(ValueError, match=task + ".*" + message):
            switch()
        assert made.envs[2].closed
    assert (env.get_task_state(), env.envs_built) == (1, 1)
    obs, *_, info = env.step(0)
    assert (obs["env_obs"][0], obs["task_obs"], info["task_id"]) == (102, 1, 1)
    assert env.reset(options={"task_state": 0})[0]["env_obs"][0] == 0


class DiscreteEnv(CountingEnv):
    def __init__(self, n):
        super().__init__()
        self.observation_space = Discrete(n)


def test_other_spaces_that_differ_give_no_hint_that_would_not_help():
    env = MultiEnvWrapper([partial(DiscreteEnv, 3), partial(DiscreteEnv, 4)])
    with pytest.raises(ValueError, match=r"task 1 .* Discrete\(4\), expected .* Discrete\(3\)$"):
        env.set_task_state(1)


def test_a_failed_draw_leaves_the_previous_task():
    made = Constructors(2, {1: OSError("busy")})
    env = MultiEnvWrapper(made.makers, select="round_robin")
    env.reset(seed=0, options={"resample_task": True})
    with pytest.raises(OSError, match="task 1"):
        env.reset(options={"resample_task": True})
    assert env.get_task_state() == 0
    assert env.step(0)[0]["env_obs"][0] == 1


@pytest.mark.parametrize("names", [None, ["a", "b"]])
def test_a_constructor_that_returns_no_environment_names_the_task(names):
    env = MultiEnvWrapper([CountingEnv, dict], task_names=names)
    task = r"task 1 \('b'\)" if names else "task 1"
    message = rf"the constructor of {task} must return a gymnasium.Env, got {{}}"
    with pytest.raises(TypeError, match=message):
        env.set_task_state(1)
    assert env.get_task_state() == 0
    assert env_obs(env) == 0


def test_an_unknown_selection_is_refused_and_what_was_built_is_closed(made):
    with pytest.raises(ValueError, match=r"select must be one of .*, got 'best'"):
        MultiEnvWrapper(made.makers, select="best")
    assert made.envs[0].closed


# One observation space for all.


def test_a_named_observation_space_holds_environments_that_differ():
    space = Box(-5, 2000, (2,), np.float64)
    made = Constructors(2, {1: {"low": -5, "high": 2000}})
    env = MultiEnvWrapper(made.makers, env_observation_space=space)
    assert env.observation_space["env_obs"] == space
    env.set_task_state(1)
    assert env_obs(env) == 100
    assert made.built == [0, 1]


def test_the_initial_environment_must_fit_in_a_named_space_too(made):
    with pytest.raises(ValueError, match=r"task 0 has observation space .*, expected one within"):
        MultiEnvWrapper(made.makers, env_observation_space=Box(0, 10, (2,), np.float64))
    assert made.envs[0].closed


SIZES = {0: {"obs_size": 1}, 1: {"obs_size": 3, "high": 2000}, 2: {"obs_size": 2, "low": -5}}


def test_padding_appends_zeros_to_the_shorter_observations():
    made = Constructors(3, SIZES)
    env = MultiEnvWrapper(made.makers, unify="pad")
    low = np.array([-5.0, -5, 0])
    assert env.env_observation_space == Box(low, np.full(3, 2000.0), dtype=np.float64)
    observed = []
    for state in (0, 1, 2):
        obs, _ = env.reset(options={"task_state": state})
        assert obs in env.observation_space
        observed += [obs["env_obs"].tolist(), env.step(0)[0]["env_obs"].tolist()]
    assert observed == [
        [0, 0, 0],
        [1, 0, 0],
        [100, 100, 100],
        [101, 101, 101],
        [200, 200, 0],
        [201, 201, 0],
    ]


def test_padding_builds_everything_at_once_unless_the_space_is_named():
    made = Constructors(3, SIZES)
    space = MultiEnvWrapper(made.makers, 1, unify="pad").env_observation_space
    assert sorted(made.built) == [0, 1, 2]
    made = Constructors(3, SIZES)
    env = MultiEnvWrapper(made.makers, 1, unify="pad", env_observation_space=space)
    assert made.built == [1]
    assert env.reset(options={"task_state": 2})[0]["env_obs"].tolist() == [200, 200, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int64"])
def test_padding_keeps_the_dtype(dtype):
    made = Constructors(2, {1: {"obs_size": 3}}, dtype=dtype, high=250)
    env = MultiEnvWrapper(made.makers, unify="pad")
    obs, _ = env.reset(seed=0)
    assert obs["env_obs"].dtype == np.dtype(dtype)
    assert obs in env.observation_space


def test_padded_observations_are_new_arrays():
    made = Constructors(2, {1: {"obs_size": 3}})
    env = MultiEnvWrapper(made.makers, unify="pad")
    first = env.reset()[0]["env_obs"]
    first[:] = 77
    second = env.step(0)[0]["env_obs"]
    assert second.tolist() == [1, 1, 0]
    assert not np.shares_memory(first, second)


def test_padding_holds_environments_whose_bounds_exclude_zero():
    made = Constructors(2, {0: {"obs_size": 3}}, first=5, low=1, high=9)
    env = MultiEnvWrapper(made.makers, unify="pad")
    assert env.observation_space["env_obs"] == Box(
        np.array([1.0, 1, 0]), np.full(3, 9.0), dtype=np.float64
    )
    assert env.reset()[0]["env_obs"].tolist() == [5, 5, 5]
    assert env.reset(options={"task_state": 1})[0]["env_obs"].tolist() == [5, 5, 0]


def test_padding_to_a_space_that_is_too_short_names_the_task():
    made = Constructors(2, {1: {"obs_size": 3}})
    space = Box(0, 1000, (2,), np.float64)
    env = MultiEnvWrapper(made.makers, unify="pad", env_observation_space=space)
    message = r"task 1 has observation space .*\(3,\).*, which padded with zeros does not lie"
    with pytest.raises(ValueError, match=message):
        env.set_task_state(1)
    assert made.envs[1].closed
    assert env_obs(env) == 0


def test_padding_two_dtypes_is_refused_and_everything_built_is_closed():
    made = Constructors(2, {1: {"dtype": "float32"}})
    with pytest.raises(ValueError, match=r"padding needs one dtype, .*'float32', 'float64'"):
        MultiEnvWrapper(made.makers, unify="pad")
    assert [made.envs[i].closed for i in (0, 1)] == [True, True]


def test_padding_what_is_no_1d_box_names_the_task():
    with pytest.raises(TypeError, match="observation space of task 1 must be a 1-D Box"):
        MultiEnvWrapper([CountingEnv, partial(DiscreteEnv, 3)], unify="pad")


def test_a_constructor_that_fails_while_padding_closes_what_was_built():
    made = Constructors(3, {2: OSError("busy")})
    with pytest.raises(OSError, match="the constructor of task 2 failed: busy"):
        MultiEnvWrapper(made.makers, unify="pad")
    assert [made.envs[i].closed for i in (0, 1)] == [True, True]


@pytest.mark.parametrize("unify", ["stack", True, ""])
def test_another_way_to_unify_is_refused(made, unify):
    with pytest.raises(ValueError, match=f"unify must be 'pad' or None, got {unify!r}"):
        MultiEnvWrapper(made.makers, unify=unify)


# Seeds.


@pytest.mark.parametrize("seed", [0, 7])
def test_each_environment_gets_its_own_branch_of_the_seed_once(seed):
    made = Constructors(3)
    env = MultiEnvWrapper(made.makers)
    for state in (0, 2, 0, 2):
        env.reset(seed=seed if not made.envs[0].seeds else None, options={"task_state": state})
    assert made.envs[0].seeds == [seeding.child_seed(seed, 0), None]
    assert made.envs[2].seeds == [seeding.child_seed(seed, 2), None]


def test_a_new_seed_reaches_environments_that_were_built_before(env, made):
    for seed in (1, 2):
        env.reset(seed=seed, options={"task_state": 2})
        env.reset(options={"task_state": 0})
    assert made.envs[0].seeds == [seeding.child_seed(seed, 0) for seed in (1, 2)]
    assert made.envs[2].seeds == [seeding.child_seed(seed, 2) for seed in (1, 2)]


def test_without_a_seed_the_environments_get_none(env, made):
    env.reset()
    assert made.envs[0].seeds == [None]


@pytest.mark.parametrize("before", [[], [2], [1, 2, 0], [2, 0, 1]])
def test_an_episode_does_not_depend_on_what_was_built_or_played_before(before):
    fresh = MultiEnvWrapper(counting_makers(3))
    expected = play(fresh, [0, 1], seed=5, options={"task_state": 2})
    env = MultiEnvWrapper(counting_makers(3), initial_task_state=before[0] if before else 1)
    for state in before:
        play(env, [0], seed=11, options={"task_state": state})
    assert equal(play(env, [0, 1], seed=5, options={"task_state": 2}), expected)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_the_episodes_of_a_task_do_not_depend_on_when_its_turn_comes(order):
    expected = {}
    for state in order:
        alone = MultiEnvWrapper(counting_makers(3), state)
        expected[state] = [play(alone, [0], seed=5), play(alone, [0])]
    env = MultiEnvWrapper(counting_makers(3))
    env.seed(5)
    first = {state: play(env, [0], options={"task_state": state}) for state in order}
    second = {state: play(env, [0], options={"task_state": state}) for state in order}
    assert all(equal([first[s], second[s]], expected[s]) for s in order)


def test_a_seed_determines_the_tasks_that_are_drawn(env):
    runs = []
    for seed in (0, 0, 1):
        env.reset(seed=seed)
        runs.append([env.sample_task_state() for _ in range(30)])
    assert runs[0] == runs[1] != runs[2]
    expected = seeding.task_generator(0)
    assert runs[0] == [int(expected.integers(3)) for _ in range(30)]


def test_without_a_seed_no_task_can_be_drawn(env):
    env.reset()
    for draw in (
        env.sample_task_state,
        env.reset_task_state,
        lambda: env.reset(options={"resample_task": True}),
    ):
        with pytest.raises(SeedNotSetError, match="the task seed is not set"):
            draw()


def test_a_refused_task_seed_does_not_disturb_the_selection():
    env = MultiEnvWrapper(counting_makers(3), select="round_robin")
    env.seed_task(0)
    drawn = [env.sample_task_state(), env.sample_task_state()]
    with pytest.raises(ValueError, match="a seed must be zero or greater, got -1"):
        env.seed_task(-1)
    assert [*drawn, env.sample_task_state()] == [0, 1, 2]


def test_a_refused_seed_is_not_handed_to_the_environments(env, made):
    with pytest.raises(TypeError, match="a seed must be an integer, got 'x'"):
        env.reset(seed="x")
    env.reset()
    assert made.envs[0].seeds == [None]


def test_the_global_random_state_is_neither_read_nor_changed():
    runs = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        before = random.getstate(), np.random.get_state(legacy=False)
        env = MultiEnvWrapper(counting_makers(3), sample_tasks_on_reset=True)
        env.reset()
        runs.append([play(env, [0, 1], seed=5), *(play(env, [0]) for _ in range(5))])
        assert equal((random.getstate(), np.random.get_state(legacy=False)), before)
    assert equal(runs[0], runs[1])


# Which task comes next.


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("round_robin", [0, 1, 2, 0, 1]),
        (lambda num_tasks, last_task, rng: 2 if last_task is None else last_task - 1, [2, 1, 0]),
    ],
)
def test_the_selection_draws_the_tasks(made, select, expected):
    env = MultiEnvWrapper(made.makers, select=select)
    env.seed_task(0)
    assert [env.sample_task_state() for _ in expected] == expected
    env.seed_task(0)
    assert [env.sample_task_state() for _ in expected] == expected


def test_every_reset_draws_the_next_task_if_asked_to(made):
    env = MultiEnvWrapper(made.makers, select="round_robin", sample_tasks_on_reset=True)
    drawn = [env.reset(seed=0)[1]["task_id"], *(env.reset()[1]["task_id"] for _ in range(4))]
    assert drawn == [0, 1, 2, 0, 1]
    assert env.step(0)[4]["task_id"] == 1


def test_a_task_that_was_set_is_not_drawn_over(made):
    env = MultiEnvWrapper(made.makers, select="round_robin", sample_tasks_on_reset=True)
    env.reset(seed=0)
    env.set_task_state(2)
    assert [env.reset()[1]["task_id"] for _ in range(3)] == [2, 1, 2]
    assert env.reset(options={"task_state": 0})[1]["task_id"] == 0
    assert env.reset()[1]["task_id"] == 0


def test_resampling_and_drawing_on_reset_draw_once(made):
    env = MultiEnvWrapper(made.makers, select="round_robin", sample_tasks_on_reset=True)
    drawn = [
        env.reset(seed=0, options={"resample_task": True})[1]["task_id"],
        env.reset(options={"resample_task": True})[1]["task_id"],
        env.reset()[1]["task_id"],
    ]
    assert drawn == [0, 1, 2]


def test_one_that_draws_on_reset_seeds_itself_when_nobody_did(made):
    env = MultiEnvWrapper(made.makers, sample_tasks_on_reset=True)
    env.reset()
    assert isinstance(env.sample_task_state(), int)
    assert made.envs[env.get_task_state()].seeds[0] is not None


def test_seeding_itself_keeps_a_seed_that_was_set(made):
    env = MultiEnvWrapper(made.makers, sample_tasks_on_reset=True)
    env.seed(4)
    env.reset()
    assert env.np_random_seed == 4
    assert made.envs[env.get_task_state()].seeds == [seeding.child_seed(4, env.get_task_state())]


# Rendering and closing.


def test_render_shows_the_active_environment():
    env = MultiEnvWrapper(counting_makers(3, render_mode="rgb_array"))
    assert env.render_mode == "rgb_array"
    assert env.metadata["render_fps"] == 10
    env.reset()
    assert np.array_equal(env.render(), np.full((2, 2, 3), 0, np.uint8))
    env.reset(options={"task_state": 1})
    env.step(0)
    assert np.array_equal(env.render(), np.full((2, 2, 3), 101, np.uint8))


def test_close_closes_every_environment_that_was_built_and_builds_none(env, made):
    env.reset(options={"task_state": 2})
    env.close()
    assert {index: e.closed for index, e in made.envs.items()} == {0: True, 2: True}
    env.close()


class SulkingEnv(CountingEnv):
    def close(self):
        super().close()
        raise OSError("no")


def test_close_closes_the_others_when_one_of_them_fails():
    envs = [SulkingEnv(), CountingEnv()]
    env = MultiEnvWrapper([lambda e=e: e for e in envs], unify="pad")
    with pytest.raises(OSError, match="no"):
        env.close()
    assert [e.closed for e in envs] == [True, True]


# Copies.


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("unify", [None, "pad"])
def test_a_copy_plays_the_same_on_its_own(duplicate, unify):
    env = MultiEnvWrapper(counting_makers(3), unify=unify, sample_tasks_on_reset=True)
    env.reset(seed=5, options={"task_state": 1})
    env.step(0)
    other = duplicate(env)
    mine = [env.step(1), *play(env, [0, 1]), *play(env, [0])]
    assert equal([other.step(1), *play(other, [0, 1]), *play(other, [0])], mine)


@pytest.mark.parametrize("unify", [None, "pad"])
def test_it_is_freed_with_its_last_reference(unify):
    env = MultiEnvWrapper(counting_makers(2), unify=unify)
    play(env, [0], seed=0, options={"task_state": 1})
    reference = weakref.ref(env)
    del env
    assert reference() is None


def test_a_state_between_episodes_holds_the_streams_of_the_environments():
    runs = []
    for _ in range(2):
        env = MultiEnvWrapper(counting_makers(3), sample_tasks_on_reset=True)
        for seed in (5, None, None):
            env.reset(seed=seed)
        if runs:
            env = MultiEnvWrapper(counting_makers(3), sample_tasks_on_reset=True)
            env.set_state(runs[0][0])
        state = json.loads(json.dumps(env.get_state()))
        runs.append((state, [env.reset() for _ in range(8)]))
    assert runs[0][0] == runs[1][0]
    assert equal(runs[0][1], runs[1][1])
    assert len({info["draw"] for _, info in runs[0][1]}) == 8
