"""The promises of every wrapper of a single environment."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeAwareObservation, TimeLimit

import mtwrappers as mt
from mtwrappers.wrappers.action_repeat import ActionRepeat
from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
from tests.fakes import CountingEnv, check_env_warnings, equal, play

# Numbers are of NumPy's types: specs go through JSON even so.
ONE, TWO = np.int64(1), np.int64(2)
MULTI = {"env_ids": ["tests/Short-v0"] * 2, "task_names": ["a", "b"], "task_encoding": "dict"}


class Reports(gymnasium.Wrapper, RecordConstructorArgs):
    """Reports a success at every step."""

    def __init__(self, env):
        RecordConstructorArgs.__init__(self)
        super().__init__(env)

    def step(self, action):
        *result, info = self.env.step(action)
        return (*result, {**info, "won": True})


WRAPPERS = {
    "one-hot": lambda env: mt.TaskOnehotWrapper(env, ONE, 3),
    "name": lambda env: mt.TaskNameWrapper(env, task_name="reach", task_id=3),
    "repeat": lambda env: ActionRepeat(env, ONE),
    "success": lambda env: TerminateOnSuccess(Reports(env), key="won"),
    "reward": lambda env: mt.NormalizeRewardPerTask(env, num_tasks=ONE, gamma=0.5),
    "observation": lambda env: mt.NormalizeObservationPerTask(env, num_leading=ONE),
    "rl2": lambda env: mt.RL2Observation(env, reward_divisor=10),
    "flat": mt.FlattenMTEnv,
    "flat, no task": lambda env: mt.FlattenMTEnv(env, "none"),
}
every_wrapper = pytest.mark.parametrize("kind", WRAPPERS)


def make_base(kind):
    """Makes an environment to wrap."""
    env_id, kwargs = ("tests/Short-v0", {})
    if "flat" in kind:
        env_id, kwargs = "mtwrappers/MultiEnv-v0", {**MULTI, "select": "round_robin"}
    return gymnasium.make(env_id, render_mode="rgb_array", **kwargs)


@every_wrapper
def test_it_keeps_gymnasiums_contract(kind):
    env = WRAPPERS[kind](make_base(kind))
    if kind in ("reward", "observation"):
        env.update_running_mean = False  # else what was seen before matters, as in Gymnasium's
    warnings = check_env_warnings(env, skip_render_check=True)
    assert [warning for warning in warnings if "infinity" not in warning] == []


@every_wrapper
def test_its_spec_goes_through_json_between_other_wrappers(kind):
    env, fresh = (
        TimeAwareObservation(WRAPPERS[kind](TimeLimit(make_base(kind), 2))) for _ in range(2)
    )
    spec = EnvSpec.from_json(env.spec.to_json())
    remade = gymnasium.make(spec)
    assert remade.spec == env.spec == spec
    assert [type(remade), type(remade.env)] == [type(env), type(env.env)]
    assert equal(play(remade, [0, 1], seed=5), play(fresh, [0, 1], seed=5))


@every_wrapper
def test_a_seed_options_and_actions_reach_the_environment_which_it_renders_and_closes(kind):
    env = WRAPPERS[kind](make_base(kind))
    options = {"x": 1}
    env.reset(seed=5, options=options)
    env.reset(options={"task_state": 0} if "flat" in kind else None)
    env.step(1)
    inner = getattr(env.unwrapped, "active_env", env).unwrapped
    assert options == {"x": 1}
    assert inner.options == [{"x": 1}, None]
    assert (len(inner.seeds), inner.seeds[0] is None, inner.seeds[1]) == (2, False, None)
    assert inner.actions == [1]
    assert env.render_mode == "rgb_array"
    assert np.array_equal(env.render(), np.full((2, 2, 3), 1, np.uint8))
    env.close()
    assert inner.closed


@every_wrapper
@pytest.mark.parametrize("copy_env", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_goes_on_by_itself(kind, copy_env):
    env, undisturbed = (WRAPPERS[kind](make_base(kind)) for _ in range(2))
    play(env, [0], seed=5)
    play(undisturbed, [0], seed=5)
    copied_env = copy_env(env)
    expected = [copied_env.step(1), *play(copied_env, [0, 1])]
    assert equal([env.step(1), *play(env, [0, 1])], expected)
    assert equal([undisturbed.step(1), *play(undisturbed, [0, 1])], expected)


@pytest.mark.parametrize(
    "wrap", [WRAPPERS["one-hot"], WRAPPERS["rl2"], mt.NormalizeObservationPerTask]
)
def test_numbers_of_any_type_are_an_observation_and_nothing_else_is(wrap):
    results = []
    for numbers in (np.array([1.0, 2.0]), np.array([1, 2]), [1, 2]):
        env = wrap(CountingEnv())
        env.reset(seed=0)
        env.unwrapped._obs = lambda numbers=numbers: numbers
        results.append(env.step(0))
    assert equal(results[0], results[1])
    assert equal(results[0], results[2])
    env.unwrapped._obs = lambda: 3.0
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        env.step(0)
