"""Frames and depth: the present state, upright, in metres; drawn by a camera, and observed."""

import contextlib

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from mtwrappers.metaworld.class_env import CAMERAS
from tests.fakes import equal
from tests.metaworld.fakes import (
    PARALLEL,
    make,
    make_bare,
    make_vec,
    random_actions,
    run_episode,
    untimed,
)

pytestmark = pytest.mark.usefixtures("opengl")
# Shadows take most of the time.
LOOK = {"width": 32, "height": 24, "shadows": False}
BOTH = {"observation": "pixels", "depth": True, "camera_name": ["corner", "gripperPOV"], **LOOK}
FRAME, DEPTH = (24, 32, 3), (24, 32)


@pytest.fixture
def make_env():
    """Makes environments of an id with few goals, after a reset; closes them."""
    with contextlib.ExitStack() as stack:

        def make_and_reset(name="MT1", **kwargs):
            kwargs = {"num_goals": 2, "render_mode": "rgb_array", **LOOK, **kwargs}
            env = stack.enter_context(contextlib.closing(make(name, **kwargs)))
            env.reset(seed=3)
            return env

        yield make_and_reset


# What is drawn.


# A reset leaves things where they were before their last move, but for reach.
NAMES = ["dial-turn-v3", "reach-v3", "window-close-v3", "door-lock-v3"]


@pytest.mark.parametrize(("name", "camera"), [*zip(NAMES * 2, [*CAMERAS, "free"], strict=True)])
@pytest.mark.slow_but("gripperPOV")
def test_first_and_later_frames_are_upstreams_after_mj_forward(make_env, name, camera):
    camera_id = -1 if camera == "free" else CAMERAS.index(camera)  # Meta-World's own argument
    env = make_env(env_name=name, observation="pixels", shadows=True, camera_id=camera_id)
    look = {"render_mode": "rgb_array", "width": 32, "height": 24}
    upstream = make_bare(name, env.get_wrapper_attr("tasks")[0], **look)
    if camera != "free":
        upstream.mujoco_renderer.camera_id = camera_id
    observed = run_episode(env, 1, options={"task_state": 0})
    upstream.reset()
    for step, (obs, *_) in enumerate(observed):
        if step:
            upstream.step(random_actions(1)[0])
        mujoco.mj_forward(upstream.model, upstream.data)
        frame = upstream.render()
        # Meta-World's corners hang upside down.
        assert np.array_equal(obs, frame[::-1, ::-1] if camera.startswith("corner") else frame)
        assert obs.flags.c_contiguous
    upstream.close()


def test_depth_is_in_metres_as_rays_measure_it(make_env):
    env = make_env(env_name="door-open-v3", render_mode="depth_array", camera_name="corner3")
    depth = env.render()
    assert depth.shape == DEPTH
    assert depth.dtype == np.float32
    sawyer = env.unwrapped._env.sawyer
    model, data = sawyer.model, sawyer.data
    mujoco.mj_forward(model, data)
    camera = model.camera("corner3").id
    eye, axes = data.cam_xpos[camera], data.cam_xmat[camera].reshape(3, 3)
    per_pixel = 2 * np.tan(np.radians(model.cam_fovy[camera]) / 2) / 24
    errors = []
    for row, column in np.ndindex(DEPTH):
        # Turned upright: the first pixel is that at the lower right of the camera's own frame.
        right, up = (15.5 - column) * per_pixel, (row - 11.5) * per_pixel
        ray = axes @ [right, up, -1.0]
        # Its length is 1 along the viewing direction, so the multiple of it is the depth.
        distance = mujoco.mj_ray(model, data, eye, ray, None, 1, -1, np.zeros(1, np.int32))
        errors.append(abs(distance - depth[row, column]))
    assert np.quantile(errors, 0.9) < 0.0005  # edges and the insides of meshes differ
    assert 0.8 < depth.min() < depth.max() < 5.0


@pytest.mark.parametrize(
    "change",
    [
        lambda sawyer: sawyer.data.qpos.__setitem__(9, 0.1),
        lambda sawyer: np.multiply(sawyer.model.geom_rgba, 0.5, out=sawyer.model.geom_rgba),
        lambda sawyer: np.add(sawyer.model.site_pos, 0.1, out=sawyer.model.site_pos),
        lambda sawyer: np.add(sawyer.model.cam_pos, 0.1, out=sawyer.model.cam_pos),
        lambda sawyer: setattr(sawyer.model.vis.headlight, "ambient", [1, 0, 0]),
        lambda sawyer: setattr(sawyer.model.stat, "extent", 0.1),
    ],
    ids=["object", "colours", "goal", "camera", "light", "clipping"],
)
@pytest.mark.slow_but("object", "light", "goal")
def test_whatever_is_edited_is_seen(make_env, change):
    env = make_env(camera_name="corner2")
    frame = env.render()
    change(env.unwrapped._env.sawyer)
    edited = env.render()
    assert not np.array_equal(edited, frame)
    assert np.array_equal(env.render(), edited)


