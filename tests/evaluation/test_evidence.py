"""Evidence: the actions of episodes in a file, and the evaluation that goes on from it."""

import contextlib
import io
import os
import zipfile
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.vector import VectorObservationWrapper, VectorRewardWrapper
from gymnasium.wrappers import vector as vector_wrappers

from mtwrappers import (
    ActionChunks,
    VectorNormalizeObservationPerTask,
    evaluate,
    few_shot_evaluate,
    protocols,
)
from mtwrappers.evaluation import EvidenceError, Observer, evidence, result_files, save_results
from mtwrappers.evaluation.evidence import read_evidence
from tests.evaluation.fakes import drawn, ones, scripted
from tests.vector.fakes import all_modes

SHORT = [{"name": "a", "lengths": (3, 5)}, {"name": "b", "lengths": (30,)}]
TASKS = [{"name": "a", "lengths": (3, 5)}, {"name": "b", "lengths": (600,)}]


class Follows(Observer):
    """Keeps all that it is called with, asks the environments, and interrupts after a while."""

    def __init__(self, envs=None, stop=None):
        self.envs, self.stop = envs, stop
        self.log, self.episodes = [], []

    def plan(self, episodes):
        self.log.append([(planned.task, planned.number) for planned in episodes])

    def begin(self, i, planned):
        if self.envs is not None:
            steps = self.envs.call_some([i], "steps")[0]
            self.log.append((i, planned.task, planned.number, steps))

    def step(self, step):
        self.log.append(step.finished.tolist())
        if self.stop is not None and len(self.episodes) >= self.stop:
            raise KeyboardInterrupt

    def end(self, i, episode):
        self.log.append((i, episode.number, episode.length))
        self.episodes.append(episode)

    def close(self):
        self.log.append("closed")


# Observers.


@all_modes
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.slow_but("0", "2-SameStep")
def test_observers_follow_every_episode_while_the_environments_can_be_asked(mode, workers):
    tasks = [{"lengths": [1], "name": "a"}, {"lengths": [2], "name": "b"}]
    envs = scripted(tasks, 1, workers, autoreset_mode=mode)
    observer = Follows(envs)
    result = evaluate(ones, envs, 2, observers=[observer])
    envs.close()
    assert observer.log == [
        [("a", 0), ("a", 1), ("b", 0), ("b", 1)],
        (0, "a", 0, 0),
        (1, "b", 0, 0),
        [True, False],
        (0, 0, 1),
        (0, "a", 1, 0),
        [True, True],
        (0, 1, 1),
        (1, 0, 2),
        (1, "b", 1, 0),
        [False, False],  # the first one pauses
        [False, True],
        (1, 1, 2),
        "closed",
    ]
    assert sorted(observer.episodes, key=lambda e: e.task) == list(result.episodes)


# The actions.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_episode_has_the_actions_that_its_environment_got(dtype, tmp_path):
    def policy(observations):
        return drawn(observations).astype(dtype)

    path = tmp_path / "r.npz"
    envs = scripted(TASKS, k=2, workers=2)
    result = evaluate(policy, envs, 3, evidence=path)
    envs.close()
    recorded = read_evidence(path)
    assert list(recorded) == ["a/0", "a/1", "a/2", "b/0", "b/1", "b/2"]
    assert [name for name in np.load(path) if not name.endswith("json")] == list(recorded)
    for episode in result.episodes:
        actions = recorded[f"{episode.task}/{episode.number}"]
        assert actions.dtype == dtype
        assert actions.shape == (episode.length, 2)
        # The reward is the action's first number.
        paid = 0.0
        for action in actions:
            paid += float(action[0])
        assert paid == episode.episode_return
    assert evidence.digest(recorded) == result.evidence


def test_actions_that_change_their_dtype_are_refused(tmp_path):
    def policy(observations):
        late = observations[0, 0] > 1
        return np.zeros((1, 2), np.float64 if late else np.float32)

    with pytest.raises(ValueError, match="keep their dtype, got float32 and then float64"):
        evaluate(policy, scripted([{}]), 1, evidence=tmp_path / "r.npz")
    assert os.listdir(tmp_path) == []  # no episode had ended


