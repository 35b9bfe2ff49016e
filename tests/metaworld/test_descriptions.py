"""Tasks in words, by the names of their classes."""

import json

import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.metaworld import MetaWorldMTEnv
from mtwrappers.metaworld.descriptions import DESCRIPTIONS, as_data
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

TABLE = {"reach-v3": ["Reach it", "Go there.", "Move to the ball"], "push-v3": "Push it"}
OWN = {"train_classes": PAIR, "num_goals": 2, "descriptions": TABLE}


def drawn(seed, count, several=3):
    """The paraphrases of the first episodes after a seed."""
    stream = Generator(PCG64(SeedSequence(seed, spawn_key=(4,))))
    return [int(stream.integers(several)) for _ in range(count)]


def test_a_table_is_data_wherever_it_comes_from(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(TABLE))
    given = {"reach-v3": tuple(TABLE["reach-v3"]), "push-v3": ["Push it"]}
    for one in (path, str(path), given, TABLE):
        assert as_data(one) == TABLE
    assert as_data("metaworld") == "metaworld"
    assert as_data(None) is None
    env = make("CustomMT", **{**OWN, "descriptions": str(path)})
    with make_vec("CustomMT", **{**OWN, "descriptions": str(path)}) as envs:
        path.unlink()  # what was read stays
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
        ("lerobot", "descriptions must be 'metaworld', 'lerobot-0.6.1', the path of .* 'lerobot'"),
        ({}, r"or a table with sentences for each class, got \{\}"),
        (7, "got 7"),
        ({"reach-v9": "x"}, r"such as 'reach-v3', got one of 'reach-v9' \(did you mean 'reach-v3'"),
        ({3: "x"}, "got one of '3'"),
        ({"reach-v3": "x"}, r"must have each of the 2 classes, but lack \['push-v3'\]"),
        ({**TABLE, "push-v3": []}, r"of 'push-v3' must be .* list of 1 to 200, got 0 of them"),
        ({**TABLE, "push-v3": ["a"] * 201}, "got 201 of them"),
        ({**TABLE, "push-v3": None}, "list of 1 to 200, got None"),
        ({**TABLE, "push-v3": ["Push", 3]}, "of 'push-v3' must be sentences, got 3"),
        ({**TABLE, "push-v3": "  "}, r"1 to 500 printable characters, got '  ' \(2 characters\)"),
        ({**TABLE, "push-v3": "a\n"}, r"printable characters, got 'a\\n' \(2 characters\)"),
        ({**TABLE, "push-v3": "x" * 501}, r"\(501 characters\)"),
        ({**TABLE, "push-v3": ["a", "b", "a"]}, "of 'push-v3' must differ from each other, got 'a"),
    ],
)
def test_tables_that_lack_something_are_refused_by_name(table, message):
    with pytest.raises(ValueError, match=message):
        make("CustomMT", **{**OWN, "descriptions": table})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", r"the descriptions in .*mine.json must be a table by class, got \[1\]"),
        ("{", "must be a table in JSON: "),
        ('{"reach-v3": "a", "reach-v3": "b"}', "has the key 'reach-v3' twice"),
        ('{"reach-v3": []}', "the descriptions in .*mine.json of 'reach-v3' must be"),
    ],
)
def test_files_that_are_no_table_are_refused_by_name(text, message, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        make("MT1", descriptions=str(path))
    with pytest.raises(FileNotFoundError, match=r"other\.json"):
        make("MT1", descriptions=str(tmp_path / "other.json"))


def test_each_episode_draws_a_paraphrase_that_follows_from_the_seed():
    env = MetaWorldMTEnv("CustomMT", **OWN, task_states=[0, 1])
    assert env.task_description == "Reach it"  # the first, until a reset draws
    for seed in (0, 7):
        found = [env.reset(seed=seed)[1]["paraphrase"]]
        found += [env.reset()[1]["paraphrase"] for _ in range(5)]
        assert found == drawn(seed, 6)
        assert env.task_description == TABLE["reach-v3"][found[-1]]
        info = env.step(np.zeros(4, np.float32))[4]
        assert info["paraphrase"] == found[-1]
    env.set_task_state(0)
    assert env.task_description == "Reach it"


def test_paraphrases_are_equal_for_any_number_of_workers():
    found = []
    for workers in (1, 2):
        with make_vec("CustomMT", 4, **OWN, workers=workers) as envs:
            infos = [envs.reset(seed=3)[1]] + [envs.reset()[1] for _ in range(3)]
            found.append(np.stack([info["paraphrase"] for info in infos]).T.tolist())
            assert envs.get_attr("task_description")[2:] == ("Push it", "Push it")
    assert found[0] == found[1] == [drawn(3, 4), drawn(4, 4), [0] * 4, [0] * 4]


def test_paraphrases_change_nothing_else():
    made = {"train_classes": PAIR, "goals": "continuous"}
    plain, other = (
        MetaWorldMTEnv("CustomMT", **made),
        MetaWorldMTEnv("CustomMT", **made, descriptions=TABLE),
    )
    for seed in (5, None, None):
        (obs, info), (obs2, info2) = plain.reset(seed=seed), other.reset(seed=seed)
        assert obs["env_obs"].tolist() == obs2["env_obs"].tolist()
        assert info2.pop("paraphrase") >= 0
        assert info == info2
    state, without = other.get_state(), plain.get_state()
    assert state.pop("sentence_stream")["bit_generator"] == "PCG64"
    assert state["tasks"].pop("descriptions")
    assert repr(state) == repr(without)


def test_the_state_carries_the_stream_of_paraphrases():
    env, again = (MetaWorldMTEnv("CustomMT", **OWN, task_states=[0, 1]) for _ in range(2))
    env.reset(seed=2)
    env.reset()
    again.set_state(json.loads(json.dumps(env.get_state())))
    later = [env.reset()[1]["paraphrase"] for _ in range(4)]
    assert later == drawn(2, 6)[2:]
    assert [again.reset()[1]["paraphrase"] for _ in range(4)] == later
    other = MetaWorldMTEnv("CustomMT", **{**OWN, "descriptions": {**TABLE, "push-v3": "x"}})
    with pytest.raises(ValueError, match="expected the state of an environment on the tasks"):
        other.set_state(env.get_state())
    env.keeps_selection = again.keeps_selection = True  # in an evaluation, whose worker is killed
    env.reset(seed=2)
    assert json.dumps(env.get_state()).count("PCG64") == 4
    again.set_state(json.loads(json.dumps(env.get_state())))
    for one in (env, again):
        assert [one.reset()[1]["paraphrase"] for _ in range(5)] == drawn(2, 6)[1:]
        one.keeps_selection = False
        assert [one.reset()[1]["paraphrase"] for _ in range(4)] == drawn(2, 10)[6:]
    state = env.get_state()
    state["sentence_stream"] = 3
    with pytest.raises(TypeError, match="expected the state of a generator, got 3"):
        again.set_state(state)
