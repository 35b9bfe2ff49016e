"""Frames beside other frames: equal to Meta-World's own, whatever else is drawn or closed.

Each in a process of its own, with EGL and with OSMesa.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from mtwrappers.metaworld import opengl

# The second is drawn before its last move by Meta-World.
PAIR = ["reach-v3", "window-close-v3"]
ID = "mtwrappers/CustomMT-v0"
LOOK = {"render_mode": "rgb_array", "camera_name": "corner2", "width": 64, "height": 48}

PRELUDE = f"""
import gc, os, sys, threading, time
import gymnasium, mujoco, numpy as np
import mtwrappers
from mtwrappers.metaworld import make_benchmark
from metaworld import ALL_V3_ENVIRONMENTS as CLASSES
ID, PAIR, LOOK = {ID!r}, {PAIR!r}, {LOOK!r}
MADE = dict(train_classes=PAIR, num_goals=1, **LOOK)
saved = {{}}
def make(state=0, **look):
    env = gymnasium.make(ID, **{{**MADE, **look}})
    begin(env, state)
    return env
def begin(env, state):
    env.reset(seed=0, options={{"task_state": state}})
"""


def run(gl, code, tmp_path, silent=True, **environ):
    """What the code has put into ``saved``. ``silent``: it leaves nothing on standard error."""
    path = tmp_path / "saved.npz"
    end = f"\nnp.savez({str(path)!r}, **saved)\n"
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code + end],
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
    if not opengl.gl_works(request.param):
        pytest.skip(f"{request.param} cannot render here")
    return request.param


@pytest.fixture(scope="module")
def upstream(gl, tmp_path_factory):
    """Frames of Meta-World's own classes, each alone in its process: fixed camera, free camera."""
    code = """
tasks = make_benchmark("CustomMT", train_classes=PAIR, num_goals=1).train_tasks
for camera in ("corner2", None):
    env = CLASSES[{name!r}](**{{**LOOK, "camera_name": camera}})
    env.set_task(next(task for task in tasks if task.env_name == {name!r}))
    env.reset()
    mujoco.mj_forward(env.model, env.data)
    saved[str(camera)] = env.render()
"""
    found = {}
    for name in PAIR:
        found[name] = run(gl, code.format(name=name), tmp_path_factory.mktemp(name), False)
        assert len(np.unique(found[name]["corner2"])) > 50
    return found


def upright(upstream, *classes):
    return [upstream[PAIR[c]]["corner2"][::-1, ::-1] for c in classes]


def test_frames_are_upstreams_in_any_order_and_in_vectors(gl, upstream, tmp_path):
    saved = run(
        gl,
        """
env = make(upright=False)
free = make(camera_name=None)
for i, state in enumerate((0, 1, 0, 1)):
    begin(env, state)
    saved[f"fixed {i}"] = env.render()
    begin(free, state)
    saved[f"free {i}"] = free.render()
for workers in (1, 2):
    envs = gymnasium.make_vec(ID, workers=workers, **MADE)
    envs.reset(seed=0)
    saved[f"workers {workers}"] = envs.render()
    envs.close()
forkserver = {"vector_kwargs": {"context": "forkserver"}}
for mode, options in (("sync", {}), ("async", forkserver)):
    envs = gymnasium.make_vec(ID, num_envs=2, vectorization_mode=mode, **options, **MADE)
    for state in (1, 0):
        begin(envs, state)
        saved[f"{mode} {state}"] = envs.render()
    envs.close()
saved["after"] = env.render()
""",
        tmp_path,
    )
    a, b = upright(upstream, 0, 1)
    for i, name in enumerate((*PAIR, *PAIR)):
        assert np.array_equal(saved[f"fixed {i}"], upstream[name]["corner2"])
        assert np.array_equal(saved[f"free {i}"], upstream[name]["None"])
    assert np.array_equal(saved["after"], upstream[PAIR[1]]["corner2"])
    for key in ("workers 1", "workers 2"):
        assert np.array_equal(saved[key], [a, b])
    for mode in ("sync", "async"):
        assert np.array_equal(saved[f"{mode} 0"], [a, a])
        assert np.array_equal(saved[f"{mode} 1"], [b, b])


def test_closing_forgetting_and_threads_leave_the_frames_of_others(gl, upstream, tmp_path):
    saved = run(
        gl,
        """
envs = [make(state) for state in (0, 1, 1)]
for env in envs:
    env.render()
envs[1].close()
saved["closed"] = envs[0].render()
del envs[2]
gc.collect()
saved["forgotten"] = envs[0].render()
make(1).render()
saved["another"] = envs[0].render()
foreign = mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 48, 64)
saved["beside MuJoCo's renderer"] = envs[0].render()
foreign.close()
saved["and after it"] = envs[0].render()
begin(envs[1], 1)
used_again = envs[1].render()

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
for i, frame in enumerate([*frames[0], envs[0].render()]):
    saved[f"of a thread {i}"] = frame
envs[0].close()
del envs[0]
saved["b"] = [used_again, *frames[1], envs[0].render()]
while len(frames[2]) < 2:
    time.sleep(0.01)
""",
        tmp_path,
    )
    a, b = upright(upstream, 0, 1)
    assert np.array_equal(saved.pop("b"), [b] * 4)
    assert len(saved) == 8
    for frame in saved.values():
        assert np.array_equal(frame, a)


def test_a_process_forked_after_a_frame_says_so_instead_of_hanging(gl, tmp_path):
    saved = run(
        gl,
        """
env = make()
before = env.render()
read, write = os.pipe()
if os.fork() == 0:
    try:
        env.render()
    except RuntimeError as error:
        env.close()
        os.write(write, str(error).encode())
    os._exit(0)
saved["error"] = os.read(read, 1000).decode()
saved["same"] = np.array_equal(before, env.render())
""",
        tmp_path,
    )
    assert "forked from one that had drawn some" in str(saved["error"])
    assert "vector_kwargs={'context': 'forkserver'}" in str(saved["error"])
    assert saved["same"]


def test_memory_comes_back_from_what_is_closed_or_forgotten_and_no_display_is_needed(tmp_path):
    if opengl.choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    saved = run(
        "",  # which leaves the choice to the package
        """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
kept = make()
saved["frame"] = kept.render()
saved["megabytes"] = []
for i in range(8):
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
    assert saved["megabytes"][-1] - saved["megabytes"][3] < 60


@pytest.mark.parametrize(
    ("name", "environ"), [("glfw", {}), ("egl", {"__EGL_VENDOR_LIBRARY_DIRS": "/none"})]
)
def test_without_a_working_opengl_the_error_says_what_to_set_and_to_install(
    name, environ, tmp_path
):
    if os.environ.get("DISPLAY"):
        pytest.skip("there is a display")
    saved = run(
        name,
        """
try:
    make().render()
except gymnasium.error.DependencyNotInstalled as error:
    saved["error"] = str(error)
""",
        tmp_path,
        silent=False,
        **environ,
    )
    said = str(saved["error"])
    assert f"cannot draw frames with MUJOCO_GL={name}" in said
    assert "MUJOCO_GL to egl (Debian: apt install libegl1) or osmesa (apt install libos" in said
