import pytest

from tests.metaworld.fakes import PAIR, make_vec


@pytest.fixture(scope="package", autouse=True)
def _living_models():
    """The many environments of the two quick classes share the compiled models of these."""
    with make_vec("CustomMT", 4, train_classes=PAIR, num_goals=1) as envs:
        envs.reset(seed=0)
        yield
