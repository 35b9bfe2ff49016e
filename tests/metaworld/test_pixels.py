"""Frames as observations: beside them, everything is as with states."""

import os
import signal

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box

from mtwrappers import VectorNormalizeRewardPerTask, load_checkpoint, save_checkpoint
from mtwrappers.metaworld.agent_view import PixelObservation
from mtwrappers.metaworld.frames import choose_gl
from tests.fakes import check_env_warnings, equal
from tests.metaworld.fakes import PARALLEL, actions, bare, episode, make, make_vec

LOOK = {"width": 32, "height": 24}
SMALL = {"num_goals": 1, "max_episode_steps": 3, "record_episode_statistics": False}
# Shadows take most of the time.
SEEN = {"observation": "pixels_state", "shadows": False, **LOOK}


@pytest.fixture(scope="module", autouse=True)
def _gl():
    name = choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUJOCO_GL", name)
        yield


def flat(obs):
    """The state and the one-hot of an observation, as ``observation="state"`` has them."""
    if not isinstance(obs, dict):
        return obs
    assert obs["pixels"].dtype == np.uint8
    assert obs["pixels"].any()
    return np.concatenate([obs["environment_state"], obs["task_onehot"]], axis=-1)


def without_frames(result):
    obs, *rest, infos = result
    if "final_obs" in infos:
        last = [None if obs is None else flat(obs) for obs in infos["final_obs"]]
        infos = {**infos, "final_obs": last}
    return [flat(obs), *rest, infos]


# What is observed.


@pytest.mark.parametrize(
    ("name", "observation", "shapes"),
    [
        ("CustomMT", "pixels", {"pixels": (24, 32, 3), "task_onehot": (2,)}),
        ("MT1", "pixels_state", {"pixels": (24, 32, 3), "environment_state": (39,)}),
        ("CustomML-train", "pixels", (24, 32, 3)),
        (
            "CW10",
            "pixels_agent_pos",
            {"pixels": (24, 32, 3), "agent_pos": (4,), "task_onehot": (10,)},
        ),
    ],
)
@pytest.mark.slow_but("MT1-pixels_state")
def test_an_observation_has_a_frame_and_what_was_asked_for_beside_it(name, observation, shapes):
    goals = {} if name == "CW10" else {"num_goals": 2}
    env = make(name, observation=observation, **goals, **LOOK)
    assert env.render_mode == "rgb_array"
    obs, _ = env.reset(seed=3)
    frame = env.render()
    if isinstance(shapes, dict):
        assert {key: part.shape for key, part in obs.items()} == shapes
        assert {part.dtype.name for part in obs.values()} == {"uint8", "float64"}
        assert np.array_equal(obs["pixels"], frame)
    else:
        assert env.observation_space == Box(0, 255, shapes, np.uint8)
        assert np.array_equal(obs, frame)
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    again = gymnasium.make(spec)
    assert equal(again.reset(seed=3)[0], obs)
    for one in (env, again):
        one.close()


@pytest.mark.slow
def test_agent_pos_is_where_the_hand_is():
    env = make("MT1", observation="pixels_agent_pos", num_goals=1, **LOOK)
    assert check_env_warnings(env, skip_render_check=True) == []
    state = make("MT1", num_goals=1)
    for one, other in zip(episode(env, seed=0), episode(state, seed=0), strict=True):
        assert one[0]["agent_pos"].tolist() == other[0][:4].tolist()
    env.close()


@pytest.mark.parametrize("name", ["reach-v3", "window-close-v3"])
@pytest.mark.slow_but("reach-v3")
def test_first_and_later_frames_are_upstreams_after_mj_forward(name):
    env = make("MT1", env_name=name, observation="pixels", num_goals=1, **LOOK)
    upstream = bare(name, env.get_wrapper_attr("tasks")[0], render_mode="rgb_array", **LOOK)
    upstream.mujoco_renderer.camera_id = upstream.model.camera("corner4").id
    observed = episode(env, 3, seed=0)
    upstream.reset()
    frames = []
    for step in range(4):
        if step:
            upstream.step(actions(3)[step - 1])
        mujoco.mj_forward(upstream.model, upstream.data)
        frames.append(upstream.render()[::-1, ::-1])
    for (obs, *_), frame in zip(observed, frames, strict=True):
        assert np.array_equal(obs, frame)
    env.close()
    upstream.close()


