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


def start_at(env, task):
    env.first = task


# Each makes an environment of six tasks that stays with its task by default.


def many(n=6, render_mode=None, **kwargs):
    makers = [
        partial(CountingEnv, first=10 * i, obs_size=1 + i % 3, render_mode=render_mode)
        for i in range(n)
    ]
    return MultiEnvWrapper(makers, task_names=NAMES[:n], unify="pad", **kwargs)


def one(n=6, render_mode=None, **kwargs):
    env, tasks = CountingEnv(render_mode=render_mode), [10 * i for i in range(n)]
    return EnvToMTEnv(env, tasks, start_at, task_names=NAMES[:n], **kwargs)


def metaworld(n=6, **kwargs):
    benchmark = {"train_classes": ["reach-v3", "push-v3"], "num_goals": n // 2, "select": "uniform"}
    kwargs = {"sample_tasks_on_reset": False, **kwargs}
    return MetaWorldMTEnv("CustomMT", **benchmark | kwargs)


every = pytest.mark.parametrize("make", [many, one, metaworld])
copies = pytest.mark.parametrize(
    "copy_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"]
)


def actions(env, n):
    env.action_space.seed(0)
    return [env.action_space.sample() for _ in range(n)]


def returned(env, **reset):
    return play(env, actions(env, 2), **reset)


def state_after(env, **reset):
    env.reset(**reset)
    return env.get_task_state()


@pytest.mark.parametrize(
    ("make", "select", "moves"),
    [
        (many, "uniform", False),
        (one, "uniform", False),
        (one, "without_replacement", True),
        (metaworld, "without_replacement", True),
    ],
)
def test_it_keeps_the_contract_of_an_mtenv_and_that_of_gymnasium(make, select, moves):
    env = make(select=select, sample_tasks_on_reset=moves)
    assert env.unwrapped is env
    check_mtenv(env)
    fresh = make(select=select, sample_tasks_on_reset=moves)
    assert check_env_warnings(fresh, skip_render_check=True) == []


@every
def test_observations_and_infos_say_which_task_it_is(make):
    env = make()
    ids, names = env.task_ids, env.task_names
    assert env.num_tasks == len(ids) == 6
    assert env.task_observation_space == Discrete(len(names))
    for state in (np.int64(4), 1, np.uint8(0)):
        for obs, *_, info in returned(env, options={"task_state": state}):
            assert obs in env.observation_space
            assert equal(obs["task_obs"], np.int64(ids[state]))
            assert (info["task_id"], info["task_name"]) == (ids[state], names[ids[state]])
            assert type(info["task_id"]) is int
        assert env.get_task_state() == state
        assert type(env.get_task_state()) is int
        assert equal(env.get_task_obs(), np.int64(ids[state]))


@every
def test_a_task_that_there_is_not_names_the_range_and_the_episode_goes_on(make):
    env, undisturbed = make(), make()
    for each in (env, undisturbed):
        play(each, actions(env, 1), seed=0, options={"task_state": 1})
    for state in (6, -1, 1.0, "1", None, True, np.True_, [0]):
        for use in (env.set_task_state, lambda s: env.reset(seed=4, options={"task_state": s})):
            with pytest.raises(ValueError, match=r"task state must be an integer in \[0, 5\], got"):
                use(state)
    assert (env.get_task_state(), env.np_random_seed) == (1, 0)
    [action] = actions(env, 1)
    assert equal(env.step(action), undisturbed.step(action))


@every
def test_a_switch_needs_a_reset(make):
    env = make()
    [action] = actions(env, 1)
    env.reset(seed=0)
    for state in (env.get_task_state(), 5):
        env.set_task_state(state)
        for use in (partial(env.step, action), env.render):
            with pytest.raises(ResetNeeded, match=rf"task {state} was set but not reset: call re"):
                use()
        assert state_after(env) == state
        env.step(action)
    env.close()  # after which only Meta-World's needs a reset
    for one in (make(), *([env] if make is metaworld else [])):
        with pytest.raises(ResetNeeded, match=r"no episode since .* or closed, .*: call"):
            one.step(action)


