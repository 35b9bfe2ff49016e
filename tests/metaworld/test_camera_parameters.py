"""The matrices of cameras: points that are known are where they are seen."""

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from mtwrappers.metaworld import camera_parameters, opengl, segmentation_names
from mtwrappers.metaworld.camera import CAMERAS
from mtwrappers.metaworld.class_env import class_env_of
from tests.metaworld.fakes import actions, make, make_vec

SITE = int(mujoco.mjtObj.mjOBJ_SITE)
LOOK = {"observation": "pixels", "shadows": False, "width": 64, "height": 48}
ALL = {**LOOK, "depth": True, "segmentation": True}
# Both look to -x; the second is upside down.
OWN = {
    "mine": {"pos": [0.9, 0.8, 0.3], "quat": [0.53, 0.5, 0.47, 0.5], "fovy": 50},
    "hanging": {"pos": [0.9, 0.8, 0.3], "quat": [-0.5, 0.47, -0.5, 0.53], "fovy": 50},
}


@pytest.fixture(scope="module", autouse=True)
def _gl():
    name = opengl.choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUJOCO_GL", name)
        yield


def project(parameters, point):
    """The row and the column of a point, and how far it is."""
    x, y, depth = (parameters["extrinsics"] @ [*point, 1.0])[:3]
    u, v, _ = parameters["intrinsics"] @ [x / depth, y / depth, 1.0]
    return v, u, depth


@pytest.mark.parametrize("variation", [None, "camera"])
@pytest.mark.parametrize("upright", [True, False])
@pytest.mark.parametrize("camera", ["corner2", "topview", *OWN])
@pytest.mark.slow_but("corner2-True-camera", "hanging-True-None")
def test_the_goal_is_where_its_pixels_are(camera, upright, variation):
    look = {"camera_name": camera, "upright": upright, **ALL, "width": 200, "height": 150}
    look |= {"variation": variation}
    if camera in OWN:
        look["cameras"] = {camera: OWN[camera]}
    env = make("MT1", env_name="reach-v3", num_goals=1, **look)
    obs, _ = env.reset(seed=0)
    [parameters] = camera_parameters(env).values()
    sawyer = class_env_of(env).sawyer
    goal = sawyer.model.site("goal")
    seen = np.argwhere((obs["segmentation"] == [goal.id, SITE]).all(axis=2))
    assert len(seen) >= 4
    row, column, depth = project(parameters, env.get_wrapper_attr("goal"))
    assert np.abs(seen.mean(axis=0) - [row, column]).max() < 0.5
    row, column = np.round([row, column]).astype(int)
    # The site is a ball, which is nearer in front.
    assert 0 < depth - obs["depth"][row, column] <= goal.size[0] + 1e-3
    env.close()


@pytest.mark.parametrize("camera", [*CAMERAS, "free"])
@pytest.mark.slow_but("corner4", "gripperPOV")
def test_depth_leads_back_to_the_points_that_are_seen(camera):
    look = {"camera_id": -1} if camera == "free" else {"camera_name": camera}
    env = make("MT1", env_name="door-open-v3", num_goals=1, **look, **ALL)
    env.reset(seed=0)
    obs, *_ = env.step(actions(1)[0])
    parameters = camera_parameters(env)[camera]
    sawyer = class_env_of(env).sawyer
    model, data = sawyer.model, mujoco.MjData(sawyer.model)
    data.qpos[:], data.qvel[:] = sawyer.data.qpos, sawyer.data.qvel
    data.mocap_pos[:], data.mocap_quat[:] = sawyer.data.mocap_pos, sawyer.data.mocap_quat
    mujoco.mj_forward(model, data)
    inverse = np.linalg.inv(parameters["intrinsics"])
    to_world = np.linalg.inv(parameters["extrinsics"])
    eye, errors, found = to_world[:3, 3], [], np.zeros(1, np.int32)
    visible = np.array([1, 1, 1, 0, 0, 0], np.uint8)  # of the groups of geoms
    for row, column in np.ndindex(48, 64):
        if row % 4 or column % 4:
            continue
        ahead = inverse @ [column, row, 1.0]
        point = (to_world @ [*(ahead * obs["depth"][row, column]), 1.0])[:3]
        ray = (point - eye) / np.linalg.norm(point - eye)
        # From 1 cm before it, since the camera behind the gripper is inside a mesh.
        start = point - 0.01 * ray
        distance = mujoco.mj_ray(model, data, start, ray, visible, 1, -1, found)
        geom, kind = obs["segmentation"][row, column]
        if kind == mujoco.mjtObj.mjOBJ_GEOM and found[0] == geom:
            errors.append(abs(distance - 0.01))
    assert len(errors) > 80
    assert np.quantile(errors, 0.9) < 1e-3
    env.close()


def test_matrices_of_moving_cameras_are_of_the_present_state():
    env = make("MT1", num_goals=1, camera_name=["corner4", "gripperPOV"], **LOOK)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        camera_parameters(env)
    env.reset(seed=0)
    hands, found = [], []
    for _ in range(2):
        hands.append(env.step(np.array([1, 0, 0, 0], np.float32))[0])
        found.append(camera_parameters(env))
    (fixed, moved), (fixed_then, moved_then) = (one.values() for one in found)
    assert np.array_equal(fixed["extrinsics"], fixed_then["extrinsics"])
    where, then = (-m["extrinsics"][:3, :3].T @ m["extrinsics"][:3, 3] for m in (moved, moved_then))
    assert then[0] - where[0] > 0.001
    assert abs(moved["intrinsics"][0, 0] - 24 / np.tan(np.radians(90) / 2)) < 1e-9
    assert moved["intrinsics"][:2, 2].tolist() == [31.5, 23.5]
    env.close()


def test_a_vector_returns_the_matrices_and_the_names_of_each_environment():
    with make_vec("CustomMT", num_goals=1, camera_name="corner4", **LOOK) as envs:
        envs.reset(seed=0)
        first, second = envs.call(camera_parameters)
        assert np.array_equal(first["corner4"]["extrinsics"], second["corner4"]["extrinsics"])
        names = envs.call(segmentation_names)
    assert len(names) == 2
    assert all(one[0, 6] == ("goal", "world") for one in names)


def test_names_say_what_pixels_are_of():
    env = make("MT1", env_name="drawer-open-v3", num_goals=1, camera_name="corner", **ALL)
    obs, _ = env.reset(seed=0)
    names = segmentation_names(env)
    seen = {names[tuple(pixel)] for pixel in obs["segmentation"].reshape(-1, 2)}
    assert {("goal", "world"), ("", "drawer_link"), ("", "right_hand"), ("", "")} <= seen
    env.close()


def test_what_has_no_cameras_is_refused():
    env = make("MT1", num_goals=1)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"reach-v3 has no camera: .* got render_mode=None"):
        camera_parameters(env)
    with pytest.raises(TypeError, match="expected a single environment of mtwrappers on Meta"):
        camera_parameters(gymnasium.make("CartPole-v1"))
