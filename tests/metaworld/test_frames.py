"""Frames beside other frames: equal to Meta-World's own, whatever else is drawn or closed.

Each in a process of its own, with EGL and with OSMesa.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from mtwrappers.metaworld import frames as drawing
from mtwrappers.metaworld import make_benchmark
from tests.fakes import ROOT

# The second is drawn before its last move by Meta-World.
PAIR = ["reach-v3", "window-close-v3"]
LOOK = {"render_mode": "rgb_array", "camera_name": "corner2", "width": 64, "height": 48}

PRELUDE = f"""
import gc, multiprocessing, os, sys, threading, time, warnings
import gymnasium, mujoco, numpy as np
import mtwrappers, tests.models
from mtwrappers.metaworld import make_benchmark
from metaworld import ALL_V3_ENVIRONMENTS as CLASSES
ID, PAIR, LOOK = "mtwrappers/CustomMT-v0", {PAIR!r}, {LOOK!r}
MADE = dict(train_classes=PAIR, num_goals=1, **LOOK)
multiprocessing.set_forkserver_preload(["metaworld", "gymnasium.vector"])
saved = {{}}
from mtwrappers.metaworld.frames import Camera
Camera._drawn = property(lambda self: None, lambda self, drawn: None)  # each call draws anew
def make(state=0, **look):
    env = gymnasium.make(ID, **{{**MADE, **look}})
    begin(env, state)
    return env
def begin(env, state):
    env.reset(seed=0, options={{"task_state": state}})
"""


def run(gl, code, tmp_path, silent=True, **environ):
    """The arrays that the code put into ``saved``. ``silent``: nothing is on standard error."""
    path = str(tmp_path / "saved.npz")
    done = subprocess.run(
        [sys.executable, "-c", f"path = {path!r}{PRELUDE}{code}\nnp.savez(path, **saved)\n"],
        cwd=ROOT,
        env={**os.environ, "MUJOCO_GL": gl, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or not silent
    return dict(np.load(path))


@pytest.fixture(scope="module", params=["egl", "osmesa"])
def gl(request):
    if not drawing.gl_works(request.param):
        pytest.skip(f"{request.param} cannot render here")
    return request.param


# Meta-World's own classes, each alone in its process: by a fixed camera and by the free one.
UPSTREAM = """
made = make_benchmark("CustomMT", train_classes=PAIR, num_goals=1).train_tasks
def draw(name, task, path):
    for camera in ("corner2", None):
        env = CLASSES[name](**{**LOOK, "camera_name": camera})
        env.set_task(task)
        env.reset()
        mujoco.mj_forward(env.model, env.data)
        np.save(f"{path}-{name}-{camera}.npy", env.render())
for name, task in zip(PAIR, made):
    if os.fork() == 0:
        draw(name, task, path)
        os._exit(0)
    os.wait()
    for camera in ("corner2", None):
        saved[f"{name} {camera}"] = np.load(f"{path}-{name}-{camera}.npy")
"""

NOTE = """
def note(expected, frame):
    saved[f"{len(saved)} {expected}"] = frame
"""

# In vectors, whose workers have renderers of their own.
VECTORS = """
for workers in (1, 2):
    envs = gymnasium.make_vec(ID, workers=workers, **MADE)
    envs.reset(seed=0)
    note("ab", np.stack(envs.render()))
    envs.close()
env = make(1)
note("b", env.render())
options = {"vectorization_mode": "async", "vector_kwargs": {"context": "forkserver"}}
envs = gymnasium.make_vec(ID, num_envs=2, **options, **MADE)
begin(envs, 1)
note("bb", np.stack(envs.render()))
envs.close()
note("b", env.render())
"""

# In any order; after closing, forgetting, threads and renderers of others; beside workers, which
# begin without a warning; in a fork, of which Python warns since 3.12.
OURS = """
env, free = make(upright=False), make(camera_name=None)
for state in (0, 1, 0, 1):
    begin(env, state)
    note(f"fixed{state}", env.render())
    begin(free, state)
    note(f"free{state}", free.render())

