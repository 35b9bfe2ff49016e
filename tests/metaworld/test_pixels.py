"""Frames and depth as observations, of one camera or several; all else is as with states."""

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from tests.fakes import check_env_warnings, equal
from tests.metaworld.fakes import PARALLEL, actions, bare, episode, make, make_vec

pytestmark = pytest.mark.usefixtures("opengl")
# Shadows take most of the time.
LOOK = {"width": 32, "height": 24, "shadows": False}
BOTH = {"observation": "pixels", "depth": True, "camera_name": ["corner", "gripperPOV"], **LOOK}
SEEN = {"observation": "pixels_state", **LOOK}
SMALL = {"num_goals": 1, "max_episode_steps": 3, "record_episode_statistics": False}
FRAME, DEPTH = (24, 32, 3), (24, 32)


def shapes_of(obs):
    if isinstance(obs, dict):
        return {key: shapes_of(part) for key, part in obs.items()}
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
        ("MT1", {"observation": "pixels", "depth": True}, {"depth": DEPTH, "pixels": FRAME}),
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
def test_an_observation_has_the_images_and_what_was_asked_for_beside_them(name, look, shapes):
    env = make(name, **{**LOOK, **look})
    assert env.render_mode == "rgb_array"
    obs, _ = env.reset(seed=3)
    assert obs in env.observation_space
    assert shapes_of(obs) == shapes
    assert first_frame(obs).dtype == np.uint8
    assert np.array_equal(first_frame(obs), env.render())
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    again = gymnasium.make(spec)
    assert equal(again.reset(seed=3)[0], obs)
    for one in (env, again):
        one.close()


def test_agent_pos_is_where_the_hand_is():
    env = make("MT1", observation="pixels_agent_pos", num_goals=1, **LOOK)
    state = make("MT1", num_goals=1)
    for one, other in zip(episode(env, seed=0), episode(state, seed=0), strict=True):
        assert one[0]["agent_pos"].tolist() == other[0][:4].tolist()
    env.close()


@pytest.mark.slow
def test_gymnasiums_checker_accepts_nested_images():
    env = make("MT1", num_goals=1, **BOTH)
    assert check_env_warnings(env, skip_render_check=True) == []
    env.close()


def test_an_image_is_the_one_that_its_camera_draws_alone():
    every = make("MT1", num_goals=1, **BOTH)
    obs, _ = every.reset(seed=0)
    for name in BOTH["camera_name"]:
        for mode, key in (("rgb_array", "pixels"), ("depth_array", "depth")):
            env = make("MT1", num_goals=1, **LOOK, render_mode=mode, camera_name=name)
            env.reset(seed=0)
            assert equal(env.render(), obs[key][name])
            env.close()
    every.close()


@pytest.mark.parametrize("free", [False, True], ids=["a camera", "the free one"])
@pytest.mark.parametrize("name", ["reach-v3", "window-close-v3"])
@pytest.mark.slow_but("reach-v3")
def test_first_and_later_frames_are_upstreams_after_mj_forward(name, free):
    look = {"width": 32, "height": 24}
    chosen = {"camera_id": -1} if free else {}  # else it is corner4
    env = make("MT1", env_name=name, observation="pixels", num_goals=1, **look, **chosen)
    upstream = bare(name, env.get_wrapper_attr("tasks")[0], render_mode="rgb_array", **look)
    if not free:
        upstream.mujoco_renderer.camera_id = upstream.model.camera("corner4").id
    observed = episode(env, 3, seed=0)
    upstream.reset()
    for step, (obs, *_) in enumerate(observed):
        if step:
            upstream.step(actions(3)[step - 1])
        mujoco.mj_forward(upstream.model, upstream.data)
        frame = upstream.render()
        assert np.array_equal(obs, frame if free else frame[::-1, ::-1])
    env.close()
    upstream.close()


def flat(obs):
    """The state and the one-hot of an observation, as ``observation="state"`` has them."""
    if not isinstance(obs, dict):
        return obs
    assert obs["pixels"].any()
    return np.concatenate([obs["environment_state"], obs["task_onehot"]], axis=-1)


def without_frames(result):
    obs, *rest, infos = result
    if "final_obs" in infos:
        last = [None if obs is None else flat(obs) for obs in infos["final_obs"]]
        infos = {**infos, "final_obs": last}
    return [flat(obs), *rest, infos]


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
@pytest.mark.slow_but("Disabled")
def test_states_rewards_flags_and_infos_are_those_of_states_alone(mode):
    kwargs = {**SMALL, "autoreset_mode": mode}
    n = 3 if mode == "Disabled" else 5
    results = []
    for seen in ({}, SEEN, *([{**SEEN, **PARALLEL}] if mode == "NextStep" else [])):
        with make_vec("CustomMT", **kwargs, **seen) as envs:
            results.append([without_frames(one) for one in episode(envs, n, seed=5)])
    assert all(equal(result, results[0]) for result in results)
