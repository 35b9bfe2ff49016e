"""What is particular to `MultiEnvWrapper`: many environments, and one space for all of them.

What it shares with other environments over a list of tasks is in ``test_task_list.py``.
"""

from functools import partial

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from mtwrappers import MultiEnvWrapper, seeding
from tests.fakes import Constructors, CountingEnv, counting_makers, equal, play

BOX = Box(0, 1000, (2,), np.float64)
PAD_TO_BOX = {"unify": "pad", "env_observation_space": BOX}


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
    made = [OddEnv(first=100 * i) for i in range(3)]
    env = MultiEnvWrapper([lambda e=e: e for e in made], task_names=["a", "b", "c"])
    assert env.observation_space == Dict({"env_obs": BOX, "task_obs": Discrete(3)})
    assert env.action_space == Discrete(2)
    options = {"task_state": 2, "start": 5, "state": 1, "tasks": [2]}
    (obs, info), *steps = play(env, [0, 1, 0], seed=0, options=options)
    assert options == {"task_state": 2, "start": 5, "state": 1, "tasks": [2]}
    for count, each in enumerate([obs, *(step[0] for step in steps)]):
        assert equal(each, {"env_obs": np.full(2, 200.0 + count), "task_obs": np.int64(2)})
    info = {**info, "task_id": 2, "task_name": "c"}
    assert equal(
        [step[1:] for step in steps],
        [(float(n), n == 3, False, {**info, "steps": n}) for n in (1, 2, 3)],
    )
    env.reset(options={"resample_task": False})
    env.reset()
    assert made[2].options == [{"start": 5, "state": 1, "tasks": [2]}, None, None]
    assert MultiEnvWrapper(counting_makers(3)).task_names is None


def test_only_the_initial_environment_is_built_at_once_and_every_other_on_first_use():
    made = Constructors(3)
    env = MultiEnvWrapper(made.makers, 1)
    assert (env.get_task_state(), env.envs_built, made.built) == (1, 1, [1])
    env.reset(seed=5)
    env.seed(6)
    env.seed_task(7)
    assert made.built == [1]
    for state, built in ((2, [1, 2]), (1, [1, 2]), (0, [1, 2, 0]), (2, [1, 2, 0])):
        env.set_task_state(state)
        assert (made.built, env.envs_built) == (built, len(built))
        assert env.reset()[0]["env_obs"][0] == 100 * state
    env.close()
    assert [e.closed for e in made.envs.values()] == [True] * 3


# What does not work out leaves the previous task.


class DiscreteEnv(CountingEnv):
    def __init__(self, n):
        super().__init__()
        self.observation_space = Discrete(n)


IN_BOX = r"Box\(0.0, 1000.0, \(2,\), float64\)"


@pytest.mark.parametrize("names", [None, ["a", "b", "c"]])
@pytest.mark.parametrize(
    ("change", "message", "kwargs"),
    [
        ({"num_actions": 3}, r"{} has action space Discrete\(3\), expected Discrete\(2\)", {}),
        ({"obs_size": 3}, rf"{{}} has .*\(3,\).* within {IN_BOX}; pass unify='pad'", {}),
        ({"high": 1001}, rf"{{}} .*1001.* {IN_BOX}; it goes beyond at \[0, 1\]; .* env_obse", {}),
        ({"low": -1}, rf"{{}} .*Box\(-1.0, .* within {IN_BOX}; .* env_observation_", {}),
        ({"dtype": "float32"}, rf"{{}} .*float32\), expected one within {IN_BOX}", {}),
        (partial(DiscreteEnv, 4), rf"{{}} .* Discrete\(4\), expected one within {IN_BOX}; ", {}),
        ({"obs_size": 3}, rf"{{}} .*\(3,\).* within {IN_BOX} when padded with zeros", PAD_TO_BOX),
        (
            {"high": 1001},
            rf"{{}} .*1001.* {IN_BOX} when .*; it goes beyond at \[0, 1\]$",
            PAD_TO_BOX,
        ),
        ({"dtype": "float32"}, rf"{{}} .*float32.* {IN_BOX} when padded", PAD_TO_BOX),
        (partial(DiscreteEnv, 4), rf"{{}} .* Discrete\(4\), .* {IN_BOX} when padded", PAD_TO_BOX),
        (OSError("busy"), "busy\nthe constructor of {} failed", {}),
        ({"no": 1}, " unexpected keyword .*\nthe constructor of {} failed", {}),
        (dict, r"the constructor of {} must return a gymnasium.Env, got {{}}", {}),
    ],
)
def test_an_environment_that_cannot_serve_names_its_task_and_leaves_the_previous(
    change, message, kwargs, names
):
    made = Constructors(3, {2: change})
    env = MultiEnvWrapper(made.makers, 1, task_names=names, **kwargs)
    play(env, [0], seed=0)
    pattern = message.format(r"task 2 \('c'\)" if names else "task 2")
    for use in (env.set_task_state, lambda state: env.reset(options={"task_state": state})):
        with pytest.raises((ValueError, TypeError, OSError), match=pattern):
            use(2)
        assert "constructor" in message or made.envs[2].closed
    assert (env.get_task_state(), env.envs_built) == (1, 1)
    obs, *_, info = env.step(0)
    assert (obs["env_obs"][0], obs["task_obs"], info["task_id"]) == (102, 1, 1)
    made.changes.clear()  # it is tried again
    assert env.reset(options={"task_state": 2})[0]["env_obs"].tolist() == [200, 200]


