"""Scenes that vary between episodes: what is seen differs, and nothing else."""

import colorsys
import copy
import hashlib
import io
import math
import os
import pickle
import signal

import gymnasium
import mujoco
import numpy as np
import pytest
from PIL import Image

from mtwrappers import MetaWorldSetTaskEnv, evaluate, load_checkpoint, save_checkpoint, verify
from mtwrappers.metaworld import camera_parameters, opengl
from mtwrappers.metaworld.benchmarks import class_names
from mtwrappers.metaworld.fast.equality import integration_state
from mtwrappers.metaworld.fast.watch import names
from mtwrappers.metaworld.variation import RANGES, WORDS
from mtwrappers.metaworld.varied_scene import VariedScene, patterns, surfaces, varied_colour
from tests.fakes import equal
from tests.metaworld.fakes import actions, episode, make, make_vec

EVERYTHING = ",".join(WORDS)
TEN = class_names("MT10", "train")
LOOK = {"width": 16, "height": 12, "shadows": False}
SEEN = {"observation": "pixels_state", **LOOK}
SMALL = {"num_goals": 2, "max_episode_steps": 3}
VECTOR = {"train_classes": TEN[:2], "record_episode_statistics": False, **SMALL}
VARIED = {**SEEN, "variation": EVERYTHING}


@pytest.fixture(scope="module", autouse=True)
def _gl():
    name = opengl.choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUJOCO_GL", name)
        yield


def one(env_name="button-press-v3", **kwargs):
    return make("MT1", env_name=env_name, **{**SMALL, **VARIED, **kwargs})


def drawn(env):
    return env.get_wrapper_attr("variation_parameters")


def sawyer(env):
    return env.unwrapped._env.sawyer


# Nothing but what is seen.


def trajectory(env, frames):
    """All that episodes come to: two from a seed, three that go on from there."""
    found = []
    for n, seed in enumerate((3, None, None, 11, None)):
        obs, info = env.reset(seed=seed)
        state = obs["environment_state"] if frames else obs
        own = [env.unwrapped.get_task_state(), env.unwrapped.rand_vec.tobytes()]
        found.append((state.tobytes(), info, own, integration_state(sawyer(env))))
        for action in actions(3, seed=n):
            obs, reward, terminated, truncated, info = env.step(action)
            state = obs["environment_state"] if frames else obs
            numbers = state.tobytes(), reward, terminated, truncated, info
            found.append((numbers, integration_state(sawyer(env))))
    return found


@pytest.mark.parametrize("name", TEN)
@pytest.mark.slow_but("button-press-topdown-v3")
def test_states_rewards_infos_and_tasks_are_bit_for_bit_those_without_variation(name):
    kwargs = {"env_name": name, "num_goals": 3, "max_episode_steps": 3, "task_encoding": "none"}
    varied, still = make("MT1", **kwargs, **VARIED), make("MT1", **kwargs)
    assert trajectory(varied, True) == trajectory(still, False)
    streams = varied.unwrapped.get_state()
    del streams["variation_stream"]
    assert streams == still.unwrapped.get_state()
    model, other = sawyer(varied).model, sawyer(still).model
    arrays = [key for key in names(model) if isinstance(getattr(model, key), np.ndarray)]
    assert len(arrays) > 300
    for key in arrays:
        assert np.array_equal(getattr(model, key), getattr(other, key), equal_nan=True), key
    varied.close()
    still.close()


def test_one_environment_leaves_another_of_its_class_as_it_is():
    still = one(variation=None)
    expected = [still.reset(seed=0)[0]["pixels"], still.step(np.zeros(4, np.float32))[0]["pixels"]]
    varied = one()
    other = one(variation="table")
    for _ in range(2):
        assert not np.array_equal(varied.reset(seed=0)[0]["pixels"], expected[0])
        assert not np.array_equal(other.reset(seed=0)[0]["pixels"], expected[0])
        found = [still.reset(seed=0)[0]["pixels"], still.step(np.zeros(4, np.float32))[0]["pixels"]]
        assert equal(found, expected)
    assert drawn(still) is None
    varied.close()
    other.close()
    fresh = one(variation=None)
    assert np.array_equal(fresh.reset(seed=0)[0]["pixels"], expected[0])
    for env in (still, fresh):
        env.close()