def test_a_goal_that_a_reset_moves_is_seen_though_nothing_else_moves(make_env):
    env, frames = make_env(camera_name="corner2"), []
    for task_state in (0, 1, 0):
        env.reset(seed=0, options={"task_state": task_state})
        frames.append(env.render())
    assert np.array_equal(frames[0], frames[2])
    assert not np.array_equal(frames[0], frames[1])


# What is observed.


def find_shapes(obs):
    if isinstance(obs, dict):
        return {key: find_shapes(element) for key, element in obs.items()}
    return obs.shape


def first_frame(obs):
    while isinstance(obs, dict):
        obs = obs.get("pixels", next(iter(obs.values())))
    return obs


@pytest.mark.parametrize(
    ("name", "look", "shapes"),
    [
        ("CustomMT", {"observation": "pixels"}, {"pixels": FRAME, "task_onehot": (2,)}),
        ("MT1", {"observation": "pixels_state"}, {"pixels": FRAME, "environment_state": (39,)}),
        ("CustomML-train", {"observation": "pixels"}, FRAME),
        (
            "CW10",
            {"observation": "pixels_agent_pos"},
            {"pixels": FRAME, "agent_pos": (4,), "task_onehot": (10,)},
        ),
        ("MT1", {"observation": "pixels", "camera_name": ["corner"]}, {"corner": FRAME}),
        (
            "MT1",
            BOTH,
            {
                "depth": {"corner": DEPTH, "gripperPOV": DEPTH},
                "pixels": {"corner": FRAME, "gripperPOV": FRAME},
            },
        ),
    ],
)
@pytest.mark.slow_but("look1", "look4", "look6")
def test_an_observation_has_the_images_and_what_was_asked_for_beside_them(
    make_env, name, look, shapes
):
    env = make_env(name, **look, **({"num_goals": 50} if name == "CW10" else {}))
    assert env.render_mode == "rgb_array"
    obs, _ = env.reset(seed=3)
    assert obs in env.observation_space
    assert find_shapes(obs) == shapes
    assert first_frame(obs).dtype == np.uint8
    assert np.array_equal(first_frame(obs), env.render())
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    with contextlib.closing(gymnasium.make(spec)) as restored:
        assert equal(restored.reset(seed=3)[0], obs)


def test_an_interrupted_depth_image_does_not_change_later_frames(make_env, monkeypatch):
    env = make_env(render_mode="rgbd_tuple", camera_name="corner")
    colours, depth = env.render()
    read_pixels = mujoco.mjr_readPixels

    def interrupt(image, *args):
        if image is None:  # depth
            raise KeyboardInterrupt
        read_pixels(image, *args)

    with monkeypatch.context() as patch:
        patch.setattr(mujoco, "mjr_readPixels", interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.render()
    later_colours, later_depth = env.render()
    assert np.array_equal(later_colours, colours)
    assert np.array_equal(later_depth, depth)


def test_an_image_is_the_one_that_its_camera_draws_alone(make_env):
    obs, _ = make_env(**BOTH).reset(seed=0)
    for name in BOTH["camera_name"]:
        for mode, key in (("rgb_array", "pixels"), ("depth_array", "depth")):
            env = make_env(render_mode=mode, camera_name=name)
            env.reset(seed=0)
            assert equal(env.render(), obs[key][name])


def test_agent_pos_is_where_the_hand_is(make_env):
    pixel_env, state_env = make_env(observation="pixels_agent_pos"), make("MT1", num_goals=2)
    for pixel_result, state_result in zip(
        run_episode(pixel_env, seed=0), run_episode(state_env, seed=0), strict=True
    ):
        assert pixel_result[0]["agent_pos"].tolist() == state_result[0][:4].tolist()


def flatten_obs(obs):
    """The state and the one-hot of an observation, as ``observation="state"`` has them."""
    if not isinstance(obs, dict):
        return obs
    assert obs["pixels"].any()
    return np.concatenate([obs["environment_state"], obs["task_onehot"]], axis=-1)


def remove_frames(result):
    obs, *reward_and_flags, infos = result
    if "final_obs" in infos:
        last = [None if obs is None else flatten_obs(obs) for obs in infos["final_obs"]]
        infos = {**infos, "final_obs": last}
    return [flatten_obs(obs), *reward_and_flags, infos]


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
@pytest.mark.slow_but("Disabled")
def test_states_rewards_flags_and_infos_are_those_of_states_alone(mode):
    kwargs = {"num_goals": 1, "max_episode_steps": 3}
    pixels_state = {"observation": "pixels_state", **LOOK}
    settings = [{}, pixels_state]
    if mode == "NextStep":
        settings.append({**pixels_state, **PARALLEL})
    n = 3 if mode == "Disabled" else 5
    results = []
    for observation in settings:
        with make_vec("CustomMT", **kwargs, **observation, autoreset_mode=mode) as envs:
            episode = untimed(run_episode(envs, n, seed=5))
        results.append([remove_frames(result) for result in episode])
    assert all(equal(result, results[0]) for result in results)
