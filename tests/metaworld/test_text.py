"""Tasks in words, by the names of their classes."""

import pytest
from gymnasium.envs.registration import EnvSpec

from mtwrappers.metaworld.text import DESCRIPTIONS
from mtwrappers.metaworld.upstream import all_classes
from tests.metaworld.fakes import PAIR, make, make_vec


def test_the_sentences_are_meta_worlds_and_those_of_lerobot_061():
    for sentences in DESCRIPTIONS.values():
        assert set(sentences) == set(all_classes())
    ours, theirs = DESCRIPTIONS["metaworld"], DESCRIPTIONS["lerobot-0.6.1"]
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
    with make_vec("CustomMT", **kwargs, descriptions="lerobot-0.6.1") as envs:
        assert envs.get_attr("task") == ("push-back-v3", "reach-v3")
        sentences = envs.call("task_description")
        assert sentences == ("Push the puck to a goal", "Reach a goal position")


def test_hidden_tasks_have_sentences_only_on_request():
    env = make("ML1-train", num_goals=1)
    for name in ("task", "task_description"):
        with pytest.raises(
            AttributeError, match=r"pass descriptions='metaworld', 'lerobot-0\.6\.1' or"
        ):
            getattr(env.unwrapped, name)
        assert not env.has_wrapper_attr(name)
    env = make("ML1-train", num_goals=1, descriptions="metaworld")
    assert env.get_wrapper_attr("task_description") == "Reach a goal position"


def test_a_table_gives_each_class_its_sentence_and_is_in_the_spec():
    table = {"reach-v3": "Reach it", "push-v3": "Push it"}
    kwargs = {"train_classes": PAIR, "num_goals": 2, "descriptions": table}
    env = make("CustomMT", **kwargs)
    with make_vec("CustomMT", **kwargs) as envs:
        for spec in (env.spec, envs.spec):
            assert spec.kwargs["descriptions"] == table
        assert EnvSpec.from_json(env.spec.to_json()).kwargs == env.spec.kwargs
        assert envs.call("task_description") == ("Reach it", "Push it")
