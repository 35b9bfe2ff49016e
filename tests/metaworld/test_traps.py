"""What Meta-World's own ids and environments do wrong, beside what this package does.

Each test asserts on both, so that it also says when a trap is gone upstream.
"""

import copy
import pickle

import gymnasium
import metaworld
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from mtwrappers.metaworld import MetaWorldMTEnv, make_benchmark
from tests.fakes import equal
from tests.metaworld.fakes import PAIR, actions, bare

REACH = {"env_name": "reach-v3"}


@pytest.fixture
def few_goals(monkeypatch):
    """Four goals a class for Meta-World, whose number is put back after the test."""
    monkeypatch.setattr(metaworld, "_N_GOALS", 4)


def our_reach(**kwargs):
    return MetaWorldMTEnv("MT1", num_goals=4, **kwargs)


def observations(env, **reset):
    obs, _ = env.reset(**reset)
    obs = [obs, *(env.step(action)[0] for action in actions(5))]
    return [o["env_obs"] if isinstance(o, dict) else o for o in obs]


# 1. The split and the default size of the meta-learning ids.


@pytest.mark.usefixtures("few_goals")
def test_ml1_train_plays_the_train_tasks():
    upstream = gymnasium.make_vec("Meta-World/ML1-train", **REACH, meta_batch_size=2, seed=1)
    ours = gymnasium.make_vec("mtwrappers/ML1-train-v0", **REACH, num_goals=4, seed=1)
    made = make_benchmark("ML1", num_goals=4, seed=1)
    tasks = [task for own in upstream.get_attr("tasks") for task in own]
    assert sorted(tasks) == sorted(made.test_tasks)
    for seed in range(4):
        ours.reset(seed=seed)
        (own,), (state,) = ours.get_attr("tasks"), ours.call("get_task_state")
        assert own[state] in made.train_tasks


@pytest.mark.usefixtures("few_goals")
def test_ml1_works_without_a_size():
    for kind in ("train", "test"):
        with pytest.raises(AssertionError, match="Invalid division of subtasks"):
            gymnasium.make_vec(f"Meta-World/ML1-{kind}", **REACH)
        envs = gymnasium.make_vec(f"mtwrappers/ML1-{kind}-v0", **REACH)
        assert envs.reset(seed=0)[0].shape == (1, 39)


# 2. Seeds.


@pytest.mark.usefixtures("few_goals")
def test_a_seeded_reset_is_the_same_each_time():
    upstream = gymnasium.make("Meta-World/MT1", **REACH, seed=0, disable_env_checker=True)
    ours = gymnasium.make("mtwrappers/MT1-v0", num_goals=4)
    theirs, own = ({env.reset(seed=3)[0].tobytes() for _ in range(8)} for env in (upstream, ours))
    assert len(theirs) > 1
    assert len(own) == 1


@pytest.mark.usefixtures("few_goals")
def test_sub_environments_have_random_streams_of_their_own():
    upstream = gymnasium.make_vec("Meta-World/ML1-train", **REACH, meta_batch_size=2, seed=1)
    draws = [env.unwrapped.np_random.random() for env in upstream.envs]
    assert draws[0] == draws[1]
    ours = gymnasium.make_vec("mtwrappers/MT1-v0", 3)
    ours.reset(seed=1)
    assert len(set(ours.call("get_task_state"))) > 1


@pytest.mark.usefixtures("few_goals")
def test_the_seed_zero_of_custom_classes_is_not_lost():
    upstream, ours = [], []
    for _ in range(2):
        envs = gymnasium.make_vec(
            "Meta-World/custom-mt-envs", vector_strategy="sync", envs_list=PAIR[:1], seed=0
        )
        upstream.append(envs.get_attr("tasks"))
        envs = gymnasium.make_vec(
            "mtwrappers/CustomMT-v0", train_classes=PAIR[:1], seed=0, num_goals=4
        )
        ours.append(envs.get_attr("tasks"))
    assert upstream[0] != upstream[1]
    assert ours[0] == ours[1]


# 3. Observation spaces.


