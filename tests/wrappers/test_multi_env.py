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


def env_obs(env, state):
    """What the environment of a task observes when it is reset."""
    return env.reset(options={"task_state": state})[0]["env_obs"].tolist()


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
    options = {"task_state": 2, "start": 5}
    (obs, info), *steps = play(env, [0, 1, 0], seed=0, options=options)
    assert options == {"task_state": 2, "start": 5}
    for count, each in enumerate([obs, *(step[0] for step in steps)]):
        assert equal(each, {"env_obs": np.full(2, 200.0 + count), "task_obs": np.int64(2)})
    info = {**info, "task_id": 2, "task_name": "c"}
    assert equal(
        [step[1:] for step in steps],
        [(float(n), n == 3, False, {**info, "steps": n}) for n in (1, 2, 3)],
    )
    env.reset(options={"resample_task": False})
    env.reset()
    assert made[2].options == [{"start": 5}, None, None]
    assert MultiEnvWrapper(counting_makers(3)).task_names is None


class LenEnv(CountingEnv):
    """An environment that is false in a condition."""

    def __len__(self):
        return 0


def test_only_the_initial_environment_is_built_at_once_and_every_other_on_first_use(monkeypatch):
    monkeypatch.setattr("tests.fakes.CountingEnv", LenEnv)
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
    assert made.built == built


# What does not work out leaves the previous task.

IN_BOX = r"Box\(0.0, 1000.0, \(2,\), float64\)"
# What the environment of task 2 is given instead, and what is said of it.
MISFITS = [
    ({"num_actions": 3}, r"{} has action space Discrete\(3\), expected Discrete\(2\)"),
    ({"obs_size": 3}, rf"{{}} has .*\(3,\).* within {IN_BOX}; pass unify='pad'"),
    ({"high": 1001}, rf"{{}} .*1001.0, .* within {IN_BOX}; .* env_observation_space="),
    ({"low": -1}, rf"{{}} .*Box\(-1.0, .* within {IN_BOX}; .* env_observation_"),
    ({"dtype": "float32"}, rf"{{}} .*float32\), expected one within {IN_BOX}"),
    (OSError("busy"), "the constructor of {} failed: busy"),
    ({"no": 1}, "the constructor of {} failed: .* unexpected keyword"),
]


@pytest.mark.parametrize(("change", "message"), MISFITS)
@pytest.mark.parametrize("names", [None, ["a", "b", "c"]])
def test_an_environment_that_cannot_serve_names_its_task_and_leaves_the_previous(
    change, message, names
):
    made = Constructors(3, {2: change})
    env = MultiEnvWrapper(made.makers, 1, task_names=names)
    play(env, [0], seed=0)
    pattern = message.format(r"task 2 \('c'\)" if names else "task 2")
    for use in (env.set_task_state, partial(env_obs, env)):
        with pytest.raises((ValueError, TypeError, OSError), match=pattern) as caught:
            use(2)
        if "constructor" in message:
            assert isinstance(caught.value, type(caught.value.__cause__))
        else:
            assert isinstance(caught.value, ValueError)
            assert made.envs[2].closed
    assert (env.get_task_state(), env.envs_built) == (1, 1)
    obs, *_, info = env.step(0)
    assert (obs["env_obs"][0], obs["task_obs"], info["task_id"]) == (102, 1, 1)
    made.changes.clear()  # it is tried again
    assert [env_obs(env, 0), env_obs(env, 2)] == [[0, 0], [200, 200]]


def test_a_failed_draw_leaves_the_previous_task():
    env = MultiEnvWrapper([CountingEnv, dict], task_names=["a", "b"], select="round_robin")
    env.reset(seed=0, options={"resample_task": True})
    message = r"the constructor of task 1 \('b'\) must return a gymnasium.Env, got {}"
    with pytest.raises(TypeError, match=message):
        env.reset(options={"resample_task": True})
    assert env.get_task_state() == 0
    assert env.step(0)[0]["env_obs"][0] == 1


class DiscreteEnv(CountingEnv):
    def __init__(self, n):
        super().__init__()
        self.observation_space = Discrete(n)


def test_other_spaces_that_differ_give_no_hint_that_would_not_help():
    env = MultiEnvWrapper([partial(DiscreteEnv, 3), partial(DiscreteEnv, 4)])
    with pytest.raises(ValueError, match=r"task 1 .* Discrete\(4\), expected .* Discrete\(3\)$"):
        env.set_task_state(1)
    with pytest.raises(TypeError, match="observation space of task 1 must be a 1-D Box"):
        MultiEnvWrapper([CountingEnv, partial(DiscreteEnv, 3)], unify="pad")


SMALL = Box(0, 10, (2,), np.float64)
PAD = {"unify": "pad"}


@pytest.mark.parametrize(
    ("changes", "kwargs", "error", "message"),
    [
        ({}, {"select": "best"}, ValueError, r"select must be one of .*, got 'best'"),
        ({}, {"env_observation_space": SMALL}, ValueError, "task 0 has .*, expected one within"),
        ({1: {"dtype": "float32"}}, PAD, ValueError, "needs one dtype, .*'float32', 'float64'"),
        ({2: OSError("busy")}, PAD, OSError, "constructor of task 2 failed: busy"),
    ],
)
def test_a_construction_that_fails_closes_what_was_built(changes, kwargs, error, message):
    made = Constructors(3, changes)
    with pytest.raises(error, match=message):
        MultiEnvWrapper(made.makers, **kwargs)
    assert made.envs
    assert all(env.closed for env in made.envs.values())


# One observation space for all.


def test_a_named_observation_space_holds_environments_that_differ():
    space = Box(-5, 2000, (2,), np.float64)
    made = Constructors(2, {1: {"low": -5, "high": 2000}})
    env = MultiEnvWrapper(made.makers, env_observation_space=space)
    assert env.observation_space["env_obs"] == space
    assert env_obs(env, 1) == [100, 100]


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


def test_padding_to_a_space_that_is_too_short_names_the_task():
    made = Constructors(2, {1: {"obs_size": 3}})
    env = MultiEnvWrapper(made.makers, unify="pad", env_observation_space=BOX)
    message = r"task 1 has observation space .*\(3,\).*, expected .* when padded with zeros"
    with pytest.raises(ValueError, match=message):
        env.set_task_state(1)
    assert made.envs[1].closed


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