# Interruptions.


def resumed(taken, planned):
    """Expects the warning that episodes are taken from a file, unless there are none."""
    message = f"{taken} of {planned} episodes are taken from .*npz, and the policy is not called"
    return pytest.warns(UserWarning, match=message) if taken else contextlib.nullcontext()


class Named:
    """Pays ``reward`` a step, under a name."""

    def __init__(self, policy_id, reward):
        self.policy_id, self.reward = policy_id, reward

    def __call__(self, observations):
        return np.full((len(observations), 2), self.reward)


def test_episodes_of_another_policy_are_not_taken_in_silence(tmp_path):
    arguments = {"episodes_per_task": 2, "evidence": tmp_path / "r.npz", "resume": True}
    first = evaluate(Named(None, 0.5), scripted(SHORT), **arguments)
    with resumed(4, 4) as caught:
        assert evaluate(Named(None, 0.0), scripted(SHORT), **arguments) == first
    assert "they are of whichever policy ran before" in str(caught[0].message)
    assert str(caught[0].message).endswith("such as policy.policy_id = 'ppo, seed 1'")
    with pytest.raises(EvidenceError, match="it was begun with policy_id None, got 'b'"):
        evaluate(Named("b", 0.0), scripted(SHORT), **arguments)
    assert ActionChunks(Named("b", 0.0), 1).policy_id == "b"
    (tmp_path / "r.npz").unlink()
    evaluate(Named("a", 0.5), scripted(SHORT), **arguments)
    for name in ("b", None):
        message = f"it was begun with policy_id 'a', got {name!r}"
        with pytest.raises(EvidenceError, match=message):
            evaluate(Named(name, 0.0), scripted(SHORT), **arguments)
    with resumed(4, 4) as caught:
        evaluate(Named("a", 0.5), scripted(SHORT), **arguments)
    assert str(caught[0].message).endswith("not called for them")
    with pytest.raises(TypeError, match="policy_id must be a string, got 3"):
        evaluate(Named(3, 0.5), scripted(SHORT), **arguments)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("stop", [0, 1, 5, 8])
def test_an_interrupted_evaluation_goes_on_to_the_same_bytes(stop, k, tmp_path):
    complete = evaluate(drawn, scripted(SHORT, k), 4, evidence=tmp_path / "whole.npz")
    path = tmp_path / "r.npz"
    envs, stops = scripted(SHORT, k), Follows(stop=stop)
    if stop < 8:
        with pytest.raises(KeyboardInterrupt):
            evaluate(drawn, envs, 4, observers=[stops], evidence=path)
        assert stops.log[-1] == "closed"
    else:
        evaluate(drawn, envs, 4, observers=[stops], evidence=path)
    done = len(read_evidence(path)) if path.exists() else 0
    assert stop <= done <= stop + k - 1
    observer = Follows()
    with resumed(done, 8):
        result = evaluate(drawn, envs, 4, observers=[observer], evidence=path, resume=True)
    assert len(observer.episodes) == len(observer.log[0]) == 8 - done
    assert result == complete
    assert result.evidence == complete.evidence
    assert path.read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["r.npz", "whole.npz"]


class Adapts:
    """Draws other actions after it has adapted, and interrupts before a trial."""

    def __init__(self, stop=None):
        self.stop, self.trials = stop, 0

    def begin_trial(self):
        if self.trials == self.stop:
            raise KeyboardInterrupt
        self.trials, self.scale = self.trials + 1, 0.1

    def adapt(self, paths):
        self.scale /= 2

    def __call__(self, observations, rng):
        return np.array([generator.uniform(-self.scale, self.scale, 2) for generator in rng])


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_few_shot_evaluation_goes_on_with_the_first_trial_that_is_not_whole(stop, tmp_path):
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, max_episode_steps=6)
    kwargs = {"trials": 3, "adaptation_episodes": 2, "seed": 4}
    complete = few_shot_evaluate(Adapts(), envs, **kwargs, evidence=tmp_path / "whole.npz")
    path = tmp_path / "r.npz"
    with pytest.raises(KeyboardInterrupt):
        few_shot_evaluate(Adapts(stop), envs, **kwargs, evidence=path)
    if stop:  # in the middle of the last trial
        names = [name for name in read_evidence(path) if "/0/" not in name or stop > 1]
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        cut = names[-1]
        remaining = {name: data for name, data in members.items() if not name.startswith(cut + ".")}
        path.write_bytes(_zip(*remaining.items()))
    policy = Adapts()
    with resumed(20 * max(0, stop - 1), 60):
        assert few_shot_evaluate(policy, envs, **kwargs, evidence=path, resume=True) == complete
    assert path.read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert policy.trials == 3 - max(0, stop - 1)
    envs.close()


