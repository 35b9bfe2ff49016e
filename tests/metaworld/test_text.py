"""Tasks in words, by the names of their classes."""

import pytest
from gymnasium.envs.registration import EnvSpec

from mtwrappers.metaworld.text import DESCRIPTIONS
from mtwrappers.metaworld.upstream import all_classes
from tests.metaworld.fakes import PAIR, make, make_vec


def test_every_class_has_a_sentence():
    for sentences in DESCRIPTIONS.values():
        assert set(sentences) == set(all_classes())
        assert not any(sentence.endswith(".") for sentence in sentences.values())


def test_the_sentences_are_meta_worlds_and_those_of_lerobot_061():
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
        first, second = envs.call("task_description")
        assert first == "Push the puck to a goal"
        assert second == "Reach a goal position"
        assert envs.get_attr("_max_episode_steps") == (500, 500)


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


# Tables of one's own.

TABLE = {"reach-v3": "Reach it", "push-v3": "Push it"}
OWN = {"train_classes": PAIR, "num_goals": 2, "descriptions": TABLE}


def test_a_table_gives_each_class_its_sentence_and_is_in_the_spec():
    env = make("CustomMT", **OWN)
    with make_vec("CustomMT", **OWN) as envs:
        for spec in (env.spec, envs.spec):
            assert spec.kwargs["descriptions"] == TABLE
        assert EnvSpec.from_json(env.spec.to_json()).kwargs == env.spec.kwargs
        assert envs.call("task_description") == ("Reach it", "Push it")
    stream = make("CW10", descriptions={name: f"do {name}" for name in DESCRIPTIONS["metaworld"]})
    assert stream.spec.kwargs["descriptions"]["hammer-v3"] == "do hammer-v3"
    assert stream.get_wrapper_attr("task_description") == "do hammer-v3"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("lerobot", "descriptions must be 'metaworld', 'lerobot-0.6.1', or a table .* 'lerobot'"),
        ("mine.json", "got 'mine.json'"),
        ({}, r"or a table with a sentence for each class, got \{\}"),
        (7, "got 7"),
        ({"reach-v9": "x"}, r"such as 'reach-v3', got one of 'reach-v9' \(did you mean 'reach-v3'"),
        ({3: "x"}, "got one of '3'"),
        ({"reach-v3": "x"}, r"must have each of the 2 classes, but lack \['push-v3'\]"),
        (
            {**TABLE, "push-v3": ["a"]},
            r"of 'push-v3' must be one sentence, got \['a'\]",
        ),
        ({**TABLE, "push-v3": None}, "must be one sentence, got None"),
        ({**TABLE, "push-v3": "  "}, r"1 to 500 printable characters, got '  ' \(2 characters\)"),
        ({**TABLE, "push-v3": "a\n"}, r"printable characters, got 'a\\n' \(2 characters\)"),
        ({**TABLE, "push-v3": "x" * 501}, r"\(501 characters\)"),
    ],
)
def test_tables_that_lack_something_are_refused_by_name(table, message):
    with pytest.raises(ValueError, match=message):
        make("CustomMT", **{**OWN, "descriptions": table})