envs = [make(state) for state in (0, 1, 1)]
for env in envs:
    env.render()
envs[1].close()
note("a", envs[0].render())
del envs[2]
gc.collect()
note("a", envs[0].render())
make(1).render()
note("a", envs[0].render())
foreign = mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 48, 64)
note("a", envs[0].render())
foreign.close()
note("a", envs[0].render())
begin(envs[1], 1)
note("b", envs[1].render())

envs.append(make())
frames = [[], [], []]
def draw(i):
    for _ in range(2):
        frames[i].append(envs[i].render())
def draw_and_wait():
    draw(2)
    time.sleep(60)
threads = [threading.Thread(target=draw, args=(i,)) for i in (0, 1)]
for thread in (*threads, threading.Thread(target=draw_and_wait, daemon=True)):
    thread.start()
for thread in threads:
    thread.join()
note("aaa", np.stack([*frames[0], envs[0].render()]))
envs[0].close()
del envs[0]
note("bbb", np.stack([*frames[1], envs[0].render()]))
while len(frames[2]) < 2:
    time.sleep(0.01)

env = make()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    mtwrappers.as_vector("CartPole-v1", 2, workers=2).close()
saved["warnings"] = [str(one.message) for one in caught]
read, write = os.pipe()
warnings.filterwarnings("ignore", "This process", DeprecationWarning)
if os.fork() == 0:
    try:
        env.render()
    except RuntimeError as error:
        env.close()
        os.write(write, str(error).encode())
    os._exit(0)
saved["error"] = os.read(read, 1000).decode()
note("a", env.render())
"""


@pytest.fixture(scope="module")
def upstreams(gl, tmp_path_factory):
    """The frames that are expected: of both classes by the free camera and the fixed, upright."""
    upstream = run(gl, UPSTREAM, tmp_path_factory.mktemp("upstream"), silent=False)
    expected = {}
    for i, name in enumerate(PAIR):
        fixed, expected[f"free{i}"] = upstream[f"{name} corner2"], upstream[f"{name} None"]
        assert len(np.unique(fixed)) > 50
        expected[f"fixed{i}"], expected["ab"[i]] = fixed, fixed[::-1, ::-1]
    return expected


def check(saved, expected):
    """Compares frames, which are those of their key: one, or a letter for each of several."""
    for key, frames in saved.items():
        what = key.split()[1]
        if what not in expected:
            assert np.array_equal(frames, [expected[letter] for letter in what]), key
        else:
            assert np.array_equal(frames, expected[what]), key


@pytest.mark.slow
def test_frames_are_upstreams_whatever_else_is_drawn_or_closed_or_forked(gl, upstreams, tmp_path):
    saved = run(gl, NOTE + OURS, tmp_path)
    assert saved.pop("warnings").tolist() == []
    error = str(saved.pop("error"))
    assert "forked from one that had drawn some" in error
    assert "pass context='forkserver' to gymnasium.make_vec, or, with vectorization" in error
    assert "vector_kwargs={'context': 'forkserver'}" in error
    assert len(saved) == 17
    check(saved, upstreams)


@pytest.mark.slow
def test_frames_of_vectors_are_upstreams(gl, upstreams, tmp_path):
    if gl != drawing.choose_gl():
        pytest.skip("workers draw as this process does: one renderer will do")
    saved = run(gl, NOTE + VECTORS, tmp_path)
    assert len(saved) == 5
    check(saved, upstreams)


@pytest.mark.slow
def test_memory_comes_back_from_what_is_closed_or_forgotten_and_no_display_is_needed(tmp_path):
    if drawing.choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    saved = run(
        "",  # which leaves the choice to the package
        """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
