"""The behaviour of `MultiEnvWrapper` alone: many environments, and one space for all of them.

What it shares with other environments over a list of tasks is in ``test_task_list.py``.
"""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import FlattenObservation

import mtwrappers as mt
from mtwrappers.common import seeding
from mtwrappers.testing import check_mtenv
from tests.fakes import (
    Constructors,
    CountingEnv,
    check_env_warnings,
    counting_makers,
    equal,
    play,
)
from tests.mixed_envs import ARMS

BOX = Box(0, 1000, (2,), np.float64)
PAD, PAD_TO_BOX = {"unify": "pad"}, {"unify": "pad", "env_observation_space": BOX}


class OddEnv(CountingEnv):
    """Empties its options, returns NumPy's scalars, and speaks of tasks itself."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options and dict(options))
        if options:
            options.clear()
        return result

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, np.float32(reward), np.bool_(terminated), np.bool_(truncated), info

    def _info(self):
        return {**super()._info(), "task_id": 77, "task_name": "inner"}


def test_an_episode_is_that_of_the_active_environment_in_plain_python():
    envs = [OddEnv(first=100 * i) for i in range(3)]
    makers = [lambda env=env: env for env in envs]
    env = mt.MultiEnvWrapper(makers, task_names=["a", "b", "c"])
    assert env.observation_space == Dict({"env_obs": BOX, "task_obs": Discrete(3)})
    assert env.action_space == Discrete(2)
    options = {"task_state": 2, "start": 5, "state": 1, "tasks": [2]}
    (obs, info), *steps = play(env, [0, 1, 0], seed=0, options=options)
    assert options == {"task_state": 2, "start": 5, "state": 1, "tasks": [2]}
    for count, observation in enumerate([obs, *(step[0] for step in steps)]):
        assert equal(observation, {"env_obs": np.full(2, 200.0 + count), "task_obs": np.int64(2)})
    info = {**info, "task_id": 2, "task_name": "c"}
    assert equal(
        [step[1:] for step in steps],
        [(float(n), n == 3, False, {**info, "steps": n}) for n in (1, 2, 3)],
    )
    env.reset(options={"resample_task": False})
    env.reset()
    assert envs[2].options == [{"start": 5, "state": 1, "tasks": [2]}, None, None]
    assert mt.MultiEnvWrapper(counting_makers(3)).task_names is None


class SulkingEnv(CountingEnv):
    def close(self):
        super().close()
        raise OSError("no")


def test_only_the_initial_environment_is_built_at_once_every_other_on_first_use_and_all_close():
    constructors = Constructors(3, {1: SulkingEnv})
    env = mt.MultiEnvWrapper(constructors.makers, 1)
    assert (env.get_task_state(), env.envs_built, constructors.built) == (1, 1, [1])
    env.reset(seed=5)
    env.seed(6)
    env.seed_task(7)
    assert constructors.built == [1]
    for state, built in ((2, [1, 2]), (1, [1, 2]), (0, [1, 2, 0]), (2, [1, 2, 0])):
        env.set_task_state(state)
        assert (constructors.built, env.envs_built) == (built, len(built))
        assert env.reset()[0]["env_obs"][0] == [0, 0, 200][state]
    with pytest.raises(OSError, match="no"):
        env.close()
    assert [env.closed for env in constructors.envs.values()] == [True] * 3


# What does not work out leaves the previous task.


class DiscreteEnv(CountingEnv):
    def __init__(self, n):
        super().__init__()
        self.observation_space = Discrete(n)


BEYOND = "{} has an observation space that is not within"


@pytest.mark.parametrize(
    ("change", "message", "kwargs"),
    [
        ({"num_actions": 3}, r"{} has another .*: it is Discrete\(3\), expected Discrete\(2\)", {}),
        ({"obs_size": 3}, rf"{BEYOND} .*; unify='pad' makes .*: it is .*\(3,\).* expected Box", {}),
        ({"high": 1001}, rf"{BEYOND} .* env_obse.*: its bounds at 0 are \[0.0, 1001.0\], exp", {}),
        (
            {"high": 1001},
            rf"{BEYOND} [^;]*; give an env_observation_space that holds those of all: its bounds",
            {"env_observation_space": CountingEnv().observation_space},
        ),
        ({"obs_size": 3}, rf"{BEYOND} .* when padded with zeros: it is .*\(3,\)", PAD_TO_BOX),
        (partial(DiscreteEnv, 4), r"of {} must be a 1-D Box .*got Discrete\(4\)", PAD_TO_BOX),
        (OSError("busy"), "busy\nthe constructor of {} failed", {}),
        (dict, r"the constructor of {} must return a gymnasium.Env, got {{}}", {}),
    ],
)
def test_an_environment_that_cannot_serve_names_its_task_and_leaves_the_previous(
    change, message, kwargs
):
    constructors = Constructors(3, {2: change})
    env = mt.MultiEnvWrapper(constructors.makers, 1, task_names=["a", "b", "c"], **kwargs)
    play(env, [0], seed=0)
    pattern = message.format(r"task 2 \('c'\)")
    for switch in (env.set_task_state, lambda state: env.reset(options={"task_state": state})):
        with pytest.raises((ValueError, TypeError, OSError), match=pattern):
            switch(2)
        assert "constructor" in message or constructors.envs[2].closed
    assert (env.get_task_state(), env.envs_built) == (1, 1)
    obs, *_, info = env.step(0)
    assert (obs["env_obs"][0], obs["task_obs"], info["task_id"]) == (102, 1, 1)
    constructors.changes.clear()  # it is tried again
    assert env.reset(options={"task_state": 2})[0]["env_obs"].tolist() == [200, 200]


@pytest.mark.parametrize(
    ("changes", "kwargs", "message"),
    [
        ({}, {"env_observation_space": Box(0, 10, (2,), np.float64)}, "task 0 has .*, expected wi"),
        ({1: partial(DiscreteEnv, 3)}, PAD, "space of task 1 must be a 1-D Box"),
        ({1: {"num_actions": 3}}, PAD, r"task 1 has .*TransformAct.*\(3\), .*\(2\)"),
        ({2: OSError("busy")}, PAD, "busy\nthe constructor of task 2 failed"),
    ],
)
def test_a_construction_that_fails_closes_what_was_built(changes, kwargs, message):
    constructors = Constructors(3, changes)
    with pytest.raises((OSError, TypeError, ValueError), match=message):
        mt.MultiEnvWrapper(constructors.makers, **kwargs)
    assert constructors.envs
    assert all(env.closed for env in constructors.envs.values())


# One observation space for all, and actions of other lengths.


def test_padded_environments_keep_the_contracts():
    make = partial(
        mt.MultiEnvWrapper, ARMS, unify="pad", task_embedding=np.arange(6.0).reshape(3, 2)
    )
    check_mtenv(make(sample_tasks_on_reset=True))
    env = make()
    assert check_env_warnings(env, skip_render_check=True) == []
    env.set_task_state(1)
    assert env.observation_mask.tolist() == [True] * 5
    assert env.action_mask.tolist() == [True] + [False] * 3


# What else is said of a task, and how long it is.


def test_an_embedding_is_shown_beside_the_task():
    rows = [[0.5, 1], [2, 3]]
    env = mt.MultiEnvWrapper(counting_makers(2), task_embedding=rows)
    assert env.observation_space["task_embedding"] == Box(
        np.array([0.5, 1]), np.array([2.0, 3]), dtype=np.float64
    )
    obs, _ = env.reset(options={"task_state": 1})
    assert (obs["task_embedding"].tolist(), obs["task_obs"]) == ([2, 3], 1)
    obs["task_embedding"][:] = 77  # which is the caller's own
    obs = env.step(0)[0]
    assert equal(obs["task_embedding"], np.array([2.0, 3]))
    flat = mt.FlattenMTEnv(env)
    assert equal(flat.observation(obs), FlattenObservation(env).observation(obs))
    assert flat.observation(obs).tolist() == [101, 101, 2, 3, 0, 1]
    assert flat.observation_space == FlattenObservation(env).observation_space
    flat = mt.FlattenMTEnv(env, "none")
    assert flat.observation(obs).tolist() == [101, 101, 2, 3]
    assert flat.observation_space.high.tolist() == [1000, 1000, 2, 3]
    env = mt.MultiEnvWrapper(counting_makers(2, dtype=np.uint8, high=255), task_embedding=rows)
    with pytest.raises(TypeError, match=r"task_embedding of dtype float64 .* dtype uint8 wit"):
        mt.FlattenMTEnv(env)


@pytest.mark.parametrize(
    ("kwargs", "rewards"),
    [
        ({}, [[1, 2, 3, 4, 5]] * 2),
        ({"max_episode_steps": 2}, [[1, 2], [1, 2]]),
        ({"max_episode_steps": [2, None]}, [[1, 2], [1, 2, 3, 4, 5]]),
        ({"max_episode_steps": 3, "action_repeat": [2, None]}, [[3, 3], [1, 2, 3]]),
    ],
)
def test_each_task_has_a_horizon_and_repeats_of_its_own(kwargs, rewards):
    env = mt.MultiEnvWrapper(counting_makers(2, length=5), **kwargs)
    for task, expected_rewards in enumerate(rewards):
        _, *steps = play(env, [0] * len(expected_rewards), options={"task_state": task})
        assert [step[1] for step in steps] == expected_rewards
        is_terminated = len(expected_rewards) == 5
        *earlier_ends, last_end = [step[2:4] for step in steps]
        assert earlier_ends == [(False, False)] * (len(expected_rewards) - 1)
        assert last_end == (is_terminated, not is_terminated)


def test_a_horizon_cannot_lengthen_that_of_an_environment():
    make = partial(gymnasium.make, "Pendulum-v1")
    assert mt.MultiEnvWrapper([make], max_episode_steps=200)._max_episode_steps == 200
    with pytest.raises(
        ValueError, match=r"task 0 truncates its episodes after 200 steps, .*=201 can"
    ):
        mt.MultiEnvWrapper([make], max_episode_steps=201)


def test_each_environment_gets_its_own_branch_of_each_seed_once():
    constructors = Constructors(3)
    env = mt.MultiEnvWrapper(constructors.makers)
    env.reset()
    for seed in (0, 7):
        env.reset(seed=seed, options={"task_state": 0})
        for state in (2, 0, 2):
            env.reset(options={"task_state": state})
    with pytest.raises(TypeError, match="a seed must be an integer, got 'x'"):
        env.reset(seed="x")
    env.reset()
    branches = {i: [seeding.child_seed(0, i), None, seeding.child_seed(7, i), None] for i in (0, 2)}
    assert constructors.envs[0].seeds == [None, *branches[0]]
    assert constructors.envs[2].seeds == [*branches[2], None]


def test_a_state_closes_the_environments_that_it_does_not_have():
    class RememberingEnv(CountingEnv):
        """Begins where its last episode ended, which its state has."""

        def get_state(self):
            return {"first": self.first}

        def set_state(self, state):
            self.first = state["first"]

        def step(self, action):
            self.first += 1
            return super().step(action)

    env, restored = (mt.MultiEnvWrapper([RememberingEnv] * 2) for _ in range(2))
    state = env.get_state()
    play(restored, [0, 0], options={"task_state": 1})
    discarded_env = restored.active_env
    restored.set_state(state)
    assert discarded_env.closed
    assert (restored.get_task_state(), restored.envs_built) == (0, 1)
    expected, _ = env.reset(options={"task_state": 1})
    actual, _ = restored.reset(options={"task_state": 1})
    assert equal(actual["env_obs"], expected["env_obs"])


class FailingReset(CountingEnv):
    """Fails in its second reset."""

    resets = 0

    def reset(self, **kwargs):
        self.resets += 1
        if self.resets == 2:
            raise RuntimeError("the reset failed")
        return super().reset(**kwargs)


def test_a_reset_that_failed_ends_the_episode():
    env = mt.MultiEnvWrapper([FailingReset])
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="the reset failed"):
        env.reset()
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_a_space_of_another_size_than_the_padding_is_refused():
    space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float64)
    with pytest.raises(ValueError, match=r"is 10, but env_observation_space has shape \(4,\)"):
        mt.MultiEnvWrapper(
            counting_makers(2), unify={"observation_size": 10}, env_observation_space=space
        )


def test_an_error_about_the_name_of_a_task_says_its_task_state():
    env = mt.MultiEnvWrapper(counting_makers(3), task_names=["light", "normal", "heavy"])
    with pytest.raises(ValueError, match=r"task state \(2 for 'heavy'\) must be .*, got 'heavy'"):
        env.set_task_state("heavy")
