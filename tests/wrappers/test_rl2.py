"""The input of RL^2."""

import copy
import json
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from metaworld.wrappers import RNNBasedMetaRLWrapper

from mtwrappers import (
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MultiEnvWrapper,
    PointGoalEnv,
    RL2Observation,
    TaskNameWrapper,
    VectorRL2Observation,
)
from mtwrappers.wrappers.rl2 import ActionCode
from tests.fakes import CountingEnv, CountingSetTaskEnv, check_env_warnings, counting_makers, play
from tests.vector.fakes import BoxCountingEnv


def tails(env, actions, **reset):
    return [result[0][2:].tolist() for result in play(env, actions, **reset)]


def multi():
    return FlattenMTEnv(MultiEnvWrapper(counting_makers(2)), "none")


def test_the_last_action_reward_and_end_are_appended():
    env = RL2Observation(CountingEnv(2))
    assert tails(env, [1, 0], seed=0) == [[0, 0, 0, 0], [0, 1, 1, 0], [1, 0, 2, 1]]
    assert env.step(0)[0][:2].tolist() == [3, 3]


def test_they_stay_across_the_episodes_of_a_trial():
    env = RL2Observation(CountingEnv(2))
    tails(env, [1, 0], seed=0)
    assert tails(env, [1]) == [[1, 0, 2, 1], [0, 1, 1, 0]]
    assert env.reset()[0].tolist() == [0, 0, 0, 1, 1, 1]  # that episode was cut
    assert env.reset()[0].tolist() == [0, 0, 0, 1, 1, 1]


def test_a_reset_with_a_seed_begins_a_trial():
    env = RL2Observation(CountingEnv(2))
    tails(env, [1])
    assert env.reset(seed=0)[0].tolist() == [0] * 6
    assert env.reset()[0].tolist() == [0] * 6  # nothing was done since


@pytest.mark.parametrize("options", [{"task_state": 0}, {"resample_task": True}])
def test_asking_for_a_task_begins_a_trial_whichever_it_is(options):
    env = RL2Observation(multi())
    tails(env, [1], seed=0, options={"task_state": 0})
    assert env.reset(options=options)[0][2:].tolist() == [0] * 4


def test_a_task_that_was_set_meanwhile_begins_a_trial():
    env = RL2Observation(multi())
    tails(env, [1], seed=0)
    env.get_wrapper_attr("set_task_state")(1)
    assert env.reset()[0].tolist() == [100, 100, 0, 0, 0, 0]
    env.step(1)
    env.get_wrapper_attr("set_task_state")(1)
    assert env.reset()[0].tolist() == [100, 100, 0, 1, 1, 1]


def test_the_task_of_an_environment_with_set_task_is_its_own():
    env = RL2Observation(CountingSetTaskEnv())
    for task, tail in ((10, [0] * 4), (10, [0, 1, 1, 1]), (20, [0] * 4)):
        env.unwrapped.set_task({"first": task})
        assert env.reset()[0].tolist() == [task, task, *tail]
        env.step(1)


def test_a_task_id_tells_tasks_apart_where_nothing_else_does():
    named = TaskNameWrapper(CountingEnv(), task_id=0)
    env = RL2Observation(named)
    tails(env, [1])
    assert env.reset()[0][2:].tolist() == [0, 1, 1, 1]
    named._added["task_id"] = 1
    assert env.reset()[0][2:].tolist() == [0] * 4


def test_a_box_action_is_clipped_to_its_bounds_and_the_space_holds_everything():
    env = RL2Observation(PointGoalEnv())
    env.reset(seed=0)
    obs = env.step([7.0, -0.05])[0]
    assert obs[2:4].tolist() == [0.1, -0.05]
    space = env.observation_space
    assert space.low.tolist() == [-5, -5, -0.1, -0.1, -np.inf, 0]
    assert space.high.tolist() == [5, 5, 0.1, 0.1, np.inf, 1]
    assert obs in space


