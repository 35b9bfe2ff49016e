"""OpenGL that does not work: only drawing needs it, and says what is wrong and what mends it."""

import sys

import pytest

from mtwrappers.common.extras import with_or_without_opengl
from mtwrappers.metaworld import opengl
from mtwrappers.metaworld.opengl import Trial, describe_failure, explain, try_backend
from tests.fakes import run_with_python

VARIABLES = ("MUJOCO_GL", "MUJOCO_EGL_DEVICE_ID", "PYOPENGL_PLATFORM", "DISPLAY")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


NOTHING_DRAWN = """
import os
import gymnasium, numpy as np, mtwrappers
from gymnasium.error import DependencyNotInstalled

if __name__ == "__main__":
    env = gymnasium.make("mtwrappers/MT1-v0", num_goals=1, render_mode="rgb_array")
    env.reset(seed=0)
    mtwrappers.MetaWorldSetTaskEnv("ML1", num_goals=1).sample_tasks(1)
    gymnasium.make("mtwrappers/MultiEnv-v0", env_ids=["HalfCheetah-v5"]).reset(seed=0)
    makers = [mtwrappers.MetaWorldSetTaskEnv("ML1", num_goals=1), lambda: gymnasium.make("Ant-v5")]
    for maker in makers:
        context = {"workers": 2, "context": "spawn"}
        envs = mtwrappers.MetaParallelEnvExecutor(maker, 2, **context)
        envs.reset(seed=0)
        envs.close()
    for name in ("foo", "off", "glfw", "glfw"):
        os.environ["MUJOCO_GL"] = name
        try:
            env.render()
        except DependencyNotInstalled as error:
            print(error)
    print(os.environ.get("PYOPENGL_PLATFORM"))
"""


@pytest.mark.parametrize(
    "variables",
    [{"MUJOCO_GL": "foo"}, {"MUJOCO_GL": "egl", "PYOPENGL_PLATFORM": "osmesa"}],
    ids=["unknown", "excluded"],
)
@pytest.mark.slow_but("unknown")
def test_nothing_that_draws_nothing_fails_because_of_opengl(variables, tmp_path):
    path = tmp_path / "main.py"
    path.write_text(NOTHING_DRAWN)
    lines = run_with_python(str(path), **variables).splitlines()
    assert lines == [
        "cannot draw frames with MUJOCO_GL=foo: expected one of egl, osmesa, glfw, got 'foo' "
        f"(unset MUJOCO_GL). {opengl.DOCTOR}",
        "cannot draw frames with MUJOCO_GL=off: 'off' switches OpenGL off (unset MUJOCO_GL). "
        f"{opengl.DOCTOR}",
        *[
            "cannot draw frames with MUJOCO_GL=glfw: there is no display: DISPLAY is not set (use "
            f"egl or osmesa). {opengl.DOCTOR}"
        ]
        * 2,  # MuJoCo would hang the second time
        variables.get("PYOPENGL_PLATFORM", "None"),
    ]


def test_an_error_that_is_not_of_mujoco_is_raised_at_once(monkeypatch):
    calls = []

    def fail():
        calls.append(1)
        raise ZeroDivisionError

    monkeypatch.setenv("MUJOCO_GL", "foo")
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    with pytest.raises(ZeroDivisionError):
        with_or_without_opengl(fail)
    assert calls == [1]


NO_LIBRARY = "AttributeError: 'NoneType' object has no attribute "
EGL_DEVICE = "RuntimeError: The MUJOCO_EGL_DEVICE_ID environment variable must be an integer "


@pytest.mark.parametrize(
    ("name", "error", "variables", "cause", "remedy"),
    [
        ("egl", f"{NO_LIBRARY}'eglQueryString'", {}, "libEGL is not installed", "libegl1"),
        ("osmesa", f"{NO_LIBRARY}'glGetError'", {}, "libOSMesa is not installed", "libosmesa6"),
        (
            "egl",
            f"{EGL_DEVICE}between 0 and 1 (inclusive), got 7.",
            {"MUJOCO_EGL_DEVICE_ID": "7"},
            "MUJOCO_EGL_DEVICE_ID='7' names no device that works: this machine has 2 (numbered "
            "from 0)",
            "unset MUJOCO_EGL_DEVICE_ID",
        ),
        (
            "egl",
            "ImportError: Cannot use EGL rendering platform.",
            {"PYOPENGL_PLATFORM": "glx"},
            "PYOPENGL_PLATFORM='glx' excludes it",
            "unset PYOPENGL_PLATFORM",
        ),
        ("egl", "ImportError: Cannot initialize a EGL device", {}, "EGL finds no", "libegl-mesa0"),
        ("egl", "ModuleNotFoundError: No module named 'mujoco'", {}, "No module", "[metaworld]"),
        ("glfw", "FatalError: an OpenGL", {}, "DISPLAY is not set", "use egl or osmesa"),
        ("glfw", "FatalError: an OpenGL", {"DISPLAY": ":0"}, "FatalError: an OpenGL", ""),
        ("off", "", {}, "'off' switches OpenGL off", "unset MUJOCO_GL"),
        ("foo", "", {}, "expected one of egl, osmesa, glfw, got 'foo'", "unset MUJOCO_GL"),
    ],
)
def test_the_cause_is_named_with_what_mends_it(name, error, variables, cause, remedy, monkeypatch):
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    trial = explain(name, error)
    assert (trial.backend, trial.works) == (name, False)
    assert cause in trial.cause
    assert remedy in trial.remedy
    assert f"with MUJOCO_GL={name}: {trial.cause}" in describe_failure(name, error)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import os; os.abort()", "its driver crashed with SIGABRT"),
        ("import time; time.sleep(60)", "its driver did not answer within 1 s"),
        ("print('ValueError:  of\\nits own'); raise SystemExit(1)", "ValueError: of its own"),
        ("raise SystemExit(3)", "exit code 3"),
        ("", ""),
    ],
    ids=["crash", "hang", "error", "exit", "works"],
)
def test_a_backend_is_tried_in_a_process_of_its_own(code, cause, monkeypatch):
    monkeypatch.setattr(opengl, "_TRIAL", code)
    monkeypatch.setattr(opengl, "_SECONDS", 1.0 if "sleep" in code else 60.0)
    assert try_backend("egl") == Trial("egl", cause)


def test_where_none_works_every_cause_is_named(monkeypatch):
    monkeypatch.setattr(opengl, "try_backend", lambda name: Trial(name, f"no {name}", "mend it"))
    assert opengl.choose_gl() is None
    assert describe_failure("", "") == (
        "cannot draw frames: no OpenGL backend works here: egl: no egl (mend it); osmesa: no "
        "osmesa (mend it); glfw: no glfw (mend it). `mtwrappers doctor` tries every OpenGL "
        "backend, and names the package that each lacks"
    )


def test_ones_own_choice_is_tried_first(monkeypatch):
    tried = []
    monkeypatch.setattr(opengl, "gl_works", lambda name: tried.append(name) or name == "egl")
    monkeypatch.setenv("MUJOCO_GL", " OSMesa ")
    assert opengl.choose_gl() == "egl"
    assert tried == ["osmesa", "egl"]
