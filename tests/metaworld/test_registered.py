"""The registered ids, with their defaults and with their arguments."""

import json
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import data_equivalence

from mtwrappers.metaworld import make_benchmark
from mtwrappers.registration import TABLE, register_all
from tests.fakes import check_env_warnings

IDS = list(TABLE)
METAWORLD_IDS = [env_id for env_id, (module, _, _) in TABLE.items() if "metaworld" in module]
NUM_CLASSES = {
    "mtwrappers/MT1-v0": 1,
    "mtwrappers/MT10-v0": 10,
    "mtwrappers/MT25-v0": 25,
    "mtwrappers/MT50-v0": 50,
    "mtwrappers/CustomMT-v0": 2,
    "mtwrappers/ML1-train-v0": 1,
    "mtwrappers/ML1-test-v0": 1,
    "mtwrappers/ML10-train-v0": 10,
    "mtwrappers/ML10-test-v0": 5,
    "mtwrappers/ML25-train-v0": 25,
    "mtwrappers/ML25-test-v0": 5,
    "mtwrappers/ML45-train-v0": 45,
    "mtwrappers/ML45-test-v0": 5,
    "mtwrappers/CustomML-train-v0": 2,
    "mtwrappers/CustomML-test-v0": 1,
    "mtwrappers/MultiEnv-v0": 2,
}
SEEN_BY_OTHER_LIBRARIES = ("compute_reward", "num_envs", "__len__")


def same(a, b):
    return data_equivalence(a, b, exact=True)


def actions(space, n, seed=0):
    space.seed(seed)
    return [space.sample() for _ in range(n)]


def play(env, n=4, **reset):
    return [env.reset(**reset), *(env.step(action) for action in actions(env.action_space, n))]


def make(name, **kwargs):
    return gymnasium.make(f"mtwrappers/{name}-v0", **kwargs)


def make_vec(name, num_envs=1, **kwargs):
    return gymnasium.make_vec(f"mtwrappers/{name}-v0", num_envs, **kwargs)


@pytest.fixture(scope="module", autouse=True)
def _a_living_environment_of_each_class():
    """The many environments here then share its compiled model."""
    envs = gymnasium.make_vec("mtwrappers/MT50-v0", num_goals=1)
    envs.reset(seed=0)
    yield
    envs.close()


# With defaults.


@pytest.mark.parametrize("env_id", IDS)
def test_check_env_has_nothing_to_say(env_id):
    env = gymnasium.make(env_id)
    for checked in (env, env.unwrapped):
        assert check_env_warnings(checked, skip_render_check=True) == []
    env.close()


@pytest.mark.parametrize("env_id", IDS)
def test_a_seed_determines_the_episode_in_every_environment_made(env_id):
    env, other = gymnasium.make(env_id), gymnasium.make(env_id)
    first = play(env, seed=3)
    assert same(play(env, seed=3), first)
    assert same(play(other, seed=3), first)
    if env_id in NUM_CLASSES:  # these draw a task
        assert not same(play(env, seed=4), first)


@pytest.mark.parametrize("env_id", IDS)
def test_a_seed_determines_the_episodes_of_every_vector_environment_made(env_id):
    envs = gymnasium.make_vec(env_id)
    first = play(envs, 2, seed=3)
    assert same(play(envs, 2, seed=3), first)
    if env_id in NUM_CLASSES:  # these draw a task
        assert not same(play(envs, 2, seed=4), first)
    envs.close()
    envs = gymnasium.make_vec(env_id)
    assert same(play(envs, 2, seed=3), first)
    envs.close()


@pytest.mark.parametrize(("env_id", "n"), NUM_CLASSES.items())
def test_a_vector_environment_has_an_environment_a_class(env_id, n):
    envs = gymnasium.make_vec(env_id, **({"num_goals": 2} if env_id in METAWORLD_IDS else {}))
    assert envs.num_envs == n
    if n <= 10:
        obs, infos = envs.reset(seed=3)
        assert obs in envs.observation_space
        assert infos["task_id"].tolist() == list(range(n))


@pytest.mark.parametrize("name", ["MT10", "ML10-test"])
def test_a_vector_environment_plays_what_a_single_one_plays_on_the_same_tasks(name):
    envs, env = make_vec(name, num_goals=3), make(name, num_goals=3)
    first = play(envs, 2, seed=3)
    steps = actions(envs.action_space, 2)
    for i, state in enumerate(envs.call("get_task_state")):
        assert np.array_equal(env.reset(options={"task_state": state})[0], first[0][0][i])
        for action, (obs, rewards, *_) in zip(steps, first[1:], strict=True):
            step_obs, reward, *_ = env.step(action[i])
            assert np.array_equal(step_obs, obs[i])
            assert reward == rewards[i]


@pytest.mark.parametrize("env_id", IDS)
def test_flat_environments_expose_nothing_that_other_libraries_read_meaning_into(env_id):
    env = gymnasium.make(env_id).unwrapped
    assert [name for name in SEEN_BY_OTHER_LIBRARIES if hasattr(env, name)] == []


