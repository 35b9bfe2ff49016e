"""Multi-task SAC in a single file: it trains, and its policy of arrays gives the mean action."""

import numpy as np
import pytest

from tests.integrations.examples import load_example

torch = pytest.importorskip("torch")

TINY = (
    *("--steps", "300", "--warm-up", "100", "--episode-steps", "20", "--width", "16"),
    *("--batch-per-task", "4", "--point-every", "300", "--evaluate-every", "0"),
)


@pytest.mark.slow
def test_it_trains_and_leaves_its_policy(tmp_path, monkeypatch):
    script = load_example("sac_mt10.py")
    learner = script.main([*TINY, "--out", str(tmp_path)])
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "points/300.npz"))
    obs = np.hstack([np.zeros((10, 39)), np.eye(10)])
    actions = script.load()(obs)
    assert (actions.shape, actions.dtype) == ((10, 4), np.float32)
    assert (np.abs(actions) <= 1).all()
    assert len(learner.state_dict()) > 4