@pytest.mark.parametrize("word", WORDS)
def test_every_word_changes_frames(word):
    env, still = one(variation=word), one(variation=None)
    frames = [env.reset(seed=seed)[0]["pixels"] for seed in range(2)]
    assert not np.array_equal(*frames)
    assert not np.array_equal(frames[0], still.reset(seed=0)[0]["pixels"])
    assert list(drawn(env)) == [word]
    env.close()
    still.close()


def test_an_episode_looks_the_same_from_its_first_step_to_its_last():
    env = one()
    env.reset(seed=0)
    first = drawn(env)
    env.step(np.zeros(4, np.float32))
    assert drawn(env) == first
    first["light"].clear()  # a copy
    assert drawn(env)["light"]
    env.close()


# The seed.


def test_a_seed_determines_how_episodes_look_and_those_without_one_go_on():
    env, other = one(), one()
    found = [(env.reset(seed=s)[0]["pixels"].tobytes(), drawn(env)) for s in (5, None, None)]
    assert len({frame for frame, _ in found}) == 3
    again = [(other.reset(seed=s)[0]["pixels"].tobytes(), drawn(other)) for s in (9, 5, None)][1:]
    assert again == found[:2]
    state = other.unwrapped.get_state()
    fresh = one()
    fresh.unwrapped.set_state(state)
    assert (fresh.reset()[0]["pixels"].tobytes(), drawn(fresh)) == found[2]
    copied = pickle.loads(pickle.dumps(other.unwrapped))
    copied.reset()
    assert copied.variation_parameters == found[2][1]
    for each in (env, other, fresh, copied):
        each.close()


def test_a_state_is_for_environments_that_vary_alike():
    env, still = one(), one(variation=None)
    for a, b, expected in ((env, still, "without"), (still, env, "with")):
        with pytest.raises(ValueError, match=f"environment {expected} variation"):
            b.unwrapped.set_state(a.unwrapped.get_state())
    env.close()
    still.close()


def test_an_evaluation_in_between_leaves_the_stream_of_training_alone():
    looks = []
    for evaluates in (False, True):
        env = one(variation="camera")
        env.reset(seed=1)
        if evaluates:
            env.unwrapped.keeps_selection = True
            env.reset(seed=77)
            env.reset()  # the next episode of the evaluation
            env.unwrapped.keeps_selection = False
        env.reset()
        looks.append(drawn(env))
        env.close()
    assert looks[0] == looks[1]


def test_a_set_task_env_varies_too():
    kwargs = {"env_name": "reach-v3", "num_goals": 1, "render_mode": "rgb_array", **LOOK}
    env = MetaWorldSetTaskEnv("MT1", **kwargs, camera_name="corner2", variation="camera,light")
    with pytest.raises(gymnasium.error.ResetNeeded, match="before variation_parameters"):
        _ = env.variation_parameters
    env.reset(seed=4)
    first, frame = env.variation_parameters, env.render()
    assert list(first) == ["light", "camera"]
    assert list(first["camera"]) == ["corner2"]
    env.reset()
    assert env.variation_parameters != first
    state = env.get_state()
    env.reset()
    second = env.variation_parameters
    env.reset(seed=4)
    assert env.variation_parameters == first
    assert np.array_equal(env.render(), frame)
    env.set_state(state)
    env.reset()
    assert env.variation_parameters == second
    still = MetaWorldSetTaskEnv("MT1", **kwargs)
    with pytest.raises(ValueError, match="environment without variation"):
        still.set_state(state)
    still.close()
    env.close()


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("CW10", {}),
        ("MT10", {"num_goals": 1}),
        ("ML1-train", {"env_name": "reach-v3", "num_goals": 2}),
        ("MT1", {"goals": "continuous"}),
        ("MT1", {"action_repeat": 2, "idle_steps": 2}),
    ],
)
@pytest.mark.slow_but("CW10")
def test_every_id_varies(name, kwargs):
    def looks(env, *seeds):
        found = []
        for seed in seeds:
            env.reset(seed=seed)
            found.append((env.render().tobytes(), drawn(env)))
        return found

    kwargs = {"render_mode": "rgb_array", "variation": "light,table", **LOOK, **kwargs}
    env = make(name, **kwargs)
    other = gymnasium.make(env.spec)
    first, second, again = looks(env, 1, None, 1)
    assert list(first[1]) == ["light", "table"]
    assert first == again
    assert looks(other, 1, None) == [first, second]
    assert first[0] != second[0]
    assert first[1] != second[1]
    env.close()
    other.close()