def test_a_file_that_a_kill_has_cut_off_has_the_whole_episodes(tmp_path):
    evaluate(drawn, scripted(SHORT), 4, evidence=tmp_path / "r.npz")
    data = (tmp_path / "r.npz").read_bytes()
    end = data.index(b"b/2.json")
    (tmp_path / "cut.npz").write_bytes(data[:end])
    assert [*read_evidence(tmp_path / "cut.npz")][-2:] == ["b/1", "b/2"]
    for cut in (data[:end], data[: end - 20]):
        (tmp_path / "cut.npz").write_bytes(cut)
        observer, arguments = Follows(), {"evidence": tmp_path / "cut.npz", "resume": True}
        with resumed(6, 8):
            evaluate(drawn, scripted(SHORT), 4, observers=[observer], **arguments)
        assert observer.log[0] == [("b", 2), ("b", 3)]
        assert (tmp_path / "cut.npz").read_bytes() == data


SMALL = {"env_name": "reach-v3", "num_goals": 4, "max_episode_steps": 3}


def still(observations):
    return np.zeros((len(observations), 4), np.float32)


@pytest.mark.parametrize(
    ("arguments", "make_kwargs", "message"),
    [
        ({"seed": 1}, {}, "seed 0, got 1"),
        ({"episodes_per_task": 3}, {}, "episodes_per_task 2, got 3"),
        ({}, {"num_goals": 3}, "num_goals 4, got 3"),
        ({}, {"goals": "continuous"}, "(num_goals|goals) "),
    ],
)
def test_what_contradicts_the_evaluation_that_is_resumed_is_refused(
    arguments, make_kwargs, message, tmp_path
):
    def run(**options):
        kwargs = {**SMALL, **make_kwargs} if "resume" in options else SMALL
        if kwargs.get("goals") == "continuous":
            del kwargs["num_goals"]
        envs = gymnasium.make_vec("mtwrappers/MT1-v0", **kwargs)
        try:
            return evaluate(
                still, envs, **{"episodes_per_task": 2, **options}, evidence=tmp_path / "r.npz"
            )
        finally:
            envs.close()

    run()
    data = (tmp_path / "r.npz").read_bytes()
    with pytest.raises(EvidenceError, match=f"it was begun with {message}"):
        run(resume=True, **arguments)
    assert (tmp_path / "r.npz").read_bytes() == data


def test_a_resumed_protocol_is_the_same_to_its_last_field(tmp_path):
    rules = protocols["metaworld-3.1"].variant(
        "mine", benchmark="MT1", env_name="reach-v3", episodes_per_task=2, max_episode_steps=3
    )
    rules.evaluate(still, evidence=tmp_path / "r.npz")
    changed = rules.variant("mine", success="last")
    with pytest.raises(EvidenceError, match="begun with success 'any', got 'last'"):
        changed.evaluate(still, evidence=tmp_path / "r.npz", resume=True)
    with pytest.raises(ValueError, match="resume=True continues from the episodes in evidence"):
        rules.evaluate(still, resume=True)


def test_evidence_of_more_environments_than_a_replay_makes_is_refused(tmp_path):
    with contextlib.closing(gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=101)) as envs:
        envs.step = lambda actions: pytest.fail("a step")
        with pytest.raises(
            ValueError, match="could not be verified: it has 101 environments for 1"
        ):
            evaluate(drawn, envs, 1, tasks=["task 0"], evidence=tmp_path / "r.npz")


# The size of a file.


