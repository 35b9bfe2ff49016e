"""The promises of every environment over a list of tasks, however it comes by its tasks."""

import copy
import json
import pickle
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete

from mtwrappers import EnvToMTEnv, MultiEnvWrapper
from mtwrappers.metaworld import MetaWorldMTEnv
from mtwrappers.testing import check_mtenv
from tests.fakes import CountingEnv, check_env_warnings, equal, play

NAMES = ["a", "b", "c", "d", "e", "f"]


def set_start(env, task):
    env.first = task


# Each of these functions makes an environment of six tasks that stays with its task by default.


def make_multi_env(n=6, render_mode=None, **kwargs):
    makers = [
        partial(CountingEnv, first=10 * i, obs_size=1 + i % 3, render_mode=render_mode)
        for i in range(n)
    ]
    return MultiEnvWrapper(makers, task_names=NAMES[:n], unify="pad", **kwargs)


def make_env_to_mtenv(n=6, render_mode=None, **kwargs):
    env, tasks = CountingEnv(render_mode=render_mode), [10 * i for i in range(n)]
    return EnvToMTEnv(env, tasks, set_start, task_names=NAMES[:n], **kwargs)


def make_metaworld(n=6, **kwargs):
    benchmark = {"train_classes": ["reach-v3", "push-v3"], "num_goals": n // 2, "select": "uniform"}
    kwargs = {"sample_tasks_on_reset": False, **kwargs}
    return MetaWorldMTEnv("CustomMT", **benchmark | kwargs)


every_make = pytest.mark.parametrize("make", [make_multi_env, make_env_to_mtenv, make_metaworld])
copy_methods = pytest.mark.parametrize(
    "copy_env", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"]
)


def sample_actions(env, n):
    env.action_space.seed(0)
    return [env.action_space.sample() for _ in range(n)]


def play_two_steps(env, **reset):
    return play(env, sample_actions(env, 2), **reset)


def reset_and_get_task(env, **reset):
    env.reset(**reset)
    return env.get_task_state()


@pytest.mark.parametrize(
    ("make", "select", "moves"),
    [
        (make_multi_env, "uniform", False),
        (make_env_to_mtenv, "uniform", False),
        (make_env_to_mtenv, "without_replacement", True),
        (make_metaworld, "without_replacement", True),
    ],
)
def test_it_keeps_the_contract_of_an_mtenv_and_that_of_gymnasium(make, select, moves):
    env = make(select=select, sample_tasks_on_reset=moves)
    assert env.unwrapped is env
    check_mtenv(env)
    fresh = make(select=select, sample_tasks_on_reset=moves)
    assert check_env_warnings(fresh, skip_render_check=True) == []


@every_make
def test_observations_and_infos_say_which_task_it_is(make):
    env = make()
    ids, names = env.task_ids, env.task_names
    assert env.num_tasks == len(ids) == 6
    assert env.task_observation_space == Discrete(len(names))
    for state in (np.int64(4), 1, np.uint8(0)):
        for obs, *_, info in play_two_steps(env, options={"task_state": state}):
            assert obs in env.observation_space
            assert equal(obs["task_obs"], np.int64(ids[state]))
            assert (info["task_id"], info["task_name"]) == (ids[state], names[ids[state]])
            assert type(info["task_id"]) is int
        assert env.get_task_state() == state
        assert type(env.get_task_state()) is int
        assert equal(env.get_task_obs(), np.int64(ids[state]))


@every_make
def test_a_task_that_there_is_not_names_the_range_and_the_episode_goes_on(make):
    env, undisturbed = make(), make()
    play(env, sample_actions(env, 1), seed=0, options={"task_state": 1})
    play(undisturbed, sample_actions(env, 1), seed=0, options={"task_state": 1})
    message = r"task state must be an integer in \[0, 5\], got"
    for state in (6, -1, 1.0, "1", None, True, np.True_, [0]):
        with pytest.raises(ValueError, match=message):
            env.set_task_state(state)
        with pytest.raises(ValueError, match=message):
            env.reset(seed=4, options={"task_state": state})
    assert (env.get_task_state(), env.np_random_seed) == (1, 0)
    [action] = sample_actions(env, 1)
    assert equal(env.step(action), undisturbed.step(action))


@every_make
def test_a_switch_needs_a_reset(make):
    env = make()
    [action] = sample_actions(env, 1)
    env.reset(seed=0)
    for state in (env.get_task_state(), 5):
        env.set_task_state(state)
        for call in (partial(env.step, action), env.render):
            with pytest.raises(ResetNeeded, match=rf"task {state} was set but not reset: call re"):
                call()
        assert reset_and_get_task(env) == state
        env.step(action)
    env.close()  # after which only Meta-World's needs a reset
    without_episode = [make(), env] if make is make_metaworld else [make()]
    for env in without_episode:
        with pytest.raises(ResetNeeded, match=r"no episode since .* or closed, .*: call"):
            env.step(action)


@every_make
def test_a_seed_determines_tasks_and_episodes_whatever_was_played_or_drawn_elsewhere(make):
    used, fresh = (make(sample_tasks_on_reset=True) for _ in range(2))
    for state in (3, 0, 4):
        play_two_steps(used, seed=11, options={"task_state": state})
    drawn = []
    for seed in (5, 0, 5):
        actual, expected = (
            [play_two_steps(env, seed=seed), *(play_two_steps(env) for _ in range(8))]
            for env in (used, fresh)
        )
        assert equal(actual, expected)
        drawn.append([fresh.sample_task_state() for _ in range(20)])
    assert drawn[0] == drawn[2] != drawn[1]


# Which task a reset begins.


@every_make
def test_every_reset_draws_the_next_task_if_asked_to_and_none_was_set(make):
    env = make(select="round_robin", sample_tasks_on_reset=True)
    assert env.task_states == (0, 1, 2, 3, 4, 5)
    assert reset_and_get_task(env, seed=0) == 0
    assert [reset_and_get_task(env) for _ in range(2)] == [1, 2]
    env.set_task_state(5)
    assert [reset_and_get_task(env) for _ in range(2)] == [5, 3]
    assert reset_and_get_task(env, options={"task_state": 2}) == 2
    # Asking for a draw and drawing at every reset is one draw.
    assert reset_and_get_task(env, options={"resample_task": True}) == 4
    assert reset_and_get_task(env) == 5
    env.set_task_state(4)
    assert [reset_and_get_task(env, seed=1), reset_and_get_task(env)] == [4, 0]
    env.sample_tasks_on_reset = False
    assert [reset_and_get_task(env) for _ in range(2)] == [0, 0]


def test_one_that_stays_draws_in_the_first_reset_after_a_seed_if_no_task_was_set():
    env = make_metaworld(select="round_robin", seed=3)
    assert env.task_states == (0, 1, 2, 3, 4, 5)
    assert [reset_and_get_task(env) for _ in range(3)] == [0, 0, 0]
    env.set_task_state(5)
    env.seed_task(1)  # the task that was set goes first, and the seed then has no more to say
    assert [reset_and_get_task(env) for _ in range(2)] == [5, 5]
    env.seed_task(1)
    env.sample_tasks_on_reset = True
    env.sample_tasks_on_reset = False
    state = env.get_state()
    assert [reset_and_get_task(env) for _ in range(2)] == [0, 0]
    env.set_state(state)
    assert [reset_and_get_task(env) for _ in range(2)] == [0, 0]
    stays = make_env_to_mtenv(select="round_robin")
    stays.set_task_state(4)
    assert stays.task_states == (4,)
    assert [reset_and_get_task(stays, seed=seed) for seed in (0, 1)] == [4, 4]


@every_make
def test_one_that_draws_on_reset_seeds_itself_where_nobody_did(make):
    env = make(sample_tasks_on_reset=True)
    env.seed(4)
    env.reset()
    assert env.np_random_seed == 4
    assert env.sample_task_state() in range(6)


def test_a_first_seed_is_that_of_a_first_reset_without_one():
    env, seeded = (make_metaworld(sample_tasks_on_reset=True, seed=3) for _ in range(2))
    actual = [play_two_steps(env), play_two_steps(env)]
    expected = [play_two_steps(seeded, seed=3), play_two_steps(seeded)]
    assert equal(actual, expected)


# States and copies.


@every_make
@pytest.mark.parametrize("moves", [False, True])
def test_a_state_between_episodes_goes_through_json_and_goes_on(make, moves):
    kwargs = {"select": "without_replacement", "sample_tasks_on_reset": moves}
    env, restored = make(**kwargs), make(**kwargs)
    for seed in (5, None, None):
        play_two_steps(env, seed=seed)
    play_two_steps(restored, seed=9)
    restored.set_state(json.loads(json.dumps(env.get_state())))
    expected, actual = (
        ([e.sample_task_state() for _ in range(3)], [play_two_steps(e) for _ in range(8)])
        for e in (env, restored)
    )
    assert equal(actual, expected)


@every_make
@copy_methods
def test_a_copy_is_on_the_task_of_the_original_and_leaves_it_in_its_episode(make, copy_env):
    env, undisturbed = (make(sample_tasks_on_reset=True) for _ in range(2))
    [action] = sample_actions(env, 1)
    play(env, [action], seed=5, options={"task_state": 4})
    play(undisturbed, [action], seed=5, options={"task_state": 4})
    copied_env = copy_env(env)
    assert copied_env.get_task_state() == 4
    assert copied_env.observation_space == env.observation_space
    assert copied_env.action_space == env.action_space
    if make is not make_metaworld:  # whose simulation is built anew, and begins with a reset
        assert equal(copy_env(env).step(action), undisturbed.step(action))
        undisturbed = copy_env(env)
    expected = [play_two_steps(copied_env, seed=6), *(play_two_steps(copied_env) for _ in range(4))]
    assert equal(env.step(action), undisturbed.step(action))
    assert equal([play_two_steps(env, seed=6), *(play_two_steps(env) for _ in range(4))], expected)
