import pytest

from mtwrappers.metaworld.opengl import choose_gl


@pytest.fixture(scope="module")
def opengl():
    """What MuJoCo can render with here."""
    name = choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUJOCO_GL", name)
        yield
