"""Tasks in words, by the names of their classes."""

import pytest

from mtwrappers.metaworld.descriptions import DESCRIPTIONS
from mtwrappers.metaworld.upstream import all_classes
from tests.metaworld.fakes import make, make_vec


def test_every_class_has_a_sentence():
    for sentences in DESCRIPTIONS.values():
        assert set(sentences) == set(all_classes())
        assert not any(sentence.endswith(".") for sentence in sentences.values())


def test_the_sentences_are_meta_worlds_and_those_of_lerobot_061():
    ours, theirs = DESCRIPTIONS["metaworld"], DESCRIPTIONS["lerobot"]
    assert len(set(ours.values())) == 50
    assert {name: theirs[name] for name in theirs if theirs[name] != ours[name]} == {
        "disassemble-v3": "Pick a nut out of a peg",
        "push-back-v3": "Push the puck to a goal",  # as of push-v3
    }


def test_the_sentence_is_that_of_the_present_class():
    kwargs = {"train_classes": ["push-back-v3", "reach-v3"], "num_goals": 2}
    env = make("CustomMT", **kwargs)
    for task_state, name, sentence in (
        (0, "push-back-v3", "Pull a puck to a goal"),
        (3, "reach-v3", "Reach a goal position"),
    ):
        _, info = env.reset(options={"task_state": task_state})
        assert info["task_name"] == env.get_wrapper_attr("task") == name
        assert env.get_wrapper_attr("task_description") == sentence
    with make_vec("CustomMT", **kwargs, descriptions="lerobot") as envs:
        assert envs.get_attr("task") == ("push-back-v3", "reach-v3")
        first, second = envs.call("task_description")
        assert first == "Push the puck to a goal"
        assert second == "Reach a goal position"
        assert envs.get_attr("_max_episode_steps") == (500, 500)


def test_hidden_tasks_have_sentences_only_on_request():
    env = make("ML1-train", num_goals=1)
    for name in ("task", "task_description"):
        with pytest.raises(AttributeError, match="pass descriptions='metaworld' or 'lerobot'"):
            getattr(env.unwrapped, name)
        assert not env.has_wrapper_attr(name)
    env = make("ML1-train", num_goals=1, descriptions="metaworld")
    assert env.get_wrapper_attr("task_description") == "Reach a goal position"


def test_others_sentences_are_refused():
    with pytest.raises(
        ValueError, match="descriptions must be 'metaworld', 'lerobot' or None, got"
    ):
        make("MT1", descriptions="mine")