# Beside it, nothing changes.


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


@pytest.mark.slow
def test_a_killed_worker_and_a_checkpoint_in_mid_episode_change_neither_states_nor_frames(tmp_path):
    kwargs = {**SMALL, **SEEN, "workers": 2, "on_worker_failure": "recover", "journal": True}
    with make_vec("CustomMT", **kwargs) as envs:
        expected = episode(envs, 5, seed=5)
    acts = np.tile(actions(5), (2, 1, 1))
    with make_vec("CustomMT", **kwargs) as envs:
        found = [envs.reset(seed=5), envs.step(acts[:, 0])]
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        with pytest.warns(UserWarning, match="SIGKILL"):
            found.append(envs.step(acts[:, 1]))
        save_checkpoint(tmp_path / "c", envs=envs)
    with make_vec("CustomMT", **SMALL, **SEEN, journal=True) as envs:
        load_checkpoint(tmp_path / "c", envs=envs)
        found += [envs.step(acts[:, t]) for t in range(2, 5)]
    assert equal(found, expected)


@pytest.mark.slow
def test_rewards_are_scaled_per_task_as_with_states():
    results = []
    for look in ({}, {**SEEN, "observation": "pixels"}):
        kwargs = {**SMALL, **look, "reward_normalization_method": "gymnasium"}
        with make_vec("CustomMT", **kwargs) as envs:
            wrapped = VectorNormalizeRewardPerTask(envs)
            scaled = episode(wrapped, 5, seed=5)[1:]
            results.append([(one[1], one[-1]["raw_reward"]) for one in scaled])
    assert equal(results[1], results[0])


# What is refused.


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"observation": "pixel"}, "observation must be 'state', 'pixels', .* got 'pixel'"),
        ({"task_encoding": "dict"}, "'pixels' cannot be combined with task_encoding='dict'"),
        (
            {"recurrent_info_in_obs": True, "normalize_observations": True},
            "with recurrent_info_in_obs=True and normalize_observations=True",
        ),
        ({"render_mode": "depth_array"}, "needs render_mode='rgb_array', got 'depth_array'"),
    ],
)
def test_what_does_not_go_with_frames_is_refused_by_name(kwargs, message):
    for make_it in (make, lambda *args, **rest: make_vec(*args, **rest).close()):
        with pytest.raises(ValueError, match=message):
            make_it("CustomMT", **{"observation": "pixels", **kwargs})


def test_frames_of_other_environments_are_gymnasiums_to_observe():
    message = "on Meta-World, such as .*, got <.*Pendulum.*gymnasium.wrappers.AddRenderObservation"
    with pytest.raises(TypeError, match=message):
        PixelObservation(gymnasium.make("Pendulum-v1", render_mode="rgb_array"), "pixels")


@pytest.mark.slow
def test_the_camera_is_corner4_unless_another_is_asked_for():
    first_of = {}
    for look in ({}, {"camera_name": "corner4"}, {"camera_name": "corner2"}, {"camera_id": -1}):
        env = make("MT1", observation="pixels", num_goals=1, **look, **LOOK)
        first_of[str(look)] = env.reset(seed=0)[0].tobytes()
        env.close()
    first, corner4, *others = first_of.values()
    assert first == corner4
    assert len({first, *others}) == 3


def test_states_alone_have_no_wrapper_and_no_camera():
    env = make("MT1", num_goals=1)
    env.reset(seed=0)
    assert env.render_mode is None
    assert "PixelObservation" not in str(env)
    assert env.unwrapped._env._camera is None
