"""A reset from a snapshot is the one that Meta-World's code would have run, whatever was edited."""

import mujoco
import numpy as np
import pytest

from mtwrappers.metaworld import fast_class, make_benchmark
from mtwrappers.metaworld.fast.equality import integration_state
from mtwrappers.metaworld.upstream import all_classes
from tests.metaworld.fakes import random_actions

# Their objects are a free body, a hinge and a slide; dial-turn moves its object last of all.
NAMES = ("push-v3", "door-open-v3", "drawer-open-v3", "dial-turn-v3")
ACTIONS = random_actions(12)
ACTIONS[:, 2] = -1  # down to the object and the table


def make_tasks(name, n):
    return make_benchmark("MT1", env_name=name, num_goals=n).train_tasks


def make_pair(name):
    """A fast environment of a class and a stock one."""
    return fast_class(name)(), all_classes()[name]()


def reset_bits(env, task=None):
    """The bits of a reset, and of what the simulation and the attributes hold after it."""
    if task is not None:
        env.set_task(task)
    data = env.data
    obs = env.reset()[0]
    arrays = [data.xpos, data.xquat, data.geom_xpos, data.geom_xmat, data.cam_xpos, data.qacc]
    arrays += [data.efc_force, data.cfrc_ext, data.sensordata, data.contact.dist]
    # Not of the step before, nor how the fast class does it.
    names = vars(env).keys() - {"_last_stable_obs", "_settles_hand", "_snapshots", "_views"}
    attributes = [
        (name, value.tobytes() if isinstance(value, np.ndarray) else repr(value))
        for name in sorted(names)
        if isinstance(value := vars(env)[name], (np.ndarray, float, list, dict))
    ]
    return [
        obs.tobytes(),
        integration_state(env),
        *(array.tobytes() for array in arrays),
        attributes,
    ]


def episode_bits(env, task=None):
    """The bits of a reset and of the steps after it."""
    bits = [reset_bits(env, task)]
    for action in ACTIONS:
        obs, reward, *_, info = env.step(action)
        bits.append((obs.tobytes(), float(reward), sorted(info.items()), integration_state(env)))
    return bits


LARGE = ("_", "mesh_", "tex_", "bvh_")


def read_arrays(model):
    """The bits of every array of a model, but for the large ones of meshes and textures."""
    arrays = {key: getattr(model, key) for key in dir(model) if not key.startswith(LARGE)}
    return {key: a.tobytes() for key, a in arrays.items() if isinstance(a, np.ndarray)}


@pytest.mark.parametrize("name", all_classes())
@pytest.mark.slow_but(*NAMES)
def test_all_that_a_reset_leaves_is_that_of_stock_from_the_second_on(name):
    first, second = make_tasks(name, 2)
    fast, stock = make_pair(name)
    for task in (first, second, first, first, second, first):
        assert episode_bits(fast, task) == episode_bits(stock, task)
        assert read_arrays(fast.model) == read_arrays(stock.model)


# Other objects: a lid, two that touch, a reward that keeps a list, a start far away.
EDITED = (*NAMES, "box-close-v3", "stick-pull-v3", "pick-place-wall-v3", "coffee-push-v3")


@pytest.mark.parametrize("name", EDITED)
@pytest.mark.slow_but("push-v3", "box-close-v3")
def test_every_edited_attribute_is_noticed(name):
    fast, stock = envs = make_pair(name)
    first, second = make_tasks(name, 2)
    for task in (first, second, first, second):
        episode_bits(fast, task)
    for env in envs:
        reset_bits(env, second)
    names = [
        key
        for key, value in vars(stock).items()
        if isinstance(value, (np.ndarray, float, dict)) and not key.startswith(("init_q", "action"))
    ]
    assert {"hand_init_pos", "_last_rand_vec", "_target_pos"} <= set(names)
    for key in names:
        for env in envs:
            edit(env, key)
        assert reset_bits(fast)[:2] == reset_bits(stock)[:2], key
    for task in (first, second):
        assert reset_bits(fast, task)[:2] == reset_bits(stock, task)[:2]


def edit(env, key):
    """Moves an attribute, in place where that is possible."""
    value = vars(env)[key]
    if isinstance(value, float):
        setattr(env, key, value + 0.003)
    for array in value.values() if isinstance(value, dict) else [value]:
        if isinstance(array, np.ndarray) and array.dtype == np.float64:
            array += 0.003


def move_a_vertex(env):
    mesh = env.model.mesh("boxtop")
    lid = env.model.mesh_vert[mesh.vertadr[0] :][: mesh.vertnum[0]]
    lid[lid[:, 2].argmin(), 2] -= 0.05


NO_CONTACT = int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
EDITS = {
    "mass": lambda env: env.model.body_mass.__imul__(2),
    "timestep": lambda env: setattr(env.model.opt, "timestep", 0.002),
    "mean inertia": lambda env: setattr(env.model.stat, "meaninertia", 1e-3),
    "flags": lambda env: setattr(env.model.opt, "disableflags", NO_CONTACT),
    "frame_skip": lambda env: setattr(env, "frame_skip", 3),
    "observability": lambda env: setattr(env, "_partially_observable", False),
    "method": lambda env: setattr(env, "reset_model", lambda: type(env).reset_model(env) + 1),
    "one vertex": move_a_vertex,
    "bounds": lambda env: env.model.bvh_aabb[: env.model.body_bvhnum.sum()].fill(0),
}


@pytest.mark.parametrize("edit_name", EDITS)
def test_an_edit_is_noticed_whenever_it_was_made(edit_name):
    name = "box-close-v3"  # its lid is a mesh
    (task,) = make_tasks(name, 1)
    stock, new_env, used_env = all_classes()[name](), fast_class(name)(), fast_class(name)()
    plain = episode_bits(stock, task)
    assert [episode_bits(used_env, task) for _ in range(2)] == [plain] * 2
    for env in (stock, new_env, used_env):
        env.set_task(task)
        EDITS[edit_name](env)
    expected = [episode_bits(stock) for _ in range(2)]
    assert expected[0] != plain or edit_name == "observability"
    for env in (new_env, used_env):
        assert [episode_bits(env) for _ in range(2)] == expected


def test_what_a_user_writes_into_lists_and_observations_is_not_kept():
    name = "pick-place-wall-v3"
    (task,) = make_tasks(name, 1)
    env, stock = make_pair(name)
    expected = episode_bits(stock, task)
    assert [k for k, v in vars(stock).items() if isinstance(v, list) and v] == ["target_rewards"]
    for _ in range(3):
        assert episode_bits(env, task) == expected
        env.reset()[0][:] = 7
        env.target_rewards.append(3.0)


def test_after_another_simulation_or_a_failed_reset_all_is_that_of_stock():
    tasks = make_tasks("push-v3", 3)
    fast, stock = envs = make_pair("push-v3")
    for env in envs:
        reset_bits(env, tasks[0])
        env.data = mujoco.MjData(env.model)
    for k in (1, 0, 1):
        assert episode_bits(fast, tasks[k]) == episode_bits(stock, tasks[k])
    for env in envs:
        config, env.init_config = env.init_config, {}
        with pytest.raises(KeyError):
            env.reset()
        env.init_config = config
    assert type(fast) is fast_class("push-v3")
    for k in (1, 0, 1):
        assert episode_bits(fast, tasks[k]) == episode_bits(stock, tasks[k])