def test_multi_task_observations_lie_in_the_space():
    upstream, ours = bare("reach-v3"), our_reach()
    for obs in observations(upstream):
        assert obs not in upstream.observation_space
    for obs in observations(ours, seed=0):
        assert obs in ours.env_observation_space


def test_the_space_of_one_hot_observations_has_their_dtype():
    with pytest.warns(UserWarning, match="precision lowered by casting to float32"):
        upstream = metaworld.OneHotWrapper(bare("reach-v3"), 1, 10)
    ours = gymnasium.make("mtwrappers/MT10-v0", num_goals=2)
    for env, same in ((upstream, False), (ours, True)):
        assert (env.reset()[0].dtype == env.observation_space.dtype) is same


# 4. Copies.


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_has_the_action_space_and_plays_on_as_the_original(copy_of):
    original = bare("reach-v3", render_mode="rgb_array")
    original.reset()
    upstream = copy_of(original)
    assert upstream.render_mode is None
    assert original.action_space.shape == (4,)
    assert upstream.action_space.shape == (2,)
    assert not np.array_equal(upstream.data.mocap_pos, original.data.mocap_pos)

    env = our_reach(render_mode="rgb_array")
    expected = observations(env, options={"task_state": 2})
    ours = copy_of(env)
    assert ours.render_mode == "rgb_array"
    assert ours.action_space == env.action_space
    assert equal(observations(ours), expected)


# 5. Arguments.


def test_num_goals_is_forgotten_after_it_was_used(monkeypatch):
    ours = gymnasium.make("mtwrappers/MT1-v0", num_goals=3)
    assert ours.get_wrapper_attr("num_tasks") == 3
    assert metaworld._N_GOALS == 50
    assert len(make_benchmark("MT1").train_tasks) == 50

    monkeypatch.setattr(metaworld, "_N_GOALS", 50)
    gymnasium.make("Meta-World/MT1", **REACH, num_goals=3, disable_env_checker=True)
    assert metaworld._N_GOALS == 3
    assert len(make_benchmark("MT1").train_tasks) == 50


@pytest.mark.usefixtures("few_goals")
def test_num_envs_is_honoured():
    upstream = gymnasium.make_vec(
        "Meta-World/custom-mt-envs", 4, vector_strategy="sync", envs_list=PAIR
    )
    ours = gymnasium.make_vec("mtwrappers/CustomMT-v0", 4, train_classes=PAIR, num_goals=4)
    assert (upstream.num_envs, ours.num_envs) == (2, 4)


# 6. Specs.


def test_specs_survive_json_and_pickle():
    upstream = gymnasium.spec("Meta-World/MT10")
    with pytest.raises(ValueError, match="Callable found"):
        upstream.to_json()
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(upstream)
    ours = gymnasium.spec("mtwrappers/MT10-v0")
    assert EnvSpec.from_json(ours.to_json()) == ours
    assert pickle.loads(pickle.dumps(ours)) == ours


# 12. What other libraries look at.


def test_no_environment_is_taken_for_a_goal_environment():
    assert hasattr(bare("reach-v3"), "compute_reward")
    assert not hasattr(gymnasium.make("mtwrappers/MT1-v0").unwrapped, "compute_reward")


def test_flags_are_plain_bools_at_the_end_of_an_episode_too():
    env = our_reach(max_episode_steps=2, terminate_on_success=True)
    env.reset(seed=0)
    flags = [env.step(action)[2:4] for action in actions(2)]
    assert flags == [(False, False), (False, True)]
    assert {type(flag) for pair in flags for flag in pair} == {bool}


# 13. Actions that are not finite.


def test_a_nan_action_does_not_reset_the_simulation(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its warning down
    nan = np.full(4, np.nan, np.float32)

    upstream = bare("reach-v3")
    observations(upstream)
    before = upstream.data.time
    upstream.step(nan)
    assert upstream.data.time < before

    ours, undisturbed = our_reach(), our_reach()
    for env in (ours, undisturbed):
        observations(env, options={"task_state": 0})
    with pytest.raises(ValueError, match="reach-v3: expected a finite action"):
        ours.step(nan)
    for action in actions(3):
        assert equal(ours.step(action), undisturbed.step(action))