# Many environments.


@pytest.mark.slow
def test_frames_are_equal_for_any_number_of_workers():
    results = []
    for workers in (None, 1, 2):
        with make_vec("CustomMT", workers=workers, **VECTOR, **VARIED) as envs:
            results.append(episode(envs, 5, seed=5))
            looks = envs.get_attr("variation_parameters")
            assert looks[0] != looks[1]
    assert all(equal(result, results[0]) for result in results)


@pytest.mark.slow
def test_a_killed_worker_and_a_checkpoint_in_mid_episode_change_no_frame(tmp_path):
    kwargs = {**VECTOR, **VARIED, "journal": True}
    killed = {**kwargs, "workers": 2, "on_worker_failure": "recover"}
    with make_vec("CustomMT", **killed) as envs:
        expected = episode(envs, 9, seed=5)
    acts = np.tile(actions(9), (2, 1, 1))
    with make_vec("CustomMT", **killed) as envs:
        found = [envs.reset(seed=5), *(envs.step(acts[:, t]) for t in range(5))]  # two resets
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        with pytest.warns(UserWarning, match="SIGKILL"):
            found.append(envs.step(acts[:, 5]))
        save_checkpoint(tmp_path / "c", envs=envs)
    with make_vec("CustomMT", **kwargs) as envs:
        load_checkpoint(tmp_path / "c", envs=envs)
        found += [envs.step(acts[:, t]) for t in range(6, 9)]
    assert equal(found, expected)


def by_sight(obs):
    """Acts on what it sees: another frame is another action."""
    pixels = obs["pixels"].astype(np.int64)
    return (pixels.sum(axis=(1, 2, 3))[:, None] * [7, 11, 13, 17] % 201 - 100) / 100


@pytest.mark.slow
def test_evaluations_agree_for_any_number_of_workers_and_replay_without_frames(tmp_path):
    results = []
    kwargs = {"env_name": "reach-v3", "envs_per_task": 2, **SMALL, **SEEN}
    for k, (variation, workers) in enumerate(((EVERYTHING, None), (EVERYTHING, 2), (None, None))):
        with make_vec("MT1", workers=workers, variation=variation, **kwargs) as envs:
            result = evaluate(by_sight, envs, 2, seed=0, evidence=tmp_path / f"{k}.npz")
        result.save(tmp_path / f"{k}.json")
        assert verify(tmp_path / f"{k}.json").same == {"reach-v3": 2}
        results.append([episode.episode_return for episode in result.episodes])
    first, second, still = results
    assert first == second
    assert first != still


# What may be changed, and how far.


def test_the_robot_and_the_goal_stay_and_so_does_how_transparent_things_are():
    env = one("window-open-v3")
    env.reset(seed=0)
    camera = env.unwrapped._env._camera
    varied = [(g.objtype, g.objid, g.rgba.tolist(), g.matid) for g in geoms(camera._scene)]
    update(camera)
    before = [(g.objtype, g.objid, g.rgba.tolist(), g.matid) for g in geoms(camera._scene)]
    model = sawyer(env).model
    may = surfaces(model)
    changed = set()
    for was, now in zip(before, varied, strict=True):
        assert was[:2] == now[:2]
        assert was[2][3] == now[2][3]
        if was != now:
            changed.add(was[:2])
    geom = int(mujoco.mjtObj.mjOBJ_GEOM)
    assert changed == {was[:2] for was in before if was[0] == geom and was[1] in may}
    assert {may[k][1] for _, k in changed} == {
        *("basic_floor", "table_wood", "wall_metal"),
        *("window_glass", "window_red", "window_white"),
    }
    env.close()


