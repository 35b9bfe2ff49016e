"""Tasks in words: by the names of their classes, and as observations."""

import functools
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Text
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaSampler
from mtwrappers.adapters import check_vec_env
from mtwrappers.metaworld.text import DESCRIPTIONS
from mtwrappers.metaworld.upstream import all_classes
from tests.fakes import check_env_warnings
from tests.metaworld.fakes import PAIR, make, make_vec

TABLE = {"reach-v3": "Move to the bäll", "push-v3": "Push it"}
READS = {"train_classes": PAIR, "num_goals": 2, "descriptions": TABLE, "instruction": True}
VEC = {**READS, "max_episode_steps": 3}


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


def test_a_table_gives_each_class_its_sentence_and_is_in_the_spec():
    kwargs = {"train_classes": PAIR, "num_goals": 2, "descriptions": TABLE}
    env = make("CustomMT", **kwargs)
    with make_vec("CustomMT", **kwargs) as envs:
        for spec in (env.spec, envs.spec):
            assert spec.kwargs["descriptions"] == TABLE
        assert EnvSpec.from_json(env.spec.to_json()).kwargs == env.spec.kwargs
        assert envs.call("task_description") == tuple(TABLE.values())


def test_hidden_tasks_have_sentences_only_on_request():
    env = make("ML1-train", num_goals=1)
    message = r"pass descriptions='metaworld', 'lerobot-0\.6\.1' or"
    for name in ("task", "task_description"):
        with pytest.raises(AttributeError, match=message):
            getattr(env.unwrapped, name)
        assert not env.has_wrapper_attr(name)
    env = make("ML1-train", num_goals=1, descriptions="metaworld", instruction=True)
    assert env.get_wrapper_attr("task_description") == "Reach a goal position"
    assert env.reset(seed=0)[0]["instruction"] == "Reach a goal position"


# As observations.


def test_a_state_becomes_a_dict_with_the_sentence():
    env, plain = make("CustomMT", **READS), make("CustomMT", train_classes=PAIR, num_goals=2)
    space = env.observation_space
    assert set(space) == {"environment_state", "task_onehot", "instruction"}
    text = space["instruction"]
    assert isinstance(text, Text)
    assert (text.min_length, text.max_length) == (1, 16)
    assert all(sentence in text for sentence in TABLE.values())
    assert "Move, to" not in text
    assert check_env_warnings(env, skip_render_check=True) == []
    for seed in (0, 3):
        action = np.ones(4, np.float32)
        reset_obs = env.reset(seed=seed)[0], plain.reset(seed=seed)[0]
        step_obs = env.step(action)[0], plain.step(action)[0]
        for obs, plain_obs in (reset_obs, step_obs):
            assert obs in space
            assert [*obs["environment_state"], *obs["task_onehot"]] == plain_obs.tolist()
            assert obs["instruction"] == env.get_wrapper_attr("task_description")
    restored = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert restored.observation_space == space


@pytest.mark.parametrize(
    ("name", "look", "keys"),
    [
        ("CustomMT", {**READS, "observation": "pixels_agent_pos"}, "pixels agent_pos task_onehot"),
        ("MT1", {"observation": "pixels", "camera_name": ("corner4", "gripperPOV")}, "pixels"),
        ("CW10", {"task_embedding": np.eye(10)}, "environment_state task_embedding task_onehot"),
        ("MT1", {}, "environment_state"),
    ],
)
@pytest.mark.usefixtures("opengl")
def test_what_else_is_observed_gets_the_sentence_beside_it(name, look, keys):
    sees = {"width": 16, "height": 16, "shadows": False, "instruction": True}
    with closing(make(name, **{**sees, **look})) as env:
        obs, _ = env.reset(seed=0)
        assert set(obs) == {*keys.split(), "instruction"}
        assert obs in env.observation_space


def test_gymnasiums_shared_memory_refuses_it():
    with pytest.raises(ValueError, match="disable this feature with `shared_memory=False`"):
        gymnasium.make_vec("mtwrappers/CustomMT-v0", 2, **VEC, vectorization_mode="async")


@pytest.mark.parametrize(
    "library", ["Stable-Baselines3", "TorchRL", "Tianshou", "skrl", "PufferLib"]
)
def test_libraries_of_tensors_refuse_it_by_name(library):
    message = rf"^{library} takes no .* Text space, got .*: make .* without instr"
    with make_vec("CustomMT", **VEC) as envs, pytest.raises(ValueError, match=message):
        check_vec_env(envs, library, AutoresetMode.SAME_STEP)


class Reads:
    """A policy that requires sentences in arrays."""

    def get_actions(self, observations):
        sentences = observations["instruction"]
        assert sentences.dtype == object
        assert sentences.shape == observations["task_onehot"].shape[:2]
        return np.zeros((*sentences.shape, 4)), [{} for _ in sentences]


@pytest.mark.parametrize("policy_in", ["parent", "workers"])
def test_policies_and_trajectories_have_arrays_of_sentences(policy_in):
    make_env = functools.partial(make, "CustomMT", **VEC)
    with closing(MetaSampler(make_env, Reads(), 2, 2, 3, seed=1, policy_in=policy_in)) as sampler:
        sampler.update_tasks([0, 1])
        paths = [
            path for trajectories in sampler.obtain_samples().values() for path in trajectories
        ]
    for path in paths:
        sentences = path["observations"]["instruction"]
        assert (sentences.shape, sentences.dtype) == ((3,), object)
        assert set(sentences) == {path["next_observation"]["instruction"]}
        assert sentences[0] == TABLE[path["env_infos"]["task_name"][0]]
