"""The promises of every wrapper of a single environment."""

import copy
import pickle
import weakref

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import TimeAwareObservation, TimeLimit

from mtwrappers import (
    FlattenMTEnv,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    RL2Observation,
    TaskNameWrapper,
    TaskOnehotWrapper,
)
from mtwrappers.wrappers.action_repeat import ActionRepeat
from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
from tests.fakes import check_env_warnings, equal, play

# Numbers are of NumPy's types: specs go through JSON even so.
ONE, TWO = np.int64(1), np.int64(2)
MULTI = {"env_ids": ["tests/Short-v0"] * 2, "task_encoding": "dict"}
WRAPPERS = {
    "one-hot": lambda env: TaskOnehotWrapper(env, ONE, 3),
    "name": lambda env: TaskNameWrapper(env, task_name="reach", task_id=3),
    "repeat": lambda env: ActionRepeat(env, ONE),
    "success": lambda env: TerminateOnSuccess(env, key="draw"),
    "reward": lambda env: NormalizeRewardPerTask(env, num_tasks=ONE, gamma=0.5),
    "observation": lambda env: NormalizeObservationPerTask(env, num_leading=ONE),
    "rl2": lambda env: RL2Observation(env, reward_divisor=10),
    "flat": FlattenMTEnv,
    "flat, no task": lambda env: FlattenMTEnv(env, "none"),
}
every = pytest.mark.parametrize("kind", WRAPPERS)


def base(kind):
    """An environment to wrap, and the ones that count beneath it."""
    env_id, kwargs = ("tests/Short-v0", {})
    if "flat" in kind:
        env_id, kwargs = "mtwrappers/MultiEnv-v0", {**MULTI, "select": "round_robin"}
    return gymnasium.make(env_id, render_mode="rgb_array", **kwargs)


def counting(env):
    return getattr(env.unwrapped, "active_env", env).unwrapped


@every
def test_it_keeps_gymnasiums_contract(kind):
    env = WRAPPERS[kind](base(kind))
    if kind in ("reward", "observation"):
        env.update_running_mean = False  # else what was seen before matters, as in Gymnasium's
    warned = check_env_warnings(env, skip_render_check=True)
    assert [w for w in warned if "infinity" not in w] == []


@every
def test_its_spec_goes_through_json_between_other_wrappers(kind):
    env, fresh = (TimeAwareObservation(WRAPPERS[kind](TimeLimit(base(kind), 2))) for _ in range(2))
    spec = EnvSpec.from_json(env.spec.to_json())
    again = gymnasium.make(spec)
    assert again.spec == env.spec == spec
    assert [type(again), type(again.env)] == [type(env), type(env.env)]
    assert equal(play(again, [0, 1], seed=5), play(fresh, [0, 1], seed=5))


@every
def test_a_seed_options_and_actions_reach_the_environment_which_it_renders_and_closes(kind):
    env = WRAPPERS[kind](base(kind))
    options = {"x": 1}
    env.reset(seed=5, options=options)
    env.reset(options={"task_state": 0} if "flat" in kind else None)
    env.step(1)
    inner = counting(env)
    assert options == {"x": 1}
    assert inner.options == [{"x": 1}, None]
    assert (len(inner.seeds), inner.seeds[0] is None, inner.seeds[1]) == (2, False, None)
    assert inner.actions == [1]
    assert env.render_mode == "rgb_array"
    assert np.array_equal(env.render(), np.full((2, 2, 3), 1, np.uint8))
    env.close()
    assert inner.closed


@every
@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_goes_on_by_itself(kind, copy_of):
    env, undisturbed = (WRAPPERS[kind](base(kind)) for _ in range(2))
    for each in (env, undisturbed):
        play(each, [0], seed=5)
    other = copy_of(env)
    run = [other.step(1), *play(other, [0, 1])]
    assert equal([env.step(1), *play(env, [0, 1])], run)
    assert equal([undisturbed.step(1), *play(undisturbed, [0, 1])], run)


@every
def test_it_is_freed_with_its_last_reference(kind):
    env = WRAPPERS[kind](base(kind))
    play(env, [0], seed=0)
    reference = weakref.ref(env)
    del env
    assert reference() is None


class Returning(gymnasium.Env):
    """Returns zeros in a reset, and something given in a step."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, returned, dtype):
        self.returned = returned
        self.observation_space = gymnasium.spaces.Box(0, 9, (2,), dtype)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, self.observation_space.dtype), {}

    def step(self, action):
        return self.returned, 0.0, False, False, {}


takes_rows = pytest.mark.parametrize(
    "wrap",
    [lambda env: TaskOnehotWrapper(env, 0, 3), RL2Observation, NormalizeObservationPerTask],
    ids=["one-hot", "rl2", "observation"],
)
ROW = np.array([1.0, 2.0])
NO_ROWS = [
    3.0,
    None,
    {},
    "ab",
    [1],
    [1, None],
    ROW[:1],
    ROW[:, None],
    ROW[None],
    np.array(["1"] * 2),
]


@takes_rows
@pytest.mark.parametrize("returned", [*NO_ROWS, ROW * 1j, ROW.astype(object)], ids=repr)
def test_a_step_whose_observation_is_none_of_the_space_is_refused(wrap, returned):
    env = wrap(Returning(returned, np.float64))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        env.step(1)


@takes_rows
@pytest.mark.parametrize("returned", [[1, 2], (1.0, 2.0), ROW.astype(np.float32), ROW.astype(int)])
def test_numbers_of_other_types_are_taken_as_an_observation(wrap, returned):
    env, same = (wrap(Returning(each, np.float64)) for each in (returned, ROW))
    assert equal(*([e.reset(seed=0), e.step(1)] for e in (env, same)))
