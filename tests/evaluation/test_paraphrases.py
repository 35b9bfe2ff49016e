"""Scores with sentences of one's own: protocols fix the table, results name what was read."""

import dataclasses
import json
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorWrapper

from mtwrappers import evaluate, few_shot_evaluate, protocols
from mtwrappers.cli.protocols import FIELDS
from mtwrappers.evaluation import Episode, EvaluationResult, VerificationError, verify
from mtwrappers.evaluation.protocol import Protocol

TABLE = {"reach-v3": ["Reach it", "Go there, 到球那里"], "push-v3": "Push it"}
FROZEN = (("push-v3", ("Push it",)), ("reach-v3", ("Reach it", "Go there, 到球那里")))
MINE = dataclasses.replace(
    protocols["lerobot-0.6"].on("MT1", "reach-v3"),
    **{"name": "mine", "episodes_per_task": 6, "max_episode_steps": 2, "image_size": (8, 8)},
    descriptions=TABLE,
)


def still(observations):
    return np.zeros((len(observations["instruction"]), 4), np.float32)


# Protocols.


def test_a_protocol_holds_a_table_that_nobody_can_change():
    assert MINE.descriptions == FROZEN
    data = json.loads(json.dumps(MINE.to_dict()))
    assert data["descriptions"] == TABLE
    found = Protocol.from_dict(data)
    assert found == MINE
    assert hash(found) == hash(MINE)
    other_order = dict(reversed(TABLE.items()))
    assert dataclasses.replace(MINE, descriptions=other_order).digest == MINE.digest
    digests = {
        dataclasses.replace(MINE, descriptions=one).digest
        for one in ("metaworld", {**TABLE, "push-v3": "Push it."}, FROZEN[1:])
    }
    assert len(digests | {MINE.digest}) == 4
    assert FIELDS["  sentences of"](MINE) + FIELDS["    version"](MINE) == "own3"
    assert MINE.with_states().descriptions is None
    assert MINE.settings["descriptions"] == TABLE
    for name in ("lerobot-0.6", "rlinf"):
        assert protocols[name].descriptions == "lerobot-0.6.1"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("mine.json", "a protocol reads no file: .* got 'mine.json'"),
        ("lerobot", "descriptions must be 'metaworld', 'lerobot-0.6.1', .* got 'lerobot'"),
        (["reach-v3"], "must be a name or a table"),
        ([["reach-v3", ["a"]], ["reach-v3", ["b"]]], "descriptions of a protocol have a class twi"),
        ({"reach-v3": ["a\u202eb"]}, r"printable characters, got 'a\\u202eb'"),
        ({"nothing-v3": "a"}, "got one of 'nothing-v3'"),
        (3, "must be a name or a table, got 3"),
    ],
)
def test_tables_of_strangers_are_checked(table, message):
    data = {**MINE.to_dict(), "descriptions": table}
    del data["digest"]
    with pytest.raises(ValueError, match=message):
        Protocol.from_dict(data)


def test_a_table_is_for_frames_and_needs_each_class():
    with pytest.raises(ValueError, match="descriptions are for frames, got"):
        dataclasses.replace(MINE.with_states(), descriptions=TABLE)
    with pytest.raises(ValueError, match=r"each of the 1 classes, but lack \['reach-v3'\]"):
        dataclasses.replace(MINE, descriptions=FROZEN[:1]).make_vec(frames=True)


def test_the_table_is_fixed_and_the_instruction_free(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(TABLE))
    with closing(MINE.make_vec(descriptions=str(path), instruction=True)) as envs:
        assert set(envs.single_observation_space) == {"agent_pos", "instruction", "pixels"}
    with pytest.raises(ValueError, match=r"mine fixes descriptions=\{'push-v3': .* got 'metaworl"):
        MINE.make_vec(descriptions="metaworld")
    for protocol in (MINE.with_states(), protocols["metaworld-3.1"]):
        with pytest.raises(ValueError, match="fixes instruction=False, got True"):
            protocol.make_vec(instruction=True)
        assert "instruction" not in protocol.settings


