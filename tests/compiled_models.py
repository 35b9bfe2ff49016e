"""Compiles each of MuJoCo's models once, which takes ten times as long as copying one."""

import contextlib
import copy
import functools

import pytest

KEPT = 16  # models, of 21 MB each


@contextlib.contextmanager
def compile_models_once():
    """Within it, this process and its forks copy models that were compiled before.

    Only ``MjModel.from_xml_path`` is replaced, and put back at the end. Pythons that a test starts
    compile as ever. Without MuJoCo, nothing is replaced.
    """
    try:
        import mujoco
    except ImportError:
        yield
        return
    compile_model = functools.lru_cache(maxsize=KEPT)(mujoco.MjModel.from_xml_path)

    def copy_compiled(path, *assets):
        return copy.copy(compile_model(path, *assets))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mujoco.MjModel, "from_xml_path", copy_compiled)
        yield
