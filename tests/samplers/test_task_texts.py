"""Policies that take the names and the sentences of tasks are given those of each episode."""

from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers.vector import TransformReward

import mtwrappers as mt
from mtwrappers.vector.make import make_executor
from tests.evaluation.fakes import ScriptedEnv, drawn, ones
from tests.fakes import equal
from tests.samplers.fakes import ReadEnv, evaluated, read_envs, reads
from tests.vector.fakes import all_modes


class Reader:
    """`get_actions` of what the sentences say, which are kept beside the actions."""

    def get_actions(self, observations, task_names, descriptions):
        assert {type(name) for name in task_names.flat} == {str}
        actions = np.stack(list(map(reads, observations, descriptions)))
        return actions, {"names": task_names, "descriptions": descriptions}


def reads_of_a(observations, task_names, descriptions):
    """Pays what the sentences of task "a" say, and nothing in others."""
    return reads(observations, descriptions) * (task_names == "a")[:, None]


@all_modes
@pytest.mark.parametrize("way", [{}, {"workers": 2}], ids=str)
@pytest.mark.slow_but("SameStep")
def test_each_episode_is_described_by_its_own_sentence_and_the_name_of_its_task(mode, way):
    """`drawn` pays what the observation says, `reads` what the sentence says."""
    expected = evaluated(drawn)
    assert len({episode.episode_return for episode in expected.episodes}) == 14
    assert {episode.length for episode in expected.episodes} == {2, 3, 5}  # so they end out of step
    assert evaluated(Reader(), autoreset_mode=mode, **way) == expected
    of_a = evaluated(reads_of_a, autoreset_mode=mode, **way)
    assert of_a.of_task("a") == expected.of_task("a")
    assert [episode.episode_return for episode in of_a.of_task("b")] == [0.0] * 7


def test_below_a_wrapper_of_all_environments_the_sentences_are_those_of_the_episodes():
    with closing(read_envs()) as envs:
        assert mt.evaluate(reads, TransformReward(envs, lambda r: r), 7) == evaluated(drawn)


def test_environments_that_report_no_names_have_those_of_their_groups():
    seen = []

    def notes(observations, task_names):
        seen.append(task_names.tolist())
        return ones(observations)

    make = partial(gymnasium.make_vec, "mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=2)
    with closing(make()) as envs:
        mt.evaluate(notes, envs, 1, tasks=["task 1"])
    assert seen == [["", "task 1"]] * 2  # the first runs no episode
    makers = [partial(ScriptedEnv, [2])] * 3
    seen.clear()
    with closing(mt.MetaSampler(makers[0], notes, 2, 3, 9, 2, seed=0)) as sampler:
        sampler.obtain_samples()
    assert seen[0] == ["task 0", "task 0", "task 1", "task 1", "task 2", "task 2"]


def sampled(workers=None, rounds=2, **way):
    executor = {} if workers is None else {"workers": workers, "execution": "parallel"}
    make = partial(ReadEnv, (2, 5, 3))
    sampler = mt.MetaSampler(make, Reader(), 5, 2, 99, 2, seed=3, **way, **executor)
    with closing(sampler):
        return [sampler.obtain_samples() for _ in range(rounds)]


@pytest.mark.parametrize("way", [{}, {"workers": 2}], ids=str)
@pytest.mark.slow_but("SameStep")
def test_samplers_give_the_texts_of_the_episode_that_the_row_is_in(way):
    rounds = sampled(**way)
    paths = [path for by_task in rounds for task_paths in by_task.values() for path in task_paths]
    assert len(paths) == 20
    for path in paths:
        infos, draw = path["agent_infos"], int(path["observations"][0, 2])
        n = len(path["rewards"])
        assert infos["names"].tolist() == [f"task {draw % 3}"] * n
        assert infos["descriptions"].tolist() == [f"move {draw / 2**31!r}"] * n
    assert {path["agent_infos"]["names"][0] for path in paths} == {"task 0", "task 1", "task 2"}
    assert equal(rounds, sampled())


class Numbers(ReadEnv):
    task_description = 3


NONE = (
    "the policy takes descriptions, and this environment has none: it has no attribute "
    r"task_description\. Give each environment an attribute task_description, a string that is "
    "read when an episode begins, or let the policy take task_names instead"
)


@pytest.mark.parametrize(
    ("second", "workers", "error", "message"),
    [
        (ScriptedEnv, None, ValueError, rf"environment 2, task 'b': {NONE}"),
        (ScriptedEnv, 3, ValueError, rf"environment [23], task 'b': {NONE}"),
        (Numbers, None, TypeError, "environment 2, task 'b': task_description must be .*, got 3"),
    ],
)
def test_environments_without_a_sentence_are_named(second, workers, error, message):
    makers = [partial(ReadEnv, [3], name="a"), partial(second, [3], name="b")]
    execution = {} if workers is None else {"workers": workers, "execution": "parallel"}
    with closing(make_executor(makers, 2, 2, **execution)) as envs:
        with pytest.raises(error, match=message):
            mt.evaluate(reads, envs, 2)
        mt.evaluate(lambda obs, task_names: ones(obs), envs, 2)


# Meta-World.


def still(observations):
    return np.zeros((*observations.shape[:-1], 4), np.float32)


def test_meta_learning_hides_names_and_sentences_unless_they_are_asked_for():
    seen = set()

    def asks_names(observations, task_names):
        seen.update(task_names)
        return still(observations)

    def asks_sentences(observations, descriptions):
        return still(observations)

    asks_names.begin_trial = asks_sentences.begin_trial = lambda: None
    kwargs = {"env_name": "reach-v3", "max_episode_steps": 2, "num_goals": 2}
    hidden = r"the policy takes {}, but task and .* hidden here; .* pass descriptions="
    with closing(gymnasium.make_vec("mtwrappers/ML1-train-v0", **kwargs)) as envs:
        for policy, argument in ((asks_names, "task_names"), (asks_sentences, "descriptions")):
            with pytest.raises(ValueError, match=hidden.format(argument)):
                mt.few_shot_evaluate(policy, envs, 1, 1, 1)
    kwargs["descriptions"] = "metaworld"
    with closing(gymnasium.make_vec("mtwrappers/ML1-train-v0", **kwargs)) as envs:
        mt.few_shot_evaluate(asks_names, envs, 1, 1, 1)
    assert seen == {"reach-v3"}
