"""Frames beside other frames: the same as alone, whatever else is drawn, closed or forked.

Each in a process of its own, with EGL and with OSMesa. Frames alone: ``test_pixels.py``.
"""

import pytest

from mtwrappers.metaworld import opengl
from tests.fakes import run_with_python

pytestmark = pytest.mark.slow

PRELUDE = """
import gc, json, os, threading, time, warnings
os.dup2(1, 2)  # errors to what is returned
import gymnasium, mujoco, numpy as np
import mtwrappers
MADE = dict(num_goals=1, render_mode="rgb_array", camera_name="corner2", width=64, height=48)

def make(state=0):
    env = gymnasium.make("mtwrappers/CustomMT-v0", **MADE)
    begin(env, state)
    return env

def begin(env, state):
    env.reset(seed=0, options={"task_state": state})

def check(env, expected):
    assert np.array_equal(env.render(), expected)
"""


def draw(gl, code, **environment):
    """What the code prints, and any error."""
    return run_with_python("-c", PRELUDE + code, MUJOCO_GL=gl, **environment)


@pytest.fixture(params=["egl", "osmesa"])
def gl(request):
    if not opengl.gl_works(request.param):
        pytest.skip(f"{request.param} cannot render here")
    return request.param


BESIDE_OTHERS = """
a, b = make(0).render(), make(1).render()
assert len(np.unique(a)) > 50 and not np.array_equal(a, b)
assert threading.active_count() == 1

envs = [make(state) for state in (0, 1, 1)]
for env in envs:
    env.render()
envs[1].close()
check(envs[0], a)
del envs[2]
gc.collect()
check(envs[0], a)
foreign = mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 48, 64)
check(envs[0], a)
foreign.close()
check(envs[0], a)
begin(envs[1], 1)
check(envs[1], b)

threads = [threading.Thread(target=check, args=pair) for pair in zip(envs, (a, b))]
waits = threading.Thread(target=lambda: (check(make(), a), time.sleep(60)), daemon=True)
for thread in (*threads, waits):
    thread.start()
for thread in threads:
    thread.join()
check(envs[0], a)
envs[0].close()
check(envs[1], b)

env = make()
check(env, a)
warnings.filterwarnings("ignore", "This process", DeprecationWarning)
if os.fork() == 0:
    try:
        env.render()
    except RuntimeError as error:
        print(error, flush=True)
        env.close()
    os._exit(0)
os.wait()
check(env, a)
"""


FOREIGN_CONTEXT = """
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
data, scene, rect = mujoco.MjData(model), mujoco.MjvScene(model, 10), mujoco.MjrRect(0, 0, 64, 48)
mujoco.mj_forward(model, data)
option, camera = mujoco.MjvOption(), mujoco.MjvCamera()
mujoco.mjv_updateScene(model, data, option, None, camera, mujoco.mjtCatBit.mjCAT_ALL, scene)
gl = mujoco.GLContext(64, 48)
gl.make_current()  # only once, as Gymnasium's viewer does
context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)

def foreign_frame():
    image = np.zeros((48, 64, 3), np.uint8)
    mujoco.mjr_render(rect, scene, context)
    mujoco.mjr_readPixels(image, None, rect, context)
    return image

foreign = foreign_frame()
assert len(np.unique(foreign)) > 10
env = make()
frame = env.render()
assert np.array_equal(foreign_frame(), foreign)
check(env, frame)
env.close()
assert np.array_equal(foreign_frame(), foreign)
del env, make
gc.collect()
assert np.array_equal(foreign_frame(), foreign)
context.free()
gl.free()
"""


def test_a_context_of_the_caller_stays_current(gl):
    assert draw(gl, FOREIGN_CONTEXT) == ""


def test_frames_are_the_same_whatever_else_is_drawn_or_closed_and_a_fork_draws_none(gl):
    output = draw(gl, BESIDE_OTHERS)
    assert "forked from one that had drawn some" in output
    assert "pass context='forkserver' to gymnasium.make_vec, or, with vectorization" in output
    assert "vector_kwargs={'context': 'forkserver'}" in output
    assert output.count("\n") == 1
