"""Frames beside other frames: equal to Meta-World's own, whatever else is drawn or closed.

Each in a process of its own, with EGL and with OSMesa.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from mtwrappers.metaworld import frames as drawing
from tests.fakes import ROOT

# The second is drawn before its last move by Meta-World.
PAIR = ["reach-v3", "window-close-v3"]
LOOK = {"render_mode": "rgb_array", "camera_name": "corner2", "width": 64, "height": 48}

PRELUDE = f"""
import gc, os, threading, time, warnings
import gymnasium, mujoco, numpy as np
import mtwrappers, tests.models
from mtwrappers.metaworld import make_benchmark
from metaworld import ALL_V3_ENVIRONMENTS as CLASSES
ID, PAIR, LOOK = "mtwrappers/CustomMT-v0", {PAIR!r}, {LOOK!r}
MADE = dict(train_classes=PAIR, num_goals=1, **LOOK)
saved = {{}}
from mtwrappers.metaworld.frames import Camera
Camera._drawn = property(lambda self: None, lambda self, drawn: None)  # each call draws anew
def make(state=0, **look):
    env = gymnasium.make(ID, **{{**MADE, **look}})
    begin(env, state)
    return env
def begin(env, state):
    env.reset(seed=0, options={{"task_state": state}})
def note(expected, frame):
    saved[f"{{len(saved)}} {{expected}}"] = frame
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

# In any order; after closing, forgetting, threads and renderers of others; in a fork.
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


@pytest.mark.slow
def test_frames_are_upstreams_whatever_else_is_drawn_or_closed_or_forked(gl, upstreams, tmp_path):
    saved = run(gl, OURS, tmp_path)
    error = str(saved.pop("error"))
    assert "forked from one that had drawn some" in error
    assert "pass context='forkserver' to gymnasium.make_vec, or, with vectorization" in error
    assert "vector_kwargs={'context': 'forkserver'}" in error
    assert len(saved) == 17
    for key, frames in saved.items():
        what = key.split()[1]  # one frame, or a letter for each of several
        several = what not in upstreams
        expected = [upstreams[letter] for letter in what] if several else upstreams[what]
        assert np.array_equal(frames, expected), key


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
