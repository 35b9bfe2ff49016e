"""Several cameras, and depth: what is observed, and what is refused."""

import functools
import os
import signal

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict

from mtwrappers import load_checkpoint, save_checkpoint
from mtwrappers.metaworld.agent_view import FAR_PLANE
from mtwrappers.metaworld.class_env import SawyerSettings, class_env_of
from mtwrappers.metaworld.fast.equality import integration_state
from mtwrappers.metaworld.frames import Drawing, choose_gl
from mtwrappers.metaworld.upstream import all_classes
from tests.fakes import check_env_warnings, equal
from tests.metaworld.fakes import PARALLEL, actions, episode, make, make_vec

LOOK = {"width": 16, "height": 12, "shadows": False}
TWO = {"camera_name": ["corner", "gripperPOV"]}
ALL = {"observation": "pixels", "depth": True, **TWO, **LOOK}
SMALL = {"num_goals": 1, "max_episode_steps": 3, "record_episode_statistics": False}


@pytest.fixture(scope="module", autouse=True)
def _gl():
    name = choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUJOCO_GL", name)
        yield


# What is observed.


def test_each_key_has_an_image_of_every_camera_and_the_spec_survives_json():
    env = make("MT1", num_goals=1, **ALL)
    boxes = {
        "depth": Box(0.0, FAR_PLANE, (12, 16), np.float32),
        "pixels": Box(0, 255, (12, 16, 3), np.uint8),
    }
    names = TWO["camera_name"]
    assert env.observation_space == Dict(
        {k: Dict(dict.fromkeys(names, b)) for k, b in boxes.items()}
    )
    obs, _ = env.reset(seed=3)
    assert obs in env.observation_space
    assert list(obs["pixels"]) == names
    assert np.array_equal(env.render(), obs["pixels"]["corner"])
    assert not np.array_equal(obs["pixels"]["gripperPOV"], obs["pixels"]["corner"])
    assert obs["depth"]["gripperPOV"].max() < obs["depth"]["corner"].max() < FAR_PLANE
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    again = gymnasium.make(spec)
    assert equal(again.reset(seed=3)[0], obs)
    for one in (env, again):
        one.close()


@pytest.mark.parametrize(
    ("look", "keys"),
    [
        ({"camera_name": "corner4", "depth": True}, {"depth", "pixels"}),
        ({"camera_name": ("corner", "topview")}, {"corner", "topview"}),
        ({"camera_name": ["corner"]}, {"corner"}),
        ({"observation": "pixels_state", "depth": True}, {"pixels", "depth"}),
    ],
)
@pytest.mark.slow_but("look1")
def test_a_name_gives_an_image_and_a_list_a_dict_of_images(look, keys):
    env = make("MT1", num_goals=1, **{"observation": "pixels", **look, **LOOK})
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    assert set(obs) - {"environment_state"} == keys
    assert all(isinstance(part, np.ndarray) for part in obs.values())
    env.close()


@pytest.mark.slow
def test_an_image_is_the_one_that_its_camera_draws_alone():
    every = make("MT1", num_goals=1, **ALL)
    obs, _ = every.reset(seed=0)
    for name in TWO["camera_name"]:
        for mode, key in (("rgb_array", "pixels"), ("depth_array", "depth")):
            alone = {**LOOK, "render_mode": mode, "camera_name": name}
            env = make("MT1", num_goals=1, **alone)
            env.reset(seed=0)
            assert np.array_equal(env.render(), obs[key][name])
            env.close()
    every.close()


@pytest.mark.slow
def test_gymnasiums_checker_accepts_nested_images():
    env = make("MT1", num_goals=1, **ALL)
    assert check_env_warnings(env, skip_render_check=True) == []
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", all_classes())
def test_no_far_clipping_plane_is_beyond_the_bound_of_depth(name):
    model = all_classes()[name]().model
    assert 100 < model.vis.map.zfar * model.stat.extent < FAR_PLANE - 1


# Beside it, nothing changes.


