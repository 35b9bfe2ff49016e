"""What Meta-World's own ids and environments do wrong, so that it is noticed when a trap is gone.

That all of it is right here is in the snippets of ``docs/traps.md``, and in the other tests.
"""

import copy
import pickle

import gymnasium
import metaworld
import numpy as np
import pytest

from mtwrappers.metaworld import make_benchmark
from tests.fakes import equal
from tests.metaworld.fakes import PAIR, actions, bare, play

REACH = {"env_name": "reach-v3"}


@pytest.fixture(autouse=True)
def _few_goals(monkeypatch):
    """Four goals per class, a number that is put back after the test."""
    monkeypatch.setattr(metaworld, "_N_GOALS", 4)


def make(**kwargs):
    return gymnasium.make("Meta-World/MT1", **REACH, disable_env_checker=True, **kwargs)


def make_vec(name, **kwargs):
    return gymnasium.make_vec(f"Meta-World/{name}", **kwargs)


def two_of_ml1():
    return make_vec("ML1-train", **REACH, meta_batch_size=2, seed=1)


def train_ids_have_train_tasks():
    tasks = {task for own in two_of_ml1().get_attr("tasks") for task in own}
    return tasks == set(make_benchmark("ML1", num_goals=4, seed=1).train_tasks)


def a_seed_determines_a_reset():
    env = make(seed=0)
    return len({env.reset(seed=3)[0].tobytes() for _ in range(8)}) == 1


def environments_draw_apart():
    return len({env.unwrapped.np_random.random() for env in two_of_ml1().envs}) == 2


def seed_zero_counts():
    kwargs = {"vector_strategy": "sync", "envs_list": PAIR, "seed": 0}
    one, two = (make_vec("custom-mt-envs", **kwargs).get_attr("tasks") for _ in range(2))
    return one == two


def observations_lie_in_their_space():
    env = bare("reach-v3")
    return all(obs in env.observation_space for obs, *_ in play(env))


def one_hots_keep_the_dtype():
    with pytest.warns(UserWarning, match="precision lowered by casting to float32"):
        env = metaworld.OneHotWrapper(bare("reach-v3"), 1, 10)
    return env.observation_space.dtype == np.float64


def num_goals_is_forgotten():
    make(num_goals=5)
    return metaworld._N_GOALS == 4


def specs_survive():
    spec = gymnasium.spec("Meta-World/MT10")
    try:
        return bool(spec.to_json() and pickle.dumps(spec))
    except (ValueError, pickle.PicklingError, AttributeError):
        return False


def it_looks_like_no_goal_environment():
    return not hasattr(bare("reach-v3"), "compute_reward")


def copies_play_on():
    env = bare("reach-v3")
    expected = play(env)
    others = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    alike = [other.action_space == env.action_space for other in others]
    return all(alike) and all(equal(play(other), expected) for other in others)


def an_episode_goes_on_after_nan():
    env = bare("reach-v3")
    play(env)
    before = env.data.time
    env.step(np.full(4, np.nan, np.float32))
    env.step(actions(1)[0])
    return env.data.time > before


def meta_learning_works_without_a_size():
    try:
        return bool(make_vec("ML1-train", **REACH))
    except AssertionError:
        return False


@pytest.mark.parametrize(
    "is_right",
    [
        train_ids_have_train_tasks,
        a_seed_determines_a_reset,
        environments_draw_apart,
        seed_zero_counts,
        observations_lie_in_their_space,
        one_hots_keep_the_dtype,
        num_goals_is_forgotten,
        specs_survive,
        it_looks_like_no_goal_environment,
        copies_play_on,
        an_episode_goes_on_after_nan,
        meta_learning_works_without_a_size,
    ],
)
def test_a_trap_is_still_there(is_right, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its warnings down
    assert not is_right()