@every
def test_a_seed_determines_tasks_and_episodes_whatever_was_played_or_drawn_elsewhere(make):
    used, fresh = (make(sample_tasks_on_reset=True) for _ in range(2))
    for state in (3, 0, 4):
        returned(used, seed=11, options={"task_state": state})
    drawn = []
    for seed in (5, 0, 5):
        runs = [
            [returned(env, seed=seed), *(returned(env) for _ in range(8))] for env in (used, fresh)
        ]
        assert equal(*runs)
        drawn.append([fresh.sample_task_state() for _ in range(20)])
    assert drawn[0] == drawn[2] != drawn[1]


# Which task a reset begins.


@every
def test_every_reset_draws_the_next_task_if_asked_to_and_none_was_set(make):
    env = make(select="round_robin", sample_tasks_on_reset=True)
    assert env.task_states == (0, 1, 2, 3, 4, 5)
    assert [state_after(env, seed=0), *(state_after(env) for _ in range(2))] == [0, 1, 2]
    env.set_task_state(5)
    assert [state_after(env) for _ in range(2)] == [5, 3]
    assert state_after(env, options={"task_state": 2}) == 2
    # Asking for a draw and drawing at every reset is one draw.
    assert state_after(env, options={"resample_task": True}) == 4
    assert state_after(env) == 5
    env.set_task_state(4)
    assert [state_after(env, seed=1), state_after(env)] == [4, 0]
    env.sample_tasks_on_reset = False
    assert [state_after(env) for _ in range(2)] == [0, 0]


def test_one_that_stays_draws_in_the_first_reset_after_a_seed_if_no_task_was_set():
    env = metaworld(select="round_robin", seed=3)
    assert env.task_states == (0, 1, 2, 3, 4, 5)
    assert [state_after(env) for _ in range(3)] == [0, 0, 0]
    env.set_task_state(5)
    env.seed_task(1)  # the task that was set goes first, and the seed then has no more to say
    assert [state_after(env) for _ in range(2)] == [5, 5]
    env.seed_task(1)
    env.sample_tasks_on_reset = True
    env.sample_tasks_on_reset = False
    state = env.get_state()
    assert [state_after(env) for _ in range(2)] == [0, 0]
    env.set_state(state)
    assert [state_after(env) for _ in range(2)] == [0, 0]
    stays = one(select="round_robin")
    stays.set_task_state(4)
    assert stays.task_states == (4,)
    assert [state_after(stays, seed=seed) for seed in (0, 1)] == [4, 4]


@every
def test_one_that_draws_on_reset_seeds_itself_where_nobody_did(make):
    env = make(sample_tasks_on_reset=True)
    env.seed(4)
    env.reset()
    assert env.np_random_seed == 4
    assert env.sample_task_state() in range(6)


def test_a_first_seed_is_that_of_a_first_reset_without_one():
    env, other = (metaworld(sample_tasks_on_reset=True, seed=3) for _ in range(2))
    runs = [[returned(env), returned(env)], [returned(other, seed=3), returned(other)]]
    assert equal(*runs)


# States and copies.


@every
@pytest.mark.parametrize("moves", [False, True])
def test_a_state_between_episodes_goes_through_json_and_goes_on(make, moves):
    kwargs = {"select": "without_replacement", "sample_tasks_on_reset": moves}
    env, other = make(**kwargs), make(**kwargs)
    for seed in (5, None, None):
        returned(env, seed=seed)
    returned(other, seed=9)
    other.set_state(json.loads(json.dumps(env.get_state())))
    runs = []
    for each in (env, other):
        drawn = [each.sample_task_state() for _ in range(3)]
        runs.append((drawn, [returned(each) for _ in range(8)]))
    assert equal(*runs)


@every
@copies
def test_a_copy_is_on_the_task_of_the_original_and_leaves_it_in_its_episode(make, copy_of):
    env, undisturbed = (make(sample_tasks_on_reset=True) for _ in range(2))
    [action] = actions(env, 1)
    for each in (env, undisturbed):
        play(each, [action], seed=5, options={"task_state": 4})
    other = copy_of(env)
    assert other.get_task_state() == 4
    spaces = [(each.observation_space, each.action_space) for each in (env, other)]
    assert spaces[0] == spaces[1]
    if make is not metaworld:  # whose simulation is built anew, and begins with a reset
        assert equal(copy_of(env).step(action), undisturbed.step(action))
        undisturbed = copy_of(env)
    run = [returned(other, seed=6), *(returned(other) for _ in range(4))]
    assert equal(env.step(action), undisturbed.step(action))
    assert equal([returned(env, seed=6), *(returned(env) for _ in range(4))], run)