# Results.


def test_a_result_names_the_paraphrase_of_each_episode_and_verify_compares_it(tmp_path):
    path = tmp_path / "r.json"
    with closing(MINE.make_vec(instruction=True)) as envs:
        result = MINE.evaluate(still, envs, evidence=tmp_path / "r.npz")
        read = envs.spec.kwargs["descriptions"]
    assert read == TABLE
    found = [one.paraphrase for one in result.episodes]
    assert found == [1, 0, 1, 1, 1, 0]
    result.save(path)
    assert EvaluationResult.load(path) == result
    checked = verify(path)
    assert checked.ok, str(checked)
    assert checked.rounding == 0.0
    # A replay of actions cannot say what the policy observed.
    verified, claimed = str(checked).split("\nnot replayed  ")
    for said in ('camera_name="corner4"', "height=8", "instruction=true", "descriptions={"):
        assert said in claimed
        assert said not in verified
    data = json.loads(path.read_text())
    data["episodes"][2]["paraphrase"] = 0
    path.write_text(json.dumps(data))
    checked = verify(path)
    assert not checked.ok
    assert "paraphrase" in checked.difference
    data["episodes"][2]["paraphrase"] = -1
    path.write_text(json.dumps(data))
    with pytest.raises(VerificationError, match="paraphrase of an episode must be of the type int"):
        verify(path)


def test_few_shot_trials_with_paraphrases_and_hidden_goals_are_verified(tmp_path):
    class Learner:
        def __call__(self, observations, descriptions):
            assert list(descriptions) == list(observations["instruction"])
            return still(observations)

        def adapt(self, paths):
            pass

    mine = dataclasses.replace(
        protocols["metaworld-3.1-ml"].on("ML1", "reach-v3"),
        **{"name": "mine", "episodes_per_task": 1, "max_episode_steps": 2, "trials": 4},
        **{"meta_batch_size": 1, "adaptation_episodes": 1, "adaptation_steps": 1},
        **{"observation": "pixels", "camera_name": "corner", "image_size": (8, 8)},
        descriptions=TABLE,
    )
    path = tmp_path / "r.json"
    with closing(mine.make_vec(instruction=True)) as envs:
        result = mine.evaluate(Learner(), envs, evidence=tmp_path / "r.npz")
    assert {one.paraphrase for one in result.episodes} == {0, 1}
    result.save(path)
    checked = verify(path)
    assert checked.ok, str(checked)
    true = path.read_text()
    data = json.loads(true)
    data["evaluation"]["episodes"][1]["paraphrase"] ^= 1
    path.write_text(json.dumps(data))
    assert "paraphrase is" in verify(path).difference
    data = json.loads(true)
    data["evaluation"]["provenance"]["spec"]["kwargs"]["descriptions"]["reach-v3"] = ["a", "b"]
    path.write_text(json.dumps(data))
    with pytest.raises(VerificationError, match="mine needs environments of its make_vec"):
        verify(path)


def test_states_with_paraphrases_are_verified_without_a_protocol(tmp_path):
    kwargs = {"train_classes": ["reach-v3", "push-v3"], "max_episode_steps": 2, "num_goals": 2}
    path = tmp_path / "r.json"
    with closing(
        gymnasium.make_vec("mtwrappers/CustomMT-v0", descriptions=TABLE, instruction=True, **kwargs)
    ) as envs:
        result = evaluate(still, envs, 3, evidence=tmp_path / "r.npz")
    assert [one.paraphrase is None for one in result.episodes] == [False] * 6
    result.save(path)
    assert verify(path).ok
    data = json.loads(path.read_text())
    data["provenance"]["spec"]["kwargs"]["descriptions"] = str(tmp_path / "secret.json")
    path.write_text(json.dumps(data))
    with pytest.raises(VerificationError, match=r"no file is read that it names: .*secret\.json"):
        verify(path)


