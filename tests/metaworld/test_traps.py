"""What Meta-World's own ids and environments do wrong, beside what this package does.

Each test asserts on both, so that it also says when a trap is gone upstream.
"""

import copy
import pickle

import gymnasium
import metaworld
import numpy as np
import pytest

from mtwrappers.metaworld import MetaWorldMTEnv, make_benchmark
from tests.fakes import equal
from tests.metaworld.fakes import PAIR, actions, bare, make, make_vec, play

REACH = {"env_name": "reach-v3"}
few_goals = pytest.mark.usefixtures("_few_goals")


@pytest.fixture
def _few_goals(monkeypatch):
    """Four goals a class for Meta-World, whose number is put back after the test."""
    monkeypatch.setattr(metaworld, "_N_GOALS", 4)


def theirs(name, **kwargs):
    return gymnasium.make_vec(f"Meta-World/{name}", **kwargs)


def our_reach(**kwargs):
    return MetaWorldMTEnv("MT1", num_goals=4, **kwargs)


# 1. The split and the default size of the meta-learning ids.


@few_goals
def test_ml1_train_plays_the_train_tasks_and_works_without_a_size():
    made = make_benchmark("ML1", num_goals=4, seed=1)
    upstream = theirs("ML1-train", **REACH, meta_batch_size=2, seed=1)
    tasks = [task for own in upstream.get_attr("tasks") for task in own]
    assert sorted(tasks) == sorted(made.test_tasks)
    for kind in ("train", "test"):
        with pytest.raises(AssertionError, match="Invalid division of subtasks"):
            theirs(f"ML1-{kind}", **REACH)
        with make_vec(f"ML1-{kind}", num_goals=4, seed=1) as ours:
            assert ours.get_attr("tasks") == (getattr(made, f"{kind}_tasks"),)


# 2. Seeds.


@few_goals
def test_a_seeded_reset_is_the_same_each_time():
    upstream = gymnasium.make("Meta-World/MT1", **REACH, seed=0, disable_env_checker=True)
    found = [
        {env.reset(seed=3)[0].tobytes() for _ in range(8)}
        for env in (upstream, make("MT1", num_goals=4))
    ]
    assert len(found[0]) > len(found[1]) == 1


@few_goals
def test_sub_environments_have_random_streams_of_their_own():
    upstream = theirs("ML1-train", **REACH, meta_batch_size=2, seed=1)
    draws = [env.unwrapped.np_random.random() for env in upstream.envs]
    assert draws[0] == draws[1]
    with make_vec("MT1", 3) as ours:
        ours.reset(seed=1)
        assert len(set(ours.call("get_task_state"))) > 1


@few_goals
def test_the_seed_zero_of_custom_classes_is_not_lost_and_num_envs_is_honoured():
    upstream = [
        theirs("custom-mt-envs", num_envs=4, vector_strategy="sync", envs_list=PAIR, seed=0)
        for _ in range(2)
    ]
    with (
        make_vec("CustomMT", 4, train_classes=PAIR, seed=0, num_goals=4) as one,
        make_vec("CustomMT", 4, train_classes=PAIR, seed=0, num_goals=4) as two,
    ):
        for (first, second), size, same in ((upstream, 2, False), ((one, two), 4, True)):
            assert first.num_envs == size
            assert (first.get_attr("tasks") == second.get_attr("tasks")) is same


# 3. Observation spaces.


def test_multi_task_observations_lie_in_the_space():
    upstream, ours = bare("reach-v3"), our_reach()
    assert all(obs not in upstream.observation_space for obs, *_ in play(upstream))
    assert all(obs in ours.observation_space for obs, *_ in play(ours, seed=0))


def test_the_space_of_one_hot_observations_has_their_dtype():
    with pytest.warns(UserWarning, match="precision lowered by casting to float32"):
        upstream = metaworld.OneHotWrapper(bare("reach-v3"), 1, 10)
    for env, same in ((upstream, False), (make("MT10", num_goals=2), True)):
        assert (env.reset()[0].dtype == env.observation_space.dtype) is same


# 4. Copies.


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_has_the_action_space_and_plays_on_as_the_original(copy_of):
    original = bare("reach-v3", render_mode="rgb_array")
    original.reset()
    upstream = copy_of(original)
    assert (original.action_space.shape, upstream.action_space.shape) == ((4,), (2,))
    assert upstream.render_mode is None
    assert not np.array_equal(upstream.data.mocap_pos, original.data.mocap_pos)

    env = our_reach(render_mode="rgb_array")
    expected = play(env, options={"task_state": 2})
    ours = copy_of(env)
    assert (ours.render_mode, ours.action_space) == ("rgb_array", env.action_space)
    assert equal(play(ours), expected)


# 5. Arguments.


def test_num_goals_is_forgotten_after_it_was_used(monkeypatch):
    monkeypatch.setattr(metaworld, "_N_GOALS", 50)
    assert make("MT1", num_goals=3).get_wrapper_attr("num_tasks") == 3
    assert metaworld._N_GOALS == 50
    gymnasium.make("Meta-World/MT1", **REACH, num_goals=3, disable_env_checker=True)
    assert metaworld._N_GOALS == 3
    assert len(make_benchmark("MT1").train_tasks) == 50


# 6. Specs; that ours survive is in ``test_registered.py``.


def test_specs_of_meta_world_hold_lambdas():
    upstream = gymnasium.spec("Meta-World/MT10")
    with pytest.raises(ValueError, match="Callable found"):
        upstream.to_json()
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(upstream)


# 12. What other libraries look at.


def test_no_environment_is_taken_for_a_goal_environment():
    assert hasattr(bare("reach-v3"), "compute_reward")
    assert not hasattr(make("MT1").unwrapped, "compute_reward")


def test_flags_are_plain_bools_at_the_end_of_an_episode_too():
    env = our_reach(max_episode_steps=2, terminate_on_success=True)
    flags = [flag for step in play(env, 2, seed=0)[1:] for flag in step[2:4]]
    assert flags == [False, False, False, True]
    assert {type(flag) for flag in flags} == {bool}


# 13. Actions that are not finite.


def test_a_nan_action_does_not_reset_the_simulation(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its warning down
    nan = np.full(4, np.nan, np.float32)

    upstream = bare("reach-v3")
    play(upstream)
    before = upstream.data.time
    upstream.step(nan)
    assert upstream.data.time < before

    ours, undisturbed = our_reach(), our_reach()
    for env in (ours, undisturbed):
        play(env, options={"task_state": 0})
    with pytest.raises(ValueError, match="reach-v3: expected a finite action"):
        ours.step(nan)
    for action in actions(3):
        assert equal(ours.step(action), undisturbed.step(action))
