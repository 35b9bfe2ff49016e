"""Mistakes of Meta-World's own ids and environments, so that it is noticed when a trap is gone.

That all of it is right here is in the snippets of ``docs/traps.md``, and in the other tests.
"""

import copy
import pickle

import gymnasium
import metaworld
import numpy as np
import pytest

from mtwrappers.metaworld import make_benchmark
from tests.metaworld.fakes import PAIR, actions, bare, episode

REACH = {"env_name": "reach-v3"}


@pytest.fixture(autouse=True)
def _few_goals(monkeypatch):
    """Four goals per class, a number that is put back after the test."""
    monkeypatch.setattr(metaworld, "_N_GOALS", 4)


def make(**kwargs):
    return gymnasium.make("Meta-World/MT1", **REACH, disable_env_checker=True, **kwargs)


def make_vec(name, **kwargs):
    return gymnasium.make_vec(f"Meta-World/{name}", **kwargs)


def test_train_ids_have_the_test_tasks_and_all_environments_the_same_stream():
    envs = make_vec("ML1-train", **REACH, meta_batch_size=2, seed=1)
    tasks = {task for own in envs.get_attr("tasks") for task in own}
    assert tasks == set(make_benchmark("ML1", num_goals=4, seed=1).test_tasks)
    assert len({env.unwrapped.np_random.random() for env in envs.envs}) == 1


def test_the_seed_of_a_reset_is_ignored():
    env = make(seed=0)
    assert len({env.reset(seed=3)[0].tobytes() for _ in range(8)}) > 1


def test_the_seed_zero_of_an_id_is_ignored():
    kwargs = {"vector_strategy": "sync", "envs_list": PAIR, "seed": 0}
    one, two = (make_vec("custom-mt-envs", **kwargs).get_attr("tasks") for _ in range(2))
    assert one != two


def test_observations_lie_outside_their_space():
    env = bare("reach-v3")
    assert env.reset()[0] not in env.observation_space
    with pytest.warns(UserWarning, match="precision lowered by casting to float32"):
        assert metaworld.OneHotWrapper(env, 1, 10).observation_space.dtype == np.float32


def test_num_goals_holds_for_whatever_is_made_afterwards():
    make(num_goals=5)
    assert metaworld._N_GOALS == 5


def test_specs_survive_neither_json_nor_pickle():
    spec = gymnasium.spec("Meta-World/MT10")
    for save in (spec.to_json, lambda: pickle.dumps(spec)):
        with pytest.raises((ValueError, pickle.PicklingError, AttributeError)):
            save()


def test_environments_look_like_goal_environments():
    assert hasattr(bare("reach-v3"), "compute_reward")


def test_copies_have_another_action_space():
    env = bare("reach-v3")
    episode(env)
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert other.action_space != env.action_space


def test_nan_resets_the_simulation(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its warnings down
    env = bare("reach-v3")
    episode(env)
    before = env.data.time
    env.step(np.full(4, np.nan, np.float32))
    env.step(actions(1)[0])
    assert env.data.time < before


def test_meta_learning_ids_do_not_work_without_a_size():
    with pytest.raises(AssertionError, match="Invalid division of subtasks"):
        make_vec("ML1-train", **REACH)
