"""What Meta-World's own ids and environments do wrong, beside what this package does.

Each pair says whether something is right, there and here; so the tests also tell when a trap is
gone upstream. That ML1-train has the train tasks, that arguments such as ``num_envs`` are honoured
and that specs survive JSON is in ``test_registered.py`` and ``test_vector.py``.
"""

import copy
import pickle

import gymnasium
import metaworld
import numpy as np
import pytest

from mtwrappers.metaworld import MetaWorldMTEnv, make_benchmark
from tests.fakes import equal
from tests.metaworld.fakes import PAIR, actions, bare, make, play

REACH = {"env_name": "reach-v3"}


@pytest.fixture(autouse=True)
def _few_goals(monkeypatch):
    """Four goals per class for Meta-World, whose number is put back after the test."""
    monkeypatch.setattr(metaworld, "_N_GOALS", 4)


def their_vec(name, **kwargs):
    return gymnasium.make_vec(f"Meta-World/{name}", **kwargs)


def our_vec(name, n=1, **kwargs):
    envs = gymnasium.make_vec(f"mtwrappers/{name}-v0", n, num_goals=4, **kwargs)
    envs.reset(seed=1)
    return envs


def ours(**kwargs):
    return MetaWorldMTEnv("MT1", num_goals=4, **kwargs)


def is_seeded(env):
    return len({env.reset(seed=3)[0].tobytes() for _ in range(8)}) == 1


def trains_on_train_tasks(envs):
    tasks = {task for own in envs.get_attr("tasks") for task in own}
    return tasks == set(make_benchmark("ML1", num_goals=4, seed=1).train_tasks)


def draw_apart(envs):
    return len({env.unwrapped.np_random.random() for env in envs.envs}) == len(envs.envs)


def seed_zero_counts(make):
    one, two = (make(0).get_attr("tasks") for _ in range(2))
    return one == two


def specs_survive(spec):
    try:
        return bool(spec.to_json() and pickle.dumps(spec))
    except (ValueError, pickle.PicklingError, AttributeError):
        return False


def fits_its_space(env):
    return all(obs in env.observation_space for obs, *_ in play(env))


def forgets_num_goals(make):
    before = metaworld._N_GOALS
    make("MT1", num_goals=before + 1)
    return before == metaworld._N_GOALS


def goes_on_after_nan(env, simulation):
    play(env)
    before = simulation(env).time
    try:
        env.step(np.full(4, np.nan, np.float32))
    except ValueError:
        env.step(actions(1)[0])
    return simulation(env).time > before


def copies_play_on(env, **reset):
    expected = play(env, **reset)
    others = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    alike = [other.action_space == env.action_space for other in others]
    return all(alike) and all(equal(play(other), expected) for other in others)


def their_onehot():
    with pytest.warns(UserWarning, match="precision lowered by casting to float32"):
        return metaworld.OneHotWrapper(bare("reach-v3"), 1, 10)


def their_make(name, **kwargs):
    return gymnasium.make(f"Meta-World/{name}", **REACH, disable_env_checker=True, **kwargs)


def their_custom(seed):
    return their_vec("custom-mt-envs", vector_strategy="sync", envs_list=PAIR, seed=seed)


TRAPS = {
    "the split": (
        lambda: trains_on_train_tasks(their_vec("ML1-train", **REACH, meta_batch_size=2, seed=1)),
        lambda: trains_on_train_tasks(our_vec("ML1-train", 2, seed=1)),
    ),
    "seeds": (lambda: is_seeded(their_make("MT1", seed=0)), lambda: is_seeded(make("MT1"))),
    "streams": (
        lambda: draw_apart(their_vec("ML1-train", **REACH, meta_batch_size=2, seed=1)),
        lambda: draw_apart(our_vec("ML1-train", 2)),
    ),
    "seed 0": (
        lambda: seed_zero_counts(their_custom),
        lambda: seed_zero_counts(lambda seed: our_vec("CustomMT", seed=seed)),
    ),
    "bounds": (lambda: fits_its_space(bare("reach-v3")), lambda: fits_its_space(ours())),
    "dtype": (
        lambda: np.float64 == their_onehot().observation_space.dtype,
        lambda: np.float64 == make("MT10").observation_space.dtype,
    ),
    "num_goals": (lambda: forgets_num_goals(their_make), lambda: forgets_num_goals(make)),
    "specs": (
        lambda: specs_survive(gymnasium.spec("Meta-World/MT10")),
        lambda: specs_survive(gymnasium.spec("mtwrappers/MT10-v0")),
    ),
    "goal environments": (
        lambda: not hasattr(bare("reach-v3"), "compute_reward"),
        lambda: not hasattr(make("MT1").unwrapped, "compute_reward"),
    ),
    "copies": (
        lambda: copies_play_on(bare("reach-v3")),
        lambda: copies_play_on(ours(), options={"task_state": 2}),
    ),
    "NaN": (
        lambda: goes_on_after_nan(bare("reach-v3"), lambda env: env.data),
        lambda: goes_on_after_nan(ours(), lambda env: env._env.sawyer.data),
    ),
}


@pytest.mark.parametrize("what", TRAPS)
def test_what_is_wrong_there_is_right_here(what, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its warnings down
    there, here = TRAPS[what]
    assert (there(), here()) == (False, True)


@pytest.mark.parametrize("kind", ["train", "test"])
def test_meta_learning_ids_work_without_a_size(kind):
    with pytest.raises(AssertionError, match="Invalid division of subtasks"):
        their_vec(f"ML1-{kind}", **REACH)
    assert our_vec(f"ML1-{kind}").num_envs == 1
