"""The actions of an evaluation in a file, and what a result says of where it comes from."""

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import zipfile

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import VectorRewardWrapper

from mtwrappers import VectorNormalizeObservationPerTask, evaluate, few_shot_evaluate, protocols
from mtwrappers.evaluation import (
    EvaluationResult,
    EvidenceError,
    FewShotResult,
    Observer,
    VerificationError,
    evidence,
    verify,
)
from mtwrappers.evaluation.evidence import read_evidence
from mtwrappers.evaluation.result import Provenance
from tests.evaluation.fakes import drawn, scripted
from tests.fakes import ROOT

SHORT = [{"name": "a", "lengths": (3, 5)}, {"name": "b", "lengths": (30,)}]
TASKS = [{"name": "a", "lengths": (3, 5)}, {"name": "b", "lengths": (600,)}]


class Stops(Observer):
    """Interrupts after a number of episodes."""

    def __init__(self, after):
        self.after, self.episodes = after, []

    def end(self, i, episode):
        self.episodes.append(episode)

    def step(self, step):
        if len(self.episodes) >= self.after:
            raise KeyboardInterrupt


# The actions.


@pytest.mark.parametrize("policy_in", ["parent", "workers"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.slow_but("float32-parent", "float64-workers")
def test_every_episode_has_the_actions_that_its_environment_got(dtype, policy_in, tmp_path):
    def policy(observations):
        return drawn(observations).astype(dtype)

    path = tmp_path / "r.npz"
    envs = scripted(TASKS, k=2, workers=2)
    result = evaluate(policy, envs, 3, policy_in=policy_in, evidence=path)
    envs.close()
    found = read_evidence(path)
    assert list(np.load(path)) == list(found)
    assert sorted(found) == ["a/0", "a/1", "a/2", "b/0", "b/1", "b/2"]
    for episode in result.episodes:
        actions = found[f"{episode.task}/{episode.number}"]
        assert actions.dtype == dtype
        assert actions.shape == (episode.length, 2)
        # The reward is the action's first number.
        paid = 0.0
        for action in actions:
            paid += float(action[0])
        assert paid == episode.episode_return
    assert evidence.digest(found) == result.provenance.evidence


def test_actions_that_change_their_dtype_are_refused(tmp_path):
    def policy(observations):
        late = observations[0, 0] > 1
        return np.zeros((1, 2), np.float64 if late else np.float32)

    with pytest.raises(ValueError, match="keep their dtype, got float32 and then float64"):
        evaluate(policy, scripted([{}]), 1, evidence=tmp_path / "r.npz")
    assert os.listdir(tmp_path) == []  # no episode had ended


def test_an_interruption_keeps_what_was_finished_and_the_rest_is_added_to_it(tmp_path):
    whole = evaluate(drawn, scripted(SHORT), 4, evidence=tmp_path / "whole.npz")
    path, stops = tmp_path / "r.npz", Stops(5)
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        evaluate(drawn, scripted(SHORT), 4, observers=[stops], evidence=path)
    assert sorted(read_evidence(path)) == ["a/0", "a/1", "a/2", "a/3", "b/0"]
    result = evaluate(drawn, scripted(SHORT), 4, finished=stops.episodes, evidence=path)
    assert result == whole
    assert result.provenance == whole.provenance
    with pytest.raises(
        EvidenceError, match="must hold the actions of all finished episodes, 'b/0'"
    ):
        evaluate(drawn, scripted(SHORT), 5, finished=whole.episodes[:6], evidence=_only(path, "a"))


def _only(path, task):
    """A file with the actions of one task."""
    kept = {name: array for name, array in np.load(path).items() if name.startswith(task)}
    np.savez(path.with_name("some.npz"), **kept)
    return path.with_name("some.npz")


class Remembers:
    """A policy for few-shot evaluation."""

    def begin_trial(self):
        pass

    def __call__(self, observations):
        return np.zeros((len(observations), 2))


KILLED = """
import os, signal
from mtwrappers import evaluate
from mtwrappers.evaluation import Observer
from tests.evaluation.fakes import drawn, scripted
from tests.evaluation.test_evidence import SHORT
class Kills(Observer):
    ended = 0
    def end(self, i, episode):
        self.ended += 1
    def step(self, step):
        if self.ended == {after}:
            os.kill(os.getpid(), signal.SIGKILL)
evaluate(drawn, scripted(SHORT), 4, observers=[Kills()], evidence="r.npz")
"""


def test_a_kill_leaves_the_actions_of_what_was_finished(tmp_path):
    path = tmp_path / "r.npz"
    path.write_bytes(b"before")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for after in (0, 5):
        code = [sys.executable, "-c", KILLED.format(after=after)]
        ended = subprocess.run(code, cwd=tmp_path, env=env, timeout=60)
        assert ended.returncode == -signal.SIGKILL
        if not after:
            assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["r.npz"]  # without what the first has left
    whole = evaluate(drawn, scripted(SHORT), 4, evidence=tmp_path / "whole.npz")
    known, found = read_evidence(tmp_path / "whole.npz"), read_evidence(path)
    assert list(found) == ["a/0", "a/1", "a/2", "a/3", "b/0"]
    assert all((found[name] == known[name]).all() for name in found)
    whole.save(tmp_path / "r.json")
    message = "no actions of b, episode 1: 3 of 8 episodes are missing in it"
    with pytest.raises(VerificationError, match=message):
        verify(tmp_path / "r.json", envs=scripted(SHORT))
    # A kill in the middle of a write.
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    assert list(read_evidence(path)) == ["a/0", "a/1", "a/2", "a/3"]
    path.write_bytes(data)
    again = evaluate(drawn, scripted(SHORT), 4, finished=whole.episodes[:5], evidence=path)
    assert again.provenance == whole.provenance
    assert zipfile.is_zipfile(path)
    assert len(read_evidence(path)) == 8


def _zip(*members, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def _npy(array, **kwargs):
    buffer = io.BytesIO()
    np.save(buffer, array, **kwargs)
    return buffer.getvalue()


GOOD = _npy(np.zeros((3, 4), np.float32))
BOMB = _zip(("a/0.npy", bytes(2**20)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "File is not a zip file"),
        pytest.param(_zip(("a/0.npy", GOOD))[:40], "File is not a zip file", id="cut off"),
        (_zip(("a/0.txt", GOOD)), "'a/0.txt' is not an array"),
        (
            _zip(("a/0.npy", GOOD), ("a/1.npy", GOOD)).replace(b"a/1", b"a/0"),
            "'a/0.npy' is not an array, or occurs twice",
        ),
        (_zip(("a/0.npy", GOOD), method=zipfile.ZIP_LZMA), "compressed by another method"),
        (_zip(("a/0.npy", GOOD[:-4])), "does not match its shape"),
        (_zip(("a/0.npy", GOOD.replace(b"(3, 4)", b"(9, 9)"))), "does not match its"),
        (_zip(("a/0.npy", _npy(np.array([None]), allow_pickle=True))), "must be a plain array"),
        (_zip(("a/0.npy", _npy(np.full((1, 4), np.nan)))), "'a/0.npy' has actions that are NaN"),
        (BOMB, "it takes up to 1,048,576 bytes of memory, but max_bytes is 1"),
        (BOMB[:-22], "it takes up to 1,048,576 bytes of memory, but max_bytes is 1"),
        # A size that is less than what there is.
        (BOMB[:-22].replace((2**20).to_bytes(4, "little"), b"\1\0\0\0"), "File is not a zip"),
        (_zip(("../a.npy", GOOD), ("a", GOOD)), "'a' is not an array"),
    ],
)
def test_a_file_from_anywhere_is_refused_before_much_is_read(data, message, tmp_path):
    path = tmp_path / "r.npz"
    path.write_bytes(data)
    with pytest.raises(EvidenceError, match=message):
        read_evidence(path, max_bytes=100_000)


def test_what_is_no_file_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_evidence(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        evaluate(drawn, scripted([{}]), 1, evidence=tmp_path / "pipe")
    monkeypatch.setattr(evidence, "MAX_FILE", 10)
    (tmp_path / "r.npz").write_bytes(_zip(("a/0.npy", GOOD)))
    with pytest.raises(OSError, match="larger than the limit of 10 bytes"):
        read_evidence(tmp_path / "r.npz")


# What a result says of itself.


def test_a_result_says_what_it_was_played_with(tmp_path):
    make = {"env_name": "reach-v3", "num_goals": 50, "max_episode_steps": 5}
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", terminate_on_success=True, **make)
    still = lambda obs: np.zeros((1, 4), np.float32)  # noqa: E731
    of_two = {"name": "short", "episodes_per_task": 2, "max_episode_steps": 5}
    protocol = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    short = dataclasses.replace(protocol, **of_two)
    training = {"training_seed": 4, "training_steps": 2_000_000}
    result = evaluate(still, envs, 2, seed=3, policy_name="still", protocol=short, **training)
    result.save(tmp_path / "r.json")
    loaded = EvaluationResult.load(tmp_path / "r.json")
    assert loaded == result
    found = loaded.provenance
    assert found == result.provenance
    assert found.spec["id"] == "mtwrappers/MT1-v0"
    assert make.items() <= found.spec["kwargs"].items()
    assert (found.policy, found.evidence, found.episodes_per_task) == ("still", None, 2)
    assert (found.training_seed, found.training_steps) == (4, 2_000_000)
    assert found.tasks is found.max_episode_steps is None
    assert loaded.protocol == short
    packages = {"gymnasium", "metaworld", "mtwrappers", "mujoco", "numpy", "scipy", "python"}
    assert set(found.versions) == packages
    others = gymnasium.make_vec("mtwrappers/MT1-v0", **{**make, "num_goals": 4})
    assert found.goals != evaluate(still, others, 1).provenance.goals
    with pytest.raises(ValueError, match="EvaluationResult/6', got 'mtwrappers"):
        EvaluationResult.from_dict({**loaded.to_dict(), "format": "mtwrappers.EvaluationResult/2"})
    for change in (
        {"spec": "MT1"},
        {"versions": None},
        {"tasks": [1]},
        {"episodes_per_task": True},
        {"training_seed": -1},
        {"training_steps": 1.5},
    ):
        [name] = change
        with pytest.raises(ValueError, match=f"{name} of the provenance cannot be"):
            Provenance.from_dict({**found.to_dict(), **change})
    with pytest.raises(ValueError, match="expected provenance with"):
        Provenance.from_dict({"spec": None})


@pytest.mark.parametrize("name", ["training_seed", "training_steps"])
@pytest.mark.parametrize("value", [-1, 0.5, "3", True])
def test_a_training_run_is_named_by_integers_of_0_or_more(name, value):
    with pytest.raises(ValueError, match=f"{name} must be zero or a positive integer, got "):
        evaluate(drawn, scripted([{}]), 1, **{name: value})
    with pytest.raises(ValueError, match=f"{name} must be zero or a positive integer, got "):
        few_shot_evaluate(Remembers(), scripted([{}]), 1, 1, 1, **{name: value})


def test_a_few_shot_result_names_its_training_run():
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=1, max_episode_steps=2)
    found = few_shot_evaluate(
        Remembers(), envs, 1, 1, 1, training_seed=0, training_steps=np.int64(5)
    )
    envs.close()
    loaded = FewShotResult.from_dict(json.loads(json.dumps(found.to_dict()))).evaluation
    assert (loaded.provenance.training_seed, loaded.provenance.training_steps) == (0, 5)


def test_a_wrapper_that_changes_rewards_leaves_no_spec_and_one_of_observations_does():
    class Half(VectorRewardWrapper):
        def rewards(self, rewards):
            return rewards / 2

    made = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=2)
    still = lambda obs: np.zeros((2, 2))  # noqa: E731
    assert evaluate(still, Half(made), 1).provenance.spec is None
    normalised = VectorNormalizeObservationPerTask(made)
    assert evaluate(still, normalised, 1).provenance.spec["kwargs"]["num_envs"] == 2


def test_an_episode_says_how_many_steps_its_first_success_took():
    tasks = [{"success_at": 2, "name": "a"}, {"name": "b"}, {"key": None, "name": "c"}]
    result = evaluate(drawn, scripted(tasks), 2)
    assert [episode.steps_to_success for episode in result.episodes] == [2, 2, *[None] * 4]
