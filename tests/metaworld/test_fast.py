"""A fast class is all that the stock class is, in less time, and serves where it is verified."""

import gc
import json
import pickle
import weakref

import metaworld
import mujoco
import numpy as np
import pytest
from metaworld.envs.sawyer_push_v3 import SawyerPushEnvV3
from metaworld.envs.sawyer_reach_v3 import SawyerReachEnvV3
from metaworld.sawyer_xyz_env import SawyerXYZEnv

from mtwrappers.metaworld import fast, fast_class, make_benchmark
from mtwrappers.metaworld.fast import class_to_build, classes, why_not_verified
from mtwrappers.metaworld.fast.classes import (
    FastSawyer,
    copy_module,
    fast_globals,
    find_inexact_twins,
    norm,
)
from mtwrappers.metaworld.fast.equality import first_difference, integration_state
from mtwrappers.metaworld.upstream import all_classes
from tests.fakes import equal, run_python
from tests.metaworld.fakes import make, random_actions, run_episode

CLASSES = all_classes()
NAME = "push-v3"
ACTIONS = random_actions(10)


@pytest.fixture(scope="module")
def task():
    return make_benchmark("MT1", env_name=NAME, num_goals=1).train_tasks[0]


def episode_bits(env, task):
    """The bits of a reset and of the steps after it, and of the simulation."""
    env.set_task(task)
    bits = [env.reset()[0].tobytes(), integration_state(env)]
    for action in ACTIONS:
        obs, reward, *_ = env.step(action)
        bits += [obs.tobytes(), np.float64(reward).tobytes(), integration_state(env)]
    return bits


@pytest.fixture(scope="module")
def stock_bits(task):
    return episode_bits(CLASSES[NAME](), task)


def test_the_helpers_give_the_bits_of_their_originals():
    assert find_inexact_twins() == []


def test_one_unit_in_the_last_place_of_one_helper_is_found(monkeypatch):
    def norm_off_by_one(x, *args, **kwargs):
        return np.nextafter(norm(x, *args, **kwargs), np.inf)

    names = fast_globals()
    names["np"] = copy_module(names["np"], linalg=copy_module(np.linalg, norm=norm_off_by_one))
    monkeypatch.setattr(classes, "fast_globals", lambda: names)
    classes.make_fast_class.cache_clear()
    try:
        assert first_difference("reach-v3", 1, 20) is not None
    finally:
        classes.make_fast_class.cache_clear()
    monkeypatch.undo()
    assert first_difference("reach-v3", 1, 20) is None


@pytest.mark.parametrize("name", [NAME, "hand-insert-v3"])
def test_both_reward_functions_give_their_own_bits(name):
    assert first_difference(name, 1, 25) is None


def test_actions_beyond_the_bounds_of_any_kind_are_those_of_stock(task):
    fast, stock = fast_class(NAME)(), SawyerPushEnvV3()
    for env in (fast, stock):
        env.set_task(task)
        env.reset()
    for action in ([3.0, -0.2, -1.0, 2.0], [0, -7, 1, -1], np.array([0.5, np.inf, -2, 0.1])):
        for _ in range(60):  # as far as the hand goes
            assert fast.step(action)[0].tobytes() == stock.step(action)[0].tobytes()


def test_a_fast_class_is_a_subclass_with_the_names_and_the_spaces_of_its_own():
    for name, cls in CLASSES.items():
        fast = fast_class(name)
        assert fast is fast_class(cls) is fast_class(fast)
        assert fast.__mro__[:2] == (fast, cls)
        assert issubclass(fast, FastSawyer)
        assert (fast.__name__, fast.__module__) == (cls.__name__, cls.__module__)
    fast, stock = fast_class("reach-v3")(), SawyerReachEnvV3()
    for name in ("task_name", "spec", "metadata", "action_space", "goal_space", "model_name", "dt"):
        assert getattr(fast, name) == getattr(stock, name)


def test_what_stock_refuses_is_refused_and_pickling_says_what_to_pickle():
    other_task = make_benchmark("MT1", num_goals=1).train_tasks[0]
    for cls in (SawyerPushEnvV3, fast_class(NAME)):
        with pytest.raises(AssertionError):
            cls().set_task(other_task)
        with pytest.raises(RuntimeError, match=r"You must call env\.set_task before using env\.st"):
            cls().step(ACTIONS[0])
    with pytest.raises(TypeError, match="pickle a MetaWorldSetTaskEnv, or its task"):
        pickle.dumps(cls())


def test_a_class_of_the_users_own_stays_as_it_is_by_any_name(monkeypatch):
    user_class = type("OwnReward", (SawyerPushEnvV3,), {})
    monkeypatch.setitem(metaworld.ALL_V3_ENVIRONMENTS, "own", user_class)
    assert fast_class("own") is fast_class(user_class) is user_class
    assert fast_class(SawyerXYZEnv) is SawyerXYZEnv


# Environments of a class share the compile of its model, and not the model.


def test_a_model_goes_with_the_last_reference_to_its_environment(task, stock_bits):
    envs = [fast_class(NAME)() for _ in range(3)]
    assert [episode_bits(env, task) for env in envs] == [stock_bits] * 3
    # 40 MB per environment are not left to a garbage collection.
    references = [weakref.ref(part_of_env) for env in envs for part_of_env in (env.model, env.data)]
    gc.disable()
    try:
        del envs
        assert [reference() for reference in references] == [None] * 6
    finally:
        gc.enable()