def test_drawing_keeps_the_model_and_the_bits_of_the_trajectory():
    results, models = [], []
    for look in ({}, ALL):
        env = make("MT1", num_goals=1, **look)
        results.append(
            [
                (one[1:], integration_state(class_env_of(env).sawyer))
                for one in episode(env, 3, seed=0)
            ]
        )
        models.append(class_env_of(env).sawyer.model)
        env.close()
    assert equal(results[0], results[1])
    size = mujoco.mj_sizeModel(models[0])
    both = [np.empty(size, np.uint8) for _ in models]
    for model, buffer in zip(models, both, strict=True):
        mujoco.mj_saveModel(model, None, buffer)
    assert np.array_equal(*both)


def count(drawing, drawn, name, method, *args):
    drawn.append(name)
    return method(drawing, *args)


def test_each_camera_draws_a_state_once(monkeypatch):
    drawn = []
    for name in ("colours", "depth"):
        method = getattr(Drawing, name)
        counted = functools.partialmethod(count, drawn, name, method)
        monkeypatch.setattr(Drawing, name, counted)
    env = make("MT1", num_goals=1, **ALL)
    first, _ = env.reset(seed=0)
    assert sorted(drawn) == ["colours"] * 2 + ["depth"] * 2
    env.render()
    one = class_env_of(env)
    assert equal(one.images(["colours"])["colours"], first["pixels"])
    assert len(drawn) == 4
    one.sawyer.model.light_diffuse[:] = 0.1
    assert not equal(one.images(["colours"])["colours"], first["pixels"])
    assert len(drawn) == 6
    env.close()


# In many environments.


@pytest.mark.slow
def test_workers_return_the_same_images():
    results = []
    for kwargs in ({}, PARALLEL):
        with make_vec("CustomMT", **SMALL, **ALL, **kwargs) as envs:
            assert envs.reset(seed=5)[0]["depth"]["corner"].shape == (2, 12, 16)
            results.append(episode(envs, 4, seed=5))
    assert equal(*results)


@pytest.mark.slow
def test_a_killed_worker_and_a_checkpoint_change_no_image(tmp_path):
    kwargs = {**SMALL, **ALL, "workers": 2, "on_worker_failure": "recover", "journal": True}
    acts = np.tile(actions(4), (2, 1, 1))
    with make_vec("CustomMT", **SMALL, **ALL) as envs:
        expected = episode(envs, 4, seed=5)
    with make_vec("CustomMT", **kwargs) as envs:
        found = [envs.reset(seed=5), envs.step(acts[:, 0])]
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        with pytest.warns(UserWarning, match="SIGKILL"):
            found.append(envs.step(acts[:, 1]))
        save_checkpoint(tmp_path / "c", envs=envs)
    with make_vec("CustomMT", **SMALL, **ALL, journal=True) as envs:
        load_checkpoint(tmp_path / "c", envs=envs)
        found += [envs.step(acts[:, t]) for t in range(2, 4)]
    assert equal(found, expected)


# What is refused.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"camera_name": 3}, "camera_name must be a name, a list of names or None, got 3"),
        ({"camera_name": ["corner", 3]}, r"a list of names or None, got \['corner', 3\]"),
        ({"camera_name": []}, r"at least one name, and none twice, got \[\]"),
        ({"camera_name": ["corner"] * 2}, r"and none twice, got \['corner', 'corner'\]"),
        ({"camera_name": ["corner"], "camera_id": 1}, "camera_name or camera_id, not both"),
    ],
)
def test_what_is_no_camera_is_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SawyerSettings(**settings)


@pytest.mark.parametrize(
    ("look", "message"),
    [
        ({"camera_name": ["corner", "front"]}, "each of camera_name must be .* got 'front'"),
        ({"observation": "state", "depth": True}, "needs frames, got observation='state'"),
    ],
)
def test_what_does_not_go_together_is_refused(look, message):
    with pytest.raises(ValueError, match=message):
        make("MT1", **{"observation": "pixels", **look})