@pytest.mark.parametrize(
    ("space", "action", "code"),
    [
        (Discrete(3, start=5), 6, [0, 1, 0]),
        (MultiDiscrete([2, 3]), [1, 0], [0, 1, 1, 0, 0]),
        (MultiDiscrete([2, 2], start=[4, 7]), [5, 7], [0, 1, 1, 0]),
        (MultiDiscrete([3]), [2], [0, 0, 1]),
        (MultiBinary(3), [1, 0, 1], [1, 0, 1]),
        (Box(1.0, 3.0, (1, 2), np.float32), [[0.5, 2.5]], [1.0, 2.5]),
    ],
)
def test_how_actions_are_written_one_by_one_and_many_at_once(space, action, code):
    coder = ActionCode(space)
    one = coder.encode(action)
    assert one.tolist() == code
    assert coder.encode(np.array([action, action])).tolist() == [code, code]
    assert coder.size == len(code)
    assert (coder.low <= 0).all()  # so that a trial can begin with zeros
    assert (coder.high >= one).all()


def test_other_spaces_and_numbers_are_refused():
    with pytest.raises(TypeError, match="expected a Box, Discrete, MultiDiscrete or MultiBinary"):
        ActionCode(Dict({"a": Discrete(2)}))
    with pytest.raises(TypeError, match="dtype int64 cannot be given rewards without loss"):
        RL2Observation(CountingEnv(dtype=np.int64))
    with pytest.raises(TypeError, match="must be a 1-D Box"):
        RL2Observation(MultiEnvWrapper(counting_makers(2)))
    for wrap, env in (
        (RL2Observation, CountingEnv()),
        (VectorRL2Observation, MetaIterativeEnvExecutor(CountingEnv, 2)),
    ):
        with pytest.raises(ValueError, match="reward_divisor must be above zero and finite, got 0"):
            wrap(env, reward_divisor=0)


def test_what_goes_in_and_comes_out_belongs_to_the_caller():
    env = RL2Observation(CountingEnv(dtype=np.float32))
    env.reset(seed=0)
    obs = env.step(1)[0]
    assert obs.dtype == env.observation_space.dtype == np.float32
    obs[:] = 77
    assert env.reset()[0].tolist() == [0, 0, 0, 1, 1, 1]
    action = np.array([0.1, 0.0])
    point = RL2Observation(PointGoalEnv())
    point.reset(seed=0)
    point.step(action)
    action[:] = 0
    assert point.reset()[0][2:4].tolist() == [0.1, 0.0]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_goes_on_by_itself(clone):
    env = RL2Observation(CountingEnv())
    tails(env, [1], seed=0)
    other = clone(env)
    other.step(0)
    assert env.reset()[0].tolist() == [0, 0, 0, 1, 1, 1]


def test_it_keeps_gymnasiums_contract_and_its_spec_goes_through_json():
    env = RL2Observation(gymnasium.make("tests/Short-v0"), reward_divisor=10)
    warned = check_env_warnings(env, skip_render_check=True)
    assert [w for w in warned if "infinity" not in w] == []
    text = env.spec.to_json()
    again = gymnasium.make(EnvSpec.from_json(text))
    assert isinstance(again, RL2Observation)
    assert tails(again, [1], seed=0)[1] == [0, 1, 0.1, 0]
    assert json.loads(text)["additional_wrappers"][-1]["name"] == "RL2Observation"


# As Meta-World's own wrapper.


@pytest.mark.parametrize("divisor", [1, 10])
def test_it_can_append_what_meta_worlds_wrapper_appends(divisor):
    ours = RL2Observation(BoxCountingEnv(3), reward_divisor=divisor, across_episodes=False)
    theirs = RNNBasedMetaRLWrapper(BoxCountingEnv(3), normalize_reward=divisor == 10)
    actions = np.array([[0.5, -0.25], [1, 0], [0.125, -1]], np.float32)
    for _ in range(2):
        for a, b in zip(play(ours, actions), play(theirs, actions), strict=True):
            assert a[0].tolist() == b[0].tolist()