@pytest.mark.parametrize(
    ("limit", "most", "steps", "unit"),
    [("MAX_FILE", 6_000, 3, "bytes, more"), ("MAX_BYTES", 750_000, 2000, "bytes of memory, more")],
)
def test_evidence_that_could_not_be_read_again_is_not_written(
    limit, most, steps, unit, tmp_path, monkeypatch
):
    monkeypatch.setattr(evidence, limit, most)
    path, tasks = tmp_path / "r.npz", [{"name": "a", "lengths": (steps,)}]
    message = rf"r.npz has the (\d+) of 50 episodes before 'a/\1', with which .* {unit} than the "
    with pytest.raises(EvidenceError, match=message + f"{most:,} that a file"):
        evaluate(drawn, scripted(tasks), 50, evidence=path)
    num_recorded = len(read_evidence(path))
    assert 5 < num_recorded < 40
    assert path.stat().st_size <= evidence.MAX_FILE
    # It can be resumed, as far as it goes.
    with resumed(num_recorded, 50), pytest.raises(EvidenceError, match=message):
        evaluate(drawn, scripted(tasks), 50, evidence=path, resume=True)
    assert len(read_evidence(path)) == num_recorded
    # So many are fine.
    evaluate(drawn, scripted(tasks), num_recorded, evidence=path)
    assert len(read_evidence(path)) == num_recorded


def test_more_episodes_than_a_file_may_have_are_refused_before_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "MAX_BYTES", 1_000_000)
    policy = lambda _: pytest.fail("it is called")  # noqa: E731
    message = r"r\.npz may have at most \d\d of these 200 episodes: evaluate some tasks at a time"
    with pytest.raises(EvidenceError, match=message):
        evaluate(policy, scripted(SHORT), 100, evidence=tmp_path / "r.npz")
    assert os.listdir(tmp_path) == []


def test_results_that_could_not_be_read_again_are_not_written(tmp_path, monkeypatch):
    result, path = evaluate(drawn, scripted(SHORT), 1), tmp_path / "r.json"
    result.save(path)
    monkeypatch.setattr(result_files, "MAX_SIZE", path.stat().st_size)
    data = path.read_bytes()
    result.save(path)
    message = r"take [\d,]+ bytes, more than the [\d,]+ that a file may have.* in several files"
    with pytest.raises(ValueError, match=message):
        save_results(path, [result] * 2)
    assert path.read_bytes() == data
    assert result.load(path) == result


# Files from anywhere.