@pytest.mark.parametrize("env_id", IDS)
def test_specs_round_trip_through_json_and_pickle(env_id):
    for spec in (gymnasium.spec(env_id), gymnasium.make(env_id).spec):
        for other_spec in (EnvSpec.from_json(spec.to_json()), pickle.loads(pickle.dumps(spec))):
            assert other_spec == spec
            env, other = gymnasium.make(spec), gymnasium.make(other_spec)
            assert other.observation_space == env.observation_space
            assert type(other.unwrapped) is type(env.unwrapped)


def test_a_spec_keeps_the_arguments_through_json():
    env = make("MT10", num_goals=2, seed=5, task_encoding="none", max_episode_steps=7)
    other = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert json.loads(env.spec.to_json())["kwargs"]["num_goals"] == 2
    assert other.spec.max_episode_steps == 7
    assert same(play(other, seed=3), play(env, seed=3))


def test_importing_the_package_registers_the_ids_without_meta_world():
    code = (
        "import gymnasium, mtwrappers, sys\n"
        f"assert {IDS!r} == [i for i in gymnasium.registry if i.startswith('mtwrappers/')]\n"
        "assert not {'metaworld', 'mujoco', 'scipy'} & set(sys.modules), 'heavy'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_id_can_name_the_package_to_import():
    env = gymnasium.make("mtwrappers:mtwrappers/MT1-v0", num_goals=2)
    assert env.spec.id == "mtwrappers/MT1-v0"


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    register_all()
    assert dict(gymnasium.registry) == before


def test_an_episode_lasts_500_steps_by_default():
    for env_id in METAWORLD_IDS:
        assert gymnasium.spec(env_id).max_episode_steps == 500
    env = make("MT1", num_goals=2)
    env.reset(seed=0)
    truncated = [env.step(action)[3] for action in actions(env.action_space, 500)]
    assert truncated == [False] * 499 + [True]


def test_the_first_observation_of_mt10_takes_one_model():
    env = make("MT10")
    assert env.get_wrapper_attr("envs_built") == 0
    env.reset(seed=0)
    assert env.get_wrapper_attr("envs_built") == 1


# What a task looks like.


@pytest.mark.parametrize(
    ("name", "size"),
    [("MT1", 39), ("MT10", 49), ("MT25", 64), ("MT50", 89), ("ML10-train", 39), ("ML1-test", 39)],
)
def test_several_visible_tasks_are_told_apart_by_a_one_hot_unless_asked_otherwise(name, size):
    n = NUM_CLASSES[f"mtwrappers/{name}-v0"]
    default = make(name, num_goals=1)
    plain = make(name, num_goals=1, task_encoding="none")
    onehot = make(name, num_goals=1, task_encoding="onehot")
    as_dict = make(name, num_goals=1, task_encoding="dict")
    assert default.observation_space.shape == (size,)
    assert plain.observation_space.shape == (39,)
    assert onehot.observation_space.shape == (39 + n,)
    assert as_dict.observation_space["env_obs"] == plain.observation_space
    assert as_dict.observation_space["task_obs"].n == n


def test_every_encoding_shows_the_same_task():
    plain, onehot, as_dict = (
        make("MT10", num_goals=2, task_encoding=e) for e in ("none", "onehot", "dict")
    )
    for state in (0, 5, 19):
        options = {"task_state": state}
        episodes = [play(env, seed=0, options=options) for env in (plain, onehot, as_dict)]
        for (flat, *rest), (hot, *hot_rest), (parts, *dict_rest) in zip(*episodes, strict=True):
            assert flat.dtype == hot.dtype == parts["env_obs"].dtype == np.float64
            assert np.array_equal(flat, parts["env_obs"])
            assert hot.tolist() == [*flat, *np.eye(10)[state // 2]]
            assert parts["task_obs"] == state // 2
            assert same(rest, hot_rest)
            assert same(rest, dict_rest)


@pytest.mark.parametrize("name", ["MT10", "ML10-train"])
def test_an_encoding_that_does_not_exist_is_refused(name):
    message = r"task_encoding must be one of \['onehot', 'none', 'dict'\], got 'index'"
    with pytest.raises(ValueError, match=message):
        make(name, task_encoding="index")


# The task.


def test_options_name_the_task_by_its_index_in_the_benchmark():
    env = make("MT10", num_goals=3)
    tasks = env.get_wrapper_attr("tasks")
    assert tasks == make_benchmark("MT10", num_goals=3).train_tasks
    for state in (29, 0, 13):
        obs, info = env.reset(options={"task_state": state})
        assert info["task_name"] == tasks[state].env_name
        assert info["task_id"] == state // 3 == obs[39:].tolist().index(1.0)
        assert env.get_wrapper_attr("get_task_state")() == state


@pytest.mark.parametrize("kind", ["train", "test"])
def test_the_ids_of_ml1_have_the_split_of_their_name(kind):
    made = make_benchmark("ML1", env_name="push-v3", num_goals=3)
    expected = {"train": made.train_tasks, "test": made.test_tasks}[kind]
    kwargs = {"env_name": "push-v3", "num_goals": 3}
    envs = make_vec(f"ML1-{kind}", 2, **kwargs)
    assert make(f"ML1-{kind}", **kwargs).get_wrapper_attr("tasks") == expected
    assert envs.get_attr("tasks") == (expected[::2], expected[1::2])


def test_the_seed_of_the_benchmark_determines_its_goals_and_zero_is_a_seed():
    tasks = [make("MT1", num_goals=2, seed=seed).get_wrapper_attr("tasks") for seed in (0, 0, 1)]
    assert tasks[0] == tasks[1] == make("MT1", num_goals=2).get_wrapper_attr("tasks")
    assert tasks[0] != tasks[2]


def test_env_name_chooses_the_class_in_make_and_make_vec():
    env, envs = (f("MT1", env_name="push-v3", num_goals=2) for f in (make, make_vec))
    assert env.reset(seed=0)[1]["task_name"] == "push-v3"
    assert envs.reset(seed=0)[1]["task_name"].tolist() == ["push-v3"]


def test_custom_classes_are_played_in_the_order_given():
    kwargs = {"train_classes": ["push-v3", "door-open-v3", "reach-v3"], "num_goals": 2}
    assert make("CustomMT", **kwargs).get_wrapper_attr("task_names") == (*kwargs["train_classes"],)
    envs = make_vec("CustomMT", **kwargs)
    assert envs.reset(seed=0)[1]["task_name"].tolist() == kwargs["train_classes"]


# Vector environments.


def test_sub_environments_stay_with_their_class_task_by_task():
    envs = make_vec("CustomMT", 4, num_goals=20)
    expected = ["reach-v3", "reach-v3", "push-v3", "push-v3"]
    states = set()
    for seed in range(4):
        obs, infos = envs.reset(seed=seed)
        assert infos["task_name"].tolist() == expected
        assert obs[:, 39:].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
        states.add(envs.call("get_task_state"))
    # They draw on their own: one class's environments are not on one goal.
    assert any(first != second for first, second, _, _ in states)
    assert {state // 20 for reset in states for state in reset[:2]} == {0}
    assert {state // 20 for reset in states for state in reset[2:]} == {1}


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasiums_own_vectorization_gives_environments_that_move_between_tasks(mode):
    envs = make_vec("CustomMT", 3, vectorization_mode=mode, num_goals=2)
    assert type(envs).__name__ == {"sync": "SyncVectorEnv", "async": "AsyncVectorEnv"}[mode]
    first = play(envs, 2, seed=3)
    assert same(play(envs, 2, seed=3), first)
    alone = make("CustomMT", num_goals=2)
    for i in range(3):
        assert np.array_equal(alone.reset(seed=3 + i)[0], first[0][0][i])
    names = {name for seed in range(5) for name in envs.reset(seed=seed)[1]["task_name"]}
    assert names == {"reach-v3", "push-v3"}
    envs.close()


# Other arguments.


def test_terminate_on_success_ends_the_episode_in_make_and_make_vec():
    from metaworld.policies import ENV_POLICY_MAP

    expert = ENV_POLICY_MAP["reach-v3"]()
    kwargs = {"num_goals": 2, "terminate_on_success": True}
    env, envs = make("MT1", **kwargs), make_vec("MT1", **kwargs)
    obs, _ = env.reset(seed=0)
    batch, _ = envs.reset(seed=0)
    terminated = False
    for _ in range(200):
        obs, _, terminated, truncated, info = env.step(expert.get_action(obs))
        batch, _, ended, _, infos = envs.step(expert.get_action(batch[0])[None])
        assert terminated is bool(info["success"])
        assert truncated is False
        assert ended.tolist() == [terminated]
        if terminated:
            break
    assert terminated is True
    assert infos["final_info"]["success"].tolist() == [1.0]


def test_the_render_mode_is_known_to_make():
    env = make("MT10", num_goals=2, render_mode="rgb_array", camera_name="corner2")
    assert env.render_mode == "rgb_array"
    assert env.unwrapped.render_mode == "rgb_array"
    assert env.metadata["render_fps"] == 80


@pytest.mark.parametrize("factory", [make, make_vec])
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"reward_function_version": "v3"}, "reward_function_version must be 'v1' or 'v2'"),
        ({"num_goals": 0}, "num_goals must be a positive integer, got 0"),
        ({"env_name": "push-v3"}, "MT10 takes no env_name, got 'push-v3'"),
        ({"seed": -1}, "a seed must be zero or greater, got -1"),
        ({"kind": "test"}, "MT10 has no test tasks"),
        ({"kind": "validation"}, "kind must be 'train' or 'test', got 'validation'"),
    ],
)
def test_bad_arguments_are_refused_when_the_environment_is_made(factory, kwargs, message):
    with pytest.raises(ValueError, match=message):
        factory("MT10", **kwargs)


@pytest.mark.parametrize("name", ["MT1", "ML10-test"])
def test_a_made_environment_pickles_on_its_task(name):
    env = make(name, num_goals=3)
    env.reset(seed=1)
    expected = play(env, options={"task_state": 2})
    assert same(play(pickle.loads(pickle.dumps(env))), expected)