SMALL = Box(0, 10, (2,), np.float64)
PAD = {"unify": "pad"}


@pytest.mark.parametrize(
    ("changes", "kwargs", "error", "message"),
    [
        ({}, {"select": "best"}, ValueError, r"select must be one of .*, got 'best'"),
        ({}, {"env_observation_space": SMALL}, ValueError, "task 0 has .*, expected one within"),
        ({1: {"dtype": "float32"}}, PAD, ValueError, "needs one dtype, .*'float32', 'float64'"),
        ({1: partial(DiscreteEnv, 3)}, PAD, TypeError, "space of task 1 must be a 1-D Box"),
        ({2: OSError("busy")}, PAD, OSError, "busy\nthe constructor of task 2 failed"),
    ],
)
def test_a_construction_that_fails_closes_what_was_built(changes, kwargs, error, message):
    made = Constructors(3, changes)
    with pytest.raises(error, match=message):
        MultiEnvWrapper(made.makers, **kwargs)
    assert made.envs
    assert all(env.closed for env in made.envs.values())


# One observation space for all.


SIZES = {0: {"obs_size": 1}, 1: {"obs_size": 3, "high": 2000}, 2: {"obs_size": 2, "low": -5}}
PADDED = Box(np.array([-5.0, -5, 0]), np.full(3, 2000.0), dtype=np.float64)


@pytest.mark.parametrize(
    ("kwargs", "built"), [({}, [0, 1, 2]), ({"env_observation_space": PADDED}, [1])]
)
def test_padding_appends_zeros_and_builds_everything_unless_the_space_is_named(kwargs, built):
    made = Constructors(3, SIZES)
    env = MultiEnvWrapper(made.makers, 1, unify="pad", **kwargs)
    assert sorted(made.built) == built
    assert env.env_observation_space == PADDED
    for state, first, second in (
        (0, [0, 0, 0], [1, 0, 0]),
        (1, [100, 100, 100], [101, 101, 101]),
        (2, [200, 200, 0], [201, 201, 0]),
    ):
        obs, _ = env.reset(options={"task_state": state})
        assert obs["env_obs"].tolist() == first
        obs["env_obs"][:] = 77  # which is the caller's own
        assert env.step(0)[0]["env_obs"].tolist() == second


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
def test_padding_keeps_the_dtype_and_adds_zero_to_bounds_that_exclude_it(dtype):
    made = Constructors(2, {0: {"obs_size": 3}}, first=5, low=1, high=9, dtype=dtype)
    env = MultiEnvWrapper(made.makers, unify="pad")
    low, high = np.array([1, 1, 0], dtype), np.full(3, 9, dtype)
    assert env.env_observation_space == Box(low, high, dtype=low.dtype.type)
    obs, _ = env.reset(options={"task_state": 1})
    assert equal(obs["env_obs"], np.array([5, 5, 0], dtype))


# Seeds.


def test_each_environment_gets_its_own_branch_of_each_seed_once():
    made = Constructors(3)
    env = MultiEnvWrapper(made.makers)
    env.reset()
    for seed in (0, 7):
        env.reset(seed=seed, options={"task_state": 0})
        for state in (2, 0, 2):
            env.reset(options={"task_state": state})
    with pytest.raises(TypeError, match="a seed must be an integer, got 'x'"):
        env.reset(seed="x")
    env.reset()
    branches = {i: [seeding.child_seed(0, i), None, seeding.child_seed(7, i), None] for i in (0, 2)}
    assert made.envs[0].seeds == [None, *branches[0]]
    assert made.envs[2].seeds == [*branches[2], None]


# Rendering, closing and copying.


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
