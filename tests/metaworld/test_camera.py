"""The frames of a camera: the present state, upright, in metres."""

import contextlib
import copy
import gc
import pickle

import gymnasium
import mujoco
import numpy as np
import pytest

from mtwrappers import MetaWorldSetTaskEnv
from mtwrappers.metaworld.class_env import CAMERAS, SawyerSettings, find_cameras
from mtwrappers.metaworld.fast.equality import integration_state
from mtwrappers.metaworld.frames import Camera, Drawing, choose_gl, drawing_thread
from tests.metaworld.fakes import PAIR, actions

ID = "mtwrappers/CustomMT-v0"
LOOK = {"render_mode": "rgb_array", "camera_name": "corner2", "width": 64, "height": 48}
MADE = {"train_classes": PAIR, "num_goals": 1, "camera_name": "corner2"}


@pytest.fixture(scope="module", autouse=True)
def _gl():
    name = choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUJOCO_GL", name)
        yield


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


def test_rendering_keeps_the_bits_of_the_trajectory(drawn):
    both = []
    for mode in (None, "rgbd_tuple"):
        env = drawn("dial-turn-v3", render_mode=mode, camera_name=None)
        own = [env.reset()[0].tobytes()]
        for action in actions(5):
            if mode is not None:
                env.render()
            obs, reward, *_, info = env.step(action)
            own.append((obs.tobytes(), reward, info, integration_state(env.sawyer)))
        both.append(own)
    assert both[0] == both[1]


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


@pytest.mark.slow
def test_frames_have_the_kind_and_the_size_that_was_asked_for_beside_others(drawn):
    modes = ("rgb_array", "depth_array", "rgbd_tuple")
    rgb, depth, (colours, metres) = (drawn(render_mode=mode).render() for mode in modes)
    assert (rgb.shape, rgb.dtype) == ((48, 64, 3), np.uint8)
    assert np.array_equal(colours, rgb)
    assert np.array_equal(metres, depth)
    envs = [drawn(width=w, height=h) for w, h in ((64, 48), (700, 500), (30, 90))]
    first = [env.render() for env in envs]
    assert [frame.shape for frame in first] == [(48, 64, 3), (500, 700, 3), (90, 30, 3)]
    assert all(np.array_equal(env.render(), frame) for env, frame in zip(envs, first, strict=True))


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


def test_without_a_render_mode_there_is_nothing_to_see(drawn):
    env = drawn(render_mode=None)
    with pytest.warns(UserWarning, match="nothing to render without a render_mode"):
        assert env.render() is None


@pytest.fixture
def drawings(monkeypatch):
    """A list that grows by one whenever colours are drawn."""
    found = []
    colours = Drawing.colours
    monkeypatch.setattr(Drawing, "colours", lambda *args: found.append(1) or colours(*args))
    return found


@pytest.mark.slow
def test_a_state_is_drawn_once_whoever_asks_and_whatever_becomes_of_the_frame(drawn, drawings):
    env = drawn("door-lock-v3")
    first = env.render()
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(env.render(), kept)
    assert len(drawings) == 1
    env.step(actions(1)[0])
    assert not np.array_equal(env.render(), kept)
    env.reset()
    assert np.array_equal(env.render(), kept)
    assert len(drawings) == 3
    data = env.sawyer.data
    before = data.qpos[9]
    data.qpos[9] += 0.1  # as whoever restores a state does
    assert not np.array_equal(env.render(), kept)
    data.qpos[9] = before
    assert np.array_equal(env.render(), kept)


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
def test_an_edited_model_is_seen_though_its_state_is_the_same(drawn, drawings, change):
    env = drawn(shadows=False)
    frame = env.render()
    change(env.sawyer.model)
    edited = env.render()
    assert not np.array_equal(edited, frame)
    assert np.array_equal(env.render(), edited)
    assert len(drawings) == 2


@pytest.mark.slow
def test_a_frame_is_of_its_mode_of_its_episode_and_of_what_opengl_holds(drawn):
    env = drawn(camera_name=None)
    camera, data, model = env._camera, env.sawyer.data, env.sawyer.model
    frame = camera.frame(data, "rgb_array")
    assert camera.frame(data, "depth_array").shape == frame.shape[:2]
    data.qpos[:3] += 0.3  # from where the free camera would look elsewhere
    moved = camera.frame(data, "rgb_array")
    camera.begin(data)
    assert not np.array_equal(camera.frame(data, "rgb_array"), moved)
    model.tex_data[:] = 255 - model.tex_data
    before = camera.frame(data, "rgb_array")
    env.close()
    assert not np.array_equal(camera.frame(data, "rgb_array"), before)


@pytest.mark.slow
def test_the_last_camera_that_closes_frees_what_all_share_and_a_next_one_draws(drawn):
    gc.collect()  # cameras that other tests have forgotten
    first, last = drawn(), drawn()
    frame = first.render()
    last.render()
    thread = drawing_thread()
    first.close()
    assert len(thread._buffers) == 1
    last.close()
    assert (thread._drawings, thread._buffers) == (set(), {})
    assert np.array_equal(first.render(), frame)


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


@pytest.mark.slow
def test_without_shadows_only_colours_differ(drawn):
    (frame, depth), (plain, same) = (
        drawn(shadows=on, render_mode="rgbd_tuple").render() for on in (True, False)
    )
    assert np.array_equal(depth, same)
    differ = (frame != plain).any(axis=2)
    assert differ.any()
    assert not differ.all()


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


def test_human_rendering_takes_the_frames(monkeypatch):
    pytest.importorskip("cv2")
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.warns(UserWarning, match="HumanRendering wrapper is being applied"):
        human = gymnasium.make(ID, render_mode="human", **MADE)
    seen = gymnasium.make(ID, render_mode="rgb_array", **MADE)
    for env in (human, seen):
        env.reset(seed=0, options={"task_state": 0})
    displayed = pygame.surfarray.array3d(human.window).swapaxes(0, 1)
    assert np.array_equal(displayed, seen.render())
    human.close()