MODEL = """
<mujoco>
  <asset>
    <texture name="grey" type="2d" file="grey.png" nchannel="1"/>
    <texture name="red" type="2d" builtin="flat" rgb1="1 .2 0" width="8" height="8"/>
    <material name="dull" texture="grey"/>
    <material name="bright" texture="red"/>
  </asset>
  <worldbody>
    <light pos="0 0 3" active="false"/>
    <light pos="1 0 3" diffuse=".5 .5 .5"/>
    <geom size=".1" material="dull"/>
    <body><geom size=".1" material="bright" pos="1 0 0"/></body>
  </worldbody>
</mujoco>
"""


def test_a_light_goes_by_its_number_in_the_model_and_a_grey_texture_has_a_mean():
    with io.BytesIO() as file:
        Image.new("L", (8, 8), 102).save(file, "png")
        model = mujoco.MjModel.from_xml_string(MODEL, {"grey.png": file.getvalue()})
    assert model.tex_nchannel.tolist() == [1, 3]
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    varied = VariedScene(model, "light,table,objects", ["free"])
    assert varied._means == {0: [0.4, 0.4, 0.4], 1: [1.0, 0.2, 0.0]}
    scene = mujoco.MjvScene(model, 10)
    painted = set()
    for number in range(20):
        varied.begin(number)
        mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, mujoco.MjvCamera(), 7, scene)
        varied.apply(scene, "free", 100)
        painted |= {geom.matid for geom in scene.geoms[: scene.ngeom]}
        assert list(varied.parameters["light"]) == ["headlight", "light 1"]
        look = varied.parameters["light"]["light 1"]
        [light] = [one for one in scene.lights[: scene.nlight] if not one.headlight]
        expected = np.minimum(0.5 * look["diffuse"] * np.array(look["colour"]), 1)
        np.testing.assert_allclose(light.diffuse, expected, rtol=1e-6)
    assert {0, 1} < painted
    assert max(painted) >= 100


def geoms(scene):
    return scene.geoms[: scene.ngeom]


def update(camera):
    seen_by = camera._views[0].camera
    mujoco.mjv_updateScene(
        camera._model, camera._data, camera._options, None, seen_by, 7, camera._scene
    )


@pytest.mark.slow
def test_every_class_has_a_table_and_most_have_objects():
    words = {}
    for name in class_names("MT50", "train"):
        env = gymnasium.make("mtwrappers/MT1-v0", env_name=name, num_goals=1)
        env.reset()
        words[name] = surfaces(sawyer(env).model)
        env.close()
    assert all({"table", "objects"} == {word for word, _ in own.values()} for own in words.values())
    table = {
        material for own in words.values() for word, material in own.values() if word == "table"
    }
    assert table == {"basic_floor", "table_wood", "wall_metal"}


@pytest.mark.parametrize("word", ["table", "objects"])
def test_a_colour_stays_recognisable(word):
    ranges = RANGES[word]
    bounds = {name: (ranges[name].low, ranges[name].high) for name in ("hue", "saturation")}
    bounds["brightness"] = ranges["brightness"].low, ranges["brightness"].high
    tints = ranges["tint"].low, ranges["tint"].high
    colours = [(0.6, 0, 0), (0.7, 0.5, 0), (0, 0.5, 0), (0, 0, 0.8), (0, 0.4, 0.6)]
    for colour in colours:
        hue, _, value = colorsys.rgb_to_hsv(*colour)
        for k in range(2**6):
            bits = [k >> i & 1 for i in range(6)]
            look = {name: bounds[name][bit] for name, bit in zip(bounds, bits, strict=False)}
            look["tint"] = [tints[bit] for bit in bits[3:]]
            found = varied_colour(colour, look)
            turned, saturation, bright = colorsys.rgb_to_hsv(*found)
            apart = abs((turned - hue + 0.5) % 1 - 0.5) * 360
            assert apart < (42 if word == "table" else 26)
            assert saturation > (0.45 if word == "table" else 0.6)
            assert bright > (0.5 if word == "table" else 0.6) * value


def test_a_white_surface_is_tinted_and_a_black_one_stays_dark():
    look = {"hue": 12, "saturation": 1, "brightness": 1.2, "tint": [0.9, 1, 0.8]}
    assert varied_colour([1, 1, 1], look) == [1.0, 1.0, pytest.approx(0.96)]
    assert max(varied_colour([0.15, 0.15, 0.15], look)) == pytest.approx(0.18)
    assert varied_colour([0.5, 0, 0], {**look, "hue": 0, "brightness": 1}) == [0.45, 0, 0]


