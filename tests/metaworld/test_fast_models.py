"""Environments of a class share the compile of its model, and not the model."""

import gc
import weakref

import mujoco
import numpy as np
import pytest

from mtwrappers.metaworld import fast_class, make_benchmark
from mtwrappers.metaworld.fast import models
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.metaworld.verify import state

NAME = "push-v3"
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (10, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def task():
    return make_benchmark("MT1", env_name=NAME, num_goals=1).train_tasks[0]


@pytest.fixture
def compiles(monkeypatch):
    """The model files that MuJoCo has compiled since the test began."""
    paths = []

    class CountingModel(mujoco.MjModel):
        @staticmethod
        def from_xml_path(path, *args):
            paths.append(path.rsplit("/", 1)[-1])
            return original(path, *args)

    original = mujoco.MjModel.from_xml_path
    monkeypatch.setattr(mujoco, "MjModel", CountingModel)
    monkeypatch.setattr(models, "_donors", {})
    return paths


def played(env, task):
    """The bits of a reset and of the steps after it, and of the simulation."""
    env.set_task(task)
    bits = [env.reset()[0].tobytes(), state(env)]
    for action in ACTIONS:
        obs, reward, *_ = env.step(action)
        bits += [obs.tobytes(), np.float64(reward).tobytes(), state(env)]
    return bits


@pytest.fixture(scope="module")
def stock_played(task):
    return played(all_classes()[NAME](), task)


def test_environments_of_a_class_are_compiled_once_and_of_two_twice(compiles, task, stock_played):
    envs = [fast_class(NAME)() for _ in range(4)]
    assert compiles == ["sawyer_push_v3.xml"]
    assert len({id(env.model) for env in envs}) == 4
    assert [played(env, task) for env in envs] == [stock_played] * 4
    other = fast_class("door-open-v3")()
    assert len(compiles) == 2
    assert other.model.nq != envs[0].model.nq


def test_stock_environments_compile_their_own(compiles):
    envs = [all_classes()[NAME]() for _ in range(2)]
    assert len(compiles) == len(envs)


EDITS = {
    "body_mass": lambda m: m.body_mass.__imul__(2),
    "geom_size": lambda m: m.geom_size.__imul__(1.5),
    "geom_rgba": lambda m: m.geom_rgba.fill(0.5),
    "site_pos": lambda m: m.site_pos.fill(0.1),
    "gravity": lambda m: m.opt.gravity.__setitem__(2, -1),
    "timestep": lambda m: setattr(m.opt, "timestep", 0.001),
    "mean inertia": lambda m: setattr(m.stat, "meaninertia", 7.0),
    "extent": lambda m: setattr(m.stat, "extent", 7.0),
    "head light": lambda m: m.vis.headlight.ambient.fill(0.9),
    "field of view": lambda m: setattr(m.vis.global_, "fovy", 20.0),
    "fog": lambda m: m.vis.rgba.fog.fill(0.25),
    "frame": lambda m: setattr(m.vis.global_, "offwidth", 1234),
    "texture": lambda m: m.tex_data.fill(7),
    "mesh": lambda m: m.mesh_vert.__imul__(1.1),
}


def all_of(model):
    """Everything of a model, as bytes."""
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_one_model_reaches_no_other_made_before_or_after(compiles, edit):
    first, second = fast_class(NAME)(), fast_class(NAME)()
    fresh = all_of(second.model)
    assert all_of(first.model) == fresh
    EDITS[edit](first.model)
    assert all_of(first.model) != fresh
    third = fast_class(NAME)()
    fourth = fast_class(NAME)()
    assert [all_of(env.model) == fresh for env in (second, third, fourth)] == [True] * 3


def test_playing_moves_no_other_model(compiles, task):
    first = fast_class(NAME)()
    fresh = all_of(first.model)
    played(first, task)
    assert all_of(fast_class(NAME)().model) == fresh
    assert len(compiles) == 1


def test_larger_frames_of_one_do_not_enlarge_those_of_another(compiles):
    large = fast_class(NAME)(width=5000, height=4000)
    small = fast_class(NAME)()
    expected = all_classes()[NAME]().model.vis.global_
    assert large.model.vis.global_.offwidth == 5000
    assert large.model.vis.global_.offheight == 4000
    assert small.model.vis.global_.offwidth == expected.offwidth < 5000
    assert small.model.vis.global_.offheight == expected.offheight < 4000
    assert len(compiles) == 2  # the first fast one, and the stock one


def test_the_compile_is_not_kept_when_the_last_environment_is_gone(compiles):
    env = fast_class(NAME)()
    del env
    gc.collect()
    fast_class(NAME)()
    assert len(compiles) == 2


def test_a_closed_environment_still_gives_its_compile(compiles, task, stock_played):
    env = fast_class(NAME)()
    env.close()
    assert played(fast_class(NAME)(), task) == stock_played
    assert len(compiles) == 1


def test_the_models_of_an_environment_go_with_its_last_reference(task):
    env = fast_class(task.env_name)()
    env.set_task(task)
    env.reset()
    model, data = weakref.ref(env.model), weakref.ref(env.data)
    gc.disable()  # 40 MB an environment must not wait for it
    try:
        del env
        assert (model(), data()) == (None, None)
    finally:
        gc.enable()