kept = make()
saved["frame"] = kept.render()
saved["megabytes"] = []
for i in range(10):
    env = make()
    if i % 2:
        thread = threading.Thread(target=env.render)
        thread.start()
        thread.join()
    else:
        env.render()
    if i % 4 < 2:
        env.close()
    del env
    gc.collect()
    saved["megabytes"].append(resident())
""",
        tmp_path,
    )
    assert len(np.unique(saved["frame"])) > 50
    # Compared after closed ones, for what is forgotten is freed later, when another one draws.
    # Each of the eight between would keep 60 MB.
    assert saved["megabytes"][9] - saved["megabytes"][1] < 60


@pytest.mark.slow
def test_without_a_working_opengl_the_error_says_what_to_set_and_to_install(tmp_path):
    code = """
try:
    make().render()
except gymnasium.error.DependencyNotInstalled as error:
    saved["error"] = str(error)
"""
    broken = {"__EGL_VENDOR_LIBRARY_DIRS": "/none"}
    said = str(run("egl", code, tmp_path, silent=False, **broken)["error"])
    assert "cannot draw frames with MUJOCO_GL=egl" in said
    assert "MUJOCO_GL to egl (Debian: apt install libegl1) or osmesa (apt install libos" in said


@pytest.mark.slow
def test_a_process_in_which_sdl_drew_too_ends_quietly(gl, tmp_path):
    code = """
env = make()
saved["before"] = env.render()
import pygame
pygame.display.init()
pygame.display.set_mode((64, 48))
pygame.display.quit()
saved["after"] = env.render()
"""
    # Without a screen, SDL draws by EGL, which it ends.
    saved = run(gl, code, tmp_path, SDL_VIDEODRIVER="offscreen", PYGAME_HIDE_SUPPORT_PROMPT="1")
    assert np.array_equal(saved["before"], saved["after"])


# All kinds of images, beside a `mujoco.Renderer` of the same state.
RENDERER = """
from metaworld import ALL_V3_ENVIRONMENTS as CLASSES
from mtwrappers.metaworld.class_env import class_env_of
NAMES = ["corner4", "gripperPOV"]
def draw(name):
    env = gymnasium.make("mtwrappers/MT1-v0", env_name=name, render_mode="rgb_array", width=40,
                         height=30, camera_name=NAMES)
    env.reset(seed=0)
    env.step(np.array([0.5, 0.2, -1, 1], np.float32))
    one = class_env_of(env)
    sawyer = one.sawyer
    model = sawyer.model
    data, kind = mujoco.MjData(model), mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(sawyer.model, sawyer.data, state, kind)
    mujoco.mj_setState(model, data, state, kind)
    mujoco.mj_forward(model, data)
    ours = one.images(["colours", "depth"])
    with mujoco.Renderer(model, 30, 40) as renderer:
        for camera in NAMES:
            view = model.camera(camera)
            turned = model.cam_mat0[view.id][7] < 0
            for of in ("colours", "depth"):
                if of == "depth":
                    renderer.enable_depth_rendering()
                renderer.update_scene(data, camera)
                theirs = renderer.render()
                renderer.disable_depth_rendering()
                theirs = theirs[::-1, ::-1] if turned else theirs
                saved[f"{name} {camera} {of}"] = np.array(
                    [(ours[of][camera] == theirs).all() and theirs.dtype == ours[of][camera].dtype,
                     len(np.unique(theirs)) > 3]
                )
    env.close()
for name in PAIR:
    draw(name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_colours_and_depth_of_every_camera_are_those_of_mujocos_renderer(gl, part, tmp_path):
    names = list(make_benchmark("MT10", num_goals=1).train_classes)[2 * part : 2 * part + 2]
    saved = run(gl, f"PAIR = {names!r}{RENDERER}", tmp_path)
    assert len(saved) == 2 * 2 * 2
    assert [key for key, (same, _) in saved.items() if not same] == []
    assert [key for key, (_, something) in saved.items() if not something] == []
