"""Few-shot results prove themselves: the actions of all their episodes are kept and replayed."""

import dataclasses
import json
import math
import re
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor, few_shot_evaluate, protocols
from mtwrappers.cli import main
from mtwrappers.evaluation import FewShotResult, VerificationError, verify
from mtwrappers.evaluation.evidence import read_evidence
from tests.evaluation.test_few_shot import GoalEnv, Learner, goal_envs

ID = "mtwrappers/CustomML-test-v0"
SETTINGS = {
    "test_classes": ["pick-place-v3", "door-open-v3"],
    "num_goals": 4,
    "max_episode_steps": 6,
}


class Remembers:
    """Random actions, other ones in every step since the trial began."""

    def begin_trial(self):
        self.steps = 0

    def __call__(self, observations):
        self.steps += 1
        rng = np.random.default_rng(self.steps)
        return rng.uniform(-1, 1, (len(observations), 4)).astype(np.float32)


class Adapts(Remembers):
    """The same, and other ones after it has adapted."""

    def adapt(self, paths):
        self.steps += 1000


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A directory with a true result of two trials of two classes, and its evidence."""
    where = tmp_path_factory.mktemp("few_shot")
    with closing(gymnasium.make_vec(ID, **SETTINGS)) as envs:
        result = few_shot_evaluate(
            Adapts(), envs, 2, 2, 1, seed=5, evidence=where / "r.npz", policy_name="a"
        )
    result.save(where / "r.json")
    return where


@pytest.mark.parametrize("settings", [{}, {"workers": 2, "fast": False}, {"sample": 0.1}])
@pytest.mark.slow_but("settings0", "settings2")
def test_a_true_result_is_confirmed(settings, played):
    found = verify(played / "r.json", **settings)
    n = 3 if "sample" in settings else 6
    assert found.ok
    assert found.same == found.replayed == {"pick-place-v3": n, "door-open-v3": n}
    assert found.result == FewShotResult.load(played / "r.json")
    assert found.score == found.result.evaluation
    assert "chosen        seed=5, trials=2, adaptation_episodes=2, evaluation_episodes=1" in str(
        found
    )


@pytest.mark.parametrize("policy", [Remembers(), Adapts()])
@pytest.mark.slow
def test_environments_that_share_a_trial_are_made_again_as_they_were(policy, tmp_path):
    with closing(gymnasium.make_vec(ID, envs_per_task=2, **SETTINGS)) as envs:
        steps = 2 if isinstance(policy, Adapts) else 1
        settings = {"adaptation_steps": steps, "evidence": tmp_path / "r.npz"}
        few_shot_evaluate(policy, envs, 2, 3, 2, **settings).save(tmp_path / "r.json")
    assert verify(tmp_path / "r.json", workers=2).ok


@pytest.mark.slow
def test_a_protocol_is_verified_and_the_command_says_so(tmp_path, capsys):
    short = dataclasses.replace(
        protocols["metaworld-3.1-ml"],
        **{"name": "short", "num_goals": 2, "meta_batch_size": 5, "trials": 2},
        **{"adaptation_episodes": 1, "episodes_per_task": 1, "max_episode_steps": 4},
    )
    result = short.evaluate(Remembers(), evidence=tmp_path / "r.npz", policy_name="mine")
    result.save(tmp_path / "r.json")
    assert main(["verify", str(tmp_path / "r.json"), "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert "protocol      short (" in said
    assert "replayed      20 of 20 episodes\n" in said
    assert "verified:\nmean over tasks   0.000  0.000 to " in said
    result.save(tmp_path / "other.json")
    data = json.loads((tmp_path / "other.json").read_text())
    data["evaluation"]["provenance"]["policy"] = "theirs"
    (tmp_path / "other.json").write_text(json.dumps(data))
    both = [str(tmp_path / name) for name in ("r.json", "other.json")]
    assert main(["compare", *both]) == 0
    said, warned = capsys.readouterr()
    assert f"{both[0]} and {both[1]} have the same actions" in " ".join((said + warned).split())
    assert "B: theirs (1 run)" in said
    assert "95% intervals over trials" in said


def test_what_is_finished_is_not_played_again(tmp_path):
    class Fails(Learner):
        def adapt(self, paths):
            super().adapt(paths)
            if self.log.count("begin") == 3:
                raise KeyboardInterrupt

    path = tmp_path / "r.npz"
    whole = few_shot_evaluate(Learner(2), goal_envs(), 3, 2, 1, evidence=tmp_path / "whole.npz")
    with pytest.raises(KeyboardInterrupt):
        few_shot_evaluate(Fails(2), goal_envs(), 3, 2, 1, evidence=path)
    assert len(read_evidence(path)) == 16  # two trials of two tasks, and the third's adaptation
    done = [one for one in whole.episodes if one.trial < 4]
    learner = Learner(2)
    result = few_shot_evaluate(learner, goal_envs(), 3, 2, 1, finished=done, evidence=path)
    assert result == whole
    assert learner.log.count("begin") == 1
    assert result.evaluation.provenance == whole.evaluation.provenance
    with pytest.raises(ValueError, match="finished must be episodes of this evaluation, got"):
        few_shot_evaluate(learner, goal_envs(), 1, 2, 1, finished=done)


def test_tasks_that_are_given_are_in_the_result_or_refused(tmp_path):
    given = {"tasks": [[0.25, 0.5]], "evidence": tmp_path / "r.npz"}
    few_shot_evaluate(Learner(2), goal_envs(), 1, 1, 1, **given).save(tmp_path / "r.json")
    assert FewShotResult.load(tmp_path / "r.json").trials.tasks == ((0.25, 0.5),)
    assert verify(tmp_path / "r.json", envs=goal_envs()).ok
    given["tasks"] = [["a", "b"]]
    with pytest.raises(TypeError, match=r"tasks must be numbers .*; got \[\['a', 'b'\]\]"):
        few_shot_evaluate(Learner(2), goal_envs(), 1, 1, 1, **given)


def episodes(part, change):
    """Changes the episodes of a part of a result."""

    def changed(data):
        change(data[part]["episodes"])

    return changed


def trials(**fields):
    """Says something else of the trials."""
    return lambda data: data["trials"].update(fields)


def goal(data):
    """Exchanges the goals of two trials of a class."""
    every = [*data["adaptation"]["episodes"], *data["evaluation"]["episodes"]]
    [first, second] = {one["trial"]: one["task_state"] for one in every if one["trial"] in (0, 2)}
    states = {one["trial"]: one["task_state"] for one in every}
    for one in every:
        if one["trial"] in (first, second):
            one["task_state"] = states[second if one["trial"] == first else first]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            episodes("evaluation", list.pop),
            "it has 11 of 12 episodes: door-open-v3, trial 3, episode 2",
        ),
        (trials(trials=10**6), "it has 12 of 6,000,000 episodes"),
        (
            trials(trials=1),
            "pick-place-v3, trial 2, episode 0|pick-place-v3, episode 0 is not planned",
        ),
        (trials(adaptation_episodes=0), "is not a result: trials cannot be"),
        (trials(tasks=[[0, "x"]]), "is not a result: tasks of trials must be numbers"),
        (lambda data: data.update(trials=None), "does not say how its trials were run"),
        (
            lambda data: data["evaluation"]["provenance"].update(episodes_per_task=7),
            "its provenance and its trials do not go together",
        ),
        (
            lambda data: data["adaptation"].update(seed=6),
            "its adaptation and its evaluation have another seed",
        ),
        (
            lambda data: data["adaptation"].update(note="a note that nothing would print"),
            "its adaptation has a note, authors or a normalization of its own",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(change, message, played, tmp_path):
    path = falsified(played, tmp_path, change)
    evidence = dict(read_evidence(played / "r.npz"))
    if "11 of 12" in message:
        del evidence["door-open-v3/3/2"]
    np.savez(tmp_path / "r.npz", **evidence)
    with pytest.raises(VerificationError, match=message):
        verify(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            episodes("adaptation", lambda own: own[1].update(episode_return=math.pi)),
            "pick-place-v3, trial 0, episode 1: episode_return is .* in the replay, 3.14",
        ),
        (
            episodes("evaluation", lambda own: own[1].update(success_once=True)),
            "door-open-v3, trial 1, episode 2: success_once is False in the replay, True",
        ),
        (goal, "pick-place-v3, trial 0, episode 0: task_state is "),
        (
            lambda data: [data[part].update(seed=6) for part in ("adaptation", "evaluation")],
            r"door-open-v3, trial \d, episode \d: ",
        ),
    ],
)
def test_what_the_replay_gives_otherwise_is_named(change, message, played, tmp_path):
    found = verify(falsified(played, tmp_path, change), played / "r.npz")
    assert not found.ok
    assert re.match(message, found.difference)


def test_a_changed_action_of_adaptation_is_found(played, tmp_path):
    actions = dict(read_evidence(played / "r.npz"))
    nudged = actions["door-open-v3/1/0"].copy()
    nudged[3, 0] *= 0.99
    np.savez(tmp_path / "r.npz", **{**actions, "door-open-v3/1/0": nudged})
    found = verify(played / "r.json", tmp_path / "r.npz")
    assert found.difference.startswith("door-open-v3, trial 1, episode 0: episode_return is ")


def falsified(played, where, change):
    """A changed copy of the result, whose numbers follow from its episodes."""
    data = json.loads((played / "r.json").read_text())
    change(data)
    try:
        FewShotResult.from_dict(data).save(where / "r.json")
    except ValueError:  # which is to be found out from the file
        (where / "r.json").write_text(json.dumps(data))
    return where / "r.json"


def test_wrapped_constructors_with_one_name_share_no_evidence(tmp_path):
    """Two groups of one name are distinguished by their trials."""
    envs = MetaIterativeEnvExecutor([partial(GoalEnv, 2, "same")] * 2, 2)
    few_shot_evaluate(Learner(2), envs, 2, 1, 1, evidence=tmp_path / "r.npz")
    assert len(read_evidence(tmp_path / "r.npz")) == 8