EDITS = {
    "body_mass": lambda m: m.body_mass.__imul__(2),
    "timestep": lambda m: setattr(m.opt, "timestep", 0.001),
    "head light": lambda m: m.vis.headlight.ambient.fill(0.9),
    "frame": lambda m: setattr(m.vis.global_, "offwidth", 1234),
    "texture": lambda m: m.tex_data.__setitem__(5, m.tex_data[5] ^ 1),
    "normal": lambda m: m.mesh_normal.__setitem__((17, 1), 9.0),
}


def save_model(model):
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


def test_what_is_done_to_one_model_reaches_no_other_made_before_or_after(task, monkeypatch):
    monkeypatch.setattr(classes, "_compiled", set())  # the first has a model of its own
    monkeypatch.setattr(classes, "_shared", weakref.WeakValueDictionary())
    envs = [fast_class(NAME)() for _ in range(3)]
    fresh = save_model(envs[0].model)
    episode_bits(envs[2], task)
    for env in envs[:2]:
        model_bytes = fresh
        for edit in EDITS.values():
            edit(env.model)
            assert save_model(env.model) != model_bytes
            model_bytes = save_model(env.model)
    assert save_model(fast_class(NAME)(width=5000).model) != fresh
    assert save_model(fast_class(NAME)().model) == fresh


# Where they serve.


REACH = CLASSES["reach-v3"]
HERE = {"metaworld": "3.1.1", "mujoco": "3.3.0"}


def test_here_the_fast_classes_serve_unless_told_otherwise():
    returned = []
    for kwargs, cls in (
        ({}, fast_class(REACH)),
        ({"fast": True}, fast_class(REACH)),
        ({"fast": False}, REACH),
    ):
        env = make("MT1", num_goals=1, **kwargs)
        returned.append(run_episode(env, 2, seed=1))
        assert type(env.unwrapped._env.sawyer) is cls
    assert equal(returned[0], returned[1])
    assert equal(returned[0], returned[2])


@pytest.mark.parametrize("versions", [{"metaworld": "3.1.2"}, {"mujoco": "3.4.0"}, {}])
def test_other_versions_and_helpers_that_differ_give_the_stock_classes_and_a_warning_unless_told(
    monkeypatch, versions
):
    installed = {**HERE, **versions}
    template = "metaworld {metaworld} with mujoco {mujoco}"
    reason = f"{template.format(**installed)} was not verified, only {template.format(**HERE)}"
    if not versions:
        differ = "mtwrappers.metaworld.fast.classes.find_inexact_twins"
        monkeypatch.setattr(differ, lambda: ["norm", "tolerance"])
        reason = "norm, tolerance differ from NumPy's and SciPy's own here"
    monkeypatch.setattr(fast, "version", installed.__getitem__)
    why_not_verified.cache_clear()
    message = f"Meta-World's own classes are used instead of the fast ones: {reason}"
    with pytest.warns(UserWarning, match=message):
        assert class_to_build(REACH, "auto") is REACH
    # Neither True nor False warns, which would be an error.
    assert class_to_build(REACH, True) is fast_class(REACH)
    assert class_to_build(REACH, False) is REACH
    why_not_verified.cache_clear()


BARE = """
import hashlib, json
import metaworld, numpy as np
from metaworld.policies import ENV_POLICY_MAP
from mtwrappers.metaworld import fast_class, make_benchmark
NAMES = ("push-v3", "drawer-open-v3")
TASKS = {n: make_benchmark("MT1", env_name=n, num_goals=1).train_tasks[0] for n in NAMES}

def run_all():
    "What bare Meta-World returns, as a digest for each class."
    digests = {}
    for name, task in TASKS.items():
        env, policy = metaworld.ALL_V3_ENVIRONMENTS[name](), ENV_POLICY_MAP[name]()
        digest = hashlib.sha256()
        env.set_task(task)
        for _ in range(2):
            obs, info = env.reset()
            for _ in range(12):
                obs, reward, *flags, info = env.step(policy.get_action(obs))
                digest.update(obs.tobytes())
                digest.update(np.array([reward, *flags, *info.values()], float).tobytes())
        digests[name] = digest.hexdigest()
    return digests

def contents():
    "What the modules and the classes of Meta-World consist of, and what NumPy computes with."
    import metaworld.sawyer_xyz_env as base, metaworld.utils.reward_utils as rewards
    spaces = [np.linalg, rewards, base, base.SawyerXYZEnv, *metaworld.ALL_V3_ENVIRONMENTS.values()]
    return [{k: v for k, v in vars(space).items() if k != "_abc_impl"} for space in spaces]

first, before = run_all(), contents()
for name in metaworld.ALL_V3_ENVIRONMENTS:
    fast_class(name)
for name, task in TASKS.items():
    env = fast_class(name)()
    env.set_task(task)
    for _ in range(3):
        env.reset()
        for _ in range(5):
            env.step(np.ones(4, np.float32))
        env.model.body_mass[:] *= 2
print(json.dumps([first, run_all(), before == contents()]))
"""


def test_bare_meta_world_keeps_its_bits_and_nothing_of_it_is_replaced():
    bits_before, bits_after, same_classes = json.loads(run_python(BARE))
    assert len(set(bits_before.values())) == 2
    assert bits_after == bits_before
    assert same_classes
