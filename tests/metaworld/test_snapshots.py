"""Resets from snapshots give what a reset gives, and never the physics of an earlier model."""

import mujoco
import numpy as np
import pytest

from mtwrappers.metaworld import fast_class, make_benchmark
from mtwrappers.metaworld.fast import sawyer
from mtwrappers.metaworld.fast.snapshots import MAX_SNAPSHOTS, Snapshots
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.metaworld.verify import state

# Their objects are a free body, a hinge and a slide; dial-turn moves its object last of all.
NAMES = ("push-v3", "door-open-v3", "drawer-open-v3", "dial-turn-v3")
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (12, 4)).astype(np.float32)
ACTIONS[:, 2] = -1  # down to the object and the table


@pytest.fixture(scope="module")
def tasks():
    return make_benchmark("MT1", env_name="push-v3", num_goals=6).train_tasks


def reset(env, task=None):
    """The bits of a reset, and of what the simulation holds after it."""
    if task is not None:
        env.set_task(task)
    data = env.data
    obs = env.reset()[0]
    held = [data.xpos, data.xquat, data.geom_xpos, data.geom_xmat, data.cam_xpos, data.qacc]
    held += [data.efc_force, data.cfrc_ext, data.sensordata, data.contact.dist]
    held += [env.tcp_center, env.init_left_pad, env.init_right_pad, env._target_pos]
    return [obs.tobytes(), state(env), *(np.asarray(array).tobytes() for array in held)]


def played(env, task=None):
    """The bits of a reset and of the steps after it."""
    bits = [reset(env, task)]
    for action in ACTIONS:
        obs, reward, *_, info = env.step(action)
        bits.append((obs.tobytes(), float(reward), sorted(info.items()), state(env)))
    return bits


@pytest.fixture
def physics(monkeypatch):
    """How often the hand was settled."""
    counts = []
    original = sawyer.SawyerXYZEnv._reset_hand

    def count(self, steps=50):
        counts.append(steps)
        original(self, steps)

    monkeypatch.setattr(sawyer.SawyerXYZEnv, "_reset_hand", count)
    return counts


@pytest.mark.parametrize("name", NAMES)
def test_all_that_the_simulation_holds_after_a_reset_is_that_of_stock_from_the_second_on(name):
    first, second = make_benchmark("MT1", env_name=name, num_goals=2).train_tasks
    fast, stock = fast_class(name)(), all_classes()[name]()
    for task in (first, second, first, first, second, first):
        assert played(fast, task) == played(stock, task)
    assert len(fast._snapshots) == 2


def test_a_known_task_is_reset_to_without_settling_the_hand(physics, tasks):
    env = fast_class("push-v3")()
    for k in (0, 1, 0, 1, 0):
        reset(env, tasks[k])
    assert len(physics) == 2


def test_the_least_recently_used_goes_first_and_comes_back_with_the_same_bits(
    monkeypatch, physics, tasks
):
    monkeypatch.setattr(sawyer, "Snapshots", lambda env: Snapshots(env, limit=2))
    env, stock = fast_class("push-v3")(), all_classes()["push-v3"]()
    expected = [played(stock, task) for task in tasks]
    physics.clear()
    # 0 and 1 are kept; 0 is used again, so 2 drives out 1; then 1 drives out 0, and 2 stays.
    runs = []
    for k in (0, 1, 0, 2, 0, 1, 1, 0, 2):
        before = len(physics)
        assert played(env, tasks[k]) == expected[k]
        runs.append((k, len(physics) - before))
        assert len(env._snapshots) <= 2
    assert runs == [(0, 1), (1, 1), (0, 0), (2, 1), (0, 0), (1, 1), (1, 0), (0, 0), (2, 1)]


def size_of(snapshot):
    """The bytes of a snapshot's arrays."""
    arrays = [snapshot.state, snapshot.obs, *snapshot.data]
    arrays += [] if snapshot.forces is None else [snapshot.forces]
    arrays += [array for _, *both in snapshot.model for array in both]
    arrays += [v for v in snapshot.copied.values() if isinstance(v, np.ndarray)]
    return sum(array.nbytes for array in arrays)


def test_a_snapshot_takes_the_memory_that_is_documented():
    sizes = {}
    for name in NAMES:
        env = fast_class(name)()
        reset(env, make_benchmark("MT1", env_name=name, num_goals=1).train_tasks[0])
        (snapshot,) = env._snapshots._kept.values()
        sizes[name] = size_of(snapshot)
    assert MAX_SNAPSHOTS == 1024
    assert 5_000 < min(sizes.values()) < 10_000, sizes
    assert 10_000 < max(sizes.values()) < 32_000, sizes


def test_without_being_told_a_number_they_are_bounded(tasks):
    env = fast_class("push-v3")()
    reset(env, tasks[0])
    assert env._snapshots._limit == 1024


def test_what_a_user_writes_into_attributes_and_observations_is_not_kept(tasks):
    name = "pick-place-wall-v3"  # its resets assign a list too
    task = make_benchmark("MT1", env_name=name, num_goals=1).train_tasks[0]
    env, stock = fast_class(name)(), all_classes()[name]()
    expected = played(stock, task)
    lists = [k for k, v in vars(stock).items() if isinstance(v, list) and v]
    assert lists == ["target_rewards"]
    for _ in range(3):
        assert played(env, task) == expected
        assert env.target_rewards == stock.target_rewards
        obs, _ = env.reset()
        obs[:] = 7
        env.target_rewards.append(3.0)
        env.obj_init_pos[:] = 5
        env._target_pos[:] = 5


