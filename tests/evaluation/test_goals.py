"""The goals of a result's episodes, and the picture of those that fail."""

import dataclasses
import functools

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest

from mtwrappers import EvaluationResult, evaluate, few_shot_evaluate, protocols
from mtwrappers.evaluation import Design, Episode, Observer, VerificationError
from mtwrappers.evaluation.goals import Goal, find_goals

PUSH = protocols["metaworld-3.1"].on("MT1", "push-v3")
SHORT = {"env_name": "push-v3", "max_episode_steps": 2}


class Looks(Observer):
    """Notes where the object and the goal are at the start of each episode."""

    def __init__(self, envs):
        self.envs, self.seen = envs, {}

    def begin(self, i, episode):
        found = (self.envs.call_some([i], name)[0] for name in ("object_position", "goal"))
        self.seen[episode.task, episode.number] = tuple(found)


def still(observations):
    return np.zeros((len(observations), 4), np.float32)


def goals_of(result):
    return find_goals(result.scored, result.design, result.environments, result.protocol)


@pytest.mark.parametrize("kind", ["list", "continuous"])
def test_goals_are_those_that_the_episodes_were_run_on(kind):
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", goals=kind, envs_per_task=2, **SHORT)
    looks = Looks(envs)
    result = evaluate(still, envs, 4, seed=3, observers=[looks])
    envs.close()
    found = goals_of(result)
    assert len({tuple(goal.end) for goal in found}) == 4
    for episode, goal in zip(result.episodes, found, strict=True):
        start, end = looks.seen[episode.task, episode.number]
        assert (goal.end == end).all()
        assert np.abs(goal.start - start).max() < 1e-3  # a step later
    # A part of the episodes has the same goals.
    part = dataclasses.replace(result, episodes=result.episodes[2:])
    assert [tuple(goal.end) for goal in goals_of(part)] == [tuple(goal.end) for goal in found[2:]]


def test_goals_of_trials_are_those_of_their_task_states():
    envs = gymnasium.make_vec("mtwrappers/ML1-test-v0", num_envs=2, **SHORT)
    few = few_shot_evaluate(Still(), envs, 2, 1, 1)
    vectors = {}
    for one in few.scored:
        i = next(i for i, own in enumerate(envs.get_attr("task_states")) if one.task_state in own)
        envs.call_some([i], "set_task_state", one.task_state)
        vectors[one] = envs.call_some([i], "rand_vec")[0]
    envs.close()
    for one, goal in zip(few.scored, goals_of(few), strict=True):
        assert np.abs(goal.start[:2] - vectors[one][:2]).max() < 1e-3
        assert (goal.end[:2] == vectors[one][3:5]).all()


class Still:
    """Does nothing, with a memory of nothing."""

    def begin_trial(self):
        pass

    def __call__(self, observations):
        return still(observations)


@functools.cache
def origin():
    """The environments of an evaluation on push-v3."""
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", env_name="push-v3")
    found = evaluate(still, envs, 1, max_episode_steps=1).environments
    envs.close()
    return found


def made(*successes, protocol=None, **given):
    """A result on push-v3, two episodes for each of the first goals."""
    episodes = [
        Episode("push-v3", i, 0.0, 500, once, False, task_state=i // 2)
        for i, once in enumerate(successes)
    ]
    environments = dataclasses.replace(origin(), **given)
    return EvaluationResult(episodes, Design(0, 2), protocol, environments)


COLORS = {"good": (0x9C, 0xC3, 0xE6), "half": (0xE6, 0x9F, 0x00), "bad": (0xB3, 0x32, 0x1C)}


def marked(result, path):
    """The kinds of goals that a picture has marks of."""
    result.plot_goals(path, "Title")
    pixels = imageio.imread(path)[..., :3]
    return {kind for kind, own in COLORS.items() if (pixels == own).all(axis=-1).sum() > 100}


def test_a_picture_has_the_goals_that_succeed_and_those_that_fail(tmp_path):
    result = made(True, True, True, True, False, False)
    assert marked(result, tmp_path / "goals.png") == {"good", "bad"}


@pytest.mark.parametrize(
    ("successes", "protocol", "kinds"),
    [
        ((True, True), None, {"good"}),
        ((True, False), None, {"half"}),
        ((False, False), None, {"bad"}),
        # Of success at the last step, which these do not have.
        ((True, True), dataclasses.replace(PUSH, name="mine", success="last"), {"bad"}),
    ],
)
def test_a_goal_is_marked_by_its_success(successes, protocol, kinds, tmp_path, monkeypatch):
    one = Goal(np.zeros(3), np.ones(3))
    monkeypatch.setattr("mtwrappers.evaluation.result.find_goals", lambda of, *_: [one] * len(of))
    assert marked(made(*successes, protocol=protocol), tmp_path / "goals.png") == kinds


def test_the_window_of_window_close_starts_open():
    """Its first observation after a reset has the handle where it was before."""
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", env_name="window-close-v3", max_episode_steps=1)
    [goal] = goals_of(evaluate(still, envs, 1))
    envs.close()
    assert goal.start[0] - goal.end[0] == pytest.approx(0.21, abs=1e-3)


def test_a_picture_of_goals_needs_a_result_of_meta_world_with_its_goals(tmp_path):
    path = tmp_path / "goals.png"
    result = made(True, True)
    with pytest.raises(ValueError, match="this one names no environments"):
        dataclasses.replace(result, environments=None).plot_goals(path)
    silent = [
        dataclasses.replace(one, success_once=None, success_final=None) for one in result.episodes
    ]
    with pytest.raises(ValueError, match="this one does not record success"):
        dataclasses.replace(result, episodes=silent).plot_goals(path)
    with pytest.raises(VerificationError, match="its goals are not those of its environments"):
        made(True, True, goals="ab").plot_goals(path)
    elsewhere = dataclasses.replace(result.episodes[0], task_state=99)
    with pytest.raises(VerificationError, match="have no goal 99 of push-v3"):
        dataclasses.replace(result, episodes=[elsewhere]).plot_goals(path)
    continuous = {**origin().kwargs, "goals": "continuous"}
    of_trial = [dataclasses.replace(one, trial=0) for one in result.episodes]
    few = Design(0, 1, trials=2, adaptation_episodes=1, adaptation_steps=1)
    with pytest.raises(VerificationError, match="continuous goals of few-shot trials"):
        dataclasses.replace(
            made(True, True, kwargs=continuous), episodes=of_trial, design=few
        ).plot_goals(path)
    with pytest.raises(VerificationError, match="its environments are not Meta-World's"):
        made(True, True, id="mtwrappers/PointGoal-v0", kwargs={"num_envs": 1}).plot_goals(path)
    assert not path.exists()