def test_patterns_are_the_same_on_every_machine():
    images = patterns()
    assert len(images) == 9
    assert {(image.shape, image.dtype.name) for image in images} == {((64, 64), "uint8")}
    assert all(150 <= image.min() < image.max() <= 255 for image in images)
    assert (
        hashlib.sha256(b"".join(image.tobytes() for image in images)).hexdigest()[:16]
        == "1336cae140707315"
    )


@pytest.mark.parametrize("camera", ["corner4", "gripperPOV"])
def test_a_moved_camera_is_where_its_parameters_say(camera):
    """A camera of one's own at that place has the same frame."""
    look = {"width": 48, "height": 36, "upright": False}
    env = one(camera_name=camera, variation="camera", **look)
    frame = env.reset(seed=2)[0]["pixels"]
    moved = drawn(env)["camera"][camera]
    model, data = sawyer(env).model, copy.copy(sawyer(env).data)
    mujoco.mj_forward(model, data)
    k = model.camera(camera).id
    axes = turned = data.cam_xmat[k].reshape(3, 3)
    for axis, degrees in zip(axes.T, moved["rotation"], strict=True):
        turn, matrix = np.empty(4), np.empty(9)
        mujoco.mju_axisAngle2Quat(turn, axis, math.radians(degrees))
        mujoco.mju_quat2Mat(matrix, turn)
        turned = matrix.reshape(3, 3) @ turned
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, turned.ravel())
    pos = data.cam_xpos[k] + axes @ moved["offset"]
    fovy = float(model.cam_fovy[k] * moved["field_of_view"])
    mine = {"mine": {"pos": pos.tolist(), "quat": quat.tolist(), "fovy": fovy}}
    other = one(camera_name="mine", cameras=mine, variation=None, **look)
    apart = abs(frame.astype(int) - other.reset(seed=2)[0]["pixels"])
    assert (apart > 8).mean() < 0.01  # a scene's camera has numbers of 32 bits
    still = one(camera_name=camera, variation=None, **look)
    apart = abs(frame.astype(int) - still.reset(seed=2)[0]["pixels"])
    assert (apart > 8).mean() > 0.05
    [parameters] = camera_parameters(env).values()
    for name, expected in camera_parameters(other)["mine"].items():
        assert np.allclose(parameters[name], expected, atol=1e-6)
    for each in (env, other, still):
        each.close()


def test_several_cameras_vary_each_by_itself_and_distances_with_them():
    look = {"camera_name": ("corner4", "gripperPOV"), "depth": True, "observation": "pixels"}
    env, alone = one(**look), one(variation="camera")
    obs, _ = env.reset(seed=0)
    alone.reset(seed=0)
    assert list(drawn(env)["camera"]) == ["corner4", "gripperPOV"]
    assert drawn(env)["camera"]["corner4"] == drawn(alone)["camera"]["corner4"]
    again, _ = env.reset(seed=0)
    assert equal(again, obs)
    other, _ = env.reset(seed=1)
    for camera in ("corner4", "gripperPOV"):
        assert not np.array_equal(other["pixels"][camera], obs["pixels"][camera])
        assert not np.array_equal(other["depth"][camera], obs["depth"][camera])
    env.close()
    alone.close()


# What is refused.


def test_without_frames_a_variation_is_refused():
    for make_it in (make, lambda *args, **rest: make_vec(*args, **rest).close()):
        with pytest.raises(ValueError, match=r"variation='light' only changes frames: .*=None$"):
            make_it("MT1", num_goals=1, variation="light")
    env = make("MT1", num_goals=1, variation="light", render_mode="rgb_array", **LOOK)
    frames = []
    for seed in range(2):
        obs, _ = env.reset(seed=seed)
        assert obs.shape == (39,)
        frames.append(env.render())
    assert not np.array_equal(*frames)
    env.close()


def test_the_canonical_form_is_what_an_environment_is_made_with():
    env = one(variation="table,light,table")
    assert env.unwrapped.pool.settings.variation == "light,table"
    env.close()