def test_nothing_is_added_where_no_class_has_paraphrases():
    episode = Episode("a", 0, 1.0, 2)
    assert "paraphrase" not in episode.to_dict()
    assert "paraphrase" not in EvaluationResult([episode]).to_dict()["episodes"][0]
    assert Episode.from_dict({**episode.to_dict(), "paraphrase": 3}).to_dict()["paraphrase"] == 3
    with pytest.raises(ValueError, match="paraphrase of an episode must be"):
        Episode.from_dict({**episode.to_dict(), "paraphrase": "one"})


# Training and evaluation on the same environments.

TWENTY = {"reach-v3": [f"Reach {i}" for i in range(20)]}
REACH = {"env_name": "reach-v3", "descriptions": TWENTY, "max_episode_steps": 2, "num_goals": 2}
TWO = {"num_envs": 2, "envs_per_task": 2}


class Wrapped(VectorWrapper):
    """Environments whose autoreset an evaluation cannot switch off."""


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("wrap", [lambda envs: envs, Wrapped], ids=["bare", "wrapped"])
def test_training_draws_the_same_sentences_after_an_evaluation(mode, wrap):
    found = []
    for evaluates in (False, True):
        envs = wrap(gymnasium.make_vec("mtwrappers/MT1-v0", autoreset_mode=mode, **REACH, **TWO))
        with closing(envs):
            envs.reset(seed=5)
            if evaluates:
                evaluate(lambda obs: np.zeros((2, 4)), envs, 4)
            found.append([envs.reset()[1]["paraphrase"].tolist() for _ in range(3)])
    assert found == [[[3, 2], [6, 15], [3, 5]]] * 2


def test_training_that_nobody_seeded_draws_the_same_sentences_after_an_evaluation():
    found = []
    for evaluates in (False, True):
        with closing(gymnasium.make_vec("mtwrappers/MT1-v0", seed=1, **REACH, **TWO)) as envs:
            if evaluates:
                evaluate(lambda obs: np.zeros((2, 4)), envs, 2, seed=7)
            found.append([envs.reset()[1]["paraphrase"].tolist() for _ in range(3)])
    assert found == [[[15, 7], [12, 0], [15, 4]]] * 2


class Remembers:
    """A policy that could remember the episodes of a trial."""

    def begin_trial(self):
        pass

    def __call__(self, observations):
        return np.zeros((len(observations), 4), np.float32)


def test_sentences_of_few_shot_trials_follow_from_their_seed_and_leave_those_of_training():
    kwargs = {**REACH, **TWO, "sample_tasks_on_reset": False}
    sentences, later = [], []
    for before in (None, 5, 6):
        with closing(gymnasium.make_vec("mtwrappers/ML1-train-v0", **kwargs)) as envs:
            if before is not None:
                envs.reset(seed=before)
            result = few_shot_evaluate(
                Remembers(), envs, trials=2, adaptation_episodes=1, evaluation_episodes=1, seed=3
            )
            sentences.append([one.paraphrase for one in result.episodes])
            if before is not None:
                later.append(envs.reset()[1]["paraphrase"].tolist())
    assert sentences == [[9, 17, 18, 1, 18, 3, 14, 11]] * 3
    assert later == [[3, 2], [2, 17]]


def test_goals_of_tasks_that_are_given_follow_from_the_seed_and_leave_those_of_training():
    kwargs = {**REACH, **TWO, "sample_tasks_on_reset": False, "goals": "continuous"}
    del kwargs["num_goals"]
    returns, later = [], []
    for before, evaluates in ((5, True), (6, True), (5, False)):
        with closing(gymnasium.make_vec("mtwrappers/ML1-train-v0", **kwargs)) as envs:
            envs.reset(seed=before)
            if evaluates:
                result = few_shot_evaluate(Remembers(), envs, 2, 1, 1, tasks=[[0], [0]])
                returns.append([one.episode_return for one in result.episodes])
            envs.set_tasks([0])
            envs.reset()
            later.append([goal.tolist() for goal in envs.get_attr("goal")])
    assert returns[0] == returns[1]
    assert later[0] == later[2] != later[1]