def _zip(*members, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


GOOD = _npy(np.zeros((3, 4), np.float32))
BOMB = _zip(("a/0.npy", bytes(2**20)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\3\4" * 10, "File is not a zip file"),
        (_zip(("a/0.npy", GOOD), method=zipfile.ZIP_LZMA), "compressed by another method"),
        (_zip(("a/0.npy", GOOD.replace(b"(3, 4)", b"(9, 9)"))), "does not match its"),
        (_zip(("a/0.npy", _npy(np.full((1, 4), np.nan)))), "'a/0.npy' has actions that are NaN"),
        (BOMB, "it takes up to 1,048,576 bytes of memory, but max_bytes is 1"),
        (BOMB[:-22], "it takes up to 1,048,576 bytes of memory, but max_bytes is 1"),
        # A size that is less than what there is.
        (BOMB[:-22].replace((2**20).to_bytes(4, "little"), b"\1\0\0\0"), "File is not a zip"),
    ],
)
def test_a_file_from_anywhere_is_refused_before_much_is_read(data, message, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "MAX_BYTES", 100_000)
    (tmp_path / "r.npz").write_bytes(data)
    with pytest.raises(EvidenceError, match=message):
        read_evidence(tmp_path / "r.npz")


def test_what_is_no_journal_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(OSError, match="not a regular file"):
        read_evidence(tmp_path / "pipe.npz")
    with pytest.raises(OSError, match="not a regular file"):
        evaluate(drawn, scripted([{}]), 1, evidence=tmp_path / "pipe.npz")
    path = tmp_path / "r.npz"
    path.write_bytes(_zip(("a/0.npy", GOOD)))
    with pytest.raises(EvidenceError, match="does not begin with a header of the format"):
        evaluate(drawn, scripted([{}]), 1, evidence=path, resume=True)
    evaluate(drawn, scripted(SHORT), 1, evidence=path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for change, message in (
        ({"a/0.json": members["b/0.json"]}, "a/0 is not an episode of this evaluation"),
        ({"c/0.json": members["b/0.json"], "c/0.npy": GOOD}, "c/0 is not an episode of this"),
        ({"a/0.json": members["a/0.json"].replace(b'"length": ', b'"length": 9')}, "has 9. steps"),
        ({"a/0.json": b"{}"}, "a/0 has no 'task'"),
        ({"a/0.npy": GOOD[:9]}, "must be a plain array"),
    ):
        path.write_bytes(_zip(*{**members, **change}.items()))
        with pytest.raises(EvidenceError, match=message):
            evaluate(drawn, scripted(SHORT), 1, evidence=path, resume=True)
    monkeypatch.setattr(evidence, "MAX_FILE", 10)
    with pytest.raises(OSError, match="larger than the limit of 10 bytes"):
        read_evidence(path)


# What a result says of itself.


def test_a_result_says_what_it_was_measured_in():
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", **SMALL)
    result = evaluate(still, envs, 2, seed=3)
    environments = result.environments
    assert environments.id == "mtwrappers/MT1-v0"
    assert SMALL.items() <= environments.kwargs.items()
    assert (result.design.seed, result.design.episodes_per_task) == (3, 2)
    assert (result.evidence, result.protocol, result.design.tasks) == (None, None, None)
    packages = {"gymnasium", "metaworld", "mtwrappers", "mujoco", "numpy", "scipy", "python"}
    assert set(result.versions) == packages
    other_envs = gymnasium.make_vec("mtwrappers/MT1-v0", **{**SMALL, "num_goals": 3})
    assert environments.goals != evaluate(still, other_envs, 1).environments.goals


class Half(VectorRewardWrapper):
    def rewards(self, rewards):
        return rewards / 2


class Same(VectorObservationWrapper):
    def observations(self, observations):
        return observations


class Pushes(Same):
    def step(self, actions):
        return super().step(actions * 2)


class Resets(Same):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=0, options=options)


@pytest.mark.parametrize(
    ("wrap", "names"),
    [
        (Half, ["Half"]),
        (Same, None),
        (Pushes, ["Pushes"]),
        (Resets, ["Resets"]),
        (lambda envs: Half(Same(Pushes(envs))), ["Half", "Pushes"]),
        (VectorNormalizeObservationPerTask, None),
        (vector_wrappers.NormalizeObservation, None),
        (vector_wrappers.RecordEpisodeStatistics, None),
        (partial(vector_wrappers.RescaleObservation, min_obs=0.0, max_obs=1.0), None),
        (partial(vector_wrappers.ClipReward, max_reward=0.0), ["ClipReward"]),
    ],
)
@pytest.mark.filterwarnings("ignore:observations are not normalized")
def test_environments_name_the_wrappers_that_may_change_what_is_scored(wrap, names):
    envs = gymnasium.make_vec(
        "mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=2, autoreset_mode="NextStep"
    )
    result = evaluate(lambda obs: np.zeros((2, 2)), wrap(envs), 1)
    assert result.environments.kwargs.get("wrappers") == names


def test_wrappers_of_single_environments_are_named_where_a_spec_has_them():
    class Local(gymnasium.RewardWrapper):
        def reward(self, reward):
            return reward / 2

    env = wrappers.RecordEpisodeStatistics(gymnasium.make("mtwrappers/PointGoal-v0"))
    env = Local(wrappers.TransformReward(env, lambda reward: 2 * reward))
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", max_episode_steps=2)
    envs.spec = env.spec  # as of a stream, whose phases are evaluated in copies of it
    result = evaluate(lambda obs: np.zeros((1, 2)), envs, 1)
    assert result.environments.wrappers == ("Local", "TransformReward")


def test_an_episode_says_how_many_steps_its_first_success_took():
    tasks = [{"success_at": 2, "name": "a"}, {"name": "b"}, {"key": None, "name": "c"}]
    result = evaluate(drawn, scripted(tasks), 2)
    assert [episode.steps_to_success for episode in result.episodes] == [2, 2, *[None] * 4]