# Edits of a model, which stock environments simulate.

EDITS = {
    "body_mass": lambda m: m.body_mass.__imul__(3),
    "geom_friction": lambda m: m.geom_friction.__imul__(0.1),
    "geom_size": lambda m: m.geom_size.__imul__(1.2),
    "one geom_size": lambda m: m.geom("objGeom").size.__imul__(1.1),
    "timestep": lambda m: setattr(m.opt, "timestep", 0.002),
    "gravity": lambda m: m.opt.gravity.__setitem__(2, -2.0),
    "iterations": lambda m: setattr(m.opt, "iterations", 1),
    "actuator_gainprm": lambda m: m.actuator_gainprm.__imul__(0.5),
    "dof_damping": lambda m: m.dof_damping.__imul__(5),
    "qpos0": lambda m: m.qpos0.__iadd__(0.01),
    "mean inertia": lambda m: setattr(m.stat, "meaninertia", 1e-3),
    "mesh_vert": lambda m: m.mesh_vert.__imul__(1.2),
    "option flags": lambda m: setattr(
        m.opt, "disableflags", int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    ),
}


@pytest.fixture(scope="module")
def plain(tasks):
    return played(all_classes()["push-v3"](), tasks[0])


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_model_has_its_own_physics_whenever_it_was_edited(tasks, plain, edit):
    change = EDITS[edit]
    stock = all_classes()["push-v3"]()
    change(stock.model)
    expected = played(stock, tasks[0])
    if edit not in ("mesh_vert", "mean inertia"):  # these do not show in so few steps
        assert expected != plain

    before = fast_class("push-v3")()
    change(before.model)
    assert [played(before, tasks[0]) for _ in range(2)] == [expected] * 2

    between = fast_class("push-v3")()
    assert [played(between, tasks[0]) for _ in range(2)] == [plain] * 2
    change(between.model)
    assert [played(between, tasks[0]) for _ in range(2)] == [expected] * 2
    assert between._snapshots is None


def test_an_edit_between_steps_holds_at_once_and_after_the_next_reset(tasks):
    envs = fast_class("push-v3")(), all_classes()["push-v3"]()
    for env in envs:
        played(env, tasks[0])
        played(env, tasks[0])
        env.step(ACTIONS[0])
        env.model.body_mass[:] *= 3
        env.model.opt.gravity[:] = [0, 1, -5]
    fast, stock = envs
    for action in ACTIONS:
        assert fast.step(action)[0].tobytes() == stock.step(action)[0].tobytes()
        assert state(fast) == state(stock)
    for k in (0, 1, 0):
        assert played(fast, tasks[k]) == played(stock, tasks[k])


def test_an_edit_that_is_undone_gives_the_old_physics_again(tasks, plain):
    env = fast_class("push-v3")()
    assert played(env, tasks[0]) == plain
    mass = env.model.body_mass.copy()
    env.model.body_mass[:] *= 3
    assert played(env, tasks[0]) != plain
    env.model.body_mass[:] = mass
    assert played(env, tasks[0]) == plain
    assert played(env, tasks[1]) == played(all_classes()["push-v3"](), tasks[1])


def test_an_edit_before_every_reset_is_that_of_stock(tasks):
    fast, stock = fast_class("push-v3")(), all_classes()["push-v3"]()
    rng = np.random.default_rng(0)
    for k in (0, 0, 1, 0, 1):
        scale = rng.uniform(0.5, 2)
        for env in (fast, stock):
            env.model.geom_friction[:, 0] *= scale
            env.model.dof_damping[:] *= scale
        assert played(fast, tasks[k]) == played(stock, tasks[k])


def test_an_edit_of_one_environment_leaves_the_snapshots_of_another_on(tasks, plain):
    one, two = fast_class("push-v3")(), fast_class("push-v3")()
    for env in (one, two):
        reset(env, tasks[0])
    one.model.body_mass[:] *= 2
    reset(one)
    assert played(two) == plain
    assert (one._snapshots is None, len(two._snapshots)) == (True, 1)


def test_changed_colours_and_lights_keep_their_values_through_resets(tasks, plain):
    env = fast_class("push-v3")()
    reset(env, tasks[0])
    env.model.geom_rgba[:] = 0.25
    env.model.light_diffuse[:] = 0.75
    env.model.tex_data[:] = 9
    for k in (1, 0):
        bits = played(env, tasks[k])
    assert bits == plain
    assert (env.model.geom_rgba == 0.25).all()
    assert (env.model.light_diffuse == 0.75).all()
    assert (env.model.tex_data == 9).all()


def test_another_simulation_in_place_of_the_first_is_used(tasks):
    fast, stock = fast_class("push-v3")(), all_classes()["push-v3"]()
    for env in (fast, stock):
        reset(env, tasks[0])
        env.data = mujoco.MjData(env.model)
    assert reset(fast) == reset(stock)
    for action in ACTIONS:
        assert fast.step(action)[0].tobytes() == stock.step(action)[0].tobytes()
