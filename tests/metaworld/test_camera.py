"""The frames of a camera: the present state, upright, in metres; observed: ``test_pixels.py``."""

import contextlib
import copy
import pickle

import gymnasium
import mujoco
import numpy as np
import pytest

from mtwrappers import MetaWorldSetTaskEnv
from mtwrappers.metaworld.class_env import CAMERAS, SawyerSettings, find_cameras
from mtwrappers.metaworld.frames import Camera
from tests.metaworld.fakes import PAIR

ID = "mtwrappers/CustomMT-v0"
LOOK = {"render_mode": "rgb_array", "camera_name": "corner2", "width": 64, "height": 48}
MADE = {"train_classes": PAIR, "num_goals": 1, "camera_name": "corner2"}


pytestmark = pytest.mark.usefixtures("opengl")


@pytest.fixture
def drawn():
    """Makes environments of one class on its first goal, after a reset; closes them."""
    with contextlib.ExitStack() as stack:

        def make(name="reach-v3", **look):
            env = MetaWorldSetTaskEnv("MT1", env_name=name, num_goals=1, **{**LOOK, **look})
            stack.callback(env.close)
            env.reset()
            return env._env

        yield make


# What is drawn.


# A reset leaves things where they were before their last move in the first three.
@pytest.mark.parametrize("name", ["window-close-v3", "dial-turn-v3", "door-lock-v3"])
@pytest.mark.slow_but("dial-turn-v3")
def test_a_frame_is_of_where_everything_is_from_the_first_on(drawn, name):
    env = drawn(name)
    first = env.render()
    mujoco.mj_forward(env.sawyer.model, env.sawyer.data)
    assert np.array_equal(first, env.render())
    env.sawyer.data.qpos[9] += 0.1
    assert not np.array_equal(first, env.render())


@pytest.mark.parametrize("camera", [*CAMERAS, None])
@pytest.mark.slow_but("corner2", "gripperPOV")
def test_corner_cameras_are_turned_upright_and_others_stay(drawn, camera):
    frame, expected = (drawn(camera_name=camera, upright=up).render() for up in (True, False))
    turned = camera is not None and camera.startswith("corner")
    assert np.array_equal(frame, expected[::-1, ::-1] if turned else expected)
    assert frame.flags.c_contiguous


def test_depth_is_in_metres_as_rays_measure_it(drawn):
    env = drawn("door-open-v3", render_mode="depth_array", camera_name="corner3")
    depth = env.render()
    assert depth.shape == (48, 64)
    assert depth.dtype == np.float32
    model, data = env.sawyer.model, env.sawyer.data
    mujoco.mj_forward(model, data)
    camera = CAMERAS.index("corner3")
    eye, axes = data.cam_xpos[camera], data.cam_xmat[camera].reshape(3, 3)
    per_pixel = 2 * np.tan(np.radians(model.cam_fovy[camera]) / 2) / 48
    errors = []
    for row, column in np.ndindex(48, 64):
        # Turned upright: the first pixel is that at the lower right of the camera's own frame.
        right, up = (31.5 - column) * per_pixel, (row - 23.5) * per_pixel
        ray = axes @ [right, up, -1.0]
        # Its length is 1 along the viewing direction, so the multiple of it is the depth.
        distance = mujoco.mj_ray(model, data, eye, ray, None, 1, -1, np.zeros(1, np.int32))
        errors.append(abs(distance - depth[row, column]))
    assert np.quantile(errors, 0.9) < 0.0005  # edges and the insides of meshes differ
    assert 0.8 < depth.min() < depth.max() < 5.0


def test_a_model_of_ones_own_has_its_own_cameras():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><camera name='front' pos='0 0 3'/><geom size='1'/></worldbody></mujoco>"
    )
    with pytest.raises(ValueError, match=r"camera_name must be 'front' or None, got 'corner2'"):
        find_cameras(SawyerSettings(camera_name="corner2"), ["front"])
    settings = SawyerSettings(camera_name="front", width=65, height=65)
    camera = Camera(model, find_cameras(settings, ["front"]), settings)
    depth = camera.frame(mujoco.MjData(model), "depth_array")
    assert abs(depth[32, 32] - 2.0) < 1e-3


@pytest.mark.parametrize(
    "change",
    [
        lambda model: np.multiply(model.geom_rgba, 0.5, out=model.geom_rgba),
        lambda model: np.add(model.site_pos, 0.1, out=model.site_pos),
        lambda model: np.add(model.cam_pos, 0.1, out=model.cam_pos),
        lambda model: setattr(model.vis.headlight, "ambient", [1, 0, 0]),
        lambda model: setattr(model.stat, "extent", 0.1),
    ],
    ids=["colours", "goal", "camera", "light", "clipping"],
)
@pytest.mark.slow_but("light", "goal")
def test_an_edited_model_is_seen_though_its_state_is_the_same(drawn, change):
    env = drawn(shadows=False)
    frame = env.render()
    change(env.sawyer.model)
    edited = env.render()
    assert not np.array_equal(edited, frame)
    assert np.array_equal(env.render(), edited)


def test_a_goal_that_a_reset_moves_is_seen_though_nothing_else_moves():
    made = {"env_name": "reach-v3", "num_goals": 2, "camera_name": "corner2", "width": 64}
    env = gymnasium.make("mtwrappers/MT1-v0", render_mode="rgb_array", height=48, **made)
    frames = []
    for task_state in (0, 1, 0):
        env.reset(seed=0, options={"task_state": task_state})
        frames.append(env.render())
    env.close()
    assert np.array_equal(frames[0], frames[2])
    assert not np.array_equal(frames[0], frames[1])


# With other tools.


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.slow
def test_a_copy_of_an_environment_that_has_drawn_draws_for_itself(copied):
    env = gymnasium.make(ID, **MADE, render_mode="rgb_array")
    env.reset(options={"task_state": 1})
    frame = env.render()
    other = copied(env)
    env.close()
    other.reset(options={"task_state": 1})
    assert np.array_equal(other.render(), frame)
    other.close()
