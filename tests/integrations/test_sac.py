"""Multi-task SAC in a single file: its memory and policy, and a run that is killed."""

import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.fakes import ROOT
from tests.integrations.examples import load_example

torch = pytest.importorskip("torch")

OBS = 39
TINY = (
    *("--steps", "600", "--warm-up", "100", "--episode-steps", "20", "--width", "16"),
    *("--batch-per-task", "4", "--checkpoint-every", "150", "--point-every", "300"),
    *("--print-every", "50", "--evaluate-every", "0"),
)


@pytest.fixture(scope="module")
def script():
    return load_example("sac_mt10.py")


def test_rows_are_drawn_task_after_task_and_normalized(script, tmp_path):
    memory = script.Memory(tmp_path / "rows", 5, 2, np.random.default_rng(0))
    memory.rows[:] = np.arange(5)[:, None, None] + 100 * np.arange(2)[None, :, None]
    statistics = script.Statistics(2)
    statistics.update(np.full((2, OBS), [[1.0], [101.0]]))  # of deviation 0.01
    obs, next_obs, actions, rewards, terminated = memory.sample(3, 4, statistics)
    assert obs.shape == next_obs.shape == (8, OBS + 2)
    assert obs[:, OBS:].tolist() == [[1, 0]] * 4 + [[0, 1]] * 4
    drawn = rewards.reshape(2, 4) - torch.tensor([[0], [100]])
    assert set(drawn.flatten().tolist()) <= {0, 1, 2}  # the first three rows
    torch.testing.assert_close(obs[:, 0], 100 * (drawn.flatten() - 1))
    torch.testing.assert_close(actions, rewards[:, None].expand(8, 4))
    assert (terminated == rewards).all()


def test_the_policy_of_arrays_gives_the_mean_action(script, tmp_path, monkeypatch):
    torch.manual_seed(0)
    args = script.parser().parse_args(["--width", "16", "--precision", "float32"])
    learner = script.Learner(2, args)
    statistics, rng = script.Statistics(2), np.random.default_rng(0)
    for _ in range(10):
        statistics.update(rng.normal(size=(2, OBS)))
    torch.nn.init.normal_(learner.actor.last.weight)
    script.save_policy(tmp_path / "weights.npz", learner.actor, statistics)
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "weights.npz"))
    raw = rng.normal(size=(2, OBS))
    scaled = (raw - statistics.mean) / statistics.deviation
    with torch.no_grad():
        mean = learner.actor.policy(script.tensor(np.hstack([scaled, np.eye(2)]))).mean
    actions = script.load()(np.hstack([raw, np.eye(2)]))
    assert (actions.shape, actions.dtype) == ((2, 4), np.float32)
    np.testing.assert_allclose(actions, mean.tanh(), rtol=1e-4, atol=1e-5)


def rows_of(out):
    return np.fromfile(out / "memory.float32", np.float32).reshape(60, 10, -1)


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_weights(script, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    expected, rows = script.main([*TINY, "--out", str(one)]), rows_of(one)
    obs, next_obs = rows[..., :OBS], rows[..., OBS : 2 * OBS]
    # Entries 18 to 36 of Meta-World's observation are those before the step: the memory keeps the
    # last observation of an episode.
    np.testing.assert_array_equal(next_obs[..., 18:36], obs[..., :18])
    begins = np.array([(next_obs[t] != obs[t + 1]).any() for t in range(59)])
    assert np.flatnonzero(begins).tolist() == [19, 39]  # episodes of 20 steps
    assert (rows[..., -1] == 0).all()  # none of them terminated
    assert (rows[..., -2] > 0).any()
    line = [sys.executable, ROOT / "examples/sac_mt10.py", *TINY, "--out", two]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        for printed in process.stdout:
            if " 400 steps" in printed:  # the last checkpoint is of 300
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    assert len(list((two / "points").iterdir())) == 1
    learner = script.main([*TINY, "--out", str(two)])
    for name, value in expected.state_dict().items():
        assert (value == learner.state_dict()[name]).all(), name
    np.testing.assert_array_equal(rows, rows_of(two))
    for point in ("300.npz", "600.npz"):
        with np.load(one / "points" / point) as a, np.load(two / "points" / point) as b:
            assert all((a[name] == b[name]).all() for name in a.files)
    line = re.escape(f"{one} has a run with --seed 1, got --seed 2: choose --out")
    with pytest.raises(SystemExit, match=line):
        script.main([*TINY, "--out", str(one), "--seed", "2"])
